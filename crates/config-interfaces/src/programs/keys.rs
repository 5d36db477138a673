//! The keys of programs that listen, those of all protocols.

use std::time::Duration;

use touchstone_config_section::values::{self, DAY, HOUR, MIB};
use touchstone_config_section::{ABSENT, Choice, Key, Kind};
use touchstone_interfaces::backend::Balance;

use super::ProgramsConfig;
use super::backend::{is_suffix_byte, parse_backend};

const MOST_COUNT: u64 = 1 << 24;
pub(super) const INSTANT: Duration = Duration::from_millis(10);

// ---- where the programs run and listen

pub(super) const BACKENDS: Key<ProgramsConfig> = Key {
    name: "backends",
    default: Some("[]"),
    example: "[\"unix:/run/app.sock weight=2\", \"127.0.0.1:9000 backup\"]",
    documentation: "Where programs listen: `unix:` with the path of a socket, or an address with its port. \
        Several must run the same program; then `weight=` sets the share of the requests of one, and \
        `backup` marks one that gets only those for which no other is available.",
    kind: Kind::CheckedArray {
        what: "array of addresses of programs",
        parse: |text| match parse_backend(text)?.route.as_str() {
            "" => Ok(text.to_string()),
            _ => Err(format!("{text:?}: only sessions of servlet containers have a route")),
        },
        set: |programs, value| programs.backends = value,
    },
};

pub(super) const COMMAND: Key<ProgramsConfig> = Key {
    name: "command",
    default: Some("[]"),
    example: "[\"/usr/lib/app/app.fcgi\", \"--quiet\"]",
    documentation: "A program with its arguments, which the server starts, watches and restarts. \
        It accepts connections at its descriptor 0, as such programs do. Instead of `backends`.",
    kind: Kind::CheckedArray {
        what: "array of a program and its arguments",
        parse: |text| match text.contains('\0') {
            true => Err("an argument holds a zero byte".to_string()),
            false => Ok(text.to_string()),
        },
        set: |programs, value| programs.command = value,
    },
};

pub(super) const PROGRAM: Key<ProgramsConfig> = Key {
    name: "program",
    default: Some("\"\""),
    example: "\"/usr/sbin/php-fpm8.2\"",
    documentation: "The php-fpm that the server starts if there are no `backends`. \
        Empty: php-fpm, or the newest php-fpm with a version in its name.",
    kind: Kind::Checked {
        what: "path of a program, or its name",
        parse: |text, _| Ok(text.to_string()),
        set: |programs, value| programs.program = value,
    },
};

pub(super) const PROCESSES: Key<ProgramsConfig> = Key {
    name: "processes",
    default: Some("0"),
    example: "8",
    documentation: "How many processes the server starts; each serves one request at a time. \
        0: four for each processor, and one for each of a program that is not PHP.",
    kind: Kind::Number { least: 0, most: 10_000, set: |programs, value| programs.processes = value },
};

pub(super) const SOCKET: Key<ProgramsConfig> = Key {
    name: "socket",
    default: Some("\"auto\""),
    example: "\"/run/touchstone/app.sock\"",
    documentation: "The unix socket on which the processes that the server starts listen, by its path. \
        `\"auto\"`: in a directory that only the server's user can enter.",
    kind: Kind::Checked {
        what: "path of a socket, or `\"auto\"`",
        parse: |text, base| match text {
            "auto" => Ok("auto".to_string()),
            _ => values::parse_path(text, base).map(|path| path.to_string_lossy().into_owned()),
        },
        set: |programs, text| programs.socket = (text != "auto").then(|| text.into()),
    },
};

pub(super) const DIRECTORY: Key<ProgramsConfig> = Key {
    name: "directory",
    default: Some("\"\""),
    example: "\"/var/lib/app\"",
    documentation: "The current directory of the processes that the server starts. Empty: the server's own.",
    kind: Kind::File(|programs, value| programs.directory = value),
};

