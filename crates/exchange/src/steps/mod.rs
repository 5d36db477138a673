//! One request from its complete head to its answer: site, routes, access rules, handler. The same for every
//! version of HTTP, and for the requests that the server makes itself.
//!
//! ```text
//! make_request: target -> site -> path in its normal form
//! answer: routes and rewrites -> access rules -> handler or file -> fields and error page of the site
//! ```
//!
//! | module | |
//! |---|---|
//! | `make_request` | makes a request with its site from a received head |
//! | `answer_variables` | the values of variables in the fields of an answer |
//! | `refusal_page` | the error page for a request that is refused before its rules are known |
//! | `progress` | the state of an exchange, for the connection and the logs |
//! | `browser` | the fields of an answer for browsers |
//! | `forward_auth` | queries the authority of a site or route |
//! | `login` | the session of a user, and the paths of a login |
//! | `crawlers` | bots that sign requests, and the check of other visitors |
//! | `own_cookies` | removes the server's own cookies from what programs and origins get |
//! | `send_rate` | limits how fast a body is sent |
//! | `middleware` | components that run before the action of a route |
//! | `core_handlers` | the handlers of interfaces on a core, and the functions of the core for them |
//!
//! Nothing here uses sockets: the connection polls the future, feeds the request's body into its pipe at the
//! same time, and drops both when the client disconnects.

mod answer_variables;
mod browser;
mod core_handlers;
mod crawlers;
mod forward_auth;
mod login;
mod make_request;
mod middleware;
mod own_cookies;
mod progress;
mod refusal_page;
mod send_rate;

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use touchstone_access as access;
use touchstone_config::routes::AnswerFields;
use touchstone_config::{COUNTRY_FIELD, LogLevel, SYSTEM_FIELD};
use touchstone_files::cache::ConnectionForm;
use touchstone_files::coding::CodingSettings;
use touchstone_handler::answer::Answer;
use touchstone_handler::handler::{self, Handled, LocalBoxFuture, PendingCall};
use touchstone_handler::request::Request;
use touchstone_http::forged_fields;
use touchstone_http::path::{ESCAPED_SLASH, needs_escapes};
use touchstone_http::request::Method;
use touchstone_http::request_view::{HeadFields, RequestView};
use touchstone_http::target::{PathError, normalise_path};
use touchstone_http::trace_context;
use touchstone_observe::log::error::ErrorLog;
use touchstone_sites::answer_policy::AnswerPolicy;
use touchstone_sites::compression;
use touchstone_sites::route::{Outcome, RouteDecision, SiteRules};
use touchstone_sites::site::Snapshot;
use touchstone_sites::substitution::Substitution;
use touchstone_telemetry::SamplingInput;

use crate::core::{Core, CoreState, OwnRequests};
use crate::files::file_request::FileRequest;
use crate::files::includes;
use crate::files::on_disk;
use crate::files::site_files;
use crate::files::static_files;

use answer_variables::AnswerVariables;
use browser::BrowserFields;
use middleware::Chain;

pub use core_handlers::{begin_early, handler_of};
pub use make_request::{Arrival, client_of, make_request, refuse};
pub use progress::Progress;
pub use refusal_page::{RefusedRequest, add_refusal_page, named_host, with_refusal_page};

/// An answer, with values for the log.
pub struct ExchangeAnswer {
    /// The answer.
    pub answer: Answer,
    /// The client, behind trusted proxies; `None`: the peer of the connection.
    pub client: Option<IpAddr>,
    /// The user that was authenticated.
    pub user: Option<Box<str>>,
}

impl From<Answer> for ExchangeAnswer {
    fn from(answer: Answer) -> ExchangeAnswer {
        ExchangeAnswer { answer, client: None, user: None }
    }
}

/// The status for an invalid path.
fn path_status(encoded_path: &[u8]) -> u16 {
    match normalise_path(encoded_path, &mut Vec::new()) {
        Err(PathError::EncodedSlash) => 404,
        _ => 400,
    }
}

/// Answers a request. `form` is the form of head that the connection needs for cached files.
pub async fn answer(
    core: Rc<Core>,
    snapshot: Arc<Snapshot>,
    mut request: Request,
    form: ConnectionForm,
    progress: Rc<Progress>,
) -> ExchangeAnswer {
    let mut answered = ExchangeAnswer { answer: Answer::new(200), client: None, user: None };
    answered.client = request.client.map(|client| client.ip());
    if let Some(under_way) = &*progress.under_way() {
        under_way.request().set_client(answered.client);
    }
    identify(&core, &snapshot, &mut request, &progress);
    request.interim = Some(progress.clone());
    let context = StepContext { core: &core, snapshot: &snapshot, form, progress: &progress };
    let first = step(context, request, &mut answered).await;
    run_to_answer(context, first, answered).await
}

