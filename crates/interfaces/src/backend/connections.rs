//! The connections of a core to one backend: kept connections, new ones up to a limit, and the requests that
//! wait for one.
//!
//! Most programs serve one connection at a time in each of their processes, so a kept connection occupies a
//! process. If connections are limited, the limit therefore counts those of all cores, and a core that waits
//! makes the others close idle ones. If there are more connections than processes, a new connection waits in
//! the program's queue although it seems to be accepted. So when a request on a new connection gets no answer
//! for a moment, a kept connection is closed, see [`Connections::request_close`]. In the usual case nothing
//! is shared: a kept connection is taken and given back on its own core.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use rustix::time::{ClockId, Timespec, clock_gettime};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Sleep;

use super::address::Address;
use touchstone_upstream::core_local::CoreLocal;
use touchstone_upstream::stream::{SURPLUS_STAYS, Stream};

/// While other cores wait, a connection serves at most this many requests of this core in a row before it is
/// abandoned.
const TURNS: u32 = 16;

/// How often idle connections are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The pause before the next attempt after a program's queue was full.
const FULL_QUEUE_PAUSE: Duration = Duration::from_millis(5);

/// How connections are kept and limited.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConnectionRules {
    /// Whether a connection serves more than one request.
    pub keep: bool,
    /// The most open connections, counted over all cores; 0: any number.
    pub most: usize,
    /// The most waiting requests, counted over all cores.
    pub most_waiting: usize,
    /// How long a request waits for a connection.
    pub wait_timeout: Duration,
    /// The most idle connections on a core that are kept for longer than a moment; 0: no idle connection is
    /// kept.
    pub most_idle: usize,
    /// How long an idle connection is kept.
    pub idle_timeout: Duration,
    /// How many requests a connection serves; 0: any number.
    pub most_requests: u64,
    /// The time limit for opening a connection.
    pub connect_timeout: Duration,
}

/// The part of a backend's connections that all cores share.
#[derive(Debug)]
pub struct SharedConnections {
    permits: Option<Arc<Semaphore>>,
    waiting: AtomicUsize,
    close_requests: Arc<CloseRequests>,
}

/// Shared by all connections to an address, whatever their rules are.
#[derive(Debug, Default)]
struct CloseRequests {
    /// How many times the close of a kept connection was requested, because its process may be needed for a
    /// new one.
    requested: AtomicU64,
    /// How many of these requests were fulfilled or withdrawn.
    served: AtomicU64,
    /// One for each core that may have idle connections.
    holders: Mutex<Vec<Arc<Notify>>>,
}

impl SharedConnections {
    /// For connections under these rules. `others`: the connections to the same address under other rules.
    pub fn new(rules: &ConnectionRules, others: Option<&SharedConnections>) -> SharedConnections {
        let permits =
            (rules.most > 0).then(|| Arc::new(Semaphore::new(rules.most.min(Semaphore::MAX_PERMITS))));
        let close_requests = others.map(|others| others.close_requests.clone()).unwrap_or_default();
        SharedConnections { permits, waiting: AtomicUsize::new(0), close_requests }
    }
}

impl CloseRequests {
    /// Whether the caller must close a kept connection.
    fn serve(&self) -> bool {
        let requested = self.requested.load(Relaxed);
        let serve = |served| (served < requested).then_some(served + 1);
        self.served.load(Relaxed) < requested && self.served.fetch_update(Relaxed, Relaxed, serve).is_ok()
    }

    fn holders(&self) -> MutexGuard<'_, Vec<Arc<Notify>>> {
        // No code that holds the lock can panic, so a poisoned lock is still valid.
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_holders(&self) {
        for holder in self.holders().iter() {
            holder.notify_one();
        }
    }
}

/// A connection that serves one request at a time.
#[derive(Debug)]
pub struct Connection {
    /// What carries the bytes.
    pub stream: Stream,
    /// Received and unprocessed bytes; the buffer is kept for its memory.
    pub received: BytesMut,
    /// Requests that it has served.
    pub requests: u64,
    /// The timer of its requests. It is kept because it rarely fires.
    pub timer: Option<Pin<Box<Sleep>>>,
    _permit: Option<OwnedSemaphorePermit>,
}

/// Why there is no connection.
#[derive(Debug)]
pub enum NoConnection {
    /// The backend cannot be reached.
    Unreachable(std::io::Error),
    /// It accepts connections, but does not answer on them.
    Silent,
    /// All connections are in use, and too many requests wait.
    Full,
    /// All connections were in use for too long, or the program took no new one for too long.
    WaitedTooLong,
}

thread_local! {
    static OF_CORE: CoreLocal<SharedConnections, Connections> = const { CoreLocal::new() };
}

