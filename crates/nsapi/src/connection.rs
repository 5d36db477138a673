//! Between the server and the plug-ins: what the server tells of a request, and what it is asked to do with
//! the answer.

use std::net::SocketAddr;

use touchstone_http::grammar::{is_field_value_byte, is_token};

use crate::functions::Function;

/// What the server knows of a request.
#[derive(Debug, Clone, Copy)]
pub struct HostRequest<'a> {
    /// The method.
    pub method: &'a [u8],
    /// The path: escapes resolved, dot segments gone, beginning with a slash.
    pub path: &'a [u8],
    /// The target as the client wrote it.
    pub target: &'a [u8],
    /// What stands behind the `?`.
    pub query: Option<&'a [u8]>,
    /// HTTP/1.0; everything newer appears as HTTP/1.1.
    pub is_http10: bool,
    /// The fields; those of the connection and of the framing may be left out.
    pub fields: &'a [(&'a [u8], &'a [u8])],
    /// The host that was asked for, without its port.
    pub host: &'a [u8],
    /// The port that was asked for, or that the site listens on.
    pub port: u16,
    /// The client.
    pub client: SocketAddr,
    /// The address that the client has reached.
    pub local: SocketAddr,
    /// The client asked over HTTPS: of this server, or of a proxy that is trusted.
    pub is_https: bool,
    /// Where the connection is TLS.
    pub tls: Option<TlsFacts<'a>>,
    /// Who the client is, where the server has asked for a password.
    pub user: Option<&'a [u8]>,
    /// Whether the connection may be used again.
    pub keep_alive: bool,
    /// The length of the body, where it is known.
    pub body_length: Option<u64>,
    /// Whether there is a body.
    pub has_body: bool,
    /// Seconds since 1970.
    pub now_unix_seconds: i64,
}

/// What plug-ins may ask of TLS.
#[derive(Debug, Clone, Copy, Default)]
pub struct TlsFacts<'a> {
    /// The name of the cipher suite.
    pub cipher: &'a [u8],
    /// Bits of the key.
    pub key_bits: u32,
    /// The client's certificate in DER, base64 without line breaks.
    pub client_certificate: Option<&'a [u8]>,
    /// Whom that certificate names.
    pub client_subject: Option<&'a [u8]>,
    /// Who has signed it.
    pub client_issuer: Option<&'a [u8]>,
}

/// The client cannot be reached any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

/// The body of a request, and the answer to it. On a worker the functions may wait; on a core they must not.
pub trait Connection {
    /// Reads more of the body; 0: there is no more.
    fn read(&mut self, to: &mut [u8]) -> Result<usize, Gone>;
    /// Begins the answer.
    fn start(&mut self, head: &AnswerHead<'_>) -> Result<(), Gone>;
    /// Goes on with its body.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Gone>;
    /// Sends what has been kept back.
    fn flush(&mut self) -> Result<(), Gone>;
    /// Whether the client is still there, as far as is known.
    fn is_alive(&self) -> bool;
    /// The function does not come back.
    fn break_off(&mut self) {}
    /// A function begins, on a worker.
    fn runs(&mut self, _function: &'static Function) {}
}

/// The head of an answer. The fields that frame a message are left out, but for Content-Length, and so are
/// Date, Server and Connection: the server adds these.
#[derive(Debug, Clone, Copy)]
pub struct AnswerHead<'a> {
    /// The status.
    pub status: u16,
    /// The reason phrase; may be empty, and is not checked.
    pub reason: &'a [u8],
    /// The fields, names as the plug-in wrote them.
    pub fields: &'a [(&'a [u8], &'a [u8])],
    /// The length of the body, where the plug-in has said it. [`Connection::write`] is given no more than
    /// that.
    pub content_length: Option<u64>,
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The answer is complete.
    Answered,
    /// The answer is incomplete, or the plug-in wants the connection closed.
    Close,
    /// Something else of the server answers.
    Delegated(Delegated),
}

/// What obj.conf leaves to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delegated {
    /// Who answers.
    pub to: Delegate,
    /// The file on the disk.
    pub path: Vec<u8>,
    /// What of the path stands behind the file.
    pub path_info: Vec<u8>,
    /// Fields that the answer gets beside its own.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Delegated {
    /// The fields as lines with their CRLF; those that cannot stand in a head are left out.
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

/// Who else answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delegate {
    /// `send-cgi`: it is a CGI program.
    Cgi,
    /// `parse-html`: it is a page with includes.
    Includes,
    /// `index-common`, `index-simple`: it is a directory.
    Listing,
}
