//! The known attacks on HTTP/1, HTTP/2, HTTP/3 and TLS: each is run for a short time against the real
//! program, and must meet the limit that stops it: the connection ends, or costs the server no more than it
//! costs the attacker, and the memory remains bounded. Other clients are served afterwards as before.
//!
//! The cost of each for both sides is reported, never asserted: `BLESS=1 cargo test -p touchstone --test
//! protocols floods` makes one after the other and writes the table of docs/security.md. Without that the
//! test makes them side by side, and compares the attacks and their limits with the rows of the table.

mod cost;
mod http1;
mod http2;
mod http3;
mod tls;

use std::fmt::Write as _;
use std::fs;
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{Server, Tree, bytes_of, free_port, wait_until, write_program};
use cost::{Cost, measure};

const START: &str = "<!-- floods:start -->";
const END: &str = "<!-- floods:end -->";

/// So much may the server's memory grow by any of them; a debug build keeps more than a release build.
const MOST_GROWTH_KIB: u64 = 96 * 1024;

/// This many run at the same time: mostly they wait until the server ends the connection.
const AT_ONCE: usize = 6;

/// Far longer than any limit here takes to act.
const PATIENCE: Duration = Duration::from_secs(60);

/// An attack.
#[derive(Clone, Copy)]
struct Attack {
    protocol: &'static str,
    /// What is done, with the number of the vulnerability that it became known by.
    name: &'static str,
    /// What stops it.
    limit: &'static str,
    /// Runs it, asserts that the limit acts, and returns the bytes sent in both directions.
    make: fn(&Server) -> Bytes,
}

/// What went over the wire.
#[derive(Debug, Clone, Copy, Default)]
struct Bytes {
    sent: u64,
    received: u64,
}

impl std::ops::AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        self.sent += other.sent;
        self.received += other.received;
    }
}

fn attacks() -> Vec<Attack> {
    [http1::ATTACKS, http2::ATTACKS, tls::ATTACKS, http3::ATTACKS].into_iter().flatten().copied().collect()
}

/// A server with short waits, so that an attack is over soon. `address()` is in the clear, the second one has
/// TLS and HTTP/3. `/cgi/count` reads all of a body.
fn server(tree: &Tree) -> Server {
    tree.write("page.html", bytes_of(6_250));
    tree.write("large.bin", bytes_of(8 << 20));
    let script = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nwc -c\n";
    write_program(&tree.beside("cgi").join("count"), script);
    let route = "[[site.route]]\npath = \"/cgi/\"\ncgi = { directory = \"cgi\" }\n";
    let text = format!(
        "[server]\ncores = 1\n\
         [limits]\nheader_timeout = \"1s\"\nstall_timeout = \"1s\"\nkeep_alive_timeout = \"30s\"\n\
         http3_unvalidated_handshakes = 16\n\
         [[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = {0:?}\n{route}\
         [[site]]\nlisten = [\"127.0.0.1:{1}\"]\nroot = {0:?}\ndevelopment_certificate = true\n\
         http3 = true\n{route}",
        tree.root(),
        free_port()
    );
    Server::configured(tree.around(), &text)
}

/// A connection that waits long enough for any limit.
fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server takes connections");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// Waits, without reading, until the server has closed these connections. What is in the kernel's buffers can
/// still be read.
fn wait_until_given_up(streams: &[TcpStream]) {
    let port = |address: std::io::Result<SocketAddr>| address.expect("it is connected").port();
    // The server's ends, as the kernel lists them, with their states: TCP_ESTABLISHED and TCP_CLOSE_WAIT.
    let ends: Vec<[String; 2]> = streams
        .iter()
        .map(|stream| {
            [port(stream.peer_addr()), port(stream.local_addr())].map(|port| format!(":{port:04X}"))
        })
        .collect();
    wait_until("the server gives up", PATIENCE, || {
        let table = fs::read_to_string("/proc/net/tcp").expect("the kernel lists sockets");
        let is_held = |end: &[String; 2], columns: &[&str]| {
            columns[1].ends_with(&end[0])
                && columns[2].ends_with(&end[1])
                && ["01", "08"].contains(&columns[3])
        };
        table.lines().skip(1).all(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            !ends.iter().any(|end| is_held(end, &columns))
        })
    });
}