pub(super) const ENVIRONMENT: Key<ProgramsConfig> = Key {
    name: "environment",
    default: Some("{}"),
    example: "{ APP_MODE = \"production\" }",
    documentation: "The environment of the processes that the server starts. \
        From the server's own environment they inherit only PATH.",
    kind: Kind::Fields {
        what: "table from names of variables to values",
        check: |name, value| check_variable(name).and_then(|()| check_plain(name, value)),
        set: |programs, value| programs.environment = value,
    },
};

pub(super) const USER: Key<ProgramsConfig> = Key {
    name: "user",
    default: Some("\"\""),
    example: "\"www-data\"",
    documentation: "The user under which the processes run that the server starts: a user, or `user:group`, \
        by name or by number. Root must start the server for it. Empty: the user of the server; but a \
        php-fpm that root starts needs a user here.",
    kind: Kind::Checked {
        what: "user",
        parse: |text, _| match text.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Ok(text.to_string()),
            false => Err(format!("{text:?} is not the name of a user")),
        },
        set: |programs, value| programs.user = value,
    },
};

pub(super) const SETTINGS: Key<ProgramsConfig> = Key {
    name: "settings",
    default: Some("{}"),
    example: "{ memory_limit = \"256M\", post_max_size = \"200M\" }",
    documentation: "Settings of PHP, which scripts cannot change, of the php-fpm that the server starts.",
    kind: Kind::Fields {
        what: "table from names of settings to values",
        check: touchstone_processes::pool::check_setting,
        set: |programs, value| programs.settings = value,
    },
};

pub(super) const PROCESS_REQUESTS: Key<ProgramsConfig> = Key {
    name: "process_requests",
    default: Some("1000"),
    example: "500",
    documentation: "After how many requests a process of the php-fpm that the server starts is replaced by a \
        new one, in case its scripts lose memory. 0: never.",
    kind: Kind::Number {
        least: 0,
        most: MOST_COUNT,
        set: |programs, value| programs.process_requests = value,
    },
};

pub(super) const MEMORY: Key<ProgramsConfig> = Key {
    name: "memory",
    default: Some("0"),
    example: "\"512MiB\"",
    documentation: "The memory (RLIMIT_AS) of each process that the server starts. 0: no limit.",
    kind: Kind::Size { least: 0, most: 1 << 50, set: |programs, value| programs.memory = value },
};

pub(super) const OPEN_FILES: Key<ProgramsConfig> = Key {
    name: "open_files",
    default: Some("0"),
    example: "1024",
    documentation: "The files that each process that the server starts may have open (RLIMIT_NOFILE). \
        0: as many as the server.",
    kind: Kind::Number { least: 0, most: 1 << 30, set: |programs, value| programs.open_files = value },
};

pub(super) const STOP_TIMEOUT: Key<ProgramsConfig> = Key {
    name: "stop_timeout",
    default: Some("\"10s\""),
    example: "\"3s\"",
    documentation: "How long the processes that the server starts may take to end after SIGTERM. \
        After that they, and the processes that they have started, get SIGKILL.",
    kind: Kind::Duration { least: INSTANT, most: HOUR, set: |programs, value| programs.stop_timeout = value },
};

// ---- the program of a path, and its variables

pub(super) const SCRIPT_NAME: Key<ProgramsConfig> = Key {
    name: "script_name",
    default: Some("\"\""),
    example: "\"/app\"",
    documentation: "The beginning of the path under which the program is mounted, without a slash at its \
        end: it becomes SCRIPT_NAME, and the rest becomes PATH_INFO. Empty: PATH_INFO is the whole path.",
    kind: Kind::Checked {
        what: "path without a slash at its end, or empty",
        parse: |text, _| match text.is_empty() || text.starts_with('/') && !text.ends_with('/') {
            true => Ok(text.to_string()),
            false => Err(format!("{text:?} must begin with a slash and end without one")),
        },
        set: |programs, value| programs.script_name = value,
    },
};

