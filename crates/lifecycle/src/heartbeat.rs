//! Heartbeats of the cores, for systemd's watchdog, which must detect a core that does not run any more.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The last time at which each core was known to run.
pub struct Heartbeat {
    began: Instant,
    /// Milliseconds since `began`.
    beats_ms: Vec<AtomicU64>,
}

impl Heartbeat {
    /// A heartbeat for this many cores, all of them alive now.
    pub fn new(cores: usize) -> Heartbeat {
        Heartbeat { began: Instant::now(), beats_ms: (0..cores).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Records that a core runs. A core calls it on its ticks, not for its requests.
    pub fn beat(&self, core: usize) {
        if let Some(beat) = self.beats_ms.get(core) {
            beat.store(self.now_ms(), Ordering::Relaxed);
        }
    }

    /// The number of a core without a sign of life for this long.
    pub fn silent(&self, limit: Duration) -> Option<usize> {
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let now_ms = self.now_ms();
        self.beats_ms.iter().position(|beat| now_ms.saturating_sub(beat.load(Ordering::Relaxed)) > limit_ms)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_silent_core_is_found_among_others() {
        let mut heartbeat = Heartbeat::new(3);
        assert_eq!(heartbeat.silent(Duration::from_secs(60)), None);
        // An hour passes.
        heartbeat.began -= Duration::from_secs(3600);
        heartbeat.beat(0);
        heartbeat.beat(2);
        heartbeat.beat(7);
        assert_eq!(heartbeat.silent(Duration::from_secs(60)), Some(1));
        heartbeat.beat(1);
        assert_eq!(heartbeat.silent(Duration::from_secs(60)), None);
    }
}
