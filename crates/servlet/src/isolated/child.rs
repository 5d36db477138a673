//! The server's side of a child with applications: it is started, watched, and started again when it ends.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{self, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::host::{SETTINGS_FILE, Settings};
use super::wire::{self, Kind};
use crate::directory::{private_directory, stable_name};
use crate::engine;
use crate::route::Standing;
use crate::settings::{Isolation, JavaSettings, RouteSettings};

/// Waits before a child is started again, after one that has not run for long: the first, and the longest.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// One that has run for so long is started again at once.
const RAN_WELL: Duration = Duration::from_secs(5);

/// How long a child may take to stop its applications.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// A child that is kept running.
pub struct Child {
    name: String,
    directory: PathBuf,
    standing: watch::Sender<Standing>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The number of the child that runs.
    pid: Option<u32>,
    is_stopping: bool,
    is_over: bool,
}

static CHILDREN: Mutex<Vec<Weak<Child>>> = Mutex::new(Vec::new());

/// Ends all children, and waits until they have ended.
pub fn stop_all() {
    let children = std::mem::take(&mut *CHILDREN.lock().unwrap_or_else(PoisonError::into_inner));
    let children: Vec<Arc<Child>> = children.iter().filter_map(Weak::upgrade).collect();
    children.iter().for_each(|child| child.ask_to_stop());
    children.iter().for_each(|child| child.wait_for_end());
}

impl Child {
    /// Starts it; its applications start while this returns.
    pub fn start(java: &JavaSettings, settings: &RouteSettings) -> Result<Arc<Child>, String> {
        let failed = |error: io::Error| format!("the process for applications cannot be started: {error}");
        let directory = private_directory().map_err(failed)?;
        let mut java = java.clone();
        // Each child has its own, so that they cannot be in each other's way.
        java.work = java.work.map(|work| work.join("isolated").join(stable_name(settings)));
        let route = RouteSettings { isolation: Isolation::InProcess, ..settings.clone() };
        let text = serde_json::to_vec(&Settings { java, route }).unwrap_or_default();
        std::fs::write(directory.join(SETTINGS_FILE), text).map_err(failed)?;
        let child = Arc::new(Child {
            name: settings.name(),
            directory,
            standing: watch::Sender::new(Standing::Starting),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        CHILDREN.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&child));
        let watched = child.clone();
        std::thread::Builder::new()
            .name("servlet-watch".to_string())
            .spawn(move || watched.watch())
            .map_err(failed)?;
        Ok(child)
    }

    /// How it stands.
    pub fn standing(&self) -> &watch::Sender<Standing> {
        &self.standing
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.directory.join("socket")
    }

    /// Has it end, without waiting.
    pub fn ask_to_stop(&self) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.is_stopping, true) {
            return;
        }
        drop(state);
        self.changed.notify_all();
        if let Ok(mut stream) = UnixStream::connect(self.socket()) {
            let mut frame = Vec::new();
            wire::append(&mut frame, Kind::Quit, 0, &[]);
            // Where that fails, it is killed.
            let _ = stream.write_all(&frame);
        }
    }

    /// Waits until it has ended, and kills it where it stays.
    pub fn wait_for_end(&self) {
        // One that is not ready yet has nothing to write down.
        let patience = if *self.standing.borrow() == Standing::Ready { STOP_TIMEOUT } else { Duration::ZERO };
        let running = |state: &mut State| !state.is_over;
        let waited = self.changed.wait_timeout_while(self.lock(), patience, running);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if let (false, Some(pid)) = (state.is_over, state.pid) {
            // SAFETY: the child is not waited for yet, so the number is still its own.
            unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) };
        }
        let waited = self.changed.wait_timeout_while(state, Duration::from_secs(2), running);
        drop(waited);
        // Files in a directory for temporary ones: what stays is small.
        let _ = std::fs::remove_dir_all(&self.directory);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts children, one after another, until it is stopped.
    fn watch(&self) {
        let log = |level, message: &str| engine::log(level, message);
        let mut wait = FIRST_WAIT;
        loop {
            let begun = Instant::now();
            let ended = self.run_one();
            self.standing.send_replace(Standing::Starting);
            if self.lock().is_stopping {
                break;
            }
            let how = how(&ended);
            log(
                0,
                &format!(
                    "the process for the applications of {} has ended ({how}): it is started again",
                    self.name
                ),
            );
            if begun.elapsed() >= RAN_WELL {
                wait = FIRST_WAIT;
                continue;
            }
            let state = self.lock();
            let waited = self.changed.wait_timeout_while(state, wait, |state| !state.is_stopping);
            if waited.unwrap_or_else(PoisonError::into_inner).0.is_stopping {
                break;
            }
            wait = (wait * 2).min(LONGEST_WAIT);
        }
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Runs one child to its end.
    fn run_one(&self) -> io::Result<ExitStatus> {
        // What is there of the child before must not be in the way.
        let _ = std::fs::remove_file(self.socket());
        let listener = UnixListener::bind(self.socket())?;
        let mut child = Command::new(std::env::current_exe()?)
            .arg("servlet-host")
            .arg(&self.directory)
            .stdin(Stdio::from(OwnedFd::from(listener)))
            .stdout(Stdio::piped())
            .spawn()?;
        self.lock().pid = Some(child.id());
        self.read_lines(&mut child);
        let status = child.wait();
        self.lock().pid = None;
        status
    }

    fn read_lines(&self, child: &mut process::Child) {
        let Some(output) = child.stdout.take() else { return };
        for line in BufReader::new(output).split(b'\n') {
            let Ok(line) = line else { return };
            let line = String::from_utf8_lossy(&line).into_owned();
            match line.split_once(' ') {
                None if line == "ready" => {
                    self.standing.send_replace(Standing::Ready);
                }
                None if line == "failed" => {
                    self.standing.send_replace(Standing::Failed);
                }
                Some(("log", rest)) => {
                    let (level, text) = rest.split_once(' ').unwrap_or(("2", rest));
                    engine::log(level.parse().unwrap_or(2), text);
                }
                // What an application prints itself.
                _ => engine::log(2, &line),
            }
        }
    }
}

fn how(ended: &io::Result<ExitStatus>) -> String {
    match ended {
        Ok(status) => match (status.signal(), status.code()) {
            (Some(signal), _) => format!("by signal {signal}"),
            (None, Some(code)) => format!("with exit code {code}"),
            (None, None) => "nobody knows how".to_string(),
        },
        Err(error) => error.to_string(),
    }
}
