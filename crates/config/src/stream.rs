//! `[[stream]]`: connections and datagrams that are passed on to other servers as they are.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use touchstone_config_section::values::{DAY, HOUR, MIB};
use touchstone_config_section::{
    ABSENT, Choice, Key, Kind, ListenAddress, Place, Section, SectionPlaces, as_usize,
};
use touchstone_proxy::{OriginSpec, ProxyHeader, Role, TlsSettings, Traffic};

use super::config_reader::ConfigReader;
use super::socket_file::{self, HasSocketFile, SocketFile};
use super::{Config, LogDestination, Network};
use touchstone_config_interfaces::proxy::tables::{self, ProxyHealthConfig};

const ZERO: Duration = Duration::ZERO;
const INSTANT: Duration = Duration::from_millis(10);
const MOST_COUNT: u64 = 16_777_216;

/// The largest datagram of UDP over IPv4.
const MOST_DATAGRAM_BYTES: u64 = 65_507;

/// `[[stream]]`
#[derive(Debug, Clone, PartialEq)]
pub struct StreamConfig {
    /// Its name in logs and metrics.
    pub name: String,
    /// Addresses to listen on.
    pub listen: Vec<ListenAddress>,
    /// The files of the unix sockets among them.
    pub socket_file: SocketFile,
    /// Datagrams instead of connections.
    pub is_udp: bool,
    /// The origins of what no route is for, with their weights.
    pub to: Vec<String>,
    /// How connections are distributed to origins.
    pub balance: StreamBalance,
    /// Where TLS ends.
    pub ends_tls: bool,
    /// The certificate.
    pub certificate: StreamCertificate,
    /// Its key; none: in the same file.
    pub key: Option<PathBuf>,
    /// Application protocols that are offered to clients where TLS ends here.
    pub alpn: Vec<String>,
    /// Application protocols that are offered to origins with TLS.
    pub origin_alpn: Vec<String>,
    /// The messages before TLS begins.
    pub is_postgresql: bool,
    /// The PROXY header for origins.
    pub proxy_protocol: Option<ProxyHeader>,
    /// The addresses whose connections begin with a PROXY header.
    pub proxy_protocol_from: Vec<Network>,
    /// Networks that are admitted; empty: all.
    pub allow: Vec<Network>,
    /// Networks that are refused.
    pub deny: Vec<Network>,
    /// The most connections or sessions; 0: any number.
    pub connections: u64,
    /// The same for each client.
    pub connections_per_client: u64,
    /// The most new connections in a second; 0: any number.
    pub rate: u64,
    /// The same for each client.
    pub rate_per_client: u64,
    /// How many of them at the same time.
    pub burst: u64,
    /// The most connections to each origin; 0: any number.
    pub origin_connections: u64,
    /// How long the first bytes may take: the PROXY header, the ClientHello, the TLS handshake.
    pub hello_timeout: Duration,
    /// The most bytes of a ClientHello.
    pub hello_bytes: usize,
    /// How long it may take to connect to an origin.
    pub connect_timeout: Duration,
    /// How long a connection may be idle in both directions.
    pub idle_timeout: Duration,
    /// The longest time of a connection; zero: any.
    pub total_timeout: Duration,
    /// How long connections continue after an upgrade or a stop; zero: the time of `server.drain_timeout`.
    pub drain_timeout: Duration,
    /// How many other origins are tried.
    pub attempts: u64,
    /// Bytes that wait in each direction.
    pub buffer_bytes: usize,
    /// How many datagrams an origin answers to each one; 0: any number.
    pub replies: u64,
    /// How long a client may send and get no datagram.
    pub session_timeout: Duration,
    /// The largest datagram.
    pub datagram_bytes: usize,
    /// How old the addresses of a host may become.
    pub resolve_interval: Duration,
    /// The destination of the lines of connections.
    pub access_log: LogDestination,
    /// Each line is a JSON object.
    pub log_is_json: bool,
    /// The settings of TLS to origins.
    pub origin_tls: TlsSettings,
    /// Checks of origins.
    pub check: Option<StreamCheckConfig>,
    /// When an origin gets no connections.
    pub health: ProxyHealthConfig,
    /// The targets of connections by their ClientHello.
    pub routes: Vec<StreamRouteConfig>,
}

/// How connections are distributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamBalance {
    /// To the origin with the fewest connections.
    LeastConnections,
    /// In turns.
    RoundRobin,
    /// By the client's address.
    Hash,
}

/// The source of the certificate of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum StreamCertificate {
    /// None.
    #[default]
    None,
    /// A PEM file.
    File(PathBuf),
    /// Those of the sites.
    OfSites,
}

