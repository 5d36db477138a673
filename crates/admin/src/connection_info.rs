//! The data about a connection that the admin listener shows: the client, its age, and the requests in
//! progress.
//!
//! Every waiting connection has a [`ConnectionInfo`] beside its deadline, on its own core. A plain hit is not
//! recorded; any other request is recorded while it is answered. To list the sessions, a thread sends a
//! command to the core, and the core answers with a copy of bounded size. So nothing is locked, and nothing
//! is shared except while such a command is answered.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use touchstone_config::ListenAddress;
use touchstone_observe::metrics::{ConnectionState, RouteTable};

/// How many bytes of a request's target are kept.
const TARGET_BYTES: usize = 512;

/// How many requests of one connection are shown.
const MOST_REQUESTS: usize = 32;

/// The information about a connection, on its core.
#[derive(Default)]
pub struct ConnectionInfo {
    opened: Cell<Option<OpeningFacts>>,
    /// Requests answered, as of the last wait.
    pub requests: Cell<u64>,
    /// The client has not yet received all of an answer.
    writing: Cell<bool>,
    under_way: RefCell<Vec<Rc<UnderWay>>>,
}

/// The facts about a connection when it opens.
#[derive(Debug, Clone, Copy)]
pub struct OpeningFacts {
    /// The address of the client; `None`: unknown.
    pub peer: Option<SocketAddr>,
    /// The address that accepted the connection.
    pub listener: ListenAddress,
    /// The time from which it is known.
    pub at: Instant,
    /// `http`, `https`, `h2` or `h3`.
    pub protocol: &'static str,
}

/// A request that is being answered.
pub struct UnderWay {
    started: Instant,
    method: Box<[u8]>,
    target: Box<[u8]>,
    client: Cell<Option<IpAddr>>,
    /// The site and route, once they are found.
    route: RefCell<Option<(Arc<RouteTable>, usize)>>,
    handler: Cell<&'static str>,
}

/// Keeps a request in the list of active requests until this is dropped.
pub struct UnderWayGuard {
    request: Rc<UnderWay>,
    owner: Rc<dyn AsRef<ConnectionInfo>>,
}

impl ConnectionInfo {
    /// Records that the connection waits for the first time.
    pub fn open(&self, opened: OpeningFacts) {
        self.opened.set(Some(opened));
    }

    /// Records that the connection changed its protocol.
    pub fn set_protocol(&self, protocol: &'static str) {
        if let Some(opened) = self.opened.get() {
            self.opened.set(Some(OpeningFacts { protocol, ..opened }));
        }
    }

    /// Sets whether the client has yet to receive a part of an answer.
    #[inline]
    pub fn set_writing(&self, writing: bool) {
        self.writing.set(writing);
    }

    /// The state of the connection. `idle`: it waits for a request, of which nothing has arrived.
    pub fn state(&self, idle: bool) -> ConnectionState {
        match (self.writing.get(), self.under_way.borrow().is_empty(), idle) {
            (true, ..) => ConnectionState::Writing,
            (_, false, _) => ConnectionState::Answering,
            (_, true, true) => ConnectionState::Idle,
            (_, true, false) => ConnectionState::Reading,
        }
    }

    /// Whether requests are active.
    pub fn is_busy(&self) -> bool {
        !self.under_way.borrow().is_empty()
    }

    /// A copy for other threads; `None` before the connection has opened.
    pub fn facts(&self, idle: bool, now: Instant) -> Option<SessionFacts> {
        let opened = self.opened.get()?;
        let milliseconds = |since: Instant| {
            u64::try_from(now.saturating_duration_since(since).as_millis()).unwrap_or(u64::MAX)
        };
        let under_way = self.under_way.borrow();
        let requests = under_way.iter().take(MOST_REQUESTS).map(|request| {
            let route = request.route.borrow();
            let labels = route.as_ref().and_then(|(table, slot)| table.labels(*slot));
            RequestFacts {
                method: lossy(&request.method),
                target: lossy(&request.target),
                client: request.client.get(),
                site: labels.map_or_else(String::new, |labels| labels.site.clone()),
                route: labels.map_or_else(String::new, |labels| labels.route.clone()),
                handler: request.handler.get(),
                age_ms: milliseconds(request.started),
            }
        });
        Some(SessionFacts {
            peer: opened.peer,
            listener: opened.listener,
            protocol: opened.protocol,
            age_ms: milliseconds(opened.at),
            state: self.state(idle),
            requests: self.requests.get(),
            under_way: requests.collect(),
            under_way_count: under_way.len(),
        })
    }
}

