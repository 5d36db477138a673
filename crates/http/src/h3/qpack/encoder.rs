//! Writes field sections (RFC 9204 section 4.5).
//!
//! Names are always written in lower case. Fields that are about a single HTTP/1 connection are left out,
//! because they would make the message malformed (RFC 9114 section 4.2).

use super::static_table;
use crate::h2::hpack::encoder::{status_text, with_lower_case};
use crate::h2::hpack::{KnownName, huffman, integer};

/// The prefix of a section that uses only the static table: no insertions, and the base 0 (section 4.5.1).
const PREFIX: [u8; 2] = [0, 0];

/// The first bits of the representations.
const INDEXED_STATIC: u8 = 0xc0;
const LITERAL_WITH_STATIC_NAME: u8 = 0x50;
const LITERAL: u8 = 0x20;

/// Appends the section of a response: the status, then the fields in order.
///
/// Names and values from outside must be checked before.
pub fn encode_response<'a>(
    status: u16,
    fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(&PREFIX);
    encode_field(KnownName::Status, b":status", &status_text(status), out);
    encode_each(fields, out);
}

/// Appends a section with only fields: trailers, or a request that begins with its pseudo-header fields.
pub fn encode_fields<'a>(fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>, out: &mut Vec<u8>) {
    out.extend_from_slice(&PREFIX);
    encode_each(fields, out);
}

fn encode_each<'a>(fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>, out: &mut Vec<u8>) {
    for (name, value) in fields {
        with_lower_case(name, |name, known| {
            if !known.is_connection_specific() {
                encode_field(known, name, value, out);
            }
        });
    }
}

fn encode_field(known: KnownName, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    // Secret fields are marked for intermediaries (section 7.1.3).
    let is_secret =
        matches!(known, KnownName::Authorization | KnownName::ProxyAuthorization | KnownName::SetCookie);
    match static_table::find(name, value) {
        static_table::TableMatch::Field(index) => return integer::encode(index, 6, INDEXED_STATIC, out),
        static_table::TableMatch::Name(index) => {
            let secret_bit = if is_secret { 0x20 } else { 0 };
            integer::encode(index, 4, LITERAL_WITH_STATIC_NAME | secret_bit, out);
        }
        static_table::TableMatch::Nothing => {
            let secret_bit = if is_secret { 0x10 } else { 0 };
            encode_string(name, 3, LITERAL | secret_bit, out);
        }
    }
    encode_string(value, 7, 0, out);
}

/// Appends a string, in Huffman code if that is shorter. Its length begins in the lowest `prefix_bits`; the
/// bit above them is set for Huffman code.
fn encode_string(text: &[u8], prefix_bits: u32, pattern: u8, out: &mut Vec<u8>) {
    let huffman_bytes = huffman::encoded_bytes(text);
    if huffman_bytes < text.len() {
        integer::encode(huffman_bytes, prefix_bits, pattern | 1 << prefix_bits, out);
        huffman::encode(text, out);
    } else {
        integer::encode(text.len(), prefix_bits, pattern, out);
        out.extend_from_slice(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_common_is_short() {
        let mut out = Vec::new();
        encode_response(200, [(&b"Content-Type"[..], &b"text/css"[..]), (b"Age", b"0")], &mut out);
        assert_eq!(out, [0, 0, 0xc0 | 25, 0xc0 | 51, 0xc0 | 2]);
    }

    #[test]
    fn names_are_found_or_spelled_out() {
        let mut out = Vec::new();
        encode_fields([(&b"Server"[..], &b"\x00"[..]), (b"x", b"\x00"), (b"Connection", b"close")], &mut out);
        // 92 does not fit into four bits.
        assert_eq!(out, [0, 0, 0x5f, 92 - 15, 1, 0, 0x21, b'x', 1, 0]);
    }

    #[test]
    fn secrets_are_marked() {
        let mut out = Vec::new();
        encode_fields([(&b"set-cookie"[..], &b"\x00"[..]), (b"proxy-authorization", b"\x00")], &mut out);
        assert_eq!(out[2], 0x50 | 0x20 | 14);
        assert_eq!(out[5] & 0xf0, 0x30);
    }
}
