//! The state that a core and its worker share: messages, and the connections. A third thread may send the
//! connections back while the worker is in a call.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::event::EventfdFlags;
use tokio::sync::mpsc::UnboundedSender;
use touchstone_files::cache::PreparedResponse;
use touchstone_handler::handler::{CallUnderWay, ConnectionReturn};
use touchstone_sites::site::Snapshot;

use crate::connection_number::ConnectionNumber;

/// A connection as the thread receives it.
pub struct Arrival {
    /// The place of the connection; both sides name it by this.
    pub place: usize,
    /// Its socket.
    pub socket: Arc<OwnedFd>,
    /// The address of the client.
    pub peer: Option<std::net::SocketAddr>,
    /// The address that accepted the connection.
    pub listener: touchstone_config::ListenAddress,
    /// Requests answered.
    pub requests: u64,
    /// Its number.
    pub number: ConnectionNumber,
}

/// An order of a core to its thread.
pub enum WorkerOrder {
    /// Takes this connection.
    Arrive(Arrival),
    /// The configuration has changed.
    ApplyConfig(Arc<Snapshot>),
    /// Sends all connections back and ends the thread.
    End,
}

/// A connection that returns to its core.
pub struct ReturnedConnection {
    /// Its place.
    pub place: usize,
    /// Its socket.
    pub socket: OwnedFd,
    /// The thread keeps a handle to the socket until its call returns.
    pub is_held: bool,
    /// Requests answered.
    pub requests: u64,
    /// Received and not consumed.
    pub input: Vec<u8>,
    /// Not sent yet.
    pub output: Vec<u8>,
    /// Its next step.
    pub to_do: ReturnStep,
}

/// The next step of a connection that returns.
pub enum ReturnStep {
    /// Examine what was received, or receive.
    Serve,
    /// Write the rest of a hit.
    Finish {
        /// The response.
        prepared: Arc<PreparedResponse>,
        /// How many bytes of it are written.
        sent: usize,
    },
    /// Let the client read the last answer, then end.
    Linger,
    /// Await the result of a call.
    AwaitCall(Box<PendingCall>),
}

/// A call that continues while its core awaits the result.
pub struct PendingCall {
    /// The configuration under which it was made.
    pub snapshot: Arc<Snapshot>,
    /// The request that it is for.
    pub of: CalledRequest,
    /// The handle to the call, for the handler.
    pub call: CallUnderWay,
}

/// The request that a call is for.
pub struct CalledRequest {
    /// The position of the site.
    pub site: usize,
    /// The position of the route in it.
    pub route: usize,
    /// The address of the client, behind trusted proxies.
    pub client: Option<IpAddr>,
    /// The user that was authenticated.
    pub user: Option<Box<str>>,
    /// When the request was complete.
    pub started: Instant,
}

/// A message of a thread to its core.
pub enum WorkerReport {
    /// The thread returns a connection.
    ConnectionReturned(Box<ReturnedConnection>),
    /// A connection has ended.
    Ended(usize),
}

/// The data of a connection for the thread that sends it back.
struct MigratedConnection {
    socket: Arc<OwnedFd>,
    requests: Arc<AtomicU64>,
}

/// The state that both sides share.
pub struct WorkerLink {
    /// Wakes the thread.
    pub wake: OwnedFd,
    inbox: Mutex<Inbox>,
    connections: Mutex<Vec<Option<MigratedConnection>>>,
    call: Mutex<Call>,
    to_core: UnboundedSender<WorkerReport>,
}

#[derive(Default)]
struct Inbox {
    orders: Vec<WorkerOrder>,
    /// The thread is in a long call, or has ended: it takes no connection.
    is_closed: bool,
}

/// The call in progress.
#[derive(Default)]
struct Call {
    place: usize,
    head: Vec<u8>,
    of: Option<CalledRequest>,
    snapshot: Option<Arc<Snapshot>>,
}

impl WorkerLink {
    /// A link whose thread reports to `to_core`.
    pub fn new(to_core: UnboundedSender<WorkerReport>) -> io::Result<WorkerLink> {
        let wake = rustix::event::eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(WorkerLink {
            wake,
            inbox: Mutex::default(),
            connections: Mutex::default(),
            call: Mutex::default(),
            to_core,
        })
    }

    // --- The core's side.