/// What all steps of a request use.
#[derive(Clone, Copy)]
struct StepContext<'c> {
    core: &'c Rc<Core>,
    snapshot: &'c Arc<Snapshot>,
    /// The form of head that the connection needs for cached files.
    form: ConnectionForm,
    progress: &'c Progress,
}

/// Repeats the steps while handlers change the request, until there is an answer.
async fn run_to_answer(
    context: StepContext<'_>,
    mut next: NextStep,
    mut answered: ExchangeAnswer,
) -> ExchangeAnswer {
    loop {
        match next {
            NextStep::Answer(mut answer) => {
                let config = &context.snapshot.config.request_id;
                if let (true, Some(id)) = (config.answer, &*context.progress.facts.id()) {
                    answer = answer.field(&config.field, id.as_str());
                }
                answered.answer = answer;
                return answered;
            }
            NextStep::Again(again) => {
                next = step(context, *again, &mut answered).await;
            }
        }
    }
}

/// A request that only a route's program answers, possibly already in progress.
pub struct ProgramRequest {
    /// The request, which has passed all checks before the program.
    pub request: Request,
    /// The program's handler.
    pub handler: Rc<dyn handler::Handler>,
    /// The call that the handler has started.
    pub call: Option<Box<dyn PendingCall>>,
}

/// Lets the program answer.
pub async fn answer_by_program(
    core: Rc<Core>,
    snapshot: Arc<Snapshot>,
    program_request: ProgramRequest,
    form: ConnectionForm,
    progress: Rc<Progress>,
) -> ExchangeAnswer {
    let ProgramRequest { mut request, handler, call } = program_request;
    let answered = ExchangeAnswer {
        answer: Answer::new(200),
        client: request.client.map(|client| client.ip()),
        user: request.user.clone(),
    };
    request.interim = Some(progress.clone());
    let (site, request_without_body) = (request.site, request.without_body());
    progress.signals.handler_started();
    let handled = match call {
        Some(call) => call.continue_request(request).await,
        None => handler.handle(request).await,
    };
    let context = StepContext { core: &core, snapshot: &snapshot, form, progress: &progress };
    let mut first = process_handled(context, handled, request_without_body).await;
    if let NextStep::Answer(answer) = &mut first {
        // A request with more of a policy than the common fields is not passed to a program this way.
        if let Some(rules) = &snapshot.sites[site].rules {
            rules.add_common_fields(progress.facts.route(), &mut answer.fields);
        }
    }
    run_to_answer(context, first, answered).await
}

/// The same, for requests of the server itself. The result becomes a part of another answer, so it has no
/// content coding.
pub fn answer_boxed(core: Rc<Core>, snapshot: Arc<Snapshot>, mut request: Request) -> LocalBoxFuture<Answer> {
    let is_other = |name: &[u8]| !name.eq_ignore_ascii_case(b"accept-encoding");
    if !request.received.head.accept_encoding.is_absent()
        && let Some(received) = request.received.with_fields(is_other, None)
    {
        request.received = Rc::new(received);
    }
    Box::pin(async move {
        answer(core, snapshot, request, ConnectionForm::Persistent, Rc::default()).await.answer
    })
}

/// Answers a request of the server itself with a file of `site`.
fn answer_file_boxed(
    core: Rc<Core>,
    snapshot: Arc<Snapshot>,
    site: usize,
    request: Request,
) -> LocalBoxFuture<Answer> {
    Box::pin(async move {
        let file_request = file_request(&snapshot, &request, site, ConnectionForm::Persistent);
        static_files::answer(&core, &file_request).await
    })
}

/// How a core answers the requests that the server makes itself.
pub const OWN_REQUESTS: OwnRequests = OwnRequests { answer: answer_boxed, answer_file: answer_file_boxed };

enum NextStep {
    Answer(Answer),
    /// A handler has changed the request, which must be routed again.
    Again(Box<Request>),
}

impl NextStep {
    /// The answer with the fields and the error page of the site.
    async fn finish(context: StepContext<'_>, request: &Request, answer: Answer) -> NextStep {
        NextStep::Answer(finish(context, request, answer).await)
    }
}

