//! The interface between server and plug-ins: the facts of a request, and calls for its body and answer.

use std::net::SocketAddr;

use touchstone_http::grammar::{is_field_value_byte, is_token};

use crate::functions::Function;

/// The facts of a request.
#[derive(Debug, Clone, Copy)]
pub struct HostRequest<'a> {
    /// The method.
    pub method: &'a [u8],
    /// The path: without escapes and dot segments, beginning with a slash.
    pub path: &'a [u8],
    /// The target as the client sent it.
    pub target: &'a [u8],
    /// The part after the `?`.
    pub query: Option<&'a [u8]>,
    /// HTTP/1.0; all later versions appear as HTTP/1.1.
    pub is_http10: bool,
    /// The fields; those of the connection and of the framing may be missing.
    pub fields: &'a [(&'a [u8], &'a [u8])],
    /// The requested host, without its port.
    pub host: &'a [u8],
    /// The requested port, or the port of the site.
    pub port: u16,
    /// The client.
    pub client: SocketAddr,
    /// The address that the client connected to.
    pub local: SocketAddr,
    /// The client used HTTPS to this server, or to a trusted proxy.
    pub is_https: bool,
    /// The facts about TLS, if it is used.
    pub tls: Option<TlsFacts<'a>>,
    /// The user, if the server has authenticated one.
    pub user: Option<&'a [u8]>,
    /// Whether the connection may be used again.
    pub keep_alive: bool,
    /// The length of the body, if known.
    pub body_length: Option<u64>,
    /// Whether there is a body.
    pub has_body: bool,
    /// Seconds since 1970.
    pub now_unix_seconds: i64,
}

/// The facts about TLS for plug-ins.
#[derive(Debug, Clone, Copy, Default)]
pub struct TlsFacts<'a> {
    /// The name of the cipher suite.
    pub cipher: &'a [u8],
    /// Bits of the key.
    pub key_bits: u32,
    /// The client's certificate in DER, base64 without line breaks.
    pub client_certificate: Option<&'a [u8]>,
    /// The subject of that certificate.
    pub client_subject: Option<&'a [u8]>,
    /// The issuer of that certificate.
    pub client_issuer: Option<&'a [u8]>,
}

/// The client has disconnected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientDisconnected;

/// The body of a request, and the answer to it. On a worker the functions may wait; on a core they must not.
pub trait Connection {
    /// Reads more of the body; 0: the body has ended.
    fn read(&mut self, to: &mut [u8]) -> Result<usize, ClientDisconnected>;
    /// Begins the answer.
    fn start(&mut self, head: &AnswerHead<'_>) -> Result<(), ClientDisconnected>;
    /// Writes more of its body.
    fn write(&mut self, bytes: &[u8]) -> Result<(), ClientDisconnected>;
    /// Sends the buffered bytes.
    fn flush(&mut self) -> Result<(), ClientDisconnected>;
    /// Whether the client is still connected, as far as is known.
    fn is_alive(&self) -> bool;
    /// Called when the function does not return.
    fn break_off(&mut self) {}
    /// Called when a function begins, on a worker.
    fn runs(&mut self, _function: &'static Function) {}
}

/// The head of an answer. Fields that frame a message, except Content-Length, are left out, and so are Date,
/// Server and Connection: the server adds these.
#[derive(Debug, Clone, Copy)]
pub struct AnswerHead<'a> {
    /// The status.
    pub status: u16,
    /// The reason phrase; may be empty, and is not checked.
    pub reason: &'a [u8],
    /// The fields, with names as the plug-in wrote them.
    pub fields: &'a [(&'a [u8], &'a [u8])],
    /// The length of the body, if the plug-in has declared it. [`Connection::write`] gets no more bytes than
    /// that.
    pub content_length: Option<u64>,
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestEnd {
    /// The answer is complete.
    Answered,
    /// The answer is incomplete, or the plug-in requests that the connection be closed.
    Close,
    /// Another part of the server answers.
    Delegated(DelegatedRequest),
}

/// A request that obj.conf passes to another part of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelegatedRequest {
    /// The part that answers.
    pub to: Delegate,
    /// The file on the disk.
    pub path: Vec<u8>,
    /// The part of the path after the file.
    pub path_info: Vec<u8>,
    /// Additional fields of the answer.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
}

impl DelegatedRequest {
    /// The fields as lines with their CRLF; invalid ones are left out.
    pub fn field_lines(&self) -> Vec<u8> {
        let mut lines = Vec::new();
        for (name, value) in &self.fields {
            if is_token(name) && value.iter().all(|byte| is_field_value_byte(*byte)) {
                for piece in [&name[..], b": ", value, b"\r\n"] {
                    lines.extend_from_slice(piece);
                }
            }
        }
        lines
    }
}

/// The part of the server that answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delegate {
    /// `send-cgi`: it is a CGI program.
    Cgi,
    /// `parse-html`: it is a page with includes.
    Includes,
    /// `index-common`, `index-simple`: it is a directory.
    Listing,
}
