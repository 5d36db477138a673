//! Reloads and upgrades while connections are open: every byte arrives, each connection keeps its
//! configuration, and new ones get the new one.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::process::Signal;

use super::{PATIENCE, connect, echo, exchange, origin_named, rest_of};

use crate::support::{
    Origin, Server, Tree, bytes_of, error_lines, free_port, raise_open_files, run, skipped, wait_until,
};

/// A server with a stream, whose processes write their number to a file.
struct Process {
    tree: Tree,
    server: Server,
    address: SocketAddr,
}

impl Process {
    fn start(keys: &str) -> Process {
        let (tree, address) = (Tree::empty(), SocketAddr::from(([127, 0, 0, 1], free_port())));
        let text = Process::text(&tree, address, keys);
        let mut server = Server::configured(tree.around(), &text);
        server.succeeded_by(tree.beside("server.pid"));
        server.wait_for_error_line("says that the stream listens", |line| line.contains("for stream test"));
        Process { tree, server, address }
    }

    fn text(tree: &Tree, address: SocketAddr, keys: &str) -> String {
        let server = "[server]\ncores = 2\npid_file = \"server.pid\"\ndrain_timeout = \"20s\"\n";
        let site = tree.configuration(server);
        format!("{site}\n[[stream]]\nname = \"test\"\nlisten = [\"{address}\"]\n{keys}\n")
    }

    fn set(&self, keys: &str) {
        let text = Process::text(&self.tree, self.address, keys);
        fs::write(self.tree.beside("touchstone.toml"), text).expect("the configuration is written");
    }

    fn command(&self, name: &str) {
        let config = self.tree.beside("touchstone.toml");
        let output = run([name, "--config", config.to_str().expect("the path is text")]);
        assert!(output.status.success(), "{name}: {:?}", error_lines(&output));
    }

    fn upgrade(&self) {
        let before = self.server.serving_pid();
        self.command("upgrade");
        wait_until("another process serves", PATIENCE, || {
            self.server.serving_pid().is_some_and(|now| Some(now) != before)
        });
    }
}

/// Sends so many bytes in pieces through an echo, and reads each piece back; fails at the first wrong byte.
fn pass_through(stream: &mut TcpStream, bytes: &[u8], piece_bytes: usize) {
    let mut back = vec![0; piece_bytes];
    for piece in bytes.chunks(piece_bytes) {
        stream.write_all(piece).expect("the stream takes it");
        stream.read_exact(&mut back[..piece.len()]).expect("it comes back");
        assert!(back[..piece.len()] == *piece, "other bytes come back");
    }
}

#[test]
fn no_byte_is_lost_over_reloads_and_upgrades() {
    let origin = echo();
    let keys = |round: usize| {
        let more = format!("idle_timeout = \"{}m\"\ndrain_timeout = \"1h\"", 10 + round);
        format!("to = \"{}\"\n{more}", origin.address)
    };
    let mut process = Process::start(&keys(0));
    let bytes = bytes_of(300_000);
    let (stop, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    let address = process.address;
    // Connections that are open over everything.
    let mut held: Vec<TcpStream> = (0..4).map(|_| connect(address)).collect();
    held.iter_mut().for_each(|stream| pass_through(stream, &bytes, 10_000));
    std::thread::scope(|scope| {
        let one_client = || {
            while !stop.load(Ordering::Relaxed) {
                let mut stream = connect(address);
                pass_through(&mut stream, &bytes, 7_000);
                stream.shutdown(Shutdown::Write).expect("a socket");
                assert_eq!(rest_of(&mut stream), b"");
                done.fetch_add(1, Ordering::Relaxed);
            }
        };
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(one_client)).collect();
        let go_on = |held: &mut Vec<TcpStream>| {
            let before = done.load(Ordering::Relaxed);
            held.iter_mut().for_each(|stream| pass_through(stream, &bytes, 10_000));
            wait_until("the clients go on", PATIENCE, || {
                done.load(Ordering::Relaxed) > before + 4 || clients.iter().any(|client| client.is_finished())
            });
        };
        for round in 1..4 {
            process.set(&keys(round));
            process.command("reload");
            go_on(&mut held);
        }
        for _ in 0..2 {
            process.upgrade();
            go_on(&mut held);
        }
        stop.store(true, Ordering::Relaxed);
    });
    // Each of them has been served by the first process, byte for byte, and ends in good order.
    for mut stream in held {
        pass_through(&mut stream, &bytes, 50_000);
        stream.shutdown(Shutdown::Write).expect("a socket");
        assert_eq!(rest_of(&mut stream), b"");
    }
    assert_eq!(process.server.wait().code(), Some(0), "the first process");
    process.command("stop");
}

