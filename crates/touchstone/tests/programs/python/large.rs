//! Long bodies in both directions, through WSGI and ASGI, over HTTP/1.1 and HTTP/2: the memory of the server
//! and of its workers does not grow with them.
//!
//! The test with 256 MiB always runs. `PYTHON_BODY_BYTES` sets the size in the other one (10 GiB):
//!
//! ```sh
//! cargo test -p touchstone --test programs python::large -- --ignored --nocapture
//! ```

#![allow(clippy::print_stdout, reason = "what was measured is printed")]

use std::fs::File;

use super::*;

/// By how much the memory of a process may grow.
const GROWTH_BYTES: u64 = 48 << 20;

/// The length of the bodies of the test that always runs.
const SHORT_BYTES: u64 = 256 << 20;

const VERSIONS: [&str; 2] = ["--http1.1", "--http2-prior-knowledge"];

/// The most memory that a process has ever used, in bytes.
fn peak_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it has a peak");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") << 10
}

/// The server and its workers.
fn processes(server: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{server}/task")).expect("the server lives");
    let children = tasks.map(|task| {
        let children = task.expect("a task").path().join("children");
        std::fs::read_to_string(children).unwrap_or_default()
    });
    let children: String = children.map(|text| text + " ").collect();
    std::iter::once(server)
        .chain(children.split_whitespace().map(|pid| pid.parse().expect("a number")))
        .collect()
}

/// Runs curl without a time limit; returns what it prints. `None`, with a visible message, where it is not
/// installed.
fn curl_without_limit(arguments: &[&str]) -> Option<String> {
    let output = match Command::new("curl").args(["--silent", "--show-error"]).args(arguments).output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            skipped("long bodies (install curl)");
            return None;
        }
        Err(error) => panic!("curl: {error}"),
    };
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// An upload of a file and a download of as many bytes.
fn exchange(running: &Running, version: &str, file: &Path, length: u64) -> Option<()> {
    let url = |path: &str| format!("http://{}/{path}", running.server.address());
    let file = file.to_str().expect("a path in UTF-8");
    let answer = curl_without_limit(&[version, "--upload-file", file, &url("length")])?;
    assert_eq!(answer, length.to_string(), "{version}: upload");
    let format = "%{http_code} %{size_download}";
    let large = url(&format!("large?{length}"));
    let answer = curl_without_limit(&[version, "--output", "/dev/null", "--write-out", format, &large])?;
    assert_eq!(answer, format!("200 {length}"), "{version}: download");
    Some(())
}

fn bodies_pass_in_constant_memory(length: u64) {
    if !has_python() {
        return;
    }
    let limits = "[limits]\nbody_bytes = \"64GiB\"\n";
    for app in ["wsgi_app:application", "asgi_app:application"] {
        let running = start_in(&apps(), app, "workers = 1", limits);
        // A file without blocks on the disk.
        let path = running.tree.around().join("upload");
        let file = File::create(&path).expect("it is made");
        // What every body needs once is not growth.
        for version in VERSIONS {
            file.set_len(4 << 20).expect("its length is set");
            let Some(()) = exchange(&running, version, &path, 4 << 20) else { return };
        }
        let processes = processes(running.server.process() as u32);
        assert!(processes.len() >= 2, "a server and a worker");
        let before: Vec<u64> = processes.iter().map(|pid| peak_bytes(*pid)).collect();
        file.set_len(length).expect("its length is set");
        for version in VERSIONS {
            let Some(()) = exchange(&running, version, &path, length) else { return };
            for (pid, before) in processes.iter().zip(&before) {
                let after = peak_bytes(*pid);
                let name = format!("{app}, {version}, process {pid}");
                println!("{name}: {} KiB, after {length} bytes {} KiB", before >> 10, after >> 10);
                assert!(after < before + GROWTH_BYTES, "{name}: {before}, then {after}");
            }
        }
    }
}

#[test]
fn long_bodies_pass_in_constant_memory() {
    bodies_pass_in_constant_memory(SHORT_BYTES);
}

#[test]
#[ignore = "it takes minutes"]
fn bodies_of_gigabytes_pass_in_constant_memory() {
    let stated = std::env::var("PYTHON_BODY_BYTES").ok();
    let length =
        stated.map_or(10 << 30, |bytes| bytes.parse().expect("PYTHON_BODY_BYTES is a number of bytes"));
    bodies_pass_in_constant_memory(length);
}
