//! Uploads: complete or not stored, of any length, and visible at once.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use super::{ask, configuration, head, put, server, status};
use crate::support::{Client, Server, Tree, skipped, wait_until};

/// Every name below the root, hidden ones too.
fn names(tree: &Tree) -> Vec<String> {
    let entries = fs::read_dir(tree.root()).expect("the root").flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

#[test]
fn an_upload_that_breaks_off_leaves_nothing() {
    let tree = Tree::empty();
    tree.write("kept.txt", "kept");
    let server = server(&tree, "");
    for target in ["/new.bin", "/kept.txt"] {
        let mut stream = TcpStream::connect(server.address()).expect("a connection");
        stream.write_all(head("PUT", target, "", 2_000_000).as_bytes()).expect("the head is sent");
        stream.write_all(&vec![b'x'; 1_000_000]).expect("a part is sent");
        drop(stream);
    }
    // Another upload is answered after the server has seen both ends.
    assert_eq!(put(server.address(), "/last.txt", "last"), 201);
    wait_until("the parts are gone", Duration::from_secs(60), || names(&tree) == ["kept.txt", "last.txt"]);
    assert_eq!(status(server.address(), "GET", "/new.bin", ""), 404);
    assert_eq!(ask(server.address(), "GET", "/kept.txt", "", b"").body, b"kept");
}

#[test]
fn a_large_upload_takes_little_memory() {
    const MEGABYTES: usize = 200;
    let tree = Tree::empty();
    let server = server(&tree, ", sync = false");
    let peak = || {
        let text =
            fs::read_to_string(format!("/proc/{}/status", server.pid().as_raw_nonzero())).expect("a status");
        let line = text.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak").to_string();
        line.split_whitespace().nth(1).expect("a number").parse::<usize>().expect("a number") / 1024
    };
    let before = peak();
    let mut stream = TcpStream::connect(server.address()).expect("a connection");
    stream.write_all(head("PUT", "/large.bin", "", MEGABYTES << 20).as_bytes()).expect("the head is sent");
    let piece = vec![7; 1 << 20];
    for _ in 0..MEGABYTES {
        stream.write_all(&piece).expect("a piece is sent");
    }
    let mut client = Client::from_stream(stream).expect("a client");
    assert_eq!(client.answer().status, 201);
    assert_eq!(fs::metadata(tree.file("large.bin")).expect("it is there").len(), (MEGABYTES as u64) << 20);
    let more = peak() - before;
    assert!(more < 32, "{more} MiB more than before");
}

#[test]
fn a_changed_file_is_seen_at_once() {
    let tree = Tree::empty();
    tree.write("box/index.html", "first");
    let server = server(&tree, "");
    let address = server.address();
    let get = |target: &str| String::from_utf8_lossy(&ask(address, "GET", target, "", b"").body).into_owned();
    for round in 0..50 {
        let content = format!("content {round}");
        assert_eq!(put(address, "/box/index.html", &content), 204);
        for target in ["/box/index.html", "/box/"] {
            for _ in 0..4 {
                assert_eq!(get(target), content, "{target}");
            }
        }
    }
    assert_eq!(status(address, "MOVE", "/box/", "Destination: /other/\r\n"), 201);
    assert_eq!(status(address, "GET", "/box/index.html", ""), 404);
    assert_eq!(get("/other/"), "content 49");
    assert_eq!(status(address, "DELETE", "/other/", ""), 204);
    assert_eq!(status(address, "GET", "/other/index.html", ""), 404);
}

#[test]
fn what_is_uploaded_cannot_be_executed() {
    use std::os::unix::fs::PermissionsExt;
    let tree = Tree::empty();
    let script = tree.write("run.cgi", "#!/bin/sh\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o4755)).expect("permissions");
    let server = server(&tree, "");
    for target in ["/run.cgi", "/new.cgi"] {
        assert!(matches!(put(server.address(), target, "#!/bin/sh\n"), 201 | 204));
        let mode = fs::metadata(tree.file(&target[1..])).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o7111, 0, "{target}: {mode:o}");
    }
}

/// A file system of one megabyte, until the end of the test.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn mount(at: std::path::PathBuf) -> Option<SmallDisk> {
        fs::create_dir_all(&at).expect("a directory");
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", "size=1m", "touchstone-test"]).arg(&at);
        let is_mounted = command.output().is_ok_and(|output| output.status.success());
        is_mounted.then_some(SmallDisk(at))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).output();
    }
}

