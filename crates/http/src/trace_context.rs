//! The trace that a request belongs to: the field `traceparent` (W3C Trace Context, levels 1 and 2).
//!
//! ```text
//! 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
//! version  trace id (16 bytes)         parent id (8)   flags
//! ```
//!
//! A field that is not valid counts as missing, and without the field `tracestate` has no meaning (sections
//! 2.2 and 3.3).

/// The length of a value of version 00. Values of later versions begin with as many bytes of the same form.
const LENGTH: usize = 55;

/// A valid `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent<'a> {
    text: &'a [u8; LENGTH],
    flags: u8,
}

impl<'a> TraceParent<'a> {
    /// Reads the value of the field; `None` if it is not valid.
    pub fn parse(value: &'a [u8]) -> Option<TraceParent<'a>> {
        let (text, rest) = value.split_first_chunk::<LENGTH>()?;
        let hyphens = [2, 35, 52];
        let well_formed = text.iter().enumerate().all(|(position, byte)| match hyphens.contains(&position) {
            true => *byte == b'-',
            // Upper case is not allowed.
            false => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        });
        let version = &text[..2];
        // Version 00 ends here. Later versions may continue after another hyphen. There is no version ff.
        let ends_well = match version {
            b"00" => rest.is_empty(),
            b"ff" => false,
            _ => rest.is_empty() || rest[0] == b'-',
        };
        let is_zero = |id: &[u8]| id.iter().all(|byte| *byte == b'0');
        if !well_formed || !ends_well || is_zero(&text[3..35]) || is_zero(&text[36..52]) {
            return None;
        }
        Some(TraceParent { text, flags: hexadecimal(text[53]) << 4 | hexadecimal(text[54]) })
    }

    /// The value in the form of version 00.
    pub fn text(&self) -> &'a [u8] {
        self.text
    }

    /// The id of the whole trace: 32 hexadecimal digits.
    pub fn trace_id(&self) -> &'a [u8] {
        &self.text[3..35]
    }

    /// The id of the caller's part of the trace: 16 hexadecimal digits.
    pub fn parent_id(&self) -> &'a [u8] {
        &self.text[36..52]
    }

    /// Whether the caller may have recorded the trace.
    pub fn is_sampled(&self) -> bool {
        self.flags & 1 != 0
    }

    /// Whether the right half of the trace id is random (level 2).
    pub fn is_random(&self) -> bool {
        self.flags & 2 != 0
    }
}

/// The trace context of a request's fields; `None` if there is none, it is not valid, or there are several.
pub fn from_fields<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Option<TraceParent<'a>> {
    let mut values =
        fields.filter(|(name, _)| name.eq_ignore_ascii_case(b"traceparent")).map(|(_, value)| value);
    let first = values.next()?;
    if values.next().is_some() {
        return None;
    }
    TraceParent::parse(first)
}

/// Whether a field of a request is passed on to a program or an origin. The fields of an invalid trace
/// context are not: a recipient could take them for a valid one, or begin a trace of its own.
pub fn is_handed_on(name: &[u8], trace: Option<&TraceParent<'_>>) -> bool {
    trace.is_some()
        || !(name.eq_ignore_ascii_case(b"traceparent") || name.eq_ignore_ascii_case(b"tracestate"))
}

fn hexadecimal(digit: u8) -> u8 {
    match digit {
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit.wrapping_sub(b'0'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn is_valid(value: &str) -> bool {
        TraceParent::parse(value.as_bytes()).is_some()
    }

    #[test]
    fn a_valid_one_is_taken_apart() {
        let trace = TraceParent::parse(VALID.as_bytes()).unwrap();
        assert_eq!(trace.trace_id(), b"4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(trace.parent_id(), b"00f067aa0ba902b7");
        assert!(trace.is_sampled() && !trace.is_random());
        assert_eq!(trace.text(), VALID.as_bytes());
        let level_2 = VALID.replace("-01", "-02");
        let trace = TraceParent::parse(level_2.as_bytes()).unwrap();
        assert!(!trace.is_sampled() && trace.is_random());
    }

    /// The cases of the test suite of the W3C (trace-context/test/test.py).
    #[test]
    fn what_is_valid() {
        for good in [
            VALID.to_string(),
            VALID.replacen("00-", "cc-", 1),
            VALID.replacen("00-", "cc-", 1) + "-what-the-future-will-be-like",
            VALID.replace("-01", "-ff"),
        ] {
            assert!(is_valid(&good), "{good}");
        }
        for bad in [
            String::new(),
            VALID.replacen("00-", "ff-", 1),
            VALID.replacen("00-", "0-", 1),
            VALID.replacen("00-", ".0-", 1),
            VALID.replacen("00-", "000-", 1),
            VALID.to_string() + ".",
            VALID.to_string() + "-",
            VALID.to_string() + "-what-the-future-will-not-be-like",
            VALID.replacen("00-", "cc-", 1) + ".what-the-future-will-not-be-like",
            VALID.to_uppercase(),
            VALID.replace("4bf92f3577b34da6a3ce929d0e0e4736", "00000000000000000000000000000000"),
            VALID.replace("00f067aa0ba902b7", "0000000000000000"),
            VALID.replace("4bf9", ".bf9"),
            VALID.replace("-01", "-.1"),
            VALID.replace("-01", "-1"),
            VALID.replace('-', "_"),
        ] {
            assert!(!is_valid(&bad), "{bad}");
        }
    }

    #[test]
    fn several_are_as_good_as_none() {
        let fields = |count: usize| std::iter::repeat_n((&b"TraceParent"[..], VALID.as_bytes()), count);
        assert!(from_fields(fields(0)).is_none());
        assert!(from_fields(fields(1)).is_some());
        assert!(from_fields(fields(2)).is_none());
    }

    #[test]
    fn what_is_handed_on() {
        let trace = TraceParent::parse(VALID.as_bytes());
        for name in [&b"traceparent"[..], b"TraceState"] {
            assert!(is_handed_on(name, trace.as_ref()) && !is_handed_on(name, None));
        }
        assert!(is_handed_on(b"accept", None));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..70)) {
            if let Some(trace) = TraceParent::parse(&bytes) {
                prop_assert!(bytes.starts_with(trace.text()));
            }
        }

        #[test]
        fn every_value_of_the_right_form_is_read(
            value in "[0-9a-e][0-9a-f]-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}",
        ) {
            let zero = value[3..35].bytes().all(|b| b == b'0') || value[36..52].bytes().all(|b| b == b'0');
            prop_assert_eq!(is_valid(&value), !zero);
        }
    }
}
