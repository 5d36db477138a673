//! What a configuration says of the programs behind a route.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use touchstone_processes::pool::Pool;

use super::address::Address;
use super::connections::ConnectionRules;
use super::ping::PingRules;
use super::script::ScriptRules;
use crate::cgi_response::HeaderLimits;
use crate::upstream::{Balance, HealthRules};

/// Everything about the programs behind a route.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where they are, and how requests are shared out.
    pub group: GroupRules,
    /// How long an answer may take.
    pub times: TimeLimits,
    /// How large the header of an answer may be.
    pub header: HeaderLimits,
    /// Which program a path is for.
    pub paths: Paths,
    /// `DOCUMENT_ROOT`: the root as the program sees it.
    pub document_root: PathBuf,
    /// Variables in addition, or instead of those that would be sent.
    pub parameters: Vec<(String, String)>,
    /// Let the program see `Authorization`.
    pub pass_authorization: bool,
    /// Where files are that the program may name in `X-Sendfile` and `X-Accel-Redirect`; `None`: they mean
    /// nothing.
    pub send_files_from: Option<Arc<touchstone_files::root::Root>>,
    /// The processes, where the server has started them.
    pub pool: Option<Arc<Pool>>,
}

/// How long a program may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeLimits {
    /// For the first byte of the answer, from when it last took some of the request.
    pub first_byte: Duration,
    /// For each further byte, or to take more of the request.
    pub stall: Duration,
    /// For the whole answer; `None`: any time, as long as something moves.
    pub total: Option<Duration>,
}

/// Programs that do the same, of whatever protocol.
#[derive(Debug, Clone)]
pub struct GroupRules {
    /// Where they listen; at least one.
    pub backends: Vec<Backend>,
    /// How requests are shared out among them.
    pub balance: Balance,
    /// When one counts as down.
    pub health: HealthRules,
    /// How often each is connected to in order to see whether it is up; `None`: requests show it.
    pub check_interval: Option<Duration>,
    /// How connections are kept and limited; for each backend.
    pub connections: ConnectionRules,
    /// How a program is asked whether it is there; `None`: its protocol has no such question.
    pub ping: Option<PingRules>,
}

/// One of several programs that do the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// Where it listens.
    pub address: Address,
    /// Its share of the requests, 1 or more.
    pub weight: u32,
    /// It is asked only when the others are down.
    pub is_backup: bool,
    /// What the sessions that it keeps end in; empty: nothing says whose a session is.
    pub route: String,
}

/// Which program a path is for.
#[derive(Debug, Clone)]
pub enum Paths {
    /// One program has them all. What follows this beginning of the path is PATH_INFO.
    Application {
        /// `SCRIPT_NAME`, empty or beginning with a slash.
        script_name: Vec<u8>,
    },
    /// Each script is a file.
    Scripts(ScriptRules),
}
