//! The dynamic table (RFC 7541 section 2.3.2): the fields that this connection sent last, newest first.
//!
//! The texts of the entries are stored one after the other in one buffer, oldest first. Evicted texts stay
//! there until they take as much room as the table may use; then the remaining texts move to the beginning.
//! So each entry is one piece, and on average each byte is copied once more.

use super::FIELD_OVERHEAD_BYTES;
use super::known_name::KnownName;

#[derive(Debug, Clone, Copy)]
struct Stored {
    start: u32,
    name_length: u32,
    value_length: u32,
    known: KnownName,
    is_valid: bool,
}

impl Stored {
    fn size(&self) -> usize {
        self.name_length as usize + self.value_length as usize + FIELD_OVERHEAD_BYTES
    }
}

/// An entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) known: KnownName,
    pub(crate) is_valid: bool,
}

/// The table.
#[derive(Debug, Clone)]
pub(crate) struct DynamicTable {
    bytes: Vec<u8>,
    /// Oldest first; those before `first` are evicted.
    entries: Vec<Stored>,
    first: usize,
    size: usize,
    max_size: usize,
}

impl DynamicTable {
    pub(crate) fn new(max_size: usize) -> DynamicTable {
        DynamicTable { bytes: Vec::new(), entries: Vec::new(), first: 0, size: 0, max_size }
    }

    /// The sum of the sizes of all entries.
    #[cfg(test)]
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn max_size(&self) -> usize {
        self.max_size
    }

    /// How many entries there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.first
    }

    /// The entry at `index`; 0 is the newest.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<Entry<'_>> {
        if index >= self.len() {
            return None;
        }
        let stored = self.entries.get(self.entries.len() - 1 - index)?;
        let text = self.bytes.get(stored.start as usize..)?;
        let (name, rest) = text.split_at_checked(stored.name_length as usize)?;
        let value = rest.get(..stored.value_length as usize)?;
        Some(Entry { name, value, known: stored.known, is_valid: stored.is_valid })
    }

    /// The entries, newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        (0..self.len()).map_while(|index| self.get(index))
    }

    /// Makes room for the entry and adds it; one that is larger than the whole table leaves it empty (RFC
    /// 7541 section 4.4).
    pub(crate) fn insert(&mut self, entry: Entry<'_>) {
        let stored = Stored {
            start: 0,
            // Both are parts of a block or of a list, whose sizes fit.
            name_length: entry.name.len() as u32,
            value_length: entry.value.len() as u32,
            known: entry.known,
            is_valid: entry.is_valid,
        };
        let size = stored.size();
        if size > self.max_size {
            self.evict_down_to(0);
            return;
        }
        self.evict_down_to(self.max_size - size);
        let dead = self.entries.get(self.first).map_or(self.bytes.len(), |oldest| oldest.start as usize);
        if dead > 0 && dead >= self.max_size {
            self.compact(dead);
        }
        self.entries.push(Stored { start: self.bytes.len() as u32, ..stored });
        self.bytes.extend_from_slice(entry.name);
        self.bytes.extend_from_slice(entry.value);
        self.size += size;
    }

    /// Changes the largest size of the table, and evicts the entries that no longer fit.
    pub(crate) fn set_max_size(&mut self, max_size: usize) {
        self.max_size = max_size;
        self.evict_down_to(max_size);
    }

    fn evict_down_to(&mut self, size: usize) {
        while self.size > size
            && let Some(oldest) = self.entries.get(self.first)
        {
            self.size -= oldest.size();
            self.first += 1;
        }
        if self.first == self.entries.len() {
            self.entries.clear();
            self.bytes.clear();
            self.first = 0;
        }
    }

    /// Moves the remaining texts to the beginning; the `dead` bytes before them belong to evicted entries.
    fn compact(&mut self, dead: usize) {
        self.bytes.drain(..dead);
        self.entries.drain(..self.first);
        self.first = 0;
        for entry in &mut self.entries {
            entry.start -= dead as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry<'a>(name: &'a [u8], value: &'a [u8]) -> Entry<'a> {
        Entry { name, value, known: KnownName::of(name), is_valid: true }
    }

    #[test]
    fn an_entry_that_is_too_large_empties_the_table() {
        let mut table = DynamicTable::new(100);
        table.insert(entry(b"a", b"b"));
        assert_eq!((table.len(), table.size()), (1, 34));
        table.insert(entry(b"a", &[b'x'; 67]));
        assert_eq!((table.len(), table.size()), (1, 100));
        table.insert(entry(b"a", &[b'x'; 68]));
        assert_eq!((table.len(), table.size()), (0, 0));
        assert!(table.get(0).is_none());
    }

    #[test]
    fn a_smaller_table_keeps_the_newest() {
        let mut table = DynamicTable::new(1000);
        for name in [b"a", b"b", b"c"] {
            table.insert(entry(name, b""));
        }
        table.set_max_size(66);
        let names: Vec<&[u8]> = table.iter().map(|entry| entry.name).collect();
        assert_eq!(names, [b"c", b"b"]);
        table.set_max_size(0);
        assert_eq!(table.len(), 0);
        table.insert(entry(b"a", b""));
        assert_eq!(table.len(), 0);
    }

    proptest! {
        /// The same as a plain list that is cut at its end.
        #[test]
        fn agrees_with_a_plain_list(
            steps in proptest::collection::vec(
                (0usize..8, 0usize..90, proptest::option::weighted(0.1, 0usize..300)),
                0..120,
            ),
        ) {
            let mut table = DynamicTable::new(200);
            let mut plain: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
            let mut max_size = 200;
            for (number, (name_length, value_length, new_max_size)) in steps.into_iter().enumerate() {
                let name = vec![b'a' + (number % 26) as u8; name_length];
                let value = vec![b'0' + (number % 10) as u8; value_length];
                if let Some(new) = new_max_size {
                    max_size = new;
                    table.set_max_size(new);
                } else {
                    table.insert(entry(&name, &value));
                    plain.insert(0, (name, value));
                }
                let size = |plain: &[(Vec<u8>, Vec<u8>)]| -> usize {
                    plain.iter().map(|(name, value)| name.len() + value.len() + 32).sum()
                };
                while size(&plain) > max_size {
                    plain.pop();
                }
                prop_assert_eq!(table.size(), size(&plain));
                prop_assert!(table.bytes.len() <= 2 * max_size.max(200) + 100);
                let found: Vec<(Vec<u8>, Vec<u8>)> =
                    table.iter().map(|entry| (entry.name.to_vec(), entry.value.to_vec())).collect();
                prop_assert_eq!(&found, &plain);
            }
        }
    }
}
