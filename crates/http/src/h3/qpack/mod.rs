//! QPACK, the compression of field sections (RFC 9204), only with its static table.
//!
//! A decoder that announces a dynamic table of size 0, as this one does, is never sent a reference into it;
//! an encoder need not use one. What remains are literals, Huffman code and 99 common fields. A section then
//! has the same meaning on every connection at any time, so that a cached answer is encoded once, and no
//! request waits for another.

mod decoder;
mod encoder;
mod instructions;
pub mod static_table;

pub use decoder::decode;
pub use encoder::{encode_fields, encode_response};
pub use instructions::{DecoderInstructions, EncoderInstructions};

use super::error::{ConnectionError, ErrorCode};
use crate::h2::hpack::HpackError;

/// How large a field section may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SectionLimits {
    /// The most bytes of fields, each counted with 32 more (section 4.2.2).
    pub bytes: usize,
    /// The most fields.
    pub fields: usize,
}

/// Why a section cannot be decoded. The connection ends with `QPACK_DECOMPRESSION_FAILED` (section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QpackError {
    /// It ends within a field.
    Truncated,
    /// An integer is longer than any that could be meant.
    IntegerTooLarge,
    /// A reference to an entry that the static table does not have.
    UnknownIndex,
    /// A reference to the dynamic table, which is empty.
    DynamicReference,
    /// A string that is not valid Huffman code.
    Huffman,
}

impl QpackError {
    /// The fault in words, for the error log.
    pub fn explanation(self) -> &'static str {
        match self {
            QpackError::Truncated => "a field section that ends within a field",
            QpackError::IntegerTooLarge => "an integer in a field section that is too large",
            QpackError::UnknownIndex => "a field section that refers to a table entry that does not exist",
            QpackError::DynamicReference => {
                "a field section that refers to the dynamic table, which is empty"
            }
            QpackError::Huffman => "a string in a field section that is not valid Huffman code",
        }
    }

    /// The error that ends the connection.
    pub fn connection_error(self) -> ConnectionError {
        ConnectionError::new(ErrorCode::QPACK_DECOMPRESSION_FAILED, self.explanation())
    }
}

impl From<HpackError> for QpackError {
    fn from(error: HpackError) -> QpackError {
        match error {
            HpackError::Truncated => QpackError::Truncated,
            HpackError::Huffman => QpackError::Huffman,
            HpackError::UnknownIndex => QpackError::UnknownIndex,
            _ => QpackError::IntegerTooLarge,
        }
    }
}

impl std::fmt::Display for QpackError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.explanation())
    }
}

impl std::error::Error for QpackError {}
