//! Reads blocks (RFC 7541 sections 3 and 6).

use super::dynamic_table::{DynamicTable, Entry};
use super::field_list::{Field, FieldList, Span};
use super::integer;
use super::known_name::KnownName;
use super::validity::{is_valid_name, is_valid_value};
use super::{DEFAULT_TABLE_BYTES, HpackError, static_table};

/// How large the fields of one block may be.
#[derive(Debug, Clone, Copy)]
pub struct ListLimits {
    /// The most bytes of fields, each counted with 32 more (RFC 9113 section 6.5.2).
    pub bytes: usize,
    /// The most fields.
    pub fields: usize,
}

/// The result of decoding a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodedBlock {
    /// Whether it had more fields or bytes than the limits allow. The fields up to the limit are in the list.
    pub is_too_large: bool,
    /// Whether the block changed the dynamic table. If so, the same bytes may have another meaning in the
    /// next block.
    pub changes_table: bool,
}

/// The decoder of a connection.
#[derive(Debug, Clone)]
pub struct Decoder {
    table: DynamicTable,
    /// The largest table that the peer may choose.
    table_limit: usize,
    /// The peer has agreed to a smaller table and must begin its next block with a size update.
    size_update_due: bool,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder::new()
    }
}

impl Decoder {
    /// A decoder with the table that both sides begin with.
    pub fn new() -> Decoder {
        let table_limit = DEFAULT_TABLE_BYTES as usize;
        Decoder { table: DynamicTable::new(table_limit), table_limit, size_update_due: false }
    }

    /// Changes the largest table that the peer may choose: call it for a larger one as soon as it is
    /// announced, for a smaller one when the peer has acknowledged it (RFC 9113 section 4.3.1).
    pub fn set_table_limit(&mut self, bytes: u32) {
        self.table_limit = bytes as usize;
        self.size_update_due |= self.table.max_size() > self.table_limit;
    }

    /// The size of the dynamic table, for tests.
    #[cfg(test)]
    pub(crate) fn table(&self) -> &DynamicTable {
        &self.table
    }

    /// Reads a whole block and adds its fields to `list`.
    ///
    /// If there are too many fields or they are too large, the rest is read only to keep the dynamic tables
    /// of both sides equal.
    #[inline]
    pub fn decode(
        &mut self,
        block: &[u8],
        limits: ListLimits,
        list: &mut FieldList,
    ) -> Result<DecodedBlock, HpackError> {
        let mut input = block;
        self.read_size_updates(&mut input)?;
        let changes_table = input.len() < block.len();
        let mut decoded = DecodedBlock { is_too_large: false, changes_table };
        let (mut list_bytes, fields_before) = (0, list.len());
        while let Some((&first, rest)) = input.split_first() {
            input = rest;
            if decoded.is_too_large {
                decoded.changes_table |= self.pass_over(first, &mut input, list)?;
                continue;
            }
            let text_end = list.text_end();
            let field = if first & 0x80 != 0 {
                let index = integer::decode(first, 7, &mut input)?;
                self.indexed(index, list)?
            } else if first & 0x40 != 0 {
                decoded.changes_table = true;
                self.insert_literal(first, &mut input, list)?
            } else if first & 0x20 != 0 {
                return Err(HpackError::MisplacedSizeUpdate);
            } else {
                let field = self.literal(first, 4, &mut input, list)?;
                Field { is_never_indexed: first & 0x10 != 0, ..field }
            };
            list_bytes += field.size();
            if list_bytes > limits.bytes || list.len() - fields_before >= limits.fields {
                decoded.is_too_large = true;
                list.truncate_text(text_end);
            } else {
                list.push(field);
            }
        }
        Ok(decoded)
    }

    /// Reads a field that is not needed, and copies only what the table needs: a short reference can
    /// represent a long field. Returns whether the table changes.
    #[cold]
    fn pass_over(&mut self, first: u8, input: &mut &[u8], list: &mut FieldList) -> Result<bool, HpackError> {
        if first & 0x80 != 0 {
            self.check_index(integer::decode(first, 7, input)?)?;
        } else if first & 0x40 != 0 {
            let text_end = list.text_end();
            self.insert_literal(first, input, list)?;
            list.truncate_text(text_end);
            return Ok(true);
        } else if first & 0x20 != 0 {
            return Err(HpackError::MisplacedSizeUpdate);
        } else {
            match integer::decode(first, 4, input)? {
                0 => _ = take_string(input)?,
                index => self.check_index(index)?,
            }
            take_string(input)?;
        }
        Ok(false)
    }

