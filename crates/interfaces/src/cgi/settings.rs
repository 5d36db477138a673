//! The settings of CGI programs.

use std::path::PathBuf;
use std::time::Duration;

use touchstone_files::root::SymlinkPolicy;
use touchstone_processes::user::User;

use crate::cgi_response::HeaderLimits;

/// CGI programs of one route.
#[derive(Debug, Clone)]
pub struct CgiSettings {
    /// Which files are programs.
    pub programs: Programs,
    /// The interpreter that executes them; `None`: they are executed directly.
    pub interpreter: Option<PathBuf>,
    /// The site's root, which programs get as a variable; `None`: the variable is not set.
    pub document_root: Option<PathBuf>,
    /// Where symbolic links may lead.
    pub symlinks: SymlinkPolicy,
    /// Names that begin with a dot may be programs.
    pub hidden_files: bool,
    /// The user that they run as; `None`: that of the server.
    pub user: Option<User>,
    /// Permissions that are removed from the files that they make.
    pub umask: u32,
    /// Their niceness, 0 to 19.
    pub niceness: i32,
    /// They cannot gain rights by executing set-user-ID files.
    pub no_new_privileges: bool,
    /// Resource limits: `RLIMIT_*` and its value.
    pub limits: Vec<(u32, u64)>,
    /// Variables added to their environment. They replace those of the request.
    pub environment: Vec<(String, String)>,
    /// They get the `Authorization` field.
    pub pass_authorization: bool,
    /// Processes that they leave behind may continue.
    pub background: bool,
    /// How many of them run at a time.
    pub concurrency: usize,
    /// How many requests wait for one of them to end.
    pub queue: usize,
    /// How long a request waits in the queue at most.
    pub queue_timeout: Duration,
    /// The longest time until the first byte of output.
    pub first_byte_timeout: Duration,
    /// The longest time between two bytes, in either direction.
    pub idle_timeout: Duration,
    /// The longest time from start to end; `None`: no limit.
    pub total_timeout: Option<Duration>,
    /// The time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// The largest request body of unknown length.
    pub spool_bytes: u64,
    /// The directory in which such a body is stored while it arrives.
    pub spool_directory: PathBuf,
    /// Limits for their header.
    pub header: HeaderLimits,
}

/// Which files are programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Programs {
    /// Those below a directory. A prefix of the request's path, such as `/cgi-bin`, is not part of the file's
    /// path.
    Below {
        /// The directory.
        directory: PathBuf,
        /// The prefix that is removed; empty: none.
        prefix: String,
    },
    /// One file for all requests.
    One {
        /// The file.
        file: PathBuf,
        /// The path that names it; the program gets the rest of the request's path.
        prefix: String,
    },
    /// None: the caller of [`CgiHandler::run`](super::handler::CgiHandler::run) finds the program itself.
    Given,
}