/// The connections of this core.
pub struct Connections {
    address: Address,
    rules: ConnectionRules,
    shared: Arc<SharedConnections>,
    idle: RefCell<Vec<Idle>>,
    /// Requests of this core that wait for a connection.
    waiting: RefCell<VecDeque<oneshot::Sender<Connection>>>,
    turns: Cell<u32>,
    notify: Arc<Notify>,
}

struct Idle {
    connection: Connection,
    /// From the cheapest clock, which is late by some milliseconds.
    since: Timespec,
}

impl Idle {
    fn new(connection: Connection) -> Idle {
        Idle { connection, since: clock_gettime(ClockId::MonotonicCoarse) }
    }

    fn age(&self) -> Duration {
        Duration::try_from(clock_gettime(ClockId::MonotonicCoarse) - self.since).unwrap_or_default()
    }
}

impl Connections {
    /// The connections of this core, shared by all routes. Must be called on the core.
    pub fn of_core(
        address: &Address,
        rules: &ConnectionRules,
        shared: &Arc<SharedConnections>,
    ) -> Rc<Connections> {
        OF_CORE.with(|connections| connections.get(shared, || Connections::new(address, rules, shared)))
    }

    /// Idle connections are checked from time to time.
    fn new(address: &Address, rules: &ConnectionRules, shared: &Arc<SharedConnections>) -> Rc<Connections> {
        let connections = Rc::new(Connections {
            address: address.clone(),
            rules: rules.clone(),
            shared: shared.clone(),
            idle: RefCell::default(),
            waiting: RefCell::default(),
            turns: Cell::new(0),
            notify: Arc::new(Notify::new()),
        });
        if connections.rules.keep {
            let holder = connections.notify.clone();
            connections.shared.close_requests.holders().push(holder.clone());
            tokio::task::spawn_local(check_idle(Rc::downgrade(&connections), holder));
        }
        connections
    }

    /// The backend's address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// A kept connection that seems usable, and how long it was idle.
    pub fn take_kept(&self) -> Option<(Connection, Duration)> {
        loop {
            // The one used last, so that the others can reach their idle timeout.
            let idle = self.idle.borrow_mut().pop()?;
            let idle_for = idle.age();
            if idle_for < self.rules.idle_timeout && idle.connection.stream.seems_quiet() {
                return Some((idle.connection, idle_for));
            }
        }
    }

    /// Closes all idle connections of this core.
    pub fn close_kept(&self) {
        self.idle.borrow_mut().clear();
    }

    /// A new connection; waits for its turn if all are in use. The flag is set if a kept connection became
    /// free instead.
    pub async fn open(&self) -> Result<(Connection, bool), NoConnection> {
        let permit = match &self.shared.permits {
            None => None,
            Some(permits) => loop {
                if let Ok(permit) = permits.clone().try_acquire_owned() {
                    break Some(permit);
                }
                match self.wait(permits.clone()).await? {
                    ConnectionGrant::Permit(permit) => break Some(permit),
                    // Some programs close a connection after a number of requests.
                    ConnectionGrant::Kept(connection) if !connection.stream.is_quiet() => {}
                    ConnectionGrant::Kept(connection) => return Ok((connection, true)),
                }
            },
        };
        let connected = tokio::time::timeout(self.rules.connect_timeout, self.connect()).await;
        let stream = connected.unwrap_or(Err(NoConnection::WaitedTooLong))?;
        Ok((
            Connection { stream, received: BytesMut::new(), requests: 0, timer: None, _permit: permit },
            false,
        ))
    }

