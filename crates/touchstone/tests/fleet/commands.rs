//! What `touchstone fleet` reports of present agents, and its orders to them; and an agent that only
//! monitors.

use crate::rig::{Fleet, PATIENCE, program, until_together};
use crate::sums::{of_agents, whole_is_sum};
use crate::support::wait_until;
use serde_json::Value;
use std::process::{Command, Output};

fn ask(fleet: &Fleet, command: &str, more: &[&str]) -> Output {
    let mut asked = Command::new(program());
    asked.args(["fleet", command]).arg(fleet.directory()).args(more);
    asked.output().expect("it runs")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_fleet_tells_how_it_is_watches_a_machine_and_is_drained() {
    let Some(mut fleet) = Fleet::made("lab", "127.0.0.1", &["load-1"], &["--probes", "watch"]) else {
        return;
    };
    fleet.start_broker();
    fleet.start_agent("load-1", &[]);
    let missing = ask(&fleet, "status", &["--time", "500ms"]);
    assert_eq!(missing.status.code(), Some(1), "{}", text(&missing));
    fleet.start_agent("watch", &["--role", "probe"]);
    wait_until("both are there", PATIENCE, || ask(&fleet, "status", &[]).status.success());
    let status: Value = serde_json::from_slice(&ask(&fleet, "status", &["--json"]).stdout).expect("JSON");
    assert_eq!(status["agents"][0]["name"], "load-1");
    assert_eq!(status["agents"][0]["state"], "idle");
    assert!(status["agents"][0]["clock"]["bound_ns"].is_u64(), "{status:#}");
    assert_eq!(status["agents"][1]["role"], "probe");
    let versions = text(&ask(&fleet, "versions", &[]));
    assert!(versions.contains("load-1") && versions.contains(env!("CARGO_PKG_VERSION")), "{versions}");
    let more =
        ["--sut", "limit", "--clients", "2", "--length", "3s", "--ramp-up", "500ms", "--ramp-down", "500ms"];
    let ended = until_together(|| fleet.bench(&more).wait());
    assert_eq!(ended.code, Some(0), "{} {}", ended.error, ended.incomplete());
    whole_is_sum(ended.mix());
    assert_eq!(of_agents(ended.mix(), "clients"), [2.0], "a probe sends nothing");
    assert!(ended.mix()["machine"].is_object(), "{:#}", ended.mix());
    let logs = ask(&fleet, "logs", &["load-1"]);
    assert_eq!(logs.status.code(), Some(0), "{}", text(&logs));
    for words in ["load-1: ", " UTC mix 0 of the run ", " begins: 2 clients on ", " has ended: "] {
        assert!(text(&logs).contains(words), "{words:?} in {}", text(&logs));
    }
    assert_eq!(ask(&fleet, "logs", &["nobody"]).status.code(), Some(2));
    // A busy agent finishes its work, and reports this state until then.
    let long =
        ["--sut", "limit", "--clients", "2", "--length", "20s", "--ramp-up", "0s", "--ramp-down", "0s"];
    let mut bench = fleet.bench(&long);
    bench.wait_until_loaded(&fleet, &["load-1"]);
    let drained = ask(&fleet, "drain", &["load-1"]);
    assert_eq!(drained.status.code(), Some(0), "{}", text(&drained));
    assert!(text(&drained).contains("running, draining"), "{}", text(&drained));
    let ended = bench.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.error);
    assert_eq!(fleet.wait_for_agent("load-1"), Some(0));
}
