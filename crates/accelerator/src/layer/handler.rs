//! Answers a request: from the store, with the response that another request fetches, or with its own fetch.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use touchstone_handler::answer::{Answer, BodyPart, CacheResult};
use touchstone_handler::handler::{Handled, Handler, LocalBoxFuture};
use touchstone_handler::pipe::Receiver;
use touchstone_handler::request::Request;
use touchstone_http::date::parse_http_date;
use touchstone_http::request::Method;
use touchstone_http::target::normalise_path;

use super::Accelerator;
use super::answer;
use super::fetch::{Fetch, left_out_of_update};
use super::head::{RequestFields, for_origin};
use super::of_core::{AcceleratedOfCore, LookupFacts};
use super::shared_fetch::{JoinResult, Phase, Reader, SharedFetch};
use crate::rules::cache_status::{CacheOutcome, CacheStatus};
use crate::rules::conditions::is_for_origin;
use crate::rules::directives::RequestDirectives;
use crate::rules::fields::Fields;
use crate::rules::invalidation::{is_success, same_origin_target};
use crate::rules::key::{self, Target};
use crate::rules::partial::{self, strong_etag};
use crate::rules::reuse::{self, Reuse, is_origin_error, may_serve_on_error, request_directives};
use crate::rules::storing::Terms;
use crate::rules::validation::{conditions, is_same_representation};
use crate::rules::{fields, groups, query, storing, vary};
use crate::store::{NewObject, Object, State, hash_of, is_equivalent};

/// The maximum number of attempts after the awaited response was not for the request.
const MOST_ATTEMPTS: usize = 4;

/// The result of one attempt.
enum AttemptResult {
    Done(Handled),
    /// The response that it waited for is not for it.
    Again,
    /// The response that it waited for has failed, so the request is sent alone.
    Alone,
}

/// How a request is sent to the origin.
enum Plan {
    /// For itself only.
    Own(Fetch),
    /// For all requests that may wait for the response.
    Shared(Fetch),
}

impl Handler for AcceleratedOfCore {
    fn handle(self: Rc<Self>, request: Request) -> LocalBoxFuture<Handled> {
        Box::pin(self.answer(request))
    }
}

/// Whether the rules were applied to another path than the client has sent, because the program reads the
/// path differently (path parameters of servlet containers). If its response were stored under the sent path,
/// it would be found without applying the rules.
fn means_another_path(request: &Request) -> bool {
    if memchr::memchr(b';', &request.encoded_path).is_none() {
        return false;
    }
    let mut normal = Vec::with_capacity(request.encoded_path.len());
    normalise_path(&request.encoded_path, &mut normal).is_err() || request.path != normal
}

/// Whether the server has authenticated the client. The program may then send each client another answer.
fn is_known(request: &Request) -> bool {
    request.user.is_some()
        || request.is_admitted
        || request.tls.as_ref().is_some_and(|tls| !tls.client_certificates.is_empty())
}

impl AcceleratedOfCore {
    async fn answer(self: Rc<Self>, mut request: Request) -> Handled {
        let method = request.method();
        if !method.is_safe() {
            return self.handle_unsafe(request).await;
        }
        let received = RequestFields(&request.received);
        if method == Method::Query && !query::may_be_stored(received, request.body_length()) {
            return self.pass_on(request, CacheOutcome::Method).await;
        }
        let is_get = matches!(method, Method::Get | Method::Head) && request.body_length() == Some(0);
        let is_plain = (is_get || method == Method::Query)
            && request.host.is_some()
            && !received.has("upgrade")
            && !is_for_origin(received)
            && !means_another_path(&request)
            && !self.route.policy.bypass.as_ref().is_some_and(|bypass| bypass.holds(&request));
        if !is_plain {
            return self.pass_on(request, CacheOutcome::Bypass).await;
        }
        let mut content = None;
        if method == Method::Query {
            match request.take_body().collect(query::MOST_CONTENT_BYTES as usize).await {
                Ok(body) => content = Some(Bytes::from(body)),
                Err(_) => return Handled::Answer(Answer::error(400)),
            }
        }
        let facts = Rc::new(self.facts(&request, content));
        let mut may_join = true;
        for attempt in 0..MOST_ATTEMPTS {
            may_join &= attempt + 1 < MOST_ATTEMPTS;
            match self.clone().attempt(&request, &facts, may_join).await {
                AttemptResult::Done(handled) => return handled,
                AttemptResult::Again => {}
                AttemptResult::Alone => may_join = false,
            }
        }
        if let Some(content) = &facts.query_content {
            request.body = Receiver::of(content.clone());
        }
        self.pass_on(request, CacheOutcome::Bypass).await
    }

