//! The fleet: one controller, many load machines.
//!
//! In a bench the controller takes the place of the load engine: it passes a mix's plan to *agents*, one on
//! each load machine. Each agent runs its portion of the plan, and the controller adds up the results. Their
//! messages go through a [`Fabric`]: NATS with JetStream between machines, or [`EmbeddedFabric`] within one
//! process.
//!
//! The broker provides the hard properties: permissions, messages that survive a crash and are stored only
//! once, and a claim that only one controller can hold. This crate adds a fixed schedule (portions, one
//! start) and a sum of the results that does not depend on their order and ignores repeated parts
//! ([`MixResults`]).

mod agent;
mod allow;
mod broker;
mod clock;
mod controller;
mod credentials;
mod deployment;
mod embedded;
mod fabric;
mod launch;
mod launch_settings;
mod manifests;
mod message;
mod mix_results;
mod nats;
mod patience;
#[doc(hidden)]
pub mod runtime;
mod setup;
mod spool;

pub use agent::{AgentEnd, AgentOptions, BEAT_PERIOD, LEASE, run_agent};
pub use allow::{AllowList, AllowRule};
pub use broker::Broker;
pub use clock::{Clock, ClockEstimate, Exchange, Stamp};
pub use controller::{Controller, ControllerOptions, FleetError, MemberView, Visitor};
pub use credentials::Credentials;
pub use deployment::Deployment;
pub use embedded::EmbeddedFabric;
pub use fabric::{
    Fabric, FabricError, Inbox, InboxSender, Message, Notice, StoredMessage, Traffic, inbox, matches,
};
pub use launch::{Launch, LaunchedFleet, Launcher};
pub use manifests::{ManifestOptions, manifests};
pub use message::{AgentFacts, AgentState, Heartbeat, Order, PROTOCOL, Report, Role};
pub use mix_results::{MixResults, Part, PartHead};
pub use nats::Nats;
pub use patience::Patience;
pub use setup::{AgentEntry, BROKER_FILE, FLEET_FILE, FleetFile, MAXIMUM_AGENTS, init};
