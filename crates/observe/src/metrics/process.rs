//! The values that the kernel reports about this process.

use std::fs;

/// The values that the kernel reports about this process; unknown values are zero.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ProcessFacts {
    /// Processor time used, user and system together, in seconds.
    pub cpu_seconds: f64,
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
    /// Addresses in use, in bytes.
    pub virtual_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Open files.
    pub open_files: u64,
    /// The limit of open files.
    pub most_open_files: u64,
}

impl ProcessFacts {
    /// Reads the current values.
    pub fn now() -> ProcessFacts {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let mut facts = parse_stat(&stat).unwrap_or_default();
        facts.open_files = open_files();
        facts.most_open_files =
            rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
        facts
    }
}

/// Processor time that this process has used, in seconds.
pub fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    parse_stat(&stat).map_or(0.0, |facts| facts.cpu_seconds)
}

/// Since Linux 6.2 the directory's size is the number; before, the entries must be counted, which takes long
/// if there are many.
fn open_files() -> u64 {
    match fs::metadata("/proc/self/fd").map_or(0, |metadata| std::os::unix::fs::MetadataExt::size(&metadata))
    {
        // The directory itself is open while it is read.
        0 => fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count().saturating_sub(1) as u64),
        size => size,
    }
}

/// Processor time that a thread of this process has used, in seconds.
pub fn thread_cpu_seconds(thread: u64) -> f64 {
    let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    parse_stat(&stat).map_or(0.0, |facts| facts.cpu_seconds)
}

/// `proc(5)`: pid (name) state ppid ... Fields are counted from 1; the name may hold anything, even a
/// parenthesis.
fn parse_stat(stat: &str) -> Option<ProcessFacts> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let ticks = rustix::param::clock_ticks_per_second().max(1);
    Some(ProcessFacts {
        cpu_seconds: (field(14)? + field(15)?) as f64 / ticks as f64,
        threads: field(20)?,
        virtual_bytes: field(23)?,
        resident_bytes: field(24)? * rustix::param::page_size() as u64,
        ..ProcessFacts::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_reports_this_process() {
        let facts = ProcessFacts::now();
        assert!(facts.resident_bytes > 100_000 && facts.virtual_bytes >= facts.resident_bytes);
        assert!(facts.threads >= 1 && facts.open_files >= 3 && facts.most_open_files >= facts.open_files);
    }

    #[test]
    fn names_with_parentheses() {
        let stat = "42 (a) R (b) S 1 42 42 0 -1 4194304 1 2 3 4 150 50 0 0 20 0 7 0 100 8192 3 0";
        let facts = parse_stat(stat).unwrap();
        assert_eq!(facts.threads, 7);
        assert_eq!(facts.virtual_bytes, 8192);
        assert_eq!(facts.cpu_seconds, 200.0 / rustix::param::clock_ticks_per_second() as f64);
        assert_eq!(parse_stat(""), None);
        assert_eq!(parse_stat("1 (a) R 1"), None);
    }
}
