//! Every resource in the counted window: its utilization, saturation and errors (Gregg's USE method). From
//! this the bottleneck is named.

use super::processes::{ProcessReading, ThreadReading};
use super::{LinkReading, Recording, Snapshot};
use serde::Serialize;
use std::time::Duration;

/// The window's figures. Shares are 0 to 1; what was not measured is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Usage {
    /// The window's length, seconds.
    pub window_s: f64,
    /// Tasks that ran or could run, mean of the snapshots.
    pub runnable_mean: Option<f64>,
    /// Tasks that waited for a disk, mean of the snapshots.
    pub blocked_mean: Option<f64>,
    /// Changes from one task to another a second.
    pub context_switches_per_second: Option<f64>,
    /// The least memory that could be had without swapping, as a share of all.
    pub memory_available_min: Option<f64>,
    /// Pages swapped, both ways, a second.
    pub swapped_pages_per_second: Option<f64>,
    /// Page faults a second that waited for a disk.
    pub major_faults_per_second: Option<f64>,
    /// Processes killed for lack of memory.
    pub killed_for_memory: Option<u64>,
    /// Every link.
    pub links: Vec<LinkUse>,
    /// Segments sent again, as a share of those sent.
    pub sent_again: Option<f64>,
    /// Connections that found the accept queue full.
    pub listen_overflows: Option<u64>,
    /// Connections dropped by a listening socket.
    pub listen_drops: Option<u64>,
    /// Connections accepted.
    pub accepted: Option<u64>,
    /// SYN cookies sent.
    pub syn_cookies: Option<u64>,
    /// Packets dropped because a processor's queue was full.
    pub backlog_drops: Option<u64>,
    /// Most sockets in TIME_WAIT.
    pub time_wait_max: Option<u64>,
    /// Packets that the queueing disciplines dropped.
    pub queue_drops: Option<u64>,
    /// Times a second that a packet waited for the rate of its queueing discipline.
    pub queue_over_limits_per_second: Option<f64>,
    /// Share of the snapshots in which bytes waited to be sent.
    pub queue_waiting: Option<f64>,
    /// Every disk with at least one operation.
    pub disks: Vec<DiskUse>,
    /// Share of the time for which some task waited: for a processor, memory, input and output.
    pub pressure: [Option<f64>; 3],
    /// Share of the time for which the quota of processor time throttled the system under test.
    pub throttled: Option<f64>,
    /// Share of the time for which the quota throttled the load engine.
    pub engine_throttled: Option<f64>,
    /// Every process of the system under test, the busiest first.
    pub processes: Vec<ProcessRow>,
    /// Its busiest thread.
    pub busiest_thread: Option<ThreadUse>,
    /// Time for which its threads could have run and no processor was free, as a share of the time they ran.
    pub waited_for_processor: Option<f64>,
    /// The largest use of a processor's time by softirqs and interrupts, and which.
    pub softirq_max: Option<(u32, f64)>,
    /// The monitor's own processor time, as a share of one processor.
    pub monitor_share: f64,
    /// What a snapshot cost, mean, microseconds.
    pub snapshot_us: f64,
}

/// A link in the window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkUse {
    /// Its name.
    pub name: String,
    /// Bytes received a second.
    pub received_bytes_per_second: f64,
    /// Bytes sent a second.
    pub sent_bytes_per_second: f64,
    /// The busier direction, as a share of its speed; absent of links that have none.
    pub share: Option<f64>,
    /// Packets dropped or broken.
    pub lost: u64,
}

/// A disk in the window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DiskUse {
    /// Its name.
    pub name: String,
    /// Share of the time with at least one active operation.
    pub busy: f64,
    /// Active requests, mean.
    pub queue: f64,
    /// Bytes read a second.
    pub read_bytes_per_second: f64,
    /// Bytes written a second.
    pub written_bytes_per_second: f64,
}

