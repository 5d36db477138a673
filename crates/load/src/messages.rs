//! Messages within an answer: server-sent events, lines, and gRPC messages. A message is recorded when its
//! last byte is received.

use crate::clock::now_ns;
use serde::{Deserialize, Serialize};

/// The format of the messages of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MessageForm {
    /// Server-sent events: an empty line ends each event (WHATWG HTML, section 9.2). Comments are not
    /// messages.
    Events,
    /// Non-empty lines, for example newline-delimited JSON.
    Lines,
    /// gRPC: one byte of flags, a length of four bytes, and the message. `grpc-status` must be 0.
    Grpc,
}

/// The expected messages of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessagePlan {
    /// The format of the messages.
    pub form: MessageForm,
    /// The client ends the answer after this number of messages; `None`: the server ends it.
    pub limit: Option<u64>,
}

/// The most bytes of a gRPC message; a longer one is treated as malformed.
const MAXIMUM_GRPC_BYTES: u32 = 256 * 1024 * 1024;

/// The time at which a message was received, and the time since the previous message, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReceivedMessage {
    pub(crate) at_ns: u64,
    pub(crate) gap_ns: Option<u64>,
}

/// Detects the messages of one answer.
#[derive(Debug)]
pub(crate) struct MessageReader {
    plan: MessagePlan,
    state: State,
    count: u64,
    last_ns: u64,
    received: Vec<ReceivedMessage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Events and lines: the content of the current line and event, and whether a CR ended the last line.
    Line {
        line_bytes: bool,
        is_comment: bool,
        event_lines: bool,
        after_return: bool,
    },
    /// gRPC: the received bytes of the prefix, and the length so far.
    Prefix {
        bytes: u8,
        length: u32,
    },
    Message {
        left: u32,
    },
    /// The received bytes are invalid.
    Malformed,
}

impl MessageReader {
    pub(crate) fn new(plan: MessagePlan) -> MessageReader {
        let state = match plan.form {
            MessageForm::Grpc => State::Prefix { bytes: 0, length: 0 },
            MessageForm::Events | MessageForm::Lines => {
                State::Line { line_bytes: false, is_comment: false, event_lines: false, after_return: false }
            }
        };
        MessageReader { plan, state, count: 0, last_ns: 0, received: Vec::new() }
    }

    pub(crate) fn form(&self) -> MessageForm {
        self.plan.form
    }

    /// Processes the next part of the body.
    pub(crate) fn take(&mut self, part: &[u8]) {
        self.take_at(part, now_ns());
    }

    /// The same for a part that was received at this time.
    pub(crate) fn take_at(&mut self, part: &[u8], at_ns: u64) {
        let before = self.count;
        match self.state {
            State::Line { .. } => part.iter().for_each(|&byte| self.take_line_byte(byte)),
            _ => self.take_grpc(part),
        }
        for _ in before..self.count {
            let gap_ns = (self.last_ns > 0).then(|| at_ns.saturating_sub(self.last_ns));
            self.received.push(ReceivedMessage { at_ns, gap_ns });
            self.last_ns = at_ns;
        }
    }

    fn take_line_byte(&mut self, byte: u8) {
        let State::Line { line_bytes, is_comment, event_lines, after_return } = &mut self.state else {
            return;
        };
        match byte {
            // The second half of CR LF.
            b'\n' if std::mem::take(after_return) => {}
            b'\r' | b'\n' => {
                *after_return = byte == b'\r';
                let is_message = match self.plan.form {
                    MessageForm::Events => !*line_bytes && std::mem::take(event_lines),
                    _ => *line_bytes,
                };
                if self.plan.form == MessageForm::Events {
                    *event_lines |= *line_bytes && !*is_comment;
                }
                (*line_bytes, *is_comment) = (false, false);
                self.count += u64::from(is_message);
            }
            _ => {
                *after_return = false;
                *is_comment |= !*line_bytes && byte == b':';
                *line_bytes = true;
            }
        }
    }

