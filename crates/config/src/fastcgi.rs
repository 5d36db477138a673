//! `[site.route.fastcgi]`, `[site.route.scgi]` and `[site.route.php]`: programs that listen and keep running.
//!
//! The three are one struct and share most of their keys: `php` is FastCGI with scripts that are files, and
//! `scgi` is another protocol for the same.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::de::DeValue;
use touchstone_interfaces::backend::{Address, Balance};

use super::ajp::AjpConfig;
use super::parse::{Reader, Value};
use super::route::RouteConfig;
use super::section::{ABSENT, Choice, Key, Kind, Section};
use super::{SectionPlaces, values};

/// `fastcgi`, `scgi` or `php`
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramsConfig {
    /// Where programs listen, with their weights.
    pub backends: Vec<String>,
    /// The program that the server starts, with its arguments; empty: none.
    pub command: Vec<String>,
    /// The php-fpm that the server starts.
    pub program: String,
    /// How many processes; 0: chosen by the number of processors.
    pub processes: u64,
    /// The socket of the server's own processes; `None`: the server chooses.
    pub socket: Option<PathBuf>,
    /// Their current directory.
    pub directory: Option<PathBuf>,
    /// Their environment.
    pub environment: BTreeMap<String, String>,
    /// The user under which they run; empty: that of the server.
    pub user: String,
    /// PHP's settings.
    pub settings: BTreeMap<String, String>,
    /// After how many requests a process is replaced; 0: never.
    pub process_requests: u64,
    /// The memory of each process; 0: no limit is set.
    pub memory: u64,
    /// The open files of each process; 0: no limit is set.
    pub open_files: u64,
    /// The time between SIGTERM and SIGKILL.
    pub stop_timeout: Duration,
    /// How requests are distributed.
    pub balance: Balance,
    /// After how many failures a backend counts as down.
    pub max_failures: u64,
    /// How long it counts as down.
    pub fail_timeout: Duration,
    /// How often the server connects to backends to check them; zero: never.
    pub check_interval: Duration,
    /// Whether connections are persistent; `None`: only those to processes that the server starts.
    pub keep_connections: Option<bool>,
    /// The most connections; 0: any number, or the number of processes.
    pub connections: u64,
    /// The most idle ones on each core.
    pub idle_connections: u64,
    /// How long an idle one is kept.
    pub keep_alive_timeout: Duration,
    /// The most requests on one; 0: any number.
    pub connection_requests: u64,
    /// How long it may take to connect.
    pub connect_timeout: Duration,
    /// How many requests wait for a connection.
    pub queue: u64,
    /// How long a request waits.
    pub queue_timeout: Duration,
    /// The time limit until the first byte of an answer.
    pub first_byte_timeout: Duration,
    /// The time limit between two bytes.
    pub idle_timeout: Duration,
    /// The time limit in all; zero: no limit.
    pub total_timeout: Duration,
    /// The largest header of an answer.
    pub header_bytes: u64,
    /// The beginning of the path that is the program's name.
    pub script_name: String,
    /// The endings of scripts; empty: one program answers all paths.
    pub scripts: Vec<String>,
    /// The names that are tried for a directory.
    pub index: Vec<String>,
    /// The script for paths that are not files; empty: none.
    pub front_controller: String,
    /// The root as the programs see it; `None`: the same.
    pub document_root: Option<PathBuf>,
    /// Variables of requests.
    pub variables: BTreeMap<String, String>,
    /// The programs see `Authorization`.
    pub pass_authorization: bool,
    /// The directory of files that programs can let the server send.
    pub send_files_from: Option<PathBuf>,
    /// The settings that only servlet containers have.
    pub ajp: AjpConfig,
}

impl ProgramsConfig {
    /// The defaults of `fastcgi`.
    pub fn fastcgi() -> ProgramsConfig {
        FASTCGI.defaults()
    }

    /// The defaults of `php`.
    pub fn php() -> ProgramsConfig {
        PHP.defaults()
    }

    /// The parsed backends; wrong ones have been refused before.
    pub fn parsed_backends(&self) -> Vec<touchstone_interfaces::backend::Backend> {
        self.backends.iter().filter_map(|text| parse_backend(text).ok()).collect()
    }
}

