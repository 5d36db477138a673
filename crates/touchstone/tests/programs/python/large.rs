//! Bodies of gigabytes in both directions: the memory of the server and of its workers does not grow.
//!
//! `PYTHON_BODY_BYTES` sets their size (10 GiB):
//!
//! ```sh
//! cargo test -p touchstone --test programs python::large -- --ignored --nocapture
//! ```

#![allow(clippy::print_stdout, reason = "what was measured is printed")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::*;

/// By how much the memory of a process may grow.
const GROWTH_BYTES: u64 = 48 << 20;

fn length() -> u64 {
    let stated = std::env::var("PYTHON_BODY_BYTES").ok();
    stated.map_or(10 << 30, |bytes| bytes.parse().expect("PYTHON_BODY_BYTES is a number of bytes"))
}

/// The most memory that a process has ever used, in bytes.
fn peak_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it has a peak");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") << 10
}

/// The server and its workers.
fn processes(server: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{server}/task")).expect("the server lives");
    let children = tasks.map(|task| {
        let children = task.expect("a task").path().join("children");
        std::fs::read_to_string(children).unwrap_or_default()
    });
    let children: String = children.map(|text| text + " ").collect();
    std::iter::once(server)
        .chain(children.split_whitespace().map(|pid| pid.parse().expect("a number")))
        .collect()
}

/// Reads an answer to its end; returns how long its body is.
fn body_length(stream: &mut TcpStream) -> u64 {
    let mut buffer = vec![0; 1 << 20];
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("the head comes");
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let mut length = 0;
    loop {
        match stream.read(&mut buffer).expect("the body comes") {
            0 => return length,
            count => length += count as u64,
        }
    }
}

#[test]
#[ignore = "it takes minutes"]
fn bodies_of_gigabytes_pass_in_constant_memory() {
    if !has_python() {
        return;
    }
    let length = length();
    let limits = "[limits]\nbody_bytes = \"64GiB\"\n";
    for app in ["wsgi_app:application", "asgi_app:application"] {
        let running = start_in(&apps(), app, "workers = 1", limits);
        assert_eq!(running.post("/length", &vec![b'x'; 4 << 20]).body, b"4194304");
        assert_eq!(running.get("/large?4194304").body.len(), 4 << 20);
        let before: Vec<(u32, u64)> = processes(running.server.process() as u32)
            .into_iter()
            .map(|pid| (pid, peak_bytes(pid)))
            .collect();
        assert!(before.len() >= 2, "a server and a worker");

        let mut stream = TcpStream::connect(running.server.address()).expect("it listens");
        let head = format!(
            "POST /length HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("it is sent");
        let piece = vec![b'x'; 1 << 20];
        let mut left = length;
        while left > 0 {
            let now = left.min(piece.len() as u64);
            stream.write_all(&piece[..now as usize]).expect("it is sent");
            left -= now;
        }
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        assert!(answer.ends_with(&format!("\r\n\r\n{length}")), "{app}: {answer}");

        let mut stream = TcpStream::connect(running.server.address()).expect("it listens");
        let head = format!("GET /large?{length} HTTP/1.0\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("it is sent");
        assert_eq!(body_length(&mut stream), length, "{app}");

        for (pid, before) in before {
            let after = peak_bytes(pid);
            println!("{app}: process {pid}: {} MiB, then {} MiB", before >> 20, after >> 20);
            assert!(after < before + GROWTH_BYTES, "{app}: process {pid}: {before}, then {after}");
        }
    }
}
