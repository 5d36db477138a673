//! The peer's control stream (RFC 9114 sections 6.2.1 and 7.2).

use super::error::{ConnectionError, ErrorCode};
use super::frame::{FrameItem, FrameReader, FrameType};
use super::settings::PeerSettings;
use super::varint;
use crate::h2::Priority;

/// The longest payload of a frame that is processed here; the longest that occurs is a SETTINGS frame.
const MOST_PAYLOAD_BYTES: u64 = 4096;

/// The most frames in one [period](ControlStream::replenish), as over HTTP/2: a client that changes the
/// priority of each of its requests sends far fewer.
const MOST_FRAMES: u32 = 1000;

/// Which side sends a stream. Some frames are for one side alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sender {
    /// The client.
    #[default]
    Client,
    /// The server.
    Server,
}

impl Sender {
    /// The error of a push: a client may send none, and here none is allowed to a server (section 7.2.5).
    pub(super) fn unwanted_push(self) -> ConnectionError {
        match self {
            Sender::Client => ConnectionError::unexpected("PUSH_PROMISE from a client"),
            Sender::Server => ConnectionError::new(ErrorCode::ID_ERROR, "a push that was not allowed"),
        }
    }

    /// Whether only the other side may send such a frame (RFC 9114 section 7.2.7, RFC 9218 section 7.2).
    fn may_not_send(self, kind: FrameType) -> bool {
        let is_of_clients = matches!(
            kind,
            FrameType::MAX_PUSH_ID | FrameType::PRIORITY_UPDATE_REQUEST | FrameType::PRIORITY_UPDATE_PUSH
        );
        self == Sender::Server && is_of_clients
    }
}

/// An event of the control stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlEvent {
    /// Its parameters; always the first.
    Settings(PeerSettings),
    /// The peer is leaving. A client accepts no pushes from this identifier on; a server processes no
    /// requests from this stream on.
    GoAway(u64),
    /// The priority of the response on this stream has changed, whether the request has arrived or not (RFC
    /// 9218).
    Priority {
        /// The stream.
        stream: u64,
        /// Its priority from now on.
        priority: Priority,
    },
}

/// Reads the control stream.
#[derive(Debug, Clone, Default)]
pub struct ControlStream {
    sender: Sender,
    frames: FrameReader,
    kind: Option<FrameType>,
    payload: Vec<u8>,
    has_settings: bool,
    max_push_id: Option<u64>,
    goaway: Option<u64>,
    /// Frames in this period.
    count: u32,
}

impl ControlStream {
    /// The stream of this side.
    pub fn new(sender: Sender) -> ControlStream {
        ControlStream { sender, ..ControlStream::default() }
    }

    /// Processes received bytes; `on_event` is called with each event, in order.
    pub fn receive(
        &mut self,
        input: &[u8],
        mut on_event: impl FnMut(ControlEvent),
    ) -> Result<(), ConnectionError> {
        let mut input = input;
        while let Some(step) = self.frames.next(&mut input) {
            match step {
                FrameItem::Start { kind, length } => self.begin(kind, length)?,
                FrameItem::Payload { bytes, is_last } => {
                    let Some(kind) = self.kind else { continue };
                    self.payload.extend_from_slice(bytes);
                    if is_last {
                        let payload = std::mem::take(&mut self.payload);
                        if let Some(event) = self.frame(kind, &payload)? {
                            on_event(event);
                        }
                        self.payload = payload;
                        self.payload.clear();
                    }
                }
            }
        }
        Ok(())
    }

    /// Begins a new period: the same number of frames is allowed again. A caller does so about once a second.
    pub fn replenish(&mut self) {
        self.count = 0;
    }

    /// Checks whether the frame may occur here.
    fn begin(&mut self, kind: FrameType, length: u64) -> Result<(), ConnectionError> {
        self.count += 1;
        if self.count > MOST_FRAMES {
            return Err(ConnectionError::new(
                ErrorCode::EXCESSIVE_LOAD,
                "too many frames on a control stream",
            ));
        }
        if !self.has_settings && kind != FrameType::SETTINGS {
            let reason = "a control stream that does not begin with SETTINGS";
            return Err(ConnectionError::new(ErrorCode::MISSING_SETTINGS, reason));
        }
        if self.has_settings && kind == FrameType::SETTINGS {
            return Err(ConnectionError::unexpected("SETTINGS a second time"));
        }
        if matches!(kind, FrameType::DATA | FrameType::HEADERS | FrameType::PUSH_PROMISE)
            || kind.is_of_http2()
            || self.sender.may_not_send(kind)
        {
            return Err(ConnectionError::unexpected("a frame that may not be on a control stream"));
        }
        self.kind = kind.is_for_control().then_some(kind);
        if self.kind.is_some() && length > MOST_PAYLOAD_BYTES {
            return Err(ConnectionError::new(
                ErrorCode::EXCESSIVE_LOAD,
                "a very long frame on a control stream",
            ));
        }
        self.has_settings = true;
        Ok(())
    }

