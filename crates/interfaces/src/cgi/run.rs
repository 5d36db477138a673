//! One running program: writes its input, reads its output, logs its error output, and enforces time limits.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::net::unix::pipe;
use tokio::time::{Instant, Sleep};
use touchstone_handler::pipe::Receiver;

use super::connection::{ProgramEnd, StartedProgram};
use super::error_output::ErrorOutput;
use super::queue::Permit;
use super::spawn::Stage;

/// How many bytes are read from a program at first. The output of most programs fits; later reads use the
/// size of a pipe.
const FIRST_READ_BYTES: usize = 16 * 1024;
const READ_BYTES: usize = 64 * 1024;

/// A program that was started.
pub struct RunningProgram {
    program: StartedProgram,
    output: Output,
    errors: ErrorOutput,
    input: Option<Input>,
    times: Times,
    timer: Pin<Box<Sleep>>,
    has_printed: bool,
    progress_at: Instant,
    began_at: Instant,
    /// Held until the program has ended.
    permit: Permit,
}

/// Time limits for a program.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Until its first byte.
    pub first_byte: Duration,
    /// Between two bytes in either direction.
    pub idle: Duration,
    /// From beginning to end.
    pub total: Option<Duration>,
}

/// The pipes of a program.
pub struct Pipes {
    /// Its output.
    pub output: OwnedFd,
    /// Its error output.
    pub errors: OwnedFd,
    /// Its input and the body for it, unless the input is a file or empty.
    pub input: Option<(OwnedFd, Receiver)>,
}

/// Why there is no more output.
#[derive(Debug)]
pub enum RunError {
    /// It was not started.
    NotStarted(Stage, io::Error),
    /// The spawner was lost, and the program with it.
    SpawnerLost,
    /// No first byte arrived in this time.
    FirstByte(Duration),
    /// Nothing arrived for this long.
    Idle(Duration),
    /// It took longer than this.
    Total(Duration),
    /// The client's body broke off.
    RequestBody(io::Error),
    /// A pipe failed.
    Pipe(io::Error),
}

impl std::fmt::Display for RunError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunError::NotStarted(stage, error) => {
                let (what, advice) = explain(*stage, error);
                write!(formatter, "{what}: {error}{advice}")
            }
            RunError::SpawnerLost => formatter.write_str("the process that starts programs was lost"),
            RunError::FirstByte(limit) => write!(formatter, "it printed nothing within {limit:?}"),
            RunError::Idle(limit) => write!(formatter, "it neither printed nor read anything for {limit:?}"),
            RunError::Total(limit) => write!(formatter, "it was not done within {limit:?}"),
            RunError::RequestBody(error) => write!(formatter, "the request's body broke off: {error}"),
            RunError::Pipe(error) => write!(formatter, "its output cannot be read: {error}"),
        }
    }
}

/// The failed step, and a hint.
fn explain(stage: Stage, error: &io::Error) -> (&'static str, &'static str) {
    match (stage, error.raw_os_error()) {
        (Stage::Execute, Some(libc::EACCES)) => {
            ("it cannot be executed", "; give it the permission (chmod +x) and its directories too")
        }
        (Stage::Execute, Some(libc::ENOEXEC)) => {
            ("it cannot be executed", "; a script begins with a line such as \"#!/bin/sh\"")
        }
        (Stage::Execute, Some(libc::ENOENT)) => (
            "it cannot be executed",
            "; does the interpreter that its first line names exist, without a CR behind it?",
        ),
        (Stage::Execute, Some(libc::E2BIG)) => {
            ("it cannot be executed", "; the request's fields are too long for it")
        }
        (Stage::Execute, _) => ("it cannot be executed", ""),
        (Stage::User, _) => ("it cannot be given its user", "; for that the server must be started as root"),
        (Stage::Directory, _) => ("its directory cannot be entered", ""),
        (Stage::Limits, _) => ("its limits cannot be set", ""),
        (Stage::Process | Stage::Session | Stage::Descriptors, _) => ("no process can be made for it", ""),
    }
}

