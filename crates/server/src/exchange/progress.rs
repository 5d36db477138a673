//! How an exchange stands: what the connection, the logs and the operator's view know of it while it goes on.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use touchstone_interfaces::answer::CacheResult;
use touchstone_interfaces::interim::{InterimResponses, TakesInterim};
use touchstone_observe::request_id::RequestId;

use crate::session::UnderWayGuard;
use crate::site::Snapshot;

/// How an exchange stands, as far as the connection must know while it waits for the answer.
#[derive(Default)]
pub struct Progress {
    /// A handler is at work: it ends when the client leaves. Files are answered even to a client that will
    /// send nothing more.
    pub is_with_handler: Cell<bool>,
    /// The connection is from a proxy whose word counts.
    pub is_from_proxy: bool,
    /// The site, once it is found.
    pub site: Cell<Option<usize>>,
    /// The last route that matched.
    pub route: Cell<Option<usize>>,
    /// What answers, for logs.
    pub handler: Cell<&'static str>,
    /// What a cache before the handler did.
    pub cache: Cell<CacheResult>,
    /// The request's id, where somebody has asked for it.
    pub id: RefCell<Option<RequestId>>,
    /// Field lines to be sent ahead of the answer, if that is not there at once.
    pub early_hints: RefCell<Option<Arc<[u8]>>>,
    /// Interim responses of the handler's own.
    pub interim: InterimResponses,
    /// The request among those under way, while it is.
    pub under_way: RefCell<Option<UnderWayGuard>>,
}

impl TakesInterim for Progress {
    fn interim(&self) -> &InterimResponses {
        &self.interim
    }
}

impl Progress {
    /// The beginning of a client's request.
    pub fn new(
        snapshot: &Snapshot,
        peer: Option<SocketAddr>,
        under_way: Option<UnderWayGuard>,
    ) -> Rc<Progress> {
        Rc::new(Progress {
            is_from_proxy: peer.is_some_and(|peer| snapshot.connection_gate.trusts_fields_of(peer.ip())),
            under_way: RefCell::new(under_way),
            ..Progress::default()
        })
    }

    /// The beginning of a request that a route's program is to answer.
    pub fn of_program(
        snapshot: &Snapshot,
        peer: Option<SocketAddr>,
        under_way: Option<UnderWayGuard>,
        site: usize,
        route: usize,
    ) -> Rc<Progress> {
        let progress = Progress::new(snapshot, peer, under_way);
        progress.at(snapshot, site, Some(route));
        progress
    }

    /// Field lines to be sent now in an interim response, because the answer is not there yet; given once.
    pub fn take_early_hints(&self) -> Option<Arc<[u8]>> {
        self.early_hints.borrow_mut().take()
    }

    /// The site was found, and perhaps the route.
    pub fn at(&self, snapshot: &Snapshot, site: usize, route: Option<usize>) {
        self.site.set(Some(site));
        self.route.set(route);
        if let Some(under_way) = &*self.under_way.borrow() {
            under_way.request().set_route(&snapshot.route_table, Some(site), route);
        }
    }

    /// This answers.
    pub fn with(&self, handler: &'static str) {
        self.handler.set(handler);
        if let Some(under_way) = &*self.under_way.borrow() {
            under_way.request().set_handler(handler);
        }
    }
}
