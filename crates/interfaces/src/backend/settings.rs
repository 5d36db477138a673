//! The settings of the programs of a route.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use touchstone_processes::pool::Pool;

use super::address::Address;
use super::connections::ConnectionRules;
use super::ping::PingRules;
use super::script::ScriptRules;
use crate::cgi_response::HeaderLimits;
use touchstone_upstream::{Balance, HealthRules};

/// The settings of the programs of a route.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Their addresses, and how requests are distributed.
    pub group: GroupRules,
    /// How long an answer may take.
    pub times: TimeLimits,
    /// How large the header of an answer may be.
    pub header: HeaderLimits,
    /// Which program a path is for.
    pub paths: Paths,
    /// `DOCUMENT_ROOT`: the root as the program sees it; `None`: the variable is not set.
    pub document_root: Option<PathBuf>,
    /// Additional variables. They replace variables of the same name.
    pub parameters: Vec<(String, String)>,
    /// The program gets `Authorization`.
    pub pass_authorization: bool,
    /// The directory of files that the program may name in `X-Sendfile` and `X-Accel-Redirect`; `None`: these
    /// fields are ignored.
    pub send_files_from: Option<Arc<touchstone_files::root::Root>>,
    /// The pool of processes, if the server starts them.
    pub pool: Option<Arc<Pool>>,
}

/// Time limits for a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeLimits {
    /// For the first byte of the answer, counted from when the program last accepted a part of the request.
    pub first_byte: Duration,
    /// After this time without a byte of the answer, the caller checks whether the program is still running.
    /// The time doubles with each check. `None`: no checks.
    pub quiet: Option<Duration>,
    /// For each further byte, and for accepting more of the request.
    pub stall: Duration,
    /// For the whole answer; `None`: no limit, as long as bytes are moving.
    pub total: Option<Duration>,
}

/// The rules for equal programs, with any of the protocols.
#[derive(Debug, Clone)]
pub struct GroupRules {
    /// Their addresses; at least one.
    pub backends: Vec<Backend>,
    /// How requests are distributed among them.
    pub balance: Balance,
    /// When one is considered down.
    pub health: HealthRules,
    /// How often each one is checked by a connection; `None`: only requests show whether it is up.
    pub check_interval: Option<Duration>,
    /// How connections are kept and limited; for each backend.
    pub connections: ConnectionRules,
    /// How a program is pinged; `None`: its protocol has no ping.
    pub ping: Option<PingRules>,
}

/// One of several equal programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// Its address.
    pub address: Address,
    /// Its share of the requests, 1 or more.
    pub weight: u32,
    /// It gets requests only when the others are down.
    pub is_backup: bool,
    /// The route name in the identifiers of its sessions; empty: sessions do not name this backend.
    pub route: String,
}

/// Which program a path is for.
#[derive(Debug, Clone)]
pub enum Paths {
    /// One program gets all paths. The part after this prefix is PATH_INFO.
    Application {
        /// `SCRIPT_NAME`, empty or beginning with a slash.
        script_name: Vec<u8>,
    },
    /// Each script is a file.
    Scripts(ScriptRules),
}