/// A program's output. It is registered for events only if the program runs for a while: most programs end
/// before that.
enum Output {
    Unwatched(OwnedFd),
    Watched(pipe::Receiver),
    /// It could not be registered.
    Closed,
}

impl Output {
    fn is_unwatched(&self) -> bool {
        matches!(self, Output::Unwatched(_))
    }

    fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        loop {
            match self {
                Output::Unwatched(descriptor) => {
                    let spare = rustix::buffer::spare_capacity(buffer);
                    match rustix::io::read(&*descriptor, spare) {
                        Err(rustix::io::Errno::AGAIN) => self.watch()?,
                        other => return Poll::Ready(other.map_err(io::Error::from)),
                    }
                }
                Output::Watched(pipe) => {
                    ready!(pipe.poll_read_ready(context))?;
                    match pipe.try_read_buf(buffer) {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        other => return Poll::Ready(other),
                    }
                }
                Output::Closed => return Poll::Ready(Ok(0)),
            }
        }
    }

    fn watch(&mut self) -> io::Result<()> {
        if let Output::Unwatched(descriptor) = std::mem::replace(self, Output::Closed) {
            *self = Output::Watched(pipe::Receiver::from_owned_fd_unchecked(descriptor)?);
        }
        Ok(())
    }
}

/// The standard input of a program.
struct Input {
    pipe: pipe::Sender,
    body: Receiver,
    piece: Bytes,
}

impl RunningProgram {
    /// Takes over a program that was started.
    ///
    /// # Errors
    /// A pipe cannot be registered for events.
    pub fn new(
        program: StartedProgram,
        pipes: Pipes,
        times: Times,
        name: Rc<str>,
        server: Rc<dyn touchstone_handler::handler::Server>,
        permit: Permit,
    ) -> io::Result<RunningProgram> {
        let now = Instant::now();
        let input = pipes.input.map(|(descriptor, body)| {
            let pipe = pipe::Sender::from_owned_fd_unchecked(descriptor)?;
            Ok::<_, io::Error>(Input { pipe, body, piece: Bytes::new() })
        });
        Ok(RunningProgram {
            program,
            output: Output::Unwatched(pipes.output),
            errors: ErrorOutput::new(pipes.errors, name, server),
            input: input.transpose()?,
            times,
            timer: Box::pin(tokio::time::sleep_until(now + times.first_byte)),
            has_printed: false,
            progress_at: now,
            began_at: now,
            permit,
        })
    }

    /// Appends some of the program's output to `buffer`; 0 bytes: the output has ended. Also writes its input
    /// and checks its time limits.
    pub fn poll_output(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<Result<usize, RunError>> {
        self.poll_input(context)?;
        if self.output.is_unwatched() && self.program.poll_settled(context).is_pending() {
            return self.poll_time(context);
        }
        self.errors.poll(context);
        if let Poll::Ready(count) = self.poll_read(context, buffer) {
            let count = count.map_err(RunError::Pipe)?;
            self.has_printed |= count > 0;
            self.progress_at = Instant::now();
            return Poll::Ready(Ok(count));
        }
        match self.program.poll_end(context) {
            Poll::Ready(ProgramEnd::NotStarted { stage, errno }) => {
                return Poll::Ready(Err(RunError::NotStarted(stage, io::Error::from_raw_os_error(errno))));
            }
            Poll::Ready(ProgramEnd::Lost) => return Poll::Ready(Err(RunError::SpawnerLost)),
            // Other processes may still hold its output open, as in a pipeline.
            Poll::Ready(ProgramEnd::Ended { .. }) | Poll::Pending => {}
        }
        self.poll_time(context)
    }

    /// From now on time passes that the client needs, so it does not count against the program.
    pub fn excuse(&mut self) {
        self.progress_at = Instant::now();
    }

    /// How the program ended. This is known at once in nearly all cases in which its output has ended.
    pub async fn end_within(&mut self, limit: Duration) -> Option<ProgramEnd> {
        tokio::time::timeout(limit, self.program.wait_for_end()).await.ok()
    }

    /// Called after the program's output has ended: waits for the end of the program and reads the rest of
    /// its error output. There is no idle limit, and with `is_patient` no time limit at all. Returns how the
    /// program ended.
    pub async fn finish(mut self, is_patient: bool) -> Option<ProgramEnd> {
        self.input = None;
        let limit = self.times.idle;
        let mut ended = std::pin::pin!(async {
            let program = &mut self.program;
            if is_patient {
                Some(program.wait_for_end().await)
            } else {
                tokio::time::timeout(limit, program.wait_for_end()).await.ok()
            }
        });
        let errors = &mut self.errors;
        let end = std::future::poll_fn(|context| {
            errors.poll(context);
            ended.as_mut().poll(context)
        })
        .await;
        self.errors.drain();
        drop(self.permit);
        end
    }

    /// How the program ended, if known; its error output was then read.
    pub fn known_end(&mut self) -> Option<ProgramEnd> {
        let end = self.program.known_end();
        if end.is_some() {
            self.errors.drain();
        }
        end
    }

    fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        if buffer.capacity() - buffer.len() < 4096 {
            buffer.reserve(if self.has_printed { READ_BYTES } else { FIRST_READ_BYTES });
        }
        self.output.poll_read(context, buffer)
    }

