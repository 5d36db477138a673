//! The start of a run: all engine threads, on any number of machines, start at one time of the monotonic
//! clock. All preparation is done before; the thread only has to be awake at this time.

use crate::clock::{now_ns, timespec};
use crate::raised_priority::RaisedPriority;
use rustix::io::Errno;
use rustix::thread::{ClockId, clock_nanosleep_absolute};
use std::sync::atomic::{AtomicBool, Ordering};

/// The interval at which a waiting thread checks whether the run was stopped.
const CHECK_INTERVAL_NS: u64 = 10_000_000;
/// The time before the start at which a thread wakes: a sleeping processor needs up to some tenths of a
/// millisecond to wake.
const AWAKE_NS: u64 = 500_000;

/// Waits until a time of the monotonic clock, and returns the actual time of the start; `None` if the run was
/// stopped before.
pub(crate) fn wait_for_start(start_ns: u64, stop: &AtomicBool) -> Option<u64> {
    // The priority ends at the start, so that a thread that starts first does not delay the others.
    let _priority = RaisedPriority::begin();
    loop {
        let now_ns = now_ns();
        if now_ns >= start_ns {
            return Some(now_ns);
        }
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        let awake_ns = start_ns.saturating_sub(AWAKE_NS);
        if now_ns < awake_ns {
            sleep_until(awake_ns.min(now_ns + CHECK_INTERVAL_NS));
        } else {
            // The thread stays awake. If several threads share a processor, none of them blocks the others.
            std::thread::yield_now();
        }
    }
}

fn sleep_until(at_ns: u64) {
    match clock_nanosleep_absolute(ClockId::Monotonic, &timespec(at_ns)) {
        // The caller checks the clock in any case.
        Ok(()) | Err(Errno::INTR) => {}
        // The kernel does not support this: the thread stays awake.
        Err(_) => std::thread::yield_now(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn no_thread_starts_before_the_start_time() {
        let (start_ns, go_on) = (now_ns() + 50_000_000, AtomicBool::new(false));
        let started_ns = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| wait_for_start(start_ns, &go_on))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
        });
        assert!(
            started_ns.iter().all(|started_ns| started_ns.is_some_and(|started_ns| started_ns >= start_ns))
        );
    }

    #[test]
    fn a_past_start_returns_at_once_and_a_stopped_one_returns_none() {
        let start_ns = now_ns();
        assert!(
            wait_for_start(start_ns, &AtomicBool::new(true)).is_some_and(|started_ns| started_ns >= start_ns)
        );
        let far_ns = now_ns() + Duration::from_secs(3600).as_nanos() as u64;
        assert_eq!(wait_for_start(far_ns, &AtomicBool::new(true)), None);
    }
}
