//! Connections to an origin that several requests share, each request with its own stream. This module is
//! common to HTTP/2 and HTTP/3.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, Notify};
use tokio::time::timeout;

use super::connections::ConnectionPermit;
use super::failure::Failure;

/// How often a request that waits for a stream tries again: an origin may allow another stream at any time.
const STREAM_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// A connection that carries several requests at once.
pub trait Multiplexed {
    /// The stream of one request.
    type Stream;

    /// Whether it accepts new requests.
    fn is_usable(&self) -> bool;

    /// Opens a stream for a request, while this many are in progress; `None`: the origin allows no more now.
    fn try_open(&self, in_progress: usize) -> Option<Self::Stream>;
}

/// A core's connections of one version to one origin.
pub struct Sessions<C> {
    open: RefCell<Vec<Rc<Session<C>>>>,
    /// Held by the request that connects; other requests that could use the connection wait for it.
    pub connecting: Mutex<()>,
    /// The last attempt to connect that failed.
    failed: RefCell<Option<(Instant, Failure)>>,
    /// The origin has negotiated this version before.
    pub was_negotiated: Cell<bool>,
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

/// The use of a connection by one request, with its stream until the request takes it.
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
            was_negotiated: Cell::default(),
            freed: Rc::default(),
        }
    }
}

impl<C: Multiplexed + 'static> Sessions<C> {
    /// Finds a connection with a free stream.
    pub fn find(&self, most_uses: u64) -> Option<SessionUse<C>> {
        let mut open = self.open.borrow_mut();
        open.retain(|session| session.is_alive() && (most_uses == 0 || session.uses.get() < most_uses));
        open.iter().find_map(|session| {
            let stream = session.connection.try_open(session.streams.get())?;
            Some(self.begin_use(session, Some(stream)))
        })
    }

    /// Waits until a connection has a free stream.
    pub async fn wait_for_stream(&self, most_uses: u64) -> SessionUse<C> {
        loop {
            if let Some(session) = self.find(most_uses) {
                return session;
            }
            // The end of a request frees its stream, at once or when the origin allows a new one.
            let _ = timeout(STREAM_RETRY_INTERVAL, self.freed.notified()).await;
        }
    }

    /// Adds a new connection, and returns its use by the first request. `connection_task` ends with the
    /// connection; until then the permit is kept.
    pub fn add_connection(
        &self,
        connection: C,
        address: Option<SocketAddr>,
        permit: ConnectionPermit,
        connection_task: impl Future<Output = ()> + 'static,
    ) -> SessionUse<C> {
        let session = Rc::new(Session {
            connection,
            streams: Cell::new(0),
            is_dead: Cell::new(false),
            used: Cell::new(Instant::now()),
            uses: Cell::new(0),
            address,
        });
        let weak = Rc::downgrade(&session);
        tokio::task::spawn_local(async move {
            let _permit = permit;
            // Errors of the connection are reported to its requests.
            connection_task.await;
            if let Some(session) = weak.upgrade() {
                session.is_dead.set(true);
            }
        });
        self.open.borrow_mut().push(session.clone());
        self.was_negotiated.set(true);
        self.begin_use(&session, None)
    }

    fn begin_use(&self, session: &Rc<Session<C>>, stream: Option<C::Stream>) -> SessionUse<C> {
        session.streams.set(session.streams.get() + 1);
        session.uses.set(session.uses.get() + 1);
        SessionUse { session: session.clone(), stream, freed: self.freed.clone() }
    }

    /// Records a failed attempt to connect.
    pub fn record_failure(&self, failure: &Failure) {
        self.failed.replace(Some((Instant::now(), failure.duplicate())));
    }

    /// The failure of an attempt to connect that ended after this time: a request that waited for that
    /// attempt does not wait for another one.
    pub fn failure_since(&self, time: Instant) -> Option<Failure> {
        let failed = self.failed.borrow();
        failed.as_ref().filter(|(at, _)| *at > time).map(|(_, failure)| failure.duplicate())
    }

    /// Closes connections that have been idle for too long. Connections to an address that the origin no
    /// longer has get no new requests; requests in progress continue.
    pub fn close_idle(&self, keep_alive_timeout: Duration, is_current_address: impl Fn(SocketAddr) -> bool) {
        self.open.borrow_mut().retain(|session| {
            let is_used = session.streams.get() > 0 || session.used.get().elapsed() < keep_alive_timeout;
            is_used && session.is_alive() && session.address.is_none_or(&is_current_address)
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

    /// A connection with at most two streams; the flag is false after GOAWAY.
    struct Mock(Rc<Cell<bool>>);

    impl Multiplexed for Mock {
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
    async fn a_full_or_closing_connection_is_not_found() {
        in_local_set(async {
            let (sessions, usable) = (Sessions::<Mock>::default(), Rc::new(Cell::new(true)));
            assert!(sessions.find(0).is_none());
            let first = sessions.add_connection(Mock(usable.clone()), None, permit(), std::future::pending());
            let second = sessions.find(0).unwrap();
            assert_eq!(second.stream, Some(1));
            assert!(sessions.find(0).is_none());
            drop(second);
            assert!(sessions.find(0).is_some());
            // It has served three requests.
            assert!(sessions.find(3).is_none() && sessions.find(0).is_none());
            let again = sessions.add_connection(Mock(usable.clone()), None, permit(), std::future::pending());
            usable.set(false);
            assert!(sessions.find(0).is_none());
            drop((first, again));
        })
        .await;
    }

    #[tokio::test]
    async fn a_request_waits_for_a_stream_and_not_twice_for_a_failure() {
        in_local_set(async {
            let sessions = Sessions::<Mock>::default();
            let usable = Rc::new(Cell::new(true));
            let first = sessions.add_connection(Mock(usable), None, permit(), std::future::pending());
            let second = sessions.find(0);
            let waiting = sessions.wait_for_stream(0);
            let end_of_first = async {
                tokio::task::yield_now().await;
                drop(first);
            };
            let (found, ()) = tokio::join!(waiting, end_of_first);
            drop((found, second));
            let start = Instant::now();
            assert!(sessions.failure_since(start).is_none());
            tokio::time::sleep(Duration::from_millis(1)).await;
            sessions.record_failure(&Failure::Refused("x".to_string()));
            assert!(matches!(sessions.failure_since(start), Some(Failure::Refused(_))));
            assert!(sessions.failure_since(Instant::now()).is_none());
        })
        .await;
    }
}