#[test]
fn a_connection_keeps_its_configuration_and_new_ones_get_the_new_one() {
    let (one, other) = (origin_named("a"), origin_named("b"));
    let process = Process::start(&format!("to = \"{}\"", one.address));
    let mut before = connect(process.address);
    before.write_all(b"x").expect("the stream takes it");
    let mut name = [0; 2];
    before.read_exact(&mut name).expect("it is served");
    process.set(&format!("to = \"{}\"", other.address));
    process.command("reload");
    assert_eq!(exchange(connect(process.address), b"y"), b"b:y");
    assert_eq!((&name, exchange(before, b"z")), (b"a:", b"xz".to_vec()));
    // A configuration with a fault has no effect.
    let config = process.tree.beside("touchstone.toml");
    fs::write(&config, Process::text(&process.tree, process.address, "to = \"nowhere\"")).expect("a file");
    let output = run(["reload", "--config", config.to_str().expect("the path is text")]);
    assert!(!output.status.success());
    assert_eq!(exchange(connect(process.address), b"y"), b"b:y");
    process.set(&format!("to = \"{}\"", other.address));
    process.command("stop");
}

/// Connections that the kernel has taken for a stream belong to it, also if a reload removes it before they
/// are accepted. That many do not wait until then only if the machine accepts faster than it reads a file.
#[test]
fn waiting_connections_are_of_the_stream_that_a_reload_removes() {
    const CONNECTIONS: usize = 1000;
    if !raise_open_files(4 * CONNECTIONS as u64) {
        return skipped("connections that wait for a stream (raise the limit of open files: ulimit -n 4000)");
    }
    let origin = Origin::start(|stream| {
        let mut line = [0; 2];
        if stream.read_exact(&mut line).is_ok() {
            let _ = stream.write_all(b"of the stream");
        }
    });
    let process = Process::start(&format!("to = \"{}\"\nconnect_timeout = \"60s\"", origin.address));
    process.server.signal(Signal::STOP);
    let mut waiting: Vec<TcpStream> = (0..CONNECTIONS).map(|_| connect(process.address)).collect();
    waiting.iter_mut().for_each(|stream| stream.write_all(b"x\n").expect("the kernel takes it"));
    let server = "[server]\ncores = 2\npid_file = \"server.pid\"\ndrain_timeout = \"20s\"\n";
    let text = process.tree.configuration(server);
    fs::write(process.tree.beside("touchstone.toml"), text).expect("the configuration is written");
    process.server.signal(Signal::HUP);
    process.server.signal(Signal::CONT);
    for mut stream in waiting {
        assert_eq!(String::from_utf8_lossy(&rest_of(&mut stream)), "of the stream");
    }
    process.server.wait_for_error_line("says that it was reloaded", |line| line.contains("applied"));
    process.command("stop");
}

/// What takes longer than the drain timeout is ended, and the process with it.
#[test]
fn connections_that_do_not_end_are_ended_after_the_drain_timeout() {
    let origin = echo();
    let log = "access_log = \"stream.log\"\ndrain_timeout = \"1s\"";
    let mut process = Process::start(&format!("to = \"{}\"\n{log}", origin.address));
    let mut held = connect(process.address);
    pass_through(&mut held, b"x", 1);
    process.upgrade();
    assert_eq!(process.server.wait().code(), Some(0), "the first process");
    assert_eq!(rest_of(&mut held), b"");
    let lines = fs::read_to_string(process.tree.beside("stream.log")).expect("the log is there");
    assert!(lines.trim_end().ends_with(" stopped"), "{lines}");
    let mut after = connect(process.address);
    pass_through(&mut after, b"y", 1);
    drop(after);
    process.command("stop");
}

#[test]
fn datagrams_are_answered_over_reloads_and_upgrades() {
    let origin = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = origin.local_addr().expect("a socket");
    std::thread::spawn(move || {
        let mut buffer = [0; 2000];
        while let Ok((count, client)) = origin.recv_from(&mut buffer) {
            let _ = origin.send_to(&buffer[..count], client);
        }
    });
    let keys = |round: usize| {
        format!("protocol = \"udp\"\nto = \"{address}\"\nreplies = 1\nsession_timeout = \"{}s\"", 5 + round)
    };
    let process = Process::start(&keys(0));
    let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let one_client = |client: usize| {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.connect(process.address).expect("a socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let mut round = 0;
        let mut buffer = [0; 2000];
        while !stop.load(Ordering::Relaxed) {
            let datagram = format!("{round} of {client}");
            socket.send(datagram.as_bytes()).expect("a socket");
            let count = socket.recv(&mut buffer).expect("a reply comes");
            assert_eq!(buffer[..count], *datagram.as_bytes());
            answered.fetch_add(1, Ordering::Relaxed);
            round += 1;
        }
    };
    let one_client = &one_client;
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4).map(|client| scope.spawn(move || one_client(client))).collect();
        let go_on = || {
            let before = answered.load(Ordering::Relaxed);
            wait_until("the clients go on", PATIENCE, || {
                answered.load(Ordering::Relaxed) > before + 200
                    || clients.iter().any(|client| client.is_finished())
            });
        };
        for round in 1..3 {
            process.set(&keys(round));
            process.command("reload");
            go_on();
        }
        process.upgrade();
        go_on();
        stop.store(true, Ordering::Relaxed);
    });
    process.command("stop");
}
