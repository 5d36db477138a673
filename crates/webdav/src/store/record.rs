//! A line of the journal: one change of locks or dead properties, as JSON.

use serde::{Deserialize, Serialize};

use super::key;
use super::lock::Lock;
use crate::xml::PropertyName;

/// A change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "lowercase")]
pub enum Record {
    /// A lock is created, or its time is changed.
    Lock(Lock),
    /// A lock has ended.
    Unlock {
        /// Its token.
        token: String,
    },
    /// Properties of a resource are set and removed.
    Properties {
        /// The resource.
        #[serde(with = "key")]
        key: Vec<u8>,
        /// Namespace, name and element of each.
        set: Vec<(String, String, String)>,
        /// Namespace and name of each.
        remove: Vec<(String, String)>,
    },
    /// A resource is created or its content is new: properties of an earlier one are dropped.
    #[serde(rename = "made")]
    Created {
        /// The resource.
        #[serde(with = "key")]
        key: Vec<u8>,
    },
    /// A tree is removed.
    #[serde(rename = "gone")]
    Removed {
        /// Its root.
        #[serde(with = "key")]
        key: Vec<u8>,
    },
    /// A tree has moved, in place of what was there.
    Moved {
        /// Where it was.
        #[serde(with = "key")]
        from: Vec<u8>,
        /// Where it is.
        #[serde(with = "key")]
        to: Vec<u8>,
    },
    /// A resource was copied, in place of what was there.
    Copied {
        /// The original.
        #[serde(with = "key")]
        from: Vec<u8>,
        /// The copy.
        #[serde(with = "key")]
        to: Vec<u8>,
        /// With its members.
        members: bool,
    },
}

impl Record {
    /// Reads a line.
    pub fn parse(line: &[u8]) -> Result<Record, String> {
        serde_json::from_slice(line).map_err(|error| error.to_string())
    }

    /// The line, with its end.
    pub fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }

    /// A change of properties.
    pub fn properties(key: Vec<u8>, changes: Vec<(PropertyName, Option<String>)>) -> Record {
        let (mut set, mut remove) = (Vec::new(), Vec::new());
        for (name, value) in changes {
            match value {
                Some(value) => set.push((name.namespace, name.local, value)),
                None => remove.push((name.namespace, name.local)),
            }
        }
        Record::Properties { key, set, remove }
    }
}
