//! The frames of a WebSocket (RFC 6455): bytes to messages, and messages to bytes. No extensions.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};

/// The longest message; a longer one ends the connection with code 1009.
pub const MOST_BYTES: usize = 16 * 1024 * 1024;

/// The longest payload of a control frame (section 5.5).
const MOST_CONTROL_BYTES: usize = 125;

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// The value of `Sec-WebSocket-Accept` (section 4.2.2).
pub fn accept(key: &[u8]) -> String {
    let digest =
        Sha1::new().chain_update(key).chain_update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").finalize();
    STANDARD.encode(digest)
}

/// A message of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Text.
    Text(String),
    /// Bytes.
    Binary(Vec<u8>),
    /// A ping, which must be answered with the same payload.
    Ping(Vec<u8>),
    /// The client ends the connection, with a code and a reason.
    Close(u16, String),
}

/// Why a connection must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// The code for the close frame (section 7.4).
    pub code: u16,
}

/// Reads messages.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// The incomplete message: its kind, and its bytes so far.
    incomplete: Option<(u8, Vec<u8>)>,
}

impl Decoder {
    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next message, if it is complete.
    ///
    /// # Errors
    /// The client has broken the protocol.
    pub fn next(&mut self) -> Result<Option<Message>, Failure> {
        const BROKEN: Failure = Failure { code: 1002 };
        loop {
            let Some(frame) = Frame::read(&self.buffer)? else { return Ok(None) };
            let mut payload = self.buffer[frame.start..frame.end].to_vec();
            payload.iter_mut().zip(frame.mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
            self.buffer.drain(..frame.end);
            match frame.code {
                PING => return Ok(Some(Message::Ping(payload))),
                PONG => continue,
                CLOSE => return read_close(&payload).map(Some),
                TEXT | BINARY if self.incomplete.is_none() => self.incomplete = Some((frame.code, payload)),
                CONTINUATION => {
                    let (_, before) = self.incomplete.as_mut().ok_or(BROKEN)?;
                    if before.len() + payload.len() > MOST_BYTES {
                        return Err(Failure { code: 1009 });
                    }
                    before.extend_from_slice(&payload);
                }
                _ => return Err(BROKEN),
            }
            if !frame.is_last {
                continue;
            }
            return match self.incomplete.take() {
                Some((TEXT, text)) => match String::from_utf8(text) {
                    Ok(text) => Ok(Some(Message::Text(text))),
                    Err(_) => Err(Failure { code: 1007 }),
                },
                Some((_, bytes)) => Ok(Some(Message::Binary(bytes))),
                None => Err(BROKEN),
            };
        }
    }
}

struct Frame {
    is_last: bool,
    code: u8,
    mask: [u8; 4],
    start: usize,
    end: usize,
}

impl Frame {
    /// The frame at the start; `None`: it is incomplete.
    fn read(bytes: &[u8]) -> Result<Option<Frame>, Failure> {
        let [first, second, rest @ ..] = bytes else { return Ok(None) };
        let (is_last, reserved, code) = (first & 0x80 != 0, first & 0x70, first & 0x0f);
        let is_control = code & 8 != 0;
        let short = usize::from(second & 0x7f);
        // Section 5.1: a client masks what it sends. Section 5.5: control frames are short and whole.
        if reserved != 0 || second & 0x80 == 0 || (is_control && (!is_last || short > MOST_CONTROL_BYTES)) {
            return Err(Failure { code: 1002 });
        }
        let (length, at) = match (short, rest) {
            (126, [a, b, ..]) => (u64::from(u16::from_be_bytes([*a, *b])), 4),
            (127, [a, b, c, d, e, f, g, h, ..]) => (u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]), 10),
            (126 | 127, _) => return Ok(None),
            (short, _) => (short as u64, 2),
        };
        let length = usize::try_from(length).ok().filter(|length| *length <= MOST_BYTES);
        let length = length.ok_or(Failure { code: 1009 })?;
        let Some(mask) = bytes.get(at..at + 4).and_then(|mask| mask.try_into().ok()) else { return Ok(None) };
        let (start, end) = (at + 4, at + 4 + length);
        Ok((bytes.len() >= end).then_some(Frame { is_last, code, mask, start, end }))
    }
}

fn read_close(payload: &[u8]) -> Result<Message, Failure> {
    let code = match payload {
        [] => return Ok(Message::Close(1005, String::new())),
        [a, b, ..] => u16::from_be_bytes([*a, *b]),
        [_] => return Err(Failure { code: 1002 }),
    };
    if !is_sendable(code) {
        return Err(Failure { code: 1002 });
    }
    match std::str::from_utf8(&payload[2..]) {
        Ok(reason) => Ok(Message::Close(code, reason.to_string())),
        Err(_) => Err(Failure { code: 1007 }),
    }
}

