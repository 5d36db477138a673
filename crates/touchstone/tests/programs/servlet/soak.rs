//! Servlets, pages, files, sessions, uploads and sockets under load for a long time, while one of two
//! applications is replaced again and again: requests to the other are not affected, and no part of the
//! replaced applications remains.
//!
//! The long form takes half an hour and shows what it measures once a minute:
//! `cargo test -p touchstone --test programs servlet::soak -- --ignored --nocapture`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::websocket::WebSocket;
use super::{START, copy, get_patiently, pack, replace, route, start, target, text, trial};
use crate::support::{Client, Response, Server, Tree, wait_until};

/// Clients of each kind, and the pause of each between two requests: about eighty requests a second, which a
/// busy machine can carry.
const CLIENTS: usize = 4;
const PAUSE: Duration = Duration::from_millis(50);

/// Messages for about a second.
const SAID_IN_A_CONVERSATION: usize = 20;

/// Tolerances: descriptors and threads that are opened on demand, and memory that Java and the allocator
/// keep.
const DESCRIPTORS_THAT_VARY: u64 = 24;
const THREADS_THAT_VARY: u64 = 24;
const MEMORY_THAT_VARIES_KIB: u64 = 64 * 1024;
const HEAP_THAT_VARIES_KIB: u64 = 16 * 1024;
/// Proxies and lambdas; an application that is not unloaded has several times as many.
const CLASSES_THAT_VARY: u64 = 300;
/// The gaps that two loaded applications leave between their classes; one that is not unloaded at each
/// replacement would take tens of megabytes.
const METASPACE_THAT_VARIES_KIB: u64 = 6 * 1024;

struct Soak {
    /// The time until all that is made once exists.
    warm_up: Duration,
    length: Duration,
    /// The interval between two replacements.
    every: Duration,
}

/// What the server holds at one time.
#[derive(Debug, Clone, Copy)]
struct Held {
    resident_kib: u64,
    descriptors: u64,
    threads: u64,
    heap_kib: u64,
    metaspace_kib: u64,
    classes: u64,
}

#[test]
fn applications_are_replaced_under_load_and_leave_nothing_behind() {
    let second = Duration::from_secs;
    Soak { warm_up: second(10), length: second(15), every: second(4) }.run();
}

#[test]
#[ignore = "takes half an hour"]
fn half_an_hour_of_everything_leaves_nothing_behind() {
    let second = Duration::from_secs;
    Soak { warm_up: second(180), length: second(30 * 60), every: second(20) }.run();
}

impl Soak {
    #[expect(clippy::print_stderr, reason = "the figures are what the long form is run for")]
    fn run(self) {
        let Some(trial) = trial() else { return };
        let tree = Tree::empty();
        let apps = tree.root().join("apps");
        copy(trial, &apps.join("kept"));
        let war = apps.join("replaced.war");
        pack(trial, &war);
        // Other tests may rebuild the jars at the same time.
        let jars = tree.root().join("jars");
        copy(&target().join("java"), &jars);
        let java = format!("library = {jars:?}\nheap = \"96MiB\"\n");
        fs::create_dir(tree.root().join("files")).unwrap();
        fs::write(tree.root().join("files/plain.txt"), "a file\n").unwrap();
        let files = format!("[[site.route]]\npath = \"/files/\"\nroot = {:?}\n", tree.root());
        let servlets = route("/", &format!("directory = {apps:?}, threads = 32"));
        let server = start(&tree, &java, &(files + &servlets), 2);
        let begun = Instant::now();
        let (answers, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        let (mut replaced, mut after_warm_up, mut said) = (0, None, 0);
        std::thread::scope(|scope| {
            let _ends = Ends(&is_over);
            let load = Load { address: server.address(), is_over: &is_over, answers: &answers };
            for number in 0..CLIENTS {
                scope.spawn(move || load.ask("/kept", number));
                scope.spawn(move || load.ask("/replaced", number));
            }
            scope.spawn(move || load.chat());
            // On a slow machine too, replacements happen before and after the first check.
            while begun.elapsed() < self.warm_up + self.length || replaced < 4 {
                std::thread::sleep(self.every);
                replace(&war);
                replaced += 1;
                wait_until("the application was replaced", START, || {
                    server.error_text().matches("/replaced (replaced.war) runs again").count() >= replaced
                });
                let minute = begun.elapsed().as_secs() / 60;
                if after_warm_up.is_none() && begun.elapsed() > self.warm_up && replaced > 1 {
                    after_warm_up = Some(held(&server));
                }
                if minute > said {
                    said = minute;
                    eprintln!(
                        "minute {minute}: {} answers, {replaced} replaced, {:?}",
                        answers.load(Relaxed),
                        held(&server)
                    );
                }
            }
        });
        // A replaced application is removed when its last request has ended.
        wait_until("one copy of it lies unpacked", START, || unpacked(&server) == 1);
        let (before, after) = (after_warm_up.unwrap(), held(&server));
        eprintln!(
            "{} answers, {replaced} replaced; before {before:?}, after {after:?}",
            answers.load(Relaxed)
        );
        assert!(after.resident_kib < before.resident_kib + MEMORY_THAT_VARIES_KIB, "memory");
        assert!(after.heap_kib < before.heap_kib + HEAP_THAT_VARIES_KIB, "heap");
        assert!(after.descriptors < before.descriptors + DESCRIPTORS_THAT_VARY, "descriptors");
        assert!(after.threads < before.threads + THREADS_THAT_VARY, "threads");
        assert!(after.classes < before.classes + CLASSES_THAT_VARY, "classes");
        assert!(after.metaspace_kib < before.metaspace_kib + METASPACE_THAT_VARIES_KIB, "metaspace");
        let log = server.error_text();
        let is_fault = |line: &&str| {
            line.contains(" error ") || line.contains("memory leak") || line.contains("failed to stop")
        };
        let faults: Vec<&str> = log.lines().filter(is_fault).take(5).collect();
        assert!(faults.is_empty(), "{faults:#?}");
    }
}

/// What an upload is made of.
const PARTS: &str =
    "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"n.txt\"\r\n\r\nabc\r\n--b--\r\n";

fn upload(address: SocketAddr, target: &str) -> Response {
    let mut client = Client::connect(address);
    client.set_patience(START);
    client.ask(format!(
        "POST {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\
         Content-Type: multipart/form-data; boundary=b\r\n\
         Content-Length: {}\r\n\r\n{PARTS}",
        PARTS.len()
    ))
}

/// Ends the load, also after a failure.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// The state that all clients share.
#[derive(Clone, Copy)]
struct Load<'a> {
    address: SocketAddr,
    is_over: &'a AtomicBool,
    answers: &'a AtomicU64,
}