    fn facts(&self, request: &Request, query_content: Option<Bytes>) -> LookupFacts {
        let policy = &*self.route.policy;
        let mut key = Vec::with_capacity(128);
        key::write_key(
            &self.target(request, &request.encoded_path, request.query.as_deref()),
            policy,
            &mut key,
        );
        let received = RequestFields(&request.received);
        let epoch = |key: &[u8]| self.route.accelerator.store.query_epoch(hash_of(key));
        if policy.key.is_some() || !policy.key_of_origin.is_empty() {
            let (texts, epoch) = (policy.key.iter().chain(&policy.key_of_origin), epoch(&key));
            key::append_texts(texts, request, epoch, &mut key);
        }
        if let Some(content) = &query_content {
            let epoch = epoch(key::target_part(&key));
            query::append_to_key(received, content, epoch, &mut key);
        }
        let mut directives = match policy.client_directives {
            true => request_directives(received),
            false => RequestDirectives::default(),
        };
        directives.no_store |= policy.no_store.as_ref().is_some_and(|no_store| no_store.holds(request));
        LookupFacts {
            hash: hash_of(&key),
            key,
            directives,
            is_authorized: received.has("authorization") || is_known(request),
            has_cookie: !policy.ignore_cookies && received.has("cookie"),
            has_range: query_content.is_none() && received.has("range"),
            query_content,
        }
    }

