//! One process of a pool: its process group, the listening socket, and its output.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child as StdChild, Command, ExitStatus, Stdio};

use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal, kill_process_group, pidfd_open};

use super::spec::{PoolSpec, ProcessLimits};
use crate::orphans::leave_no_orphan;

/// The longest line of output that is logged in one piece.
const LONGEST_LINE_BYTES: usize = 4096;

/// A process that was started.
pub struct Child {
    process: StdChild,
    pidfd: OwnedFd,
    outputs: Vec<Output>,
}

/// Standard output or standard error of a process.
struct Output {
    pipe: OwnedFd,
    /// The beginning of a line.
    line: Vec<u8>,
}

impl Child {
    /// Starts a process. `listener` becomes its descriptor 0; `inherited` stays open under its number.
    pub fn start(
        mut command: Command,
        spec: &PoolSpec,
        as_user: bool,
        listener: Option<OwnedFd>,
        inherited: Option<RawFd>,
    ) -> io::Result<Child> {
        let (output, output_writer) = output_pipe()?;
        let (errors, errors_writer) = output_pipe()?;
        command
            .stdin(listener.map_or_else(Stdio::null, Stdio::from))
            .stdout(Stdio::from(output_writer))
            .stderr(Stdio::from(errors_writer))
            .process_group(0);
        if as_user && let Some(user) = &spec.user {
            command.uid(user.user).gid(user.group);
        }
        prepare(&mut command, spec.limits.clone(), inherited);
        let mut process = command.spawn()?;
        let pidfd = match pid_of(&process).and_then(|pid| Ok(pidfd_open(pid, PidfdFlags::empty())?)) {
            Ok(pidfd) => pidfd,
            Err(error) => {
                let _ = process.kill();
                let _ = process.wait();
                return Err(error);
            }
        };
        let outputs = [output, errors].map(|pipe| Output { pipe, line: Vec::new() });
        Ok(Child { process, pidfd, outputs: outputs.into() })
    }

    /// Its process number.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The descriptor that becomes readable when it ends, and its outputs that are still open.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.pidfd.as_fd()).chain(self.outputs.iter().map(|output| output.pipe.as_fd()))
    }

    /// Reads what it has printed. `line` is called with each line.
    pub fn read_outputs(&mut self, mut line: impl FnMut(&str)) {
        self.outputs.retain_mut(|output| output.read(&mut line));
    }

    /// Sends a signal to it and to all processes of its group.
    pub fn signal(&self, signal: Signal) {
        if let Ok(pid) = pid_of(&self.process) {
            // It may have ended, but it was not reaped yet, so no other process has its number.
            let _ = kill_process_group(pid, signal);
        }
    }

    /// Its exit status, if it has ended. The rest of its group is killed before another process can get its
    /// number.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let mut fds = [rustix::event::PollFd::new(&self.pidfd, rustix::event::PollFlags::IN)];
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        if rustix::event::poll(&mut fds, Some(&now)).unwrap_or(0) == 0 {
            return None;
        }
        self.signal(Signal::KILL);
        self.process.wait().ok()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.process.wait();
    }
}

impl Output {
    /// Returns whether more output may arrive.
    fn read(&mut self, line: &mut impl FnMut(&str)) -> bool {
        let mut buffer = [0; 4096];
        loop {
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

/// A pipe with a non-blocking reading end.
fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&reader, true)?;
    Ok((reader, writer))
}

fn pid_of(process: &StdChild) -> io::Result<Pid> {
    i32::try_from(process.id())
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| io::Error::other("a process without a number"))
}

/// Prepares the new process before the program begins: it ends when the server has ended, for any reason; its
/// limits are set; the socket that it inherits stays open.
fn prepare(command: &mut Command, limits: ProcessLimits, inherited: Option<RawFd>) {
    leave_no_orphan(command, Signal::TERM);
    let work = move || {
        for (resource, value) in [(Resource::Nofile, limits.open_files), (Resource::As, limits.memory_bytes)]
        {
            if value.is_some() {
                rustix::process::setrlimit(resource, Rlimit { current: value, maximum: value })?;
            }
        }
        if let Some(descriptor) = inherited {
            // SAFETY: the caller of `Child::start` keeps it open until the process has been started.
            let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
            rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::empty())?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec it only makes system calls; it allocates no memory and takes no lock.
    unsafe {
        command.pre_exec(work);
    }
}

/// The number under which a descriptor is inherited.
pub fn number_of(descriptor: &impl AsFd) -> RawFd {
    descriptor.as_fd().as_raw_fd()
}
