//! The client's side of WebSockets (RFC 6455), without input and output: the handshake, the frames, and the
//! messages of a client. The engine's side is in [`crate::websocket_connection`].

mod frames;
mod handshake;
mod session;
mod utf8;

pub(crate) use handshake::handshake_fields;
pub(crate) use session::{Fault, ReceiveOutcome, WebSocket, WebSocketEvent, WebSocketOutput, WebSocketSetup};

/// A violation of the protocol in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WrongFrame {
    Masked,
    ReservedBits,
    UnknownOpcode,
    FragmentedControl,
    LongControl,
    InvalidLength,
    UnexpectedContinuation,
    MissingContinuation,
    NotUtf8,
    TruncatedCloseCode,
    InvalidCloseCode,
}

impl WrongFrame {
    const ALL: [WrongFrame; 11] = [
        WrongFrame::Masked,
        WrongFrame::ReservedBits,
        WrongFrame::UnknownOpcode,
        WrongFrame::FragmentedControl,
        WrongFrame::LongControl,
        WrongFrame::InvalidLength,
        WrongFrame::UnexpectedContinuation,
        WrongFrame::MissingContinuation,
        WrongFrame::NotUtf8,
        WrongFrame::TruncatedCloseCode,
        WrongFrame::InvalidCloseCode,
    ];

    /// The index of this fault in [`WrongFrame::at`].
    pub(crate) fn place(self) -> usize {
        self as usize
    }

    pub(crate) fn at(place: usize) -> Option<WrongFrame> {
        WrongFrame::ALL.get(place).copied()
    }

    pub(crate) fn description(self) -> &'static str {
        match self {
            WrongFrame::Masked => "a frame of the server is masked",
            WrongFrame::ReservedBits => "a frame has a reserved bit set, and no extension was negotiated",
            WrongFrame::UnknownOpcode => "a frame has an unknown opcode",
            WrongFrame::FragmentedControl => "a ping, pong or close frame is a fragment",
            WrongFrame::LongControl => "a ping, pong or close frame has more than 125 bytes",
            WrongFrame::InvalidLength => "the length of a frame is not in its shortest form, or too large",
            WrongFrame::UnexpectedContinuation => "a continuation frame does not follow a fragment",
            WrongFrame::MissingContinuation => "a message begins before the end of the previous message",
            WrongFrame::NotUtf8 => "a text message is not UTF-8",
            WrongFrame::TruncatedCloseCode => "the code of a close frame has only one byte",
            WrongFrame::InvalidCloseCode => "a close frame has an invalid code",
        }
    }

    /// The client's close code (RFC 6455, section 7.4.1).
    pub(crate) fn close_code(self) -> u16 {
        if self == WrongFrame::NotUtf8 { 1007 } else { 1002 }
    }
}

/// The reason why an answer with status 101 does not open a WebSocket (RFC 6455, section 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WrongHandshake {
    Upgrade,
    Accept,
    Extension,
    Protocol,
}

impl WrongHandshake {
    const ALL: [WrongHandshake; 4] = [
        WrongHandshake::Upgrade,
        WrongHandshake::Accept,
        WrongHandshake::Extension,
        WrongHandshake::Protocol,
    ];

    /// The index of this fault in [`WrongHandshake::at`].
    pub(crate) fn place(self) -> usize {
        self as usize
    }

    pub(crate) fn at(place: usize) -> Option<WrongHandshake> {
        WrongHandshake::ALL.get(place).copied()
    }

    pub(crate) fn description(self) -> &'static str {
        match self {
            WrongHandshake::Upgrade => "101 without Connection: Upgrade and Upgrade: websocket",
            WrongHandshake::Accept => "101 without the right Sec-WebSocket-Accept",
            WrongHandshake::Extension => "101 with an extension that was not offered",
            WrongHandshake::Protocol => "101 with a Sec-WebSocket-Protocol that was not offered",
        }
    }
}
