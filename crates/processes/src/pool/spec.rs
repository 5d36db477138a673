//! What a configuration says of processes that the server is to start.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::user::User;

/// Everything about a pool. Two that are equal are the same pool.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PoolSpec {
    /// What runs.
    pub program: Program,
    /// How many processes; of php-fpm, how many of its workers.
    pub processes: usize,
    /// The current directory of the processes; `None`: the server's.
    pub directory: Option<PathBuf>,
    /// The whole environment beside `PATH`.
    pub environment: Vec<(String, String)>,
    /// Who they run as; `None`: as the server.
    pub user: Option<User>,
    /// What they may use.
    pub limits: ProcessLimits,
    /// Where they listen; `None`: at a socket in a directory of its own.
    pub socket: Option<PathBuf>,
    /// How long they may take to end after SIGTERM; then comes SIGKILL.
    pub stop_timeout: Duration,
}

/// What a pool runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Program {
    /// A program that accepts connections at descriptor 0, as FastCGI programs do; with its arguments.
    Command(Vec<String>),
    /// php-fpm, which has workers of its own.
    PhpFpm {
        /// The program.
        program: PathBuf,
        /// What scripts end in.
        suffixes: Vec<String>,
        /// Settings of PHP that scripts cannot change (`php_admin_value`).
        settings: Vec<(String, String)>,
        /// After so many requests a worker is replaced; 0: never.
        requests_per_process: u64,
    },
}

/// What a process may use; `None`: what the server may.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ProcessLimits {
    /// Open files.
    pub open_files: Option<u64>,
    /// Memory (address space), in bytes.
    pub memory_bytes: Option<u64>,
}

/// A program by its path, or its name in the directories of `PATH` (and those where system programs are).
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
