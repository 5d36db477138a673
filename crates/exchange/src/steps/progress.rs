//! The state of an exchange that is needed before its end: by the log, the connection, and the status pages.
//! An exchange is a future that is dropped when its client disconnects; its results so far must still be
//! logged, so they are not a part of its output.
//!
//! - [`LogFacts`] belong to the log: the exchange sets them, accounting reads them.
//! - [`ConnectionSignals`] belong to the connection: they are its orders while it waits for the answer.
//! - The rest is the exchange's own, and the entry among the active requests.

use std::cell::{Cell, Ref, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use touchstone_access::MinimumRate;
use touchstone_admin::connection_info::UnderWayGuard;
use touchstone_handler::answer::CacheResult;
use touchstone_handler::interim::{InterimResponses, TakesInterim};
use touchstone_handler::request::{BotFacts, ClaimValues};
use touchstone_handler::trace::RequestTrace;
use touchstone_observe::request_id::RequestId;
use touchstone_sites::site::{MinimumRates, Snapshot};

/// The state of an exchange, for the connection while it waits for the answer, and for the log.
#[derive(Default)]
pub struct Progress {
    /// The facts for the log and the metrics.
    pub facts: LogFacts,
    /// Messages to the connection while it waits.
    pub signals: ConnectionSignals,
    /// The connection is from a trusted proxy.
    is_from_proxy: bool,
    /// Fields of the request that a client is not allowed to set were removed.
    is_cleaned: Cell<bool>,
    /// The entry of the request among the active ones.
    under_way: RefCell<Option<UnderWayGuard>>,
}

/// The facts about a request for the log and the metrics.
#[derive(Default)]
pub struct LogFacts {
    site: Cell<Option<usize>>,
    route: Cell<Option<usize>>,
    handler: Cell<&'static str>,
    cache: Cell<CacheResult>,
    hides_query: Cell<bool>,
    id: RefCell<Option<RequestId>>,
    trace: RefCell<Option<Rc<RequestTrace>>>,
    claims: RefCell<Option<Arc<dyn ClaimValues>>>,
    bot: RefCell<Option<BotFacts>>,
}

/// The messages of an exchange to its connection, which waits for the answer.
#[derive(Default)]
pub struct ConnectionSignals {
    is_handler_running: Cell<bool>,
    early_hints: RefCell<Option<Arc<[u8]>>>,
    interim: InterimResponses,
    minimum_rates: Cell<Option<MinimumRates>>,
    /// The minimum rates were not passed to the body's receiver yet.
    is_receive_rate_new: Cell<bool>,
}

impl LogFacts {
    /// The facts about a hit of the cache.
    pub fn set_hit(&self, site: Option<usize>) {
        self.site.set(site);
        self.handler.set("cache");
    }

    /// The site, once it is found.
    pub fn site(&self) -> Option<usize> {
        self.site.get()
    }

    /// The last route that matched.
    pub fn route(&self) -> Option<usize> {
        self.route.get()
    }

    /// The name of the handler or action.
    pub fn handler(&self) -> &'static str {
        self.handler.get()
    }

    /// The result of a cache in front of the handler.
    pub fn cache(&self) -> CacheResult {
        self.cache.get()
    }

    /// Sets the result of a cache in front of the handler.
    pub fn set_cache(&self, result: CacheResult) {
        self.cache.set(result);
    }

    /// Whether the query of the request is a secret, such as the code of a login.
    pub fn hides_query(&self) -> bool {
        self.hides_query.get()
    }

    /// The query is not logged.
    pub fn hide_query(&self) {
        self.hides_query.set(true);
    }

    /// The request's id, if it was needed so far.
    pub fn id(&self) -> Ref<'_, Option<RequestId>> {
        self.id.borrow()
    }

    /// The request's id as text; empty if it was not needed so far.
    pub fn id_text(&self) -> Box<str> {
        self.id.borrow().as_ref().map_or("".into(), |id| id.as_str().into())
    }

    /// The trace of the request, if it was started.
    pub fn trace(&self) -> Option<Rc<RequestTrace>> {
        self.trace.borrow().clone()
    }

    /// Sets the trace of the request.
    pub fn set_trace(&self, trace: Rc<RequestTrace>) {
        *self.trace.borrow_mut() = Some(trace);
    }

    /// The claims of a token or a provider about the user.
    pub fn claims(&self) -> Option<Arc<dyn ClaimValues>> {
        self.claims.borrow().clone()
    }

    /// Sets the claims of a token or a provider about the user.
    pub fn set_claims(&self, claims: Arc<dyn ClaimValues>) {
        *self.claims.borrow_mut() = Some(claims);
    }

    /// The facts about the bot that has signed the request.
    pub fn bot(&self) -> Option<BotFacts> {
        self.bot.borrow().clone()
    }

    /// Sets the facts about the bot that has signed the request.
    pub fn set_bot(&self, bot: BotFacts) {
        *self.bot.borrow_mut() = Some(bot);
    }

    /// Sets the request's id.
    pub fn set_id(&self, id: RequestId) {
        *self.id.borrow_mut() = Some(id);
    }
}