pub(super) const SCRIPTS: Key<ProgramsConfig> = Key {
    name: "scripts",
    default: Some("[]"),
    example: "[\".php\"]",
    documentation: "The endings of the names of scripts, which are files below the root of the route or \
        site. The path is split after the first such file: SCRIPT_NAME and SCRIPT_FILENAME name it, \
        PATH_INFO is the rest. A path without a script is that of a file, or is answered by \
        `front_controller`. Empty: one program answers all paths.",
    kind: Kind::CheckedArray {
        what: "array of endings of file names",
        parse: |text| match text.len() > 1 && text.starts_with('.') && text.bytes().all(is_suffix_byte) {
            true => Ok(text.to_string()),
            false => Err(format!("{text:?} is not the ending of a file name, such as \".php\"")),
        },
        set: |programs, value| programs.scripts = value,
    },
};

pub(super) const INDEX: Key<ProgramsConfig> = Key {
    name: "index",
    default: Some("[]"),
    example: "[\"index.php\"]",
    documentation: "The names that are tried in turn for a directory, where there are `scripts`.",
    kind: Kind::FileNames(|programs, value| programs.index = value),
};

pub(super) const FRONT_CONTROLLER: Key<ProgramsConfig> = Key {
    name: "front_controller",
    default: Some("\"\""),
    example: "\"/index.php?url=$path&$query\"",
    documentation: "The script that answers all paths that are not files, as most applications need it; it \
        finds the path in REQUEST_URI. With a `?` it gets this query in place of that of the request, with \
        the [variables](routes.md#variables) of `rewrite.to`; values of the path are percent-encoded, so a \
        path cannot add a parameter. Empty: such a path is not found.",
    kind: Kind::Checked {
        what: "path that begins with `/`, perhaps with a query, or empty",
        parse: |text, _| parse_front_controller(text),
        set: |programs, value| programs.front_controller = value,
    },
};

/// The script of a front controller is a path, and its query is read with the route.
fn parse_front_controller(text: &str) -> Result<String, String> {
    let Some((script, _)) = text.split_once('?') else { return values::parse_site_path_or_empty(text) };
    if script.contains(['$', '%']) {
        return Err(format!("{text:?} has a variable or an escape in the name of the script"));
    }
    values::parse_site_path(script).map(|_| text.to_string())
}

pub(super) const DOCUMENT_ROOT: Key<ProgramsConfig> = Key {
    name: "document_root",
    default: Some("\"\""),
    example: "\"/var/www/html\"",
    documentation: "The path of the root for the programs (DOCUMENT_ROOT and SCRIPT_FILENAME), if it \
        differs, as in a container or after chroot. Empty: the root of the route or site.",
    kind: Kind::File(|programs, value| programs.document_root = value),
};

pub(super) const VARIABLES: Key<ProgramsConfig> = Key {
    name: "variables",
    default: Some("{}"),
    example: "{ APP_ENV = \"production\" }",
    documentation: "Variables of each request. They replace those of the server with the same names.",
    kind: Kind::Fields {
        what: "table from names of variables to values",
        check: |name, value| check_variable(name).and_then(|()| check_plain(name, value)),
        set: |programs, value| programs.variables = value,
    },
};

pub(super) const PASS_AUTHORIZATION: Key<ProgramsConfig> = Key {
    name: "pass_authorization",
    default: Some("false"),
    example: "true",
    documentation: "Whether the programs receive the field Authorization, as HTTP_AUTHORIZATION. Only for \
        programs that check users themselves: the field holds passwords.",
    kind: Kind::Boolean(|programs, value| programs.pass_authorization = value),
};

