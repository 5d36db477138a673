//! The tables inside of `proxy`: TLS, checks, health, retries, and the fields for origins.

use std::collections::BTreeMap;
use std::time::Duration;

use touchstone_config_section::reader::{Reader, Value};
use touchstone_config_section::{Choice, Key, Kind, Section, SectionPlaces, values};
use touchstone_expression::{AvailableFrom, Text};
use touchstone_proxy::{CheckRules, Forward, TlsSettings};

use super::{DAY, INSTANT, ProxyConfig};

const ZERO: Duration = Duration::ZERO;
const MOST_COUNT: u64 = 1_000_000;

/// `[site.route.proxy.tls]`
pub static TLS: Section<TlsSettings> = Section {
    name: "site.route.proxy.tls",
    repeated: false,
    documentation: "TLS to origins with `https://`: always 1.2 or 1.3, and certificates are verified.",
    blank: TlsSettings::default,
    keys: &[
        Key {
            name: "authorities",
            default: Some("\"\""),
            example: "\"tls/origins.pem\"",
            documentation: "A PEM file with the trusted authorities, instead of those of the system. Empty: \
                those of the system.",
            kind: Kind::File(|tls, value| tls.authorities = value),
        },
        Key {
            name: "server_name",
            default: Some("\"\""),
            example: "\"app.internal\"",
            documentation: "The name that is requested (SNI) and that certificates must have. Empty: the \
                host of `to`.",
            kind: Kind::Checked {
                what: "name of a host",
                parse: |text, _| match text {
                    "" => Ok(String::new()),
                    text => values::parse_host(text),
                },
                set: |tls, value| tls.server_name = (!value.is_empty()).then_some(value),
            },
        },
        Key {
            name: "certificate",
            default: Some("\"\""),
            example: "\"tls/proxy.pem\"",
            documentation: "A PEM file with the certificate, and its chain, that this server sends to \
                origins that request one. Empty: none.",
            kind: Kind::File(|tls, value| tls.certificate = value),
        },
        Key {
            name: "key",
            default: Some("\"\""),
            example: "\"tls/proxy.key\"",
            documentation: "A PEM file with the key of `certificate`.",
            kind: Kind::File(|tls, value| tls.key = value),
        },
        Key {
            name: "insecure",
            default: Some("false"),
            example: "false",
            documentation: "Whether any certificate is accepted. With `true` an attacker on the network can \
                read and change everything; it is for experiments.",
            kind: Kind::Boolean(|tls, value| tls.is_insecure = value),
        },
    ],
};

/// `check`
#[derive(Debug, Clone, PartialEq)]
pub struct ProxyCheckConfig {
    /// The path to request.
    pub path: String,
    /// The value of `Host`; empty: the origin's name.
    pub host: String,
    /// How often.
    pub interval: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
    /// The statuses of a good answer.
    pub status: String,
    /// How many good answers bring an origin back.
    pub rise: u64,
    /// How many bad answers take an origin out.
    pub fall: u64,
}

/// `[site.route.proxy.check]`
pub static CHECK: Section<ProxyCheckConfig> = Section {
    name: "site.route.proxy.check",
    repeated: false,
    documentation: "Checks every origin regularly, on a separate connection. \
        Without it, only requests show whether an origin works.",
    blank: || ProxyCheckConfig {
        path: String::new(),
        host: String::new(),
        interval: ZERO,
        timeout: ZERO,
        status: String::new(),
        rise: 0,
        fall: 0,
    },
    keys: &[
        Key {
            name: "path",
            default: Some("\"/\""),
            example: "\"/health\"",
            documentation: "The path to GET, after the path of `to`.",
            kind: Kind::Checked {
                what: "path that begins with `/`, perhaps with a query",
                parse: |text, _| match text.starts_with('/')
                    && text.bytes().all(|byte| byte.is_ascii_graphic())
                {
                    true => Ok(text.to_string()),
                    false => Err(format!("{text:?} must begin with a slash, and is written as in a URL")),
                },
                set: |check, value| check.path = value,
            },
        },
        Key {
            name: "host",
            default: Some("\"\""),
            example: "\"app.example\"",
            documentation: "The value of `Host`. Empty: the host of `to`.",
            kind: Kind::Checked {
                what: "name of a host",
                parse: |text, _| match text {
                    "" => Ok(String::new()),
                    text => values::parse_host(text),
                },
                set: |check, value| check.host = value,
            },
        },
        Key {
            name: "interval",
            default: Some("\"5s\""),
            example: "\"1s\"",
            documentation: "The pause between an answer and the next check.",
            kind: Kind::Duration { least: INSTANT, most: DAY, set: |check, value| check.interval = value },
        },
        Key {
            name: "timeout",
            default: Some("\"2s\""),
            example: "\"500ms\"",
            documentation: "How long an answer may take, connecting included.",
            kind: Kind::Duration { least: INSTANT, most: DAY, set: |check, value| check.timeout = value },
        },
        Key {
            name: "status",
            default: Some("\"200-399\""),
            example: "\"200\"",
            documentation: "The status of a good answer, or a range of statuses.",
            kind: Kind::Checked {
                what: "status or range of statuses",
                parse: |text, _| CheckRules::parse_statuses(text).map(|_| text.to_string()),
                set: |check, value| check.status = value,
            },
        },
        Key {
            name: "rise",
            default: Some("2"),
            example: "3",
            documentation: "After how many consecutive good answers an origin that was down gets requests \
                again.",
            kind: Kind::Number { least: 1, most: 1000, set: |check, value| check.rise = value },
        },
        Key {
            name: "fall",
            default: Some("3"),
            example: "2",
            documentation: "After how many consecutive bad or missing answers an origin gets no more \
                requests.",
            kind: Kind::Number { least: 1, most: 1000, set: |check, value| check.fall = value },
        },
    ],
};

