//! Access to files and directories that a configuration names, for its checks and for what it opens.

use std::io;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, accessat};
use touchstone_config as config;
use touchstone_files::root::SymlinkPolicy;

/// Checks access with the present (effective) rights of the process.
pub fn may(path: &Path, access: Access, otherwise: &str) -> Result<(), String> {
    accessat(CWD, path, access, AtFlags::EACCESS)
        .map_err(|error| format!("{otherwise}: {}", io::Error::from(error)))
}

/// The directory, or the nearest one above it that exists.
pub fn existing(directory: &Path) -> &Path {
    directory.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"))
}

/// The key `symlinks` as roots take it.
pub fn symlink_policy(policy: config::SymlinkPolicy) -> SymlinkPolicy {
    match policy {
        config::SymlinkPolicy::Inside => SymlinkPolicy::Inside,
        config::SymlinkPolicy::Anywhere => SymlinkPolicy::Anywhere,
    }
}