pub(super) const SEND_FILES_FROM: Key<ProgramsConfig> = Key {
    name: "send_files_from",
    default: Some("\"\""),
    example: "\"/srv/downloads\"",
    documentation: "A directory of files that the server sends instead of the program's body if the program \
        names one: by the path below the directory in X-Accel-Redirect, or by the whole path in X-Sendfile. \
        Empty: these fields have no effect.",
    kind: Kind::File(|programs, value| programs.send_files_from = value),
};

// ---- connections

pub(super) const KEEP_CONNECTIONS: Key<ProgramsConfig> = Key {
    name: "keep_connections",
    default: Some(ABSENT),
    example: "true",
    documentation: "Whether a connection serves more than one request. With most programs a persistent \
        connection occupies a process, so `connections` should not exceed the number of processes. Not \
        given: connections to processes that the server starts are persistent, and those to `backends` are \
        not.",
    kind: Kind::Boolean(|programs, value| programs.keep_connections = Some(value)),
};

pub(super) const CONNECTIONS: Key<ProgramsConfig> = Key {
    name: "connections",
    default: Some("0"),
    example: "16",
    documentation: "The most connections to each backend, of all cores together. \
        0: any number, or the number of processes that the server starts.",
    kind: Kind::Number { least: 0, most: MOST_COUNT, set: |programs, value| programs.connections = value },
};

pub(super) const IDLE_CONNECTIONS: Key<ProgramsConfig> = Key {
    name: "idle_connections",
    default: Some("16"),
    example: "4",
    documentation: "The most idle connections to each backend that each core keeps for longer than a second. \
        0: none is kept.",
    kind: Kind::Number {
        least: 0,
        most: MOST_COUNT,
        set: |programs, value| programs.idle_connections = value,
    },
};

pub(super) const KEEP_ALIVE_TIMEOUT: Key<ProgramsConfig> = Key {
    name: "keep_alive_timeout",
    default: Some("\"60s\""),
    example: "\"5s\"",
    documentation: "How long an idle connection is kept.",
    kind: Kind::Duration {
        least: INSTANT,
        most: DAY,
        set: |programs, value| programs.keep_alive_timeout = value,
    },
};

pub(super) const CONNECTION_REQUESTS: Key<ProgramsConfig> = Key {
    name: "connection_requests",
    default: Some("0"),
    example: "1000",
    documentation: "How many requests a connection serves before it is closed. 0: any number.",
    kind: Kind::Number {
        least: 0,
        most: u32::MAX as u64,
        set: |programs, value| programs.connection_requests = value,
    },
};

pub(super) const CONNECT_TIMEOUT: Key<ProgramsConfig> = Key {
    name: "connect_timeout",
    default: Some("\"5s\""),
    example: "\"1s\"",
    documentation: "How long it may take to connect to a program.",
    kind: Kind::Duration {
        least: INSTANT,
        most: HOUR,
        set: |programs, value| programs.connect_timeout = value,
    },
};

pub(super) const QUEUE: Key<ProgramsConfig> = Key {
    name: "queue",
    default: Some("1024"),
    example: "100",
    documentation: "How many requests may wait when all `connections` of a backend are in use. \
        One more is answered with 503 Service Unavailable.",
    kind: Kind::Number { least: 0, most: MOST_COUNT, set: |programs, value| programs.queue = value },
};

pub(super) const QUEUE_TIMEOUT: Key<ProgramsConfig> = Key {
    name: "queue_timeout",
    default: Some("\"30s\""),
    example: "\"5s\"",
    documentation: "How long a request waits for a connection. After that it is answered with 503 Service \
        Unavailable.",
    kind: Kind::Duration {
        least: INSTANT,
        most: HOUR,
        set: |programs, value| programs.queue_timeout = value,
    },
};

pub(super) const FIRST_BYTE_TIMEOUT: Key<ProgramsConfig> = Key {
    name: "first_byte_timeout",
    default: Some("\"60s\""),
    example: "\"5m\"",
    documentation: "How long a program may take for the first byte of its answer, after it has taken the \
        request. After that the answer is 504 Gateway Timeout.",
    kind: Kind::Duration {
        least: INSTANT,
        most: DAY,
        set: |programs, value| programs.first_byte_timeout = value,
    },
};