/// `health`
#[derive(Debug, Clone, PartialEq)]
pub struct ProxyHealthConfig {
    /// How many failures make an origin unavailable; 0: never.
    pub max_failures: u64,
    /// The time in which they count.
    pub window: Duration,
    /// The longest time for which it gets no requests.
    pub longest: Duration,
    /// The share of server errors that makes an outlier, in percent; 0: none does.
    pub outlier_percent: u64,
    /// The fewest answers from which an outlier is judged.
    pub outlier_requests: u64,
    /// The share of origins that may be without requests, in percent.
    pub max_ejected_percent: u64,
    /// How long an origin that has come back gets less than its share.
    pub slow_start: Duration,
}

/// `[site.route.proxy.health]`
pub static HEALTH: Section<ProxyHealthConfig> = Section {
    name: "site.route.proxy.health",
    repeated: false,
    documentation: "When one of several origins gets no requests because requests to it have failed. \
        A single origin always gets them.",
    blank: || ProxyHealthConfig {
        max_failures: 0,
        window: ZERO,
        longest: ZERO,
        outlier_percent: 0,
        outlier_requests: 0,
        max_ejected_percent: 0,
        slow_start: ZERO,
    },
    keys: &[
        Key {
            name: "max_failures",
            default: Some("3"),
            example: "1",
            documentation: "After how many failures within `window` an origin gets no requests: no \
                connection, no TLS, no answer, one that breaks off or is not valid. 0: never.",
            kind: Kind::Number {
                least: 0,
                most: MOST_COUNT,
                set: |health, value| health.max_failures = value,
            },
        },
        Key {
            name: "window",
            default: Some("\"10s\""),
            example: "\"2s\"",
            documentation: "The time in which failures and answers count, and for which an origin gets no \
                requests the first time; each further time is twice as long. After that one request is sent, \
                and its outcome decides.",
            kind: Kind::Duration { least: INSTANT, most: DAY, set: |health, value| health.window = value },
        },
        Key {
            name: "longest",
            default: Some("\"60s\""),
            example: "\"10s\"",
            documentation: "The longest time for which an origin gets no requests.",
            kind: Kind::Duration { least: INSTANT, most: DAY, set: |health, value| health.longest = value },
        },
        Key {
            name: "outlier_percent",
            default: Some("50"),
            example: "20",
            documentation: "The share of server errors (5xx) among an origin's answers within `window`, in \
                percent, at which it gets no requests, if the share of the others is less than half of its \
                own. 0: never.",
            kind: Kind::Number { least: 0, most: 100, set: |health, value| health.outlier_percent = value },
        },
        Key {
            name: "outlier_requests",
            default: Some("20"),
            example: "100",
            documentation: "The fewest answers within `window` from which that share is judged.",
            kind: Kind::Number {
                least: 1,
                most: MOST_COUNT,
                set: |health, value| health.outlier_requests = value,
            },
        },
        Key {
            name: "max_ejected_percent",
            default: Some("50"),
            example: "30",
            documentation: "The share of the origins, in percent, that may be without requests at a time: if \
                all seem bad, the cause is probably another. One of several always may.",
            kind: Kind::Number {
                least: 0,
                most: 100,
                set: |health, value| health.max_ejected_percent = value,
            },
        },
        Key {
            name: "slow_start",
            default: Some("\"0s\""),
            example: "\"30s\"",
            documentation: "The time in which a recovered origin reaches its full share again, beginning \
                with a tenth. `\"0s\"`: at once.",
            kind: Kind::Duration { least: ZERO, most: DAY, set: |health, value| health.slow_start = value },
        },
    ],
};

