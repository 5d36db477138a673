//! `[site.route.nsapi]`: plug-ins for the interface of the Netscape, iPlanet and Sun web servers.

use std::path::PathBuf;
use std::time::Duration;

use touchstone_config_section::values::DAY;
use touchstone_config_section::{Choice, Key, Kind, Section};

/// `[site.route.nsapi]`
#[derive(Debug, Clone, PartialEq)]
pub struct NsapiConfig {
    /// An obj.conf.
    pub obj_conf: Option<PathBuf>,
    /// A magnus.conf.
    pub magnus_conf: Option<PathBuf>,
    /// Init lines.
    pub init: Vec<String>,
    /// Lines of the object `default`.
    pub directives: Vec<String>,
    /// Functions that may run on a core.
    pub inline: Vec<String>,
    /// The directory to which relative paths of plug-ins are relative.
    pub directory: Option<PathBuf>,
    /// The plug-ins run in a separate process.
    pub in_process_of_its_own: bool,
    /// The most threads on which functions may wait.
    pub threads: usize,
    /// The most requests that wait for a thread.
    pub queue: usize,
    /// Bytes of a thread's stack.
    pub stack_bytes: u64,
    /// How long a function may be inactive.
    pub function_timeout: Duration,
}

/// `[site.route.nsapi]`
pub static NSAPI: Section<NsapiConfig> = Section {
    name: "site.route.nsapi",
    repeated: false,
    documentation: "Plug-ins for NSAPI, the interface of the Netscape, iPlanet and Sun web servers, answer \
        the requests. An obj.conf and a magnus.conf of those servers, or lines of the same form here, \
        configure them. See [NSAPI](nsapi.md).",
    blank: || NsapiConfig {
        obj_conf: None,
        magnus_conf: None,
        init: Vec::new(),
        directives: Vec::new(),
        inline: Vec::new(),
        directory: None,
        in_process_of_its_own: false,
        threads: 0,
        queue: 0,
        stack_bytes: 0,
        function_timeout: Duration::ZERO,
    },
    keys: &[
        Key {
            name: "obj_conf",
            default: Some("\"\""),
            example: "\"config/obj.conf\"",
            documentation: "An obj.conf, read unchanged. Empty: none; then `directives` is used.",
            kind: Kind::File(|nsapi, value| nsapi.obj_conf = value),
        },
        Key {
            name: "magnus_conf",
            default: Some("\"\""),
            example: "\"config/magnus.conf\"",
            documentation: "A magnus.conf, for its Init lines and the values that plug-ins read. \
                Settings for which Touchstone has its own keys have no effect and are named in the log. \
                Empty: none.",
            kind: Kind::File(|nsapi, value| nsapi.magnus_conf = value),
        },
        Key {
            name: "init",
            default: Some("[]"),
            example: "[\"fn=load-modules shlib=plugin.so funcs=hello\"]",
            documentation: "Init lines, without the word Init.",
            kind: Kind::CheckedArray {
                what: "array of Init lines",
                parse: line,
                set: |nsapi, value| nsapi.init = value,
            },
        },
        Key {
            name: "directives",
            default: Some("[]"),
            example: "[\"Service fn=hello method=(GET|HEAD)\"]",
            documentation: "Lines of the object `default`. Not together with an obj.conf that has one.",
            kind: Kind::CheckedArray {
                what: "array of directives",
                parse: line,
                set: |nsapi, value| nsapi.directives = value,
            },
        },
        Key {
            name: "inline",
            default: Some("[]"),
            example: "[\"hello\"]",
            documentation: "Functions that run on the core itself, without a switch to a thread and back. \
                Only for functions that never wait: while one runs, all other connections of the core wait. \
                `inline=yes` of load-modules has the same effect.",
            kind: Kind::CheckedArray {
                what: "array of function names",
                parse: line,
                set: |nsapi, value| nsapi.inline = value,
            },
        },
        Key {
            name: "directory",
            default: Some("\"\""),
            example: "\"/usr/local/lib/nsapi\"",
            documentation: "The directory to which relative paths of plug-ins are relative. \
                Empty: the directory of the obj.conf or the magnus.conf; without these, the root.",
            kind: Kind::File(|nsapi, value| nsapi.directory = value),
        },
        Key {
            name: "host",
            default: Some("\"server\""),
            example: "\"process\"",
            documentation: "Where the plug-ins run. In a process of their own, a crash ends only the \
                requests in it, which get 502, and the process is restarted; in the server, a crash ends the \
                server.",
            kind: Kind::Choice(&[
                Choice {
                    word: "server",
                    meaning: "in the server: fastest",
                    set: |nsapi| nsapi.in_process_of_its_own = false,
                },
                Choice {
                    word: "process",
                    meaning: "in a process that is watched",
                    set: |nsapi| nsapi.in_process_of_its_own = true,
                },
            ]),
        },
        Key {
            name: "threads",
            default: Some("64"),
            example: "128",
            documentation: "The most threads on which functions may wait; threads are started when needed.",
            kind: Kind::Number { least: 1, most: 4_096, set: |nsapi, value| nsapi.threads = value as usize },
        },
        Key {
            name: "queue",
            default: Some("256"),
            example: "1000",
            documentation: "Requests that may wait for a thread. More get 503 Service Unavailable.",
            kind: Kind::Number { least: 0, most: 100_000, set: |nsapi, value| nsapi.queue = value as usize },
        },
        Key {
            name: "stack_size",
            default: Some("\"1MiB\""),
            example: "\"256KiB\"",
            documentation: "The stack of each thread.",
            kind: Kind::Size {
                least: 64 << 10,
                most: 1 << 30,
                set: |nsapi, value| nsapi.stack_bytes = value,
            },
        },
        Key {
            name: "function_timeout",
            default: Some("\"300s\""),
            example: "\"30s\"",
            documentation: "How long a function on a thread may be inactive: it neither reads nor writes nor \
                ends. After that the request is answered with 504 Gateway Timeout, or its answer is cut off; \
                a request that has waited this long for a thread gets 503. The thread cannot be ended: \
                another thread replaces it, at most as many as `threads`. A process of plug-ins is restarted \
                when that many of its functions hang. 0: no limit.",
            kind: Kind::Duration {
                least: Duration::ZERO,
                most: DAY,
                set: |nsapi, value| nsapi.function_timeout = value,
            },
        },
    ],
};

fn line(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("an empty line has no effect".to_string()),
        trimmed if trimmed.contains(['\n', '\r', '\0']) => Err("a line holds no line break".to_string()),
        trimmed => Ok(trimmed.to_string()),
    }
}
