//! A process tree's use of the machine: the processes that were started and everything that descends from
//! them.

use super::text::value;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// Of more processes than this only the sums are kept.
const PROCESSES_MAX: usize = 64;
/// Of more threads than this, of all processes together, only the sums are kept.
const THREADS_MAX: usize = 128;

/// Processes and all their descendants. A process that was once found in the tree remains in it until it
/// ends, also when its parent ends and it gets another parent.
#[derive(Debug)]
pub struct ProcessTree {
    /// Process ids with the start times that distinguish a later process with the same id.
    members: BTreeMap<i32, u64>,
    roots: Vec<i32>,
}

/// The tree at one moment. Processor times are since the processes began, reaped children included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TreeReading {
    /// Processor time in user mode, seconds.
    pub user_s: f64,
    /// Processor time in system mode, seconds.
    pub system_s: f64,
    /// Resident memory, bytes; what processes share counts in each of them.
    pub resident_bytes: u64,
    /// Processes alive.
    pub processes: u64,
    /// Threads alive.
    pub threads: u64,
}

/// One process of the tree at one moment; times and bytes since it began. What the kernel does not report is
/// absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessReading {
    /// Its number.
    pub pid: i32,
    /// The name of its program, as far as the kernel keeps it (15 bytes).
    pub name: String,
    /// Processor time, user mode and system mode, without that of its children, seconds.
    pub cpu_s: f64,
    /// Resident memory, bytes.
    pub resident_bytes: u64,
    /// Page faults that waited for a disk.
    pub major_page_faults: u64,
    /// Open files and sockets.
    pub open_files: Option<u64>,
    /// Bytes that it caused to be read from disks.
    pub read_bytes: Option<u64>,
    /// Bytes that it caused to be written to disks.
    pub written_bytes: Option<u64>,
    /// Its threads, as far as they are followed.
    pub threads: Vec<ThreadReading>,
}

/// One thread at one moment; since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadReading {
    /// Its number.
    pub tid: i32,
    /// Processor time, nanoseconds.
    pub ran_ns: u64,
    /// Time for which it could have run and no processor was free, nanoseconds.
    pub waited_ns: u64,
    /// How often it was given a processor.
    pub slices: u64,
}

impl ProcessTree {
    /// The tree that descends from these processes.
    pub fn of(pids: &[u32]) -> ProcessTree {
        let roots = pids.iter().map(|pid| i32::try_from(*pid).unwrap_or(i32::MAX)).collect();
        ProcessTree { members: BTreeMap::new(), roots }
    }

    /// The first of the processes that it descends from.
    pub fn root(&self) -> Option<u32> {
        self.roots.first().and_then(|root| u32::try_from(*root).ok())
    }

    /// Reads every process of the tree; `None` when none is left.
    pub fn read(&mut self) -> Option<TreeReading> {
        let page_bytes = procfs::page_size();
        let mut reading = TreeReading::default();
        let mut left: Vec<i32> = self.members.keys().chain(&self.roots).copied().collect();
        let mut read = BTreeMap::new();
        while let Some(pid) = left.pop() {
            if read.contains_key(&pid) {
                continue;
            }
            let Some(stat) = self.stat(pid) else { continue };
            read.insert(pid, stat.starttime);
            let reaped = |ticks: i64| seconds(u64::try_from(ticks).unwrap_or(0));
            let (user_s, system_s) = exact(&stat);
            reading.user_s += user_s + reaped(stat.cutime);
            reading.system_s += system_s + reaped(stat.cstime);
            reading.resident_bytes += stat.rss * page_bytes;
            reading.processes += 1;
            reading.threads += u64::try_from(stat.num_threads).unwrap_or(0);
            left.extend(children(pid));
        }
        self.members = read;
        (reading.processes > 0).then_some(reading)
    }

    /// Each process of the tree as it was last read, in order of their numbers, up to a limit.
    pub fn processes(&self) -> Vec<ProcessReading> {
        let mut threads_left = THREADS_MAX;
        let pids = self.members.keys().copied().take(PROCESSES_MAX);
        pids.filter_map(|pid| process(&self.stat(pid)?, &mut threads_left)).collect()
    }

    /// The process's statistics, unless it has ended or another process now has its number.
    fn stat(&self, pid: i32) -> Option<procfs::process::Stat> {
        let stat = procfs::process::Process::new(pid).ok()?.stat().ok()?;
        let same = self.members.get(&pid).is_none_or(|start| *start == stat.starttime);
        (same && stat.state != 'Z').then_some(stat)
    }
}

/// User and system time of a process so that their sum is what its own clock shows, to the nanosecond. The
/// kernel separates the two only in ticks of ten milliseconds: too coarse for a short mix.
fn exact(stat: &procfs::process::Stat) -> (f64, f64) {
    let (user_s, system_s) = (seconds(stat.utime), seconds(stat.stime));
    let clock = nix::time::ClockId::pid_cpu_clock_id(nix::unistd::Pid::from_raw(stat.pid));
    let Ok(time) = clock.and_then(nix::time::ClockId::now) else { return (user_s, system_s) };
    let exact_s = Duration::from(time).as_secs_f64();
    let ticked_s = user_s + system_s;
    let user_share = if ticked_s > 0.0 { user_s / ticked_s } else { 0.0 };
    (exact_s * user_share, exact_s * (1.0 - user_share))
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / procfs::ticks_per_second() as f64
}