/// A process in the window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProcessRow {
    /// Its number.
    pub pid: i32,
    /// Its program.
    pub name: String,
    /// Processors used.
    pub cpus: f64,
    /// Largest resident memory, bytes.
    pub resident_bytes_max: u64,
    /// Most open files.
    pub open_files_max: Option<u64>,
    /// Bytes a second that it caused to be read from disks.
    pub read_bytes_per_second: Option<f64>,
    /// Bytes a second that it caused to be written to disks.
    pub written_bytes_per_second: Option<f64>,
}

/// A thread in the window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ThreadUse {
    /// Its process's program.
    pub process: String,
    /// Its number.
    pub tid: i32,
    /// Share of one processor.
    pub share: f64,
    /// Share of the time for which it could have run and no processor was free.
    pub waited: f64,
}

impl Recording {
    /// The figures of the counted window; absent when the watch did not last into it.
    pub fn usage(&self) -> Option<Usage> {
        let window = self.window()?;
        let (start, end) = (window.start, window.end);
        let window_s = (end.at - start.at).as_secs_f64();
        let snapshots: Vec<&Snapshot> = self.in_window().collect();
        let between = WindowSamples { start, end, window_s, snapshots: &snapshots };
        let mut usage = Usage { window_s, ..Usage::default() };
        between.tasks_and_memory(&mut usage);
        between.network(&mut usage);
        between.disks_and_pressure(&mut usage);
        between.processes(&mut usage);
        let cost_us: f64 = snapshots.iter().map(|snapshot| snapshot.cost_us).sum();
        usage.snapshot_us = cost_us / snapshots.len() as f64;
        usage.monitor_share = cost_us / 1e6 / window_s;
        Some(usage)
    }
}

/// The window's ends and all between.
struct WindowSamples<'a> {
    start: &'a Snapshot,
    end: &'a Snapshot,
    window_s: f64,
    snapshots: &'a [&'a Snapshot],
}

