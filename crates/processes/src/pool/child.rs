//! Starts a process of a pool, with its listening socket and its limits.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::{Resource, Rlimit, Signal};

use super::spec::{PoolSpec, ProcessLimits};
use crate::orphans::leave_no_orphan;
use crate::watched::WatchedProcess;

/// Starts a process. `listener` becomes its descriptor 0; `inherited` stays open under its number.
pub fn start(
    mut command: Command,
    spec: &PoolSpec,
    as_user: bool,
    listener: Option<OwnedFd>,
    inherited: Option<RawFd>,
) -> io::Result<WatchedProcess> {
    command.stdin(listener.map_or_else(Stdio::null, Stdio::from));
    if as_user && let Some(user) = &spec.user {
        command.uid(user.user).gid(user.group);
    }
    prepare(&mut command, spec.limits.clone(), inherited);
    WatchedProcess::start(command)
}

/// Prepares the new process before the program begins: it ends when the server has ended, for any reason; its
/// limits are set; the socket that it inherits stays open.
fn prepare(command: &mut Command, limits: ProcessLimits, inherited: Option<RawFd>) {
    leave_no_orphan(command, Signal::TERM);
    let work = move || {
        for (resource, value) in [(Resource::Nofile, limits.open_files), (Resource::As, limits.memory_bytes)]
        {
            if value.is_some() {
                rustix::process::setrlimit(resource, Rlimit { current: value, maximum: value })?;
            }
        }
        if let Some(descriptor) = inherited {
            // SAFETY: the caller of `start` keeps it open until the process has been started.
            let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
            rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::empty())?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec it only makes system calls; it allocates no memory and takes no lock.
    unsafe {
        command.pre_exec(work);
    }
}

/// The number under which a descriptor is inherited.
pub fn number_of(descriptor: &impl AsFd) -> RawFd {
    descriptor.as_fd().as_raw_fd()
}
