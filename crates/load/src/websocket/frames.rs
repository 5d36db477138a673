//! WebSocket frames (RFC 6455, section 5): frames of a server are parsed in parts, and frames of a client are
//! masked.
//!
//! Messages are counted and not stored, so that a long message needs no memory.

use super::WrongFrame;
use super::utf8::Utf8Check;

/// The longest payload of a control frame.
const MOST_CONTROL_BYTES: u64 = 125;
/// The longest head of a frame of a server: two bytes, and a length of eight bytes.
const MOST_HEAD_BYTES: usize = 10;

/// The opcodes of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opcode {
    Continuation = 0,
    Text = 1,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

impl Opcode {
    fn of(bits: u8) -> Option<Opcode> {
        [Opcode::Continuation, Opcode::Text, Opcode::Binary, Opcode::Close, Opcode::Ping, Opcode::Pong]
            .into_iter()
            .find(|opcode| *opcode as u8 == bits)
    }

    fn is_control(self) -> bool {
        self as u8 >= 8
    }
}

/// A received message or control frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Received {
    /// A message is complete.
    Message,
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    /// A close frame: its code, if it has one, and its reason.
    Close(Option<u16>, String),
}

/// Parses the frames of a server, in parts of any size.
#[derive(Debug, Default)]
pub(crate) struct FrameReader {
    head: [u8; MOST_HEAD_BYTES],
    head_length: usize,
    frame: Option<Frame>,
    /// The type of the incomplete message, if any; true: text.
    message: Option<bool>,
    utf8: Utf8Check,
    control: Vec<u8>,
    /// The payload bytes of messages.
    pub(crate) payload_bytes: u64,
    is_closed: bool,
}

/// A frame whose payload is being received.
#[derive(Debug, Clone, Copy)]
struct Frame {
    opcode: Opcode,
    is_final: bool,
    left: u64,
}

impl FrameReader {
    /// Processes the next bytes; bytes after a close frame are ignored.
    pub(crate) fn take(&mut self, bytes: &[u8], received: &mut Vec<Received>) -> Result<(), WrongFrame> {
        let mut rest = bytes;
        while !self.is_closed {
            let Some(frame) = &mut self.frame else {
                match self.take_head(rest)? {
                    Some(after) => rest = after,
                    None => return Ok(()),
                }
                continue;
            };
            let taken = usize::try_from(frame.left).unwrap_or(usize::MAX).min(rest.len());
            let (part, after) = rest.split_at(taken);
            rest = after;
            frame.left -= taken as u64;
            let frame = *frame;
            if frame.opcode.is_control() {
                self.control.extend_from_slice(part);
            } else {
                self.payload_bytes += taken as u64;
                if self.message == Some(true) && !self.utf8.take(part) {
                    return Err(WrongFrame::NotUtf8);
                }
            }
            if frame.left > 0 {
                return Ok(());
            }
            self.frame = None;
            received.extend(self.end_frame(frame)?);
        }
        Ok(())
    }

