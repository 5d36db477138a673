//! The server's side of a child process with plug-ins: starts it, watches it, and starts it again when it
//! ends.
//!
//! When a plug-in crashes, the child ends. Its requests get 502, the server continues, and a new child takes
//! the next requests.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{self, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use touchstone_processes::orphans::leave_no_orphan;

use super::bridge::WorkerEnd;
use super::child::SETTINGS_FILE;
use super::wire::{Kind, OwnedRequest, decode_head, decode_request_end, parse_frame_head, write_frame};
use crate::abi::{LOG_CATASTROPHE, LOG_INFORM};
use crate::connection::{ClientDisconnected, Connection as _, RequestEnd};
use crate::engine::{Log, Settings};

/// The first and the longest wait before a child is started again.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// A child that has run for this long is started again after the first wait.
const STABLE_AFTER: Duration = Duration::from_secs(1);

/// How long a request waits for a child that is being started. If the child will only be started later, the
/// request does not wait.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the server waits for a child to end by itself.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// The name of a child's directory, before the process number of its server.
const DIRECTORY_PREFIX: &str = "touchstone-nsapi-";

/// A younger directory is kept: its server may just be starting.
const REMOVABLE_AFTER: Duration = Duration::from_secs(60);

/// How often a worker that waits for the child checks whether the client is still connected.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// A child that is kept running.
pub struct Child {
    directory: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
    log: Arc<dyn Log>,
}

#[derive(Default)]
struct State {
    /// The process number of the running child, for signals; `None`: no child runs.
    pid: Option<u32>,
    /// The number of this child, counted from 1.
    generation: u64,
    /// Its plug-ins are loaded.
    is_ready: bool,
    /// The wait before the next child is started.
    wait: Duration,
    idle: Vec<UnixStream>,
    /// The number of its functions that were abandoned.
    hanging: usize,
    is_stopping: bool,
}

impl Child {
    /// Starts it, and waits until its plug-ins are loaded. The error lists all problems.
    pub fn start(settings: &Settings, log: Arc<dyn Log>) -> Result<Arc<Child>, Vec<String>> {
        let one = |error: io::Error| vec![format!("the process for plug-ins cannot be started: {error}")];
        let directory = private_directory().map_err(one)?;
        let text = serde_json::to_vec(settings).unwrap_or_default();
        std::fs::write(directory.join(SETTINGS_FILE), text).map_err(one)?;
        let child = Arc::new(Child { directory, state: Mutex::default(), changed: Condvar::new(), log });
        let (report, first) = mpsc::sync_channel(1);
        let watched = child.clone();
        std::thread::Builder::new()
            .name("nsapi-watch".to_string())
            .spawn(move || watched.watch(&report))
            .map_err(one)?;
        match first.recv() {
            Ok(Ok(())) => Ok(child),
            Ok(Err(problems)) => Err(problems),
            Err(_) => Err(vec!["the process for plug-ins ended before it was ready".to_string()]),
        }
    }

