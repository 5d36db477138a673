//! `proxy`: a route whose requests another server answers.

pub mod tables;

use std::collections::BTreeMap;
use std::time::Duration;

use touchstone_config_section::values::DAY;
use touchstone_config_section::{ABSENT, Choice, Key, Kind, Section, as_usize};
use touchstone_proxy::{Balance, HashBy, HostField, OriginSpec, ProxyHeader, TlsSettings, Version};

use tables::{ProxyCheckConfig, ProxyForwardConfig, ProxyHealthConfig, ProxyRetryConfig};

/// `proxy`
#[derive(Debug, Clone, PartialEq)]
pub struct ProxyConfig {
    /// The origins, with their weights.
    pub to: Vec<String>,
    /// How requests are distributed to them.
    pub balance: Balance,
    /// The value that chooses the origin, with `balance = "hash"`.
    pub hash_by: String,
    /// The cookie of a session.
    pub session_cookie: String,
    /// The parameter of a path with a session.
    pub session_parameter: String,
    /// The beginning of paths that is left out; empty: nothing.
    pub strip_prefix: String,
    /// The path that origins get, with variables; empty: that of the request.
    pub path: String,
    /// The origin's own address in `Location` becomes a path of the route.
    pub rewrite_location: bool,
    /// Beginnings of addresses in `Location`, and what stands in their place.
    pub location_prefixes: BTreeMap<String, String>,
    /// Beginnings of the paths of cookies, and what stands in their place.
    pub cookie_paths: BTreeMap<String, String>,
    /// Domains of cookies, and what stands in their place.
    pub cookie_domains: BTreeMap<String, String>,
    /// The value of `Host`.
    pub host: HostField,
    /// The versions of HTTP.
    pub version: Version,
    /// How long the look-up of a host may take.
    pub resolve_timeout: Duration,
    /// How long it may take to connect.
    pub connect_timeout: Duration,
    /// How long the TLS handshake may take.
    pub handshake_timeout: Duration,
    /// How long a request may make no progress.
    pub send_timeout: Duration,
    /// How long the head of the response may take.
    pub response_timeout: Duration,
    /// How long a body may make no progress.
    pub idle_timeout: Duration,
    /// How long all of it may take; zero: any time.
    pub total_timeout: Duration,
    /// How long a tunnel may be silent.
    pub tunnel_timeout: Duration,
    /// How long a connection without a request is kept.
    pub keep_alive_timeout: Duration,
    /// How many such connections each core keeps.
    pub idle_connections: usize,
    /// How many requests a connection serves; 0: any number.
    pub connection_requests: u64,
    /// The most connections; 0: any number.
    pub connections: usize,
    /// How many requests wait for a connection.
    pub queue: usize,
    /// How long a request may wait for a connection.
    pub queue_timeout: Duration,
    /// How many requests may be active; 0: any number.
    pub requests: u64,
    /// How old the addresses of a host may become.
    pub resolve_interval: Duration,
    /// The PROXY header at the start of connections.
    pub proxy_protocol: Option<ProxyHeader>,
    /// How many bytes of a body are received before the request is sent on.
    pub buffer_request: u64,
    /// The longest head of a response.
    pub header_bytes: u64,
    /// The most fields of a response.
    pub header_fields: u64,
    /// The settings of TLS.
    pub tls: TlsSettings,
    /// The checks of origins.
    pub check: Option<ProxyCheckConfig>,
    /// When an origin gets no requests.
    pub health: ProxyHealthConfig,
    /// When a request is sent again.
    pub retry: ProxyRetryConfig,
    /// The fields that tell origins about the client.
    pub forward: ProxyForwardConfig,
}

impl ProxyConfig {
    /// Whether fields of answers are changed.
    pub fn rewrites_answers(&self) -> bool {
        self.rewrite_location
            || !(self.location_prefixes.is_empty()
                && self.cookie_paths.is_empty()
                && self.cookie_domains.is_empty())
    }

