//! Ids of requests: the id that a request contains, if its sender is trusted, or a new one.
//!
//! A new id is a UUID of version 7 (RFC 9562 section 5.7): the time in milliseconds, then 74 random bits. So
//! ids sort by time, and those of several servers differ. They are names, not secrets: the bits come from a
//! small generator that every core seeds separately.

use rustix::time::{ClockId, clock_gettime};

use touchstone_http::request_view::RequestFields;

/// The longest id that is accepted from a request.
const LONGEST: usize = 128;

/// The length of a UUID as text.
const UUID_LENGTH: usize = 36;

/// `[request_id]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestIdConfig {
    /// The header field, in lower case.
    pub field: String,
    /// The senders whose ids are accepted.
    pub accept: AcceptRequestId,
    /// Whether answers contain it.
    pub answer: bool,
    /// Whether programs and origins get it.
    pub forward: bool,
}

/// The senders whose request ids are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptRequestId {
    /// None.
    Never,
    /// Those of the trusted proxies.
    Proxies,
    /// Those of every client.
    Always,
}

/// The id of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestId {
    /// Made by this server.
    New([u8; UUID_LENGTH]),
    /// Received with the request.
    Given(Box<[u8]>),
}

impl RequestId {
    /// Its characters, all of them printable ASCII.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            RequestId::New(id) => id,
            RequestId::Given(id) => id,
        }
    }

    /// The same as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

/// Makes the ids of one core.
pub struct RequestIds {
    /// xoshiro256++ (Blackman and Vigna).
    state: [u64; 4],
}

impl RequestIds {
    /// A generator with its own seed.
    pub fn new() -> RequestIds {
        let mut seed = [0; 32];
        if !crate::system_random::fill(&mut seed) {
            // If the system has no randomness, the time and an address are the seed.
            let now = clock_gettime(ClockId::Realtime);
            let thread = i64::from(rustix::thread::gettid().as_raw_nonzero().get());
            seed[..8].copy_from_slice(&now.tv_nsec.to_le_bytes());
            seed[8..16].copy_from_slice(&thread.to_le_bytes());
            seed[16..24].copy_from_slice(&now.tv_sec.to_le_bytes());
        }
        let mut state = [0; 4];
        for (word, bytes) in state.iter_mut().zip(seed.chunks_exact(8)) {
            *word = bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        }
        RequestIds { state }
    }

    /// The id of a request: the received one, if `config` accepts it, or a new one.
    pub fn of(
        &mut self,
        config: &RequestIdConfig,
        from_proxy: bool,
        fields: &dyn RequestFields,
    ) -> RequestId {
        let believed = match config.accept {
            AcceptRequestId::Never => false,
            AcceptRequestId::Proxies => from_proxy,
            AcceptRequestId::Always => true,
        };
        let given = if believed { given(config, fields) } else { None };
        given.map_or_else(|| RequestId::New(self.next_uuid()), |id| RequestId::Given(id.into()))
    }

    /// A new id.
    pub fn next_uuid(&mut self) -> [u8; UUID_LENGTH] {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        let unix_ms = (now.tv_sec as u64).wrapping_mul(1000).wrapping_add(now.tv_nsec as u64 / 1_000_000);
        let (first, second) = (self.next_number(), self.next_number());
        // 48 bits of time, 4 of version, 12 random; 2 of variant, 62 random.
        let high = unix_ms << 16 | 0x7000 | (first & 0x0FFF);
        let low = 0x8000_0000_0000_0000 | (second >> 2);
        uuid_text(high, low)
    }

    /// A random number, for ids that are names and not secrets.
    pub fn next_number(&mut self) -> u64 {
        let state = &mut self.state;
        let result = state[0].wrapping_add(state[3]).rotate_left(23).wrapping_add(state[0]);
        let shifted = state[1] << 17;
        state[2] ^= state[0];
        state[3] ^= state[1];
        state[1] ^= state[2];
        state[0] ^= state[3];
        state[2] ^= shifted;
        state[3] = state[3].rotate_left(45);
        result
    }
}

impl Default for RequestIds {
    fn default() -> RequestIds {
        RequestIds::new()
    }
}

