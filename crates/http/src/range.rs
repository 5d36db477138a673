//! Range requests (RFC 9110 section 14): reading `Range`, writing `Content-Range` and `multipart/byteranges`.
//!
//! [`parse`] decides which parts of a representation of a known length a `Range` field requests; the caller
//! first checks that the method is GET and that `If-Range` holds. One range is answered with 206 and
//! [`append_content_range`]; several with the parts that [`MultipartByteRanges`] frames; if none is
//! satisfiable, the answer is 416 with [`append_unsatisfied_range`].

use crate::decimal;
use crate::grammar::list_members;

/// A part of a representation, from its first to its last byte, both included, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRange {
    /// Position of the first byte.
    pub first: u64,
    /// Position of the last byte; never before the first.
    pub last: u64,
}

impl ByteRange {
    /// How many bytes it spans; at least one.
    #[allow(clippy::len_without_is_empty, reason = "a range is never empty")]
    pub fn len(&self) -> u64 {
        self.last - self.first + 1
    }
}

/// The parts that a `Range` field requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ranges {
    /// The field is ignored: answer 200 with the whole representation.
    Ignore,
    /// Only bytes that the representation does not have: answer 416.
    Unsatisfiable,
    /// These ranges, at least one: answer 206. They lie within the representation and neither overlap nor
    /// touch; they are in the order in which the request first names a byte of each.
    Satisfiable(Vec<ByteRange>),
}

/// Reads a `Range` field for a representation of `complete_length` bytes. Allocates for the ranges it
/// returns.
///
/// A unit other than `bytes` and a malformed value are ignored, as RFC 9110 section 14.2 allows and requires.
/// So are requests that look like an attack (section 17.15): more than `max_ranges` ranges, or ranges that
/// overlap so much that they would be longer than the whole representation. Other ranges that overlap or
/// touch are merged.
pub fn parse(value: &[u8], complete_length: u64, max_ranges: usize) -> Ranges {
    let Some(range_set) = bytes_range_set(value) else { return Ranges::Ignore };
    let mut ranges = Vec::new();
    let mut specs = 0;
    // Wider than a length, for many ranges of a very large one.
    let mut total: u128 = 0;
    for text in list_members(range_set) {
        specs += 1;
        let Some(spec) = RangeSpec::parse(text) else { return Ranges::Ignore };
        if specs > max_ranges {
            return Ranges::Ignore;
        }
        if complete_length == 0 && matches!(spec, RangeSpec::Suffix(1..)) {
            // The range is satisfiable, but Content-Range cannot name a part of an empty representation; the
            // whole is sent.
            return Ranges::Ignore;
        }
        if let Some(range) = spec.within(complete_length) {
            total += u128::from(range.len());
            ranges.push(range);
        }
    }
    if specs == 0 || total > u128::from(complete_length) {
        return Ranges::Ignore;
    }
    if ranges.is_empty() {
        return Ranges::Unsatisfiable;
    }
    if ranges.len() > 1 {
        merge(&mut ranges);
    }
    Ranges::Satisfiable(ranges)
}

/// What follows `bytes=`. The names of range units are not case-sensitive (RFC 9110 section 14.1).
fn bytes_range_set(value: &[u8]) -> Option<&[u8]> {
    let (unit, range_set) = value.split_at_checked(b"bytes=".len())?;
    unit.eq_ignore_ascii_case(b"bytes=").then_some(range_set)
}

/// One member of a range set (RFC 9110 section 14.1.1).
enum RangeSpec {
    /// `first-last`, or `first-` to the end.
    From(u64, Option<u64>),
    /// `-length`: as many bytes at the end.
    Suffix(u64),
}

impl RangeSpec {
    fn parse(text: &[u8]) -> Option<RangeSpec> {
        let dash = text.iter().position(|&byte| byte == b'-')?;
        match (&text[..dash], &text[dash + 1..]) {
            (b"", length) => Some(RangeSpec::Suffix(position(length)?)),
            (first, b"") => Some(RangeSpec::From(position(first)?, None)),
            (first, last) => {
                let (first, last) = (position(first)?, position(last)?);
                (first <= last).then_some(RangeSpec::From(first, Some(last)))
            }
        }
    }

