//! One request from its whole head to its answer: site, routes, access rules, handler. The same for every version of HTTP,
//! and for the requests that the server makes itself.
//!
//! ```text
//! begin: target -> site -> path in its normal form
//! answer: routes and rewrites -> access rules -> handler or file -> fields and error page of the site
//! ```
//!
//! Nothing here knows of sockets: the connection drives the future, feeds the request's body into its pipe meanwhile,
//! and drops both when the client leaves.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use bytes::Bytes;
use touchstone_files::cache::{DateSecond, Variant};
use touchstone_http::request::{Expectation, Method, RequestBody, RequestHead};
use touchstone_http::target::{PathError, RequestTarget, is_plain_path, normalise_path, parse_target};
use touchstone_http::trace_context;
use touchstone_interfaces::answer::{Answer, CacheResult};
use touchstone_interfaces::handler::{self, Begun, Handled, Interface, Level, OnCore};
use touchstone_interfaces::interim::{InterimResponses, TakesInterim};
use touchstone_interfaces::pipe::Receiver;
use touchstone_interfaces::request::{
    MOST_DERIVED, Protocol, ReceivedHead, Request, RequestDetails, TlsFacts,
};

use crate::access::{self, HeadFields, RequestView};
use crate::config::LogLevel;
use crate::core::Core;
use crate::file_request::FileRequest;
use crate::on_disk;
use crate::request_id::RequestId;
use crate::route::{Outcome, Resolved};
use crate::session::UnderWayGuard;
use crate::site::{ListenerSites, Snapshot};
use crate::static_files;

/// What a request came through.
pub struct Arrival {
    /// The version of HTTP.
    pub protocol: Protocol,
    /// The other end of the connection, or whom a PROXY header named.
    pub peer: Option<SocketAddr>,
    /// The address that it was accepted on, as configured.
    pub listener: SocketAddr,
    /// The TLS session.
    pub tls: Option<Arc<TlsFacts>>,
}

/// An answer, and what the log wants to know beside it.
pub struct Answered {
    /// The answer.
    pub answer: Answer,
    /// The client, behind proxies that are trusted; `None`: as the connection says.
    pub client: Option<IpAddr>,
    /// The user that was authenticated.
    pub user: Option<Box<str>>,
}

impl From<Answer> for Answered {
    fn from(answer: Answer) -> Answered {
        Answered { answer, client: None, user: None }
    }
}

