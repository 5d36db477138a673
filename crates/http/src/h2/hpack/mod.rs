//! HPACK, the compression of field sections (RFC 7541).
//!
//! A field section becomes a block of bytes: references into a fixed table of common fields
//! ([`static_table`]), references into a table of what this connection sent before (`dynamic_table`), and
//! literals, which may be shortened by a Huffman code ([`huffman`]).
//!
//! - [`decoder`] reads blocks into a [`FieldList`], one growing buffer for all fields of all requests, so
//!   that reading allocates nothing once the buffer has its size.
//! - [`encoder`] writes blocks: with the connection's own table ([`Encoder`]), or without any table
//!   ([`encode_response_block`]), so that a block can be made once and sent on every connection.
//!
//! This module does not depend on streams or well-formed requests; a client can use it unchanged.

pub mod decoder;
pub(crate) mod dynamic_table;
pub mod encoder;
pub mod field_list;
pub mod huffman;
pub(crate) mod integer;
pub mod known_name;
pub mod static_table;
pub(crate) mod validity;

#[cfg(test)]
mod rfc7541_examples;
#[cfg(test)]
mod tests;

pub use decoder::{DecodedBlock, Decoder};
pub use encoder::{Encoder, encode_fields_block, encode_response_block};
pub use field_list::{Field, FieldList, Span};
pub use known_name::KnownName;

/// The bytes that RFC 7541 section 4.1 adds to the length of each field when it counts sizes.
pub const FIELD_OVERHEAD_BYTES: usize = 32;

/// The size of the dynamic table before anything was negotiated (RFC 9113 section 6.5.2).
pub const DEFAULT_TABLE_BYTES: u32 = 4096;

/// Why a block cannot be decoded. After any of these errors the tables of both sides may differ, so that
/// nothing that follows can be read: the connection ends with `COMPRESSION_ERROR` (RFC 9113 section 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HpackError {
    /// It ends within a field.
    Truncated,
    /// An integer is longer than any that could be meant (RFC 7541 section 5.1).
    IntegerTooLarge,
    /// A reference to an entry that neither table has (RFC 7541 section 2.3.3).
    UnknownIndex,
    /// A string that is not valid Huffman code: it holds EOS, or its padding is not up to seven one bits (RFC
    /// 7541 section 5.2).
    Huffman,
    /// The dynamic table is made larger than was allowed (RFC 7541 section 6.3).
    TableTooLarge,
    /// A change of the dynamic table's size that is not at the start of the block (RFC 7541 section 4.2).
    MisplacedSizeUpdate,
    /// A required change of the dynamic table's size is missing (RFC 9113 section 4.3.1).
    MissingSizeUpdate,
}

impl HpackError {
    /// The fault in words, for the error log.
    pub fn explanation(self) -> &'static str {
        match self {
            HpackError::Truncated => "a header block that ends within a field",
            HpackError::IntegerTooLarge => "an integer in a header block that is too large",
            HpackError::UnknownIndex => "a header block that refers to a table entry that does not exist",
            HpackError::Huffman => "a string in a header block that is not valid Huffman code",
            HpackError::TableTooLarge => "a header block that makes the dynamic table larger than allowed",
            HpackError::MisplacedSizeUpdate => {
                "a dynamic table size update that is not at the start of its block"
            }
            HpackError::MissingSizeUpdate => {
                "a header block without the dynamic table size update that is due"
            }
        }
    }
}

impl std::fmt::Display for HpackError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.explanation())
    }
}

impl std::error::Error for HpackError {}
