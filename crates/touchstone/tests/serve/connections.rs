//! Connections that behave badly, and very many that behave well: timeouts, limits, slow readers, clients
//! that disappear, a thousand at once.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::time::{Duration, Instant};

use crate::support::{
    ALPHABET, AnswerTo, Broken, Client, SECOND, Server, Tree, bytes_of, raise_open_files, skipped, wait_until,
};

const SECOND_REQUEST: &str = "GET /second.txt HTTP/1.1\r\nHost: a\r\n\r\n";
const ALPHABET_REQUEST: &str = "GET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n";

/// Long enough for anything that the server should do at once or after one of its (short) timeouts.
const PATIENCE: Duration = Duration::from_secs(60);

fn with_limits(limits: &str) -> (Tree, Server) {
    with_cores_and_limits(2, limits)
}

fn with_cores_and_limits(cores: usize, limits: &str) -> (Tree, Server) {
    let tree = Tree::standard();
    let sections = format!("[server]\ncores = {cores}\n[limits]\n{limits}\n");
    let server = Server::configured(tree.around(), &tree.configuration(&sections));
    (tree, server)
}

/// A file of holes that no kernel buffer can take whole.
fn add_large_file(tree: &Tree) -> u64 {
    const LENGTH: u64 = 64 << 20;
    File::create(tree.file("large.bin"))
        .and_then(|file| file.set_len(LENGTH))
        .expect("a large file of holes");
    LENGTH
}

#[test]
fn a_head_that_does_not_end_is_answered_with_408() {
    let (_tree, server) = with_limits("header_timeout = \"300ms\"");
    for start in [
        "G",
        "GET / HTTP/1.1",
        "GET / HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: y",
        "GET / HTTP/1.1\r\nHost: a\r\n",
    ] {
        let mut client = server.connect();
        client.send(start);
        let answer = client.answer();
        assert_eq!(answer.status, 408, "after {start:?}");
        assert!(answer.says_close());
        client.end();
    }
}

#[test]
fn a_head_byte_by_byte_is_answered_with_408_whatever_its_pace() {
    // Each byte is progress; still, the time for the whole head runs from the first byte (Slowloris).
    let (_tree, server) = with_limits("header_timeout = \"300ms\"");
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nX: ");
    let until = Instant::now() + PATIENCE;
    client.set_patience(Duration::from_millis(20));
    let mut received = Vec::new();
    loop {
        assert!(Instant::now() < until, "no answer to a head that has no end");
        match client.try_answer(AnswerTo::Other) {
            Ok(answer) => {
                assert_eq!(answer.status, 408);
                break;
            }
            Err(Broken::Silent { received: part }) => {
                received.extend_from_slice(&part);
                assert!(received.is_empty(), "half an answer: {}", crate::support::shown(&received));
                // Fails once the server has closed; by then the answer is there.
                client.try_send(b"y").ok();
            }
            Err(broken) => panic!("{broken}"),
        }
    }
}

#[test]
fn a_second_head_that_does_not_end_is_answered_with_408() {
    let (_tree, server) = with_limits("header_timeout = \"300ms\"\nkeep_alive_timeout = \"600s\"");
    let mut client = server.connect();
    assert_eq!(client.ask(ALPHABET_REQUEST).status, 200);
    client.send("GET /second.txt HT");
    assert_eq!(client.answer().status, 408);
    client.end();
    // The same, when the beginning arrived together with the first request.
    let mut client = server.connect();
    assert_eq!(client.ask(format!("{ALPHABET_REQUEST}GET /second")).status, 200);
    assert_eq!(client.answer().status, 408);
    client.end();
}

#[test]
fn a_body_that_stalls_is_answered_with_408() {
    let (_tree, server) = with_limits("stall_timeout = \"300ms\"");
    let framings = [
        ("Transfer-Encoding: chunked\r\n\r\n5\r\nhel", 408),
        ("Transfer-Encoding: chunked\r\n\r\n", 408),
        // The answer does not wait for a body that cannot change it; the connection ends all the same.
        ("Content-Length: 10\r\n\r\nhello", 200),
    ];
    for (framing, status) in framings {
        let mut client = server.connect();
        client.send(format!("GET /alphabet.txt HTTP/1.1\r\nHost: a\r\n{framing}"));
        let answer = client.answer();
        assert_eq!(answer.status, status, "{framing:?}");
        client.end();
    }
}

