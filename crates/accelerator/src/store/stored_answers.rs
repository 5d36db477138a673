//! The view that one core has of the store: a map without locks from key to answers that are ready for this
//! second.
//!
//! A hit uses only this map and the object. An answer that no client has requested within a second is removed
//! from the map, so it holds only answers in use.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use touchstone_files::cache::{ConnectionForm, DateSecond, PreparedResponse};
use touchstone_http::added_fields::AddedFields;

use super::memory::Store;
use super::object::{Object, State};
use super::shared::hash_of;
use crate::rules::directives::RequestDirectives;
use crate::rules::esi;
use crate::rules::fields::Fields;
use crate::rules::key::{self, Target};
use crate::rules::policy::Policy;
use crate::rules::reuse::{self, Reuse};
use crate::rules::vary;

/// The view of one core.
pub struct StoredAnswers {
    store: Arc<Store>,
    /// By the hash of the key. The table uses this hash without hashing it again.
    slots: FxHashMap<u64, Vec<Slot>>,
    removals_seen: u64,
    scratch: Vec<u8>,
    key: Vec<u8>,
}

/// A response that this core has sent within this second or the one before.
struct Slot {
    object: Arc<Object>,
    by_form: [Option<Arc<PreparedResponse>>; 3],
    is_used: bool,
}

/// A GET without conditions, ranges or a body.
#[derive(Clone, Copy)]
pub struct PlainRequest<'a, F> {
    /// Its target.
    pub target: Target<'a>,
    /// Its fields.
    pub fields: F,
    /// The policy of the route's configuration.
    pub policy: &'a Policy,
    /// The client may have sent a certificate.
    pub may_be_known: bool,
    /// Field lines that the site adds to all its answers.
    pub site_fields: &'a [u8],
    /// Fields that are added after those, each by its rule.
    pub added: Option<&'a AddedFields>,
}

impl StoredAnswers {
    /// A view of a store for one core.
    pub fn new(store: Arc<Store>) -> StoredAnswers {
        StoredAnswers {
            store,
            slots: FxHashMap::default(),
            removals_seen: 0,
            scratch: Vec::new(),
            key: Vec::new(),
        }
    }

    /// The answer to a plain request, if a fresh response is stored.
    #[inline]
    pub fn hit<F: Fields>(
        &mut self,
        request: PlainRequest<'_, F>,
        form: ConnectionForm,
        date: &DateSecond,
    ) -> Option<&Arc<PreparedResponse>> {
        let brings = check_request(&request)?;
        key::write_key(&request.target, request.policy, &mut self.key);
        let hash = hash_of(&self.key);
        let index = match self.find(hash, &request, brings, form, date) {
            Some(index) => index,
            None => self.renew(hash, &request, brings, form, date)?,
        };
        let slot = self.slots.get_mut(&hash)?.get_mut(index)?;
        slot.is_used = true;
        slot.object.mark_used();
        slot.by_form[form as usize].as_ref()
    }

    /// The slot with the answer that is ready.
    #[inline]
    fn find<F: Fields>(
        &mut self,
        hash: u64,
        request: &PlainRequest<'_, F>,
        brings: RequestCredentials,
        form: ConnectionForm,
        date: &DateSecond,
    ) -> Option<usize> {
        let (key, scratch) = (&self.key, &mut self.scratch);
        self.slots.get(&hash)?.iter().position(|slot| {
            let prepared = &slot.by_form[form as usize];
            prepared.as_ref().is_some_and(|prepared| prepared.second() == date.unix_seconds)
                && slot.object.state() == State::Stored
                && slot.object.key() == key
                && slot.object.terms.may_answer(brings.authorization, brings.cookie)
                && (slot.object.selector().is_empty()
                    || vary::matches(slot.object.selector(), request.fields, scratch))
        })
    }

