//! The header fields of a request: those of the engine, of the plan, and of the request itself.

use crate::plan::{ConnectionUse, Plan, PlannedRequest};
use crate::target::HttpVersion;
use crate::target::Target;
use crate::websocket::handshake_fields;

/// A header field of a request: name and value.
pub(crate) type Field = (String, String);

/// The fields of a request. A field of the plan replaces the engine's field with the same name; a field of
/// the request replaces both.
pub(crate) fn header_fields(
    plan: &Plan,
    request: &PlannedRequest,
    target: &Target,
    connections: ConnectionUse,
) -> Vec<Field> {
    let mut fields = own_fields(plan, target);
    // RFC 9112, section 9.3: HTTP/1.1 keeps a connection by default, HTTP/1.0 closes it by default.
    match (connections, plan.version_of(target)) {
        _ if request.websocket.is_some() => fields.extend(handshake_fields()),
        (ConnectionUse::Kept, HttpVersion::Http10) => fields.push(field("Connection", "keep-alive")),
        (ConnectionUse::New, HttpVersion::Http11) => fields.push(field("Connection", "close")),
        _ => {}
    }
    if let Some(body) = request.body.as_ref().filter(|_| request.websocket.is_none()) {
        fields.push(field("Content-Length", &body.len().to_string()));
    }
    for given in [&plan.headers, &request.headers] {
        replace(&mut fields, given);
    }
    fields
}

/// The first pseudo-header fields of HTTP/2 and 3.
pub(crate) fn pseudo_method_and_scheme(request: &PlannedRequest, target: &Target) -> [Field; 2] {
    let scheme = if target.tls.is_some() { "https" } else { "http" };
    [field(":method", &request.method), field(":scheme", scheme)]
}

pub(crate) fn own_fields(plan: &Plan, target: &Target) -> Vec<Field> {
    if !plan.usual_fields {
        return Vec::new();
    }
    vec![
        field("Host", &target.host),
        field("User-Agent", concat!("touchstone-load/", env!("CARGO_PKG_VERSION"))),
        field("Accept", "*/*"),
    ]
}

pub(crate) fn field(name: &str, value: &str) -> Field {
    (name.to_string(), value.to_string())
}

/// Adds fields, `name: value`, and replaces fields with the same names.
pub(crate) fn replace(fields: &mut Vec<Field>, given: &[String]) {
    let given: Vec<(&str, &str)> = given.iter().filter_map(|header| header.split_once(':')).collect();
    fields.retain(|(name, _)| !given.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)));
    fields.extend(given.iter().map(|(name, value)| field(name, value.trim_matches([' ', '\t']))));
}
