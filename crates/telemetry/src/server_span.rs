//! The span of a client's request, with the attributes of OpenTelemetry's semantic conventions for HTTP
//! (version 1.27 and later, the stable names).
//!
//! Fields that hold secrets are never attributes: `Authorization`, `Cookie` and similar fields are not read
//! at all, and the query only if the configuration requires it.

use std::net::IpAddr;
use std::time::Instant;

use touchstone_handler::request::Protocol;
use touchstone_handler::trace::{RequestTrace, Span, SpanKind, Value, known_method, unix_ns_now};
use touchstone_http::target::{RequestTarget, parse_target};

/// The data of a request that was answered.
#[derive(Debug, Clone, Copy)]
pub struct ServerFacts<'a> {
    /// The version of HTTP.
    pub protocol: Protocol,
    /// The method; empty: the head could not be read.
    pub method: &'a [u8],
    /// The target of the request line.
    pub target: &'a [u8],
    /// The Host field.
    pub host: Option<&'a [u8]>,
    /// Whether the connection has TLS.
    pub is_tls: bool,
    /// The client, behind trusted proxies.
    pub client: Option<IpAddr>,
    /// The User-Agent field.
    pub user_agent: Option<&'a [u8]>,
    /// The site's name; empty: none was reached.
    pub site: &'a str,
    /// What the route matches; empty: none did.
    pub route: &'a str,
    /// What answered.
    pub handler: &'a str,
    /// The result of the cache before it; empty: there is none.
    pub cache: &'a str,
    /// The status.
    pub status: u16,
    /// Bytes of the body that were sent.
    pub body_bytes: u64,
    /// When the request was complete.
    pub started: Instant,
}

