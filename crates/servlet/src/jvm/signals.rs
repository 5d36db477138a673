//! Signals before the machine starts.
//!
//! The machine takes SIGSEGV and its kind for itself, since Java's checks for null are made of them. What was
//! installed before, it calls for faults that are not Java's; and where that is anything but the default, a
//! crash leaves no report (`hs_err`). Rust installs such handlers for its own message on overflown stacks, so
//! these are taken away first. With `-Xrs` the machine leaves HUP, INT and TERM to the server.

use std::ptr;

/// Signals whose reports are the machine's.
const FAULTS: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// Takes Rust's own handlers away. Others, such as those that name a crashed plug-in, stay.
pub fn leave_faults_to_the_machine(others_are_installed: bool) {
    if others_are_installed {
        return;
    }
    for signal in FAULTS {
        // SAFETY: the default action replaces a handler whose only work was a message.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = libc::SIG_DFL;
            libc::sigaction(signal, &action, ptr::null_mut());
        }
    }
}