/// `[stream.check]`
#[derive(Debug, Clone, PartialEq)]
pub struct StreamCheckConfig {
    /// How often.
    pub interval: Duration,
    /// How long it may take.
    pub timeout: Duration,
    /// How many good ones bring an origin back.
    pub rise: u64,
    /// How many bad ones take an origin out.
    pub fall: u64,
}

/// `[[stream.route]]`
#[derive(Debug, Clone, PartialEq)]
pub struct StreamRouteConfig {
    /// Names that clients request; empty: any.
    pub names: Vec<String>,
    /// Application protocols, one of which clients offer; empty: any.
    pub alpn: Vec<String>,
    /// The origins.
    pub to: Vec<String>,
    /// Where TLS ends; `None`: the setting of the stream.
    pub ends_tls: Option<bool>,
}

impl StreamConfig {
    /// What is sent to its origins.
    pub fn traffic(&self) -> Traffic {
        if self.is_udp { Traffic::Datagrams } else { Traffic::Bytes }
    }

    /// Whether TLS of any connection ends here.
    pub fn any_ends_tls(&self) -> bool {
        self.ends_tls || self.routes.iter().any(|route| route.ends_tls == Some(true))
    }

    /// The parsed origins; wrong ones have been refused before.
    pub fn origins(&self, to: &[String]) -> Vec<OriginSpec> {
        to.iter().filter_map(|text| OriginSpec::parse_stream(text, self.traffic()).ok()).collect()
    }

    /// Whether TLS is used with any of its origins.
    pub fn has_tls_origin(&self) -> bool {
        let mut groups = self.routes.iter().map(|route| &route.to).chain([&self.to]);
        groups.any(|to| self.origins(to).iter().any(|origin| origin.url.is_tls))
    }

    /// What it passes on, in logs and metrics: `tcp` or `udp`.
    pub fn protocol(&self) -> &'static str {
        if self.is_udp { "udp" } else { "tcp" }
    }
}

/// An origin of either kind, as it is written; the whole stream decides which kind is valid.
fn parse_origin(text: &str) -> Result<String, String> {
    OriginSpec::parse_stream(text, Traffic::Bytes).map(|_| text.to_string())
}

fn parse_protocol(text: &str) -> Result<String, String> {
    match (1..=255).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(text.to_string()),
        false => Err(format!("{text:?} is not an application protocol, such as \"imap\"")),
    }
}

const TO: &str = "The target of connections: `host:port`, `tls://host:port` (the server uses TLS with the \
    origin) or `unix:/path/of/socket`. An array names several, which must serve the same data. After each \
    may follow `weight=N` (1 to 10000), `backup`, for connections only if no other origin is available, or \
    `drain`, for no new connections.";

