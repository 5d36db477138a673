//! Purges of keys, paths, tags, or everything, and the responses to which they apply.

use super::tags::tags;
use crate::rules::groups;
use crate::rules::key::{SPACE_BYTES, origin, target_part};

/// The stored responses to which a purge applies, by their keys and fields.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PurgeScope {
    /// The responses under a key.
    Key(Vec<u8>),
    /// The responses under keys with a prefix.
    Prefix(Vec<u8>),
    /// The responses for a path and query, or for paths with a prefix, of any host and space.
    Path {
        /// The path, and the query if there is one.
        path: Vec<u8>,
        /// Whether it is a prefix.
        is_prefix: bool,
    },
    /// The responses with a tag.
    Tag(Vec<u8>),
    /// The responses in a group of an origin (RFC 9875).
    Group {
        /// The origin, as in keys.
        origin: Vec<u8>,
        /// The name of the group.
        name: Vec<u8>,
    },
    /// All responses of a space.
    Space(u64),
    /// All responses.
    All,
}

/// The kind of a purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PurgeMode {
    /// Responses are removed.
    Remove,
    /// Responses become stale: they are served while they are validated, or when the origin fails.
    Soft,
}

impl PurgeScope {
    /// Whether it may apply to a response with this key, whatever its fields are.
    pub fn may_match_key(&self, key: &[u8]) -> bool {
        match self {
            PurgeScope::Tag(_) => true,
            PurgeScope::Group { origin: of, .. } => origin(key) == of,
            _ => self.matches(key, b""),
        }
    }

    /// Whether it applies to a response with this key and these fields.
    pub fn matches(&self, key: &[u8], fields: &[u8]) -> bool {
        match self {
            PurgeScope::Key(other) => key == other,
            PurgeScope::Prefix(beginning) => key.starts_with(beginning),
            PurgeScope::Path { path, is_prefix } => {
                let behind_space = target_part(key).get(SPACE_BYTES + 1..).unwrap_or_default();
                let slash = memchr::memchr(b'/', behind_space).unwrap_or(behind_space.len());
                let target = &behind_space[slash..];
                if *is_prefix { target.starts_with(path) } else { target == path }
            }
            PurgeScope::Tag(tag) => tags(fields).any(|other| other == tag),
            PurgeScope::Group { origin: of, name } => {
                origin(key) == of && groups::of_response(fields).iter().any(|group| group == name)
            }
            PurgeScope::Space(space) => key.starts_with(&space.to_le_bytes()),
            PurgeScope::All => true,
        }
    }
}