/// One round: routes and rewrites, access rules, and the resulting action.
async fn step(context: StepContext<'_>, mut request: Request, answered: &mut ExchangeAnswer) -> NextStep {
    let StepContext { core, snapshot, progress, .. } = context;
    let site = request.site;
    progress.set_route(snapshot, site, None);
    if request.path.is_empty() {
        let answer = Answer::error(path_status(&request.encoded_path));
        return NextStep::Answer(finish_unrouted(context, &request, &request, answered, answer).await);
    }
    let Some(rules) = &snapshot.sites[site].rules else {
        progress.set_handler_name("files");
        if request.received.head.lacks_length {
            return NextStep::finish(context, &request, Answer::error(411)).await;
        }
        return NextStep::Answer(answer_file(context, &request, site).await);
    };
    // The received request: results of the rules are noted in `request` itself.
    let original = request.without_body();
    let fields = HeadFields { head: &original.received.head, buffer: &original.received.buffer };
    let connection = original.connection_view();
    let view = RequestView {
        client: original.client.map(|client| client.ip()),
        method: original.received.method_text(),
        path: &original.path,
        query: original.query.as_deref(),
        host: original.host.as_deref(),
        fields: &fields,
        connection: Some(&connection),
        locator: snapshot.locator.as_deref(),
    };
    if let Some((answer, policy, fields)) = preflight(rules, &view) {
        progress.set_handler_name("cors");
        let mut answer = finish(context, &request, answer).await;
        policy.common().apply(&mut answer.fields);
        answer.fields.extend_from_slice(&fields);
        add_site_fields(context, rules, &original, answered, &mut answer);
        return NextStep::Answer(answer);
    }
    if rules.crawlers().is_some() || rules.logins().is_some() {
        // Boxed, so that other futures do not get larger.
        let own = Box::pin(answer_own_path(context, rules, (&view, &original, &mut request), answered));
        if let Some(answer) = own.await {
            return NextStep::Answer(answer);
        }
    }
    let mut resolved = rules.resolve(&view);
    if rules.differs_with_kept_slashes(&resolved, &view, &original.encoded_path) {
        resolved.outcome = Outcome::AMBIGUOUS;
        resolved.rewritten = None;
    }
    request.route = resolved.route.map(|route| route.index);
    progress.set_route(snapshot, site, request.route);
    begin_trace(core, snapshot, &mut request, progress);
    let browser = BrowserFields::new(&resolved, &view);
    let mut routed =
        RoutedRequest { rules, resolved, view, browser, original: &original, cookies: Vec::new() };
    match apply_rules(context, &mut routed, request, answered).await {
        NextStep::Answer(answer) => NextStep::Answer(routed.complete(context, answered, answer)),
        again @ NextStep::Again(_) => again,
    }
}

/// Adds the fields of the site to an answer that no route has made.
async fn finish_unrouted(
    context: StepContext<'_>,
    request: &Request,
    original: &Request,
    answered: &ExchangeAnswer,
    answer: Answer,
) -> Answer {
    let mut answer = finish(context, request, answer).await;
    if let Some(rules) = &context.snapshot.sites[request.site].rules {
        rules.add_common_fields(None, &mut answer.fields);
        add_site_fields(context, rules, original, answered, &mut answer);
    }
    answer
}

