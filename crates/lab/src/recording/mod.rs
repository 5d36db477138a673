//! The monitor's recording, and the figures that follow from it.

mod kernel;
mod memory;
mod network;
mod processes;
mod queues;
mod scheduler;
mod text;
mod usage;

pub use kernel::{CpuTimes, MachineReading};
pub use memory::MemoryReading;
pub use network::{LinkReading, NetworkReading, local_ports};
pub use processes::{ProcessReading, ProcessTree, ThreadReading, TreeReading};
pub use queues::QueueReading;
pub use scheduler::{ControlGroupReading, DiskReading, SchedulerReading};
pub use usage::{DiskUse, LinkUse, ProcessRow, ThreadUse, Usage};

use crate::result::{CpuShares, MachineUse, ProcessUse};
use rustix::time::ClockId;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// The monitor takes a snapshot every second; after this many seconds without one, it could not run.
const STILL_MIN_S: f64 = 2.5;
/// An engine that worked for more than this share of such a time was running, and only the monitor waited.
const STILL_WORK_MAX: f64 = 0.01;

/// Everything at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// When, from the start of the mix.
    pub at: Duration,
    /// The system under test's processes; absent when none is watched or left.
    pub tree: Option<TreeReading>,
    /// The machine.
    pub machine: MachineReading,
    /// Processor time of this process, the load engine, seconds.
    pub own_cpu_s: f64,
    /// Each process of the tree.
    pub processes: Vec<ProcessReading>,
    /// How much the system under test's control group throttled it.
    pub control_group: Option<ControlGroupReading>,
    /// How much the load engine's own control group throttled it; absent if it is the system's, too.
    pub own_control_group: Option<ControlGroupReading>,
    /// The run queue.
    pub scheduler: SchedulerReading,
    /// Memory.
    pub memory: MemoryReading,
    /// The network, in the system under test's own namespace.
    pub network: NetworkReading,
    /// Packets that wait to be sent.
    pub queues: Option<QueueReading>,
    /// Disks.
    pub disks: Vec<DiskReading>,
    /// Processor time that this snapshot cost, microseconds.
    pub cost_us: f64,
}

/// The snapshots of one mix, in order of time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// The snapshots.
    pub snapshots: Vec<Snapshot>,
    /// The index of the one at the start of the counted window.
    pub window_start: Option<usize>,
    /// The index of the one at its end.
    pub window_end: Option<usize>,
}

/// The snapshots at the two ends of the counted window.
#[derive(Debug, Clone, Copy)]
pub struct Window<'a> {
    /// At its start.
    pub start: &'a Snapshot,
    /// At its end.
    pub end: &'a Snapshot,
}

impl Snapshot {
    /// Takes a reading now.
    pub fn take(start: Instant, mut tree: Option<&mut ProcessTree>) -> Snapshot {
        let before_s = seconds_of(ClockId::ThreadCPUTime);
        // The tree is read next to the clock: its times decide the processor time for each request.
        let at = start.elapsed();
        let reading = tree.as_deref_mut().and_then(ProcessTree::read);
        let own_cpu_s = seconds_of(ClockId::ProcessCPUTime);
        let machine = MachineReading::take();
        let root = tree.as_deref().and_then(ProcessTree::root);
        let mut snapshot = Snapshot {
            at,
            tree: reading,
            machine,
            own_cpu_s,
            processes: tree.as_deref().map(ProcessTree::processes).unwrap_or_default(),
            control_group: root.and_then(scheduler::control_group),
            own_control_group: scheduler::own_control_group(root),
            scheduler: SchedulerReading::take(),
            memory: MemoryReading::take(),
            network: NetworkReading::take(root),
            queues: queues::read(),
            disks: scheduler::disks(),
            cost_us: 0.0,
        };
        snapshot.cost_us = (seconds_of(ClockId::ThreadCPUTime) - before_s) * 1e6;
        snapshot
    }

