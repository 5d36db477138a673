//! The memory of a million small responses: here, in Varnish, and in nginx with its files on tmpfs. This test
//! computes the figures in docs/accelerator.md: `cargo test --release -p touchstone --test accelerate density
//! -- --ignored --nocapture`.
//!
//! All three get the same responses of one origin, 200 bytes of body under a head of about 250. The test
//! counts the process's own memory (not mapped files) and shared memory, less the amount before; for nginx
//! also the files' blocks. It requests some responses after the origin has stopped, to check that each is
//! really stored.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::support::{Client, Server, Tree, free_port, skipped, wait_until};

/// TOUCHSTONE_OBJECTS=100000 takes fewer.
fn objects() -> usize {
    std::env::var("TOUCHSTONE_OBJECTS").ok().and_then(|objects| objects.parse().ok()).unwrap_or(1_000_000)
}

/// Active requests at once on a connection.
const PIPELINED: usize = 32;

const CONNECTIONS: usize = 64;

/// The end of each body, which the test uses to count responses.
const END: &[u8] = b"<end of the body>";

/// A program that ends with the test.
struct Program(Child);

impl Program {
    /// `None`, with a visible message, if it is not installed.
    fn start(mut command: Command, package: &str) -> Option<Program> {
        match command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
            Ok(child) => Some(Program(child)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                skipped(&format!("a part of the comparison (install {package})"));
                None
            }
            Err(error) => panic!("{command:?}: {error}"),
        }
    }

    /// The process and its children.
    fn processes(&self) -> Vec<i32> {
        let own = i32::try_from(self.0.id()).unwrap();
        let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap_or_default();
        [own].into_iter().chain(children.split_whitespace().map(|id| id.parse().unwrap())).collect()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Asked first, so that it ends its children.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let ended = (0..500).any(|_| {
            thread::sleep(Duration::from_millis(10));
            matches!(self.0.try_wait(), Ok(Some(_)))
        });
        if !ended {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// nginx with these directives within `http`.
fn nginx(directory: &Path, directives: &str) -> Option<Program> {
    let directory = directory.display();
    let text = format!(
        "daemon off; master_process off; pid {directory}/pid; error_log {directory}/error.log;\n\
         worker_rlimit_nofile 65536; events {{ worker_connections 1024; }}\n\
         http {{ access_log off; keepalive_requests 100000000; {directives} }}\n"
    );
    let path = format!("{directory}/nginx.conf");
    fs::write(&path, text).unwrap();
    let mut command = Command::new("nginx");
    command.args(["-p", &directory.to_string(), "-c", &path]);
    Program::start(command, "nginx")
}

fn origin(directory: &Path, port: u16) -> Option<Program> {
    let body = "x".repeat(200 - END.len()) + std::str::from_utf8(END).unwrap();
    let server = format!(
        "server {{ listen 127.0.0.1:{port} backlog=4096; location / {{ default_type 'text/plain; \
         charset=utf-8';\n\
         add_header Cache-Control 'public, max-age=86400'; add_header ETag '\"5f3c1a2b-c8\"';\n\
         add_header Last-Modified 'Wed, 21 Oct 2015 07:28:00 GMT'; add_header X-Request-Path $uri;\n\
         add_header Content-Language en; return 200 '{body}'; }} }}"
    );
    nginx(directory, &server)
}

/// Kilobytes of these processes other than mapped files: private memory, and shared memory (of which all see
/// the same).
fn memory_kib(processes: &[i32]) -> u64 {
    let of = |process: &i32, what: &str| {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(':'));
        line.map_or(0, |line| line.trim().trim_end_matches(" kB").parse::<u64>().unwrap())
    };
    let own: u64 = processes.iter().map(|process| of(process, "RssAnon")).sum();
    own + processes.iter().map(|process| of(process, "RssShmem")).max().unwrap_or(0)
}

/// Kilobytes of a directory's files in whole blocks.
fn files_kib(directory: &Path) -> u64 {
    let output = Command::new("du").arg("-sk").arg(directory).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split_whitespace().next().unwrap().parse().unwrap()
}

/// Requests objects, each once.
fn fill(address: SocketAddr) {
    let part = objects().div_ceil(CONNECTIONS);
    thread::scope(|scope| {
        for first in (0..objects()).step_by(part) {
            scope.spawn(move || ask(address, first..(first + part).min(objects())));
        }
    });
}

fn ask(address: SocketAddr, objects: std::ops::Range<usize>) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut received = vec![0; 256 * 1024];
    for begin in objects.clone().step_by(PIPELINED) {
        let end = (begin + PIPELINED).min(objects.end);
        let mut requests = String::new();
        for index in begin..end {
            write!(requests, "GET /o/{index:07} HTTP/1.1\r\nHost: www.example.org\r\n\r\n").unwrap();
        }
        stream.write_all(requests.as_bytes()).unwrap();
        let (mut length, mut from, mut answered) = (0, 0, 0);
        while answered < end - begin {
            let count = stream.read(&mut received[length..]).unwrap();
            assert!(count > 0, "{}", received[..length].escape_ascii());
            length += count;
            while let Some(at) = memchr::memmem::find(&received[from..length], END) {
                from += at + END.len();
                answered += 1;
            }
        }
    }
}

