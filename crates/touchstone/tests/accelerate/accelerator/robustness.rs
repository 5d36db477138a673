//! Faults around the cache: a full disk, slow clients, origins that stop in the middle, and many clients that
//! wait for an answer that is private.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use crate::accelerator::disk::{hashed, is_right};
use crate::accelerator::origin::{Origin, answer};
use crate::accelerator::{FRESH, get, text};
use crate::support::{Client, Server, Tree, bytes_of, free_port, raise_open_files, skipped, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);

/// A small file system in memory, mounted until this is dropped.
struct Mounted<'p>(&'p Path);

impl Mounted<'_> {
    /// `None`, with a visible message, where mounting is not allowed.
    fn new(path: &Path) -> Option<Mounted<'_>> {
        let output = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(path).output();
        if output.is_ok_and(|output| output.status.success()) {
            return Some(Mounted(path));
        }
        skipped("a cache on a full disk (only root can mount one in memory)");
        None
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_costs_hits_and_nothing_else() {
    const TARGETS: usize = 600;
    let origin = hashed();
    let tree = Tree::empty();
    let directory = tree.beside("disk");
    std::fs::create_dir(&directory).unwrap();
    let Some(_mounted) = Mounted::new(&directory) else { return };
    let place = directory.to_str().unwrap();
    let start = || {
        let options = ["--cores", "1", "--memory", "2MiB", "--disk", place, "--disk-size", "64MiB"];
        Server::accelerating(origin.address, &options)
    };
    let mut server = start();
    for index in 0..TARGETS {
        assert!(is_right(&get(&server, &format!("/{index}"), "")), "/{index}");
    }
    server.wait_for_error_line("it is said", |line| line.contains("cannot be written to"));
    // Targets in memory, targets on disk, and targets in neither.
    for index in (0..TARGETS).rev() {
        assert!(is_right(&get(&server, &format!("/{index}"), "")), "/{index} again");
    }
    server.stop();
    let server = start();
    for index in 0..TARGETS {
        assert!(is_right(&get(&server, &format!("/{index}"), "")), "/{index} after a restart");
    }
    let asked: usize = (0..TARGETS).map(|index| origin.count(&format!("/{index}"))).sum();
    assert!(asked < 3 * TARGETS, "nothing was kept: {asked}");
}

#[test]
fn a_directory_that_is_taken_away_costs_hits_is_said_once_and_made_again() {
    const TARGETS: usize = 200;
    let origin = hashed();
    let tree = Tree::standard();
    let (directory, port) = (tree.beside("disk"), free_port());
    let sections = format!(
        "[admin]\nlisten = \"127.0.0.1:{port}\"\n[accelerator]\nmemory = \"1MiB\"\ndisk = {directory:?}\n"
    );
    let route = format!("[[site.route]]\nproxy = {{ to = \"http://{}\" }}\ncache = {{}}\n", origin.address);
    let server = Server::configured(tree.around(), &format!("{}{route}", tree.configuration(&sections)));
    let ask_all = |what: &str| {
        for index in 0..TARGETS {
            assert!(is_right(&get(&server, &format!("/{index}"), "")), "/{index} {what}");
        }
    };
    ask_all("at first");
    for round in 0..2 {
        // The server may create a file in it meanwhile.
        wait_until("the directory is removed", PATIENCE, || std::fs::remove_dir_all(&directory).is_ok());
        // The targets need more memory than there is.
        ask_all("without the directory");
        assert!(is_right(&get(&server, &format!("/new/{round}"), "")));
        wait_until("it is made again, and written to", PATIENCE, || {
            let files = std::fs::read_dir(&directory).into_iter().flatten().flatten();
            let is_written = |file: std::fs::DirEntry| {
                let is_segment = file.path().extension().is_some_and(|extension| extension == "segment");
                is_segment && file.metadata().is_ok_and(|metadata| metadata.len() > 0)
            };
            directory.join("purges").exists() && files.into_iter().any(is_written)
        });
    }
    let is_warning = |line: &&str| line.contains("warning") && line.contains("cache's directory");
    wait_until("it is told", PATIENCE, || server.error_text().lines().filter(is_warning).count() == 2);
    let said = server.error_text();
    let warnings: Vec<&str> = said.lines().filter(is_warning).collect();
    assert!(warnings.len() == 2 && warnings[0].contains("removed it"), "{said}");
    let mut admin = Client::connect(format!("127.0.0.1:{port}").parse().unwrap());
    let metrics = text(&admin.ask("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"));
    for line in ["{cause=\"missing\"} 2\n", "{cause=\"full\"} 0\n"] {
        assert!(metrics.contains(&format!("touchstone_accelerator_disk_faults_total{line}")), "{metrics}");
    }
}

