//! The operations on the directory and its files, behind two traits, so that the simulator can replace the
//! disk by one with faults. Compared with the system call of each operation, the cost of a virtual call is
//! negligible.

use std::fmt::Debug;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// A directory.
pub trait Directory: Send + Sync {
    /// Its name in messages.
    fn path(&self) -> &Path;

    /// Creates it, with permissions only for its owner; does nothing if it exists.
    fn make(&self) -> io::Result<()>;

    /// The names of its files, in any order.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Creates a file, or truncates an existing one.
    fn create(&self, name: &str) -> io::Result<Box<dyn StoredFile>>;

    /// Opens an existing file.
    fn open(&self, name: &str) -> io::Result<Box<dyn StoredFile>>;

    /// Renames a file. It replaces an existing file with the new name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Syncs the names of the files to the disk.
    fn sync(&self) -> io::Result<()>;

    /// Locks it until the lock is dropped; `None`: another process has locked it.
    fn lock(&self) -> io::Result<Option<Box<dyn Send>>>;

    /// An identifier of this boot of the machine, if one is known.
    fn start_of_machine(&self) -> Option<String>;
}

/// An open file.
pub trait StoredFile: Send + Sync + Debug {
    /// The length of the file.
    fn length(&self) -> io::Result<u64>;

    /// Fills the buffer, from this position of the file.
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all bytes at this position. If that fails, a part of them may be written.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Appends all bytes to a file that was created by this process. If that fails, a part of them may be
    /// written, and later bytes follow that part.
    fn append(&self, bytes: &[u8]) -> io::Result<()>;

    /// Truncates the file to this length.
    fn set_length(&self, length: u64) -> io::Result<()>;

    /// Syncs the contents to the disk.
    fn sync(&self) -> io::Result<()>;

    /// Whether the file was removed, by this process or another one.
    fn is_removed(&self) -> bool;
}

/// A directory of the machine.
pub struct RealDirectory(PathBuf);

impl RealDirectory {
    /// The directory at this path, which need not exist.
    pub fn new(path: &Path) -> RealDirectory {
        RealDirectory(path.to_path_buf())
    }
}

impl Directory for RealDirectory {
    fn path(&self) -> &Path {
        &self.0
    }

    fn make(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn StoredFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        Ok(Box::new(options.open(self.0.join(name))?))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn StoredFile>> {
        Ok(Box::new(OpenOptions::new().read(true).write(true).open(self.0.join(name))?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.0)?.sync_all()
    }

    fn lock(&self) -> io::Result<Option<Box<dyn Send>>> {
        let path = self.0.join("lock");
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Box::new(FileLock(file)))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn start_of_machine(&self) -> Option<String> {
        let start = fs::read_to_string("/proc/sys/kernel/random/boot_id");
        start.ok().filter(|start| !start.trim().is_empty())
    }
}

impl StoredFile for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, bytes, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let mut file = self;
        file.write_all(bytes)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn is_removed(&self) -> bool {
        self.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
    }
}

/// The lock of a directory.
struct FileLock(File);

impl Drop for FileLock {
    /// Unlocks the file explicitly, because closing it is not enough: a program that is being started has a
    /// copy of the descriptor, and so the lock, between fork and exec. The next process that opens the
    /// directory would have to wait for that.
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// The error of a write to a file that was removed.
pub fn taken_away() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "another program has removed it")
}

/// The contents of a file.
pub fn read_whole(directory: &dyn Directory, name: &str) -> io::Result<Vec<u8>> {
    let file = directory.open(name)?;
    let mut bytes = vec![0; usize::try_from(file.length()?).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}
