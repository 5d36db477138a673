//! `touchstone plan` names a bottleneck that the test puts there: a lock, a tiny accept queue, a quota of
//! processor time, one busy core, a slow disk, a link with a limited rate, a slow load engine. Bottlenecks
//! that need an idle machine are tested on recorded figures in the lab's planning.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use crate::support::{free_port, run, skipped};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A server with a fault; it ends with the test.
struct Faulty {
    child: Child,
    port: u16,
}

impl Drop for Faulty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One bottleneck at a time, because each test is a load on the others' servers.
static TURN: Mutex<()> = Mutex::new(());

/// A place with the suite's files, for the test that has its turn.
struct Place {
    directory: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Place {
    fn path(&self) -> &Path {
        self.directory.path()
    }
}

fn place() -> Place {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Place { directory: tempfile::tempdir().unwrap(), _turn: turn };
    let tree = place.path().join("tree");
    let output = run(["suites", "webbench-1.1-static", "--tree", tree.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    place
}

/// Starts the server on a free port, with these words before its command line; `None` if there is no Python.
fn start(place: &Path, before: &[&str], fault: &str) -> Option<Faulty> {
    if Command::new("python3").arg("--version").output().is_err() {
        skipped("bottlenecks that are put there on purpose (install python3)");
        return None;
    }
    let port = free_port();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/plan/server.py");
    let words: Vec<&str> = before.iter().copied().chain(["python3"]).collect();
    let mut child = Command::new(words[0])
        .args(&words[1..])
        .arg(script)
        .args([fault, &port.to_string()])
        .arg(place.join("tree"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    Some(Faulty { child, port })
}

/// Measures it, and returns the plan of the only system.
fn plan(place: &Path, before: &[&str], suite: &str, clients: &str, server: &Faulty) -> serde_json::Value {
    let result: PathBuf = place.join("result");
    // From an earlier attempt.
    let _ = fs::remove_dir_all(&result);
    let url = format!("http://127.0.0.1:{}/", server.port);
    let words: Vec<&str> = before.iter().copied().chain([env!("CARGO_BIN_EXE_touchstone")]).collect();
    let measured = Command::new(words[0])
        .args(&words[1..])
        .args(["bench", suite, "--sut", &url, "--pid", &server.child.id().to_string(), "--clients", clients])
        .args([
            "--length",
            "2500ms",
            "--ramp-up",
            "300ms",
            "--ramp-down",
            "200ms",
            "--runs",
            "1",
            "--no-report",
            "--output",
        ])
        .arg(&result)
        .output()
        .unwrap();
    assert!(result.join("raw.jsonl").exists(), "{}", String::from_utf8_lossy(&measured.stderr));
    let output = run(["plan", result.to_str().unwrap(), "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    document["plans"][0].clone()
}

/// The number of attempts: on a machine that is busy with other work, other things limit a system for a
/// while.
const TRIES: usize = 6;

/// The plan that names this bottleneck; otherwise the last one.
fn assert_named(mut plan: impl FnMut() -> serde_json::Value, verdict: &str) -> serde_json::Value {
    let names = |plan: &serde_json::Value| plan["bottleneck"]["verdict"] == verdict;
    let mut last = plan();
    for _ in 1..TRIES {
        if names(&last) {
            break;
        }
        last = plan();
    }
    assert_eq!(last["bottleneck"]["verdict"], verdict, "{:#}", last["bottleneck"]);
    last
}

#[test]
fn a_lock_is_named() {
    let place = place();
    let Some(server) = start(place.path(), &[], "lock") else { return };
    let measure = || plan(place.path(), &[], "webbench-1.1-static", "1,4,16", &server);
    let plan = assert_named(measure, "locks-or-other");
    assert_eq!(plan["usl"]["state"], "not_identified");
    // The monitor's cost is measured and shown.
    assert!(plan["usage"]["snapshot_us"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_tiny_accept_queue_is_named() {
    let place = place();
    let Some(server) = start(place.path(), &[], "queue") else { return };
    assert_named(|| plan(place.path(), &[], "webbench-1.1-static-close", "1,8,32", &server), "accept-queue");
}

#[test]
fn a_quota_of_processor_time_is_named() {
    let Some(group) = Group::with_quota("quota", 2) else {
        return skipped("a quota of processor time (needs root and a cpu controller)");
    };
    let place = place();
    let Some(server) = start(place.path(), &[], "none") else { return };
    fs::write(group.0.join("cgroup.procs"), server.child.id().to_string()).unwrap();
    assert_named(|| plan(place.path(), &[], "webbench-1.1-static", "4,16", &server), "server-cpu");
}

#[test]
fn one_busy_core_is_named() {
    let place = place();
    // A thread that shares its processor with other work does not always run: it gets a higher priority, and
    // a group of its own, because a priority counts only among the processes of one session or group.
    let mut before_others = if is_root() { vec!["nice", "-n", "-15"] } else { Vec::new() };
    let group = Group::before_others("core");
    let inside = group.as_ref().map(Group::script);
    if let Some(inside) = &inside {
        before_others.splice(0..0, ["sh", "-c", inside, "sh"]);
    }
    let first = [&before_others[..], &["taskset", "-c", "0"]].concat();
    let Some(server) = start(place.path(), &first, "core") else { return };
    if fs::read_dir("/sys/devices/system/cpu")
        .is_ok_and(|cpus| cpus.flatten().filter(|cpu| cpu.path().join("topology").exists()).count() < 2)
    {
        return skipped("one busy core (needs two processors)");
    }
    let measure = || plan(place.path(), &before_others, "webbench-1.1-static", "1,4,16", &server);
    assert_named(measure, "single-core");
}

#[test]
fn a_slow_load_engine_is_named() {
    let Some(group) = Group::with_quota("engine", 4) else {
        return skipped("a slow load engine (needs root and a cpu controller)");
    };
    let place = place();
    let Some(server) = start(place.path(), &[], "none") else { return };
    let inside = group.script();
    let before = ["sh", "-c", &inside, "sh"];
    assert_named(|| plan(place.path(), &before, "webbench-1.1-static", "4,16", &server), "generator");
}

#[test]
fn a_slow_disk_is_named() {
    let place = place();
    let Some(group) = Group::with_slow_disk(place.path()) else {
        return skipped(
            "a slow disk (needs root, a controller of block devices, and a disk below the temporary \
             directory)",
        );
    };
    let Some(server) = start(place.path(), &[], "disk") else { return };
    fs::write(group.0.join("cgroup.procs"), server.child.id().to_string()).unwrap();
    assert_named(|| plan(place.path(), &[], "webbench-1.1-static", "4,16", &server), "disk");
}

fn is_root() -> bool {
    std::os::unix::fs::MetadataExt::uid(&fs::metadata("/proc/self").unwrap()) == 0
}

/// A control group; it is removed with the test.
struct Group(PathBuf);

impl Group {
    /// One of a name with a limit: version 1 of control groups has a hierarchy for each controller, version 2
    /// one for all.
    fn with(name: &str, version_1: (&str, &str, &str), version_2: (&str, &str)) -> Option<Group> {
        let (controller, file_1, limit_1) = version_1;
        let of_version_1 = Path::new("/sys/fs/cgroup").join(controller);
        let (root, file, limit) =
            if of_version_1.join(file_1).exists() || of_version_1.join("cgroup.procs").exists() {
                (of_version_1, file_1, limit_1)
            } else {
                (PathBuf::from("/sys/fs/cgroup"), version_2.0, version_2.1)
            };
        let group = Group(root.join(format!("touchstone-test-{name}-{}", std::process::id())));
        (fs::create_dir(&group.0).is_ok() && fs::write(group.0.join(file), limit).is_ok()).then_some(group)
    }

    /// A group whose processes get so many hundredths of a processor.
    fn with_quota(name: &str, hundredths: u32) -> Option<Group> {
        let quota = (hundredths * 1000).to_string();
        Group::with(name, ("cpu", "cpu.cfs_quota_us", &quota), ("cpu.max", &format!("{quota} 100000")))
    }

    /// A group whose processes run before all others.
    fn before_others(name: &str) -> Option<Group> {
        Group::with(name, ("cpu", "cpu.shares", "262144"), ("cpu.weight", "10000"))
    }

    /// A shell's script that runs its arguments in the group.
    fn script(&self) -> String {
        format!("echo $$ > {} && exec \"$@\"", self.0.join("cgroup.procs").display())
    }

    /// A group whose processes may read 100 times a second from the disk of this place.
    fn with_slow_disk(place: &Path) -> Option<Group> {
        let device = std::os::unix::fs::MetadataExt::dev(&fs::metadata(place).ok()?);
        let (major, minor) = ((device >> 8) & 0xfff, (device & 0xff) | ((device >> 12) & 0xfff00));
        // A partition has no queue of its own; its disk does.
        let node = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
        let disk = if node.join("partition").exists() { node.parent()?.to_path_buf() } else { node };
        let number = fs::read_to_string(disk.join("dev")).ok()?.trim().to_string();
        Group::with(
            "disk",
            ("blkio", "blkio.throttle.read_iops_device", &format!("{number} 100")),
            ("io.max", &format!("{number} riops=100")),
        )
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // It can be removed a moment after its last process was reaped.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() || !self.0.exists() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// A network namespace with a loopback of a limited rate; it is removed with the test.
struct Namespace(String);

impl Namespace {
    fn limited() -> Option<Namespace> {
        let namespace = Namespace(format!("touchstone-test-{}", std::process::id()));
        let name = namespace.0.as_str();
        let inside = |words: &[&str]| ip(&[&["netns", "exec", name], words].concat());
        let made = ip(&["netns", "add", name])
            && inside(&["ip", "link", "set", "lo", "up"])
            && inside(&[
                "tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", "20mbit", "burst", "64kb",
                "latency", "200ms",
            ]);
        made.then_some(namespace)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = ip(&["netns", "del", &self.0]);
    }
}

fn ip(words: &[&str]) -> bool {
    Command::new("ip").args(words).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

#[test]
fn a_link_with_a_limited_rate_is_named() {
    let Some(namespace) = Namespace::limited() else {
        return skipped("a link with a limited rate (needs root and iproute2)");
    };
    let inside = ["ip", "netns", "exec", namespace.0.as_str()];
    let place = place();
    let Some(server) = start(place.path(), &inside, "none") else { return };
    assert_named(|| plan(place.path(), &inside, "webbench-1.1-static", "4,16", &server), "nic");
}
