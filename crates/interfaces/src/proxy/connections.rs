//! The connections to one origin: kept ones, new ones up to a limit, and who waits for one.
//!
//! Each core keeps what it has used in a shelf of its own, and takes from there first; a core whose shelf is
//! empty takes from another's, which costs two system calls where a new connection costs three and a way
//! through the network. Limits are those of all cores together.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::sync::Notify;

use crate::stream::{SURPLUS_STAYS, Stream};

/// How connections are kept and limited.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConnectionRules {
    /// How long a connection without a request is kept.
    pub keep_alive_timeout: Duration,
    /// How many such connections each core keeps for longer than a moment; 0: none at all.
    pub most_idle: usize,
    /// How many requests one serves; 0: any number.
    pub most_uses: u64,
    /// The most open at a time, of all cores; 0: any number.
    pub most_open: usize,
    /// The most requests that wait for one, of all cores.
    pub most_waiting: usize,
    /// How long one waits for one.
    pub wait_timeout: Duration,
}

/// The connections to an origin, of all cores.
#[derive(Debug)]
pub struct SharedConnections {
    rules: ConnectionRules,
    /// One for each core; those used last are at the back.
    shelves: Box<[Mutex<VecDeque<Idle>>]>,
    open: Arc<OpenConnections>,
    waiting: AtomicUsize,
}

/// How many there are.
#[derive(Debug, Default)]
struct OpenConnections {
    count: AtomicUsize,
    /// Told when one was closed or given back.
    freed: Notify,
}

/// A connection that serves one request at a time.
#[derive(Debug)]
pub struct Connection {
    /// What carries the bytes.
    pub stream: Stream,
    /// Received and not looked at; kept for its memory.
    pub received: BytesMut,
    /// The address that it leads to, where that may change.
    pub address: Option<SocketAddr>,
    /// Requests that it has served.
    pub uses: u64,
    _place: Place,
}

/// One of the places for open connections; it becomes free when it is dropped.
#[derive(Debug)]
pub struct Place {
    open: Arc<OpenConnections>,
}

impl Drop for Place {
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

/// What a request gets.
pub enum Turn {
    /// A kept connection.
    Kept(Box<Connection>),
    /// Room for a new one.
    New(Place),
}

impl SharedConnections {
    /// For connections under these rules.
    pub fn new(rules: ConnectionRules) -> SharedConnections {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let shelves = (0..cores).map(|_| Mutex::default()).collect();
        SharedConnections { rules, shelves, open: Arc::default(), waiting: AtomicUsize::new(0) }
    }

    /// How many are open, and how many of them have no request.
    pub fn counts(&self) -> (usize, usize) {
        let idle = self.shelves.iter().map(|shelf| lock(shelf).len()).sum();
        (self.open.count.load(Relaxed), idle)
    }

    /// A kept connection or room for a new one, if there is either.
    fn try_turn(&self, core: usize, wants_kept: bool) -> Option<Turn> {
        if wants_kept && let Some(connection) = self.take_kept(core) {
            return Some(Turn::Kept(Box::new(connection)));
        }
        if let Some(place) = self.try_place() {
            return Some(Turn::New(place));
        }
        if !wants_kept && self.rules.most_open > 0 {
            // One that has nothing to do makes room.
            self.shelves.iter().find_map(|shelf| lock(shelf).pop_front())?;
            return self.try_place().map(Turn::New);
        }
        None
    }

    fn try_place(&self) -> Option<Place> {
        // Counted first, so that two cores cannot both take the last place.
        let before = self.open.count.fetch_add(1, Relaxed);
        if self.rules.most_open > 0 && before >= self.rules.most_open {
            self.open.count.fetch_sub(1, Relaxed);
            return None;
        }
        Some(Place { open: self.open.clone() })
    }

    /// Room for a connection beyond the limit: for one that says whether the origin is well.
    pub fn extra_place(&self) -> Place {
        self.open.count.fetch_add(1, Relaxed);
        Place { open: self.open.clone() }
    }