#[test]
fn a_slow_client_delays_no_other() {
    const LENGTH: usize = 24 << 20;
    let body = bytes_of(LENGTH);
    let sent = body.clone();
    let origin = Origin::start(move |_, stream| {
        let head = format!("HTTP/1.1 200 OK\r\n{FRESH}Content-Length: {LENGTH}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&sent).unwrap();
    });
    let server = Server::accelerating(origin.address, &["--cores", "1"]);
    // It sends the first request, and does not read.
    let mut slow = Client::connect_with_small_buffer(server.address());
    slow.send("GET /long HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the origin is asked", PATIENCE, || origin.count("/long") == 1);
    // Other clients request the same target, during the fetch and after it.
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!(get(&server, "/long", "").body == body));
        }
    });
    assert!(get(&server, "/long", "").body == body);
    assert_eq!(origin.count("/long"), 1);
    // The slow client still gets all of it.
    slow.set_patience(PATIENCE);
    assert!(slow.answer().body == body);
}

#[test]
fn all_who_wait_are_told_when_an_origin_stops_in_the_middle() {
    const WAITING: usize = 20;
    let (to_origin, from_test) = channel::<()>();
    let from_test = Mutex::new(from_test);
    let origin = Origin::start(move |asked, stream| {
        if asked.count > 1 {
            return answer(stream, 200, FRESH, "whole");
        }
        // Longer than what the server collects before it begins the answer.
        let head = format!("HTTP/1.1 200 OK\r\n{FRESH}Content-Length: 1000000\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&bytes_of(100_000)).unwrap();
        from_test.lock().unwrap().recv().unwrap();
        stream.shutdown(Shutdown::Both).unwrap();
    });
    let server = Server::accelerating(origin.address, &["--cores", "2"]);
    let ask = |_| {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        stream
    };
    let mut clients: Vec<TcpStream> = (0..WAITING).map(ask).collect();
    let mut received: Vec<Vec<u8>> = clients.iter_mut().map(|client| read_some(client, 100_000)).collect();
    to_origin.send(()).unwrap();
    for (client, received) in clients.iter_mut().zip(&mut received) {
        // The connection ends before the stated length, so the client detects that the answer is incomplete.
        let _ = client.read_to_end(received);
        assert!(received.starts_with(b"HTTP/1.1 200 OK\r\n") && received.len() < 110_000);
    }
    assert_eq!(text(&get(&server, "/a", "")), "whole");
    assert_eq!(origin.count("/a"), 2);
}

/// Reads at least so many bytes.
fn read_some(stream: &mut TcpStream, least: usize) -> Vec<u8> {
    let mut received = vec![0; least];
    stream.read_exact(&mut received).unwrap();
    received
}

#[test]
fn many_clients_that_wait_for_private_answers_get_their_own() {
    const CLIENTS: usize = 200;
    if !raise_open_files(4096) {
        return skipped("a process may not hold 4,096 files open");
    }
    let (to_origin, from_test) = channel::<()>();
    let from_test = Mutex::new(Some(from_test));
    let origin = Origin::start(move |asked, stream| {
        // The first answer is delayed, so that all other requests wait for it.
        if let Some(from_test) = from_test.lock().unwrap().take() {
            from_test.recv().unwrap();
        }
        let client = asked.field("x-client").unwrap().to_string();
        answer(stream, 200, "Cache-Control: private, max-age=600\r\n", &client);
    });
    let server = Server::accelerating(origin.address, &["--cores", "2"]);
    let ask = |index: usize| {
        let mut client = server.connect();
        client.set_patience(PATIENCE);
        client.send(format!("GET /own HTTP/1.1\r\nHost: a\r\nX-Client: {index}\r\n\r\n"));
        client
    };
    let mut clients: Vec<Client> = (0..CLIENTS).map(ask).collect();
    wait_until("the origin is asked", PATIENCE, || origin.count("/own") == 1);
    to_origin.send(()).unwrap();
    for (index, client) in clients.iter_mut().enumerate() {
        assert_eq!(text(&client.answer()), index.to_string());
    }
    assert_eq!(origin.count("/own"), CLIENTS);
}
