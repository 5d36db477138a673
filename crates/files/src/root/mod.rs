//! Safe opening of files below a document root.
//!
//! The path of a request is normalised, but the file system may still hold symbolic links, fifos and devices,
//! and files may be renamed at the same time. [`Root`] is the only type that opens such a path:
//!
//! * Under [`SymlinkPolicy::Inside`] the kernel keeps the lookup below the root (`openat2` with
//!   `RESOLVE_BENEATH`). Links that it cannot decide about (an absolute one, or one that leaves the root and
//!   is returned) are followed to a pinned inode, whose real path is then compared with the root's. Both ways
//!   check the same inode that is opened afterwards, so an attacker cannot replace a directory by a link in
//!   between.
//! * A file is first opened with `O_PATH`, which has no side effects. It is opened for reading only if it is
//!   a regular file. Opening a fifo would release its writer, and opening a tape would rewind it.
//! * If the root is itself a symbolic link, a deployment may change that link. Therefore the configured path
//!   is kept, and [`Root::refresh`], which is called once a second, follows it to its new directory.
//!
//! A root that knows the [`OwnFiles`] of the server gives none of them out.
//!
//! The memory cache calls [`Root::open`] when it makes an entry, [`Root::facts`] to check once a second
//! whether the entry is still valid, and [`read_whole`] for the bytes. A cache hit needs none of these.
//!
//! `/proc` must be mounted, because a pinned inode can only be opened for reading through it. [`Root::new`]
//! returns an error if it is not mounted.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustix::fs::{self, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, ReadWriteFlags};

use crate::own_files::{OwnFiles, identity};

/// Which symbolic links below a root may be followed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum SymlinkPolicy {
    /// Only links whose target is inside the root, in whatever form they are written. Others are
    /// [`OpenError::Forbidden`].
    #[default]
    Inside,
    /// All links. A user who may write below the root can then publish every file that the server can read.
    Anywhere,
}

/// The kind of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FileKind {
    /// A file with bytes.
    Regular,
    /// A directory.
    Directory,
}

/// The facts of the file system about a file. They distinguish one version of it from the next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileFacts {
    /// Regular file or directory.
    pub kind: FileKind,
    /// Length in bytes.
    pub size: u64,
    /// Time of the last change of the content, whole seconds since 1970 (may be negative).
    pub modified_seconds: i64,
    /// The rest of that time, 0 to 999,999,999.
    pub modified_nanoseconds: u32,
    /// Time of the last change of content, mode, owner or links, whole seconds. A program cannot set it back,
    /// so it shows an edit whose modification time was restored, and a `chmod`.
    pub changed_seconds: i64,
    /// The rest of that time, 0 to 999,999,999.
    pub changed_nanoseconds: u32,
    /// Inode number.
    pub inode: u64,
    /// Device that holds the inode.
    pub device: u64,
    /// Permissions, as `chmod` takes them in octal digits.
    pub permissions: u32,
    /// The number of the user that owns it.
    pub owner: u32,
    /// The number of names of this inode. If there are several, an edit through another name causes no
    /// inotify event in the directory of this one.
    pub hard_links: u64,
}

/// A strong entity tag (RFC 9110 section 8.8.3) in its quotes, at most [`StrongEntityTag::LONGEST`] bytes, on
/// the stack.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct StrongEntityTag {
    bytes: [u8; StrongEntityTag::LONGEST],
    length: u8,
}

/// A file or directory that may be served.
#[derive(Debug)]
pub struct OpenedFile {
    /// A regular file: open for reading (`O_RDONLY|O_NONBLOCK`), at offset 0. A directory: an `O_PATH`
    /// descriptor, so that the files of a directory that may be searched but not listed are still served. To
    /// list it, open `"."` below it.
    pub descriptor: OwnedFd,
    /// The facts of the same inode just before it was opened for reading.
    pub facts: FileFacts,
    /// Whether a symbolic link was followed below the root.
    pub followed_links: bool,
}

/// Why a path is not served.
#[derive(Debug)]
pub enum OpenError {
    /// There is no such file, no file can have this name, or a slash follows the name of a regular file.
    NotFound,
    /// Permission was denied, a link leaves the root, or links form a loop.
    Forbidden,
    /// Neither a regular file nor a directory: a fifo, a socket, a device.
    NotAFile,
    /// The process or the machine has no free descriptor: try again later.
    TooManyOpenFiles,
    /// Another error, such as that of a failing disk.
    Other(io::Error),
}

