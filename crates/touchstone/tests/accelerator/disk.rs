//! The accelerator's disk: warm after a restart, right after a kill, and without what was purged.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use crate::origin::{Origin, answer};
use crate::support::{Server, Tree, bytes_of, run, wait_until};
use crate::{FRESH, get, text};

const PATIENCE: Duration = Duration::from_secs(30);

/// An origin whose answers say how often they were asked for, and are as long as their target says.
fn origin() -> Origin {
    Origin::start(|asked, stream| {
        let length: usize = asked.target.rsplit('/').next().unwrap().parse().unwrap();
        let filling: String = bytes_of(length / 2).iter().map(|byte| format!("{byte:02x}")).collect();
        let fields = format!("{FRESH}Surrogate-Key: all\r\n");
        answer(stream, 200, &fields, &format!("{} {} {filling}", asked.target, asked.count));
    })
}

/// A server with this disk, once it has found what is there.
fn start(origin: &Origin, directory: &Path, more: &[&str]) -> Server {
    let disk = directory.to_str().unwrap();
    let arguments = [&["--cores", "2", "--disk", disk, "--disk-size", "64MiB"], more].concat();
    let server = Server::accelerating(origin.address, &arguments);
    server.wait_for_error_line("tells of the disk", |line| line.contains("the disk cache in"));
    server
}

fn entries(directory: &Path) -> u64 {
    files(directory, "entries").iter().map(|path| fs::metadata(path).unwrap().len() / 40).sum()
}

fn files(directory: &Path, ending: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.extension().is_some_and(|found| found == ending)).collect()
}

fn targets() -> Vec<String> {
    (0..40).map(|index| format!("/{index}/{}", index * 700)).collect()
}

/// The count that the answer to this says; the rest of it must be right.
fn count(server: &Server, target: &str) -> String {
    let response = get(server, target, "");
    assert_eq!(response.status, 200, "{target}");
    let body = text(&response);
    let words: Vec<&str> = body.split(' ').collect();
    let length: usize = target.rsplit('/').next().unwrap().parse().unwrap();
    let filling: String = bytes_of(length / 2).iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(words[0] == target && words[2] == filling, "{target}: another body");
    words[1].to_string()
}

#[test]
fn it_is_warm_after_a_restart_in_order() {
    let (origin, place) = (origin(), Tree::empty());
    let disk = place.beside("disk");
    let mut server = start(&origin, &disk, &[]);
    for target in &targets() {
        assert_eq!(count(&server, target), "1");
    }
    // What waits to be written is written at the end.
    server.stop();
    let server = start(&origin, &disk, &[]);
    for target in &targets() {
        assert_eq!(count(&server, target), "1", "{target}");
        let hit = get(&server, target, "");
        assert!(hit.field("cache-status").unwrap().starts_with("touchstone; hit"), "{target}");
        assert!(hit.field("age").is_some());
    }
    assert!(targets().iter().all(|target| origin.count(target) == 1));
}

#[test]
fn what_has_no_room_in_memory_is_on_the_disk() {
    let (origin, place) = (origin(), Tree::empty());
    let server = start(&origin, &place.beside("disk"), &["--memory", "1MiB"]);
    let targets: Vec<String> = (0..30).map(|index| format!("/{index}/200000")).collect();
    targets.iter().for_each(|target| _ = count(&server, target));
    wait_until("all are on the disk", PATIENCE, || entries(&place.beside("disk")) >= 30);
    for target in &targets {
        assert_eq!(count(&server, target), "1", "{target}");
    }
}

#[test]
fn a_killed_server_is_right_and_warm_and_has_nothing_that_was_purged() {
    let (origin, place) = (origin(), Tree::empty());
    let disk = place.beside("disk");
    let socket = place.beside("control.sock");
    let socket = socket.to_str().unwrap();
    for round in 0..5 {
        let mut server = start(&origin, &disk, &["--control", socket]);
        for target in &targets() {
            count(&server, target);
        }
        let before = entries(&disk);
        assert!(round == 0 || before > 0, "it is warm");
        let purged = run(["purge", "--socket", socket, "--prefix", "http://a/1"]);
        assert!(purged.status.success());
        let asked: Vec<usize> = targets().iter().map(|target| origin.count(target)).collect();
        // In the middle of writing what is asked for anew.
        for target in targets().iter().filter(|target| target.starts_with("/2")) {
            count(&server, &format!("/more{round}{target}"));
        }
        server.signal(Signal::KILL);
        server.wait();
        let server = start(&origin, &disk, &[]);
        let mut found = 0;
        for (target, asked) in targets().iter().zip(asked) {
            let now: usize = count(&server, target).parse().unwrap();
            let is_purged = target.starts_with("/1");
            assert!(now == asked || now == asked + 1, "{target}: {now}, asked {asked}");
            assert!(!is_purged || now == asked + 1, "{target} came back");
            found += usize::from(now == asked);
        }
        assert!(found > 0, "round {round}: nothing is found");
    }
}

#[test]
fn what_was_changed_on_the_disk_is_asked_for_anew() {
    let (origin, place) = (origin(), Tree::empty());
    let disk = place.beside("disk");
    let mut server = start(&origin, &disk, &[]);
    for target in &targets() {
        count(&server, target);
    }
    server.stop();
    for path in files(&disk, "records") {
        let mut bytes = fs::read(&path).unwrap();
        // In more or less every record of some length.
        (1..bytes.len()).step_by(5000).for_each(|at| bytes[at] ^= 1);
        fs::write(&path, bytes).unwrap();
    }
    let server = start(&origin, &disk, &[]);
    let anew = targets().iter().filter(|target| count(&server, target) == "2").count();
    assert!(anew > 20 && anew < targets().len(), "{anew}");
    server.wait_for_error_line("names it", |line| line.contains("was not as it was written"));
}

#[test]
fn a_directory_that_cannot_be_had_is_said() {
    let (origin, place) = (origin(), Tree::empty());
    let url = format!("http://{}", origin.address);
    let fixed = ["accelerate", "--listen", "127.0.0.1:0", "--origin", &url, "--disk"];
    let below = place.beside("missing/disk");
    let output = run([&fixed[..], &[below.to_str().unwrap()]].concat());
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("accelerator.disk"));
    // Of two at the same time, one waits, and answers all the same.
    let disk = place.beside("disk");
    let mut first = start(&origin, &disk, &[]);
    assert_eq!(count(&first, "/a/10"), "1");
    let second = Server::accelerating(origin.address, &["--disk", disk.to_str().unwrap()]);
    second.wait_for_error_line("tells of it", |line| line.contains("another process has it"));
    assert_eq!(count(&second, "/b/10"), "1");
    first.stop();
    second.wait_for_error_line("has it", |line| line.contains("has 1 responses"));
    assert_eq!(count(&second, "/a/10"), "1");
}
