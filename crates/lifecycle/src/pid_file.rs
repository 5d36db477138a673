//! The PID file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Gid, Mode, OFlags, Uid, fchown, ftruncate, openat};

use crate::privileges::Account;

/// The PID file.
pub struct PidFile {
    path: PathBuf,
    file: File,
}

impl PidFile {
    /// Opens the file without writing to it: it may still have the number of another process. Its owner
    /// becomes the account under which the server will run, because a successor with that account writes it.
    pub fn open(path: &Path, account: Option<&Account>) -> io::Result<PidFile> {
        // A link is not followed: in a directory that others may write to, it could be theirs.
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NOCTTY;
        let file = openat(CWD, path, flags | OFlags::NONBLOCK, Mode::from_raw_mode(0o644))?;
        if let Some(account) = account.filter(|account| !account.is_ours()) {
            fchown(&file, Some(Uid::from_raw(account.user)), Some(Gid::from_raw(account.group)))?;
        }
        Ok(PidFile { path: path.to_path_buf(), file: File::from(file) })
    }

    /// Writes the number of this process.
    pub fn write(&self) -> io::Result<()> {
        let line = format!("{}\n", std::process::id());
        // One write replaces the previous process's number: a reader sees one of the two.
        self.file.write_all_at(line.as_bytes(), 0)?;
        Ok(ftruncate(&self.file, line.len() as u64)?)
    }

    /// Removes the file, or empties it if the directory does not allow that.
    pub fn remove(self) {
        if std::fs::remove_file(&self.path).is_err() {
            let _ = ftruncate(&self.file, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_there_from_the_writing_to_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("server.pid");
        std::fs::write(&path, "4194304999\n").unwrap();
        let file = PidFile::open(&path, None).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "4194304999\n");
        file.write().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        file.remove();
        assert!(!path.exists());
    }

    #[test]
    fn a_link_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (path, target) = (directory.path().join("server.pid"), directory.path().join("target"));
        std::fs::write(&target, "precious").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert!(PidFile::open(&path, None).is_err());
        assert_eq!(std::fs::read(target).unwrap(), b"precious");
    }
}
