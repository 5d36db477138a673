//! `[site.route.python]`: Python applications, WSGI and ASGI.

use std::path::{Path, PathBuf};
use std::time::Duration;

use touchstone_config_section::reader::{Reader, Value};
use touchstone_config_section::{ABSENT, Choice, Key, Kind, Section, SectionPlaces, as_usize};
use touchstone_python::settings::{Limits, Protocol, RouteSettings};

const HOUR: Duration = Duration::from_secs(60 * 60);

/// `[site.route.python]`
#[derive(Debug, Clone, PartialEq)]
pub struct PythonConfig {
    /// The settings of the route.
    pub settings: RouteSettings,
}

/// `[site.route.python]`
pub static PYTHON: Section<PythonConfig> = Section {
    name: "site.route.python",
    repeated: false,
    documentation: "A Python application answers the requests, in worker processes that the server starts \
        and watches: WSGI (Django, Flask) or ASGI (FastAPI, Starlette). See [Python](python.md).",
    blank: || PythonConfig {
        settings: RouteSettings {
            app: String::new(),
            protocol: Protocol::Detect,
            is_factory: false,
            directory: PathBuf::new(),
            path: Vec::new(),
            virtual_environment: None,
            workers: 0,
            threads: 0,
            environment: Vec::new(),
            user: String::new(),
            script_name: String::new(),
            reload: false,
            limits: LIMITS.defaults(),
        },
    },
    keys: &[
        Key {
            name: "app",
            default: None,
            example: "\"shop.wsgi:application\"",
            documentation: "The application: a module, a colon, and the name in it. Without a name it is \
                `application`.",
            kind: Kind::Checked {
                what: "module and name",
                parse: |text, _| application(text),
                set: |python, value| python.settings.app = value,
            },
        },
        Key {
            name: "protocol",
            default: Some("\"detect\""),
            example: "\"asgi\"",
            documentation: "The interface that the application has.",
            kind: Kind::Choice(&[
                Choice {
                    word: "detect",
                    meaning: "ASGI if it is, or its `__call__` is, an `async def`, otherwise WSGI",
                    set: |python| python.settings.protocol = Protocol::Detect,
                },
                Choice {
                    word: "wsgi",
                    meaning: "PEP 3333",
                    set: |python| python.settings.protocol = Protocol::Wsgi,
                },
                Choice {
                    word: "asgi",
                    meaning: "ASGI 3",
                    set: |python| python.settings.protocol = Protocol::Asgi,
                },
            ]),
        },
        Key {
            name: "factory",
            default: Some("false"),
            example: "true",
            documentation: "Whether `app` names a function that makes the application.",
            kind: Kind::Boolean(|python, value| python.settings.is_factory = value),
        },
        Key {
            name: "directory",
            default: Some("\".\""),
            example: "\"/srv/shop\"",
            documentation: "The current directory of the workers, in which modules are searched for first.",
            kind: Kind::Directory(|python, value| python.settings.directory = value),
        },
        Key {
            name: "path",
            default: Some("[]"),
            example: "[\"/srv/shop/lib\"]",
            documentation: "More directories in which modules are searched for, after `directory`, as \
                absolute paths.",
            kind: Kind::CheckedArray {
                what: "array of absolute paths",
                parse: absolute_path,
                set: |python, value| python.settings.path = value.into_iter().map(PathBuf::from).collect(),
            },
        },
        Key {
            name: "virtualenv",
            default: Some("\"\""),
            example: "\"/srv/shop/venv\"",
            documentation: "The virtual environment, or a program `python3` of version 3.9 to 3.14. Empty: \
                that of `VIRTUAL_ENV`, or the `python3` on the PATH.",
            kind: Kind::File(|python, value| python.settings.virtual_environment = value),
        },
        Key {
            name: "workers",
            default: Some("0"),
            example: "4",
            documentation: "The number of worker processes. 0: the number of processors.",
            kind: Kind::Number {
                least: 0,
                most: 256,
                set: |python, value| python.settings.workers = as_usize(value),
            },
        },
        Key {
            name: "threads",
            default: Some("8"),
            example: "1",
            documentation: "Threads of a worker that call a WSGI application at a time. They are started \
                when requests wait because those at work are themselves waiting. 1: the application is \
                never called by two threads.",
            kind: Kind::Number {
                least: 1,
                most: 1024,
                set: |python, value| python.settings.threads = as_usize(value),
            },
        },
        Key {
            name: "environment",
            default: Some("{}"),
            example: "{ DJANGO_SETTINGS_MODULE = \"shop.settings\" }",
            documentation: "Variables of the workers' environment, beside those of the server's. With `user` \
                the workers get no other variables of the server than PATH, TZ and those of the language.",
            kind: Kind::Fields {
                what: "table from names of variables to values",
                check: check_variable,
                set: |python, value| python.settings.environment = value.into_iter().collect(),
            },
        },
        Key {
            name: "user",
            default: Some("\"\""),
            example: "\"www-data\"",
            documentation: "The user under which the workers run: a user, or `user:group`, by name or by \
                number. Root must start the server for it. Empty: the user of the server.",
            kind: Kind::Checked {
                what: "user",
                parse: |text, _| match text.bytes().all(|byte| byte.is_ascii_graphic()) {
                    true => Ok(text.to_string()),
                    false => Err(format!("{text:?} is not the name of a user")),
                },
                set: |python, value| python.settings.user = value,
            },
        },
        Key {
            name: "script_name",
            default: Some("\"\""),
            example: "\"/shop\"",
            documentation: "The path of the site below which the application is mounted: `SCRIPT_NAME` of \
                WSGI, which `PATH_INFO` then does not contain, and `root_path` of ASGI. Empty: the \
                application receives whole paths.",
            kind: Kind::Checked {
                what: "path",
                parse: |text, _| script_name(text),
                set: |python, value| python.settings.script_name = value,
            },
        },
        Key {
            name: "reload",
            default: Some("false"),
            example: "true",
            documentation: "Whether workers are replaced when a source file of the application changes. For \
                development: the files are checked twice a second.",
            kind: Kind::Boolean(|python, value| python.settings.reload = value),
        },
        Key {
            name: "limits",
            default: Some(ABSENT),
            example: "{ memory = \"512MiB\", answer = \"30s\" }",
            documentation: "What the workers may use, see `[site.route.python.limits]`.",
            kind: Kind::Table { read: read_limits },
        },
    ],
};

