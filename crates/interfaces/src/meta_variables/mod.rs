//! Meta-variables: the variables that describe a request to a program (RFC 3875 section 4.1).
//!
//! [`MetaVariables::of`] makes them from [`RequestFacts`]; CGI puts them into a program's environment,
//! FastCGI and SCGI send them. Besides those of the RFC there are variables that programs expect:
//! `REQUEST_URI`, `DOCUMENT_ROOT`, `SCRIPT_FILENAME`, `REQUEST_SCHEME`, `HTTPS` and variables for the TLS
//! data of the client.
//!
//! A client chooses the names of header fields, so a field becomes a variable only if its name is
//! unambiguous:
//!
//! * It consists of letters, digits and hyphens: `X_Forwarded-For` and `X-Forwarded_For` would be the same
//!   variable as `X-Forwarded-For`, which a proxy in front may have set or removed.
//! * It is not `Proxy`: many libraries take `HTTP_PROXY` for the proxy of the program's own requests
//!   (CVE-2016-5385, httpoxy).
//! * It is not a credential (`Authorization`, `Proxy-Authorization`), unless configured, as RFC 3875 section
//!   4.1.18 says.
//! * It is not a field of this connection (RFC 9110 section 7.6.1): the program gets the body without chunks.

mod write;

use std::net::SocketAddr;
use std::path::Path;

use touchstone_http::authorization::authentication_scheme;
use touchstone_http::host::split_port;

pub use write::{VariableSink, write_variables};

use touchstone_handler::request::{self, PlainGet, Request};

/// The value of `SERVER_SOFTWARE`.
pub const SERVER_SOFTWARE: &str = concat!("Touchstone/", env!("CARGO_PKG_VERSION"));

/// All facts about a request that become variables. Borrowed: it is made for one call.
#[derive(Debug, Clone, Default)]
pub struct RequestFacts<'a> {
    /// The method's bytes.
    pub method: &'a [u8],
    /// `HTTP/1.1`, `HTTP/2.0`.
    pub protocol: &'a str,
    /// The request target as the client sent it, with its query; of an absolute one, path and query.
    pub request_uri: &'a [u8],
    /// The part of the decoded path that names the program; empty or beginning with a slash.
    pub script_name: &'a [u8],
    /// What follows it, decoded; empty or beginning with a slash.
    pub path_info: &'a [u8],
    /// The query as it was sent, without its question mark.
    pub query: Option<&'a [u8]>,
    /// The site's root.
    pub document_root: Option<&'a Path>,
    /// The program's file.
    pub script_filename: Option<&'a Path>,
    /// Host of the request's URI, without its port; empty: the address that the client connected to.
    pub server_name: &'a [u8],
    /// The address at which the request arrived; names the port as well.
    pub server_address: Option<SocketAddr>,
    /// Port of the request's URI, if it differs from that of `server_address`.
    pub server_port: Option<u16>,
    /// The client.
    pub remote: Option<SocketAddr>,
    /// The authenticated user.
    pub remote_user: Option<&'a str>,
    /// How the user was authenticated: `Basic` or `Bearer`.
    pub auth_type: Option<&'a str>,
    /// Length of the body; none: there is no body.
    pub content_length: Option<u64>,
    /// The client used HTTPS to this server, or to a trusted proxy.
    pub is_https: bool,
    /// The facts about the TLS connection; `None`: there is none.
    pub tls: Option<TlsFacts<'a>>,
    /// The request's id in the logs.
    pub request_id: &'a str,
    /// The program gets `Authorization`.
    pub pass_authorization: bool,
    /// Variables set by a page that includes the program.
    pub page_variables: &'a [(Vec<u8>, Vec<u8>)],
}

