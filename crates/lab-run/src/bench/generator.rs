//! Makes the load of a mix: the load engine on this machine, or many load machines under one controller. A
//! bench is independent of this; it prepares the load, runs it, and receives the outcome.

use std::sync::atomic::AtomicBool;
use touchstone_lab::recording::Recording;
use touchstone_lab::result::FleetUse;
use touchstone_load::{Outcome, Plan, PlanError, Progress};

/// Makes the load of one mix after the other.
pub trait LoadGenerator: Sync {
    /// Prepares everything, and returns when the mix begins: the caller must then run it at once. An error
    /// when `interrupt` becomes true. While it runs, the figures of the whole load and of the classes
    /// `watched` are written to the live figures of its progress; `None`: none are needed.
    fn prepare<'a>(
        &'a self,
        plan: &'a Plan,
        watched: Option<Vec<usize>>,
        interrupt: &AtomicBool,
    ) -> Result<Box<dyn PreparedLoad + 'a>, PlanError>;

    /// The states of the machines that make the load, to be shown during a mix; none if only this machine
    /// makes it.
    fn machines(&self) -> Vec<LoadMachine>;
}

/// A mix that is ready.
pub trait PreparedLoad: Sync {
    /// Carries it out, as [`touchstone_load::run`] does.
    fn run(&self, progress: &Progress) -> Result<GeneratedLoad, PlanError>;
}

/// The outcome of a mix's load.
#[derive(Debug, Clone)]
pub struct GeneratedLoad {
    /// What was measured.
    pub outcome: Outcome,
    /// The load machines, where there are several.
    pub fleet: Option<FleetUse>,
    /// The recording of the system's own machine, if it was watched there.
    pub recording: Option<Recording>,
    /// Why the figures are invalid: the load was not that of the plan.
    pub invalid: Option<String>,
}

/// A machine that makes load.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadMachine {
    /// Its name.
    pub name: String,
    /// Its state, in a word or two.
    pub state: String,
    /// Valid answers a second, lately.
    pub requests_per_second: f64,
    /// Errors in this mix so far.
    pub errors: u64,
    /// How busy its processors are, 0 to 1.
    pub cpu_share: f64,
    /// How far its clock is ahead of this machine's, microseconds.
    pub clock_offset_us: Option<f64>,
    /// How exactly that is known, microseconds.
    pub clock_bound_us: Option<f64>,
}

/// The load engine on this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct OneMachine;

struct OwnEngine<'a>(&'a Plan);

impl LoadGenerator for OneMachine {
    fn prepare<'a>(
        &'a self,
        plan: &'a Plan,
        _watched: Option<Vec<usize>>,
        _interrupt: &AtomicBool,
    ) -> Result<Box<dyn PreparedLoad + 'a>, PlanError> {
        Ok(Box::new(OwnEngine(plan)))
    }

    fn machines(&self) -> Vec<LoadMachine> {
        Vec::new()
    }
}

impl PreparedLoad for OwnEngine<'_> {
    fn run(&self, progress: &Progress) -> Result<GeneratedLoad, PlanError> {
        let outcome = touchstone_load::run(self.0, progress)?;
        Ok(GeneratedLoad { outcome, fleet: None, recording: None, invalid: None })
    }
}
