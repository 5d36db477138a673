//! Bytes in both directions, whole and in order, at the pace of the slower side.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{PATIENCE, Rig, echo, exchange, origin_named, rest_of};
use crate::support::{Nginx, Origin, Tree, bytes_of, wait_until};

#[test]
fn bytes_pass_both_ways_and_a_half_close_is_kept() {
    let origin = origin_named("a");
    let rig = Rig::start(&format!("to = \"{}\"", origin.address));
    let body = bytes_of(3_000_000);
    let answer = exchange(rig.connect(), &body);
    assert!(answer.starts_with(b"a:"), "{} bytes", answer.len());
    assert!(answer[2..] == body[..], "{} bytes", answer.len());
    let line = rig.log(1).remove(0);
    let words: Vec<&str> = line.split(' ').collect();
    assert_eq!(words[1..3], ["test", "tcp"]);
    assert!(words[3].starts_with("127.0.0.1:"), "{line}");
    let origin = format!("tcp://{}", origin.address);
    assert_eq!(words[4..8], ["-", origin.as_str(), "3000000", "3000002"], "{line}");
    assert_eq!(words[9], "done", "{line}");
}

/// Many protocols begin with the server's greeting: it must not wait for bytes of the client.
#[test]
fn the_origin_may_speak_first() {
    let origin = origin_named("220 hello");
    let rig = Rig::start(&format!("to = \"{}\"", origin.address));
    let mut stream = rig.connect();
    let mut greeting = [0; 10];
    stream.read_exact(&mut greeting).expect("the greeting comes");
    assert_eq!(&greeting, b"220 hello:");
}

#[test]
fn an_origin_that_ends_first_still_gets_what_the_client_sends() {
    let received = Arc::new(AtomicUsize::new(0));
    let counted = received.clone();
    let origin = Origin::start(move |stream| {
        let _ = stream.write_all(b"bye");
        let _ = stream.shutdown(Shutdown::Write);
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        counted.store(rest.len(), Ordering::SeqCst);
    });
    let rig = Rig::start(&format!("to = \"{}\"", origin.address));
    let mut stream = rig.connect();
    assert_eq!(rest_of(&mut stream), b"bye");
    stream.write_all(&bytes_of(500_000)).expect("the stream takes it");
    stream.shutdown(Shutdown::Write).expect("a socket");
    wait_until("the origin has all of it", PATIENCE, || received.load(Ordering::SeqCst) == 500_000);
    assert_eq!(rig.ends(1), ["done"]);
}

#[test]
fn a_client_that_stops_reading_makes_the_origin_wait() {
    const WHOLE: usize = 96 << 20;
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = sent.clone();
    let origin = Origin::start(move |stream| {
        let piece = vec![b'x'; 64 << 10];
        for _ in 0..WHOLE / piece.len() {
            if stream.write_all(&piece).is_err() {
                return;
            }
            counted.fetch_add(piece.len(), Ordering::SeqCst);
        }
    });
    let rig = Rig::start(&format!("to = \"{}\"", origin.address));
    let mut stream = rig.connect();
    let mut before = usize::MAX;
    wait_until("the origin waits", PATIENCE, || {
        std::thread::sleep(Duration::from_millis(300));
        let now = sent.load(Ordering::SeqCst);
        let is_still = now > 0 && now == before;
        before = now;
        is_still
    });
    // What the kernel holds on both connections, and no more than `buffer_bytes` of the server.
    assert!(before < WHOLE / 2, "{before} bytes have left the origin");
    let mut received = 0;
    let mut buffer = vec![0; 256 << 10];
    while let Ok(count) = stream.read(&mut buffer) {
        received += count;
        if count == 0 {
            break;
        }
    }
    assert_eq!(received, WHOLE);
}

