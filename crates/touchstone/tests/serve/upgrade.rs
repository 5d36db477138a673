//! Upgrade of the running server: a new process takes over the sockets without a failed request; or it cannot
//! start, and the old one continues.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::{
    ALPHABET, Client, Load, Server, Tree, binary, bytes_of, error_lines, free_port, run, under_load,
    wait_until, write_program,
};
use rustix::process::{Pid, Signal};

/// Far longer than any of this takes.
const PATIENCE: Duration = Duration::from_secs(60);

const ASK: &str = "GET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n";

/// A server whose processes write their number to a file.
fn start(tree: &Tree, text: &str) -> Server {
    let mut server = Server::configured(tree.around(), text);
    server.succeeded_by(tree.beside("server.pid"));
    server
}

fn with_pid_file(cores: usize, more: &str) -> String {
    // What is held open on purpose is not cut on a busy machine.
    let drain = "drain_timeout = \"600s\"";
    format!("[server]\npid_file = \"server.pid\"\ncores = {cores}\n{drain}\n{more}\n")
}

/// `touchstone COMMAND --config ...` for the server of this tree.
fn command(tree: &Tree, name: &str, more: &[&str]) -> Output {
    let config = tree.beside("touchstone.toml");
    let config = config.to_str().expect("the path is text");
    run([name, "--config", config].iter().chain(more))
}

/// Upgrades, or fails the test; returns the new process.
fn upgrade(tree: &Tree, server: &Server) -> Pid {
    let before = server.serving_pid();
    let output = command(tree, "upgrade", &[]);
    assert!(output.status.success(), "{:?}", error_lines(&output));
    // The new process writes its number when the old one has released the sockets; the command need not wait
    // for that.
    let is_another = |now: Option<Pid>| now.is_some() && now != before;
    wait_until("the pid file names another process", PATIENCE, || is_another(server.serving_pid()));
    let now = server.serving_pid().expect("a process serves");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.trim(), format!("process {} has taken over", now.as_raw_nonzero()));
    now
}

fn set_configuration(tree: &Tree, text: &str) {
    fs::write(tree.beside("touchstone.toml"), text).expect("the configuration is written");
}

/// Stops the process that serves now.
fn stop(tree: &Tree, server: &mut Server) {
    let output = command(tree, "stop", &[]);
    assert!(output.status.success(), "{:?}", error_lines(&output));
    assert_eq!(server.serving_pid(), None, "the pid file is still there");
    assert_eq!(server.wait().code(), Some(0), "the first process");
}

#[test]
fn reloads_and_upgrades_under_load_fail_no_request() {
    let tree = Tree::empty();
    let body = bytes_of(6_250);
    tree.write("page.bin", &body);
    let port = free_port();
    let text = |cores: usize, round: usize| {
        let limits = format!("[limits]\nkeep_alive_timeout = \"{}s\"\n", 60 + round);
        let site = format!("[[site]]\nlisten = [\"127.0.0.1:{port}\"]\nroot = {:?}\n", tree.root());
        format!("{}{limits}{site}", with_pid_file(cores, ""))
    };
    let mut server = start(&tree, &text(2, 0));
    let load = Load::new(server.address(), &body);
    under_load(&load, || {
        let mut processes = vec![server.serving_pid()];
        // Fewer cores than before, more, and as many.
        for (generation, cores) in [(1, 1), (2, 3), (3, 3)] {
            for round in 0..7 {
                set_configuration(&tree, &text(cores, generation * 10 + round));
                let output = command(&tree, "reload", &[]);
                assert!(output.status.success(), "{:?}", error_lines(&output));
                load.wait_for_answers(100);
            }
            processes.push(Some(upgrade(&tree, &server)));
            load.wait_for_answers(300);
        }
        processes.dedup();
        assert_eq!(processes.len(), 4);
        let old: Vec<Pid> = processes[..3].iter().copied().flatten().collect();
        wait_until("the old processes have ended", PATIENCE, || {
            old.iter().all(|process| has_ended(*process))
        });
        load.wait_for_answers(300);
        load.may_end.store(true, Ordering::Relaxed);
        stop(&tree, &mut server);
    });
    assert!(!server.error_text().contains("drain_timeout"), "a process was not done in time");
}