pub(super) const IDLE_TIMEOUT: Key<ProgramsConfig> = Key {
    name: "idle_timeout",
    default: Some("\"60s\""),
    example: "\"10s\"",
    documentation: "How long an answer that has started may make no progress. After that the client's \
        connection is closed.",
    kind: Kind::Duration { least: INSTANT, most: DAY, set: |programs, value| programs.idle_timeout = value },
};

pub(super) const TOTAL_TIMEOUT: Key<ProgramsConfig> = Key {
    name: "total_timeout",
    default: Some("\"0s\""),
    example: "\"10m\"",
    documentation: "How long a request may take in all, including the time that the client takes. 0: any \
        time.",
    kind: Kind::Duration {
        least: Duration::ZERO,
        most: DAY,
        set: |programs, value| programs.total_timeout = value,
    },
};

pub(super) const HEADER_BYTES: Key<ProgramsConfig> = Key {
    name: "header_bytes",
    default: Some("\"64KiB\""),
    example: "\"16KiB\"",
    documentation: "The largest header of a program's answer. A larger one becomes 502 Bad Gateway.",
    kind: Kind::Size { least: 256, most: 16 * MIB, set: |programs, value| programs.header_bytes = value },
};

// ---- several backends

pub(super) const BALANCE: Key<ProgramsConfig> = Key {
    name: "balance",
    default: Some("\"least-outstanding\""),
    example: "\"round-robin\"",
    documentation: "How requests are distributed to several `backends`, by their weights.",
    kind: Kind::Choice(&[
        Choice {
            word: "least-outstanding",
            meaning: "to the one with the fewest active requests from the same core",
            set: |programs| programs.balance = Balance::LeastOutstanding,
        },
        Choice {
            word: "round-robin",
            meaning: "in turns",
            set: |programs| programs.balance = Balance::RoundRobin,
        },
    ]),
};

pub(super) const MAX_FAILURES: Key<ProgramsConfig> = Key {
    name: "max_failures",
    default: Some("3"),
    example: "1",
    documentation: "After how many failures within `fail_timeout` one of several backends gets no requests \
        for that long: it could not be reached, broke off before its answer, or took too long. 0: never.",
    kind: Kind::Number { least: 0, most: 1_000_000, set: |programs, value| programs.max_failures = value },
};

pub(super) const FAIL_TIMEOUT: Key<ProgramsConfig> = Key {
    name: "fail_timeout",
    default: Some("\"10s\""),
    example: "\"30s\"",
    documentation: "How long a failed backend gets no requests. After that it gets one request, and more if \
        it answers that one.",
    kind: Kind::Duration { least: INSTANT, most: DAY, set: |programs, value| programs.fail_timeout = value },
};

pub(super) const CHECK_INTERVAL: Key<ProgramsConfig> = Key {
    name: "check_interval",
    default: Some("\"0s\""),
    example: "\"5s\"",
    documentation: "How often the server connects to each backend to check whether it is up. 0: only \
        requests show it.",
    kind: Kind::Duration {
        least: Duration::ZERO,
        most: DAY,
        set: |programs, value| programs.check_interval = value,
    },
};

fn check_variable(name: &str) -> Result<(), String> {
    match name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        true => Ok(()),
        false => Err(format!("{name:?} is not the name of a variable, such as \"APP_MODE\"")),
    }
}

/// Checks that the text may also be in the file for php-fpm.
fn check_plain(name: &str, value: &str) -> Result<(), String> {
    match value.contains(['"', '\\', '$', '\n', '\0']) {
        true => Err(format!("the value of {name} may hold no quotes, backslashes, dollars or line ends")),
        false => Ok(()),
    }
}