    fn frame(&mut self, kind: FrameType, payload: &[u8]) -> Result<Option<ControlEvent>, ConnectionError> {
        match kind {
            FrameType::SETTINGS => Ok(Some(ControlEvent::Settings(PeerSettings::read(payload)?))),
            FrameType::GOAWAY => self.goaway(single_id(payload)?).map(Some),
            FrameType::MAX_PUSH_ID => self.raise_max_push_id(single_id(payload)?).map(|()| None),
            FrameType::CANCEL_PUSH => {
                single_id(payload)?;
                Err(ConnectionError::new(ErrorCode::ID_ERROR, "CANCEL_PUSH for a push that never was"))
            }
            FrameType::PRIORITY_UPDATE_REQUEST => priority_update(payload).map(Some),
            FrameType::PRIORITY_UPDATE_PUSH => {
                Err(ConnectionError::new(ErrorCode::ID_ERROR, "a priority for a push that never was"))
            }
            _ => Ok(None),
        }
    }

    /// Section 5.2: a later identifier may not be larger than an earlier one, and that of a server is a
    /// request's stream.
    fn goaway(&mut self, id: u64) -> Result<ControlEvent, ConnectionError> {
        if self.sender == Sender::Server && !is_request_stream(id) {
            return Err(ConnectionError::new(ErrorCode::ID_ERROR, "GOAWAY with no request stream"));
        }
        if self.goaway.is_some_and(|before| id > before) {
            return Err(ConnectionError::new(
                ErrorCode::ID_ERROR,
                "GOAWAY with a larger identifier than before",
            ));
        }
        self.goaway = Some(id);
        Ok(ControlEvent::GoAway(id))
    }

    /// Section 7.2.7.
    fn raise_max_push_id(&mut self, id: u64) -> Result<(), ConnectionError> {
        if self.max_push_id.is_some_and(|before| id < before) {
            return Err(ConnectionError::new(ErrorCode::ID_ERROR, "MAX_PUSH_ID that takes some back"));
        }
        self.max_push_id = Some(id);
        Ok(())
    }
}

/// A payload that is exactly one identifier.
fn single_id(payload: &[u8]) -> Result<u64, ConnectionError> {
    let mut rest = payload;
    match varint::take(&mut rest) {
        Some(id) if rest.is_empty() => Ok(id),
        _ => Err(ConnectionError::new(ErrorCode::FRAME_ERROR, "a frame whose payload is not one identifier")),
    }
}

/// The two lowest bits of a stream say who opened it and in which directions it goes (RFC 9000 section 2.1).
fn is_request_stream(stream: u64) -> bool {
    stream & 0x3 == 0
}

/// RFC 9218 section 7.2.
fn priority_update(payload: &[u8]) -> Result<ControlEvent, ConnectionError> {
    let mut value = payload;
    let Some(stream) = varint::take(&mut value) else {
        return Err(ConnectionError::new(ErrorCode::FRAME_ERROR, "a PRIORITY_UPDATE without a stream"));
    };
    if !is_request_stream(stream) {
        return Err(ConnectionError::new(ErrorCode::ID_ERROR, "a PRIORITY_UPDATE for no request stream"));
    }
    Ok(ControlEvent::Priority { stream, priority: Priority::parse(value) })
}

#[cfg(test)]
mod tests {
    use super::super::frame;
    use super::*;
    use proptest::prelude::*;

    const SETTINGS: &[u8] = &[0x04, 0x00];

    fn receive(frames: &[(FrameType, &[u8])]) -> Result<Vec<ControlEvent>, ErrorCode> {
        let mut bytes = SETTINGS.to_vec();
        frames.iter().for_each(|(kind, payload)| frame::append(*kind, payload, &mut bytes));
        receive_bytes(&bytes)
    }

    fn receive_bytes(bytes: &[u8]) -> Result<Vec<ControlEvent>, ErrorCode> {
        let mut events = Vec::new();
        let mut stream = ControlStream::default();
        // One byte at a time, which must make no difference.
        for byte in bytes {
            stream.receive(&[*byte], |event| events.push(event)).map_err(|error| error.code)?;
        }
        Ok(events)
    }

    #[test]
    fn events_of_a_control_stream() {
        let events = receive(&[
            (FrameType(0x21), b"grease"),
            (FrameType::MAX_PUSH_ID, &[3]),
            (FrameType::MAX_PUSH_ID, &[3]),
            (FrameType::PRIORITY_UPDATE_REQUEST, b"\x08u=1, i"),
            (FrameType::GOAWAY, &[9]),
            (FrameType::GOAWAY, &[0]),
        ]);
        let events = events.unwrap();
        assert_eq!(events[0], ControlEvent::Settings(PeerSettings::default()));
        let priority = Priority { urgency: 1, incremental: true };
        assert_eq!(events[1], ControlEvent::Priority { stream: 8, priority });
        assert_eq!(events[2..], [ControlEvent::GoAway(9), ControlEvent::GoAway(0)]);
    }

