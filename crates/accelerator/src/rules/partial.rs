//! Parts of representations (RFC 9111 sections 3.3 and 3.4, RFC 9110 section 14.4).

use touchstone_http::decimal;
use touchstone_http::entity_tag::EntityTag;
use touchstone_http::range::ByteRange;

use super::fields::{FieldText, Fields};

/// The `Content-Range` of a part with a known complete length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentRange {
    /// The bytes of the part.
    pub range: ByteRange,
    /// The complete length.
    pub complete_length: u64,
}

/// Parses `Content-Range: bytes first-last/length`; `None` if the length is unknown, or the value is invalid.
pub fn content_range(value: &[u8]) -> Option<ContentRange> {
    let rest = value.get(..6).filter(|unit| unit.eq_ignore_ascii_case(b"bytes ")).map(|_| &value[6..])?;
    let slash = memchr::memchr(b'/', rest)?;
    let (range, length) = (&rest[..slash], &rest[slash + 1..]);
    let hyphen = memchr::memchr(b'-', range)?;
    let first = decimal::parse(&range[..hyphen])?;
    let last = decimal::parse(&range[hyphen + 1..])?;
    let complete_length = decimal::parse(length)?;
    (first <= last && last < complete_length)
        .then_some(ContentRange { range: ByteRange { first, last }, complete_length })
}

/// The strong validator that shows that parts belong to one representation (section 3.4).
pub fn strong_etag(fields: &[u8]) -> Option<Vec<u8>> {
    let text = FieldText(fields);
    let etag = text.first("etag")?;
    let tag = EntityTag::parse(etag)?;
    tag.matches_strongly(&tag).then(|| etag.to_vec())
}

/// Joins two parts of one representation; `None` if there would be a gap between them.
pub fn combine(one: (ContentRange, &[u8]), other: (ContentRange, &[u8])) -> Option<(ContentRange, Vec<u8>)> {
    let ((first, first_body), (second, second_body)) =
        if one.0.range.first <= other.0.range.first { (one, other) } else { (other, one) };
    let is_whole = |part: &ContentRange, body: &[u8]| part.range.len() == body.len() as u64;
    let fits = first.complete_length == second.complete_length
        && is_whole(&first, first_body)
        && is_whole(&second, second_body)
        && second.range.first <= first.range.last + 1;
    if !fits {
        return None;
    }
    let mut body = first_body.to_vec();
    if second.range.last > first.range.last {
        let overlap = usize::try_from(first.range.last + 1 - second.range.first).ok()?;
        body.extend_from_slice(second_body.get(overlap..)?);
    }
    let last = first.range.last.max(second.range.last);
    Some((ContentRange { range: ByteRange { first: first.range.first, last }, ..first }, body))
}

/// The bytes of a range that are missing from a part that has its beginning or its end; `None` if the part
/// has all of it, none of it, or only its middle.
pub fn missing(part: ContentRange, wanted: ByteRange) -> Option<ByteRange> {
    let there = part.range;
    let has_beginning = (there.first..=there.last).contains(&wanted.first);
    let has_end = (there.first..=there.last).contains(&wanted.last);
    match (has_beginning, has_end) {
        (true, false) => Some(ByteRange { first: there.last + 1, last: wanted.last }),
        (false, true) => Some(ByteRange { first: wanted.first, last: there.first - 1 }),
        (true, true) | (false, false) => None,
    }
}

impl ContentRange {
    /// Whether the part is complete.
    pub fn is_everything(&self) -> bool {
        self.range.first == 0 && self.range.last + 1 == self.complete_length
    }

    /// Whether it contains all of these bytes.
    pub fn holds(&self, range: ByteRange) -> bool {
        self.range.first <= range.first && range.last <= self.range.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn part(first: u64, last: u64, complete_length: u64) -> ContentRange {
        ContentRange { range: ByteRange { first, last }, complete_length }
    }

    #[test]
    fn content_ranges() {
        assert_eq!(content_range(b"bytes 0-4/10"), Some(part(0, 4, 10)));
        for wrong in [
            "bytes 0-4/*",
            "bytes */10",
            "bytes 4-0/10",
            "bytes 0-10/10",
            "bytes 0-4",
            "items 0-4/10",
            "",
            "bytes",
        ] {
            assert_eq!(content_range(wrong.as_bytes()), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_cut_is_put_together(
            body in proptest::collection::vec(any::<u8>(), 1..50),
            cuts in proptest::collection::vec(0usize..50, 4),
        ) {
            let length = body.len();
            let cut = |one: usize, other: usize| {
                let (one, other) = (one % length, other % length);
                let (first, last) = (one.min(other), one.max(other));
                (part(first as u64, last as u64, length as u64), &body[first..=last])
            };
            let (one, other) = (cut(cuts[0], cuts[1]), cut(cuts[2], cuts[3]));
            match combine(one, other) {
                Some((whole, bytes)) => {
                    let range = whole.range.first as usize..=whole.range.last as usize;
                    prop_assert_eq!(&bytes, &body[range]);
                    prop_assert!(whole.holds(one.0.range) && whole.holds(other.0.range));
                }
                None => prop_assert!(
                    one.0.range.last + 1 < other.0.range.first || other.0.range.last + 1 < one.0.range.first
                ),
            }
        }

        #[test]
        fn what_is_missing_makes_a_range_whole(
            there in (0u64..40, 0u64..40),
            wanted in (0u64..40, 0u64..40),
        ) {
            let range = |(one, other): (u64, u64)| ByteRange { first: one.min(other), last: one.max(other) };
            let (there, wanted) = (ContentRange { range: range(there), complete_length: 40 }, range(wanted));
            let body: Vec<u8> = (0..40).collect();
            let bytes = |range: ByteRange| &body[range.first as usize..=range.last as usize];
            match missing(there, wanted) {
                Some(rest) => {
                    let rest_part = ContentRange { range: rest, complete_length: 40 };
                    let joined = combine((there, bytes(there.range)), (rest_part, bytes(rest)));
                    let (part, joined) = joined.unwrap();
                    prop_assert!(part.holds(wanted) && joined == bytes(part.range));
                    prop_assert!(rest.len() < wanted.len());
                    prop_assert!(wanted.first <= rest.first && rest.last <= wanted.last);
                }
                None => prop_assert!(
                    there.holds(wanted)
                        || wanted.first < there.range.first && wanted.last > there.range.last
                        || wanted.last < there.range.first
                        || wanted.first > there.range.last
                ),
            }
        }

        #[test]
        fn any_bytes_are_read(value in proptest::collection::vec(any::<u8>(), 0..40)) {
            content_range(&value);
        }

        #[test]
        fn lies_about_lengths_are_not_combined(extra in 1usize..4) {
            let body = vec![0; 5 + extra];
            prop_assert!(combine((part(0, 4, 10), &body), (part(5, 9, 10), &body[..5])).is_none());
        }
    }
}