/// `[site.route.python.limits]`
pub static LIMITS: Section<Limits> = Section {
    name: "site.route.python.limits",
    repeated: false,
    documentation: "What the workers of a Python application may use.",
    blank: || Limits {
        answer: None,
        start: Duration::ZERO,
        drain: Duration::ZERO,
        memory: 0,
        requests: 0,
        queue: 0,
    },
    keys: &[
        Key {
            name: "answer",
            default: Some("\"60s\""),
            example: "\"30s\"",
            documentation: "How long an application may take until its answer begins, after the request and \
                the last part of its body were received. After that the client gets 504 Gateway Timeout; a \
                worker with WSGI is replaced, because a thread cannot be stopped. `\"0s\"`: no limit.",
            kind: Kind::Duration {
                least: Duration::ZERO,
                most: HOUR,
                set: |limits, value| limits.answer = (value > Duration::ZERO).then_some(value),
            },
        },
        Key {
            name: "start",
            default: Some("\"60s\""),
            example: "\"10s\"",
            documentation: "How long a worker may take to import the application, and how long requests wait \
                for it. After that it is killed, and the requests get 503 Service Unavailable.",
            kind: Kind::Duration {
                least: Duration::from_secs(1),
                most: Duration::from_secs(10 * 60),
                set: |limits, value| limits.start = value,
            },
        },
        Key {
            name: "drain",
            default: Some("\"30s\""),
            example: "\"5m\"",
            documentation: "How long active requests may continue in a worker that was replaced.",
            kind: Kind::Duration {
                least: Duration::from_secs(1),
                most: Duration::from_secs(24 * 60 * 60),
                set: |limits, value| limits.drain = value,
            },
        },
        Key {
            name: "memory",
            default: Some("0"),
            example: "\"512MiB\"",
            documentation: "Bytes of memory of a worker. An application that needs more gets a \
                `MemoryError`; a worker that uses nine tenths is replaced. 0: no limit.",
            kind: Kind::Size { least: 0, most: 1 << 46, set: |limits, value| limits.memory = value },
        },
        Key {
            name: "requests",
            default: Some("0"),
            example: "10000",
            documentation: "A worker is replaced after so many requests, or up to a tenth fewer. 0: never.",
            kind: Kind::Number { least: 0, most: 1 << 40, set: |limits, value| limits.requests = value },
        },
        Key {
            name: "queue",
            default: Some("1000"),
            example: "100",
            documentation: "Requests that a worker may have, those that wait in it included. More get 503 \
                Service Unavailable.",
            kind: Kind::Number {
                least: 1,
                most: 50_000,
                set: |limits, value| limits.queue = as_usize(value),
            },
        },
    ],
};

