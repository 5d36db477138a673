//! The handlers of interfaces on a core, and the functions of the core for them.

use std::rc::{Rc, Weak};
use std::sync::Arc;

use touchstone_files::cache::DateSecond;
use touchstone_handler::answer::Answer;
use touchstone_handler::handler::{self, Interface, Level, LocalBoxFuture};
use touchstone_handler::request::{MOST_DERIVED, Request};
use touchstone_http::request_view::{HeadFields, RequestView};
use touchstone_observe::log::error::ErrorLog;
use touchstone_sites::route::{Outcome, SiteRules};
use touchstone_sites::site::Snapshot;

use super::answer_boxed;
use crate::core::Core;

/// The handler of an interface on this core.
pub fn handler_of(
    core: &Rc<Core>,
    snapshot: &Arc<Snapshot>,
    interface: &Arc<dyn Interface>,
) -> Rc<dyn handler::Handler> {
    core.handlers.get(interface, || Rc::new(ServerOfCore::new(core, snapshot, interface)))
}

/// Makes the handlers that have work to do before the first request, on the first core.
pub fn begin_early(core: &Rc<Core>) {
    if core.index > 0 {
        return;
    }
    let snapshot = core.state.borrow().snapshot.clone();
    for interface in snapshot.sites.iter().filter_map(|site| site.rules.as_ref()).flat_map(SiteRules::early) {
        let _ = handler_of(core, &snapshot, interface);
    }
}

/// Whether a request with another method and path matches the route of `request` and its program, and not by
/// a rewrite.
fn leads_to_its_route(snapshot: &Snapshot, request: &Request, method: &[u8], path: &[u8]) -> bool {
    let Some(rules) = &snapshot.sites[request.site].rules else { return false };
    let fields = HeadFields { head: &request.received.head, buffer: &request.received.buffer };
    let connection = request.connection_view();
    let view = RequestView {
        client: request.client.map(|client| client.ip()),
        method,
        path,
        query: request.query.as_deref(),
        host: request.host.as_deref(),
        fields: &fields,
        connection: Some(&connection),
        locator: snapshot.locator.as_deref(),
    };
    let resolved = rules.resolve(&view);
    let has_program = matches!(resolved.outcome, Outcome::Handler(_));
    has_program && resolved.rewritten.is_none() && resolved.route.map(|route| route.index) == request.route
}

/// The functions of the core for handlers, with the configuration that they were made from.
struct ServerOfCore {
    // Weak, so that the core is not kept alive by its own handlers.
    core: Weak<Core>,
    snapshot: Arc<Snapshot>,
    /// The log of the handlers' route; `None`: that of the server.
    error_log: Option<ErrorLog>,
}

impl ServerOfCore {
    fn new(core: &Rc<Core>, snapshot: &Arc<Snapshot>, interface: &Arc<dyn Interface>) -> ServerOfCore {
        let logs = snapshot.logs.as_ref();
        let rules = snapshot.sites.iter().map(|site| site.rules.as_ref());
        let error_log = logs.and_then(|logs| logs.error_log_of_interface(rules, interface)).cloned();
        ServerOfCore { core: Rc::downgrade(core), snapshot: snapshot.clone(), error_log }
    }

    /// The log, as long as the core lives.
    fn error_log(&self) -> Option<ErrorLog> {
        let core = self.core.upgrade()?;
        Some(self.error_log.clone().unwrap_or_else(|| core.error_log.clone()))
    }
}

impl handler::Server for ServerOfCore {
    fn date(&self) -> DateSecond {
        match self.core.upgrade() {
            Some(core) => core.clock.second(),
            None => DateSecond { unix_seconds: 0, text: *b"Thu, 01 Jan 1970 00:00:00 GMT" },
        }
    }

    fn log(&self, level: Level, what: &'static str, message: &str) {
        if let Some(log) = self.error_log() {
            log.limited(level.into(), what, message);
        }
    }

    fn log_failing(&self, name: &str, reason: &str) {
        if let Some(log) = self.error_log() {
            log.failing(name, reason);
        }
    }

    fn log_recovered(&self, name: &str) -> bool {
        self.error_log().is_some_and(|log| log.recovered(name))
    }

    fn answer(&self, request: Request) -> LocalBoxFuture<Answer> {
        let (core, snapshot) = (self.core.upgrade(), self.snapshot.clone());
        Box::pin(async move {
            match core {
                Some(core) if request.depth <= MOST_DERIVED => answer_boxed(core, snapshot, request).await,
                Some(_) => Answer::error(508),
                None => Answer::error(503),
            }
        })
    }

    fn core(&self) -> usize {
        self.core.upgrade().map_or(0, |core| core.index)
    }

    fn matches_same_route(&self, request: &Request, method: &[u8], path: &[u8]) -> bool {
        leads_to_its_route(&self.snapshot, request, method, path)
    }

    fn forget_files(&self, names: &[&[u8]]) {
        // The configuration may be a new one by now, with its own cache.
        let current = self.core.upgrade().map(|core| core.state.borrow().snapshot.clone());
        for snapshot in current.iter().chain([&self.snapshot]) {
            if let Some(cache) = &snapshot.cache {
                cache.forget_names(names);
            }
        }
    }
}
