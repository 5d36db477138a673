//! The seconds of a mix as the load engine spent them, from the recordings of the monitor and the engine: the
//! input of [`crate::statistics::taint`].

use crate::recording::Recording;
use crate::statistics::taint::EngineSecond;

/// A server that uses this share of its processors limits the rate: then a busy engine does not.
const SERVER_FULL: f64 = 0.95;

/// One second of a mix.
#[derive(Debug, Clone, Copy)]
pub struct Second {
    /// Its beginning, seconds from the mix's start.
    pub start_s: f64,
    /// Its length, seconds.
    pub length_s: f64,
    /// Errors in it.
    pub errors: u64,
}

/// The seconds that lie wholly between the two moments. On a machine that both share, softirqs, pressure and
/// the network are not signs of the engine alone, and are left out.
pub fn of(
    seconds: impl Iterator<Item = Second>,
    window_s: (f64, f64),
    recording: &Recording,
    load_cpus: usize,
    server_cpus: usize,
) -> Vec<EngineSecond> {
    let inside = |second: &Second| {
        second.start_s >= window_s.0 - 1e-6 && second.start_s + second.length_s <= window_s.1 + 1e-6
    };
    let engine_second = |second: Second| {
        let (from_s, to_s) = (second.start_s, second.start_s + second.length_s);
        let server_full = recording
            .server_cpus(from_s, to_s)
            .is_some_and(|used| server_cpus > 0 && used / server_cpus as f64 >= SERVER_FULL);
        EngineSecond {
            busiest_thread: recording
                .load_cpus(from_s, to_s)
                .filter(|_| load_cpus > 0 && !server_full)
                .map(|used| used / load_cpus as f64),
            failing: second.errors > 0,
            stood_still_s: recording.stood_still_s(from_s, to_s),
            ..EngineSecond::default()
        }
    };
    seconds.filter(inside).map(engine_second).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Snapshot, TreeReading};
    use std::time::Duration;

    fn recording(server: f64, engine: f64) -> Recording {
        let snapshot = |at: u64| Snapshot {
            at: Duration::from_secs(at),
            own_cpu_s: engine * at as f64,
            tree: Some(TreeReading {
                user_s: server * at as f64,
                system_s: 0.0,
                resident_bytes: 0,
                processes: 1,
                threads: 1,
            }),
            ..Snapshot::default()
        };
        Recording { snapshots: (0..=6).map(snapshot).collect(), window_start: Some(1), window_end: Some(5) }
    }

    fn seconds() -> impl Iterator<Item = Second> {
        (0..6).map(|start| Second { start_s: f64::from(start), length_s: 1.0, errors: 0 })
    }

    #[test]
    fn an_engine_that_stood_still_is_seen_and_a_monitor_that_waited_is_not() {
        let still = |worked_s: f64| -> Vec<Option<f64>> {
            let mut recording = recording(0.5, 0.001);
            // No snapshots between 2 and 5 s.
            recording.snapshots.drain(3..5);
            for snapshot in &mut recording.snapshots[3..] {
                snapshot.own_cpu_s += worked_s;
            }
            of(seconds(), (1.0, 6.0), &recording, 1, 1).iter().map(|second| second.stood_still_s).collect()
        };
        assert_eq!(still(0.0), [None, Some(3.0), Some(3.0), Some(3.0), None]);
        assert_eq!(still(0.5), [None; 5]);
    }

    #[test]
    fn a_busy_engine_is_seen_unless_the_server_is_full() {
        let found = of(seconds(), (1.0, 5.0), &recording(0.5, 1.8), 2, 1);
        assert_eq!(found.len(), 4);
        assert!(found.iter().all(|second| (second.busiest_thread.unwrap() - 0.9).abs() < 1e-9));
        let full = of(seconds(), (1.0, 5.0), &recording(0.99, 1.8), 2, 1);
        assert!(full.iter().all(|second| second.busiest_thread.is_none()));
        // It is not known for a server that is not monitored or not pinned.
        let unknown = of(seconds(), (1.0, 5.0), &recording(0.99, 1.8), 2, 0);
        assert!(unknown.iter().all(|second| second.busiest_thread.is_some()));
    }
}
