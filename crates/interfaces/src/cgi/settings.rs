//! What a configuration says of CGI programs.

use std::path::PathBuf;
use std::time::Duration;

use touchstone_files::root::SymlinkPolicy;

use crate::cgi_response::HeaderLimits;

/// CGI programs of one route.
#[derive(Debug, Clone)]
pub struct CgiSettings {
    /// Which files are programs.
    pub programs: Programs,
    /// What executes them, if not they themselves.
    pub interpreter: Option<PathBuf>,
    /// The site's root, which programs are told.
    pub document_root: PathBuf,
    /// Where symbolic links may lead.
    pub symlinks: SymlinkPolicy,
    /// Names that begin with a dot may be programs.
    pub hidden_files: bool,
    /// Whose rights they have, if not the server's.
    pub user: Option<User>,
    /// Permissions that files they make do not get.
    pub umask: u32,
    /// How much less they matter than others, 0 to 19.
    pub niceness: i32,
    /// They cannot gain rights by executing set-user-ID files.
    pub no_new_privileges: bool,
    /// Limits of resources: `RLIMIT_*`, and how much.
    pub limits: Vec<(u32, u64)>,
    /// Variables of their environment, beside those of the request, which they replace.
    pub environment: Vec<(String, String)>,
    /// They see `Authorization`.
    pub pass_authorization: bool,
    /// What they leave running may go on.
    pub background: bool,
    /// How many of them run at a time.
    pub concurrency: usize,
    /// How many requests wait for one to end.
    pub queue: usize,
    /// How long they wait at the most.
    pub queue_timeout: Duration,
    /// Until the first byte comes.
    pub first_byte_timeout: Duration,
    /// Between two bytes, in either direction.
    pub idle_timeout: Duration,
    /// From beginning to end; `None`: no limit.
    pub total_timeout: Option<Duration>,
    /// Between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// The largest body whose length is not known beforehand.
    pub spool_bytes: u64,
    /// Where such a body is kept while it comes.
    pub spool_directory: PathBuf,
    /// How large their header may be.
    pub header: HeaderLimits,
}

/// Which files are programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Programs {
    /// Those below a directory. This much of the path, `/cgi-bin`, is not looked for in it.
    Below {
        /// The directory.
        directory: PathBuf,
        /// What is left out; empty: nothing.
        prefix: String,
    },
    /// This one alone.
    One {
        /// The file.
        file: PathBuf,
        /// The path that stands for it; what follows is for the program.
        prefix: String,
    },
    /// None by themselves: somebody else finds them for [`CgiHandler::run`](super::handler::CgiHandler::run).
    Given,
}

/// A user with groups.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct User {
    /// User.
    pub user: u32,
    /// Group.
    pub group: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}