    /// The bytes of a representation that it names, if there are any.
    fn within(&self, complete_length: u64) -> Option<ByteRange> {
        let end = complete_length.checked_sub(1)?;
        match *self {
            RangeSpec::From(first, last) => {
                (first <= end).then(|| ByteRange { first, last: last.map_or(end, |last| last.min(end)) })
            }
            RangeSpec::Suffix(0) => None,
            RangeSpec::Suffix(length) => {
                Some(ByteRange { first: complete_length.saturating_sub(length), last: end })
            }
        }
    }
}

/// One or more digits. A number too large for 64 bits becomes the largest 64-bit number, which is after the
/// end of any representation.
fn position(digits: &[u8]) -> Option<u64> {
    (!digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
        .then(|| decimal::parse(digits).unwrap_or(u64::MAX))
}

/// Merges ranges that overlap or touch. A merged range takes the place of the first of its parts.
fn merge(ranges: &mut Vec<ByteRange>) {
    let mut numbered: Vec<(usize, ByteRange)> = ranges.drain(..).enumerate().collect();
    numbered.sort_unstable_by_key(|(_, range)| range.first);
    numbered.dedup_by(|(number, range), (kept_number, kept)| {
        let joins = range.first <= kept.last.saturating_add(1);
        if joins {
            kept.last = kept.last.max(range.last);
            *kept_number = (*kept_number).min(*number);
        }
        joins
    });
    numbered.sort_unstable_by_key(|(number, _)| *number);
    ranges.extend(numbered.into_iter().map(|(_, range)| range));
}

/// Appends the value of `Content-Range` for one range: `bytes 0-499/1234` (RFC 9110 section 14.4).
pub fn append_content_range(range: ByteRange, complete_length: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"bytes ");
    decimal::append(range.first, out);
    out.push(b'-');
    decimal::append(range.last, out);
    out.push(b'/');
    decimal::append(complete_length, out);
}

/// Appends the value of `Content-Range` for an answer of 416: `bytes */1234`.
pub fn append_unsatisfied_range(complete_length: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"bytes */");
    decimal::append(complete_length, out);
}

/// Several ranges framed as a `multipart/byteranges` body (RFC 9110 section 14.6, RFC 2046 section 5.1).
///
/// The body is, for each range in turn, its [head](Self::append_part_head) and its bytes of the
/// representation, and then [the end](Self::append_closing). [`Self::content_length`] is the length of all
/// that.
#[derive(Debug, Clone, Copy)]
pub struct MultipartByteRanges<'a> {
    /// The media type of the representation, repeated in each part. Empty: the parts have no `Content-Type`.
    pub content_type: &'a [u8],
    /// The length of the representation.
    pub complete_length: u64,
    /// The ranges to send.
    pub ranges: &'a [ByteRange],
    /// 1 to 70 letters, digits, `'`, `+`, `_`, `-` or `.`, that do not occur after a line's `--` in the
    /// representation.
    pub boundary: &'a [u8],
}

impl MultipartByteRanges<'_> {
    /// Appends the value of the response's own `Content-Type`.
    pub fn append_media_type(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"multipart/byteranges; boundary=");
        out.extend_from_slice(self.boundary);
    }

    /// Appends the bytes before those of the range at `index`.
    ///
    /// # Panics
    /// Where there is no range at `index`.
    pub fn append_part_head(&self, index: usize, out: &mut Vec<u8>) {
        // The line break before a delimiter belongs to it; the first delimiter is at the beginning of the
        // body.
        out.extend_from_slice(if index == 0 { b"--" } else { b"\r\n--" });
        out.extend_from_slice(self.boundary);
        if !self.content_type.is_empty() {
            out.extend_from_slice(b"\r\nContent-Type: ");
            out.extend_from_slice(self.content_type);
        }
        out.extend_from_slice(b"\r\nContent-Range: ");
        append_content_range(self.ranges[index], self.complete_length, out);
        out.extend_from_slice(b"\r\n\r\n");
    }

    /// Appends the bytes after those of the last range.
    pub fn append_closing(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\r\n--");
        out.extend_from_slice(self.boundary);
        out.extend_from_slice(b"--\r\n");
    }

    /// The exact length of the body. The ranges must not overlap, as those of [`parse`] do not: then this
    /// fits in a `u64` for every representation that a disk can hold.
    pub fn content_length(&self) -> u64 {
        let delimiter = b"\r\n--".len() + self.boundary.len();
        let content_type = match self.content_type.len() {
            0 => 0,
            length => b"\r\nContent-Type: ".len() + length,
        };
        let fixed = delimiter + content_type + b"\r\nContent-Range: bytes -/\r\n\r\n".len();
        let parts: u64 = self
            .ranges
            .iter()
            .map(|range| {
                let numbers = [range.first, range.last, self.complete_length].map(decimal::digits);
                (fixed + numbers.iter().sum::<usize>()) as u64 + range.len()
            })
            .sum();
        let closing = (delimiter + b"--\r\n".len()) as u64;
        // The first delimiter has no line break before it.
        let missing = if self.ranges.is_empty() { 0 } else { b"\r\n".len() as u64 };
        parts + closing - missing
    }
}