/// How an exchange stands, as far as the connection must know while it waits for the answer.
#[derive(Default)]
pub struct Progress {
    /// A handler is at work: it ends when the client leaves. Files are answered even to a client that will send nothing
    /// more.
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
    early_hints: RefCell<Option<Arc<[u8]>>>,
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
    fn at(&self, snapshot: &Snapshot, site: usize, route: Option<usize>) {
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

/// What can be refused from the head alone, whoever would answer it.
pub fn refuse(snapshot: &Snapshot, head: &RequestHead) -> Option<Answer> {
    if head.expectation == Expectation::Unknown {
        return Some(Answer::error(417));
    }
    if matches!(head.body, RequestBody::Length(length) if length > snapshot.config.limits.body_bytes) {
        return Some(Answer::error(413));
    }
    None
}

/// Finds the site, and makes a request of a head. The error is the answer.
///
/// `sites` are those of the address; `may_serve` says whether the connection may be used for a host.
pub fn begin(
    snapshot: &Snapshot,
    sites: Option<&ListenerSites>,
    arrival: Arrival,
    received: Rc<ReceivedHead>,
    may_serve: impl FnOnce(Option<&[u8]>) -> bool,
    body: Option<Receiver>,
) -> Result<Request, Answer> {
    let head = &received.head;
    let (is_connect, is_options) = (head.method == Method::Connect, head.method == Method::Options);
    let Ok(target) = parse_target(is_connect, is_options, received.target()) else {
        return Err(Answer::error(400));
    };
    // RFC 9112 section 3.2.2: the authority of an absolute target replaces Host.
    let (path, query, host) = match target {
        RequestTarget::Origin { path, query } => {
            (path, query, head.host.map(|host| host.of(&received.buffer)))
        }
        RequestTarget::Absolute { authority, path, query, .. } => (path, query, Some(authority)),
        RequestTarget::Asterisk => {
            return Err(Answer::new(204).field("Allow", static_files::ALLOWED_METHODS));
        }
        RequestTarget::Authority(_) => {
            return Err(Answer::error(405).field("Allow", static_files::ALLOWED_METHODS));
        }
    };
    if let Some(proof) = snapshot.acme_challenges.answer(path, host) {
        return Err(proof);
    }
    // RFC 9110 section 15.5.20: not a host of this address, or not one of this connection.
    let site = sites.and_then(|sites| sites.site(host)).ok_or_else(|| Answer::error(421))?;
    if !may_serve(host) {
        return Err(Answer::error(421));
    }
    let path_as_sent = received.share(path);
    // Rules look at what a path means, not at how it is written.
    let path = if is_plain_path(path) {
        path_as_sent.clone()
    } else {
        let mut normal = Vec::with_capacity(path.len());
        if normalise_path(path, &mut normal).is_err() {
            // Refused below, with the site's page: an empty path is none.
            normal.clear();
        }
        normal.into()
    };
    let (query, host) = (query.map(|query| received.share(query)), host.map(|host| received.share(host)));
    let fields = HeadFields { head, buffer: &received.buffer };
    let client = client_of(snapshot, arrival.peer, &fields);
    let is_trusted = |peer: &IpAddr| snapshot.connection_gate.trusts_fields_of(*peer);
    let details = RequestDetails {
        protocol: arrival.protocol,
        path,
        path_as_sent,
        query,
        host,
        site,
        client,
        trusted_proxy: arrival.peer.map(|peer| peer.ip()).filter(is_trusted),
        server: arrival.listener,
        tls: arrival.tls,
        user: None,
        id: Box::default(),
        depth: 0,
        page_variables: None,
        received,
    };
    Ok(Request::new(details, body.unwrap_or_else(|| Receiver::of(Bytes::new()))))
}

/// The client, behind proxies that are trusted; the port is 0 where only its address is known.
pub fn client_of(
    snapshot: &Snapshot,
    peer: Option<SocketAddr>,
    fields: &HeadFields<'_>,
) -> Option<SocketAddr> {
    peer.map(|peer| {
        let address = snapshot.connection_gate.client(peer.ip(), fields);
        let port = if address == peer.ip().to_canonical() { peer.port() } else { 0 };
        SocketAddr::new(address, port)
    })
}

/// What is said to a path that leads nowhere.
fn path_status(path_as_sent: &[u8]) -> u16 {
    match normalise_path(path_as_sent, &mut Vec::new()) {
        Err(PathError::EncodedSlash) => 404,
        _ => 400,
    }
}

/// Answers a request. `variant` is the form of head that the connection wants for files of the cache.
pub async fn answer(
    core: Rc<Core>,
    snapshot: Arc<Snapshot>,
    mut request: Request,
    variant: Variant,
    progress: Rc<Progress>,
) -> Answered {
    let mut answered = Answered { answer: Answer::new(200), client: None, user: None };
    answered.client = request.client.map(|client| client.ip());
    if let Some(under_way) = &*progress.under_way.borrow() {
        under_way.request().set_client(answered.client);
    }
    identify(&core, &snapshot, &mut request, &progress);
    request.interim = Some(progress.clone());
    let first = step(&core, &snapshot, request, variant, &progress, &mut answered).await;
    to_the_end(&core, &snapshot, first, variant, &progress, answered).await
}

/// Goes where handlers send the request, until there is an answer.
async fn to_the_end(
    core: &Rc<Core>,
    snapshot: &Arc<Snapshot>,
    mut next: Step,
    variant: Variant,
    progress: &Progress,
    mut answered: Answered,
) -> Answered {
    loop {
        match next {
            Step::Answer(mut answer) => {
                if let (true, Some(id)) = (snapshot.config.request_id.answer, &*progress.id.borrow()) {
                    answer = answer.field(&snapshot.config.request_id.field, id.as_str());
                }
                answered.answer = answer;
                return answered;
            }
            Step::Again(again) => {
                next = step(core, snapshot, *again, variant, progress, &mut answered).await;
            }
        }
    }
}

/// A request that a route's program has begun to answer, or is to answer now, and nothing but it.
pub struct ForProgram {
    /// The request, which has passed what stands before the program.
    pub request: Request,
    /// The program's handler.
    pub handler: Rc<dyn handler::Handler>,
    /// What the handler has begun.
    pub begun: Option<Box<dyn Begun>>,
}

/// Has the program answer.
pub async fn answer_by_program(
    core: Rc<Core>,
    snapshot: Arc<Snapshot>,
    asked: ForProgram,
    variant: Variant,
    progress: Rc<Progress>,
) -> Answered {
    let ForProgram { mut request, handler, begun } = asked;
    let answered = Answered {
        answer: Answer::new(200),
        client: request.client.map(|client| client.ip()),
        user: request.user.clone(),
    };
    request.interim = Some(progress.clone());
    let left = request.without_body();
    progress.is_with_handler.set(true);
    let handled = match begun {
        Some(begun) => begun.go_on(request).await,
        None => handler.handle(request).await,
    };
    let first = settle(&core, &snapshot, handled, left, variant, &progress).await;
    to_the_end(&core, &snapshot, first, variant, &progress, answered).await
}

/// The same, for requests of the server's own.
pub fn answer_boxed(core: Rc<Core>, snapshot: Arc<Snapshot>, request: Request) -> OnCore<Answer> {
    Box::pin(async move { answer(core, snapshot, request, Variant::Persistent, Rc::default()).await.answer })
}

enum Step {
    Answer(Answer),
    /// A handler sends the request elsewhere.
    Again(Box<Request>),
}

async fn step(
    core: &Rc<Core>,
    snapshot: &Arc<Snapshot>,
    mut request: Request,
    variant: Variant,
    progress: &Progress,
    answered: &mut Answered,
) -> Step {
    let site = request.site;
    progress.at(snapshot, site, None);
    if request.path.is_empty() {
        let answer = Answer::error(path_status(&request.path_as_sent));
        return Step::Answer(finish(core, snapshot, &request, site, variant, answer).await);
    }
    let Some(rules) = &snapshot.sites[site].rules else {
        progress.with("files");
        return Step::Answer(answer_file(core, snapshot, &request, site, variant).await);
    };
    // As it came: what rules find out is noted in the request itself.
    let came = request.without_body();
    let fields = HeadFields { head: &came.received.head, buffer: &came.received.buffer };
    let view = RequestView {
        client: came.client.map(|client| client.ip()),
        method: came.received.method_text(),
        path: &came.path,
        query: came.query.as_deref(),
        host: came.host.as_deref(),
        fields: &fields,
    };
    let mut resolved = rules.resolve(&view);
    progress.at(snapshot, site, resolved.route.map(|route| route.index));
    match access::pass(&resolved.gates, &view).await {
        Ok(admitted) => {
            if let Some(user) = admitted.user {
                let name: Box<str> = String::from_utf8_lossy(user.name()).into();
                (request.user, answered.user) = (Some(name.clone()), Some(name));
            }
        }
        Err(refusal) => {
            progress.with("access");
            let answer = finish(core, snapshot, &request, site, variant, refusal.answer()).await;
            return Step::Answer(apply(&resolved, answer));
        }
    }
    if let Some(rewritten) = resolved.rewritten.take() {
        request.path = rewritten.path;
        request.path_as_sent = rewritten.path_as_sent;
        request.query = rewritten.query;
    }
    let answer = match &resolved.outcome {
        Outcome::Handler(interface) => {
            let left = request.without_body();
            let hints = resolved.route.map(|route| &route.early_hints).filter(|hints| !hints.is_empty());
            *progress.early_hints.borrow_mut() = hints.cloned();
            progress.is_with_handler.set(true);
            progress.with(interface.name());
            hand_on(snapshot, &mut request);
            let handled = handler_of(core, snapshot, interface).handle(request).await;
            match settle(core, snapshot, handled, left, variant, progress).await {
                Step::Answer(answer) => answer,
                again @ Step::Again(_) => return again,
            }
        }
        Outcome::Files { root } => {
            progress.with("files");
            let site = root.map_or(site, |root| snapshot.sites[site].first_root + root);
            answer_file(core, snapshot, &request, site, variant).await
        }
        outcome => {
            progress.with(match outcome {
                Outcome::Redirect { .. } => "redirect",
                _ => "respond",
            });
            if let Outcome::Failed { reason, .. } = outcome {
                let message = format_args!("{reason}{}", Named(&request.id));
                core.error_log.limited(LogLevel::Warning, "route failed", message);
            }
            let answer = outcome.answer().unwrap_or_else(|| Answer::error(500));
            finish(core, snapshot, &request, site, variant, answer).await
        }
    };
    Step::Answer(apply(&resolved, answer))
}

/// What becomes of the request `left`, which a handler had.
async fn settle(
    core: &Rc<Core>,
    snapshot: &Arc<Snapshot>,
    handled: Handled,
    left: Request,
    variant: Variant,
    progress: &Progress,
) -> Step {
    let site = left.site;
    Step::Answer(match handled {
        Handled::Answer(answer) => {
            progress.cache.set(answer.cache);
            finish(core, snapshot, &left, site, variant, answer).await
        }
        Handled::LocalRedirect { target } => match left.derive(&target) {
            Some(next) => return Step::Again(Box::new(next)),
            None => {
                let message = "a program's local redirect leads nowhere, or in circles";
                let id = progress.id.borrow().as_ref().map(|id| Box::from(id.as_str()));
                let message = format_args!("{message}{}", Named(&id.unwrap_or_default()));
                core.error_log.limited(LogLevel::Warning, "local redirect", message);
                finish(core, snapshot, &left, site, variant, Answer::error(500)).await
            }
        },
        Handled::Again(request) => return Step::Again(request),
        Handled::File(request) => {
            progress.is_with_handler.set(false);
            progress.with("files");
            answer_file(core, snapshot, &request, site, variant).await
        }
        Handled::OnDisk(found) => {
            progress.is_with_handler.set(false);
            let answer = on_disk::answer(core, snapshot, site, variant, &found).await;
            finish(core, snapshot, &left, site, variant, answer).await
        }
    })
}

/// Gives the request its id, where that is shown anywhere.
fn identify(core: &Core, snapshot: &Snapshot, request: &mut Request, progress: &Progress) {
    let hot = &mut *core.hot.borrow_mut();
    let config = &snapshot.config.request_id;
    let is_shown = config.answer || config.forward || hot.log.wants_request_id();
    // A request that the server makes itself has that of the one for whose sake it is made.
    if !is_shown || !request.id.is_empty() {
        return;
    }
    let fields = HeadFields { head: &request.received.head, buffer: &request.received.buffer };
    let id = hot.request_ids.of(config, progress.is_from_proxy, &fields);
    request.id = id.as_str().into();
    *progress.id.borrow_mut() = Some(id);
}

/// Prepares the head that a program or an origin gets: without a trace context that is not valid, and with the
/// request's id where that is to be handed on.
fn hand_on(snapshot: &Snapshot, request: &mut Request) {
    let trace = trace_context::from_fields(request.received.fields());
    let config = &snapshot.config.request_id;
    let own_id = config.forward && !request.id.is_empty();
    let is_id = |name: &[u8]| own_id && name.eq_ignore_ascii_case(config.field.as_bytes());
    let stays = |name: &[u8]| trace_context::is_handed_on(name, trace.as_ref()) && !is_id(name);
    if !own_id && request.received.fields().all(|(name, _)| stays(name)) {
        return;
    }
    let added = own_id.then_some((config.field.as_bytes(), request.id.as_bytes()));
    let written = request.received.with_fields(stays, added);
    if let Some(written) = written {
        request.received = Rc::new(written);
    }
}

/// A request's id at the end of a line of the error log.
struct Named<'a>(&'a str);

impl std::fmt::Display for Named<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(formatter, " (request {})", self.0) }
    }
}

