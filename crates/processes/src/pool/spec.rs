//! The settings of processes that the server starts.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::user::User;

/// The settings of a pool. Equal settings denote the same pool.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PoolSpec {
    /// The program.
    pub program: Program,
    /// The number of processes; for php-fpm, the number of its workers.
    pub processes: usize,
    /// The current directory of the processes; `None`: the server's.
    pub directory: Option<PathBuf>,
    /// The environment except `PATH`.
    pub environment: Vec<(String, String)>,
    /// The user of the processes; `None`: that of the server.
    pub user: Option<User>,
    /// The limits of a process.
    pub limits: ProcessLimits,
    /// The path of the listening socket; `None`: a socket in a directory of the pool.
    pub socket: Option<PathBuf>,
    /// The time between SIGTERM and SIGKILL.
    pub stop_timeout: Duration,
}

/// The program of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Program {
    /// A program that accepts connections at descriptor 0, as FastCGI programs do; with its arguments.
    Command(Vec<String>),
    /// php-fpm, which has its own workers.
    PhpFpm {
        /// The program.
        program: PathBuf,
        /// The suffixes of scripts.
        suffixes: Vec<String>,
        /// Settings of PHP that scripts cannot change (`php_admin_value`).
        settings: Vec<(String, String)>,
        /// A worker is replaced after this many requests; 0: never.
        requests_per_process: u64,
    },
}

/// The limits of a process; `None`: those of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ProcessLimits {
    /// Open files.
    pub open_files: Option<u64>,
    /// Memory (address space), in bytes.
    pub memory_bytes: Option<u64>,
}

/// Finds a program by its path, or by its name in the directories of `PATH` (and the usual directories of
/// system programs).
pub fn find_program(name: &str, base: &Path) -> Option<PathBuf> {
    if name.contains('/') {
        let path = base.join(name);
        return is_executable(&path).then_some(path);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(system)
        .map(|directory| directory.join(name))
        .find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}
