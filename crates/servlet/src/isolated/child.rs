//! The server's side of a child process with applications: starts it, watches it, and starts it again when it
//! ends.

use std::collections::VecDeque;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{self, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::sync::watch;
use touchstone_processes::orphans::leave_no_orphan;

use super::log_line;
use super::settings_file::{SETTINGS_FILE, Settings, own_directory};
use super::wire::{self, Kind, ParsedFrame};
use crate::directory::{PrivateDirectory, stable_name};
use crate::route_state::RouteState;
use crate::server_log::log;
use crate::settings::{Isolation, JavaSettings, RouteSettings};

/// The first and the longest wait before a child is started again, if the last one has not run for long.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// A child that has run for this long is started again at once.
const RAN_WELL: Duration = Duration::from_secs(5);

/// How long the server waits for a child to stop its applications.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// A child that is kept running.
pub struct Child {
    name: String,
    directory: PrivateDirectory,
    route_state: watch::Sender<RouteState>,
    state: Mutex<State>,
    changed: Condvar,
    /// Another child waits to take over.
    has_standby: bool,
}

#[derive(Default)]
struct State {
    /// The process numbers of the running children; the first one answers requests.
    pids: Vec<u32>,
    is_stopping: bool,
    is_over: bool,
}

impl Child {
    /// Starts it. Does not wait until its applications have started.
    pub fn start(java: &JavaSettings, settings: &RouteSettings) -> Result<Arc<Child>, String> {
        let failed = |error: io::Error| format!("the process for applications cannot be started: {error}");
        let directory = PrivateDirectory::new().map_err(failed)?;
        let mut java = java.clone();
        // Each child has its own directory, so that they cannot disturb each other.
        java.work = java.work.map(|work| work.join("isolated").join(stable_name(settings)));
        let route = RouteSettings { isolation: Isolation::InProcess, ..settings.clone() };
        let text = serde_json::to_vec(&Settings { java, route }).unwrap_or_default();
        std::fs::write(directory.path().join(SETTINGS_FILE), text).map_err(failed)?;
        let child = Arc::new(Child {
            name: settings.name(),
            directory,
            route_state: watch::Sender::new(RouteState::Starting),
            state: Mutex::default(),
            changed: Condvar::new(),
            has_standby: settings.standby,
        });
        // The socket stays open, so that connections wait while one child takes over from another.
        let listener = UnixListener::bind(child.socket()).map_err(failed)?;
        let watched = child.clone();
        std::thread::Builder::new()
            .name("servlet-watch".to_string())
            .spawn(move || watched.watch(&listener))
            .map_err(failed)?;
        Ok(child)
    }

    /// Its state.
    pub fn route_state(&self) -> &watch::Sender<RouteState> {
        &self.route_state
    }

    /// The path at which it listens.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// The state of its applications, as JSON of [`Status`](crate::status::Status); `None` if it does not
    /// answer in time.
    pub fn query_status(&self, timeout: Duration) -> Option<Vec<u8>> {
        let until = Instant::now() + timeout;
        let mut stream = UnixStream::connect(self.socket()).ok()?;
        let mut frame = Vec::new();
        wire::append(&mut frame, Kind::AskStatus, 0, &[]);
        stream.write_all(&frame).ok()?;
        let (mut input, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            match wire::parse(&input) {
                ParsedFrame::Frame(Kind::Status, _, payload, _) => return Some(payload.to_vec()),
                ParsedFrame::Partial => {}
                _ => return None,
            }
            let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
            stream.set_read_timeout(Some(left)).ok()?;
            match stream.read(&mut piece).ok()? {
                0 => return None,
                length => input.extend_from_slice(&piece[..length]),
            }
        }
    }

    /// Orders it to end, without waiting.
    pub fn request_stop(&self) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.is_stopping, true) {
            return;
        }
        // A waiting child would replace the first one now, so it is killed.
        state.pids.iter().skip(1).for_each(|pid| kill(*pid));
        drop(state);
        self.changed.notify_all();
        if let Ok(mut stream) = UnixStream::connect(self.socket()) {
            let mut frame = Vec::new();
            wire::append(&mut frame, Kind::Quit, 0, &[]);
            // If this fails, it is killed later.
            let _ = stream.write_all(&frame);
        }
    }

    /// Waits until it has ended, and kills it if it does not end in time.
    pub fn wait_for_end(&self) {
        // A child that is not ready has no sessions to store.
        let timeout =
            if *self.route_state.borrow() == RouteState::Ready { STOP_TIMEOUT } else { Duration::ZERO };
        let running = |state: &mut State| !state.is_over;
        let waited = self.changed.wait_timeout_while(self.lock(), timeout, running);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if !state.is_over {
            state.pids.iter().for_each(|pid| kill(*pid));
        }
        let waited = self.changed.wait_timeout_while(state, Duration::from_secs(2), running);
        drop(waited);
        self.directory.remove();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a child running, and another one ready to take its place, until it is stopped.
    fn watch(&self, listener: &UnixListener) {
        let (reports, report) = mpsc::channel();
        let mut children: VecDeque<Running> = VecDeque::new();
        let mut last_number = 0;
        let mut wait = FIRST_WAIT;
        // The time at which the next child may be started, if one is missing.
        let mut start_at = Some(Instant::now());
        loop {
            if self.lock().is_stopping && children.is_empty() {
                break;
            }
            if start_at.is_some_and(|at| at <= Instant::now()) && !self.lock().is_stopping {
                start_at = None;
                last_number += 1;
                match self.run_one(listener, last_number, &reports) {
                    Ok(pid) => children.push_back(Running { number: last_number, pid, ready_at: None }),
                    Err(error) => {
                        log(0, &format!("the process for applications cannot be started: {error}"));
                        start_at = Some(Instant::now() + LONGEST_WAIT);
                    }
                }
                self.lock().pids = children.iter().map(|child| child.pid).collect();
            }
            let timeout = start_at.map_or(LONGEST_WAIT, |at| at.saturating_duration_since(Instant::now()));
            match report.recv_timeout(timeout) {
                Ok(ChildReport::Ready(number)) => {
                    let Some(child) = children.iter_mut().find(|child| child.number == number) else {
                        continue;
                    };
                    child.ready_at = Some(Instant::now());
                    self.route_state.send_replace(RouteState::Ready);
                    if self.has_standby && children.len() < 2 {
                        start_at = Some(Instant::now());
                    }
                }
                Ok(ChildReport::Failed) => {
                    self.route_state.send_replace(RouteState::Failed);
                }
                Ok(ChildReport::Ended(number, how)) => {
                    let Some(at) = children.iter().position(|child| child.number == number) else { continue };
                    let Some(ended) = children.remove(at) else { continue };
                    self.lock().pids = children.iter().map(|child| child.pid).collect();
                    if self.lock().is_stopping {
                        continue;
                    }
                    // The next child takes over when the kernel has released the lock, so it may be ready
                    // before the end of this one was reported.
                    let is_replaced = at == 0 && children.front().is_some_and(|next| next.ready_at.is_some());
                    if at == 0 {
                        if !is_replaced {
                            self.route_state.send_replace(RouteState::Starting);
                        }
                        let message = format!(
                            "the process for the applications of {} ended ({how}) and is started again",
                            self.name
                        );
                        log(0, &message);
                    }
                    let ran_well = ended.ready_at.is_some_and(|since| since.elapsed() >= RAN_WELL);
                    wait = if ran_well { FIRST_WAIT } else { (wait * 2).min(LONGEST_WAIT) };
                    // If another child takes over, its applications start before the next child does.
                    if children.is_empty() {
                        start_at = Some(Instant::now() + if ran_well { Duration::ZERO } else { wait });
                    } else if at > 0 || is_replaced {
                        start_at = Some(Instant::now() + wait);
                    }
                }
                Err(_) => {}
            }
        }
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Starts one child. A thread reports its messages and its end.
    fn run_one(
        &self,
        listener: &UnixListener,
        number: u64,
        reports: &Sender<ChildReport>,
    ) -> io::Result<u32> {
        // The link points to the file that is being executed, even if another file has replaced it since.
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("touchstone")
            .arg("servlet-host")
            .arg(self.directory.path())
            .stdin(Stdio::from(OwnedFd::from(listener.try_clone()?)))
            .stdout(Stdio::piped());
        leave_no_orphan(&mut command, Signal::KILL);
        let mut child = command.spawn()?;
        let pid = child.id();
        let reports = reports.clone();
        let directory_to_remove = own_directory(self.directory.path(), pid);
        std::thread::Builder::new().name("servlet-watch".to_string()).spawn(move || {
            read_lines(&mut child, number, &reports);
            let ended = how(&child.wait());
            // Files that cannot be removed are removed with the directory around them.
            let _ = std::fs::remove_dir_all(directory_to_remove);
            // The receiver is dropped when the server ends.
            let _ = reports.send(ChildReport::Ended(number, ended));
        })?;
        Ok(pid)
    }
}

/// Kills a child. A child leaves the list when its end was reported, so the number is its own, or that of a
/// child that has just ended.
fn kill(pid: u32) {
    // SAFETY: this touches no memory.
    unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) };
}