/// The answer at a path that the server itself answers: of the check of visitors, or of a login. `None`: the
/// path is neither, and the cookies of both are removed from the request.
async fn answer_own_path(
    context: StepContext<'_>,
    rules: &SiteRules,
    (view, original, request): (&RequestView<'_>, &Request, &mut Request),
    answered: &ExchangeAnswer,
) -> Option<Answer> {
    let StepContext { core, snapshot, progress, .. } = context;
    let mut own =
        crawlers::answer(rules, view, original, progress).inspect(|_| progress.set_handler_name("check"));
    if own.is_none() && rules.logins().is_some() {
        own = login::answer(core, snapshot, rules, view, (original, &mut request.body), progress)
            .await
            .inspect(|_| progress.set_handler_name("login"));
    }
    match own {
        Some(answer) => Some(finish_unrouted(context, request, original, answered, answer).await),
        None if own_cookies::remove(rules, request) => None,
        None => Some(finish(context, request, Answer::error(500)).await),
    }
}

/// A request with the decisions of the routes.
struct RoutedRequest<'r, 'v> {
    rules: &'r SiteRules,
    resolved: RouteDecision<'r>,
    view: RequestView<'v>,
    browser: BrowserFields<'r>,
    /// The request as it was received.
    original: &'v Request,
    /// Cookies that an authority sets at the client.
    cookies: Vec<u8>,
}

impl RoutedRequest<'_, '_> {
    /// Adds to an answer what the routes and the site add to every answer.
    fn complete(&self, context: StepContext<'_>, answered: &ExchangeAnswer, mut answer: Answer) -> Answer {
        let RoutedRequest { rules, resolved, original, .. } = self;
        self.browser.apply(answer.status, &mut answer.fields);
        add_fields(context, &resolved.fields, original, answered, &mut answer);
        add_site_fields(context, rules, original, answered, &mut answer);
        if !resolved.logins.is_empty() {
            login::make_private(&mut answer);
        }
        if !self.cookies.is_empty() {
            forward_auth::add_cookies(&self.cookies, &mut answer);
        }
        let delivery = rules.delivery_at(resolved.route.map(|route| route.index));
        match delivery.and_then(|delivery| delivery.rate) {
            Some(rate) => send_rate::limit(answer, rate),
            None => answer,
        }
    }
}

/// Adds the fields of the site whose values have variables.
fn add_site_fields(
    context: StepContext<'_>,
    rules: &SiteRules,
    original: &Request,
    answered: &ExchangeAnswer,
    answer: &mut Answer,
) {
    if let Some(fields) = rules.fields() {
        add_fields(context, &[(fields, Vec::new())], original, answered, answer);
    }
}

/// Adds the fields of routes or of the site, whose values may have variables.
fn add_fields(
    context: StepContext<'_>,
    fields: &[(&AnswerFields, Vec<Bytes>)],
    original: &Request,
    answered: &ExchangeAnswer,
    answer: &mut Answer,
) {
    let StepContext { snapshot, progress, .. } = context;
    for (fields, captures) in fields {
        let status = answer.status;
        let source = AnswerVariables { request: original, answered, progress, snapshot, status, captures };
        fields.apply(&mut answer.fields, &source);
    }
}

/// Applies the access rules to a request, and carries out the decisions of the routes.
async fn apply_rules(
    context: StepContext<'_>,
    routed: &mut RoutedRequest<'_, '_>,
    mut request: Request,
    answered: &mut ExchangeAnswer,
) -> NextStep {
    let StepContext { core, snapshot, form, progress } = context;
    if let Err(answer) = check_rules(context, routed, &mut request, answered).await {
        return NextStep::finish(context, &request, answer).await;
    }
    let site = request.site;
    let RoutedRequest { rules, resolved, view, browser, .. } = routed;
    let (rules, view) = (*rules, *view);
    if let Some(rewritten) = resolved.rewritten.take() {
        request.path = rewritten.path;
        request.encoded_path = rewritten.encoded_path;
        request.query = rewritten.query;
    } else if let Outcome::Files { root } = resolved.outcome
        && rules.lacks_slash(&view)
        && site_files::is_missing(&snapshot.sites[snapshot.files_of(site, root)], view.path)
    {
        progress.set_handler_name("redirect");
        let answer = static_files::redirect_to_slash(view.path, view.query);
        return NextStep::finish(context, &request, answer).await;
    }
    if let Some(route) = resolved.tries_files() {
        let now = RequestView { path: &request.path, query: request.query.as_deref(), ..view };
        if let Some(file) = site_files::existing_try_file(snapshot, site, route, &now) {
            resolved.outcome = Outcome::Files { root: route.root };
            request.path = file.path;
            request.encoded_path = file.encoded_path;
        }
    }
    if !add_place_fields(rules, &mut request) || !browser.pass_nonce(snapshot, rules, resolved, &mut request)
    {
        return NextStep::finish(context, &request, Answer::error(500)).await;
    }
    if let Some(chain) = Chain::of(core, snapshot, rules, resolved, (site, form)) {
        progress.set_handler_name("middleware");
        progress.signals.handler_started();
        if !progress.is_cleaned() {
            prepare_head(snapshot, &mut request);
        }
        let request_without_body = request.without_body();
        let mut answer = Box::pin(chain.answer_here(request)).await;
        if answer.is_error_page {
            use_error_page(context, &request_without_body, &mut answer).await;
        }
        middleware::add_missing(&snapshot.sites[site].fields, &mut answer);
        return NextStep::Answer(answer);
    }
    carry_out(context, resolved, request).await
}

/// Checks the rules on a request in their order, and notes in it what they have found. The error is the
/// answer to a refused request.
async fn check_rules(
    context: StepContext<'_>,
    routed: &mut RoutedRequest<'_, '_>,
    request: &mut Request,
    answered: &mut ExchangeAnswer,
) -> Result<(), Answer> {
    let StepContext { core, snapshot, progress, .. } = context;
    let RoutedRequest { resolved, view, original, cookies, .. } = routed;
    if is_body_too_long(core, snapshot, request) {
        return Err(Answer::error(413));
    }
    admit(snapshot, resolved, view, request, progress, answered).await?;
    if !resolved.crawlers.is_empty() {
        // Boxed, so that other futures do not get larger.
        let checked = Box::pin(crawlers::check(resolved, view, original, (&mut *request, progress)));
        checked.await.inspect_err(|_| progress.set_handler_name("check"))?;
    }
    if !resolved.logins.is_empty() {
        // Boxed, so that other futures do not get larger.
        let rules = (&*resolved, &*view, *original);
        let checked = Box::pin(check_logins(core, snapshot, rules, &mut *request, progress, cookies));
        checked.await.inspect_err(|_| progress.set_handler_name("login"))?;
        answered.user.clone_from(&request.user);
    }
    if !resolved.authorities.is_empty() {
        // Boxed, so that other futures do not get larger.
        let rules = (&*resolved, &*view);
        let allowed = Box::pin(ask_authorities(core, snapshot, rules, &mut *request, progress, cookies));
        allowed.await.inspect_err(|_| progress.set_handler_name("forward_auth"))?;
        if request.user.is_some() {
            answered.user.clone_from(&request.user);
        }
    }
    let counted = access::count_admitted(&resolved.gates, &*request).await;
    counted.map_err(|refusal| {
        progress.set_handler_name("access");
        refusal.answer()
    })
}

/// Applies the access rules. The error is the answer to a refused request.
async fn admit(
    snapshot: &Snapshot,
    resolved: &RouteDecision<'_>,
    view: &RequestView<'_>,
    request: &mut Request,
    progress: &Progress,
    answered: &mut ExchangeAnswer,
) -> Result<(), Answer> {
    let admitted = access::pass(&resolved.gates, view).await.map_err(|refusal| {
        progress.set_handler_name("access");
        refusal.answer()
    })?;
    // The client's values of fields that only a server may set are removed before those of claims are added.
    if !admitted.fields().is_empty() && !progress.set_cleaned() {
        prepare_head(snapshot, request);
    }
    if !write_fields(admitted.fields(), request) {
        return Err(Answer::error(500));
    }
    if let Some(identity) = &admitted.identity {
        progress.facts.set_claims(identity.clone());
        request.claims = Some(identity.clone());
    }
    if let Some(user) = admitted.user {
        let name: Box<str> = String::from_utf8_lossy(user.name()).into();
        (request.user, answered.user) = (Some(name.clone()), Some(name));
    }
    Ok(())
}

/// Adds fields with the location of the client for programs and origins; clients cannot set these fields.
/// Returns whether that was possible.
fn add_place_fields(rules: &SiteRules, request: &mut Request) -> bool {
    let Some(geoip) = rules.geoip() else { return true };
    let location = request.client.map(|client| geoip.locate(client.ip())).unwrap_or_default();
    let is_of_place = |name: &[u8]| {
        [COUNTRY_FIELD, SYSTEM_FIELD].iter().any(|other| forged_fields::is_alike(name, other.as_bytes()))
    };
    let country = location.country.as_ref().map(|code| (COUNTRY_FIELD.as_bytes(), &code[..]));
    let number = location.asn.map(|number| number.to_string());
    let system = number.as_ref().map(|number| (SYSTEM_FIELD.as_bytes(), number.as_bytes()));
    let written = request.received.with_fields(|name| !is_of_place(name), country.into_iter().chain(system));
    let Some(written) = written else { return false };
    request.received = Rc::new(written);
    true
}

/// Checks the sessions of the logins of a request, and notes their users in it; a client whose address is
/// enough needs none. The error is the answer to a request without a session.
async fn check_logins(
    core: &Core,
    snapshot: &Arc<Snapshot>,
    (resolved, view, original): (&RouteDecision<'_>, &RequestView<'_>, &Request),
    request: &mut Request,
    progress: &Progress,
    cookies: &mut Vec<u8>,
) -> Result<(), Answer> {
    if !progress.set_cleaned() {
        prepare_head(snapshot, request);
    }
    for required in &resolved.logins {
        if !required.is_excused(view) {
            login::check(core, snapshot, required.rule, original, (request, progress), cookies).await?;
        } else if !write_fields(&required.rule.unknown().fields, request) {
            return Err(Answer::error(500));
        }
    }
    Ok(())
}

/// Queries the authorities that must allow a request, and notes their answers in it. The error is the answer
/// to a request that is not allowed.
async fn ask_authorities(
    core: &Rc<Core>,
    snapshot: &Arc<Snapshot>,
    (resolved, view): (&RouteDecision<'_>, &RequestView<'_>),
    request: &mut Request,
    progress: &Progress,
    cookies: &mut Vec<u8>,
) -> Result<(), Answer> {
    let original = request.without_body();
    // The client's values of fields that only a server may set are removed before those of the authority are
    // added.
    if !progress.set_cleaned() {
        prepare_head(snapshot, request);
    }
    for required in &resolved.authorities {
        let names = &required.rule.config.fields;
        let is_of_authority =
            |name: &[u8]| names.iter().any(|other| forged_fields::is_alike(name, other.as_bytes()));
        if required.is_excused(view) {
            let written = request.received.with_fields(|name| !is_of_authority(name), None);
            request.received = Rc::new(written.ok_or_else(|| Answer::error(502))?);
            continue;
        }
        let allowed = forward_auth::ask(core, snapshot, required.rule, &original).await?;
        let fields = &allowed.passed.fields;
        let added = fields.iter().map(|(name, value)| (name.as_bytes(), &**value));
        let written = request.received.with_fields(|name| !is_of_authority(name), added);
        request.received = Rc::new(written.ok_or_else(|| Answer::error(502))?);
        request.is_admitted = true;
        if allowed.passed.user.is_some() {
            request.user = allowed.passed.user;
        }
        cookies.extend_from_slice(&allowed.cookies);
    }
    Ok(())
}

/// The answer to a CORS preflight request, if the route of the later request has CORS rules: the status, the
/// policy of the route, and lines for the answer. Rules on addresses and rates apply; rules on users do not,
/// because a preflight request has no credentials.
fn preflight<'r>(
    rules: &'r SiteRules,
    view: &RequestView<'_>,
) -> Option<(Answer, &'r AnswerPolicy, Vec<u8>)> {
    let method = rules.preflight_method(view)?;
    let resolved = rules.resolve(&RequestView { method, ..*view });
    let policy = resolved.policy?;
    let (status, fields) = policy.preflight(view)?;
    if matches!(resolved.outcome, Outcome::Failed { .. }) {
        return None;
    }
    match access::pass_without_user(&resolved.gates, view) {
        Ok(()) if status < 300 => Some((Answer::new(status), policy, fields)),
        Ok(()) => Some((Answer::error(status), policy, fields)),
        Err(refusal) => Some((refusal.answer(), policy, Vec::new())),
    }
}