    async fn connect(&self) -> Result<Stream, NoConnection> {
        let mut close_request = None;
        loop {
            match self.address.connect().await {
                // The queue of a unix socket is full: the program is busy, but alive.
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    close_request = close_request.or_else(|| self.rules.keep.then(|| self.request_close()));
                    tokio::time::sleep(FULL_QUEUE_PAUSE).await;
                }
                result => return result.map_err(NoConnection::Unreachable),
            }
        }
    }

    /// Whether a connection may serve more than one request.
    pub fn keeps(&self) -> bool {
        self.rules.keep
    }

    /// Called when a request on a new connection has waited for its answer. The program may be slow, or kept
    /// connections occupy all its processes: the next idle one is closed, unless the answer begins before.
    pub fn request_close(&self) -> CloseIdleRequest {
        let close_requests = self.shared.close_requests.clone();
        let ticket = close_requests.requested.fetch_add(1, Relaxed) + 1;
        close_requests.wake_holders();
        CloseIdleRequest { close_requests, ticket }
    }

    /// Takes back a connection whose request is complete.
    pub fn release(&self, mut connection: Connection) {
        connection.requests += 1;
        let is_used_up = self.rules.most_requests > 0 && connection.requests >= self.rules.most_requests;
        if !self.rules.keep || is_used_up || !connection.received.is_empty() {
            return;
        }
        if self.shared.close_requests.serve() {
            return;
        }
        let waiting_here = self.waiting.borrow().len();
        let waiting_elsewhere = self.shared.waiting.load(Relaxed) > waiting_here;
        if waiting_elsewhere && (waiting_here == 0 || self.turns.replace(self.turns.get() + 1) >= TURNS) {
            self.turns.set(0);
            return;
        }
        // A request that has stopped waiting returns it.
        while let Some(waiter) = { self.waiting.borrow_mut().pop_front() } {
            match waiter.send(connection) {
                Ok(()) => return,
                Err(back) => connection = back,
            }
        }
        if self.rules.most_idle > 0 {
            self.idle.borrow_mut().push(Idle::new(connection));
        }
    }

    async fn wait(&self, permits: Arc<Semaphore>) -> Result<ConnectionGrant, NoConnection> {
        let _waiting =
            WaitingRequest::new(&self.shared, self.rules.most_waiting).ok_or(NoConnection::Full)?;
        let (sender, receiver) = oneshot::channel();
        self.waiting.borrow_mut().push_back(sender);
        self.shared.close_requests.wake_holders();
        let grant = async {
            tokio::select! {
                biased;
                kept = receiver => match kept {
                    Ok(connection) => Ok(ConnectionGrant::Kept(connection)),
                    Err(_) => Err(NoConnection::Full),
                },
                permit = permits.acquire_owned() => match permit {
                    Ok(permit) => Ok(ConnectionGrant::Permit(permit)),
                    // The semaphore is never closed.
                    Err(_) => Err(NoConnection::Full),
                },
            }
        };
        let result = tokio::time::timeout(self.rules.wait_timeout, grant).await;
        // Removes the requests that have stopped waiting.
        self.waiting.borrow_mut().retain(|waiter| !waiter.is_closed());
        result.unwrap_or(Err(NoConnection::WaitedTooLong))
    }

    /// Closes idle connections that are too old, too many, closed by the program, or needed elsewhere.
    fn close_idle(&self) {
        let wanted = self.shared.waiting.load(Relaxed).saturating_sub(self.waiting.borrow().len());
        let mut idle = self.idle.borrow_mut();
        idle.retain(|idle| idle.age() < self.rules.idle_timeout && idle.connection.stream.is_quiet());
        // The oldest are first.
        let too_many = idle.len().saturating_sub(self.rules.most_idle);
        let surplus = idle[..too_many].iter().take_while(|idle| idle.age() >= SURPLUS_STAYS).count();
        let abandoned = wanted.max(surplus).min(idle.len());
        idle.drain(..abandoned);
        while !idle.is_empty() && self.shared.close_requests.serve() {
            idle.remove(0);
        }
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        self.shared.close_requests.holders().retain(|holder| !Arc::ptr_eq(holder, &self.notify));
        self.notify.notify_one();
    }
}

/// A kept connection should be closed for a waiting request, until this is dropped.
pub struct CloseIdleRequest {
    close_requests: Arc<CloseRequests>,
    ticket: u64,
}

impl Drop for CloseIdleRequest {
    fn drop(&mut self) {
        // Programs accept connections in order, so requests are mostly fulfilled in order too.
        let cancel = |served| (served < self.ticket).then_some(served + 1);
        let _ = self.close_requests.served.fetch_update(Relaxed, Relaxed, cancel);
    }
}

enum ConnectionGrant {
    Permit(OwnedSemaphorePermit),
    Kept(Connection),
}

/// Counts a waiting request until it is dropped.
struct WaitingRequest<'s> {
    shared: &'s SharedConnections,
}

impl WaitingRequest<'_> {
    fn new(shared: &SharedConnections, most: usize) -> Option<WaitingRequest<'_>> {
        let waiting = WaitingRequest { shared };
        // Counted first, so that two cores cannot both take the last place.
        (shared.waiting.fetch_add(1, Relaxed) < most).then_some(waiting)
    }
}

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        self.shared.waiting.fetch_sub(1, Relaxed);
    }
}

async fn check_idle(connections: Weak<Connections>, notify: Arc<Notify>) {
    loop {
        match connections.upgrade() {
            None => return,
            Some(connections) => connections.close_idle(),
        }
        // Either a request waits, or the interval is over.
        let _ = tokio::time::timeout(CHECK_INTERVAL, notify.notified()).await;
    }
}
