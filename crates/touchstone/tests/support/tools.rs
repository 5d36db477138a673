//! Tools for tests: curl, waiting for a condition, and the visible skip.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Prints that a check was skipped, and why, in spite of the test harness's capture.
pub(crate) fn skipped(why: &str) {
    // Not `eprintln!`, which the harness captures and drops when the test passes.
    writeln!(std::io::stderr(), "SKIPPED: {why}").expect("standard error is open");
}

/// Runs curl, quietly and with a time limit; `None`, with a visible message, where it is not installed.
pub(crate) fn curl(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Option<Output> {
    let fixed = ["--silent", "--show-error", "--max-time", "180", "--noproxy", "*"];
    match Command::new("curl").args(fixed).args(arguments).output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            skipped("checks with curl (install curl)");
            None
        }
        Err(error) => panic!("curl: {error}"),
    }
}

/// Writes a program, and the directories on the way to it. Another process writes it: a child that another
/// thread forks at the same time would hold the program open for writing until its exec, and the kernel does
/// not start such a program ("Text file busy").
pub(crate) fn write_program(path: &Path, text: impl AsRef<[u8]>) {
    let mut writer = Command::new("sh")
        .args(["-c", "mkdir -p \"${0%/*}\" && cat >\"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("the shell starts");
    writer.stdin.take().expect("a pipe").write_all(text.as_ref()).expect("the shell reads");
    assert!(writer.wait().expect("the shell ends").success(), "{}", path.display());
}

/// Waits until the condition holds; fails the test when it does not within `most`.
pub(crate) fn wait_until(what: &str, most: Duration, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + most;
    while !condition() {
        assert!(Instant::now() < until, "not within {most:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// How many processes' command lines hold a text.
pub(crate) fn processes_with(text: &str) -> usize {
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    let holds = |entry: &fs::DirEntry| {
        fs::read(entry.path().join("cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(text))
    };
    processes.filter(holds).count()
}

/// How to start a server so that permissions bind it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    /// As the user that runs the tests.
    AsWeAre,
    /// As this user, because root runs the tests, and permissions do not bind root.
    AsUser(u32),
}

/// How to start a server that permissions bind.
pub(crate) fn bound_by_permissions() -> Bound {
    const NOBODY: u32 = 65_534;
    if rustix::process::geteuid().is_root() { Bound::AsUser(NOBODY) } else { Bound::AsWeAre }
}

/// Makes sure that this process, and the servers it starts, may hold this many files open.
pub(crate) fn raise_open_files(count: u64) -> bool {
    let limit = getrlimit(Resource::Nofile);
    let enough = |value: Option<u64>| value.is_none_or(|value| value >= count);
    if enough(limit.current) {
        return true;
    }
    let wanted = Rlimit { current: Some(count), maximum: limit.maximum };
    enough(limit.maximum) && setrlimit(Resource::Nofile, wanted).is_ok()
}