    #[test]
    fn what_a_server_says() {
        let receive = |kind, payload: &[u8]| {
            let mut bytes = SETTINGS.to_vec();
            frame::append(kind, payload, &mut bytes);
            let (mut stream, mut events) = (ControlStream::new(Sender::Server), Vec::new());
            stream.receive(&bytes, |event| events.push(event)).map_err(|error| error.code)?;
            Ok(events.pop())
        };
        assert_eq!(receive(FrameType::GOAWAY, &[8]), Ok(Some(ControlEvent::GoAway(8))));
        for id in [1, 2, 3, 7] {
            assert_eq!(receive(FrameType::GOAWAY, &[id]), Err(ErrorCode::ID_ERROR), "{id}");
        }
        for (kind, payload) in [
            (FrameType::MAX_PUSH_ID, &b"\x03"[..]),
            (FrameType::PRIORITY_UPDATE_REQUEST, b"\x08u=1"),
            (FrameType::PRIORITY_UPDATE_PUSH, b"\x00u=1"),
            (FrameType::PUSH_PROMISE, b""),
        ] {
            assert_eq!(receive(kind, payload), Err(ErrorCode::FRAME_UNEXPECTED), "{kind:?}");
        }
        assert_eq!(receive(FrameType::CANCEL_PUSH, b"\x00"), Err(ErrorCode::ID_ERROR));
    }

    #[test]
    fn what_may_not_be_there() {
        assert_eq!(receive_bytes(&[0x07, 0x01, 0x00]), Err(ErrorCode::MISSING_SETTINGS));
        assert_eq!(receive_bytes(&[0x21, 0x00]), Err(ErrorCode::MISSING_SETTINGS));
        for kind in [0x0, 0x1, 0x2, 0x4, 0x5, 0x6, 0x8, 0x9] {
            assert_eq!(receive(&[(FrameType(kind), b"")]), Err(ErrorCode::FRAME_UNEXPECTED), "{kind}");
        }
    }

    #[test]
    fn so_many_frames_a_period() {
        let mut stream = ControlStream::default();
        let mut frame = Vec::new();
        frame::append(FrameType(0x21), b"", &mut frame);
        stream.receive(SETTINGS, |_| {}).unwrap();
        for _ in 0..3 {
            stream.replenish();
            assert_eq!(stream.receive(&frame.repeat(MOST_FRAMES as usize), |_| {}), Ok(()));
        }
        let error = stream.receive(&frame, |_| {}).unwrap_err();
        assert_eq!(error.code, ErrorCode::EXCESSIVE_LOAD);
    }

    #[test]
    fn payloads_that_are_wrong() {
        for (kind, payload, code) in [
            (FrameType::GOAWAY, &b""[..], ErrorCode::FRAME_ERROR),
            (FrameType::GOAWAY, b"\x00\x00", ErrorCode::FRAME_ERROR),
            (FrameType::GOAWAY, b"\x40", ErrorCode::FRAME_ERROR),
            (FrameType::MAX_PUSH_ID, b"", ErrorCode::FRAME_ERROR),
            (FrameType::CANCEL_PUSH, b"\x00", ErrorCode::ID_ERROR),
            (FrameType::CANCEL_PUSH, b"", ErrorCode::FRAME_ERROR),
            (FrameType::PRIORITY_UPDATE_REQUEST, b"", ErrorCode::FRAME_ERROR),
            (FrameType::PRIORITY_UPDATE_REQUEST, b"\x03u=1", ErrorCode::ID_ERROR),
            (FrameType::PRIORITY_UPDATE_PUSH, b"\x00u=1", ErrorCode::ID_ERROR),
        ] {
            assert_eq!(receive(&[(kind, payload)]), Err(code), "{kind:?} {payload:?}");
        }
        let goaways = [(FrameType::GOAWAY, &[4][..]), (FrameType::GOAWAY, &[5])];
        assert_eq!(receive(&goaways), Err(ErrorCode::ID_ERROR));
        let most = [(FrameType::MAX_PUSH_ID, &[4][..]), (FrameType::MAX_PUSH_ID, &[3])];
        assert_eq!(receive(&most), Err(ErrorCode::ID_ERROR));
        assert_eq!(receive(&[(FrameType::GOAWAY, &[0; 5000])]), Err(ErrorCode::EXCESSIVE_LOAD));
        assert!(receive(&[(FrameType(0x21), &[0; 5000])]).is_ok());
    }

    proptest! {
        #[test]
        fn never_panics(bytes in any::<Vec<u8>>()) {
            let _ = receive_bytes(&bytes);
            let _ = receive_bytes(&[SETTINGS, &bytes].concat());
        }
    }
}