    fn poll_input(&mut self, context: &mut Context<'_>) -> Result<(), RunError> {
        let Some(input) = &mut self.input else { return Ok(()) };
        let mut has_moved = false;
        let done = input.poll(context, &mut has_moved);
        if has_moved {
            self.progress_at = Instant::now();
        }
        if let Poll::Ready(result) = done {
            // Closing the input informs the program that it is complete. If the body broke off, the input
            // stays open until the program gets the signal to end, so that it does not treat the part as a
            // complete body.
            result.map_err(RunError::RequestBody)?;
            self.input = None;
        }
        Ok(())
    }

    fn poll_time(&mut self, context: &mut Context<'_>) -> Poll<Result<usize, RunError>> {
        loop {
            let now = Instant::now();
            let (wait, error) = match self.has_printed {
                false => (self.times.first_byte, RunError::FirstByte(self.times.first_byte)),
                true => (self.times.idle, RunError::Idle(self.times.idle)),
            };
            let idle_at = self.progress_at + wait;
            let total_at = self.times.total.map(|total| (self.began_at + total, total));
            if let Some((at, total)) = total_at
                && now >= at
            {
                return Poll::Ready(Err(RunError::Total(total)));
            }
            if now >= idle_at {
                return Poll::Ready(Err(error));
            }
            let next = total_at.map_or(idle_at, |(at, _)| at.min(idle_at));
            // The timer is set again only after it has fired, because progress is far more frequent.
            if self.timer.deadline() > next {
                self.timer.as_mut().reset(next);
            }
            ready!(self.timer.as_mut().poll(context));
            self.timer.as_mut().reset(next);
        }
    }
}

impl Input {
    /// Moves available bytes; ready when there are no more, or the program reads no more.
    fn poll(&mut self, context: &mut Context<'_>, has_moved: &mut bool) -> Poll<io::Result<()>> {
        loop {
            while self.piece.has_remaining() {
                if ready!(self.pipe.poll_write_ready(context)).is_err() {
                    return Poll::Ready(Ok(()));
                }
                match self.pipe.try_write(&self.piece) {
                    Ok(count) => {
                        self.piece.advance(count);
                        *has_moved = true;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    // The program has closed its input, which is allowed (RFC 3875 section 4.2).
                    Err(_) => return Poll::Ready(Ok(())),
                }
            }
            match ready!(self.body.poll_next(context)) {
                Some(Ok(piece)) => self.piece = piece,
                Some(Err(error)) => return Poll::Ready(Err(error)),
                None => return Poll::Ready(Ok(())),
            }
        }
    }
}
