//! The trace that a request belongs to: the field `traceparent` (W3C Trace Context, levels 1 and 2).
//!
//! ```text
//! 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
//! version  trace id (16 bytes)         parent id (8)   flags
//! ```
//!
//! A field that is not valid is treated as missing, and without it the field `tracestate` has no meaning
//! (sections 2.2 and 3.3). [`trace_state`] reads that second field, with the limits of section 3.3.1.5.

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

    /// The same id as bytes.
    pub fn trace_id_bytes(&self) -> [u8; 16] {
        bytes_of(self.trace_id())
    }

    /// The id of the caller's part as bytes.
    pub fn parent_id_bytes(&self) -> [u8; 8] {
        bytes_of(self.parent_id())
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
pub fn is_forwarded(name: &[u8], trace: Option<&TraceParent<'_>>) -> bool {
    trace.is_some()
        || !(name.eq_ignore_ascii_case(b"traceparent") || name.eq_ignore_ascii_case(b"tracestate"))
}

/// Writes a `traceparent` of version 00.
pub fn write_trace_parent(trace_id: [u8; 16], parent_id: [u8; 8], flags: u8) -> [u8; LENGTH] {
    let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
    write_hexadecimal(&trace_id, &mut text[3..35]);
    write_hexadecimal(&parent_id, &mut text[36..52]);
    write_hexadecimal(&[flags], &mut text[53..]);
    text
}

/// Writes bytes as lower-case hexadecimal digits; `text` has room for two digits a byte.
pub fn write_hexadecimal(bytes: &[u8], text: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (byte, digits) in bytes.iter().zip(text.chunks_exact_mut(2)) {
        digits[0] = DIGITS[usize::from(byte >> 4)];
        digits[1] = DIGITS[usize::from(byte & 15)];
    }
}

/// The most members of a `tracestate` (section 3.3.1.1).
const MOST_MEMBERS: usize = 32;

/// The most bytes of a `tracestate` that is passed on: this is the minimum of the standard (section 3.3.1.5).
const MOST_STATE_BYTES: usize = 512;

/// Members longer than this are left out first.
const LONG_MEMBER_BYTES: usize = 128;

/// The value of `tracestate` from all fields of this name, as it is passed on: without empty members, of at
/// most 512 bytes. Longer ones lose their members of more than 128 bytes, and then the last ones. Empty:
/// there is none, or one that is not valid, which is dropped as a whole (section 4.3).
pub fn trace_state<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Vec<u8> {
    let values = fields.filter(|(name, _)| name.eq_ignore_ascii_case(b"tracestate")).map(|(_, value)| value);
    let mut members: Vec<&[u8]> = Vec::new();
    for member in values.flat_map(|value| value.split(|byte| *byte == b',')) {
        let member = member.trim_ascii();
        if member.is_empty() {
            continue;
        }
        let is_twice = members.iter().any(|other| key_of(other) == key_of(member));
        if !is_member(member) || is_twice || members.len() == MOST_MEMBERS {
            return Vec::new();
        }
        members.push(member);
    }
    let length = |members: &[&[u8]]| members.iter().map(|member| member.len() + 1).sum::<usize>();
    while length(&members) > MOST_STATE_BYTES + 1 {
        match members.iter().rposition(|member| member.len() > LONG_MEMBER_BYTES) {
            Some(position) => drop(members.remove(position)),
            None => drop(members.pop()),
        }
    }
    members.join(&b","[..])
}

fn key_of(member: &[u8]) -> &[u8] {
    member.split(|byte| *byte == b'=').next().unwrap_or_default()
}

/// Whether a member of a `tracestate` is valid: `key=value` (section 3.3.1.3).
fn is_member(member: &[u8]) -> bool {
    let Some(equals) = member.iter().position(|byte| *byte == b'=') else { return false };
    let (key, value) = (&member[..equals], &member[equals + 1..]);
    let is_key_byte = |byte: &u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'*' | b'/' | b'@')
    };
    let starts_well = key.first().is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let is_value_byte = |byte: &u8| matches!(byte, b' '..=b'~') && *byte != b',' && *byte != b'=';
    starts_well
        && key.len() <= 256
        && key.iter().all(is_key_byte)
        && (1..=256).contains(&value.len())
        && value.iter().all(is_value_byte)
}

/// The bytes of hexadecimal digits that were checked.
fn bytes_of<const COUNT: usize>(digits: &[u8]) -> [u8; COUNT] {
    let mut bytes = [0; COUNT];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = hexadecimal(pair[0]) << 4 | hexadecimal(pair[1]);
    }
    bytes
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
    fn only_a_valid_context_is_passed_on() {
        let trace = TraceParent::parse(VALID.as_bytes());
        for name in [&b"traceparent"[..], b"TraceState"] {
            assert!(is_forwarded(name, trace.as_ref()) && !is_forwarded(name, None));
        }
        assert!(is_forwarded(b"accept", None));
    }

    fn state(values: &[&str]) -> String {
        let fields = values.iter().map(|value| (&b"TraceState"[..], value.as_bytes()));
        String::from_utf8(trace_state(fields)).unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        let trace = TraceParent::parse(VALID.as_bytes()).unwrap();
        let written = write_trace_parent(trace.trace_id_bytes(), trace.parent_id_bytes(), 1);
        assert_eq!(&written, VALID.as_bytes());
    }

    #[test]
    fn states_are_joined_and_checked() {
        assert_eq!(state(&["a=1, b@c=x y", "", "d=2,,"]), "a=1,b@c=x y,d=2");
        for bad in ["a", "A=1", "=1", "a=", "a=1,a=2", "a=b=c", "\u{e9}=1", "a=\u{7f}", "-a=1"] {
            assert_eq!(state(&[bad, "x=y"]), "", "{bad}");
        }
    }

    #[test]
    fn long_states_lose_members() {
        let members = |count: usize| (0..count).map(|n| format!("k{n}=v")).collect::<Vec<_>>().join(",");
        assert_eq!(state(&[&members(32)]), members(32));
        assert_eq!(state(&[&members(33)]), "");
        // 512 bytes stay as they are.
        let (first, last) = (format!("a={}", "x".repeat(126)), format!("b={}", "x".repeat(126)));
        let third = format!("c={}", "x".repeat(126));
        let whole = format!("{first},{last},{third},d={}", "x".repeat(123));
        assert_eq!((whole.len(), state(&[&whole])), (512, whole.clone()));
        // The long member goes first, then the last.
        let long = format!("z={}", "x".repeat(200));
        assert_eq!(state(&[&format!("{long},{whole}")]), whole);
        assert_eq!(state(&[&format!("{whole}xx")]), format!("{first},{last},{third}"));
    }

    proptest! {
        #[test]
        fn a_state_is_short_and_stays_as_it_is(values in prop::collection::vec("[ -~]{0,300}", 0..5)) {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            let written = state(&values);
            prop_assert!(written.len() <= MOST_STATE_BYTES);
            prop_assert_eq!(&state(&[&written]), &written);
        }

        #[test]
        fn no_bytes_make_a_state_panic(value in prop::collection::vec(any::<u8>(), 0..700)) {
            let fields = [(&b"tracestate"[..], &value[..])];
            prop_assert!(trace_state(fields.into_iter()).len() <= MOST_STATE_BYTES);
        }

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
