//! `touchstone load --fleet`, and thresholds that end what a fleet does.

use crate::rig::{Fleet, program};
use crate::support::skipped;
use crate::target::Target;
use serde_json::Value;
use std::process::{Command, Output};

fn load(fleet: &Fleet, target: &Target, more: &[&str]) -> Output {
    let mut command = Command::new(program());
    command
        .arg("load")
        .arg(target.url() + "CLASS_128K/0.html")
        .args(["--fleet-wait", "120s", "--clients", "6"])
        .args(more);
    command.arg("--fleet").arg(fleet.directory()).output().expect("it runs")
}

fn two_agents() -> Option<Fleet> {
    let mut fleet = Fleet::new(&["load-1", "load-2"])?;
    ["load-1", "load-2"].iter().for_each(|agent| fleet.start_agent(agent, &[]));
    Some(fleet)
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// If a busy machine's threads did not begin together, the run reports it, and is repeated.
fn until_together(mut load: impl FnMut() -> Output) -> Output {
    let mut output = load();
    for _ in 0..4 {
        if !words(&output).contains("ms apart: at most") {
            break;
        }
        output = load();
    }
    output
}

#[test]
fn a_fleet_makes_the_load_of_one_command() {
    let Some(fleet) = two_agents() else { return };
    let target = Target::start();
    let mut before = 0;
    let output = until_together(|| {
        // Its log is written in pieces.
        target.time_until_quiet();
        before = target.answered();
        load(&fleet, &target, &["--requests", "300", "--json", "--fail-if", "errors>0"])
    });
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (&value["requests"], &value["errors"], &value["invalid"]),
        (&300.into(), &0.into(), &Value::Null)
    );
    let agents = value["fleet"]["agents"].as_array().expect("agents");
    assert_eq!(agents.len(), 2);
    let sum = |figure: &str| agents.iter().filter_map(|agent| agent[figure].as_u64()).sum::<u64>();
    assert_eq!((sum("clients"), sum("total_requests")), (6, 300));
    assert_eq!(value["thresholds"][0]["kept"], true, "{}", value["thresholds"]);
    // An agent checks whether the target accepts connections, and sends no requests.
    target.time_until_quiet();
    assert_eq!(target.answered() - before, 300);

    let text = until_together(|| load(&fleet, &target, &["--requests", "60", "--fail-if", "requests<1000"]));
    assert_eq!(text.status.code(), Some(3), "{}", words(&text));
    for line in ["load-1", "load-2", "busiest", "threshold missed: requests<1000: 60"] {
        assert!(words(&text).contains(line), "{line} in {}", words(&text));
    }
}

#[test]
fn a_threshold_ends_the_load_of_all_agents() {
    let Some(fleet) = two_agents() else { return };
    let target = Target::start();
    let more = ["--duration", "10m", "--think-time", "20ms", "--abort-if", "requests>100"];
    let output = until_together(|| load(&fleet, &target, &more));
    assert_eq!(output.status.code(), Some(3), "{}", words(&output));
    assert!(words(&output).contains("the run was ended by --abort-if requests>100: "), "{}", words(&output));
    // With the URL of one class, and in a bench.
    let url = target.url();
    let more =
        ["--sut", &url, "--clients", "4", "--length", "10m", "--ramp-up", "100ms", "--ramp-down", "100ms"];
    let bench = fleet.bench(&[&more[..], &["--abort-if", "errors>=0%", "--abort-if", "p50>1us"]].concat());
    let ended = bench.wait();
    assert_eq!(ended.code, Some(3), "{} {}", ended.error, ended.incomplete());
    assert!(ended.incomplete().contains("was ended by --abort-if errors>=0%"), "{}", ended.incomplete());
    let thresholds = ended.mix()["thresholds"].as_array().expect("thresholds").clone();
    assert_eq!(thresholds.len(), 2, "{thresholds:?}");
}

#[test]
fn the_broker_that_fleet_toml_names_is_taken_and_named() {
    let Some(mut fleet) = Fleet::made("lab", "127.0.0.1", &["load-1"], &[]) else { return };
    let Some(broker) = touchstone_fleet::Broker::program() else {
        return skipped("the named broker (install nats-server)");
    };
    let named = fleet.path("my-nats");
    std::os::unix::fs::symlink(broker, &named).expect("a link");
    fleet.change_file(|text| format!("broker = \"{}\"\n{text}", named.display()));
    fleet.start_broker();
    let said = std::fs::read_to_string(fleet.path("broker.log")).expect("the supervisor's words");
    assert!(
        said.contains("my-nats) runs as process") || said.contains("my-nats), runs as process"),
        "{said}"
    );
    fleet.stop_broker();
    fleet.change_file(|text| text.replace("my-nats", "no-nats"));
    let refused = Command::new(program()).args(["fleet", "broker"]).arg(fleet.directory()).output();
    let refused = refused.expect("it runs");
    assert_eq!(refused.status.code(), Some(2));
    assert!(words(&refused).contains("there is no such program"), "{}", words(&refused));
}