#[test]
fn a_connection_that_says_nothing_is_closed_without_a_word() {
    let (_tree, server) = with_limits("header_timeout = \"300ms\"");
    let mut clients: Vec<Client> = (0..20).map(|_| server.connect()).collect();
    // The kernel may hold a silent connection back from the server for a while (TCP_DEFER_ACCEPT).
    for client in &mut clients {
        client.set_patience(PATIENCE);
        client.end();
    }
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let (_tree, server) = with_limits("keep_alive_timeout = \"300ms\"");
    let mut client = server.connect();
    // Both at once: the second could come after the timeout otherwise.
    client.send(format!("{ALPHABET_REQUEST}{SECOND_REQUEST}"));
    assert_eq!(client.answer().status, 200);
    assert_eq!(client.answer().status, 200);
    client.end();
    server.assert_serves("/second.txt", SECOND.as_bytes());
}

#[test]
fn an_idle_connection_outlives_the_header_timeout() {
    let (_tree, server) = with_limits("header_timeout = \"200ms\"\nkeep_alive_timeout = \"600s\"");
    let mut client = server.connect();
    assert_eq!(client.ask(ALPHABET_REQUEST).status, 200);
    // No bytes for longer than the header timeout: another connection's 408 shows that it has passed.
    for _ in 0..2 {
        let mut other = server.connect();
        other.send("GET");
        assert_eq!(other.answer().status, 408);
    }
    assert_eq!(client.ask(SECOND_REQUEST).status, 200);
}

#[test]
fn the_last_of_the_allowed_requests_says_so() {
    let (_tree, server) = with_limits("keep_alive_requests = 3");
    let mut client = server.connect();
    assert!(!client.ask(ALPHABET_REQUEST).says_close());
    assert!(!client.ask("GET /missing HTTP/1.1\r\nHost: a\r\n\r\n").says_close());
    let third = client.ask(ALPHABET_REQUEST);
    assert_eq!((third.status, third.says_close()), (200, true));
    client.end();
    // Pipelined: requests after the third are not answered.
    let mut client = server.connect();
    client.send(ALPHABET_REQUEST.repeat(5));
    for request in 1..=3 {
        let answer = client.answer();
        assert_eq!((answer.status, answer.says_close()), (200, request == 3), "request {request}");
    }
    client.end();
    // HTTP/1.0: the answer no longer offers to keep the connection.
    let old = "GET /alphabet.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    let mut client = server.connect();
    assert_eq!(client.ask(old).field("connection"), Some("keep-alive"));
    assert_eq!(client.ask(old).field("connection"), Some("keep-alive"));
    assert_ne!(client.ask(old).field("connection"), Some("keep-alive"));
    client.end();
}

#[test]
fn one_request_a_connection_if_told() {
    let (_tree, server) = with_limits("keep_alive_requests = 1");
    let mut client = server.connect();
    let answer = client.ask(ALPHABET_REQUEST);
    assert_eq!((answer.status, answer.says_close()), (200, true));
    client.end();
}

#[test]
fn no_more_connections_than_are_allowed() {
    let (tree, server) = with_cores_and_limits(1, "connections = 4\nstall_timeout = \"600s\"");
    add_large_file(&tree);
    // Four busy connections: downloads whose clients have stopped reading.
    let mut busy: Vec<Client> = (0..4).map(|_| Client::connect_with_small_buffer(server.address())).collect();
    for client in &mut busy {
        client.send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        client.wait_for_bytes(1000);
    }
    // A fifth is refused or waits; it is not served while the four are open.
    let mut fifth = server.connect();
    fifth.set_patience(Duration::from_millis(500));
    fifth.try_send(SECOND_REQUEST.as_bytes()).ok();
    match fifth.try_answer(AnswerTo::Other) {
        Ok(answer) => assert_eq!(answer.status, 503, "the fifth of four connections"),
        Err(Broken::Silent { .. } | Broken::Closed { .. } | Broken::Reset { .. }) => {}
        Err(broken) => panic!("{broken}"),
    }
    drop(fifth);
    for client in &mut busy {
        client.wait_for_bytes(3 << 20);
    }
    busy.pop();
    wait_until("a connection that ended makes room for another", PATIENCE, || is_served(&server));
    drop(busy);
    wait_until("all room is given back", PATIENCE, || {
        let mut clients: Vec<Client> = (0..4).map(|_| server.connect()).collect();
        clients.iter_mut().all(gets_an_answer)
    });
}

