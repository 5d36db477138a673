//! The view that one core has of one site: a map without locks from path to prepared responses.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use touchstone_http::content_coding::{AcceptEncoding, CodingPreference, ContentCoding};
use touchstone_http::dictionary::AvailableDictionary;

use super::entry::{CachedForms, DictionarySelection, Entry, Selection};
use super::path_table::PathTable;
use super::response::{ConnectionForm, DateSecond, PreparedResponse};
use super::{FileCache, Key, NewEntry, ReadTicket, lock};

/// The most preferences that are stored for one path. All browsers together send two or three. A client that
/// always sends new ones only gets slower answers.
const MOST_PREFERENCES: usize = 8;

/// The view that one core has of one site: a map without locks.
pub struct CoreCache {
    shared: Arc<FileCache>,
    site: usize,
    /// The site's order of codings; `None`: Accept-Encoding never matters.
    coding_order: Option<[ContentCoding; 3]>,
    has_dictionaries: bool,
    /// The last Accept-Encoding and its preference: successive requests often have the same.
    last_preference: (AcceptEncoding, CodingPreference),
    slots: PathTable<Slot>,
    removals_seen: u64,
}

struct Slot {
    entry: Arc<Entry>,
    /// The responses of the representation without a coding.
    by_form: [Option<Arc<PreparedResponse>>; 3],
    /// The responses for requests with Accept-Encoding.
    negotiated: Vec<NegotiatedForm>,
    /// The responses for clients that have a dictionary.
    with_dictionary: Vec<WithDictionary>,
}

/// The form that was made with a dictionary.
struct WithDictionary {
    wanted: AvailableDictionary,
    cached: Arc<CachedForms>,
    by_form: [Option<Arc<PreparedResponse>>; 3],
}

/// The result of [`CoreCache::renew_with_dictionary`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithDictionaryState {
    /// The response is ready: see [`CoreCache::hit_with_dictionary`].
    Ready,
    /// A form must be made first.
    Make,
    /// Another form must be sent.
    None,
}

/// The representation that was chosen for a preference, for the lifetime of the entry.
struct NegotiatedForm {
    preference: CodingPreference,
    cached: Arc<CachedForms>,
    by_form: [Option<Arc<PreparedResponse>>; 3],
}

/// The result of [`CoreCache::renew_negotiated`].
enum Renewed {
    /// The slot has this second's response for the preference.
    Negotiated,
    /// The slot has this second's response without a coding, which is sent only this time.
    Identity,
    Nothing,
}

impl CoreCache {
    /// A view of `site` for one core.
    pub fn new(shared: Arc<FileCache>, site: usize) -> CoreCache {
        let coding_order = shared.coding_order(site);
        let has_dictionaries = shared.dictionary_scope(site).is_some();
        CoreCache {
            shared,
            site,
            coding_order,
            has_dictionaries,
            last_preference: (AcceptEncoding::ABSENT, CodingPreference::IDENTITY),
            slots: PathTable::default(),
            removals_seen: 0,
        }
    }

    /// The shared cache.
    pub fn shared(&self) -> &Arc<FileCache> {
        &self.shared
    }

    /// The response to a plain GET of `path` with this Accept-Encoding, ready for this second.
    #[inline]
    pub fn hit(
        &mut self,
        path: &[u8],
        accept_encoding: AcceptEncoding,
        form: ConnectionForm,
        date: &DateSecond,
    ) -> Option<&Arc<PreparedResponse>> {
        if !accept_encoding.is_absent()
            && let Some(order) = &self.coding_order
        {
            if self.last_preference.0 != accept_encoding {
                self.last_preference = (accept_encoding, accept_encoding.preference(order));
            }
            let preference = self.last_preference.1;
            if preference != CodingPreference::IDENTITY {
                return self.negotiated_hit(path, preference, form, date);
            }
        }
        self.identity_hit(path, form, date)
    }

    /// Whether the site has dictionaries, so that requests must be checked for them.
    #[inline]
    pub fn has_dictionaries(&self) -> bool {
        self.has_dictionaries
    }