/// Fills the cache that listens there, and returns the growth of its memory in kilobytes.
fn spent(
    name: &str,
    address: SocketAddr,
    origin_directory: &Path,
    origin_port: u16,
    kib: impl Fn() -> u64,
) -> u64 {
    let origin = origin(origin_directory, origin_port).unwrap();
    let origin_address = SocketAddr::from(([127, 0, 0, 1], origin_port));
    for address in [origin_address, address] {
        wait_until("it listens", Duration::from_secs(60), || Client::try_connect(address).is_ok());
    }
    // Everything that is made only once exists after this.
    ask(address, 0..PIPELINED);
    let before = kib();
    fill(address);
    // Memory that a request needs only for a moment is freed.
    thread::sleep(Duration::from_secs(5));
    let after = kib();
    drop(origin);
    for index in (0..objects()).step_by(objects().div_ceil(1000)) {
        let mut client = Client::connect(address);
        let got = client
            .ask(format!("GET /o/{index:07} HTTP/1.1\r\nHost: www.example.org\r\nConnection: close\r\n\r\n"));
        let path = format!("/o/{index:07}");
        assert_eq!((got.status, got.field("x-request-path")), (200, Some(path.as_str())), "{name} {index}");
    }
    after - before
}

/// Bytes that one object takes.
#[expect(clippy::print_stderr, reason = "the figures are what this is run for")]
fn each(name: &str, kib: u64) -> u64 {
    let bytes = kib * 1024 / objects() as u64;
    eprintln!("{name}: {bytes} bytes each of {} objects", objects());
    bytes
}

fn of_ours(tree: &Tree, origin_port: u16) -> u64 {
    let origin_address = SocketAddr::from(([127, 0, 0, 1], origin_port));
    let more = ["--cores", "2", "--memory", "4GiB", "--access-log", "off"];
    let server = Server::accelerating(origin_address, &more);
    let kib = || memory_kib(&[server.process()]);
    each("touchstone", spent("touchstone", server.address(), &tree.root(), origin_port, kib))
}

fn of_varnish(tree: &Tree, origin_port: u16) -> Option<u64> {
    let port = free_port();
    let mut command = Command::new("varnishd");
    command.args(["-F", "-n"]).arg(tree.beside("varnish"));
    command.args(["-a", &format!("127.0.0.1:{port}"), "-b", &format!("127.0.0.1:{origin_port}")]);
    command.args(["-s", "malloc,6G", "-j", "none"]);
    let program = Program::start(command, "varnish")?;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    // Its log in shared memory is a mapped file, of one size.
    let kib = || memory_kib(&program.processes());
    Some(each("varnish", spent("varnish", address, &tree.root(), origin_port, kib)))
}

fn of_nginx(tree: &Tree, origin_port: u16) -> Option<(u64, u64)> {
    let port = free_port();
    let files = tempfile::tempdir_in("/dev/shm").unwrap();
    let cache = files.path().join("cache");
    let directives = format!(
        "proxy_cache_path {} levels=1:2 keys_zone=o:512m max_size=16g inactive=1d use_temp_path=off;\n\
         upstream origin {{ server 127.0.0.1:{origin_port}; keepalive 16; }}\n\
         server {{ listen 127.0.0.1:{port}; location / {{ proxy_cache o; proxy_http_version 1.1;\n\
         proxy_set_header Connection ''; proxy_pass http://origin; }} }}",
        cache.display()
    );
    let directory = tree.beside("nginx");
    fs::create_dir_all(&directory).unwrap();
    let program = nginx(&directory, &directives)?;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let kib = || memory_kib(&program.processes());
    let zone = each("nginx, its zone of keys", spent("nginx", address, &tree.root(), origin_port, kib));
    Some((zone, each("nginx, its files on tmpfs", files_kib(&cache))))
}

#[test]
#[ignore = "takes minutes and gigabytes of memory"]
fn a_million_small_responses_take_little_memory() {
    if Command::new("nginx").arg("-v").output().is_err() {
        return skipped("what a million responses take (install nginx)");
    }
    let tree = Tree::empty();
    let origin_port = free_port();
    let ours = of_ours(&tree, origin_port);
    if let Some(theirs) = of_varnish(&tree, origin_port) {
        assert!(ours * 10 <= theirs * 13, "{ours} bytes each, Varnish {theirs}");
    }
    if let Some((zone, files)) = of_nginx(&tree, origin_port) {
        assert!(ours * 10 <= (zone + files) * 13, "{ours} bytes each, nginx {zone} and {files}");
    }
}