    fn check_index(&self, index: usize) -> Result<(), HpackError> {
        let is_static = (1..=static_table::ENTRIES).contains(&index);
        if is_static { Ok(()) } else { self.dynamic_entry(index).map(drop) }
    }

    /// A literal that goes into the table.
    #[inline]
    fn insert_literal(
        &mut self,
        first: u8,
        input: &mut &[u8],
        list: &mut FieldList,
    ) -> Result<Field, HpackError> {
        let field = self.literal(first, 6, input, list)?;
        let (name, value) = (list.name(&field), list.value(&field));
        self.table.insert(Entry { name, value, known: field.known, is_valid: field.is_valid });
        Ok(field)
    }

    /// Reads the changes of the table's size that are at the start of a block (RFC 7541 section 4.2).
    #[inline]
    fn read_size_updates(&mut self, input: &mut &[u8]) -> Result<(), HpackError> {
        while let Some((&first, rest)) = input.split_first()
            && first & 0xe0 == 0x20
        {
            *input = rest;
            let size = integer::decode(first, 5, input)?;
            if size > self.table_limit {
                return Err(HpackError::TableTooLarge);
            }
            self.table.set_max_size(size);
            self.size_update_due = false;
        }
        if self.size_update_due { Err(HpackError::MissingSizeUpdate) } else { Ok(()) }
    }

    #[inline]
    fn indexed(&self, index: usize, list: &mut FieldList) -> Result<Field, HpackError> {
        if index.wrapping_sub(1) < static_table::ENTRIES {
            return Ok(FieldList::static_field(index));
        }
        let entry = self.dynamic_entry(index)?;
        Ok(Field {
            name: store_name(entry.known, entry.name, list),
            value: list.store(entry.value),
            known: entry.known,
            is_valid: entry.is_valid,
            is_never_indexed: false,
        })
    }

    /// A literal. The lowest `prefix_bits` of `first` hold the index of its name; 0 means that the name
    /// follows as a string.
    #[inline]
    fn literal(
        &self,
        first: u8,
        prefix_bits: u32,
        input: &mut &[u8],
        list: &mut FieldList,
    ) -> Result<Field, HpackError> {
        let index = integer::decode(first, prefix_bits, input)?;
        let (name, known, name_is_valid) = if index == 0 {
            let name = read_string(input, list)?;
            let known = KnownName::of(list.text(name));
            (name, known, known != KnownName::Other || is_valid_name(list.text(name)))
        } else if index <= static_table::ENTRIES {
            let field = FieldList::static_field(index);
            (field.name, field.known, true)
        } else {
            let entry = self.dynamic_entry(index)?;
            // The entry's validity is stored for its name and value together, so the name must be checked
            // again.
            let is_valid = entry.known != KnownName::Other || is_valid_name(entry.name);
            (store_name(entry.known, entry.name, list), entry.known, is_valid)
        };
        let value = read_string(input, list)?;
        let is_valid = name_is_valid && is_valid_value(known, list.text(value));
        Ok(Field { name, value, known, is_valid, is_never_indexed: false })
    }

    #[inline]
    fn dynamic_entry(&self, index: usize) -> Result<Entry<'_>, HpackError> {
        // Index 0, which is never valid, wraps to the largest value.
        let place = index.wrapping_sub(static_table::ENTRIES + 1);
        self.table.get(place).ok_or(HpackError::UnknownIndex)
    }
}

/// The text of a name. Every list already contains the known names.
#[inline]
fn store_name(known: KnownName, name: &[u8], list: &mut FieldList) -> Span {
    if known == KnownName::Other { list.store(name) } else { FieldList::known_name(known) }
}

/// A string literal (RFC 7541 section 5.2).
#[inline]
fn read_string(input: &mut &[u8], list: &mut FieldList) -> Result<Span, HpackError> {
    let (text, is_huffman) = take_string(input)?;
    if is_huffman { list.store_huffman(text) } else { Ok(list.store(text)) }
}

/// The bytes of a string literal, and whether they are Huffman code.
#[inline]
fn take_string<'a>(input: &mut &'a [u8]) -> Result<(&'a [u8], bool), HpackError> {
    let (&first, rest) = input.split_first().ok_or(HpackError::Truncated)?;
    *input = rest;
    let length = integer::decode(first, 7, input)?;
    let (text, rest) = input.split_at_checked(length).ok_or(HpackError::Truncated)?;
    *input = rest;
    Ok((text, first & 0x80 != 0))
}
