//! One worker process: starts it, reads its output, ends it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::EventfdFlags;
use rustix::net::SendFlags;
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal, kill_process_group, pidfd_open};
use touchstone_processes::orphans::leave_no_orphan;
use touchstone_processes::user::User;

use super::pool::Worker;
use crate::interpreter::Interpreter;
use crate::settings::RouteSettings;
use crate::shared::control::{self, trace_signal};
use crate::worker::WorkerSettings;

/// The longest line of output that is logged in one piece.
const LONGEST_LINE_BYTES: usize = 4096;

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
    child: Child,
    pidfd: OwnedFd,
    outputs: Vec<Output>,
}

/// Standard output or standard error.
struct Output {
    pipe: OwnedFd,
    line: Vec<u8>,
}

impl WorkerProcess {
    /// Starts one.
    pub fn start(
        settings: &RouteSettings,
        interpreter: &Interpreter,
        number: u64,
    ) -> io::Result<WorkerProcess> {
        let (ours, theirs) = control::pair()?;
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?;
        let (output, output_writer) = output_pipe()?;
        let (errors, errors_writer) = output_pipe()?;
        // The link leads to the file that is being executed, even if another file has replaced it since.
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("touchstone")
            .arg("python-worker")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::from(output_writer))
            .stderr(Stdio::from(errors_writer))
            .process_group(0);
        let user = match settings.user.as_str() {
            "" => None,
            name => Some(User::find(name).map_err(io::Error::other)?),
        };
        set_environment(&mut command, settings, user.is_some());
        prepare(&mut command, user, settings.limits.memory);
        leave_no_orphan(&mut command, Signal::KILL);
        let mut child = command.spawn()?;
        let pid = child.id();
        let pidfd = pid_of(&child).and_then(|pid| Ok(pidfd_open(pid, PidfdFlags::empty())?));
        let told =
            serde_json::to_vec(&WorkerSettings { route: settings.clone(), interpreter: interpreter.clone() })
                .map_err(io::Error::other)
                .and_then(|text| {
                    control::send(&ours, control::SETTINGS, &text, &[wake.as_fd()], SendFlags::empty())
                });
        let pidfd = match (pidfd, told) {
            (Ok(pidfd), Ok(())) => pidfd,
            (Err(error), _) | (_, Err(error)) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(error);
            }
        };
        Ok(WorkerProcess {
            worker: Arc::new(Worker::new(number, pid, ours, wake)),
            started: Instant::now(),
            is_ready: false,
            has_failed: false,
            retired: None,
            end_ordered_at: None,
            kill_at: None,
            was_killed: false,
            hung: None,
            changed_file: None,
            child,
            pidfd,
            outputs: [output, errors].map(|pipe| Output { pipe, line: Vec::new() }).into(),
        })
    }

    /// Descriptors that become readable when there is something to process.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let outputs = self.outputs.iter().map(|output| output.pipe.as_fd());
        [self.pidfd.as_fd(), self.worker.control.as_fd()].into_iter().chain(outputs)
    }

    /// Reads the output of the application.
    pub fn read_outputs(&mut self, mut line: impl FnMut(&str)) {
        self.outputs.retain_mut(|output| output.read(&mut line));
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
        if let Ok(pid) = pid_of(&self.child) {
            // It was not reaped yet, so no other process has its number.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }

    /// How it has ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let mut fds = [rustix::event::PollFd::new(&self.pidfd, rustix::event::PollFlags::IN)];
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        if rustix::event::poll(&mut fds, Some(&now)).unwrap_or(0) == 0 {
            return None;
        }
        self.kill();
        self.child.wait().ok()
    }

    /// Makes it write the traces of its threads to standard error. If it has not yet loaded its application,
    /// the signal ends it.
    pub fn request_trace(&self) {
        if let Ok(pid) = pid_of(&self.child) {
            // SAFETY: this only sends a signal. The process was not reaped yet, so no other one has its
            // number.
            unsafe { libc::kill(pid.as_raw_nonzero().get(), trace_signal()) };
        }
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

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
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

impl Output {
    /// Returns whether more output may follow.
    fn read(&mut self, line: &mut impl FnMut(&str)) -> bool {
        let mut buffer = [0; 4096];
        // The limit keeps a worker that prints without end from delaying the others.
        for _ in 0..16 {
            match rustix::io::read(&self.pipe, &mut buffer) {
                Ok(0) => {
                    self.flush(line);
                    return false;
                }
                Ok(count) => self.take(&buffer[..count], line),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
        true
    }

    fn take(&mut self, bytes: &[u8], line: &mut impl FnMut(&str)) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.line.len() >= LONGEST_LINE_BYTES {
                self.flush(line);
            }
        }
    }

    fn flush(&mut self, line: &mut impl FnMut(&str)) {
        let text = String::from_utf8_lossy(self.line.trim_ascii_end());
        if !text.is_empty() {
            line(&text);
        }
        self.line.clear();
    }
}

fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&reader, true)?;
    Ok((reader, writer))
}

fn pid_of(process: &Child) -> io::Result<Pid> {
    i32::try_from(process.id())
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| io::Error::other("the process has no number"))
}
