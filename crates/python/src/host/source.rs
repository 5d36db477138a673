//! Converts a request of the server to the form for a worker.

use std::net::SocketAddr;

use touchstone_handler::request::{PlainGet, Protocol, Request};
use touchstone_http::host::split_port;
use touchstone_http::ip_text::IpText;
use touchstone_http::request::Expectation;

use crate::shared::request::{self, EXPECTS_CONTINUE, HAS_BODY, IS_HTTPS, MAY_SWITCH, WorkerRequestHead};

/// Writes a GET that is in its connection's buffer.
pub fn write_get(out: &mut Vec<u8>, get: &PlainGet<'_>) {
    let is_https = get.is_https();
    let client = get.internet_client().map(|client| IpText::of(client.ip()));
    let local = IpText::of(get.server.ip());
    let requested = RequestedHost::of(get.host, get.port_at_proxy(), is_https, get.server);
    let request_head = WorkerRequestHead {
        flags: if is_https { IS_HTTPS } else { 0 },
        version: version(get.protocol),
        client_port: get.internet_client().map_or(0, |client| client.port()),
        server_port: requested.port,
        body_length: 0,
        method: b"GET",
        path: get.path,
        raw_path: get.path,
        query: get.query.unwrap_or_default(),
        server_name: if requested.name.is_empty() { local.as_bytes() } else { requested.name },
        client: client.as_ref().map_or(b"", |client| client.as_bytes()),
        user: get.user.unwrap_or_default().as_bytes(),
        id: get.id.as_bytes(),
    };
    request::write(out, &request_head, get.fields());
}

/// Writes a request in the form that workers read.
pub fn write(out: &mut Vec<u8>, request: &Request, has_body: bool, may_switch: bool) {
    let is_https = request.is_https();
    let client = request.internet_client().map(|client| IpText::of(client.ip()));
    let local = IpText::of(request.server.ip());
    let requested =
        RequestedHost::of(request.host.as_deref(), request.port_at_proxy(), is_https, request.server);
    let is_set = |flag: u8, is: bool| if is { flag } else { 0 };
    let expects = request.received.head.expectation != Expectation::None;
    let length = if has_body { request.body_length().map_or(-1, |length| length as i64) } else { 0 };
    let request_head = WorkerRequestHead {
        flags: is_set(IS_HTTPS, is_https)
            | is_set(HAS_BODY, has_body)
            | is_set(MAY_SWITCH, may_switch)
            | is_set(EXPECTS_CONTINUE, expects),
        version: version(request.protocol),
        client_port: request.internet_client().map_or(0, |client| client.port()),
        server_port: requested.port,
        body_length: length,
        method: request.received.method_text(),
        path: if request.path.is_empty() { &request.encoded_path } else { &request.path },
        raw_path: &request.encoded_path,
        query: request.query.as_deref().unwrap_or_default(),
        server_name: if requested.name.is_empty() { local.as_bytes() } else { requested.name },
        client: client.as_ref().map_or(b"", |client| client.as_bytes()),
        user: request.user.as_deref().unwrap_or_default().as_bytes(),
        id: request.id.as_bytes(),
    };
    request::write(out, &request_head, request.received.fields());
}

fn version(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Http10 => 10,
        Protocol::Http11 => 11,
        Protocol::Http2 => 20,
        Protocol::Http3 => 30,
    }
}

/// The server that the client has requested.
struct RequestedHost<'a> {
    name: &'a [u8],
    port: u16,
}

impl<'a> RequestedHost<'a> {
    fn of(
        host: Option<&'a [u8]>,
        at_proxy: Option<u16>,
        is_https: bool,
        server: SocketAddr,
    ) -> RequestedHost<'a> {
        let (name, port) = split_port(host.unwrap_or_default());
        let usual = if is_https { 443 } else { 80 };
        let port = at_proxy.or(port).unwrap_or(if name.is_empty() { server.port() } else { usual });
        RequestedHost { name, port }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports() {
        for (host, name, port) in [
            ("a.example", "a.example", None),
            ("a.example:8080", "a.example", Some(8080)),
            ("[::1]", "[::1]", None),
            ("[::1]:81", "[::1]", Some(81)),
            ("a:", "a", None),
            ("", "", None),
        ] {
            assert_eq!(split_port(host.as_bytes()), (name.as_bytes(), port), "{host}");
        }
    }
}