    /// Gets this second's response for a client that has a dictionary.
    pub fn renew_with_dictionary(
        &mut self,
        path: &[u8],
        wanted: &AvailableDictionary,
        form: ConnectionForm,
        date: &DateSecond,
    ) -> WithDictionaryState {
        let is_ready = |slot: &Slot| {
            let chosen = slot.with_dictionary.iter().find(|chosen| chosen.wanted == *wanted);
            chosen.is_some_and(|chosen| is_of(&chosen.by_form[form as usize], date))
                && !slot.entry.stale.load(Ordering::Acquire)
        };
        if self.slots.get(path).is_some_and(is_ready) {
            return WithDictionaryState::Ready;
        }
        let shared = self.shared.clone();
        let Some(slot) = self.current_slot(path, date) else { return WithDictionaryState::None };
        let cached = match slot.entry.select_with_dictionary(wanted, &shared) {
            DictionarySelection::Final(cached) => cached,
            DictionarySelection::Make => return WithDictionaryState::Make,
            DictionarySelection::None => return WithDictionaryState::None,
        };
        let prepared = cached.response(&slot.entry, form, date, &shared);
        let forms = &mut slot.with_dictionary;
        let known =
            forms.iter().position(|known| known.wanted == *wanted && Arc::ptr_eq(&known.cached, &cached));
        let index = known.unwrap_or_else(|| {
            if forms.len() == MOST_PREFERENCES {
                forms.remove(0);
            }
            forms.push(WithDictionary { wanted: *wanted, cached, by_form: [None, None, None] });
            forms.len() - 1
        });
        forms[index].by_form[form as usize] = Some(prepared);
        WithDictionaryState::Ready
    }

    /// The response that [`CoreCache::renew_with_dictionary`] has found ready.
    pub fn hit_with_dictionary(
        &self,
        path: &[u8],
        wanted: &AvailableDictionary,
        form: ConnectionForm,
    ) -> Option<&Arc<PreparedResponse>> {
        let slot = self.slots.get(path)?;
        slot.mark_used();
        let chosen = slot.with_dictionary.iter().find(|chosen| chosen.wanted == *wanted)?;
        chosen.by_form[form as usize].as_ref()
    }

    /// The entry and its response without a coding, for answers other than the plain one.
    pub fn entry(
        &mut self,
        path: &[u8],
        form: ConnectionForm,
        date: &DateSecond,
    ) -> Option<(Arc<Entry>, Arc<PreparedResponse>)> {
        let prepared = self.identity_hit(path, form, date)?.clone();
        Some((self.slots.get(path)?.entry.clone(), prepared))
    }

    /// Inserts a file that was just read, and returns the response to send now.
    pub fn insert(
        &mut self,
        new: NewEntry<'_>,
        ticket: ReadTicket,
        form: ConnectionForm,
        date: &DateSecond,
    ) -> (Arc<Entry>, Arc<PreparedResponse>) {
        let path: Box<[u8]> = new.path.into();
        let (entry, prepared) = self.shared.insert(new, ticket, form, date);
        if !entry.stale.load(Ordering::Acquire) {
            let mut by_form = [None, None, None];
            by_form[form as usize] = Some(prepared.clone());
            let slot = Slot { by_form, ..Slot::new(entry.clone()) };
            self.slots.insert(path, slot);
        }
        (entry, prepared)
    }

    /// Drops entries that other cores or changes on disk have made stale. Must be called about once a second,
    /// so that their memory is freed even if no client requests the path again.
    pub fn tick(&mut self) {
        let removals = self.shared.removals.load(Ordering::Acquire);
        if removals != self.removals_seen {
            self.removals_seen = removals;
            self.slots.retain(|slot| !slot.entry.stale.load(Ordering::Acquire));
        }
        // Buffers of a past second that this core has not used since are dropped.
        for slot in self.slots.values_mut() {
            drop_unshared(&mut slot.by_form);
            slot.negotiated.retain_mut(|negotiated| {
                drop_unshared(&mut negotiated.by_form);
                negotiated.by_form.iter().any(Option::is_some)
            });
            slot.with_dictionary.retain_mut(|made| {
                drop_unshared(&mut made.by_form);
                made.by_form.iter().any(Option::is_some)
            });
        }
    }

    /// Whether it holds no entry.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The most preferences that are stored for one path.
    #[cfg(test)]
    pub(super) fn most_remembered(&self) -> usize {
        self.slots.values().map(|slot| slot.negotiated.len()).max().unwrap_or(0)
    }

    #[inline]
    fn identity_hit(
        &mut self,
        path: &[u8],
        form: ConnectionForm,
        date: &DateSecond,
    ) -> Option<&Arc<PreparedResponse>> {
        // The slot is looked up again at the end, because the borrow of a returned slot would forbid the
        // removal in between.
        let hash = self.slots.hash(path);
        let ready = match self.slots.get_hashed(hash, path) {
            None => false,
            Some(slot) => {
                is_of(&slot.by_form[form as usize], date) && !slot.entry.stale.load(Ordering::Acquire)
            }
        };
        if !ready && !self.renew(path, form, date) {
            return None;
        }
        let slot = self.slots.get_hashed(hash, path)?;
        slot.mark_used();
        slot.by_form[form as usize].as_ref()
    }