    /// Processes bytes of a frame's head; returns the bytes after the head when it is complete.
    fn take_head<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<&'a [u8]>, WrongFrame> {
        let mut rest = bytes;
        loop {
            if self.head_length >= 2 {
                self.check_beginning()?;
                if self.head_length == self.needed_head_bytes() {
                    self.begin_frame()?;
                    return Ok(Some(rest));
                }
            }
            let Some((&byte, after)) = rest.split_first() else { return Ok(None) };
            rest = after;
            self.head[self.head_length] = byte;
            self.head_length += 1;
        }
    }

    fn needed_head_bytes(&self) -> usize {
        match self.head[1] & 0x7f {
            127 => 10,
            126 => 4,
            _ => 2,
        }
    }

    /// Checks the first two bytes.
    fn check_beginning(&self) -> Result<(), WrongFrame> {
        let [first, second, ..] = self.head;
        if first & 0x70 != 0 {
            return Err(WrongFrame::ReservedBits);
        }
        let opcode = Opcode::of(first & 0x0f).ok_or(WrongFrame::UnknownOpcode)?;
        if second & 0x80 != 0 {
            return Err(WrongFrame::Masked);
        }
        if opcode.is_control() && first & 0x80 == 0 {
            return Err(WrongFrame::FragmentedControl);
        }
        if opcode.is_control() && u64::from(second) > MOST_CONTROL_BYTES {
            return Err(WrongFrame::LongControl);
        }
        match opcode {
            Opcode::Continuation if self.message.is_none() => Err(WrongFrame::UnexpectedContinuation),
            Opcode::Text | Opcode::Binary if self.message.is_some() => Err(WrongFrame::MissingContinuation),
            _ => Ok(()),
        }
    }

    fn begin_frame(&mut self) -> Result<(), WrongFrame> {
        let length = match (self.head_length, self.head) {
            (4, [_, _, high, low, ..]) => match u64::from(u16::from_be_bytes([high, low])) {
                ..126 => return Err(WrongFrame::InvalidLength),
                length => length,
            },
            (10, [_, _, long @ ..]) => match u64::from_be_bytes(long) {
                length @ 0x1_0000..=0x7fff_ffff_ffff_ffff => length,
                _ => return Err(WrongFrame::InvalidLength),
            },
            _ => u64::from(self.head[1]),
        };
        let opcode = Opcode::of(self.head[0] & 0x0f).ok_or(WrongFrame::UnknownOpcode)?;
        if matches!(opcode, Opcode::Text | Opcode::Binary) {
            self.message = Some(opcode == Opcode::Text);
            self.utf8 = Utf8Check::default();
        }
        self.frame = Some(Frame { opcode, is_final: self.head[0] & 0x80 != 0, left: length });
        self.head_length = 0;
        self.control.clear();
        Ok(())
    }

    fn end_frame(&mut self, frame: Frame) -> Result<Option<Received>, WrongFrame> {
        match frame.opcode {
            Opcode::Ping => Ok(Some(Received::Ping(std::mem::take(&mut self.control)))),
            Opcode::Pong => Ok(Some(Received::Pong(std::mem::take(&mut self.control)))),
            Opcode::Close => {
                let (code, reason) = read_close(&self.control)?;
                self.is_closed = true;
                Ok(Some(Received::Close(code, reason)))
            }
            _ if !frame.is_final => Ok(None),
            _ if self.message.take() == Some(true) && !self.utf8.is_whole() => Err(WrongFrame::NotUtf8),
            _ => Ok(Some(Received::Message)),
        }
    }

    /// The received bytes of the frame's head, for error messages.
    pub(crate) fn beginning(&self) -> &[u8] {
        &self.head[..self.head_length.clamp(2, MOST_HEAD_BYTES)]
    }
}

/// Parses the code and the reason of a close frame (section 5.5.1).
fn read_close(payload: &[u8]) -> Result<(Option<u16>, String), WrongFrame> {
    let (code, reason) = match payload {
        [] => return Ok((None, String::new())),
        [_] => return Err(WrongFrame::TruncatedCloseCode),
        [high, low, reason @ ..] => (u16::from_be_bytes([*high, *low]), reason),
    };
    // The codes of section 7.4, and those that were registered later with IANA.
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(WrongFrame::InvalidCloseCode);
    }
    let reason = std::str::from_utf8(reason).map_err(|_| WrongFrame::NotUtf8)?;
    Ok((Some(code), reason.to_string()))
}