#[cfg(test)]
mod tests {
    use super::Ranges::{Ignore, Unsatisfiable};
    use super::*;
    use proptest::prelude::*;

    fn satisfiable(ranges: &[(u64, u64)]) -> Ranges {
        Ranges::Satisfiable(ranges.iter().map(|&(first, last)| ByteRange { first, last }).collect())
    }

    #[test]
    fn ranges_of_a_thousand_bytes() {
        let table = [
            ("bytes=0-0", satisfiable(&[(0, 0)])),
            ("bytes=0-499", satisfiable(&[(0, 499)])),
            ("bytes=500-", satisfiable(&[(500, 999)])),
            ("bytes=-1", satisfiable(&[(999, 999)])),
            ("bytes=-1000", satisfiable(&[(0, 999)])),
            ("bytes=-5000", satisfiable(&[(0, 999)])),
            ("bytes=0-999", satisfiable(&[(0, 999)])),
            ("bytes=0-5000", satisfiable(&[(0, 999)])),
            ("bytes=999-", satisfiable(&[(999, 999)])),
            ("BYTES=0-0", satisfiable(&[(0, 0)])),
            ("bytes= 0-0 ", satisfiable(&[(0, 0)])),
            ("bytes=,,0-0,", satisfiable(&[(0, 0)])),
            ("bytes=0000-0000000000000000000000000", satisfiable(&[(0, 0)])),
            ("bytes=0-99999999999999999999999999", satisfiable(&[(0, 999)])),
            ("bytes=-99999999999999999999999999", satisfiable(&[(0, 999)])),
            // Several.
            ("bytes=0-0,-1", satisfiable(&[(0, 0), (999, 999)])),
            ("bytes=500-599, 0-99", satisfiable(&[(500, 599), (0, 99)])),
            ("bytes=0-9\t,\t20-29", satisfiable(&[(0, 9), (20, 29)])),
            ("bytes=0-99,50-149", satisfiable(&[(0, 149)])),
            ("bytes=0-99,100-199", satisfiable(&[(0, 199)])),
            ("bytes=0-99,101-199", satisfiable(&[(0, 99), (101, 199)])),
            ("bytes=500-599,0-9,550-650", satisfiable(&[(500, 650), (0, 9)])),
            ("bytes=0-9,20-29,5-24", satisfiable(&[(0, 29)])),
            ("bytes=900-,0-9,-150", satisfiable(&[(850, 999), (0, 9)])),
            ("bytes=0-0,0-0,0-0", satisfiable(&[(0, 0)])),
            // One that fits is enough.
            ("bytes=0-0,1000-", satisfiable(&[(0, 0)])),
            ("bytes=1000-,-1", satisfiable(&[(999, 999)])),
            // None that fits.
            ("bytes=1000-", Unsatisfiable),
            ("bytes=1000-2000", Unsatisfiable),
            ("bytes=-0", Unsatisfiable),
            ("bytes=1000-,-0", Unsatisfiable),
            ("bytes=99999999999999999999999999-", Unsatisfiable),
            // Malformed, or another unit.
            ("", Ignore),
            ("bytes", Ignore),
            ("bytes=", Ignore),
            ("bytes=,", Ignore),
            ("bytes=-", Ignore),
            ("bytes=0", Ignore),
            ("bytes=a-b", Ignore),
            ("bytes=5-4", Ignore),
            ("bytes=0-0,5-4", Ignore),
            ("bytes=0-0,x", Ignore),
            ("bytes=--1", Ignore),
            ("bytes=0-1-2", Ignore),
            ("bytes=0 - 1", Ignore),
            ("bytes=+0-1", Ignore),
            ("bytes=0-+1", Ignore),
            ("bytes=0x0-0x1", Ignore),
            ("bytes =0-1", Ignore),
            (" bytes=0-1", Ignore),
            ("bytes:0-1", Ignore),
            ("octets=0-1", Ignore),
            ("items=0-1", Ignore),
            // More than the whole.
            ("bytes=0-,0-", Ignore),
            ("bytes=0-,-1", Ignore),
            ("bytes=0-599,400-", Ignore),
        ];
        for (value, expected) in table {
            assert_eq!(parse(value.as_bytes(), 1000, 16), expected, "{value}");
        }
    }

