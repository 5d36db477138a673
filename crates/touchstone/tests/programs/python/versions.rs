//! Each Python that is on the machine, from 3.9 on: the interface is the stable ABI's, and what differs
//! between versions is how tasks are started and how the interpreter is found.

#![allow(clippy::print_stdout, reason = "which versions were tried is printed")]

use super::*;
use crate::servlet::websocket::WebSocket;

/// The versions that can be used.
const VERSIONS: std::ops::RangeInclusive<u32> = 9..=14;

/// The directories with interpreters: /usr/bin, those of pyenv, and the PATH.
fn directories() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let pyenv = std::env::var_os("PYENV_ROOT").map_or(home.join(".pyenv"), PathBuf::from).join("versions");
    let of_pyenv = std::fs::read_dir(pyenv).into_iter().flatten().flatten().map(|entry| entry.path());
    let of_pyenv: Vec<PathBuf> = of_pyenv.map(|place| place.join("bin")).collect();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories = vec![PathBuf::from("/usr/bin")];
    directories.extend(of_pyenv);
    directories.extend(std::env::split_paths(&path).filter(|place| !place.ends_with("shims")));
    directories
}

/// A program in one of these directories.
fn find(directories: &[PathBuf], name: &str) -> Option<PathBuf> {
    directories.iter().map(|place| place.join(name)).find(|program| program.is_file())
}

/// The interpreters of the machine, one a version.
fn interpreters() -> Vec<(u32, PathBuf)> {
    let directories = directories();
    VERSIONS.filter_map(|minor| Some((minor, find(&directories, &format!("python3.{minor}"))?))).collect()
}

/// The free-threaded interpreters of the machine, and those that `FREE_THREADED_PYTHON` names.
fn free_threaded() -> Vec<PathBuf> {
    let stated = std::env::var_os("FREE_THREADED_PYTHON").unwrap_or_default();
    let stated: Vec<PathBuf> = std::env::split_paths(&stated).filter(|path| path.is_file()).collect();
    let directories = directories();
    let names = ["python3.13t", "python3.13-nogil", "python3.14t", "python3.14-nogil"];
    names.iter().filter_map(|name| find(&directories, name)).chain(stated).collect()
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
        assert_eq!(running.text("/leave?variable"), "left", "3.{minor}");
        assert_eq!(running.text("/look"), "['unset', False, False, False, False]", "3.{minor}");
        assert_eq!(running.text("/token"), "unset", "3.{minor}");
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

/// Both requests get their answer only if two threads run Python at the same time: each computes until the
/// other one has begun, and the interval after which a thread with the lock gives it to another is an hour.
fn two_requests_compute_at_once(running: &Running, path: &str) {
    let answers: Vec<String> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..2).map(|_| scope.spawn(|| running.text(path))).collect();
        asked.into_iter().map(|asked| asked.join().expect("it answers")).collect()
    });
    assert_eq!(answers, ["met without a lock", "met without a lock"]);
}

#[test]
fn threads_of_a_free_threaded_python_compute_at_once() {
    let found = free_threaded();
    for program in &found {
        let keys = format!("workers = 1\nthreads = 2\nvirtualenv = {program:?}");
        for app in ["wsgi_app:application", "asgi_app:application"] {
            let running = start(app, &keys);
            assert_eq!(running.text("/hello"), "hello", "{app}: {}", program.display());
            assert_eq!(running.post("/echo", b"a body").status, 200, "{app}");
            assert_eq!(running.text("/large?1000000").len(), 1_000_000, "{app}");
            assert_eq!(running.get("/fails").status, 500, "{app}");
            two_requests_compute_at_once(&running, "/meet");
            running.server.wait_for_error_line("names the build", |line| line.contains("t of /"));

            drop(running);

            // With the lock it runs too, and the log says so.
            let tree = Tree::empty();
            let text = configuration(&tree, &apps(), app, &keys, "")
                .replace("TEST_VARIABLE", "PYTHON_GIL = \"1\", TEST_VARIABLE");
            let server = Server::configured(tree.around(), &text);
            assert_eq!(server.get("/hello").body, b"hello", "{app}");
            server.wait_for_error_line("tells of the lock", |line| line.contains("its threads take turns"));
        }
    }
    match found.len() {
        0 => println!(
            "not tried: there is no free-threaded Python (python3.13-nogil of Ubuntu, 3.13t of pyenv)"
        ),
        count => println!("tried with {count} free-threaded builds"),
    }
}
