//! Header blocks of HTTP/2, and the field lines of trailers.

use touchstone_http::grammar::split_field;
use touchstone_http::h2::Fields;
use touchstone_http::h2::hpack::encode_response_block;

/// The fields of a header section as field lines, each with its CRLF: the form of trailers for a handler.
pub fn field_lines(fields: Fields<'_>) -> Vec<u8> {
    let mut lines = Vec::new();
    for field in fields {
        for piece in [field.name, b": ", field.value, b"\r\n"] {
            lines.extend_from_slice(piece);
        }
    }
    lines
}

/// The head of an HTTP/1 response as a header block.
pub fn encode_head(head: &[u8]) -> Vec<u8> {
    let text = head.split(|&byte| byte == b'\n').skip(1).map(<[u8]>::trim_ascii_end);
    encode_fields(200, text.filter_map(split_field))
}

/// A header block of a response.
pub fn encode_fields<'a>(status: u16, fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Vec<u8> {
    let mut block = Vec::with_capacity(256);
    encode_response_block(status, fields, &mut block);
    block
}
