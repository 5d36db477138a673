//! Copies of files and trees, and the removal of trees. Every step names a file by its last name in a
//! directory that is open, and follows no link.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::failure::{Failure, Result};
use crate::names::is_hidden_name;
use crate::temporary::{TemporaryFile, hidden_name};
use crate::tree::Tree;

/// How deep trees may be that are copied or removed: each level holds a descriptor.
const MOST_DEPTH: usize = 128;

/// What is copied.
pub struct CopyRules<'t> {
    /// The tree of the source. It has files that are not copied.
    pub tree: &'t Tree,
    /// Names that begin with a dot, too.
    pub hidden_files: bool,
    /// The most files and directories.
    pub most_entries: usize,
    /// Members, too.
    pub with_members: bool,
    /// The copy is on the disk at the end.
    pub sync: bool,
}

/// A directory with a hidden name, which is removed when the value is dropped.
pub struct TemporaryDirectory {
    within: OwnedFd,
    name: String,
}

impl TemporaryDirectory {
    /// Its name.
    pub fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }

    /// It has got another name.
    pub fn keep(mut self) {
        self.name.clear();
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            let _ = remove(&self.within, self.name.as_bytes());
        }
    }
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Copies a file to one without a name in `to`.
pub fn copy_file(from: OwnedFd, to: &OwnedFd, sync: bool) -> Result<TemporaryFile> {
    let mut copy = TemporaryFile::create(to)?;
    copy_content(from, copy.file(), sync)?;
    Ok(copy)
}

fn copy_content(from: OwnedFd, to: &mut File, sync: bool) -> Result<()> {
    let mode = fs::fstat(&from)?.st_mode & 0o666;
    io::copy(&mut File::from(from), to)?;
    fs::fchmod(&*to, Mode::from_raw_mode(mode))?;
    if sync {
        to.sync_data()?;
    }
    Ok(())
}

/// Copies a directory to one with a hidden name in `to`.
pub fn copy_tree(from: &OwnedFd, to: &OwnedFd, rules: &CopyRules<'_>) -> Result<TemporaryDirectory> {
    let name = hidden_name("copy")?;
    fs::mkdirat(to, name.as_str(), Mode::from_raw_mode(0o777))?;
    let copy = TemporaryDirectory { within: to.try_clone()?, name };
    if rules.with_members {
        let target = fs::openat(to, copy.name.as_str(), DIRECTORY, Mode::empty())?;
        let mut remaining = rules.most_entries.saturating_sub(1);
        copy_members(from, &target, rules, 0, &mut remaining)?;
    }
    Ok(copy)
}

fn copy_members(
    from: &OwnedFd,
    to: &OwnedFd,
    rules: &CopyRules<'_>,
    depth: usize,
    remaining: &mut usize,
) -> Result<()> {
    if depth >= MOST_DEPTH {
        return Err(Failure::new(507).detail(format!("a tree is deeper than {MOST_DEPTH} directories")));
    }
    for item in Dir::read_from(from)? {
        let item = item?;
        let name = item.file_name();
        if matches!(name.to_bytes(), b"." | b"..") || is_hidden_name(name.to_bytes(), rules.hidden_files) {
            continue;
        }
        let stat = fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if !matches!(kind, FileType::RegularFile | FileType::Directory | FileType::Symlink) {
            continue;
        }
        if !rules.tree.may_copy(from, name.to_bytes(), &stat) {
            continue;
        }
        *remaining = remaining.checked_sub(1).ok_or_else(|| {
            Failure::new(507).detail("a tree has more resources than 'entries' allows to copy")
        })?;
        match kind {
            FileType::Directory => {
                let source = fs::openat(from, name, DIRECTORY, Mode::empty())?;
                fs::mkdirat(to, name, Mode::from_raw_mode(0o777))?;
                let target = fs::openat(to, name, DIRECTORY, Mode::empty())?;
                copy_members(&source, &target, rules, depth + 1, remaining)?;
            }
            FileType::RegularFile => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let source = fs::openat(from, name, flags, Mode::empty())?;
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let target = fs::openat(to, name, flags, Mode::from_raw_mode(0o666))?;
                copy_content(source, &mut File::from(target), rules.sync)?;
            }
            _ => {
                // The link itself: whether it may be followed is decided when it is.
                let text = fs::readlinkat(from, name, Vec::new())?;
                fs::symlinkat(text, to, name)?;
            }
        }
    }
    Ok(())
}

/// Removes a file, a link, or a directory with its contents.
pub fn remove(within: &OwnedFd, name: &[u8]) -> Result<()> {
    remove_below(within, name, 0)
}

fn remove_below(within: &OwnedFd, name: &[u8], depth: usize) -> Result<()> {
    match fs::unlinkat(within, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    if depth >= MOST_DEPTH {
        return Err(Failure::new(500).detail(format!("a tree is deeper than {MOST_DEPTH} directories")));
    }
    let directory = fs::openat(within, name, DIRECTORY, Mode::empty())?;
    let names: io::Result<Vec<Vec<u8>>> =
        Dir::read_from(&directory)?.map(|item| Ok(item?.file_name().to_bytes().to_vec())).collect();
    for name in names?.iter().filter(|name| !matches!(&name[..], b"." | b"..")) {
        remove_below(&directory, name, depth + 1)?;
    }
    Ok(fs::unlinkat(within, name, AtFlags::REMOVEDIR)?)
}
