//! The task that fetches a response. It runs while a client waits, and to the end if the response is to be
//! stored.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_handler::handler::Handled;
use touchstone_handler::interim::{InterimResponses, TakesInterim};
use touchstone_handler::pipe::Receiver;
use touchstone_handler::request::{ReceivedHead, Request};
use touchstone_http::date::parse_http_date;

use super::Accelerator;
use super::head::{RequestFields, announce};
use super::of_core::{AcceleratedOfCore, LookupFacts};
use super::shared_fetch::{Head, Phase, SharedFetch};
use crate::rules::fields::{FieldText, Fields, append, lines, lines_named, stored_fields, updated_fields};
use crate::rules::partial::{self, combine, content_range, strong_etag};
use crate::rules::policy::{Esi, Policy, SetCookie};
use crate::rules::reuse::is_origin_error;
use crate::rules::storing::response_directives;
use crate::rules::storing::{Response, Storable, Terms, decide_storage};
use crate::rules::vary;
use crate::store::{NewObject, Object};

/// Bodies that will be stored may use the store's memory divided by this number while they arrive. Further
/// bodies are not stored: the origin then waits for the slowest client, and the fetch ends if no client
/// waits.
const FETCHING_PART: u64 = 4;

/// A response to be fetched.
pub struct Fetch {
    /// Takes the response for the requests that wait.
    pub shared_fetch: Arc<SharedFetch>,
    /// The request to the origin.
    pub request: Request,
    /// The head of the client's request.
    pub received: Rc<ReceivedHead>,
    /// The facts of the client's request.
    pub facts: Rc<LookupFacts>,
    /// The stored response that is being validated.
    pub validating: Option<Arc<Object>>,
    /// The stored part, if the rest is requested.
    pub completing: Option<Arc<Object>>,
    /// Takes an answer that is only for this client.
    pub unshared_answer: Rc<RefCell<Option<Handled>>>,
    /// Takes the field lines of the answer that are only for this client.
    pub client_only_fields: Rc<RefCell<Vec<u8>>>,
    /// It is fetched although no client waits.
    pub is_background: bool,
    /// The client that gets interim responses while it waits.
    pub client: Option<Weak<dyn TakesInterim>>,
}

/// Receives interim responses of the handler (RFC 9110 section 15.2). The client waits in another task, which
/// must be woken for them.
#[derive(Default)]
struct InterimRelay {
    interim: InterimResponses,
}

impl TakesInterim for InterimRelay {
    fn interim(&self) -> &InterimResponses {
        &self.interim
    }
}

impl InterimRelay {
    fn pass_on(&self, client: Option<&Weak<dyn TakesInterim>>, shared_fetch: &SharedFetch) {
        let mut has_any = false;
        while let Some(interim) = self.interim.take() {
            if let Some(client) = client.and_then(Weak::upgrade) {
                client.interim().push(interim.status, interim.fields);
                has_any = true;
            }
        }
        if has_any {
            shared_fetch.wake_readers();
        }
    }
}

/// Ends a shared fetch when its task ends for any reason.
struct FinishOnDrop<'a> {
    accelerated: &'a AcceleratedOfCore,
    shared_fetch: &'a Arc<SharedFetch>,
}

impl Drop for FinishOnDrop<'_> {
    fn drop(&mut self) {
        self.accelerated.route.accelerator.shared_fetches.leave(self.shared_fetch);
        self.shared_fetch.finish(false);
    }
}

/// The parts of a response to be stored, without its body.
struct Draft {
    head: Head,
    part: Option<partial::ContentRange>,
}