/// `retry`
#[derive(Debug, Clone, PartialEq)]
pub struct ProxyRetryConfig {
    /// How many times after the first.
    pub attempts: u64,
    /// The share of requests, in percent.
    pub budget_percent: u64,
    /// The statuses that count as failures.
    pub statuses: Vec<String>,
}

/// `[site.route.proxy.retry]`
pub static RETRY: Section<ProxyRetryConfig> = Section {
    name: "site.route.proxy.retry",
    repeated: false,
    documentation: "When a request is sent to another origin after one has failed. A request of which the \
        origin took nothing may always be sent again. Another may only if its method is idempotent (GET, \
        HEAD, PUT, DELETE, OPTIONS, TRACE, QUERY) and its body, if any, is no longer than 64 KiB. None may \
        if the client has received a part of the answer.",
    blank: || ProxyRetryConfig { attempts: 0, budget_percent: 0, statuses: Vec::new() },
    keys: &[
        Key {
            name: "attempts",
            default: Some("2"),
            example: "1",
            documentation: "How many other origins are tried after the first. 0: none.",
            kind: Kind::Number { least: 0, most: 100, set: |retry, value| retry.attempts = value },
        },
        Key {
            name: "budget_percent",
            default: Some("20"),
            example: "10",
            documentation: "The share of all requests that may be sent again, in percent, so that failures \
                do not multiply the load; ten a second always may. 0: none.",
            kind: Kind::Number { least: 0, most: 100, set: |retry, value| retry.budget_percent = value },
        },
        Key {
            name: "statuses",
            default: Some("[]"),
            example: "[\"502\", \"503\"]",
            documentation: "Answers with these statuses count as failures if another origin is available and \
                the method is idempotent.",
            kind: Kind::CheckedArray {
                what: "array of statuses, 400 to 599",
                parse: |text| match text.parse() {
                    Ok(400..=599u16) => Ok(text.to_string()),
                    _ => Err(format!("{text:?} is not a status from 400 to 599")),
                },
                set: |retry, value| retry.statuses = value,
            },
        },
    ],
};

/// `forward`
#[derive(Debug, Clone, PartialEq)]
pub struct ProxyForwardConfig {
    /// `X-Forwarded-*`
    pub x_forwarded: Forward,
    /// `Forwarded`
    pub forwarded: Forward,
    /// The name of this server in `Via`; empty: the field is not sent.
    pub via: String,
    /// Fields that are set.
    pub set: BTreeMap<String, Text>,
    /// Fields that are left out.
    pub remove: Vec<String>,
    /// Protocols that clients may switch to.
    pub upgrades: Vec<String>,
}