/// Appends a complete frame of a client, masked with this key (section 5.3).
pub(crate) fn append_frame(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8], key: [u8; 4]) {
    out.push(0x80 | opcode as u8);
    match payload.len() {
        length @ ..126 => out.push(0x80 | length as u8),
        length @ 126..=0xffff => {
            out.push(0x80 | 126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&key);
    let start = out.len();
    out.extend_from_slice(payload);
    mask(&mut out[start..], key);
}

/// Masks or unmasks bytes.
fn mask(bytes: &mut [u8], key: [u8; 4]) {
    let word = u64::from_ne_bytes([key[0], key[1], key[2], key[3], key[0], key[1], key[2], key[3]]);
    let (words, rest) = bytes.as_chunks_mut::<8>();
    for eight in words {
        *eight = (u64::from_ne_bytes(*eight) ^ word).to_ne_bytes();
    }
    rest.iter_mut().zip(key.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A frame of a server.
    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![first];
        match payload.len() {
            length @ ..126 => out.push(length as u8),
            length @ 126..=0xffff => {
                out.push(126);
                out.extend((length as u16).to_be_bytes());
            }
            length => {
                out.push(127);
                out.extend((length as u64).to_be_bytes());
            }
        }
        out.extend_from_slice(payload);
        out
    }

    /// Usual first bytes of frames, and arbitrary ones.
    fn first_byte() -> impl Strategy<Value = u8> {
        let usual = prop::sample::select(&[0x81, 0x01, 0x80, 0x00, 0x82, 0x89][..]);
        prop_oneof![6 => usual, 1 => any::<u8>()]
    }

    fn read(parts: &[&[u8]]) -> Result<(Vec<Received>, u64), WrongFrame> {
        let (mut reader, mut received) = (FrameReader::default(), Vec::new());
        parts.iter().try_for_each(|part| reader.take(part, &mut received))?;
        Ok((received, reader.payload_bytes))
    }

    #[test]
    fn messages_fragments_and_control_frames_between_them_are_read() {
        let bytes = [
            frame(0x81, b"whole"),
            frame(0x01, "fr\u{e4}g".as_bytes()),
            frame(0x89, b"p"),
            frame(0x00, b""),
            frame(0x80, b"ment"),
            frame(0x82, &[0xff; 300]),
            frame(0x82, &vec![7; 70_000]),
            frame(0x8a, b""),
            frame(0x88, &[0x03, 0xe8, b'b', b'y', b'e']),
            vec![0xff, 0xff],
        ]
        .concat();
        let (received, payload_bytes) = read(&[&bytes]).expect("good frames");
        let expected = [
            Received::Message,
            Received::Ping(b"p".to_vec()),
            Received::Message,
            Received::Message,
            Received::Message,
            Received::Pong(Vec::new()),
            Received::Close(Some(1000), "bye".to_string()),
        ];
        assert_eq!(received, expected);
        assert_eq!(payload_bytes, 5 + 5 + 4 + 300 + 70_000);
    }

    #[test]
    fn every_invalid_frame_has_its_own_error() {
        let masked = [0x81, 0x81, 1, 2, 3, 4, 5];
        for (bytes, wrong) in [
            (masked.to_vec(), WrongFrame::Masked),
            (frame(0xc1, b"x"), WrongFrame::ReservedBits),
            (frame(0x83, b"x"), WrongFrame::UnknownOpcode),
            (frame(0x09, b"x"), WrongFrame::FragmentedControl),
            (frame(0x89, &[0; 126]), WrongFrame::LongControl),
            (vec![0x82, 126, 0, 5], WrongFrame::InvalidLength),
            (vec![0x82, 127, 0, 0, 0, 0, 0, 0, 0xff, 0xff], WrongFrame::InvalidLength),
            (vec![0x82, 127, 0x80, 0, 0, 0, 0, 1, 0, 0], WrongFrame::InvalidLength),
            (frame(0x80, b"x"), WrongFrame::UnexpectedContinuation),
            ([frame(0x01, b"x"), frame(0x82, b"y")].concat(), WrongFrame::MissingContinuation),
            (frame(0x81, &[0xff]), WrongFrame::NotUtf8),
            ([frame(0x01, &[0xc3]), frame(0x80, b"")].concat(), WrongFrame::NotUtf8),
            (frame(0x88, &[3]), WrongFrame::TruncatedCloseCode),
            (frame(0x88, &[3, 0xed]), WrongFrame::InvalidCloseCode),
            (frame(0x88, &[3, 0xe8, 0xff]), WrongFrame::NotUtf8),
        ] {
            assert_eq!(read(&[&bytes]), Err(wrong), "{bytes:02x?}");
            assert_eq!(WrongFrame::at(wrong.place()), Some(wrong));
        }
    }

    #[test]
    fn the_masked_example_of_the_standard_is_encoded() {
        let mut out = Vec::new();
        append_frame(&mut out, Opcode::Text, b"Hello", [0x37, 0xfa, 0x21, 0x3d]);
        // RFC 6455, section 5.7.
        assert_eq!(out, [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58]);
    }

    proptest! {
        #[test]
        fn masking_twice_changes_nothing(bytes: Vec<u8>, key: [u8; 4], length in 0usize..200) {
            let payload = [bytes, vec![3; length]].concat();
            let mut out = Vec::new();
            append_frame(&mut out, Opcode::Binary, &payload, key);
            let start = out.len() - payload.len();
            let plain: Vec<u8> = payload.iter().zip(key.iter().cycle()).map(|(b, m)| b ^ m).collect();
            prop_assert_eq!(&out[start..], &plain[..]);
            mask(&mut out[start..], key);
            prop_assert_eq!(&out[start..], &payload[..]);
        }

        #[test]
        fn the_result_does_not_depend_on_the_pieces(
            frames in prop::collection::vec(
                (first_byte(),
                 prop::collection::vec(any::<u8>(), 0..140)),
                0..6,
            ),
            rest: Vec<u8>,
            piece in 1usize..20,
        ) {
            let bytes: Vec<u8> =
                frames.iter().flat_map(|(first, payload)| frame(*first, payload)).chain(rest).collect();
            let pieces: Vec<&[u8]> = bytes.chunks(piece).collect();
            prop_assert_eq!(read(&[&bytes]), read(&pieces));
        }
    }
}