#[test]
fn as_many_connections_as_are_allowed_whichever_core_they_come_to() {
    // The kernel spreads connections over the cores by chance; the limit is for all cores together.
    let (tree, server) = with_cores_and_limits(2, "connections = 4\nstall_timeout = \"600s\"");
    add_large_file(&tree);
    // Other sockets of the server may be opened and closed, so its sockets beside the connections are at
    // least those of before.
    let mut connected = server.settled_sockets() + 4;
    for round in 0..5 {
        let mut busy = Vec::new();
        for number in 0..4 {
            let mut client = Client::connect_with_small_buffer(server.address());
            client.send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
            client.set_patience(PATIENCE);
            let answered = client.try_answer(AnswerTo::Head);
            assert!(
                answered.is_ok(),
                "connection {number} of 4, round {round}: {}",
                answered.expect_err("it is not")
            );
            busy.push(client);
        }
        connected = connected.max(server.open_sockets());
        drop(busy);
        wait_until("the four are gone", PATIENCE, || server.open_sockets() + 4 <= connected);
    }
}

#[test]
fn idle_connections_make_room_for_new_ones() {
    // Otherwise a few idle clients could block all others for the length of the keep-alive timeout.
    let (_tree, server) = with_limits("connections = 4\nkeep_alive_timeout = \"600s\"");
    let mut idle: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    for client in &mut idle {
        assert_eq!(client.ask(ALPHABET_REQUEST).status, 200);
    }
    wait_until("a fifth client is served", PATIENCE, || is_served(&server));
    // A client whose connection was closed to make room saw an orderly end.
    for client in &mut idle {
        if client.is_ended() {
            client.end();
        }
    }
}

/// Whether a new connection gets an answer soon.
fn is_served(server: &Server) -> bool {
    Client::try_connect(server.address()).is_ok_and(|mut client| gets_an_answer(&mut client))
}

/// Whether a request on this connection is answered soon.
fn gets_an_answer(client: &mut Client) -> bool {
    client.set_patience(Duration::from_secs(5));
    client.try_send(SECOND_REQUEST.as_bytes()).is_ok()
        && client.try_answer(AnswerTo::Other).is_ok_and(|answer| answer.status == 200)
}

#[test]
fn a_reader_that_stalls_is_cut_and_others_are_served() {
    let (tree, server) = with_limits("stall_timeout = \"500ms\"");
    let length = add_large_file(&tree);
    server.assert_serves("/second.txt", SECOND.as_bytes());
    wait_until("nothing else is open", PATIENCE, || server.open_sockets() > 0);
    let idle = server.settled_sockets();
    let mut stalled = Client::connect_with_small_buffer(server.address());
    stalled.send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    stalled.wait_for_bytes(1000);
    // The client stops reading. Until the server cuts it and frees the socket, all other clients are served.
    wait_until("the reader that stalls is cut", PATIENCE, || {
        server.assert_serves("/alphabet.txt", ALPHABET.as_bytes());
        server.open_sockets() <= idle
    });
    let (received, end) = stalled.read_to_end();
    assert!(end.is_err(), "it was not reset");
    assert!((received.len() as u64) < length, "{} bytes went to a reader that did not read", received.len());
}

/// Bytes that the kernel holds for the clients of a server: sent and not acknowledged, or not sent.
fn held_by_the_kernel(server: &Server) -> u64 {
    let port = format!(":{:04X}", server.address().port());
    let table = std::fs::read_to_string("/proc/net/tcp").expect("a list of connections");
    let held = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let is_open = columns[1].ends_with(&port) && columns[3] == "01";
        is_open.then(|| u64::from_str_radix(columns[4].split(':').next()?, 16).ok()).flatten()
    };
    table.lines().skip(1).filter_map(held).sum()
}

#[test]
fn the_kernel_holds_little_of_an_unread_answer() {
    let (tree, server) = with_limits("stall_timeout = \"600s\"");
    add_large_file(&tree);
    let mut stalled = Client::connect_with_small_buffer(server.address());
    stalled.send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    stalled.wait_for_bytes(1000);
    // A look takes long where the machine is busy and has many connections: what counts is the time.
    let (mut held, mut since) = (0, Instant::now());
    wait_until("no more is taken", PATIENCE, || {
        let now = held_by_the_kernel(&server);
        if now == 0 || now != held {
            (held, since) = (now, Instant::now());
        }
        since.elapsed() > Duration::from_millis(500)
    });
    assert!((1..=512 << 10).contains(&held), "{held} bytes");
}