/// An attribute of spans: its name, the spans that have it, and what it is.
pub type Attribute = (&'static str, &'static str, &'static str);

/// Every attribute, in the order of the documentation.
pub static ATTRIBUTES: &[Attribute] = &[
    ("http.request.method", "request, origin", "the method; `_OTHER`: one that HTTP does not define"),
    ("http.response.status_code", "request, origin, program", "the status of the answer"),
    ("http.response.body.size", "request", "bytes of the body that were sent"),
    ("http.route", "request", "what the route matches; absent: none did"),
    ("http.request.resend_count", "origin", "which repetition it is, from 1; absent in the first attempt"),
    ("url.scheme", "request", "`http` or `https`"),
    ("url.path", "request", "the path as it was sent, without the query"),
    ("url.query", "request", "the query, with `query = true` alone"),
    ("server.address", "request, origin", "the host of the request, or the host of the origin"),
    ("server.port", "request, origin", "its port"),
    ("client.address", "request", "the client, behind trusted proxies"),
    ("user_agent.original", "request", "the field User-Agent"),
    (
        "network.protocol.version",
        "request, origin",
        "`1.0`, `1.1`, `2` or `3`; absent: no connection was established",
    ),
    (
        "error.type",
        "all",
        "why it failed: a status from 500, `cancelled`, or a word of the [proxy](proxy.md)",
    ),
    ("touchstone.site", "request", "the site's name"),
    ("touchstone.handler", "request", "what answered: `cache`, `files`, `proxy` and so on"),
    (
        "touchstone.cache",
        "request",
        "what the cache before a program or origin did: `hit`, `miss`, `stale`, `revalidated`, `bypass`",
    ),
    ("touchstone.interface", "program", "the interface: `cgi`, `fastcgi`, `servlet` and so on"),
    ("touchstone.connection.reused", "origin", "whether the connection had served other requests"),
    ("touchstone.connection.wait_us", "origin", "microseconds until the connection was established"),
];

/// The table of [`ATTRIBUTES`] for the book.
pub fn attributes_markdown() -> String {
    let row = |(name, spans, what): &Attribute| format!("| `{name}` | {spans} | {what} |\n");
    let rows: String = ATTRIBUTES.iter().map(row).collect();
    format!("| attribute | spans | meaning |\n|---|---|---|\n{rows}")
}

/// Parameters of a query whose values are not shown: those that the conventions name, and what else is a
/// secret by its name.
const SECRET_PARAMETERS: [&str; 12] = [
    "AWSAccessKeyId",
    "Signature",
    "sig",
    "X-Goog-Signature",
    "X-Amz-Signature",
    "X-Amz-Security-Token",
    "X-Amz-Credential",
    "access_token",
    "id_token",
    "token",
    "password",
    "code",
];

/// Records the span of a client's request.
pub fn record(trace: &RequestTrace, facts: &ServerFacts<'_>, has_query: bool) {
    let ended_unix_ns = unix_ns_now();
    let took_ns = u64::try_from(facts.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let method = known_method(facts.method);
    let word = method.unwrap_or("HTTP");
    let name = match (facts.method, facts.route) {
        ([], _) => "HTTP".into(),
        (_, "") => word.into(),
        (_, route) => format!("{word} {route}").into(),
    };
    let is_error = facts.status >= 500;
    trace.sink.take(Span {
        trace_id: trace.trace_id,
        span_id: trace.span_id,
        parent: trace.parent,
        has_remote_parent: trace.parent.is_some(),
        state: trace.state.clone(),
        flags: trace.flags,
        kind: SpanKind::Server,
        name,
        began_unix_ns: ended_unix_ns.saturating_sub(took_ns),
        ended_unix_ns,
        attributes: attributes(facts, method.unwrap_or("_OTHER"), has_query),
        events: Vec::new(),
        link: trace.link,
        is_error,
    });
}

fn attributes(facts: &ServerFacts<'_>, method: &'static str, has_query: bool) -> Vec<(&'static str, Value)> {
    let mut all = Vec::with_capacity(18);
    let scheme = if facts.is_tls { "https" } else { "http" };
    let text = |text: &str| Value::Text(text.into());
    if !facts.method.is_empty() {
        all.push(("http.request.method", text(method)));
        add_target(facts, has_query, &mut all);
        all.push(("url.scheme", text(scheme)));
    }
    all.push(("http.response.status_code", Value::Number(facts.status.into())));
    all.push(("http.response.body.size", Value::number(facts.body_bytes)));
    if let Some(client) = facts.client {
        all.push(("client.address", Value::Text(client.to_canonical().to_string().into())));
    }
    if let Some(agent) = facts.user_agent {
        all.push(("user_agent.original", Value::text(agent)));
    }
    all.push(("network.protocol.version", text(version(facts.protocol))));
    let named = [
        ("http.route", facts.route),
        ("touchstone.site", facts.site),
        ("touchstone.handler", facts.handler),
        ("touchstone.cache", facts.cache),
    ];
    all.extend(named.into_iter().filter(|(_, word)| !word.is_empty()).map(|(name, word)| (name, text(word))));
    if facts.status >= 500 {
        all.push(("error.type", Value::Text(facts.status.to_string().into())));
    }
    all
}

/// The path, the host and its port. Text with another form than that of a target is not shown: it may contain
/// secrets.
fn add_target(facts: &ServerFacts<'_>, has_query: bool, all: &mut Vec<(&'static str, Value)>) {
    let target = parse_target(facts.method == b"CONNECT", facts.method == b"OPTIONS", facts.target);
    let (path, query, authority) = match target {
        Ok(RequestTarget::Origin { path, query }) => (path, query, facts.host),
        Ok(RequestTarget::Absolute { authority, path, query, .. }) => (path, query, Some(authority)),
        Ok(RequestTarget::Asterisk) => (&b"*"[..], None, facts.host),
        Ok(RequestTarget::Authority(_)) | Err(_) => (&b""[..], None, facts.host),
    };
    if !path.is_empty() {
        all.push(("url.path", Value::text(path)));
    }
    if let Some(query) = query.filter(|_| has_query) {
        all.push(("url.query", Value::text(&without_secrets(query))));
    }
    // A host with a name and a password before it is no host.
    let Some(authority) = authority.filter(|host| !host.is_empty() && !host.contains(&b'@')) else { return };
    let (host, port) = host_and_port(authority);
    all.push(("server.address", Value::text(host)));
    let usual = if facts.is_tls { 443 } else { 80 };
    all.push(("server.port", Value::Number(port.unwrap_or(usual).into())));
}

/// The host without the brackets of an IPv6 address, and the port.
fn host_and_port(authority: &[u8]) -> (&[u8], Option<u16>) {
    let (host, port) = touchstone_http::host::split_port(authority);
    let inner = host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]"));
    (inner.unwrap_or(host), port)
}

/// The query without the values of parameters that are secrets.
fn without_secrets(query: &[u8]) -> Vec<u8> {
    let mut shown = Vec::with_capacity(query.len());
    for (position, parameter) in query.split(|byte| *byte == b'&').enumerate() {
        if position > 0 {
            shown.push(b'&');
        }
        let name = parameter.split(|byte| *byte == b'=').next().unwrap_or_default();
        let is_secret = |other: &&str| name.eq_ignore_ascii_case(other.as_bytes());
        if name.len() < parameter.len() && SECRET_PARAMETERS.iter().any(is_secret) {
            shown.extend_from_slice(name);
            shown.extend_from_slice(b"=REDACTED");
        } else {
            shown.extend_from_slice(parameter);
        }
    }
    shown
}