    /// A kept connection or room for a new one; waits where all are in use. The error says why there is none.
    pub async fn turn(&self, core: usize, wants_kept: bool) -> Result<Turn, &'static str> {
        if let Some(turn) = self.try_turn(core, wants_kept) {
            return Ok(turn);
        }
        let _waiting = Waiting::new(&self.waiting, self.rules.most_waiting)
            .ok_or("all connections are in use, and too many requests wait for one")?;
        let turn = async {
            loop {
                let mut freed = pin!(self.open.freed.notified());
                // Counted as waiting before looking, so that what becomes free meanwhile is not missed.
                freed.as_mut().enable();
                if let Some(turn) = self.try_turn(core, wants_kept) {
                    return turn;
                }
                freed.await;
            }
        };
        let turn = tokio::time::timeout(self.rules.wait_timeout, turn).await;
        turn.map_err(|_| "all connections were in use for too long")
    }

    fn take_kept(&self, core: usize) -> Option<Connection> {
        let count = self.shelves.len();
        for step in 0..count {
            let shelf = &self.shelves[(core + step) % count];
            loop {
                // The one used last: the others may become too old.
                let Some(idle) = lock(shelf).pop_back() else { break };
                let is_fresh = idle.since.elapsed() < self.rules.keep_alive_timeout;
                if let Some(connection) = is_fresh.then(|| idle.on(core)).flatten() {
                    return Some(connection);
                }
            }
        }
        None
    }

    /// Takes back a connection whose request is done.
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
        // Closing takes a system call, and no lock.
        drop(surplus);
        if self.waiting.load(Relaxed) > 0 {
            self.open.freed.notify_one();
        }
    }

    /// The oldest of too many, once it has been idle for a moment.
    fn surplus(&self, shelf: &mut VecDeque<Idle>) -> Option<Idle> {
        let is_surplus = shelf.len() > self.rules.most_idle
            && shelf.front().is_some_and(|oldest| oldest.since.elapsed() >= SURPLUS_STAYS);
        if is_surplus { shelf.pop_front() } else { None }
    }

    /// Closes connections of a core that are too old, too many, closed by the origin, or lead to where it no
    /// longer is.
    pub fn look(&self, core: usize, leads_to_origin: impl Fn(SocketAddr) -> bool) {
        let mut shelf = lock(&self.shelves[core % self.shelves.len()]);
        shelf.retain(|idle| {
            idle.since.elapsed() < self.rules.keep_alive_timeout
                && idle.connection.address.is_none_or(&leads_to_origin)
                && idle.connection.stream.is_quiet()
        });
        while self.surplus(&mut shelf).is_some() {}
    }

    /// Closes all that have no request.
    pub fn clear(&self) {
        for shelf in &self.shelves {
            let gone = std::mem::take(&mut *lock(shelf));
            drop(gone);
        }
    }
}

impl Connection {
    /// A new connection.
    pub fn new(stream: Stream, address: Option<SocketAddr>, place: Place) -> Connection {
        Connection { stream, received: BytesMut::new(), address, uses: 0, _place: place }
    }
}

impl Idle {
    /// The connection on this core, if it is good as far as can be seen.
    fn on(self, core: usize) -> Option<Connection> {
        let mut connection = self.connection;
        if self.core != core {
            connection.stream = connection.stream.moved_here().ok()?;
            return connection.stream.is_quiet().then_some(connection);
        }
        connection.stream.seems_quiet().then_some(connection)
    }
}

/// One that waits, counted as long as it does.
struct Waiting<'s> {
    count: &'s AtomicUsize,
}

impl Waiting<'_> {
    fn new(count: &AtomicUsize, most: usize) -> Option<Waiting<'_>> {
        let waiting = Waiting { count };
        // Counted first, so that two cores cannot both take the last place.
        (count.fetch_add(1, Relaxed) < most).then_some(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Relaxed);
    }
}

/// No code that holds the lock can panic, so a poisoned one is as good as any.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
