//! One worker process: starts it, reads its output, ends it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::EventfdFlags;
use rustix::net::SendFlags;
use rustix::process::{Resource, Rlimit, Signal};
use touchstone_processes::orphans::leave_no_orphan;
use touchstone_processes::user::User;
use touchstone_processes::watched::WatchedProcess;

use super::pool::Worker;
use crate::interpreter::Interpreter;
use crate::settings::RouteSettings;
use crate::shared::control::{self, trace_signal};
use crate::worker::WorkerSettings;

/// How long a worker may take to write the traces of its threads.
const TIME_FOR_TRACE: Duration = Duration::from_millis(500);

/// Variables of the server that are passed also to workers of another user.
const HARMLESS: [&str; 5] = ["PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ"];

/// A process that was started.
pub struct WorkerProcess {
    /// The part of it that requests use.
    pub worker: Arc<Worker>,
    /// When it was started.
    pub started: Instant,
    /// It has reported that the application is loaded.
    pub is_ready: bool,
    /// It has reported why the application cannot be started.
    pub has_failed: bool,
    /// When it stopped taking requests; it ends when its requests have ended.
    pub retired: Option<Instant>,
    /// It was ordered to end.
    pub end_ordered_at: Option<Instant>,
    /// When it is killed.
    pub kill_at: Option<Instant>,
    /// It was killed, and has not ended yet.
    pub was_killed: bool,
    /// Its event loop does not return: the report about it.
    pub hung: Option<String>,
    /// The changed source file because of which it must be replaced.
    pub changed_file: Option<String>,
    process: WatchedProcess,
}

impl WorkerProcess {
    /// Starts a worker process.
    pub fn start(
        settings: &RouteSettings,
        interpreter: &Interpreter,
        number: u64,
    ) -> io::Result<WorkerProcess> {
        let (ours, theirs) = control::pair()?;
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?;
        // The link leads to the file that is being executed, even if another file has replaced it since.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("touchstone").arg("python-worker").stdin(Stdio::from(theirs));
        let user = match settings.user.as_str() {
            "" => None,
            name => Some(User::find(name).map_err(io::Error::other)?),
        };
        set_environment(&mut command, settings, user.is_some());
        prepare(&mut command, user, settings.limits.memory);
        leave_no_orphan(&mut command, Signal::KILL);
        let process = WatchedProcess::start(command)?;
        let settings_message = WorkerSettings { route: settings.clone(), interpreter: interpreter.clone() };
        let text = serde_json::to_vec(&settings_message).map_err(io::Error::other)?;
        control::send(&ours, control::SETTINGS, &text, &[wake.as_fd()], SendFlags::empty())?;
        Ok(WorkerProcess {
            worker: Arc::new(Worker::new(number, process.id(), ours, wake)),
            started: Instant::now(),
            is_ready: false,
            has_failed: false,
            retired: None,
            end_ordered_at: None,
            kill_at: None,
            was_killed: false,
            hung: None,
            changed_file: None,
            process,
        })
    }

    /// Descriptors that become readable when there is something to process.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.worker.control.as_fd()).chain(self.process.descriptors())
    }

    /// Reads the output of the application.
    pub fn read_outputs(&mut self, line: impl FnMut(&str)) {
        self.process.read_outputs(line);
    }

    /// Orders it to end when its requests have ended.
    pub fn order_end(&mut self) {
        if self.end_ordered_at.is_none() {
            self.end_ordered_at = Some(Instant::now());
            // If the message cannot be sent, the worker is killed later.
            let _ = control::send(&self.worker.control, control::QUIT, &[], &[], SendFlags::DONTWAIT);
        }
    }

    /// Kills it and the processes that it has started.
    pub fn kill(&self) {
        self.process.signal(Signal::KILL);
    }

    /// How it has ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.ended()
    }

    /// Makes it write the traces of its threads to standard error. If it has not yet loaded its application,
    /// the signal ends it.
    pub fn request_trace(&self) {
        // SAFETY: this only sends a signal. The process was not reaped yet, so no other one has its number.
        unsafe { libc::kill(self.process.pid().as_raw_nonzero().get(), trace_signal()) };
    }

    /// Called when it has not become ready in time: it is killed, and its traces are logged. Returns false if
    /// this was already done.
    pub fn end_late(&mut self) -> bool {
        let is_first = self.kill_at.is_none();
        if is_first {
            self.request_trace();
            self.kill_at = Some(Instant::now() + TIME_FOR_TRACE);
        } else if self.kill_at.is_some_and(|at| at <= Instant::now()) {
            self.kill();
        }
        is_first
    }

    /// Kills it after it has written the traces of its threads.
    pub fn end_with_trace(&mut self) {
        self.request_trace();
        let now = Instant::now();
        self.retired.get_or_insert(now);
        self.kill_at.get_or_insert(now + TIME_FOR_TRACE);
    }
}

/// How a process has ended, as text.
pub fn how(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("by signal {signal}"),
        (None, Some(code)) => format!("with exit code {code}"),
        (None, None) => "with an unknown exit status".to_string(),
    }
}

/// Sets the environment. The application's output is unbuffered. A worker of another user gets no variables
/// of the server that could hold a secret.
fn set_environment(command: &mut Command, settings: &RouteSettings, is_other_user: bool) {
    if is_other_user {
        command.env_clear();
        for name in HARMLESS {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
    }
    // These variables are for the server itself.
    for name in
        ["NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "WATCHDOG_USEC", "WATCHDOG_PID"]
    {
        command.env_remove(name);
    }
    command.env("PYTHONUNBUFFERED", "1");
    command.envs(settings.environment.iter().map(|(name, value)| (name, value)));
}

fn prepare(command: &mut Command, user: Option<User>, memory: u64) {
    let work = move || {
        if memory > 0 {
            let limit = Some(memory);
            rustix::process::setrlimit(Resource::Data, Rlimit { current: limit, maximum: limit })?;
        }
        if let Some(user) = &user {
            // SAFETY: the pointer is to as many numbers; the calls touch no other memory.
            let done = unsafe {
                libc::setgroups(user.groups.len(), user.groups.as_ptr()) == 0
                    && libc::setgid(user.group) == 0
                    && libc::setuid(user.user) == 0
            };
            if !done {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec it only makes system calls; it allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(work);
    }
}
