//! The events of a bench run in progress, for the views that show it.

use super::generator::LoadMachine;
use crate::monitor::LatestFigures;
use hdrhistogram::Histogram;
use touchstone_lab::figures::{clients, rate};
use touchstone_lab::result::MixResult;

/// Shows a run.
pub trait Observer {
    /// Something happened.
    fn event(&mut self, event: Event<'_>);
}

/// Something that happened.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// A system is being started, checked and warmed.
    Starting {
        /// Its name for people.
        system: &'a str,
    },
    /// It answers correctly.
    Ready {
        /// Its name for people.
        system: &'a str,
    },
    /// An interface will not be measured on a system, or a system not at all.
    Skipped {
        /// Why not, as a sentence without its full stop.
        reason: &'a str,
    },
    /// The rules of HTTP are tested on a system.
    Conformance {
        /// Its name for people.
        system: &'a str,
        /// Cases that were tested.
        done: usize,
        /// Cases that are tested on it.
        of: usize,
    },
    /// A mix begins on a system.
    MixStarted(Turn<'a>),
    /// A mix is in progress; sent a few times a second.
    Tick(Tick<'a>),
    /// The states of the machines that make the load, if there are several; sent with each tick.
    LoadMachines(&'a [LoadMachine]),
    /// A mix has ended on a system.
    MixFinished {
        /// Its name for people.
        system: &'a str,
        /// What was measured.
        result: &'a MixResult,
    },
}

/// Which mix on which system.
#[derive(Debug, Clone, Copy)]
pub struct Turn<'a> {
    /// The system's name for people, with the interface's where there are several.
    pub system: &'a str,
    /// The mix's name.
    pub mix: &'a str,
    /// Virtual clients.
    pub clients: usize,
    /// Arrivals a second, where the load is open.
    pub rate: Option<f64>,
    /// Whether it is one of the mixes; an earlier warm-up or search is not counted.
    pub is_counted: bool,
    /// Its place in the whole run, from 1.
    pub number: usize,
    /// All turns of the run: mixes times systems, times the interfaces of each.
    pub of: usize,
}

impl Turn<'_> {
    /// Its load in words.
    pub fn load_in_words(&self) -> String {
        match self.rate {
            Some(per_second) => format!("{} arrivals/s", rate(per_second)),
            None => clients(self.clients as u64),
        }
    }
}

/// The progress of a mix.
#[derive(Debug, Clone, Copy)]
pub struct Tick<'a> {
    /// Which one.
    pub turn: Turn<'a>,
    /// Valid answers a second, lately.
    pub requests_per_second: f64,
    /// Errors so far.
    pub errors: u64,
    /// Bytes received a second, lately.
    pub bytes_per_second: f64,
    /// Latencies of the last second or two, nanoseconds; absent before the first answers.
    pub latency_ns: Option<&'a Histogram<u32>>,
    /// The last reading of the monitor.
    pub monitor: LatestFigures,
    /// Seconds since the mix began.
    pub elapsed_s: f64,
    /// The mix's whole length, its ramp up and its ramp down, seconds.
    pub length_s: f64,
    /// Ramp up, seconds, not counted.
    pub ramp_up_s: f64,
    /// Ramp down, seconds, not counted.
    pub ramp_down_s: f64,
    /// Seconds until the end of the whole run.
    pub seconds_left: f64,
}
