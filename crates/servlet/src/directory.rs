//! Directories for the files of Java.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::settings::RouteSettings;

/// The beginning of the names of such directories.
const PREFIX: &str = "touchstone-java-";

/// The file that is locked while the process that uses the directory runs.
const ALIVE: &str = "alive";

/// A directory for temporary files that only this user can read.
pub struct PrivateDirectory {
    path: PathBuf,
    _alive: File,
}

impl PrivateDirectory {
    /// Creates a new directory. Removes the directories of killed processes.
    pub fn new() -> io::Result<PrivateDirectory> {
        let temporary = temporary_directory();
        remove_dead(&temporary);
        PrivateDirectory::in_use(new_directory(&temporary)?)
    }

    fn in_use(path: PathBuf) -> io::Result<PrivateDirectory> {
        // The file is locked before it gets its name, so that it is never visible without its lock.
        let beside = path.join("alive.new");
        let alive = File::options().create_new(true).write(true).open(&beside)?;
        rustix::fs::flock(&alive, FlockOperation::NonBlockingLockExclusive)?;
        std::fs::rename(beside, path.join(ALIVE))?;
        Ok(PrivateDirectory { path, _alive: alive })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it with its contents, as far as possible.
    pub fn remove(&self) {
        // Files that stay are in a directory for temporary files, and the next server removes them.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Removes directories whose processes have ended.
fn remove_dead(temporary: &Path) {
    let this_user = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(temporary).into_iter().flatten().flatten() {
        let path = entry.path();
        // Links are not followed: their targets may belong to another user.
        let is_ours = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())
            && path.symlink_metadata().is_ok_and(|facts| facts.is_dir() && facts.uid() == this_user);
        if !is_ours {
            continue;
        }
        let Ok(alive) = File::options().write(true).open(path.join(ALIVE)) else { continue };
        if rustix::fs::flock(&alive, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // As in `PrivateDirectory::remove`.
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

fn new_directory(temporary: &Path) -> io::Result<PathBuf> {
    let mut number = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64);
    loop {
        let path = temporary.join(format!("{PREFIX}{}-{number:x}", std::process::id()));
        // The directory must be new: one that another user has created is not used.
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number = number.wrapping_add(1),
            result => return result.map(|()| path),
        }
    }
}

/// Makes a directory and its missing parents. Other users cannot write there, whatever the umask is.
pub fn make_directory(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o755).create(path)
}

/// Creates a directory with this name in `parent`, for files that will be executed or are private: only this
/// user and root can read it, write to it or replace it. The error describes why that is not possible.
pub fn private_directory_in(parent: &Path, name: &str) -> Result<PathBuf, String> {
    let failed = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    // Symbolic links are resolved. Otherwise the directories of the links would have to be checked too.
    let parent = parent.canonicalize().map_err(|error| failed(parent, &error))?;
    let this_user = rustix::process::geteuid().as_raw();
    for place in parent.ancestors() {
        let facts = place.metadata().map_err(|error| failed(place, &error))?;
        let is_trusted = facts.uid() == this_user || facts.uid() == 0;
        // If the sticky bit is set, as for /tmp, other users cannot rename or remove files of this user.
        let is_shared = facts.mode() & 0o022 != 0 && facts.mode() & 0o1000 == 0;
        if !is_trusted || is_shared {
            return Err(failed(place, &"other users can write to it, but the server runs files below it"));
        }
    }
    let path = parent.join(name);
    match std::fs::DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(&path, &error)),
        _ => {}
    }
    let facts = path.symlink_metadata().map_err(|error| failed(&path, &error))?;
    // A directory to which others could write may already hold their files, so it is refused. One that they
    // could only read is closed to them now.
    if !facts.is_dir() || facts.uid() != this_user || facts.mode() & 0o022 != 0 {
        return Err(failed(&path, &"it must be a directory that only this user can write to"));
    }
    if facts.mode() & 0o077 != 0 {
        let closed = Permissions::from_mode(0o700);
        std::fs::set_permissions(&path, closed).map_err(|error| failed(&path, &error))?;
    }
    Ok(path)
}

