//! Locks and dead properties in memory, and the effect of each change.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::key::is_below;
use super::lock::Lock;
use super::record::Record;
use crate::xml::PropertyName;

/// The dead properties of a resource: names and elements.
pub type Properties = BTreeMap<PropertyName, String>;

/// What holds now.
#[derive(Debug, Default)]
pub struct Tables {
    locks: BTreeMap<String, Lock>,
    properties: BTreeMap<Vec<u8>, Properties>,
    property_bytes: usize,
}

/// About how much memory a property takes.
pub fn property_size(name: &PropertyName, value: &str) -> usize {
    name.namespace.len() + name.local.len() + value.len() + 96
}

fn size_of(properties: &Properties) -> usize {
    properties.iter().map(|(name, value)| property_size(name, value)).sum()
}

impl Tables {
    /// All locks.
    pub fn locks(&self) -> impl Iterator<Item = &Lock> {
        self.locks.values()
    }

    /// The lock with this token.
    pub fn lock(&self, token: &str) -> Option<&Lock> {
        self.locks.get(token)
    }

    /// The properties of a resource.
    pub fn properties_of(&self, key: &[u8]) -> Option<&Properties> {
        self.properties.get(key)
    }

    /// The number of all properties.
    pub fn property_count(&self) -> usize {
        self.properties.values().map(Properties::len).sum()
    }

    /// About how much memory all properties take.
    pub fn property_bytes(&self) -> usize {
        self.property_bytes
    }

    /// About how much memory the properties of a resource and those below it take.
    pub fn property_bytes_at(&self, key: &[u8]) -> usize {
        let below = self.below(key).map(|(_, properties)| size_of(properties));
        self.properties.get(key).map_or(0, size_of) + below.sum::<usize>()
    }

    /// The number of lines that a journal of this needs.
    pub fn line_count(&self) -> usize {
        self.locks.len() + self.properties.len()
    }

    /// Ends the locks whose time is over.
    pub fn expire(&mut self, now: u64) {
        self.locks.retain(|_, lock| lock.until > now);
    }

    /// All changes that create this state from an empty one.
    pub fn records(&self) -> impl Iterator<Item = Record> {
        let locks = self.locks.values().map(|lock| Record::Lock(lock.clone()));
        let properties = self.properties.iter().map(|(key, properties)| {
            let changes = properties.iter().map(|(name, value)| (name.clone(), Some(value.clone())));
            Record::properties(key.clone(), changes.collect())
        });
        locks.chain(properties)
    }

    /// Applies a change to the tables.
    pub fn apply(&mut self, record: Record) {
        match record {
            Record::Lock(lock) => {
                self.locks.insert(lock.token.clone(), lock);
            }
            Record::Unlock { token } => {
                self.locks.remove(&token);
            }
            Record::Properties { key, set, remove } => {
                let mut properties = self.take(&key);
                for (namespace, local) in remove {
                    properties.remove(&PropertyName { namespace, local });
                }
                let set = set.into_iter();
                properties
                    .extend(set.map(|(namespace, local, value)| (PropertyName { namespace, local }, value)));
                self.put(key, properties);
            }
            Record::Created { key } => {
                self.take(&key);
            }
            Record::Removed { key } => self.remove_tree(&key),
            Record::Moved { from, to } => {
                let moved = self.take_tree(&from);
                self.remove_tree(&from);
                self.remove_tree(&to);
                for (key, properties) in moved {
                    self.put([&to[..], &key[from.len()..]].concat(), properties);
                }
            }
            Record::Copied { from, to, members } => {
                let own = self.properties.get(&from).map(|properties| (from.clone(), properties.clone()));
                let below = self.below(&from).filter(|_| members);
                let copied: Vec<_> = own
                    .into_iter()
                    .chain(below.map(|(key, properties)| (key.clone(), properties.clone())))
                    .collect();
                self.remove_tree(&to);
                for (key, properties) in copied {
                    self.put([&to[..], &key[from.len()..]].concat(), properties);
                }
            }
        }
    }

    fn take(&mut self, key: &[u8]) -> Properties {
        let properties = self.properties.remove(key).unwrap_or_default();
        self.property_bytes = self.property_bytes.saturating_sub(size_of(&properties));
        properties
    }

    fn put(&mut self, key: Vec<u8>, properties: Properties) {
        if !properties.is_empty() {
            self.take(&key);
            self.property_bytes += size_of(&properties);
            self.properties.insert(key, properties);
        }
    }

    /// The properties of all resources below one.
    fn below(&self, key: &[u8]) -> impl Iterator<Item = (&Vec<u8>, &Properties)> {
        // A slash and the byte after it are the bounds of all keys below.
        let (begin, end) = ([key, b"/"].concat(), [key, b"0"].concat());
        self.properties.range((Bound::Included(begin), Bound::Excluded(end)))
    }

    fn take_tree(&mut self, key: &[u8]) -> Vec<(Vec<u8>, Properties)> {
        let mut keys: Vec<Vec<u8>> = self.below(key).map(|(key, _)| key.clone()).collect();
        keys.push(key.to_vec());
        keys.into_iter().map(|key| (key.clone(), self.take(&key))).collect()
    }

    fn remove_tree(&mut self, key: &[u8]) {
        self.take_tree(key);
        self.locks.retain(|_, lock| lock.key != key && !is_below(&lock.key, key));
    }
}
