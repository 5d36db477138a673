//! The connections to one origin: kept ones, new ones up to a limit, and the requests that wait for one.
//!
//! Each core keeps its connections in its own shelf, and takes from there first. If its shelf is empty, it
//! takes a connection from another core's shelf, which costs two system calls; a new connection costs three
//! and a round trip. Limits count all cores together.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::sync::Notify;

use touchstone_upstream::stream::{SURPLUS_STAYS, Stream};

/// How connections are kept and limited.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConnectionRules {
    /// How long a connection without a request is kept.
    pub keep_alive_timeout: Duration,
    /// How many idle connections each core keeps for longer than a moment; 0: none.
    pub most_idle: usize,
    /// How many requests a connection serves; 0: any number.
    pub most_uses: u64,
    /// The most open connections, counted over all cores; 0: any number.
    pub most_open: usize,
    /// The most requests that wait for a connection, counted over all cores.
    pub most_waiting: usize,
    /// How long a request waits for a connection.
    pub wait_timeout: Duration,
}

/// The connections to an origin, of all cores.
#[derive(Debug)]
pub struct SharedConnections {
    rules: ConnectionRules,
    /// One shelf for each core; connections used last are at the back.
    shelves: Box<[Mutex<VecDeque<Idle>>]>,
    open: Arc<OpenConnections>,
    waiting: AtomicUsize,
}

/// How many there are.
#[derive(Debug, Default)]
struct OpenConnections {
    count: AtomicUsize,
    /// Notified when a connection was closed or given back.
    freed: Notify,
}

/// A connection that serves one request at a time.
#[derive(Debug)]
pub struct Connection {
    /// What carries the bytes.
    pub stream: Stream,
    /// Received and unprocessed bytes; the buffer is kept for its memory.
    pub received: BytesMut,
    /// The address that it is connected to, if the origin's address can change.
    pub address: Option<SocketAddr>,
    /// Requests that it has served.
    pub uses: u64,
    _permit: ConnectionPermit,
}

/// The permission to have one connection open; dropping it gives it back.
#[derive(Debug)]
pub struct ConnectionPermit {
    open: Arc<OpenConnections>,
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.open.count.fetch_sub(1, Relaxed);
        self.open.freed.notify_one();
    }
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: Instant,
    core: usize,
}

/// What a request gets when a connection is available for it.
pub enum ConnectionGrant {
    /// A kept connection.
    Kept(Box<Connection>),
    /// The permission to open a new connection.
    New(ConnectionPermit),
}

impl SharedConnections {
    /// Connections under these rules.
    pub fn new(rules: ConnectionRules) -> SharedConnections {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let shelves = (0..cores).map(|_| Mutex::default()).collect();
        SharedConnections { rules, shelves, open: Arc::default(), waiting: AtomicUsize::new(0) }
    }

    /// How many are open, and how many of them are idle.
    pub fn counts(&self) -> (usize, usize) {
        let idle = self.shelves.iter().map(|shelf| lock(shelf).len()).sum();
        (self.open.count.load(Relaxed), idle)
    }

    /// A kept connection or the permit for a new one, if available.
    fn try_grant(&self, core: usize, wants_kept: bool) -> Option<ConnectionGrant> {
        if wants_kept && let Some(connection) = self.take_kept(core) {
            return Some(ConnectionGrant::Kept(Box::new(connection)));
        }
        if let Some(permit) = self.try_permit() {
            return Some(ConnectionGrant::New(permit));
        }
        if !wants_kept && self.rules.most_open > 0 {
            // An idle connection is closed to free its permit.
            self.shelves.iter().find_map(|shelf| lock(shelf).pop_front())?;
            return self.try_permit().map(ConnectionGrant::New);
        }
        None
    }

    fn try_permit(&self) -> Option<ConnectionPermit> {
        // Counted first, so that two cores cannot both take the last permit.
        let before = self.open.count.fetch_add(1, Relaxed);
        if self.rules.most_open > 0 && before >= self.rules.most_open {
            self.open.count.fetch_sub(1, Relaxed);
            return None;
        }
        Some(ConnectionPermit { open: self.open.clone() })
    }

    /// A permit beyond the limit: for a connection that checks the origin.
    pub fn extra_permit(&self) -> ConnectionPermit {
        self.open.count.fetch_add(1, Relaxed);
        ConnectionPermit { open: self.open.clone() }
    }

