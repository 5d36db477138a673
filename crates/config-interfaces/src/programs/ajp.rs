//! `[site.route.ajp]`: servlet containers, such as Tomcat, over AJP13.
//!
//! The keys that it shares with other programs that listen are in [`keys`](super::keys); this module has its
//! own.

use std::time::Duration;

use touchstone_config_section::values::{self, DAY, HOUR};
use touchstone_config_section::{Choice, Key, Kind, Section, as_usize};
use touchstone_interfaces::ajp::{LEAST_PACKET_BYTES, MOST_PACKET_BYTES};

use super::backend::parse_backend;
use super::keys::*;
use super::{ProgramsConfig, Sessions, blank};

/// `[site.route.ajp]`
pub static AJP: Section<ProgramsConfig> = Section {
    name: "site.route.ajp",
    repeated: false,
    documentation: "Servlet containers such as Tomcat answer the requests of the route over AJP13, see \
        [AJP](ajp.md). AJP is not encrypted, and containers trust every client: use it only on a private \
        network.",
    blank,
    keys: &[
        Key {
            default: None,
            example: "[\"127.0.0.1:8009 route=a weight=2\", \"unix:/run/tomcat/ajp.sock route=b\"]",
            documentation: "Where containers listen: an address with its port, or `unix:` with the path of a \
                socket. Several must have the same applications; then `route=` is the jvmRoute of one, by \
                which sessions find it; `weight=` sets the share of the requests of one, and `backup` marks \
                one that gets only those for which no other is available.",
            kind: Kind::CheckedArray {
                what: "array of addresses of containers",
                parse: |text| parse_backend(text).map(|_| text.to_string()),
                set: |programs, value| programs.backends = value,
            },
            ..BACKENDS
        },
        SECRET,
        SECRET_FILE,
        PACKET_BYTES,
        HEADER_FIELDS,
        ATTRIBUTES,
        Key {
            default: Some("true"),
            example: "false",
            documentation: "Whether the containers receive the field Authorization, for applications that \
                check users themselves. It holds passwords.",
            ..PASS_AUTHORIZATION
        },
        SESSIONS,
        SESSION_COOKIE,
        SESSION_PARAMETER,
        PING_AFTER,
        PING_TIMEOUT,
        PING_NEW,
        PING_WAITING,
        Key {
            default: Some("true"),
            example: "false",
            documentation: "Whether a connection serves more than one request.",
            ..KEEP_CONNECTIONS
        },
        Key {
            documentation: "The most connections to each container, of all cores together; it should not \
                exceed its maxConnections. 0: any number.",
            ..CONNECTIONS
        },
        IDLE_CONNECTIONS,
        Key {
            documentation: "How long an idle connection is kept; it should be less than the container's \
                keepAliveTimeout.",
            ..KEEP_ALIVE_TIMEOUT
        },
        CONNECTION_REQUESTS,
        CONNECT_TIMEOUT,
        QUEUE,
        QUEUE_TIMEOUT,
        FIRST_BYTE_TIMEOUT,
        IDLE_TIMEOUT,
        TOTAL_TIMEOUT,
        BALANCE,
        MAX_FAILURES,
        FAIL_TIMEOUT,
        Key {
            documentation: "How often the server connects to each container to check whether it answers. 0: \
                only requests show it.",
            ..CHECK_INTERVAL
        },
    ],
};

const SECRET: Key<ProgramsConfig> = Key {
    name: "secret",
    default: Some("\"\""),
    example: "\"correct horse battery staple\"",
    documentation: "The connector's `secret`: a container answers requests without it with 403. \
        Empty: none is sent.",
    kind: Kind::Checked {
        what: "secret",
        parse: |text, _| values::parse_header_value(text),
        set: |programs, value| programs.ajp.secret = value,
    },
};

const SECRET_FILE: Key<ProgramsConfig> = Key {
    name: "secret_file",
    default: Some("\"\""),
    example: "\"ajp.secret\"",
    documentation: "A file whose first line is the secret, instead of `secret`. No other user should be able \
        to read it. It is read when the server starts or reloads.",
    kind: Kind::File(|programs, value| programs.ajp.secret_file = value),
};

const PACKET_BYTES: Key<ProgramsConfig> = Key {
    name: "packet_bytes",
    default: Some("\"8KiB\""),
    example: "\"64KiB\"",
    documentation: "The largest packet, which must be the connector's `packetSize`. The fields of a request \
        must fit into one: longer ones are refused with 431 or 414. Larger packets also make long bodies \
        faster.",
    kind: Kind::Size {
        least: LEAST_PACKET_BYTES as u64,
        most: MOST_PACKET_BYTES as u64,
        set: |programs, value| programs.ajp.packet_bytes = as_usize(value),
    },
};

