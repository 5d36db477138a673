//! Files and directories that get their name only when they are complete.
//!
//! A file is written without a name (`O_TMPFILE`), so it disappears if the upload is aborted or the process
//! ends. If the file system does not support that, the file has a hidden name until then, which is removed
//! when the value is dropped. At the end it gets its name in one step, and the file that had the name before
//! is replaced.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{self, AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::failure::Result;
use crate::names::TEMPORARY_PREFIX;

/// A file that is being written.
pub struct TemporaryFile {
    file: File,
    directory: OwnedFd,
    /// Its hidden name, where it has one.
    name: Option<String>,
}

/// A name that no other has: `.touchstone-`, what it is for, and 128 random bits.
pub fn hidden_name(purpose: &str) -> io::Result<String> {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| io::Error::other("the system returns no random bytes"))?;
    Ok(format!("{TEMPORARY_PREFIX}{purpose}-{:032x}", u128::from_ne_bytes(bytes)))
}

impl TemporaryFile {
    /// Creates a file in a directory. Files that a client writes cannot be executed.
    pub fn create(directory: &OwnedFd) -> Result<TemporaryFile> {
        let directory = directory.try_clone()?;
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        let unnamed = fs::openat(&directory, ".", flags | OFlags::TMPFILE, mode);
        let (file, name) = match unnamed {
            Ok(file) => (file, None),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {
                let name = hidden_name("upload")?;
                let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
                (fs::openat(&directory, name.as_str(), flags, mode)?, Some(name))
            }
            Err(error) => return Err(error.into()),
        };
        Ok(TemporaryFile { file: File::from(file), directory, name })
    }

    /// Adds to the content.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// The open file.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Waits until the content is on the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Sets the permissions of the file that it replaces, except those to execute it.
    pub fn set_permissions(&self, permissions: u32) -> io::Result<()> {
        Ok(fs::fchmod(&self.file, Mode::from_raw_mode(permissions & 0o666))?)
    }

    /// Gives the file its name, and replaces a file with this name. `must_be_new`: an existing name is an
    /// error (`EEXIST`).
    pub fn finish(mut self, name: &[u8], must_be_new: bool) -> Result<OwnedFd> {
        let hidden = match self.name.clone() {
            Some(hidden) => hidden,
            None => {
                let unnamed = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                if must_be_new {
                    let flags = AtFlags::SYMLINK_FOLLOW;
                    fs::linkat(CWD, unnamed.as_str(), &self.directory, name, flags)?;
                    return Ok(self.file.try_clone()?.into());
                }
                let hidden = hidden_name("upload")?;
                let flags = AtFlags::SYMLINK_FOLLOW;
                fs::linkat(CWD, unnamed.as_str(), &self.directory, hidden.as_str(), flags)?;
                self.name = Some(hidden.clone());
                hidden
            }
        };
        rename(&self.directory, hidden.as_bytes(), &self.directory, name, must_be_new)?;
        self.name = None;
        Ok(self.file.try_clone()?.into())
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = fs::unlinkat(&self.directory, name.as_str(), AtFlags::empty());
        }
    }
}

/// Renames; `must_be_new`: a name that exists is an error. Some file systems cannot guarantee that; for them
/// the name was looked up before.
pub fn rename(
    from: impl AsFd,
    from_name: &[u8],
    to: impl AsFd,
    to_name: &[u8],
    must_be_new: bool,
) -> std::result::Result<(), Errno> {
    if must_be_new {
        match fs::renameat_with(&from, from_name, &to, to_name, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            other => return other,
        }
    }
    fs::renameat(from, from_name, to, to_name)
}
