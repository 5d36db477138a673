//! Who waits for what: the run queue, tasks that wait for a disk, disks, and the limits of control groups.

use super::text::value;
use serde::{Deserialize, Serialize};
use std::fs;

/// The scheduler at one moment: the first two now, the others since boot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SchedulerReading {
    /// Tasks that run or could run.
    pub running: Option<u64>,
    /// Tasks that wait for a disk.
    pub blocked: Option<u64>,
    /// Changes from one task to another.
    pub context_switches: Option<u64>,
    /// Processes and threads started.
    pub started: Option<u64>,
}

/// One disk at one moment; counters since boot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskReading {
    /// Its name.
    pub name: String,
    /// Reads finished.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes finished.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time with at least one active operation, milliseconds.
    pub busy_ms: u64,
    /// The same, counted once for each request that was active: over busy time, the length of the queue.
    pub queued_ms: u64,
}

/// The throttling of the processes of a control group; counters since its creation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ControlGroupReading {
    /// Periods in which its processes had used up their quota.
    pub throttled_periods: Option<u64>,
    /// Time for which they were held back by it, microseconds.
    pub throttled_us: Option<u64>,
    /// Memory in use, bytes.
    pub memory_bytes: Option<u64>,
    /// What it may use at most, bytes; absent: no limit.
    pub memory_limit_bytes: Option<u64>,
}

impl SchedulerReading {
    /// Reads the counters of the scheduler.
    pub fn take() -> SchedulerReading {
        parse(&fs::read_to_string("/proc/stat").unwrap_or_default())
    }
}

fn parse(stat: &str) -> SchedulerReading {
    SchedulerReading {
        running: value(stat, "procs_running"),
        blocked: value(stat, "procs_blocked"),
        context_switches: value(stat, "ctxt"),
        started: value(stat, "processes"),
    }
}

/// Every disk with at least one operation; partitions and memory disks are left out.
pub fn disks() -> Vec<DiskReading> {
    let all = parse_disks(&fs::read_to_string("/proc/diskstats").unwrap_or_default());
    // Partitions have no directory of their own there.
    all.into_iter().filter(|disk| fs::metadata(format!("/sys/block/{}", disk.name)).is_ok()).collect()
}

/// The lines `major minor name reads merged sectors ms writes merged sectors ms under-way busy-ms queued-ms
/// ...`.
fn parse_disks(diskstats: &str) -> Vec<DiskReading> {
    /// A sector of /proc/diskstats, whatever the disk's own.
    const SECTOR_BYTES: u64 = 512;
    let line = |line: &str| {
        let mut words = line.split_whitespace().skip(2);
        let name = words.next()?;
        let columns: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        let column = |index: usize| columns.get(index).copied().unwrap_or(0);
        (columns.len() >= 11 && columns.iter().any(|figure| *figure > 0)).then(|| DiskReading {
            name: name.to_owned(),
            reads: column(0),
            read_bytes: column(2).saturating_mul(SECTOR_BYTES),
            writes: column(4),
            written_bytes: column(6).saturating_mul(SECTOR_BYTES),
            busy_ms: column(9),
            queued_ms: column(10),
        })
    };
    diskstats.lines().filter_map(line).collect()
}

/// The control group of a process: that of version 2, else that of version 1 which limits processors.
pub fn control_group(pid: u32) -> Option<ControlGroupReading> {
    let membership = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let file = |place: &str| fs::read_to_string(place).ok();
    let mut found = ControlGroupReading::default();
    for (place, is_unified) in places(&membership) {
        if let Some(stat) = file(&format!("{place}/cpu.stat")) {
            let of_version_1 = || value(&stat, "throttled_time").map(|nanoseconds| nanoseconds / 1000);
            found.throttled_periods = found.throttled_periods.max(value(&stat, "nr_throttled"));
            found.throttled_us = found.throttled_us.max(value(&stat, "throttled_usec").or_else(of_version_1));
        }
        let number = |name: &str| file(&format!("{place}/{name}"))?.trim().parse().ok();
        let (current, limit) = if is_unified {
            ("memory.current", "memory.max")
        } else {
            ("memory.usage_in_bytes", "memory.limit_in_bytes")
        };
        found.memory_bytes = found.memory_bytes.or_else(|| number(current));
        // Version 1 writes a huge number, version 2 "max".
        found.memory_limit_bytes =
            found.memory_limit_bytes.or_else(|| number(limit).filter(|bytes| *bytes < 1 << 60));
    }
    (found != ControlGroupReading::default()).then_some(found)
}

/// The control group of this process, where it is not the one of the process that is named.
pub fn own_control_group(other: Option<u32>) -> Option<ControlGroupReading> {
    let membership = |pid: u32| fs::read_to_string(format!("/proc/{pid}/cgroup")).ok();
    let own = std::process::id();
    let is_shared = other.is_some_and(|other| membership(other) == membership(own));
    if is_shared { None } else { control_group(own) }
}

/// Where the files of a process's groups may lie, from the lines `number:controllers:path` of
/// /proc/PID/cgroup.
fn places(membership: &str) -> Vec<(String, bool)> {
    let mut places = Vec::new();
    for line in membership.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let path = path.trim_end_matches('/');
        if path.contains("..") {
            continue;
        }
        if controllers.is_empty() {
            places.push((format!("/sys/fs/cgroup{path}"), true));
            places.push((format!("/sys/fs/cgroup/unified{path}"), true));
        }
        for controller in controllers.split(',').filter(|name| matches!(*name, "cpu" | "memory")) {
            places.push((format!("/sys/fs/cgroup/{controller}{path}"), false));
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_files_are_read() {
        let stat = "cpu 1\nctxt 500\nprocesses 40\nprocs_running 3\nprocs_blocked 1\n";
        let expected = SchedulerReading {
            running: Some(3),
            blocked: Some(1),
            context_switches: Some(500),
            started: Some(40),
        };
        assert_eq!(parse(stat), expected);
        let text = " 7 0 loop0 0 0 0 0 0 0 0 0 0 0 0\n 8 0 sda 10 1 16 5 20 2 8 6 0 900 1800\n bad\n";
        let expected = DiskReading {
            name: "sda".into(),
            reads: 10,
            read_bytes: 8192,
            writes: 20,
            written_bytes: 4096,
            busy_ms: 900,
            queued_ms: 1800,
        };
        assert_eq!(parse_disks(text), [expected]);
        let found = places("4:memory:/a/b\n2:cpu,cpuacct:/\n0::/c\n1:cpu:/../x\nbad\n");
        let expected = [("/memory/a/b", false), ("/cpu", false), ("/c", true), ("/unified/c", true)];
        let expected = expected.map(|(path, unified)| (format!("/sys/fs/cgroup{path}"), unified));
        assert_eq!(found, expected);
    }

    #[test]
    fn this_machine_can_be_read() {
        let reading = SchedulerReading::take();
        assert!(reading.running.unwrap() >= 1 && reading.context_switches.unwrap() > 0);
        let _ = (disks(), control_group(std::process::id()));
        assert_eq!(control_group(u32::MAX), None);
        assert_eq!(own_control_group(Some(std::process::id())), None);
        // The memory has another address at every reading.
        let limits = |reading: ControlGroupReading| ControlGroupReading { memory_bytes: None, ..reading };
        assert_eq!(own_control_group(None).map(limits), control_group(std::process::id()).map(limits));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "([0-9]{1,30}|sda|cpu|:|/| |\\n|\\PC){0,40}") {
            let _ = (parse(&text), parse_disks(&text), places(&text));
        }
    }
}
