//! A report when a plug-in crashes: which plug-in, which function, which signal.
//!
//! Nothing can be saved then: the process ends as it would have. But the last line of the log says whose fault it was.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Once;

use crate::current::breadcrumb;

const SIGNALS: [(c_int, &CStr); 5] = [
    (libc::SIGSEGV, c"SIGSEGV (memory that is not there)"),
    (libc::SIGBUS, c"SIGBUS (memory that is not there)"),
    (libc::SIGFPE, c"SIGFPE (a division by zero)"),
    (libc::SIGILL, c"SIGILL (no instruction)"),
    (libc::SIGABRT, c"SIGABRT (it gave up)"),
];

/// The actions that were there before, to go on with.
static mut BEFORE: [MaybeUninit<libc::sigaction>; SIGNALS.len()] =
    [const { MaybeUninit::uninit() }; SIGNALS.len()];

/// Reports crashes from now on. Signals that hit other code go where they went before.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (index, (signal, _)) in SIGNALS.iter().enumerate() {
            // SAFETY: the handler calls only what may be called in one; nobody else touches BEFORE.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction =
                    on_signal as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
                // The stack may be what ran out: Rust's threads have another for handlers.
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
                libc::sigaction(*signal, &action, (&raw mut BEFORE[index]).cast());
            }
        }
    });
}

extern "C" fn on_signal(signal: c_int, _info: *mut libc::siginfo_t, _context: *mut c_void) {
    let index = SIGNALS.iter().position(|(known, _)| *known == signal).unwrap_or(0);
    let here = breadcrumb();
    if !here.function.is_null() {
        report(&[
            c"touchstone: the function ".as_ptr(),
            here.function,
            c" of the plug-in ".as_ptr(),
            here.plugin,
            c" has crashed with ".as_ptr(),
            SIGNALS[index].1.as_ptr(),
            c"\n".as_ptr(),
        ]);
    }
    // SAFETY: `install` has filled BEFORE. With the earlier action in place, the instruction is run again and fails again,
    // or the signal is raised again by abort.
    unsafe {
        libc::sigaction(signal, (&raw const BEFORE[index]).cast(), ptr::null_mut());
    }
}

/// Writes texts to the standard error output: `write` may be called in a handler, and one call keeps the line whole.
fn report(texts: &[*const c_char]) {
    let mut line = [0u8; 512];
    let mut length = 0;
    for text in texts {
        let mut at = *text;
        // SAFETY: each is a C text that lasts for good.
        unsafe {
            while !at.is_null() && *at != 0 && length < line.len() {
                line[length] = *at as u8;
                length += 1;
                at = at.add(1);
            }
        }
    }
    // SAFETY: the buffer holds that many bytes.
    unsafe {
        libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), length);
    }
}
