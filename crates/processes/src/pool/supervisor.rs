//! The thread of a pool. It starts the processes, logs their output, starts processes that ended again, and
//! in the end stops all of them.
//!
//! A process that ends is started again at once if it had run for some time, otherwise after a pause that
//! doubles each time. If all processes keep ending early, requests are refused at once, because no process
//! would accept their connections.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use socket2::{Domain, SockAddr, Socket, Type};
use tempfile::TempDir;
use touchstone_handler::handler::Level;

use super::child::{self, number_of};
use super::log::PoolLog;
use super::php_fpm;
use super::spec::{PoolSpec, Program};
use super::state::State;
use crate::watched::WatchedProcess;

/// The beginning of the names of pools' directories.
const DIRECTORY_PREFIX: &str = "touchstone-pool-";

/// A younger directory is kept: its socket may not have been created yet.
const DEAD_AFTER: Duration = Duration::from_secs(60);

/// The most connections that wait for a process.
const BACKLOG: i32 = 4096;

/// The first pause before a process is started again.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A process that has run for this long counts as working.
const WELL_AFTER: Duration = Duration::from_secs(1);

/// Requests are refused when every process has ended early this many times in a row.
const FAILURES_TO_REFUSE: u32 = 3;

/// The longest wait between two checks of processes that are ending.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// The thread's own state.
pub struct Supervisor {
    spec: PoolSpec,
    /// The other end is closed when the pool is dropped.
    control: OwnedFd,
    state: Arc<State>,
    log: PoolLog,
    listener: Socket,
    socket: PathBuf,
    /// Contains the socket and php-fpm's configuration file.
    directory: TempDir,
    slots: Vec<Slot>,
    name: String,
}

/// A place for a process.
struct Slot {
    child: Option<WatchedProcess>,
    /// When the process was last started, or is to be started.
    at: Instant,
    /// How often it has ended early, in a row.
    failures: u32,
    last_problem: String,
}

