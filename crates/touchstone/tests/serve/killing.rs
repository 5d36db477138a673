//! Pools of programs and processes of plug-ins, killed at random under load: every request gets an answer,
//! and no process, descriptor or memory is left. The same test of CGI programs is in `cgi.rs`.
//!
//! Each runs for ten seconds; the ignored ones run for five minutes:
//! `cargo test -p touchstone --test serve killing -- --ignored --nocapture`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::support::{AnswerTo, Broken, Client, Server, Tree, skipped, wait_until};
use rustix::process::{Pid, Signal, kill_process};

const SHORT: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(300);

/// Far longer than anything takes on a busy machine; processes of plug-ins wait ten seconds before they start
/// again.
const PATIENCE: Duration = Duration::from_secs(60);

/// The number of kept connections varies; a leak with each kill would be far more after thousands.
const DESCRIPTORS_THAT_VARY: usize = 16;

/// The allocator keeps some megabytes for each thread, and the workers for plug-ins start one by one.
const MEMORY_THAT_VARIES_KIB: u64 = 64 * 1024;

/// The processes that are killed, and the requests during that.
struct Killing<'a> {
    server: Server,
    /// Whether a process that descends from the server is to be killed.
    is_victim: &'a dyn Fn(i32) -> bool,
    /// Whole requests, the first of which must be answered with 200 before and after.
    requests: &'a [String],
    length: Duration,
}

impl Killing<'_> {
    #[expect(clippy::print_stderr, reason = "the figures are what the long forms are run for")]
    fn run(mut self) {
        let server = &self.server;
        wait_until("it works", PATIENCE, || self.works());
        // Everything that is made only once exists after this.
        self.load(|asked| {
            std::thread::sleep(Duration::from_secs(1));
            wait_until("enough answers", PATIENCE, || asked.good.load(Ordering::Relaxed) > 50);
        });
        let (descriptors, memory_kib) = (open_descriptors(server), resident_kib(server.process()));
        let (mut state, mut killed) = (1u64, 0u32);
        let Asked { answers, good } = self.load(|asked| {
            let begin = Instant::now();
            // Longer on a machine so busy that too few requests succeed in that time.
            let is_enough = |killed| killed > 5 && asked.good.load(Ordering::Relaxed) > 20;
            let most = self.length + PATIENCE * 3;
            while begin.elapsed() < self.length || !is_enough(killed) && begin.elapsed() < most {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let victims = self.victims();
                if let Some(&victim) = victims.get((state >> 33) as usize % victims.len().max(1)) {
                    let signal = if state >> 40 & 3 == 0 { Signal::TERM } else { Signal::KILL };
                    killed += u32::from(kill_process(Pid::from_raw(victim).unwrap(), signal).is_ok());
                }
                std::thread::sleep(Duration::from_millis(100 + (state >> 50 & 1023)));
            }
        });
        wait_until("it works again", PATIENCE, || self.works());
        let (answers, good) = (answers.into_inner(), good.into_inner());
        let server = &self.server;
        wait_until("no descriptor is left", PATIENCE, || {
            open_descriptors(server) <= descriptors + DESCRIPTORS_THAT_VARY
        });
        let memory_after_kib = resident_kib(server.process());
        eprintln!(
            "{killed} killed, {good} of {answers} answers good; {descriptors} descriptors before, {} after; \
             {memory_kib} KiB before, {memory_after_kib} after",
            open_descriptors(server)
        );
        assert!(killed > 5 && good > 20 && answers >= good, "{killed} killed, {good} good of {answers}");
        assert!(
            memory_after_kib < memory_kib + MEMORY_THAT_VARIES_KIB,
            "{memory_kib} KiB before, {memory_after_kib} after"
        );
        let processes = descendants(server.process());
        assert!(!processes.is_empty());
        self.server.stop();
        wait_until("no process is left", PATIENCE, || processes.iter().all(|process| !runs(*process)));
    }

    fn victims(&self) -> Vec<i32> {
        descendants(self.server.process()).into_iter().filter(|process| (self.is_victim)(*process)).collect()
    }

    fn works(&self) -> bool {
        let mut client = Client::connect(self.server.address());
        client.send(&self.requests[0]);
        client.try_answer(AnswerTo::Other).is_ok_and(|answer| answer.status == 200)
    }

    /// Sends requests with several clients while `beside` runs.
    fn load(&self, beside: impl FnOnce(&Asked)) -> Asked {
        let (address, requests) = (self.server.address(), self.requests);
        let (asked, stop) = (Asked::default(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for number in 0..5 {
                let (asked, stop) = (&asked, &stop);
                scope.spawn(move || ask_until(stop, address, requests, number, asked));
            }
            beside(&asked);
            stop.store(true, Ordering::Relaxed);
        });
        asked
    }
}

