//! How soon a thread gets its processor when it wakes. At the start of a run this decides how late the run
//! begins: another thread that computes on the processor may otherwise continue for some milliseconds.

use std::mem::size_of;

/// The slice of processor time that the thread requests if it may have no real-time priority: the kernel
/// schedules threads with a short slice sooner (Linux 6.12 and later).
const SHORT_TURN_NS: u64 = 100_000;
/// The lowest priority above all ordinary threads.
const LOWEST_FIRST: u32 = 1;

/// While this value exists, the calling thread runs before ordinary threads, or, without the right to that
/// (CAP_SYS_NICE or RLIMIT_RTPRIO), as soon as an ordinary thread can. It is for a thread that sleeps, and
/// computes for less than a millisecond.
pub(crate) struct RaisedPriority {
    before: libc::sched_attr,
}

impl RaisedPriority {
    /// `None` if the kernel has neither: then the thread only wakes later.
    pub(crate) fn begin() -> Option<RaisedPriority> {
        let before = attributes()?;
        let first = libc::sched_attr {
            sched_policy: libc::SCHED_FIFO as u32,
            sched_priority: LOWEST_FIRST,
            sched_nice: 0,
            ..before
        };
        let short = libc::sched_attr { sched_runtime: SHORT_TURN_NS, ..before };
        (set_attributes(&first) || set_attributes(&short)).then_some(RaisedPriority { before })
    }
}

impl Drop for RaisedPriority {
    fn drop(&mut self) {
        // It was so before, and lowering is always allowed.
        set_attributes(&self.before);
    }
}

/// How the calling thread is scheduled.
fn attributes() -> Option<libc::sched_attr> {
    let mut attributes = libc::sched_attr {
        size: 0,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    let size = size_of::<libc::sched_attr>() as libc::c_uint;
    // SAFETY: the kernel writes at most `size` bytes to where the pointer leads, and any of them make a
    // `sched_attr`; 0 is the calling thread.
    let done =
        unsafe { libc::syscall(libc::SYS_sched_getattr, 0, std::ptr::from_mut(&mut attributes), size, 0) };
    (done == 0).then_some(attributes)
}

fn set_attributes(attributes: &libc::sched_attr) -> bool {
    let attributes = libc::sched_attr { size: size_of::<libc::sched_attr>() as u32, ..*attributes };
    // SAFETY: the kernel reads as many bytes as `size` says, which is those of the structure; 0 is the
    // calling thread.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, std::ptr::from_ref(&attributes), 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_as_it_was_when_it_is_over() {
        let seen = |attributes: Option<libc::sched_attr>| {
            let it = attributes.expect("Linux has them");
            (it.sched_policy, it.sched_nice, it.sched_priority, it.sched_runtime)
        };
        // In a separate thread, so that the scheduling of other tests does not change.
        let thread = std::thread::spawn(move || {
            let before = seen(attributes());
            let soon = RaisedPriority::begin();
            let meanwhile = seen(attributes());
            assert_eq!(meanwhile != before, soon.is_some());
            drop(soon);
            assert_eq!(seen(attributes()), before);
        });
        thread.join().expect("no panic");
    }
}
