//! The status and the Content-Length of an answer in HTTP/2.

use touchstone_http::h2::hpack::{FieldList, KnownName};

/// A header section. Without a status it is a trailer section, or malformed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AnswerHead {
    pub(crate) status: Option<u16>,
    pub(crate) content_length: Option<u64>,
    pub(crate) is_valid: bool,
}

impl AnswerHead {
    /// Evaluates the fields; `is_whole`: the list contains all fields of the section.
    pub(crate) fn of(fields: &FieldList, is_whole: bool) -> AnswerHead {
        let mut head = AnswerHead { is_valid: is_whole, ..AnswerHead::default() };
        for field in fields.fields() {
            head.is_valid &= field.is_valid;
            match field.known {
                KnownName::Status => {
                    head.is_valid &= head.status.is_none();
                    head.status = number(fields.value(field)).and_then(|status| status.try_into().ok());
                    head.is_valid &= head.status.is_some_and(|status| (100..1000).contains(&status));
                }
                KnownName::ContentLength => {
                    head.content_length = number(fields.value(field));
                    head.is_valid &= head.content_length.is_some();
                }
                _ => {}
            }
        }
        head
    }
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
}
