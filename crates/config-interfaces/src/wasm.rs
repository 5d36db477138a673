//! `[site.route.wasm]`: a WebAssembly component that answers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use touchstone_config_section::values::DAY;
use touchstone_config_section::{Key, Kind, Section};
use touchstone_proxy::{Forward, HostField};

use crate::proxy::tables::{FORWARD, ProxyForwardConfig};
use crate::proxy::{PROXY, ProxyConfig};

/// `[site.route.wasm]`
#[derive(Debug, Clone, PartialEq)]
pub struct WasmConfig {
    /// The component.
    pub component: Option<PathBuf>,
    /// The directory for compiled components; `None`: they are compiled at each start.
    pub compiled: Option<PathBuf>,
    /// Its environment.
    pub environment: BTreeMap<String, String>,
    /// The values that `wasi:config` returns to it.
    pub config: BTreeMap<String, String>,
    /// The buckets that it may open by `wasi:keyvalue`.
    pub buckets: Vec<String>,
    /// Bytes of the keys and values of a bucket.
    pub bucket_size: u64,
    /// Directories that it may read, each perhaps with the component's name for it: `/data=/srv/data`.
    pub directories: Vec<String>,
    /// Origins that it may send requests to.
    pub outgoing: Vec<String>,
    /// Requests that an instance answers, one after another.
    pub reuse: u64,
    /// Requests at a time.
    pub concurrency: u64,
    /// Bytes of memory of an instance.
    pub memory: u64,
    /// How long an instance may compute for a request.
    pub computing_timeout: Duration,
    /// The time to the head of the answer, and between two pieces of its body; zero: no limit.
    pub answer_timeout: Duration,
    /// Bytes of the body of an answer; 0: no limit.
    pub body_size: u64,
    /// Bytes of its output that are logged for a request.
    pub output_size: u64,
}

impl WasmConfig {
    /// Origins that it may send requests to, with the settings of the client for each.
    pub fn clients(&self) -> impl Iterator<Item = (&str, ProxyConfig)> {
        self.outgoing.iter().map(|origin| {
            // The origin receives only the data about the visitor that the component sends.
            let forward = ProxyForwardConfig {
                x_forwarded: Forward::Off,
                forwarded: Forward::Off,
                via: String::new(),
                upgrades: Vec::new(),
                ..FORWARD.defaults()
            };
            let client = ProxyConfig {
                to: vec![origin.clone()],
                host: HostField::Origin,
                forward,
                ..PROXY.defaults()
            };
            (origin.as_str(), client)
        })
    }
}

/// `[site.route.wasm]`
pub static WASM: Section<WasmConfig> = Section {
    name: "site.route.wasm",
    repeated: false,
    documentation: "A WebAssembly component answers the requests, in a sandbox in the server's process. \
        It exports `wasi:http/incoming-handler` (0.2) or `wasi:http/handler` (0.3). See \
        [WebAssembly](wasm.md).",
    blank,
    keys: KEYS,
};

/// `[[site.route.middleware]]`
pub static MIDDLEWARE: Section<WasmConfig> = Section {
    name: "site.route.middleware",
    repeated: true,
    documentation: "A WebAssembly component (middleware) that runs before the action of the route: a file, a \
        program or another server. It may read a request, change its fields and body, answer it, or pass it \
        on. Several run one after another. See [WebAssembly](wasm.md#middleware).",
    blank,
    keys: KEYS,
};

fn blank() -> WasmConfig {
    WasmConfig {
        component: None,
        compiled: None,
        environment: BTreeMap::new(),
        config: BTreeMap::new(),
        buckets: Vec::new(),
        bucket_size: 0,
        directories: Vec::new(),
        outgoing: Vec::new(),
        reuse: 0,
        concurrency: 0,
        memory: 0,
        computing_timeout: Duration::ZERO,
        answer_timeout: Duration::ZERO,
        body_size: 0,
        output_size: 0,
    }
}