/// Whether a code may be in a close frame (section 7.4).
pub fn is_sendable(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

/// A frame with text or bytes.
pub fn data(is_text: bool, payload: &[u8]) -> Vec<u8> {
    frame(if is_text { TEXT } else { BINARY }, payload)
}

/// The answer to a ping.
pub fn pong(payload: &[u8]) -> Vec<u8> {
    frame(PONG, payload)
}

/// A close frame; a reason that is too long is cut.
pub fn close(code: u16, reason: &str) -> Vec<u8> {
    let mut end = reason.len().min(MOST_CONTROL_BYTES - 2);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    frame(CLOSE, &[&code.to_be_bytes()[..], &reason.as_bytes()[..end]].concat())
}

fn frame(code: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(payload.len() + 10);
    frame.push(0x80 | code);
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(short @ 0..=125), _) => frame.push(short),
        (_, Ok(length)) => {
            frame.push(126);
            frame.extend_from_slice(&length.to_be_bytes());
        }
        _ => {
            frame.push(127);
            frame.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(payload);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A frame as a client sends it.
    fn sent(first: u8, payload: &[u8]) -> Vec<u8> {
        let plain = frame(first & 0x0f, payload);
        let header = plain.len() - payload.len();
        let mask = [1, 2, 3, 4];
        let mut frame = plain[..header].to_vec();
        frame[0] = first;
        frame[1] |= 0x80;
        frame.extend_from_slice(&mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        frame
    }

    fn all(bytes: &[u8]) -> Result<Vec<Message>, Failure> {
        let mut decoder = Decoder::default();
        decoder.push(bytes);
        let mut messages = Vec::new();
        while let Some(message) = decoder.next()? {
            messages.push(message);
        }
        Ok(messages)
    }

    #[test]
    fn the_example_of_the_standard() {
        assert_eq!(accept(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn messages_are_put_together() {
        let bytes =
            [sent(0x01, b"a"), sent(0x89, b"p"), sent(0x8a, b"q"), sent(0x00, b"b"), sent(0x80, b"c")];
        let expected = vec![Message::Ping(b"p".to_vec()), Message::Text("abc".to_string())];
        assert_eq!(all(&bytes.concat()), Ok(expected));
        let close = sent(0x88, &[3, 232, b'o', b'k']);
        assert_eq!(all(&close), Ok(vec![Message::Close(1000, "ok".to_string())]));
        assert_eq!(all(&sent(0x88, b"")), Ok(vec![Message::Close(1005, String::new())]));
    }

    #[test]
    fn what_breaks_the_protocol_ends_the_connection() {
        for (bytes, code) in [
            (vec![0x81, 1, b'a'], 1002),
            (sent(0xc1, b"a"), 1002),
            (sent(0x80, b"a"), 1002),
            ([sent(0x01, b"a"), sent(0x81, b"b")].concat(), 1002),
            (sent(0x83, b"a"), 1002),
            (sent(0x09, b"a"), 1002),
            (sent(0x89, &[0; 126]), 1002),
            (sent(0x88, &[3]), 1002),
            (sent(0x88, &[3, 237]), 1002),
            (sent(0x81, b"\xff"), 1007),
            (vec![0x82, 0xff, 0, 0, 0, 0, 1, 0, 0, 1], 1009),
        ] {
            assert_eq!(all(&bytes).err(), Some(Failure { code }), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn a_message_is_read_however_it_is_split(
            messages in proptest::collection::vec((any::<bool>(), ".{0,300}"), 0..6), piece in 1usize..50
        ) {
            let bytes: Vec<u8> = messages
                .iter()
                .flat_map(|(is_text, text)| sent(if *is_text { 0x81 } else { 0x82 }, text.as_bytes()))
                .collect();
            let mut decoder = Decoder::default();
            let mut read = Vec::new();
            for piece in bytes.chunks(piece) {
                decoder.push(piece);
                while let Some(message) = decoder.next().unwrap() {
                    read.push(message);
                }
            }
            let expected: Vec<Message> = messages
                .into_iter()
                .map(|(is_text, text)| match is_text {
                    true => Message::Text(text),
                    false => Message::Binary(text.into()),
                })
                .collect();
            prop_assert_eq!(read, expected);
        }

        #[test]
        fn nothing_that_a_client_sends_panics(bytes: Vec<u8>) {
            let _ = all(&bytes);
        }
    }
}