    fn target<'a>(&self, request: &'a Request, path: &'a [u8], query: Option<&'a [u8]>) -> Target<'a> {
        Target {
            space: self.route.space,
            is_secure: request.is_https(),
            host: request.host.as_deref().unwrap_or_default(),
            path,
            query,
        }
    }

    /// Makes one attempt to answer.
    async fn attempt(
        self: Rc<Self>,
        request: &Request,
        facts: &Rc<LookupFacts>,
        may_join: bool,
    ) -> AttemptResult {
        let now = self.now();
        let (found, has_others) = self.select_stored(request, facts).await;
        let found = found.as_ref();
        if let Some(answer) = found.and_then(|object| self.reuse(object, request, facts, now)) {
            return AttemptResult::Done(Handled::Answer(answer));
        }
        if facts.directives.only_if_cached {
            let status = CacheStatus::new(CacheOutcome::OnlyIfCached);
            return AttemptResult::Done(self.with_cache_status(Handled::Answer(Answer::error(504)), status));
        }
        let outcome = match found {
            Some(object) if object.part().is_some() => CacheOutcome::Partial,
            Some(object) if facts.directives.no_cache && object.terms.fresh_for(now) > 0 => {
                CacheOutcome::Request
            }
            Some(_) => CacheOutcome::Stale,
            None if has_others => CacheOutcome::VaryMiss,
            None => CacheOutcome::Miss,
        };
        if request.method() == Method::Head {
            return AttemptResult::Done(self.head(request, facts, found.cloned(), outcome).await);
        }
        let fetch = match self.plan(request, facts, found, may_join, now) {
            Some(Plan::Own(fetch)) => fetch,
            Some(Plan::Shared(fetch)) => match self.join(request, facts) {
                JoinResult::Own(shared_fetch) => Fetch { shared_fetch, ..fetch },
                JoinResult::Other(reader) => {
                    return self.wait_for_other(reader, request, facts, found, outcome).await;
                }
            },
            None => return AttemptResult::Done(Handled::Answer(Answer::error(400))),
        };
        self.wait_for_own(fetch, request, found, outcome).await
    }

    /// The answer with a stored response, if that may be reused without waiting for the origin.
    fn reuse(
        self: &Rc<Self>,
        object: &Arc<Object>,
        request: &Request,
        facts: &Rc<LookupFacts>,
        now: i64,
    ) -> Option<Answer> {
        let is_soft_purged = object.state() == State::SoftPurged;
        let reuse = reuse::decide_reuse(&object.terms, &facts.directives, is_soft_purged, now);
        let (outcome, result) = match reuse {
            Reuse::Fresh => (CacheOutcome::Hit, CacheResult::Hit),
            Reuse::Stale | Reuse::StaleWhileRevalidate => (CacheOutcome::HitStale, CacheResult::Stale),
            Reuse::Validate => return None,
        };
        let answer = self.of_object(object, request, CacheStatus::new(outcome), result, now)?;
        object.mark_used();
        if reuse == Reuse::StaleWhileRevalidate {
            self.validate_meanwhile(request, facts, object);
        }
        Some(answer)
    }

    /// How the request is sent to the origin; `None`: its head cannot be written.
    fn plan(
        &self,
        request: &Request,
        facts: &Rc<LookupFacts>,
        found: Option<&Arc<Object>>,
        may_join: bool,
        now: i64,
    ) -> Option<Plan> {
        if let (Some(object), true) = (found, may_join)
            && let Some(fetch) = self.fetch_rest(request, facts, object, now)
        {
            return Some(Plan::Own(fetch));
        }
        let whole = found.filter(|object| object.part().is_none());
        if facts.has_range && whole.is_none() {
            // The requested part is fetched. Parts are combined as they arrive.
            return Some(Plan::Own(self.fetch(request, facts, request.without_body())));
        }
        let added = whole.map_or(Vec::new(), |object| conditions(object.fields()));
        let validating = whole.filter(|_| !added.is_empty()).cloned();
        let next = for_origin(request, &added)?;
        let fetch = Fetch { validating, ..self.fetch(request, facts, next) };
        let is_joinable = may_join
            && !facts.is_authorized
            && !facts.directives.no_store
            && (!facts.has_cookie || whole.is_some())
            && !self.route.accelerator.hit_for_miss.has(facts.hash, now);
        Some(if is_joinable { Plan::Shared(fetch) } else { Plan::Own(fetch) })
    }

    /// The stored response that the request selects, and whether there are others with its key.
    async fn select_stored(&self, request: &Request, facts: &LookupFacts) -> (Option<Arc<Object>>, bool) {
        let objects = self.all_under_key(facts.hash, &facts.key).await;
        let mut scratch = Vec::new();
        let has_any = !objects.is_empty();
        let mut may_answer = |object: &Arc<Object>| {
            object.terms.may_answer(facts.is_authorized, facts.has_cookie)
                && vary::matches(object.selector(), RequestFields(&request.received), &mut scratch)
        };
        let selected = objects
            .into_iter()
            .filter(&mut may_answer)
            // A complete response is preferred to a part, and then the latest (RFC 9111 section 4.1).
            .max_by_key(|object| (object.part().is_none(), object.terms.date, object.terms.response_time));
        if selected.is_none()
            && let Some(key) = self.route.accelerator.store.equivalent(&facts.key)
        {
            let is_fresh = |object: &Arc<Object>| {
                let is_soft_purged = object.state() == State::SoftPurged;
                reuse::decide_reuse(&object.terms, &facts.directives, is_soft_purged, self.now())
                    == Reuse::Fresh
            };
            let objects = self.all_under_key(hash_of(&key), &key).await;
            let equivalent = objects
                .into_iter()
                .filter(|object| object.part().is_none() && is_fresh(object))
                .filter(|object| is_equivalent(object.key(), object.fields(), &facts.key))
                .filter(may_answer)
                .max_by_key(|object| (object.terms.date, object.terms.response_time));
            if equivalent.is_some() {
                return (equivalent, false);
            }
        }
        let has_others = has_any && selected.is_none();
        (selected, has_others)
    }

    /// All responses that are stored under a key, in memory and on disk.
    async fn all_under_key(&self, hash: u64, key: &[u8]) -> Vec<Arc<Object>> {
        let store = &self.route.accelerator.store;
        let mut objects = store.under(hash, key);
        // The disk may have more of them than the memory.
        if let Some(tier) = store.tier().filter(|tier| tier.held(hash) > objects.len()).cloned() {
            let owned = key.to_vec();
            let fetching = store.begin_fetch(hash);
            let loaded = tokio::task::spawn_blocking(move || tier.load(hash, &owned)).await;
            let is_new = |object: &Object| objects.iter().all(|known| known.selector() != object.selector());
            for object in loaded.unwrap_or_default().into_iter().filter(is_new) {
                store.promote(Arc::new(object), fetching.purge_count());
            }
            objects = store.under(hash, key);
        }
        objects
    }

    /// The key of the shared fetch: the key of the request, and the values of the fields that are known to
    /// select a response.
    fn shared_fetch_key(&self, request: &Request, facts: &LookupFacts) -> Vec<u8> {
        let mut key = facts.key.clone();
        let known = self.route.accelerator.store.under(facts.hash, &facts.key);
        let selector = known.first().and_then(|object| {
            vary::selector(object.fields(), RequestFields(&request.received), &self.route.policy)
        });
        key.push(0);
        key.extend_from_slice(&selector.unwrap_or_default());
        key
    }

    /// Joins a shared fetch that the request may wait for, or makes a new one.
    fn join(&self, request: &Request, facts: &LookupFacts) -> JoinResult {
        let Accelerator { shared_fetches, store, .. } = &*self.route.accelerator;
        shared_fetches.join(&self.shared_fetch_key(request, facts), |count| {
            store.is_outdated(facts.hash, &facts.key, count)
        })
    }

    fn fetch(&self, request: &Request, facts: &Rc<LookupFacts>, next: Request) -> Fetch {
        Fetch {
            shared_fetch: SharedFetch::new(b""),
            request: next,
            received: request.received.clone(),
            facts: facts.clone(),
            validating: None,
            completing: None,
            unshared_answer: Rc::new(RefCell::new(None)),
            client_only_fields: Rc::default(),
            is_background: false,
            client: request.interim.as_ref().map(Rc::downgrade),
        }
    }

    /// The fetch of the missing rest of a stored part, if both can be combined (RFC 9111 section 3.4).
    fn fetch_rest(
        &self,
        request: &Request,
        facts: &Rc<LookupFacts>,
        object: &Arc<Object>,
        now: i64,
    ) -> Option<Fetch> {
        let part = object.part()?;
        let etag = strong_etag(object.fields())?;
        let range = if facts.has_range {
            let missing = partial::missing(part, answer::wanted_range(object, request, now)?)?;
            format!("bytes={}-{}", missing.first, missing.last)
        } else if part.range.first == 0 {
            format!("bytes={}-", part.range.last + 1)
        } else {
            return None;
        };
        let next = for_origin(request, &[("Range", range.into_bytes()), ("If-Range", etag)])?;
        Some(Fetch { completing: Some(object.clone()), ..self.fetch(request, facts, next) })
    }

    /// Validates a stale response that was served, unless another request already does so.
    fn validate_meanwhile(self: &Rc<Self>, request: &Request, facts: &Rc<LookupFacts>, object: &Arc<Object>) {
        let added = conditions(object.fields());
        let is_validating = !added.is_empty();
        let Some(mut next) = for_origin(request, &added) else { return };
        if request.method() == Method::Head {
            let Some(get) = next.derive(&request.path_and_query()) else { return };
            next = for_origin(&get, &added).unwrap_or(get);
        }
        if let JoinResult::Own(shared_fetch) = self.join(request, facts) {
            let validating = is_validating.then(|| object.clone());
            let fetch =
                Fetch { shared_fetch, validating, is_background: true, ..self.fetch(request, facts, next) };
            tokio::task::spawn_local(fetch.run(self.clone()));
        }
    }

    /// Waits for a response that is fetched for this request. `found` is the stored one, which answers if the
    /// origin fails, unless it is only the part that is completed.
    async fn wait_for_own(
        self: Rc<Self>,
        fetch: Fetch,
        request: &Request,
        found: Option<&Arc<Object>>,
        outcome: CacheOutcome,
    ) -> AttemptResult {
        let unshared_answer = fetch.unshared_answer.clone();
        let client_only_fields = fetch.client_only_fields.clone();
        let with_client_only_fields = |mut answer: Answer| {
            answer.fields.extend_from_slice(&client_only_fields.borrow());
            answer
        };
        let facts = fetch.facts.clone();
        let is_rest = fetch.completing.is_some();
        let found = found.filter(|_| !is_rest);
        let Some(mut reader) = fetch.shared_fetch.read(false) else { return AttemptResult::Again };
        tokio::task::spawn_local(fetch.run(self.clone()));
        let now = self.now();
        let status = CacheStatus::new(outcome);
        match reader.head().await {
            Phase::Ready { object, is_validated, .. } => {
                let forward_status = is_validated.then_some(304);
                let result = if is_validated { CacheResult::Revalidated } else { CacheResult::Miss };
                let status = CacheStatus { forward_status, is_stored: true, ..status };
                let says = self.route.policy.cache_status.then_some(status);
                let answer = self.of_object(&object, request, status, result, self.now()).or_else(|| {
                    // The rest alone is not an answer if it does not belong to the stored part.
                    if is_rest {
                        return None;
                    }
                    let part = answer::of_part(&object, says, self.now())?;
                    Some(Answer { cache: result, ..part })
                });
                match answer {
                    Some(answer) => AttemptResult::Done(Handled::Answer(with_client_only_fields(answer))),
                    None => AttemptResult::Again,
                }
            }
            Phase::Streaming(head) => {
                let status = CacheStatus { is_stored: true, ..status };
                let status = self.route.policy.cache_status.then_some(status);
                let answer = with_client_only_fields(answer::of_shared_fetch(
                    &head,
                    reader,
                    request,
                    status,
                    self.now(),
                ));
                AttemptResult::Done(Handled::Answer(Answer { cache: CacheResult::Miss, ..answer }))
            }
            phase @ (Phase::NotShared { .. } | Phase::Failed) => {
                let stale = phase
                    .failure()
                    .and_then(|failed| self.instead_of_error(failed, found, request, &facts, now));
                if let Some(answer) = stale {
                    return AttemptResult::Done(Handled::Answer(answer));
                }
                let handled = match phase {
                    Phase::Failed => Some(Handled::Answer(Answer::error(502))),
                    _ => unshared_answer.borrow_mut().take(),
                };
                handled.map_or(AttemptResult::Again, |handled| {
                    AttemptResult::Done(self.with_cache_status(handled, status))
                })
            }
            Phase::Waiting => AttemptResult::Again,
        }
    }

    /// Waits for a response that another request fetches.
    async fn wait_for_other(
        self: Rc<Self>,
        mut reader: Reader,
        request: &Request,
        facts: &LookupFacts,
        found: Option<&Arc<Object>>,
        outcome: CacheOutcome,
    ) -> AttemptResult {
        let phase = reader.head().await;
        let now = self.now();
        let status = CacheStatus { is_collapsed: true, ..CacheStatus::new(outcome) };
        let mut scratch = Vec::new();
        let mut is_for_it = |terms: &Terms, selector: &[u8]| {
            terms.may_answer(facts.is_authorized, facts.has_cookie)
                && vary::matches(selector, RequestFields(&request.received), &mut scratch)
        };
        match phase {
            Phase::Ready { object, is_shared, .. }
                if is_shared && is_for_it(&object.terms, object.selector()) =>
            {
                match self.of_object(&object, request, status, CacheResult::Hit, now) {
                    Some(answer) => AttemptResult::Done(Handled::Answer(answer)),
                    None => AttemptResult::Again,
                }
            }
            Phase::Streaming(head) if is_for_it(&head.terms, &head.selector) => {
                let status = self.route.policy.cache_status.then_some(status);
                let answer = answer::of_shared_fetch(&head, reader, request, status, now);
                AttemptResult::Done(Handled::Answer(Answer { cache: CacheResult::Hit, ..answer }))
            }
            // The other request may have caused the error. Without a stored answer, each request that waited
            // is sent once.
            other => other.failure().map_or(AttemptResult::Again, |failed| {
                match self.instead_of_error(failed, found, request, facts, now) {
                    Some(answer) => AttemptResult::Done(Handled::Answer(answer)),
                    None => AttemptResult::Alone,
                }
            }),
        }
    }

    /// The stored response although it is stale, if this status means that the origin has failed.
    fn instead_of_error(
        &self,
        failed: u16,
        found: Option<&Arc<Object>>,
        request: &Request,
        facts: &LookupFacts,
        now: i64,
    ) -> Option<Answer> {
        let object = found.filter(|object| {
            is_origin_error(failed) && may_serve_on_error(&object.terms, &facts.directives, now)
        })?;
        let status = CacheStatus { forward_status: Some(failed), ..CacheStatus::new(CacheOutcome::Stale) };
        self.of_object(object, request, status, CacheResult::Stale, now)
    }

    fn of_object(
        &self,
        object: &Arc<Object>,
        request: &Request,
        status: CacheStatus,
        result: CacheResult,
        now: i64,
    ) -> Option<Answer> {
        let status = CacheStatus { fresh_for: Some(object.terms.fresh_for(now)), ..status };
        let status = self.route.policy.cache_status.then_some(status);
        answer::of_object(object, request, status, now).map(|answer| Answer { cache: result, ..answer })
    }

    /// Adds the cache's status to an answer that is not stored.
    fn with_cache_status(&self, handled: Handled, status: CacheStatus) -> Handled {
        let result = match status.outcome {
            CacheOutcome::Bypass | CacheOutcome::Method => CacheResult::Bypass,
            _ => CacheResult::Miss,
        };
        match handled {
            Handled::Answer(mut answer) => {
                if self.route.policy.cache_status && answer.status != 101 {
                    status.append(&mut answer.fields);
                }
                Handled::Answer(Answer { cache: result, ..answer })
            }
            other => other,
        }
    }

    /// Passes on a request that the cache does not handle.
    async fn pass_on(&self, request: Request, outcome: CacheOutcome) -> Handled {
        let handled = self.inner.clone().handle(request).await;
        self.with_cache_status(handled, CacheStatus::new(outcome))
    }

    /// Passes on an unsafe request and invalidates stored responses (RFC 9111 section 4.4).
    async fn handle_unsafe(&self, request: Request) -> Handled {
        let request_time = self.now();
        let left = request.without_body();
        let store = &self.route.accelerator.store;
        let post = (left.method() == Method::Post).then(|| self.facts(&left, None));
        let fetching = post.as_ref().map(|facts| store.begin_fetch(facts.hash));
        let handled = self.inner.clone().handle(request).await;
        if let Handled::Answer(answer) = &handled
            && is_success(answer.status)
        {
            self.invalidate(&left, &answer.fields).await;
            if let (Some(facts), Some(fetching)) = (&post, &fetching)
                && let Some(object) = self.object_of_post(&left, facts, answer, request_time)
                && let Some(fetching) = store.begin_again(fetching, &facts.key, 1)
            {
                store.insert(Arc::new(object), fetching.purge_count());
            }
        }
        self.with_cache_status(handled, CacheStatus::new(CacheOutcome::Method))
    }

    /// The response to be stored of an answer to POST that also answers GET and has a lifetime (RFC 9110
    /// section 9.3.3). Only an answer whose body is complete is stored, which is so for short ones.
    fn object_of_post(
        &self,
        request: &Request,
        facts: &LookupFacts,
        answer: &Answer,
        request_time: i64,
    ) -> Option<Object> {
        let answer_fields = fields::FieldText(&answer.fields);
        let host = request.host.as_deref().unwrap_or_default();
        let content_location = answer_fields.first("content-location").and_then(|location| {
            same_origin_target(location, request.is_https(), host, &request.encoded_path)
        });
        let names_itself = content_location.is_some_and(|(path, query)| {
            path == *request.encoded_path && query.as_deref() == request.query.as_deref()
        });
        let says_how_long = answer_fields.has("expires") || answer_fields.has("cache-control");
        let body: Option<Vec<_>> = answer
            .body
            .iter()
            .map(|part| if let BodyPart::Bytes(bytes) = part { Some(bytes.clone()) } else { None })
            .collect();
        let (true, true, 200, Some(body)) = (names_itself, says_how_long, answer.status, body) else {
            return None;
        };
        let now = self.now();
        let response = storing::Response {
            status: 200,
            fields: &answer.fields,
            date: answer.date.and_then(|text| parse_http_date(&text, now)),
            request_time,
            response_time: now,
            is_authorized: facts.is_authorized,
            has_cookie: facts.has_cookie,
            request_no_store: facts.directives.no_store,
        };
        let policy = &*self.route.policy;
        let storable = storing::decide_storage(&response, policy).ok()?;
        let selector = vary::selector(&answer.fields, RequestFields(&request.received), policy)?;
        Some(Object::new(NewObject {
            hash: facts.hash,
            key: &facts.key,
            selector: &selector,
            status: 200,
            terms: storable.terms,
            fields: &fields::stored_fields(&answer.fields, &storable.left_out),
            part: None,
            trailers: b"",
            body: &body,
        }))
    }

    async fn invalidate(&self, request: &Request, answer_fields: &[u8]) {
        let policy = &*self.route.policy;
        let key_of = |path: &[u8], query: Option<&[u8]>| {
            let mut key = Vec::new();
            key::write_key(&self.target(request, path, query), policy, &mut key);
            key
        };
        let mut keys = vec![key_of(&request.encoded_path, request.query.as_deref())];
        let host = request.host.as_deref().unwrap_or_default();
        for (name, value) in fields::lines(answer_fields) {
            let names_other = ["location", "content-location"];
            if names_other.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
                && let Some((path, query)) =
                    same_origin_target(value, request.is_https(), host, &request.encoded_path)
            {
                keys.push(key_of(&path, query.as_deref()));
            }
        }
        let groups = groups::invalidated_by(answer_fields);
        // Each key is purged once, so that the number of its purges grows by one.
        keys.sort_unstable();
        keys.dedup();
        self.route.accelerator.invalidate(keys, groups).await;
    }

    /// Sends HEAD to the origin if the stored response is not fresh. The answer freshens the stored response,
    /// or shows that it is no longer valid (RFC 9111 section 4.3.5).
    async fn head(
        &self,
        request: &Request,
        facts: &LookupFacts,
        found: Option<Arc<Object>>,
        outcome: CacheOutcome,
    ) -> Handled {
        let request_time = self.now();
        let fetching = self.route.accelerator.store.begin_fetch(facts.hash);
        let next = match &found {
            Some(_) => for_origin(request, &[]),
            None => Some(request.without_body()),
        };
        let Some(next) = next else { return Handled::Answer(Answer::error(400)) };
        let handled = self.inner.clone().handle(next).await;
        let now = self.now();
        if let (Handled::Answer(answer), Some(object)) = (&handled, &found) {
            if let Some(stale) = self.instead_of_error(answer.status, Some(object), request, facts, now) {
                return Handled::Answer(stale);
            }
            if answer.status == 200 && object.status() == 200 {
                self.freshen(object, answer, facts, (request_time, now), fetching.purge_count()).await;
            }
        }
        self.with_cache_status(handled, CacheStatus::new(outcome))
    }

    async fn freshen(
        &self,
        object: &Arc<Object>,
        answer: &Answer,
        facts: &LookupFacts,
        (request_time, now): (i64, i64),
        purge_count: u64,
    ) {
        let store = &self.route.accelerator.store;
        let length = object.complete_length();
        if !is_same_representation(object.fields(), length, &answer.fields, answer.declared_length, now) {
            return self.route.accelerator.remove(object).await;
        }
        let of_visitor = left_out_of_update(&answer.fields, &self.route.policy);
        let fields = fields::updated_fields(object.fields(), &answer.fields, &of_visitor);
        let response = storing::Response {
            status: 200,
            fields: &fields,
            date: answer.date.and_then(|text| parse_http_date(&text, now)),
            request_time,
            response_time: now,
            is_authorized: facts.is_authorized || object.terms.answered_authorized,
            has_cookie: facts.has_cookie || object.terms.answered_cookie,
            request_no_store: facts.directives.no_store,
        };
        match storing::decide_storage(&response, &self.route.policy) {
            Ok(storable) => {
                let fields = fields::stored_fields(&fields, &storable.left_out);
                store.insert(Arc::new(object.with_head(&fields, storable.terms)), purge_count);
            }
            // `no-store` of this request does not affect the stored response.
            Err(_) if facts.directives.no_store => {}
            // The origin no longer allows the response to be stored.
            Err(_) => self.route.accelerator.remove(object).await,
        }
    }
}
