//! Faults in the middle of a mix: the verdict is right, no load outlives its lease, and no result is counted
//! twice or lost.

use crate::namespaces::cut_link;
use crate::rig::{Bench, Ended, Fleet, PATIENCE, until_together};
use crate::sums::{of_agents, whole_is_sum};
use crate::support::wait_until;
use crate::target::Target;
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use std::time::Duration;

/// An agent stops sending after this time at the latest: its lease, the interval between two messages of the
/// controller, and a second.
const STOPPED_AFTER: Duration = Duration::from_millis(3000 + 500 + 1000);
/// A broker that all members reach again within this time is back in time. Its start and three connections
/// with TLS take longer on a machine that is busy, and then the lease is over by right.
const BACK_IN_TIME_S: f64 = 1.5;
/// What a busy machine adds: the log is written in pieces, and this test itself reads late. The mixes are
/// much longer.
const MACHINE: Duration = Duration::from_secs(10);

/// The length of a mix that runs to its end: on a busy machine it takes many seconds until it is seen to run.
const SEEN: &str = "40s";

/// What a test measured of a fault whose verdict was right.
#[derive(Default)]
struct Seen {
    /// How long requests still arrived: from the moment at which no agent could receive messages of its
    /// controller, or at which an agent that was suspended for longer than its lease continued.
    sent_for: Option<Duration>,
    /// Requests in the merged result beyond those that the agents state; negative if there are fewer.
    surplus: i64,
    /// Requests that the server answered and that are in no result.
    unaccounted: Option<i64>,
}

/// The agents of a scene.
const AGENTS: [&str; 2] = ["load-1", "load-2"];

/// Two agents, a server, and a mix that is long enough for a fault.
struct Scene {
    fleet: Fleet,
    target: Target,
}

impl Scene {
    fn new() -> Option<Scene> {
        let mut fleet = Fleet::new(&AGENTS)?;
        AGENTS.iter().for_each(|name| fleet.start_agent(name, &[]));
        Some(Scene { fleet, target: Target::start() })
    }

    /// Starts a bench and waits until its first mix runs.
    fn bench(&self, length: &str, more: &[&str]) -> Bench {
        let mut bench = self.begin(length, more);
        bench.wait_until_loaded(&self.fleet, &AGENTS);
        bench
    }

    /// Starts a bench.
    fn begin(&self, length: &str, more: &[&str]) -> Bench {
        let url = self.target.url();
        let fixed = ["--sut", &url, "--length", length, "--ramp-up", "500ms", "--ramp-down", "0s"];
        let clients = if more.contains(&"--clients") { &[][..] } else { &["--clients", "4"][..] };
        self.fleet.bench(&[&fixed[..], clients, more].concat())
    }
}

fn assert_lost(ended: &Ended, agent: &str) {
    assert_eq!(ended.code, Some(1), "{}", ended.error);
    let words = format!("agent {agent} was lost at ");
    assert!(ended.incomplete().contains(&words), "{}", ended.incomplete());
    assert_eq!(ended.mix()["complete"], false);
}

#[test]
fn a_killed_agent_makes_the_run_invalid_and_ends_it() {
    let Some(scene) = Scene::new() else { return };
    killed_agent(&scene);
}

fn killed_agent(scene: &Scene) -> Seen {
    let bench = scene.bench("60s", &[]);
    scene.fleet.signal_agent("load-2", Signal::KILL);
    let ended = bench.wait();
    assert_lost(&ended, "load-2");
    // The other agent got the order to stop.
    assert!(scene.target.time_until_quiet() < MACHINE);
    Seen { surplus: surplus(ended.mix()), ..Seen::default() }
}

#[test]
fn an_exploratory_run_goes_on_without_a_killed_agent() {
    let Some(mut scene) = Scene::new() else { return };
    let ended = until_together(|| {
        let bench = scene.bench(SEEN, &["--exploratory"]);
        scene.fleet.signal_agent("load-2", Signal::KILL);
        let ended = bench.wait();
        scene.fleet.wait_for_agent("load-2");
        scene.fleet.start_agent("load-2", &[]);
        ended
    });
    assert_eq!(ended.code, Some(0), "{} {}", ended.error, ended.incomplete());
    let mix = ended.mix();
    let agents = mix["fleet"]["agents"].as_array().expect("agents");
    let lost_at_s = |place: usize| agents[place]["lost_at_s"].as_f64();
    assert!(lost_at_s(0).is_none() && lost_at_s(1).is_some_and(|at_s| at_s > 0.0), "{mix:#}");
    assert_eq!(agents[0]["requests"], mix["requests"]);
    let warnings = ended.result.as_ref().map(|result| result["warnings"].to_string()).unwrap_or_default();
    assert!(
        warnings.contains("load-2 was lost at") && warnings.contains("1 of 2 agents continued"),
        "{warnings}"
    );
}

#[test]
fn an_agent_that_stood_still_is_lost_and_stops_by_itself() {
    let Some(scene) = Scene::new() else { return };
    stopped_agent(&scene);
}

fn stopped_agent(scene: &Scene) -> Seen {
    let bench = scene.bench("60s", &[]);
    scene.fleet.signal_agent("load-1", Signal::STOP);
    let ended = bench.wait();
    assert_lost(&ended, "load-1");
    std::thread::sleep(Duration::from_secs(4));
    scene.fleet.signal_agent("load-1", Signal::CONT);
    let sent_for = scene.target.time_until_quiet();
    assert!(sent_for < MACHINE);
    wait_until("the agent notices", PATIENCE, || scene.fleet.agent_text("load-1").contains("mix 0: "));
    Seen { sent_for: Some(sent_for), surplus: surplus(ended.mix()), ..Seen::default() }
}

