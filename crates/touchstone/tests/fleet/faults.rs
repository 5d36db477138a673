//! Something fails in mid-mix: the verdict is right, no load outlives its lease, and no result is counted twice or lost.

use crate::rig::{Bench, Ended, Fleet, PATIENCE};
use crate::sums::{of_agents, whole_is_sum};
use crate::support::wait_until;
use crate::target::Target;
use rustix::process::{Signal, kill_process};
use std::time::Duration;

/// An agent stops sending at the latest: its lease, the distance between two words of the controller, and a second.
const STOPPED_AFTER: Duration = Duration::from_millis(3000 + 500 + 1000);
/// What a busy machine adds to it: the log is written in pieces, and this test's own eyes are late.
const MACHINE: Duration = Duration::from_secs(2);

/// Two agents, a server, and a mix that is long enough for something to happen.
struct Scene {
    fleet: Fleet,
    target: Target,
}

impl Scene {
    fn new() -> Option<Scene> {
        let mut fleet = Fleet::new(&["load-1", "load-2"])?;
        fleet.start_agent("load-1", &[]);
        fleet.start_agent("load-2", &[]);
        Some(Scene { fleet, target: Target::start() })
    }

    /// A bench whose first mix runs.
    fn bench(&self, length: &str, more: &[&str]) -> Bench {
        let url = self.target.url();
        let fixed = ["--sut", &url, "--length", length, "--ramp-up", "500ms", "--ramp-down", "0s"];
        let clients = if more.contains(&"--clients") { &[][..] } else { &["--clients", "4"][..] };
        let bench = self.fleet.bench(&[&fixed[..], clients, more].concat());
        wait_until("the mix runs", PATIENCE, || self.target.is_loaded());
        // The check of the server's files has requests of its own.
        std::thread::sleep(Duration::from_secs(2));
        wait_until("the mix runs", PATIENCE, || self.target.is_loaded());
        bench
    }
}

fn assert_lost(ended: &Ended, agent: &str) {
    assert_eq!(ended.code, Some(1), "{}", ended.error);
    let words = format!("agent {agent} was lost at ");
    assert!(ended.incomplete().contains(&words), "{}", ended.incomplete());
    assert_eq!(ended.mix()["complete"], false);
}

#[test]
#[ignore = "needs a nats-server, and some its own network: with --ignored"]
fn a_killed_agent_makes_the_run_invalid_and_ends_it() {
    let Some(scene) = Scene::new() else { return };
    killed_agent(&scene);
}

fn killed_agent(scene: &Scene) {
    let bench = scene.bench("60s", &[]);
    scene.fleet.signal_agent("load-2", Signal::KILL);
    let ended = bench.wait();
    assert_lost(&ended, "load-2");
    // The other one was told to stop.
    assert!(scene.target.time_until_quiet() < MACHINE);
}

#[test]
#[ignore = "needs a nats-server, and some its own network: with --ignored"]
fn an_exploratory_run_goes_on_without_a_killed_agent() {
    let Some(scene) = Scene::new() else { return };
    let bench = scene.bench("10s", &["--exploratory"]);
    scene.fleet.signal_agent("load-2", Signal::KILL);
    let ended = bench.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.error);
    let mix = ended.mix();
    let agents = mix["fleet"]["agents"].as_array().expect("agents");
    assert!(
        agents[0]["lost_at_s"].is_null() && agents[1]["lost_at_s"].as_f64().is_some_and(|at_s| at_s > 0.0)
    );
    assert_eq!(agents[0]["requests"], mix["requests"]);
    let warnings = ended.result.as_ref().map(|result| result["warnings"].to_string()).unwrap_or_default();
    assert!(
        warnings.contains("load-2 was lost at") && warnings.contains("1 of 2 agents went on"),
        "{warnings}"
    );
}

#[test]
#[ignore = "needs a nats-server, and some its own network: with --ignored"]
fn an_agent_that_stood_still_is_lost_and_stops_by_itself() {
    let Some(scene) = Scene::new() else { return };
    stopped_agent(&scene);
}

fn stopped_agent(scene: &Scene) {
    let bench = scene.bench("60s", &[]);
    scene.fleet.signal_agent("load-1", Signal::STOP);
    let ended = bench.wait();
    assert_lost(&ended, "load-1");
    std::thread::sleep(Duration::from_secs(4));
    scene.fleet.signal_agent("load-1", Signal::CONT);
    assert!(scene.target.time_until_quiet() < MACHINE);
    wait_until("the agent notices", PATIENCE, || scene.fleet.agent_text("load-1").contains("mix 0: "));
}

#[test]
#[ignore = "needs a nats-server, and some its own network: with --ignored"]
fn a_broker_that_is_killed_and_back_in_time_costs_nothing() {
    let Some(scene) = Scene::new() else { return };
    killed_broker(&scene);
}

fn killed_broker(scene: &Scene) {
    let bench = scene.bench("10s", &[]);
    kill_process(scene.fleet.broker_process(), Signal::KILL).expect("it is killed");
    let ended = bench.wait();
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.error, ended.incomplete());
    whole_is_sum(ended.mix());
}

#[test]
#[ignore = "needs a nats-server, and some its own network: with --ignored"]
fn agents_stop_when_their_controller_is_killed_and_serve_the_next() {
    let Some(scene) = Scene::new() else { return };
    killed_controller(&scene);
}

fn killed_controller(scene: &Scene) {
    let bench = scene.bench("60s", &[]);
    kill_process(bench.process(), Signal::KILL).expect("it is killed");
    let quiet_after = scene.target.time_until_quiet();
    assert!(quiet_after < STOPPED_AFTER + MACHINE, "requests came for {quiet_after:?}");
    drop(bench);
    let text = scene.fleet.agent_text("load-1");
    assert!(text.contains("nothing was heard from the controller for 3 s"), "{text}");
    // What they measured for it is in nobody else's result.
    let ended = scene.bench("4s", &[]).wait();
    assert_eq!(ended.code, Some(0), "{}", ended.error);
    whole_is_sum(ended.mix());
    assert!(of_agents(ended.mix(), "total_requests").iter().all(|requests| *requests > 0.0));
}

#[test]
#[ignore = "takes half an hour: every fault twenty times"]
fn every_fault_twenty_times() {
    for round in 0..20 {
        for (name, fault) in [
            ("a killed agent", killed_agent as fn(&Scene)),
            ("a stopped agent", stopped_agent),
            ("a killed broker", killed_broker),
            ("a killed controller", killed_controller),
        ] {
            let Some(scene) = Scene::new() else { return };
            fault(&scene);
            println!("round {round}: {name}: as it should be");
        }
    }
}
