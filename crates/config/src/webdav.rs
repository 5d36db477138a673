//! `[site.route.webdav]`: files that clients list, write, copy, move and lock.

use std::path::PathBuf;
use std::time::Duration;

use touchstone_config_section::values::DAY;
use touchstone_config_section::{Key, Kind, Section, as_usize};
use touchstone_webdav::DavMethod;

/// `[site.route.webdav]`
#[derive(Debug, Clone, PartialEq)]
pub struct WebDavConfig {
    /// Clients may change files.
    pub write: bool,
    /// Every client may.
    pub open: bool,
    /// The methods besides GET, HEAD and OPTIONS; empty: all that `write` permits.
    pub methods: Vec<DavMethod>,
    /// The directory for locks and dead properties.
    pub state: PathBuf,
    /// PROPFIND may request a whole tree.
    pub infinite_depth: bool,
    /// The most resources of one PROPFIND, and of one COPY.
    pub entries: usize,
    /// The most bytes of an XML body.
    pub xml_bytes: u64,
    /// The most bytes of all dead properties.
    pub properties: u64,
    /// The most locks at a time.
    pub locks: usize,
    /// The longest time of a lock.
    pub lock_timeout: Duration,
    /// An upload is on the disk before its client gets the answer.
    pub sync: bool,
}

impl WebDavConfig {
    /// The methods besides GET, HEAD and OPTIONS.
    pub fn allowed(&self) -> Vec<DavMethod> {
        let is_allowed = |method: &DavMethod| match self.methods.is_empty() {
            true => self.write || !method.writes(),
            false => self.methods.contains(method),
        };
        DavMethod::ALL.into_iter().filter(is_allowed).collect()
    }
}

/// `[site.route.webdav]`
pub static WEBDAV: Section<WebDavConfig> = Section {
    name: "site.route.webdav",
    repeated: false,
    documentation: "WebDAV, class 1 and 2: clients list the files of the route, and with `write = true` they \
        upload, remove, copy, move and lock them. The files are those of the route's `root` or `alias`, or \
        of the site. See [WebDAV](webdav.md).",
    blank: || WebDavConfig {
        write: false,
        open: false,
        methods: Vec::new(),
        state: PathBuf::new(),
        infinite_depth: false,
        entries: 0,
        xml_bytes: 0,
        properties: 0,
        locks: 0,
        lock_timeout: Duration::ZERO,
        sync: false,
    },
    keys: &[
        Key {
            name: "write",
            default: Some("false"),
            example: "true",
            documentation: "Whether clients may change files. The route or its site must then restrict the \
                clients: by `allow`, `basic_authentication`, `jwt`, `forward_auth`, `signed_link` or client \
                certificates. `body_bytes` limits the size of uploads.",
            kind: Kind::Boolean(|webdav, value| webdav.write = value),
        },
        Key {
            name: "open",
            default: Some("false"),
            example: "false",
            documentation: "Whether every client may write, without any of those keys.",
            kind: Kind::Boolean(|webdav, value| webdav.open = value),
        },
        Key {
            name: "methods",
            default: Some("[]"),
            example: "[\"PUT\", \"DELETE\"]",
            documentation: "The methods that are answered, besides GET, HEAD and OPTIONS: PROPFIND, \
                PROPPATCH, MKCOL, PUT, DELETE, COPY, MOVE, LOCK and UNLOCK. `[\"PUT\", \"DELETE\"]` accepts \
                uploads without WebDAV. Empty: all with `write`, otherwise PROPFIND.",
            kind: Kind::CheckedArray {
                what: "array of methods",
                parse: method,
                set: |webdav, value| {
                    let names = value.iter();
                    webdav.methods = names.filter_map(|name| DavMethod::from_name(name.as_bytes())).collect();
                },
            },
        },
        Key {
            name: "state",
            default: Some("\"/var/lib/touchstone/webdav\""),
            example: "\"/var/lib/touchstone/webdav\"",
            documentation: "The directory for locks and dead properties, which are kept after the end of the \
                process. It must belong to the server's user and be outside the files; it is created if it \
                is missing.",
            kind: Kind::Directory(|webdav, value| webdav.state = value),
        },
        Key {
            name: "infinite_depth",
            default: Some("false"),
            example: "false",
            documentation: "Whether a PROPFIND may request a whole tree (`Depth: infinity`).",
            kind: Kind::Boolean(|webdav, value| webdav.infinite_depth = value),
        },
        Key {
            name: "entries",
            default: Some("10000"),
            example: "10000",
            documentation: "The most files and directories of one PROPFIND, and of one COPY. More are 507.",
            kind: Kind::Number {
                least: 1,
                most: 10_000_000,
                set: |webdav, value| webdav.entries = as_usize(value),
            },
        },
        Key {
            name: "xml_bytes",
            default: Some("\"64KiB\""),
            example: "\"64KiB\"",
            documentation: "The longest XML body of a PROPFIND, PROPPATCH or LOCK. Longer ones are 413.",
            kind: Kind::Size { least: 1 << 10, most: 1 << 20, set: |webdav, value| webdav.xml_bytes = value },
        },
        Key {
            name: "properties",
            default: Some("\"64MiB\""),
            example: "\"64MiB\"",
            documentation: "About how much memory all dead properties of the files may take; those of one \
                file are at most 64 KiB. Requests above a limit are answered with 507.",
            kind: Kind::Size { least: 0, most: 16 << 30, set: |webdav, value| webdav.properties = value },
        },
        Key {
            name: "locks",
            default: Some("1000"),
            example: "1000",
            documentation: "The most locks at a time. More are 507.",
            kind: Kind::Number {
                least: 1,
                most: 1_000_000,
                set: |webdav, value| webdav.locks = as_usize(value),
            },
        },
        Key {
            name: "lock_timeout",
            default: Some("\"1h\""),
            example: "\"1h\"",
            documentation: "The longest time of a lock; a client that requests a longer time, or none, gets \
                this one. Clients renew their locks.",
            kind: Kind::Duration {
                least: Duration::from_secs(1),
                most: DAY.saturating_mul(30),
                set: |webdav, value| webdav.lock_timeout = value,
            },
        },
        Key {
            name: "sync",
            default: Some("true"),
            example: "false",
            documentation: "Whether an uploaded or copied file is on the disk before its client gets the \
                answer. With `false` uploads are faster, and the last ones may be lost in a power failure.",
            kind: Kind::Boolean(|webdav, value| webdav.sync = value),
        },
    ],
};

fn method(text: &str) -> Result<String, String> {
    match DavMethod::from_name(text.as_bytes()) {
        Some(_) => Ok(text.to_string()),
        None => {
            let names: Vec<&str> = DavMethod::ALL.iter().map(|method| method.name()).collect();
            Err(format!("{text:?} is not one of {}", names.join(", ")))
        }
    }
}
