//! Signals: a loaded server drains without a failed request, applies a changed configuration, and opens its
//! logs again.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::{
    ALPHABET, AnswerTo, Client, Load, SECOND, Server, Tree, bytes_of, free_port, under_load, wait_until,
};
use rustix::process::Signal;

/// Far longer than any of this takes.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn sigterm_under_load_fails_no_request() {
    // From the cache in one write, and a body that takes several writes.
    for (size, rounds) in [(6_250, 4), (700_000, 2)] {
        let body = bytes_of(size);
        for _ in 0..rounds {
            let tree = Tree::empty();
            tree.write("page.bin", &body);
            let mut server = Server::quick(&tree.root());
            let load = Load::new(server.address(), &body);
            under_load(&load, || {
                load.wait_for_answers(if size < 10_000 { 1000 } else { 100 });
                load.may_end.store(true, Ordering::Relaxed);
                server.stop();
            });
        }
    }
}

#[test]
fn sigint_stops_as_sigterm_does() {
    let tree = Tree::standard();
    let mut server = Server::quick(&tree.root());
    server.assert_serves("/alphabet.txt", ALPHABET.as_bytes());
    server.signal(Signal::INT);
    assert_eq!(server.wait().code(), Some(0));
    assert!(is_refused(server.address()), "somebody still listens");
}