    #[inline]
    fn negotiated_hit(
        &mut self,
        path: &[u8],
        preference: CodingPreference,
        form: ConnectionForm,
        date: &DateSecond,
    ) -> Option<&Arc<PreparedResponse>> {
        let hash = self.slots.hash(path);
        let ready = match self.slots.get_hashed(hash, path) {
            None => false,
            Some(slot) => {
                let chosen = slot.negotiated(preference);
                chosen.is_some_and(|chosen| is_of(&chosen.by_form[form as usize], date))
                    && !slot.entry.stale.load(Ordering::Acquire)
            }
        };
        if !ready {
            match self.renew_negotiated(path, preference, form, date) {
                Renewed::Negotiated => {}
                Renewed::Identity => return self.identity_hit(path, form, date),
                Renewed::Nothing => return None,
            }
        }
        let slot = self.slots.get_hashed(hash, path)?;
        slot.mark_used();
        slot.negotiated(preference)?.by_form[form as usize].as_ref()
    }

    /// Finds the entry if another core has it, drops it if it is stale, and gets this second's response.
    #[cold]
    fn renew(&mut self, path: &[u8], form: ConnectionForm, date: &DateSecond) -> bool {
        let shared = self.shared.clone();
        let Some(slot) = self.current_slot(path, date) else { return false };
        let prepared = slot.entry.identity().response(&slot.entry, form, date, &shared);
        slot.by_form[form as usize] = Some(prepared);
        true
    }

    /// The same for a request with Accept-Encoding, unless a coded form must be made for it.
    #[cold]
    fn renew_negotiated(
        &mut self,
        path: &[u8],
        preference: CodingPreference,
        form: ConnectionForm,
        date: &DateSecond,
    ) -> Renewed {
        let shared = self.shared.clone();
        let Some(slot) = self.current_slot(path, date) else { return Renewed::Nothing };
        let cached = match slot.entry.select(preference, date, &shared) {
            Selection::Final(cached) => cached,
            Selection::Identity(_) => return Renewed::Identity,
            Selection::Stale => {
                self.slots.remove(path);
                return Renewed::Nothing;
            }
            Selection::Make(_) | Selection::Wait(_) | Selection::NotAcceptable => return Renewed::Nothing,
        };
        let prepared = cached.response(&slot.entry, form, date, &shared);
        slot.remember(preference, cached).by_form[form as usize] = Some(prepared);
        Renewed::Negotiated
    }

    /// The slot of `path` with an entry that is current.
    fn current_slot(&mut self, path: &[u8], date: &DateSecond) -> Option<&mut Slot> {
        if self.slots.get(path).is_some_and(|slot| slot.entry.stale.load(Ordering::Acquire)) {
            self.slots.remove(path);
        }
        if self.slots.get(path).is_none() {
            let key = Key { site: self.site, path: path.into() };
            let entry = lock(&self.shared.store).entries.get(&key).cloned()?;
            self.slots.insert(key.path, Slot::new(entry));
        }
        if !self.slots.get(path)?.entry.is_current(date, &self.shared) {
            self.slots.remove(path);
            return None;
        }
        self.slots.get_mut(path)
    }
}

impl Slot {
    fn new(entry: Arc<Entry>) -> Slot {
        Slot { entry, by_form: [None, None, None], negotiated: Vec::new(), with_dictionary: Vec::new() }
    }

    #[inline]
    fn mark_used(&self) {
        if !self.entry.used.load(Ordering::Relaxed) {
            self.entry.used.store(true, Ordering::Relaxed);
        }
    }

    #[inline]
    fn negotiated(&self, preference: CodingPreference) -> Option<&NegotiatedForm> {
        self.negotiated.iter().find(|negotiated| negotiated.preference == preference)
    }

    fn remember(&mut self, preference: CodingPreference, cached: Arc<CachedForms>) -> &mut NegotiatedForm {
        let known = self.negotiated.iter().position(|negotiated| {
            negotiated.preference == preference && Arc::ptr_eq(&negotiated.cached, &cached)
        });
        let index = known.unwrap_or_else(|| {
            self.negotiated.retain(|negotiated| negotiated.preference != preference);
            if self.negotiated.len() == MOST_PREFERENCES {
                self.negotiated.remove(0);
            }
            self.negotiated.push(NegotiatedForm { preference, cached, by_form: [None, None, None] });
            self.negotiated.len() - 1
        });
        &mut self.negotiated[index]
    }
}

#[inline]
fn is_of(prepared: &Option<Arc<PreparedResponse>>, date: &DateSecond) -> bool {
    prepared.as_ref().is_some_and(|prepared| prepared.second == date.unix_seconds)
}

fn drop_unshared(by_form: &mut [Option<Arc<PreparedResponse>>; 3]) {
    for prepared in by_form {
        if prepared.as_ref().is_some_and(|cached| Arc::strong_count(cached) == 1) {
            *prepared = None;
        }
    }
}
