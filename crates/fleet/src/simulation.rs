//! Agents without a load engine, many in one process: each has its own connection, answers every order as an agent does, and
//! counts up. For measuring what a controller costs; not part of the interface.

use crate::agent::BEAT_PERIOD;
use crate::clock::{Clock, monotonic_ns};
use crate::credentials::Credentials;
use crate::fabric::{FabricError, Traffic};
use crate::message::{AgentFacts, AgentState, Beat, Order, PROTOCOL, Report, Role, Subjects, decode, encode};
use crate::nats::{Engine, open};
use crate::setup::FleetFile;
use async_nats::Client;
use futures_util::StreamExt;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;
use touchstone_lab::machine;

/// What a simulated agent counts each second.
const REQUESTS_PER_SECOND: f64 = 10_000.0;

/// Runs every agent of a fleet until the process ends.
pub fn agents(directory: &Path) -> Result<(), String> {
    let file = FleetFile::read(directory)?;
    let engine = Engine::start().map_err(|error| error.to_string())?;
    let tool = machine::tool();
    let mut tasks = Vec::new();
    for agent in &file.agents {
        let credentials = Credentials::read(&directory.join(format!("{}.credentials", agent.name)))?;
        let facts = AgentFacts {
            instance: agent.name.clone(),
            role: Role::Load,
            protocol: PROTOCOL,
            version: tool.version.clone(),
            binary_sha256: tool.binary_sha256.clone().unwrap_or_default(),
            kernel: String::new(),
            sysctls: Vec::new(),
            cores: vec![0],
            memory_bytes: 0,
            open_files_limit: 0,
            allowed: Vec::new(),
            pids: Vec::new(),
        };
        let url = file.controller.clone();
        tasks.push(engine.spawn(async move { simulate(&url, &credentials, facts).await }));
        // Not all handshakes at once: the broker is on this machine as well.
        std::thread::sleep(Duration::from_millis(2));
    }
    for task in tasks {
        let ended = engine.wait(task).map_err(|error| error.to_string())?;
        ended.map_err(|error| error.to_string())?;
    }
    Ok(())
}

async fn simulate(url: &str, credentials: &Credentials, facts: AgentFacts) -> Result<(), FabricError> {
    let (unheard, _) = channel();
    let client = open(url, credentials, &credentials.seed, &credentials.member, unheard).await?;
    let failed = |error: async_nats::SubscribeError| FabricError::Failed(error.to_string());
    let subjects = Subjects::of(&credentials.fleet);
    let own = client.subscribe(subjects.to(&credentials.member)).await.map_err(failed)?;
    let all = client.subscribe(subjects.all()).await.map_err(failed)?;
    let mut orders = futures_util::stream::select(own, all);
    let mut beats = tokio::time::interval(BEAT_PERIOD);
    let mut agent =
        Simulated { client, subject: subjects.from(&credentials.member), facts, mix: None, start_ns: None };
    agent.tell(&Report::Here(Box::new(agent.facts.clone()))).await;
    loop {
        tokio::select! {
            order = orders.next() => match order {
                Some(message) => agent.obey(&message.payload).await,
                None => return Ok(()),
            },
            _ = beats.tick() => agent.beat().await,
        }
    }
}

struct Simulated {
    client: Client,
    subject: String,
    facts: AgentFacts,
    mix: Option<(String, u64)>,
    start_ns: Option<u64>,
}

impl Simulated {
    async fn tell(&self, report: &Report) {
        if let Ok(body) = encode(report) {
            let _ = self.client.publish(self.subject.clone(), body.into()).await;
        }
    }

    async fn obey(&mut self, order: &[u8]) {
        let came = Clock::default().now();
        match decode::<Order>(order) {
            Some(Order::Muster) => self.tell(&Report::Here(Box::new(self.facts.clone()))).await,
            Some(Order::Ping { exchange }) => {
                self.tell(&Report::Pong { exchange, came, answered: Clock::default().now() }).await;
            }
            Some(Order::Prepare { run, mix, .. }) => {
                (self.mix, self.start_ns) = (Some((run.clone(), mix)), None);
                self.tell(&Report::Ready { run, mix, time_to_prepare_ns: 0 }).await;
            }
            Some(Order::Start { at_monotonic_ns, .. }) => self.start_ns = Some(at_monotonic_ns),
            Some(Order::Stop { .. }) => self.start_ns = None,
            _ => {}
        }
    }

    async fn beat(&self) {
        let running_ns = self.start_ns.map(|start_ns| monotonic_ns().saturating_sub(start_ns));
        let beat = Beat {
            instance: self.facts.instance.clone(),
            state: if running_ns.is_some() { AgentState::Running } else { AgentState::Idle },
            mix: self.mix.clone(),
            requests: (running_ns.unwrap_or(0) as f64 / 1e9 * REQUESTS_PER_SECOND) as u64,
            errors: 0,
            bytes: 0,
            cpu_share: 0.5,
            traffic: Traffic::default(),
            spooled: 0,
        };
        self.tell(&Report::Beat(beat)).await;
    }
}
