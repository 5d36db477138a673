//! Checks access to the files and directories that a configuration names.

use std::io;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, accessat};
use touchstone_config as config;
use touchstone_files::root::SymlinkPolicy;

/// The problem of a handler that needs files in a site without them. The check of the configuration finds it
/// before.
pub const NO_ROOT: &str = "neither the route nor its site has 'root'";

/// Checks access with the current (effective) rights of the process.
pub fn may(path: &Path, access: Access, otherwise: &str) -> Result<(), String> {
    accessat(CWD, path, access, AtFlags::EACCESS)
        .map_err(|error| format!("{otherwise}: {}", io::Error::from(error)))
}

/// The directory, or the nearest one above it that exists.
pub fn existing(directory: &Path) -> &Path {
    directory.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"))
}

/// Converts the key `symlinks` to the policy of roots.
pub fn symlink_policy(policy: config::SymlinkPolicy) -> SymlinkPolicy {
    match policy {
        config::SymlinkPolicy::Inside => SymlinkPolicy::Inside,
        config::SymlinkPolicy::Anywhere => SymlinkPolicy::Anywhere,
    }
}
