//! The controller: takes the place of the load engine in a bench, and has a fleet of agents make the load.
//!
//! It makes no decisions while a mix runs: portions and the start are fixed before, and a portion is never
//! moved to another agent. It only receives reports, and reports a problem with its agent immediately.

mod lease;
mod member;
mod mix;
mod session;

use crate::deployment::Deployment;
use crate::fabric::{Fabric, FabricError, Notice};
use crate::message::Order;
use crate::nats::Nats;
use crate::patience::Patience;
use crate::setup::{AgentEntry, CONTROLLER, FleetFile};
use crate::{clock::Clock, credentials::Credentials};
use lease::Lease;
pub use member::MemberView;
use mix::PreparedMix;
use session::Session;
use std::fmt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use touchstone_lab_run::bench::{LoadGenerator, LoadMachine, PreparedLoad};
use touchstone_load::{Plan, PlanError};

/// The settings of a controller.
#[derive(Debug, Clone)]
pub struct ControllerOptions {
    /// How long the broker may take until it can be reached, and then agents until all of them are connected.
    pub wait: Duration,
    /// The run continues when an agent is lost, and its figures are marked; otherwise the run ends there and
    /// is not valid.
    pub exploratory: bool,
    /// A mix is ended when more than this share of the requests are errors.
    pub abort_error_share: Option<f64>,
}

impl Default for ControllerOptions {
    fn default() -> ControllerOptions {
        ControllerOptions { wait: Duration::from_secs(10), exploratory: false, abort_error_share: None }
    }
}

/// Why a fleet cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetError(pub String);

impl fmt::Display for FleetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FleetError {}

impl From<FabricError> for FleetError {
    fn from(error: FabricError) -> FleetError {
        FleetError(error.to_string())
    }
}

/// A fleet at the disposal of a bench. Dropping it ends the lease: agents at work stop.
pub struct Controller {
    session: Mutex<Session>,
    /// The agents as they were when a mix looked last: while it continues, it has the session.
    shown: Mutex<Vec<LoadMachine>>,
    _lease: Lease,
}

impl Controller {
    /// Takes a fleet over by its directory: connects to the broker, and waits until every agent is there and
    /// fit, those of `deployment` among them. `report` gets a line while the broker cannot be reached.
    pub fn open(
        directory: &Path,
        options: ControllerOptions,
        deployment: Option<&mut Deployment>,
        interrupt: &AtomicBool,
        report: &mut dyn FnMut(&str),
    ) -> Result<Controller, FleetError> {
        let file = FleetFile::read(directory).map_err(FleetError)?;
        let nats = connect(directory, &file, options.wait, interrupt, report)?;
        nats.prepare_store()?;
        Controller::take(Arc::new(nats), &file, options, deployment, interrupt)
    }

    /// The same on a fabric that is there.
    pub fn with(
        fabric: Arc<dyn Fabric>,
        file: &FleetFile,
        options: ControllerOptions,
        interrupt: &AtomicBool,
    ) -> Result<Controller, FleetError> {
        Controller::take(fabric, file, options, None, interrupt)
    }

    fn take(
        fabric: Arc<dyn Fabric>,
        file: &FleetFile,
        options: ControllerOptions,
        deployment: Option<&mut Deployment>,
        interrupt: &AtomicBool,
    ) -> Result<Controller, FleetError> {
        let run = new_run();
        let lease = Lease::take(Arc::clone(&fabric), &file.name, &run)?;
        let mut session = Session::open(fabric, file, run, options)?;
        session.muster(deployment, interrupt)?;
        Ok(Controller { session: Mutex::new(session), shown: Mutex::default(), _lease: lease })
    }

    /// The state of every agent.
    pub fn members(&self) -> Vec<MemberView> {
        self.lock().members()
    }

    fn show(&self, machines: Vec<LoadMachine>) {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = machines;
    }

    fn lock(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A name for a run that no other run has.
fn new_run() -> String {
    let now = Clock::default().now();
    format!("{:x}-{:x}", now.real_ns.unsigned_abs() / 1_000_000, std::process::id())
}

fn connect(
    directory: &Path,
    file: &FleetFile,
    wait: Duration,
    interrupt: &AtomicBool,
    report: &mut dyn FnMut(&str),
) -> Result<Nats, FleetError> {
    let path = directory.join(format!("{CONTROLLER}.credentials"));
    let credentials = Credentials::read(&path).map_err(FleetError)?;
    let patience = Patience { limit: Some(wait), retries_refusals: false, interrupt };
    let attempt = || Nats::connect(&file.controller, &credentials, Clock::default());
    let connected = patience.connect(attempt, report)?;
    connected.ok_or_else(|| FleetError("interrupted while waiting for the broker".to_string()))
}

impl LoadGenerator for Controller {
    fn prepare<'a>(
        &'a self,
        plan: &'a Plan,
        watched: Option<Vec<usize>>,
        interrupt: &AtomicBool,
    ) -> Result<Box<dyn PreparedLoad + 'a>, PlanError> {
        let mix = self.lock().prepare(plan, watched.as_ref(), interrupt).map_err(PlanError)?;
        Ok(Box::new(PreparedMix { controller: self, plan, mix }))
    }

    fn machines(&self) -> Vec<LoadMachine> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Access to a fleet without taking part in a run: the state of its agents, and orders that need no lease.
pub struct Visitor {
    session: Session,
}

impl Visitor {
    /// Connects to a fleet's broker. `report` gets a line while the broker cannot be reached.
    pub fn open(directory: &Path, report: &mut dyn FnMut(&str)) -> Result<Visitor, FleetError> {
        let file = FleetFile::read(directory).map_err(FleetError)?;
        let options = ControllerOptions::default();
        let nats = connect(directory, &file, options.wait, &AtomicBool::new(false), report)?;
        let session = Session::open(Arc::new(nats), &file, new_run(), options)?;
        Ok(Visitor { session })
    }

    /// Listens for a while, and returns the state of every agent.
    pub fn listen(&mut self, time: Duration) -> Vec<MemberView> {
        self.session.order_all(&Order::Muster);
        self.session.listen_for(time);
        self.session.members()
    }

    /// The same with their clocks.
    pub fn measure_clocks(&mut self, time: Duration) -> Vec<MemberView> {
        self.listen(time);
        self.session.measure_clocks();
        self.session.members()
    }

    /// The members that the broker has refused since then, and its other notices.
    pub fn notices(&mut self) -> Vec<Notice> {
        self.session.take_notices()
    }

    /// Makes agents end when they have finished their work; no names: all agents.
    pub fn drain(&mut self, names: &[String]) {
        self.session.order_some(names, &Order::Drain);
    }

    /// The recent notes of agents, by their names.
    pub fn logs(&mut self, names: &[String], time: Duration) -> Vec<(String, Vec<String>)> {
        self.session.order_some(names, &Order::Logs);
        self.listen(time);
        self.session.logs()
    }

    /// The agents that the fleet's file names.
    pub fn expected(&self) -> &[AgentEntry] {
        self.session.expected()
    }
}
