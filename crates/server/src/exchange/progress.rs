//! The state of an exchange, as the connection, the logs and the operator's view know it.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use touchstone_access::MinimumPace;
use touchstone_admin::connection_info::UnderWayGuard;
use touchstone_handler::answer::CacheResult;
use touchstone_handler::interim::{InterimResponses, TakesInterim};
use touchstone_observe::request_id::RequestId;
use touchstone_sites::site::{Paces, Snapshot};

/// The state of an exchange, for the connection while it waits for the answer.
#[derive(Default)]
pub struct Progress {
    /// A handler is running; it ends when the client disconnects. A file is sent even to a client that has
    /// ended its sending direction.
    pub is_with_handler: Cell<bool>,
    /// Fields of the request that a client may not set were already removed.
    pub is_handed_on: Cell<bool>,
    /// The connection is from a trusted proxy.
    pub is_from_proxy: bool,
    /// The site, once it is found.
    pub site: Cell<Option<usize>>,
    /// The last route that matched.
    pub route: Cell<Option<usize>>,
    /// The name of the handler or action, for logs.
    pub handler: Cell<&'static str>,
    /// What a cache before the handler did.
    pub cache: Cell<CacheResult>,
    /// The request's id, once something has asked for it.
    pub id: RefCell<Option<RequestId>>,
    /// Field lines to be sent before the answer, if the answer is not ready at once.
    pub early_hints: RefCell<Option<Arc<[u8]>>>,
    /// The handler's own interim responses.
    pub interim: InterimResponses,
    /// How slow the client may be, where the site or route says so.
    pub paces: Cell<Option<Paces>>,
    /// The same is new for what feeds the body.
    is_receive_pace_new: Cell<bool>,
    /// The entry of the request among those under way.
    pub under_way: RefCell<Option<UnderWayGuard>>,
}

impl TakesInterim for Progress {
    fn interim(&self) -> &InterimResponses {
        &self.interim
    }
}

impl Progress {
    /// The initial state of a client's request.
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

    /// The initial state of a request that a route's program will answer.
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

    /// Field lines to be sent now in an interim response, because the answer is not ready; returned once.
    pub fn take_early_hints(&self) -> Option<Arc<[u8]>> {
        self.early_hints.borrow_mut().take()
    }

    /// Sets the site, and the route if there is one.
    pub fn at(&self, snapshot: &Snapshot, site: usize, route: Option<usize>) {
        self.site.set(Some(site));
        self.route.set(route);
        if let Some(paces) = snapshot.paces(site, route) {
            self.paces.set(Some(paces));
            self.is_receive_pace_new.set(true);
        }
        if let Some(under_way) = &*self.under_way.borrow() {
            under_way.request().set_route(&snapshot.route_table, Some(site), route);
        }
    }

    /// How slow the client may be with the body, if that is not known to what feeds it; returned once.
    pub fn take_receive_pace(&self) -> Option<MinimumPace> {
        self.is_receive_pace_new.take().then(|| self.paces.get().map(|paces| paces.receive)).flatten()
    }

    /// How slow the client may be with the answer, where the site or route says so.
    pub fn send_pace(&self) -> Option<MinimumPace> {
        self.paces.get().map(|paces| paces.send)
    }

    /// Sets the name of the handler or action.
    pub fn with(&self, handler: &'static str) {
        self.handler.set(handler);
        if let Some(under_way) = &*self.under_way.borrow() {
            under_way.request().set_handler(handler);
        }
    }
}
