//! A map from paths that hashes a path once for several lookups.
//!
//! The hashes are seeded, because clients may choose the paths.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// A map from paths.
pub(super) struct PathTable<T> {
    rows: HashTable<Row<T>>,
    hashes: RandomState,
}

struct Row<T> {
    path: Box<[u8]>,
    value: T,
}

/// The hash of a path in one table.
#[derive(Clone, Copy)]
pub(super) struct PathHash(u64);

impl<T> Default for PathTable<T> {
    fn default() -> PathTable<T> {
        PathTable { rows: HashTable::new(), hashes: RandomState::new() }
    }
}

impl<T> PathTable<T> {
    /// The hash of `path`, for [`PathTable::get_hashed`].
    #[inline]
    pub(super) fn hash(&self, path: &[u8]) -> PathHash {
        PathHash(self.hashes.hash_one(path))
    }

    /// The value of `path`, whose hash is `hash`.
    #[inline]
    pub(super) fn get_hashed(&self, hash: PathHash, path: &[u8]) -> Option<&T> {
        self.rows.find(hash.0, |row| *row.path == *path).map(|row| &row.value)
    }

    /// The value of `path`.
    pub(super) fn get(&self, path: &[u8]) -> Option<&T> {
        self.get_hashed(self.hash(path), path)
    }

    /// The value of `path`, to be changed.
    pub(super) fn get_mut(&mut self, path: &[u8]) -> Option<&mut T> {
        let hash = self.hash(path);
        self.rows.find_mut(hash.0, |row| *row.path == *path).map(|row| &mut row.value)
    }

    /// Sets the value of `path`.
    pub(super) fn insert(&mut self, path: Box<[u8]>, value: T) {
        let hash = self.hash(&path);
        let PathTable { rows, hashes } = self;
        match rows.entry(hash.0, |row| row.path == path, |row| hashes.hash_one(&*row.path)) {
            Entry::Occupied(row) => row.into_mut().value = value,
            Entry::Vacant(place) => _ = place.insert(Row { path, value }),
        }
    }

    /// Removes `path` and its value.
    pub(super) fn remove(&mut self, path: &[u8]) {
        let hash = self.hash(path);
        if let Ok(row) = self.rows.find_entry(hash.0, |row| *row.path == *path) {
            row.remove();
        }
    }

    /// Removes all values but those for which `is_kept` is true.
    pub(super) fn retain(&mut self, mut is_kept: impl FnMut(&T) -> bool) {
        self.rows.retain(|row| is_kept(&row.value));
    }

    /// All values, to be changed.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.rows.iter_mut().map(|row| &mut row.value)
    }

    /// All values.
    #[cfg(test)]
    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.rows.iter().map(|row| &row.value)
    }

    /// Whether it has no value.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn it_is_a_map(changes in proptest::collection::vec((0u8..3, 0u8..20, any::<u32>()), 0..200)) {
            let mut table = PathTable::default();
            let mut model = HashMap::new();
            for (change, path, value) in changes {
                let path = [b'/', path];
                match change {
                    0 => {
                        table.remove(&path);
                        model.remove(&path);
                    }
                    1 => {
                        table.retain(|kept| kept % 3 != 0);
                        model.retain(|_, kept| *kept % 3 != 0);
                    }
                    _ => {
                        table.insert(path.as_slice().into(), value);
                        model.insert(path, value);
                    }
                }
                prop_assert_eq!(table.get(&path), model.get(&path));
                prop_assert_eq!(table.is_empty(), model.is_empty());
                prop_assert_eq!(table.values().count(), model.len());
            }
            for (path, value) in &mut model {
                prop_assert_eq!(table.get_mut(path), Some(value));
            }
        }
    }
}