    fn take_grpc(&mut self, part: &[u8]) {
        let mut rest = part;
        while !rest.is_empty() {
            match &mut self.state {
                State::Prefix { bytes, length } => {
                    let byte = rest[0];
                    rest = &rest[1..];
                    if *bytes == 0 && byte > 1 {
                        self.state = State::Malformed;
                        return;
                    }
                    if *bytes > 0 {
                        *length = *length << 8 | u32::from(byte);
                    }
                    *bytes += 1;
                    if *bytes == 5 {
                        let left = *length;
                        self.state = if left > MAXIMUM_GRPC_BYTES {
                            State::Malformed
                        } else {
                            State::Message { left }
                        };
                        self.end_message();
                    }
                }
                State::Message { left } => {
                    let taken = (*left as usize).min(rest.len());
                    *left -= taken as u32;
                    rest = &rest[taken..];
                    self.end_message();
                }
                State::Malformed | State::Line { .. } => return,
            }
        }
    }

    fn end_message(&mut self) {
        if self.state == (State::Message { left: 0 }) {
            self.count += 1;
            self.state = State::Prefix { bytes: 0, length: 0 };
        }
    }

    /// Whether the planned number of messages has been received.
    pub(crate) fn has_reached_limit(&self) -> bool {
        self.plan.limit.is_some_and(|limit| self.count >= limit)
    }

    /// Whether a message was malformed.
    pub(crate) fn is_malformed(&self) -> bool {
        self.state == State::Malformed
    }

    /// Whether the received bytes end within a message.
    pub(crate) fn ends_within_message(&self) -> bool {
        match self.state {
            State::Prefix { bytes, .. } => bytes > 0,
            State::Message { .. } => true,
            State::Line { line_bytes, .. } => line_bytes && self.plan.form == MessageForm::Lines,
            State::Malformed => false,
        }
    }

    /// The messages that were received since the last call.
    pub(crate) fn take_received(&mut self) -> std::vec::Drain<'_, ReceivedMessage> {
        self.received.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(form: MessageForm, parts: &[&[u8]]) -> MessageReader {
        let mut reader = MessageReader::new(MessagePlan { form, limit: Some(2) });
        parts.iter().for_each(|part| reader.take(part));
        reader
    }

    #[test]
    fn the_ends_of_events_and_lines_are_detected() {
        for (form, text, count) in [
            (MessageForm::Events, "data: a\n\ndata: b\n\n", 2),
            (MessageForm::Events, "data: a\r\ndata: b\r\n\r\nid: 1\r\n\r\n", 2),
            (MessageForm::Events, "data: a\r\rdata: b\r\r", 2),
            (MessageForm::Events, ": ping\n\n\n\n: ping\ndata: a\n\n", 1),
            (MessageForm::Events, "data: a\n", 0),
            (MessageForm::Lines, "{}\n{}\r\n\n{}", 2),
        ] {
            assert_eq!(read(form, &[text.as_bytes()]).count, count, "{text:?}");
        }
        assert!(read(MessageForm::Lines, &[b"a\nb"]).ends_within_message());
        assert!(!read(MessageForm::Events, &[b"data"]).ends_within_message());
    }

    #[test]
    fn messages_of_grpc_are_framed() {
        let good: &[u8] = &[0, 0, 0, 0, 2, 7, 7, 1, 0, 0, 0, 0, 0, 0, 0];
        let reader = read(MessageForm::Grpc, &[good]);
        assert!(
            reader.count == 2
                && reader.has_reached_limit()
                && reader.ends_within_message()
                && !reader.is_malformed()
        );
        assert!(read(MessageForm::Grpc, &[&[2]]).is_malformed());
        assert!(read(MessageForm::Grpc, &[&[0, 255, 0, 0, 0]]).is_malformed());
        assert!(!read(MessageForm::Grpc, &[&good[..12]]).ends_within_message());
    }

    proptest! {
        #[test]
        fn the_result_does_not_depend_on_the_pieces(
            bytes in prop::collection::vec(
                prop_oneof![Just(b'\n'), Just(b'\r'), Just(0), Just(b':'), any::<u8>()],
                0..60,
            ),
            piece in 1usize..10,
        ) {
            for form in [MessageForm::Events, MessageForm::Lines, MessageForm::Grpc] {
                let whole = read(form, &[&bytes]);
                let pieces: Vec<&[u8]> = bytes.chunks(piece).collect();
                let parts = read(form, &pieces);
                prop_assert_eq!((whole.count, whole.state), (parts.count, parts.state));
                prop_assert_eq!(parts.received.len() as u64, parts.count);
            }
        }
    }
}
