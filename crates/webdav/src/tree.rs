//! From a path to a place below the root of a route, without leaving it.
//!
//! The directory of a place is opened by [`Root`]; all operations there name the file by its last name, which
//! has no slash, and follow no link. Locks and properties are stored by the real path of the directory and
//! that name, so two paths of one file through links have the same lock.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{self, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use touchstone_files::percent::encode_path;
use touchstone_files::root::{FileFacts, FileKind, OpenError, Root};

use crate::failure::{Failure, Result};
use crate::names::is_hidden_name;

/// The files of a route.
pub struct Tree {
    root: Root,
    mount: Vec<u8>,
    hidden_files: bool,
}

/// A place below the root: of a resource, or where one may be created.
pub struct Place {
    /// The path of a request for it, without a slash at its end; that of the root has one.
    pub path: Vec<u8>,
    /// By what locks and properties are kept; for a link to a directory those of this directory.
    pub key: Vec<u8>,
    /// The same for the name itself, where a link is not followed.
    pub name_key: Vec<u8>,
    /// The directory, and the name in it; `None`: it is the root itself.
    pub within: Option<(OwnedFd, Vec<u8>)>,
    /// The facts of the file or directory; `None`: there is none.
    pub facts: Option<FileFacts>,
    /// The name is a symbolic link.
    pub is_link: bool,
}

/// A resource in a tree.
pub struct Entry {
    /// The path of a request for it, without a slash at its end, except that of the root.
    pub path: Vec<u8>,
    /// By what locks and properties are kept.
    pub key: Vec<u8>,
    /// Its facts.
    pub facts: FileFacts,
}

/// How much of a tree is walked.
pub struct Walk {
    /// Members of members, too.
    pub is_deep: bool,
    /// The most resources.
    pub most_entries: usize,
}

/// The key of a member.
pub fn member_key(key: &[u8], name: &[u8]) -> Vec<u8> {
    [key, b"/", name].concat()
}

/// The path of a request for a member.
fn member_path(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.ends_with(b"/") { [path, name].concat() } else { [path, b"/", name].concat() }
}

/// A path as a link; a collection's has a slash at its end.
pub fn href(path: &[u8], is_collection: bool) -> String {
    let mut out = Vec::with_capacity(path.len() + 8);
    encode_path(path, &mut out);
    if is_collection && !out.ends_with(b"/") {
        out.push(b'/');
    }
    String::from_utf8_lossy(&out).into_owned()
}

impl Place {
    /// Whether it is a directory.
    pub fn is_collection(&self) -> bool {
        self.facts.is_some_and(|facts| facts.kind == FileKind::Directory)
    }

    /// The link to it.
    pub fn href(&self) -> String {
        href(&self.path, self.is_collection())
    }

    /// The directory and the name in it. The root itself cannot be replaced or removed.
    pub fn within(&self) -> Result<(&OwnedFd, &[u8])> {
        let (directory, name) = self.within.as_ref().ok_or_else(|| Failure::new(403))?;
        Ok((directory, name))
    }

    /// The key of the collection that it is a member of.
    pub fn parent_key(&self) -> Option<&[u8]> {
        let (_, name) = self.within.as_ref()?;
        self.name_key.strip_suffix(&name[..])?.strip_suffix(b"/")
    }

    /// The resource; 404: there is none.
    pub fn entry(&self) -> Result<Entry> {
        let facts = self.facts.ok_or_else(|| Failure::new(404))?;
        Ok(Entry { path: self.path.clone(), key: self.key.clone(), facts })
    }
}

impl Tree {
    /// The tree below a root.
    pub fn new(root: Root, mount: Vec<u8>, hidden_files: bool) -> Tree {
        Tree { root, mount, hidden_files }
    }

    /// Whether hidden names are ordinary files.
    pub fn hidden_files(&self) -> bool {
        self.hidden_files
    }