impl Supervisor {
    /// Makes the socket and the files. No process is started yet.
    pub fn new(spec: PoolSpec, control: OwnedFd, state: Arc<State>, log: PoolLog) -> io::Result<Supervisor> {
        remove_dead_directories();
        let directory = tempfile::Builder::new().prefix(DIRECTORY_PREFIX).tempdir()?;
        let socket = match &spec.socket {
            Some(path) => {
                remove_dead_socket(path)?;
                path.clone()
            }
            None => directory.path().join("listen.sock"),
        };
        let listener = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        let about = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot listen at {}: {error}", socket.display()))
        };
        listener.bind(&SockAddr::unix(&socket)?).map_err(about)?;
        listener.listen(BACKLOG)?;
        // php-fpm is one process, which starts its workers itself.
        let count = if let Program::PhpFpm { .. } = spec.program { 1 } else { spec.processes };
        let slot = || Slot { child: None, at: Instant::now(), failures: 0, last_problem: String::new() };
        let slots = (0..count).map(|_| slot()).collect();
        let name = match &spec.program {
            Program::Command(words) => words.first().cloned().unwrap_or_default(),
            Program::PhpFpm { program, .. } => program.display().to_string(),
        };
        Ok(Supervisor { spec, control, state, log, listener, socket, directory, slots, name })
    }

    /// The path at which the processes listen.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Keeps the processes running until the pool is dropped, then ends them.
    pub fn run(mut self) {
        loop {
            self.refuse_waiting();
            self.start_due();
            if self.wait(self.next_change()) {
                break;
            }
            self.check();
        }
        self.stop();
        if self.spec.socket.is_some() {
            // A socket in the pool's directory is removed with the directory.
            let _ = std::fs::remove_file(&self.socket);
        }
    }

    /// Closes the connections that wait at the socket while no process can be kept running, so that their
    /// requests fail now instead of after a timeout. No process runs at this moment that could accept one of
    /// them.
    fn refuse_waiting(&self) {
        if !self.state.has_problem() || self.slots.iter().any(|slot| slot.child.is_some()) {
            return;
        }
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let is_waiting = || {
            let mut fds = [PollFd::new(&self.listener, PollFlags::IN)];
            poll(&mut fds, Some(&zero)).is_ok_and(|ready| ready > 0)
        };
        while is_waiting() && self.listener.accept().is_ok() {}
    }

    fn start_due(&mut self) {
        for index in 0..self.slots.len() {
            if self.slots[index].child.is_some() || self.slots[index].at > Instant::now() {
                continue;
            }
            match self.start() {
                Ok(child) => {
                    let message = format!("{} started as process {}", self.name, child.id());
                    (self.log)(Level::Information, "pool started", &message);
                    let slot = &mut self.slots[index];
                    (slot.child, slot.at) = (Some(child), Instant::now());
                }
                Err(error) => self.failed(index, &format!("cannot be started: {error}")),
            }
        }
    }

    fn start(&self) -> io::Result<WatchedProcess> {
        match &self.spec.program {
            Program::Command(words) => {
                let mut words = words.iter();
                let mut command = Command::new(words.next().map_or("", String::as_str));
                command.args(words).env_clear().envs(environment(&self.spec));
                if let Some(directory) = &self.spec.directory {
                    command.current_dir(directory);
                }
                let listener = self.listener.try_clone()?;
                child::start(command, &self.spec, true, Some(listener.into()), None)
            }
            Program::PhpFpm { program, suffixes, settings, requests_per_process } => {
                // php-fpm removes the socket of this name when it ends, so it gets another name than the
                // pool's.
                let listen = self.directory.path().join("php-fpm.sock");
                let file = self.directory.path().join("php-fpm.conf");
                let text =
                    php_fpm::configuration(&self.spec, &listen, suffixes, settings, *requests_per_process);
                std::fs::write(&file, text)?;
                let inherited = number_of(&self.listener);
                let mut command = Command::new(program);
                command
                    .args(["--nodaemonize", "--force-stderr", "--fpm-config"])
                    .arg(&file)
                    .env_clear()
                    .envs(environment(&self.spec))
                    .env("FPM_SOCKETS", format!("{}={inherited}", listen.display()));
                if self.spec.user.as_ref().is_some_and(|user| user.user == 0) {
                    command.arg("--allow-to-run-as-root");
                }
                // The workers change to the other user, not the master process.
                child::start(command, &self.spec, false, None, Some(inherited))
            }
        }
    }

    /// The time until the next process is to be started or counts as working again.
    fn next_change(&self) -> Option<Duration> {
        let due = |slot: &Slot| match &slot.child {
            None => Some(slot.at),
            Some(_) => (slot.failures > 0).then_some(slot.at + WELL_AFTER),
        };
        let next = self.slots.iter().filter_map(due).min();
        next.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Waits for an event. Returns whether the pool was dropped.
    fn wait(&self, limit: Option<Duration>) -> bool {
        let children = self.slots.iter().filter_map(|slot| slot.child.as_ref());
        let descriptors: Vec<_> = children.flat_map(WatchedProcess::descriptors).collect();
        let mut fds = vec![PollFd::new(&self.control, PollFlags::IN)];
        fds.extend(descriptors.iter().map(|descriptor| PollFd::new(descriptor, PollFlags::IN)));
        let limit = limit.map(|limit| Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(limit.subsec_nanos()),
        });
        // An interruption is handled like an event: the caller checks every process.
        let _ = poll(&mut fds, limit.as_ref());
        !fds[0].revents().is_empty()
    }

    /// Logs the output of the processes, and notes which of them have ended.
    fn check(&mut self) {
        for index in 0..self.slots.len() {
            let slot = &mut self.slots[index];
            let Some(child) = &mut slot.child else { continue };
            log_lines(child, &self.name, &self.log);
            let Some(status) = child.ended() else {
                if slot.failures > 0 && slot.at.elapsed() >= WELL_AFTER {
                    slot.failures = 0;
                    self.state.set_problem(None);
                }
                continue;
            };
            log_lines(child, &self.name, &self.log);
            let message = format!("process {} ended: {status}", child.id());
            slot.child = None;
            if slot.at.elapsed() >= WELL_AFTER {
                slot.failures = 0;
            }
            self.failed(index, &message);
        }
        if self.slots.iter().any(|slot| slot.child.is_some() && slot.failures < FAILURES_TO_REFUSE) {
            self.state.set_problem(None);
        }
    }

    /// Called when a process has ended or could not be started. Plans the next attempt, later each time.
    fn failed(&mut self, index: usize, what: &str) {
        let slot = &mut self.slots[index];
        let pause = match slot.failures {
            0 => Duration::ZERO,
            failures => {
                FIRST_PAUSE.saturating_mul(1 << failures.min(16).saturating_sub(1)).min(LONGEST_PAUSE)
            }
        };
        slot.failures = slot.failures.saturating_add(1);
        slot.at = Instant::now() + pause;
        slot.last_problem = what.to_string();
        let message = format!("{} {what}; it is started again in {pause:?}", self.name);
        (self.log)(Level::Warning, "pool process ended", &message);
        if self.slots.iter().all(|slot| slot.failures >= FAILURES_TO_REFUSE) {
            self.state.set_problem(Some(format!("{} {what}", self.name)));
        }
    }

    /// Sends SIGTERM to all processes, and later SIGKILL to those that have not ended.
    fn stop(&mut self) {
        let mut children: Vec<WatchedProcess> =
            self.slots.iter_mut().filter_map(|slot| slot.child.take()).collect();
        children.iter().for_each(|child| child.signal(Signal::TERM));
        let until = Instant::now() + self.spec.stop_timeout;
        while !children.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                for child in &children {
                    let message = format!("{} process {} did not end and is killed", self.name, child.id());
                    (self.log)(Level::Warning, "pool process killed", &message);
                }
                break;
            }
            let descriptors: Vec<_> = children.iter().flat_map(WatchedProcess::descriptors).collect();
            let mut fds: Vec<_> =
                descriptors.iter().map(|descriptor| PollFd::new(descriptor, PollFlags::IN)).collect();
            let left = left.min(LAST_WORDS);
            let _ = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) }));
            let (name, log) = (&self.name, &self.log);
            children.retain_mut(|child| {
                log_lines(child, name, log);
                child.ended().is_none()
            });
        }
        // Dropping a child kills its group and waits for it.
        drop(children);
        (self.log)(Level::Information, "pool stopped", &format!("{} stopped", self.name));
    }
}