    /// The parsed origins; wrong ones have been refused before.
    pub fn origins(&self) -> Vec<OriginSpec> {
        self.to.iter().filter_map(|text| OriginSpec::parse(text).ok()).collect()
    }
}

const ZERO: Duration = Duration::ZERO;
const INSTANT: Duration = Duration::from_millis(10);
const MOST_COUNT: u64 = 1_000_000;

/// Whether both are beginnings of addresses: a path, or a URL.
fn check_addresses(from: &str, to: &str) -> Result<(), String> {
    let is_address = |text: &str| {
        (text.starts_with('/') || text.starts_with("http://") || text.starts_with("https://"))
            && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    match [from, to].into_iter().find(|text| !is_address(text)) {
        Some(text) => Err(format!("{text:?} must begin with a slash, 'http://' or 'https://'")),
        None => Ok(()),
    }
}

/// Whether both are paths of cookies.
fn check_paths(from: &str, to: &str) -> Result<(), String> {
    let is_path =
        |text: &str| text.starts_with('/') && text.bytes().all(|b| b.is_ascii_graphic() && b != b';');
    match [from, to].into_iter().find(|text| !is_path(text)) {
        Some(text) => Err(format!("{text:?} must begin with a slash, and hold no semicolon")),
        None => Ok(()),
    }
}

/// Whether both are domains; the second may be empty.
fn check_domains(from: &str, to: &str) -> Result<(), String> {
    let is_domain = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte))
    };
    match (is_domain(from), to.is_empty() || is_domain(to)) {
        (true, true) => Ok(()),
        (false, _) => Err(format!("{from:?} is not a domain, such as \"app.internal\"")),
        (_, false) => Err(format!("{to:?} is not a domain, such as \"example.org\"")),
    }
}

