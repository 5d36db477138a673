//! The clocks of the engine: the monotonic clock in nanoseconds, and the processor time of a thread.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// The time of the monotonic clock in nanoseconds. The call uses the vDSO and needs no system call.
pub(crate) fn now_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// A reading of the processor time of the calling thread.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ThreadTime {
    /// The time of the reading on the monotonic clock.
    pub(crate) at_ns: u64,
    /// The exact processor time of the thread.
    pub(crate) used_ns: u64,
    /// The time that the thread was ready to run while its processor ran another thread; 0 if the kernel does
    /// not report it.
    waited_ns: u64,
    /// Clock ticks in user mode. Their ratio to `system_ticks` divides `used_ns`.
    user_ticks: u64,
    system_ticks: u64,
}

impl ThreadTime {
    /// Reads the clocks of the calling thread.
    pub(crate) fn read() -> ThreadTime {
        let (user_ticks, system_ticks) = thread_ticks().unwrap_or_default();
        let waited_ns = thread_wait_ns().unwrap_or_default();
        let used_ns = nanoseconds(ClockId::ThreadCPUTime);
        ThreadTime { at_ns: now_ns(), used_ns, waited_ns, user_ticks, system_ticks }
    }

    /// The seconds in user and in system mode since an earlier reading. The sum is exact. The division is
    /// computed from the kernel's clock ticks; if `/proc` does not report them, all of it counts as user
    /// time.
    pub(crate) fn user_and_system_s_since(&self, earlier: &ThreadTime) -> (f64, f64) {
        let used_s = self.used_ns.saturating_sub(earlier.used_ns) as f64 / 1e9;
        let user = self.user_ticks.saturating_sub(earlier.user_ticks) as f64;
        let system = self.system_ticks.saturating_sub(earlier.system_ticks) as f64;
        let user_share = if user + system > 0.0 { user / (user + system) } else { 1.0 };
        (used_s * user_share, used_s * (1.0 - user_share))
    }

    /// The share of one processor that the thread used since an earlier reading, 0 to 1.
    pub(crate) fn share_since(&self, earlier: &ThreadTime) -> f64 {
        self.share(self.used_ns.saturating_sub(earlier.used_ns), earlier)
    }

    /// The share of the time since an earlier reading that the thread waited for its processor, 0 to 1.
    pub(crate) fn waiting_share_since(&self, earlier: &ThreadTime) -> f64 {
        self.share(self.waited_ns.saturating_sub(earlier.waited_ns), earlier)
    }

    fn share(&self, part_ns: u64, earlier: &ThreadTime) -> f64 {
        let elapsed_ns = self.at_ns.saturating_sub(earlier.at_ns);
        if elapsed_ns == 0 { 0.0 } else { (part_ns as f64 / elapsed_ns as f64).min(1.0) }
    }
}

/// A time in the form of the system calls.
pub(crate) fn timespec(nanoseconds: u64) -> Timespec {
    Timespec { tv_sec: (nanoseconds / 1_000_000_000) as i64, tv_nsec: (nanoseconds % 1_000_000_000) as i64 }
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The second field of `/proc/thread-self/schedstat`.
fn thread_wait_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Fields 14 and 15 of `/proc/thread-self/stat`. The thread's name (field 2) may contain spaces and brackets,
/// so the count begins after the last closing bracket.
fn thread_ticks() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/thread-self/stat").ok()?;
    let mut fields = text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_thread_uses_time() {
        let before = ThreadTime::read();
        let mut sum = 0u64;
        while nanoseconds(ClockId::ThreadCPUTime) < before.used_ns + 30_000_000 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let after = ThreadTime::read();
        let (user_s, system_s) = after.user_and_system_s_since(&before);
        assert!(user_s + system_s >= 0.03);
        assert!(after.share_since(&before) > 0.0);
        assert_eq!(before.share_since(&before), 0.0);
        assert!((0.0..=1.0).contains(&after.waiting_share_since(&before)));
        assert!(thread_ticks().is_some());
    }
}
