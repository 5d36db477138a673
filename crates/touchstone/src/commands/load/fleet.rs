//! A load made by a fleet instead of this machine.

use super::Arguments;
use std::sync::atomic::AtomicBool;
use touchstone_fleet::{Controller, ControllerOptions, Deployment, FleetFile};
use touchstone_lab::figures::{count, milliseconds, percent};
use touchstone_lab::result::FleetUse;
use touchstone_lab_run::bench::{LoadGenerator, OneMachine};

/// The maker of the load.
pub(super) enum LoadSource {
    /// This machine.
    Own(OneMachine),
    /// A fleet, and the processes started for it.
    Fleet(Box<Controller>, Option<Box<Deployment>>),
}

impl LoadSource {
    /// Takes over the fleet that the arguments name, if any.
    pub(super) fn of(arguments: &Arguments, interrupt: &AtomicBool) -> Result<LoadSource, String> {
        let Some(word) = &arguments.fleet else { return Ok(LoadSource::Own(OneMachine)) };
        let directory = FleetFile::directory(word);
        let options = ControllerOptions {
            wait: arguments.fleet_wait,
            exploratory: arguments.exploratory,
            abort_error_share: None,
        };
        let mut deployment = Deployment::start(&directory)?;
        deployment
            .iter()
            .for_each(|deployment| eprintln!("touchstone load: {}", deployment.broker_description()));
        let mut report = |line: &str| eprintln!("touchstone load: {line}");
        let controller = Controller::open(&directory, options, deployment.as_mut(), interrupt, &mut report);
        Ok(LoadSource::Fleet(
            Box::new(controller.map_err(|error| error.to_string())?),
            deployment.map(Box::new),
        ))
    }

    pub(super) fn generator(&self) -> &dyn LoadGenerator {
        match self {
            LoadSource::Own(own) => own,
            LoadSource::Fleet(controller, _) => &**controller,
        }
    }

    /// Ends the started processes, and prints which results are left on agents' disks.
    pub(super) fn end(self) {
        let LoadSource::Fleet(controller, deployment) = self else { return };
        drop(controller);
        let left = deployment.map(|deployment| deployment.end()).unwrap_or_default();
        left.iter().for_each(|line| eprintln!("touchstone load: {line}"));
    }
}

/// One row for each machine.
pub(super) fn table(fleet: &FleetUse) -> String {
    let mut text = format!(
        "\n{:14}{:>10}{:>14}{:>10}{:>10}{:>14}\n",
        "agent", "clients", "requests", "errors", "busiest", "began late"
    );
    for agent in &fleet.agents {
        let number = |value: Option<u64>| value.map_or("none".to_string(), count);
        text += &format!(
            "{:14}{:>10}{:>14}{:>10}{:>10}{:>14}\n",
            agent.name,
            count(agent.clients),
            number(agent.requests),
            number(agent.errors),
            agent.busiest_thread.map_or("none".to_string(), percent),
            agent.start_lateness_us.map_or("none".to_string(), |us| format!("{} ms", milliseconds(us))),
        );
        if let Some(lost_at_s) = agent.lost_at_s {
            text += &format!("{:14}lost after {lost_at_s:.1} s: its part is in no figure\n", "");
        }
    }
    text
}
