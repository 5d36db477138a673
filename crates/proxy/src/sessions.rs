//! Connections to an origin that many requests share, each request with its own stream: what those of HTTP/2
//! and of HTTP/3 have in common.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, Notify};
use tokio::time::timeout;

use super::connections::ConnectionPermit;
use super::failure::Failure;

/// How often a request that waits for a stream asks again: an origin may allow another stream at any time.
const ROOM_INTERVAL: Duration = Duration::from_millis(20);

/// A connection that carries several requests at once.
pub trait Multiplexed {
    /// What one request needs of it.
    type Stream;

    /// Whether new requests may begin on it.
    fn is_usable(&self) -> bool;

    /// A stream for one more request beside those in progress; `None`: the origin allows no more now.
    fn try_open(&self, in_progress: usize) -> Option<Self::Stream>;
}

/// A core's connections of one version to one origin.
pub struct Sessions<C> {
    open: RefCell<Vec<Rc<Session<C>>>>,
    /// One request connects, while others that could use the same connection wait for it.
    pub connecting: Mutex<()>,
    /// The last attempt to connect that failed.
    failed: RefCell<Option<(Instant, Failure)>>,
    /// The origin has agreed to this version before.
    pub was_agreed_on: Cell<bool>,
    /// Notified when a request has ended.
    freed: Rc<Notify>,
}

/// One connection.
pub struct Session<C> {
    pub(super) connection: C,
    streams: Cell<usize>,
    pub(super) is_dead: Cell<bool>,
    used: Cell<Instant>,
    /// Requests that it has served.
    uses: Cell<u64>,
    /// The address that it is connected to, if the origin's address can change.
    address: Option<SocketAddr>,
}

/// A request on a connection, and its stream until the request takes it.
pub struct SessionUse<C: Multiplexed> {
    pub(super) session: Rc<Session<C>>,
    pub(super) stream: Option<C::Stream>,
    freed: Rc<Notify>,
}

impl<C: Multiplexed> Drop for SessionUse<C> {
    fn drop(&mut self) {
        self.session.streams.set(self.session.streams.get() - 1);
        self.session.used.set(Instant::now());
        self.freed.notify_one();
    }
}

impl<C> Default for Sessions<C> {
    fn default() -> Sessions<C> {
        Sessions {
            open: RefCell::default(),
            connecting: Mutex::default(),
            failed: RefCell::default(),
            was_agreed_on: Cell::default(),
            freed: Rc::default(),
        }
    }
}

impl<C: Multiplexed + 'static> Sessions<C> {
    /// A connection with room for a request.
    pub fn find(&self, most_uses: u64) -> Option<SessionUse<C>> {
        let mut open = self.open.borrow_mut();
        open.retain(|session| session.is_alive() && (most_uses == 0 || session.uses.get() < most_uses));
        open.iter().find_map(|session| {
            let stream = session.connection.try_open(session.streams.get())?;
            Some(self.begin_use(session, Some(stream)))
        })
    }

    /// Waits until a connection has room for a request.
    pub async fn room(&self, most_uses: u64) -> SessionUse<C> {
        loop {
            if let Some(session) = self.find(most_uses) {
                return session;
            }
            // A request that ends frees its stream at once, or when the origin says so.
            let _ = timeout(ROOM_INTERVAL, self.freed.notified()).await;
        }
    }

    /// Takes up a new connection for its first request. `driving` ends with the connection; until then the
    /// permit is kept.
    pub fn take_up(
        &self,
        connection: C,
        address: Option<SocketAddr>,
        permit: ConnectionPermit,
        driving: impl Future<Output = ()> + 'static,
    ) -> SessionUse<C> {
        let session = Rc::new(Session {
            connection,
            streams: Cell::new(0),
            is_dead: Cell::new(false),
            used: Cell::new(Instant::now()),
            uses: Cell::new(0),
            address,
        });
        let driven = Rc::downgrade(&session);
        tokio::task::spawn_local(async move {
            let _permit = permit;
            // Errors of the connection are reported to its requests.
            driving.await;
            if let Some(session) = driven.upgrade() {
                session.is_dead.set(true);
            }
        });
        self.open.borrow_mut().push(session.clone());
        self.was_agreed_on.set(true);
        self.begin_use(&session, None)
    }

    fn begin_use(&self, session: &Rc<Session<C>>, stream: Option<C::Stream>) -> SessionUse<C> {
        session.streams.set(session.streams.get() + 1);
        session.uses.set(session.uses.get() + 1);
        SessionUse { session: session.clone(), stream, freed: self.freed.clone() }
    }

    /// An attempt to connect has failed.
    pub fn note_failure(&self, failure: &Failure) {
        self.failed.replace(Some((Instant::now(), failure.duplicate())));
    }

    /// Why an attempt failed that ended after this time: a request that has waited for it does not wait as
    /// long again.
    pub fn failure_since(&self, time: Instant) -> Option<Failure> {
        let failed = self.failed.borrow();
        failed.as_ref().filter(|(at, _)| *at > time).map(|(_, failure)| failure.duplicate())
    }

    /// Drops connections that have been idle for too long, or are connected to a former address of the
    /// origin; the requests on them continue.
    pub fn close_idle(&self, keep_alive_timeout: Duration, leads_to_origin: impl Fn(SocketAddr) -> bool) {
        self.open.borrow_mut().retain(|session| {
            let is_used = session.streams.get() > 0 || session.used.get().elapsed() < keep_alive_timeout;
            is_used && session.is_alive() && session.address.is_none_or(&leads_to_origin)
        });
    }
}

