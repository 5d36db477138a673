//! Writes blocks (RFC 7541 sections 6 and 7).
//!
//! There are two ways. [`encode_response_block`] uses only the static table and literals. Its result is valid
//! on every connection and at any time, so a cached answer is encoded once.
//! [`Encoder`] also keeps a dynamic table. Its blocks become shorter with each answer, but they belong to one
//! connection and must be sent in the order in which they were encoded.
//!
//! Names are always written in lower case. Fields that are about a single HTTP/1 connection are left out,
//! because they would make the message malformed (RFC 9113 section 8.2.2).

use super::dynamic_table::{DynamicTable, Entry};
use super::known_name::KnownName;
use super::{DEFAULT_TABLE_BYTES, FIELD_OVERHEAD_BYTES, huffman, integer, static_table};

/// The first bits of the representations (RFC 7541 section 6).
const INDEXED: u8 = 0x80;
const LITERAL_WITH_INDEXING: u8 = 0x40;
const SIZE_UPDATE: u8 = 0x20;
const LITERAL_NEVER_INDEXED: u8 = 0x10;
const LITERAL_WITHOUT_INDEXING: u8 = 0x00;

/// Appends the block of a response's header section: the status, then the fields in order. It does not use a
/// dynamic table.
///
/// Names and values from outside must be checked before. The caller must pass a status of three digits.
pub fn encode_response_block<'a>(
    status: u16,
    fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    out: &mut Vec<u8>,
) {
    encode_without_table(KnownName::Status, b":status", &status_text(status), out);
    encode_fields_block(fields, out);
}

/// Appends a block with only fields, such as trailers. It does not use a dynamic table.
pub fn encode_fields_block<'a>(fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>, out: &mut Vec<u8>) {
    for (name, value) in fields {
        with_lower_case(name, |name, known| {
            if !known.is_connection_specific() {
                encode_without_table(known, name, value, out);
            }
        });
    }
}

/// The encoder of a connection.
#[derive(Debug, Clone)]
pub struct Encoder {
    table: DynamicTable,
    /// The largest table that this side uses, even if the peer allows more.
    table_wanted: usize,
    /// The table size that was last sent to the peer.
    table_declared: usize,
    /// The smallest table that the peer has allowed since a size was last sent to it.
    smallest_limit: usize,
    size_update_due: bool,
}

/// Whether a field is added to the dynamic table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Indexing {
    /// Its value is likely to be sent again.
    Yes,
    /// Its value is large, or likely to be different the next time.
    No,
    /// It is secret: intermediaries must not add it to a table either (RFC 7541 section 7.1.3).
    Never,
}

impl Encoder {
    /// An encoder that uses a table of at most `table_bytes`; with 0 it never uses one.
    pub fn new(table_bytes: u32) -> Encoder {
        let table_declared = DEFAULT_TABLE_BYTES as usize;
        let table_wanted = table_bytes as usize;
        Encoder {
            // The peer need not be notified of a smaller table: entries that are evicted only here are never
            // used.
            table: DynamicTable::new(table_wanted.min(table_declared)),
            table_wanted,
            table_declared,
            smallest_limit: table_declared,
            size_update_due: false,
        }
    }

    /// Applies the peer's `SETTINGS_HEADER_TABLE_SIZE`. If that changes the table, the next block must begin
    /// with a size update.
    pub fn set_peer_limit(&mut self, bytes: u32) {
        let limit = bytes as usize;
        self.table.set_max_size(self.table_wanted.min(limit));
        self.smallest_limit = self.smallest_limit.min(limit);
        self.size_update_due =
            self.smallest_limit < self.table_declared || self.table.max_size() > self.table_declared;
    }

    /// Whether [`Encoder::encode_size_update`] must be called before the next block of any kind.
    #[inline]
    pub fn is_size_update_due(&self) -> bool {
        self.size_update_due
    }

    /// Appends the size update that is due, if any: the smallest size since the last one, and the current
    /// size (RFC 7541 section 4.2).
    pub fn encode_size_update(&mut self, out: &mut Vec<u8>) {
        if !self.size_update_due {
            return;
        }
        let size = self.table.max_size();
        let smallest = self.smallest_limit.min(size);
        if smallest < self.table_declared && smallest != size {
            integer::encode(smallest, 5, SIZE_UPDATE, out);
        }
        integer::encode(size, 5, SIZE_UPDATE, out);
        self.table_declared = size;
        self.smallest_limit = usize::MAX;
        self.size_update_due = false;
    }

