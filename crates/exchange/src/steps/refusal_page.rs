//! The error page for a request that is refused before its rules are known: a head that breaks the protocol
//! or a limit of the server, a body that is too large or too slow.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use touchstone_files::cache::ConnectionForm;
use touchstone_handler::answer::Answer;
use touchstone_handler::pipe::Receiver;
use touchstone_handler::request::{ReceivedHead, Request, RequestDetails};
use touchstone_http::request::{HeadBuilder, Limits};
use touchstone_http::target::{RequestTarget, parse_target};
use touchstone_sites::site::{ListenerSites, Snapshot};

use super::make_request::{Arrival, details_of};
use super::{Progress, StepContext};
use crate::core::Core;

/// A request that is refused.
pub struct RefusedRequest<'a> {
    /// The sites of its address.
    pub sites: Option<&'a ListenerSites>,
    /// How it arrived.
    pub arrival: Arrival,
    /// Its head; `None`: the head is not complete or not valid.
    pub received: Option<Rc<ReceivedHead>>,
    /// The host that it names, if that was read. An absolute target of a complete head replaces it.
    pub host: Option<Bytes>,
    /// The state of its exchange: it may have found a site and a route already.
    pub progress: &'a Progress,
}

impl RefusedRequest<'_> {
    /// The request for an error page of this status; `None`: its site has none.
    ///
    /// The site is that of the exchange, or else that of the host, of the name in the TLS handshake, or of
    /// the address, whichever is known first. `may_serve` returns whether the connection may be used for a
    /// host.
    pub fn page_request(
        self,
        snapshot: &Snapshot,
        may_serve: impl Fn(Option<&[u8]>) -> bool,
        status: u16,
    ) -> Option<Request> {
        let host = self.received.as_deref().and_then(host_of).or(self.host);
        let facts = &self.progress.facts;
        let (site, route) = match facts.site() {
            Some(site) => (site, facts.route()),
            None => {
                let sites = self.sites?;
                let of_host = host.as_deref().filter(|host| may_serve(Some(host)));
                let of_tls = self.arrival.tls.as_ref().and_then(|tls| tls.server_name.as_deref());
                (sites.site(of_host.or(of_tls.map(str::as_bytes)))?, None)
            }
        };
        snapshot.error_page(site, route, status)?;
        let received = self.received.or_else(|| stand_in(host.as_deref()))?;
        let details = RequestDetails { route, ..details_of(snapshot, self.arrival, received, site, host) };
        Some(Request::new(details, Receiver::of(Bytes::new())))
    }
}

/// The host that a complete head names.
fn host_of(received: &ReceivedHead) -> Option<Bytes> {
    let host = received.values("host").next();
    named_host(received.target(), host).map(|host| received.share(host))
}

/// The host that a head names: `host` is its field, which the authority of an absolute target replaces (RFC
/// 9112 section 3.2.2).
pub fn named_host<'a>(target: &'a [u8], host: Option<&'a [u8]>) -> Option<&'a [u8]> {
    match parse_target(false, false, target) {
        Ok(RequestTarget::Absolute { authority, .. }) => Some(authority),
        _ => host,
    }
}

/// A head in place of one that could not be read, for pages with directives.
fn stand_in(host: Option<&[u8]>) -> Option<Rc<ReceivedHead>> {
    let mut builder = HeadBuilder::new(b"GET", b"/", Limits::NONE);
    builder.field(b"host", host.unwrap_or_default());
    let (head, buffer, outcome) = builder.finish();
    outcome.ok().map(|()| Rc::new(ReceivedHead { head, buffer: buffer.into() }))
}

/// A refusal, with the error page of the request's site if it has one.
pub async fn with_refusal_page(
    core: &Rc<Core>,
    snapshot: &Arc<Snapshot>,
    refused: RefusedRequest<'_>,
    may_serve: impl Fn(Option<&[u8]>) -> bool,
    form: ConnectionForm,
    answer: Answer,
) -> Answer {
    match refused.page_request(snapshot, may_serve, answer.status) {
        Some(request) => add_refusal_page(core, snapshot, &request, form, answer).await,
        None => answer,
    }
}

/// Replaces the built-in page of a refusal by the page of the site that
/// [`page_request`](RefusedRequest::page_request) has found.
pub async fn add_refusal_page(
    core: &Rc<Core>,
    snapshot: &Arc<Snapshot>,
    request: &Request,
    form: ConnectionForm,
    mut answer: Answer,
) -> Answer {
    let context = StepContext { core, snapshot, form, progress: &Progress::default() };
    super::use_error_page(context, request, &mut answer).await;
    answer
}
