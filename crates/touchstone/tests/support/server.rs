//! The server under test: the built binary, started and watched as an operator would, and killed when the
//! test ends.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{Client, Response, wait_until};

/// Far longer than anything takes on a busy machine, a start that compiles components and a whole command
/// too.
const PATIENCE: Duration = Duration::from_secs(180);

/// Far longer than a stop takes on a busy machine, and shorter than the server waits for active requests
/// (`drain_timeout`, 30 seconds by default): a stop that waits for the timeout must not pass.
const STOP_PATIENCE: Duration = Duration::from_secs(25);

/// A running server.
pub(crate) struct Server {
    child: Child,
    addresses: Vec<SocketAddr>,
    error_log: Arc<Lines>,
    readers: Vec<JoinHandle<()>>,
    output: Arc<Lines>,
    /// The file with the number of the process that has taken over, if one has.
    pid_file: Option<PathBuf>,
}

/// The lines that one of the server's outputs has given so far.
#[derive(Default)]
struct Lines {
    so_far: Mutex<(Vec<String>, bool)>,
    changed: Condvar,
}

impl Server {
    /// The quick form: one directory on a port that the kernel chooses, without an access log.
    pub(crate) fn quick(root: &Path) -> Server {
        let root = root.to_str().expect("a test directory's name is text");
        Server::start(["--root", root, "--listen", "127.0.0.1:0", "--access-log", "off"])
    }

