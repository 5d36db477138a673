//! Decoded fields: one buffer for all their bytes, and one list of their positions.
//!
//! A [`FieldList`] is made once for a core and cleared again and again. Adding a field of the static table
//! copies nothing, because the text of that table is always at the beginning of the buffer; only other texts
//! of a client are written after it.

use super::huffman;
use super::known_name::KnownName;
use super::static_table;
use super::{FIELD_OVERHEAD_BYTES, HpackError};

/// The position of a piece of text in a [`FieldList`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    start: u32,
    length: u32,
}

impl Span {
    /// No text.
    pub const EMPTY: Span = Span { start: 0, length: 0 };

    /// The number of bytes.
    #[inline]
    pub fn len(self) -> usize {
        self.length as usize
    }

    /// Whether it is empty.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.length == 0
    }
}

/// One field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: Span,
    /// Its value.
    pub value: Span,
    /// Which name it is, if it is recognised.
    pub known: KnownName,
    /// Whether name and value contain only allowed bytes (RFC 9113 section 8.2.1), and, for `:path`,
    /// `:authority` and `host`, whether the value is a path or a host.
    pub is_valid: bool,
    /// The sender forbids to store it in a table, because it is secret (RFC 7541 section 7.1.3).
    pub is_never_indexed: bool,
}

impl Field {
    /// Its size as limits count it (RFC 7541 section 4.1).
    #[inline]
    pub fn size(&self) -> usize {
        self.name.len() + self.value.len() + FIELD_OVERHEAD_BYTES
    }
}

/// The positions of the texts of the tables at the beginning of every buffer.
struct Prefix {
    names: [Span; KnownName::COUNT],
    values: [Span; static_table::ENTRIES + 1],
    length: usize,
}

const fn prefix() -> Prefix {
    let mut prefix = Prefix {
        names: [Span::EMPTY; KnownName::COUNT],
        values: [Span::EMPTY; static_table::ENTRIES + 1],
        length: 0,
    };
    let mut index = 0;
    while index < KnownName::COUNT {
        let length = KnownName::TEXTS[index].len();
        prefix.names[index] = Span { start: prefix.length as u32, length: length as u32 };
        prefix.length += length;
        index += 1;
    }
    index = 1;
    while index <= static_table::ENTRIES {
        let length = static_table::VALUES[index - 1].len();
        prefix.values[index] = Span { start: prefix.length as u32, length: length as u32 };
        prefix.length += length;
        index += 1;
    }
    prefix
}

static PREFIX: Prefix = prefix();

/// The fields of the static table, ready to be added.
static STATIC_FIELDS: [Field; static_table::ENTRIES + 1] = static_fields();

const fn static_fields() -> [Field; static_table::ENTRIES + 1] {
    const PREFIX: Prefix = prefix();
    let none = Field {
        name: Span::EMPTY,
        value: Span::EMPTY,
        known: KnownName::Other,
        is_valid: true,
        is_never_indexed: false,
    };
    let mut fields = [none; static_table::ENTRIES + 1];
    let mut index = 1;
    while index <= static_table::ENTRIES {
        fields[index].known = KnownName::of_static_index(index);
        fields[index].name = PREFIX.names[fields[index].known as usize];
        fields[index].value = PREFIX.values[index];
        index += 1;
    }
    fields
}

/// A growing list of fields.
#[derive(Clone)]
pub struct FieldList {
    /// All bytes are initialised, so that making room for text need not write zeros each time.
    bytes: Vec<u8>,
    /// Where the next text goes.
    end: usize,
    fields: Vec<Field>,
}

impl std::fmt::Debug for FieldList {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |span: Span| self.text(span).escape_ascii().to_string();
        formatter
            .debug_map()
            .entries(self.fields.iter().map(|field| (text(field.name), text(field.value))))
            .finish()
    }
}

impl Default for FieldList {
    fn default() -> FieldList {
        FieldList::new()
    }
}

impl FieldList {
    /// An empty list.
    pub fn new() -> FieldList {
        let texts = [&KnownName::TEXTS[..], &static_table::VALUES[..]].concat();
        FieldList { bytes: texts.concat().into_bytes(), end: PREFIX.length, fields: Vec::new() }
    }

    /// Removes all fields; spans into the list become invalid.
    #[inline]
    pub fn clear(&mut self) {
        self.end = PREFIX.length;
        self.fields.clear();
    }

    /// How many fields there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The fields in order.
    #[inline]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The bytes of a span of this list.
    #[inline]
    pub fn text(&self, span: Span) -> &[u8] {
        self.bytes.get(span.start as usize..span.start as usize + span.length as usize).unwrap_or_default()
    }

