//! Agents that the bench starts over ssh, through an sshd that the test starts.

use crate::rig::{Fleet, PATIENCE, program, until_together};
use crate::sums::{of_agents, whole_is_sum};
use crate::support::{Sshd, free_port, processes_with, skipped, wait_until};
use crate::target::Target;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// A short bench.
const SHORT: [&str; 8] = ["--clients", "4", "--length", "2s", "--ramp-up", "500ms", "--ramp-down", "0s"];

/// A fleet of two agents on this machine, which is reached over ssh.
fn fleet_by_ssh(sshd: &Sshd, known_hosts: &Path) -> Option<Fleet> {
    let port = sshd.port.to_string();
    let text = |path: &Path| path.to_str().expect("text").to_string();
    let (key, known_hosts) = (text(&sshd.key), text(known_hosts));
    let launch = ["--launch", "ssh", "--hosts", "127.0.0.1,127.0.0.1", "--allow", "127.0.0.1"];
    let ssh = ["--ssh-port", &port, "--ssh-identity", &key, "--ssh-known-hosts", &known_hosts];
    let program = ["--program", program().to_str()?];
    Fleet::made("labssh", "127.0.0.1", &["load-1", "load-2"], &[&launch[..], &ssh, &program].concat())
}

#[test]
fn ssh_starts_the_agents_of_a_fleet_and_nothing_is_left_of_them() {
    let place = TempDir::with_prefix("touchstone-sshd-").expect("a directory");
    let Some(sshd) = Sshd::start(place.path()) else { return };
    let Some(fleet) = fleet_by_ssh(&sshd, &sshd.known_hosts()) else { return };
    let target = Target::start();
    let url = target.url();
    let ended = until_together(|| fleet.bench(&[&["--sut", &url], &SHORT[..]].concat()).wait());
    assert_eq!(ended.code, Some(0), "{} {}\n{}", ended.error, ended.incomplete(), sshd.log());
    whole_is_sum(ended.mix());
    assert_eq!(of_agents(ended.mix(), "clients"), [2.0; 2]);
    // The broker's URL is valid for this fleet only.
    let url = fleet.url("127.0.0.1");
    wait_until("the agents have ended", PATIENCE, || processes_with(&url) == 0);
    // Each agent had a directory for its results, and removed it.
    for agent in ["load-1", "load-2"] {
        let said = fleet.launched_text(agent);
        let line = said
            .lines()
            .find_map(|line| line.split_once("results that the broker does not have yet are in "));
        let directory = line.map(|(_, directory)| Path::new(directory)).unwrap_or_else(|| panic!("{said}"));
        let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        assert!(name.starts_with(&format!("touchstone-labssh-{agent}-")), "{said}");
        assert!(!directory.exists(), "{said}");
    }
}

#[test]
fn a_machine_that_does_not_answer_is_told_in_ssh_s_own_words_before_all_agents_should_have_come() {
    if Command::new("ssh").arg("-V").output().is_err() {
        return skipped("machines that are reached over ssh (install openssh-client)");
    }
    // A port that accepts connections and sends no bytes, and one that is closed.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let silent_port = silent.local_addr().expect("its address").port();
    for (port, words) in [
        (silent_port, "ssh and has ended (exit status: 255): Connection to 127.0.0.1 port"),
        (free_port(), "ssh: connect to host 127.0.0.1 port"),
    ] {
        let port = port.to_string();
        let launch = ["--launch", "ssh", "--hosts", "127.0.0.1,127.0.0.1", "--ssh-port", &port];
        let Some(fleet) = Fleet::made("labfar", "127.0.0.1", &["load-1", "load-2"], &launch) else { return };
        // The wait for agents is longer than the test could take.
        let ended = fleet.bench(&[&["--sut", "limit"], &SHORT[..], &["--fleet-wait", "1h"]].concat()).wait();
        assert_eq!(ended.code, Some(2), "{}", ended.error);
        let named = "was started on 127.0.0.1 by ssh and has ended (exit status: 255)";
        assert!(ended.error.contains(named) && ended.error.contains(words), "{}", ended.error);
        println!("{:.2} s after the bench was started: {}", ended.after.as_secs_f64(), ended.error.trim());
    }
}

#[test]
fn a_machine_that_ssh_does_not_know_or_cannot_use_is_named() {
    let place = TempDir::with_prefix("touchstone-sshd-").expect("a directory");
    let Some(sshd) = Sshd::start(place.path()) else { return };
    let unknown = place.path().join("nobody");
    fs::write(&unknown, "").expect("a file");
    let Some(fleet) = fleet_by_ssh(&sshd, &unknown) else { return };
    let ended = fleet.bench(&[&["--sut", "limit"], &SHORT[..]].concat()).wait();
    assert_eq!(ended.code, Some(2), "{}", ended.error);
    // The agent that ended first is named.
    let words =
        "was started on 127.0.0.1 by ssh and has ended (exit status: 255): Host key verification failed.";
    let is_named = |agent: &str| ended.error.contains(&format!("agent {agent} {words}"));
    assert!(is_named("load-1") || is_named("load-2"), "{}", ended.error);

    // The right machine, without the program.
    sshd.known_hosts();
    let known_hosts = place.path().join("known_hosts");
    fs::copy(&known_hosts, &unknown).expect("a copy");
    let program = program().to_str().expect("text");
    fleet.change_file(|text| text.replace(program, "/nowhere/touchstone"));
    let ended = fleet.bench(&[&["--sut", "limit"], &SHORT[..]].concat()).wait();
    assert_eq!(ended.code, Some(2), "{}", ended.error);
    assert!(
        ended.error.contains("agent load-") && ended.error.contains("/nowhere/touchstone"),
        "{}",
        ended.error
    );
}