fn log_lines(child: &mut WatchedProcess, name: &str, log: &PoolLog) {
    let id = child.id();
    child.read_outputs(|line| log(Level::Warning, "pool output", &format!("{name} [{id}]: {line}")));
}

/// The configured variables, and PATH.
fn environment(spec: &PoolSpec) -> Vec<(String, String)> {
    let mut environment = spec.environment.clone();
    if !environment.iter().any(|(name, _)| name == "PATH") {
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".to_string());
        environment.push(("PATH".to_string(), path));
    }
    environment
}

/// Removes directories of killed servers: those of this user whose socket has no listener.
fn remove_dead_directories() {
    use std::os::unix::fs::MetadataExt;
    let ours = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let is_pool = entry.file_name().to_string_lossy().starts_with(DIRECTORY_PREFIX);
        // Links are not followed: their targets may belong to another user.
        let Ok(facts) = std::fs::symlink_metadata(entry.path()) else { continue };
        let age = facts.modified().ok().and_then(|modified| modified.elapsed().ok()).unwrap_or_default();
        if !is_pool || !facts.is_dir() || facts.uid() != ours || age < DEAD_AFTER {
            continue;
        }
        let connected = std::os::unix::net::UnixStream::connect(entry.path().join("listen.sock"));
        if connected.is_err_and(|error| {
            matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
        }) {
            // A directory that cannot be removed does no harm.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Removes a socket without a listener, which would prevent binding. A socket with a listener, or another
/// file, is kept.
fn remove_dead_socket(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    match std::fs::symlink_metadata(path) {
        Ok(facts) if facts.file_type().is_socket() => match std::os::unix::net::UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}
