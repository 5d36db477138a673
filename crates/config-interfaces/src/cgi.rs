//! `[site.route.cgi]`: programs that are started for each request.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use touchstone_config_section::values::DAY;
use touchstone_config_section::{Key, Kind, Section};

/// `cgi`
#[derive(Debug, Clone, PartialEq)]
pub struct CgiConfig {
    /// The directory of the programs; `None`: that of the site's files.
    pub directory: Option<PathBuf>,
    /// The one program for all paths.
    pub program: Option<PathBuf>,
    /// The program that executes them; `None`: they are executed themselves.
    pub interpreter: Option<PathBuf>,
    /// The user under which they run; empty: that of the server.
    pub user: String,
    /// The permissions, in octal, that files that they create do not get.
    pub umask: String,
    /// Their niceness.
    pub niceness: u64,
    /// They cannot gain rights by executing set-user-ID files.
    pub no_new_privileges: bool,
    /// Variables of their environment.
    pub environment: BTreeMap<String, String>,
    /// They receive `Authorization`.
    pub pass_authorization: bool,
    /// Processes that they started may continue after their end.
    pub background: bool,
    /// How many run at a time.
    pub concurrency: u64,
    /// How many requests wait.
    pub queue: u64,
    /// How long they wait.
    pub queue_timeout: Duration,
    /// The time limit until the first byte.
    pub first_byte_timeout: Duration,
    /// The time limit between two bytes.
    pub idle_timeout: Duration,
    /// The time limit in all; zero: no limit.
    pub total_timeout: Duration,
    /// The time between SIGTERM and SIGKILL.
    pub kill_timeout: Duration,
    /// The largest header that they may print.
    pub header_bytes: u64,
    /// The largest body of unknown length.
    pub spool_bytes: u64,
    /// The directory for such a body; `None`: the system's directory for temporary files.
    pub spool_directory: Option<PathBuf>,
    /// The most memory; 0: no limit is set.
    pub memory: u64,
    /// The most processor time; zero: no limit is set.
    pub cpu_time: Duration,
    /// The largest file that they may write; 0: no limit is set.
    pub file_bytes: u64,
    /// The most open files; 0: no limit is set.
    pub open_files: u64,
    /// The most processes of their user; 0: no limit is set.
    pub processes: u64,
}

impl Default for CgiConfig {
    fn default() -> CgiConfig {
        CGI.defaults()
    }
}

