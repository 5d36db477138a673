//! Limits on the simultaneous requests of an origin, and connections that are kept.

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::{proxy, repeating, say, to};
use crate::support::{AnswerTo, Client, Origin, Server, Tree, read_head, wait_until};

/// Far longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// An origin that answers slowly, and notes how many requests it had at a time.
pub(super) fn slow(most: &Arc<AtomicUsize>) -> Origin {
    let (most, now) = (most.clone(), AtomicUsize::new(0));
    Origin::start(move |stream| {
        while read_head(stream).is_some() {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(100));
            now.fetch_sub(1, Ordering::SeqCst);
            say(stream, "slow");
        }
    })
}

/// An origin that answers no request before it is let go.
struct Held {
    origin: Origin,
    begun: Arc<AtomicUsize>,
    is_let_go: Arc<AtomicBool>,
}

impl Held {
    fn start() -> Held {
        let (begun, is_let_go) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, goes) = (begun.clone(), is_let_go.clone());
        let origin = Origin::start(move |stream| {
            while read_head(stream).is_some() {
                counted.fetch_add(1, Ordering::SeqCst);
                while !goes.load(Ordering::SeqCst) {
                    thread::sleep(Duration::from_millis(5));
                }
                say(stream, "held");
            }
        });
        Held { origin, begun, is_let_go }
    }

    /// Sends this many requests, all of them active at once.
    fn occupied_by(&self, server: &Server, count: usize) -> Vec<Client> {
        let clients = asking(server, count);
        wait_until("its requests are there", PATIENCE, || self.begun.load(Ordering::SeqCst) >= count);
        clients
    }

    /// Answers those requests, which must succeed.
    fn let_go(&self, mut clients: Vec<Client>) {
        self.is_let_go.store(true, Ordering::SeqCst);
        assert!(clients.iter_mut().all(|client| client.answer().status == 200));
    }
}

/// Clients that have sent a request each.
fn asking(server: &Server, count: usize) -> Vec<Client> {
    let mut clients: Vec<Client> = (0..count).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    clients
}

fn at_once(server: &Server, count: usize) -> Vec<u16> {
    asking(server, count).iter_mut().map(|client| client.answer().status).collect()
}

#[test]
fn connections_are_limited_for_all_cores_and_waited_for() {
    let most = Arc::new(AtomicUsize::new(0));
    let origin = slow(&most);
    let tree = Tree::standard();
    let server = proxy(&tree, &format!("{}connections = 2\n", to(&[&origin], &[])), "");
    assert!(at_once(&server, 12).iter().all(|status| *status == 200));
    assert!(most.load(Ordering::SeqCst) <= 2 && origin.connections() <= 2, "{}", origin.connections());
    // No request may wait: a request beyond the limit is refused at once.
    for keys in ["queue = 0", "queue_timeout = \"50ms\""] {
        let held = Held::start();
        let strict = proxy(&tree, &format!("{}connections = 1\n{keys}\n", to(&[&held.origin], &[])), "");
        let first = held.occupied_by(&strict, 1);
        assert_eq!(at_once(&strict, 5), [503; 5], "{keys}");
        held.let_go(first);
        assert_eq!(strict.get("/app/").status, 200, "{keys}: it is free again");
    }
}

#[test]
fn requests_under_way_are_limited_and_go_elsewhere() {
    let tree = Tree::standard();
    let held = Held::start();
    let server = proxy(&tree, &format!("{}requests = 3\n", to(&[&held.origin], &[])), "");
    let first = held.occupied_by(&server, 3);
    assert_eq!(at_once(&server, 9), [503; 9]);
    held.let_go(first);
    assert_eq!(held.begun.load(Ordering::SeqCst), 3);
    assert_eq!(server.get("/app/").status, 200, "it is free again");
    let (held, spare) = (Held::start(), super::saying("spare"));
    let keys = format!("{}requests = 3\n", to(&[&held.origin, &spare], &["", "backup"]));
    let server = proxy(&tree, &keys, "");
    // The limit holds for each origin.
    let first = held.occupied_by(&server, 3);
    for _ in 0..6 {
        assert_eq!(server.get("/app/").body, b"spare");
    }
    held.let_go(first);
    assert_eq!(held.begun.load(Ordering::SeqCst), 3);
}