    /// The name of a field of this list.
    #[inline]
    pub fn name(&self, field: &Field) -> &[u8] {
        self.text(field.name)
    }

    /// The value of a field of this list.
    #[inline]
    pub fn value(&self, field: &Field) -> &[u8] {
        self.text(field.value)
    }

    /// The field of the static table at `index`, which must be from 1 to [`static_table::ENTRIES`]; every
    /// list holds its text.
    #[inline]
    pub(crate) fn static_field(index: usize) -> Field {
        STATIC_FIELDS[index]
    }

    /// The text of a known name, which every list holds.
    #[inline]
    pub(crate) fn known_name(known: KnownName) -> Span {
        PREFIX.names[known as usize]
    }

    /// Adds a field whose texts are in the list already.
    #[inline]
    pub(crate) fn push(&mut self, field: Field) {
        self.fields.push(field);
    }

    /// Makes changes to the fields possible, such as to join or to remove some.
    pub(crate) fn fields_mut(&mut self) -> &mut Vec<Field> {
        &mut self.fields
    }

    /// Copies `text` into the list.
    #[inline]
    pub(crate) fn store(&mut self, text: &[u8]) -> Span {
        self.room(text.len())[..text.len()].copy_from_slice(text);
        self.take(text.len())
    }

    /// Decodes a string of Huffman code into the list.
    #[inline]
    pub(crate) fn store_huffman(&mut self, code: &[u8]) -> Result<Span, HpackError> {
        let length = huffman::decode(code, self.room(huffman::max_decoded_bytes(code.len())))?;
        Ok(self.take(length))
    }

    /// Appends texts of this list one after the other, with `separator` between them.
    pub(crate) fn store_joined(&mut self, parts: &[Span], separator: &[u8]) -> Span {
        let start = self.end;
        for (index, part) in parts.iter().enumerate() {
            if index > 0 {
                self.store(separator);
            }
            let (from, length) = (part.start as usize, part.len());
            self.room(length);
            self.bytes.copy_within(from..from + length, self.end);
            self.end += length;
        }
        Span { start: start as u32, length: (self.end - start) as u32 }
    }

    /// The position of the next text, for a later [`FieldList::truncate_text`].
    #[inline]
    pub(crate) fn text_end(&self) -> usize {
        self.end
    }

    /// Removes the texts that were added since [`FieldList::text_end`] returned `end`; no field may refer to
    /// them.
    #[inline]
    pub(crate) fn truncate_text(&mut self, end: usize) {
        debug_assert!(end >= PREFIX.length && end <= self.end);
        self.end = end;
    }

    /// How many bytes of text there is room for without growing, for tests.
    #[cfg(test)]
    pub(crate) fn room_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The buffer after the end of the texts, at least `length` bytes.
    #[inline]
    fn room(&mut self, length: usize) -> &mut [u8] {
        if self.bytes.len() - self.end < length {
            self.grow(length);
        }
        &mut self.bytes[self.end..]
    }

    #[cold]
    fn grow(&mut self, length: usize) {
        let needed = (self.end + length).max(2 * self.bytes.len());
        self.bytes.resize(needed, 0);
    }

    #[inline]
    fn take(&mut self, length: usize) -> Span {
        // Lists hold what was decoded from one input buffer, far below 4 GiB, so 32 bits hold every offset.
        let span = Span { start: self.end as u32, length: length as u32 };
        self.end += length;
        span
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn static_fields_have_their_texts_in_every_list() {
        let mut list = FieldList::new();
        list.store(b"something");
        list.clear();
        for index in 1..=static_table::ENTRIES {
            let field = FieldList::static_field(index);
            let (name, value) = static_table::entry(index).unwrap();
            assert_eq!(list.name(&field), name.as_bytes());
            assert_eq!(list.value(&field), value.as_bytes());
            assert_eq!(field.size(), name.len() + value.len() + 32);
        }
        for text in &KnownName::TEXTS[1..] {
            assert_eq!(list.text(FieldList::known_name(KnownName::of(text.as_bytes()))), text.as_bytes());
        }
    }

    #[test]
    fn texts_are_kept_until_they_are_evicted() {
        let mut list = FieldList::new();
        let one = list.store(b"one");
        let mark = list.text_end();
        let long = list.store(&[b'x'; 10_000]);
        assert_eq!((list.text(one), list.text(long).len()), (&b"one"[..], 10_000));
        list.truncate_text(mark);
        let two = list.store(b"two");
        let joined = list.store_joined(&[one, two, one], b"; ");
        assert_eq!(list.text(joined), b"one; two; one");
        assert_eq!(list.text(Span { start: u32::MAX, length: 3 }), b"");
    }
}