/// A module and a name in it, each with dots between its parts.
fn application(text: &str) -> Result<String, String> {
    let is_name = |part: &str| {
        let is_word = |word: &str| {
            !word.is_empty()
                && !word.starts_with(|first: char| first.is_ascii_digit())
                && word.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
        };
        part.split('.').all(is_word)
    };
    let (module, name) = text.split_once(':').unwrap_or((text, "application"));
    match is_name(module) && is_name(name) {
        true => Ok(text.to_string()),
        false => Err(format!("{text:?} is not a module with a name, such as \"shop.wsgi:application\"")),
    }
}

fn absolute_path(text: &str) -> Result<String, String> {
    match Path::new(text).is_absolute() && !text.contains('\0') {
        true => Ok(text.to_string()),
        false => Err(format!("{text:?} is not an absolute path")),
    }
}

fn check_variable(name: &str, value: &str) -> Result<(), String> {
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err(format!("{name:?} is not the name of a variable, such as \"APP_MODE\""));
    }
    match value.contains('\0') {
        true => Err(format!("the value of {name} may hold no zero byte")),
        false => Ok(()),
    }
}

fn script_name(text: &str) -> Result<String, String> {
    let is_path = text.is_empty() || (text.starts_with('/') && !text.ends_with('/'));
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte));
    let climbs = text.contains("//") || text.split('/').any(|part| part == "." || part == "..");
    match is_path && is_plain && !climbs {
        true => Ok(text.to_string()),
        false => Err(format!("{text:?} is not a mount path of an application, such as \"/shop\"")),
    }
}

fn read_limits(reader: &mut Reader<'_>, value: &Value<'_>, python: &mut PythonConfig) -> Vec<SectionPlaces> {
    reader.table(&LIMITS, value).map_or(Vec::new(), |(limits, places)| {
        python.settings.limits = limits;
        vec![places]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_applications_and_their_places() {
        for text in ["app", "app:application", "shop.wsgi:application", "shop.asgi:make.app", "café:größe"]
        {
            assert_eq!(application(text).as_deref(), Ok(text));
        }
        for text in ["", "app:", ":app", "shop/wsgi.py", "a-b:c", "a..b:c", "1a:b", "a:b:c", "a:b()"] {
            assert!(application(text).is_err(), "{text}");
        }
        for text in ["", "/shop", "/a/b-c_d"] {
            assert_eq!(script_name(text).as_deref(), Ok(text));
        }
        for text in ["shop", "/shop/", "/", "/a//b", "/../a", "/a b", "/a?b"] {
            assert!(script_name(text).is_err(), "{text}");
        }
        assert!(check_variable("A_B", "c d").is_ok());
        assert!(check_variable("A-B", "").is_err() && check_variable("A", "\0").is_err());
    }
}
