//! The rules of locks (RFC 4918 sections 6 and 7): what a lock protects, and which locks exclude each other.

use crate::failure::{Failure, Result};
use crate::store::{Lock, Tables};
use crate::tree::Place;

/// The tokens of a request, and its user.
#[derive(Debug, Clone, Copy)]
pub struct LockCredentials<'a> {
    /// The tokens.
    pub tokens: &'a [String],
    /// The user that the server has authenticated.
    pub user: Option<&'a str>,
}

impl LockCredentials<'_> {
    /// Whether the client may use a lock: it has named the token, and its user has created the lock (section
    /// 6.4).
    pub fn holds(&self, lock: &Lock) -> bool {
        self.tokens.contains(&lock.token) && self.is_owner(lock)
    }

    /// Whether the lock is of the same user; a lock without a user is of any.
    pub fn is_owner(&self, lock: &Lock) -> bool {
        lock.user.is_none() || lock.user.as_deref() == self.user
    }

    /// Whether the client may change a resource; if not, the lock that forbids it. One lock of several that
    /// are shared is enough.
    fn forbidding<'t>(&self, tables: &'t Tables, key: &[u8]) -> Option<&'t Lock> {
        let covering = || tables.locks().filter(|lock| lock.covers(key));
        if covering().any(|lock| self.holds(lock)) { None } else { covering().next() }
    }
}

fn locked(hrefs: Vec<String>) -> Failure {
    Failure::condition(423, "lock-token-submitted").about(hrefs)
}

/// Whether a resource may be changed.
pub fn may_change(tables: &Tables, holder: LockCredentials<'_>, key: &[u8]) -> Result<()> {
    match holder.forbidding(tables, key) {
        None => Ok(()),
        Some(lock) => Err(locked(vec![lock.href.clone()])),
    }
}

/// Whether a resource may get or lose its name, which changes the collection that it is in.
pub fn may_change_members(tables: &Tables, holder: LockCredentials<'_>, place: &Place) -> Result<()> {
    match place.parent_key() {
        None => Ok(()),
        Some(key) => may_change(tables, holder, key),
    }
}

/// Whether a resource and all below it may be changed.
pub fn may_change_tree(tables: &Tables, holder: LockCredentials<'_>, key: &[u8]) -> Result<()> {
    may_change(tables, holder, key)?;
    let mut hrefs: Vec<String> = tables
        .locks()
        .filter(|lock| crate::store::is_below(&lock.key, key))
        .filter(|lock| holder.forbidding(tables, &lock.key).is_some())
        .map(|lock| lock.href.clone())
        .collect();
    hrefs.sort_unstable();
    hrefs.dedup();
    if hrefs.is_empty() { Ok(()) } else { Err(locked(hrefs)) }
}

/// Whether a lock may be created beside those that exist (section 6.1 and 7.4).
pub fn may_lock(tables: &Tables, key: &[u8], is_deep: bool, is_exclusive: bool) -> Result<()> {
    let conflicts = |lock: &&Lock| {
        let touches = lock.covers(key) || is_deep && crate::store::is_below(&lock.key, key);
        touches && (is_exclusive || lock.is_exclusive)
    };
    let hrefs: Vec<String> = tables.locks().filter(conflicts).map(|lock| lock.href.clone()).collect();
    if hrefs.is_empty() {
        return Ok(());
    }
    Err(Failure::condition(423, "no-conflicting-lock").about(hrefs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Record;

    fn tables(locks: &[(&str, &str, bool, bool)]) -> Tables {
        let mut tables = Tables::default();
        for &(token, key, is_deep, is_exclusive) in locks {
            tables.apply(Record::Lock(Lock {
                token: token.to_string(),
                key: key.into(),
                href: key.to_string(),
                is_deep,
                is_exclusive,
                owner: String::new(),
                user: Some("ann".to_string()),
                until: u64::MAX,
            }));
        }
        tables
    }

    fn status(result: Result<()>) -> u16 {
        result.map_or_else(|failure| failure.status, |()| 200)
    }

    #[test]
    fn a_token_counts_for_its_user_only() {
        let tables = tables(&[("t", "/a", true, true)]);
        let tokens = ["t".to_string()];
        for (tokens, user, expected) in [
            (&tokens[..], Some("ann"), 200),
            (&tokens, Some("bob"), 423),
            (&tokens, None, 423),
            (&[], Some("ann"), 423),
        ] {
            assert_eq!(
                status(may_change(&tables, LockCredentials { tokens, user }, b"/a/b")),
                expected,
                "{user:?}"
            );
        }
    }

    #[test]
    fn what_a_lock_covers() {
        let none = LockCredentials { tokens: &[], user: None };
        let tables = tables(&[("d", "/deep", true, true), ("f", "/flat", false, true)]);
        for (key, change, tree) in [
            ("/deep", 423, 423),
            ("/deep/x/y", 423, 423),
            ("/deeper", 200, 200),
            ("/flat", 423, 423),
            ("/flat/x", 200, 200),
            ("", 200, 423),
        ] {
            assert_eq!(status(may_change(&tables, none, key.as_bytes())), change, "{key}");
            assert_eq!(status(may_change_tree(&tables, none, key.as_bytes())), tree, "{key}");
        }
    }

    #[test]
    fn which_locks_exclude_each_other() {
        let exclusive = tables(&[("e", "/a/b", false, true)]);
        let shared = tables(&[("s", "/a/b", false, false)]);
        for (key, is_deep, is_exclusive, beside_exclusive, beside_shared) in [
            ("/a/b", false, true, 423, 423),
            ("/a/b", false, false, 423, 200),
            ("/a", true, true, 423, 423),
            ("/a", true, false, 423, 200),
            ("/a", false, true, 200, 200),
            ("/a/b/c", true, true, 200, 200),
            ("/a/bc", true, true, 200, 200),
        ] {
            let key = key.as_bytes();
            assert_eq!(status(may_lock(&exclusive, key, is_deep, is_exclusive)), beside_exclusive);
            assert_eq!(status(may_lock(&shared, key, is_deep, is_exclusive)), beside_shared);
        }
    }
}
