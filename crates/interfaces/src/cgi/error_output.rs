//! Writes a program's error output to the server's log, line by line.
//!
//! Lines carry the program's name and the request's id. The log limits the number of lines per second. The
//! output is read in any case, so that the program never waits for a reader.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::Context;

use tokio::net::unix::pipe;

use touchstone_handler::handler::{Level, Server};

/// Longer lines are logged in pieces.
const LONGEST_LINE_BYTES: usize = 2048;

/// Bytes that are read in one turn, so that a program that prints without end does not occupy the core.
const TURN_BYTES: usize = 64 * 1024;

enum Pipe {
    /// The event loop does not watch it yet.
    Unwatched(OwnedFd),
    Watched(pipe::Receiver),
    Closed,
}

/// The error output of one program.
pub struct ErrorOutput {
    pipe: Pipe,
    /// The beginning of a line.
    line: Vec<u8>,
    name: Rc<str>,
    server: Rc<dyn Server>,
}

impl ErrorOutput {
    /// For the program with this name in the log. The pipe must be non-blocking.
    pub fn new(pipe: OwnedFd, name: Rc<str>, server: Rc<dyn Server>) -> ErrorOutput {
        ErrorOutput { pipe: Pipe::Unwatched(pipe), line: Vec::new(), name, server }
    }

    /// Reads what has arrived, and wakes the task when more arrives.
    pub fn poll(&mut self, context: &mut Context<'_>) {
        let mut taken = 0;
        while taken < TURN_BYTES {
            match self.take_some() {
                Some(count) => taken += count,
                None if self.poll_ready(context) => {}
                None => return,
            }
        }
        context.waker().wake_by_ref();
    }

    /// Whether there may be more. If not, the task is woken when there is.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> bool {
        if let Pipe::Unwatched(_) = self.pipe
            && let Pipe::Unwatched(descriptor) = std::mem::replace(&mut self.pipe, Pipe::Closed)
            && let Ok(watched) = pipe::Receiver::from_owned_fd_unchecked(descriptor)
        {
            self.pipe = Pipe::Watched(watched);
        }
        match &self.pipe {
            Pipe::Watched(pipe) => pipe.poll_read_ready(context).is_ready(),
            _ => false,
        }
    }

    /// Reads the rest without waiting for more: a process that still runs may hold the pipe open.
    pub fn drain(&mut self) {
        let mut taken = 0;
        while taken < TURN_BYTES {
            match self.take_some() {
                Some(count) => taken += count,
                None => break,
            }
        }
        self.end_line();
    }

    /// The number of bytes that were read; `None`: there are none now, or the pipe is closed.
    fn take_some(&mut self) -> Option<usize> {
        let mut buffer = [0; 4096];
        let read = match &self.pipe {
            Pipe::Unwatched(descriptor) => rustix::io::read(descriptor, &mut buffer).map_err(io::Error::from),
            Pipe::Watched(pipe) => pipe.try_read(&mut buffer),
            Pipe::Closed => return None,
        };
        match read {
            Ok(count @ 1..) => {
                self.log(&buffer[..count]);
                return Some(count);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(0) | Err(_) => {
                self.pipe = Pipe::Closed;
                self.end_line();
            }
        }
        None
    }

    fn log(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.line.len() >= LONGEST_LINE_BYTES {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let text = self.line.trim_ascii_end();
        if !text.is_empty() {
            let message = format!("{}: {}", self.name, String::from_utf8_lossy(text));
            self.server.log(Level::Warning, "error output of programs", &message);
        }
        self.line.clear();
    }
}

impl Drop for ErrorOutput {
    fn drop(&mut self) {
        self.drain();
    }
}
