//! The connections to one origin: pools of idle connections, the limit of open ones, and the requests that
//! wait for one.
//!
//! Each core keeps its idle connections in its own pool. If that is empty, it takes a connection from another
//! core's pool, which costs two system calls; a new connection costs three and a round trip. Limits apply to
//! all cores together.

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
    /// The most idle connections that each core keeps; 0: none. More are kept for a short time only.
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
    /// The pool of each core; the most recently used connections are at the back.
    pools: Box<[Mutex<VecDeque<Idle>>]>,
    open: Arc<OpenConnections>,
    waiting: AtomicUsize,
}

/// The open connections.
#[derive(Debug, Default)]
struct OpenConnections {
    count: AtomicUsize,
    /// Notified when a connection is closed or released.
    freed: Notify,
}

/// A connection that serves one request at a time.
#[derive(Debug)]
pub struct Connection {
    /// The stream of bytes.
    pub stream: Stream,
    /// Received bytes that are not processed yet; the buffer is reused.
    pub received: BytesMut,
    /// The address that it is connected to, if the origin's address can change.
    pub address: Option<SocketAddr>,
    /// The number of requests that it has served.
    pub uses: u64,
    _permit: ConnectionPermit,
}

/// The permit for one open connection; it is returned when it is dropped.
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

/// The result of [`SharedConnections::grant`].
pub enum ConnectionGrant {
    /// An idle connection.
    Idle(Box<Connection>),
    /// The permit for a new connection.
    New(ConnectionPermit),
}

impl SharedConnections {
    /// Makes the pools for these rules.
    pub fn new(rules: ConnectionRules) -> SharedConnections {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let pools = (0..cores).map(|_| Mutex::default()).collect();
        SharedConnections { rules, pools, open: Arc::default(), waiting: AtomicUsize::new(0) }
    }

    /// The number of open connections, and of those that are idle.
    pub fn counts(&self) -> (usize, usize) {
        let idle = self.pools.iter().map(|pool| lock(pool).len()).sum();
        (self.open.count.load(Relaxed), idle)
    }

    /// An idle connection or the permit for a new one, if available.
    fn try_grant(&self, core: usize, allow_idle: bool) -> Option<ConnectionGrant> {
        if allow_idle && let Some(connection) = self.take_idle(core) {
            return Some(ConnectionGrant::Idle(Box::new(connection)));
        }
        if let Some(permit) = self.try_permit() {
            return Some(ConnectionGrant::New(permit));
        }
        if !allow_idle && self.rules.most_open > 0 {
            // An idle connection is closed to free its permit.
            self.pools.iter().find_map(|pool| lock(pool).pop_front())?;
            return self.try_permit().map(ConnectionGrant::New);
        }
        None
    }

    fn try_permit(&self) -> Option<ConnectionPermit> {
        // Incremented before the comparison, so that two cores cannot both take the last permit.
        let before = self.open.count.fetch_add(1, Relaxed);
        if self.rules.most_open > 0 && before >= self.rules.most_open {
            self.open.count.fetch_sub(1, Relaxed);
            return None;
        }
        Some(ConnectionPermit { open: self.open.clone() })
    }

    /// A permit that ignores the limit, for an active check.
    pub fn extra_permit(&self) -> ConnectionPermit {
        self.open.count.fetch_add(1, Relaxed);
        ConnectionPermit { open: self.open.clone() }
    }