/// A document root. Shared between threads; all methods take `&self`.
#[derive(Debug)]
pub struct Root {
    /// Absolute. Its links are not resolved, because it may lead to another directory later.
    path: PathBuf,
    /// The prefix of request paths for this directory. It begins and ends with a slash.
    mount: Box<[u8]>,
    policy: SymlinkPolicy,
    /// The kernel has openat2 (Linux 5.6), and no seccomp filter forbids it, as in old container runtimes.
    openat2_works: bool,
    /// `None`: there are no files.
    directory: RwLock<Option<Arc<Directory>>>,
    /// Files of the server itself, which are not found.
    own_files: Option<Arc<OwnFiles>>,
}

/// The files of the server itself among the entries of a directory.
pub struct OwnEntries<'d> {
    root: &'d Root,
    directory: &'d OwnedFd,
    /// The real path of the directory, read once for all entries; `None`: the kernel does not tell it.
    path: OnceCell<Option<Vec<u8>>>,
}

impl OwnEntries<'_> {
    /// Whether an entry, which is not a symbolic link, is one of them.
    pub fn contains(&self, name: &[u8], facts: &FileFacts) -> bool {
        let Some(own) = &self.root.own_files else { return false };
        let path = || match self.path.get_or_init(|| real_path(self.directory).ok()) {
            Some(directory) => Ok(join(directory.clone(), name)),
            None => Err(io::Error::other("the directory has no path")),
        };
        self.root.is_own(own, name, facts, path)
    }
}

/// The directory to which the configured path led at the last check. The descriptor pins the inode, so no
/// other directory can get its number while it is compared.
#[derive(Debug)]
struct Directory {
    descriptor: OwnedFd,
    inode: u64,
    device: u64,
}

impl Root {
    /// Opens the document root. A relative path is resolved against the current directory now.
    ///
    /// # Errors
    /// The operating system's error for `path` (missing, not a directory, no permission), or `/proc` is not
    /// mounted. The path itself is not part of the message.
    pub fn new(path: impl AsRef<Path>, policy: SymlinkPolicy) -> io::Result<Root> {
        let path = std::path::absolute(path)?;
        let directory = Directory::open(&path)?;
        real_path(&directory.descriptor)?;
        // The directory is already open, so only openat2 itself can fail here: ENOSYS from an old kernel,
        // EPERM from a seccomp filter.
        let openat2_works =
            fs::openat2(&directory.descriptor, ".", PIN, Mode::empty(), ResolveFlags::BENEATH).is_ok();
        let directory = RwLock::new(Some(Arc::new(directory)));
        let mount = b"/".as_slice().into();
        Ok(Root { path, mount, policy, openat2_works, directory, own_files: None })
    }

    /// A root without files: every path is [`OpenError::NotFound`]. Nothing is below its
    /// [`path`](Root::path), which is not a directory.
    pub fn without_files() -> Root {
        Root {
            path: PathBuf::from("/dev/null"),
            mount: b"/".as_slice().into(),
            policy: SymlinkPolicy::Inside,
            openat2_works: false,
            directory: RwLock::new(None),
            own_files: None,
        }
    }

    /// Uses the directory only for the paths below `mount`: with `/downloads/`, the path `/downloads/a.zip`
    /// is the file `a.zip` of the directory, and paths outside `/downloads/` are [`OpenError::NotFound`].
    /// `mount` begins and ends with a slash.
    #[must_use]
    pub fn mounted_at(self, mount: &[u8]) -> Root {
        Root { mount: mount.into(), ..self }
    }

    /// The same without these files: they are [`OpenError::NotFound`], by whatever name.
    #[must_use]
    pub fn without(self, own_files: Arc<OwnFiles>) -> Root {
        Root { own_files: Some(own_files), ..self }
    }

    /// Tells which entries of an open directory are files of the server itself.
    pub fn own_entries<'d>(&'d self, directory: &'d OwnedFd) -> OwnEntries<'d> {
        OwnEntries { root: self, directory, path: OnceCell::new() }
    }

    /// Whether a name in an open directory is the place of a file of the server itself, which may be missing.
    pub fn is_own_place(&self, directory: &OwnedFd, name: &[u8]) -> bool {
        let Some(own) = &self.own_files else { return false };
        fs::fstat(directory).is_ok_and(|directory| own.has_place(&directory, name))
    }

    /// Whether files of the server itself are below a directory with this real path.
    pub fn has_own_below(&self, real_path: &[u8]) -> bool {
        self.own_files.as_deref().is_some_and(|own| own.any_below(real_path))
    }