/// Carries out the action of the rules.
async fn carry_out(context: StepContext<'_>, resolved: &RouteDecision<'_>, mut request: Request) -> NextStep {
    let StepContext { core, snapshot, progress, .. } = context;
    let site = request.site;
    match &resolved.outcome {
        Outcome::Handler(interface) if needs_escapes(&request.path) && !interface.takes_escapes() => {
            progress.set_handler_name(interface.name());
            let status = if request.path.contains(&ESCAPED_SLASH) { 404 } else { 400 };
            NextStep::finish(context, &request, Answer::error(status)).await
        }
        // RFC 9110 section 15.5.12: there may be a body whose end cannot be found.
        outcome if request.received.head.lacks_length && !takes_missing_length(outcome) => {
            NextStep::finish(context, &request, Answer::error(411)).await
        }
        Outcome::Handler(interface) => {
            let request_without_body = request.without_body();
            let hints = resolved.route.map(|route| &route.early_hints).filter(|hints| !hints.is_empty());
            progress.signals.set_early_hints(hints.cloned());
            progress.signals.handler_started();
            progress.set_handler_name(interface.name());
            if !progress.is_cleaned() {
                prepare_head(snapshot, &mut request);
            }
            let pages = resolved.route.filter(|route| route.includes.is_some()).and_then(|route| route.root);
            if pages.is_some() {
                includes::request_plain_page(&mut request);
            }
            let mut handled = handler_of(core, snapshot, interface).handle(request).await;
            if let (Handled::Answer(answer), Some(root)) = (&mut handled, pages) {
                let pages = snapshot.files_of(site, Some(root));
                // Boxed, so that other futures do not get larger.
                Box::pin(includes::evaluate(core, snapshot, &request_without_body, pages, answer)).await;
            }
            process_handled(context, handled, request_without_body).await
        }
        Outcome::Files { root } => {
            progress.set_handler_name("files");
            let route = resolved.route.map(|route| route.index);
            let rules = snapshot.sites[site].rules.as_ref();
            let delivery = rules.and_then(|rules| rules.delivery_at(route));
            let files = snapshot.files_of(site, *root);
            NextStep::Answer(match delivery.and_then(|delivery| delivery.substitution.as_ref()) {
                // In a function of its own, so that futures which do not need it are smaller.
                Some(substitution) => {
                    let coded = &snapshot.sites[files].codings;
                    Box::pin(answer_replaced(context, request, files, (&**substitution, coded))).await
                }
                None => answer_file(context, &request, files).await,
            })
        }
        outcome => {
            progress.set_handler_name(match outcome {
                Outcome::Redirect { .. } => "redirect",
                _ => "respond",
            });
            if let Outcome::Failed { reason, .. } = outcome {
                let message = format_args!("{reason}{}", RequestIdSuffix(&request.id));
                let log = error_log(core, snapshot, &request);
                log.limited(LogLevel::Warning, "route failed", message);
            }
            let answer = outcome.answer().unwrap_or_else(|| Answer::error(500));
            NextStep::finish(context, &request, answer).await
        }
    }
}