const MIB: u64 = 1 << 20;
const MOST_COUNT: u64 = 1 << 24;
pub(super) const INSTANT: Duration = Duration::from_millis(10);
pub(super) const HOUR: Duration = Duration::from_secs(3600);
pub(super) const DAY: Duration = Duration::from_secs(86_400);

/// `[site.route.fastcgi]`
pub static FASTCGI: Section<ProgramsConfig> = Section {
    name: "site.route.fastcgi",
    repeated: false,
    documentation: "FastCGI programs answer the requests of the route, see [FastCGI and SCGI](fastcgi.md): \
        those that listen at `backends`, or processes of `command`, which the server starts and watches \
        itself.",
    blank,
    keys: &[
        BACKENDS,
        COMMAND,
        PROCESSES,
        SOCKET,
        DIRECTORY,
        ENVIRONMENT,
        USER,
        MEMORY,
        OPEN_FILES,
        STOP_TIMEOUT,
        Key { default: Some("\"\""), ..SCRIPT_NAME },
        Key { default: Some("[]"), ..SCRIPTS },
        Key { default: Some("[]"), ..INDEX },
        FRONT_CONTROLLER,
        DOCUMENT_ROOT,
        VARIABLES,
        PASS_AUTHORIZATION,
        SEND_FILES_FROM,
        KEEP_CONNECTIONS,
        CONNECTIONS,
        IDLE_CONNECTIONS,
        KEEP_ALIVE_TIMEOUT,
        CONNECTION_REQUESTS,
        CONNECT_TIMEOUT,
        QUEUE,
        QUEUE_TIMEOUT,
        FIRST_BYTE_TIMEOUT,
        IDLE_TIMEOUT,
        TOTAL_TIMEOUT,
        HEADER_BYTES,
        BALANCE,
        MAX_FAILURES,
        FAIL_TIMEOUT,
        CHECK_INTERVAL,
    ],
};

/// `[site.route.scgi]`
pub static SCGI: Section<ProgramsConfig> = Section {
    name: "site.route.scgi",
    repeated: false,
    documentation: "SCGI programs answer the requests of the route, see [FastCGI and SCGI](fastcgi.md): \
        those that listen at `backends`, or processes of `command`, which the server starts and watches \
        itself.",
    blank,
    keys: &[
        BACKENDS,
        COMMAND,
        PROCESSES,
        SOCKET,
        DIRECTORY,
        ENVIRONMENT,
        USER,
        MEMORY,
        OPEN_FILES,
        STOP_TIMEOUT,
        SCRIPT_NAME,
        SCRIPTS,
        INDEX,
        FRONT_CONTROLLER,
        DOCUMENT_ROOT,
        VARIABLES,
        PASS_AUTHORIZATION,
        SEND_FILES_FROM,
        CONNECTIONS,
        CONNECT_TIMEOUT,
        QUEUE,
        QUEUE_TIMEOUT,
        FIRST_BYTE_TIMEOUT,
        IDLE_TIMEOUT,
        TOTAL_TIMEOUT,
        HEADER_BYTES,
        BALANCE,
        MAX_FAILURES,
        FAIL_TIMEOUT,
        CHECK_INTERVAL,
    ],
};

/// `[site.route.php]`
pub static PHP: Section<ProgramsConfig> = Section {
    name: "site.route.php",
    repeated: false,
    documentation: "PHP scripts answer the requests of the route, see [PHP](php.md). \
        `php = \"unix:/run/php/php-fpm.sock\"` is enough for a php-fpm that already runs, and `php = \
        \"managed\"` for one that the server starts and watches itself. Other files are served as they \
        are.",
    blank,
    keys: &[
        BACKENDS,
        PROGRAM,
        PROCESSES,
        SETTINGS,
        PROCESS_REQUESTS,
        SOCKET,
        DIRECTORY,
        ENVIRONMENT,
        USER,
        OPEN_FILES,
        STOP_TIMEOUT,
        Key { default: Some("[\".php\"]"), ..SCRIPTS },
        Key { default: Some("[\"index.php\", \"index.html\"]"), ..INDEX },
        FRONT_CONTROLLER,
        DOCUMENT_ROOT,
        VARIABLES,
        PASS_AUTHORIZATION,
        SEND_FILES_FROM,
        KEEP_CONNECTIONS,
        CONNECTIONS,
        IDLE_CONNECTIONS,
        KEEP_ALIVE_TIMEOUT,
        CONNECTION_REQUESTS,
        CONNECT_TIMEOUT,
        QUEUE,
        QUEUE_TIMEOUT,
        FIRST_BYTE_TIMEOUT,
        IDLE_TIMEOUT,
        TOTAL_TIMEOUT,
        HEADER_BYTES,
        BALANCE,
        MAX_FAILURES,
        FAIL_TIMEOUT,
        CHECK_INTERVAL,
    ],
};