    /// A root in a directory of the server is served: the operator has configured both.
    fn is_own(
        &self,
        own: &OwnFiles,
        name: &[u8],
        facts: &FileFacts,
        path: impl FnOnce() -> io::Result<Vec<u8>>,
    ) -> bool {
        let file = (facts.kind == FileKind::Regular).then_some((facts.inode, facts.device));
        own.contains(name, file, path, || {
            let directory = self.directory().map_err(io::Error::other)?;
            real_path(&directory.descriptor)
        })
    }

    /// The place in the file system for the file of a request path.
    pub fn place_of(&self, path: &[u8]) -> PathBuf {
        let name = path.strip_prefix(&*self.mount).unwrap_or_default();
        self.path.join(Path::new(OsStr::from_bytes(name)))
    }

    /// The request path of a file with this absolute path, if it is below the directory.
    pub fn path_of(&self, place: &[u8]) -> Option<Vec<u8>> {
        let name = place.strip_prefix(self.path.as_os_str().as_bytes())?.strip_prefix(b"/")?;
        Some([&self.mount, name].concat())
    }

    /// The configured absolute path of this root, with its own links unresolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The policy this root was made with.
    pub fn policy(&self) -> SymlinkPolicy {
        self.policy
    }

    /// Follows the configured path again; call it about once a second. `true`: the path leads to another
    /// directory than before, which is now the root, and all information about the old one is invalid.
    ///
    /// # Errors
    /// The path does not exist at the moment, for example during a deployment that removes one link before it
    /// creates the next. The old directory stays the root.
    pub fn refresh(&self) -> io::Result<bool> {
        let Ok(directory) = self.directory() else { return Ok(false) };
        let found = fs::stat(&self.path)?;
        if directory.is(&found) {
            return Ok(false);
        }
        let directory = Directory::open(&self.path)?;
        let mut current = self.directory.write().unwrap_or_else(PoisonError::into_inner);
        let identity = |directory: &Directory| (directory.inode, directory.device);
        let changed = current.as_deref().map(identity) != Some(identity(&directory));
        if changed {
            *current = Some(Arc::new(directory));
        }
        Ok(changed)
    }

    /// Opens `path`, which is absolute and normalised (`/a/b.html`, `/a/`, `/`): one leading slash, percent
    /// escapes decoded, no dot segments.
    ///
    /// # Errors
    /// See [`OpenError`]. A path with `..` is forbidden under every policy.
    pub fn open(&self, path: &[u8]) -> Result<OpenedFile, OpenError> {
        let name = self.name_of(path)?;
        let directory = self.directory()?;
        let (pinned, followed_links) = self.pin_noting_links(&directory, name)?;
        let facts = self.facts_of_pinned(&pinned, name)?;
        let descriptor = match facts.kind {
            FileKind::Directory => pinned,
            FileKind::Regular => open_pinned(&pinned)?,
        };
        Ok(OpenedFile { descriptor, facts, followed_links })
    }

    /// The facts of the file that [`Root::open`] would open at `path`, after the same checks except for the
    /// permission to read. Makes three system calls.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn facts(&self, path: &[u8]) -> Result<FileFacts, OpenError> {
        let name = self.name_of(path)?;
        self.facts_of_pinned(&self.pin(&*self.directory()?, name)?, name)
    }

    /// The facts of a pinned file; one of the server itself is not found.
    fn facts_of_pinned(&self, pinned: &OwnedFd, name: &[u8]) -> Result<FileFacts, OpenError> {
        let facts = FileFacts::of(pinned)?;
        match &self.own_files {
            Some(own) if self.is_own(own, name, &facts, || real_path(pinned)) => Err(OpenError::NotFound),
            _ => Ok(facts),
        }
    }

    /// The name below the directory.
    fn name_of<'p>(&self, path: &'p [u8]) -> Result<&'p [u8], OpenError> {
        below_root(path.strip_prefix(&*self.mount).ok_or(OpenError::NotFound)?)
    }

    fn directory(&self) -> Result<Arc<Directory>, OpenError> {
        let directory = self.directory.read().unwrap_or_else(PoisonError::into_inner);
        directory.as_ref().map(Arc::clone).ok_or(OpenError::NotFound)
    }

    /// Pins `name` according to the policy, and returns whether links were followed.
    fn pin_noting_links(&self, root: &Directory, name: &[u8]) -> Result<(OwnedFd, bool), OpenError> {
        if !self.openat2_works {
            let pinned = self.pin(root, name)?;
            let straight = join(real_path(&root.descriptor)?, name);
            let followed_links = real_path(&pinned)? != straight;
            return Ok((pinned, followed_links));
        }
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match fs::openat2(&root.descriptor, name, PIN, Mode::empty(), resolve) {
            Ok(pinned) => Ok((pinned, false)),
            Err(Errno::LOOP | Errno::AGAIN | Errno::XDEV) => Ok((self.pin(root, name)?, true)),
            Err(error) => Err(error.into()),
        }
    }

    /// Pins `name` according to the policy, with an `O_PATH` descriptor.
    fn pin(&self, root: &Directory, name: &[u8]) -> Result<OwnedFd, OpenError> {
        match self.policy {
            SymlinkPolicy::Anywhere => Ok(fs::openat(&root.descriptor, name, PIN, Mode::empty())?),
            SymlinkPolicy::Inside if self.openat2_works => pin_beneath(root, name),
            SymlinkPolicy::Inside => pin_by_real_path(root, name),
        }
    }
}

