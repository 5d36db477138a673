//! Processes that the server starts end with it, however that ends: one that stayed would hold sockets and
//! pipes of a server that is no more.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Has the kernel send this signal to the process that the command starts, as soon as the thread that starts
/// it has ended: so that should be one that lasts.
pub fn leave_no_orphan(command: &mut Command, signal: Signal) {
    let server = getpid();
    let bind = move || {
        set_parent_process_death_signal(Some(signal))?;
        // The server may have ended before that; then nothing would be sent.
        if getppid() == Some(server) { Ok(()) } else { Err(io::Error::other("the server has ended")) }
    };
    // SAFETY: between fork and exec it only makes system calls; it takes no lock, and allocates only where it
    // fails in a process that ends next.
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