impl Fetch {
    /// Fetches the response.
    pub async fn run(self, accelerated: Rc<AcceleratedOfCore>) {
        let Fetch {
            shared_fetch,
            mut request,
            received,
            facts,
            validating,
            completing,
            unshared_answer,
            client_only_fields,
            is_background,
            client,
        } = self;
        let relay = Rc::new(InterimRelay::default());
        request.interim = Some(relay.clone());
        if let Some(content) = &facts.query_content {
            request.body = Receiver::of(content.clone());
        }
        let request = announce(request, accelerated.route.policy.esi != Esi::Off);
        let finish_on_drop = FinishOnDrop { accelerated: &accelerated, shared_fetch: &shared_fetch };
        let fetching = accelerated.route.accelerator.store.begin_fetch(facts.hash);
        shared_fetch.begin(fetching.purge_count());
        let sent = Instant::now();
        let mut handling = accelerated.inner.clone().handle(request);
        let shared_fetch_of_relay = shared_fetch.clone();
        let mut handling = poll_fn(move |context| {
            let polled = handling.as_mut().poll(context);
            relay.pass_on(client.as_ref(), &shared_fetch_of_relay);
            polled
        });
        let handled = loop {
            tokio::select! {
                biased;
                handled = &mut handling => break handled,
                () = shared_fetch.abandoned(), if !is_background => {
                    if accelerated.route.accelerator.shared_fetches.leave_if_abandoned(&shared_fetch) {
                        return;
                    }
                }
            }
        };
        let fetched = FetchResult {
            accelerated: &accelerated,
            shared_fetch: &shared_fetch,
            received: &received,
            facts: &facts,
            validating: validating.as_ref(),
            completing: completing.as_ref(),
            client_only_fields: &client_only_fields,
            purge_count: fetching.purge_count(),
            sent,
        };
        if let Some(left) = fetched.process_response(handled).await {
            let status = match &left {
                Handled::Answer(answer) => Some(answer.status),
                _ => None,
            };
            *unshared_answer.borrow_mut() = Some(left);
            shared_fetch.set_phase(Phase::NotShared { status });
        }
        drop(finish_on_drop);
    }
}

/// The share of one fetch in the memory for bodies that are to be stored.
struct Reservation<'a> {
    accelerator: &'a Accelerator,
    bytes: u64,
}

impl<'a> Reservation<'a> {
    fn new(accelerator: &'a Accelerator) -> Reservation<'a> {
        Reservation { accelerator, bytes: 0 }
    }

    /// Takes this many more bytes. Returns false if there is no room for them.
    fn grow(&mut self, bytes: u64) -> bool {
        self.bytes += bytes;
        let all = self.accelerator.fetching_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        all <= self.accelerator.store.budget_bytes() / FETCHING_PART
    }

    fn release(&mut self) {
        self.accelerator.fetching_bytes.fetch_sub(std::mem::take(&mut self.bytes), Ordering::Relaxed);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.release();
    }
}

/// A part that was combined with a stored part.
struct CombinedPart {
    part: partial::ContentRange,
    body: Vec<u8>,
    terms: Terms,
}

/// The fields of a 304, or of an answer to HEAD, that do not become part of the stored response, because they
/// are only for the requesting client (RFC 9111 sections 5.2.2.4 and 5.2.2.7).
pub fn left_out_of_update(newer: &[u8], policy: &Policy) -> Vec<Box<[u8]>> {
    let mut left_out = response_directives(FieldText(newer)).fields;
    if policy.set_cookie != SetCookie::Store {
        left_out.push(b"set-cookie".as_slice().into());
    }
    left_out
}

/// The result of a request to the origin.
struct FetchResult<'a> {
    accelerated: &'a AcceleratedOfCore,
    shared_fetch: &'a Arc<SharedFetch>,
    received: &'a ReceivedHead,
    facts: &'a LookupFacts,
    validating: Option<&'a Arc<Object>>,
    completing: Option<&'a Arc<Object>>,
    client_only_fields: &'a RefCell<Vec<u8>>,
    purge_count: u64,
    /// When the request was sent.
    sent: Instant,
}

