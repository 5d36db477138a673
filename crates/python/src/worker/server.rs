//! Messages to the server's supervisor, and the exit codes of a worker.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use rustix::net::SendFlags;

use crate::shared::control;

/// The application cannot be started.
pub const EXIT_NO_APPLICATION: i32 = 3;
/// A ring of a core cannot be read.
pub const EXIT_BAD_RING: i32 = 4;

static SERVER: OnceLock<OwnedFd> = OnceLock::new();

/// Sets the socket, once.
pub fn set(socket: OwnedFd) -> BorrowedFd<'static> {
    SERVER.get_or_init(|| socket).as_fd()
}

/// Writes a message to the server's error log: `e`, `w`, `i` or `d`, and the text.
pub fn log(level: char, text: &str) {
    let message = format!("{level}{text}");
    report(control::LOG, message.as_bytes());
}

/// Sends a message to the server.
pub fn report(kind: u8, text: &[u8]) {
    if let Some(server) = SERVER.get() {
        // If the server has ended, the worker will end, too.
        let _ = control::send(server, kind, text, &[], SendFlags::empty());
    }
}
