//! The load that the agents of a fleet sent, with which the sum of a mix is compared.

use std::collections::BTreeMap;

/// The sent load by the seed of the plan, which identifies the mix, and the agent.
#[derive(Default)]
pub struct SentLoad {
    pub sent: BTreeMap<(u64, String), AgentLoad>,
    /// The agents by the numbers of their processes.
    pub agents: BTreeMap<usize, String>,
}

/// The load of an agent in a mix.
#[derive(Debug, Clone, Copy, Default)]
pub struct AgentLoad {
    pub requests: u64,
    /// The number of its starts and of its ends.
    pub started: u64,
    pub ended: u64,
}
