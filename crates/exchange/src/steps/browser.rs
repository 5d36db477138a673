//! The fields of an answer for browsers: those of `security_fields` and `cors`, with the nonce of the page
//! and the origin of the script if they contain these.

use std::rc::Rc;

use touchstone_config::NONCE_FIELD;
use touchstone_handler::request::Request;
use touchstone_http::forged_fields::is_alike;
use touchstone_http::request_view::RequestView;
use touchstone_sites::answer_policy::{AnswerPolicy, BrowserRequest, origin_of, preflight_method};
use touchstone_sites::route::{Outcome, RouteDecision, SiteRules};
use touchstone_sites::site::Snapshot;

/// Random bytes in a nonce. The standard requires 128 bits.
const NONCE_BYTES: usize = 18;

/// The fields, as far as they are known before the answer.
pub struct BrowserFields<'r> {
    policy: Option<&'r AnswerPolicy>,
    origin: Option<Box<[u8]>>,
    nonce: Option<Box<str>>,
}

impl<'r> BrowserFields<'r> {
    /// The fields for a request that has been resolved to `resolved`.
    pub fn new(resolved: &RouteDecision<'r>, request: &RequestView<'_>) -> BrowserFields<'r> {
        let policy = resolved.policy;
        // A preflight request that was not answered (see `preflight`) is for a route without CORS rules.
        let is_answer =
            |policy: &&AnswerPolicy| policy.lists_origins() && preflight_method(request).is_none();
        let origin = policy.filter(is_answer).and_then(|_| origin_of(request));
        BrowserFields { policy, origin: origin.map(Box::from), nonce: None }
    }

    /// Passes a nonce to the handler that makes the page, in a field of the request that clients cannot set.
    /// Returns whether that was possible.
    pub fn pass_nonce(
        &mut self,
        snapshot: &Snapshot,
        rules: &SiteRules,
        resolved: &RouteDecision<'_>,
        request: &mut Request,
    ) -> bool {
        if !rules.has_nonces() {
            return true;
        }
        let is_field = |name: &[u8]| is_alike(name, NONCE_FIELD.as_bytes());
        let is_made = makes_pages(snapshot, rules, resolved, request.site);
        if is_made && self.policy.is_some_and(AnswerPolicy::has_nonce) {
            // An included part has the nonce of the page.
            let of_page = request.received.values(NONCE_FIELD).next().filter(|_| request.depth > 0);
            let of_page = of_page.and_then(|nonce| std::str::from_utf8(nonce).ok()).map(Box::from);
            self.nonce = of_page.or_else(new_nonce);
            if self.nonce.is_none() {
                return false;
            }
        }
        if self.nonce.is_none()
            && (request.depth > 0 || !request.received.fields().any(|(name, _)| is_field(name)))
        {
            return true;
        }
        let added = self.nonce.as_deref().map(|nonce| (NONCE_FIELD.as_bytes(), nonce.as_bytes()));
        let Some(written) = request.received.with_fields(|name| !is_field(name), added) else { return false };
        request.received = Rc::new(written);
        true
    }

    /// Adds the fields to an answer with this status.
    pub fn apply(&self, status: u16, fields: &mut Vec<u8>) {
        if let Some(policy) = self.policy {
            let browser_request =
                BrowserRequest { origin: self.origin.as_deref(), nonce: self.nonce.as_deref() };
            policy.apply(browser_request, status, fields);
        }
    }
}

/// Whether a handler makes the page, which could contain the nonce: not a plain file.
fn makes_pages(snapshot: &Snapshot, rules: &SiteRules, resolved: &RouteDecision<'_>, site: usize) -> bool {
    let has_middleware = resolved.route.is_some_and(|route| !rules.middleware_at(route.index).is_empty());
    has_middleware
        || match resolved.outcome {
            Outcome::Handler(_) => true,
            Outcome::Files { root } => snapshot.sites[snapshot.files_of(site, root)].includes.is_some(),
            _ => false,
        }
}

fn new_nonce() -> Option<Box<str>> {
    use base64::Engine as _;
    let mut bytes = [0; NONCE_BYTES];
    aws_lc_rs::rand::fill(&mut bytes).ok()?;
    Some(base64::engine::general_purpose::STANDARD.encode(bytes).into())
}