    /// Takes one of another machine. If that fails, the last one is repeated, as if the counters had not
    /// moved.
    pub fn of_another(
        start: Instant,
        last: Option<&Snapshot>,
        read: impl FnOnce() -> Option<Snapshot>,
    ) -> Snapshot {
        let before_s = seconds_of(ClockId::ThreadCPUTime);
        let read = read();
        let at = start.elapsed();
        let mut snapshot = match (read, last) {
            (Some(snapshot), _) => snapshot,
            (None, Some(last)) => Snapshot { at, ..last.clone() },
            (None, None) => Snapshot { at, ..Snapshot::default() },
        };
        snapshot.own_cpu_s = seconds_of(ClockId::ProcessCPUTime);
        snapshot.cost_us = (seconds_of(ClockId::ThreadCPUTime) - before_s) * 1e6;
        snapshot
    }

    /// Busy and all clock ticks of all processors.
    fn machine_ticks(&self) -> (u64, u64) {
        self.machine
            .cpus
            .iter()
            .fold((0, 0), |(busy, all), cpu| (busy + cpu.total() - cpu.idle, all + cpu.total()))
    }
}

/// What a clock of processor time shows.
fn seconds_of(clock: ClockId) -> f64 {
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

impl Recording {
    /// The ends of the counted window, when the watch lasted into it.
    pub fn window(&self) -> Option<Window<'_>> {
        let start = self.snapshots.get(self.window_start?)?;
        let end = self.snapshots.get(self.window_end?)?;
        (end.at > start.at).then_some(Window { start, end })
    }

    /// The system under test's use in the window, for `requests` valid answers within `counted_s` on `cpus`
    /// processors.
    pub fn process_use(&self, requests: u64, counted_s: f64, cpus: usize) -> Option<ProcessUse> {
        let window = self.window()?;
        let (start, end) = (window.start.tree?, window.end.tree?);
        // Their sum is exact; how it is divided between the two is known in clock ticks.
        let used_s = (end.user_s + end.system_s - start.user_s - start.system_s).max(0.0);
        let user_s = (end.user_s - start.user_s).clamp(0.0, used_s);
        let system_s = used_s - user_s;
        let window_s = (window.end.at - window.start.at).as_secs_f64();
        // A snapshot may be some milliseconds late, while answers are counted to the moment.
        let of_counted = used_s / window_s * counted_s;
        Some(ProcessUse {
            user_s,
            system_s,
            cpu_us_per_request: if requests == 0 { 0.0 } else { of_counted * 1e6 / requests as f64 },
            of_processors: false,
            cpu_share: (user_s + system_s) / (window_s * cpus.max(1) as f64),
            resident_bytes_max: self.in_window().filter_map(|s| s.tree).map(|t| t.resident_bytes).max()?,
            processes: end.processes,
            threads: end.threads,
        })
    }

    /// The machine's state in the window.
    pub fn machine_use(&self) -> Option<MachineUse> {
        let window = self.window()?;
        let (start, end) = (&window.start.machine, &window.end.machine);
        let window_s = (window.end.at - window.start.at).as_secs_f64();
        let a_second = |start: u64, end: u64| end.saturating_sub(start) as f64 / window_s;
        let stalled = |start: Option<Duration>, end: Option<Duration>| {
            Some((end?.saturating_sub(start?).as_secs_f64() / window_s).min(1.0))
        };
        Some(MachineUse {
            cpus: end.cpus.iter().filter_map(|cpu| shares(&start.cpus, cpu)).collect(),
            memory_used_bytes_max: self.in_window().map(|s| s.machine.memory_used_bytes).max()?,
            network_in_bytes_per_second: a_second(start.network_in_bytes, end.network_in_bytes),
            network_out_bytes_per_second: a_second(start.network_out_bytes, end.network_out_bytes),
            psi_cpu_some: stalled(start.psi_cpu_some, end.psi_cpu_some),
            psi_memory_some: stalled(start.psi_memory_some, end.psi_memory_some),
            psi_io_some: stalled(start.psi_io_some, end.psi_io_some),
        })
    }

    /// The system under test's processor use between two moments, in processors.
    pub fn server_cpus(&self, from_s: f64, to_s: f64) -> Option<f64> {
        self.slope(from_s, to_s, |snapshot| snapshot.tree.map(|tree| tree.user_s + tree.system_s))
    }

    /// The load engine's processor use between two moments, in processors.
    pub fn load_cpus(&self, from_s: f64, to_s: f64) -> Option<f64> {
        self.slope(from_s, to_s, |snapshot| Some(snapshot.own_cpu_s))
    }

    /// The longest time without a snapshot, of those that touch the time between two moments, in seconds, if
    /// the load engine did almost nothing in it: its machine slept, or the program had been stopped.
    pub fn stood_still_s(&self, from_s: f64, to_s: f64) -> Option<f64> {
        let still = |pair: &[Snapshot]| {
            let (start_s, end_s) = (pair[0].at.as_secs_f64(), pair[1].at.as_secs_f64());
            let length_s = end_s - start_s;
            let worked_s = pair[1].own_cpu_s - pair[0].own_cpu_s;
            let is_still = length_s > STILL_MIN_S && worked_s < STILL_WORK_MAX * length_s;
            (is_still && start_s < to_s && end_s > from_s).then_some(length_s)
        };
        self.snapshots.windows(2).filter_map(still).reduce(f64::max)
    }

    /// The share of the whole machine's processor time that was used between two moments, 0 to 1.
    pub fn machine_cpu_share(&self, from_s: f64, to_s: f64) -> Option<f64> {
        let busy = self.slope(from_s, to_s, |snapshot| Some(snapshot.machine_ticks().0 as f64))?;
        let all = self.slope(from_s, to_s, |snapshot| Some(snapshot.machine_ticks().1 as f64))?;
        (all > 0.0).then(|| (busy / all).clamp(0.0, 1.0))
    }

    /// The system under test's resident memory at a moment: that of the nearest snapshot.
    pub fn server_resident_bytes(&self, at_s: f64) -> Option<u64> {
        let distance = |snapshot: &&Snapshot| (snapshot.at.as_secs_f64() - at_s).abs();
        let nearest =
            self.snapshots.iter().min_by(|left, right| distance(left).total_cmp(&distance(right)))?;
        nearest.tree.map(|tree| tree.resident_bytes)
    }

    /// The snapshots of the counted window, its ends included.
    fn in_window(&self) -> impl Iterator<Item = &Snapshot> {
        let (start, end) = (self.window_start.unwrap_or(1), self.window_end.unwrap_or(0));
        self.snapshots
            .iter()
            .enumerate()
            .filter(move |(index, _)| (start..=end).contains(index))
            .map(|(_, s)| s)
    }

    /// How fast a counter grew between two moments, a second. The counter is interpolated between snapshots.
    fn slope(&self, from_s: f64, to_s: f64, counter: impl Fn(&Snapshot) -> Option<f64>) -> Option<f64> {
        let points: Vec<(f64, f64)> =
            self.snapshots.iter().filter_map(|s| Some((s.at.as_secs_f64(), counter(s)?))).collect();
        let (first, last) = (points.first()?.0, points.last()?.0);
        let (from_s, to_s) = (from_s.max(first), to_s.min(last));
        if to_s - from_s < 1e-3 {
            return None;
        }
        let grown = interpolate(&points, to_s)? - interpolate(&points, from_s)?;
        Some((grown / (to_s - from_s)).max(0.0))
    }
}

