//! `proxy`: a route whose requests another server answers.

use std::time::Duration;

use touchstone_interfaces::proxy::{HostField, OriginUrl};

use super::SectionPlaces;
use super::parse::{Reader, Value};
use super::route::RouteConfig;
use super::section::{Choice, Key, Kind, Section};

/// `proxy`
#[derive(Debug, Clone, PartialEq)]
pub struct ProxyConfig {
    /// The URL of the origin.
    pub to: String,
    /// What is left out at the beginning of paths; empty: nothing.
    pub strip_prefix: String,
    /// What `Host` says.
    pub host: HostField,
    /// How long a connection may take to come about.
    pub connect_timeout: Duration,
    /// How long the head of the response may take.
    pub response_timeout: Duration,
    /// How long a body may make no progress.
    pub idle_timeout: Duration,
    /// How long a connection without a request is kept.
    pub keep_alive_timeout: Duration,
    /// How many such connections each core keeps.
    pub idle_connections: usize,
}

const INSTANT: Duration = Duration::from_millis(10);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// `[site.route.proxy]`
pub static PROXY: Section<ProxyConfig> = Section {
    name: "site.route.proxy",
    repeated: false,
    documentation: "Another server that answers, over HTTP/1.1. \
        Bodies stream both ways, and WebSockets pass. The server learns of the client by `X-Forwarded-For`, `X-Real-IP`, \
        `X-Forwarded-Proto` and `X-Forwarded-Host`; what the client itself says in these fields is not passed on.",
    blank: || ProxyConfig {
        to: String::new(),
        strip_prefix: String::new(),
        host: HostField::Client,
        connect_timeout: Duration::ZERO,
        response_timeout: Duration::ZERO,
        idle_timeout: Duration::ZERO,
        keep_alive_timeout: Duration::ZERO,
        idle_connections: 0,
    },
    keys: &[
        Key {
            name: "to",
            default: None,
            example: "\"http://127.0.0.1:3000\"",
            documentation: "Where it is: `http://host:port`, with a path that goes before those of requests if you like, \
                or `unix:/path/of/socket`. A host is looked up for each new connection.",
            kind: Kind::Checked {
                what: "origin, such as \"http://127.0.0.1:3000\" or \"unix:/run/app.sock\"",
                parse: |text, _| OriginUrl::parse(text).map(|_| text.to_string()),
                set: |proxy, value| proxy.to = value,
            },
        },
        Key {
            name: "strip_prefix",
            default: Some("\"\""),
            example: "\"/api\"",
            documentation: "What is left out at the beginning of the path; a request whose path has it not is 400. \
                Empty: the path goes on as it is.",
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
            name: "host",
            default: Some("\"client\""),
            example: "\"origin\"",
            documentation: "What `Host` says to the origin.",
            kind: Kind::Choice(&[
                Choice {
                    word: "client",
                    meaning: "what the client asked for",
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
            name: "connect_timeout",
            default: Some("\"5s\""),
            example: "\"1s\"",
            documentation: "How long a connection may take to come about. Then the answer is 504 Gateway Timeout.",
            kind: Kind::Duration {
                least: INSTANT,
                most: DAY,
                set: |proxy, value| proxy.connect_timeout = value,
            },
        },
        Key {
            name: "response_timeout",
            default: Some("\"60s\""),
            example: "\"10s\"",
            documentation: "How long the origin may take from the end of the request to the head of its response. \
                Then the answer is 504 Gateway Timeout.",
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
            documentation: "How long a body may make no progress on the origin's side before both connections are \
                ended. It does not hold for WebSockets.",
            kind: Kind::Duration {
                least: INSTANT,
                most: DAY,
                set: |proxy, value| proxy.idle_timeout = value,
            },
        },
        Key {
            name: "keep_alive_timeout",
            default: Some("\"60s\""),
            example: "\"10s\"",
            documentation: "How long a connection without a request is kept; less than the origin keeps it, best.",
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
            documentation: "How many connections without a request each core keeps. 0: a new one for each request.",
            kind: Kind::Number {
                least: 0,
                most: 10_000,
                set: |proxy, value| proxy.idle_connections = usize::try_from(value).unwrap_or(usize::MAX),
            },
        },
    ],
};

pub(super) fn read_proxy(
    reader: &mut Reader<'_>,
    value: &Value<'_>,
    route: &mut RouteConfig,
) -> Vec<SectionPlaces> {
    reader.table(&PROXY, value).map_or(Vec::new(), |(config, places)| {
        route.proxy = Some(config);
        vec![places]
    })
}