    /// Looks up the response in the store, and prepares it for this second.
    #[cold]
    fn renew<F: Fields>(
        &mut self,
        hash: u64,
        request: &PlainRequest<'_, F>,
        brings: RequestCredentials,
        form: ConnectionForm,
        date: &DateSecond,
    ) -> Option<usize> {
        let object = self.current(hash, request, brings, date)?;
        let prepared =
            object.prepare(form, date, request.policy.cache_status, (request.site_fields, request.added));
        let slots = self.slots.entry(hash).or_default();
        // Responses that were replaced are dropped.
        slots.retain(|slot| slot.object.state() == State::Stored);
        let index = slots.iter().position(|slot| Arc::ptr_eq(&slot.object, &object)).unwrap_or_else(|| {
            slots.push(Slot { object, by_form: [None, None, None], is_used: false });
            slots.len() - 1
        });
        slots[index].by_form[form as usize] = Some(Arc::new(prepared));
        Some(index)
    }

    /// The stored response that is the whole answer.
    fn current<F: Fields>(
        &mut self,
        hash: u64,
        request: &PlainRequest<'_, F>,
        brings: RequestCredentials,
        date: &DateSecond,
    ) -> Option<Arc<Object>> {
        let stored = self.store.under(hash, &self.key);
        let scratch = &mut self.scratch;
        let selected = stored
            .into_iter()
            // A prepared answer has no trailers.
            .filter(|object| object.part().is_none() && object.trailers().is_empty())
            .filter(|object| vary::matches(object.selector(), request.fields, scratch))
            .max_by_key(|object| (object.terms.date, object.terms.response_time))?;
        let is_fresh = || {
            let directives = RequestDirectives::default();
            reuse::decide_reuse(&selected.terms, &directives, false, date.unix_seconds) == Reuse::Fresh
        };
        let serves = selected.status() == 200
            // A page with parts is composed again for each request.
            && !esi::is_page(request.policy, 200, selected.fields())
            && selected.state() == State::Stored
            && selected.terms.may_answer(brings.authorization, brings.cookie)
            && is_fresh();
        serves.then_some(selected)
    }

    /// Drops the answers that were not requested since the last call, and those of responses that were
    /// removed from the store. Must be called once a second.
    pub fn tick(&mut self) {
        let removals = self.store.removals();
        let has_removals = std::mem::replace(&mut self.removals_seen, removals) != removals;
        self.slots.retain(|_, slots| {
            slots.retain_mut(|slot| {
                let was_used = std::mem::take(&mut slot.is_used);
                was_used && !(has_removals && slot.object.state() != State::Stored)
            });
            !slots.is_empty()
        });
    }

    /// The number of answers that are ready.
    pub fn len(&self) -> usize {
        self.slots.values().map(Vec::len).sum()
    }

    /// Whether no answer is ready.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

/// The properties of a request that limit which stored responses may answer it.
#[derive(Clone, Copy)]
struct RequestCredentials {
    authorization: bool,
    cookie: bool,
}

/// The properties of the request; `None` if it has directives for caches, which the handler evaluates.
#[inline]
fn check_request<F: Fields>(request: &PlainRequest<'_, F>) -> Option<RequestCredentials> {
    let mut brings = RequestCredentials { authorization: request.may_be_known, cookie: false };
    let (mut asks, mut upgrades) = (false, false);
    request.fields.each(&mut |name, _| match name.len() {
        13 => {
            brings.authorization |= name.eq_ignore_ascii_case(b"authorization");
            asks |= name.eq_ignore_ascii_case(b"cache-control");
        }
        6 => {
            brings.cookie |= name.eq_ignore_ascii_case(b"cookie");
            asks |= name.eq_ignore_ascii_case(b"pragma");
        }
        7 => upgrades |= name.eq_ignore_ascii_case(b"upgrade"),
        _ => {}
    });
    brings.cookie &= !request.policy.ignore_cookies;
    (!upgrades && (!asks || !request.policy.client_directives)).then_some(brings)
}