/// `[[stream]]`
pub static STREAM: Section<StreamConfig> = Section {
    name: "stream",
    repeated: true,
    documentation: "Connections or datagrams of any protocol, which are forwarded to another server or to \
        one of several equal ones: a database, a mail server, DNS. See [streams](stream.md).",
    blank: || StreamConfig {
        name: String::new(),
        listen: Vec::new(),
        socket_file: SocketFile { mode: 0, user: String::new(), group: String::new() },
        is_udp: false,
        to: Vec::new(),
        balance: StreamBalance::LeastConnections,
        ends_tls: false,
        certificate: StreamCertificate::None,
        key: None,
        alpn: Vec::new(),
        origin_alpn: Vec::new(),
        is_postgresql: false,
        proxy_protocol: None,
        proxy_protocol_from: Vec::new(),
        allow: Vec::new(),
        deny: Vec::new(),
        connections: 0,
        connections_per_client: 0,
        rate: 0,
        rate_per_client: 0,
        burst: 0,
        origin_connections: 0,
        hello_timeout: ZERO,
        hello_bytes: 0,
        connect_timeout: ZERO,
        idle_timeout: ZERO,
        total_timeout: ZERO,
        drain_timeout: ZERO,
        attempts: 0,
        buffer_bytes: 0,
        replies: 0,
        session_timeout: ZERO,
        datagram_bytes: 0,
        resolve_interval: ZERO,
        access_log: LogDestination::Off,
        log_is_json: false,
        origin_tls: TlsSettings::default(),
        check: None,
        health: tables::HEALTH.defaults(),
        routes: Vec::new(),
    },
    keys: &[
        Key {
            name: "name",
            default: None,
            example: "\"database\"",
            documentation: "The name of the stream in logs, metrics and on the status page. Limits and \
                counts under this name continue after a reload.",
            kind: Kind::Checked {
                what: "name of letters, digits and `._-`",
                parse: |text, _| {
                    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
                    match (1..=64).contains(&text.len()) && text.bytes().all(is_name) {
                        true => Ok(text.to_string()),
                        false => Err(format!("{text:?} must have 1 to 64 letters, digits, points, _ and -")),
                    }
                },
                set: |stream, value| stream.name = value,
            },
        },
        Key {
            name: "listen",
            default: None,
            example: "[\"127.0.0.1:5432\"]",
            documentation: "The addresses to listen on, numeric and with their ports, or `\"unix:/path\"` \
                for a unix socket. No site and no other stream may have them.",
            kind: Kind::ListenAddresses(|stream, value| stream.listen = value),
        },
        socket_file::mode_key(),
        socket_file::user_key(),
        socket_file::group_key(),
        Key {
            name: "protocol",
            default: Some("\"tcp\""),
            example: "\"tcp\"",
            documentation: "What is passed on.",
            kind: Kind::Choice(&[
                Choice { word: "tcp", meaning: "connections", set: |stream| stream.is_udp = false },
                Choice {
                    word: "udp",
                    meaning: "datagrams: those of one client address and port are a session, which keeps \
                        its origin",
                    set: |stream| stream.is_udp = true,
                },
            ]),
        },
        Key {
            name: "to",
            default: Some(ABSENT),
            example: "[\"10.0.0.1:5432\", \"10.0.0.2:5432 backup\"]",
            documentation: TO,
            kind: Kind::CheckedOneOrMore {
                what: "origin such as `\"10.0.0.1:5432\"`, or array of origins",
                parse: parse_origin,
                set: |stream, value| stream.to = value,
            },
        },
        Key {
            name: "balance",
            default: Some("\"least_connections\""),
            example: "\"hash\"",
            documentation: "How connections are distributed to several origins.",
            kind: Kind::Choice(&[
                Choice {
                    word: "least_connections",
                    meaning: "to the one that has the fewest, by weight",
                    set: |stream| stream.balance = StreamBalance::LeastConnections,
                },
                Choice {
                    word: "round_robin",
                    meaning: "in turns, by weight",
                    set: |stream| stream.balance = StreamBalance::RoundRobin,
                },
                Choice {
                    word: "hash",
                    meaning: "those of one client address are sent to the same origin",
                    set: |stream| stream.balance = StreamBalance::Hash,
                },
            ]),
        },
        Key {
            name: "tls",
            default: Some("\"pass\""),
            example: "\"pass\"",
            documentation: "Where the TLS of clients ends.",
            kind: Kind::Choice(&[
                Choice {
                    word: "pass",
                    meaning: "at the origin: bytes are forwarded as they arrive",
                    set: |stream| stream.ends_tls = false,
                },
                Choice {
                    word: "end",
                    meaning: "here, with `certificate`: the origin gets what was encrypted",
                    set: |stream| stream.ends_tls = true,
                },
            ]),
        },
        Key {
            name: "certificate",
            default: Some("\"\""),
            example: "\"tls/mail.pem\"",
            documentation: "A PEM file with the certificate for `tls = \"end\"`, and its chain; read again \
                when it changes. `\"sites\"`: the certificates of all sites with HTTPS, each for its hosts, \
                also those issued by ACME.",
            kind: Kind::FileOrWord {
                word: "sites",
                set_word: |stream| stream.certificate = StreamCertificate::OfSites,
                set: |stream, value| {
                    stream.certificate = value.map_or(StreamCertificate::None, StreamCertificate::File);
                },
            },
        },
        Key {
            name: "key",
            default: Some("\"\""),
            example: "\"tls/mail.key\"",
            documentation: "A PEM file with its private key. Empty: it is in the file of `certificate`.",
            kind: Kind::File(|stream, value| stream.key = value),
        },
        Key {
            name: "alpn",
            default: Some("[]"),
            example: "[\"imap\"]",
            documentation: "Application protocols (ALPN) that clients may choose from where their TLS ends \
                here; a client that offers only others is refused. Empty: none is chosen.",
            kind: Kind::CheckedArray {
                what: "array of names of protocols",
                parse: parse_protocol,
                set: |stream, value| stream.alpn = value,
            },
        },
        Key {
            name: "origin_alpn",
            default: Some("[]"),
            example: "[\"imap\"]",
            documentation: "Application protocols that origins with `tls://` are offered.",
            kind: Kind::CheckedArray {
                what: "array of names of protocols",
                parse: parse_protocol,
                set: |stream, value| stream.origin_alpn = value,
            },
        },
        Key {
            name: "preface",
            default: Some("\"none\""),
            example: "\"none\"",
            documentation: "The messages that clients send before their TLS begins.",
            kind: Kind::Choice(&[
                Choice {
                    word: "none",
                    meaning: "none: TLS, if it is used, begins with the first byte",
                    set: |stream| stream.is_postgresql = false,
                },
                Choice {
                    word: "postgresql",
                    meaning: "answers PostgreSQL's SSLRequest; clients without TLS get the origins of `to`",
                    set: |stream| stream.is_postgresql = true,
                },
            ]),
        },
        Key {
            name: "proxy_protocol",
            default: Some("\"off\""),
            example: "\"v2\"",
            documentation: "Whether each connection to an origin begins with a PROXY header, which names the \
                client.",
            kind: Kind::Choice(&[
                Choice { word: "off", meaning: "without one", set: |stream| stream.proxy_protocol = None },
                Choice {
                    word: "v1",
                    meaning: "with a line of text",
                    set: |stream| stream.proxy_protocol = Some(ProxyHeader::Version1),
                },
                Choice {
                    word: "v2",
                    meaning: "with a binary one",
                    set: |stream| stream.proxy_protocol = Some(ProxyHeader::Version2),
                },
            ]),
        },
        Key {
            name: "proxy_protocol_from",
            default: Some("[]"),
            example: "[\"10.0.0.0/8\"]",
            documentation: "Addresses and networks whose connections begin with a PROXY header, of version 1 \
                or 2: the client in the header is used for `allow`, `deny`, limits, logs and origins. A \
                connection from these addresses without a header is closed. A header from another address is \
                ignored.",
            kind: Kind::Networks(|stream, value| stream.proxy_protocol_from = value),
        },
        Key {
            name: "allow",
            default: Some("[]"),
            example: "[\"10.0.0.0/8\"]",
            documentation: "Addresses and networks that may connect. Empty: all that `deny` does not name. \
                The most specific network that contains the client's address decides.",
            kind: Kind::Networks(|stream, value| stream.allow = value),
        },
        Key {
            name: "deny",
            default: Some("[]"),
            example: "[\"10.66.0.0/16\"]",
            documentation: "Addresses and networks that may not connect: their connections are closed.",
            kind: Kind::Networks(|stream, value| stream.deny = value),
        },
        Key {
            name: "connections",
            default: Some("10000"),
            example: "2000",
            documentation: "The most connections (or sessions of datagrams) at a time, all cores together; \
                further ones are closed at once. They do not count for `limits.connections`. 0: any number.",
            kind: Kind::Number {
                least: 0,
                most: MOST_COUNT,
                set: |stream, value| stream.connections = value,
            },
        },
        Key {
            name: "connections_per_client",
            default: Some("0"),
            example: "20",
            documentation: "The most open connections (or sessions) of each client: an IPv4 address, or the \
                first 64 bits of an IPv6 address. 0: any number.",
            kind: Kind::Number {
                least: 0,
                most: MOST_COUNT,
                set: |stream, value| stream.connections_per_client = value,
            },
        },
        Key {
            name: "rate",
            default: Some("0"),
            example: "500",
            documentation: "The most new connections (or sessions) in a second; others are closed at once. \
                0: any number.",
            kind: Kind::Number { least: 0, most: MOST_COUNT, set: |stream, value| stream.rate = value },
        },
        Key {
            name: "rate_per_client",
            default: Some("0"),
            example: "10",
            documentation: "The most new connections (or sessions) of each client in a second. 0: any \
                number.",
            kind: Kind::Number {
                least: 0,
                most: MOST_COUNT,
                set: |stream, value| stream.rate_per_client = value,
            },
        },
        Key {
            name: "burst",
            default: Some("0"),
            example: "1000",
            documentation: "How many of them are accepted at the same time, if more than in a second.",
            kind: Kind::Number { least: 0, most: MOST_COUNT, set: |stream, value| stream.burst = value },
        },
        Key {
            name: "origin_connections",
            default: Some("0"),
            example: "100",
            documentation: "The most connections (or sessions) to each origin, all cores together; others go \
                to another origin, or are closed. 0: any number.",
            kind: Kind::Number {
                least: 0,
                most: MOST_COUNT,
                set: |stream, value| stream.origin_connections = value,
            },
        },
        Key {
            name: "hello_timeout",
            default: Some("\"5s\""),
            example: "\"2s\"",
            documentation: "The time limit for each step before the first byte is forwarded: the PROXY \
                header, the ClientHello if it selects a route, the TLS handshake if TLS ends here.",
            kind: Kind::Duration {
                least: INSTANT,
                most: HOUR,
                set: |stream, value| stream.hello_timeout = value,
            },
        },
        Key {
            name: "hello_bytes",
            default: Some("\"16KiB\""),
            example: "\"8KiB\"",
            documentation: "The longest ClientHello that is read to choose a route; a longer one closes the \
                connection.",
            kind: Kind::Size {
                least: 512,
                most: 64 << 10,
                set: |stream, value| stream.hello_bytes = as_usize(value),
            },
        },
        Key {
            name: "connect_timeout",
            default: Some("\"5s\""),
            example: "\"1s\"",
            documentation: "How long it may take to connect to one origin; its TLS handshake may take as \
                long again.",
            kind: Kind::Duration {
                least: INSTANT,
                most: HOUR,
                set: |stream, value| stream.connect_timeout = value,
            },
        },
        Key {
            name: "idle_timeout",
            default: Some("\"10m\""),
            example: "\"1h\"",
            documentation: "How long both directions may be silent before the connection is closed.",
            kind: Kind::Duration {
                least: INSTANT,
                most: DAY,
                set: |stream, value| stream.idle_timeout = value,
            },
        },
        Key {
            name: "total_timeout",
            default: Some("\"0s\""),
            example: "\"12h\"",
            documentation: "The longest time of a connection. `\"0s\"`: any.",
            kind: Kind::Duration {
                least: ZERO,
                most: DAY,
                set: |stream, value| stream.total_timeout = value,
            },
        },
        Key {
            name: "drain_timeout",
            default: Some("\"0s\""),
            example: "\"1h\"",
            documentation: "How long connections may continue in the previous process after an upgrade, or \
                after a stop. `\"0s\"`: as long as `server.drain_timeout`. The previous process of an \
                upgrade ends when the last of its connections does, and HTTP/3 waits for that.",
            kind: Kind::Duration {
                least: ZERO,
                most: DAY,
                set: |stream, value| stream.drain_timeout = value,
            },
        },
        Key {
            name: "attempts",
            default: Some("2"),
            example: "1",
            documentation: "How many other origins are tried if a connection to the first one fails. No data \
                of the client has been sent at that time. 0: none.",
            kind: Kind::Number { least: 0, most: 100, set: |stream, value| stream.attempts = value },
        },
        Key {
            name: "buffer_bytes",
            default: Some("\"32KiB\""),
            example: "\"64KiB\"",
            documentation: "The most bytes of a connection that wait here in each direction; a side that \
                does not read makes the other one wait. A connection without bytes on their way takes no \
                buffer.",
            kind: Kind::Size {
                least: 1024,
                most: MIB,
                set: |stream, value| stream.buffer_bytes = as_usize(value),
            },
        },
        Key {
            name: "replies",
            default: Some("0"),
            example: "1",
            documentation: "How many datagrams the origin sends for each datagram of a client; when they \
                have arrived, the session ends. With 1, the session of a DNS query ends with its answer. 0: \
                any number, and the session ends after `session_timeout`.",
            kind: Kind::Number { least: 0, most: 1_000_000, set: |stream, value| stream.replies = value },
        },
        Key {
            name: "session_timeout",
            default: Some("\"30s\""),
            example: "\"5s\"",
            documentation: "How long a session of datagrams may be without one in either direction.",
            kind: Kind::Duration {
                least: INSTANT,
                most: DAY,
                set: |stream, value| stream.session_timeout = value,
            },
        },
        Key {
            name: "datagram_bytes",
            default: Some("65507"),
            example: "4096",
            documentation: "The largest datagram that is passed on, in either direction; larger ones are \
                dropped and counted.",
            kind: Kind::Size {
                least: 1,
                most: MOST_DATAGRAM_BYTES,
                set: |stream, value| stream.datagram_bytes = as_usize(value),
            },
        },
        Key {
            name: "resolve_interval",
            default: Some("\"30s\""),
            example: "\"5s\"",
            documentation: "How long the addresses of an origin's host are used before it is resolved again.",
            kind: Kind::Duration {
                least: INSTANT,
                most: DAY,
                set: |stream, value| stream.resolve_interval = value,
            },
        },
        Key {
            name: "access_log",
            default: Some("\"off\""),
            example: "\"log/database.log\"",
            documentation: "Where each connection or session has a line when it has ended: `\"off\"`, \
                `\"stdout\"`, `\"stderr\"`, a file, or what `path` of `[access_log]` takes besides.",
            kind: Kind::LogDestination(|stream, value| stream.access_log = value),
        },
        Key {
            name: "log_format",
            default: Some("\"text\""),
            example: "\"json\"",
            documentation: "The format of these lines, see [the log of a stream](stream.md#the-log).",
            kind: Kind::Choice(&[
                Choice {
                    word: "text",
                    meaning: "words in a fixed order",
                    set: |stream| stream.log_is_json = false,
                },
                Choice { word: "json", meaning: "a JSON object", set: |stream| stream.log_is_json = true },
            ]),
        },
        Key {
            name: "origin_tls",
            default: Some(ABSENT),
            example: "{ authorities = \"tls/origins.pem\" }",
            documentation: "The settings of TLS to origins, see `[stream.origin_tls]`.",
            kind: Kind::Table {
                read: |reader, value, stream| {
                    reader.table(&ORIGIN_TLS, value).map_or(Vec::new(), |(config, places)| {
                        stream.origin_tls = config;
                        vec![places]
                    })
                },
            },
        },
        Key {
            name: "check",
            default: Some(ABSENT),
            example: "{ interval = \"2s\" }",
            documentation: "Checks of origins, see `[stream.check]`.",
            kind: Kind::Table {
                read: |reader, value, stream| reader.table_into(&CHECK, value, &mut stream.check),
            },
        },
        Key {
            name: "health",
            default: Some(ABSENT),
            example: "{ max_failures = 1 }",
            documentation: "When an origin gets no connections, see `[stream.health]`.",
            kind: Kind::Table {
                read: |reader, value, stream| {
                    reader.table(&HEALTH, value).map_or(Vec::new(), |(config, places)| {
                        stream.health = config;
                        vec![places]
                    })
                },
            },
        },
        Key {
            name: "route",
            default: Some(ABSENT),
            example: "[{ names = [\"mail.example.org\"], to = \"10.0.0.3:993\" }]",
            documentation: "The targets of connections by the name or the protocol in their ClientHello, \
                each written as `[[stream.route]]`.",
            kind: Kind::Tables {
                read: |reader, value, stream| {
                    let (routes, places) = reader.tables(&ROUTE, value).into_iter().unzip();
                    stream.routes = routes;
                    places
                },
            },
        },
    ],
};