/// The log of what goes wrong with a request.
fn error_log<'a>(core: &'a Core, snapshot: &'a Snapshot, request: &Request) -> &'a ErrorLog {
    let own = snapshot.logs.as_ref().and_then(|logs| logs.error_log_of(request.site, request.route));
    own.unwrap_or(&core.error_log)
}

/// Whether the body is longer than the site or route allows; a body of unknown length gets a limit.
fn is_body_too_long(core: &Core, snapshot: &Snapshot, request: &Request) -> bool {
    let most_bytes = snapshot.body_bytes(request.site, request.route);
    if most_bytes == snapshot.most_body_bytes {
        // The connection checks this limit.
        return false;
    }
    match request.body_length() {
        Some(length) if length > most_bytes => {
            let message = format_args!(
                "{} is refused: its body has {length} bytes, and body_bytes allows {most_bytes}{}",
                request.path.escape_ascii(),
                RequestIdSuffix(&request.id),
            );
            let log = error_log(core, snapshot, request);
            log.limited(LogLevel::Warning, "request body too long", message);
            true
        }
        Some(_) => false,
        None => {
            request.body.limit(most_bytes);
            false
        }
    }
}

/// Whether the action accepts an HTTP/1.0 request that does not declare the length of its body.
fn takes_missing_length(outcome: &Outcome<'_>) -> bool {
    match outcome {
        Outcome::Handler(interface) => interface.takes_missing_length(),
        Outcome::Files { .. } => false,
        _ => true,
    }
}

