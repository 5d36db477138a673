//! Descriptors that another process passed to this one by number, and those that programs must not inherit.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Marks all open descriptors so that programs that are started later do not inherit them. Those that this
/// server opens have the mark already. A Java virtual machine in its process may open files without it, and
/// each upgrade would pass them on. A kernel before Linux 5.11 ignores the call.
pub fn close_in_programs() {
    // SAFETY: the call changes flags of descriptors, and touches no memory. Descriptors that a program is to
    // have get their place in the new process, after this.
    let _ = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
}

/// Takes an open descriptor that was passed to this process by number, and closes it in programs that are
/// started later. A number may be taken only once, before any other code opens files.
pub fn take_descriptor(number: i32) -> io::Result<OwnedFd> {
    // SAFETY: fcntl with F_SETFD touches no memory, whatever the number is; if it is not open, the call
    // fails.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, as the call above has shown. No other code in this process owns it: the
    // process that started this one passed the number on, and callers take each number once, before files are
    // opened that could have it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
