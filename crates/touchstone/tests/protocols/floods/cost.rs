//! What an attack costs both sides: processor time, and the server's memory at its peak.

use std::cell::Cell;
use std::fs;

use rustix::time::{ClockId, clock_gettime};

use super::Bytes;
use crate::support::Server;

thread_local! {
    /// Processor time of programs that this thread's attack has had help by.
    static OF_HELPERS_NS: Cell<u64> = const { Cell::new(0) };
}

/// Counts the processor time that a program has used so far as the attacker's.
pub(super) fn note_helper(process: u32) {
    OF_HELPERS_NS.set(OF_HELPERS_NS.get() + processor_ns(process as i32));
}

/// The costs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    pub(super) bytes: Bytes,
    pub(super) own_cpu_ms: f64,
    pub(super) server_cpu_ms: f64,
    pub(super) growth_kib: u64,
}

/// Makes an attack and measures it.
pub(super) fn measure(server: &Server, attack: impl FnOnce() -> Bytes) -> Cost {
    let process = server.process();
    // The peak is reset here.
    let _ = fs::write(format!("/proc/{process}/clear_refs"), "5");
    let (memory, server_ns, own_ns) = (status_kib(process, "VmRSS:"), processor_ns(process), own_ns());
    OF_HELPERS_NS.set(0);
    let bytes = attack();
    Cost {
        bytes,
        own_cpu_ms: (self::own_ns() - own_ns + OF_HELPERS_NS.get()) as f64 / 1e6,
        server_cpu_ms: processor_ns(process).saturating_sub(server_ns) as f64 / 1e6,
        growth_kib: status_kib(process, "VmHWM:").saturating_sub(memory),
    }
}

fn own_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The processor time of all threads of a process so far.
fn processor_ns(process: i32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{process}/task")).expect("the server runs");
    let of_thread = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    threads.flatten().filter_map(of_thread).sum()
}

fn status_kib(process: i32, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.trim().split(' ').next()?.parse().ok()).unwrap_or(0)
}