/// Processes the result of a handler.
async fn process_handled(
    context: StepContext<'_>,
    handled: Handled,
    request_without_body: Request,
) -> NextStep {
    let StepContext { core, snapshot, form, progress } = context;
    let site = request_without_body.site;
    NextStep::Answer(match handled {
        Handled::Answer(answer) => {
            progress.facts.set_cache(answer.cache);
            let answer = match is_intercepted(snapshot, &request_without_body, &answer) {
                true => without_its_page(answer),
                false => answer,
            };
            finish(context, &request_without_body, answer).await
        }
        Handled::LocalRedirect { target } => match request_without_body.derive(&target) {
            Some(next) => return NextStep::Again(Box::new(next)),
            None => {
                let message = "a program's local redirect is invalid, or a loop";
                let id = progress.facts.id_text();
                let message = format_args!("{message}{}", RequestIdSuffix(&id));
                let log = error_log(core, snapshot, &request_without_body);
                log.limited(LogLevel::Warning, "local redirect", message);
                finish(context, &request_without_body, Answer::error(500)).await
            }
        },
        Handled::Again(request) => return NextStep::Again(request),
        Handled::File(request) => {
            progress.signals.handler_ended();
            progress.set_handler_name("files");
            let files = own_files(snapshot, &request).unwrap_or(site);
            answer_file(context, &request, files).await
        }
        Handled::OnDisk(found) => {
            progress.signals.handler_ended();
            let answer = on_disk::answer(core, snapshot, site, form, &found).await;
            finish(context, &request_without_body, answer).await
        }
    })
}

/// The files of a route with scripts or WebDAV, if it has its own settings for files.
fn own_files(snapshot: &Snapshot, request: &Request) -> Option<usize> {
    let index = request.route?;
    let site = &snapshot.sites[request.site];
    let root = site.rules.as_ref()?.route_at(index)?.root?;
    Some(snapshot.files_of(request.site, Some(root)))
}

/// Whether an error answer of a program or an origin is replaced by a page of the site.
fn is_intercepted(snapshot: &Snapshot, request: &Request, answer: &Answer) -> bool {
    answer.status >= 400
        && !answer.is_error_page
        && snapshot.intercepts_errors(request.site, request.route)
        && snapshot.error_page(request.site, request.route, answer.status).is_some()
}

/// An error without its body and the fields that describe the body.
fn without_its_page(mut answer: Answer) -> Answer {
    const BODY_FIELDS: [&str; 6] =
        ["etag", "last-modified", "accept-ranges", "cache-control", "expires", "vary"];
    let mut fields = Vec::with_capacity(answer.fields.len() + 64);
    for line in answer.fields.split_inclusive(|byte| *byte == b'\n') {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        let is_of_body = name.get(..8).is_some_and(|begin| begin.eq_ignore_ascii_case(b"content-"))
            || BODY_FIELDS.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()));
        if !is_of_body {
            fields.extend_from_slice(line);
        }
    }
    let page = Answer::error(answer.status);
    fields.extend_from_slice(&page.fields);
    answer.fields = fields;
    answer.body = page.body;
    answer.is_error_page = true;
    answer.declared_length = None;
    answer
}

/// Sets the request's id, if the id is used anywhere.
fn identify(core: &Core, snapshot: &Snapshot, request: &mut Request, progress: &Progress) {
    let state = &mut *core.state.borrow_mut();
    let config = &snapshot.config.request_id;
    let is_shown = config.answer || config.forward || state.log.needs_request_id();
    // A request that the server makes itself has the id of the request that it is made for.
    if !is_shown || !request.id.is_empty() {
        return;
    }
    let fields = HeadFields { head: &request.received.head, buffer: &request.received.buffer };
    let id = state.request_ids.of(config, progress.is_from_proxy(), &fields);
    request.id = id.as_str().into();
    progress.facts.set_id(id);
}

/// Begins the trace of a client's request, if its site or route is traced.
fn begin_trace(core: &Core, snapshot: &Arc<Snapshot>, request: &mut Request, progress: &Progress) {
    // A request that the server makes itself belongs to the trace of the one that it is made for.
    if snapshot.trace_rules.is_none() || request.trace.is_some() || request.depth > 0 {
        return;
    }
    let CoreState { tracer, request_ids, snapshot: present, .. } = &mut *core.state.borrow_mut();
    let Some(tracer) = tracer else { return };
    // After a reload the positions may be those of other sites.
    let is_present = Arc::ptr_eq(snapshot, present);
    let sampling_input = SamplingInput {
        site: Some(request.site).filter(|_| is_present),
        route: request.route,
        is_from_proxy: progress.is_from_proxy(),
    };
    let trace = tracer.begin(sampling_input, request.received.fields(), request_ids);
    if let Some(trace) = trace {
        progress.facts.set_trace(trace.clone());
        request.trace = Some(trace);
    }
}

