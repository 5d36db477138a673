//! The core's side: starts the core's thread for calls when the first connection is sent there, and takes
//! connections back.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use touchstone_access::ConnectionPermit;
use touchstone_config::LogLevel;
use touchstone_observe::log::access::CoreBuffer;
use touchstone_observe::log::error::ErrorLog;
use touchstone_observe::metrics::Metrics;
use touchstone_sites::site::Snapshot;

use super::station::{Arrival, Order, Station, Told};
use super::thread;
use crate::connection::{Connection, Ending};
use crate::core::{Connections, Core};
use crate::deadline::DeadlineGuard;

/// The stack of a thread for calls; the programs run on it.
const STACK_BYTES: usize = 8 * 1024 * 1024;

/// What a thread for calls is started with.
pub struct CallsSeed {
    /// The number of the thread, after those of the cores.
    pub index: usize,
    /// Where the thread writes the access log.
    pub access_log: CoreBuffer,
    /// The error log.
    pub error_log: ErrorLog,
    /// The connections of all cores.
    pub connections: Arc<Connections>,
    /// The counters of all cores.
    pub metrics: Arc<Metrics>,
}

/// A core's handle to its thread for calls.
pub struct Calls {
    state: RefCell<State>,
    away: RefCell<Away>,
}

enum State {
    /// The thread is not needed yet.
    Asleep(Box<CallsSeed>),
    At(Arc<Station>),
    /// The thread could not be started, or takes no more connections.
    Off,
}

/// What connections leave at the core while they are away.
#[derive(Default)]
struct Away {
    places: Vec<Option<LeftBehind>>,
    free: Vec<usize>,
}

/// What a connection leaves at its core: its places among the connections of the core and of its client.
pub struct LeftBehind {
    /// Its note among the deadlines.
    pub deadline: Option<DeadlineGuard>,
    /// Counts the connection for its client.
    pub permit: Option<ConnectionPermit>,
    /// Ends the socket where another thread has it too, or may have it.
    pub ending: Option<Ending>,
    /// The address of the client.
    pub peer: Option<SocketAddr>,
    /// The address that accepted the connection.
    pub listener: SocketAddr,
    /// How often the connection was away without need.
    pub visits: u32,
    /// Requests answered.
    pub requests: u64,
}

impl Calls {
    /// A thread that is started when it is first needed.
    pub fn new(seed: CallsSeed) -> Calls {
        Calls { state: RefCell::new(State::Asleep(Box::new(seed))), away: RefCell::default() }
    }

    /// Sends a connection to the thread. If the thread cannot take it, the connection comes back.
    pub fn send(&self, core: &Rc<Core>, socket: OwnedFd, left: LeftBehind) {
        let (peer, listener, requests) = (left.peer, left.listener, left.requests);
        let place = self.away.borrow_mut().add(left);
        let arrival = Arrival { place, socket: Arc::new(socket), peer, listener, requests };
        let refused = match self.station(core) {
            Some(station) => station.send(Order::Arrive(arrival)).err(),
            None => Some(Order::Arrive(arrival)),
        };
        if let Some(Order::Arrive(arrival)) = refused {
            self.hear(core, arrival.back());
        }
    }

    fn station(&self, core: &Rc<Core>) -> Option<Arc<Station>> {
        let state = &mut *self.state.borrow_mut();
        if let State::At(station) = state {
            return Some(station.clone());
        }
        let State::Asleep(seed) = std::mem::replace(state, State::Off) else { return None };
        match start(core, *seed) {
            Ok(station) => {
                *state = State::At(station.clone());
                Some(station)
            }
            Err(error) => {
                let message = format_args!("no thread for calls of programs: {error}");
                core.error_log.limited(LogLevel::Warning, "no thread for calls", message);
                None
            }
        }
    }

    /// The configuration has changed.
    pub fn take_up(&self, snapshot: &Arc<Snapshot>) {
        if let State::At(station) = &*self.state.borrow() {
            let _ = station.send(Order::TakeUp(snapshot.clone()));
        }
    }

    /// Calls all connections back and sends no more.
    pub fn end(&self) {
        if let State::At(station) = std::mem::replace(&mut *self.state.borrow_mut(), State::Off) {
            let _ = station.send(Order::End);
        }
    }

    fn hear(&self, core: &Rc<Core>, told: Told) {
        match told {
            Told::Ended(place) => drop(self.away.borrow_mut().take(place)),
            Told::Back(back) => {
                let left = self.away.borrow_mut().take(back.place);
                if let Some(left) = left {
                    Connection::come_back(core.clone(), *back, left);
                }
            }
        }
    }
}

fn start(core: &Rc<Core>, seed: CallsSeed) -> std::io::Result<Arc<Station>> {
    let (home, told) = unbounded_channel();
    let station = Arc::new(Station::new(home)?);
    let snapshot = core.hot.borrow().snapshot.clone();
    let (of_thread, error_log) = (station.clone(), core.error_log.clone());
    let run = move || {
        if let Err(error) = thread::run(seed, snapshot, of_thread) {
            error_log.error(format_args!("a thread for calls of programs has ended: {error}"));
        }
    };
    let builder = std::thread::Builder::new().name(format!("calls-{}", core.index));
    builder.stack_size(STACK_BYTES).spawn(run)?;
    tokio::task::spawn_local(hear_all(core.clone(), told));
    Ok(station)
}

async fn hear_all(core: Rc<Core>, mut told: UnboundedReceiver<Told>) {
    while let Some(told) = told.recv().await {
        if let Some(calls) = &core.calls {
            calls.hear(&core, told);
        }
    }
}

impl Away {
    fn add(&mut self, left: LeftBehind) -> usize {
        match self.free.pop() {
            Some(place) => {
                self.places[place] = Some(left);
                place
            }
            None => {
                self.places.push(Some(left));
                self.places.len() - 1
            }
        }
    }

    fn take(&mut self, place: usize) -> Option<LeftBehind> {
        let left = self.places.get_mut(place)?.take()?;
        self.free.push(place);
        Some(left)
    }
}