#[test]
fn a_broker_that_is_killed_and_back_in_time_costs_nothing() {
    let Some(scene) = Scene::new() else { return };
    killed_broker(&scene);
}

fn killed_broker(scene: &Scene) -> Seen {
    let (mut answered, mut late) = (0, Vec::new());
    let ended = loop {
        let heard = AGENTS.map(|name| scene.fleet.agent_text(name).len());
        let ended = until_together(|| {
            answered = scene.target.answered();
            let bench = scene.bench(SEEN, &[]);
            kill_process(scene.fleet.broker_process(), Signal::KILL).expect("it is killed");
            bench.wait()
        });
        if ended.code == Some(0) || were_back_in_time(scene, heard, &ended) {
            break ended;
        }
        late.push(ended.incomplete().to_string());
        assert!(late.len() < 5, "the broker never came back in time: {late:?}");
    };
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.error, ended.incomplete());
    whole_is_sum(ended.mix());
    scene.target.time_until_quiet();
    let counted = ended.mix()["total_requests"].as_i64().expect("a count");
    let unaccounted = Some(scene.target.answered() as i64 - answered as i64 - counted);
    Seen { surplus: surplus(ended.mix()), unaccounted, ..Seen::default() }
}

/// Whether both agents and the controller reached the broker again in time. Each agent's log states this
/// after its first `heard` bytes, and the bench for its controller.
fn were_back_in_time(scene: &Scene, heard: [usize; 2], ended: &Ended) -> bool {
    let seconds =
        |text: &str, words: &str| text.rsplit_once(words)?.1.split_once(" s")?.0.parse::<f64>().ok();
    AGENTS.iter().zip(heard).all(|(name, heard)| {
        let agent = seconds(&scene.fleet.agent_text(name)[heard..], "the broker is back after ");
        let controller = seconds(&ended.error, &format!("agent {name} sends messages again after "));
        [agent, controller].iter().all(|absence| absence.is_some_and(|seconds| seconds < BACK_IN_TIME_S))
    })
}

#[test]
fn agents_stop_when_their_controller_is_killed_and_serve_the_next() {
    let Some(scene) = Scene::new() else { return };
    killed_controller(&scene);
}

fn killed_controller(scene: &Scene) -> Seen {
    let bench = scene.bench("60s", &[]);
    kill_process(bench.process(), Signal::KILL).expect("it is killed");
    let quiet_after = scene.target.time_until_quiet();
    assert!(quiet_after < STOPPED_AFTER + MACHINE, "requests came for {quiet_after:?}");
    drop(bench);
    let stopped = "no message of the controller arrived for 3 s";
    wait_until("the agent says why", PATIENCE, || scene.fleet.agent_text("load-1").contains(stopped));
    // What the agents measured for the killed controller is in no other result.
    let ended = until_together(|| scene.begin("4s", &[]).wait());
    assert_eq!(ended.code, Some(0), "{} {}", ended.error, ended.incomplete());
    whole_is_sum(ended.mix());
    assert!(of_agents(ended.mix(), "total_requests").iter().all(|requests| *requests > 0.0));
    Seen { sent_for: Some(quiet_after), surplus: surplus(ended.mix()), ..Seen::default() }
}

/// How many more requests a mix has than the agents state that delivered a result.
fn surplus(mix: &Value) -> i64 {
    let agents = mix["fleet"]["agents"].as_array().expect("agents");
    let of_agents: i64 = agents.iter().filter_map(|agent| agent["total_requests"].as_i64()).sum();
    mix["total_requests"].as_i64().expect("a count") - of_agents
}

/// The outcome of a fault over all rounds.
#[derive(Default)]
struct Tally {
    right: usize,
    longest_sent_for: Option<Duration>,
    surplus: i64,
    unaccounted: Vec<i64>,
}

#[test]
#[ignore = "takes half an hour: every fault twenty times"]
fn every_fault_twenty_times() {
    let rounds: usize =
        std::env::var("ROUNDS").map_or(20, |count| count.parse().expect("ROUNDS is a number"));
    let on_scene = |fault: fn(&Scene) -> Seen| move || Scene::new().as_ref().map(fault).unwrap_or_default();
    let cut = || {
        cut_link();
        Seen::default()
    };
    let faults: [(&str, &dyn Fn() -> Seen); 5] = [
        ("a killed agent", &on_scene(killed_agent)),
        ("a stopped agent", &on_scene(stopped_agent)),
        ("an agent whose link is cut", &cut),
        ("a killed broker", &on_scene(killed_broker)),
        ("a killed controller", &on_scene(killed_controller)),
    ];
    let mut tallies: [Tally; 5] = Default::default();
    for round in 1..=rounds {
        for ((name, fault), tally) in faults.iter().zip(&mut tallies) {
            match std::panic::catch_unwind(std::panic::AssertUnwindSafe(fault)) {
                Ok(seen) => {
                    tally.right += 1;
                    tally.longest_sent_for = tally.longest_sent_for.max(seen.sent_for);
                    tally.surplus += seen.surplus.abs();
                    tally.unaccounted.extend(seen.unaccounted);
                    println!("round {round}: {name}: as it should be");
                }
                Err(_) => println!("round {round}: {name}: WRONG"),
            }
        }
    }
    for ((name, _), tally) in faults.iter().zip(&tallies) {
        let Tally { right, longest_sent_for, surplus, unaccounted } = tally;
        println!(
            "{name}: right {right} of {rounds}; requests still came for {longest_sent_for:?} at most; \
             {surplus} requests too many or too few in sums; answered and not counted: {unaccounted:?}"
        );
    }
    assert!(tallies.iter().all(|tally| tally.right == rounds && tally.surplus == 0));
}