    /// An idle connection or the permit for a new one; waits if the limit is reached. The error says why
    /// there is none.
    pub async fn grant(&self, core: usize, allow_idle: bool) -> Result<ConnectionGrant, &'static str> {
        if let Some(grant) = self.try_grant(core, allow_idle) {
            return Ok(grant);
        }
        let _waiting = WaitingRequest::new(&self.waiting, self.rules.most_waiting)
            .ok_or("the limit of connections is reached, and too many requests wait for one")?;
        let grant = async {
            loop {
                let mut freed = pin!(self.open.freed.notified());
                // Registered before the check, so that no notification is missed.
                freed.as_mut().enable();
                if let Some(grant) = self.try_grant(core, allow_idle) {
                    return grant;
                }
                freed.await;
            }
        };
        let grant = tokio::time::timeout(self.rules.wait_timeout, grant).await;
        grant.map_err(|_| "no connection became available in time")
    }

    /// An idle connection of this core. Those of other cores are not taken: one that has just moved here does
    /// not accept bytes before the event loop has looked at it.
    pub fn take_own_idle(&self, core: usize) -> Option<Connection> {
        self.take_idle_of(core, 1)
    }

    fn take_idle(&self, core: usize) -> Option<Connection> {
        self.take_idle_of(core, self.pools.len())
    }

    /// An idle connection of this many cores, this one first.
    fn take_idle_of(&self, core: usize, cores: usize) -> Option<Connection> {
        for step in 0..cores {
            let pool = &self.pools[(core + step) % self.pools.len()];
            loop {
                // The most recently used one, so that the others can reach their timeout.
                let Some(idle) = lock(pool).pop_back() else { break };
                let is_fresh = idle.since.elapsed() < self.rules.keep_alive_timeout;
                if let Some(connection) = is_fresh.then(|| idle.into_usable(core)).flatten() {
                    return Some(connection);
                }
            }
        }
        None
    }

    /// Adds a connection whose request is complete to the core's pool, unless it is closed by the rules.
    pub fn release(&self, core: usize, mut connection: Connection) {
        connection.uses += 1;
        let is_at_limit = self.rules.most_uses > 0 && connection.uses >= self.rules.most_uses;
        if self.rules.most_idle == 0 || is_at_limit || !connection.received.is_empty() {
            return;
        }
        let idle = Idle { connection, since: Instant::now(), core };
        let surplus = {
            let mut pool = lock(&self.pools[core % self.pools.len()]);
            pool.push_back(idle);
            self.take_surplus(&mut pool)
        };
        // Dropped outside the lock, because closing a socket takes a system call.
        drop(surplus);
        if self.waiting.load(Relaxed) > 0 {
            self.open.freed.notify_one();
        }
    }

    /// Removes the oldest connection if the pool exceeds its limit, and the connection has been idle for at
    /// least [`SURPLUS_STAYS`].
    fn take_surplus(&self, pool: &mut VecDeque<Idle>) -> Option<Idle> {
        let is_surplus = pool.len() > self.rules.most_idle
            && pool.front().is_some_and(|oldest| oldest.since.elapsed() >= SURPLUS_STAYS);
        if is_surplus { pool.pop_front() } else { None }
    }

    /// Closes idle connections of a core that are too old, too many, closed by the origin, or connected to an
    /// address that the origin no longer has.
    pub fn close_idle(&self, core: usize, is_current_address: impl Fn(SocketAddr) -> bool) {
        let mut pool = lock(&self.pools[core % self.pools.len()]);
        pool.retain(|idle| {
            idle.since.elapsed() < self.rules.keep_alive_timeout
                && idle.connection.address.is_none_or(&is_current_address)
                && idle.connection.stream.is_quiet()
        });
        while self.take_surplus(&mut pool).is_some() {}
    }

    /// Closes all idle connections.
    pub fn clear(&self) {
        for pool in &self.pools {
            let closed = std::mem::take(&mut *lock(pool));
            drop(closed);
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
    /// Moves the connection to this core; `None` if it is not usable.
    fn into_usable(self, core: usize) -> Option<Connection> {
        let mut connection = self.connection;
        if self.core != core {
            connection.stream = connection.stream.moved_here().ok()?;
            return connection.stream.is_quiet().then_some(connection);
        }
        connection.stream.seems_quiet().then_some(connection)
    }
}

/// Counts a waiting request until it is dropped.
struct WaitingRequest<'s> {
    count: &'s AtomicUsize,
}

impl WaitingRequest<'_> {
    fn new(count: &AtomicUsize, most: usize) -> Option<WaitingRequest<'_>> {
        let waiting = WaitingRequest { count };
        // Incremented before the comparison, so that two cores cannot both take the last place.
        (count.fetch_add(1, Relaxed) < most).then_some(waiting)
    }
}

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Relaxed);
    }
}

/// Locks a mutex. A poisoned lock is still valid, because no code panics while it holds the lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