#[test]
fn idle_connections_serve_all_cores() {
    let origin = super::saying("ok");
    let tree = Tree::standard();
    let server = proxy(&tree, &to(&[&origin], &[]), "");
    for _ in 0..50 {
        // Each on its own connection: now one core answers, then another.
        assert_eq!(server.get("/app/").body, b"ok");
    }
    // One request at a time needs one connection, independent of the core.
    assert_eq!(origin.connections(), 1);
    let used_up = proxy(&tree, &format!("{}connection_requests = 10\n", to(&[&origin], &[])), "");
    for _ in 0..50 {
        assert_eq!(used_up.get("/app/").body, b"ok");
    }
    assert_eq!(origin.connections(), 1 + 5);
    let none = proxy(&tree, &format!("{}idle_connections = 0\n", to(&[&origin], &[])), "");
    for _ in 0..5 {
        assert_eq!(none.get("/app/").body, b"ok");
    }
    assert_eq!(origin.connections(), 1 + 5 + 5);
}

#[test]
fn idle_connections_end_after_their_time() {
    let ended = Arc::new(AtomicUsize::new(0));
    let counter = ended.clone();
    let origin = Origin::start(move |stream| {
        while read_head(stream).is_some() {
            say(stream, "ok");
        }
        counter.fetch_add(1, Ordering::SeqCst);
    });
    let tree = Tree::standard();
    let server = proxy(&tree, &format!("{}keep_alive_timeout = \"100ms\"\n", to(&[&origin], &[])), "");
    assert_eq!(server.get("/app/").body, b"ok");
    wait_until("it is closed without another request", Duration::from_secs(60), || {
        ended.load(Ordering::SeqCst) == 1
    });
}

#[test]
fn a_body_can_be_waited_for_before_an_origin_is_asked() {
    let origin = repeating();
    let tree = Tree::standard();
    for (keys, connections) in [("buffer_request = \"1KiB\"\n", 0), ("", 1)] {
        let before = origin.connections();
        let server = proxy(&tree, &format!("{}{keys}", to(&[&origin], &[])), "");
        let mut client = server.connect();
        client.send("POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n");
        client.send("hello");
        if connections == 1 {
            wait_until("it is asked at once", Duration::from_secs(60), || origin.connections() > before);
        } else {
            thread::sleep(Duration::from_millis(200));
            assert_eq!(origin.connections(), before, "{keys}");
        }
        client.send("world");
        assert!(client.answer().body.ends_with(b"helloworld"));
        // A longer body streams.
        let long = "x".repeat(5000);
        client.send(format!("POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n{long}"));
        assert!(client.answer().body.ends_with(long.as_bytes()));
    }
}

#[test]
fn a_unix_socket_is_an_origin_too() {
    let tree = Tree::standard();
    let path = tree.around().join("app.sock");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut buffer = [0; 4096];
            thread::spawn(move || {
                while std::io::Read::read(&mut stream, &mut buffer).unwrap_or(0) > 0 {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nunix");
                }
            });
        }
    });
    let server = proxy(&tree, &format!("to = \"unix:{}\"\n", path.display()), "");
    for _ in 0..3 {
        assert_eq!(server.get("/app/").body, b"unix");
    }
    let mut client = server.connect();
    client.send("HEAD /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.try_answer(AnswerTo::Head).unwrap().status, 200);
}

#[test]
fn a_configuration_that_makes_no_sense_is_refused() {
    let tree = Tree::standard();
    for (keys, problem) in [
        ("to = []\n", "'to' must hold at least one"),
        ("to = \"ftp://a\"\n", "an origin is"),
        ("to = [\"http://a weight=0\"]\n", "a weight is from 1 to 10000"),
        ("to = [\"http://a backup\"]\n", "one origin must be neither backup nor drain"),
        ("to = [\"http://a\", \"http://a weight=2\"]\n", "listed twice"),
        ("to = \"http://a\"\nversion = \"auto\"\n", "needs an origin with https://"),
        ("to = \"http://a\"\nversion = \"2\"\nproxy_protocol = \"v1\"\n", "'proxy_protocol'"),
        ("to = \"https://a\"\ntls = { certificate = \"a.pem\" }\n", "'tls.certificate' and 'tls.key'"),
        ("to = \"https://a\"\ntls = { authorities = \"missing.pem\" }\n", "missing.pem"),
        ("to = \"http://a\"\nhash_by = \"url\"\n", "is none of"),
        ("to = \"http://a\"\nforward = { set = { Host = \"b\" } }\n", "is for the server to say"),
    ] {
        let text =
            format!("{}[[site.route]]\npath = \"/app/\"\n[site.route.proxy]\n{keys}", tree.configuration(""));
        let file = tree.around().join("wrong.toml");
        std::fs::write(&file, text).unwrap();
        let output = crate::support::run(["check", "--config", file.to_str().unwrap()]);
        let said =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(1), "{keys}{said}");
        assert!(said.contains(problem), "{keys}{said}");
    }
}
