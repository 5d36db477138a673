//! Memory: how much is free, and how often the machine had to read it from a disk.

use super::text::value;
use serde::{Deserialize, Serialize};
use std::fs;

/// Memory at one moment: bytes now, faults and swapping since boot. What the kernel does not report is
/// absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryReading {
    /// All there is.
    pub total_bytes: Option<u64>,
    /// What could be had without swapping.
    pub available_bytes: Option<u64>,
    /// Of files.
    pub page_cache_bytes: Option<u64>,
    /// Swap in use.
    pub swap_used_bytes: Option<u64>,
    /// Page faults.
    pub page_faults: Option<u64>,
    /// Of them, those that waited for a disk.
    pub major_page_faults: Option<u64>,
    /// Pages read back from swap.
    pub swapped_in_pages: Option<u64>,
    /// Pages put into swap.
    pub swapped_out_pages: Option<u64>,
    /// Processes killed for lack of memory.
    pub killed_for_memory: Option<u64>,
}

impl MemoryReading {
    /// Reads the state of the memory.
    pub fn take() -> MemoryReading {
        let file = |name: &str| fs::read_to_string(name).unwrap_or_default();
        parse(&file("/proc/meminfo"), &file("/proc/vmstat"))
    }
}

fn parse(meminfo: &str, vmstat: &str) -> MemoryReading {
    let bytes = |name| value(meminfo, name).and_then(|kibibytes| kibibytes.checked_mul(1024));
    let count = |name| value(vmstat, name);
    MemoryReading {
        total_bytes: bytes("MemTotal"),
        available_bytes: bytes("MemAvailable"),
        page_cache_bytes: bytes("Cached"),
        swap_used_bytes: bytes("SwapTotal")
            .zip(bytes("SwapFree"))
            .map(|(all, free)| all.saturating_sub(free)),
        page_faults: count("pgfault"),
        major_page_faults: count("pgmajfault"),
        swapped_in_pages: count("pswpin"),
        swapped_out_pages: count("pswpout"),
        killed_for_memory: count("oom_kill"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_files_are_read() {
        let memory =
            parse("MemTotal: 100 kB\nSwapTotal: 8 kB\nSwapFree: 3 kB\n", "pgfault 9\npgmajfault 2\n");
        assert_eq!((memory.swap_used_bytes, memory.major_page_faults), (Some(5120), Some(2)));
        assert_eq!((memory.total_bytes, memory.killed_for_memory), (Some(102_400), None));
        assert!(MemoryReading::take().page_faults.unwrap() > 0);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(MemTotal: |pgfault |[0-9]{1,30}|\\n|\\PC){0,20}") {
            let _ = parse(&text, &text);
        }
    }
}