    /// Appends the block of a response's header section, using the dynamic table. All blocks of a connection
    /// must be sent, in the order in which they were encoded.
    ///
    /// Names and values from outside must be checked before.
    pub fn encode_response<'a>(
        &mut self,
        status: u16,
        fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
        out: &mut Vec<u8>,
    ) {
        self.encode_size_update(out);
        self.encode_field(KnownName::Status, b":status", &status_text(status), out);
        self.encode_each(fields, out);
    }

    /// Appends a block with only fields: trailers, or a request that begins with its pseudo-header fields.
    pub fn encode_fields<'a>(
        &mut self,
        fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
        out: &mut Vec<u8>,
    ) {
        self.encode_size_update(out);
        self.encode_each(fields, out);
    }

    fn encode_each<'a>(&mut self, fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>, out: &mut Vec<u8>) {
        for (name, value) in fields {
            with_lower_case(name, |name, known| {
                if !known.is_connection_specific() {
                    self.encode_field(known, name, value, out);
                }
            });
        }
    }

    fn encode_field(&mut self, known: KnownName, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        if let Some(index) = static_table::index_of(known, value) {
            return integer::encode(index, 7, INDEXED, out);
        }
        let indexing = self.indexing(known, name, value);
        let mut name_index = known.static_index();
        for (place, entry) in self.table.iter().enumerate() {
            if entry.known != known || entry.name != name {
                continue;
            }
            let index = static_table::ENTRIES + 1 + place;
            if entry.value == value && indexing != Indexing::Never {
                return integer::encode(index, 7, INDEXED, out);
            }
            name_index = name_index.or(Some(index));
        }
        let (prefix_bits, pattern) = match indexing {
            Indexing::Yes => (6, LITERAL_WITH_INDEXING),
            Indexing::No => (4, LITERAL_WITHOUT_INDEXING),
            Indexing::Never => (4, LITERAL_NEVER_INDEXED),
        };
        match name_index {
            Some(index) => integer::encode(index, prefix_bits, pattern, out),
            None => {
                out.push(pattern);
                encode_string(name, out);
            }
        }
        encode_string(value, out);
        if indexing == Indexing::Yes {
            self.table.insert(Entry { name, value, known, is_valid: true });
        }
    }

    fn indexing(&self, known: KnownName, name: &[u8], value: &[u8]) -> Indexing {
        match known {
            KnownName::Authorization | KnownName::ProxyAuthorization | KnownName::SetCookie => {
                Indexing::Never
            }
            // An attacker who can add fields could guess a short cookie byte by byte.
            KnownName::Cookie if value.len() < 20 => Indexing::Never,
            KnownName::Age
            | KnownName::ContentLength
            | KnownName::ContentRange
            | KnownName::Etag
            | KnownName::IfModifiedSince
            | KnownName::IfNoneMatch
            | KnownName::LastModified
            | KnownName::Location
            | KnownName::Path => Indexing::No,
            _ if name.len() + value.len() + FIELD_OVERHEAD_BYTES > self.table.max_size() / 4 * 3 => {
                Indexing::No
            }
            _ => Indexing::Yes,
        }
    }
}

/// The three digits of a status.
pub(crate) fn status_text(status: u16) -> [u8; 3] {
    let digit = |value: u16| b'0' + (value % 10) as u8;
    [digit(status / 100), digit(status / 10), digit(status)]
}

/// Calls `encode` with the name in lower case and its [`KnownName`].
#[inline]
pub(crate) fn with_lower_case<R>(name: &[u8], encode: impl FnOnce(&[u8], KnownName) -> R) -> R {
    if !name.iter().any(u8::is_ascii_uppercase) {
        return encode(name, KnownName::of(name));
    }
    let lower = name.to_ascii_lowercase();
    encode(&lower, KnownName::of(&lower))
}

/// Appends a field, using only the static table. Secret fields are marked (RFC 7541 section 7.1.3).
fn encode_without_table(known: KnownName, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    if let Some(index) = static_table::index_of(known, value) {
        return integer::encode(index, 7, INDEXED, out);
    }
    let pattern = match known {
        KnownName::Authorization | KnownName::ProxyAuthorization | KnownName::SetCookie => {
            LITERAL_NEVER_INDEXED
        }
        _ => LITERAL_WITHOUT_INDEXING,
    };
    encode_name(known, name, pattern, out);
    encode_string(value, out);
}

/// Appends the beginning of a literal that is not added to the dynamic table.
fn encode_name(known: KnownName, name: &[u8], pattern: u8, out: &mut Vec<u8>) {
    match known.static_index() {
        Some(index) => integer::encode(index, 4, pattern, out),
        None => {
            out.push(pattern);
            encode_string(name, out);
        }
    }
}

/// Appends a string literal, in Huffman code if that is shorter (RFC 7541 section 5.2).
fn encode_string(text: &[u8], out: &mut Vec<u8>) {
    let encoded_bytes = huffman::encoded_bytes(text);
    if encoded_bytes < text.len() {
        integer::encode(encoded_bytes, 7, 0x80, out);
        huffman::encode(text, out);
    } else {
        integer::encode(text.len(), 7, 0, out);
        out.extend_from_slice(text);
    }
}