    #[test]
    fn ranges_of_nothing() {
        let table = [
            ("bytes=0-", Unsatisfiable),
            ("bytes=0-0", Unsatisfiable),
            ("bytes=-0", Unsatisfiable),
            ("bytes=-1", Ignore),
        ];
        for (value, expected) in table {
            assert_eq!(parse(value.as_bytes(), 0, 16), expected, "{value}");
        }
    }

    #[test]
    fn ranges_of_the_largest_length() {
        assert_eq!(parse(b"bytes=0-", u64::MAX, 16), satisfiable(&[(0, u64::MAX - 1)]));
        assert_eq!(
            parse(b"bytes=18446744073709551614-", u64::MAX, 16),
            satisfiable(&[(u64::MAX - 1, u64::MAX - 1)])
        );
        assert_eq!(parse(b"bytes=18446744073709551615-", u64::MAX, 16), Unsatisfiable);
        assert_eq!(parse(b"bytes=0-,0-,0-", u64::MAX, 16), Ignore);
    }

    #[test]
    fn the_number_of_ranges_is_limited() {
        let value = |count: usize| format!("bytes={}", vec!["0-0"; count].join(","));
        assert_eq!(parse(value(16).as_bytes(), 1000, 16), satisfiable(&[(0, 0)]));
        assert_eq!(parse(value(17).as_bytes(), 1000, 16), Ignore);
        assert_eq!(parse(value(1).as_bytes(), 1000, 0), Ignore);
        // Ranges that do not fit count too.
        assert_eq!(parse(b"bytes=2000-,2000-", 1000, 1), Ignore);
    }

    #[test]
    fn content_range() {
        let mut out = Vec::new();
        append_content_range(ByteRange { first: 0, last: 499 }, 1234, &mut out);
        out.push(b' ');
        append_unsatisfied_range(1234, &mut out);
        assert_eq!(out, b"bytes 0-499/1234 bytes */1234");
    }

