//! The common part of compression and `substitute`: changes the fields and the length of an answer whose body
//! this server changes.

use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_http::grammar::{list_members, split_field};

/// Fields that apply only to the original bytes of the body.
const OF_BYTES: [&[u8]; 4] = [b"accept-ranges", b"content-digest", b"content-md5", b"digest"];

/// The names and values of field lines.
pub fn fields(lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    lines.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end).filter_map(split_field)
}

/// Whether Cache-Control forbids a change of the answer (RFC 9111 section 5.2.2.6).
pub fn forbids_change(cache_control: &[u8]) -> bool {
    list_members(cache_control).any(|member| member.eq_ignore_ascii_case(b"no-transform"))
}

/// Removes the fields that apply only to the original bytes, and `others`, and makes a strong entity tag
/// weak.
pub fn change_fields(lines: &mut Vec<u8>, others: &[&[u8]]) {
    let mut kept = Vec::with_capacity(lines.len() + 32);
    for line in lines.split_inclusive(|&byte| byte == b'\n') {
        let Some((name, value)) = split_field(line.trim_ascii_end()) else { continue };
        if OF_BYTES.iter().chain(others).any(|other| name.eq_ignore_ascii_case(other)) {
            continue;
        }
        if name.eq_ignore_ascii_case(b"etag") && value.starts_with(b"\"") {
            kept.extend([b"ETag: W/", value, b"\r\n"].concat());
        } else {
            kept.extend_from_slice(line);
        }
    }
    *lines = kept;
}

/// Removes the length of an answer to HEAD: the answer to GET has another length (RFC 9110 section 8.6).
pub fn forget_length(answer: &mut Answer) {
    answer.declared_length = None;
    answer.body.retain_mut(|part| match part {
        BodyPart::Stream { length, .. } => {
            *length = None;
            true
        }
        _ => false,
    });
}
