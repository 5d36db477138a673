//! Files that only their owner may read, written so that a reader never finds a partial one.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use aws_lc_rs::rand;

/// The suffix of unfinished files.
const UNFINISHED: &str = ".new";

/// Makes a directory that only its owner may access, and its missing parents.
pub fn make_directory(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Writes a temporary file beside this one and renames it. If the process is killed or the power fails, the
/// file has either its old content or all of `bytes`. The mode of the previous file is not kept.
pub fn write(file: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut beside = file.as_os_str().to_owned();
    // Machines that share a directory may have processes with the same number.
    let mut random = [0; 8];
    rand::fill(&mut random).map_err(|_| io::Error::other("the system returns no random numbers"))?;
    let (process, random) = (std::process::id(), u64::from_be_bytes(random));
    beside.push(format!(".{process}-{random:016x}{UNFINISHED}"));
    let beside = PathBuf::from(beside);
    let write = || -> io::Result<()> {
        let mut opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
        opened.write_all(bytes)?;
        opened.sync_all()?;
        fs::rename(&beside, file)?;
        // Only after this is the new name on the disk.
        File::open(file.parent().unwrap_or(Path::new("/")))?.sync_all()
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&beside);
    })
}

/// Removes the temporary files of processes that were killed while they wrote `file`. The caller must be the
/// only writer of the file.
pub fn remove_unfinished(file: &Path) {
    let (Some(directory), Some(name)) = (file.parent(), file.file_name().and_then(|name| name.to_str()))
    else {
        return;
    };
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let found = entry.file_name();
        let rest = found.to_str().and_then(|found| found.strip_prefix(name));
        if rest.is_some_and(|rest| rest.starts_with('.') && rest.ends_with(UNFINISHED)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn modes_hold_whatever_was_there_before() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("a/b");
        make_directory(&inner).unwrap();
        assert_eq!((mode(&inner), mode(&directory.path().join("a"))), (0o700, 0o700));
        let file = inner.join("key");
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        write(&file, b"new", 0o600).unwrap();
        assert_eq!((fs::read(&file).unwrap(), mode(&file)), (b"new".to_vec(), 0o600));
        assert_eq!(fs::read_dir(&inner).unwrap().count(), 1);
    }

    #[test]
    fn a_write_that_fails_leaves_the_old_file() {
        let directory = tempfile::tempdir().unwrap();
        let taken = directory.path().join("taken");
        fs::create_dir(&taken).unwrap();
        fs::write(taken.join("file"), "").unwrap();
        assert!(write(&taken, b"new", 0o600).is_err());
        assert!(taken.join("file").exists());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_was_not_finished_goes_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("key");
        for name in ["key", "key.1.new", "key.77.new", "key.pem", "other.1.new"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        remove_unfinished(&file);
        let mut left: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["key", "key.pem", "other.1.new"]);
    }
}
