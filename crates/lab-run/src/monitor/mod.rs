//! The monitor: watches the system under test and the machine while a mix runs.
//!
//! One thread wakes once a period, and once more at the very start and the very end of the counted window;
//! each time it takes a [`Snapshot`] of counters that only grow, and keeps it in memory. Figures are
//! differences between two snapshots, so the processor time of the window is exact for any period.
//!
//! A snapshot costs about a millisecond of processor time (some thirty files of /proc, and a few for each
//! process watched), and each contains its own cost; the monitor runs on the load engine's processors, never
//! on those of the system under test. [`Usage`] is the use of every resource in a window: use, saturation,
//! errors.

pub mod exporter;

pub use exporter::Exporter;

use crate::placement::pin_this_thread;
use crate::remote::Session;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use touchstone_lab::recording::{ProcessTree, Recording, Snapshot};

/// What to watch and when.
#[derive(Debug, Clone)]
pub struct Watch {
    /// The roots of the system's process tree; empty: only the machine is watched.
    pub pids: Vec<u32>,
    /// The time between two snapshots.
    pub period: Duration,
    /// The start of the mix: snapshots are dated from it.
    pub start: Instant,
    /// Where the counted window begins, from the start.
    pub window_start: Duration,
    /// Where it ends, from the start.
    pub window_end: Duration,
    /// The processors that the monitor may use; empty: as its starter.
    pub cpus: Vec<usize>,
    /// The exporter of the system's own machine, where it is not this one: then that machine is watched.
    pub exporter: Option<Exporter>,
    /// The way to the probe on the system's own machine, where it was started over ssh: then that machine is
    /// watched.
    pub session: Option<Session>,
}

/// A monitor at work.
#[derive(Debug)]
pub struct Monitor {
    stop: Sender<()>,
    latest: Arc<Mutex<LatestFigures>>,
    thread: JoinHandle<Recording>,
}

/// The figures of the last two snapshots, for the views that show a run in progress.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LatestFigures {
    /// Processors that the system under test used; absent when it is not watched.
    pub server_cpus: Option<f64>,
    /// Its resident memory, bytes.
    pub server_resident_bytes: Option<u64>,
    /// Processors that the load engine used.
    pub load_cpus: Option<f64>,
    /// The whole machine's processor use, 0 to 1.
    pub machine_share: Option<f64>,
}

impl LatestFigures {
    fn of(recording: &Recording) -> LatestFigures {
        let [.., before, last] = &recording.snapshots[..] else { return LatestFigures::default() };
        let (from_s, to_s) = (before.at.as_secs_f64(), last.at.as_secs_f64());
        LatestFigures {
            server_cpus: recording.server_cpus(from_s, to_s),
            server_resident_bytes: recording.server_resident_bytes(to_s),
            load_cpus: recording.load_cpus(from_s, to_s),
            machine_share: recording.machine_cpu_share(from_s, to_s),
        }
    }
}

impl Monitor {
    /// Starts to watch.
    pub fn start(watch: Watch) -> std::io::Result<Monitor> {
        let (stop, stopped) = channel();
        let builder = std::thread::Builder::new().name("monitor".to_string());
        let latest = Arc::new(Mutex::new(LatestFigures::default()));
        let shown = Arc::clone(&latest);
        let thread = builder.spawn(move || record(&watch, &stopped, &shown))?;
        Ok(Monitor { stop, latest, thread })
    }

