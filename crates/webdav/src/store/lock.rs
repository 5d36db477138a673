//! A lock of a resource.

use serde::{Deserialize, Serialize};

use super::key::{self, is_below};

/// A lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// Its token, a URI.
    pub token: String,
    /// The resource that was locked.
    #[serde(with = "key")]
    pub key: Vec<u8>,
    /// The path by which it was locked, for its root in answers.
    pub href: String,
    /// All resources below are locked too.
    pub is_deep: bool,
    /// No other lock may be beside it.
    pub is_exclusive: bool,
    /// The element of the client about its user; empty: none.
    pub owner: String,
    /// The user that the server had authenticated; only this user may use the token.
    pub user: Option<String>,
    /// When it ends, in Unix seconds.
    pub until: u64,
}

impl Lock {
    /// Whether a resource is locked by it.
    pub fn covers(&self, key: &[u8]) -> bool {
        self.key == key || self.is_deep && is_below(key, &self.key)
    }
}
