//! Each Python that is on the machine, from 3.9 on: the interface is the stable ABI's, and what differs
//! between versions is how tasks are started and how the interpreter is found.

#![allow(clippy::print_stdout, reason = "which versions were tried is printed")]

use super::*;
use crate::servlet::websocket::WebSocket;

/// The versions that can be used.
const VERSIONS: std::ops::RangeInclusive<u32> = 9..=14;

/// The interpreters of the machine: those on the PATH and in /usr/bin, and those of pyenv; one a version.
fn interpreters() -> Vec<(u32, PathBuf)> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let pyenv = std::env::var_os("PYENV_ROOT").map_or(home.join(".pyenv"), PathBuf::from).join("versions");
    let of_pyenv = std::fs::read_dir(pyenv).into_iter().flatten().flatten().map(|entry| entry.path());
    let of_pyenv: Vec<PathBuf> = of_pyenv.map(|place| place.join("bin")).collect();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories = vec![PathBuf::from("/usr/bin")];
    directories.extend(of_pyenv);
    directories.extend(std::env::split_paths(&path).filter(|place| !place.ends_with("shims")));
    VERSIONS
        .filter_map(|minor| {
            let name = format!("python3.{minor}");
            let found = directories.iter().map(|place| place.join(&name)).find(|program| program.is_file());
            found.map(|program| (minor, program))
        })
        .collect()
}

#[test]
fn every_version_on_the_machine_runs_both_interfaces() {
    if !has_python() {
        return;
    }
    let found = interpreters();
    for (minor, program) in &found {
        let keys = format!("workers = 1\nvirtualenv = {program:?}");
        let running = start("wsgi_app:application", &keys);
        assert_eq!(running.text("/hello"), "hello", "3.{minor}");
        assert_eq!(running.post("/echo", b"a body").body, b"b'a body'", "3.{minor}");
        assert_eq!(running.text("/large?1000000").len(), 1_000_000, "3.{minor}");
        assert_eq!(running.text("/file").len(), 300_000, "3.{minor}");
        assert_eq!(running.get("/fails").status, 500, "3.{minor}");
        let named = format!("Python 3.{minor} of ");
        running.server.wait_for_error_line("names the version", |line| line.contains(&named));
        drop(running);

        let running = start("asgi_app:application", &keys);
        assert_eq!(running.text("/hello"), "hello", "3.{minor}");
        assert_eq!(running.text("/wait"), "True set", "3.{minor}");
        assert_eq!(running.text("/timeout"), "timed out", "3.{minor}");
        assert_eq!(running.post("/echo", b"a body").body, b"a body", "3.{minor}");
        assert_eq!(running.get("/fails").status, 500, "3.{minor}");
        let mut socket = WebSocket::open(running.server.address(), "/socket").expect("it opens");
        socket.say("one").expect("it is sent");
        assert_eq!(socket.hear().expect("it answers"), "you said one", "3.{minor}");
    }
    let found: Vec<String> = found.iter().map(|(minor, _)| format!("3.{minor}")).collect();
    assert!(!found.is_empty(), "there is a python3, and no python3.N");
    println!("tried with Python {}", found.join(", "));
}