    /// `touchstone serve` with these arguments.
    pub(crate) fn start(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Server {
        let mut command = binary();
        command.arg("serve").args(arguments).stdin(Stdio::null());
        Server::start_piped(command)
    }

    /// `touchstone accelerate` before this origin, on a port that the kernel chooses.
    pub(crate) fn accelerating(origin: SocketAddr, more: &[&str]) -> Server {
        let mut command = binary();
        let origin = format!("http://{origin}");
        command.args(["accelerate", "--origin", &origin, "--listen", "127.0.0.1:0"]).args(more);
        command.stdin(Stdio::null());
        Server::start_piped(command)
    }

    /// The same, as another user; only root can do this.
    pub(crate) fn start_as(user: u32, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Server {
        let mut command = Command::new(binary_for_all());
        command.arg("serve").args(arguments).stdin(Stdio::null()).uid(user).gid(user);
        Server::start_piped(command)
    }

    /// With a configuration file of this text in `directory`.
    pub(crate) fn configured(directory: &Path, text: &str) -> Server {
        let path = directory.join("touchstone.toml");
        fs::write(&path, text).expect("the configuration is written");
        Server::start([OsStr::new("--config"), path.as_os_str()])
    }

    /// The same, for one that may take so long to start.
    pub(crate) fn configured_within(patience: Duration, directory: &Path, text: &str) -> Server {
        let path = directory.join("touchstone.toml");
        fs::write(&path, text).expect("the configuration is written");
        let mut command = binary();
        command.arg("serve").arg("--config").arg(path).stdin(Stdio::null());
        Server::start_piped_within(patience, command)
    }

    /// Starts the server with this command and reads its outputs.
    pub(crate) fn start_piped(command: Command) -> Server {
        Server::start_piped_within(PATIENCE, command)
    }

    fn start_piped_within(patience: Duration, mut command: Command) -> Server {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (error_log, output) = (Arc::default(), Arc::default());
        let readers = vec![
            collect(child.stderr.take().expect("stderr is piped"), &error_log),
            collect(child.stdout.take().expect("stdout is piped"), &output),
        ];
        let mut server = Server { child, addresses: Vec::new(), error_log, readers, output, pid_file: None };
        let started = server.error_log.wait_for(patience, |line| line.contains("listening on http"));
        assert!(started, "the server did not start: {command:?}\n{}", server.error_text());
        server.addresses = server.announced_addresses();
        server
    }

    /// The first address that it listens on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Every address that it has announced so far, without unix sockets.
    pub(crate) fn announced_addresses(&self) -> Vec<SocketAddr> {
        let lines = self.error_log.all();
        let announcing = lines.iter().filter(|line| line.contains("listening on"));
        announcing
            .flat_map(|line| line.split("://").skip(1))
            .map(|text| text.split([' ', ',', '/', '"']).next().unwrap_or_default())
            .filter(|text| !text.starts_with("unix:"))
            .map(|text| text.parse().unwrap_or_else(|error| panic!("listening on {text:?}: {error}")))
            .collect()
    }

    /// The same when it has announced this many: each has a line of its own, and the first may be there
    /// before the others.
    pub(crate) fn addresses(&self, count: usize) -> Vec<SocketAddr> {
        let announced = || self.announced_addresses();
        wait_until(&format!("{count} addresses are announced"), PATIENCE, || announced().len() >= count);
        announced()
    }

    /// A new connection to it.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address())
    }

    /// Requests a target on a new connection.
    pub(crate) fn get(&self, target: &str) -> Response {
        let mut client = self.connect();
        let response =
            client.ask(format!("GET {target} HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n"));
        client.end();
        response
    }

    /// Fails the test unless each of 20 clients gets 200 for each of ten requests, on a connection of its
    /// own; the last two on new ones.
    pub(crate) fn assert_serves_many(&self, target: &str, why: &str) {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        let one_client = || {
            let mut client = self.connect();
            for _ in 0..8 {
                assert_eq!(client.ask(&request).status, 200, "{why}");
            }
            assert_eq!([self.get(target).status, self.get(target).status], [200; 2], "{why}");
        };
        std::thread::scope(|scope| (0..20).for_each(|_| drop(scope.spawn(one_client))));
    }

    /// Fails the test unless a good request is answered well.
    pub(crate) fn assert_serves(&self, target: &str, body: &[u8]) {
        let response = self.get(target);
        assert_eq!(response.status, 200, "{target}");
        assert!(response.body == body, "{target}: another body ({} bytes)", response.body.len());
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the server can be signalled");
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let status = wait_for_exit(&mut self.child, STOP_PATIENCE);
        // A process that has taken over writes to the same output.
        if self.pid_file.is_none() {
            for reader in self.readers.drain(..) {
                reader.join().expect("the reader of the server's output");
            }
        }
        status.unwrap_or_else(|| panic!("the server did not end in {STOP_PATIENCE:?}\n{}", self.error_text()))
    }

    /// Stops it with SIGTERM and fails the test unless it ends with exit code 0.
    pub(crate) fn stop(&mut self) {
        self.signal(Signal::TERM);
        let status = self.wait();
        assert_eq!(status.code(), Some(0), "exit after SIGTERM: {status}\n{}", self.error_text());
    }

    /// Whether it still runs.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("its state can be asked").is_none()
    }

    /// Waits until a line of the error log satisfies the condition.
    pub(crate) fn wait_for_error_line(&self, what: &str, condition: impl Fn(&str) -> bool) {
        let found = self.error_log.wait_for(PATIENCE, condition);
        assert!(found, "no line of the error log {what}:\n{}", self.error_text());
    }

    /// The error log (standard error) so far.
    pub(crate) fn error_text(&self) -> String {
        self.error_log.all().join("\n")
    }

    /// Standard output so far, by lines.
    pub(crate) fn output_lines(&self) -> Vec<String> {
        self.output.all()
    }

    /// The number of its process.
    pub(crate) fn process(&self) -> i32 {
        self.pid().as_raw_nonzero().get()
    }

    /// How many sockets it holds open, including its listeners and internal sockets.
    pub(crate) fn open_sockets(&self) -> usize {
        self.open_of_kind("socket:")
    }

    /// The same when the number does not change any more.
    pub(crate) fn settled_sockets(&self) -> usize {
        let mut last = self.open_sockets();
        let mut same = 0;
        wait_until("the number of sockets settles", PATIENCE, || {
            let now = self.open_sockets();
            same = if now == last { same + 1 } else { 0 };
            last = now;
            same >= 10
        });
        last
    }

    /// How many ends of pipes it holds open, including its standard output and error.
    pub(crate) fn open_pipes(&self) -> usize {
        self.open_of_kind("pipe:")
    }