fn apply(resolved: &Resolved<'_>, mut answer: Answer) -> Answer {
    resolved.fields.iter().for_each(|fields| fields.apply(&mut answer.fields));
    answer
}

async fn answer_file(
    core: &Rc<Core>,
    snapshot: &Arc<Snapshot>,
    request: &Request,
    site: usize,
    variant: Variant,
) -> Answer {
    let file_request = file_request(snapshot, request, site, variant);
    // Apart, because its future is long, and those of programs would have to be moved with room for it.
    let answer = Box::pin(static_files::answer(core, &file_request)).await;
    finish(core, snapshot, request, site, variant, answer).await
}

/// Adds what the site says about all its answers.
async fn finish(
    core: &Rc<Core>,
    snapshot: &Arc<Snapshot>,
    request: &Request,
    site: usize,
    variant: Variant,
    mut answer: Answer,
) -> Answer {
    if answer.is_error_page
        && let Some(page) = snapshot.sites[site].config.error_pages.get(&answer.status)
    {
        let file_request = file_request(snapshot, request, site, variant);
        Box::pin(static_files::use_error_page(core, &file_request, page, &mut answer)).await;
    }
    answer.fields.extend_from_slice(&snapshot.sites[site].fields);
    answer
}

fn file_request<'a>(
    snapshot: &'a Arc<Snapshot>,
    request: &'a Request,
    site: usize,
    variant: Variant,
) -> FileRequest<'a> {
    FileRequest {
        snapshot,
        site,
        request,
        head: &request.received.head,
        buffer: &request.received.buffer,
        path: &request.path_as_sent,
        query: request.query.as_deref(),
        variant,
    }
}

/// The handler of an interface on this core.
pub fn handler_of(
    core: &Rc<Core>,
    snapshot: &Arc<Snapshot>,
    interface: &Arc<dyn Interface>,
) -> Rc<dyn handler::Handler> {
    core.handlers
        .get(interface, || Rc::new(ServerOfCore { core: Rc::downgrade(core), snapshot: snapshot.clone() }))
}

/// What handlers may ask of their core, under the configuration that they were made from.
struct ServerOfCore {
    // Not to be kept alive by its own handlers.
    core: Weak<Core>,
    snapshot: Arc<Snapshot>,
}

impl handler::Server for ServerOfCore {
    fn date(&self) -> DateSecond {
        match self.core.upgrade() {
            Some(core) => core.clock.second(),
            None => DateSecond { unix_seconds: 0, text: *b"Thu, 01 Jan 1970 00:00:00 GMT" },
        }
    }

    fn log(&self, level: Level, what: &'static str, message: &str) {
        if let Some(core) = self.core.upgrade() {
            core.error_log.limited(level.into(), what, message);
        }
    }

    fn answer(&self, request: Request) -> OnCore<Answer> {
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
}