impl<C: Multiplexed> Session<C> {
    fn is_alive(&self) -> bool {
        !self.is_dead.get() && self.connection.is_usable()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::{ConnectionRules, SharedConnections};

    /// A connection with so many streams, which may be leaving.
    struct Two(Rc<Cell<bool>>);

    impl Multiplexed for Two {
        type Stream = usize;

        fn is_usable(&self) -> bool {
            self.0.get()
        }

        fn try_open(&self, in_progress: usize) -> Option<usize> {
            (in_progress < 2).then_some(in_progress)
        }
    }

    fn permit() -> ConnectionPermit {
        let rules = ConnectionRules {
            keep_alive_timeout: Duration::from_secs(1),
            most_idle: 1,
            most_uses: 0,
            most_open: 0,
            most_waiting: 1,
            wait_timeout: Duration::from_secs(1),
        };
        SharedConnections::new(rules).extra_permit()
    }

    async fn in_local_set(work: impl Future<Output = ()>) {
        tokio::task::LocalSet::new().run_until(work).await;
    }

    #[tokio::test]
    async fn a_full_or_leaving_connection_is_not_found() {
        in_local_set(async {
            let (sessions, usable) = (Sessions::<Two>::default(), Rc::new(Cell::new(true)));
            assert!(sessions.find(0).is_none());
            let first = sessions.take_up(Two(usable.clone()), None, permit(), std::future::pending());
            let second = sessions.find(0).unwrap();
            assert_eq!(second.stream, Some(1));
            assert!(sessions.find(0).is_none());
            drop(second);
            assert!(sessions.find(0).is_some());
            // Used three times.
            assert!(sessions.find(3).is_none() && sessions.find(0).is_none());
            let again = sessions.take_up(Two(usable.clone()), None, permit(), std::future::pending());
            usable.set(false);
            assert!(sessions.find(0).is_none());
            drop((first, again));
        })
        .await;
    }

    #[tokio::test]
    async fn a_request_waits_for_room_and_not_twice_for_a_failure() {
        in_local_set(async {
            let sessions = Sessions::<Two>::default();
            let usable = Rc::new(Cell::new(true));
            let first = sessions.take_up(Two(usable), None, permit(), std::future::pending());
            let second = sessions.find(0);
            let waiting = sessions.room(0);
            let freeing = async {
                tokio::task::yield_now().await;
                drop(first);
            };
            let (found, ()) = tokio::join!(waiting, freeing);
            drop((found, second));
            let asked = Instant::now();
            assert!(sessions.failure_since(asked).is_none());
            tokio::time::sleep(Duration::from_millis(1)).await;
            sessions.note_failure(&Failure::Refused("x".to_string()));
            assert!(matches!(sessions.failure_since(asked), Some(Failure::Refused(_))));
            assert!(sessions.failure_since(Instant::now()).is_none());
        })
        .await;
    }
}