/// Whether the process has ended; a zombie counts as ended.
fn has_ended(process: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
    status.is_ok_and(|status| status.contains(") Z ")) || rustix::process::test_kill_process(process).is_err()
}

#[test]
fn kept_connections_are_told_to_close_and_waiting_ones_are_served() {
    let tree = Tree::standard();
    let mut server = start(&tree, &tree.configuration(&with_pid_file(2, "")));
    let address = server.address();
    let mut kept = server.connect();
    assert!(!kept.ask(ASK).says_close());
    let mut half = server.connect();
    half.send("GET /alphabet.txt HTTP/1.1\r\nHost:");
    // Connections that no process has accepted: the kernel holds them until their first bytes arrive.
    let mut silent: Vec<Client> = (0..20).map(|_| server.connect()).collect();
    upgrade(&tree, &server);
    server.wait_for_error_line("says who has taken over", |line| line.contains("has taken over"));
    for client in &mut silent {
        assert_eq!(client.ask(ASK).body, ALPHABET.as_bytes());
    }
    assert!(server.is_running(), "it ended with connections that were promised to be kept");
    let answer = kept.ask(ASK);
    assert_eq!(answer.body, ALPHABET.as_bytes());
    assert!(answer.says_close(), "the old process must say close");
    kept.end();
    half.send(" a\r\n\r\n");
    let answer = half.answer();
    assert_eq!((answer.status, answer.says_close()), (200, true));
    half.end();
    assert_eq!(server.wait().code(), Some(0));
    // From now on only the new process serves.
    let mut new = Client::connect(address);
    assert!(!new.ask(ASK).says_close());
    drop((new, silent));
    let output = command(&tree, "stop", &[]);
    assert!(output.status.success(), "{:?}", error_lines(&output));
}

#[test]
fn an_idle_http_2_connection_is_told_to_go_away() {
    let tree = Tree::standard();
    let mut server = start(&tree, &tree.configuration(&with_pid_file(1, "")));
    let client = server.connect();
    let mut stream = client.stream().try_clone().expect("the stream has two ends here");
    // The preface, and an empty SETTINGS frame (RFC 9113 section 3.4).
    std::io::Write::write_all(&mut stream, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .expect("sent");
    assert_eq!(frame_type(&mut stream), 4, "the server's SETTINGS");
    upgrade(&tree, &server);
    // Other frames may arrive first: acknowledgements, window updates.
    while frame_type(&mut stream) != 7 {}
    drop((client, stream));
    assert_eq!(server.wait().code(), Some(0));
}

/// Reads one frame of HTTP/2 and returns its type.
fn frame_type(stream: &mut impl Read) -> u8 {
    let mut head = [0; 9];
    stream.read_exact(&mut head).expect("a frame's head");
    let length = u64::from(u32::from_be_bytes([0, head[0], head[1], head[2]]));
    let read = std::io::copy(&mut stream.take(length), &mut std::io::sink()).expect("its payload");
    assert_eq!(read, length);
    head[3]
}

#[test]
fn sigusr2_upgrades_too() {
    let tree = Tree::standard();
    let mut server = start(&tree, &tree.configuration(&with_pid_file(2, "")));
    let first = server.serving_pid();
    server.signal(Signal::USR2);
    wait_until("another process serves", PATIENCE, || {
        server.serving_pid().is_some_and(|pid| Some(pid) != first)
    });
    assert_eq!(server.wait().code(), Some(0));
    assert_eq!(Client::connect(server.address()).ask(ASK).body, ALPHABET.as_bytes());
}

/// A Java virtual machine in the process opens files without the mark that programs do not inherit them.
#[test]
fn a_new_process_inherits_no_file_that_was_left_open() {
    let tree = Tree::standard();
    set_configuration(&tree, &tree.configuration(&with_pid_file(1, "")));
    let kept_open = tree.beside("outside.txt");
    let mut command = Command::new("sh");
    command.args(["-c", "exec 9<\"$1\"; exec \"$0\" serve --config \"$2\""]);
    command.arg(binary().get_program()).arg(&kept_open).arg(tree.beside("touchstone.toml"));
    let mut server = Server::start_piped(command);
    server.succeeded_by(tree.beside("server.pid"));
    let holds = |process: Pid| {
        let open = fs::read_dir(format!("/proc/{}/fd", process.as_raw_nonzero())).expect("it runs");
        open.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|path| path == kept_open))
    };
    wait_until("it has written its number", PATIENCE, || server.serving_pid().is_some());
    assert!(holds(server.serving_pid().expect("it serves")), "the first process has the file");
    assert!(!holds(upgrade(&tree, &server)), "the new process has it");
    stop(&tree, &mut server);
}

