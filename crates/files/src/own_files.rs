//! The files of the server itself: its configuration, keys, password files and other secrets, and the
//! directories where it keeps some. No root that knows them gives them out, by whatever name they are found.
//!
//! ```text
//! paths of the configuration -> identities (device and inode), at most a second old -> is this one of them?
//! ```
//!
//! A file that was opened is compared by its identity, so links and other names do not matter. Programs
//! replace such files by a rename, for example when a certificate is renewed: therefore a file that has the
//! name of one of them is always compared with what is at its path now. Only if the path is a symbolic link
//! whose target was replaced within the last second, the new target can be read by the target's own name for
//! the rest of that second. A cached copy of it is dropped then, because the cache checks its files again.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use rustix::fs;

/// How long identities are used before they are read again.
const LIFETIME: Duration = Duration::from_secs(1);

/// The files and directories of the server itself, for all its roots. It changes with the configuration.
#[derive(Debug, Default)]
pub struct OwnFiles {
    paths: RwLock<OwnPaths>,
}

/// Where they are.
#[derive(Debug, Default)]
struct OwnPaths {
    /// Those of the configuration that was opened last.
    files: Vec<Arc<Path>>,
    directories: Vec<Arc<Path>>,
    /// The first that belong to the configuration in use while another is opened.
    earlier: (usize, usize),
    /// The positions in `files` by the last name of the path.
    by_name: HashMap<OsString, Vec<usize>>,
    found: Found,
}

/// What was at the paths at a time.
#[derive(Debug, Default)]
struct Found {
    at: Option<Instant>,
    /// Positions in `files` by inode and device.
    files: HashMap<(u64, u64), usize>,
    /// Real paths.
    directories: Vec<PathBuf>,
}

impl OwnFiles {
    /// Adds the paths of a configuration that is about to be opened, which are absolute. Those of the
    /// configuration in use stay until [`forget_earlier`](OwnFiles::forget_earlier).
    pub fn add(&self, files: &[PathBuf], directories: &[PathBuf]) {
        let mut paths = self.paths.write().unwrap_or_else(PoisonError::into_inner);
        paths.earlier = (paths.files.len(), paths.directories.len());
        paths.files.extend(files.iter().map(|path| Arc::from(path.as_path())));
        paths.directories.extend(directories.iter().map(|path| Arc::from(path.as_path())));
        paths.index();
    }

    /// Called when the configuration that was added last is in use: removes the paths of the others.
    pub fn forget_earlier(&self) {
        let mut paths = self.paths.write().unwrap_or_else(PoisonError::into_inner);
        let (files, directories) = std::mem::take(&mut paths.earlier);
        paths.files.drain(..files);
        paths.directories.drain(..directories);
        paths.index();
    }

    /// Whether a file or directory is one of them, or is in one of the directories. `name` is the path by
    /// which it was found, or the end of it; `file` is the inode and device of a file, `None` a directory.
    /// `path` and `root` request its real path and that of the root from the kernel. A directory that has the
    /// root in it is not one of them.
    pub fn contains(
        &self,
        name: &[u8],
        file: Option<(u64, u64)>,
        path: impl FnOnce() -> io::Result<Vec<u8>>,
        root: impl FnOnce() -> io::Result<Vec<u8>>,
    ) -> bool {
        self.with_found(|paths| {
            if file.is_some_and(|file| paths.has_file(name, file)) {
                return true;
            }
            if paths.found.directories.is_empty() {
                return false;
            }
            let Ok(path) = path() else { return true };
            let path = Path::new(OsStr::from_bytes(&path));
            let mut around = paths.directories_around(path).peekable();
            if around.peek().is_none() {
                return false;
            }
            let Ok(root) = root() else { return true };
            let root = Path::new(OsStr::from_bytes(&root));
            around.any(|directory| directory == root || !root.starts_with(directory))
        })
    }

