//! An origin that stops and starts under load: clients do not notice if there is another origin, or a stale
//! copy of its answer.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::proxy;
use crate::support::{Client, Server, Tree, bytes_of, free_port, wait_until};

const LENGTH: usize = 6_250;

/// Our own server, killed and started again.
struct Flapping {
    address: SocketAddr,
    command: Command,
    process: Option<Child>,
}

impl Flapping {
    fn new(tree: &Tree) -> Flapping {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let mut command = Command::new(env!("CARGO_BIN_EXE_touchstone"));
        let listen = address.to_string();
        command
            .args(["serve", "--access-log", "off", "--cores", "1", "--listen", &listen, "--root"])
            .arg(tree.root());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Flapping { address, command, process: None }
    }

    /// Starts it and waits until it listens: on a busy machine that takes longer than it is left alone.
    fn start(&mut self) {
        self.process = Some(self.command.spawn().unwrap());
        let begin = Instant::now();
        while Client::try_connect(self.address).is_err() && begin.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }
}

impl Drop for Flapping {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends requests until it must stop; the error states what went wrong.
fn ask(server: SocketAddr, body: &[u8], stop: &AtomicBool, answered: &AtomicUsize) -> Result<(), String> {
    let mut client = Client::connect(server);
    while !stop.load(Ordering::Relaxed) {
        client.send("GET /app/page.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        let answer =
            client.try_answer(crate::support::AnswerTo::Other).map_err(|broken| broken.to_string())?;
        if answer.status != 200 || answer.body != body {
            return Err(format!("status {} with {} bytes", answer.status, answer.body.len()));
        }
        answered.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// How much longer it may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// So that it gets many requests, although it fails often.
const HEALTH: &str = "[site.route.proxy.health]\nwindow = \"500ms\"\nlongest = \"500ms\"\n";

/// With another origin beside it.
fn flap(length: Duration, version: &str) {
    let behind = pages();
    let stays = Server::quick(&behind.root());
    let mut goes = Flapping::new(&behind);
    let tree = Tree::standard();
    let keys = format!(
        "to = [\"http://{}\", \"http://{}\"]\nbalance = \"round_robin\"\nversion = \"{version}\"\n",
        goes.address,
        stays.address()
    );
    let server = proxy(&tree, &keys, HEALTH);
    // It gets no requests for a while, and then again.
    let had_its_part = |log: &str| log.contains("gets no requests") && log.contains("is up again");
    no_client_notices(&mut goes, &server, length, had_its_part);
}

/// With a stale copy: the origin's answers are fresh for no time, so it gets each request if it is available.
fn flap_before_a_copy(length: Duration) {
    let behind = pages();
    let mut goes = Flapping::new(&behind);
    let tree = Tree::standard();
    let keys = format!("to = \"http://{}\"\n", goes.address);
    let cache = "[site.route.cache]\nmaximum_freshness = \"0s\"\n";
    let server = proxy(&tree, &keys, &format!("{HEALTH}{cache}"));
    // As the only one, it gets the requests in any case.
    no_client_notices(&mut goes, &server, length, |log| log.contains("cannot connect"));
    let says = |what: &str| {
        let answer = server.get("/app/page.bin");
        answer.status == 200 && answer.field("cache-status").is_some_and(|status| status.contains(what))
    };
    goes.kill();
    assert!(says("fwd=stale; fwd-status=502"));
    goes.start();
    wait_until("it is asked again", Duration::from_secs(60), || says("fwd=stale; fwd-status=304"));
}

fn pages() -> Tree {
    let behind = Tree::standard();
    behind.write("app/page.bin", bytes_of(LENGTH));
    behind
}

/// `had_its_part` states whether the origin that stops and starts got requests.
fn no_client_notices(
    goes: &mut Flapping,
    server: &Server,
    length: Duration,
    had_its_part: impl Fn(&str) -> bool,
) {
    let body = bytes_of(LENGTH);
    goes.start();
    assert_eq!(server.get("/app/page.bin").body, body);
    let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let failures: Vec<String> = thread::scope(|scope| {
        let clients: Vec<_> =
            (0..8).map(|_| scope.spawn(|| ask(server.address(), &body, &stop, &answered))).collect();
        let begin = Instant::now();
        // Longer if a machine is so busy that too little happens in that time.
        let is_enough = || answered.load(Ordering::Relaxed) > 100 && had_its_part(&server.error_text());
        let goes_on = || begin.elapsed() < length || !is_enough() && begin.elapsed() < length + PATIENCE;
        let mut is_up = true;
        while goes_on() && clients.iter().all(|client| !client.is_finished()) {
            thread::sleep(Duration::from_secs(1));
            if is_up {
                goes.kill()
            } else {
                goes.start()
            }
            is_up = !is_up;
        }
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().filter_map(|client| client.join().unwrap().err()).collect()
    });
    assert!(failures.is_empty(), "after {} answers: {failures:?}", answered.load(Ordering::Relaxed));
    let log = server.error_text();
    assert!(had_its_part(&log), "{log}");
    assert!(answered.load(Ordering::Relaxed) > 100);
}

#[test]
fn no_client_notices_an_origin_that_comes_and_goes() {
    flap(Duration::from_secs(10), "1.1");
}

#[test]
fn nor_with_http_2() {
    flap(Duration::from_secs(6), "2");
}

#[test]
fn nor_one_of_which_there_is_a_stale_copy() {
    flap_before_a_copy(Duration::from_secs(6));
}

#[test]
#[ignore = "takes five minutes"]
fn no_client_notices_for_five_minutes() {
    flap(Duration::from_secs(300), "1.1");
}

#[test]
#[ignore = "takes five minutes"]
fn nor_for_five_minutes_with_a_stale_copy() {
    flap_before_a_copy(Duration::from_secs(300));
}
