//! The controller reports at once what makes a run impossible, with the agent's name.

use crate::rig::{Ended, Fleet, PATIENCE, program, until_together};
use crate::sums::whole_is_sum;
use crate::support::{skipped, wait_until};
use crate::target::Target;
use futures_util::StreamExt;
use rustix::process::{Signal, kill_process};
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};
use touchstone_fleet::Credentials;

/// A short bench.
const SHORT: [&str; 10] =
    ["--sut", "limit", "--clients", "4", "--length", "2s", "--ramp-up", "0s", "--ramp-down", "0s"];

/// One good agent, and one that a test makes faulty.
fn fleet() -> Option<Fleet> {
    let mut fleet = Fleet::new(&["load-1", "load-2"])?;
    fleet.start_agent("load-1", &[]);
    Some(fleet)
}

fn assert_refused(ended: &Ended, words: &[&str]) {
    assert!(matches!(ended.code, Some(1 | 2)), "{:?}: {}", ended.code, ended.error);
    let said = format!("{}{}", ended.error, ended.incomplete());
    assert!(words.iter().all(|word| said.contains(word)), "{words:?} in {said}");
    println!("{:.2} s after the bench was started: {}", ended.after.as_secs_f64(), words.join(" ... "));
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
    let own = fleet.directory().join("load-2.credentials");
    let words: Vec<String> = fleet.agent_arguments("127.0.0.1", "load-2", &[]);
    let words =
        words.into_iter().map(|word| if Path::new(&word) == own { path.display().to_string() } else { word });
    let words: Vec<String> = words.collect();
    let mut command = Command::new(program());
    command.args(&words);
    fleet.spawn_agent("load-2", command);
    let refused = "refuses the credentials of load-2";
    let until = Instant::now() + PATIENCE;
    while !fleet.agent_text("load-2").contains(refused) {
        assert!(Instant::now() < until, "the agent is not refused: {}", fleet.agent_text("load-2"));
        sleep(Duration::from_millis(5));
    }
    // The agent tries again, so that a controller that starts later is notified, too.
    assert_refused(&fleet.bench(&SHORT).wait(), &["agent load-2 was refused by the broker"]);
    fleet.signal_agent("load-2", Signal::TERM);
    assert_eq!(fleet.wait_for_agent("load-2"), Some(0));
}

/// Makes a program of a fleet by this script. Another process writes it: a child that another thread forks at
/// the same time would hold a file of this process open for writing until its exec, and the kernel does not
/// start such a program ("Text file busy").
fn copied(from: &Path, fleet: &Fleet, script: &str) -> PathBuf {
    let copy = fleet.path("touchstone");
    let made = Command::new("sh").args(["-c", script, "sh"]).arg(from).arg(&copy).status();
    assert!(made.is_ok_and(|status| status.success()));
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).expect("a mode");
    copy
}

#[test]
fn another_version_of_the_program() {
    let Some(mut fleet) = fleet() else { return };
    let own = env!("CARGO_PKG_VERSION");
    let other = own.replace(|sign: char| sign.is_ascii_digit(), "9");
    // The program as another release would be: the same but for the number.
    let mut bytes = fs::read(program()).expect("the program");
    let places: Vec<usize> = memchr::memmem::find_iter(&bytes, own.as_bytes()).collect();
    places.iter().for_each(|place| bytes[*place..place + own.len()].copy_from_slice(other.as_bytes()));
    let changed = fleet.path("changed");
    fs::write(&changed, bytes).expect("a copy");
    let copy = copied(&changed, &fleet, "cp \"$1\" \"$2\"");
    let mut command = Command::new(&copy);
    command.args(fleet.agent_arguments("127.0.0.1", "load-2", &["--allow", "127.0.0.1"]));
    fleet.spawn_agent("load-2", command);
    let words = format!("agent load-2 is touchstone {other} (protocol 1), and this is {own} (protocol 1)");
    assert_refused(&fleet.bench(&SHORT).wait(), &[&words]);
    assert_eq!(fleet.wait_for_agent("load-2"), Some(1));
    assert!(fleet.agent_text("load-2").contains(&words));
}

#[test]
fn another_build_of_the_program() {
    let Some(mut fleet) = fleet() else { return };
    // A byte after the end changes only the hash.
    let copy = copied(Path::new(program()), &fleet, "cp \"$1\" \"$2\" && echo >> \"$2\"");
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
        &["agent load-2: the agent does not allow load to 127.0.0.1:"],
    );
    fleet.signal_agent("load-2", Signal::TERM);
    assert_eq!(fleet.wait_for_agent("load-2"), Some(0));
    let ahead_ms = (2 * 3600 * 1000).to_string();
    fleet.start_agent("load-2", &["--test-clock-shift", &ahead_ms]);
    assert_refused(&fleet.bench(&SHORT).wait(), &["the clock of agent load-2 is wrong by 7200 s"]);
}

/// A small file system for a spool, mounted until this is dropped. `None` if it cannot be mounted.
struct SmallDisk {
    place: PathBuf,
}

