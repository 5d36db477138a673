//! An origin that comes and goes under load, with another beside it: no client notices.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::proxy;
use super::support::{Client, Server, Tree, bytes_of, free_port, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);

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

    fn start(&mut self) {
        self.process = Some(self.command.spawn().unwrap());
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

/// Asks until it is told to stop; the error says what went wrong.
fn ask(server: SocketAddr, body: &[u8], stop: &AtomicBool, answered: &AtomicUsize) -> Result<(), String> {
    let mut client = Client::connect(server);
    while !stop.load(Ordering::Relaxed) {
        client.send("GET /app/page.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        let answer =
            client.try_answer(super::support::AnswerTo::Other).map_err(|broken| broken.to_string())?;
        if answer.status != 200 || answer.body != body {
            return Err(format!("status {} with {} bytes", answer.status, answer.body.len()));
        }
        answered.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Whether both origins have: the one that comes and goes has been left alone, and was asked again.
fn had_their_part(server: &Server) -> bool {
    let log = server.error_text();
    log.contains("gets no requests") && log.contains("is up again")
}

fn flap(length: Duration, version: &str) {
    let behind = Tree::standard();
    let body = bytes_of(6_250);
    behind.write("app/page.bin", &body);
    let stays = Server::quick(&behind.root());
    let mut goes = Flapping::new(&behind);
    goes.start();
    wait_until("it is up", Duration::from_secs(10), || Client::try_connect(goes.address).is_ok());
    let tree = Tree::standard();
    let keys = format!(
        "to = [\"http://{}\", \"http://{}\"]\nbalance = \"round_robin\"\nversion = \"{version}\"\n",
        goes.address,
        stays.address()
    );
    // So that it is asked often, though it fails often.
    let health = "[site.route.proxy.health]\nwindow = \"500ms\"\nlongest = \"500ms\"\n";
    let server = proxy(&tree, &keys, health);
    let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let failures: Vec<String> = thread::scope(|scope| {
        let clients: Vec<_> =
            (0..8).map(|_| scope.spawn(|| ask(server.address(), &body, &stop, &answered))).collect();
        let until = Instant::now() + length;
        let mut is_up = true;
        // On a busy machine it takes longer until both have had their part.
        let goes_on = || {
            let now = Instant::now();
            now < until || (now < until + PATIENCE && !had_their_part(&server))
        };
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
    assert!(had_their_part(&server), "{}", server.error_text());
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
#[ignore = "takes five minutes"]
fn no_client_notices_for_five_minutes() {
    flap(Duration::from_secs(300), "1.1");
}
