//! Connections that have been idle for a while wait without a task, and are served as before.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::support::{ALPHABET, Client, SECOND, Server, Tree, skipped, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);
const ALPHABET_REQUEST: &str = "GET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n";
const SECOND_REQUEST: &str = "GET /second.txt HTTP/1.1\r\nHost: a\r\n\r\n";

fn with_limits(limits: &str) -> (Tree, Server) {
    let tree = Tree::standard();
    let sections = format!("[server]\ncores = 1\n[limits]\n{limits}\n");
    let server = Server::configured(tree.around(), &tree.configuration(&sections));
    (tree, server)
}

/// How many connections of the server wait without a task: their sockets are in an epoll set that another
/// one watches.
fn parked(server: &Server) -> usize {
    let directory = format!("/proc/{}/fdinfo", server.process());
    let mut sets: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in fs::read_dir(&directory).expect("the server runs").flatten() {
        let descriptor = entry.file_name().to_string_lossy().into_owned();
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        let watched = text.lines().filter_map(|line| line.strip_prefix("tfd:")?.split_whitespace().next());
        let watched: Vec<String> = watched.map(str::to_string).collect();
        sets.insert(descriptor, watched);
    }
    let is_watched = |set: &String| sets.values().any(|watched| watched.contains(set));
    sets.iter().filter(|(set, _)| is_watched(set)).map(|(_, watched)| watched.len()).sum()
}

fn wait_until_parked(server: &Server, count: usize) {
    wait_until(&format!("{count} connections wait without a task"), PATIENCE, || parked(server) == count);
}

/// Clients whose first request was answered, and whose connections are parked.
fn idle_clients(server: &Server, count: usize) -> Vec<Client> {
    let mut clients: Vec<Client> = (0..count).map(|_| server.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.ask(ALPHABET_REQUEST).body, ALPHABET.as_bytes());
    }
    wait_until_parked(server, count);
    clients
}

#[test]
fn idle_connections_are_served_again_and_again() {
    let (_tree, server) = with_limits("keep_alive_timeout = \"600s\"");
    let mut clients = idle_clients(&server, 20);
    for _ in 0..2 {
        for (index, client) in clients.iter_mut().enumerate() {
            match index % 4 {
                0 => assert_eq!(client.ask(SECOND_REQUEST).body, SECOND.as_bytes()),
                // Two requests at once.
                1 => {
                    let first = client.ask([SECOND_REQUEST, ALPHABET_REQUEST].concat());
                    assert_eq!(first.body, SECOND.as_bytes());
                    assert_eq!(client.answer().body, ALPHABET.as_bytes());
                }
                // In pieces, the first of which wakes the connection.
                2 => {
                    let (head, rest) = SECOND_REQUEST.split_at(9);
                    client.send(head);
                    wait_until("the first piece has arrived", PATIENCE, || parked(&server) < 20);
                    assert_eq!(client.ask(rest).body, SECOND.as_bytes());
                }
                // Not a plain hit.
                _ => {
                    let missing = "GET /missing HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
                    assert_eq!(client.ask(missing).status, 404);
                }
            }
        }
        wait_until_parked(&server, 20);
    }
    // Clients that leave are noticed.
    let open = server.open_sockets();
    for (index, client) in clients.drain(..10).enumerate() {
        match index % 2 {
            0 => client.vanish(),
            _ => drop(client),
        }
    }
    wait_until_parked(&server, 10);
    wait_until("their sockets are closed", PATIENCE, || server.open_sockets() <= open - 10);
    for client in &mut clients {
        assert_eq!(client.ask(SECOND_REQUEST).body, SECOND.as_bytes());
    }
}

#[test]
fn an_idle_connection_without_a_task_ends_at_its_time() {
    let (_tree, server) = with_limits("keep_alive_timeout = \"10s\"");
    let mut clients = idle_clients(&server, 3);
    for client in &mut clients {
        client.set_patience(PATIENCE);
        client.end();
    }
    wait_until_parked(&server, 0);
    server.assert_serves("/second.txt", SECOND.as_bytes());
}

#[test]
fn idle_connections_without_a_task_make_room_for_new_ones() {
    let (_tree, server) = with_limits("connections = 6\nkeep_alive_timeout = \"600s\"");
    let mut idle = idle_clients(&server, 4);
    // The server takes no more than six: some of those that it has must end for these.
    let new: Vec<Client> = (0..4)
        .map(|_| {
            let mut client = server.connect();
            client.set_patience(PATIENCE);
            assert_eq!(client.ask(SECOND_REQUEST).body, SECOND.as_bytes());
            client
        })
        .collect();
    assert!(idle.iter().chain(&new).any(Client::is_ended));
    for client in idle.iter_mut().filter(|client| client.is_ended()) {
        client.end();
    }
}

#[test]
fn a_server_that_stops_ends_idle_connections_without_a_task() {
    let (_tree, mut server) = with_limits("keep_alive_timeout = \"600s\"");
    let mut idle = idle_clients(&server, 3);
    server.signal(Signal::TERM);
    for client in &mut idle {
        client.set_patience(PATIENCE);
        client.end();
    }
    assert!(server.wait().success());
}

#[test]
fn idle_connections_with_tls_are_served_again() {
    let tree = Tree::standard();
    let root = tree.root();
    let root = root.to_str().expect("the path is text");
    let arguments = ["--listen", "127.0.0.1:0", "--root", root, "--development-certificate", "--cores", "1"];
    let server = Server::start(arguments);
    let client = Command::new("openssl")
        .args(["s_client", "-quiet", "-connect", &server.address().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut client) = client else { return skipped("idle connections with TLS (install openssl)") };
    let mut input = client.stdin.take().expect("its input");
    let mut output = client.stdout.take().expect("its output");
    for (request, body) in
        [(ALPHABET_REQUEST, ALPHABET), (SECOND_REQUEST, SECOND), (ALPHABET_REQUEST, ALPHABET)]
    {
        input.write_all(request.as_bytes()).expect("it takes the request");
        let mut received = Vec::new();
        while !received.ends_with(body.as_bytes()) {
            let mut piece = [0; 4096];
            let count = output.read(&mut piece).expect("it gives the answer");
            assert!(count > 0, "the connection ended after {:?}", String::from_utf8_lossy(&received));
            received.extend_from_slice(&piece[..count]);
        }
        wait_until_parked(&server, 1);
    }
    drop(input);
    let _ = client.kill();
    let _ = client.wait();
    wait_until_parked(&server, 0);
}