    /// Whether a name in a directory is the place of one of them, whether it exists or not.
    pub fn has_place(&self, directory: &fs::Stat, name: &[u8]) -> bool {
        let paths = self.paths.read().unwrap_or_else(PoisonError::into_inner);
        let is_here = |path: &Path| {
            let parent = path.parent().and_then(|parent| fs::stat(parent).ok());
            parent.is_some_and(|found| identity(&found) == identity(directory))
        };
        paths.named(name).any(is_here)
    }

    /// Whether one of them is below a directory, of which `real_path` is the real path.
    pub fn any_below(&self, real_path: &[u8]) -> bool {
        let directory = Path::new(OsStr::from_bytes(real_path));
        let paths = self.paths.read().unwrap_or_else(PoisonError::into_inner);
        paths.files.iter().chain(&paths.directories).any(|path| {
            let place = path.parent().map(real_path_of);
            place.is_some_and(|place| place.starts_with(directory))
                || real_path_of(path).starts_with(directory)
        })
    }

    /// Calls a function with identities that are at most a second old.
    fn with_found(&self, is_own: impl FnOnce(&OwnPaths) -> bool) -> bool {
        let paths = self.paths.read().unwrap_or_else(PoisonError::into_inner);
        if paths.files.is_empty() && paths.directories.is_empty() {
            return false;
        }
        if paths.found.at.is_some_and(|at| at.elapsed() < LIFETIME) {
            return is_own(&paths);
        }
        drop(paths);
        let mut paths = self.paths.write().unwrap_or_else(PoisonError::into_inner);
        paths.find();
        is_own(&paths)
    }
}

impl OwnPaths {
    fn index(&mut self) {
        self.by_name.clear();
        for (position, path) in self.files.iter().enumerate() {
            let name = path.file_name().unwrap_or_default().to_owned();
            self.by_name.entry(name).or_default().push(position);
        }
        self.found.at = None;
    }

    fn find(&mut self) {
        let found = self.files.iter().enumerate();
        self.found.files = found
            .filter_map(|(position, path)| Some((identity(&fs::stat(&**path).ok()?), position)))
            .collect();
        self.found.directories = self.directories.iter().map(|path| real_path_of(path)).collect();
        self.found.at = Some(Instant::now());
    }

    /// The paths that end in the last name of `name`.
    fn named(&self, name: &[u8]) -> impl Iterator<Item = &Path> {
        let last = name.rsplit(|&byte| byte == b'/').next().unwrap_or(name);
        let positions = self.by_name.get(OsStr::from_bytes(last)).into_iter().flatten();
        positions.filter_map(|&position| self.files.get(position)).map(|path| &**path)
    }

    fn has_file(&self, name: &[u8], wanted: (u64, u64)) -> bool {
        let is_at = |path: &Path| fs::stat(path).is_ok_and(|found| identity(&found) == wanted);
        // The number of a file that was deleted since may belong to another file now.
        let by_identity = self.found.files.get(&wanted).and_then(|&position| self.files.get(position));
        by_identity.is_some_and(|path| is_at(path)) || self.named(name).any(is_at)
    }

    fn directories_around<'p>(&'p self, path: &'p Path) -> impl Iterator<Item = &'p PathBuf> {
        self.found.directories.iter().filter(move |directory| path.starts_with(directory))
    }
}

/// Inode and device.
#[allow(clippy::unnecessary_cast, reason = "the C types differ between architectures")]
pub(crate) fn identity(stat: &fs::Stat) -> (u64, u64) {
    (stat.st_ino as u64, stat.st_dev as u64)
}

/// The real path of a file or directory, which may not exist yet: then that of the nearest directory above it
/// that exists, with the rest.
fn real_path_of(path: &Path) -> PathBuf {
    let mut existing = path;
    loop {
        if let Ok(real) = existing.canonicalize() {
            return path.strip_prefix(existing).map_or_else(
                |_| path.to_path_buf(),
                |rest| if rest.as_os_str().is_empty() { real.clone() } else { real.join(rest) },
            );
        }
        match existing.parent() {
            Some(parent) => existing = parent,
            None => return path.to_path_buf(),
        }
    }
}
