//! Error codes, and the two kinds of error: those that end a stream and those that end the connection (RFC
//! 9113 sections 5.4 and 7).

use std::fmt;

/// An error code of RFC 9113 section 7, as `RST_STREAM` and `GOAWAY` carry it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// Not an error: a graceful end.
    pub const NO_ERROR: ErrorCode = ErrorCode(0x0);
    /// The peer broke the protocol, and no more specific code fits.
    pub const PROTOCOL_ERROR: ErrorCode = ErrorCode(0x1);
    /// An error of this side.
    pub const INTERNAL_ERROR: ErrorCode = ErrorCode(0x2);
    /// More data than the window allows, or a window that became too large.
    pub const FLOW_CONTROL_ERROR: ErrorCode = ErrorCode(0x3);
    /// Settings were not acknowledged in time.
    pub const SETTINGS_TIMEOUT: ErrorCode = ErrorCode(0x4);
    /// A frame for a stream on which the peer may not send any more.
    pub const STREAM_CLOSED: ErrorCode = ErrorCode(0x5);
    /// A frame of a size that its type cannot have, or that is too large.
    pub const FRAME_SIZE_ERROR: ErrorCode = ErrorCode(0x6);
    /// The stream was not processed at all; the request can be sent again.
    pub const REFUSED_STREAM: ErrorCode = ErrorCode(0x7);
    /// The stream is not needed any more.
    pub const CANCEL: ErrorCode = ErrorCode(0x8);
    /// The compression state of the field sections is wrong.
    pub const COMPRESSION_ERROR: ErrorCode = ErrorCode(0x9);
    /// The connection of a CONNECT request broke.
    pub const CONNECT_ERROR: ErrorCode = ErrorCode(0xa);
    /// The peer causes excessive load.
    pub const ENHANCE_YOUR_CALM: ErrorCode = ErrorCode(0xb);
    /// The transport is not secure enough.
    pub const INADEQUATE_SECURITY: ErrorCode = ErrorCode(0xc);
    /// The request must be made with HTTP/1.1.
    pub const HTTP_1_1_REQUIRED: ErrorCode = ErrorCode(0xd);

    /// The code's name in the standard; codes that it does not define count as `INTERNAL_ERROR` (section 7).
    pub fn name(self) -> &'static str {
        match self {
            ErrorCode::NO_ERROR => "NO_ERROR",
            ErrorCode::PROTOCOL_ERROR => "PROTOCOL_ERROR",
            ErrorCode::FLOW_CONTROL_ERROR => "FLOW_CONTROL_ERROR",
            ErrorCode::SETTINGS_TIMEOUT => "SETTINGS_TIMEOUT",
            ErrorCode::STREAM_CLOSED => "STREAM_CLOSED",
            ErrorCode::FRAME_SIZE_ERROR => "FRAME_SIZE_ERROR",
            ErrorCode::REFUSED_STREAM => "REFUSED_STREAM",
            ErrorCode::CANCEL => "CANCEL",
            ErrorCode::COMPRESSION_ERROR => "COMPRESSION_ERROR",
            ErrorCode::CONNECT_ERROR => "CONNECT_ERROR",
            ErrorCode::ENHANCE_YOUR_CALM => "ENHANCE_YOUR_CALM",
            ErrorCode::INADEQUATE_SECURITY => "INADEQUATE_SECURITY",
            ErrorCode::HTTP_1_1_REQUIRED => "HTTP_1_1_REQUIRED",
            _ => "INTERNAL_ERROR",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Why a connection ends. When this is returned, `GOAWAY` with the code is in the output; the caller must
/// send it and close the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionError {
    /// The code that is sent to the peer.
    pub code: ErrorCode,
    /// The fault in words, for the error log.
    pub reason: &'static str,
}

impl ConnectionError {
    pub(crate) const fn new(code: ErrorCode, reason: &'static str) -> ConnectionError {
        ConnectionError { code, reason }
    }

    pub(crate) const fn protocol(reason: &'static str) -> ConnectionError {
        ConnectionError::new(ErrorCode::PROTOCOL_ERROR, reason)
    }

    pub(crate) const fn frame_size(reason: &'static str) -> ConnectionError {
        ConnectionError::new(ErrorCode::FRAME_SIZE_ERROR, reason)
    }

    pub(crate) const fn flow_control(reason: &'static str) -> ConnectionError {
        ConnectionError::new(ErrorCode::FLOW_CONTROL_ERROR, reason)
    }

    pub(crate) const fn too_much(reason: &'static str) -> ConnectionError {
        ConnectionError::new(ErrorCode::ENHANCE_YOUR_CALM, reason)
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.code, self.reason)
    }
}

impl std::error::Error for ConnectionError {}

/// The error of a single stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamError {
    pub(crate) code: ErrorCode,
    pub(crate) reason: &'static str,
}

impl StreamError {
    pub(crate) const fn new(code: ErrorCode, reason: &'static str) -> StreamError {
        StreamError { code, reason }
    }

    /// A malformed message (RFC 9113 section 8.1.1).
    pub(crate) const fn malformed(reason: &'static str) -> StreamError {
        StreamError::new(ErrorCode::PROTOCOL_ERROR, reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(ErrorCode(7).to_string(), "REFUSED_STREAM");
        assert_eq!(ErrorCode(0xd), ErrorCode::HTTP_1_1_REQUIRED);
        assert_eq!(ErrorCode(0xdead).to_string(), "INTERNAL_ERROR");
        let error = ConnectionError::too_much("too many pings");
        assert_eq!(error.to_string(), "ENHANCE_YOUR_CALM: too many pings");
    }
}