    /// Sends an order to the thread. Returns a connection that the thread cannot take.
    pub fn send(&self, order: WorkerOrder) -> Result<(), WorkerOrder> {
        let mut inbox = lock(&self.inbox);
        if inbox.is_closed && matches!(order, WorkerOrder::Arrive(_)) {
            return Err(order);
        }
        inbox.orders.push(order);
        drop(inbox);
        // If the counter is full, the thread was woken often enough.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        Ok(())
    }

    // --- The thread's side.

    /// The orders of the core.
    pub fn take_orders(&self) -> Vec<WorkerOrder> {
        let mut counter = [0u8; 8];
        // The read finds nothing if another wake-up was read before.
        let _ = rustix::io::read(&self.wake, &mut counter);
        std::mem::take(&mut lock(&self.inbox).orders)
    }

    /// Sets the configuration for further calls.
    pub fn apply_config(&self, snapshot: Arc<Snapshot>) {
        lock(&self.call).snapshot = Some(snapshot);
    }

    /// Adds a connection; the thread updates its count of requests.
    pub fn admit(&self, place: usize, socket: Arc<OwnedFd>, requests: Arc<AtomicU64>) {
        let mut connections = lock(&self.connections);
        if connections.len() <= place {
            connections.resize_with(place + 1, || None);
        }
        connections[place] = Some(MigratedConnection { socket, requests });
    }

    /// Removes a connection.
    pub fn leave(&self, place: usize) {
        if let Some(connection) = lock(&self.connections).get_mut(place) {
            *connection = None;
        }
    }

    /// Reports to the core.
    pub fn report(&self, report: WorkerReport) {
        // If the core has ended, the server has ended too.
        let _ = self.to_core.send(report);
    }

    /// A call begins, for the request with this head.
    pub fn begin_call(&self, place: usize, head: &[u8], of: CalledRequest) {
        let call = &mut *lock(&self.call);
        call.place = place;
        call.head.clear();
        call.head.extend_from_slice(head);
        call.of = Some(of);
    }

    /// The call has ended; `None` if all connections were sent back during it.
    pub fn end_call(&self) -> Option<CalledRequest> {
        lock(&self.call).of.take()
    }

    /// The thread can take connections again.
    pub fn open(&self) {
        lock(&self.inbox).is_closed = false;
    }

    /// Refuses further connections; returns the orders that the thread has not read.
    pub fn close(&self) -> Vec<WorkerOrder> {
        let mut inbox = lock(&self.inbox);
        inbox.is_closed = true;
        std::mem::take(&mut inbox.orders)
    }
}

impl ConnectionReturn for WorkerLink {
    fn return_connection(&self, under_way: CallUnderWay) {
        let mut call = lock(&self.call);
        let (Some(of), Some(snapshot)) = (call.of.take(), call.snapshot.clone()) else { return };
        let (place, head) = (call.place, std::mem::take(&mut call.head));
        let connections = std::mem::take(&mut *lock(&self.connections));
        let mut caller =
            Some((head, ReturnStep::AwaitCall(Box::new(PendingCall { snapshot, of, call: under_way }))));
        for (at, connection) in connections.into_iter().enumerate() {
            let Some(connection) = connection else { continue };
            let (input, to_do) =
                caller.take_if(|_| at == place).unwrap_or_else(|| (Vec::new(), ReturnStep::Serve));
            let requests = connection.requests.load(Ordering::Relaxed);
            self.report(match connection.socket.try_clone() {
                Ok(socket) => WorkerReport::ConnectionReturned(Box::new(ReturnedConnection {
                    place: at,
                    socket,
                    is_held: true,
                    requests,
                    input,
                    output: Vec::new(),
                    to_do,
                })),
                // No descriptor is left: the connection ends.
                Err(_) => WorkerReport::Ended(at),
            });
        }
        let mut inbox = lock(&self.inbox);
        inbox.is_closed = true;
        for order in inbox.orders.extract_if(.., |order| matches!(order, WorkerOrder::Arrive(_))) {
            if let WorkerOrder::Arrive(arrival) = order {
                self.report(arrival.return_connection());
            }
        }
    }
}

impl Arrival {
    /// Returns the connection to its core unchanged.
    pub fn return_connection(self) -> WorkerReport {
        let place = self.place;
        match Arc::into_inner(self.socket) {
            Some(socket) => WorkerReport::ConnectionReturned(Box::new(ReturnedConnection {
                place,
                socket,
                is_held: false,
                requests: self.requests,
                input: Vec::new(),
                output: Vec::new(),
                to_do: ReturnStep::Serve,
            })),
            None => WorkerReport::Ended(place),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