/// `[site.route.proxy.forward]`
pub static FORWARD: Section<ProxyForwardConfig> = Section {
    name: "site.route.proxy.forward",
    repeated: false,
    documentation: "The fields that tell origins about the client and this server, and the fields that are \
        left out. Values that a client sends in these fields never reach an origin; those of a proxy in \
        `proxies.trusted` can.",
    blank: || ProxyForwardConfig {
        x_forwarded: Forward::Off,
        forwarded: Forward::Off,
        via: String::new(),
        set: BTreeMap::new(),
        remove: Vec::new(),
        upgrades: Vec::new(),
    },
    keys: &[
        Key {
            name: "x_forwarded",
            default: Some("\"set\""),
            example: "\"append\"",
            documentation: "How `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host` are sent; \
                `X-Real-IP` is set with them.",
            kind: Kind::Choice(&[
                Choice {
                    word: "set",
                    meaning: "they hold only what this server knows of the client",
                    set: |forward| forward.x_forwarded = Forward::Set,
                },
                Choice {
                    word: "append",
                    meaning: "the values of a trusted proxy are kept, and that proxy's address is appended",
                    set: |forward| forward.x_forwarded = Forward::Append,
                },
                Choice {
                    word: "off",
                    meaning: "they are left out",
                    set: |forward| forward.x_forwarded = Forward::Off,
                },
            ]),
        },
        Key {
            name: "forwarded",
            default: Some("\"off\""),
            example: "\"set\"",
            documentation: "How `Forwarded` (RFC 7239), which holds the same in one field, is sent.",
            kind: Kind::Choice(&[
                Choice {
                    word: "set",
                    meaning: "it holds only what this server knows of the client",
                    set: |forward| forward.forwarded = Forward::Set,
                },
                Choice {
                    word: "append",
                    meaning: "the values of a trusted proxy are kept, and that proxy's address is appended",
                    set: |forward| forward.forwarded = Forward::Append,
                },
                Choice {
                    word: "off",
                    meaning: "it is left out",
                    set: |forward| forward.forwarded = Forward::Off,
                },
            ]),
        },
        Key {
            name: "via",
            default: Some("\"touchstone\""),
            example: "\"edge-1\"",
            documentation: "The name of this server in `Via`, which tells origins that a proxy is on the \
                path. A request that has passed ten times under this name is answered with 508 Loop \
                Detected. Empty: the field is not sent, and loops are not detected.",
            kind: Kind::Token(|forward, value| forward.via = value),
        },
        Key {
            name: "set",
            default: Some("{}"),
            example: "{ X-Served-By = \"edge-1\" }",
            documentation: "Fields that origins get with each request, instead of the client's values. \
                The values are [texts with variables](expressions.md) of the request, its connection and its \
                user; one that is empty for a request is left out. With `cache`, values with variables are \
                part of the key, except in fields that name the client (`X-Real-IP`, `X-Forwarded-*`, \
                `Forwarded`, `X-Request-ID`).",
            kind: Kind::Fields {
                what: "table from names of header fields to values",
                check: |name, value| match value.is_empty() {
                    true => Err(format!("{name} has no value")),
                    false => check_settable(name)
                        .and_then(|()| Text::read(value, AvailableFrom::Admitted))
                        .map(|_| ()),
                },
                set: |forward, value| {
                    let read = |(name, value): (String, String)| {
                        Text::read(&value, AvailableFrom::Admitted).ok().map(|text| (name, text))
                    };
                    forward.set = value.into_iter().filter_map(read).collect();
                },
            },
        },
        Key {
            name: "remove",
            default: Some("[]"),
            example: "[\"Cookie\", \"Authorization\"]",
            documentation: "Fields of the client that origins do not get.",
            kind: Kind::CheckedArray {
                what: "array of names of header fields",
                parse: |text| match values::is_token(text) {
                    true => check_settable(text).map(|()| text.to_ascii_lowercase()),
                    false => Err(format!("{text:?} is not the name of a header field")),
                },
                set: |forward, value| forward.remove = value,
            },
        },
        Key {
            name: "upgrades",
            default: Some("[\"websocket\"]"),
            example: "[\"websocket\", \"tls\"]",
            documentation: "Protocols that a client may switch to with `Upgrade`. Others are left out of the \
                request. No rule applies to what is sent in another protocol.",
            kind: Kind::CheckedArray {
                what: "array of names of protocols",
                parse: |text| match values::is_token(text) && !text.eq_ignore_ascii_case("h2c") {
                    true => Ok(text.to_ascii_lowercase()),
                    false => Err(format!("{text:?} is not the name of a protocol that can be passed on")),
                },
                set: |forward, value| forward.upgrades = value,
            },
        },
    ],
};

/// Fields that frame a message or belong to a connection cannot be configured.
fn check_settable(name: &str) -> Result<(), String> {
    const OWN: [&str; 9] = [
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    match OWN.iter().any(|own| name.eq_ignore_ascii_case(own)) {
        true => Err(format!("{name} is for the server to say")),
        false => Ok(()),
    }
}

/// Reads a table and stores it.
macro_rules! table_reader {
    ($name:ident, $section:expr, $set:expr) => {
        pub(super) fn $name(
            reader: &mut Reader<'_>,
            value: &Value<'_>,
            proxy: &mut ProxyConfig,
        ) -> Vec<SectionPlaces> {
            reader.table(&$section, value).map_or(Vec::new(), |(config, places)| {
                $set(proxy, config);
                vec![places]
            })
        }
    };
}

table_reader!(read_tls, TLS, |proxy: &mut ProxyConfig, tls| proxy.tls = tls);
table_reader!(read_check, CHECK, |proxy: &mut ProxyConfig, check| proxy.check = Some(check));
table_reader!(read_health, HEALTH, |proxy: &mut ProxyConfig, health| proxy.health = health);
table_reader!(read_retry, RETRY, |proxy: &mut ProxyConfig, retry| proxy.retry = retry);
table_reader!(read_forward, FORWARD, |proxy: &mut ProxyConfig, forward| proxy.forward = forward);