#[test]
fn a_new_process_that_cannot_start_changes_nothing() {
    let tree = Tree::standard();
    let more = "upgrade_timeout = \"15s\"";
    let good = tree.configuration(&with_pid_file(2, more));
    let mut server = start(&tree, &good);
    let first = server.serving_pid();
    let script = tree.beside("late.sh");
    write_program(&script, "#!/bin/sh\nexec sleep 600\n");
    let script = script.to_str().expect("the path is text").to_string();
    let busy = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let busy = busy.local_addr().expect("it is bound");
    let site = format!("[[site]]\nlisten = [\"127.0.0.1:0\", \"{busy}\"]\nroot = {:?}\n", tree.root());
    let with_busy = format!("{}{site}", with_pid_file(2, more));
    let broken = format!("{good}rooot = 1\n");
    let mut kept = server.connect();
    for (name, text, arguments, word) in [
        ("no such program", &good, &["--program", "/nowhere/touchstone"][..], "/nowhere/touchstone"),
        ("another program", &good, &["--program", "/bin/false"], "exit status: 1"),
        ("a program that never gets ready", &good, &["--program", &script], "was not ready within"),
        ("a broken configuration", &broken, &[], "rooot"),
        ("an address in use", &with_busy, &[], &format!("cannot listen on {busy}")),
    ] {
        set_configuration(&tree, text);
        let output = command(&tree, "upgrade", arguments);
        assert_eq!(output.status.code(), Some(1), "{name}");
        let lines = error_lines(&output).join("\n");
        assert!(lines.contains(word) && lines.contains("this process continues"), "{name}: {lines}");
        server.wait_for_error_line("says why", |line| line.contains("error upgrade:") && line.contains(word));
        let answer = kept.ask(ASK);
        assert!(answer.body == ALPHABET.as_bytes() && !answer.says_close(), "{name}");
        server.assert_serves("/alphabet.txt", ALPHABET.as_bytes());
        assert_eq!(server.serving_pid(), first, "{name}");
    }
    // The same server can still be upgraded.
    set_configuration(&tree, &good);
    upgrade(&tree, &server);
    drop(kept);
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn an_upgrade_takes_up_other_addresses() {
    let tree = Tree::standard();
    let (kept, removed, added) = (free_port(), free_port(), free_port());
    let text = |ports: &[u16]| {
        let listen: Vec<String> = ports.iter().map(|port| format!("\"127.0.0.1:{port}\"")).collect();
        let site = format!("[[site]]\nlisten = [{}]\nroot = {:?}\n", listen.join(", "), tree.root());
        format!("{}{site}", with_pid_file(2, ""))
    };
    let on = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let mut server = start(&tree, &text(&[kept, removed]));
    let mut before = Client::connect(on(removed));
    assert_eq!(before.ask(ASK).status, 200);
    set_configuration(&tree, &text(&[added, kept]));
    upgrade(&tree, &server);
    for port in [kept, added] {
        assert_eq!(Client::connect(on(port)).ask(ASK).body, ALPHABET.as_bytes());
    }
    wait_until("the removed address is closed", PATIENCE, || Client::try_connect(on(removed)).is_err());
    // The old process serves a connected client to the end.
    assert!(before.ask(ASK).says_close());
    drop(before);
    assert_eq!(server.wait().code(), Some(0));
    stop_successor(&tree);
}

fn stop_successor(tree: &Tree) {
    let output = command(tree, "stop", &[]);
    assert!(output.status.success(), "{:?}", error_lines(&output));
    assert!(!Path::new(&tree.beside("server.pid")).exists());
}

#[test]
fn http_3_and_the_admin_listener_move_too() {
    let tree = Tree::standard();
    let (port, admin) = (free_port(), free_port());
    let text = |cores: usize| {
        let site = format!(
            "[[site]]\nlisten = [\"127.0.0.1:{port}\"]\ndevelopment_certificate = true\nhttp3 = true\n\
             root = {:?}\n",
            tree.root()
        );
        format!("{}[admin]\nlisten = \"127.0.0.1:{admin}\"\n{site}", with_pid_file(cores, ""))
    };
    let server = start(&tree, &text(2));
    let on = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let health = || {
        let mut client = Client::try_connect(on(admin)).ok()?;
        client.try_send(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").ok()?;
        client.try_answer(crate::support::AnswerTo::Other).ok().map(|answer| answer.status)
    };
    wait_until("QUIC is answered", PATIENCE, || speaks_quic(on(port)));
    assert_eq!(health(), Some(200));
    // The same sockets, then others, because the number of cores differs.
    for cores in [2, 1] {
        let before = server.serving_pid().expect("a process serves");
        set_configuration(&tree, &text(cores));
        upgrade(&tree, &server);
        wait_until("the old process has ended", PATIENCE, || has_ended(before));
        wait_until("QUIC is answered again", PATIENCE, || speaks_quic(on(port)));
        wait_until("the admin listener answers", PATIENCE, || health() == Some(200));
    }
    assert!(!server.error_text().contains(" error "), "{}", server.error_text());
    stop_successor(&tree);
}

/// Whether a QUIC server listens there: it answers an unknown version with its supported versions (RFC 9000
/// section 6).
fn speaks_quic(address: SocketAddr) -> bool {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a UDP port");
    socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    let mut packet = vec![0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0];
    packet.resize(1200, 0);
    let mut answer = [0; 1500];
    socket.send_to(&packet, address).is_ok()
        && socket.recv(&mut answer).is_ok_and(|length| length > 7 && answer[1..5] == [0; 4])
}

#[test]
fn downloads_over_http_2_go_on_through_reloads_and_upgrades() {
    let tree = Tree::empty();
    let body = bytes_of(3_000_000);
    tree.write("page.bin", &body);
    let mut server = start(&tree, &tree.configuration(&with_pid_file(2, "")));
    let address = server.address();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    // Clients that read a piece between one change and the next, on as many streams of one connection.
    let mut downloads = Vec::new();
    let mut connections = Vec::new();
    for _ in 0..2 {
        let mut requests = runtime.block_on(connect_http_2(address));
        for _ in 0..4 {
            let asked = http::Request::get("http://a/page.bin").body(()).expect("a request");
            let answer = requests.send_request(asked, true).expect("it is sent").0;
            let answer = runtime.block_on(answer).expect("it is answered");
            assert_eq!(answer.status(), 200);
            downloads.push((answer.into_body(), Vec::new()));
        }
        connections.push(requests);
    }
    let mut take = |most: usize| {
        for (stream, taken) in &mut downloads {
            let until = taken.len().saturating_add(most);
            while taken.len() < until
                && let Some(piece) = runtime.block_on(stream.data())
            {
                let piece = piece.expect("no stream is reset");
                stream.flow_control().release_capacity(piece.len()).expect("it was taken");
                taken.extend_from_slice(&piece);
            }
        }
    };
    for round in 0..2 {
        for reload in 0..3 {
            take(50_000);
            let limits = format!("[limits]\nkeep_alive_timeout = \"{}s\"\n", 60 + round * 3 + reload);
            set_configuration(&tree, &tree.configuration(&with_pid_file(2 - round, &limits)));
            let output = command(&tree, "reload", &[]);
            assert!(output.status.success(), "{:?}", error_lines(&output));
        }
        take(50_000);
        upgrade(&tree, &server);
        // The new process serves new clients.
        let mut requests = runtime.block_on(connect_http_2(address));
        let asked = http::Request::head("http://a/page.bin").body(()).expect("a request");
        let answer = requests.send_request(asked, true).expect("it is sent").0;
        assert_eq!(runtime.block_on(answer).expect("it is answered").status(), 200);
    }
    assert!(server.is_running(), "the first process has active streams");
    take(usize::MAX);
    for (_, taken) in &downloads {
        assert!(*taken == body, "{} bytes of {}", taken.len(), body.len());
    }
    // The server may have closed a connection before a window update of its last stream was sent. When the
    // last handle of such a connection is dropped, h2 asserts that none waits, so the test does not drop the
    // streams.
    std::mem::forget(downloads);
    drop(connections);
    // The sockets close with the tasks that hold them.
    drop(runtime);
    assert_eq!(server.wait().code(), Some(0), "it ends with the last stream");
    stop_successor(&tree);
}

/// A connection of HTTP/2 without TLS.
async fn connect_http_2(address: SocketAddr) -> h2::client::SendRequest<bytes::Bytes> {
    let stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
    // A stream that is not read must not take the window of the others.
    let mut builder = h2::client::Builder::new();
    builder.initial_connection_window_size(1 << 20);
    let (requests, connection) = builder.handshake(stream).await.expect("it speaks HTTP/2");
    tokio::spawn(connection);
    requests.ready().await.expect("it takes requests")
}

/// An origin that switches protocols and then sends back all bytes.
fn echoing_origin() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            std::thread::spawn(move || {
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
                    head.push(byte[0]);
                }
                let switched = b"HTTP/1.1 101 Switching\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n";
                let mut buffer = [0; 1024];
                let mut alive = stream.write_all(switched).is_ok();
                while alive && let Ok(count @ 1..) = stream.read(&mut buffer) {
                    alive = stream.write_all(&buffer[..count]).is_ok();
                }
            });
        }
    });
    address
}

