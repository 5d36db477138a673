//! A program's error output, line by line into the server's log.
//!
//! Lines carry the program's name and the request's id. The log limits how many it takes a second; what a
//! program prints is taken from it in any case, so that it never waits for somebody to read.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::Context;

use tokio::net::unix::pipe;

use crate::handler::{Level, Server};

/// Longer lines are logged in pieces.
const LONGEST_LINE_BYTES: usize = 2048;

/// Read between two looks at other things, so that one who prints without end does not stop the core.
const TURN_BYTES: usize = 64 * 1024;

enum Pipe {
    /// Nobody waits for more yet.
    Unwatched(OwnedFd),
    Watched(pipe::Receiver),
    Closed,
}

/// Error output of one program.
pub struct ErrorOutput {
    pipe: Pipe,
    /// The beginning of a line.
    line: Vec<u8>,
    name: Rc<str>,
    server: Rc<dyn Server>,
}

impl ErrorOutput {
    /// Of the program with this name in the log. The pipe does not block.
    pub fn new(pipe: OwnedFd, name: Rc<str>, server: Rc<dyn Server>) -> ErrorOutput {
        ErrorOutput { pipe: Pipe::Unwatched(pipe), line: Vec::new(), name, server }
    }

    /// Takes what is there, and has the task woken when there is more.
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

    /// Whether there may be more; else the task is woken then.
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

    /// Takes what is left, without waiting for more: somebody who was left running may hold the pipe.
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

    /// How many bytes were taken; `None`: there are none now, or will never be.
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
