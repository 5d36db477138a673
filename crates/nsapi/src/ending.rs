//! Plug-ins that call `exit` or `_exit`: the server says which, lets the other requests end, and ends with a
//! status that is not 0. In a process that a plug-in has forked, they do what they always do.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use crate::crash;
use crate::current;

/// The status of a process that a plug-in has ended with 0: EX_SOFTWARE.
const ENDED_BY_PLUGIN: c_int = 70;

/// How long the other requests have.
const GRACE: Duration = Duration::from_secs(5);

/// What the process is: it ends in different ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    /// The server, which ends in good order on SIGTERM.
    Server,
    /// The child for plug-ins, which the server starts again.
    Child,
}

/// The process that plug-ins run in; 0: none do yet.
static PROCESS: AtomicI32 = AtomicI32::new(0);
/// Whether it is the server.
static IS_SERVER: AtomicI32 = AtomicI32::new(0);
/// The status that the process ends with, whatever it says itself; 0: its own.
static STATUS: AtomicI32 = AtomicI32::new(0);

unsafe extern "C" {
    /// `shim/exit.c`
    static touchstone_nsapi_exit_is_here: c_int;
}

/// Looks after calls of `exit` from now on.
pub fn install(process: Process) {
    // SAFETY: a constant of the shim; reading it keeps the functions in the program.
    assert_eq!(std::hint::black_box(unsafe { touchstone_nsapi_exit_is_here }), 1);
    IS_SERVER.store(i32::from(process == Process::Server), Ordering::Relaxed);
    // SAFETY: it only asks.
    let own = unsafe { libc::getpid() };
    if PROCESS.swap(own, Ordering::AcqRel) == 0 && process == Process::Server {
        // SAFETY: the function calls only what may be called at the end of a process.
        unsafe { libc::atexit(at_exit) };
    }
}

/// Runs when the server has ended in good order.
extern "C" fn at_exit() {
    let status = STATUS.load(Ordering::Acquire);
    if status != 0 {
        end_now(status);
    }
}

/// Ends the process by the kernel's own call: `_exit` is looked after.
fn end_now(status: c_int) -> ! {
    loop {
        // SAFETY: it does not return.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}

/// A call of `exit` or one of its like. Returns where no plug-in has called, or where it is a process that
/// one
/// has forked.
#[unsafe(no_mangle)]
pub extern "C" fn touchstone_nsapi_ends(name: *const c_char, status: c_int, caller: *const c_void) {
    // SAFETY: it only asks.
    if PROCESS.load(Ordering::Acquire) != unsafe { libc::getpid() } {
        return;
    }
    let here = current::breadcrumb();
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
    // The first that ends it says how.
    let _ = STATUS.compare_exchange(0, status, Ordering::AcqRel, Ordering::Acquire);
    end_in_good_order(status)
}

/// Has the server answer the other requests and write its logs, for a while.
fn end_in_good_order(status: c_int) -> ! {
    let watch = std::thread::Builder::new().name("nsapi-end".to_string()).spawn(move || {
        std::thread::sleep(GRACE);
        end_now(status)
    });
    if watch.is_err() {
        end_now(status);
    }
    // SAFETY: the exchange is this thread's, which never comes back to it.
    if let Some(exchange) = unsafe { current::exchange().as_mut() } {
        exchange.break_off();
    }
    // SAFETY: a signal to the own process.
    unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
    loop {
        std::thread::sleep(GRACE);
    }
}

/// A number as text, without memory from anywhere.
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
