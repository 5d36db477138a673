//! The thread of a worker: one wait covers all connections, and each that is ready is served at once.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use touchstone_sites::site::Snapshot;

use super::{Connection, ConnectionStep};
use touchstone_exchange::core::Core;
use touchstone_exchange::core::clock::ticking_timer;
use touchstone_exchange::core::worker::{
    Arrival, Callers, ReturnStep, ReturnedConnection, WorkerLink, WorkerOrder, WorkerReport, WorkerSeed,
};
use touchstone_exchange::steps::OWN_REQUESTS;

/// The most events taken from the kernel at a time.
const EVENTS: usize = 256;

/// Each arrival of bytes causes one event (edge-triggered); otherwise the kernel would check each connection
/// a second time when the thread waits again. The client's end has its own flag, because it may arrive
/// together with the last request.
const OF_CONNECTIONS: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

/// The values of an event that is not for a connection.
const WOKEN: u64 = u64::MAX;
const TICKED: u64 = u64::MAX - 1;

struct Thread {
    core: Rc<Core>,
    link: Arc<WorkerLink>,
    epoll: OwnedFd,
    connections: Vec<Option<MigratedConnection>>,
    is_ending: bool,
}

struct MigratedConnection {
    connection: Connection,
    socket: Arc<OwnedFd>,
    /// Requests answered; read when another thread sends the connection back.
    requests: Arc<AtomicU64>,
    /// The same count a second ago.
    requests_before: u64,
}