/// An HTTP/2 client can stop reading and still send much.
#[test]
fn an_http_2_client_that_opens_no_window_is_cut() {
    let (tree, server) = with_limits("stall_timeout = \"500ms\"");
    tree.write("long.txt", bytes_of(100_000));
    let mut client = Client::connect(server.address());
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    // SETTINGS_INITIAL_WINDOW_SIZE 10, and a GET.
    client.send(b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x0a");
    let fields = b"\x82\x86\x04\x09/long.txt\x01\x01a";
    client.send([b"\x00\x00", &[fields.len() as u8][..], b"\x01\x05\x00\x00\x00\x01", fields].concat());
    wait_until("it is cut", PATIENCE, || {
        client.try_send(b"\x00\x00\x08\x06\x00\x00\x00\x00\x00pingpong").is_err()
    });
    server.assert_serves("/alphabet.txt", ALPHABET.as_bytes());
}

#[test]
fn a_slow_reader_that_goes_on_is_not_cut() {
    let (tree, server) = with_limits("stall_timeout = \"4s\"");
    let length: usize = 3 << 20;
    let body = bytes_of(length);
    tree.write("medium.bin", &body);
    let mut slow = Client::connect_with_small_buffer(server.address());
    slow.send("GET /medium.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    // A little every 400 ms for longer than the timeout, then the rest.
    for step in 1..=15 {
        slow.wait_for_bytes(step * 60_000);
        std::thread::sleep(Duration::from_millis(400));
    }
    let answer = slow.answer();
    assert!(answer.body == body, "{} of {length} bytes", answer.body.len());
    slow.end();
}

#[test]
fn clients_that_disappear_leave_nothing_behind() {
    let (tree, server) =
        with_limits("header_timeout = \"600s\"\nstall_timeout = \"600s\"\nkeep_alive_timeout = \"600s\"");
    add_large_file(&tree);
    server.assert_serves("/second.txt", SECOND.as_bytes());
    let idle = server.settled_sockets();
    let beginnings: [&str; 7] = [
        "",
        "GET /alph",
        ALPHABET_REQUEST,
        "GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nhalf a bod",
        "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe",
        "GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
    ];
    for round in 0..60 {
        let mut client = Client::connect_with_small_buffer(server.address());
        client.send(beginnings[round % beginnings.len()]);
        if round % 4 == 0 && round % beginnings.len() == 3 {
            client.wait_for_bytes(5000);
        }
        // With a reset, and with an orderly end.
        if round % 2 == 0 {
            client.vanish();
        }
    }
    wait_until("every socket is given back", PATIENCE, || server.open_sockets() <= idle);
    server.assert_serves("/second.txt", SECOND.as_bytes());
}

#[test]
fn half_closed_connections_are_answered() {
    let (tree, server) = with_limits("");
    let body = bytes_of(6 << 20);
    tree.write("large.bin", &body);
    // Small and large bodies, kept open by the request or not, one and several.
    let mut client = server.connect();
    client.send(ALPHABET_REQUEST);
    client.send_end();
    assert_eq!(client.answer().body, ALPHABET.as_bytes());
    client.end();

    let mut client = Client::connect_with_small_buffer(server.address());
    client.send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    client.send_end();
    assert!(client.answer().body == body, "another body");
    client.end();

    let mut client = server.connect();
    client.send(format!("{ALPHABET_REQUEST}{SECOND_REQUEST}").repeat(20));
    client.send_end();
    for _ in 0..20 {
        assert_eq!(client.answer().body, ALPHABET.as_bytes());
        assert_eq!(client.answer().body, SECOND.as_bytes());
    }
    client.end();

    let mut client = server.connect();
    client.send("GET /alphabet.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    client.send_end();
    assert_eq!(client.answer().body, ALPHABET.as_bytes());
    client.end();

    // Closed in the middle of a request: the connection ends at once, with or without an error, or with an
    // answer that does not need the rest.
    let half_body = "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe";
    for half in ["", "GET /alpha", half_body] {
        let mut client = server.connect();
        client.send(half);
        client.send_end();
        let (received, ended) = client.read_to_end();
        assert!(ended.is_ok(), "after half a request {half:?}: {}", ended.expect_err("it is not"));
        let answers =
            crate::support::parse_all(&received).unwrap_or_else(|why| panic!("after {half:?}: {why}"));
        let is_allowed = |status| (400..500).contains(&status) || status == 200 && half == half_body;
        assert!(answers.iter().all(|answer| is_allowed(answer.status)), "after {half:?}");
    }
}

#[test]
fn a_thousand_connections_at_once() {
    const CONNECTIONS: usize = 1000;
    if !raise_open_files(CONNECTIONS as u64 + 200) {
        skipped("a thousand connections (raise the limit of open files, ulimit -n)");
        return;
    }
    let (_tree, server) = with_limits("header_timeout = \"600s\"\nkeep_alive_timeout = \"600s\"");
    let mut clients: Vec<Client> = (0..CONNECTIONS).map(|_| server.connect()).collect();
    for round in 0..3 {
        for client in &mut clients {
            client.send(ALPHABET_REQUEST);
        }
        for (number, client) in clients.iter_mut().enumerate() {
            let answer = client.answer();
            assert!(
                answer.status == 200 && answer.body == ALPHABET.as_bytes(),
                "client {number}, round {round}"
            );
        }
    }
    // They all end at once, and the server continues.
    drop(clients);
    server.assert_serves("/second.txt", SECOND.as_bytes());
}

#[test]
fn a_thousand_pipelined_requests_are_answered_in_order() {
    const REQUESTS: usize = 1000;
    let (tree, server) = with_limits("keep_alive_requests = 0");
    let bodies: Vec<Vec<u8>> = (0..10).map(|number| bytes_of(10_000 + number)).collect();
    for (number, body) in bodies.iter().enumerate() {
        tree.write(&format!("n/{number}"), body);
    }
    let mut client = Client::connect_with_small_buffer(server.address());
    let all: String = (0..REQUESTS)
        .map(|request| format!("GET /n/{} HTTP/1.1\r\nHost: a\r\n\r\n", request * 7 % 10))
        .collect();
    // The client reads none of the ten megabytes of answers before all requests are sent.
    client.send(&all);
    for request in 0..REQUESTS {
        let answer = client.answer();
        assert!(answer.status == 200 && answer.body == bodies[request * 7 % 10], "answer {request}");
    }
    assert_eq!(client.ask(SECOND_REQUEST).body, SECOND.as_bytes());
}

#[test]
fn a_client_that_only_sends_is_held_back() {
    // A server that kept reading although the client does not would have to keep all answers in memory.
    const MOST: usize = 100 << 20;
    let (tree, server) = with_limits("keep_alive_requests = 0\nstall_timeout = \"600s\"");
    let body = bytes_of(20_000);
    tree.write("page.bin", &body);
    let mut client = Client::connect_with_small_buffer(server.address());
    // Long requests: fewer of them fill the kernel's buffers.
    let request =
        format!("GET /page.bin HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "y".repeat(2000)).into_bytes();
    let request = &request[..];
    let batch = request.repeat(100);
    let mut sent = 0;
    client.stream().set_write_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    loop {
        match client.stream().write(&batch[sent % request.len()..]) {
            Ok(count) => sent += count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
            Err(error) => panic!("after {sent} bytes: {error}"),
        }
        assert!(sent < MOST, "{sent} bytes of requests were taken while no answer was read");
    }
    // Every request that the server took is answered in full; the partial request at the end is completed and
    // answered too.
    client.stream().set_write_timeout(Some(PATIENCE)).expect("a timeout");
    let requests = sent.div_ceil(request.len());
    let part = sent % request.len();
    let mut sender = client.stream().try_clone().expect("a second handle");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if part > 0 {
                sender.write_all(&request[part..]).expect("the rest is taken once answers are read");
            }
        });
        for number in 0..requests {
            let answer = client.answer();
            assert!(answer.status == 200 && answer.body == body, "answer {number} of {requests}");
        }
    });
    server.assert_serves("/second.txt", SECOND.as_bytes());
}

#[test]
fn a_large_error_request_does_not_hold_others_up() {
    // A client that keeps sending after a refusal is read for a while, so that the answer is not lost; other
    // clients are served at the same time.
    let (_tree, server) = with_limits("");
    let mut rude = server.connect();
    rude.send("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n");
    rude.stream().set_write_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    let piece = vec![b'x'; 64 * 1024];
    for _ in 0..50 {
        if rude.try_send(&piece).is_err() {
            break;
        }
    }
    server.assert_serves("/second.txt", SECOND.as_bytes());
    let answer = rude.answer();
    assert_eq!((answer.status, answer.says_close()), (413, true));
}