#[test]
fn a_switched_protocol_outlives_reloads_and_an_upgrade() {
    let tree = Tree::standard();
    let origin = echoing_origin();
    let route = format!(
        "[[site.route]]\npath = \"/echo\"\nproxy = {{ to = \"http://{origin}\", forward = {{ upgrades = \
         [\"echo\"] }} }}\n"
    );
    let text = format!("{}{route}", tree.configuration(&with_pid_file(2, "")));
    let mut server = start(&tree, &text);
    let client = server.connect();
    let mut stream = client.stream().try_clone().expect("a second handle");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    stream
        .write_all(b"GET /echo HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
        .expect("it is sent");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
    let mut echoes = |message: &[u8]| {
        stream.write_all(message).expect("it is sent");
        let mut back = vec![0; message.len()];
        stream.read_exact(&mut back).expect("it comes back");
        assert_eq!(back, message);
    };
    echoes(b"before");
    for round in 0..3 {
        let limits = format!("[limits]\nkeep_alive_timeout = \"{}s\"\n", 60 + round);
        set_configuration(&tree, &format!("{}{route}", tree.configuration(&with_pid_file(2, &limits))));
        let output = command(&tree, "reload", &[]);
        assert!(output.status.success(), "{:?}", error_lines(&output));
        echoes(b"after a reload");
    }
    upgrade(&tree, &server);
    echoes(b"after an upgrade");
    server.assert_serves("/alphabet.txt", ALPHABET.as_bytes());
    echoes(b"and again");
    assert!(server.is_running(), "the first process holds the connection");
    drop(client);
    drop(stream);
    assert_eq!(server.wait().code(), Some(0), "it ends with the last connection");
    stop_successor(&tree);
}