/// Pins an inode without opening it: this needs no permission to read, and does not affect fifos and devices.
const PIN: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Lets the kernel keep the lookup below the root.
fn pin_beneath(root: &Directory, name: &[u8]) -> Result<OwnedFd, OpenError> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    // EAGAIN: during the lookup of a ".." inside a link a file was renamed somewhere on the machine, so that
    // the kernel could not decide.
    for _ in 0..4 {
        match fs::openat2(&root.descriptor, name, PIN, Mode::empty(), resolve) {
            Ok(pinned) => return Ok(pinned),
            Err(Errno::AGAIN) => {}
            Err(Errno::XDEV) => break,
            Err(error) => return Err(error.into()),
        }
    }
    pin_by_real_path(root, name)
}

/// Follows all links to an inode, then requests the path of that inode from the kernel. Only the pinned inode
/// is used afterwards, so later changes of the names do not matter.
fn pin_by_real_path(root: &Directory, name: &[u8]) -> Result<OwnedFd, OpenError> {
    let pinned = fs::openat(&root.descriptor, name, PIN, Mode::empty())?;
    if lies_inside(&real_path(&pinned)?, &real_path(&root.descriptor)?) {
        Ok(pinned)
    } else {
        Err(OpenError::Forbidden)
    }
}

/// Whether the real path `path` is `root` or below it. Targets without a place in the file system
/// ("pipe:[7]", "(unreachable)/a") do not begin with a slash and are never below it.
fn lies_inside(path: &[u8], root: &[u8]) -> bool {
    let root = root.strip_suffix(b"/").unwrap_or(root);
    match path.strip_prefix(root) {
        Some(rest) => rest.first() == Some(&b'/') || (rest.is_empty() && !path.is_empty()),
        None => false,
    }
}

/// Opens a pinned regular file for reading. With `O_NONBLOCK` this does not wait for a lease of a file server
/// (Samba). The flag does not change reads of regular files.
fn open_pinned(pinned: &OwnedFd) -> Result<OwnedFd, OpenError> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    fs::openat(CWD, proc_link(pinned).as_str(), flags, Mode::empty()).map_err(|error| match error {
        // The inode is pinned, so the link in /proc is missing.
        Errno::NOENT | Errno::NOTDIR => OpenError::Other(proc_is_missing()),
        error => error.into(),
    })
}

/// The kernel's path for the inode of a descriptor.
fn real_path(descriptor: &OwnedFd) -> io::Result<Vec<u8>> {
    match fs::readlinkat(CWD, proc_link(descriptor).as_str(), Vec::new()) {
        Ok(path) => Ok(path.into_bytes()),
        Err(Errno::NOENT | Errno::NOTDIR) => Err(proc_is_missing()),
        Err(error) => Err(error.into()),
    }
}

fn proc_link(descriptor: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}

fn proc_is_missing() -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        "/proc is not mounted here; mount it (mount -t proc proc /proc)",
    )
}

/// The path relative to the root descriptor.
fn below_root(path: &[u8]) -> Result<&[u8], OpenError> {
    if path.contains(&0) {
        return Err(OpenError::NotFound);
    }
    let start = path.iter().position(|&byte| byte != b'/').unwrap_or(path.len());
    let name = &path[start..];
    if name.split(|&byte| byte == b'/').any(|segment| segment == b"..") {
        return Err(OpenError::Forbidden);
    }
    Ok(if name.is_empty() { b"." } else { name })
}