#[test]
fn a_full_disk_is_507_and_leaves_nothing() {
    let tree = Tree::empty();
    let Some(disk) = SmallDisk::mount(tree.file("small")) else {
        skipped("uploads to a full disk (run the tests as root, where file systems can be mounted)");
        return;
    };
    tree.write("large.bin", vec![b'x'; 3_000_000]);
    let server = server(&tree, "");
    let address = server.address();
    assert_eq!(put(address, "/small/kept.txt", "kept"), 201);
    let full = vec![b'x'; 3_000_000];
    assert_eq!(ask(address, "PUT", "/small/new.bin", "", &full).status, 507);
    assert_eq!(ask(address, "PUT", "/small/kept.txt", "", &full).status, 507);
    assert_eq!(status(address, "COPY", "/large.bin", "Destination: /small/large.bin\r\n"), 507);
    assert_eq!(status(address, "MOVE", "/large.bin", "Destination: /small/large.bin\r\n"), 507);
    let left: Vec<_> =
        fs::read_dir(&disk.0).expect("it is there").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["kept.txt"]);
    assert_eq!(fs::read_to_string(disk.0.join("kept.txt")).expect("it is there"), "kept");
    // There is room again, and a smaller file moves between the file systems.
    assert_eq!(status(address, "MOVE", "/small/kept.txt", "Destination: /moved.txt\r\n"), 201);
    assert_eq!(fs::read_to_string(tree.file("moved.txt")).expect("it is there"), "kept");
    assert!(!disk.0.join("kept.txt").exists());
}

#[test]
fn a_body_without_a_length_has_the_same_limit() {
    let tree = Tree::empty();
    let text = configuration(&tree, "127.0.0.1:0", "", "").replace("1GiB", "1KiB");
    let server = Server::configured(tree.around(), &text);
    let send = |bytes: usize| {
        let mut client = Client::connect(server.address());
        client.send(
            "PUT /a.bin HTTP/1.1\r\nHost: dav.example\r\nConnection: close\r\n\
             Transfer-Encoding: chunked\r\n\r\n",
        );
        client.send(format!("{bytes:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(bytes)));
        client.answer().status
    };
    assert_eq!(send(1024), 201);
    assert_eq!(send(1025), 413);
    assert_eq!(ask(server.address(), "PUT", "/b.bin", "", &[b'x'; 1025]).status, 413);
    assert_eq!(fs::metadata(tree.file("a.bin")).expect("it is there").len(), 1024);
    assert_eq!(names(&tree), ["a.bin"]);
}

#[test]
fn uploads_to_one_name_are_each_whole() {
    let tree = Tree::empty();
    let server = server(&tree, ", sync = false");
    let address = server.address();
    std::thread::scope(|scope| {
        for letter in *b"abcdefgh" {
            scope.spawn(move || {
                for _ in 0..5 {
                    let body = vec![letter; 600_000];
                    assert!(matches!(ask(address, "PUT", "/one.bin", "", &body).status, 201 | 204));
                }
            });
        }
        scope.spawn(move || {
            for _ in 0..40 {
                let answer = ask(address, "GET", "/one.bin", "", b"");
                let first = answer.body.first().copied();
                let is_whole =
                    answer.body.len() == 600_000 && answer.body.iter().all(|byte| Some(*byte) == first);
                assert!(answer.status == 404 || is_whole, "{} bytes", answer.body.len());
            }
        });
    });
    assert_eq!(names(&tree), ["one.bin"]);
}

#[test]
fn an_accelerator_in_front_forgets_what_is_changed_through_it() {
    let tree = Tree::empty();
    tree.write("a.txt", "first");
    let text = configuration(&tree, "127.0.0.1:0", "", "cache_control = \"max-age=600\"");
    let server = Server::configured(tree.around(), &text);
    let front = Server::accelerating(server.address(), &[]);
    let address = front.address();
    let get = || String::from_utf8_lossy(&ask(address, "GET", "/a.txt", "", b"").body).into_owned();
    assert_eq!((get(), get()), ("first".to_string(), "first".to_string()));
    tree.write("a.txt", "changed behind it");
    assert_eq!(get(), "first", "it is stored");
    assert_eq!(put(address, "/a.txt", "second"), 204);
    assert_eq!((get(), get()), ("second".to_string(), "second".to_string()));
    tree.write("b.txt", "replaced");
    assert_eq!(ask(address, "GET", "/b.txt", "", b"").body, b"replaced");
    assert_eq!(status(address, "MOVE", "/a.txt", "Destination: /b.txt\r\n"), 204);
    assert_eq!(status(address, "GET", "/a.txt", ""), 404);
    assert_eq!(ask(address, "GET", "/b.txt", "", b"").body, b"second");
}
