//! Agents that the bench starts over ssh, by an sshd of the test's own.

use crate::rig::{Fleet, PATIENCE, program, until_together};
use crate::sums::{of_agents, whole_is_sum};
use crate::support::{Sshd, processes_with, wait_until};
use crate::target::Target;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A bench that is over before long.
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
    // The broker's URL is of this fleet alone.
    let url = fleet.url("127.0.0.1");
    wait_until("the agents have ended", PATIENCE, || processes_with(&url) == 0);
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
    let words = "agent load-1 was started and has ended (exit status: 255): Host key verification failed.";
    assert!(ended.error.contains(words), "{}", ended.error);

    // The right machine without the program.
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
