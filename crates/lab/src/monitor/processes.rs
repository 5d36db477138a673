//! A process tree's use of the machine: the processes that were started and everything that descends from them.

use std::collections::BTreeMap;
use std::fs;

/// Processes and all their descendants. A process that was once seen in the tree stays in it while it lives, also when
/// its parent ends and it is given to another.
#[derive(Debug)]
pub struct ProcessTree {
    /// Process numbers with the start times that tell a later process of the same number apart.
    members: BTreeMap<i32, u64>,
    roots: Vec<i32>,
}

/// The tree at one moment. Processor times are since the processes began, reaped children included.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
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

impl ProcessTree {
    /// The tree that descends from these processes.
    pub fn of(pids: &[u32]) -> ProcessTree {
        let roots = pids.iter().map(|pid| i32::try_from(*pid).unwrap_or(i32::MAX)).collect();
        ProcessTree { members: BTreeMap::new(), roots }
    }

    /// Reads every process of the tree; `None` when none is left.
    pub fn read(&mut self) -> Option<TreeReading> {
        let ticks_per_second = procfs::ticks_per_second() as f64;
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
            let reaped = |ticks: i64| u64::try_from(ticks).unwrap_or(0);
            reading.user_s += (stat.utime + reaped(stat.cutime)) as f64 / ticks_per_second;
            reading.system_s += (stat.stime + reaped(stat.cstime)) as f64 / ticks_per_second;
            reading.resident_bytes += stat.rss * page_bytes;
            reading.processes += 1;
            reading.threads += u64::try_from(stat.num_threads).unwrap_or(0);
            left.extend(children(pid));
        }
        self.members = read;
        (reading.processes > 0).then_some(reading)
    }

    /// The process's statistics, unless it is gone or another one now has its number.
    fn stat(&self, pid: i32) -> Option<procfs::process::Stat> {
        let stat = procfs::process::Process::new(pid).ok()?.stat().ok()?;
        let same = self.members.get(&pid).is_none_or(|start| *start == stat.starttime);
        (same && stat.state != 'Z').then_some(stat)
    }
}

/// The children of every thread of a process. (The files are there where the kernel has CONFIG_PROC_CHILDREN, which
/// all large distributions set; elsewhere all processes are searched for their parent.)
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
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(ProcessTree::of(&[child.id()]).read(), None);
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