#[test]
fn an_idle_server_stops_at_once() {
    let tree = Tree::standard();
    let text = tree.configuration(
        "[server]\ndrain_timeout = \"600s\"\n[limits]\nkeep_alive_timeout = \"600s\"\n\
         header_timeout = \"600s\"",
    );
    let mut server = Server::configured(tree.around(), &text);
    let mut idle: Vec<Client> = (0..10).map(|_| server.connect()).collect();
    for client in &mut idle {
        assert_eq!(client.ask("GET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
    }
    let silent: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    server.signal(Signal::TERM);
    // These connections are idle: they are closed without an answer, and the stop does not wait for their
    // timeouts.
    for client in &mut idle {
        client.end();
    }
    assert_eq!(server.wait().code(), Some(0));
    // Connections without a request may not even be accepted yet (TCP_DEFER_ACCEPT): then the kernel forgets
    // them, and they get an error when they send. The test requires only that no byte was sent to them.
    for mut client in silent {
        client.set_patience(Duration::from_millis(50));
        let (received, _) = client.read_to_end();
        assert!(received.is_empty(), "a word to a silent client: {}", crate::support::shown(&received));
    }
}

#[test]
fn a_download_under_way_is_finished() {
    let tree = Tree::empty();
    let body = bytes_of(24 << 20);
    tree.write("large.bin", &body);
    let mut server = Server::quick(&tree.root());
    let mut client = Client::connect_with_small_buffer(server.address());
    client.send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    client.wait_for_bytes(500_000);
    server.signal(Signal::TERM);
    wait_until("nobody listens any more", PATIENCE, || is_refused(server.address()));
    assert!(server.is_running(), "it ended with an active download");
    let answer = client.answer();
    assert!(answer.body == body, "{} of {} bytes", answer.body.len(), body.len());
    client.end();
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_request_under_way_is_finished_and_told_close() {
    let tree = Tree::standard();
    // One core: the probes below are read by the core that reads the others.
    let root = tree.root();
    let arguments: [&OsStr; 8] = [
        "--root".as_ref(),
        root.as_os_str(),
        "--listen".as_ref(),
        "127.0.0.1:0".as_ref(),
        "--access-log".as_ref(),
        "off".as_ref(),
        "--cores".as_ref(),
        "1".as_ref(),
    ];
    let mut server = Server::start(arguments);
    let half = "GET /second.txt HTTP/1.1\r\nHost: a\r\n";
    let mut in_head = server.connect();
    assert_eq!(in_head.ask("GET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
    in_head.send(half);
    let mut new = server.connect();
    new.send(half);
    let mut in_body = server.connect();
    // An answer waits for the end of a body in chunks, and not for one whose length is known.
    in_body.send("GET /second.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel");
    let mut behind = server.connect();
    behind.send("GET /second.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel");
    assert_eq!(behind.answer().status, 200);
    let mut expecting = server.connect();
    expecting
        .send("GET /second.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(expecting.answer().status, 100);
    // A request that the server has read whole proves that it has read those sent before on other
    // connections.
    for _ in 0..20 {
        server.assert_serves("/alphabet.txt", ALPHABET.as_bytes());
    }
    server.signal(Signal::TERM);
    wait_until("nobody listens any more", PATIENCE, || is_refused(server.address()));
    in_head.send("\r\n");
    new.send("\r\n");
    in_body.send("\r\n2\r\nlo\r\n0\r\n\r\n");
    // The rest of a body that is not needed does not hold the server up.
    behind.end();
    expecting.send("hello");
    for (name, client) in
        [("kept", &mut in_head), ("new", &mut new), ("body", &mut in_body), ("expecting", &mut expecting)]
    {
        let answer = client.try_answer(AnswerTo::Other).unwrap_or_else(|broken| panic!("{name}: {broken}"));
        assert_eq!((answer.status, answer.body.as_slice()), (200, SECOND.as_bytes()), "{name}");
        assert!(answer.says_close(), "{name}: an answer during the drain says close");
        client.end();
    }
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn the_drain_ends_after_its_timeout() {
    let tree = Tree::empty();
    fs::File::create(tree.file("large.bin")).and_then(|file| file.set_len(64 << 20)).expect("a large file");
    let sections =
        "[server]\ndrain_timeout = \"300ms\"\n[limits]\nstall_timeout = \"600s\"\nheader_timeout = \"600s\"";
    let mut server = Server::configured(tree.around(), &tree.configuration(sections));
    let mut stalled = Client::connect_with_small_buffer(server.address());
    stalled.send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    stalled.wait_for_bytes(1000);
    let mut half = server.connect();
    half.send("GET /large");
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0), "the drain's end is not a failure");
    let (received, _) = stalled.read_to_end();
    assert!(received.len() < 64 << 20);
}

/// Whether the kernel refuses the connection because no process listens. A connection that only gets no
/// answer is not refused: its client would wait for its own timeout, and a successor could not listen there.
fn is_refused(address: SocketAddr) -> bool {
    // A SYN that was dropped while the listener was being closed is sent again after one second.
    let attempt = TcpStream::connect_timeout(&address, Duration::from_secs(2));
    attempt.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

fn write_configuration(path: &Path, text: &str) {
    fs::write(path, text).expect("the configuration is written");
}

#[test]
fn sighup_takes_up_root_limits_and_listeners() {
    let tree = Tree::standard();
    fs::create_dir(tree.beside("other")).expect("another root");
    fs::write(tree.beside("other/alphabet.txt"), "other\n").expect("a file in it");
    let (kept, removed, added) = (free_port(), free_port(), free_port());
    let site = |root: &str, ports: [u16; 2]| {
        let listen = format!("\"127.0.0.1:{}\", \"127.0.0.1:{}\"", ports[0], ports[1]);
        format!("[[site]]\nlisten = [{listen}]\nroot = {:?}\n", tree.beside(root))
    };
    let server = Server::configured(tree.around(), &site("root", [kept, removed]));
    let path = tree.beside("touchstone.toml");
    let on = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let ask = |client: &mut Client| client.ask("GET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut before = Client::connect(on(kept));
    let mut before_on_removed = Client::connect(on(removed));
    for client in [&mut before, &mut before_on_removed] {
        assert_eq!(ask(client).body, ALPHABET.as_bytes());
    }
    assert!(Client::try_connect(on(added)).is_err());

    write_configuration(
        &path,
        &format!("[limits]\nrequest_line_bytes = 100\n{}", site("other", [kept, added])),
    );
    server.signal(Signal::HUP);
    wait_until("the added listener is there", PATIENCE, || Client::try_connect(on(added)).is_ok());
    wait_until("the removed listener is gone", PATIENCE, || Client::try_connect(on(removed)).is_err());
    wait_until("the new root is served", PATIENCE, || ask(&mut Client::connect(on(kept))).body == b"other\n");
    // Another core may take it up later.
    wait_until("so it is on the added one", PATIENCE, || {
        ask(&mut Client::connect(on(added))).body == b"other\n"
    });
    let long = format!("GET /alphabet.txt?{} HTTP/1.1\r\nHost: a\r\n\r\n", "q".repeat(200));
    wait_until("the new limit holds", PATIENCE, || Client::connect(on(kept)).ask(&long).status == 414);
    // An earlier connection is served from the new root; one to the removed listener until it ends.
    wait_until("so it is on an earlier connection", PATIENCE, || ask(&mut before).body == b"other\n");
    if !before_on_removed.is_ended() {
        before_on_removed.try_send(b"GET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n").ok();
        if let Ok(answer) = before_on_removed.try_answer(AnswerTo::Other) {
            // Served, or answered with 421 (RFC 9110 section 15.5.20).
            assert!(matches!(answer.status, 200 | 421), "status {}", answer.status);
        }
    }

    // And back: a listener that was removed can be added.
    write_configuration(&path, &site("root", [kept, removed]));
    server.signal(Signal::HUP);
    wait_until("the listener is there again", PATIENCE, || Client::try_connect(on(removed)).is_ok());
    wait_until("the old root is served again", PATIENCE, || {
        ask(&mut Client::connect(on(kept))).body == ALPHABET.as_bytes()
    });
    wait_until("the old limit holds", PATIENCE, || Client::connect(on(kept)).ask(&long).status == 200);
}

#[test]
fn sighup_under_load_fails_no_request() {
    let tree = Tree::empty();
    let body = bytes_of(6_250);
    tree.write("page.bin", &body);
    let port = free_port();
    let text = |number: usize| {
        let root = tree.root();
        // Each configuration differs; every fourth time a listener is added or removed as well.
        let extra = if number % 8 < 4 { "" } else { ", \"127.0.0.1:0\"" };
        let limits = format!("[limits]\nkeep_alive_timeout = \"{}s\"\n", 60 + number);
        format!("{limits}[[site]]\nlisten = [\"127.0.0.1:{port}\"{extra}]\nroot = {root:?}\n")
    };
    let mut server = Server::configured(tree.around(), &text(0));
    let load = Load::new(server.address(), &body);
    under_load(&load, || {
        for number in 1..20 {
            write_configuration(&tree.beside("touchstone.toml"), &text(number));
            server.signal(Signal::HUP);
            load.wait_for_answers(200);
        }
        load.may_end.store(true, Ordering::Relaxed);
        server.stop();
    });
}

#[test]
fn a_bad_configuration_on_sighup_changes_nothing() {
    let tree = Tree::standard();
    let server = Server::configured(tree.around(), &tree.configuration(""));
    let path = tree.beside("touchstone.toml");
    let good = fs::read_to_string(&path).expect("it was written");
    let busy = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let in_use = busy.local_addr().expect("it is bound");
    let mut kept = server.connect();
    let table: [(&str, String, usize, &str); 5] = [
        ("an unknown key", format!("{good}rooot = 1\n"), good.lines().count() + 1, "root"),
        ("a syntax error", "[[site]\n".to_owned(), 1, ""),
        ("a value that cannot be", format!("[limits]\nranges = \"many\"\n{good}"), 2, "ranges"),
        ("a root that is missing", good.replace("root\"", "missing\""), good.lines().count(), "missing"),
        ("no site", "[limits]\nranges = 5\n".to_owned(), 0, "site"),
    ];
    for (name, text, line, word) in table {
        write_configuration(&path, &text);
        server.signal(Signal::HUP);
        let place = match line {
            0 => path.display().to_string(),
            line => format!("{}:{line}:", path.display()),
        };
        server.wait_for_error_line(&format!("names {place} and {word:?} after {name}"), |logged| {
            logged.contains(&place) && logged.contains(word)
        });
        let answer = kept.ask("GET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(answer.body, ALPHABET.as_bytes(), "after {name}");
        server.assert_serves("/second.txt", SECOND.as_bytes());
    }
    // A listener that cannot be opened, beside one that can and a changed root: no part of it is applied.
    fs::create_dir(tree.beside("other")).expect("another root");
    let other =
        format!("[[site]]\nlisten = [\"127.0.0.1:0\", \"{in_use}\"]\nroot = {:?}\n", tree.beside("other"));
    write_configuration(&path, &other);
    server.signal(Signal::HUP);
    server.wait_for_error_line("names the address in use", |line| line.contains(&in_use.to_string()));
    server.assert_serves("/alphabet.txt", ALPHABET.as_bytes());
    // After the file is repaired, the signal works again.
    write_configuration(&path, &good.replace("[[site]]", "[limits]\nrequest_line_bytes = 100\n[[site]]"));
    server.signal(Signal::HUP);
    let long = format!("GET /?{} HTTP/1.1\r\nHost: a\r\n\r\n", "q".repeat(200));
    wait_until("the corrected file is applied", PATIENCE, || server.connect().ask(&long).status == 414);
}

#[test]
fn sighup_without_a_configuration_file_ends_nothing() {
    let tree = Tree::standard();
    let mut server = Server::quick(&tree.root());
    server.signal(Signal::HUP);
    server.wait_for_error_line("says that there is nothing to read again", |line| line.contains("SIGHUP"));
    server.assert_serves("/alphabet.txt", ALPHABET.as_bytes());
    server.stop();
}

/// The targets in a Common log, in order.
fn targets_in(log: &Path) -> Vec<String> {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().filter_map(|line| Some(line.split(' ').nth(6)?.to_owned())).collect()
}

#[test]
fn sigusr1_opens_the_logs_again() {
    let tree = Tree::standard();
    let (access, errors) = (tree.beside("access.log"), tree.beside("error.log"));
    let sections = format!("[access_log]\npath = {access:?}\nformat = \"common\"\n");
    let mut server = Server::configured(tree.around(), &tree.configuration(&sections));
    server.get("/alphabet.txt?first");
    wait_until("the first line is written", PATIENCE, || targets_in(&access) == ["/alphabet.txt?first"]);
    let old = tree.beside("access.log.1");
    fs::rename(&access, &old).expect("renamed");
    // Until the signal, lines are written to the renamed file.
    server.get("/alphabet.txt?second");
    wait_until("the second line is written", PATIENCE, || targets_in(&old).len() == 2);
    assert!(!access.exists());
    server.signal(Signal::USR1);
    wait_until("the log is made again", PATIENCE, || access.exists());
    server.get("/alphabet.txt?third");
    wait_until("the third line is in the new log", PATIENCE, || {
        targets_in(&access) == ["/alphabet.txt?third"]
    });
    assert_eq!(targets_in(&old), ["/alphabet.txt?first", "/alphabet.txt?second"]);
    server.stop();
    assert_eq!(targets_in(&access), ["/alphabet.txt?third"]);

    // The error log too.
    let sections = format!("[error_log]\npath = {errors:?}\n");
    let path = tree.beside("errors.toml");
    write_configuration(&path, &tree.configuration(&sections));
    let errors_text = || fs::read_to_string(&errors).unwrap_or_default();
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_touchstone"))
        .args(["serve", "--config"])
        .arg(&path)
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    let signal = |child: &std::process::Child, signal| {
        rustix::process::kill_process(rustix::process::Pid::from_child(child), signal)
            .expect("it can be signalled");
    };
    wait_until("it says where it listens in its error log", PATIENCE, || {
        errors_text().contains("listening on http://")
    });
    fs::rename(&errors, tree.beside("error.log.1")).expect("renamed");
    signal(&child, Signal::USR1);
    wait_until("the error log is made again", PATIENCE, || errors.exists());
    write_configuration(&path, "bad\n");
    signal(&child, Signal::HUP);
    wait_until("what is wrong is in the new log", PATIENCE, || errors_text().contains("errors.toml:1:"));
    signal(&child, Signal::TERM);
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn sigusr1_under_load_loses_no_line() {
    let tree = Tree::empty();
    let body = bytes_of(500);
    tree.write("page.bin", &body);
    let access = tree.beside("access.log");
    let sections = format!("[access_log]\npath = {access:?}\nformat = \"common\"\n");
    let mut server = Server::configured(tree.around(), &tree.configuration(&sections));
    let load = Load::new(server.address(), &body);
    let rotations = 8;
    under_load(&load, || {
        for rotation in 0..rotations {
            load.wait_for_answers(200);
            fs::rename(&access, tree.beside(&format!("access.log.{rotation}"))).expect("renamed");
            server.signal(Signal::USR1);
            wait_until("the log is made again", PATIENCE, || access.exists());
        }
        load.may_end.store(true, Ordering::Relaxed);
        server.stop();
    });
    let old = (0..rotations).map(|rotation| tree.beside(&format!("access.log.{rotation}")));
    let lines: usize = old.chain([access.clone()]).map(|log| targets_in(&log).len()).sum();
    // The pipelined client leaves answers unread when the server announces the close; the log may contain
    // those as well.
    let answered = load.answered.load(Ordering::Relaxed);
    assert!(lines >= answered && lines <= answered + 8, "{lines} lines for {answered} answers");
}
