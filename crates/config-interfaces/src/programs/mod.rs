//! Programs that listen and keep running: FastCGI, SCGI, PHP, and servlet containers over AJP.
//!
//! All are one struct and share most of their keys.
//!
//! | module | |
//! |---|---|
//! | `backend` | where a program listens |
//! | `keys` | the keys that they share |
//! | `fastcgi` | the sections of FastCGI, SCGI and PHP |
//! | `ajp` | the section of servlet containers, and its own keys |

pub mod ajp;
mod backend;
pub mod fastcgi;
mod keys;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use touchstone_interfaces::backend::{Backend, Balance};

use backend::parse_backend;
use fastcgi::{FASTCGI, PHP};

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
    /// The script for paths that are not files, perhaps with the query that it gets; empty: none.
    pub front_controller: String,
    /// The path of the root for the programs; `None`: the same.
    pub document_root: Option<PathBuf>,
    /// Variables of requests.
    pub variables: BTreeMap<String, String>,
    /// The programs receive `Authorization`.
    pub pass_authorization: bool,
    /// The directory of files that the server sends if programs name them.
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

    /// The script of the front controller without its query, if there is one.
    pub fn front_script(&self) -> Option<&str> {
        self.front_controller.split('?').next().filter(|script| !script.is_empty())
    }

    /// Whether the front controller gets a query of its own.
    pub fn has_front_query(&self) -> bool {
        self.front_controller.contains('?')
    }

    /// The parsed backends; wrong ones have been refused before.
    pub fn parsed_backends(&self) -> Vec<Backend> {
        self.backends.iter().filter_map(|text| parse_backend(text).ok()).collect()
    }
}

/// The settings that only servlet containers have.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AjpConfig {
    /// The secret that server and containers share; empty: none.
    pub secret: String,
    /// The file with the secret.
    pub secret_file: Option<PathBuf>,
    /// The largest packet.
    pub packet_bytes: usize,
    /// The most fields of an answer.
    pub header_fields: usize,
    /// Attributes of requests.
    pub attributes: BTreeMap<String, String>,
    /// How requests with a session are distributed.
    pub sessions: Sessions,
    /// The cookie of a session.
    pub session_cookie: String,
    /// The parameter of a path with a session.
    pub session_parameter: String,
    /// How long a connection must be idle for the container to be checked before a request.
    pub ping_after: Duration,
    /// How long the container may take to answer the check.
    pub ping_timeout: Duration,
    /// New connections are checked too.
    pub ping_new: bool,
    /// `ping_waiting`; 0: never.
    pub ping_waiting: Duration,
}

/// The targets of requests with a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sessions {
    /// To the container of the session, or to another if it is down.
    #[default]
    Prefer,
    /// To the container of the session only.
    Bind,
    /// To any container.
    Ignore,
}

/// The settings before any key has been read.
fn blank() -> ProgramsConfig {
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
