//! Everything received in one case: the bytes of each connection or stream, how each ended, and the requests
//! that the origin behind the server received.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The maximum number of bytes that are kept of a connection or a stream; a case needs less.
pub const BYTES_MAX: usize = 128 * 1024;

/// Everything received in one case.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transcript {
    /// HTTP/1 and HTTP/2: the connections, in the order in which they were made. HTTP/3: the streams.
    pub parts: Vec<Part>,
    /// The code of the CONNECTION_CLOSE of HTTP/3, if one was received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_close: Option<u64>,
    /// The requests that the origin received.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub origin: Vec<Bytes>,
    /// Why the case could not be sent, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_sent: Option<String>,
}

/// The bytes received on one connection or stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The number of the connection, from 0, or of the stream.
    pub id: u64,
    /// The bytes.
    pub bytes: Bytes,
    /// How it ended.
    pub ending: EndState,
}

/// How a connection or a stream ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndState {
    /// It was open at the end of the case.
    #[default]
    Open,
    /// The server closed it.
    Closed,
    /// The server reset the stream with this code.
    Reset(u64),
}

/// Bytes, in base64 in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(Bytes).map_err(serde::de::Error::custom)
    }
}
