//! What makes a run impossible is said at once, on the controller, with the agent's name.

use crate::rig::{Ended, Fleet, PATIENCE, program, until_together};
use crate::support::{skipped, wait_until};
use rustix::process::{Signal, kill_process};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

/// A short bench.
const SHORT: [&str; 10] =
    ["--sut", "limit", "--clients", "4", "--length", "2s", "--ramp-up", "0s", "--ramp-down", "0s"];

/// One agent as it should be, and one to be made wrong.
fn fleet() -> Option<Fleet> {
    let mut fleet = Fleet::new(&["load-1", "load-2"])?;
    fleet.start_agent("load-1", &[]);
    Some(fleet)
}

fn assert_refused(ended: &Ended, words: &[&str]) {
    assert!(matches!(ended.code, Some(1 | 2)), "{:?}: {}", ended.code, ended.error);
    let said = format!("{}{}", ended.error, ended.incomplete());
    assert!(words.iter().all(|word| said.contains(word)), "{words:?} in {said}");
}

#[test]
fn credentials_that_the_broker_does_not_know() {
    let Some(mut fleet) = fleet() else { return };
    let Some(other) = Fleet::new(&["load-2"]) else { return };
    // The key of another fleet with this fleet's authority.
    let seed = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("seed")).expect("a seed");
        line.to_string()
    };
    let read = |path: &Path| fs::read_to_string(path.join("load-2.credentials")).expect("credentials");
    let (own, foreign) = (read(&fleet.directory()), read(&other.directory()));
    let path = fleet.path("load-2.credentials");
    let mut file =
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).expect("a file");
    file.write_all(own.replace(&seed(&own), &seed(&foreign)).as_bytes()).expect("written");
    let mut bench = fleet.bench(&SHORT);
    let own = fleet.directory().join("load-2.credentials");
    let words: Vec<String> = fleet.agent_arguments("127.0.0.1", "load-2", &[]);
    let words =
        words.into_iter().map(|word| if Path::new(&word) == own { path.display().to_string() } else { word });
    let words: Vec<String> = words.collect();
    // The controller hears of those who are refused while it waits: the agent tries until then.
    while !bench.has_ended() {
        let mut command = Command::new(program());
        command.args(&words);
        fleet.spawn_agent("load-2", command);
        assert_eq!(fleet.wait_for_agent("load-2"), Some(2), "{}", fleet.agent_text("load-2"));
        assert!(fleet.agent_text("load-2").contains("does not know the credentials of load-2"));
    }
    assert_refused(&bench.wait(), &["agent load-2 was refused by the broker"]);
}

#[test]
fn another_build_of_the_program() {
    let Some(mut fleet) = fleet() else { return };
    let copy = fleet.path("touchstone");
    fs::copy(program(), &copy).expect("a copy");
    // A byte behind the end changes the hash and nothing else.
    fs::OpenOptions::new().append(true).open(&copy).expect("opened").write_all(b"\n").expect("written");
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).expect("a mode");
    let mut command = Command::new(&copy);
    command.args(fleet.agent_arguments("127.0.0.1", "load-2", &["--allow", "127.0.0.1"]));
    fleet.spawn_agent("load-2", command);
    assert_refused(&fleet.bench(&SHORT).wait(), &["agent load-2 runs another build"]);
    assert_eq!(fleet.wait_for_agent("load-2"), Some(1));
    assert!(fleet.agent_text("load-2").contains("the controller refuses this agent"));
}

#[test]
fn a_target_that_is_not_on_an_agent_s_list_and_a_clock_that_is_mad() {
    let Some(mut fleet) = fleet() else { return };
    let mut command = Command::new(program());
    command.args(fleet.agent_arguments("127.0.0.1", "load-2", &["--allow", "10.0.0.5:80"]));
    fleet.spawn_agent("load-2", command);
    assert_refused(
        &fleet.bench(&SHORT).wait(),
        &["agent load-2: its machine does not allow load to 127.0.0.1:"],
    );
    fleet.signal_agent("load-2", Signal::TERM);
    assert_eq!(fleet.wait_for_agent("load-2"), Some(0));
    let ahead_ms = (2 * 3600 * 1000).to_string();
    fleet.start_agent("load-2", &["--test-clock-shift", &ahead_ms]);
    assert_refused(&fleet.bench(&SHORT).wait(), &["the clock of agent load-2 is wrong by 7200 s"]);
}

#[test]
fn a_disk_without_room_for_a_result() {
    let Some(mut fleet) = fleet() else { return };
    let spool = fleet.path("small");
    fs::create_dir(&spool).expect("a directory");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "none"]).arg(&spool).output();
    if !mounted.is_ok_and(|mounted| mounted.status.success()) {
        skipped("a spool on a full disk (needs root, to mount a small one)");
        return;
    }
    fleet.start_agent("load-2", &["--spool", spool.to_str().expect("text")]);
    let ended = fleet.bench(&SHORT).wait();
    fleet.signal_agent("load-2", Signal::KILL);
    fleet.wait_for_agent("load-2");
    assert!(Command::new("umount").arg(&spool).status().is_ok_and(|status| status.success()));
    assert_refused(&ended, &["agent load-2: its disk has no room"]);
}

#[test]
fn a_broker_that_is_away() {
    let Some(mut fleet) = fleet() else { return };
    fleet.start_agent("load-2", &[]);
    let supervisor = fleet.stop_broker();
    assert_eq!(supervisor, Some(0));
    assert_refused(&fleet.bench(&SHORT).wait(), &["the broker at tls://127.0.0.1:", "cannot be reached"]);
    fleet.start_broker();
    let ended = until_together(|| fleet.bench(&SHORT).wait());
    assert_eq!(ended.code, Some(0), "{}", ended.error);
}

#[test]
fn two_controllers_and_two_agents_of_one_name() {
    let Some(mut fleet) = fleet() else { return };
    fleet.start_agent("load-2", &[]);
    let long =
        ["--sut", "limit", "--clients", "4", "--length", "60s", "--ramp-up", "0s", "--ramp-down", "0s"];
    let first = fleet.bench(&long);
    wait_until("the first has the fleet", PATIENCE, || first.directory().exists());
    let second = fleet.bench_to("second", &SHORT).wait();
    assert_refused(&second, &["is in use by another controller"]);
    kill_process(first.process(), Signal::INT).expect("it is interrupted");
    assert_eq!(first.wait().code, Some(1));
    let mut twin = Command::new(program());
    twin.args(fleet.agent_arguments("127.0.0.1", "load-2", &["--allow", "127.0.0.1"]));
    twin.args(["--spool", fleet.path("twin").to_str().expect("text")]);
    fleet.spawn_agent("twin", twin);
    wait_until("the twin is there", PATIENCE, || fleet.agent_text("twin").contains("is with"));
    // It looks at its own program before it answers, which takes a moment.
    let mut ended = fleet.bench(&SHORT).wait();
    for _ in 0..5 {
        if ended.code != Some(0) {
            break;
        }
        ended = fleet.bench(&SHORT).wait();
    }
    assert_refused(&ended, &["two agents call themselves load-2"]);
}
