//! The same applications in every Java virtual machine that is on this machine, from version 17 on.
//!
//! Looked for below the usual directory, and where `scripts/setup-java.sh` leaves them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::websocket::WebSocket;
use super::{BOTH, START, copy, get_patiently, route, start, start_without_waiting, stream_both_ways};
use super::{target, text, trial};
use crate::support::{Client, Server, Tree, raise_open_files, skipped, wait_until};

/// The oldest that can be used.
const OLDEST: u32 = 17;

/// The first with virtual threads.
const FIRST_WITH_VIRTUAL: u32 = 21;

/// Homes by version; of one version, any.
fn homes() -> BTreeMap<u32, PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let fetched = cache.unwrap_or_default().join("touchstone");
    // Of one version the one that is installed.
    let directories = [fetched, PathBuf::from("/usr/lib/jvm")];
    let homes = directories.iter().filter_map(|directory| fs::read_dir(directory).ok()).flatten().flatten();
    homes
        .map(|entry| entry.path())
        .filter(|home| home.join("lib/server/libjvm.so").is_file())
        .filter_map(|home| Some((version(&home)?, home)))
        .filter(|(version, _)| *version >= OLDEST)
        .collect()
}

fn version(home: &Path) -> Option<u32> {
    let release = fs::read_to_string(home.join("release")).ok()?;
    let line = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\""))?;
    line.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

#[test]
fn every_java_that_is_here_runs_applications() {
    let Some(trial) = trial() else { return };
    let homes = homes();
    if homes.len() < 2 {
        skipped("applications in more than one version of Java (run scripts/setup-java.sh)");
    }
    for (version, home) in &homes {
        for isolation in BOTH {
            let tree = Tree::empty();
            let java = format!("home = {home:?}\n");
            let routes = route("/trial/", &format!("app = {trial:?}, isolation = {isolation:?}"));
            let server = start(&tree, &java, &routes, 1);
            assert!(runs_on(&server, home) || isolation == "isolated", "{home:?}");
            let get = |target: &str| get_patiently(server.address(), target);
            assert_eq!(text(&get("/trial/version")), version.to_string());
            assert_eq!(text(&get("/trial/date.jsp")).trim(), "page=/date.jsp sum=3");
            for (how, body) in [("dispatch", "dispatched"), ("pieces", "piece 0\npiece 1\npiece 2\n")] {
                assert_eq!(text(&get(&format!("/trial/async?how={how}"))), body, "{version}");
            }
            assert_eq!(get("/trial/big?bytes=3000000").body.len(), 3_000_000);
            let mut socket = WebSocket::open(server.address(), "/trial/socket").unwrap();
            socket.say("hello").unwrap();
            assert_eq!(socket.hear().unwrap(), "heard hello");
            socket.close().unwrap();
            assert_eq!(get("/trial/bad?how=exit").status, 500, "{version}");
            assert_eq!(get("/trial/bad?how=throw").status, 500, "{version}");
        }
    }
}

#[test]
fn classes_are_shared_from_the_second_start_on_where_no_archive_fits() {
    let Some(trial) = trial() else { return };
    let (tree, library) = (Tree::empty(), tempfile::tempdir().unwrap());
    // Under another path the archive of the build does not fit.
    copy(&target().join("java"), library.path());
    let work = tree.beside("work");
    let java = format!("library = {:?}\nwork_directory = {work:?}\n", library.path());
    let archive = work.join("classes/classes.jsa");
    let routes = route("/trial/", &format!("app = {trial:?}"));
    let is_used = |server: &Server| {
        let maps = fs::read_to_string(format!("/proc/{}/maps", server.process())).unwrap();
        maps.contains(archive.to_str().unwrap())
    };
    let mut first = start(&tree, &java, &routes, 1);
    assert!(!is_used(&first));
    wait_until("the archive is made", START, || archive.with_extension("key").is_file());
    first.stop();
    let second = start(&tree, &java, &routes, 1);
    assert!(is_used(&second));
    assert_eq!(text(&get_patiently(second.address(), "/trial/date.jsp")).trim(), "page=/date.jsp sum=3");
}

