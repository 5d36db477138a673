//! Agents in network namespaces of their own, a server in another: what several machines are to each other, as far as one
//! machine can show it.

use crate::rig::{Fleet, PATIENCE, program};
use crate::sums::{of_agents, whole_is_sum};
use crate::support::{skipped, wait_until};
use crate::target::write_tree;
use rustix::process::geteuid;
use serde_json::Value;
use std::fs;
use std::process::Command;
use std::time::Duration;

/// Networks of tests that run at the same time.
const FOUR: u8 = 171;
const CUT: u8 = 172;
const AGREE: u8 = 173;

/// A fleet with a server, both in namespaces that its bench makes. `None` where that is not allowed.
pub(crate) fn local_fleet(network: u8, agents: &[&str]) -> Option<Fleet> {
    let has_ip =
        Command::new("ip").args(["netns", "list"]).output().is_ok_and(|output| output.status.success());
    if !geteuid().is_root() || !has_ip {
        skipped("a fleet in network namespaces (needs root, and iproute2)");
        return None;
    }
    // What a test that was killed has left.
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
#[ignore = "needs a nats-server, and some its own network: with --ignored"]
fn four_agents_in_namespaces_drive_a_server_in_a_fifth_with_one_command() {
    let Some(fleet) = local_fleet(FOUR, &["a", "b", "c", "d"]) else { return };
    // On a busy machine a thread may get its processor late: then the run says so, and is made again.
    let mut spreads = Vec::new();
    for _ in 0..5 {
        let ended = fleet.bench(&as_words(&bench_words(FOUR, "3s"))).wait();
        assert!(ended.code == Some(0) || ended.incomplete().contains("ms apart"), "{}", ended.error);
        let mix = ended.mix();
        whole_is_sum(mix);
        assert_eq!(of_agents(mix, "clients"), [2.0; 4]);
        assert_eq!(mix["client_rows"].as_array().map(Vec::len), Some(8));
        spreads.push(mix["fleet"]["start_spread_us"].as_f64().expect("a spread"));
        if ended.code == Some(0) {
            println!("the agents began within {spreads:?} us");
            return;
        }
    }
    panic!("the agents never began within 50 ms: {spreads:?} us");
}

#[test]
#[ignore = "needs a nats-server, and some its own network: with --ignored"]
fn an_agent_whose_link_is_cut_is_lost() {
    let Some(fleet) = local_fleet(CUT, &["a", "b"]) else { return };
    let bench = fleet.bench(&as_words(&bench_words(CUT, "60s")));
    let link = format!("tsf{CUT}-12");
    let sent = || {
        let text = fs::read_to_string(format!("/sys/class/net/{link}/statistics/rx_packets"));
        text.ok().and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    let is_loaded = || {
        let before = sent();
        std::thread::sleep(Duration::from_millis(300));
        sent() > before + 200
    };
    wait_until("the agent sends load", PATIENCE, is_loaded);
    let cut = Command::new("ip").args(["link", "set", &link, "down"]).status();
    assert!(cut.is_ok_and(|status| status.success()));
    let ended = bench.wait();
    assert_eq!(ended.code, Some(1), "{}", ended.error);
    assert!(ended.incomplete().contains("agent b was lost at "), "{}", ended.incomplete());
}

#[test]
#[ignore = "needs a nats-server, and some its own network: with --ignored"]
fn one_machine_and_a_fleet_agree_on_a_plan() {
    let Some(fleet) = local_fleet(AGREE, &["a", "b"]) else { return };
    // Think times set the rate, so that a busy machine does not.
    let printed = Command::new(program()).args(["suites", "webbench-1.1-static"]).output().expect("it runs");
    let suite =
        String::from_utf8(printed.stdout).expect("text").replace("think_time_s = 0", "think_time_s = 0.02");
    assert!(suite.contains("think_time_s = 0.02"), "{suite}");
    let path = fleet.path("thinking.toml");
    fs::write(&path, suite).expect("written");
    let words = bench_words(AGREE, "4s");
    let of_fleet = fleet.bench_suite(&path, "of-fleet", true, &as_words(&words)).wait();
    assert_eq!(of_fleet.code, Some(0), "{} {}", of_fleet.error, of_fleet.incomplete());
    let (_server, url) = crate::target::serve_tree(&fleet.path("www"));
    let words: Vec<&str> =
        words.iter().map(|word| if word.starts_with("http") { url.as_str() } else { word }).collect();
    let of_one = fleet.bench_suite(&path, "of-one", false, &words).wait();
    assert_eq!(of_one.code, Some(0), "{}", of_one.error);
    let rate = |mix: &Value| mix["requests_per_second"].as_f64().expect("a rate");
    let (fleet_rate, one_rate) = (rate(of_fleet.mix()), rate(of_one.mix()));
    // Eight clients that think for 20 ms make at most 400 requests a second.
    assert!(fleet_rate > 200.0 && fleet_rate <= 404.0, "{fleet_rate}");
    assert!((fleet_rate / one_rate - 1.0).abs() < 0.15, "{fleet_rate} and {one_rate}");
    let mean = |mix: &Value| mix["mean_body_bytes"].as_f64().expect("a mean");
    // The same seeds draw the same files.
    assert!((mean(of_fleet.mix()) / mean(of_one.mix()) - 1.0).abs() < 0.15);
}
