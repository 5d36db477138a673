//! Makes processes that the server starts end with the server, however the server ends: a process that stayed
//! would hold sockets and pipes of the ended server.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Makes the kernel send this signal to the started process when the thread that starts it ends. The thread
/// should therefore run as long as the server.
pub fn leave_no_orphan(command: &mut Command, signal: Signal) {
    let server = getpid();
    let bind = move || {
        set_parent_process_death_signal(Some(signal))?;
        // The server may have ended before that call; then the signal would never be sent.
        if getppid() == Some(server) { Ok(()) } else { Err(io::Error::other("the server has ended")) }
    };
    // SAFETY: between fork and exec it only makes system calls; it takes no lock, and allocates only if it
    // fails, in a process that then ends.
    unsafe {
        command.pre_exec(bind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;

    #[test]
    fn a_process_ends_with_who_started_it() {
        let start = || {
            let mut command = Command::new("sleep");
            leave_no_orphan(command.arg("600"), Signal::KILL);
            command.spawn().expect("it starts")
        };
        let mut child = std::thread::spawn(start).join().expect("the thread ends");
        assert_eq!(child.wait().expect("it has ended").signal(), Some(Signal::KILL.as_raw()));
    }
}
