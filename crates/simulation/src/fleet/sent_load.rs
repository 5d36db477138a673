//! What the agents of a fleet have really sent: the sum of a mix must be that.

use std::collections::BTreeMap;

/// What was really sent, by the seed of the plan, which names the mix, and the agent.
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
    /// How often it was begun, and how often it ended.
    pub begun: u64,
    pub ended: u64,
}
