//! One program at work: its input fed, its output taken, its error output logged, its time kept.

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

use super::connection::{Outcome, Ticket};
use super::error_output::ErrorOutput;
use super::queue::Permit;
use super::spawn::Stage;

/// Read from a program at once: what most print as a whole, then as much as a pipe holds.
const FIRST_READ_BYTES: usize = 16 * 1024;
const READ_BYTES: usize = 64 * 1024;

/// A program that was started.
pub struct Running {
    ticket: Ticket,
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

/// How long a program may take.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Until its first byte.
    pub first_byte: Duration,
    /// Between two bytes in either direction.
    pub idle: Duration,
    /// From beginning to end.
    pub total: Option<Duration>,
}

/// What was made for a program.
pub struct Pipes {
    /// Its output.
    pub output: OwnedFd,
    /// Its error output.
    pub errors: OwnedFd,
    /// Its input with what goes there, unless that is a file or nothing.
    pub input: Option<(OwnedFd, Receiver)>,
}

/// Why a program has no more to say.
#[derive(Debug)]
pub enum RunError {
    /// It was not started.
    NotStarted(Stage, io::Error),
    /// The spawner was lost, and the program with it.
    SpawnerLost,
    /// No first byte came in this time.
    FirstByte(Duration),
    /// Nothing came for this long.
    Idle(Duration),
    /// It took longer than this.
    Total(Duration),
    /// The client broke its body off.
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

/// What could not be done, and what helps.
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

/// A program's output. It is watched only if the program runs for a while: most are done before, and then
/// there is nothing to wait for.
enum Output {
    Unwatched(OwnedFd),
    Watched(pipe::Receiver),
    /// It could not be watched.
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

/// What goes to a program's standard input.
struct Input {
    pipe: pipe::Sender,
    body: Receiver,
    piece: Bytes,
}

impl Running {
    /// Takes care of a program from now on.
    ///
    /// # Errors
    /// A pipe cannot be watched.
    pub fn new(
        ticket: Ticket,
        pipes: Pipes,
        times: Times,
        name: Rc<str>,
        server: Rc<dyn touchstone_handler::handler::Server>,
        permit: Permit,
    ) -> io::Result<Running> {
        let now = Instant::now();
        let input = pipes.input.map(|(descriptor, body)| {
            let pipe = pipe::Sender::from_owned_fd_unchecked(descriptor)?;
            Ok::<_, io::Error>(Input { pipe, body, piece: Bytes::new() })
        });
        Ok(Running {
            ticket,
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

    /// Takes some of the program's output, to the end of `buffer`; 0 bytes: it has no more. Meanwhile feeds
    /// its input and keeps its time.
    pub fn poll_output(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<Result<usize, RunError>> {
        self.poll_input(context)?;
        if self.output.is_unwatched() && self.ticket.poll_settled(context).is_pending() {
            return self.poll_time(context);
        }
        self.errors.poll(context);
        if let Poll::Ready(count) = self.poll_read(context, buffer) {
            let count = count.map_err(RunError::Pipe)?;
            self.has_printed |= count > 0;
            self.progress_at = Instant::now();
            return Poll::Ready(Ok(count));
        }
        match self.ticket.poll_outcome(context) {
            Poll::Ready(Outcome::NotStarted { stage, errno }) => {
                return Poll::Ready(Err(RunError::NotStarted(stage, io::Error::from_raw_os_error(errno))));
            }
            Poll::Ready(Outcome::Lost) => return Poll::Ready(Err(RunError::SpawnerLost)),
            // Others may hold its output still, as in a pipeline.
            Poll::Ready(Outcome::Ended { .. }) | Poll::Pending => {}
        }
        self.poll_time(context)
    }

    /// Time that passes now is the client's, not the program's.
    pub fn excuse(&mut self) {
        self.progress_at = Instant::now();
    }

    /// What became of the program: known at once in nearly all cases in which its output has ended.
    pub async fn outcome_within(&mut self, limit: Duration) -> Option<Outcome> {
        tokio::time::timeout(limit, self.ticket.outcome()).await.ok()
    }

    /// After the program's output has ended: waits for its own end and takes the rest of its error output. It
    /// may take as long as it likes between two bytes, or with `is_patient` forever. Gives what became of it.
    pub async fn finish(mut self, is_patient: bool) -> Option<Outcome> {
        self.input = None;
        let limit = self.times.idle;
        let mut ended = std::pin::pin!(async {
            let ticket = &mut self.ticket;
            if is_patient {
                Some(ticket.outcome().await)
            } else {
                tokio::time::timeout(limit, ticket.outcome()).await.ok()
            }
        });
        let errors = &mut self.errors;
        let outcome = std::future::poll_fn(|context| {
            errors.poll(context);
            ended.as_mut().poll(context)
        })
        .await;
        self.errors.drain();
        drop(self.permit);
        outcome
    }

    /// What became of the program, if that is known by now; its error output has been taken then.
    pub fn known_outcome(&mut self) -> Option<Outcome> {
        let outcome = self.ticket.known_outcome();
        if outcome.is_some() {
            self.errors.drain();
        }
        outcome
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
            // Closing it tells the program that there is no more. Where the body broke off it stays open
            // until the program has been told to end: the program must not take a part for the whole.
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
            // Set again only when it has gone off: progress comes far more often.
            if self.timer.deadline() > next {
                self.timer.as_mut().reset(next);
            }
            ready!(self.timer.as_mut().poll(context));
            self.timer.as_mut().reset(next);
        }
    }
}

impl Input {
    /// Moves what can be moved; ready when there is no more, or the program wants no more.
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
                    // It has closed its input, which it may (RFC 3875 section 4.2).
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
