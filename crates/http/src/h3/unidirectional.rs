//! Streams that a peer opens in one direction (RFC 9114 section 6.2): the first integer is the type of a
//! stream.

use super::control::{ControlEvent, ControlStream, Sender};
use super::error::{ConnectionError, ErrorCode};
use super::qpack::{DecoderInstructions, EncoderInstructions};
use super::varint;

/// The control stream's type, which is at its beginning in both directions.
pub const CONTROL: u64 = 0x0;
/// The type of a stream that carries a push.
pub const PUSH: u64 = 0x1;
/// The type of the stream that carries QPACK encoder instructions (RFC 9204 section 4.2).
pub const QPACK_ENCODER: u64 = 0x2;
/// The type of the stream that carries QPACK decoder instructions.
pub const QPACK_DECODER: u64 = 0x3;

/// Which of the streams that may exist only once exist; one value for each connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CriticalStreams {
    control: bool,
    encoder: bool,
    decoder: bool,
}

/// Reads one stream.
#[derive(Debug, Clone, Default)]
pub struct UnidirectionalStream {
    sender: Sender,
    kind: Kind,
    /// The beginning of an incomplete type.
    kept: Vec<u8>,
}

#[derive(Debug, Clone, Default)]
enum Kind {
    /// The type is not known yet.
    #[default]
    Unread,
    Control(ControlStream),
    Encoder(EncoderInstructions),
    Decoder(DecoderInstructions),
    /// A type that is not supported or used.
    Ignored,
}

impl CriticalStreams {
    /// Notes a stream whose type has been read.
    fn open(&mut self, kind: u64, sender: Sender) -> Result<Kind, ConnectionError> {
        let wrong = |reason| Err(ConnectionError::new(ErrorCode::STREAM_CREATION_ERROR, reason));
        let (place, opened) = match kind {
            CONTROL => (&mut self.control, Kind::Control(ControlStream::new(sender))),
            QPACK_ENCODER => (&mut self.encoder, Kind::Encoder(EncoderInstructions::default())),
            QPACK_DECODER => (&mut self.decoder, Kind::Decoder(DecoderInstructions::default())),
            PUSH if sender == Sender::Server => return Err(sender.unwanted_push()),
            PUSH => return wrong("a push stream from a client"),
            _ => return Ok(Kind::Ignored),
        };
        if std::mem::replace(place, true) {
            return wrong("a control or QPACK stream a second time");
        }
        Ok(opened)
    }
}

impl UnidirectionalStream {
    /// A stream that this side has opened.
    pub fn new(sender: Sender) -> UnidirectionalStream {
        UnidirectionalStream { sender, ..UnidirectionalStream::default() }
    }

    /// Processes received bytes.
    pub fn receive(
        &mut self,
        input: &[u8],
        streams: &mut CriticalStreams,
        on_event: impl FnMut(ControlEvent),
    ) -> Result<(), ConnectionError> {
        let mut input = input;
        if matches!(self.kind, Kind::Unread) {
            let Some(kind) = self.take_type(&mut input) else { return Ok(()) };
            self.kind = streams.open(kind, self.sender)?;
        }
        match &mut self.kind {
            Kind::Control(control) => control.receive(input, on_event),
            Kind::Encoder(instructions) => instructions.receive(input),
            Kind::Decoder(instructions) => instructions.receive(input),
            Kind::Unread | Kind::Ignored => Ok(()),
        }
    }

    /// A new [period](ControlStream::replenish) begins.
    pub fn replenish(&mut self) {
        if let Kind::Control(control) = &mut self.kind {
            control.replenish();
        }
    }

    /// Whether everything on this stream is ignored: it can be stopped with `H3_STREAM_CREATION_ERROR`
    /// (section 6.2).
    pub fn is_ignored(&self) -> bool {
        matches!(self.kind, Kind::Ignored)
    }

    /// The peer has ended or reset the stream. Critical streams must stay open (section 6.2.1).
    pub fn finish(&self) -> Result<(), ConnectionError> {
        match self.kind {
            Kind::Unread | Kind::Ignored => Ok(()),
            _ => {
                let reason = "a control or QPACK stream that was closed";
                Err(ConnectionError::new(ErrorCode::CLOSED_CRITICAL_STREAM, reason))
            }
        }
    }

    fn take_type(&mut self, input: &mut &[u8]) -> Option<u64> {
        if self.kept.is_empty()
            && let Some(kind) = varint::take(input)
        {
            return Some(kind);
        }
        while let Some((&byte, rest)) = input.split_first() {
            *input = rest;
            self.kept.push(byte);
            if let Some(kind) = varint::take(&mut &self.kept[..]) {
                return Some(kind);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn receive(
        stream: &mut UnidirectionalStream,
        streams: &mut CriticalStreams,
        bytes: &[u8],
    ) -> Result<(), ErrorCode> {
        for byte in bytes {
            stream.receive(&[*byte], streams, |_| {}).map_err(|error| error.code)?;
        }
        Ok(())
    }

    #[test]
    fn each_critical_stream_once_and_for_ever() {
        let mut streams = CriticalStreams::default();
        for (kind, rest) in [(0x0, &[0x04, 0x00][..]), (0x2, &[0x20]), (0x3, &[0x40])] {
            let mut stream = UnidirectionalStream::default();
            let bytes = [&[kind], rest].concat();
            assert_eq!(receive(&mut stream, &mut streams, &bytes), Ok(()));
            assert_eq!(stream.finish().map_err(|error| error.code), Err(ErrorCode::CLOSED_CRITICAL_STREAM));
            let again = receive(&mut UnidirectionalStream::default(), &mut streams, &bytes);
            assert_eq!(again, Err(ErrorCode::STREAM_CREATION_ERROR));
        }
    }

    #[test]
    fn others_are_ignored_and_pushes_refused() {
        let mut streams = CriticalStreams::default();
        let mut stream = UnidirectionalStream::default();
        assert_eq!(receive(&mut stream, &mut streams, &[0x40]), Ok(()));
        assert!(!stream.is_ignored() && stream.finish().is_ok());
        assert_eq!(receive(&mut stream, &mut streams, b"\x21anything"), Ok(()));
        assert!(stream.is_ignored() && stream.finish().is_ok());
        let push = receive(&mut UnidirectionalStream::default(), &mut streams, &[0x01]);
        assert_eq!(push, Err(ErrorCode::STREAM_CREATION_ERROR));
        let push = receive(&mut UnidirectionalStream::new(Sender::Server), &mut streams, &[0x01]);
        assert_eq!(push, Err(ErrorCode::ID_ERROR));
    }

    proptest! {
        #[test]
        fn never_panics(bytes in any::<Vec<u8>>(), kind in 0u8..4) {
            let _ = receive(&mut UnidirectionalStream::default(), &mut CriticalStreams::default(), &bytes);
            let bytes = [&[kind], &bytes[..]].concat();
            let _ = receive(&mut UnidirectionalStream::default(), &mut CriticalStreams::default(), &bytes);
        }
    }
}