impl WindowSamples<'_> {
    /// How much a counter grew.
    fn grown(&self, counter: impl Fn(&Snapshot) -> Option<u64>) -> Option<u64> {
        Some(counter(self.end)?.saturating_sub(counter(self.start)?))
    }

    fn a_second(&self, counter: impl Fn(&Snapshot) -> Option<u64>) -> Option<f64> {
        Some(self.grown(counter)? as f64 / self.window_s)
    }

    fn mean(&self, figure: impl Fn(&Snapshot) -> Option<u64>) -> Option<f64> {
        let figures: Vec<u64> = self.snapshots.iter().filter_map(|snapshot| figure(snapshot)).collect();
        (!figures.is_empty()).then(|| figures.iter().sum::<u64>() as f64 / figures.len() as f64)
    }

    fn tasks_and_memory(&self, usage: &mut Usage) {
        usage.runnable_mean = self.mean(|snapshot| snapshot.scheduler.running);
        usage.blocked_mean = self.mean(|snapshot| snapshot.scheduler.blocked);
        usage.context_switches_per_second = self.a_second(|snapshot| snapshot.scheduler.context_switches);
        let available = |snapshot: &&Snapshot| {
            let memory = &snapshot.memory;
            Some(memory.available_bytes? as f64 / memory.total_bytes.filter(|total| *total > 0)? as f64)
        };
        usage.memory_available_min = self.snapshots.iter().filter_map(available).reduce(f64::min);
        let swapped = |snapshot: &Snapshot| {
            Some(snapshot.memory.swapped_in_pages?.saturating_add(snapshot.memory.swapped_out_pages?))
        };
        usage.swapped_pages_per_second = self.a_second(swapped);
        usage.major_faults_per_second = self.a_second(|snapshot| snapshot.memory.major_page_faults);
        usage.killed_for_memory = self.grown(|snapshot| snapshot.memory.killed_for_memory);
    }

    fn network(&self, usage: &mut Usage) {
        usage.links = self.end.network.links.iter().filter_map(|link| self.link(link)).collect();
        let sent = self.grown(|snapshot| snapshot.network.segments_sent).filter(|sent| *sent > 0);
        let again = self.grown(|snapshot| snapshot.network.segments_sent_again);
        usage.sent_again = again.zip(sent).map(|(again, sent)| again as f64 / sent as f64);
        usage.listen_overflows = self.grown(|snapshot| snapshot.network.listen_overflows);
        usage.listen_drops = self.grown(|snapshot| snapshot.network.listen_drops);
        usage.accepted = self.grown(|snapshot| snapshot.network.passive_opens);
        usage.syn_cookies = self.grown(|snapshot| snapshot.network.syn_cookies);
        usage.backlog_drops = self.grown(|snapshot| snapshot.network.backlog_drops);
        usage.time_wait_max = self.snapshots.iter().filter_map(|snapshot| snapshot.network.time_wait).max();
        let queue = |figure: fn(&super::QueueReading) -> u64| {
            move |snapshot: &Snapshot| snapshot.queues.as_ref().map(figure)
        };
        usage.queue_drops = self.grown(queue(|queues| queues.drops));
        usage.queue_over_limits_per_second = self.a_second(queue(|queues| queues.over_limits));
        let known = self.snapshots.iter().filter_map(|snapshot| snapshot.queues);
        let (all, waiting) = known
            .fold((0, 0), |(all, waiting), queues| (all + 1, waiting + u32::from(queues.waiting_bytes > 0)));
        usage.queue_waiting = (all > 0).then(|| f64::from(waiting) / f64::from(all));
    }

    fn link(&self, end: &LinkReading) -> Option<LinkUse> {
        let start = self.start.network.links.iter().find(|link| link.name == end.name)?;
        let a_second = |start: u64, end: u64| end.saturating_sub(start) as f64 / self.window_s;
        let received_bytes_per_second = a_second(start.received_bytes, end.received_bytes);
        let sent_bytes_per_second = a_second(start.sent_bytes, end.sent_bytes);
        let busier = received_bytes_per_second.max(sent_bytes_per_second);
        let lost = (end.drops + end.errors).saturating_sub(start.drops + start.errors);
        (busier > 0.0 || lost > 0).then(|| LinkUse {
            name: end.name.clone(),
            received_bytes_per_second,
            sent_bytes_per_second,
            share: end.megabits_per_second.map(|megabits| busier * 8.0 / (megabits as f64 * 1e6)),
            lost,
        })
    }

    fn disks_and_pressure(&self, usage: &mut Usage) {
        for end in &self.end.disks {
            let Some(start) = self.start.disks.iter().find(|disk| disk.name == end.name) else { continue };
            let a_second = |start: u64, end: u64| end.saturating_sub(start) as f64 / self.window_s;
            let disk = DiskUse {
                name: end.name.clone(),
                busy: (a_second(start.busy_ms, end.busy_ms) / 1000.0).min(1.0),
                queue: a_second(start.queued_ms, end.queued_ms) / 1000.0,
                read_bytes_per_second: a_second(start.read_bytes, end.read_bytes),
                written_bytes_per_second: a_second(start.written_bytes, end.written_bytes),
            };
            if disk.busy > 0.0 {
                usage.disks.push(disk);
            }
        }
        let stalled = |of: fn(&Snapshot) -> Option<Duration>| {
            let time = of(self.end)?.saturating_sub(of(self.start)?);
            Some((time.as_secs_f64() / self.window_s).min(1.0))
        };
        usage.pressure = [
            stalled(|snapshot| snapshot.machine.psi_cpu_some),
            stalled(|snapshot| snapshot.machine.psi_memory_some),
            stalled(|snapshot| snapshot.machine.psi_io_some),
        ];
        let throttled = self.grown(|snapshot| snapshot.control_group.as_ref()?.throttled_us);
        usage.throttled = throttled.map(|microseconds| microseconds as f64 / 1e6 / self.window_s);
        let engine = self.grown(|snapshot| snapshot.own_control_group.as_ref()?.throttled_us);
        usage.engine_throttled = engine.map(|microseconds| microseconds as f64 / 1e6 / self.window_s);
        usage.softirq_max = self.softirq_max();
    }

    /// The processor that spent most of its time on interrupts and softirqs, and how much.
    fn softirq_max(&self) -> Option<(u32, f64)> {
        let share = |end: &super::CpuTimes| {
            let start = self.start.machine.cpus.iter().find(|cpu| cpu.cpu == end.cpu)?;
            let all = end.total().saturating_sub(start.total());
            (all > 0).then(|| (end.cpu, end.softirq.saturating_sub(start.softirq) as f64 / all as f64))
        };
        let shares = self.end.machine.cpus.iter().filter_map(share);
        shares.reduce(|most, other| if other.1 > most.1 { other } else { most })
    }

    fn processes(&self, usage: &mut Usage) {
        let mut rows: Vec<ProcessRow> =
            self.end.processes.iter().filter_map(|end| self.process(end)).collect();
        rows.sort_by(|left, right| right.cpus.total_cmp(&left.cpus));
        usage.processes = rows;
        let (mut ran, mut waited) = (0, 0);
        let mut busiest: Option<ThreadUse> = None;
        for process in &self.end.processes {
            for end in &process.threads {
                let start = self.thread(process.pid, end.tid).unwrap_or_default();
                let ran_ns = end.ran_ns.saturating_sub(start.ran_ns);
                ran += ran_ns;
                let waited_ns = end.waited_ns.saturating_sub(start.waited_ns);
                waited += waited_ns;
                let share_of = |nanoseconds: u64| nanoseconds as f64 / 1e9 / self.window_s;
                let share = share_of(ran_ns);
                if busiest.as_ref().is_none_or(|busiest| share > busiest.share) {
                    let (process, tid) = (process.name.clone(), end.tid);
                    busiest = Some(ThreadUse { process, tid, share, waited: share_of(waited_ns) });
                }
            }
        }
        usage.busiest_thread = busiest;
        usage.waited_for_processor = (ran > 0).then(|| waited as f64 / ran as f64);
    }

    /// A thread at the window's start; one that began in the window is not there.
    fn thread(&self, pid: i32, tid: i32) -> Option<ThreadReading> {
        let process = self.start.processes.iter().find(|process| process.pid == pid)?;
        process.threads.iter().find(|thread| thread.tid == tid).copied()
    }

    fn process(&self, end: &ProcessReading) -> Option<ProcessRow> {
        let new = ProcessReading {
            pid: end.pid,
            read_bytes: Some(0),
            written_bytes: Some(0),
            ..Default::default()
        };
        let start = self.start.processes.iter().find(|process| process.pid == end.pid).unwrap_or(&new);
        let seen =
            || self.snapshots.iter().flat_map(|snapshot| &snapshot.processes).filter(|it| it.pid == end.pid);
        let a_second =
            |start: Option<u64>, end: Option<u64>| Some(end?.saturating_sub(start?) as f64 / self.window_s);
        Some(ProcessRow {
            pid: end.pid,
            name: end.name.clone(),
            cpus: ((end.cpu_s - start.cpu_s) / self.window_s).max(0.0),
            resident_bytes_max: seen().map(|process| process.resident_bytes).max()?,
            open_files_max: seen().filter_map(|process| process.open_files).max(),
            read_bytes_per_second: a_second(start.read_bytes, end.read_bytes),
            written_bytes_per_second: a_second(start.written_bytes, end.written_bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{
        ControlGroupReading, CpuTimes, DiskReading, MachineReading, MemoryReading, NetworkReading,
        QueueReading, SchedulerReading,
    };

    fn snapshot(at: u64) -> Snapshot {
        let thread = |tid, ran_ns| ThreadReading { tid, ran_ns, waited_ns: ran_ns / 4, slices: at };
        let process = ProcessReading {
            pid: 10,
            name: "server".into(),
            cpu_s: 1.5 * at as f64,
            resident_bytes: 100 + at,
            open_files: Some(20 - at),
            read_bytes: Some(at * 1000),
            threads: vec![thread(10, at * 500_000_000), thread(11, at * 1_000_000_000)],
            ..ProcessReading::default()
        };
        let link = LinkReading {
            name: "eth0".into(),
            megabits_per_second: Some(1000),
            sent_bytes: at * 100_000_000,
            drops: at,
            ..LinkReading::default()
        };
        Snapshot {
            at: Duration::from_secs(at),
            machine: MachineReading {
                cpus: vec![CpuTimes { cpu: 1, softirq: at * 70, idle: at * 30, ..CpuTimes::default() }],
                psi_io_some: Some(Duration::from_millis(at * 900)),
                ..MachineReading::default()
            },
            processes: vec![process],
            control_group: Some(ControlGroupReading {
                throttled_us: Some(at * 400_000),
                ..Default::default()
            }),
            scheduler: SchedulerReading {
                running: Some(at),
                context_switches: Some(at * 50),
                ..Default::default()
            },
            memory: MemoryReading {
                total_bytes: Some(1000),
                available_bytes: Some(500 - at),
                swapped_in_pages: Some(at * 5),
                swapped_out_pages: Some(at * 10),
                ..MemoryReading::default()
            },
            network: NetworkReading {
                links: vec![link],
                segments_sent: Some(at * 1000),
                segments_sent_again: Some(at * 10),
                listen_overflows: Some(at * 3),
                ..NetworkReading::default()
            },
            queues: Some(QueueReading { drops: at, over_limits: at * 7, waiting_bytes: at % 2 }),
            disks: vec![DiskReading {
                name: "sda".into(),
                busy_ms: at * 950,
                queued_ms: at * 4000,
                ..Default::default()
            }],
            cost_us: 500.0,
            ..Snapshot::default()
        }
    }

    #[test]
    fn every_resource_has_its_figures() {
        let recording = Recording {
            snapshots: (0..=10).map(snapshot).collect(),
            window_start: Some(2),
            window_end: Some(6),
        };
        let usage = recording.usage().unwrap();
        assert_eq!(usage.window_s, 4.0);
        assert_eq!((usage.runnable_mean, usage.context_switches_per_second), (Some(4.0), Some(50.0)));
        assert_eq!((usage.memory_available_min, usage.swapped_pages_per_second), (Some(0.494), Some(15.0)));
        assert_eq!((usage.links[0].share, usage.links[0].lost), (Some(0.8), 4));
        assert_eq!((usage.sent_again, usage.listen_overflows), (Some(0.01), Some(12)));
        assert_eq!((usage.queue_drops, usage.queue_over_limits_per_second), (Some(4), Some(7.0)));
        assert_eq!(usage.queue_waiting, Some(0.4));
        assert_eq!((usage.disks[0].busy, usage.disks[0].queue), (0.95, 4.0));
        assert_eq!((usage.pressure[2], usage.pressure[1]), (Some(0.9), None));
        assert_eq!((usage.throttled, usage.softirq_max), (Some(0.4), Some((1, 0.7))));
        let row = &usage.processes[0];
        assert_eq!((row.cpus, row.resident_bytes_max, row.open_files_max), (1.5, 106, Some(18)));
        assert_eq!((row.read_bytes_per_second, row.written_bytes_per_second), (Some(1000.0), None));
        let thread = usage.busiest_thread.unwrap();
        assert_eq!((thread.tid, thread.share), (11, 1.0));
        assert_eq!(usage.waited_for_processor, Some(0.25));
        assert_eq!((usage.snapshot_us, usage.monitor_share), (500.0, 5.0 * 500.0 / 1e6 / 4.0));
        assert!(Recording::default().usage().is_none());
    }

    #[test]
    fn the_machine_is_read_whole_and_the_cost_is_known() {
        let snapshots: Vec<Snapshot> = (0..2)
            .map(|_| {
                let mut tree = crate::recording::ProcessTree::of(&[std::process::id()]);
                Snapshot::take(std::time::Instant::now() - Duration::from_millis(10), Some(&mut tree))
            })
            .collect();
        assert!(snapshots.iter().all(|snapshot| snapshot.cost_us > 0.0 && !snapshot.processes.is_empty()));
        let text = serde_json::to_string(&snapshots[0]).unwrap();
        assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), snapshots[0]);
    }
}
