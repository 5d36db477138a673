//! Makes the packet of a request from the client's fields and from the server's own data about the request.
//!
//! Fields stay fields: a name that a client has chosen never becomes an attribute, because containers trust
//! attributes. Fields of the client's connection are not passed on (RFC 9110 section 7.6.1). The length of
//! the body is sent once or, if it is not known, not at all: then the container requests pieces until there
//! are no more.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use touchstone_handler::request::{Request, TlsFacts};
use touchstone_http::grammar::list_members;

use super::code::{attribute, attribute_name};
use super::settings::Settings;
use super::writer::{RequestLine, RequestWriter};
use crate::meta_variables::RequestFacts;

/// Fields that are not passed on: those of one connection, and those that are sent in another form.
const LEFT_OUT: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The packet of a request without the parts that differ between containers.
pub fn begin(request: &Request, uri: &[u8], settings: &Settings) -> RequestWriter {
    let facts = RequestFacts::of(request);
    let address = |ip: IpAddr| ip.to_canonical().to_string();
    let client = request.internet_client().map(|client| address(client.ip()));
    let server_address = address(request.server.ip());
    let server_name =
        if facts.server_name.is_empty() { server_address.as_bytes() } else { facts.server_name };
    let mut writer = RequestWriter::new(&RequestLine {
        method: facts.method,
        protocol: facts.protocol,
        uri,
        client: client.as_deref(),
        server_name,
        // If the kernel has chosen the port and the client does not name one, the port of the scheme is sent.
        server_port: match facts.server_port.unwrap_or(request.server.port()) {
            0 if facts.is_https => 443,
            0 => 80,
            port => port,
        },
        is_tls: facts.is_https,
    });
    add_fields(request, settings, &mut writer);
    for (number, value) in
        [(attribute::REMOTE_USER, facts.remote_user), (attribute::AUTH_TYPE, facts.auth_type)]
    {
        if let Some(value) = value {
            writer.attribute(number, value.as_bytes());
        }
    }
    if let Some(query) = facts.query {
        writer.attribute(attribute::QUERY_STRING, query);
    }
    if let Some(tls) = &request.tls {
        add_tls(tls, &mut writer);
    }
    // The port is 0 if another server has reported the client's address.
    if let Some(client) = request.internet_client().filter(|client| client.port() != 0) {
        writer.named_attribute(attribute_name::REMOTE_PORT, client.port().to_string().as_bytes());
    }
    if !request.server.ip().is_unspecified() {
        writer.named_attribute(attribute_name::LOCAL_ADDRESS, server_address.as_bytes());
    }
    for (name, value) in &settings.attributes {
        writer.named_attribute(name, value.as_bytes());
    }
    if !settings.secret.is_empty() {
        writer.attribute(attribute::SECRET, settings.secret.as_bytes());
    }
    writer
}

fn add_fields(request: &Request, settings: &Settings, writer: &mut RequestWriter) {
    let head = &request.received;
    let connection: Vec<&[u8]> = head.values("connection").flat_map(list_members).collect();
    let is_passed_on = |name: &[u8]| {
        let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
        !LEFT_OUT.iter().any(|other| is(other.as_bytes()))
            && !connection.iter().any(|other| is(other))
            && (settings.pass_authorization || !is(b"authorization"))
    };
    for (name, value) in head.fields().filter(|(name, _)| is_passed_on(name)) {
        writer.field(name, value);
    }
    let is_declared = || head.values("content-length").next().is_some();
    if let Some(length) = request.body_length().filter(|length| *length > 0 || is_declared()) {
        writer.field(b"content-length", length.to_string().as_bytes());
    }
}

fn add_tls(tls: &TlsFacts, writer: &mut RequestWriter) {
    if let Some(certificate) = tls.client_certificates.first() {
        writer.certificate(&pem(certificate));
    }
    if !tls.cipher_suite.is_empty() {
        writer.attribute(attribute::TLS_CIPHER, tls.cipher_suite.as_bytes());
    }
    if let Some(bits) = tls.key_bits() {
        writer.key_size(bits);
    }
    if !tls.version.is_empty() {
        writer.named_attribute(attribute_name::TLS_PROTOCOL, tls.version.as_bytes());
    }
}

/// RFC 7468.
fn pem(der: &[u8]) -> String {
    const LINE: usize = 64;
    let text = STANDARD.encode(der);
    let mut pem = String::with_capacity(text.len() + text.len() / LINE + 64);
    pem.push_str("-----BEGIN CERTIFICATE-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, behind) = rest.split_at(rest.len().min(LINE));
        pem.push_str(line);
        pem.push('\n');
        rest = behind;
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_lines_of_64_characters() {
        let text = pem(&[0xfb; 100]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.iter().map(|line| line.len()).collect::<Vec<_>>(), [27, 64, 64, 8, 25]);
        assert_eq!(STANDARD.decode(lines[1..4].concat()).unwrap(), [0xfb; 100]);
    }
}