/// The path of `name` below `root` if no link is followed.
fn join(mut root: Vec<u8>, name: &[u8]) -> Vec<u8> {
    let name = name.strip_suffix(b"/").unwrap_or(name);
    if name != b"." {
        if root.last() != Some(&b'/') {
            root.push(b'/');
        }
        root.extend_from_slice(name);
    }
    root
}

impl Directory {
    fn open(path: &Path) -> io::Result<Directory> {
        let descriptor = fs::open(path, PIN | OFlags::DIRECTORY, Mode::empty())?;
        let facts = fs::fstat(&descriptor)?;
        let (inode, device) = identity(&facts);
        Ok(Directory { descriptor, inode, device })
    }

    fn is(&self, found: &fs::Stat) -> bool {
        (self.inode, self.device) == identity(found)
    }
}

impl OpenedFile {
    /// Whether every change of this file's content causes an event in the directory of its path. If not (a
    /// link was followed, or the file has other names), a cached copy must be revalidated with
    /// [`Root::facts`].
    pub fn watchable(&self) -> bool {
        !self.followed_links && (self.facts.kind == FileKind::Directory || self.facts.hard_links == 1)
    }
}

impl FileFacts {
    /// The facts of an open file. A cache calls this again after it has read the bytes, to find an edit in
    /// between.
    ///
    /// # Errors
    /// [`OpenError::NotAFile`], or the error of `fstat`.
    pub fn of(descriptor: impl AsFd) -> Result<FileFacts, OpenError> {
        FileFacts::from_stat(&fs::fstat(descriptor)?)
    }

    /// Takes the facts from the result of `fstat`.
    ///
    /// # Errors
    /// [`OpenError::NotAFile`].
    #[allow(clippy::unnecessary_cast, reason = "the C types differ between architectures")]
    pub fn from_stat(stat: &fs::Stat) -> Result<FileFacts, OpenError> {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => FileKind::Regular,
            FileType::Directory => FileKind::Directory,
            _ => return Err(OpenError::NotAFile),
        };
        let (inode, device) = identity(stat);
        Ok(FileFacts {
            kind,
            size: stat.st_size as u64,
            modified_seconds: stat.st_mtime as i64,
            modified_nanoseconds: stat.st_mtime_nsec as u32,
            changed_seconds: stat.st_ctime as i64,
            changed_nanoseconds: stat.st_ctime_nsec as u32,
            inode,
            device,
            permissions: stat.st_mode as u32 & 0o7777,
            owner: stat.st_uid,
            hard_links: stat.st_nlink as u64,
        })
    }

    /// A strong entity tag from modification time, size and inode, so that a touched, grown or replaced file
    /// gets another one. Its resolution is that of the file system's clock: two edits of equal length within
    /// one tick (up to 10 ms before Linux 6.13) have the same tag.
    pub fn etag(&self) -> StrongEntityTag {
        let mut tag = StrongEntityTag { bytes: [0; StrongEntityTag::LONGEST], length: 0 };
        let written = write!(
            tag,
            "\"{:x}{:08x}-{:x}-{:x}\"",
            self.modified_seconds, self.modified_nanoseconds, self.size, self.inode
        );
        debug_assert!(written.is_ok(), "LONGEST holds the longest tag");
        tag
    }

    /// Whether `other` describes the same version of the same file: in between it was not written, replaced
    /// or closed to readers. The number of names may differ.
    pub fn same_version(&self, other: &FileFacts) -> bool {
        FileFacts { hard_links: 0, ..*self } == FileFacts { hard_links: 0, ..*other }
    }

    /// Whether a file that was open with these facts, and has the facts `now`, still has the same content: it
    /// is the same version, or only lost a name. A file that another one replaces loses its name; this
    /// changes its ctime, but an open descriptor still reads the whole old version.
    pub fn same_content(&self, now: &FileFacts) -> bool {
        let lost_a_name = now.hard_links < self.hard_links;
        let only_names_changed = FileFacts {
            changed_seconds: self.changed_seconds,
            changed_nanoseconds: self.changed_nanoseconds,
            ..*now
        }
        .same_version(self);
        self.same_version(now) || (lost_a_name && only_names_changed)
    }
}

impl StrongEntityTag {
    /// Two quotes, two hyphens, 16 + 8 digits of time, 16 of size, 16 of inode.
    pub const LONGEST: usize = 2 + 2 + 16 + 8 + 16 + 16;