impl ConnectionSignals {
    /// Whether a handler is running. A handler ends when the client disconnects; a file is sent even to a
    /// client that has ended its sending direction.
    pub fn is_handler_running(&self) -> bool {
        self.is_handler_running.get()
    }

    /// A handler has started.
    pub fn handler_started(&self) {
        self.is_handler_running.set(true);
    }

    /// The server answers with a file in place of the handler.
    pub fn handler_ended(&self) {
        self.is_handler_running.set(false);
    }

    /// Sets the field lines that are sent before the answer if the answer is not ready at once.
    pub fn set_early_hints(&self, lines: Option<Arc<[u8]>>) {
        *self.early_hints.borrow_mut() = lines;
    }

    /// Field lines to send now in an interim response, because the answer is not ready; returned once.
    pub fn take_early_hints(&self) -> Option<Arc<[u8]>> {
        self.early_hints.borrow_mut().take()
    }

    /// The handler's own interim responses.
    pub fn interim(&self) -> &InterimResponses {
        &self.interim
    }

    /// The minimum rate of the body, if it was not passed to its receiver yet; returned once.
    pub fn take_receive_rate(&self) -> Option<MinimumRate> {
        self.is_receive_rate_new.take().then(|| self.minimum_rates.get().map(|rates| rates.receive)).flatten()
    }

    /// The minimum rate of the answer, if the site or route sets one.
    pub fn send_rate(&self) -> Option<MinimumRate> {
        self.minimum_rates.get().map(|rates| rates.send)
    }
}

impl TakesInterim for Progress {
    fn interim(&self) -> &InterimResponses {
        &self.signals.interim
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
        progress.set_route(snapshot, site, Some(route));
        progress
    }

    /// The initial state of a request whose fields about the client were set by the server.
    pub fn of_cleaned_request() -> Progress {
        Progress { is_cleaned: Cell::new(true), ..Progress::default() }
    }

    /// Whether the connection is from a trusted proxy.
    pub fn is_from_proxy(&self) -> bool {
        self.is_from_proxy
    }

    /// Whether the fields that a client is not allowed to set were removed.
    pub fn is_cleaned(&self) -> bool {
        self.is_cleaned.get()
    }

    /// Records that the fields that a client is not allowed to set are removed. Returns whether they were
    /// removed before.
    pub fn set_cleaned(&self) -> bool {
        self.is_cleaned.replace(true)
    }

    /// Sets the site, and the route if there is one.
    pub fn set_route(&self, snapshot: &Snapshot, site: usize, route: Option<usize>) {
        self.facts.site.set(Some(site));
        self.facts.route.set(route);
        if let Some(minimum_rates) = snapshot.minimum_rates(site, route) {
            self.signals.minimum_rates.set(Some(minimum_rates));
            self.signals.is_receive_rate_new.set(true);
        }
        if let Some(under_way) = &*self.under_way.borrow() {
            under_way.request().set_route(&snapshot.route_table, Some(site), route);
        }
    }

    /// Sets the name of the handler or action.
    pub fn set_handler_name(&self, handler: &'static str) {
        self.facts.handler.set(handler);
        if let Some(under_way) = &*self.under_way.borrow() {
            under_way.request().set_handler(handler);
        }
    }

    /// The entry of the request among the active ones, if the operator's view is on.
    pub fn under_way(&self) -> Ref<'_, Option<UnderWayGuard>> {
        self.under_way.borrow()
    }

    /// Adds the request to the active ones.
    pub fn set_under_way(&self, guard: UnderWayGuard) {
        *self.under_way.borrow_mut() = Some(guard);
    }

    /// Returns the entry among the active requests; dropping it removes the request from them.
    pub fn take_under_way(&self) -> Option<UnderWayGuard> {
        self.under_way.take()
    }
}