pub(super) fn blank() -> ProgramsConfig {
    ProgramsConfig {
        backends: Vec::new(),
        command: Vec::new(),
        program: String::new(),
        processes: 0,
        socket: None,
        directory: None,
        environment: BTreeMap::new(),
        user: String::new(),
        settings: BTreeMap::new(),
        process_requests: 0,
        memory: 0,
        open_files: 0,
        stop_timeout: Duration::ZERO,
        balance: Balance::LeastOutstanding,
        max_failures: 0,
        fail_timeout: Duration::ZERO,
        check_interval: Duration::ZERO,
        keep_connections: None,
        connections: 0,
        idle_connections: 0,
        keep_alive_timeout: Duration::ZERO,
        connection_requests: 0,
        connect_timeout: Duration::ZERO,
        queue: 0,
        queue_timeout: Duration::ZERO,
        first_byte_timeout: Duration::ZERO,
        idle_timeout: Duration::ZERO,
        total_timeout: Duration::ZERO,
        header_bytes: 0,
        script_name: String::new(),
        scripts: Vec::new(),
        index: Vec::new(),
        front_controller: String::new(),
        document_root: None,
        variables: BTreeMap::new(),
        pass_authorization: false,
        send_files_from: None,
        ajp: AjpConfig::default(),
    }
}

// ---- where the programs run and listen

pub(super) const BACKENDS: Key<ProgramsConfig> = Key {
    name: "backends",
    default: Some("[]"),
    example: "[\"unix:/run/app.sock weight=2\", \"127.0.0.1:9000 backup\"]",
    documentation: "Where programs listen: `unix:` with the path of a socket, or an address with its port. \
        Several must do the same; then `weight=` gives one more of the requests, and `backup` only those \
        that no other takes.",
    kind: Kind::CheckedArray {
        what: "array of addresses of programs",
        parse: |text| match parse_backend(text)?.route.as_str() {
            "" => Ok(text.to_string()),
            _ => Err(format!("{text:?}: only sessions of servlet containers have a route")),
        },
        set: |programs, value| programs.backends = value,
    },
};

