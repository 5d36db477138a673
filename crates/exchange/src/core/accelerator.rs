//! Hits of the cache before programs and origins.

use std::sync::Arc;

use touchstone_accelerator::rules::fields::Fields;
use touchstone_accelerator::rules::key::Target;
use touchstone_accelerator::store::{PlainRequest, StoredAnswers};
use touchstone_files::cache::{ConnectionForm, DateSecond, PreparedResponse};
use touchstone_http::request_view::RequestView;
use touchstone_sites::answer_policy::AnswerPolicy;
use touchstone_sites::site::Site;

/// An answer that is ready.
pub struct StoredHit<'f> {
    /// The answer.
    pub prepared: &'f Arc<PreparedResponse>,
    /// The route, by its position.
    pub route: usize,
}

/// Finds the answer to a plain GET on a route with a cache, if it is stored and fresh, and access rules allow
/// the request at once. `view` has the path as it was sent, which is its own normal form.
#[inline]
pub fn stored_hit<'f, F: Fields>(
    stored_answers: &'f mut StoredAnswers,
    site: &Site,
    view: &RequestView<'_>,
    fields: F,
    is_secure: bool,
    (form, date): (ConnectionForm, &DateSecond),
) -> Option<StoredHit<'f>> {
    let program = site.rules.as_ref()?.immediate_program(view)?;
    let cached = program.cache?;
    let request = PlainRequest {
        target: Target {
            space: cached.space,
            is_secure,
            host: view.host?,
            path: view.path,
            query: view.query,
        },
        fields,
        policy: &cached.policy,
        may_be_known: site.config.tls.client_authorities.is_some(),
        site_fields: &site.fields,
        added: program.policy.map(AnswerPolicy::common),
    };
    let prepared = stored_answers.hit(request, form, date)?;
    // This is last, because it counts the request for rate limits.
    program.admit(view)?;
    Some(StoredHit { prepared, route: program.route })
}
