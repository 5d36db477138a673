//! Error codes, and the two kinds of error: those that end a stream and those that end the connection (RFC
//! 9114 section 8, RFC 9204 section 6).

use std::fmt;

/// An error code, as RESET_STREAM, STOP_SENDING and CONNECTION_CLOSE carry it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u64);

macro_rules! error_codes {
    ($($(#[$documentation:meta])* $name:ident = $value:literal, $text:literal;)*) => {
        impl ErrorCode {
            $($(#[$documentation])* pub const $name: ErrorCode = ErrorCode($value);)*

            /// The code's name in the standard; others count as `H3_NO_ERROR` (section 8.1).
            pub fn name(self) -> &'static str {
                match self {
                    $(ErrorCode::$name => $text,)*
                    _ => "H3_NO_ERROR",
                }
            }
        }
    };
}

error_codes! {
    /// Not an error.
    NO_ERROR = 0x100, "H3_NO_ERROR";
    /// The peer broke the protocol, and no more specific code fits.
    GENERAL_PROTOCOL_ERROR = 0x101, "H3_GENERAL_PROTOCOL_ERROR";
    /// An error of this side.
    INTERNAL_ERROR = 0x102, "H3_INTERNAL_ERROR";
    /// A stream that is not allowed.
    STREAM_CREATION_ERROR = 0x103, "H3_STREAM_CREATION_ERROR";
    /// A stream that the connection needs was closed.
    CLOSED_CRITICAL_STREAM = 0x104, "H3_CLOSED_CRITICAL_STREAM";
    /// A frame that is not allowed here.
    FRAME_UNEXPECTED = 0x105, "H3_FRAME_UNEXPECTED";
    /// A frame whose layout or size is wrong.
    FRAME_ERROR = 0x106, "H3_FRAME_ERROR";
    /// The peer causes excessive load.
    EXCESSIVE_LOAD = 0x107, "H3_EXCESSIVE_LOAD";
    /// An identifier that is not valid here.
    ID_ERROR = 0x108, "H3_ID_ERROR";
    /// A SETTINGS frame is wrong.
    SETTINGS_ERROR = 0x109, "H3_SETTINGS_ERROR";
    /// The control stream does not begin with SETTINGS.
    MISSING_SETTINGS = 0x10a, "H3_MISSING_SETTINGS";
    /// The request was not processed at all; it can be sent again.
    REQUEST_REJECTED = 0x10b, "H3_REQUEST_REJECTED";
    /// The request or its response is not needed any more.
    REQUEST_CANCELLED = 0x10c, "H3_REQUEST_CANCELLED";
    /// The stream ended before the request was complete.
    REQUEST_INCOMPLETE = 0x10d, "H3_REQUEST_INCOMPLETE";
    /// The message is malformed.
    MESSAGE_ERROR = 0x10e, "H3_MESSAGE_ERROR";
    /// The connection of a CONNECT request broke.
    CONNECT_ERROR = 0x10f, "H3_CONNECT_ERROR";
    /// The request must be made with HTTP/1.1.
    VERSION_FALLBACK = 0x110, "H3_VERSION_FALLBACK";
    /// A field section that cannot be decoded.
    QPACK_DECOMPRESSION_FAILED = 0x200, "QPACK_DECOMPRESSION_FAILED";
    /// A wrong instruction on the encoder stream.
    QPACK_ENCODER_STREAM_ERROR = 0x201, "QPACK_ENCODER_STREAM_ERROR";
    /// A wrong instruction on the decoder stream.
    QPACK_DECODER_STREAM_ERROR = 0x202, "QPACK_DECODER_STREAM_ERROR";
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Why a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionError {
    /// The code that is sent to the peer.
    pub code: ErrorCode,
    /// The fault in words, for the error log.
    pub reason: &'static str,
}

/// Why a stream ends; the connection continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamError {
    /// The code that is sent to the peer.
    pub code: ErrorCode,
    /// The fault in words, for the error log.
    pub reason: &'static str,
}

/// An error of a stream or of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// The stream ends.
    Stream(StreamError),
    /// The connection ends.
    Connection(ConnectionError),
}

impl ConnectionError {
    /// An error with a code and its reason.
    pub const fn new(code: ErrorCode, reason: &'static str) -> ConnectionError {
        ConnectionError { code, reason }
    }

    pub(crate) const fn unexpected(reason: &'static str) -> ConnectionError {
        ConnectionError::new(ErrorCode::FRAME_UNEXPECTED, reason)
    }
}

impl StreamError {
    /// An error with a code and its reason.
    pub const fn new(code: ErrorCode, reason: &'static str) -> StreamError {
        StreamError { code, reason }
    }

    pub(crate) const fn malformed(reason: &'static str) -> StreamError {
        StreamError::new(ErrorCode::MESSAGE_ERROR, reason)
    }
}

impl From<ConnectionError> for Error {
    fn from(error: ConnectionError) -> Error {
        Error::Connection(error)
    }
}

impl From<StreamError> for Error {
    fn from(error: StreamError) -> Error {
        Error::Stream(error)
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.code, self.reason)
    }
}

impl fmt::Display for StreamError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.code, self.reason)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Stream(error) => error.fmt(formatter),
            Error::Connection(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for ConnectionError {}

impl std::error::Error for StreamError {}
