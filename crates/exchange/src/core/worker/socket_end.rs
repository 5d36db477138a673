//! Ends a socket to which two threads have handles.

use std::os::fd::OwnedFd;

use rustix::net::Shutdown;

/// Ends a socket. Another thread also has a handle to it, which would keep it open.
pub struct SocketEnd(pub OwnedFd);

impl Drop for SocketEnd {
    fn drop(&mut self) {
        // If the client has disconnected, there is nothing to end.
        let _ = rustix::net::shutdown(&self.0, Shutdown::Both);
    }
}