impl FetchResult<'_> {
    /// Stores an answer that may be stored and passes it to all requests that wait. Returns an answer that is
    /// only for one client.
    async fn process_response(&self, handled: Handled) -> Option<Handled> {
        let mut answer = match handled {
            Handled::Answer(answer) => answer,
            other => return Some(other),
        };
        if answer.status == 304
            && let Some(object) = self.validating
        {
            self.process_not_modified(object, &answer).await;
            return None;
        }
        let Some(draft) = self.draft(&answer) else {
            self.note_not_stored(&answer).await;
            return Some(Handled::Answer(answer));
        };
        let head = Arc::new(draft.head);
        let mut stream = None;
        for part in std::mem::take(&mut answer.body) {
            match part {
                BodyPart::Bytes(bytes) => self.shared_fetch.push(bytes),
                BodyPart::Stream { body, .. } => stream = Some(body),
                // `draft` returns `None` for these.
                BodyPart::Cached(..) | BodyPart::File { .. } => {}
            }
        }
        // A response that is combined from parts can only be used when it is complete.
        let is_whole = draft.part.is_none();
        if let Some(body) = stream {
            if is_whole {
                self.shared_fetch.set_phase(Phase::Streaming(head.clone()));
            }
            if !self.receive(body, &head).await {
                return None;
            }
        }
        let pieces = self.shared_fetch.pieces();
        let length: usize = pieces.iter().map(Bytes::len).sum();
        let expected = draft.part.map(|part| part.range.len()).or(head.length);
        if expected.is_some_and(|expected| expected != length as u64) {
            return None;
        }
        let object = self.object(&head, draft.part, &pieces);
        if self.accelerated.route.accelerator.store.insert(object.clone(), self.purge_count) {
            self.accelerated.route.accelerator.hit_for_miss.forget(self.facts.hash);
        }
        self.shared_fetch.set_phase(Phase::Ready { object, is_validated: false, is_shared: true });
        self.accelerated.route.accelerator.shared_fetches.leave(self.shared_fetch);
        self.shared_fetch.finish(true);
        None
    }

    /// Passes the body to all requests that wait. Returns false if it is not to be stored.
    async fn receive(&self, mut body: Receiver, head: &Head) -> bool {
        let most = self.accelerated.route.policy.object_bytes;
        let mut reserved = Reservation::new(&self.accelerated.route.accelerator);
        let mut received: u64 = self.shared_fetch.pieces().iter().map(|piece| piece.len() as u64).sum();
        let mut is_stored = true;
        loop {
            match body.next().await {
                Some(Ok(piece)) => {
                    received += piece.len() as u64;
                    let exceeds_content_length = head.length.is_some_and(|length| received > length);
                    if exceeds_content_length {
                        return false;
                    }
                    let length = piece.len() as u64;
                    self.shared_fetch.push(piece);
                    if is_stored && (received > most || !reserved.grow(length)) {
                        is_stored = false;
                        reserved.release();
                        self.accelerated.route.accelerator.shared_fetches.leave(self.shared_fetch);
                        self.shared_fetch.pass();
                    }
                    if !is_stored && !self.shared_fetch.room().await {
                        return false;
                    }
                }
                Some(Err(_)) => return false,
                None => break,
            }
        }
        self.shared_fetch.set_trailers(body.take_trailers());
        let is_proper = head.length.is_none_or(|length| received == length);
        if !is_stored || !is_proper {
            self.shared_fetch.finish(is_proper);
        }
        is_stored && is_proper
    }

    /// Called when the origin has confirmed a stored response, which gets the newer head (RFC 9111 section
    /// 4.3.4).
    async fn process_not_modified(&self, object: &Arc<Object>, answer: &Answer) {
        let policy = &self.accelerated.route.policy;
        let of_visitor = left_out_of_update(&answer.fields, policy);
        *self.client_only_fields.borrow_mut() = lines_named(&answer.fields, &of_visitor);
        let fields = updated_fields(object.fields(), &answer.fields, &of_visitor);
        let mut with_age = fields.clone();
        for (name, value) in lines(&answer.fields).filter(|(name, _)| name.eq_ignore_ascii_case(b"age")) {
            append(&mut with_age, name, value);
        }
        let storable = self.decide_storage(object.status(), &with_age, answer, &object.terms);
        // A field that is now only for one client may have been stored when it was for all.
        let left_out = storable.as_ref().map_or(&of_visitor, |storable| &storable.left_out);
        let fields = stored_fields(&fields, left_out);
        let terms = storable.as_ref().map_or(object.terms, |storable| storable.terms);
        let newer = Arc::new(object.with_head(&fields, terms));
        let accelerator = &self.accelerated.route.accelerator;
        let is_shared = storable.is_some();
        match storable {
            Some(_) => _ = accelerator.store.insert(newer.clone(), self.purge_count),
            // `no-store` of this request does not affect the stored response.
            None if self.facts.directives.no_store => {}
            None => accelerator.remove(object).await,
        }
        self.shared_fetch.set_phase(Phase::Ready { object: newer, is_validated: true, is_shared });
        self.accelerated.route.accelerator.shared_fetches.leave(self.shared_fetch);
        self.shared_fetch.finish(true);
    }

    /// Decides whether it is stored. `body` are the terms of the response whose body is stored with it.
    fn decide_storage(&self, status: u16, fields: &[u8], answer: &Answer, body: &Terms) -> Option<Storable> {
        let response_time = self.accelerated.now();
        let response = Response {
            status,
            fields,
            date: answer.date.and_then(|text| parse_http_date(&text, response_time)),
            // The difference of two whole seconds of the clock could be 1 after only a moment.
            request_time: response_time - self.sent.elapsed().as_secs() as i64,
            response_time,
            is_authorized: self.facts.is_authorized || body.answered_authorized,
            has_cookie: self.facts.has_cookie || body.answered_cookie,
            request_no_store: self.facts.directives.no_store,
        };
        decide_storage(&response, &self.accelerated.route.policy).ok()
    }

    /// The parts of an answer to be stored; `None`: it is not stored.
    fn draft(&self, answer: &Answer) -> Option<Draft> {
        let storable = self.decide_storage(answer.status, &answer.fields, answer, &Terms::default())?;
        let policy = &*self.accelerated.route.policy;
        let is_bytes = |part: &BodyPart| matches!(part, BodyPart::Bytes(_) | BodyPart::Stream { .. });
        let length = answer.body_length();
        if !answer.body.iter().all(is_bytes) || length.is_some_and(|length| length > policy.object_bytes) {
            return None;
        }
        let part = match answer.status {
            206 => {
                let fields = FieldText(&answer.fields);
                let part = content_range(fields.first("content-range")?)?;
                let fits = length.is_none_or(|length| length == part.range.len());
                if !fits || part.range.len() > policy.object_bytes {
                    return None;
                }
                Some(part)
            }
            _ => None,
        };
        let fields = stored_fields(&answer.fields, &storable.left_out);
        let selector = vary::selector(&answer.fields, RequestFields(self.received), policy)?;
        *self.client_only_fields.borrow_mut() = lines_named(&answer.fields, &storable.left_out);
        let head = Head { status: answer.status, fields, selector, terms: storable.terms, length };
        Some(Draft { head, part })
    }

    fn object(&self, head: &Head, part: Option<partial::ContentRange>, pieces: &[Bytes]) -> Arc<Object> {
        // The trailers of a part are not those of the whole response.
        let trailers = if part.is_none() { self.shared_fetch.trailers() } else { Bytes::new() };
        let new = |status, terms, fields, part, body| NewObject {
            hash: self.facts.hash,
            key: &self.facts.key,
            selector: &head.selector,
            status,
            terms,
            fields,
            part,
            trailers: &trailers,
            body,
        };
        let Some(part) = part else {
            return Arc::new(Object::new(new(head.status, head.terms, &head.fields, None, pieces)));
        };
        let body = pieces.concat();
        if let Some(CombinedPart { part: whole, body: combined_body, terms }) =
            self.combine_with_stored(head, part, &body)
        {
            let combined_body = [Bytes::from(combined_body)];
            if whole.is_everything() {
                let mut fields = Vec::with_capacity(head.fields.len());
                for (name, value) in lines(&head.fields) {
                    if !name.eq_ignore_ascii_case(b"content-range") {
                        append(&mut fields, name, value);
                    }
                }
                return Arc::new(Object::new(new(200, terms, &fields, None, &combined_body)));
            }
            return Arc::new(Object::new(new(206, terms, &head.fields, Some(whole), &combined_body)));
        }
        Arc::new(Object::new(new(206, head.terms, &head.fields, Some(part), pieces)))
    }

    /// The part combined with the stored one, if both belong to the same representation.
    fn combine_with_stored(
        &self,
        head: &Head,
        part: partial::ContentRange,
        body: &[u8],
    ) -> Option<CombinedPart> {
        if part.is_everything() {
            return Some(CombinedPart { part, body: body.to_vec(), terms: head.terms });
        }
        let etag = strong_etag(&head.fields)?;
        let store = &self.accelerated.route.accelerator.store;
        let stored = match self.completing {
            Some(object) => object.clone(),
            None => store
                .under(self.facts.hash, &self.facts.key)
                .into_iter()
                .filter(|object| object.terms.may_answer(self.facts.is_authorized, self.facts.has_cookie))
                .find(|object| object.part().is_some() && object.selector() == head.selector)?,
        };
        let stored_part = stored.part()?;
        if strong_etag(stored.fields())? != etag {
            return None;
        }
        let (part, body) = combine((stored_part, stored.body()), (part, body))?;
        let terms = Terms {
            answered_authorized: head.terms.answered_authorized || stored.terms.answered_authorized,
            answered_cookie: head.terms.answered_cookie || stored.terms.answered_cookie,
            ..head.terms
        };
        Some(CombinedPart { part, body, terms })
    }

    /// Whether an answer that is not stored shows that the answers to other requests for the page will not be
    /// stored either. A request with credentials or `no-store` never joins another fetch, and is no evidence
    /// about requests without them.
    fn applies_to_others(&self, answer: &Answer) -> bool {
        let facts = self.facts;
        let is_plain = !facts.has_cookie && !facts.is_authorized && !facts.directives.no_store;
        is_plain && !facts.has_range && applies_to_all_requests(answer.status)
    }

    /// Called for a response that is not stored: the stored one is no longer valid, and other requests need
    /// not wait for the next one.
    async fn note_not_stored(&self, answer: &Answer) {
        if is_origin_error(answer.status) {
            return;
        }
        let accelerator = &self.accelerated.route.accelerator;
        if self.applies_to_others(answer) {
            accelerator.hit_for_miss.remember(self.facts.hash, self.accelerated.now());
        }
        if let Some(object) = self.validating {
            accelerator.remove(object).await;
        }
    }
}