struct Running {
    number: u64,
    pid: u32,
    ready_at: Option<Instant>,
}

enum ChildReport {
    Ready(u64),
    Failed,
    Ended(u64, String),
}

fn read_lines(child: &mut process::Child, number: u64, reports: &Sender<ChildReport>) {
    let Some(output) = child.stdout.take() else { return };
    for line in BufReader::new(output).split(b'\n') {
        let Ok(line) = line else { return };
        let line = String::from_utf8_lossy(&line).into_owned();
        let report = match line.split_once(' ') {
            None if line == "ready" => Some(ChildReport::Ready(number)),
            None if line == "failed" => Some(ChildReport::Failed),
            Some(("log", rest)) => {
                let (level, text) = log_line::read(rest);
                log(level, &text);
                None
            }
            // The output of an application.
            _ => {
                log(2, &line);
                None
            }
        };
        if let Some(report) = report {
            // The receiver is dropped when the server ends.
            let _ = reports.send(report);
        }
    }
}

fn how(ended: &io::Result<ExitStatus>) -> String {
    match ended {
        Ok(status) => match (status.signal(), status.code()) {
            (Some(signal), _) => format!("by signal {signal}"),
            (None, Some(code)) => format!("with exit code {code}"),
            (None, None) => "with an unknown exit status".to_string(),
        },
        Err(error) => error.to_string(),
    }
}
