//! The core's handle to its worker: whether the worker's thread has started, and the state that connections
//! leave at the core while they are with the worker.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;

use slab::Slab;
use touchstone_access::ConnectionPermit;
use touchstone_config::ListenAddress;
use touchstone_observe::log::access::CoreBuffer;
use touchstone_observe::log::error::ErrorLog;
use touchstone_observe::metrics::Metrics;
use touchstone_sites::site::Snapshot;

use super::link::{WorkerLink, WorkerOrder};
use super::socket_end::SocketEnd;
use crate::connection_number::ConnectionNumber;
use crate::core::connection_count::ConnectionCount;
use crate::core::deadline::DeadlineGuard;

/// The data with which a worker is started.
pub struct WorkerSeed {
    /// The number of the thread, after those of the cores.
    pub index: usize,
    /// Where the thread writes the access log.
    pub access_log: CoreBuffer,
    /// The error log.
    pub error_log: ErrorLog,
    /// The connections of all cores.
    pub connections: Arc<ConnectionCount>,
    /// The counters of all cores.
    pub metrics: Arc<Metrics>,
}

/// A core's handle to its worker, the thread that calls programs.
pub struct CallerThread {
    state: RefCell<State>,
    /// The state that connections leave at the core while they are away.
    away: RefCell<Slab<CoreEntries>>,
}

enum State {
    /// The thread is not needed yet.
    Asleep(Box<WorkerSeed>),
    At(Arc<WorkerLink>),
    /// The thread could not be started, or takes no more connections.
    Off,
}

/// The state that a connection leaves at its core: its entries among the connections of the core and of its
/// client.
pub struct CoreEntries {
    /// Its note among the deadlines.
    pub deadline: Option<DeadlineGuard>,
    /// Counts the connection for its client.
    pub permit: Option<ConnectionPermit>,
    /// Ends the socket if another thread has a handle to it too, or may have one.
    pub ending: Option<SocketEnd>,
    /// The address of the client.
    pub peer: Option<SocketAddr>,
    /// The address that accepted the connection.
    pub listener: ListenAddress,
    /// How many visits of the connection were useless.
    pub visits: u32,
    /// Requests answered.
    pub requests: u64,
    /// Its number.
    pub number: ConnectionNumber,
}

impl CallerThread {
    /// A thread that is started when it is first needed.
    pub fn new(seed: WorkerSeed) -> CallerThread {
        CallerThread { state: RefCell::new(State::Asleep(Box::new(seed))), away: RefCell::default() }
    }

    /// Stores the state that a connection leaves at the core; returns its place.
    pub fn keep(&self, left: CoreEntries) -> usize {
        self.away.borrow_mut().insert(left)
    }

    /// The state that the connection with this place has left.
    pub fn take(&self, place: usize) -> Option<CoreEntries> {
        self.away.borrow_mut().try_remove(place)
    }

    /// The link to the thread. Calls `start` when it is needed for the first time; `None` if it cannot be
    /// started, or takes no more connections.
    pub fn link(&self, start: impl FnOnce(WorkerSeed) -> Option<Arc<WorkerLink>>) -> Option<Arc<WorkerLink>> {
        let state = &mut *self.state.borrow_mut();
        if let State::At(link) = state {
            return Some(link.clone());
        }
        let State::Asleep(seed) = std::mem::replace(state, State::Off) else { return None };
        let link = start(*seed)?;
        *state = State::At(link.clone());
        Some(link)
    }

    /// Called when the configuration has changed.
    pub fn apply_config(&self, snapshot: &Arc<Snapshot>) {
        if let State::At(link) = &*self.state.borrow() {
            let _ = link.send(WorkerOrder::ApplyConfig(snapshot.clone()));
        }
    }

    /// Calls all connections back and sends no more.
    pub fn end(&self) {
        if let State::At(link) = std::mem::replace(&mut *self.state.borrow_mut(), State::Off) {
            let _ = link.send(WorkerOrder::End);
        }
    }
}