/// `[stream.origin_tls]`
pub static ORIGIN_TLS: Section<TlsSettings> = Section {
    name: "stream.origin_tls",
    repeated: false,
    documentation: "TLS to origins with `tls://`: always 1.2 or 1.3, and certificates are verified.",
    blank: TlsSettings::default,
    keys: tables::TLS.keys,
};

/// `[stream.check]`
pub static CHECK: Section<StreamCheckConfig> = Section {
    name: "stream.check",
    repeated: false,
    documentation: "Checks every origin regularly: it is connected to, with TLS if it has it, and the \
        connection is closed. For connections only.",
    blank: || StreamCheckConfig { interval: ZERO, timeout: ZERO, rise: 0, fall: 0 },
    keys: &[
        Key {
            name: "interval",
            default: Some("\"5s\""),
            example: "\"1s\"",
            documentation: "The pause between two checks.",
            kind: Kind::Duration { least: INSTANT, most: DAY, set: |check, value| check.interval = value },
        },
        Key {
            name: "timeout",
            default: Some("\"2s\""),
            example: "\"500ms\"",
            documentation: "How long a check may take.",
            kind: Kind::Duration { least: INSTANT, most: DAY, set: |check, value| check.timeout = value },
        },
        Key {
            name: "rise",
            default: Some("2"),
            example: "3",
            documentation: "After how many good checks in a row an origin that was down gets connections \
                again.",
            kind: Kind::Number { least: 1, most: 1000, set: |check, value| check.rise = value },
        },
        Key {
            name: "fall",
            default: Some("3"),
            example: "2",
            documentation: "After how many bad checks in a row an origin gets no more connections.",
            kind: Kind::Number { least: 1, most: 1000, set: |check, value| check.fall = value },
        },
    ],
};

