//! A process with its process group: the server waits for its end, and reads its output.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// The longest line of output that is logged in one piece.
const LONGEST_LINE_BYTES: usize = 4096;

/// How many reads of an output follow one another: a process that prints without end must not delay others.
/// That many read everything that a pipe can hold.
const MOST_READS: usize = 16;

/// A process that was started. It is killed with its group when this is dropped.
pub struct WatchedProcess {
    process: Child,
    pid: Pid,
    pidfd: OwnedFd,
    outputs: Vec<Output>,
    /// Its exit status was read, so that another process may have its number.
    is_reaped: bool,
}

/// Standard output or standard error of a process.
struct Output {
    pipe: OwnedFd,
    /// The beginning of a line.
    line: Vec<u8>,
}

impl WatchedProcess {
    /// Starts a process in a process group of its own.
    pub fn start(mut command: Command) -> io::Result<WatchedProcess> {
        let (output, output_writer) = output_pipe()?;
        let (errors, errors_writer) = output_pipe()?;
        command.stdout(Stdio::from(output_writer)).stderr(Stdio::from(errors_writer)).process_group(0);
        let mut process = command.spawn()?;
        let (pid, pidfd) = match watch(&process) {
            Ok(watched) => watched,
            Err(error) => {
                let _ = process.kill();
                let _ = process.wait();
                return Err(error);
            }
        };
        let outputs = [output, errors].map(|pipe| Output { pipe, line: Vec::new() });
        Ok(WatchedProcess { process, pid, pidfd, outputs: outputs.into(), is_reaped: false })
    }

    /// Its process number.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The same, for signals to it alone.
    pub fn pid(&self) -> Pid {
        self.pid
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
        if !self.is_reaped {
            // It may have ended.
            let _ = kill_process_group(self.pid, signal);
        }
    }

    /// Its exit status, if it has ended. The rest of its group is killed before another process can get its
    /// number.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        if rustix::event::poll(&mut fds, Some(&now)).unwrap_or(0) == 0 {
            return None;
        }
        self.signal(Signal::KILL);
        self.is_reaped = true;
        self.process.wait().ok()
    }
}

impl Drop for WatchedProcess {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.process.wait();
    }
}

impl Output {
    /// Returns whether more output may arrive.
    fn read(&mut self, line: &mut impl FnMut(&str)) -> bool {
        let mut buffer = [0; 4096];
        for _ in 0..MOST_READS {
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

/// A pipe with a non-blocking reading end.
fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&reader, true)?;
    Ok((reader, writer))
}

fn watch(process: &Child) -> io::Result<(Pid, OwnedFd)> {
    let pid = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("a process without a number"))?;
    Ok((pid, pidfd_open(pid, PidfdFlags::empty())?))
}
