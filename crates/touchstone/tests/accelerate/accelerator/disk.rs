//! Copies on disk: available after a restart and after kill -9, either right or absent, and never returned
//! after a purge.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use sha2::{Digest, Sha256};

use crate::accelerator::origin::{Origin, answer};
use crate::accelerator::{FRESH, get, text};
use crate::support::{Server, Tree, run, wait_until};

/// An origin whose bodies are long and different, and carry their own hash.
pub(crate) fn hashed() -> Origin {
    Origin::start(|asked, stream| {
        let seed = asked.target.len() * 7919 + asked.target.bytes().map(usize::from).sum::<usize>();
        let length = 200 + seed * 31 % 30_000;
        let content: String = asked.target.chars().cycle().take(length).collect();
        let hash = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        answer(stream, 200, &format!("{FRESH}X-Hash: {hash}\r\n"), &content);
    })
}

pub(crate) fn is_right(response: &crate::support::Response) -> bool {
    let hash = Sha256::digest(&response.body).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    response.status == 200 && response.field("x-hash") == Some(&hash)
}

fn start(origin: &Origin, directory: &Path, more: &[&str]) -> Server {
    let directory = directory.to_str().unwrap();
    let disk = ["--cores", "1", "--memory", "8MiB", "--disk", directory, "--disk-size", "64MiB"];
    let server = Server::accelerating(origin.address, &[&disk, more].concat());
    server.wait_for_error_line("the directory is looked through", |line| line.contains("found on disk"));
    server
}

#[test]
fn what_is_stored_is_there_after_a_restart_and_what_is_purged_is_not() {
    let origin = hashed();
    let tree = Tree::empty();
    let (directory, socket) = (tree.beside("disk"), tree.beside("control.sock"));
    let control = ["--control", socket.to_str().unwrap()];
    {
        let mut server = start(&origin, &directory, &control);
        for index in 0..50 {
            assert!(is_right(&get(&server, &format!("/a/{index}"), "")));
        }
        let purged = run(["purge", "--socket", socket.to_str().unwrap(), "--prefix", "http://a/a/1"]);
        assert_eq!(purged.status.code(), Some(0), "{purged:?}");
        server.stop();
        let mark = fs::read_to_string(directory.join("boot")).unwrap();
        assert_eq!(mark, "left in order\n");
    }
    let server = start(&origin, &directory, &control);
    for index in 0..50 {
        let target = format!("/a/{index}");
        let expected = if target.starts_with("/a/1") { 2 } else { 1 };
        assert!(is_right(&get(&server, &target, "")));
        assert_eq!(origin.count(&target), expected, "{target}");
    }
}

#[test]
fn after_kill_9_every_byte_is_right_and_the_cache_is_warm() {
    let origin = hashed();
    let tree = Tree::empty();
    let directory = tree.beside("disk");
    // Each is a start and a stop: TOUCHSTONE_KILLS=50 does more of them.
    let kills: usize =
        std::env::var("TOUCHSTONE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(8);
    let mut asked = 0;
    for round in 0..kills {
        let mut server = start(&origin, &directory, &[]);
        // Earlier responses are right, whether they are still stored or requested again.
        for index in (0..asked).rev().step_by(1 + asked / 100) {
            assert!(is_right(&get(&server, &format!("/{index}"), "")), "round {round}, /{index}");
        }
        let goes_on = AtomicBool::new(true);
        let next = AtomicUsize::new(asked);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while goes_on.load(Ordering::SeqCst) {
                        let index = next.fetch_add(1, Ordering::SeqCst);
                        let mut client = match crate::support::Client::try_connect(server.address()) {
                            Ok(client) => client,
                            Err(_) => return,
                        };
                        let request = format!("GET /{index} HTTP/1.1\r\nHost: a\r\n\r\n");
                        if client.try_send(request.as_bytes()).is_err() {
                            return;
                        }
                        if let Ok(answer) = client.try_answer(crate::accelerator::AnswerTo::Other) {
                            assert!(is_right(&answer), "/{index}");
                        }
                    }
                });
            }
            // In the middle of writing, at another point each time.
            wait_until("some more are asked for", Duration::from_secs(60), || {
                next.load(Ordering::SeqCst) >= asked + 40 + round * 13 % 50
            });
            server.signal(Signal::KILL);
            goes_on.store(false, Ordering::SeqCst);
        });
        server.wait();
        asked = next.into_inner();
    }
    let server = start(&origin, &directory, &[]);
    let before: usize = (0..asked).map(|index| origin.count(&format!("/{index}"))).sum();
    for index in 0..asked {
        assert!(is_right(&get(&server, &format!("/{index}"), "")), "/{index}");
    }
    let after: usize = (0..asked).map(|index| origin.count(&format!("/{index}"))).sum();
    // Of each round what was being written when it ended may be missing.
    assert!((after - before) * 2 < asked, "{} of {asked} were not there", after - before);
}

#[test]
fn damaged_copies_are_dropped() {
    let origin = hashed();
    let tree = Tree::empty();
    let directory = tree.beside("disk");
    {
        let mut server = start(&origin, &directory, &[]);
        (0..30).for_each(|index| assert!(is_right(&get(&server, &format!("/{index}"), ""))));
        server.stop();
    }
    let segment = directory.join("00000000.segment");
    let mut bytes = fs::read(&segment).unwrap();
    (0..bytes.len()).step_by(5000).for_each(|place| bytes[place] ^= 0x20);
    fs::write(&segment, bytes).unwrap();
    let server = start(&origin, &directory, &[]);
    for index in 0..30 {
        assert!(is_right(&get(&server, &format!("/{index}"), "")), "/{index}");
    }
}

/// A few seconds find the same faults as minutes: TOUCHSTONE_FLAP_SECONDS=300 does it for longer, once a
/// second.
#[test]
fn an_origin_that_comes_and_goes_is_not_noticed_while_there_is_a_copy() {
    let seconds: u64 =
        std::env::var("TOUCHSTONE_FLAP_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(4);
    let origin = Origin::start(|asked, stream| {
        answer(stream, 200, "Cache-Control: max-age=0\r\nETag: \"v\"\r\n", &asked.target);
    });
    let server = Server::accelerating(origin.address, &["--cores", "2"]);
    let targets: Vec<String> = (0..20).map(|index| format!("/{index}")).collect();
    targets.iter().for_each(|target| assert_eq!(text(&get(&server, target, "")), *target));
    let until = Instant::now() + Duration::from_secs(seconds);
    thread::scope(|scope| {
        for thread in 0..4 {
            let (targets, server) = (&targets, &server);
            scope.spawn(move || {
                for target in targets.iter().cycle().skip(thread * 5) {
                    if Instant::now() > until {
                        break;
                    }
                    let got = get(server, target, "");
                    assert_eq!((got.status, text(&got)), (200, target.clone()));
                }
            });
        }
        let mut is_down = false;
        while Instant::now() < until {
            is_down = !is_down;
            origin.set_down(is_down);
            thread::sleep(Duration::from_millis(if seconds < 60 { 200 } else { 1000 }));
        }
    });
}