impl Load<'_> {
    /// Requests one thing after the other; every answer is right.
    fn ask(self, application: &str, number: usize) {
        let (mut counted, mut session, mut turn) = (0, String::new(), number);
        while !self.is_over.load(Relaxed) {
            turn += 1;
            let (target, expected) = match turn % 6 {
                0 => (format!("{application}/facts?name=x"), "name=x".to_string()),
                1 => (format!("{application}/date.jsp"), "sum=3".to_string()),
                2 => ("/files/plain.txt".to_string(), "a file".to_string()),
                3 => {
                    counted += 1;
                    (format!("{application}/count{session}"), format!("{counted} "))
                }
                4 => (format!("{application}/async?how=pieces"), "piece 2".to_string()),
                _ => (format!("{application}/upload"), "f n.txt 3".to_string()),
            };
            let is_upload = target.ends_with("/upload");
            let answer =
                if is_upload { upload(self.address, &target) } else { get_patiently(self.address, &target) };
            let said = text(&answer);
            assert!(answer.status == 200 && said.contains(&expected), "{target}: {} {said}", answer.status);
            if target.ends_with("/count")
                && let Some((_, cookie)) = answer.field("set-cookie").and_then(|field| field.split_once('='))
            {
                session = format!(";jsessionid={}", cookie.split(';').next().unwrap());
            }
            self.answers.fetch_add(1, Relaxed);
            std::thread::sleep(PAUSE);
        }
    }

    /// Sends messages over two sockets. One remains open; the other belongs to the replaced application and
    /// is closed and opened again. Each message is answered on its socket, and no socket breaks off.
    fn chat(self) {
        let mut kept = WebSocket::open(self.address, "/kept/socket").unwrap();
        while !self.is_over.load(Relaxed) {
            let mut replaced = WebSocket::open(self.address, "/replaced/socket").unwrap();
            for _ in 0..SAID_IN_A_CONVERSATION {
                for socket in [&mut kept, &mut replaced] {
                    socket.say("a").unwrap();
                    assert_eq!(socket.hear().unwrap(), "heard a");
                    self.answers.fetch_add(1, Relaxed);
                }
                std::thread::sleep(PAUSE);
            }
            replaced.close().unwrap();
        }
        kept.close().unwrap();
    }
}

fn held(server: &Server) -> Held {
    let memory = text(&get_patiently(server.address(), "/kept/memory"));
    let of = |text: &str, name: &str| -> u64 {
        let rest = text.split_once(name).unwrap_or_else(|| panic!("{name} in {text}")).1;
        let digits = rest.trim_start().split(|letter: char| !letter.is_ascii_digit()).next().unwrap();
        digits.parse().unwrap()
    };
    let status = fs::read_to_string(format!("/proc/{}/status", server.process())).unwrap();
    Held {
        resident_kib: of(&status, "VmRSS:"),
        descriptors: fs::read_dir(format!("/proc/{}/fd", server.process())).unwrap().count() as u64,
        threads: of(&status, "Threads:"),
        heap_kib: of(&memory, "heap_kib="),
        metaspace_kib: of(&memory, "metaspace_kib="),
        classes: of(&memory, "classes="),
    }
}

/// How many unpacked directories of the application still exist.
fn unpacked(server: &Server) -> usize {
    let of_server = format!("touchstone-java-{}-", server.process());
    let temporary =
        fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten().map(|entry| entry.path());
    let own = temporary
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&of_server)));
    own.map(|path| copies_below(&path)).sum()
}

/// The directories for the files of an application below this one.
fn copies_below(directory: &Path) -> usize {
    let below = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    below
        .filter(|path| path.is_dir())
        .map(|path| if path.ends_with("files") { 1 } else { copies_below(&path) })
        .sum()
}