#[test]
fn virtual_threads_answer_as_many_requests_as_come() {
    let Some(trial) = trial() else { return };
    let Some((version, home)) = homes().into_iter().rfind(|(version, _)| *version >= FIRST_WITH_VIRTUAL)
    else {
        return skipped("virtual threads (run scripts/setup-java.sh)");
    };
    for isolation in BOTH {
        let tree = Tree::empty();
        let keys = format!("app = {trial:?}, isolation = {isolation:?}, threads = \"virtual\", queue = 0");
        let server = start(&tree, &format!("home = {home:?}\n"), &route("/trial/", &keys), 1);
        assert_eq!(text(&get_patiently(server.address(), "/trial/version")), version.to_string());
        // They all wait at once, although no queue is allowed.
        let head = "GET /trial/wait?ms=3000 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let mut clients: Vec<Client> = (0..300).map(|_| Client::connect(server.address())).collect();
        for client in &mut clients {
            client.set_patience(START);
            client.send(head);
        }
        assert!(clients.iter_mut().all(|client| text(&client.answer()) == "virtual=true"), "{isolation}");
        stream_both_ways(&server, &tree);
        for (how, body) in [("dispatch", "dispatched"), ("pieces", "piece 0\npiece 1\npiece 2\n")] {
            assert_eq!(text(&get_patiently(server.address(), &format!("/trial/async?how={how}"))), body);
        }
        let mut socket = WebSocket::open(server.address(), "/trial/socket").unwrap();
        socket.say("hello").unwrap();
        assert_eq!(socket.hear().unwrap(), "heard hello");
        socket.close().unwrap();
        assert_eq!(get_patiently(server.address(), "/trial/bad?how=throw").status, 500);
        // Clients that leave while their servlets wait hold no other up.
        for _ in 0..20 {
            let mut client = server.connect();
            client.send("GET /trial/wait?ms=20000 HTTP/1.1\r\nHost: a\r\n\r\n");
            client.vanish();
        }
        assert_eq!(text(&get_patiently(server.address(), "/trial/wait?ms=1")), "virtual=true");
    }
}

#[test]
fn two_thousand_requests_that_wait_take_no_more_than_virtual_threads() {
    let Some(trial) = trial() else { return };
    let Some((_, home)) = homes().into_iter().rfind(|(version, _)| *version >= FIRST_WITH_VIRTUAL) else {
        return skipped("virtual threads (run scripts/setup-java.sh)");
    };
    const REQUESTS: usize = 2_000;
    if !raise_open_files(REQUESTS as u64 + 500) {
        return skipped("2,000 requests at once (raise the limit of open files: ulimit -n 4096)");
    }
    for isolation in BOTH {
        let tree = Tree::empty();
        let keys = format!("app = {trial:?}, isolation = {isolation:?}, threads = \"virtual\", queue = 0");
        let server = start(&tree, &format!("home = {home:?}\n"), &route("/trial/", &keys), 1);
        assert_eq!(text(&get_patiently(server.address(), "/trial/wait?ms=1")), "virtual=true");
        let mut clients: Vec<Client> = (0..REQUESTS).map(|_| Client::connect(server.address())).collect();
        for client in &mut clients {
            client.set_patience(START);
            client.send("GET /trial/wait?ms=100 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        }
        // None is refused, although none may wait in a queue.
        assert!(clients.iter_mut().all(|client| text(&client.answer()) == "virtual=true"), "{isolation}");
    }
}

#[test]
fn virtual_threads_in_an_old_java_are_refused_with_the_reason() {
    let Some(trial) = trial() else { return };
    let Some((_, home)) = homes().into_iter().find(|(version, _)| *version < FIRST_WITH_VIRTUAL) else {
        return skipped("a Java without virtual threads (install openjdk-17-jre-headless)");
    };
    let tree = Tree::empty();
    let routes = route("/trial/", &format!("app = {trial:?}, threads = \"virtual\""));
    let server = start_without_waiting(&tree, &format!("home = {home:?}\n"), &routes);
    assert_eq!(get_patiently(server.address(), "/trial/version").status, 503);
    server
        .wait_for_error_line("says why", |line| line.contains("needs Java 21 or later, but this is Java 17"));
}

fn runs_on(server: &Server, home: &Path) -> bool {
    let maps = fs::read_to_string(format!("/proc/{}/maps", server.process())).unwrap();
    let library = home.join("lib/server/libjvm.so").canonicalize().unwrap();
    maps.contains(library.to_str().unwrap())
}

/// `cargo test -p touchstone --test programs how_long -- --ignored --nocapture`
#[test]
#[ignore = "shows figures that are good on a quiet machine only"]
#[expect(clippy::print_stderr, reason = "the figures are what it is run for")]
fn how_long_a_start_takes_with_and_without_shared_classes() {
    let Some(trial) = trial() else { return };
    let jars = target().join("java");
    let without = tempfile::tempdir().unwrap();
    copy(&jars, without.path());
    fs::remove_file(without.path().join("classes.jsa")).unwrap();
    let mut figures: [Vec<Duration>; 2] = Default::default();
    for _ in 0..7 {
        for (library, figures) in [jars.as_path(), without.path()].into_iter().zip(&mut figures) {
            let tree = Tree::empty();
            let java = format!("library = {library:?}\n");
            let began = Instant::now();
            let server = start_without_waiting(&tree, &java, &route("/trial/", &format!("app = {trial:?}")));
            wait_until("it answers", START, || server.get("/trial/facts").status == 200);
            figures.push(began.elapsed());
        }
    }
    for (what, mut figures) in ["with", "without"].into_iter().zip(figures) {
        figures.sort();
        eprintln!(
            "first answer {what} shared classes: median {:?} of {figures:?}",
            figures[figures.len() / 2]
        );
    }
}