/// Whether other requests for the page would get the same answer, if one with this status is not stored.
/// Faults of one request (400, 414, 416 ...), its permissions (401, 403) and parts (206) are no evidence
/// about other requests.
fn applies_to_all_requests(status: u16) -> bool {
    matches!(status, 200..=205 | 300..=303 | 307 | 308 | 404 | 410)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    #[test]
    fn answers_that_one_request_has_caused_tell_nothing_of_others() {
        for status in [200, 204, 301, 302, 404, 410] {
            assert!(applies_to_all_requests(status), "{status}");
        }
        for status in [206, 304, 400, 401, 403, 405, 408, 413, 414, 416, 417, 421, 429, 431, 501] {
            assert!(!applies_to_all_requests(status), "{status}");
        }
    }

    #[test]
    fn fetches_together_take_a_part_of_the_memory_and_give_it_back() {
        let accelerator = Accelerator::new(Store::new(4000, None));
        let (mut one, mut other) = (Reservation::new(&accelerator), Reservation::new(&accelerator));
        assert!(one.grow(600) && other.grow(400));
        assert!(!other.grow(1));
        other.release();
        assert!(one.grow(400));
        drop(one);
        assert_eq!(accelerator.fetching_bytes.load(Ordering::Relaxed), 0);
    }
}
