//! The scheduling priority of a thread before the start of a run. Without it, another thread on the same
//! processor may continue for some milliseconds after the thread has woken, and the run starts late.

use std::mem::size_of;

/// The time slice that the thread requests if it must not have a real-time priority: the kernel schedules
/// threads with a short slice sooner (Linux 6.12 and later).
const SHORT_SLICE_NS: u64 = 100_000;
/// The lowest real-time priority, which is above all ordinary threads.
const LOWEST_REALTIME_PRIORITY: u32 = 1;

/// While this value exists, the calling thread has a real-time priority or, without the permission
/// (CAP_SYS_NICE or RLIMIT_RTPRIO), a short time slice. It is intended for a thread that sleeps and then
/// computes for less than a millisecond.
pub(crate) struct RaisedPriority {
    before: libc::sched_attr,
}

impl RaisedPriority {
    /// Raises the priority; `None` if the kernel allows neither, so that the thread may wake later.
    pub(crate) fn begin() -> Option<RaisedPriority> {
        let before = attributes()?;
        let first = libc::sched_attr {
            sched_policy: libc::SCHED_FIFO as u32,
            sched_priority: LOWEST_REALTIME_PRIORITY,
            sched_nice: 0,
            ..before
        };
        let short = libc::sched_attr { sched_runtime: SHORT_SLICE_NS, ..before };
        (set_attributes(&first) || set_attributes(&short)).then_some(RaisedPriority { before })
    }
}

impl Drop for RaisedPriority {
    fn drop(&mut self) {
        // Lowering the priority is always allowed.
        set_attributes(&self.before);
    }
}

/// The scheduling attributes of the calling thread.
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
    // SAFETY: the kernel writes at most `size` bytes to the structure behind the pointer, and any bytes are a
    // valid `sched_attr`; 0 is the calling thread.
    let done =
        unsafe { libc::syscall(libc::SYS_sched_getattr, 0, std::ptr::from_mut(&mut attributes), size, 0) };
    (done == 0).then_some(attributes)
}

fn set_attributes(attributes: &libc::sched_attr) -> bool {
    let attributes = libc::sched_attr { size: size_of::<libc::sched_attr>() as u32, ..*attributes };
    // SAFETY: the kernel reads `size` bytes, which is the size of the structure; 0 is the calling thread.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, std::ptr::from_ref(&attributes), 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduling_of_a_thread_is_restored() {
        let seen = |attributes: Option<libc::sched_attr>| {
            let it = attributes.expect("Linux has them");
            (it.sched_policy, it.sched_nice, it.sched_priority, it.sched_runtime)
        };
        // In a separate thread, so that the scheduling of other tests does not change.
        let thread = std::thread::spawn(move || {
            let before = seen(attributes());
            let raised = RaisedPriority::begin();
            let meanwhile = seen(attributes());
            assert_eq!(meanwhile != before, raised.is_some());
            drop(raised);
            assert_eq!(seen(attributes()), before);
        });
        thread.join().expect("no panic");
    }
}
