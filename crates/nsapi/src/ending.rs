//! Handles plug-ins that call `exit` or `_exit`: the server logs which one, lets the other requests end, and
//! ends with a status that is not 0. In a process that a plug-in has forked, these functions work as usual.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use crate::breadcrumb::breadcrumb;
use crate::crash;
use crate::plugin_request::current;

/// The exit status if a plug-in has ended the process with 0: EX_SOFTWARE.
const ENDED_BY_PLUGIN: c_int = 70;

/// The time for the other requests.
const GRACE: Duration = Duration::from_secs(5);

/// The kind of process, which determines how it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    /// The server, which ends gracefully on SIGTERM.
    Server,
    /// The child for plug-ins, which the server starts again.
    Child,
}

/// The process in which plug-ins run; 0: none so far.
static PROCESS: AtomicI32 = AtomicI32::new(0);
/// Whether it is the server.
static IS_SERVER: AtomicI32 = AtomicI32::new(0);
/// The exit status that replaces the process's own; 0: its own is used.
static STATUS: AtomicI32 = AtomicI32::new(0);

// A static program loads no plug-ins, and has the C library's own functions.
#[cfg(ends_of_plugins)]
unsafe extern "C" {
    /// `shim/exit.c`
    static touchstone_nsapi_exit_is_here: c_int;
}

/// Handles calls of `exit` from now on.
pub fn install(process: Process) {
    #[cfg(ends_of_plugins)]
    // SAFETY: a constant of the shim; reading it makes the linker keep the functions.
    assert_eq!(std::hint::black_box(unsafe { touchstone_nsapi_exit_is_here }), 1);
    IS_SERVER.store(i32::from(process == Process::Server), Ordering::Relaxed);
    // SAFETY: the call only reads.
    let own = unsafe { libc::getpid() };
    if PROCESS.swap(own, Ordering::AcqRel) == 0 && process == Process::Server {
        // SAFETY: the function calls only functions that are allowed at the end of a process.
        unsafe { libc::atexit(at_exit) };
    }
}

/// Runs at the graceful end of the server.
extern "C" fn at_exit() {
    let status = STATUS.load(Ordering::Acquire);
    if status != 0 {
        end_now(status);
    }
}

/// Ends the process by a direct system call, because `_exit` is replaced by the shim.
fn end_now(status: c_int) -> ! {
    loop {
        // SAFETY: it does not return.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}

/// Called for `exit` and similar functions. Returns if the caller is not a plug-in, or if this is a process
/// that a plug-in has forked.
#[unsafe(no_mangle)]
pub extern "C" fn touchstone_nsapi_ends(name: *const c_char, status: c_int, caller: *const c_void) {
    // SAFETY: the call only reads.
    if PROCESS.load(Ordering::Acquire) != unsafe { libc::getpid() } {
        return;
    }
    let here = breadcrumb();
    let plugin = crash::plugin_at(caller as usize);
    if plugin.is_null() {
        return;
    }
    let mut digits = [0u8; 12];
    let number = number_text(status, &mut digits);
    let who: [*const c_char; 4] = match here.function.is_null() {
        true => [c"a thread".as_ptr(), c"".as_ptr(), c" of the plug-in ".as_ptr(), plugin],
        false => [c"the function ".as_ptr(), here.function, c" of the plug-in ".as_ptr(), plugin],
    };
    crash::report(&[
        c"touchstone: ".as_ptr(),
        who[0],
        who[1],
        who[2],
        who[3],
        c" has called ".as_ptr(),
        name,
        c"(".as_ptr(),
        number.as_ptr(),
        c"): the process ends\n".as_ptr(),
    ]);
    let status = if status & 0xff == 0 { ENDED_BY_PLUGIN } else { status & 0xff };
    if IS_SERVER.load(Ordering::Relaxed) == 0 {
        end_now(status);
    }
    // The first call determines the status.
    let _ = STATUS.compare_exchange(0, status, Ordering::AcqRel, Ordering::Acquire);
    end_in_good_order(status)
}

/// Lets the server answer the other requests and write its logs, for a limited time.
fn end_in_good_order(status: c_int) -> ! {
    let watch = std::thread::Builder::new().name("nsapi-end".to_string()).spawn(move || {
        std::thread::sleep(GRACE);
        end_now(status)
    });
    if watch.is_err() {
        end_now(status);
    }
    // SAFETY: the plug-in request is this thread's, which never uses it again.
    if let Some(plugin_request) = unsafe { current::plugin_request().as_mut() } {
        plugin_request.break_off();
    }
    // SAFETY: a signal to the own process.
    unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
    loop {
        std::thread::sleep(GRACE);
    }
}

/// A number as text, without allocation.
fn number_text(number: c_int, digits: &mut [u8; 12]) -> &CStr {
    use std::io::Write as _;
    // Twelve bytes hold every number of 32 bits and a NUL.
    let _ = write!(&mut digits[..11], "{number}");
    CStr::from_bytes_until_nul(digits).unwrap_or(c"?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_down() {
        for (number, text) in [(0, c"0"), (-1, c"-1"), (i32::MIN, c"-2147483648")] {
            assert_eq!(number_text(number, &mut [0; 12]), text);
        }
    }
}
