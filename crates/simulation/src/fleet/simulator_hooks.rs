//! The hooks that give the code of the fleet the time, threads and the load engine of the simulator.

use std::rc::Rc;
use std::time::Instant;

use touchstone_fleet::runtime::Simulator;
use touchstone_load::{Outcome, Plan, Portion, Progress};

use super::load;
use super::scheduler::Scheduler;

/// The hooks, with the scheduler that they call.
pub struct SimulatorHooks(pub Rc<Scheduler>);

impl Simulator for SimulatorHooks {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn real_ns(&self) -> i64 {
        let process = self.0.process(self.0.current());
        1_700_000_000_000_000_000 + self.0.age().as_nanos() as i64 + process.real_ahead_ns
    }

    fn monotonic_ns(&self) -> u64 {
        let process = self.0.process(self.0.current());
        self.0.age().as_nanos() as u64 + process.monotonic_ahead_ns
    }

    fn pause(&self, until: Instant) {
        self.0.pause(until);
    }

    fn notify(&self) {
        self.0.notify();
    }

    fn spawn(&self, name: &str, work: Box<dyn FnOnce()>) {
        self.0.begin(self.0.current(), name, work);
    }

    fn is_ending(&self) -> bool {
        self.0.is_ending()
    }

    fn send_load(
        &self,
        plan: &Plan,
        portion: &Portion,
        start_ns: u64,
        progress: &Progress,
    ) -> Result<Outcome, String> {
        load::send(&self.0, self.0.current(), plan, portion, start_ns, progress)
    }
}