/// `[stream.health]`
pub static HEALTH: Section<ProxyHealthConfig> = Section {
    name: "stream.health",
    repeated: false,
    documentation: "When one of several origins gets no connections because others to it have failed; a \
        single origin always gets them. The keys are those of `[site.route.proxy.health]`; for a stream, \
        only a failed connection is a failure.",
    blank: tables::HEALTH.blank,
    keys: tables::HEALTH.keys,
};

/// `[[stream.route]]`
pub static ROUTE: Section<StreamRouteConfig> = Section {
    name: "stream.route",
    repeated: true,
    documentation: "The targets of connections by their ClientHello. A route needs `names` or `alpn`; with \
        both, both must match. A route with `alpn` takes precedence over one without; then an exact name \
        over a wildcard, a longer wildcard over a shorter one, and all of these over a route without \
        `names`. Connections that match no route, and those without TLS, are sent to `to` of the stream; \
        without `to` they are closed.",
    blank: || StreamRouteConfig { names: Vec::new(), alpn: Vec::new(), to: Vec::new(), ends_tls: None },
    keys: &[
        Key {
            name: "names",
            default: Some("[]"),
            example: "[\"mail.example.org\", \"*.mail.example.org\"]",
            documentation: "The server names that clients request (SNI). `*.example.org` is every name below \
                `example.org`.",
            kind: Kind::Hosts(|route, value| route.names = value),
        },
        Key {
            name: "alpn",
            default: Some("[]"),
            example: "[\"imap\"]",
            documentation: "Application protocols, one of which the client offers.",
            kind: Kind::CheckedArray {
                what: "array of names of protocols",
                parse: parse_protocol,
                set: |route, value| route.alpn = value,
            },
        },
        Key {
            name: "to",
            default: None,
            example: "\"10.0.0.3:993\"",
            documentation: TO,
            kind: Kind::CheckedOneOrMore {
                what: "origin such as `\"10.0.0.3:993\"`, or array of origins",
                parse: parse_origin,
                set: |route, value| route.to = value,
            },
        },
        Key {
            name: "tls",
            default: Some("\"as_stream\""),
            example: "\"end\"",
            documentation: "Where the TLS of these clients ends.",
            kind: Kind::Choice(&[
                Choice {
                    word: "as_stream",
                    meaning: "as `tls` of the stream",
                    set: |route| route.ends_tls = None,
                },
                Choice { word: "pass", meaning: "at the origin", set: |route| route.ends_tls = Some(false) },
                Choice { word: "end", meaning: "here", set: |route| route.ends_tls = Some(true) },
            ]),
        },
    ],
};