fn process(stat: &procfs::process::Stat, threads_left: &mut usize) -> Option<ProcessReading> {
    let pid = stat.pid;
    let io = fs::read_to_string(format!("/proc/{pid}/io")).ok();
    let io = |name| io.as_deref().and_then(|text| value(text, name));
    let threads = threads(pid, *threads_left);
    *threads_left -= threads.len();
    let (user_s, system_s) = exact(stat);
    Some(ProcessReading {
        pid,
        name: stat.comm.clone(),
        cpu_s: user_s + system_s,
        resident_bytes: stat.rss * procfs::page_size(),
        major_page_faults: stat.majflt,
        open_files: open_files(pid),
        read_bytes: io("read_bytes"),
        written_bytes: io("write_bytes"),
        threads,
    })
}

/// How many files a process has open. Since Linux 6.2 the directory's size is their number; before, it is 0
/// and each entry has to be counted.
fn open_files(pid: i32) -> Option<u64> {
    let place = format!("/proc/{pid}/fd");
    match fs::metadata(&place).ok()?.len() {
        0 => Some(fs::read_dir(&place).ok()?.count() as u64),
        count => Some(count),
    }
}

fn threads(pid: i32, most: usize) -> Vec<ThreadReading> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let thread = |entry: fs::DirEntry| {
        let tid = entry.file_name().to_str()?.parse().ok()?;
        let text = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        let mut figures = text.split_whitespace().map_while(|word| word.parse().ok());
        Some(ThreadReading {
            tid,
            ran_ns: figures.next()?,
            waited_ns: figures.next()?,
            slices: figures.next()?,
        })
    };
    entries.flatten().take(most).filter_map(thread).collect()
}

/// The children of every thread of a process. (The files are there where the kernel has CONFIG_PROC_CHILDREN,
/// which all large distributions set; elsewhere all processes are searched for their parent.)
fn children(pid: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let mut children = Vec::new();
    for thread in threads.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(list) => children.extend(list.split_whitespace().filter_map(|word| word.parse::<i32>().ok())),
            Err(_) if thread.path().exists() => return children_by_parent(pid),
            // The thread ended while it was read.
            Err(_) => {}
        }
    }
    children
}

fn children_by_parent(parent: i32) -> Vec<i32> {
    let Ok(processes) = procfs::process::all_processes() else { return Vec::new() };
    let stats = processes.flatten().filter_map(|process| process.stat().ok());
    stats.filter(|stat| stat.ppid == parent).map(|stat| stat.pid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_read_with_its_child() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let own = std::process::id();
        assert!(children(i32::try_from(own).unwrap()).contains(&pid));
        assert!(children_by_parent(i32::try_from(own).unwrap()).contains(&pid));
        let reading = ProcessTree::of(&[own]).read().unwrap();
        assert!(reading.processes >= 2 && reading.resident_bytes > 0 && reading.threads >= 3);
        let mut tree = ProcessTree::of(&[own]);
        tree.read();
        let processes = tree.processes();
        let process_of = |pid: u32| processes.iter().find(|process| process.pid == pid as i32).unwrap();
        assert!(process_of(own).open_files.unwrap() > 2 && process_of(own).resident_bytes > 0);
        assert!(process_of(own).threads.iter().any(|thread| thread.ran_ns > 0 && thread.slices > 0));
        assert_eq!(
            (process_of(child.id()).name.as_str(), process_of(child.id()).threads.len()),
            ("sleep", 1)
        );
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(ProcessTree::of(&[child.id()]).read(), None);
    }

    #[test]
    fn processor_time_is_finer_than_a_tick() {
        let own = ProcessTree::of(&[std::process::id()]);
        let used =
            |mut tree: ProcessTree| tree.read().map(|reading| reading.user_s + reading.system_s).unwrap();
        let before = used(own);
        let mut steps = 0;
        for _ in 0..200 {
            let after = used(ProcessTree::of(&[std::process::id()]));
            let step = after - before;
            // Whole ticks are multiples of ten milliseconds.
            let of_tick = (step / 0.01).fract();
            steps += usize::from(of_tick > 0.01 && of_tick < 0.99);
        }
        assert!(steps > 100, "{steps} of 200 are no whole ticks");
    }

    #[test]
    fn a_process_stays_in_the_tree_when_its_parent_ends() {
        use std::io::Read as _;
        // The inner sleep is given to another parent when the shell ends.
        let mut shell = std::process::Command::new("/bin/sh")
            .args(["-c", "sleep 1000 & echo $!; read end"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0u8; 16];
        let read = shell.stdout.as_mut().unwrap().read(&mut line).unwrap();
        let orphan: i32 = String::from_utf8_lossy(&line[..read]).trim().parse().unwrap();
        let mut tree = ProcessTree::of(&[shell.id()]);
        assert_eq!(tree.read().unwrap().processes, 2);
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert_eq!(tree.read().unwrap().processes, 1);
        let orphan = rustix::process::Pid::from_raw(orphan).unwrap();
        rustix::process::kill_process(orphan, rustix::process::Signal::KILL).unwrap();
        while tree.read().is_some() {
            std::thread::yield_now();
        }
    }
}
