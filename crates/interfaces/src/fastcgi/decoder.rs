//! Reads FastCGI records as they arrive, without input and output.
//!
//! The content of streams is returned as slices of the received bytes, without copies, and a long record is
//! returned in pieces before all of it has arrived. Both sides of the protocol use this decoder: the server
//! reads answers, tests and programs read requests.

use bytes::{Buf, Bytes, BytesMut};

use super::record::{HEADER_BYTES, Header, ProtocolStatus, RecordType, WrongBytes};

/// A decoded event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Bytes of a stream, at least one.
    Stream {
        /// The type of the stream.
        stream: RecordType,
        /// The request that it belongs to.
        request_id: u16,
        /// The bytes.
        bytes: Bytes,
    },
    /// The end of a stream: an empty record.
    StreamEnd {
        /// The type of the stream.
        stream: RecordType,
        /// The request that it belongs to.
        request_id: u16,
    },
    /// A request begins.
    Begin {
        /// Its number.
        request_id: u16,
        /// Its [role](super::record::Role) by number.
        role: u16,
        /// Its flags.
        flags: u8,
    },
    /// The server aborts a request.
    Abort {
        /// Its number.
        request_id: u16,
    },
    /// A request has ended.
    End {
        /// Its number.
        request_id: u16,
        /// The exit status of the program; 0: success.
        application_status: u32,
        /// How the request ended in the protocol.
        protocol_status: ProtocolStatus,
    },
    /// Names and values of a management record, for [`Pairs`](super::pairs::Pairs).
    Values {
        /// Whether they answer a query.
        is_result: bool,
        /// The pairs.
        pairs: Bytes,
    },
    /// The other side does not support a management record of this type.
    UnknownType(u8),
    /// A record of an unknown type. Its content was skipped.
    Unknown {
        /// The type.
        record_type: u8,
        /// The request that it belongs to; 0: a management record, which should be answered with
        /// `UnknownType`.
        request_id: u16,
    },
}

/// Reads records.
#[derive(Debug, Default, Clone)]
pub struct Decoder {
    state: State,
}

#[derive(Debug, Default, Clone, Copy)]
enum State {
    /// A header follows.
    #[default]
    Header,
    /// This many bytes of a stream follow, then padding.
    Stream { stream: RecordType, request_id: u16, left: usize, padding: usize },
    /// This many bytes are skipped.
    Skip { left: usize },
}

impl Decoder {
    /// A decoder at the beginning of a connection.
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Takes the next event from the front of the received bytes; `None`: more bytes are needed.
    ///
    /// # Errors
    /// The bytes are not FastCGI; the connection cannot be used any more.
    pub fn next(&mut self, received: &mut BytesMut) -> Result<Option<Event>, WrongBytes> {
        loop {
            match self.state {
                State::Header => {
                    let Some(&bytes) = received.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
                    let header = Header::parse(bytes).map_err(WrongBytes::Version)?;
                    match self.begin(header, received)? {
                        RecordOutcome::Event(event) => return Ok(Some(event)),
                        RecordOutcome::Incomplete => return Ok(None),
                        RecordOutcome::StateChanged => {}
                    }
                }
                State::Stream { stream, request_id, left, padding } => {
                    if received.is_empty() {
                        return Ok(None);
                    }
                    let bytes = received.split_to(left.min(received.len())).freeze();
                    let left = left - bytes.len();
                    self.state = match left {
                        0 => State::Skip { left: padding },
                        left => State::Stream { stream, request_id, left, padding },
                    };
                    return Ok(Some(Event::Stream { stream, request_id, bytes }));
                }
                State::Skip { left } => {
                    let skipped = left.min(received.len());
                    received.advance(skipped);
                    if skipped < left {
                        self.state = State::Skip { left: left - skipped };
                        return Ok(None);
                    }
                    self.state = State::Header;
                }
            }
        }
    }

    /// A header is at the front of the received bytes.
    fn begin(&mut self, header: Header, received: &mut BytesMut) -> Result<RecordOutcome, WrongBytes> {
        let request_id = header.request_id;
        let (content, padding) = (usize::from(header.content_bytes), usize::from(header.padding_bytes));
        let Some(record_type) = RecordType::from_number(header.record_type) else {
            received.advance(HEADER_BYTES);
            self.state = State::Skip { left: content + padding };
            return Ok(RecordOutcome::Event(Event::Unknown { record_type: header.record_type, request_id }));
        };
        if record_type.is_stream() {
            received.advance(HEADER_BYTES);
            self.state = match content {
                0 => State::Skip { left: padding },
                left => State::Stream { stream: record_type, request_id, left, padding },
            };
            let end = Event::StreamEnd { stream: record_type, request_id };
            return Ok(if content == 0 { RecordOutcome::Event(end) } else { RecordOutcome::StateChanged });
        }
        if record_type.fixed_length().is_some_and(|length| length != header.content_bytes) {
            return Err(WrongBytes::Length(record_type, header.content_bytes));
        }
        if received.len() < HEADER_BYTES + content {
            return Ok(RecordOutcome::Incomplete);
        }
        received.advance(HEADER_BYTES);
        let body = received.split_to(content).freeze();
        self.state = State::Skip { left: padding };
        Ok(RecordOutcome::Event(whole_record(record_type, request_id, body)))
    }
}

enum RecordOutcome {
    Event(Event),
    /// The rest of the record must arrive first.
    Incomplete,
    /// The new state determines what follows.
    StateChanged,
}

/// A complete record that is not part of a stream. Its length is right.
fn whole_record(record_type: RecordType, request_id: u16, body: Bytes) -> Event {
    let mut fixed = [0; 8];
    if let Some(start) = body.first_chunk::<8>() {
        fixed = *start;
    }
    match record_type {
        RecordType::BeginRequest => {
            Event::Begin { request_id, role: u16::from_be_bytes([fixed[0], fixed[1]]), flags: fixed[2] }
        }
        RecordType::AbortRequest => Event::Abort { request_id },
        RecordType::EndRequest => Event::End {
            request_id,
            application_status: u32::from_be_bytes([fixed[0], fixed[1], fixed[2], fixed[3]]),
            protocol_status: ProtocolStatus::from_number(fixed[4]),
        },
        RecordType::UnknownType => Event::UnknownType(fixed[0]),
        RecordType::GetValuesResult => Event::Values { is_result: true, pairs: body },
        // Records of streams do not reach this function.
        _ => Event::Values { is_result: false, pairs: body },
    }
}