impl HasSocketFile for StreamConfig {
    fn socket_file(&mut self) -> &mut SocketFile {
        &mut self.socket_file
    }
}

impl ConfigReader<'_> {
    /// Checks the keys of each stream together, and the addresses of all streams.
    pub(super) fn check_streams(&mut self, config: &Config, places: &[SectionPlaces]) {
        let mut names: HashMap<&str, Place> = HashMap::new();
        let mut taken: HashMap<(ListenAddress, bool), String> = HashMap::new();
        for site in &config.sites {
            for address in &site.listen {
                taken.insert((*address, false), "a [[site]]".to_string());
                if site.tls.http3 {
                    taken.insert((*address, true), "a [[site]] with 'http3'".to_string());
                }
            }
        }
        for (stream, places) in config.streams.iter().zip(places) {
            if let Some(first) = names.insert(&stream.name, places.key("name")) {
                let line = self.line(first, places.header);
                self.problem(places.key("name"), format!("the [[stream]] of {line} has this 'name' already"));
            }
            for (position, address) in stream.listen.iter().enumerate() {
                if stream.is_udp && address.unix().is_some() {
                    let message = format!("{address}: a stream of datagrams has no unix sockets");
                    self.problem(places.item("listen", position), message);
                }
                let owner = format!("the [[stream]] '{}'", stream.name);
                if let Some(owner) = taken.insert((*address, stream.is_udp), owner) {
                    let message = format!("{address} belongs to {owner} already");
                    self.problem(places.item("listen", position), message);
                }
            }
            for (key, message) in problems_of_stream(stream, config) {
                self.problem(places.key_below(key), message);
            }
            for (index, route) in stream.routes.iter().enumerate() {
                let Some(places) = places.table("route", index) else { continue };
                for (key, message) in problems_of_route(stream, index, route) {
                    self.problem(places.key(key), message);
                }
            }
            if stream.is_udp {
                self.check_keys_of_udp(places);
            } else {
                for key in ["replies", "session_timeout", "datagram_bytes"] {
                    if places.keys.contains_key(key) {
                        let message = format!("'{key}' has no effect without 'protocol' \"udp\"");
                        self.problem(places.key(key), message);
                    }
                }
            }
        }
    }

    /// Keys that are for connections only.
    fn check_keys_of_udp(&mut self, places: &SectionPlaces) {
        for key in [
            "tls",
            "certificate",
            "key",
            "alpn",
            "origin_alpn",
            "preface",
            "proxy_protocol",
            "proxy_protocol_from",
            "hello_timeout",
            "hello_bytes",
            "idle_timeout",
            "total_timeout",
            "buffer_bytes",
            "origin_tls",
            "check",
            "route",
        ] {
            if places.keys.contains_key(key) {
                let message = format!("'{key}' is for connections; it has no effect with 'protocol' \"udp\"");
                self.problem(places.key(key), message);
            }
        }
    }
}