/// Runs a thread until it gets the order to end.
pub fn run(seed: WorkerSeed, snapshot: Arc<Snapshot>, link: Arc<WorkerLink>) -> io::Result<()> {
    let WorkerSeed { index, access_log, error_log, connections, metrics } = seed;
    link.apply_config(snapshot.clone());
    let mut core = Core::new(index, snapshot, access_log, error_log, connections, metrics, OWN_REQUESTS);
    core.callers = Some(Callers::new(link.clone()));
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    let timer = ticking_timer()?;
    epoll::add(&epoll, &link.wake, EventData::new_u64(WOKEN), EventFlags::IN)?;
    epoll::add(&epoll, &timer, EventData::new_u64(TICKED), EventFlags::IN)?;
    let mut thread = Thread { core: Rc::new(core), link, epoll, connections: Vec::new(), is_ending: false };
    let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
    while !thread.is_ending {
        events.clear();
        match epoll::wait(&thread.epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        for event in &events {
            match event.data.u64() {
                WOKEN => thread.handle_orders(),
                TICKED => thread.tick(&timer),
                place => {
                    let flags = event.flags;
                    let is_at_end = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
                    thread.serve(usize::try_from(place).unwrap_or(usize::MAX), is_at_end);
                }
            }
        }
    }
    Ok(())
}

impl Thread {
    fn handle_orders(&mut self) {
        for order in self.link.take_orders() {
            match order {
                WorkerOrder::Arrive(arrival) => self.admit(arrival),
                WorkerOrder::ApplyConfig(snapshot) => {
                    self.link.apply_config(snapshot.clone());
                    // Dropping the last handle to a configuration may wait for its watcher of files; here
                    // that would delay calls.
                    drop(self.core.apply_config(snapshot));
                }
                WorkerOrder::End => self.end(),
            }
        }
    }

    fn admit(&mut self, arrival: Arrival) {
        let place = arrival.place;
        let data = EventData::new_u64(place as u64);
        if self.is_ending || epoll::add(&self.epoll, &arrival.socket, data, OF_CONNECTIONS).is_err() {
            return self.link.report(arrival.return_connection());
        }
        let Arrival { socket, peer, listener, requests, number, .. } = arrival;
        let connection =
            Connection::migrated(self.core.clone(), socket.clone(), peer, listener, requests, number);
        let counted = Arc::new(AtomicU64::new(requests));
        self.link.admit(place, socket.clone(), counted.clone());
        if self.connections.len() <= place {
            self.connections.resize_with(place + 1, || None);
        }
        self.connections[place] =
            Some(MigratedConnection { connection, socket, requests: counted, requests_before: requests });
    }

    /// Serves a connection that is ready, perhaps for the last time.
    fn serve(&mut self, place: usize, is_at_end: bool) {
        let Some(connection) = self.connections.get_mut(place).and_then(Option::as_mut) else { return };
        if let Some(callers) = &self.core.callers {
            callers.connection.set(place);
        }
        let next = loop {
            match connection.connection.begin() {
                ConnectionStep::Receive if connection.connection.is_idle() => {
                    connection.requests.store(connection.connection.requests(), Ordering::Relaxed);
                    // No event will report bytes that have already arrived, nor report the end after them
                    // again.
                    let is_told_again = !is_at_end && connection.connection.has_received_all();
                    if is_told_again || connection.connection.has_received_no_bytes() {
                        return;
                    }
                }
                next => break next,
            }
        };
        match next {
            // The thread answers only requests that it can answer completely, so there is no data to send.
            ConnectionStep::Close | ConnectionStep::SendReady(_) => {
                self.remove(place);
                self.link.report(WorkerReport::Ended(place));
            }
            ConnectionStep::ConnectionReturned => self.forget_all(),
            next => self.return_connection(place, next),
        }
    }

    /// Removes a connection from all lists.
    fn remove(&mut self, place: usize) -> Option<MigratedConnection> {
        let connection = self.connections.get_mut(place)?.take()?;
        let _ = epoll::delete(&self.epoll, &connection.socket);
        self.link.leave(place);
        Some(connection)
    }

    /// Sends a connection back with its next step.
    fn return_connection(&mut self, place: usize, next: ConnectionStep) {
        let Some(MigratedConnection { connection, socket, .. }) = self.remove(place) else { return };
        let requests = connection.requests();
        let (input, output) = connection.into_buffers();
        let to_do = match next {
            ConnectionStep::Finish { prepared, sent } => ReturnStep::Finish { prepared, sent },
            ConnectionStep::Linger => ReturnStep::Linger,
            // The core parses the received bytes again.
            _ => ReturnStep::Serve,
        };
        // There is no other handle to the socket.
        self.link.report(match Arc::into_inner(socket) {
            Some(socket) => WorkerReport::ConnectionReturned(Box::new(ReturnedConnection {
                place,
                socket,
                is_held: false,
                requests,
                input,
                output,
                to_do,
            })),
            None => WorkerReport::Ended(place),
        });
    }

    /// All connections were sent back while this thread was in a call.
    fn forget_all(&mut self) {
        for connection in std::mem::take(&mut self.connections).into_iter().flatten() {
            let _ = epoll::delete(&self.epoll, &connection.socket);
        }
        self.link.open();
    }

    fn tick(&mut self, timer: &OwnedFd) {
        let mut expirations = [0u8; 8];
        let _ = rustix::io::read(timer.as_fd(), &mut expirations);
        let is_new_second = self.core.clock.tick();
        self.core.note_tick(is_new_second, [0; 4]);
        if !is_new_second {
            return;
        }
        // A connection without a request for a second returns to the core, which enforces the time limits.
        for place in 0..self.connections.len() {
            let Some(connection) = &mut self.connections[place] else { continue };
            let now = connection.connection.requests();
            if std::mem::replace(&mut connection.requests_before, now) == now {
                self.return_connection(place, ConnectionStep::Receive);
            }
        }
    }

    fn end(&mut self) {
        self.is_ending = true;
        for place in 0..self.connections.len() {
            self.return_connection(place, ConnectionStep::Receive);
        }
        for order in self.link.close() {
            if let WorkerOrder::Arrive(arrival) = order {
                self.link.report(arrival.return_connection());
            }
        }
        self.core.note_tick(false, [0; 4]);
    }
}
