//! `touchstone bench --sut ssh://...`: a system is started, watched and ended over ssh, through an sshd that
//! the test starts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use crate::support::{Sshd, processes_with, wait_until};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The command that connects to an sshd of the test.
fn ssh(sshd: &Sshd) -> String {
    let options = "-F none -o StrictHostKeyChecking=yes -o LogLevel=ERROR";
    format!("ssh -i {} {options} -o UserKnownHostsFile={}", sshd.key.display(), sshd.known_hosts().display())
}

/// The copies of this program that its probes run from; new ones are removed after the test.
struct Probes(BTreeSet<PathBuf>);

impl Probes {
    fn now() -> BTreeSet<PathBuf> {
        let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
        let entries = fs::read_dir(home.join(".cache/touchstone/probe"));
        entries.into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        for new in Probes::now().difference(&self.0) {
            let _ = fs::remove_file(new);
        }
    }
}

fn bench(place: &Path, sshd: &Sshd, system: &str) -> (std::process::Output, PathBuf) {
    let result = place.join(format!("result-{}", system.replace('/', "_")));
    let output = Command::new(env!("CARGO_BIN_EXE_touchstone"))
        .args(["bench", "webbench-1.1-static", "--sut", &format!("ssh://127.0.0.1:{}/{system}", sshd.port)])
        .args(["--ssh", &ssh(sshd), "--clients", "2", "--runs", "1", "--no-report"])
        .args(["--length", "2s", "--ramp-up", "300ms", "--ramp-down", "200ms", "--output"])
        .arg(&result)
        .output()
        .unwrap();
    (output, result)
}

#[test]
fn a_system_is_started_watched_and_ended_over_ssh() {
    let place = tempfile::tempdir().unwrap();
    let Some(sshd) = Sshd::start(place.path()) else { return };
    let _probes = Probes(Probes::now());
    let (output, directory) = bench(place.path(), &sshd, "touchstone");
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words}\n{}", sshd.log());
    let result: Value = serde_json::from_slice(&fs::read(directory.join("result.json")).unwrap()).unwrap();
    let system = &result["systems"][0];
    assert_eq!(system["name"], "touchstone@127.0.0.1");
    assert!(system["title"].as_str().unwrap().ends_with("on 127.0.0.1"));
    // Its configuration and machine are disclosed, and its processes were watched by the probe.
    assert!(system["configuration"][0]["text"].as_str().unwrap().contains("listen"));
    assert!(system["machine"]["cpus"].as_u64().unwrap() > 0);
    let mix = &system["mixes"][0];
    assert!(mix["requests"].as_u64().unwrap() > 0 && mix["errors"]["connect"] == 0);
    assert!(mix["server"]["cpu_us_per_request"].as_f64().unwrap() > 0.0, "{:#}", mix["server"]);
    // It is the same machine, and the result states that.
    assert_eq!(result["machine"]["same_host"], true);
    // Files and processes on the other machine were removed.
    let left = system["command"].as_array().unwrap().last().unwrap().as_str().unwrap().to_owned();
    assert!(!Path::new(&left).exists(), "{left}");
    wait_until("the system has ended", Duration::from_secs(60), || processes_with(&left) == 0);

    // A system that is not there is refused before anything starts, with what to do.
    let definition = place.path().join("odd.toml");
    let text = "name = \"odd\"\ntitle = \"odd\"\ndescription = \"d\"\npackage = \"odd-server\"\n\
                executables = [\"no-such-server\"]\n\
                command = [\"{executable}\", \"{port}\"]\ncapabilities = [\"files\"]\n";
    fs::write(&definition, text).unwrap();
    for (system, expected) in [
        (definition.to_str().unwrap(), "odd is not installed; install the package odd-server"),
        ("touchstone-accelerator", "has an origin"),
        ("ngnix", "did you mean `nginx`"),
    ] {
        let (output, directory) = bench(place.path(), &sshd, system);
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && words.contains(expected), "{words}");
        assert!(!directory.exists());
    }
}

#[test]
fn a_machine_that_cannot_be_reached_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let Some(mut sshd) = Sshd::start(place.path()) else { return };
    sshd.stop();
    let (output, directory) = bench(place.path(), &sshd, "nginx");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && words.contains("cannot be reached over ssh"), "{words}");
    assert!(!directory.exists());
}