/// What is wrong with a stream, besides its routes: each with the key.
fn problems_of_stream(stream: &StreamConfig, config: &Config) -> Vec<(&'static str, String)> {
    let mut problems = Vec::new();
    if stream.to.is_empty() && stream.routes.is_empty() {
        problems.push(("listen", "a [[stream]] needs 'to', or a [[stream.route]]".to_string()));
    }
    if !stream.to.is_empty()
        && let Some(problem) = problem_of_origins(stream, &stream.to)
    {
        problems.push(("to", problem));
    }
    let ends = stream.any_ends_tls();
    match (&stream.certificate, ends) {
        (StreamCertificate::None, true) => {
            problems.push(("tls", "'tls' \"end\" needs 'certificate': a file, or \"sites\"".to_string()));
        }
        (StreamCertificate::File(_) | StreamCertificate::OfSites, false) => {
            problems.push(("certificate", "'certificate' has no effect without 'tls' \"end\"".to_string()));
        }
        (StreamCertificate::OfSites, true) if !config.sites.iter().any(|site| site.tls.is_on()) => {
            problems.push(("certificate", "\"sites\": no [[site]] has a certificate".to_string()));
        }
        _ => {}
    }
    if stream.key.is_some() && !matches!(stream.certificate, StreamCertificate::File(_)) {
        problems.push(("key", "'key' has no effect without a file in 'certificate'".to_string()));
    }
    if !stream.alpn.is_empty() && !ends {
        problems.push(("alpn", "'alpn' has no effect without 'tls' \"end\"".to_string()));
    }
    let has_tls = stream.has_tls_origin();
    if has_tls && stream.is_postgresql {
        let message = "'preface' \"postgresql\" cannot be used with origins of tls://, whose TLS begins at \
            once";
        problems.push(("preface", message.to_string()));
    }
    if !stream.origin_alpn.is_empty() && !has_tls {
        problems.push(("origin_alpn", "'origin_alpn' has no effect without an origin of tls://".to_string()));
    }
    if stream.burst != 0 && stream.rate == 0 && stream.rate_per_client == 0 {
        problems.push(("burst", "'burst' has no effect without 'rate' or 'rate_per_client'".to_string()));
    }
    if let Some(network) = stream.allow.iter().find(|network| stream.deny.contains(network)) {
        problems.push(("deny", format!("{network} is in 'allow' too")));
    }
    problems
}

