//! Agents in network namespaces, a server in another: they are to each other what several machines are, as
//! far as one machine can show it.

use crate::rig::{Fleet, PATIENCE, program, until_together};
use crate::sums::{of_agents, whole_is_sum};
use crate::support::{skipped, wait_until};
use crate::target::write_tree;
use rustix::process::{Signal, geteuid, kill_process};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Networks of tests that run at the same time.
const FOUR: u8 = 171;
const CUT: u8 = 172;
const AGREE: u8 = 173;
// Slurm's test has 174.
const LEFT: u8 = 175;

/// A fleet with a server, both in namespaces that its bench makes. `None` where that is not allowed.
pub(crate) fn local_fleet(network: u8, agents: &[&str]) -> Option<Fleet> {
    let has_ip =
        Command::new("ip").args(["netns", "list"]).output().is_ok_and(|output| output.status.success());
    if !geteuid().is_root() || !has_ip {
        skipped("a fleet in network namespaces (needs root, and iproute2)");
        return None;
    }
    // Removes what a killed test has left.
    let _ = Command::new("ip").args(["link", "delete", &format!("tsf{network}")]).output();
    for member in agents.iter().chain(&["server"]) {
        let _ = Command::new("ip").args(["netns", "delete", &format!("ts-lab{network}-{member}")]).output();
    }
    let host = format!("10.213.{network}.1");
    let server = format!("10.213.{network}.2");
    let launch = ["--launch", "local", "--allow", &server];
    let fleet = Fleet::made(&format!("lab{network}"), &host, agents, &launch)?;
    let root = fleet.path("www");
    write_tree(&root);
    let words = [program().to_str()?, "serve", "--root", root.to_str()?, "--listen", &format!("{server}:80")];
    let words = words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", ");
    fleet.change_file(|text| {
        text.replace(
            "by = \"local\"",
            &format!("by = \"local\"\nnetwork = {network}\nserver = [{words}, \"--access-log\", \"off\"]"),
        )
    });
    Some(fleet)
}

fn bench_words(network: u8, length: &str) -> Vec<String> {
    let url = format!("http://10.213.{network}.2/");
    let words =
        ["--sut", &url, "--clients", "8", "--length", length, "--ramp-up", "500ms", "--ramp-down", "500ms"];
    words.iter().map(ToString::to_string).collect()
}

fn as_words(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

#[test]
fn four_agents_in_namespaces_drive_a_server_in_a_fifth_with_one_command() {
    let Some(fleet) = local_fleet(FOUR, &["a", "b", "c", "d"]) else { return };
    let ended = until_together(|| fleet.bench(&as_words(&bench_words(FOUR, "3s"))).wait());
    assert_eq!(ended.code, Some(0), "{} {}", ended.error, ended.incomplete());
    let mix = ended.mix();
    whole_is_sum(mix);
    assert_eq!(of_agents(mix, "clients"), [2.0; 4]);
    assert_eq!(mix["client_rows"].as_array().map(Vec::len), Some(8));
    // The measured spread, and the rule's verdict on it.
    let spread_us = mix["fleet"]["start_spread_us"].as_f64().expect("a spread");
    let warnings = ended.result.as_ref().map(|result| result["warnings"].to_string()).unwrap_or_default();
    assert_eq!(warnings.contains("ms apart"), spread_us > 5_000.0, "{spread_us} us: {warnings}");
    println!("the agents' engine threads began within {spread_us:.0} us");
}

#[test]
fn an_agent_whose_link_is_cut_is_lost() {
    cut_link();
}

pub(crate) fn cut_link() {
    let Some(fleet) = local_fleet(CUT, &["a", "b"]) else { return };
    let mut bench = fleet.bench(&as_words(&bench_words(CUT, "60s")));
    bench.wait_until_loaded(&fleet, &["a", "b"]);
    let cut = Command::new("ip").args(["link", "set", &format!("tsf{CUT}-12"), "down"]).status();
    assert!(cut.is_ok_and(|status| status.success()));
    let ended = bench.wait();
    assert_eq!(ended.code, Some(1), "{}", ended.error);
    assert!(ended.incomplete().contains("agent b was lost at "), "{}", ended.incomplete());
}

#[test]
fn results_that_the_broker_does_not_have_stay_on_an_agent_s_disk_and_are_named() {
    let Some(mut fleet) = local_fleet(LEFT, &["a"]) else { return };
    fleet.start_broker();
    let place = fleet.path("temporary");
    std::fs::create_dir(&place).expect("a directory");
    let variables = [("TMPDIR", place.to_str().expect("text"))];
    let mut bench = fleet.bench_in(&variables, &as_words(&bench_words(LEFT, "60s")));
    bench.wait_until_loaded(&fleet, &["a"]);
    assert_eq!(fleet.stop_broker(), Some(0));
    let stopped = "no message of the controller arrived for 3 s";
    wait_until("the agent stops", PATIENCE, || fleet.launched_text("a").contains(stopped));
    // The end of the run must not wait for the broker.
    kill_process(bench.process(), Signal::INT).expect("it is interrupted");
    let ended = bench.wait();
    assert!(
        ended.error.contains("agent a sends no messages: the connection to the broker is lost"),
        "{}",
        ended.error
    );
    let directories: Vec<_> = std::fs::read_dir(&place).expect("a directory").flatten().collect();
    let [directory] = &directories[..] else { panic!("{directories:?}") };
    let told = format!(
        "touchstone bench: agent a: results that the broker does not have are left in {}",
        directory.path().display()
    );
    assert!(ended.error.contains(&told), "{told} in {}", ended.error);
    assert_eq!(directory.metadata().expect("a directory").permissions().mode() & 0o777, 0o700);
    assert!(std::fs::read_dir(directory.path()).expect("a directory").count() > 0);
}

#[test]
fn one_machine_and_a_fleet_agree_on_a_plan() {
    let Some(fleet) = local_fleet(AGREE, &["a", "b"]) else { return };
    let words = bench_words(AGREE, "4s");
    let (_server, url) = crate::target::serve_tree(&fleet.path("www"));
    let alone: Vec<&str> =
        words.iter().map(|word| if word.starts_with("http") { url.as_str() } else { word }).collect();
    // Other load of the machine is noise, and may be large; a fleet that counts wrongly never agrees.
    let mut pairs = Vec::new();
    while pairs.len() < 6 {
        let of_fleet = until_together(|| fleet.bench_to("of-fleet", &as_words(&words)).wait());
        assert_eq!(of_fleet.code, Some(0), "{} {}", of_fleet.error, of_fleet.incomplete());
        let of_one = fleet.bench_alone("of-one", &alone).wait();
        assert_eq!(of_one.code, Some(0), "{}", of_one.error);
        let pair = [of_fleet, of_one].map(|ended| figures(ended.mix()));
        // Eight clients with a think time of 20 ms make at most 400 requests per second, wherever they are.
        assert!(pair.iter().all(|(rate, _)| *rate <= 404.0), "{pair:?}");
        let is_near = |fleet: f64, one: f64| (fleet / one - 1.0).abs() < 0.15;
        // The same seeds draw the same files.
        if is_near(pair[0].0, pair[1].0) && is_near(pair[0].1, pair[1].1) {
            return;
        }
        pairs.push(pair);
    }
    panic!("a fleet and one machine never agreed: {pairs:?}");
}

/// Requests a second of a mix, and the mean length of an answer's body.
fn figures(mix: &Value) -> (f64, f64) {
    let figure = |name: &str| mix[name].as_f64().unwrap_or_else(|| panic!("{name} in {mix:#}"));
    (figure("requests_per_second"), figure("mean_body_bytes"))
}