impl<'a> RequestFacts<'a> {
    /// The facts that are known before the program is chosen: all except `script_name`, `path_info`,
    /// `document_root`, `script_filename` and `pass_authorization`.
    pub fn of(request: &'a Request) -> RequestFacts<'a> {
        let (host, host_port) = split_port(request.host.as_deref().unwrap_or_default());
        RequestFacts {
            method: request.received.method_text(),
            protocol: request.protocol.text(),
            request_uri: without_authority(request.received.target()),
            query: request.query.as_deref(),
            server_name: host,
            server_port: request.port_at_proxy().or_else(|| {
                port_of_uri(host_port, request.server, request.is_https(), request.tls.is_some())
            }),
            server_address: Some(request.server),
            remote: request.internet_client(),
            remote_user: request.user.as_deref(),
            auth_type: request.user.as_ref().map(|_| authentication_scheme(request.received.fields())),
            content_length: request.body_length().filter(|length| *length > 0),
            is_https: request.is_https(),
            tls: request.tls.as_deref().map(TlsFacts::of),
            request_id: &request.id,
            page_variables: request.page_variables.as_deref().unwrap_or_default(),
            ..RequestFacts::default()
        }
    }

    /// The same for a plain GET in its connection's buffer.
    pub fn of_plain_get(get: &PlainGet<'a>) -> RequestFacts<'a> {
        let (host, host_port) = split_port(get.host.unwrap_or_default());
        RequestFacts {
            method: b"GET",
            protocol: get.protocol.text(),
            request_uri: get.target,
            query: get.query,
            server_name: host,
            server_port: get
                .port_at_proxy()
                .or_else(|| port_of_uri(host_port, get.server, get.is_https(), get.tls.is_some())),
            server_address: Some(get.server),
            remote: get.internet_client(),
            remote_user: get.user,
            auth_type: get.user.map(|_| authentication_scheme(get.fields())),
            is_https: get.is_https(),
            tls: get.tls.map(TlsFacts::of),
            request_id: get.id,
            ..RequestFacts::default()
        }
    }
}

/// The port that the client used, if it differs from the address that it connected to: the kernel has chosen
/// that port, or the client used HTTPS to a proxy with another port.
fn port_of_uri(host_port: Option<u16>, server: SocketAddr, is_https: bool, is_tls: bool) -> Option<u16> {
    match is_https == is_tls {
        true => host_port.filter(|_| server.port() == 0),
        false => host_port.or(Some(if is_https { 443 } else { 80 })),
    }
}

/// Path and query of a target in absolute form; other targets are unchanged.
fn without_authority(target: &[u8]) -> &[u8] {
    if target.starts_with(b"/") {
        return target;
    }
    let Some(scheme_end) = memchr::memmem::find(target, b"://") else { return target };
    let authority = &target[scheme_end + 3..];
    authority.iter().position(|byte| matches!(byte, b'/' | b'?')).map_or(b"/", |end| &authority[end..])
}

/// The facts about a TLS connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct TlsFacts<'a> {
    /// `TLSv1.3`
    pub protocol: &'a str,
    /// The cipher suite.
    pub cipher: &'a str,
    /// The host name that the client requested (SNI).
    pub server_name: Option<&'a str>,
    /// Whether its certificate was requested, sent and verified: `NONE`, `SUCCESS`.
    pub client_verify: &'a str,
    /// Subject of the client's certificate.
    pub client_subject: Option<&'a str>,
    /// Its issuer.
    pub client_issuer: Option<&'a str>,
    /// Its serial number.
    pub client_serial: Option<&'a str>,
}

impl<'a> TlsFacts<'a> {
    fn of(tls: &'a request::TlsFacts) -> TlsFacts<'a> {
        TlsFacts {
            protocol: tls.version,
            cipher: tls.cipher_suite,
            server_name: tls.server_name.as_deref(),
            client_verify: if tls.client_subject.is_some() { "SUCCESS" } else { "NONE" },
            client_subject: tls.client_subject.as_deref(),
            client_issuer: tls.client_issuer.as_deref(),
            client_serial: tls.client_serial.as_deref(),
        }
    }
}

/// A value holds a zero byte, which an environment cannot contain; the request is answered with 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZeroByte;

impl std::fmt::Display for ZeroByte {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the request's path holds a zero byte, which cannot be passed to a program")
    }
}

impl std::error::Error for ZeroByte {}

/// Variables that describe the request, which programs trust, and variables that change how a program is
/// executed.
fn is_of_request_or_system(name: &str) -> bool {
    const NAMES: [&str; 30] = [
        "AUTH_TYPE",
        "BASH_ENV",
        "CONTENT_LENGTH",
        "CONTENT_TYPE",
        "DOCUMENT_ROOT",
        "ENV",
        "GATEWAY_INTERFACE",
        "HTTPS",
        "HTTP_AUTHORIZATION",
        "HTTP_PROXY",
        "IFS",
        "PATH",
        "PATH_INFO",
        "PATH_TRANSLATED",
        "QUERY_STRING",
        "REDIRECT_STATUS",
        "REMOTE_ADDR",
        "REMOTE_HOST",
        "REMOTE_IDENT",
        "REMOTE_USER",
        "REQUEST_METHOD",
        "REQUEST_SCHEME",
        "REQUEST_URI",
        "SCRIPT_FILENAME",
        "SCRIPT_NAME",
        "SERVER_NAME",
        "SERVER_PORT",
        "SERVER_PROTOCOL",
        "SERVER_SOFTWARE",
        "SHELLOPTS",
    ];
    NAMES.contains(&name)
        || ["LD_", "SSL_", "PYTHON", "PERL", "PHP_"].iter().any(|begin| name.starts_with(begin))
}

/// Names with their values, in one piece of memory: `NAME=value`, a zero byte, and so on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetaVariables {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    start: usize,
    name_length: usize,
    /// The end of the variable, without the zero byte.
    end: usize,
}