/// The id in a request; `None` if it has none, several, or one that could damage a log.
fn given<'a>(config: &'a RequestIdConfig, fields: &'a dyn RequestFields) -> Option<&'a [u8]> {
    let mut all = (0..)
        .map_while(|position| fields.field(position))
        .filter(|(name, _)| name.eq_ignore_ascii_case(config.field.as_bytes()))
        .map(|(_, value)| value);
    let first = all.next()?;
    let is_id_byte = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=:@".contains(byte);
    (all.next().is_none() && (1..=LONGEST).contains(&first.len()) && first.iter().all(is_id_byte))
        .then_some(first)
}

fn uuid_text(high: u64, low: u64) -> [u8; UUID_LENGTH] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'-'; UUID_LENGTH];
    let number = u128::from(high) << 64 | u128::from(low);
    let mut shift = 128;
    for (position, place) in text.iter_mut().enumerate() {
        if !matches!(position, 8 | 13 | 18 | 23) {
            shift -= 4;
            *place = DIGITS[(number >> shift) as usize & 15];
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn config(accept: AcceptRequestId) -> RequestIdConfig {
        RequestIdConfig { field: "X-Request-Id".to_string(), accept, answer: false, forward: false }
    }

    fn is_uuid_7(id: &[u8]) -> bool {
        id.len() == 36
            && id.iter().enumerate().all(|(position, byte)| match position {
                8 | 13 | 18 | 23 => *byte == b'-',
                14 => *byte == b'7',
                19 => b"89ab".contains(byte),
                _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(byte),
            })
    }

    #[test]
    fn new_ids_are_uuids_of_now_and_differ() {
        let mut ids = RequestIds::new();
        let ids_made: std::collections::HashSet<_> = (0..10_000).map(|_| ids.next_uuid()).collect();
        assert_eq!(ids_made.len(), 10_000);
        assert!(ids_made.iter().all(|id| is_uuid_7(id)));
        let one = String::from_utf8(ids.next_uuid().to_vec()).unwrap();
        let unix_ms = u64::from_str_radix(&one.replace('-', "")[..12], 16).unwrap();
        let now =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
        assert!(now.abs_diff(unix_ms) < 60_000, "{one}");
        assert_ne!(RequestIds::new().next_uuid(), RequestIds::new().next_uuid());
        assert_eq!(
            &uuid_text(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210),
            b"01234567-89ab-cdef-fedc-ba9876543210"
        );
    }

    #[test]
    fn whose_ids_are_taken() {
        let mut ids = RequestIds::new();
        let fields = [("x-request-id", "abc-1")];
        let mut taken = |accept, from_proxy| ids.of(&config(accept), from_proxy, &fields).as_str() == "abc-1";
        assert!(!taken(AcceptRequestId::Never, true));
        assert!(taken(AcceptRequestId::Proxies, true) && !taken(AcceptRequestId::Proxies, false));
        assert!(taken(AcceptRequestId::Always, false));
    }

    #[test]
    fn dangerous_ids_are_replaced() {
        let mut ids = RequestIds::new();
        let long = "a".repeat(129);
        for bad in ["", "a b", "a\"", "\u{e9}", &long, "a\tb", "<script>"] {
            let id = ids.of(&config(AcceptRequestId::Always), false, &[("X-REQUEST-ID", bad)]);
            assert!(is_uuid_7(id.as_bytes()), "{bad}");
        }
        let twice = [("x-request-id", "a"), ("x-request-id", "b")];
        assert!(is_uuid_7(ids.of(&config(AcceptRequestId::Always), false, &twice).as_bytes()));
    }

    proptest! {
        #[test]
        fn any_id_is_short_and_printable(value in prop::collection::vec(any::<u8>(), 0..200)) {
            let fields = [(b"x-request-id".to_vec(), value)];
            let id = RequestIds::new().of(&config(AcceptRequestId::Always), false, &fields);
            prop_assert!((1..=LONGEST).contains(&id.as_bytes().len()));
            prop_assert!(id.as_bytes().iter().all(u8::is_ascii_graphic));
        }
    }
}
