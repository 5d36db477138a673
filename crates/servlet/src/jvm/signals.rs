//! Signals before the machine starts.
//!
//! The machine needs SIGSEGV and similar signals, since Java's null checks use them. For other faults it
//! calls the handlers that were installed before; and if there is any such handler, a crash writes no report
//! (`hs_err`). Rust installs handlers for its message on stack overflow, so these are removed first. With
//! `-Xrs` the machine does not use HUP, INT and TERM.

use std::ptr;

/// Signals that the machine reports.
const FAULTS: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// Removes Rust's own handlers. Others, such as those that report a crashed plug-in, are kept.
pub fn leave_faults_to_the_machine(others_are_installed: bool) {
    if others_are_installed {
        return;
    }
    for signal in FAULTS {
        // SAFETY: the default action replaces a handler that only writes a message.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = libc::SIG_DFL;
            libc::sigaction(signal, &action, ptr::null_mut());
        }
    }
}