fn version(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Http10 => "1.0",
        Protocol::Http11 => "1.1",
        Protocol::Http2 => "2",
        Protocol::Http3 => "3",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn facts<'a>(method: &'a str, target: &'a str, host: &'a str) -> ServerFacts<'a> {
        ServerFacts {
            protocol: Protocol::Http11,
            method: method.as_bytes(),
            target: target.as_bytes(),
            host: Some(host.as_bytes()),
            is_tls: false,
            client: None,
            user_agent: None,
            site: "a",
            route: "",
            handler: "files",
            cache: "",
            status: 200,
            body_bytes: 3,
            started: Instant::now(),
        }
    }

    fn value(facts: &ServerFacts<'_>, name: &str, has_query: bool) -> Option<String> {
        let all = attributes(facts, known_method(facts.method).unwrap_or("_OTHER"), has_query);
        all.into_iter().find(|(other, _)| *other == name).map(|(_, value)| match value {
            Value::Text(text) => text.to_string(),
            Value::Number(number) => number.to_string(),
            Value::Boolean(boolean) => boolean.to_string(),
        })
    }

    #[test]
    fn paths_and_hosts() {
        let value_of =
            |target, host, name| value(&facts("GET", target, host), name, false).unwrap_or_default();
        assert_eq!(value_of("/a?b=c", "h:81", "url.path"), "/a");
        assert_eq!(value_of("/a?b=c", "h:81", "url.query"), "");
        assert_eq!(value_of("/a", "h:81", "server.address"), "h");
        assert_eq!(value_of("/a", "h:81", "server.port"), "81");
        assert_eq!(value_of("/a", "[::1]:81", "server.address"), "::1");
        assert_eq!(value_of("/a", "h", "server.port"), "80");
        assert_eq!(value_of("http://x:82/a?b", "h", "server.address"), "x");
        assert_eq!(value_of("http://u:secret@x/a", "h", "url.path"), "");
        assert_eq!(value_of("/a", "u:secret@h", "server.address"), "");
        assert_eq!(value(&facts("OPTIONS", "*", "h"), "url.path", false).as_deref(), Some("*"));
    }

    #[test]
    fn queries_are_shown_where_wanted_without_secrets() {
        let query = value(&facts("GET", "/?a=1&Token=x&sig=&sig&b", "h"), "url.query", true).unwrap();
        assert_eq!(query, "a=1&Token=REDACTED&sig=REDACTED&sig&b");
    }

    #[test]
    fn methods_of_clients_make_no_names() {
        assert_eq!(value(&facts("BREW", "/", "h"), "http.request.method", false).unwrap(), "_OTHER");
        let failed = ServerFacts { status: 502, ..facts("GET", "/", "h") };
        assert_eq!(value(&failed, "error.type", false).unwrap(), "502");
    }

    #[test]
    fn every_attribute_is_documented() {
        let facts = ServerFacts {
            status: 500,
            route: "/a",
            cache: "hit",
            client: Some(IpAddr::from([127, 0, 0, 1])),
            user_agent: Some(b"x"),
            ..facts("GET", "/?a", "h")
        };
        let all = attributes(&facts, "GET", true);
        let of_requests =
            ATTRIBUTES.iter().filter(|(_, spans, _)| spans.contains("request") || *spans == "all");
        let documented: Vec<&str> = of_requests.map(|(name, ..)| *name).collect();
        assert_eq!(all.len(), documented.len(), "{all:?}");
        assert!(all.iter().all(|(name, _)| documented.contains(name)), "{all:?}");
    }

    /// The table in the book is that of the code.
    #[test]
    fn the_page_has_every_attribute() {
        let page = include_str!("../../../docs/telemetry.md");
        assert!(page.contains(&attributes_markdown()), "docs/telemetry.md needs\n{}", attributes_markdown());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(target: Vec<u8>, host: Vec<u8>, method: Vec<u8>) {
            let facts = facts("", "", "");
            let facts = ServerFacts { target: &target, host: Some(&host), method: &method, ..facts };
            attributes(&facts, known_method(&method).unwrap_or("_OTHER"), true);
        }

        #[test]
        fn no_user_is_shown(user in "[a-z]{8,20}", scheme in "https?") {
            let target = format!("{scheme}://{user}:{user}@host/path");
            let host = format!("{user}:{user}@host");
            let all = attributes(&facts("GET", &target, &host), "GET", true);
            let shown = format!("{all:?}");
            prop_assert!(!shown.contains(&user), "{}", shown);
        }
    }
}