impl SmallDisk {
    fn mount(fleet: &Fleet, size: &str) -> Option<SmallDisk> {
        let place = fleet.path("small");
        fs::create_dir(&place).expect("a directory");
        let options = format!("size={size},mode=700");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "none"]).arg(&place).output();
        if !mounted.is_ok_and(|mounted| mounted.status.success()) {
            skipped("a spool on a full disk (needs root, to mount a small one)");
            return None;
        }
        Some(SmallDisk { place })
    }

    /// Writes until the file system is full.
    fn fill(&self) {
        let mut file = fs::File::create(self.place.join("others")).expect("a file");
        let full = loop {
            if let Err(error) = file.write_all(&[1; 4096]) {
                break error;
            }
        };
        assert_eq!(full.kind(), ErrorKind::StorageFull);
    }

    fn path(&self) -> &str {
        self.place.to_str().expect("text")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // An agent that was killed may still have it open for a moment.
        let _ = Command::new("umount").arg("--lazy").arg(&self.place).status();
    }
}

#[test]
fn a_disk_without_room_for_a_result() {
    let Some(mut fleet) = fleet() else { return };
    let Some(disk) = SmallDisk::mount(&fleet, "64k") else { return };
    fleet.start_agent("load-2", &["--spool", disk.path()]);
    let ended = fleet.bench(&SHORT).wait();
    assert_refused(&ended, &["agent load-2: the agent's disk has no room"]);
}

#[test]
fn a_disk_that_fills_in_mid_mix_costs_no_result_and_the_next_mix_is_refused() {
    let Some(mut fleet) = fleet() else { return };
    let Some(disk) = SmallDisk::mount(&fleet, "4m") else { return };
    fleet.start_agent("load-2", &["--spool", disk.path()]);
    let more =
        ["--sut", "limit", "--clients", "4", "--length", "15s", "--ramp-up", "0s", "--ramp-down", "0s"];
    let ended = until_together(|| {
        let _ = fs::remove_file(disk.place.join("others"));
        let mut bench = fleet.bench(&more);
        bench.wait_until_loaded(&fleet, &["load-1", "load-2"]);
        disk.fill();
        bench.wait()
    });
    // The room was reserved before the mix.
    assert_eq!(ended.code, Some(0), "{} {}", ended.error, ended.incomplete());
    whole_is_sum(ended.mix());
    // There is no room for another mix: the room of the first was freed, and is filled too.
    disk.fill();
    assert_refused(&fleet.bench(&SHORT).wait(), &["agent load-2: the agent's disk has no room"]);
}

#[test]
fn a_plan_that_is_not_what_was_handed_out() {
    let Some(mut fleet) = fleet() else { return };
    fleet.start_agent("load-2", &[]);
    let target = Target::start();
    let url = target.url();
    let words = [&["--sut", &url, "--clients", "4", "--length", "1s"], &SHORT[6..]].concat();
    let ended = until_together(|| fleet.bench(&words).wait());
    assert_eq!(ended.code, Some(0), "{} {}", ended.error, ended.incomplete());
    // A user with write access replaces the plans by others of the same names.
    let changed = change_documents(&fleet);
    assert!(changed > 0);
    assert_refused(
        &fleet.bench(&words).wait(),
        &["agent load-", ": the plan cannot be fetched: the document ", " was changed"],
    );
}

/// Overwrites every document of a fleet, as its controller could; returns how many there were.
fn change_documents(fleet: &Fleet) -> usize {
    let credentials =
        Credentials::read(&fleet.directory().join("controller.credentials")).expect("credentials");
    let authority = fleet.path("authority.pem");
    fs::write(&authority, &credentials.authority).expect("written");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let options = async_nats::ConnectOptions::new().nkey(credentials.seed).require_tls(true);
        let client = options.add_root_certificates(authority).connect(fleet.url("127.0.0.1")).await;
        let jetstream = async_nats::jetstream::new(client.expect("the broker"));
        let documents = jetstream.get_object_store("fleet-lab").await.expect("the store");
        let mut list = documents.list().await.expect("a list");
        let mut names = Vec::new();
        while let Some(document) = list.next().await {
            names.push(document.expect("a document").name);
        }
        for name in &names {
            documents.put(name.as_str(), &mut &b"{}"[..]).await.expect("it is written");
        }
        names.len()
    })
}

#[test]
fn a_broker_that_is_away() {
    let Some(mut fleet) = fleet() else { return };
    fleet.start_agent("load-2", &[]);
    let supervisor = fleet.stop_broker();
    assert_eq!(supervisor, Some(0));
    let waits = [&SHORT[..], &["--fleet-wait", "1s"]].concat();
    let refused = fleet.bench(&waits).wait();
    assert_refused(&refused, &["the broker at tls://127.0.0.1:", "cannot be reached"]);
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
    assert_refused(&second, &["another controller uses the fleet"]);
    kill_process(first.process(), Signal::INT).expect("it is interrupted");
    let ended = first.wait();
    assert_eq!(ended.code, Some(1), "{}", ended.error);
    let mut twin = Command::new(program());
    twin.args(fleet.agent_arguments("127.0.0.1", "load-2", &["--allow", "127.0.0.1"]));
    twin.args(["--spool", fleet.path("twin").to_str().expect("text")]);
    fleet.spawn_agent("twin", twin);
    wait_until("the twin is there", PATIENCE, || fleet.agent_text("twin").contains("is with"));
    // The agent reads its own program before it answers, which takes a moment.
    let mut ended = until_together(|| fleet.bench(&SHORT).wait());
    for _ in 0..5 {
        if ended.code != Some(0) {
            break;
        }
        ended = until_together(|| fleet.bench(&SHORT).wait());
    }
    assert_refused(&ended, &["two agents have the name load-2"]);
}