    fn open_of_kind(&self, kind: &str) -> usize {
        let directory = format!("/proc/{}/fd", self.child.id());
        let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{directory}: {error}"));
        entries
            .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
            .filter(|target| target.as_os_str().as_encoded_bytes().starts_with(kind.as_bytes()))
            .count()
    }

    /// The process that was started first.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Other processes will take over: the process that this file names is killed at the end of the test.
    pub(crate) fn succeeded_by(&mut self, pid_file: PathBuf) {
        self.pid_file = Some(pid_file);
    }

    /// The process that serves now.
    pub(crate) fn serving_pid(&self) -> Option<Pid> {
        let text = fs::read_to_string(self.pid_file.as_ref()?).ok()?;
        text.trim().parse().ok().and_then(Pid::from_raw)
    }
}

impl Drop for Server {
    /// Kills it, shows its last lines if the test failed, and fails the test if it panicked.
    fn drop(&mut self) {
        let running = self.is_running();
        self.child.kill().expect("the server can be killed");
        let status = self.child.wait().expect("the server can be waited for");
        if let Some(successor) = self.serving_pid().filter(|pid| *pid != self.pid()) {
            // It may have ended already.
            let _ = kill_process(successor, Signal::KILL);
        }
        for reader in self.readers.drain(..) {
            reader.join().expect("the reader of the server's output");
        }
        let text = self.error_text();
        if std::thread::panicking() {
            let state = if running { "was running".to_string() } else { format!("had ended, {status}") };
            eprint_captured(&format!("the server {state}; its error log:\n{text}\n"));
        } else {
            assert!(!text.contains("panicked at"), "the server panicked:\n{text}");
        }
    }
}

impl Lines {
    fn all(&self) -> Vec<String> {
        self.so_far.lock().expect("no reader panics").0.clone()
    }

    /// Waits until a line satisfies the condition; false if none did before the output or the time ended.
    fn wait_for(&self, most: Duration, condition: impl Fn(&str) -> bool) -> bool {
        let until = Instant::now() + most;
        let mut so_far = self.so_far.lock().expect("no reader panics");
        loop {
            if so_far.0.iter().any(|line| condition(line)) {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if so_far.1 || left.is_zero() {
                return false;
            }
            so_far = self.changed.wait_timeout(so_far, left).expect("no reader panics").0;
        }
    }
}

/// Runs `touchstone` with these arguments to its end.
pub(crate) fn run(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
    let mut command = binary();
    command.args(arguments);
    run_command(command)
}

/// The same, in this directory.
pub(crate) fn run_in(directory: &Path, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
    let mut command = binary();
    command.args(arguments).current_dir(directory);
    run_command(command)
}

/// The same, as another user; only root can do this.
pub(crate) fn run_as(user: u32, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
    let mut command = Command::new(binary_for_all());
    command.args(arguments).uid(user).gid(user);
    run_command(command)
}

fn run_command(mut command: Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (errors, output) = (Arc::default(), Arc::default());
    let readers = [
        collect(child.stderr.take().expect("stderr is piped"), &errors),
        collect(child.stdout.take().expect("stdout is piped"), &output),
    ];
    let status = wait_for_exit(&mut child, PATIENCE);
    if status.is_none() {
        child.kill().expect("it can be killed");
        child.wait().expect("it can be waited for");
    }
    for reader in readers {
        reader.join().expect("the reader of its output");
    }
    let text = |lines: &Lines| lines.all().iter().map(|line| format!("{line}\n")).collect::<String>();
    let (stdout, stderr) = (text(&output), text(&errors));
    let status =
        status.unwrap_or_else(|| panic!("{command:?} did not end in {PATIENCE:?}:\n{stdout}{stderr}"));
    Output { status, stdout: stdout.into_bytes(), stderr: stderr.into_bytes() }
}

/// The lines that a command wrote on standard error.
pub(crate) fn error_lines(output: &Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stderr).lines().map(str::to_owned).collect()
}

