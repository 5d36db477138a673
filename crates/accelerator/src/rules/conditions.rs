//! Evaluates a client's own conditions and ranges for a stored response (RFC 9111 section 4.3.2, RFC 9110
//! section 13).

use touchstone_http::conditional::{
    Conditions, FieldLines, Precondition, Validators, evaluate, if_range_holds,
};
use touchstone_http::date::parse_http_date;
use touchstone_http::range::{self, ByteRange, Ranges};

use super::fields::{FieldText, Fields};

/// The maximum number of ranges of one request.
const MOST_RANGES: usize = 32;

/// The part of a stored response that answers a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SelectedPart {
    /// All of it.
    Whole,
    /// These bytes: 206.
    Ranges(Vec<ByteRange>),
    /// No body: 304.
    NotModified,
    /// The requested bytes are outside its body: 416.
    Unsatisfiable,
}

/// The conditions of a request that only the origin can evaluate: they are about its current state (RFC 9111
/// section 4.3.2).
pub fn is_for_origin(request: impl Fields) -> bool {
    request.has("if-match") || request.has("if-unmodified-since")
}

/// Selects the part of a stored response with this body that answers the request. `date` is the response's.
pub fn select(
    request: impl Fields,
    is_get: bool,
    stored_fields: &[u8],
    status: u16,
    complete_length: u64,
    (date, now): (i64, i64),
) -> SelectedPart {
    // RFC 9110 section 13.2.1: conditions are evaluated only if the answer would be a success.
    if status != 200 && status != 206 {
        return SelectedPart::Whole;
    }
    let (mut none_match, mut modified_since) = (Vec::new(), Vec::new());
    let (mut if_range, mut ranges) = (Vec::new(), Vec::new());
    request.each(&mut |name, value| {
        let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
        if is(b"if-none-match") {
            none_match.push(value);
        } else if is(b"if-modified-since") {
            modified_since.push(value);
        } else if is(b"if-range") {
            if_range.push(value);
        } else if is(b"range") {
            ranges.push(value);
        }
    });
    let stored = FieldText(stored_fields);
    let modified = stored.first("last-modified").and_then(|value| parse_http_date(value, now));
    let validators = Validators {
        etag: stored.first("etag").unwrap_or_default(),
        // Section 4.3.2: without Last-Modified the time at which the response was generated is used.
        last_modified: modified.unwrap_or(date),
    };
    let conditions = Conditions {
        if_none_match: field_lines(&none_match),
        if_modified_since: field_lines(&modified_since),
        ..Conditions::default()
    };
    if evaluate(&conditions, &validators, true, now) == Precondition::NotModified {
        return SelectedPart::NotModified;
    }
    let [wanted] = ranges.as_slice() else { return SelectedPart::Whole };
    let strict = Validators { last_modified: modified.unwrap_or(i64::MIN), ..validators };
    if !is_get || !if_range_holds(field_lines(&if_range), &strict, now) {
        return SelectedPart::Whole;
    }
    match range::parse(wanted, complete_length, MOST_RANGES) {
        Ranges::Ignore => SelectedPart::Whole,
        Ranges::Unsatisfiable => SelectedPart::Unsatisfiable,
        Ranges::Satisfiable(ranges) => SelectedPart::Ranges(ranges),
    }
}

fn field_lines<'v>(values: &'v [&'v [u8]]) -> FieldLines<'v> {
    match values {
        [] => FieldLines::Absent,
        [value] => FieldLines::One(value),
        several => FieldLines::Several(several),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn select_of(request: &str, stored: &str) -> SelectedPart {
        let now = parse_http_date(b"Sun, 06 Nov 1994 08:49:37 GMT", 0).unwrap();
        select(FieldText(request.as_bytes()), true, stored.as_bytes(), 200, 10, (now, now))
    }

    #[test]
    fn conditions_and_ranges() {
        let etag = "ETag: \"a\"\r\n";
        assert_eq!(select_of("If-None-Match: \"x\", \"a\"\r\n", etag), SelectedPart::NotModified);
        assert_eq!(
            select_of("If-None-Match: \"x\"\r\nIf-None-Match: \"a\"\r\n", etag),
            SelectedPart::NotModified
        );
        assert_eq!(select_of("If-None-Match: \"x\"\r\n", etag), SelectedPart::Whole);
        let since = "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        assert_eq!(select_of(since, ""), SelectedPart::NotModified);
        let later = "Last-Modified: Sun, 06 Nov 1994 08:49:38 GMT\r\n";
        assert_eq!(select_of(since, later), SelectedPart::Whole);
        let range = ByteRange { first: 8, last: 9 };
        assert_eq!(select_of("Range: bytes=-2\r\n", etag), SelectedPart::Ranges(vec![range]));
        assert_eq!(select_of("Range: bytes=10-\r\n", etag), SelectedPart::Unsatisfiable);
        assert_eq!(
            select_of("Range: bytes=-2\r\nIf-Range: \"a\"\r\n", etag),
            SelectedPart::Ranges(vec![range])
        );
        assert_eq!(select_of("Range: bytes=-2\r\nIf-Range: \"b\"\r\n", etag), SelectedPart::Whole);
    }
}