    fn body(multipart: &MultipartByteRanges<'_>, representation: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for (index, range) in multipart.ranges.iter().enumerate() {
            multipart.append_part_head(index, &mut out);
            out.extend_from_slice(&representation[range.first as usize..=range.last as usize]);
        }
        multipart.append_closing(&mut out);
        out
    }

    #[test]
    fn multipart_body() {
        let ranges = [ByteRange { first: 0, last: 1 }, ByteRange { first: 8, last: 9 }];
        let mut multipart = MultipartByteRanges {
            content_type: b"text/plain",
            complete_length: 10,
            ranges: &ranges,
            boundary: b"B",
        };
        let expected = b"--B\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-1/10\r\n\r\n01\
            \r\n--B\r\nContent-Type: text/plain\r\nContent-Range: bytes 8-9/10\r\n\r\n89\r\n--B--\r\n";
        assert_eq!(body(&multipart, b"0123456789"), expected);
        assert_eq!(multipart.content_length(), expected.len() as u64);

        multipart.content_type = b"";
        let expected = b"--B\r\nContent-Range: bytes 0-1/10\r\n\r\n01\
            \r\n--B\r\nContent-Range: bytes 8-9/10\r\n\r\n89\r\n--B--\r\n";
        assert_eq!(body(&multipart, b"0123456789"), expected);
        assert_eq!(multipart.content_length(), expected.len() as u64);

        let mut media_type = Vec::new();
        multipart.append_media_type(&mut media_type);
        assert_eq!(media_type, b"multipart/byteranges; boundary=B");
    }

    /// A range spec as text, with numbers around the given length.
    fn spec(length: u64) -> impl Strategy<Value = String> {
        let number = 0..length + length / 4 + 2;
        prop_oneof![
            (number.clone(), number.clone()).prop_map(|(one, other)| format!(
                "{}-{}",
                one.min(other),
                one.max(other)
            )),
            number.clone().prop_map(|first| format!("{first}-")),
            number.prop_map(|suffix| format!("-{suffix}")),
        ]
    }

    /// Which bytes a list of valid specs names, found one byte at a time.
    fn named_bytes(specs: &[String], length: u64) -> Vec<bool> {
        (0..length)
            .map(|position| {
                specs.iter().any(|spec| match spec.split_once('-') {
                    Some(("", suffix)) => position + suffix.parse::<u64>().expect("digits") >= length,
                    Some((first, "")) => position >= first.parse().expect("digits"),
                    Some((first, last)) => (first.parse().expect("digits")
                        ..=last.parse::<u64>().expect("digits"))
                        .contains(&position),
                    None => false,
                })
            })
            .collect()
    }

    proptest! {
        #[test]
        fn exactly_the_named_bytes_are_given(specs in proptest::collection::vec(spec(60), 1..8)) {
            let value = format!("bytes={}", specs.join(", "));
            let named = named_bytes(&specs, 60);
            match parse(value.as_bytes(), 60, 16) {
                Ranges::Satisfiable(ranges) => {
                    let mut given = vec![false; 60];
                    for range in &ranges {
                        for position in range.first..=range.last {
                            prop_assert!(!given[position as usize], "byte {} twice", position);
                            given[position as usize] = true;
                        }
                        let touches = |other: &ByteRange| other.last + 1 == range.first;
                        prop_assert!(!ranges.iter().any(touches), "ranges that touch");
                    }
                    prop_assert_eq!(given, named);
                }
                Ranges::Unsatisfiable => prop_assert!(!named.contains(&true)),
                Ranges::Ignore => prop_assert!(specs.len() > 1, "one valid range ignored: {}", value),
            }
        }

        #[test]
        fn any_bytes_give_ranges_within_the_representation(
            value in proptest::collection::vec(
                prop_oneof![Just(b'-'), Just(b','), b'0'..=b'9', any::<u8>()], 0..40)
                .prop_map(|tail| [b"bytes=".as_slice(), &tail].concat()),
            complete_length in prop_oneof![0u64..2000, any::<u64>()], max_ranges in 0usize..6,
        ) {
            if let Ranges::Satisfiable(ranges) = parse(&value, complete_length, max_ranges) {
                prop_assert!(!ranges.is_empty() && ranges.len() <= max_ranges);
                let mut total = 0u64;
                for range in ranges {
                    prop_assert!(range.first <= range.last && range.last < complete_length);
                    total += range.len();
                }
                prop_assert!(total <= complete_length);
            }
        }

        #[test]
        fn the_length_of_a_multipart_body_is_exact(
            pairs in proptest::collection::vec((0u64..3000, 0u64..3000), 0..6),
            content_type in "[a-z/]{0,20}", boundary in "[0-9a-f]{1,32}",
        ) {
            let ranges: Vec<ByteRange> =
                pairs.iter().map(|&(a, b)| ByteRange { first: a.min(b), last: a.max(b) }).collect();
            let multipart = MultipartByteRanges {
                content_type: content_type.as_bytes(),
                complete_length: 3000,
                ranges: &ranges,
                boundary: boundary.as_bytes(),
            };
            prop_assert_eq!(body(&multipart, &[b'x'; 3000]).len() as u64, multipart.content_length());
        }
    }
}