impl UnderWayGuard {
    /// Records a request in the session of `owner`.
    pub fn begin(owner: Rc<dyn AsRef<ConnectionInfo>>, method: &[u8], target: &[u8]) -> UnderWayGuard {
        let request = Rc::new(UnderWay {
            started: Instant::now(),
            method: method.into(),
            target: target[..target.len().min(TARGET_BYTES)].into(),
            client: Cell::new(None),
            route: RefCell::new(None),
            handler: Cell::new(""),
        });
        (*owner).as_ref().under_way.borrow_mut().push(request.clone());
        UnderWayGuard { request, owner }
    }

    /// Provides access to the request, to add facts to it.
    pub fn request(&self) -> &Rc<UnderWay> {
        &self.request
    }
}

impl Drop for UnderWayGuard {
    fn drop(&mut self) {
        let session = (*self.owner).as_ref();
        session.under_way.borrow_mut().retain(|other| !Rc::ptr_eq(other, &self.request));
    }
}

impl UnderWay {
    /// Sets the client, behind trusted proxies.
    pub fn set_client(&self, client: Option<IpAddr>) {
        self.client.set(client);
    }

    /// Sets the site and the route.
    pub fn set_route(&self, table: &Arc<RouteTable>, site: Option<usize>, route: Option<usize>) {
        *self.route.borrow_mut() = Some((table.clone(), table.slot(site, route)));
    }

    /// Sets the handler or action that answers the request.
    pub fn set_handler(&self, handler: &'static str) {
        self.handler.set(handler);
    }
}

/// A copy of a session.
#[derive(Debug, Clone)]
pub struct SessionFacts {
    /// The address of the client's end of the connection.
    pub peer: Option<SocketAddr>,
    /// The address that accepted the connection.
    pub listener: ListenAddress,
    /// `http`, `https`, `h2` or `h3`.
    pub protocol: &'static str,
    /// How long it has been open, in milliseconds.
    pub age_ms: u64,
    /// Its state.
    pub state: ConnectionState,
    /// Requests answered.
    pub requests: u64,
    /// The first requests that are being answered.
    pub under_way: Vec<RequestFacts>,
    /// How many are being answered.
    pub under_way_count: usize,
}

/// A copy of a request that is being answered.
#[derive(Debug, Clone)]
pub struct RequestFacts {
    /// Its method.
    pub method: String,
    /// The start of its target.
    pub target: String,
    /// The client, behind proxies; `None`: the other end of the connection.
    pub client: Option<IpAddr>,
    /// The site; empty: not found yet.
    pub site: String,
    /// The route.
    pub route: String,
    /// The handler or action that answers it; empty: unknown.
    pub handler: &'static str,
    /// How long it has taken so far, in milliseconds.
    pub age_ms: u64,
}

/// The sessions of one core.
#[derive(Debug, Clone)]
pub struct CoreSessions {
    /// The core, from 0.
    pub core: usize,
    /// How many connections wait on it.
    pub connections: usize,
    /// Some of them: those with requests in progress are first.
    pub sessions: Vec<SessionFacts>,
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Owner(ConnectionInfo);

    impl AsRef<ConnectionInfo> for Owner {
        fn as_ref(&self) -> &ConnectionInfo {
            &self.0
        }
    }

    #[test]
    fn requests_are_there_while_they_are_under_way() {
        let owner = Rc::new(Owner(ConnectionInfo::default()));
        let session = &owner.0;
        assert!(session.facts(true, Instant::now()).is_none());
        session.open(OpeningFacts {
            peer: Some("192.0.2.1:5".parse().unwrap()),
            listener: "127.0.0.1:80".parse().unwrap(),
            at: Instant::now(),
            protocol: "http",
        });
        assert_eq!(session.state(true), ConnectionState::Idle);
        assert_eq!(session.state(false), ConnectionState::Reading);
        let first = UnderWayGuard::begin(owner.clone(), b"GET", b"/a");
        let second = UnderWayGuard::begin(owner.clone(), b"POST", &[b'b'; 600]);
        second.request().set_handler("cgi");
        assert_eq!(session.state(true), ConnectionState::Answering);
        session.set_writing(true);
        assert_eq!(session.state(false), ConnectionState::Writing);
        drop(first);
        let facts = session.facts(false, Instant::now()).unwrap();
        assert_eq!((facts.under_way_count, facts.under_way.len()), (1, 1));
        let request = &facts.under_way[0];
        assert_eq!((request.method.as_str(), request.handler), ("POST", "cgi"));
        assert_eq!(request.target.len(), TARGET_BYTES);
        drop(second);
        assert!(!session.is_busy());
    }
}
