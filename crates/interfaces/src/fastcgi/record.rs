//! FastCGI records: types, headers and the fixed bodies (FastCGI Specification 1.0, sections 3.3, 5 and 8).

use std::fmt;

/// The only version of the protocol.
pub const VERSION: u8 = 1;

/// Length of a record's header.
pub const HEADER_BYTES: usize = 8;

/// The longest content of one record.
pub const LONGEST_CONTENT_BYTES: usize = 65_535;

/// The flag of BEGIN_REQUEST that requests that the program keep the connection (section 5.1).
pub const KEEP_CONNECTION: u8 = 1;

/// The number of a request that is about the connection itself (section 3.3).
pub const MANAGEMENT: u16 = 0;

/// The type of a record (section 8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordType {
    /// A request begins.
    BeginRequest = 1,
    /// The server aborts a request.
    AbortRequest = 2,
    /// A request has ended.
    EndRequest = 3,
    /// Names and values for the program, a stream.
    Params = 4,
    /// The request's body, a stream.
    Stdin = 5,
    /// The answer, a stream.
    Stdout = 6,
    /// Messages of the program for the operator, a stream.
    Stderr = 7,
    /// A file for the role of filter, a stream.
    Data = 8,
    /// Requests the capabilities of the program.
    GetValues = 9,
    /// States the capabilities of the program.
    GetValuesResult = 10,
    /// Answers a management record of an unknown type.
    UnknownType = 11,
}

impl RecordType {
    /// The type with this number.
    pub fn from_number(number: u8) -> Option<RecordType> {
        use RecordType::*;
        let all = [
            BeginRequest,
            AbortRequest,
            EndRequest,
            Params,
            Stdin,
            Stdout,
            Stderr,
            Data,
            GetValues,
            GetValuesResult,
            UnknownType,
        ];
        all.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// Whether its records are pieces of a stream, which ends with an empty one (section 3.3).
    pub fn is_stream(self) -> bool {
        use RecordType::*;
        matches!(self, Params | Stdin | Stdout | Stderr | Data)
    }

    /// The length of its content, if it is fixed.
    pub(super) fn fixed_length(self) -> Option<u16> {
        use RecordType::*;
        match self {
            BeginRequest | EndRequest | UnknownType => Some(8),
            AbortRequest => Some(0),
            _ => None,
        }
    }
}

impl fmt::Display for RecordType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        use RecordType::*;
        formatter.write_str(match self {
            BeginRequest => "FCGI_BEGIN_REQUEST",
            AbortRequest => "FCGI_ABORT_REQUEST",
            EndRequest => "FCGI_END_REQUEST",
            Params => "FCGI_PARAMS",
            Stdin => "FCGI_STDIN",
            Stdout => "FCGI_STDOUT",
            Stderr => "FCGI_STDERR",
            Data => "FCGI_DATA",
            GetValues => "FCGI_GET_VALUES",
            GetValuesResult => "FCGI_GET_VALUES_RESULT",
            UnknownType => "FCGI_UNKNOWN_TYPE",
        })
    }
}

/// A record's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The type's number, which may be unknown.
    pub record_type: u8,
    /// The request that it belongs to; [`MANAGEMENT`]: none.
    pub request_id: u16,
    /// Length of the content.
    pub content_bytes: u16,
    /// Length of the padding after it.
    pub padding_bytes: u8,
}

impl Header {
    /// A header without padding.
    pub fn new(record_type: RecordType, request_id: u16, content_bytes: u16) -> Header {
        Header { record_type: record_type as u8, request_id, content_bytes, padding_bytes: 0 }
    }

    /// Its bytes.
    pub fn bytes(self) -> [u8; HEADER_BYTES] {
        let [id_high, id_low] = self.request_id.to_be_bytes();
        let [content_high, content_low] = self.content_bytes.to_be_bytes();
        [VERSION, self.record_type, id_high, id_low, content_high, content_low, self.padding_bytes, 0]
    }

    /// Reads a header; the error is the version if it is unknown.
    pub fn parse(bytes: [u8; HEADER_BYTES]) -> Result<Header, u8> {
        let [version, record_type, id_high, id_low, content_high, content_low, padding_bytes, _] = bytes;
        if version != VERSION {
            return Err(version);
        }
        Ok(Header {
            record_type,
            request_id: u16::from_be_bytes([id_high, id_low]),
            content_bytes: u16::from_be_bytes([content_high, content_low]),
            padding_bytes,
        })
    }
}

/// The role of the program (section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Role {
    /// It answers requests.
    Responder = 1,
    /// It decides whether a request is allowed.
    Authorizer = 2,
    /// It changes a file before it is sent.
    Filter = 3,
}

/// How a request ended in the protocol (section 5.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolStatus {
    /// It is complete.
    RequestComplete,
    /// The program accepts one request on each connection.
    CannotMultiplex,
    /// The program has no more room.
    Overloaded,
    /// The program does not support the role.
    UnknownRole,
    /// An unknown number.
    Other(u8),
}

impl ProtocolStatus {
    pub(super) fn from_number(number: u8) -> ProtocolStatus {
        match number {
            0 => ProtocolStatus::RequestComplete,
            1 => ProtocolStatus::CannotMultiplex,
            2 => ProtocolStatus::Overloaded,
            3 => ProtocolStatus::UnknownRole,
            other => ProtocolStatus::Other(other),
        }
    }

    /// The number on the wire.
    pub fn number(self) -> u8 {
        match self {
            ProtocolStatus::RequestComplete => 0,
            ProtocolStatus::CannotMultiplex => 1,
            ProtocolStatus::Overloaded => 2,
            ProtocolStatus::UnknownRole => 3,
            ProtocolStatus::Other(number) => number,
        }
    }
}

/// Why bytes are not FastCGI. Nothing more can be read from such a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrongBytes {
    /// A record of another version, or no record at all.
    Version(u8),
    /// A record whose content does not have the length of its type.
    Length(RecordType, u16),
}

impl fmt::Display for WrongBytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WrongBytes::Version(version) => {
                write!(formatter, "it does not speak FastCGI 1: a record begins with byte {version}")
            }
            WrongBytes::Length(record_type, length) => {
                write!(formatter, "its {record_type} record has {length} bytes of content")
            }
        }
    }
}

impl std::error::Error for WrongBytes {}