/// `[site.route.proxy]`
pub static PROXY: Section<ProxyConfig> = Section {
    name: "site.route.proxy",
    repeated: false,
    documentation: "Another server answers, or one of several with the same content: see [reverse \
        proxy](proxy.md). Bodies stream both ways, and WebSockets and gRPC pass.",
    blank: || ProxyConfig {
        to: Vec::new(),
        balance: Balance::LeastRequests,
        hash_by: String::new(),
        session_cookie: String::new(),
        session_parameter: String::new(),
        strip_prefix: String::new(),
        path: String::new(),
        rewrite_location: false,
        location_prefixes: BTreeMap::new(),
        cookie_paths: BTreeMap::new(),
        cookie_domains: BTreeMap::new(),
        host: HostField::Client,
        version: Version::Http11,
        resolve_timeout: ZERO,
        connect_timeout: ZERO,
        handshake_timeout: ZERO,
        send_timeout: ZERO,
        response_timeout: ZERO,
        idle_timeout: ZERO,
        total_timeout: ZERO,
        tunnel_timeout: ZERO,
        keep_alive_timeout: ZERO,
        idle_connections: 0,
        connection_requests: 0,
        connections: 0,
        queue: 0,
        queue_timeout: ZERO,
        requests: 0,
        resolve_interval: ZERO,
        proxy_protocol: None,
        buffer_request: 0,
        header_bytes: 0,
        header_fields: 0,
        tls: tables::TLS.defaults(),
        check: None,
        health: tables::HEALTH.defaults(),
        retry: tables::RETRY.defaults(),
        forward: tables::FORWARD.defaults(),
    },
    keys: &[
        Key {
            name: "to",
            default: None,
            example: "\"http://127.0.0.1:3000\"",
            documentation: "The origin: `http://host:port` or `https://host:port`, optionally with a path \
                that is put before the paths of requests, or `unix:/path/of/socket`. An array names several, \
                which must do the same. After each URL may follow `weight=N`, for more of the requests (1 to \
                10000), `backup`, for requests only if no other origin is available, or `drain`, for no new \
                requests. `route=NAME` is the ending of the identifiers of its sessions, after a dot (a \
                servlet container's jvmRoute): their requests go to this origin as long as it is \
                available.",
            kind: Kind::CheckedOneOrMore {
                what: "origin such as `\"http://127.0.0.1:3000\"`, or array of origins",
                parse: |text| OriginSpec::parse(text).map(|_| text.to_string()),
                set: |proxy, value| proxy.to = value,
            },
        },
        Key {
            name: "balance",
            default: Some("\"least_requests\""),
            example: "\"hash\"",
            documentation: "How requests are distributed to several origins.",
            kind: Kind::Choice(&[
                Choice {
                    word: "least_requests",
                    meaning: "to the one of two, drawn by weight, that has fewer active requests",
                    set: |proxy| proxy.balance = Balance::LeastRequests,
                },
                Choice {
                    word: "round_robin",
                    meaning: "in turns, by weight",
                    set: |proxy| proxy.balance = Balance::RoundRobin,
                },
                Choice {
                    word: "hash",
                    meaning: "requests with the same `hash_by` go to the same origin",
                    set: |proxy| proxy.balance = Balance::Hash(HashBy::Path),
                },
            ]),
        },
        Key {
            name: "hash_by",
            default: Some("\"path\""),
            example: "\"cookie:session\"",
            documentation: "The value that chooses the origin with `balance = \"hash\"`: `path`, `client` \
                (its address), `field:NAME` (a header field) or `cookie:NAME`. A request without it goes to \
                the origin with fewer active requests.",
            kind: Kind::Checked {
                what: "`\"path\"`, `\"client\"`, `\"field:NAME\"` or `\"cookie:NAME\"`",
                parse: |text, _| HashBy::parse(text).map(|_| text.to_string()),
                set: |proxy, value| proxy.hash_by = value,
            },
        },
        Key {
            name: "session_cookie",
            default: Some("\"JSESSIONID\""),
            example: "\"SHOPSESSION\"",
            documentation: "The name of the cookie with a session's identifier, if origins have a \
                `route=`.",
            kind: Kind::Token(|proxy, value| proxy.session_cookie = value),
        },
        Key {
            name: "session_parameter",
            default: Some("\"jsessionid\""),
            example: "\"sid\"",
            documentation: "The name of the parameter of a path with a session's identifier, for clients \
                without cookies: `/shop/cart;jsessionid=1F2E.a`.",
            kind: Kind::Token(|proxy, value| proxy.session_parameter = value),
        },
        Key {
            name: "strip_prefix",
            default: Some("\"\""),
            example: "\"/api\"",
            documentation: "The beginning of the path that is left out; a request whose path does not begin \
                with it is answered with 400. Empty: the path is passed on unchanged.",
            kind: Kind::Checked {
                what: "beginning of paths",
                parse: |text, _| match text {
                    "" => Ok(String::new()),
                    _ if text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic()) => {
                        Ok(text.to_string())
                    }
                    _ => Err(format!("{text:?} must begin with a slash, and is written as in a URL")),
                },
                set: |proxy, value| proxy.strip_prefix = value,
            },
        },
        Key {
            name: "path",
            default: Some("\"\""),
            example: "\"/api/v2/$1\"",
            documentation: "The path that the origin gets, below the path in `to`, with the \
                [variables](routes.md#variables) of `rewrite.to`: `$1` is the rest of the path after the \
                route's `path`. With a `?` it replaces the query, otherwise the query is passed on. Values \
                are percent-encoded; a request is answered with 400 if its path would get dot segments. Not \
                together with `strip_prefix`. Empty: the path is passed on unchanged.",
            kind: Kind::Checked {
                what: "path with variables",
                parse: |text, _| match text.is_empty() || text.starts_with(['/', '$']) {
                    true => Ok(text.to_string()),
                    false => Err(format!("{text:?} must begin with a slash")),
                },
                set: |proxy, value| proxy.path = value,
            },
        },
        Key {
            name: "rewrite_location",
            default: Some("false"),
            example: "true",
            documentation: "Whether the origin's own address in `Location`, `Content-Location` and `Refresh` \
                becomes a path of the route: with `to = \"http://127.0.0.1:3000\"` and `strip_prefix = \
                \"/shop\"`, `http://127.0.0.1:3000/cart` becomes `/shop/cart`.",
            kind: Kind::Boolean(|proxy, value| proxy.rewrite_location = value),
        },
        Key {
            name: "location_prefixes",
            default: Some("{}"),
            example: "{ \"/\" = \"/shop/\" }",
            documentation: "Prefixes of the origin's values of `Location`, `Content-Location` and `Refresh`, \
                with their replacements. The longest that fits counts.",
            kind: Kind::Pairs {
                what: "table from beginnings of addresses to others",
                check: check_addresses,
                set: |proxy, value| proxy.location_prefixes = value,
            },
        },
        Key {
            name: "cookie_paths",
            default: Some("{}"),
            example: "{ \"/\" = \"/shop/\" }",
            documentation: "Prefixes of `Path` in cookies that the origin sets, with their replacements. The \
                longest that fits counts.",
            kind: Kind::Pairs {
                what: "table from beginnings of paths to others",
                check: check_paths,
                set: |proxy, value| proxy.cookie_paths = value,
            },
        },
        Key {
            name: "cookie_domains",
            default: Some("{}"),
            example: "{ \"app.internal\" = \"example.org\" }",
            documentation: "Values of `Domain` in cookies that the origin sets, with their replacements. An \
                empty value removes it, so that the cookie belongs to the host alone.",
            kind: Kind::Pairs {
                what: "table from domains to others",
                check: check_domains,
                set: |proxy, value| proxy.cookie_domains = value,
            },
        },
        Key {
            name: "host",
            default: Some("\"client\""),
            example: "\"origin\"",
            documentation: "The value of `Host` for the origin.",
            kind: Kind::Choice(&[
                Choice {
                    word: "client",
                    meaning: "the host that the client requested",
                    set: |proxy| proxy.host = HostField::Client,
                },
                Choice {
                    word: "origin",
                    meaning: "the host of `to`",
                    set: |proxy| proxy.host = HostField::Origin,
                },
            ]),
        },
        Key {
            name: "version",
            default: Some("\"1.1\""),
            example: "\"2\"",
            documentation: "The version of HTTP for the origin. A WebSocket always uses HTTP/1.1, over TCP.",
            kind: Kind::Choice(&[
                Choice {
                    word: "1.1",
                    meaning: "HTTP/1.1: one request at a time on each connection",
                    set: |proxy| proxy.version = Version::Http11,
                },
                Choice {
                    word: "2",
                    meaning: "HTTP/2, with TLS or without (\"prior knowledge\", h2c); gRPC needs it or \
                        HTTP/3",
                    set: |proxy| proxy.version = Version::Http2,
                },
                Choice {
                    word: "3",
                    meaning: "HTTP/3, over UDP to the port of an origin with `https://`",
                    set: |proxy| proxy.version = Version::Http3,
                },
                Choice {
                    word: "auto",
                    meaning: "HTTP/2 if an origin with `https://` agrees to it, otherwise HTTP/1.1",
                    set: |proxy| proxy.version = Version::Negotiated,
                },
            ]),
        },
        Key {
            name: "resolve_timeout",
            default: Some("\"5s\""),
            example: "\"1s\"",
            documentation: "How long the look-up of a host may take.",
            kind: Kind::Duration {
                least: INSTANT,
                most: DAY,
                set: |proxy, value| proxy.resolve_timeout = value,
            },
        },
        Key {
            name: "connect_timeout",
            default: Some("\"5s\""),
            example: "\"1s\"",
            documentation: "How long it may take to connect, or with HTTP/3 until the first answer; if a \
                host has several addresses, each is tried for its share of the time.",
            kind: Kind::Duration {
                least: INSTANT,
                most: DAY,
                set: |proxy, value| proxy.connect_timeout = value,
            },
        },
        Key {
            name: "handshake_timeout",
            default: Some("\"5s\""),
            example: "\"2s\"",
            documentation: "How long the handshakes of TLS, and of HTTP/2 and HTTP/3, may take.",
            kind: Kind::Duration {
                least: INSTANT,
                most: DAY,
                set: |proxy, value| proxy.handshake_timeout = value,
            },
        },
        Key {
            name: "send_timeout",
            default: Some("\"30s\""),
            example: "\"10s\"",
            documentation: "The maximum time without progress while a request is sent to the origin.",
            kind: Kind::Duration {
                least: INSTANT,
                most: DAY,
                set: |proxy, value| proxy.send_timeout = value,
            },
        },
        Key {
            name: "response_timeout",
            default: Some("\"60s\""),
            example: "\"10s\"",
            documentation: "How long the origin may take from the end of the request to the head of its \
                response.",
            kind: Kind::Duration {
                least: INSTANT,
                most: DAY,
                set: |proxy, value| proxy.response_timeout = value,
            },
        },
        Key {
            name: "idle_timeout",
            default: Some("\"60s\""),
            example: "\"5m\"",
            documentation: "How long a body may make no progress on the origin's side before both \
                connections are closed. It does not apply to WebSockets.",
            kind: Kind::Duration {
                least: INSTANT,
                most: DAY,
                set: |proxy, value| proxy.idle_timeout = value,
            },
        },
        Key {
            name: "total_timeout",
            default: Some("\"0s\""),
            example: "\"2m\"",
            documentation: "How long all attempts together and the whole response may take; it does not \
                apply to WebSockets. `\"0s\"`: any time, as long as there is progress.",
            kind: Kind::Duration { least: ZERO, most: DAY, set: |proxy, value| proxy.total_timeout = value },
        },
        Key {
            name: "tunnel_timeout",
            default: Some("\"1h\""),
            example: "\"10m\"",
            documentation: "How long both sides of a WebSocket, or of another protocol after a switch, may \
                be silent before the connection is closed.",
            kind: Kind::Duration {
                least: INSTANT,
                most: DAY,
                set: |proxy, value| proxy.tunnel_timeout = value,
            },
        },
        Key {
            name: "keep_alive_timeout",
            default: Some("\"60s\""),
            example: "\"10s\"",
            documentation: "How long a connection without a request is kept; it should be less than the \
                origin keeps it.",
            kind: Kind::Duration {
                least: INSTANT,
                most: DAY,
                set: |proxy, value| proxy.keep_alive_timeout = value,
            },
        },
        Key {
            name: "idle_connections",
            default: Some("64"),
            example: "16",
            documentation: "How many connections without a request are kept for each core for longer than a \
                second, to each origin; a core that has none takes another's. 0: a new one for each request.",
            kind: Kind::Number {
                least: 0,
                most: 10_000,
                set: |proxy, value| proxy.idle_connections = as_usize(value),
            },
        },
        Key {
            name: "connection_requests",
            default: Some("0"),
            example: "1000",
            documentation: "After how many requests a connection is closed. 0: never.",
            kind: Kind::Number {
                least: 0,
                most: u64::MAX >> 1,
                set: |proxy, value| proxy.connection_requests = value,
            },
        },
        Key {
            name: "connections",
            default: Some("0"),
            example: "100",
            documentation: "The most connections to each origin, of all cores; further requests wait. 0: any \
                number.",
            kind: Kind::Number {
                least: 0,
                most: MOST_COUNT,
                set: |proxy, value| proxy.connections = as_usize(value),
            },
        },
        Key {
            name: "queue",
            default: Some("1024"),
            example: "0",
            documentation: "How many requests may wait for a connection to each origin; others go to another \
                origin, or are answered with 503 Service Unavailable.",
            kind: Kind::Number {
                least: 0,
                most: MOST_COUNT,
                set: |proxy, value| proxy.queue = as_usize(value),
            },
        },
        Key {
            name: "queue_timeout",
            default: Some("\"10s\""),
            example: "\"1s\"",
            documentation: "How long a request may wait for a connection. After that it goes to another \
                origin, or is answered with 503.",
            kind: Kind::Duration {
                least: INSTANT,
                most: DAY,
                set: |proxy, value| proxy.queue_timeout = value,
            },
        },
        Key {
            name: "requests",
            default: Some("0"),
            example: "500",
            documentation: "How many requests to each origin may be active; others go to another origin, \
                or are answered with 503 at once. 0: any number.",
            kind: Kind::Number { least: 0, most: MOST_COUNT, set: |proxy, value| proxy.requests = value },
        },
        Key {
            name: "resolve_interval",
            default: Some("\"30s\""),
            example: "\"5s\"",
            documentation: "How old the addresses of a host may become before it is looked up again; \
                meanwhile, and if the look-up fails, the known ones are used. Persistent connections to \
                addresses that the host no longer has are closed.",
            kind: Kind::Duration {
                least: INSTANT,
                most: DAY,
                set: |proxy, value| proxy.resolve_interval = value,
            },
        },
        Key {
            name: "proxy_protocol",
            default: Some("\"off\""),
            example: "\"v2\"",
            documentation: "Whether each connection begins with a PROXY header, which names the client. Such \
                a connection serves one request; it needs HTTP/1.1.",
            kind: Kind::Choice(&[
                Choice { word: "off", meaning: "without one", set: |proxy| proxy.proxy_protocol = None },
                Choice {
                    word: "v1",
                    meaning: "with a line of text",
                    set: |proxy| proxy.proxy_protocol = Some(ProxyHeader::Version1),
                },
                Choice {
                    word: "v2",
                    meaning: "with a binary one",
                    set: |proxy| proxy.proxy_protocol = Some(ProxyHeader::Version2),
                },
            ]),
        },
        Key {
            name: "buffer_request",
            default: Some("0"),
            example: "\"1MiB\"",
            documentation: "A request's body is received up to this length before an origin gets the \
                request, so that slow clients do not keep the origin busy; a longer body streams. A body \
                received in full can be sent again. 0: bodies stream from the beginning.",
            kind: Kind::Size { least: 0, most: 1 << 30, set: |proxy, value| proxy.buffer_request = value },
        },
        Key {
            name: "header_bytes",
            default: Some("\"64KiB\""),
            example: "\"16KiB\"",
            documentation: "The longest head of a response. A longer one is answered with 502.",
            kind: Kind::Size { least: 1024, most: 16 << 20, set: |proxy, value| proxy.header_bytes = value },
        },
        Key {
            name: "header_fields",
            default: Some("256"),
            example: "100",
            documentation: "How many fields it may have.",
            kind: Kind::Number { least: 1, most: 10_000, set: |proxy, value| proxy.header_fields = value },
        },
        Key {
            name: "tls",
            default: Some(ABSENT),
            example: "{ authorities = \"tls/origins.pem\" }",
            documentation: "The settings of TLS, see `[site.route.proxy.tls]`.",
            kind: Kind::Table { read: tables::read_tls },
        },
        Key {
            name: "check",
            default: Some(ABSENT),
            example: "{ path = \"/health\" }",
            documentation: "Checks of origins, see `[site.route.proxy.check]`.",
            kind: Kind::Table { read: tables::read_check },
        },
        Key {
            name: "health",
            default: Some(ABSENT),
            example: "{ max_failures = 1 }",
            documentation: "When an origin gets no requests, see `[site.route.proxy.health]`.",
            kind: Kind::Table { read: tables::read_health },
        },
        Key {
            name: "retry",
            default: Some(ABSENT),
            example: "{ attempts = 1 }",
            documentation: "When a failed request is sent again, see `[site.route.proxy.retry]`.",
            kind: Kind::Table { read: tables::read_retry },
        },
        Key {
            name: "forward",
            default: Some(ABSENT),
            example: "{ x_forwarded = \"append\" }",
            documentation: "The fields of requests about the client, see `[site.route.proxy.forward]`.",
            kind: Kind::Table { read: tables::read_forward },
        },
    ],
};
