//! Finds stored responses that also answer other queries of their path, as their `No-Vary-Search` states.
//!
//! A response is always stored under its own URL. In addition this table has, for its path, the response's
//! field, and for the query without the parts that do not matter, the response's key. So a request whose own
//! URL is not stored finds an equivalent response; the field of that response then makes the decision.
//!
//! A purge removes entries here first, and a response that was requested before a purge is not added. Any
//! entry may be dropped at any time, which only costs requests to the origin.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::shared::{hash_of, lock};
use crate::rules::key::{self, SPACE_BYTES};
use crate::rules::no_vary_search::Variance;

/// The maximum number of paths, and of queries: if there are more, all are dropped.
const MOST_PATHS: usize = 4 * 1024;
const MOST_QUERIES: usize = 16 * 1024;

/// The maximum length of a key that other queries can find.
const MOST_KEY_BYTES: usize = 1024;

/// The responses that answer other queries.
#[derive(Default)]
pub struct Equivalents {
    /// Whether there are any entries.
    is_used: AtomicBool,
    known: Mutex<EquivalentTables>,
}

#[derive(Default)]
struct EquivalentTables {
    /// The field of the latest response of a path, by the hash of the path.
    variances: HashMap<u64, Variance>,
    /// The key of the latest response, by the hash of its path and its canonical query.
    keys: HashMap<u64, Box<[u8]>>,
}

impl Equivalents {
    /// The key of another stored response that may answer the request with this key.
    pub fn find(&self, key: &[u8]) -> Option<Vec<u8>> {
        if !self.is_used.load(Ordering::Acquire) {
            return None;
        }
        let (path, query) = split(key)?;
        let known = lock(&self.known);
        let variance = known.variances.get(&hash_of(path))?;
        let found = known.keys.get(&place(path, query, variance))?;
        (**found != *key).then(|| found.to_vec())
    }

    /// Records that a response with these fields was stored under this key. `may_note` is called when no
    /// purge can intervene any more.
    pub fn note(&self, key: &[u8], fields: &[u8], may_note: impl FnOnce() -> bool) {
        let Some(variance) = Variance::of_response(fields) else { return };
        let Some((path, query)) = split(key).filter(|_| key.len() <= MOST_KEY_BYTES) else { return };
        let mut known = lock(&self.known);
        if !may_note() {
            return;
        }
        if known.variances.len() >= MOST_PATHS || known.keys.len() >= MOST_QUERIES {
            *known = EquivalentTables::default();
        }
        let place = place(path, query, &variance);
        known.variances.insert(hash_of(path), variance);
        known.keys.insert(place, key.into());
        self.is_used.store(true, Ordering::Release);
    }

    /// Requests with this key no longer find a response of another query.
    pub fn forget(&self, key: &[u8]) {
        if !self.is_used.load(Ordering::Acquire) {
            return;
        }
        let Some((path, query)) = split(key) else { return };
        let mut known = lock(&self.known);
        if let Some(variance) = known.variances.get(&hash_of(path)) {
            let place = place(path, query, variance);
            known.keys.remove(&place);
        }
    }

    /// No request finds a response of another query any more.
    pub fn forget_all(&self) {
        if self.is_used.load(Ordering::Acquire) {
            *lock(&self.known) = EquivalentTables::default();
        }
    }
}

/// Whether the response with these fields, stored under `key`, states that it answers `wanted`.
pub fn is_equivalent(key: &[u8], fields: &[u8], wanted: &[u8]) -> bool {
    let (Some((path, query)), Some((wanted_path, wanted_query))) = (split(key), split(wanted)) else {
        return false;
    };
    path == wanted_path
        && Variance::of_response(fields)
            .is_some_and(|variance| variance.canonical(query) == variance.canonical(wanted_query))
}

/// Splits a key into the part up to its path, and its query. An answer to QUERY belongs to no other URL.
fn split(key: &[u8]) -> Option<(&[u8], &[u8])> {
    if key::target_part(key).len() != key.len() {
        return None;
    }
    let target = key.get(SPACE_BYTES..)?;
    Some(match memchr::memchr(b'?', target) {
        Some(mark) => (&key[..SPACE_BYTES + mark], &target[mark + 1..]),
        None => (key, b""),
    })
}

fn place(path: &[u8], query: &[u8], variance: &Variance) -> u64 {
    let canonical = variance.canonical(query);
    hash_of(&[path, b"?", &canonical].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &[u8] = b"No-Vary-Search: params=(\"u\")\r\n";

    fn key(text: &str) -> Vec<u8> {
        [&[0; SPACE_BYTES][..], b"hex.org", text.as_bytes()].concat()
    }

    #[test]
    fn a_request_finds_what_has_said_that_it_answers_it() {
        let equivalents = Equivalents::default();
        equivalents.note(&key("/a?id=1&u=2"), FIELDS, || true);
        assert_eq!(equivalents.find(&key("/a?u=3&id=1")), Some(key("/a?id=1&u=2")));
        for other in ["/a?id=2", "/b?id=1", "/a", "/a?id=1&u=2"] {
            assert_eq!(equivalents.find(&key(other)), None, "{other}");
        }
        assert!(is_equivalent(&key("/a?id=1&u=2"), FIELDS, &key("/a?id=1")));
        for (stored, fields, wanted) in [
            ("/a?id=1", FIELDS, "/b?id=1"),
            ("/a?id=1", FIELDS, "/a?id=2"),
            ("/a?u=1", b"X: y\r\n", "/a?u=2"),
            ("/a?u=1", FIELDS, "/a?u=2 x"),
        ] {
            assert!(!is_equivalent(&key(stored), fields, &key(wanted)), "{stored} {wanted}");
        }
    }

    #[test]
    fn what_was_purged_is_found_by_no_other_query() {
        let equivalents = Equivalents::default();
        equivalents.note(&key("/a?u=1"), FIELDS, || true);
        equivalents.forget(&key("/a?u=2"));
        assert_eq!(equivalents.find(&key("/a?u=2")), None);
        equivalents.note(&key("/a?u=1"), FIELDS, || false);
        assert_eq!(equivalents.find(&key("/a?u=2")), None);
        equivalents.note(&key("/a?u=1"), FIELDS, || true);
        equivalents.forget_all();
        assert_eq!(equivalents.find(&key("/a?u=2")), None);
    }

    #[test]
    fn there_are_never_more_than_may_be() {
        let equivalents = Equivalents::default();
        for number in 0..MOST_QUERIES + 10 {
            equivalents.note(&key(&format!("/a?id={number}")), FIELDS, || true);
        }
        assert!(lock(&equivalents.known).keys.len() <= MOST_QUERIES);
        let last = key(&format!("/a?id={}", MOST_QUERIES + 9));
        assert_eq!(equivalents.find(&key(&format!("/a?id={}&u", MOST_QUERIES + 9))), Some(last));
        let long = key(&format!("/a?id={}", "x".repeat(MOST_KEY_BYTES)));
        equivalents.note(&long, FIELDS, || true);
        assert_eq!(equivalents.find(&[&long[..], b"&u"].concat()), None);
    }
}