/// The keys of a component, in each section that has one.
const KEYS: &[Key<WasmConfig>] = &[
    Key {
        name: "component",
        default: None,
        example: "\"hello.wasm\"",
        documentation: "The component, a binary of the world `wasi:http/proxy` or `wasi:http/service`. \
                A reload reads it again.",
        kind: Kind::File(|wasm, value| wasm.component = value),
    },
    Key {
        name: "compiled",
        default: Some("\"/var/cache/touchstone/wasm\""),
        example: "\"/var/cache/touchstone/wasm\"",
        documentation: "The directory for compiled components, so that each is compiled only once. It must \
                belong to the server's user, and no other user may write to it; it is created if it is \
                missing. If it cannot be used, or is `\"\"`, components are compiled at each start.",
        kind: Kind::File(|wasm, value| wasm.compiled = value),
    },
    Key {
        name: "environment",
        default: Some("{}"),
        example: "{ LEVEL = \"debug\" }",
        documentation: "Variables of the component's environment. It inherits no variables of the server's \
                environment.",
        kind: Kind::Fields {
            what: "table from names of variables to values",
            check: |_, _| Ok(()),
            set: |wasm, value| wasm.environment = value,
        },
    },
    Key {
        name: "config",
        default: Some("{}"),
        example: "{ greeting = \"hello\" }",
        documentation: "The values that `wasi:config/store` returns to the component.",
        kind: Kind::Fields {
            what: "table from names to values",
            check: |_, _| Ok(()),
            set: |wasm, value| wasm.config = value,
        },
    },
    Key {
        name: "buckets",
        default: Some("[]"),
        example: "[\"sessions\"]",
        documentation: "The buckets of keys and values that the component may open by `wasi:keyvalue`. They \
                belong to the site: all components of it that name a bucket share it, with all instances of \
                them. They are in the memory of the process: a reload keeps them, and they are lost when the \
                process ends.",
        kind: Kind::CheckedArray {
            what: "array of names",
            parse: bucket,
            set: |wasm, value| wasm.buckets = value,
        },
    },
    Key {
        name: "bucket_size",
        default: Some("\"16MiB\""),
        example: "\"64MiB\"",
        documentation: "How much a bucket may hold when this component writes to it: its keys and values, \
                and 96 bytes for each. A write beyond it is refused, and the component gets an error.",
        kind: Kind::Size { least: 4 << 10, most: 16 << 30, set: |wasm, value| wasm.bucket_size = value },
    },
    Key {
        name: "directories",
        default: Some("[]"),
        example: "[\"/data=/srv/data\"]",
        documentation: "The only directories that the component may read: `\"/srv/data\"`, or with the path \
                that the component uses before it: `\"/data=/srv/data\"`. It cannot write. Paths are \
                absolute.",
        kind: Kind::CheckedArray {
            what: "array of absolute paths of directories",
            parse: |text| directory(text).map(|_| text.to_string()),
            set: |wasm, value| wasm.directories = value,
        },
    },
    Key {
        name: "outgoing",
        default: Some("[]"),
        example: "[\"https://api.example.com\"]",
        documentation: "Origins to which the component may send requests, through the server's own client: \
                scheme, host, and port if it is not the default port of the scheme. All other requests fail \
                with `HTTP-request-denied`. Empty: it may send none.",
        kind: Kind::CheckedArray {
            what: "array of origins",
            parse: origin,
            set: |wasm, value| wasm.outgoing = value,
        },
    },
    Key {
        name: "reuse",
        default: Some("1"),
        example: "100",
        documentation: "Requests that an instance answers, one after another. 1: each request gets a new \
                instance, so that no data of one client remains for the next. A larger number is faster; \
                then the component must not keep data of a visitor.",
        kind: Kind::Number { least: 1, most: 1_000_000, set: |wasm, value| wasm.reuse = value },
    },
    Key {
        name: "concurrency",
        default: Some("1000"),
        example: "200",
        documentation: "Requests at a time. More get 503 Service Unavailable. All components of a server \
                together have at most 2000.",
        kind: Kind::Number { least: 1, most: 2_000, set: |wasm, value| wasm.concurrency = value },
    },
    Key {
        name: "memory",
        default: Some("\"128MiB\""),
        example: "\"64MiB\"",
        documentation: "The most memory of an instance. A request for more memory fails, which ends most \
            programs: 500 Internal Server Error.",
        kind: Kind::Size { least: 64 << 10, most: 1 << 30, set: |wasm, value| wasm.memory = value },
    },
    Key {
        name: "computing_timeout",
        default: Some("\"10s\""),
        example: "\"500ms\"",
        documentation: "How long an instance may compute for a request, without the time in which it \
                waits. After that the request gets 504 Gateway Timeout, or its answer breaks off.",
        kind: Kind::Duration {
            least: Duration::from_millis(1),
            most: DAY,
            set: |wasm, value| wasm.computing_timeout = value,
        },
    },
    Key {
        name: "answer_timeout",
        default: Some("\"60s\""),
        example: "\"10s\"",
        documentation: "How long a request waits for the head of the answer: after that it gets 504 Gateway \
                Timeout. Also the longest pause between two pieces of the body, and how long an instance may \
                continue after its answer. 0: no limit.",
        kind: Kind::Duration {
            least: Duration::ZERO,
            most: DAY,
            set: |wasm, value| wasm.answer_timeout = value,
        },
    },
    Key {
        name: "body_size",
        default: Some("0"),
        example: "\"10MiB\"",
        documentation: "The longest body of an answer; one that becomes longer breaks off. 0: no limit, \
                since no more of a body is kept in memory than the client is about to take.",
        kind: Kind::Size { least: 0, most: 1 << 50, set: |wasm, value| wasm.body_size = value },
    },
    Key {
        name: "output_size",
        default: Some("\"8KiB\""),
        example: "\"64KiB\"",
        documentation: "How much of what the component writes to its standard output and error for a \
                request goes to the error log.",
        kind: Kind::Size { least: 0, most: 1 << 20, set: |wasm, value| wasm.output_size = value },
    },
];