fn temporary_directory() -> PathBuf {
    // The path of a socket has at most 107 bytes.
    let usual = std::env::temp_dir();
    if usual.as_os_str().len() <= 40 { usual } else { Path::new("/tmp").to_path_buf() }
}

/// A name for a route's directory that is the same after a restart.
pub fn stable_name(settings: &RouteSettings) -> String {
    let source = settings.app.as_ref().or(settings.directory.as_ref());
    let file = source.and_then(|path| path.file_stem()).unwrap_or_default().to_string_lossy().into_owned();
    let letters: String = file
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' })
        .take(40)
        .collect();
    // The hash distinguishes files with the same name. A collision is no advantage for an attacker.
    let text = format!("{source:?} {} {}", settings.context, settings.site);
    format!("{letters}-{:016x}", hash(&text))
}

/// FNV-1a, for names of files. The text beside an archive decides whether it is valid.
pub fn hash(key: &str) -> u64 {
    key.bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("permissions are set");
    }

    #[test]
    fn directories_of_processes_that_were_killed_are_removed() {
        let around = tempfile::tempdir().expect("a directory");
        let make = || new_directory(around.path()).expect("it can be made");
        let used = PrivateDirectory::in_use(make()).expect("it can be locked");
        let dead = make();
        fs::write(dead.join(ALIVE), "").expect("a file");
        fs::write(dead.join("left"), "").expect("a file");
        // A directory that is being created, and one with another name.
        let unlocked = make();
        fs::create_dir(around.path().join("other")).expect("a directory");
        fs::write(around.path().join("other").join(ALIVE), "").expect("a file");
        symlink(around.path().join("other"), around.path().join("touchstone-java-link")).expect("a link");
        remove_dead(around.path());
        assert!(used.path().is_dir() && !dead.exists() && unlocked.is_dir());
        assert!(around.path().join("other").join(ALIVE).is_file());
        used.remove();
        assert!(!used.path().exists());
    }

    #[test]
    fn a_directory_for_what_is_run_is_nobody_elses() {
        let around = tempfile::tempdir().expect("a directory");
        let parent = around.path().join("parent");
        fs::create_dir(&parent).expect("a directory");
        set_mode(&parent, 0o755);
        let directory = private_directory_in(&parent, "mine").expect("it can be made");
        assert_eq!(directory.metadata().expect("it is there").mode() & 0o777, 0o700);
        assert_eq!(private_directory_in(&parent, "mine"), Ok(directory.clone()));
        // Through a link, the same directory is found.
        symlink(&parent, around.path().join("link")).expect("a link");
        assert_eq!(private_directory_in(&around.path().join("link"), "mine"), Ok(directory.clone()));

        for mode in [0o770, 0o702, 0o777] {
            set_mode(&directory, mode);
            let problem = private_directory_in(&parent, "mine").expect_err("others may have written there");
            let expected = "parent/mine: it must be a directory that only this user can write to";
            assert!(problem.ends_with(expected), "{problem}");
        }
        set_mode(&directory, 0o755);
        assert_eq!(private_directory_in(&parent, "mine"), Ok(directory.clone()));
        assert_eq!(directory.metadata().expect("it is there").mode() & 0o777, 0o700, "closed to others");
        for (mode, is_good) in [(0o775, false), (0o757, false), (0o1777, true), (0o700, true)] {
            set_mode(&parent, mode);
            assert_eq!(private_directory_in(&parent, "mine").is_ok(), is_good, "{mode:o}");
        }
        set_mode(around.path(), 0o777);
        let problem = private_directory_in(&parent, "mine").expect_err("it could be moved away");
        assert!(problem.contains(": other users can write to it"), "{problem}");
        set_mode(around.path(), 0o700);
        symlink(&directory, parent.join("linked")).expect("a link");
        assert!(private_directory_in(&parent, "linked").is_err());
        fs::write(parent.join("file"), "").expect("a file");
        assert!(private_directory_in(&parent, "file").is_err());
        assert!(private_directory_in(&around.path().join("none"), "mine").is_err());
    }
}