/// A port without a listener, which no other socket gets by chance: it is below those that the kernel chooses
/// from, and claimed for this process until its end, so that no other test, of this run or another, gets it
/// too.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    const FIRST: u16 = 10_000;
    let chosen_by_the_kernel = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|range| range.split_whitespace().next()?.parse::<u16>().ok())
        .unwrap_or(32_768);
    let count = chosen_by_the_kernel.clamp(FIRST + 2_000, 32_000) - FIRST;
    // Tests of several processes begin at different places.
    let begin = (std::process::id() % 200) as u16 * 100;
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        assert!(step < count, "no port is free from {FIRST} to {}", FIRST + count);
        let port = FIRST + (begin + step) % count;
        if claim(port) && !is_in_use(port) {
            return port;
        }
    }
}

/// Whether a socket of any protocol has this port. The test does not bind it to find out: a program that
/// another test starts at that moment would hold a copy of the socket until its exec, and still listen on the
/// port when another test gets it.
pub(crate) fn is_in_use(port: u16) -> bool {
    let ending = format!(":{port:04X}");
    ["tcp", "tcp6", "udp", "udp6"].iter().any(|protocol| {
        let table = fs::read_to_string(format!("/proc/net/{protocol}")).unwrap_or_default();
        table.lines().any(|line| line.split_whitespace().nth(1).is_some_and(|local| local.ends_with(&ending)))
    })
}

/// Claims a port among all tests of this machine. The claim is an abstract socket, which ends with the
/// process.
fn claim(port: u16) -> bool {
    let name = format!("touchstone-test-port-{port}");
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name).expect("a short name");
    UnixListener::bind_addr(&address).map(std::mem::forget).is_ok()
}

pub(crate) fn binary() -> Command {
    Command::new(env!("CARGO_BIN_EXE_touchstone"))
}

/// The binary at a path that every user can reach: if the target directory is readable only by root, it is
/// copied.
pub(crate) fn binary_for_all() -> PathBuf {
    static COPY: OnceLock<Option<(tempfile::TempDir, PathBuf)>> = OnceLock::new();
    let built = Path::new(env!("CARGO_BIN_EXE_touchstone"));
    let reachable = built.ancestors().skip(1).all(|directory| {
        fs::metadata(directory).is_ok_and(|metadata| metadata.permissions().mode() & 0o001 != 0)
    });
    let copy = COPY.get_or_init(|| {
        if reachable {
            return None;
        }
        let directory = tempfile::tempdir().expect("a directory for the copy");
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))
            .expect("others may enter it");
        let copy = directory.path().join("touchstone");
        // A separate process copies it: a child that another thread forks at the same time would hold the
        // copy open for writing until its exec, and the kernel does not start such a program ("Text file
        // busy").
        let copied = Command::new("cp").arg(built).arg(&copy).status();
        assert!(copied.is_ok_and(|status| status.success()), "the binary can be copied");
        Some((directory, copy))
    });
    copy.as_ref().map_or_else(|| built.to_path_buf(), |(_, copy)| copy.clone())
}

fn wait_for_exit(child: &mut Child, most: Duration) -> Option<ExitStatus> {
    let until = Instant::now() + most;
    loop {
        if let Some(status) = child.try_wait().expect("its state can be asked") {
            return Some(status);
        }
        if Instant::now() >= until {
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn collect(output: impl Read + Send + 'static, lines: &Arc<Lines>) -> JoinHandle<()> {
    let lines = Arc::clone(lines);
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        while matches!(output.read_until(b'\n', &mut line), Ok(count) if count > 0) {
            let text = String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned();
            lines.so_far.lock().expect("no waiter panics").0.push(text);
            lines.changed.notify_all();
            line.clear();
        }
        lines.so_far.lock().expect("no waiter panics").1 = true;
        lines.changed.notify_all();
    })
}

/// Standard error as the test harness captures it: shown only if the test fails.
#[allow(clippy::print_stderr, reason = "the harness shows it with the failed test")]
fn eprint_captured(text: &str) {
    eprint!("{text}");
}
