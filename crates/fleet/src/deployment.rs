//! The processes that a bench with a fleet needs: if the fleet's file states how agents are started, it
//! starts them, and a broker if none answers. All of them end with the bench.

use crate::broker::Broker;
use crate::launch::LaunchedFleet;
use crate::nats::reach;
use crate::setup::FleetFile;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a broker may take until it listens.
const BROKER_TIME: Duration = Duration::from_secs(10);
/// How long one attempt to reach it may take.
const ATTEMPT_TIME: Duration = Duration::from_millis(500);

/// What was started. Agents end before the broker.
pub struct Deployment {
    launched: LaunchedFleet,
    broker: Option<Broker>,
    controller: String,
}

impl Deployment {
    /// Starts what the fleet's file states; `None` if it states no deployment: then the operator starts
    /// broker and agents.
    pub fn start(directory: &Path) -> Result<Option<Deployment>, String> {
        let file = FleetFile::read(directory)?;
        if file.launch.is_none() {
            return Ok(None);
        }
        // Namespaces first: the broker may listen at one of their addresses.
        let mut launched = LaunchedFleet::prepare(&file)?;
        let broker = if reach(&file.controller, ATTEMPT_TIME).is_ok() {
            None
        } else {
            Some(start_broker(directory, &file)?)
        };
        launched.start(directory, &file)?;
        Ok(Some(Deployment { launched, broker, controller: file.controller }))
    }

    /// Which broker there is, and whether it was started here.
    pub fn broker_description(&self) -> String {
        match &self.broker {
            Some(broker) => format!("the broker was started on this machine: {}", broker.words()),
            None => format!("the broker at {} was already running", self.controller),
        }
    }

    /// Which of the started agents have ended, with the last output of each.
    pub fn ended(&mut self) -> Option<String> {
        self.launched.ended()
    }

    /// The state of a started agent that the controller waits for.
    pub(crate) fn waited_for(&self, name: &str) -> Option<String> {
        self.launched.waited_for(name)
    }

    /// Ends the agents; returns a line for each that has results that the broker does not have, with their
    /// place.
    pub fn end(mut self) -> Vec<String> {
        self.launched.end()
    }
}

fn start_broker(directory: &Path, file: &FleetFile) -> Result<Broker, String> {
    let mut broker = Broker::start(directory)?;
    let until = Instant::now() + BROKER_TIME;
    while reach(&file.controller, ATTEMPT_TIME).is_err() {
        if broker.has_ended() || Instant::now() > until {
            return Err(format!(
                "the broker does not listen at {}; the reason is in {}",
                file.controller,
                directory.join("broker.log").display()
            ));
        }
        std::thread::sleep(ATTEMPT_TIME / 10);
    }
    Ok(broker)
}