    /// Orders its plug-ins to end, then kills it if it still runs.
    pub fn stop(&self) {
        let (pid, stream) = {
            let mut state = self.lock();
            state.is_stopping = true;
            state.idle.clear();
            (state.pid, UnixStream::connect(self.socket()))
        };
        self.changed.notify_all();
        if let Ok(mut stream) = stream {
            // If this fails, it is killed below.
            let _ = write_frame(&mut stream, Kind::Quit, &[]);
        }
        let state = self.lock();
        let running = |state: &mut State| state.pid.is_some();
        let waited = self.changed.wait_timeout_while(state, END_TIMEOUT, running);
        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if let (true, Some(pid)) = (timeout.timed_out() && state.pid == pid, state.pid) {
            // SAFETY: the child was not waited for yet, so the number is still its own.
            unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) };
        }
        drop(state);
        // If this fails, some small files stay in the directory for temporary files.
        let _ = std::fs::remove_dir_all(&self.directory);
    }

    /// Has the child answer a request. Called on a worker.
    pub fn serve(&self, request: &OwnedRequest, client: &mut WorkerEnd) {
        // A kept stream may belong to a child that has ended since. In this case another stream is tried
        // once.
        for attempt in 0..2 {
            let Ok((stream, generation, was_kept)) = self.stream() else { break };
            match plugin_request(stream, request, client) {
                Ok((stream, request_end)) => {
                    self.keep(stream, generation);
                    return client.finish(request_end);
                }
                Err(PluginFailure::BeforeAnything) if was_kept && attempt == 0 => {}
                Err(PluginFailure::ClientGone) => return,
                Err(_) => break,
            }
        }
        client.abandon();
    }

    /// Counts a function that was abandoned and still hangs in the child. If as many hang as there are
    /// threads, the child is killed, and another is started.
    pub fn note_hanging(&self, most: usize) {
        let mut state = self.lock();
        state.hanging += 1;
        let Some(pid) = state.pid.filter(|_| state.hanging >= most) else { return };
        self.log.write(
            LOG_CATASTROPHE,
            &format!("{most} functions are blocked in the process for plug-ins: it is ended"),
        );
        // SAFETY: the child was not waited for yet, so the number is still its own.
        unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) };
    }

    fn stream(&self) -> io::Result<(UnixStream, u64, bool)> {
        let mut state = self.lock();
        if !state.is_ready && state.wait < READY_TIMEOUT {
            // It has just ended or is just starting, so it will be ready soon.
            let comes = |state: &mut State| !state.is_ready && !state.is_stopping;
            let waited = self.changed.wait_timeout_while(state, READY_TIMEOUT, comes);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if let Some(stream) = state.idle.pop() {
            return Ok((stream, state.generation, true));
        }
        let generation = state.generation;
        drop(state);
        UnixStream::connect(self.socket()).map(|stream| (stream, generation, false))
    }

    fn keep(&self, stream: UnixStream, generation: u64) {
        let mut state = self.lock();
        if state.generation == generation && !state.is_stopping {
            state.idle.push(stream);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn socket(&self) -> PathBuf {
        self.directory.join("socket")
    }

    /// Starts children, one after another, until it is stopped.
    fn watch(&self, first: &SyncSender<Result<(), Vec<String>>>) {
        let mut wait = FIRST_WAIT;
        let mut is_first = true;
        loop {
            let started = Instant::now();
            let mut problems = Vec::new();
            let ended = self.run_one(|ready| match ready {
                Line::Ready => {
                    self.lock().is_ready = true;
                    self.changed.notify_all();
                    if is_first {
                        // The caller of `start` waits for this.
                        let _ = first.send(Ok(()));
                    } else {
                        self.log.write(LOG_INFORM, "the process for plug-ins runs again");
                    }
                }
                Line::Problem(text) => problems.push(text),
            });
            if self.lock().is_stopping {
                return;
            }
            let was_ready = problems.is_empty() && ended.as_ref().is_ok_and(|(_, was_ready)| *was_ready);
            if is_first && !was_ready {
                if problems.is_empty() {
                    problems
                        .push(format!("the process for plug-ins ended before it was ready: {}", how(&ended)));
                }
                let _ = first.send(Err(problems));
                let _ = std::fs::remove_dir_all(&self.directory);
                return;
            }
            is_first = false;
            self.log.write(
                LOG_CATASTROPHE,
                &format!("the process for plug-ins ended ({}) and is started again", how(&ended)),
            );
            wait = if started.elapsed() > STABLE_AFTER { FIRST_WAIT } else { (wait * 2).min(LONGEST_WAIT) };
            let mut state = self.lock();
            state.wait = wait;
            let waited = self.changed.wait_timeout_while(state, wait, |state| !state.is_stopping);
            if waited.unwrap_or_else(PoisonError::into_inner).0.is_stopping {
                return;
            }
        }
    }

    /// Runs one child to its end. Returns how it ended, and whether it was ready.
    fn run_one(&self, mut report: impl FnMut(Line)) -> io::Result<(ExitStatus, bool)> {
        // The socket of the previous child would prevent binding.
        let _ = std::fs::remove_file(self.socket());
        let listener = UnixListener::bind(self.socket())?;
        let mut command = child_command(&self.directory);
        command.stdin(Stdio::from(OwnedFd::from(listener))).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        {
            let mut state = self.lock();
            state.pid = Some(child.id());
            state.generation += 1;
            state.hanging = 0;
            state.idle.clear();
        }
        let was_ready = self.read_lines(&mut child, &mut report);
        let status = child.wait();
        let mut state = self.lock();
        state.pid = None;
        state.is_ready = false;
        state.idle.clear();
        drop(state);
        self.changed.notify_all();
        status.map(|status| (status, was_ready))
    }

    fn read_lines(&self, child: &mut process::Child, report: &mut impl FnMut(Line)) -> bool {
        let Some(output) = child.stdout.take() else { return false };
        let mut was_ready = false;
        for line in BufReader::new(output).split(b'\n') {
            let Ok(line) = line else { break };
            let line = String::from_utf8_lossy(&line).into_owned();
            match line.split_once(' ') {
                Some(("ready", _)) => {
                    was_ready = true;
                    report(Line::Ready);
                }
                Some(("problem", text)) => report(Line::Problem(text.to_string())),
                Some(("log", rest)) => {
                    let (degree, text) = rest.split_once(' ').unwrap_or(("0", rest));
                    self.log.write(degree.parse().unwrap_or(0), text);
                }
                // The output of a plug-in.
                _ => self.log.write(LOG_INFORM, &line),
            }
        }
        was_ready
    }
}

/// Runs [`crate::check`] in a child, because the plug-ins are not trusted to run in this process.
pub fn check_in_child(settings: &Settings) -> Vec<String> {
    let settings = Settings { is_check: true, ..settings.clone() };
    let checked = || -> io::Result<Vec<String>> {
        let directory = private_directory()?;
        let text = serde_json::to_vec(&settings).unwrap_or_default();
        std::fs::write(directory.join(SETTINGS_FILE), text)?;
        let output = child_command(&directory).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        // If this fails, some small files stay in the directory for temporary files.
        let _ = std::fs::remove_dir_all(&directory);
        let output = output?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut problems: Vec<String> =
            text.lines().filter_map(|line| line.strip_prefix("problem ")).map(str::to_string).collect();
        if problems.is_empty() && !output.status.success() {
            let how = how(&Ok((output.status, false)));
            problems.push(format!("the process that checks the plug-ins ended {how}"));
        }
        Ok(problems)
    };
    checked().unwrap_or_else(|error| vec![format!("the process for plug-ins cannot be started: {error}")])
}

/// The command of a child.
fn child_command(directory: &Path) -> Command {
    // The link leads to the file that is being executed, even if another file has replaced it since.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("touchstone").arg("nsapi-host").arg(directory);
    leave_no_orphan(&mut command, Signal::KILL);
    command
}

enum Line {
    Ready,
    Problem(String),
}

fn how(ended: &io::Result<(ExitStatus, bool)>) -> String {
    match ended {
        Ok((status, _)) => match (status.signal(), status.code()) {
            (Some(signal), _) => format!("by signal {signal}"),
            (None, Some(code)) => format!("with exit code {code}"),
            (None, None) => "with an unknown exit status".to_string(),
        },
        Err(error) => error.to_string(),
    }
}

enum PluginFailure {
    BeforeAnything,
    Later,
    ClientGone,
}

/// One request and its answer.
fn plugin_request(
    mut stream: UnixStream,
    request: &OwnedRequest,
    client: &mut WorkerEnd,
) -> Result<(UnixStream, RequestEnd), PluginFailure> {
    if stream.set_read_timeout(Some(CHECK_INTERVAL)).is_err()
        || write_frame(&mut stream, Kind::Request, &request.encode()).is_err()
    {
        return Err(PluginFailure::BeforeAnything);
    }
    let mut failed = PluginFailure::BeforeAnything;
    let mut payload = Vec::new();
    let mut piece = vec![0u8; 64 * 1024];
    loop {
        let kind = match read_while_connected(&mut stream, &mut payload, client) {
            Ok(kind) => kind,
            Err(None) => return Err(PluginFailure::ClientGone),
            Err(Some(_)) => return Err(failed),
        };
        failed = PluginFailure::Later;
        let done = match kind {
            Kind::Head => decode_head(&payload).map(|head| client.start_with(head)),
            Kind::Data => Some(client.write(&payload)),
            Kind::Flush => Some(client.flush()),
            Kind::Want => Some(match client.read(&mut piece) {
                Ok(read) => {
                    write_frame(&mut stream, Kind::Body, &piece[..read]).map_err(|_| ClientDisconnected)
                }
                Err(gone) => {
                    // The child ends the request. The stream is not used again.
                    let _ = write_frame(&mut stream, Kind::BodyFailed, &[]);
                    Err(gone)
                }
            }),
            Kind::End => {
                return decode_request_end(&payload)
                    .map(|request_end| (stream, request_end))
                    .ok_or(PluginFailure::Later);
            }
            _ => None,
        };
        match done {
            Some(Ok(())) => {}
            Some(Err(ClientDisconnected)) => return Err(PluginFailure::ClientGone),
            None => return Err(PluginFailure::Later),
        }
    }
}

/// Reads a frame while the client is connected. An error without a reason means that it has disconnected.
fn read_while_connected(
    stream: &mut UnixStream,
    payload: &mut Vec<u8>,
    client: &WorkerEnd,
) -> Result<Kind, Option<io::Error>> {
    let mut head = [0; 5];
    fill(stream, &mut head, client)?;
    let (kind, length) = parse_frame_head(head).map_err(Some)?;
    payload.resize(length, 0);
    fill(stream, payload, client)?;
    Ok(kind)
}

fn fill(stream: &mut UnixStream, to: &mut [u8], client: &WorkerEnd) -> Result<(), Option<io::Error>> {
    let mut filled = 0;
    while filled < to.len() {
        match stream.read(&mut to[filled..]) {
            Ok(0) => return Err(Some(io::ErrorKind::UnexpectedEof.into())),
            Ok(read) => filled += read,
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut if client.is_alive() => {}
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => return Err(None),
                _ => return Err(Some(error)),
            },
        }
    }
    Ok(())
}

/// Makes a directory that only this user can read.
fn private_directory() -> io::Result<PathBuf> {
    let mut random = [0u8; 8];
    crate::api::md5::fill_random(&mut random);
    let name = format!("{DIRECTORY_PREFIX}{}-{:016x}", process::id(), u64::from_le_bytes(random));
    remove_dead_directories(&temporary_directory());
    let path = temporary_directory().join(name);
    // The directory must be new: one that another user has made is not used.
    std::fs::DirBuilder::new().mode(0o700).create(&path)?;
    Ok(path)
}

/// Removes directories of servers that were killed: those of this user whose server has ended.
fn remove_dead_directories(temporary: &Path) {
    use std::os::unix::fs::MetadataExt as _;
    // SAFETY: the call has no arguments and changes nothing.
    let ours = unsafe { libc::geteuid() };
    for entry in std::fs::read_dir(temporary).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let number = name.strip_prefix(DIRECTORY_PREFIX).and_then(|rest| rest.split('-').next());
        let Some(Ok(server)) = number.map(str::parse::<u32>) else { continue };
        // Links are not followed: their targets may belong to another user.
        let Ok(facts) = std::fs::symlink_metadata(entry.path()) else { continue };
        let age = facts.modified().ok().and_then(|modified| modified.elapsed().ok()).unwrap_or_default();
        let is_old = facts.is_dir() && facts.uid() == ours && age >= REMOVABLE_AFTER;
        // A server that this process cannot see (another container) may still listen.
        let listens = || UnixStream::connect(entry.path().join("socket")).is_ok();
        if is_old && !Path::new(&format!("/proc/{server}")).exists() && !listens() {
            // A directory that cannot be removed does no harm.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn temporary_directory() -> PathBuf {
    // The path of a socket has at most 107 bytes.
    let usual = std::env::temp_dir();
    if usual.as_os_str().len() <= 40 { usual } else { Path::new("/tmp").to_path_buf() }
}