/// Reads until the server has ended the connection, which it must do; returns the number of received bytes.
fn read_until_the_end(stream: &mut TcpStream) -> u64 {
    let (mut received, mut buffer) = (0, vec![0; 256 * 1024]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return received,
            Ok(count) => received += count as u64,
            Err(error) => {
                assert_ne!(error.kind(), ErrorKind::WouldBlock, "the connection is not ended");
                return received;
            }
        }
    }
}

#[test]
fn each_known_attack_meets_its_limit() {
    let is_blessing = std::env::var_os("BLESS").is_some();
    let all = attacks();
    let (next, costs) = (AtomicUsize::new(0), Mutex::new(vec![None; all.len()]));
    std::thread::scope(|scope| {
        // What others do at the same time would be in the figures.
        for _ in 0..if is_blessing { 1 } else { AT_ONCE } {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(attack) = all.get(place) else { break };
                    let cost = made(attack);
                    costs.lock().expect("no thread panics with it")[place] = Some(cost);
                }
            });
        }
    });
    let costs = costs.into_inner().expect("no thread has panicked");
    let rows: Vec<(Attack, Cost)> =
        all.iter().copied().zip(costs.into_iter().map(|cost| cost.expect("it was made"))).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security.md");
    let page = fs::read_to_string(&path).expect("the page is there");
    let (before, rest) = page.split_once(START).expect("the page has the marker of its beginning");
    let (table, after) = rest.split_once(END).expect("the page has the marker of its end");
    if is_blessing {
        let blessed = format!("{before}{START}\n\n{}\n{END}{after}", written(&rows));
        fs::write(&path, blessed).expect("the page is written");
        return;
    }
    let told: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    for (Attack { protocol, name, limit, .. }, told) in all.iter().zip(&told) {
        let row = format!("| {protocol} | {name} | {limit} |");
        assert!(told.starts_with(&row), "{row} was made, and the page has {told}\nBLESS=1 writes it");
    }
    assert_eq!(
        all.len(),
        told.len(),
        "so many attacks were made, and the page has others\nBLESS=1 writes it"
    );
}

/// Makes an attack on a server of its own, which must serve others as before.
fn made(attack: &Attack) -> Cost {
    let Attack { protocol, name, make, .. } = attack;
    let tree = Tree::empty();
    let server = server(&tree);
    // What the first request costs is not the attack's.
    server.assert_serves("/page.html", &bytes_of(6_250));
    let cost = measure(&server, || make(&server));
    let growth = cost.growth_kib;
    assert!(growth < MOST_GROWTH_KIB, "{protocol}, {name}: the memory grew by {growth} KiB");
    server.assert_serves("/page.html", &bytes_of(6_250));
    cost
}

fn written(rows: &[(Attack, Cost)]) -> String {
    let build = if cfg!(debug_assertions) { "a debug build" } else { "an optimised build" };
    let mut text = format!(
        "Measured on 127.0.0.1 with {build}; bytes without the headers of TCP, UDP and IP; processor time of \
         the attacking thread and of the server.\n\n\
         | protocol | attack | what stops it | attacker sends | receives | attacker's CPU | server's CPU | \
         memory |\n|---|---|---|---|---|---|---|---|\n"
    );
    for (Attack { protocol, name, limit, .. }, cost) in rows {
        let _ = writeln!(
            text,
            "| {protocol} | {name} | {limit} | {} | {} | {:.1} ms | {:.1} ms | + {} KiB |",
            kibibytes(cost.bytes.sent),
            kibibytes(cost.bytes.received),
            cost.own_cpu_ms,
            cost.server_cpu_ms,
            cost.growth_kib
        );
    }
    text
}

fn kibibytes(bytes: u64) -> String {
    if bytes < 10_240 { format!("{bytes} B") } else { format!("{} KiB", bytes / 1024) }
}
