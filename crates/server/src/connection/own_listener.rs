//! The listener that accepted a connection, and its index in the current configuration.

use touchstone_config::ListenAddress;

use touchstone_exchange::core::CoreState;

/// The listener of a connection.
pub struct OwnListener {
    /// The address that accepted the connection.
    pub address: ListenAddress,
    /// Which generation of the configuration `index` belongs to.
    generation: u64,
    /// Index of the listener in the snapshot; `None` when a reload removed it.
    pub index: Option<usize>,
}

impl OwnListener {
    /// The listener with this address; its index is determined later.
    pub fn new(address: ListenAddress) -> OwnListener {
        OwnListener { address, generation: 0, index: None }
    }

    /// Finds the listener again if the configuration has another generation.
    #[inline]
    pub fn follow_config(&mut self, state: &CoreState) {
        if self.generation != state.generation {
            self.apply_config(state);
        }
    }

    #[cold]
    fn apply_config(&mut self, state: &CoreState) {
        self.generation = state.generation;
        self.index = state.snapshot.listeners.iter().position(|listener| listener.address == self.address);
    }
}