const COMMAND: Key<ProgramsConfig> = Key {
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

const PROGRAM: Key<ProgramsConfig> = Key {
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

const PROCESSES: Key<ProgramsConfig> = Key {
    name: "processes",
    default: Some("0"),
    example: "8",
    documentation: "How many processes the server starts; each serves one request at a time. \
        0: four for each processor, and one for each of a program that is not PHP.",
    kind: Kind::Number { least: 0, most: 10_000, set: |programs, value| programs.processes = value },
};

const SOCKET: Key<ProgramsConfig> = Key {
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

const DIRECTORY: Key<ProgramsConfig> = Key {
    name: "directory",
    default: Some("\"\""),
    example: "\"/var/lib/app\"",
    documentation: "The current directory of the processes that the server starts. Empty: the server's own.",
    kind: Kind::File(|programs, value| programs.directory = value),
};

const ENVIRONMENT: Key<ProgramsConfig> = Key {
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

const USER: Key<ProgramsConfig> = Key {
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

const SETTINGS: Key<ProgramsConfig> = Key {
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

const PROCESS_REQUESTS: Key<ProgramsConfig> = Key {
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

const MEMORY: Key<ProgramsConfig> = Key {
    name: "memory",
    default: Some("0"),
    example: "\"512MiB\"",
    documentation: "The memory (RLIMIT_AS) of each process that the server starts. 0: no limit.",
    kind: Kind::Size { least: 0, most: 1 << 50, set: |programs, value| programs.memory = value },
};

const OPEN_FILES: Key<ProgramsConfig> = Key {
    name: "open_files",
    default: Some("0"),
    example: "1024",
    documentation: "The files that each process that the server starts may have open (RLIMIT_NOFILE). \
        0: as many as the server.",
    kind: Kind::Number { least: 0, most: 1 << 30, set: |programs, value| programs.open_files = value },
};

const STOP_TIMEOUT: Key<ProgramsConfig> = Key {
    name: "stop_timeout",
    default: Some("\"10s\""),
    example: "\"3s\"",
    documentation: "How long the processes that the server starts may take to end after SIGTERM. \
        After that they, and the processes that they have started, get SIGKILL.",
    kind: Kind::Duration { least: INSTANT, most: HOUR, set: |programs, value| programs.stop_timeout = value },
};

// ---- the program of a path, and its variables

const SCRIPT_NAME: Key<ProgramsConfig> = Key {
    name: "script_name",
    default: Some("\"\""),
    example: "\"/app\"",
    documentation: "The beginning of the path under which the program is mounted, without a slash at its \
        end: it becomes SCRIPT_NAME, and the rest becomes PATH_INFO. Empty: PATH_INFO is the whole path.",
    kind: Kind::Checked {
        what: "path without a slash at its end, or nothing",
        parse: |text, _| match text.is_empty() || text.starts_with('/') && !text.ends_with('/') {
            true => Ok(text.to_string()),
            false => Err(format!("{text:?} must begin with a slash and end without one")),
        },
        set: |programs, value| programs.script_name = value,
    },
};

const SCRIPTS: Key<ProgramsConfig> = Key {
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

const INDEX: Key<ProgramsConfig> = Key {
    name: "index",
    default: Some("[]"),
    example: "[\"index.php\"]",
    documentation: "The names that are tried in turn for a directory, where there are `scripts`.",
    kind: Kind::FileNames(|programs, value| programs.index = value),
};

const FRONT_CONTROLLER: Key<ProgramsConfig> = Key {
    name: "front_controller",
    default: Some("\"\""),
    example: "\"/index.php\"",
    documentation: "The script that answers all paths that are not files, as most applications need it; it \
        finds the path in REQUEST_URI. Empty: such a path is not found.",
    kind: Kind::Checked {
        what: "path that begins with `/`, or nothing",
        parse: |text, _| values::parse_site_path_or_empty(text),
        set: |programs, value| programs.front_controller = value,
    },
};

const DOCUMENT_ROOT: Key<ProgramsConfig> = Key {
    name: "document_root",
    default: Some("\"\""),
    example: "\"/var/www/html\"",
    documentation: "The root as the programs see it (DOCUMENT_ROOT and SCRIPT_FILENAME), if that is another \
        path: in a container, or after chroot. Empty: the root of the route or site.",
    kind: Kind::File(|programs, value| programs.document_root = value),
};

const VARIABLES: Key<ProgramsConfig> = Key {
    name: "variables",
    default: Some("{}"),
    example: "{ APP_ENV = \"production\" }",
    documentation: "Variables that each request carries, which replace those that it would have.",
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
    documentation: "The programs see the field Authorization, as HTTP_AUTHORIZATION. \
        Only for programs that check users themselves: the field holds passwords.",
    kind: Kind::Boolean(|programs, value| programs.pass_authorization = value),
};

const SEND_FILES_FROM: Key<ProgramsConfig> = Key {
    name: "send_files_from",
    default: Some("\"\""),
    example: "\"/srv/downloads\"",
    documentation: "A directory of files that a program can let the server send instead of its own body, by \
        the path below it in X-Accel-Redirect, or by the whole path in X-Sendfile. Empty: these fields have \
        no effect.",
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
    documentation: "How long the answer may make no progress once it has begun. After that the client's \
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

const HEADER_BYTES: Key<ProgramsConfig> = Key {
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
            meaning: "to the one with the fewest requests under way from the same core",
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

// ---- the keys of a route

/// The key `fastcgi` of a route.
pub(super) const FASTCGI_KEY: Key<RouteConfig> = Key {
    name: "fastcgi",
    default: Some(ABSENT),
    example: "{ backends = [\"unix:/run/app.sock\"] }",
    documentation: "Answers with FastCGI programs, see `[site.route.fastcgi]`. \
        Not together with `redirect`, `rewrite`, `respond` or other programs.",
    kind: Kind::Table {
        read: |reader, value, route| read_table(reader, &FASTCGI, value, &mut route.fastcgi),
    },
};

/// The key `scgi` of a route.
pub(super) const SCGI_KEY: Key<RouteConfig> = Key {
    name: "scgi",
    default: Some(ABSENT),
    example: "{ backends = [\"127.0.0.1:4000\"] }",
    documentation: "Answers with SCGI programs, see `[site.route.scgi]`. \
        Not together with `redirect`, `rewrite`, `respond` or other programs.",
    kind: Kind::Table { read: |reader, value, route| read_table(reader, &SCGI, value, &mut route.scgi) },
};

/// The key `php` of a route.
pub(super) const PHP_KEY: Key<RouteConfig> = Key {
    name: "php",
    default: Some(ABSENT),
    example: "{ backends = [\"unix:/run/php/php-fpm.sock\"] }",
    documentation: "Answers with PHP scripts, see `[site.route.php]`; the address of a php-fpm or \
        `\"managed\"` may replace the table, with the defaults for all other keys. Not together with \
        `redirect`, `rewrite`, `respond` or other programs.",
    kind: Kind::Table { read: read_php },
};

pub(super) fn read_table(
    reader: &mut Reader<'_>,
    section: &'static Section<ProgramsConfig>,
    value: &Value<'_>,
    target: &mut Option<ProgramsConfig>,
) -> Vec<SectionPlaces> {
    reader.table(section, value).map_or(Vec::new(), |(config, places)| {
        *target = Some(config);
        vec![places]
    })
}

/// Reads a table, or one word for a common setting.
fn read_php(reader: &mut Reader<'_>, value: &Value<'_>, route: &mut RouteConfig) -> Vec<SectionPlaces> {
    let DeValue::String(text) = value.get_ref() else {
        return read_table(reader, &PHP, value, &mut route.php);
    };
    let mut config = PHP.defaults();
    if text != "managed" {
        match parse_backend(text) {
            Ok(_) => config.backends = vec![text.to_string()],
            Err(message) => {
                let place = reader.place(value.span().start);
                reader.problem(place, format!("'php': {message}, or \"managed\""));
            }
        }
    }
    route.php = Some(config);
    Vec::new()
}

/// Parses an address, followed by `weight=N`, `route=NAME` and `backup` as needed.
pub(super) fn parse_backend(text: &str) -> Result<touchstone_interfaces::backend::Backend, String> {
    let mut words = text.split_whitespace();
    let address = Address::parse(words.next().unwrap_or_default(), Path::new(""))?;
    if let Address::Unix(path) = &address
        && !path.is_absolute()
    {
        return Err(format!("the path of the socket in {text:?} must begin with a slash"));
    }
    let (mut weight, mut is_backup, mut route) = (1, false, "");
    for word in words {
        match word.split_once('=') {
            Some(("weight", number)) => match number.parse() {
                Ok(number @ 1..=1000) => weight = number,
                _ => return Err(format!("the weight in {text:?} must be a number from 1 to 1000")),
            },
            Some(("route", name)) if !name.is_empty() && name.bytes().all(is_suffix_byte) => route = name,
            None if word == "backup" => is_backup = true,
            _ => {
                return Err(format!(
                    "{word:?} in {text:?} is neither weight=NUMBER nor backup, nor route=NAME of a servlet \
                     container"
                ));
            }
        }
    }
    let route = route.to_string();
    Ok(touchstone_interfaces::backend::Backend { address, weight, is_backup, route })
}

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

fn is_suffix_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backends_with_what_follows() {
        for (text, expected) in [
            ("unix:/run/a.sock", ("unix:/run/a.sock", 1, false)),
            ("/run/a.sock weight=3", ("unix:/run/a.sock", 3, false)),
            ("127.0.0.1:9000 backup weight=2", ("127.0.0.1:9000", 2, true)),
        ] {
            let backend = parse_backend(text).unwrap();
            assert_eq!(backend.route, "");
            assert_eq!((backend.address.to_string().as_str(), backend.weight, backend.is_backup), expected);
        }
        for text in [
            "",
            "unix:a.sock",
            "127.0.0.1:9000 weight=0",
            "127.0.0.1:9000 weight=x",
            "127.0.0.1:9000 backups",
            "127.0.0.1:9000 route=",
            "127.0.0.1:9000 route=a;b",
        ] {
            assert!(parse_backend(text).is_err(), "{text}");
        }
        let backend = parse_backend("127.0.0.1:8009 route=worker.1 weight=2").unwrap();
        assert_eq!((backend.route.as_str(), backend.weight), ("worker.1", 2));
    }
}