fn problems_of_route(
    stream: &StreamConfig,
    index: usize,
    route: &StreamRouteConfig,
) -> Vec<(&'static str, String)> {
    let mut problems = Vec::new();
    if route.names.is_empty() && route.alpn.is_empty() {
        problems.push(("to", "a [[stream.route]] needs 'names' or 'alpn'".to_string()));
    }
    if let Some(problem) = problem_of_origins(stream, &route.to) {
        problems.push(("to", problem));
    }
    let same_protocols = stream.routes[..index].iter().filter(|other| other.alpn == route.alpn);
    for other in same_protocols {
        let any = other.names.is_empty() && route.names.is_empty();
        if let Some(name) = route.names.iter().find(|name| other.names.contains(name)) {
            problems.push(("names", format!("{name:?} belongs to another [[stream.route]] already")));
        } else if any {
            problems.push(("alpn", "another [[stream.route]] has the same 'alpn'".to_string()));
        }
    }
    if let Some(name) =
        route.names.iter().find(|name| name.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok())
    {
        problems.push((
            "names",
            format!(
                "{name:?} is an address, which no client requests as a server \
            name"
            ),
        ));
    }
    problems
}

/// What is wrong with a group of origins.
fn problem_of_origins(stream: &StreamConfig, to: &[String]) -> Option<String> {
    let parsed: Result<Vec<OriginSpec>, String> =
        to.iter().map(|text| OriginSpec::parse_stream(text, stream.traffic())).collect();
    let origins = match parsed {
        Ok(origins) => origins,
        Err(problem) => return Some(problem),
    };
    if origins.iter().all(|origin| origin.role != Role::Active) {
        return Some("one origin must be neither backup nor drain".to_string());
    }
    let is_double = |(index, origin): (usize, &OriginSpec)| {
        origins[..index].iter().any(|other| other.url == origin.url).then(|| origin.url.to_string())
    };
    let double = origins.iter().enumerate().find_map(is_double)?;
    Some(format!("{double} is listed twice; set its weight"))
}
