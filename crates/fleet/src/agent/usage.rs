//! Measures how busy the machine's processors are, between two readings.

use crate::runtime::simulator;
use touchstone_lab::recording::MachineReading;

/// The counters at the last reading.
pub(crate) struct ProcessorUse {
    busy: u64,
    total: u64,
}

impl ProcessorUse {
    pub(crate) fn new() -> ProcessorUse {
        let mut first = ProcessorUse { busy: 0, total: 0 };
        first.since_last();
        first
    }

    /// The share of all processors' time that was used since the last reading, 0 to 1.
    pub(crate) fn since_last(&mut self) -> f64 {
        if simulator().is_some() {
            return 0.0;
        }
        let cpus = MachineReading::take().cpus;
        let total: u64 = cpus.iter().map(|cpu| cpu.total()).sum();
        let busy = total - cpus.iter().map(|cpu| cpu.idle).sum::<u64>();
        let (used, passed) = (busy.saturating_sub(self.busy), total.saturating_sub(self.total));
        *self = ProcessorUse { busy, total };
        if passed == 0 { 0.0 } else { (used as f64 / passed as f64).min(1.0) }
    }
}
