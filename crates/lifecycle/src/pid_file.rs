//! The file with the process's number.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Gid, Mode, OFlags, Uid, fchown, ftruncate, openat};

use crate::privileges::Account;

/// The file with the process's number.
pub struct PidFile {
    path: PathBuf,
    file: File,
}

impl PidFile {
    /// Opens the file, without a number yet: another process may still be the one it names. It is given to
    /// the account as whom the server will run, whose successor writes it.
    pub fn open(path: &Path, account: Option<&Account>) -> io::Result<PidFile> {
        // Not through a link: that could be another's, in a directory where others write.
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
        // Over the number of the process before, in one go: who looks meanwhile sees one or the other.
        self.file.write_all_at(line.as_bytes(), 0)?;
        Ok(ftruncate(&self.file, line.len() as u64)?)
    }

    /// Takes the file away; where the directory does not allow that, its content.
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