    /// The figures of the last two snapshots.
    pub fn latest(&self) -> LatestFigures {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the watch now: later events are not recorded. If the window had begun and not ended, it ends,
    /// too.
    pub fn end(&self) {
        // A send fails only after the thread has ended, and then the watch has ended.
        let _ = self.stop.send(());
    }

    /// Ends the watch, if it is still running, and returns the recording.
    pub fn finish(self) -> Recording {
        self.end();
        self.thread.join().unwrap_or_default()
    }
}

/// The monitor's thread.
fn record(watch: &Watch, stopped: &Receiver<()>, latest: &Mutex<LatestFigures>) -> Recording {
    if !watch.cpus.is_empty() {
        // If it cannot be pinned it still watches; its cost then falls where the kernel runs it.
        let _ = pin_this_thread(&watch.cpus);
    }
    let mut tree = (!watch.pids.is_empty()).then(|| ProcessTree::of(&watch.pids));
    let mut recording = Recording::default();
    let mut take = |recording: &mut Recording| {
        let last = recording.snapshots.last();
        let snapshot = match (&watch.session, &watch.exporter) {
            (Some(session), _) => {
                Snapshot::of_another(watch.start, last, || session.snapshot(watch.start).ok())
            }
            (None, Some(exporter)) => Snapshot::of_another(watch.start, last, || {
                exporter.read(watch.start).or_else(|_| exporter.read(watch.start)).ok()
            }),
            (None, None) => Snapshot::take(watch.start, tree.as_mut()),
        };
        recording.snapshots.push(snapshot);
        *latest.lock().unwrap_or_else(PoisonError::into_inner) = LatestFigures::of(recording);
        recording.snapshots.len() - 1
    };
    take(&mut recording);
    let mut next_period = watch.period;
    loop {
        let window_edge = match (recording.window_start, recording.window_end) {
            (None, _) => Some(watch.window_start),
            (Some(_), None) => Some(watch.window_end),
            (Some(_), Some(_)) => None,
        };
        let due = window_edge.map_or(next_period, |edge| edge.min(next_period));
        let wait = (watch.start + due).saturating_duration_since(Instant::now());
        if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
            let last = take(&mut recording);
            if recording.window_start.is_some() && recording.window_end.is_none() {
                recording.window_end = Some(last);
            }
            return recording;
        }
        let index = take(&mut recording);
        if window_edge == Some(due) {
            if recording.window_start.is_none() {
                recording.window_start = Some(index);
            } else {
                recording.window_end = Some(index);
            }
        }
        while next_period <= due {
            next_period += watch.period;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    struct Busy(Child);

    impl Busy {
        /// A child that keeps one processor busy, in a grandchild: the tree must be followed.
        fn start() -> Busy {
            let script = "(while :; do :; done) & wait";
            Busy(Command::new("/bin/sh").args(["-c", script]).spawn().unwrap())
        }
    }

    impl Drop for Busy {
        fn drop(&mut self) {
            let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.0.id()));
            let _ = self.0.kill();
            let _ = self.0.wait();
            for child in children.unwrap_or_default().split_whitespace() {
                let pid = child.parse().ok().and_then(rustix::process::Pid::from_raw).unwrap();
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }

    fn watch(pid: Option<u32>) -> Watch {
        Watch {
            pids: pid.into_iter().collect(),
            period: Duration::from_millis(50),
            start: Instant::now(),
            window_start: Duration::from_millis(100),
            window_end: Duration::from_millis(1100),
            cpus: Vec::new(),
            exporter: None,
            session: None,
        }
    }

    #[test]
    fn a_busy_child_is_seen_in_the_window() {
        let busy = Busy::start();
        let monitor = Monitor::start(watch(Some(busy.0.id()))).unwrap();
        // Far behind the end of the window: on a busy machine the monitor's thread is late.
        std::thread::sleep(Duration::from_millis(4000));
        let recording = monitor.finish();
        let window = recording.window().unwrap();
        assert!(
            window.end.at >= Duration::from_millis(1100) && window.start.at >= Duration::from_millis(100)
        );
        let window_s = (window.end.at - window.start.at).as_secs_f64();
        assert!(window_s > 0.0);

        let used = recording.process_use(1000, window_s, 1).unwrap();
        assert!(used.processes >= 2 && used.threads >= 2 && used.resident_bytes_max > 0);
        // Other work may take the processor away, so the test can require only that it used some of one.
        assert!(used.user_s + used.system_s > 0.0, "{used:?}");
        assert!(used.cpu_share > 0.0 && used.cpu_share < 1.5, "{used:?}");
        let expected_us = (used.user_s + used.system_s) * 1e6 / 1000.0;
        assert!((used.cpu_us_per_request - expected_us).abs() < 1e-6);

        let machine = recording.machine_use().unwrap();
        assert!(!machine.cpus.is_empty() && machine.memory_used_bytes_max > 0);
        for cpu in &machine.cpus {
            let sum = cpu.user + cpu.system + cpu.softirq + cpu.steal + cpu.idle;
            assert!((sum - 1.0).abs() < 0.01 || sum == 0.0, "{cpu:?}");
        }
        assert!(recording.snapshots.len() > 3);
    }

    #[test]
    fn a_watch_that_is_cut_short_ends_its_window_early_or_has_none() {
        let window_end = Duration::from_secs(60);
        let monitor = Monitor::start(Watch { window_end, ..watch(None) }).unwrap();
        std::thread::sleep(Duration::from_millis(2000));
        let recording = monitor.finish();
        assert!(recording.window().unwrap().end.at < window_end);
        assert!(recording.process_use(1, 1.0, 1).is_none() && recording.machine_use().is_some());

        let recording = Monitor::start(watch(None)).unwrap().finish();
        assert!(recording.window().is_none() && recording.machine_use().is_none());
    }
}