impl MetaVariables {
    /// No variables.
    pub fn new() -> MetaVariables {
        MetaVariables { bytes: Vec::with_capacity(1536), entries: Vec::with_capacity(48) }
    }

    /// The variables of a request with these header fields, in the order of arrival.
    ///
    /// # Errors
    /// A value holds a zero byte.
    pub fn of<'f>(
        facts: &RequestFacts<'_>,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
    ) -> Result<MetaVariables, ZeroByte> {
        let mut variables = MetaVariables::new();
        write_variables(facts, fields, &mut variables);
        // One pass instead of a check of each value.
        let zero_bytes = memchr::memchr_iter(0, &variables.bytes).count();
        if zero_bytes != variables.entries.len() {
            return Err(ZeroByte);
        }
        facts.page_variables.iter().for_each(|(name, value)| variables.add_of_page(name, value));
        Ok(variables)
    }

    /// A variable that a page has set, if its name is valid in an environment. A page cannot replace
    /// variables of the request, nor set those that the request lacks.
    fn add_of_page(&mut self, name: &[u8], value: &[u8]) {
        let letter = |(at, byte): (usize, &u8)| match byte {
            b'0'..=b'9' if at == 0 => '_',
            byte if byte.is_ascii_alphanumeric() => char::from(*byte),
            _ => '_',
        };
        let name: String = name.iter().enumerate().map(letter).collect();
        if !is_of_request_or_system(&name) && self.get(&name).is_none() {
            self.set(&name, value);
        }
    }

    /// Sets a variable, replacing another with that name. A variable with a zero byte, or with an equals sign
    /// in its name, is left out.
    pub fn set(&mut self, name: &str, value: &[u8]) {
        let is_good =
            !name.is_empty() && !name.bytes().any(|byte| matches!(byte, 0 | b'=')) && !value.contains(&0);
        if is_good {
            self.entries.retain({
                let bytes = &self.bytes;
                |entry| &bytes[entry.start..entry.start + entry.name_length] != name.as_bytes()
            });
            self.add(name, value);
        }
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(each, _)| *each == name.as_bytes()).map(|(_, value)| value)
    }

    /// Names and values.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        self.entries.iter().map(|entry| {
            let name_end = entry.start + entry.name_length;
            (&self.bytes[entry.start..name_end], &self.bytes[name_end + 1..entry.end])
        })
    }

    /// Each variable as `NAME=value` followed by a zero byte, as in an environment.
    pub fn environment(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.entries.iter().map(|entry| &self.bytes[entry.start..=entry.end])
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn add(&mut self, name: &str, value: &[u8]) {
        self.add_pieces(name.as_bytes(), &[value]);
    }

    fn close(&mut self, start: usize, name_length: usize) {
        let end = self.bytes.len();
        self.bytes.push(0);
        self.entries.push(Entry { start, name_length, end });
    }
}

impl VariableSink for MetaVariables {
    fn add_pieces(&mut self, name: &[u8], pieces: &[&[u8]]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        self.bytes.push(b'=');
        for piece in pieces {
            self.bytes.extend_from_slice(piece);
        }
        self.close(start, name.len());
    }
}

#[cfg(test)]
mod tests;