/// Checks the name of a bucket. It may be empty, because some components open the bucket without a name.
fn bucket(text: &str) -> Result<String, String> {
    if text.len() > 255 || text.chars().any(char::is_control) {
        return Err(format!(
            "{text:?} is not the name of a bucket: at most 255 bytes, no control characters"
        ));
    }
    Ok(text.to_string())
}

/// The component's name for a directory, and the directory.
pub fn directory(text: &str) -> Result<(&str, &str), String> {
    let (name, path) = text.split_once('=').unwrap_or((text, text));
    if name.is_empty() || !path.starts_with('/') || text.contains('\0') {
        return Err(format!("{text:?} is not the absolute path of a directory, such as \"/data=/srv/data\""));
    }
    Ok((name, path))
}

/// Checks an origin, and returns it in the form in which origins are compared.
fn origin(text: &str) -> Result<String, String> {
    let wrong = || format!("{text:?} is not an origin, such as \"https://api.example.com\"");
    let lower = text.to_ascii_lowercase();
    let (scheme, authority) = lower.split_once("://").ok_or_else(wrong)?;
    let own_port = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return Err(wrong()),
    };
    let authority = authority.strip_suffix('/').unwrap_or(authority);
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let port = match port {
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(port.parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(wrong)?)
        }
        Some(_) => return Err(wrong()),
        None => None,
    };
    let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(is_of_host),
    };
    if !is_host {
        return Err(wrong());
    }
    Ok(match port.filter(|port| *port != own_port) {
        Some(port) => format!("{scheme}://{host}:{port}"),
        None => format!("{scheme}://{host}"),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn origins_have_one_form() {
        for (text, form) in [
            ("https://API.example.com", "https://api.example.com"),
            ("https://api.example.com:443/", "https://api.example.com"),
            ("http://api.example.com:443", "http://api.example.com:443"),
            ("http://[::1]:8080", "http://[::1]:8080"),
            ("http://[::1]", "http://[::1]"),
            ("http://a:0080", "http://a"),
            ("http://a:0081", "http://a:81"),
        ] {
            assert_eq!(origin(text).as_deref(), Ok(form), "{text}");
        }
        for text in [
            "api.example.com",
            "ftp://a",
            "http://",
            "http://a/b",
            "http://u@a",
            "http://a:",
            "http://a:0",
            "http://a:99999",
            "http://[::x]",
            "http://a b",
            "http://*.example.com",
        ] {
            assert!(origin(text).is_err(), "{text}");
        }
    }

    #[test]
    fn directories_are_absolute() {
        assert_eq!(directory("/srv/data"), Ok(("/srv/data", "/srv/data")));
        assert_eq!(directory("/data=/srv/data"), Ok(("/data", "/srv/data")));
        assert_eq!(directory(".=/srv/data"), Ok((".", "/srv/data")));
        for text in ["", "data", "/data=", "/data=srv", "=/srv"] {
            assert!(directory(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,60}") {
            let _ = directory(&text);
            if let Ok(form) = origin(&text) {
                prop_assert_eq!(origin(&form), Ok(form.clone()));
            }
        }
    }
}