    /// The tag with its quotes, as in the ETag field.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl fmt::Write for StrongEntityTag {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let start = usize::from(self.length);
        let end = start + text.len();
        self.bytes.get_mut(start..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = u8::try_from(end).map_err(|_| fmt::Error)?;
        Ok(())
    }
}

impl AsRef<[u8]> for StrongEntityTag {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Display for StrongEntityTag {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|&byte| formatter.write_char(char::from(byte)))
    }
}

impl fmt::Debug for StrongEntityTag {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl From<Errno> for OpenError {
    fn from(error: Errno) -> OpenError {
        match error {
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG => OpenError::NotFound,
            Errno::ACCESS | Errno::PERM | Errno::LOOP | Errno::XDEV => OpenError::Forbidden,
            // The errors for opening a socket, or a device without a driver.
            Errno::NXIO | Errno::NODEV => OpenError::NotAFile,
            Errno::MFILE | Errno::NFILE => OpenError::TooManyOpenFiles,
            error => OpenError::Other(error.into()),
        }
    }
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> OpenError {
        match Errno::from_io_error(&error) {
            Some(errno) => errno.into(),
            None => OpenError::Other(error),
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::NotFound => formatter.write_str("no such file"),
            OpenError::Forbidden => {
                formatter.write_str("permission denied, or a link that leaves the root or loops")
            }
            OpenError::NotAFile => formatter.write_str("neither a regular file nor a directory"),
            OpenError::TooManyOpenFiles => formatter
                .write_str("too many open files; raise the limit (ulimit -n) or lower the connections"),
            OpenError::Other(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::Other(error) => Some(error),
            _ => None,
        }
    }
}

/// The result of reading a file of known size.
#[derive(Debug, Eq, PartialEq)]
pub enum ReadWhole {
    /// The whole file: exactly the expected number of bytes, and then the end.
    Complete(Vec<u8>),
    /// A part of it is not in the page cache: call [`read_whole_blocking`] on a thread that may wait for the
    /// disk.
    WouldBlock,
    /// The file is shorter or longer than expected: take its facts again.
    SizeChanged,
}

/// Reads a file of `size` bytes from its beginning without waiting for the disk. If the file system does not
/// support this (`EOPNOTSUPP`: some overlay, network and FUSE file systems), it makes a normal read, which
/// may wait.
///
/// # Errors
/// The operating system's error, or [`io::ErrorKind::OutOfMemory`]. The caller must limit `size`.
pub fn read_whole(descriptor: impl AsFd, size: u64) -> io::Result<ReadWhole> {
    match read_with(descriptor.as_fd(), size, ReadWriteFlags::NOWAIT) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => read_whole_blocking(descriptor, size),
        Err(Errno::AGAIN) => Ok(ReadWhole::WouldBlock),
        result => Ok(result?),
    }
}

/// Reads a file of `size` bytes from its beginning, waiting for the disk as needed; never
/// [`ReadWhole::WouldBlock`].
///
/// # Errors
/// As [`read_whole`].
pub fn read_whole_blocking(descriptor: impl AsFd, size: u64) -> io::Result<ReadWhole> {
    Ok(read_with(descriptor.as_fd(), size, ReadWriteFlags::empty())?)
}

/// Reads one byte more than expected, so that a file that grew is noticed.
fn read_with(descriptor: impl AsFd, size: u64, flags: ReadWriteFlags) -> Result<ReadWhole, Errno> {
    let size = usize::try_from(size).map_err(|_| Errno::NOMEM)?;
    let room = size.checked_add(1).ok_or(Errno::NOMEM)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(room).map_err(|_| Errno::NOMEM)?;
    bytes.resize(room, 0);
    let mut filled = 0;
    while filled < room {
        let mut rest = [IoSliceMut::new(&mut bytes[filled..])];
        match read_at(&descriptor, &mut rest, filled as u64, flags) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    if filled != size {
        return Ok(ReadWhole::SizeChanged);
    }
    bytes.truncate(size);
    Ok(ReadWhole::Complete(bytes))
}

/// Calls `preadv` if no flag is needed, because some sandboxes support only that call.
fn read_at(
    descriptor: impl AsFd,
    rest: &mut [IoSliceMut<'_>],
    offset: u64,
    flags: ReadWriteFlags,
) -> Result<usize, Errno> {
    if flags.is_empty() {
        rustix::io::preadv(descriptor, rest, offset)
    } else {
        rustix::io::preadv2(descriptor, rest, offset, flags)
    }
}

#[cfg(test)]
mod tests;
