//! Converts the head of a request to wasi:http.
//!
//! Most components read few of its fields, or none. So fields are converted only when the instance requests
//! them.

use std::net::IpAddr;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme, Uri};
use http::{Method, Request as WasiRequest};
use touchstone_handler::request::Request;
use touchstone_http::request::FieldLine;
use wasmtime_wasi_http::WasiBody;

/// The head of a request, which can be sent to another thread.
pub struct Head {
    /// The method.
    pub method: Method,
    /// The scheme is `https`.
    pub is_https: bool,
    /// The requested host, with its port if the client gave one.
    pub authority: Authority,
    /// Path and query.
    pub path: PathAndQuery,
    /// Content-Length is hidden from the instance.
    pub hides_length: bool,
    lines: Vec<FieldLine>,
    /// The buffer that contains the lines.
    buffer: Bytes,
    client: Option<IpAddr>,
    user: Option<Box<str>>,
}

impl Head {
    /// The head of a request; `None` if wasi:http cannot represent it.
    pub fn of(request: &Request) -> Option<Head> {
        let authority = match &request.host {
            Some(host) if !host.is_empty() => Authority::from_maybe_shared(host.clone()).ok()?,
            _ => Authority::try_from(request.server.to_string()).ok()?,
        };
        let path = match request.query {
            None => request.encoded_path.clone(),
            Some(_) => request.path_and_query().into(),
        };
        Some(Head {
            method: Method::from_bytes(request.received.method_text()).ok()?,
            is_https: request.is_https(),
            authority,
            path: PathAndQuery::from_maybe_shared(path).ok()?,
            hides_length: false,
            lines: request.received.head.fields.clone(),
            buffer: request.received.buffer.clone(),
            client: request.internet_client().map(|client| client.ip().to_canonical()),
            user: request.user.clone(),
        })
    }

    /// The fields; `None` if wasi:http cannot represent one of them.
    pub fn fields(&self) -> Option<HeaderMap> {
        let mut fields = HeaderMap::with_capacity(self.lines.len() + 3);
        for line in &self.lines {
            let name = HeaderName::from_bytes(line.name.of(&self.buffer)).ok()?;
            fields.append(name, HeaderValue::from_bytes(line.value.of(&self.buffer)).ok()?);
        }
        fields.remove(HOST);
        if self.hides_length {
            fields.remove(CONTENT_LENGTH);
        }
        let mut add = |name: &'static str, value: &str| {
            if let (false, Ok(value)) = (fields.contains_key(name), HeaderValue::from_str(value)) {
                fields.insert(HeaderName::from_static(name), value);
            }
        };
        if let Some(client) = self.client {
            add("x-forwarded-for", &client.to_string());
        }
        add("x-forwarded-proto", if self.is_https { "https" } else { "http" });
        if let Some(user) = &self.user {
            add("x-remote-user", user);
        }
        Some(fields)
    }

    /// A request with this head; `None` if wasi:http cannot represent it.
    pub fn into_request(self, body: WasiBody) -> Option<WasiRequest<WasiBody>> {
        let mut request = WasiRequest::new(body);
        *request.headers_mut() = self.fields()?;
        *request.method_mut() = self.method;
        let mut uri = http::uri::Parts::default();
        uri.scheme = Some(if self.is_https { Scheme::HTTPS } else { Scheme::HTTP });
        uri.authority = Some(self.authority);
        uri.path_and_query = Some(self.path);
        *request.uri_mut() = Uri::from_parts(uri).ok()?;
        Some(request)
    }
}
