//! The cache directory: where trees of files and built programs are kept from one run to the next.
//!
//! The cache directory is `$TOUCHSTONE_CACHE` if that is set; otherwise the first of these that can be
//! written: for root `/var/cache/touchstone` (servers that drop root's rights must still be able to read its
//! files), for others `$XDG_CACHE_HOME/touchstone` or `~/.cache/touchstone`, and finally a directory of the
//! user below the temporary directory.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The result of `make` for the first cache directory in which it succeeds; otherwise why it failed in each.
pub fn prepare<T>(make: impl Fn(&Path) -> io::Result<T>) -> Result<T, String> {
    let mut refusals = Vec::new();
    for cache in cache_directories() {
        match make_cache_directory(&cache).and_then(|()| make(&cache)) {
            Ok(made) => return Ok(made),
            Err(error) => refusals.push(format!("{}: {error}", cache.display())),
        }
    }
    Err(refusals.join("; "))
}

fn cache_directories() -> Vec<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(stated) = variable("TOUCHSTONE_CACHE") {
        return vec![stated];
    }
    let user = rustix::process::geteuid();
    let mut directories = Vec::new();
    if user.is_root() {
        directories.push(PathBuf::from("/var/cache/touchstone"));
    } else if let Some(cache) = variable("XDG_CACHE_HOME") {
        directories.push(cache.join("touchstone"));
    } else if let Some(home) = variable("HOME") {
        directories.push(home.join(".cache/touchstone"));
    }
    directories.push(temporary_cache());
    directories
}

fn temporary_cache() -> PathBuf {
    std::env::temp_dir().join(format!("touchstone-cache-{}", rustix::process::geteuid().as_raw()))
}

/// Makes the directory, readable by all and writable by this user alone. The one below the shared temporary
/// directory must be this user's own: any user could have made a directory of that name there.
fn make_cache_directory(directory: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
    let found = fs::symlink_metadata(directory)?;
    let own = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    if own || directory != temporary_cache() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"))
}