const HEADER_FIELDS: Key<ProgramsConfig> = Key {
    name: "header_fields",
    default: Some("256"),
    example: "100",
    documentation: "The most fields of an answer. One with more becomes 502 Bad Gateway.",
    kind: Kind::Number {
        least: 1,
        most: 10_000,
        set: |programs, value| programs.ajp.header_fields = as_usize(value),
    },
};

const ATTRIBUTES: Key<ProgramsConfig> = Key {
    name: "attributes",
    default: Some("{}"),
    example: "{ \"org.example.site\" = \"shop\" }",
    documentation: "Attributes that each request gets, which a servlet finds with `getAttribute`. A \
        container refuses names that its `allowedRequestAttributesPattern` does not allow with 403. A client \
        cannot set any.",
    kind: Kind::Fields {
        what: "table from names of attributes to values",
        check: check_attribute,
        set: |programs, value| programs.ajp.attributes = value,
    },
};

const SESSIONS: Key<ProgramsConfig> = Key {
    name: "sessions",
    default: Some("\"prefer\""),
    example: "\"bind\"",
    documentation: "Where a request goes if its session names the `route=` of a container.",
    kind: Kind::Choice(&[
        Choice {
            word: "prefer",
            meaning: "to that container, or to another if it is down",
            set: |programs| programs.ajp.sessions = Sessions::Prefer,
        },
        Choice {
            word: "bind",
            meaning: "to that container; the answer is 502 or 503 if it is down",
            set: |programs| programs.ajp.sessions = Sessions::Bind,
        },
        Choice {
            word: "ignore",
            meaning: "to any",
            set: |programs| programs.ajp.sessions = Sessions::Ignore,
        },
    ]),
};

const SESSION_COOKIE: Key<ProgramsConfig> = Key {
    name: "session_cookie",
    default: Some("\"JSESSIONID\""),
    example: "\"SHOPSESSION\"",
    documentation: "The name of the cookie with a session's identifier.",
    kind: Kind::Token(|programs, value| programs.ajp.session_cookie = value),
};

const SESSION_PARAMETER: Key<ProgramsConfig> = Key {
    name: "session_parameter",
    default: Some("\"jsessionid\""),
    example: "\"sid\"",
    documentation: "The name of the parameter of a path with a session's identifier, for clients without \
        cookies: `/shop/cart;jsessionid=1F2E.a`.",
    kind: Kind::Token(|programs, value| programs.ajp.session_parameter = value),
};

const PING_AFTER: Key<ProgramsConfig> = Key {
    name: "ping_after",
    default: Some("\"5s\""),
    example: "\"0s\"",
    documentation: "How long a connection must be idle for the container to be checked (CPing) before the \
        next request. 0: before each.",
    kind: Kind::Duration {
        least: Duration::ZERO,
        most: DAY,
        set: |programs, value| programs.ajp.ping_after = value,
    },
};

const PING_TIMEOUT: Key<ProgramsConfig> = Key {
    name: "ping_timeout",
    default: Some("\"2s\""),
    example: "\"500ms\"",
    documentation: "How long the container may take to answer the check (CPong). After that the connection \
        is closed.",
    kind: Kind::Duration {
        least: INSTANT,
        most: HOUR,
        set: |programs, value| programs.ajp.ping_timeout = value,
    },
};

const PING_NEW: Key<ProgramsConfig> = Key {
    name: "ping_new",
    default: Some("true"),
    example: "false",
    documentation: "Whether each new connection is checked too. If a container accepts connections but does \
        not answer, a request of any method is then sent to another container after `ping_timeout`. `false`: \
        each request to such a container waits for `first_byte_timeout`.",
    kind: Kind::Boolean(|programs, value| programs.ajp.ping_new = value),
};

const PING_WAITING: Key<ProgramsConfig> = Key {
    name: "ping_waiting",
    default: Some("\"3s\""),
    example: "\"10s\"",
    documentation: "After how long without an answer the container is checked on a connection of its own; \
        later after twice that, and so on. A container that answers neither the check nor another request \
        during this time has hung: GET and other requests that may be repeated go to another one, if there \
        is one. 0: never.",
    kind: Kind::Duration {
        least: Duration::ZERO,
        most: DAY,
        set: |programs, value| programs.ajp.ping_waiting = value,
    },
};

/// Attributes whose values the server sets itself are refused.
fn check_attribute(name: &str, value: &str) -> Result<(), String> {
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("{name:?} is not the name of an attribute"));
    }
    let is_reserved =
        ["AJP_", "javax.servlet.", "jakarta.servlet."].iter().any(|start| name.starts_with(start));
    if is_reserved {
        return Err(format!("the attribute {name:?} is set by the server or the container alone"));
    }
    values::parse_header_value(value).map(|_| ())
}
