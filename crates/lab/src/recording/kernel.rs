//! The machine's counters: processors, memory, network and pressure, read from /proc.
//!
//! Counters that a kernel does not have (pressure stall information, for one) are absent.

use procfs::Current;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The machine at one moment; all but memory are counters since boot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineReading {
    /// One row a processor that is online.
    pub cpus: Vec<CpuTimes>,
    /// Memory in use: total without available, bytes.
    pub memory_used_bytes: u64,
    /// Bytes received on all interfaces.
    pub network_in_bytes: u64,
    /// Bytes sent on all interfaces.
    pub network_out_bytes: u64,
    /// Time for which some task waited for a processor.
    pub psi_cpu_some: Option<Duration>,
    /// Time for which some task waited for memory.
    pub psi_memory_some: Option<Duration>,
    /// Time for which some task waited for input or output.
    pub psi_io_some: Option<Duration>,
}

/// One processor's time by kind, in clock ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTimes {
    /// Its number.
    pub cpu: u32,
    /// User mode, nice included.
    pub user: u64,
    /// System mode.
    pub system: u64,
    /// Interrupts and softirqs.
    pub softirq: u64,
    /// Stolen by the hypervisor.
    pub steal: u64,
    /// Idle, waiting for input and output included.
    pub idle: u64,
}

impl CpuTimes {
    /// All kinds together.
    pub fn total(&self) -> u64 {
        self.user + self.system + self.softirq + self.steal + self.idle
    }
}

impl MachineReading {
    /// Reads the counters.
    pub fn take() -> MachineReading {
        let (network_in_bytes, network_out_bytes) = network_bytes();
        let pressure = |total: u64| Duration::from_micros(total);
        MachineReading {
            cpus: cpu_times(&std::fs::read_to_string("/proc/stat").unwrap_or_default()),
            memory_used_bytes: memory_used_bytes(),
            network_in_bytes,
            network_out_bytes,
            psi_cpu_some: procfs::CpuPressure::current().ok().map(|psi| pressure(psi.some.total)),
            psi_memory_some: procfs::MemoryPressure::current().ok().map(|psi| pressure(psi.some.total)),
            psi_io_some: procfs::IoPressure::current().ok().map(|psi| pressure(psi.some.total)),
        }
    }
}

/// The lines `cpuN user nice system idle iowait irq softirq steal guest guest_nice` of /proc/stat. The guest
/// columns are contained in user and nice (proc_stat(5)) and not counted again.
fn cpu_times(stat: &str) -> Vec<CpuTimes> {
    stat.lines().filter_map(cpu_line).collect()
}

fn cpu_line(line: &str) -> Option<CpuTimes> {
    let mut words = line.strip_prefix("cpu")?.split_whitespace();
    if line.as_bytes().get(3).is_none_or(|byte| !byte.is_ascii_digit()) {
        return None;
    }
    let cpu = words.next()?.parse().ok()?;
    let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    let column = |index: usize| ticks.get(index).copied().unwrap_or(0);
    (ticks.len() >= 4).then(|| CpuTimes {
        cpu,
        user: column(0).saturating_add(column(1)),
        system: column(2),
        softirq: column(5).saturating_add(column(6)),
        steal: column(7),
        idle: column(3).saturating_add(column(4)),
    })
}

fn memory_used_bytes() -> u64 {
    let Ok(memory) = procfs::Meminfo::current() else { return 0 };
    memory.mem_total.saturating_sub(memory.mem_available.unwrap_or(memory.mem_free))
}

fn network_bytes() -> (u64, u64) {
    let interfaces = procfs::net::dev_status().unwrap_or_default();
    interfaces.values().fold((0, 0), |(received, sent), interface| {
        (received + interface.recv_bytes, sent + interface.sent_bytes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn processors_keep_their_numbers() {
        let stat = "cpu  1 1 1 1 1 1 1 1 1 1\ncpu0 10 1 20 100 5 2 3 4 9 9\ncpu2 7 0 0 50\nintr 5\n\
                    cpufreq 1 2 3 4\n";
        let expected = [
            CpuTimes { cpu: 0, user: 11, system: 20, softirq: 5, steal: 4, idle: 105 },
            CpuTimes { cpu: 2, user: 7, system: 0, softirq: 0, steal: 0, idle: 50 },
        ];
        assert_eq!(cpu_times(stat), expected);
    }

    #[test]
    fn this_machine_can_be_read() {
        let reading = MachineReading::take();
        assert!(!reading.cpus.is_empty() && reading.memory_used_bytes > 0);
        assert!(reading.cpus.iter().all(|cpu| cpu.total() > 0));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(cpu)?[0-9 ]{0,40}\\PC{0,20}") {
            let _ = cpu_times(&text);
        }
    }
}
