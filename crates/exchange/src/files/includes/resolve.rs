//! Resolves an included path: through the routes and access rules of the site, like a request of the client.

use std::rc::Rc;

use touchstone_access as access;
use touchstone_files::percent::encode_path;
use touchstone_handler::request::{ReceivedHead, Request};
use touchstone_http::content_coding::AcceptEncoding;
use touchstone_http::request_view::{ConnectionView, HeadFields, RequestView};
use touchstone_includes::{Target, TargetKind};
use touchstone_sites::hidden_names::is_refused_name;
use touchstone_sites::route::{Outcome, RouteDecision};
use touchstone_sites::site::Snapshot;

use crate::files::site_files;

/// A resolved path.
pub struct ResolvedInclude {
    /// The request for it, as the routes have rewritten it.
    pub request: Request,
    /// The target.
    pub to: IncludeTarget,
    /// Whether access rules were applied, which may decide differently for other requests.
    pub rules_applied: bool,
}

/// The target of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IncludeTarget {
    /// Files of this site.
    Files {
        /// Its index in the snapshot.
        site: usize,
    },
    /// A program.
    Handler,
    /// An answer of the routes themselves.
    Answer {
        /// Its status.
        status: u16,
    },
}

/// Makes the request for a target, derived from `request`.
pub fn derive(request: &Request, target: &Target) -> Result<Request, String> {
    let mut path = Vec::with_capacity(target.path.len() + 16);
    encode_path(&target.path, &mut path);
    if let Some(query) = &target.query {
        path.push(b'?');
        path.extend(query.iter().map(|&byte| if byte == b' ' { b'+' } else { byte }));
    }
    let shown = || String::from_utf8_lossy(&path).into_owned();
    let mut derived = request
        .derive(&path)
        .ok_or_else(|| format!("{} cannot be requested, or requests are nested too deep", shown()))?;
    // The page has no content coding, so its parts must not have one either.
    if let Some(ReceivedHead { head, buffer }) = Rc::get_mut(&mut derived.received) {
        head.fields.retain(|line| !line.name.of(buffer).eq_ignore_ascii_case(b"accept-encoding"));
        head.accept_encoding = AcceptEncoding::ABSENT;
    }
    Ok(derived)
}

/// Resolves a target; waits if a rule has to check a password. `files` is the site whose files the page
/// belongs to.
pub async fn resolve(
    snapshot: &Snapshot,
    request: &Request,
    files: usize,
    target: &Target,
) -> Result<ResolvedInclude, String> {
    let mut include = begin(snapshot, request, files, target)?;
    let Some(rules) = rules_for(snapshot, &include) else { return Ok(include) };
    // The rules may change the request itself.
    let original = include.request.without_body();
    let connection = original.connection_view();
    let fields = HeadFields { head: &original.received.head, buffer: &original.received.buffer };
    let view = view_of(&original, &fields, &connection);
    let resolved = rules.resolve(&view);
    if let Err(refusal) = access::pass(&resolved.gates, &view).await {
        let (path, status) = (String::from_utf8_lossy(&original.path), refusal.answer().status);
        return Err(format!("{path} is refused with {status}"));
    }
    check_logins(request, &resolved, &view)?;
    include.apply_rules(snapshot, resolved, &view);
    Ok(include)
}

/// Refuses what needs a session if the page was answered without one.
fn check_logins(
    request: &Request,
    resolved: &RouteDecision<'_>,
    view: &RequestView<'_>,
) -> Result<(), String> {
    let is_refused =
        request.session.is_none() && resolved.logins.iter().any(|required| !required.is_excused(view));
    match is_refused {
        true => Err(format!("{} needs a session", String::from_utf8_lossy(view.path))),
        false => Ok(()),
    }
}

/// The same without waiting: if a rule would have to wait, the target is refused.
pub fn resolve_at_once(
    snapshot: &Snapshot,
    request: &Request,
    files: usize,
    target: &Target,
) -> Result<ResolvedInclude, String> {
    let mut include = begin(snapshot, request, files, target)?;
    let Some(rules) = rules_for(snapshot, &include) else { return Ok(include) };
    let original = include.request.without_body();
    let connection = original.connection_view();
    let fields = HeadFields { head: &original.received.head, buffer: &original.received.buffer };
    let view = view_of(&original, &fields, &connection);
    let resolved = rules.resolve(&view);
    // An authority would have to be contacted.
    if !resolved.authorities.is_empty() || !resolved.gates.iter().all(|gate| gate.admit_part(&view).is_some())
    {
        return Err(format!("{} is refused", String::from_utf8_lossy(&original.path)));
    }
    check_logins(request, &resolved, &view)?;
    include.apply_rules(snapshot, resolved, &view);
    Ok(include)
}

fn begin(
    snapshot: &Snapshot,
    request: &Request,
    files: usize,
    target: &Target,
) -> Result<ResolvedInclude, String> {
    let derived = derive(request, target)?;
    // A path cannot reach files of a route's own directory. It can reach files of the site, through the
    // site's routes.
    let beside = target.kind == TargetKind::File && files != request.site;
    let site = if beside { files } else { request.site };
    if is_refused_name(&snapshot.sites[site], &derived.path) {
        return Err(format!("{} is hidden", String::from_utf8_lossy(&derived.path)));
    }
    Ok(ResolvedInclude { request: derived, to: IncludeTarget::Files { site }, rules_applied: false })
}

fn rules_for<'s>(
    snapshot: &'s Snapshot,
    include: &ResolvedInclude,
) -> Option<&'s touchstone_sites::route::SiteRules> {
    match include.to {
        IncludeTarget::Files { site } if site == include.request.site => snapshot.sites[site].rules.as_ref(),
        _ => None,
    }
}

/// The parts of a request that rules use.
fn view_of<'a>(
    request: &'a Request,
    fields: &'a HeadFields<'a>,
    connection: &'a ConnectionView<'a>,
) -> RequestView<'a> {
    RequestView {
        client: request.client.map(|client| client.ip()),
        method: b"GET",
        path: &request.path,
        query: request.query.as_deref(),
        host: request.host.as_deref(),
        fields,
        connection: Some(connection),
        locator: request.locator.as_deref(),
    }
}

impl ResolvedInclude {
    fn apply_rules(&mut self, snapshot: &Snapshot, mut resolved: RouteDecision<'_>, view: &RequestView<'_>) {
        self.rules_applied = true;
        let mut rewritten = resolved.rewritten.take();
        if let Some(route) = resolved.tries_files() {
            let now = match &rewritten {
                None => *view,
                Some(new) => RequestView { path: &new.path, query: new.query.as_deref(), ..*view },
            };
            if let Some(file) = site_files::existing_try_file(snapshot, self.request.site, route, &now) {
                resolved.outcome = Outcome::Files { root: route.root };
                rewritten = Some(file);
            }
        }
        self.to = match resolved.outcome {
            // If an authority must allow it, it is requested through the routes, as a client would.
            _ if !resolved.authorities.is_empty() => IncludeTarget::Handler,
            Outcome::Files { root } => {
                IncludeTarget::Files { site: snapshot.files_of(self.request.site, root) }
            }
            Outcome::Handler(_) => IncludeTarget::Handler,
            outcome => IncludeTarget::Answer { status: outcome.answer().map_or(500, |answer| answer.status) },
        };
        // A program is requested through the routes again, with the original path.
        if let (Some(rewritten), IncludeTarget::Files { .. }) = (rewritten, self.to) {
            self.request.path = rewritten.path;
            self.request.encoded_path = rewritten.encoded_path;
            self.request.query = rewritten.query;
        }
    }
}