/// Prepares the head for a program or an origin: removes an invalid trace context and fields that a client is
/// not allowed to set, and adds the request's id if configured, and the trace context of the server if it
/// traces the request.
fn prepare_head(snapshot: &Snapshot, request: &mut Request) {
    let own_trace = request.trace.clone();
    let trace = trace_context::from_fields(request.received.fields()).filter(|_| own_trace.is_none());
    let config = &snapshot.config.request_id;
    let own_id = config.forward && !request.id.is_empty();
    let is_id = |name: &[u8]| own_id && name.eq_ignore_ascii_case(config.field.as_bytes());
    let is_trusted = request.trusted_proxy.is_some();
    let stays = |name: &[u8]| {
        trace_context::is_forwarded(name, trace.as_ref())
            && !is_id(name)
            && !forged_fields::ends_here(name, is_trusted)
    };
    if !own_id && own_trace.is_none() && request.received.fields().all(|(name, _)| stays(name)) {
        return;
    }
    let id = own_id.then_some((config.field.as_bytes(), request.id.as_bytes()));
    let parent = own_trace.as_ref().map(|trace| trace.trace_parent());
    let parent = parent.as_ref().map(|value| (&b"traceparent"[..], &value[..]));
    let state = own_trace.as_ref().map(|trace| &*trace.state).filter(|state| !state.is_empty());
    let state = state.map(|state| (&b"tracestate"[..], state));
    let written = request.received.with_fields(stays, [id, parent, state].into_iter().flatten());
    if let Some(written) = written {
        request.received = Rc::new(written);
    }
}

/// Replaces the fields of the client by those made from claims. Returns whether that was possible.
fn write_fields(fields: &[(Arc<str>, Option<String>)], request: &mut Request) -> bool {
    if fields.is_empty() {
        return true;
    }
    let is_of_token =
        |name: &[u8]| fields.iter().any(|(other, _)| forged_fields::is_alike(name, other.as_bytes()));
    let added = fields.iter().filter_map(|(name, value)| Some((name.as_bytes(), value.as_ref()?.as_bytes())));
    let written = request.received.with_fields(|name| !is_of_token(name), added);
    let Some(written) = written else { return false };
    request.received = Rc::new(written);
    true
}

/// A request's id at the end of a line of the error log.
struct RequestIdSuffix<'a>(&'a str);

impl std::fmt::Display for RequestIdSuffix<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(formatter, " (request {})", self.0) }
    }
}

/// Answers with a file of `files`, a site or a route with its own settings of files.
async fn answer_file(context: StepContext<'_>, request: &Request, files: usize) -> Answer {
    let file_request = file_request(context.snapshot, request, files, context.form);
    // Boxed, because its future is large, and those of programs would need the same room.
    let answer = Box::pin(static_files::answer(context.core, &file_request)).await;
    // Error pages are files of the site, not of a route's directory.
    finish(context, request, answer).await
}

/// Answers with a file in which texts are replaced.
async fn answer_replaced(
    context: StepContext<'_>,
    mut request: Request,
    files: usize,
    (substitution, codings): (&Substitution, &CodingSettings),
) -> Answer {
    let answer_form = compression::AnswerForm::of(&request, codings);
    let is_head = request.received.head.method == Method::Head;
    if !substitution.request_plain_form(&mut request) {
        return Answer::error(500);
    }
    let answer = answer_file(context, &request, files).await;
    answer_form.apply(substitution.apply(answer, is_head))
}

/// Adds the fields that the site adds to all its answers.
async fn finish(context: StepContext<'_>, request: &Request, mut answer: Answer) -> Answer {
    if answer.is_error_page {
        use_error_page(context, request, &mut answer).await;
    }
    answer.fields.extend_from_slice(&context.snapshot.sites[request.site].fields);
    answer
}

/// Replaces the built-in error page by the site's own page, if it has one.
async fn use_error_page(context: StepContext<'_>, request: &Request, answer: &mut Answer) {
    let StepContext { core, snapshot, form, .. } = context;
    if let Some(page) = snapshot.error_page(request.site, request.route, answer.status) {
        let file_request = file_request(snapshot, request, request.site, form);
        Box::pin(static_files::use_error_page(core, &file_request, page, answer)).await;
    }
}

fn file_request<'a>(
    snapshot: &'a Arc<Snapshot>,
    request: &'a Request,
    site: usize,
    form: ConnectionForm,
) -> FileRequest<'a> {
    FileRequest {
        snapshot,
        site,
        request,
        head: &request.received.head,
        buffer: &request.received.buffer,
        path: &request.encoded_path,
        query: request.query.as_deref(),
        form,
    }
}