    /// A kept connection or the permit for a new one; waits if all are in use. The error says why there is
    /// none.
    pub async fn grant(&self, core: usize, wants_kept: bool) -> Result<ConnectionGrant, &'static str> {
        if let Some(grant) = self.try_grant(core, wants_kept) {
            return Ok(grant);
        }
        let _waiting = Waiting::new(&self.waiting, self.rules.most_waiting)
            .ok_or("all connections are in use, and too many requests wait for one")?;
        let grant = async {
            loop {
                let mut freed = pin!(self.open.freed.notified());
                // Registered before looking, so that a connection that becomes free meanwhile is not missed.
                freed.as_mut().enable();
                if let Some(grant) = self.try_grant(core, wants_kept) {
                    return grant;
                }
                freed.await;
            }
        };
        let grant = tokio::time::timeout(self.rules.wait_timeout, grant).await;
        grant.map_err(|_| "all connections were in use for too long")
    }

    fn take_kept(&self, core: usize) -> Option<Connection> {
        let count = self.shelves.len();
        for step in 0..count {
            let shelf = &self.shelves[(core + step) % count];
            loop {
                // The one used last, so that the others can reach their timeout.
                let Some(idle) = lock(shelf).pop_back() else { break };
                let is_fresh = idle.since.elapsed() < self.rules.keep_alive_timeout;
                if let Some(connection) = is_fresh.then(|| idle.on(core)).flatten() {
                    return Some(connection);
                }
            }
        }
        None
    }

    /// Takes back a connection whose request is complete.
    pub fn give_back(&self, core: usize, mut connection: Connection) {
        connection.uses += 1;
        let is_used_up = self.rules.most_uses > 0 && connection.uses >= self.rules.most_uses;
        if self.rules.most_idle == 0 || is_used_up || !connection.received.is_empty() {
            return;
        }
        let idle = Idle { connection, since: Instant::now(), core };
        let surplus = {
            let mut shelf = lock(&self.shelves[core % self.shelves.len()]);
            shelf.push_back(idle);
            self.surplus(&mut shelf)
        };
        // Closed here, because closing takes a system call and must not happen under the lock.
        drop(surplus);
        if self.waiting.load(Relaxed) > 0 {
            self.open.freed.notify_one();
        }
    }

    /// The oldest connection above the limit, once it has been idle for a moment.
    fn surplus(&self, shelf: &mut VecDeque<Idle>) -> Option<Idle> {
        let is_surplus = shelf.len() > self.rules.most_idle
            && shelf.front().is_some_and(|oldest| oldest.since.elapsed() >= SURPLUS_STAYS);
        if is_surplus { shelf.pop_front() } else { None }
    }

    /// Closes connections of a core that are too old, too many, closed by the origin, or connected to a
    /// former address of the origin.
    pub fn close_idle(&self, core: usize, leads_to_origin: impl Fn(SocketAddr) -> bool) {
        let mut shelf = lock(&self.shelves[core % self.shelves.len()]);
        shelf.retain(|idle| {
            idle.since.elapsed() < self.rules.keep_alive_timeout
                && idle.connection.address.is_none_or(&leads_to_origin)
                && idle.connection.stream.is_quiet()
        });
        while self.surplus(&mut shelf).is_some() {}
    }

    /// Closes all idle connections.
    pub fn clear(&self) {
        for shelf in &self.shelves {
            let gone = std::mem::take(&mut *lock(shelf));
            drop(gone);
        }
    }
}

impl Connection {
    /// A new connection.
    pub fn new(stream: Stream, address: Option<SocketAddr>, permit: ConnectionPermit) -> Connection {
        Connection { stream, received: BytesMut::new(), address, uses: 0, _permit: permit }
    }
}

impl Idle {
    /// The connection on this core, if it seems usable.
    fn on(self, core: usize) -> Option<Connection> {
        let mut connection = self.connection;
        if self.core != core {
            connection.stream = connection.stream.moved_here().ok()?;
            return connection.stream.is_quiet().then_some(connection);
        }
        connection.stream.seems_quiet().then_some(connection)
    }
}

/// Counts a waiting request until it is dropped.
struct Waiting<'s> {
    count: &'s AtomicUsize,
}

impl Waiting<'_> {
    fn new(count: &AtomicUsize, most: usize) -> Option<Waiting<'_>> {
        let waiting = Waiting { count };
        // Counted first, so that two cores cannot both take the last permit.
        (count.fetch_add(1, Relaxed) < most).then_some(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Relaxed);
    }
}

/// No code that holds the lock can panic, so a poisoned lock is still valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