/// The value at `x` of a line through the points; `x` is between the first and the last point.
fn interpolate(points: &[(f64, f64)], x: f64) -> Option<f64> {
    let right = points.partition_point(|point| point.0 < x).min(points.len().checked_sub(1)?);
    let (after, before) = (points[right], points[right.saturating_sub(1)]);
    if after.0 <= before.0 {
        return Some(after.1);
    }
    Some(before.1 + (after.1 - before.1) * (x - before.0) / (after.0 - before.0))
}

/// One processor's shares of its time between two readings; absent when it was not online at the first.
fn shares(start: &[CpuTimes], end: &CpuTimes) -> Option<CpuShares> {
    let start = start.iter().find(|cpu| cpu.cpu == end.cpu)?;
    // Idle time may step back by a tick on some kernels (proc_stat(5)).
    let kind = |start: u64, end: u64| end.saturating_sub(start) as f64;
    let (user, system) = (kind(start.user, end.user), kind(start.system, end.system));
    let (softirq, steal) = (kind(start.softirq, end.softirq), kind(start.steal, end.steal));
    let idle = kind(start.idle, end.idle);
    let all = user + system + softirq + steal + idle;
    let share = |ticks: f64| if all > 0.0 { ticks / all } else { 0.0 };
    Some(CpuShares {
        cpu: end.cpu,
        user: share(user),
        system: share(system),
        softirq: share(softirq),
        steal: share(steal),
        idle: share(idle),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processor 0 busy for `at` seconds of 100 ticks, processor 3 idle; the server uses half a processor.
    fn snapshot(at: u64) -> Snapshot {
        let busy =
            CpuTimes { cpu: 0, user: at * 60, system: at * 30, softirq: at * 5, steal: at * 5, idle: 0 };
        let idle = CpuTimes { cpu: 3, idle: at * 100, ..CpuTimes::default() };
        Snapshot {
            at: Duration::from_secs(at),
            tree: Some(TreeReading {
                user_s: 0.3 * at as f64,
                system_s: 0.2 * at as f64,
                resident_bytes: 1000 + at,
                processes: 2,
                threads: 3,
            }),
            machine: MachineReading {
                cpus: vec![busy, idle],
                memory_used_bytes: 5000 - at,
                network_in_bytes: at * 1000,
                network_out_bytes: at * 2000,
                psi_cpu_some: Some(Duration::from_millis(at * 250)),
                psi_memory_some: None,
                psi_io_some: Some(Duration::ZERO),
            },
            own_cpu_s: 0.9 * at as f64,
            ..Snapshot::default()
        }
    }

    fn recording() -> Recording {
        Recording { snapshots: (0..=10).map(snapshot).collect(), window_start: Some(2), window_end: Some(8) }
    }

    #[test]
    fn figures_are_differences_over_the_window() {
        let recording = recording();
        let server = recording.process_use(1_000_000, 6.0, 2).unwrap();
        assert!((server.user_s - 1.8).abs() < 1e-9 && (server.system_s - 1.2).abs() < 1e-9);
        assert!((server.cpu_us_per_request - 3.0).abs() < 1e-9);
        assert!((server.cpu_share - 0.25).abs() < 1e-9);
        assert_eq!((server.resident_bytes_max, server.processes, server.threads), (1008, 2, 3));

        let machine = recording.machine_use().unwrap();
        assert_eq!(
            machine.cpus[0],
            CpuShares { cpu: 0, user: 0.6, system: 0.3, softirq: 0.05, steal: 0.05, idle: 0.0 }
        );
        assert_eq!((machine.cpus[1].cpu, machine.cpus[1].idle), (3, 1.0));
        assert_eq!(machine.memory_used_bytes_max, 4998);
        assert_eq!(machine.network_out_bytes_per_second, 2000.0);
        assert_eq!((machine.psi_cpu_some, machine.psi_memory_some), (Some(0.25), None));
        assert_eq!(recording.process_use(0, 6.0, 1).unwrap().cpu_us_per_request, 0.0);
    }

    #[test]
    fn time_lines_are_interpolated() {
        let recording = recording();
        assert!((recording.server_cpus(1.25, 2.75).unwrap() - 0.5).abs() < 1e-9);
        assert!((recording.load_cpus(0.0, 1.0).unwrap() - 0.9).abs() < 1e-9);
        assert!((recording.machine_cpu_share(3.5, 4.5).unwrap() - 0.5).abs() < 1e-9);
        assert!((recording.server_cpus(9.5, 20.0).unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(recording.server_cpus(20.0, 21.0), None);
        assert_eq!(recording.server_resident_bytes(3.4), Some(1003));
        assert_eq!(Recording::default().server_resident_bytes(1.0), None);
    }

    #[test]
    fn a_server_that_died_has_no_figures_but_a_time_line_as_far_as_it_lived() {
        let mut recording = recording();
        for snapshot in &mut recording.snapshots[6..] {
            snapshot.tree = None;
        }
        assert!(recording.process_use(1, 6.0, 1).is_none());
        assert!(recording.server_cpus(3.0, 4.0).is_some() && recording.server_cpus(7.0, 8.0).is_none());
    }
}