    /// Finds the place of a path in its normal form. A missing collection on the way is 404.
    pub fn place(&self, path: &[u8]) -> Result<Place> {
        // A deployment may have replaced the root.
        let _ = self.root.refresh();
        let below = path.strip_prefix(&self.mount[..]);
        let below = match below {
            None if [path, b"/"].concat() == self.mount => b"",
            None => return Err(Failure::new(404)),
            Some(below) => below.strip_suffix(b"/").unwrap_or(below),
        };
        if below.contains(&0) {
            return Err(Failure::new(404));
        }
        if below.is_empty() {
            let opened = self.root.open(&self.mount)?;
            let (path, facts) = (self.mount.clone(), Some(opened.facts));
            let (key, name_key) = (Vec::new(), Vec::new());
            return Ok(Place { path, key, name_key, within: None, facts, is_link: false });
        }
        let (parent, name) = match below.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (&below[..=slash], &below[slash + 1..]),
            None => (&b""[..], below),
        };
        if matches!(name, b"" | b"." | b"..") {
            return Err(Failure::new(404));
        }
        let directory = self.root.open(&[&self.mount, parent].concat())?;
        if directory.facts.kind != FileKind::Directory {
            return Err(Failure::new(404));
        }
        let path = [&self.mount, below].concat();
        let (facts, is_link) = self.facts_of(&directory.descriptor, name, &path)?;
        if self.is_own(&directory.descriptor, name, facts.as_ref().filter(|_| !is_link)) {
            return Err(Failure::new(404));
        }
        let name_key = member_key(&self.key_of(&directory.descriptor)?, name);
        let leads_to_directory = is_link && facts.is_some_and(|facts| facts.kind == FileKind::Directory);
        let key = match leads_to_directory {
            true => self.key_of(&self.root.open(&path)?.descriptor)?,
            false => name_key.clone(),
        };
        let within = Some((directory.descriptor, name.to_vec()));
        Ok(Place { path, key, name_key, within, facts, is_link })
    }

    /// The facts of a name in a directory, and whether it is a link. A link whose target does not exist, or
    /// is outside the root, has none.
    fn facts_of(&self, directory: &OwnedFd, name: &[u8], path: &[u8]) -> Result<(Option<FileFacts>, bool)> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let pinned = match fs::openat(directory, name, flags, Mode::empty()) {
            Ok(pinned) => pinned,
            Err(Errno::NOENT) => return Ok((None, false)),
            Err(error) => return Err(error.into()),
        };
        let stat = fs::fstat(&pinned)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            return match self.root.facts(path) {
                Ok(facts) => Ok((Some(facts), true)),
                Err(OpenError::NotFound) => Ok((None, true)),
                Err(refused) => Err(refused.into()),
            };
        }
        Ok((Some(FileFacts::from_stat(&stat)?), false))
    }

    /// Whether a name in a directory is that of a file of the server itself, such as its configuration.
    fn is_own(&self, directory: &OwnedFd, name: &[u8], facts: Option<&FileFacts>) -> bool {
        self.root.is_own_place(directory, name)
            || facts.is_some_and(|facts| self.root.own_entries(directory).contains(name, facts))
    }

    /// Whether a collection may be moved or removed with all in it: no file of the server itself is there.
    pub fn may_remove(&self, place: &Place) -> Result<bool> {
        if !place.is_collection() || place.is_link {
            return Ok(true);
        }
        let collection = self.root.open(&member_path(&place.path, b""))?;
        Ok(!self.root.has_own_below(&real_path(&collection.descriptor)?))
    }

    /// Whether a member of a collection may be copied with it.
    pub fn may_copy(&self, directory: &OwnedFd, name: &[u8], stat: &fs::Stat) -> bool {
        let is_link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
        let facts = FileFacts::from_stat(stat).ok().filter(|_| !is_link);
        !self.is_own(directory, name, facts.as_ref())
    }

    /// The key of the locks and properties of an open directory: its real path below that of the root, or, if
    /// links point outside, a slash and its whole path.
    fn key_of(&self, directory: &OwnedFd) -> Result<Vec<u8>> {
        let root = real_path(&self.root.open(&self.mount)?.descriptor)?;
        let path = real_path(directory)?;
        let root = root.strip_suffix(b"/").unwrap_or(&root);
        Ok(match path.strip_prefix(root) {
            Some(below) if below.is_empty() || below.starts_with(b"/") => {
                below.strip_suffix(b"/").unwrap_or(below).to_vec()
            }
            _ => [b"/", &path[..]].concat(),
        })
    }

    /// Opens the directory of a collection for reading names.
    pub fn open_directory(&self, path: &[u8]) -> Result<OwnedFd> {
        let opened = self.root.open(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(fs::openat(&opened.descriptor, ".", flags, Mode::empty())?)
    }

    /// Opens the file of a path for reading.
    pub fn open_file(&self, path: &[u8]) -> Result<OwnedFd> {
        Ok(self.root.open(path)?.descriptor)
    }

    /// The resource and what is below it, each collection before its members. A link to a directory is a
    /// member, and is not followed further. More than `most_entries` resources are 507.
    pub fn walk(&self, place: &Place, walk: &Walk) -> Result<Vec<Entry>> {
        let mut entries = vec![place.entry()?];
        let mut next = 0;
        let mut directories = 0;
        while next < entries.len() {
            let entry = &entries[next];
            next += 1;
            let is_first = directories == 0;
            if entry.facts.kind != FileKind::Directory || !is_first && !walk.is_deep {
                continue;
            }
            directories += 1;
            let (path, key) = (entry.path.clone(), entry.key.clone());
            match self.members(&path, &key, walk, entries.len()) {
                Ok(members) => entries.extend(members),
                // A directory below that cannot be read has no visible members.
                Err(failure) if !is_first && matches!(failure.status, 403 | 404) => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(entries)
    }

    fn members(&self, path: &[u8], key: &[u8], walk: &Walk, so_far: usize) -> Result<Vec<Entry>> {
        let path_of_directory = if path.ends_with(b"/") { path.to_vec() } else { [path, b"/"].concat() };
        // A link is a member, but the contents of its target belong to the place of the target.
        let directory = self.open_directory(&path_of_directory)?;
        let own_key = self.key_of(&directory)?;
        if own_key != key && walk.is_deep && so_far > 1 {
            return Ok(Vec::new());
        }
        let mut members = Vec::new();
        for item in Dir::read_from(&directory)? {
            let item = item?;
            let name = item.file_name().to_bytes();
            let is_hidden = is_hidden_name(name, self.hidden_files);
            let has_control = name.iter().any(u8::is_ascii_control);
            if matches!(name, b"." | b"..") || is_hidden || has_control {
                continue;
            }
            let path = member_path(path, name);
            let Ok((Some(facts), is_link)) = self.facts_of(&directory, name, &path) else { continue };
            if self.is_own(&directory, name, Some(&facts).filter(|_| !is_link)) {
                continue;
            }
            if so_far + members.len() >= walk.most_entries {
                return Err(Failure::condition(507, "number-of-matches-within-limits"));
            }
            members.push(Entry { path, key: member_key(&own_key, name), facts });
        }
        members.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(members)
    }

    /// Bytes that are free and in use on the file system of a collection (RFC 4331).
    pub fn quota(&self, path: &[u8]) -> Option<(u64, u64)> {
        let opened = self.root.open(path).ok()?;
        let found = fs::fstatvfs(&opened.descriptor).ok()?;
        let used = found.f_blocks.saturating_sub(found.f_bfree) * found.f_frsize;
        Some((found.f_bavail * found.f_frsize, used))
    }
}

/// The kernel's path of an open directory.
fn real_path(directory: &OwnedFd) -> Result<Vec<u8>> {
    let link = format!("/proc/self/fd/{}", directory.as_raw_fd());
    Ok(fs::readlinkat(CWD, link.as_str(), Vec::new())?.into_bytes())
}

/// Why a directory cannot contain the state of a tree; `None`: it can. No path of the tree may reach it.
pub fn is_in(directory: &Path, root: &Path) -> io::Result<bool> {
    let root = fs::stat(root)?;
    let mut path = std::path::absolute(directory)?;
    // A directory that does not exist yet is created later; its links are those of the part that exists.
    while !path.exists() {
        if !path.pop() {
            return Ok(false);
        }
    }
    let path = path.canonicalize()?;
    for ancestor in path.ancestors() {
        let found = fs::stat(Path::new(OsStr::from_bytes(ancestor.as_os_str().as_bytes())))?;
        if (found.st_dev, found.st_ino) == (root.st_dev, root.st_ino) {
            return Ok(true);
        }
    }
    Ok(false)
}