#[test]
fn an_idle_connection_and_one_that_is_too_old_are_closed() {
    let origin = echo();
    let short = Rig::start(&format!("to = \"{}\"\nidle_timeout = \"300ms\"", origin.address));
    assert_eq!(rest_of(&mut short.connect()), b"");
    assert_eq!(short.ends(1), ["idle"]);
    let rig = Rig::start(&format!("to = \"{}\"\ntotal_timeout = \"1s\"", origin.address));
    let mut busy = rig.connect();
    let mut byte = [0];
    while busy.write_all(b"x").is_ok() && busy.read_exact(&mut byte).is_ok() {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(rig.ends(1), ["lifetime"]);
}

/// What an origin sends before it breaks off reaches the client, though the client is still sending.
#[test]
fn an_origin_that_breaks_off_takes_nothing_from_the_client() {
    let origin = Origin::start(|stream| {
        let mut first = [0; 10];
        let _ = stream.read_exact(&mut first);
        let _ = stream.write_all(&bytes_of(200_000));
        // Closed with unread bytes: the kernel sends a reset.
    });
    let rig = Rig::start(&format!("to = \"{}\"", origin.address));
    let mut stream = rig.connect();
    // The reset may be here before all is sent.
    let _ = stream.write_all(&bytes_of(100_000));
    let received = rest_of(&mut stream);
    assert!(received.len() <= 200_000 && received == bytes_of(200_000)[..received.len()]);
    // A reset may overtake bytes on their way from the origin; none is invented, and the log states which
    // side reset the connection.
    assert!(["done", "origin"].contains(&rig.ends(1)[0].as_str()));
}

#[test]
fn another_origin_takes_over_from_one_that_is_down() {
    let (origin, spare) = (origin_named("a"), origin_named("b"));
    let down = format!("127.0.0.1:{}", crate::support::free_port());
    let rig = Rig::start(&format!(
        "to = [\"{down}\", \"{}\", \"{} backup\"]\nbalance = \"round_robin\"\n\
         health = {{ max_failures = 2 }}",
        origin.address, spare.address
    ));
    for _ in 0..8 {
        assert_eq!(exchange(rig.connect(), b"x"), b"a:x");
    }
    rig.server.wait_for_error_line("says that the origin is left alone", |line| {
        line.contains(&format!("origin tcp://{down} gets no requests for a while"))
    });
    assert_eq!(spare.connections(), 0);
}

#[test]
fn without_an_origin_the_connection_is_closed_and_the_log_says_so() {
    let down = format!("127.0.0.1:{}", crate::support::free_port());
    let rig = Rig::start(&format!("to = \"{down}\"\nlog_format = \"json\""));
    assert_eq!(rest_of(&mut rig.connect()), b"");
    let line: serde_json::Value = serde_json::from_str(&rig.log(1)[0]).expect("a line of JSON");
    assert_eq!(line["end"], "no_origin");
    assert_eq!(line["stream"], "test");
    assert_eq!(line["received_bytes"], 0);
}

/// A listener whose queue is full: its connections are neither established nor refused.
#[test]
fn a_black_hole_is_left_after_the_time_limit() {
    use rustix::net::{
        AddressFamily, SocketFlags, SocketType, bind, connect, getsockname, listen, socket_with,
    };
    // A program that another test starts must not hold it open.
    let socket = || socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let hole = socket().expect("a socket");
    bind(&hole, &std::net::SocketAddr::from(([127, 0, 0, 1], 0))).expect("a socket");
    listen(&hole, 0).expect("a socket");
    let address = std::net::SocketAddr::try_from(getsockname(&hole).expect("a socket")).expect("an address");
    let fill = || {
        let client = socket().expect("a socket");
        rustix::io::ioctl_fionbio(&client, true).expect("a socket");
        let _ = connect(&client, &address);
        client
    };
    let _full: Vec<_> = (0..8).map(|_| fill()).collect();
    let origin = origin_named("a");
    let rig = Rig::start(&format!(
        "to = [\"{address} weight=10000\", \"{}\"]\nbalance = \"round_robin\"\nconnect_timeout = \"300ms\"",
        origin.address
    ));
    assert_eq!(exchange(rig.connect(), b"x"), b"a:x");
}

#[test]
fn checks_find_an_origin_down_and_up_again() {
    let port = crate::support::free_port();
    let origin = origin_named("a");
    let rig = Rig::start(&format!(
        "to = [\"127.0.0.1:{port}\", \"{}\"]\ncheck = {{ interval = \"50ms\", rise = 1, fall = 2 }}",
        origin.address
    ));
    let name = format!("origin tcp://127.0.0.1:{port}");
    rig.server.wait_for_error_line("says that it is down", |line| {
        line.contains(&format!("{name} fails its checks"))
    });
    let _listener = std::net::TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
    rig.server.wait_for_error_line("says that it is up", |line| {
        line.contains(&format!("{name} passes its checks again"))
    });
}

#[test]
fn clients_of_one_address_stay_with_one_origin() {
    let (one, other) = (origin_named("a"), origin_named("b"));
    let rig = Rig::start(&format!(
        "to = [\"{}\", \"{}\"]\nbalance = \"hash\"\nproxy_protocol_from = [\"127.0.0.1\"]",
        one.address, other.address
    ));
    let ask = |client: u8| {
        let header = format!("PROXY TCP4 192.0.2.{client} 198.51.100.2 12345 443\r\nx");
        exchange(rig.connect(), header.as_bytes())
    };
    let first: Vec<Vec<u8>> = (0..40).map(ask).collect();
    assert_eq!(first, (0..40).map(ask).collect::<Vec<_>>());
    assert!(first.contains(&b"a:x".to_vec()) && first.contains(&b"b:x".to_vec()), "{first:?}");
}

/// nginx reads the header, of both versions.
#[test]
fn nginx_learns_the_client_by_the_proxy_protocol() {
    let tree = Tree::empty();
    let server = "location / { return 200 \"$proxy_protocol_addr $proxy_protocol_port\"; }";
    let Some(nginx) = Nginx::start(&tree, "proxy_protocol", server) else { return };
    for version in ["v1", "v2"] {
        let rig = Rig::start(&format!(
            "to = \"{}\"\nproxy_protocol = \"{version}\"\nproxy_protocol_from = [\"127.0.0.0/8\"]",
            nginx.address
        ));
        let header = "PROXY TCP4 192.0.2.7 198.51.100.2 4711 443\r\n";
        let request = format!("{header}GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let mut stream = rig.connect();
        stream.write_all(request.as_bytes()).expect("the stream takes it");
        let answer = String::from_utf8_lossy(&rest_of(&mut stream)).into_owned();
        assert!(answer.ends_with("192.0.2.7 4711"), "{version}: {answer}");
        // The connection ends when both sides have ended.
        drop(stream);
        let line = rig.log(1).remove(0);
        assert!(line.contains(" 192.0.2.7:4711 "), "{line}");
    }
}