/// The number of answers, and of good ones.
#[derive(Default)]
struct Asked {
    answers: AtomicU32,
    good: AtomicU32,
}

/// Sends requests until it is stopped; the first client leaves in the middle. Every answer is whole, or was
/// begun and broken off.
fn ask_until(stop: &AtomicBool, address: SocketAddr, requests: &[String], number: usize, asked: &Asked) {
    let mut answers = 0;
    while !stop.load(Ordering::Relaxed) {
        let request = &requests[(answers + number) % requests.len()];
        let mut client = Client::connect(address);
        // Longer than the server waits for a program.
        client.set_patience(PATIENCE);
        // The server may answer and close before it has read all.
        let _ = client.try_send(request.as_bytes());
        answers += 1;
        asked.answers.fetch_add(1, Ordering::Relaxed);
        if number == 0 {
            std::thread::sleep(Duration::from_millis(8));
            client.vanish();
            continue;
        }
        let line = request.lines().next().unwrap();
        match client.try_answer(AnswerTo::Other) {
            Ok(answer) => {
                assert!(matches!(answer.status, 200 | 502 | 503 | 504), "{line}: {}", answer.status);
                asked.good.fetch_add(u32::from(answer.status == 200), Ordering::Relaxed);
            }
            Err(Broken::Closed { received } | Broken::Reset { received }) => {
                assert!(received.starts_with(b"HTTP/1.1 200 "), "{line}: {}", received.escape_ascii());
            }
            Err(broken) => panic!("{line}: {broken}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
}

fn post(target: &str, length: usize) -> String {
    let body = "b".repeat(length);
    format!(
        "POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

fn open_descriptors(server: &Server) -> usize {
    fs::read_dir(format!("/proc/{}/fd", server.process())).unwrap().count()
}

fn resident_kib(process: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The process exists and is not a zombie.
fn runs(process: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn is_named(process: i32, name: &str) -> bool {
    fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default().contains(name)
}

fn descendants(process: i32) -> Vec<i32> {
    let mut found = vec![process];
    let mut index = 0;
    while index < found.len() {
        for task in fs::read_dir(format!("/proc/{}/task", found[index])).into_iter().flatten().flatten() {
            let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(text.split_whitespace().filter_map(|number| number.parse::<i32>().ok()));
        }
        index += 1;
    }
    found.split_off(1)
}

/// Compiles a program or library of the tests; `None`, with a visible message, if something for it is
/// missing.
fn compile(source: &Path, to: PathBuf, arguments: &[&str], needed: &str) -> Option<PathBuf> {
    let output = Command::new("cc").arg("-O1").arg(source).arg("-o").arg(&to).args(arguments).output();
    if output.is_ok_and(|output| output.status.success()) {
        return Some(to);
    }
    skipped(needed);
    None
}

fn fastcgi(length: Duration) {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let tree = Tree::empty();
    let needed = "killing FastCGI programs (install gcc and libfcgi-dev)";
    let to = tree.beside("echo.fcgi");
    let Some(program) = compile(&tests.join("programs/fastcgi/echo.c"), to, &["-lfcgi"], needed) else {
        return;
    };
    let route = format!(
        "[[site.route]]\n[site.route.fastcgi]\ncommand = [{program:?}]\nprocesses = 4\n\
         first_byte_timeout = \"10s\"\n"
    );
    let requests = [
        get("/?bytes=5000"),
        get("/?sleep=20"),
        post("/?body", 20_000),
        get("/?bytes=400000"),
        post("/?body", 200_000),
    ];
    let server = Server::configured(tree.around(), &(tree.configuration("") + &route));
    let is_victim = |process| is_named(process, "echo.fcgi");
    Killing { server, is_victim: &is_victim, requests: &requests, length }.run();
}

#[test]
fn fastcgi_programs() {
    fastcgi(SHORT);
}

#[test]
#[ignore = "takes five minutes"]
fn fastcgi_programs_for_five_minutes() {
    fastcgi(LONG);
}

fn php(length: Duration) {
    let names = ["php-fpm", "php-fpm8.4", "php-fpm8.3", "php-fpm8.2", "php-fpm8.1"];
    if !names.iter().any(|name| Path::new("/usr/sbin").join(name).exists()) {
        return skipped("killing php-fpm (install php-fpm)");
    }
    let tree = Tree::empty();
    tree.write(
        "index.php",
        "<?php if ($_SERVER['REQUEST_METHOD'] == 'POST') { echo strlen(file_get_contents('php://input')); \
         exit; }\n\
         for ($i = 0; $i < 10; $i++) { echo str_repeat('x', intdiv((int)($_GET['bytes'] ?? 10), 10)); \
         usleep((int)($_GET['wait'] ?? 0)); flush(); }",
    );
    // As root, php-fpm requires a user, and other users cannot read the tests' directories.
    let user = if rustix::process::geteuid().is_root() { "user = \"root\"\n" } else { "" };
    let route = format!(
        "[[site.route]]\n[site.route.php]\n{user}processes = 3\nfront_controller = \"/index.php\"\n\
         first_byte_timeout = \"10s\"\n"
    );
    let requests = [get("/a?bytes=5000"), get("/b?bytes=100000&wait=2000"), post("/c", 100_000)];
    let server = Server::configured(tree.around(), &(tree.configuration("") + &route));
    // The workers, and the master as often as one of them.
    let is_victim = |process| is_named(process, "php-fpm");
    Killing { server, is_victim: &is_victim, requests: &requests, length }.run();
}

#[test]
fn php_fpm() {
    php(SHORT);
}

#[test]
#[ignore = "takes five minutes"]
fn php_fpm_for_five_minutes() {
    php(LONG);
}

const PLUGIN: &str = r#"
#include <nsapi.h>
NSAPI_PUBLIC int killed_slow(pblock *pb, Session *sn, Request *rq)
{
    char piece[4000];
    int i;
    memset(piece, 'x', sizeof piece);
    protocol_status(sn, rq, PROTOCOL_OK, NULL);
    protocol_start_response(sn, rq);
    for (i = 0; i < 20; i++) {
        if (net_write(sn->csd, piece, sizeof piece) == IO_ERROR || net_flush(sn->csd) == IO_ERROR)
            return REQ_EXIT;
        systhread_sleep(1);
    }
    return REQ_PROCEED;
}
NSAPI_PUBLIC int killed_echo(pblock *pb, Session *sn, Request *rq)
{
    char piece[3000];
    int got;
    protocol_status(sn, rq, PROTOCOL_OK, NULL);
    protocol_start_response(sn, rq);
    while ((got = netbuf_getbytes(sn->inbuf, piece, sizeof piece)) > 0)
        if (net_write(sn->csd, piece, got) == IO_ERROR)
            return REQ_EXIT;
    return REQ_PROCEED;
}
NSAPI_PUBLIC int killed_quick(pblock *pb, Session *sn, Request *rq)
{
    pblock_nninsert("content-length", 5, rq->srvhdrs);
    protocol_status(sn, rq, PROTOCOL_OK, NULL);
    protocol_start_response(sn, rq);
    return net_write(sn->csd, "quick", 5) == IO_ERROR ? REQ_EXIT : REQ_PROCEED;
}
"#;

fn plugins(length: Duration) {
    let tree = Tree::empty();
    let root = tree.root();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let source = tree.write("killed.c", PLUGIN);
    let arguments = ["-shared", "-fPIC", "-I", include.to_str().unwrap()];
    let needed = "killing processes of plug-ins (install gcc)";
    if compile(&source, root.join("killed.so"), &arguments, needed).is_none() {
        return;
    }
    let config = "[error_log]\npath = \"stderr\"\n[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = \".\"\n\
                  [[site.route]]\n\
        [site.route.nsapi]\nhost = \"process\"\n\
        init = [\"fn=load-modules shlib=killed.so funcs=killed-slow,killed-echo,killed-quick\"]\n\
        directives = [\"NameTrans fn=assign-name from=/slow name=default\", \"Service fn=killed-echo \
        method=POST\", \"Service fn=killed-slow query=slow\", \"Service fn=killed-quick\"]\n";
    let requests = [get("/"), get("/?slow"), post("/", 100_000), get("/")];
    let server = Server::configured(&root, config);
    let is_victim = |process| is_named(process, "nsapi-host");
    Killing { server, is_victim: &is_victim, requests: &requests, length }.run();
}

#[test]
fn processes_of_plugins() {
    plugins(SHORT);
}

#[test]
#[ignore = "takes five minutes"]
fn processes_of_plugins_for_five_minutes() {
    plugins(LONG);
}
