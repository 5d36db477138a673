//! The same applications in every Java virtual machine that is on this machine, from version 17 on.
//!
//! Looked for below the usual directory, and where `scripts/setup-java.sh` leaves them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::websocket::WebSocket;
use super::{BOTH, START, copy, get_patiently, route, start, start_without_waiting, target, text, trial};
use crate::support::{Server, Tree, skipped, wait_until};

/// The oldest that can be used.
const OLDEST: u32 = 17;

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