/// `[site.route.cgi]`
pub static CGI: Section<CgiConfig> = Section {
    name: "site.route.cgi",
    repeated: false,
    documentation: "CGI programs answer the requests of the route, see [CGI](cgi.md). \
        An empty table is enough if the programs are among the site's files.",
    blank: || CgiConfig {
        directory: None,
        program: None,
        interpreter: None,
        user: String::new(),
        umask: String::new(),
        niceness: 0,
        no_new_privileges: false,
        environment: BTreeMap::new(),
        pass_authorization: false,
        background: false,
        concurrency: 0,
        queue: 0,
        queue_timeout: Duration::ZERO,
        first_byte_timeout: Duration::ZERO,
        idle_timeout: Duration::ZERO,
        total_timeout: Duration::ZERO,
        kill_timeout: Duration::ZERO,
        header_bytes: 0,
        spool_bytes: 0,
        spool_directory: None,
        memory: 0,
        cpu_time: Duration::ZERO,
        file_bytes: 0,
        open_files: 0,
        processes: 0,
    },
    keys: &[
        Key {
            name: "directory",
            default: Some("\"\""),
            example: "\"/usr/lib/cgi-bin\"",
            documentation: "The directory of the programs. The part of the path after the route's `path` is \
                looked up in it, so the route needs a `path` that ends with a slash. Empty: the whole path \
                is looked up below the root of the route or site.",
            kind: Kind::File(|cgi, value| cgi.directory = value),
        },
        Key {
            name: "program",
            default: Some("\"\""),
            example: "\"/usr/lib/git-core/git-http-backend\"",
            documentation: "One program for all requests of the route, instead of many. The part of the path \
                after the route's `path` is its PATH_INFO. `directory` then has no effect.",
            kind: Kind::File(|cgi, value| cgi.program = value),
        },
        Key {
            name: "interpreter",
            default: Some("\"\""),
            example: "\"/usr/bin/php-cgi\"",
            documentation: "A program that executes the files, which then need not be executable themselves.",
            kind: Kind::File(|cgi, value| cgi.interpreter = value),
        },
        Key {
            name: "user",
            default: Some("\"\""),
            example: "\"www-data\"",
            documentation: "The user under which the programs run: a user, or `user:group`, by name as in \
                /etc/passwd or by number. Root must start the server for it. Empty: the rights of the \
                server.",
            kind: Kind::Checked {
                what: "user",
                parse: |text, _| check_user(text).map(|()| text.to_string()),
                set: |cgi, value| cgi.user = value,
            },
        },
        Key {
            name: "umask",
            default: Some("\"022\""),
            example: "\"077\"",
            documentation: "The permissions, in octal, that files that the programs create do not get.",
            kind: Kind::Checked {
                what: "three octal digits",
                parse: |text, _| parse_umask(text).map(|_| text.to_string()),
                set: |cgi, value| cgi.umask = value,
            },
        },
        Key {
            name: "niceness",
            default: Some("0"),
            example: "10",
            documentation: "How much the scheduler prefers other processes to the programs.",
            kind: Kind::Number { least: 0, most: 19, set: |cgi, value| cgi.niceness = value },
        },
        Key {
            name: "no_new_privileges",
            default: Some("true"),
            example: "false",
            documentation: "The programs cannot gain rights by executing set-user-ID files. \
                A few, such as suEXEC and the wrappers of mailing lists, are such files.",
            kind: Kind::Boolean(|cgi, value| cgi.no_new_privileges = value),
        },
        Key {
            name: "environment",
            default: Some("{}"),
            example: "{ GIT_PROJECT_ROOT = \"/srv/git\" }",
            documentation: "Variables for the programs' environment, in addition to those of CGI, or in \
                place of them. The programs inherit no variables of the server's environment; PATH is \
                `/usr/local/bin:/usr/bin:/bin` unless set here.",
            kind: Kind::Fields {
                what: "table from names of variables to values",
                check: |_, _| Ok(()),
                set: |cgi, value| cgi.environment = value,
            },
        },
        Key {
            name: "pass_authorization",
            default: Some("false"),
            example: "true",
            documentation: "Whether the programs receive the field Authorization, as HTTP_AUTHORIZATION. \
                Only for programs that check users themselves: the field holds passwords.",
            kind: Kind::Boolean(|cgi, value| cgi.pass_authorization = value),
        },
        Key {
            name: "background",
            default: Some("false"),
            example: "true",
            documentation: "The processes of a program may continue after it has ended, and so may a program \
                that has closed its output. Otherwise its process group is ended then.",
            kind: Kind::Boolean(|cgi, value| cgi.background = value),
        },
        Key {
            name: "concurrency",
            default: Some("64"),
            example: "16",
            documentation: "How many programs of the route run at a time, all cores together.",
            kind: Kind::Number { least: 1, most: 100_000, set: |cgi, value| cgi.concurrency = value },
        },
        Key {
            name: "queue",
            default: Some("1024"),
            example: "100",
            documentation: "How many requests may wait for one of them to end. Further requests are answered \
                with 503.",
            kind: Kind::Number { least: 0, most: 1_000_000, set: |cgi, value| cgi.queue = value },
        },
        Key {
            name: "queue_timeout",
            default: Some("\"30s\""),
            example: "\"5s\"",
            documentation: "How long a request waits before it is answered with 503.",
            kind: Kind::Duration {
                least: Duration::ZERO,
                most: DAY,
                set: |cgi, value| cgi.queue_timeout = value,
            },
        },
        Key {
            name: "first_byte_timeout",
            default: Some("\"60s\""),
            example: "\"10s\"",
            documentation: "How long a program may take until it prints its first output; the time starts \
                again whenever it reads a part of the request's body. After that it is ended, and the answer \
                is 504.",
            kind: Kind::Duration {
                least: Duration::from_millis(1),
                most: DAY,
                set: |cgi, value| cgi.first_byte_timeout = value,
            },
        },
        Key {
            name: "idle_timeout",
            default: Some("\"60s\""),
            example: "\"10s\"",
            documentation: "How long a program may neither print nor read after that, and how long it may \
                take to end after it has closed its output.",
            kind: Kind::Duration {
                least: Duration::from_millis(1),
                most: DAY,
                set: |cgi, value| cgi.idle_timeout = value,
            },
        },
        Key {
            name: "total_timeout",
            default: Some("\"0s\""),
            example: "\"300s\"",
            documentation: "How long a program may take in all. 0: no limit.",
            kind: Kind::Duration {
                least: Duration::ZERO,
                most: DAY,
                set: |cgi, value| cgi.total_timeout = value,
            },
        },
        Key {
            name: "kill_timeout",
            default: Some("\"3s\""),
            example: "\"500ms\"",
            documentation: "How long a program may take to end: its process group gets SIGTERM, and after \
                this time SIGKILL.",
            kind: Kind::Duration {
                least: Duration::ZERO,
                most: Duration::from_secs(3600),
                set: |cgi, value| cgi.kill_timeout = value,
            },
        },
        Key {
            name: "header_bytes",
            default: Some("\"64KiB\""),
            example: "\"16KiB\"",
            documentation: "The largest header that a program may print. After a larger one the answer is \
                502.",
            kind: Kind::Size { least: 256, most: 16 << 20, set: |cgi, value| cgi.header_bytes = value },
        },
        Key {
            name: "spool_bytes",
            default: Some("\"64MiB\""),
            example: "\"1MiB\"",
            documentation: "The largest request body whose length is not stated in its head (chunked). \
                Programs need the length, so the body is first received into a file. A larger body is \
                answered with 413. Other bodies are passed on as they arrive, and `limits.body_bytes` holds \
                for all.",
            kind: Kind::Size { least: 0, most: 1 << 50, set: |cgi, value| cgi.spool_bytes = value },
        },
        Key {
            name: "spool_directory",
            default: Some("\"\""),
            example: "\"/var/tmp\"",
            documentation: "The directory of that file, which has no name. Empty: the directory that TMPDIR \
                names, or /tmp.",
            kind: Kind::File(|cgi, value| cgi.spool_directory = value),
        },
        Key {
            name: "memory",
            default: Some("0"),
            example: "\"512MiB\"",
            documentation: "The memory that each process may have (RLIMIT_AS). 0: no limit.",
            kind: Kind::Size { least: 0, most: 1 << 50, set: |cgi, value| cgi.memory = value },
        },
        Key {
            name: "cpu_time",
            default: Some("\"0s\""),
            example: "\"60s\"",
            documentation: "The processor time that each process may take (RLIMIT_CPU), in whole seconds. 0: \
                no limit.",
            kind: Kind::Duration { least: Duration::ZERO, most: DAY, set: |cgi, value| cgi.cpu_time = value },
        },
        Key {
            name: "file_bytes",
            default: Some("0"),
            example: "\"1GiB\"",
            documentation: "The largest file that each process may write (RLIMIT_FSIZE). 0: no limit.",
            kind: Kind::Size { least: 0, most: 1 << 50, set: |cgi, value| cgi.file_bytes = value },
        },
        Key {
            name: "open_files",
            default: Some("0"),
            example: "256",
            documentation: "The files that each process may have open (RLIMIT_NOFILE). 0: the limit with \
                which the server was started.",
            kind: Kind::Number { least: 0, most: 1 << 30, set: |cgi, value| cgi.open_files = value },
        },
        Key {
            name: "processes",
            default: Some("0"),
            example: "100",
            documentation: "The processes that their user may have in all (RLIMIT_NPROC). 0: no limit.",
            kind: Kind::Number { least: 0, most: 1 << 22, set: |cgi, value| cgi.processes = value },
        },
    ],
};

fn check_user(text: &str) -> Result<(), String> {
    match text {
        "" => Ok(()),
        _ if text.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(()),
        _ => Err(format!("{text:?} is not the name of a user")),
    }
}

/// The number that three octal digits represent.
pub fn parse_umask(text: &str) -> Result<u32, String> {
    let digits = text.strip_prefix('0').filter(|rest| rest.len() == 3).unwrap_or(text);
    u32::from_str_radix(digits, 8)
        .ok()
        .filter(|_| digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .ok_or_else(|| format!("{text:?} is not three octal digits, such as \"022\""))
}
