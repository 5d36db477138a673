//! The fleet: one controller, many load machines.
//!
//! The controller takes part in a bench in the place of the load engine: it hands a mix's plan to *agents*,
//! one on each load machine, each of which carries out its portion, and adds up what they bring back. What
//! the two say to each other goes through a [`Fabric`]: NATS with JetStream between machines, or [`Embedded`]
//! within one process.
//!
//! The hard properties are the engine's: who may say what, what is kept through a crash, what is kept once
//! only, who is the one controller. What is left for this crate is a schedule that never changes (portions,
//! one start) and a sum that may be made in any order and with any part twice ([`Fold`]).

mod agent;
mod allow;
mod broker;
mod clock;
mod controller;
mod credentials;
mod deployment;
mod embedded;
mod fabric;
mod fold;
mod launch;
mod launch_settings;
mod manifests;
mod message;
mod nats;
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
pub use embedded::Embedded;
pub use fabric::{
    Fabric, FabricError, Inbox, InboxSender, KeptMessage, Message, Notice, Traffic, inbox, matches,
};
pub use fold::{Fold, Part, PartHead};
pub use launch::{Launch, Launched, Launcher};
pub use manifests::{ManifestOptions, manifests};
pub use message::{AgentFacts, AgentState, Beat, Order, PROTOCOL, Report, Role};
pub use nats::Nats;
pub use setup::{AgentEntry, BROKER_FILE, FLEET_FILE, FleetFile, MAXIMUM_AGENTS, init};
