//! Watches directories for changes (inotify), for a cache of files.
//!
//! A [`Watcher`] has one thread, which sleeps until the kernel reports an event and then calls one function
//! with a [`Change`]: the directory, and the name in it. The kind of the change is not reported, because a
//! cache handles all kinds in the same way: it drops everything that depends on that name, and reads it again
//! when it is requested.
//!
//! To miss no change, a cache takes these steps for every new entry: it notes its own count of changes so
//! far; it calls [`Watcher::watch`] for the directory and its parents up to the root (repeated calls change
//! nothing); it opens and reads the file; and it keeps the entry only if no change of these names was counted
//! meanwhile. If a directory is renamed or replaced, its name changes in its parent: the cache must drop
//! everything below it.
//!
//! inotify does not report writes through a shared memory mapping until the file is closed, writes through
//! another hard link or to the target of a symbolic link, and writes of other machines to a network file
//! system. `watch` refuses directories on network file systems; in the other cases the cache revalidates (see
//! `root::OpenedFile::watchable`).

use std::collections::{BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

/// A watched directory. A directory has the same id under every path while it is watched. No other directory
/// gets this id later.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct DirectoryId(i32);

/// A change in a watched directory.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Change {
    /// The directory.
    pub directory: DirectoryId,
    /// The name of the file or subdirectory that was written, created, deleted or renamed, or whose mode or
    /// times have changed. `None`: the directory itself was moved, deleted or unmounted, its mode has
    /// changed, or the kernel has lost events. Everything below it may have changed, and it may no longer be
    /// watched (call [`Watcher::watch`] again).
    pub name: Option<OsString>,
}

/// Why a directory is not watched. The caller must check the facts of its files instead.
#[derive(Debug)]
pub enum WatchRefused {
    /// The user's limit of watches is reached (`fs.inotify.max_user_watches`).
    LimitReached,
    /// There is no such directory.
    NotFound,
    /// The path is not that of a directory.
    NotADirectory,
    /// The server may not read it, though it may be able to search it.
    Forbidden,
    /// It is on a network, FUSE or kernel file system, where changes can occur without events.
    Unreliable,
    /// The watcher's thread has ended, after an error of the kernel or a panic in its function.
    Stopped,
    /// Another error.
    Other(io::Error),
}

/// Watches directories until it is dropped.
#[derive(Debug)]
pub struct Watcher {
    state: Arc<WatchState>,
    thread: Option<JoinHandle<()>>,
}

/// The state that the callers and the thread share.
#[derive(Debug)]
struct WatchState {
    inotify: OwnedFd,
    /// Becomes readable when the watcher is dropped.
    stop: OwnedFd,
    /// Locked during every addition and removal, so that it always agrees with the kernel.
    watched: Mutex<WatchedDirectories>,
}

#[derive(Debug, Default)]
struct WatchedDirectories {
    directories: BTreeSet<i32>,
    stopped: bool,
}

/// The end of the directory itself, and every change that affects answers from its files.
const EVENTS: WatchFlags = WatchFlags::CLOSE_WRITE
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR)
    // No events for files that are deleted but still written to.
    .union(WatchFlags::EXCL_UNLINK);

/// The buffer for some hundred events. Of the events of one read, each name is reported once.
const BUFFER_BYTES: usize = 32 * 1024;

impl Watcher {
    /// Starts the thread, which calls `on_change` for every change; for one batch of the kernel's reports,
    /// once for each name. `on_change` must not block for long. Otherwise the kernel's queue
    /// (`fs.inotify.max_queued_events`) overflows, and every directory is reported as changed.
    ///
    /// # Errors
    /// No inotify instance (`EMFILE`: `fs.inotify.max_user_instances`), descriptor or thread is available.
    pub fn start(on_change: impl Fn(Change) + Send + 'static) -> io::Result<Watcher> {
        let state = Arc::new(WatchState {
            inotify: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?,
            stop: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            watched: Mutex::default(),
        });
        let of_thread = Arc::clone(&state);
        let thread =
            thread::Builder::new().name("watcher".to_owned()).spawn(move || of_thread.run(&on_change))?;
        Ok(Watcher { state, thread: Some(thread) })
    }

    /// Watches `directory` without its subdirectories. Watching it again changes nothing and returns the same
    /// id. A symbolic link is followed.
    ///
    /// # Errors
    /// See [`WatchRefused`].
    pub fn watch(&self, directory: &Path) -> Result<DirectoryId, WatchRefused> {
        let mut watched = self.state.watched();
        if watched.stopped {
            return Err(WatchRefused::Stopped);
        }
        let descriptor = inotify::add_watch(&self.state.inotify, directory, EVENTS)?;
        if watched.directories.insert(descriptor) && !reports_all_changes(directory) {
            self.state.forget(&mut watched, descriptor);
            return Err(WatchRefused::Unreliable);
        }
        Ok(DirectoryId(descriptor))
    }

    /// Stops watching a directory, for a cache that has dropped its last entry there. Earlier changes may
    /// still be reported.
    pub fn unwatch(&self, directory: DirectoryId) {
        let mut watched = self.state.watched();
        if watched.directories.contains(&directory.0) {
            self.state.forget(&mut watched, directory.0);
        }
    }

    /// The number of watched directories.
    pub fn watched_directories(&self) -> usize {
        self.state.watched().directories.len()
    }

    /// Whether changes are still reported. Once `false`, it stays `false`, and the caller must not rely on
    /// earlier results.
    pub fn is_running(&self) -> bool {
        !self.state.watched().stopped
    }
}

impl Drop for Watcher {
    /// Ends the thread and waits for it. Afterwards `on_change` is not called any more. The caller must not
    /// hold a lock that `on_change` takes.
    fn drop(&mut self) {
        // This write to an eventfd fails only if its count is at the maximum, and then it is already
        // readable.
        let _ = rustix::io::write(&self.state.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // The panic hook has printed a panic in on_change, and is_running has reported it.
            let _ = thread.join();
        }
    }
}

impl WatchState {
    fn watched(&self) -> MutexGuard<'_, WatchedDirectories> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a watch. If its directory was deleted, the kernel has already removed it.
    fn forget(&self, watched: &mut WatchedDirectories, descriptor: i32) {
        watched.directories.remove(&descriptor);
        let _ = inotify::remove_watch(&self.inotify, descriptor);
    }

    /// The thread: waits, reads and reports, until it is stopped.
    fn run(&self, on_change: &impl Fn(Change)) {
        let _guard = StopGuard(self);
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
        while let Ok(true) = self.wait() {
            let mut batch = Batch::default();
            loop {
                match reader.next() {
                    Ok(event) => self.take(&event, &mut batch),
                    Err(Errno::AGAIN | Errno::INTR) => break,
                    Err(_) => return self.notify_all(on_change),
                }
                if reader.is_buffer_empty() {
                    break;
                }
            }
            batch.changes.into_iter().for_each(on_change);
        }
    }

    /// `true` when there are events to read, `false` when the watcher is dropped.
    fn wait(&self) -> Result<bool, Errno> {
        let mut descriptors = [
            PollFd::from_borrowed_fd(self.stop.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.inotify.as_fd(), PollFlags::IN),
        ];
        loop {
            match poll(&mut descriptors, None) {
                Ok(_) => return Ok(descriptors[0].revents().is_empty()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Turns one report of the kernel into changes.
    fn take(&self, event: &inotify::Event<'_>, batch: &mut Batch) {
        let events = event.events();
        let mut watched = self.watched();
        if events.contains(ReadFlags::QUEUE_OVERFLOW) {
            watched.directories.iter().for_each(|&descriptor| batch.add(descriptor, None));
            return;
        }
        // Reports that were queued before the watch was removed are ignored.
        if !watched.directories.contains(&event.wd()) {
            return;
        }
        match event.file_name() {
            Some(name) => batch.add(event.wd(), Some(OsStr::from_bytes(name.to_bytes()))),
            None => batch.add(event.wd(), None),
        }
        if events.contains(ReadFlags::MOVE_SELF) {
            // The directory now has a path that no caller has requested.
            self.forget(&mut watched, event.wd());
        } else if events.contains(ReadFlags::IGNORED) {
            watched.directories.remove(&event.wd());
        }
    }

    fn notify_all(&self, on_change: &impl Fn(Change)) {
        let descriptors: Vec<i32> = self.watched().directories.iter().copied().collect();
        for descriptor in descriptors {
            on_change(Change { directory: DirectoryId(descriptor), name: None });
        }
    }
}

/// Records that the thread has ended, even if it ends by a panic.
struct StopGuard<'state>(&'state WatchState);

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        let mut watched = self.0.watched();
        watched.stopped = true;
        watched.directories.clear();
    }
}

/// The changes of one read, each once, in the order of their first report. A file that is written in small
/// pieces causes an IN_MODIFY for each of them.
#[derive(Default)]
struct Batch {
    seen: HashSet<Change>,
    changes: Vec<Change>,
}

impl Batch {
    fn add(&mut self, descriptor: i32, name: Option<&OsStr>) {
        let change = Change { directory: DirectoryId(descriptor), name: name.map(OsStr::to_owned) };
        if self.seen.insert(change.clone()) {
            self.changes.push(change);
        }
    }
}

/// Whether this kernel reports every change below `directory`. The numbers are from statfs(2) and
/// linux/magic.h. If the call fails, this returns false.
fn reports_all_changes(directory: &Path) -> bool {
    const WITHOUT_EVENTS: [u32; 19] = [
        0x0000_517b, // SMB
        0x0000_564c, // NCP
        0x0000_6969, // NFS
        0x0000_9fa0, // proc
        0x00c3_6400, // Ceph
        0x0102_1997, // 9p
        0x0116_1970, // GFS2
        0x0bd0_0bd0, // Lustre
        0x1983_0326, // BeeGFS
        0x4750_4653, // GPFS
        0x5346_414f, // AFS
        0x6265_6572, // sysfs
        0x6573_5546, // FUSE, virtiofs
        0x6b41_4653, // kAFS
        0x7375_7245, // Coda
        0x7461_636f, // OCFS2
        0x786f_4256, // VirtualBox shared folder
        0xfe53_4d42, // SMB2
        0xff53_4d42, // CIFS
    ];
    #[allow(clippy::cast_possible_truncation, reason = "a magic number has 32 bits, whatever the C type")]
    let known = rustix::fs::statfs(directory).map(|facts| facts.f_type as u32);
    known.is_ok_and(|number| !WITHOUT_EVENTS.contains(&number))
}

impl From<Errno> for WatchRefused {
    fn from(error: Errno) -> WatchRefused {
        match error {
            Errno::NOSPC | Errno::NOMEM => WatchRefused::LimitReached,
            Errno::NOENT | Errno::NAMETOOLONG => WatchRefused::NotFound,
            Errno::NOTDIR => WatchRefused::NotADirectory,
            Errno::ACCESS | Errno::PERM | Errno::LOOP => WatchRefused::Forbidden,
            error => WatchRefused::Other(error.into()),
        }
    }
}

impl fmt::Display for WatchRefused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            WatchRefused::LimitReached => {
                "the limit of watches is reached; raise fs.inotify.max_user_watches"
            }
            WatchRefused::NotFound => "no such directory",
            WatchRefused::NotADirectory => "not a directory",
            WatchRefused::Forbidden => "no permission to read the directory",
            WatchRefused::Unreliable => "its file system does not report all changes",
            WatchRefused::Stopped => "watching has stopped after an error",
            WatchRefused::Other(error) => return error.fmt(formatter),
        })
    }
}

impl std::error::Error for WatchRefused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            WatchRefused::Other(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::io::Write as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;
    use tempfile::{TempDir, tempdir};

    /// A watcher whose changes arrive on a channel.
    struct Probe {
        watcher: Watcher,
        changes: Receiver<Change>,
        directory: TempDir,
        /// A second directory: a change made there marks the end of the reports before it.
        mark: TempDir,
        mark_id: DirectoryId,
    }

    impl Probe {
        fn new() -> Probe {
            let (sender, changes) = channel();
            let watcher = Watcher::start(move |change| drop(sender.send(change))).unwrap();
            let mark = tempdir().unwrap();
            let mark_id = watcher.watch(mark.path()).unwrap();
            Probe { watcher, changes, directory: tempdir().unwrap(), mark, mark_id }
        }

        fn path(&self) -> &Path {
            self.directory.path()
        }

        /// All changes that were reported up to now. The kernel keeps events in order, so the mark is last.
        fn drain(&self) -> Vec<Change> {
            let name = OsString::from("mark");
            File::create(self.mark.path().join(&name)).unwrap();
            let mut found = Vec::new();
            loop {
                let change =
                    self.changes.recv_timeout(Duration::from_secs(60)).expect("the mark is reported");
                if change.directory != self.mark_id {
                    found.push(change);
                } else if change.name.as_ref() == Some(&name) {
                    break;
                }
            }
            // The mark has caused two events. A separate batch for the second one would end the next drain
            // too early.
            fs::remove_file(self.mark.path().join(&name)).unwrap();
            File::create(self.mark.path().join("end")).unwrap();
            while self.changes.recv_timeout(Duration::from_secs(60)).expect("the end is reported").name
                != Some(OsString::from("end"))
            {}
            fs::remove_file(self.mark.path().join("end")).unwrap();
            found
        }

        /// The distinct names reported for `id` since the last drain.
        fn names(&self, id: DirectoryId) -> BTreeSet<Option<String>> {
            let of_id = self.drain().into_iter().filter(|change| change.directory == id);
            of_id.map(|change| change.name.map(|name| name.into_string().unwrap())).collect()
        }
    }

    fn named(names: &[&str]) -> BTreeSet<Option<String>> {
        names.iter().map(|&name| Some(name.to_owned())).collect()
    }

    #[test]
    fn every_kind_of_change_reports_its_name() {
        let probe = Probe::new();
        let file = probe.path().join("page");
        let id = probe.watcher.watch(probe.path()).unwrap();

        fs::write(&file, "one").unwrap();
        assert_eq!(probe.names(id), named(&["page"]), "create");
        File::options().append(true).open(&file).unwrap().write_all(b"two").unwrap();
        assert_eq!(probe.names(id), named(&["page"]), "append");
        let mut open = File::options().write(true).open(&file).unwrap();
        open.write_all(b"three").unwrap();
        assert_eq!(probe.names(id), named(&["page"]), "written, not yet closed");
        drop(open);
        assert_eq!(probe.names(id), named(&["page"]), "close");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(probe.names(id), named(&["page"]), "chmod");
        fs::rename(&file, probe.path().join("moved")).unwrap();
        assert_eq!(probe.names(id), named(&["moved", "page"]), "rename");
        fs::write(probe.path().join("next"), "").unwrap();
        probe.drain();
        fs::rename(probe.path().join("next"), probe.path().join("moved")).unwrap();
        assert_eq!(probe.names(id), named(&["moved", "next"]), "replace");
        fs::remove_file(probe.path().join("moved")).unwrap();
        assert_eq!(probe.names(id), named(&["moved"]), "delete");
        symlink("nowhere", probe.path().join("link")).unwrap();
        assert_eq!(probe.names(id), named(&["link"]), "symbolic link");
        fs::create_dir(probe.path().join("sub")).unwrap();
        assert_eq!(probe.names(id), named(&["sub"]), "subdirectory");
        File::open(probe.path().join("link").with_file_name("sub")).unwrap();
        fs::write(probe.path().join("sub/deep"), "").unwrap();
        assert_eq!(probe.names(id), named(&[]), "reading, and what happens deeper");
    }

    #[test]
    fn the_same_directory_has_one_id_under_every_path() {
        let probe = Probe::new();
        let link = probe.mark.path().join("link");
        symlink(probe.path(), &link).unwrap();
        let id = probe.watcher.watch(probe.path()).unwrap();
        assert_eq!(probe.watcher.watch(probe.path()).unwrap(), id);
        assert_eq!(probe.watcher.watch(&link).unwrap(), id);
        assert_ne!(id, probe.mark_id);
        assert_eq!(probe.watcher.watched_directories(), 2);
    }

    #[test]
    fn a_deleted_directory_is_reported_and_removed() {
        let probe = Probe::new();
        let sub = probe.path().join("sub");
        fs::create_dir(&sub).unwrap();
        let id = probe.watcher.watch(&sub).unwrap();
        fs::remove_dir(&sub).unwrap();
        assert_eq!(probe.names(id), [None].into());
        assert_eq!(probe.watcher.watched_directories(), 1);
        fs::create_dir(&sub).unwrap();
        let next = probe.watcher.watch(&sub).unwrap();
        assert_ne!(next, id, "an id is not used again");
        fs::write(sub.join("page"), "").unwrap();
        assert_eq!(probe.names(next), named(&["page"]));
    }

    #[test]
    fn a_moved_directory_is_reported_and_removed() {
        let probe = Probe::new();
        let (sub, away) = (probe.path().join("sub"), probe.path().join("away"));
        fs::create_dir(&sub).unwrap();
        let parent = probe.watcher.watch(probe.path()).unwrap();
        let id = probe.watcher.watch(&sub).unwrap();
        fs::rename(&sub, &away).unwrap();
        let changes = probe.drain();
        assert!(changes.contains(&Change { directory: id, name: None }));
        assert!(changes.contains(&Change { directory: parent, name: Some("sub".into()) }));
        assert!(changes.contains(&Change { directory: parent, name: Some("away".into()) }));
        fs::write(away.join("page"), "").unwrap();
        assert_eq!(probe.drain(), [], "no longer watched");
        assert_eq!(probe.watcher.watched_directories(), 2);
    }

    #[test]
    fn a_directory_that_loses_a_permission_is_reported_as_a_whole() {
        let probe = Probe::new();
        let id = probe.watcher.watch(probe.path()).unwrap();
        fs::set_permissions(probe.path(), fs::Permissions::from_mode(0o711)).unwrap();
        assert_eq!(probe.names(id), [None].into());
        fs::write(probe.path().join("page"), "").unwrap();
        assert_eq!(probe.names(id), named(&["page"]), "still watched");
    }

    #[test]
    fn unwatched_directories_are_silent() {
        let probe = Probe::new();
        let id = probe.watcher.watch(probe.path()).unwrap();
        probe.watcher.unwatch(id);
        probe.watcher.unwatch(id);
        fs::write(probe.path().join("page"), "").unwrap();
        assert_eq!(probe.drain(), []);
        let next = probe.watcher.watch(probe.path()).unwrap();
        fs::write(probe.path().join("page"), "").unwrap();
        assert_eq!(probe.names(next), named(&["page"]));
    }

    #[test]
    fn refusals_say_why() {
        let probe = Probe::new();
        let file = probe.path().join("file");
        fs::write(&file, "").unwrap();
        let refused = |path: &Path| probe.watcher.watch(path).unwrap_err();
        assert!(matches!(refused(&probe.path().join("none")), WatchRefused::NotFound));
        assert!(matches!(refused(&file), WatchRefused::NotADirectory));
        assert!(matches!(refused(Path::new("/proc")), WatchRefused::Unreliable));
        assert!(matches!(refused(Path::new("a\0b")), WatchRefused::Other(_)));
        assert!(matches!(WatchRefused::from(Errno::NOSPC), WatchRefused::LimitReached));
        assert_eq!(probe.watcher.watched_directories(), 1);
    }

    #[test]
    fn one_batch_reports_each_name_once() {
        let mut batch = Batch::default();
        for name in ["a", "b", "a", "a"] {
            batch.add(1, Some(OsStr::new(name)));
        }
        batch.add(2, Some(OsStr::new("a")));
        batch.add(1, None);
        batch.add(1, None);
        let changes: Vec<_> =
            batch.changes.into_iter().map(|change| (change.directory.0, change.name)).collect();
        let expected = [(1, Some("a".into())), (1, Some("b".into())), (2, Some("a".into())), (1, None)];
        assert_eq!(changes, expected);
    }

    /// While the thread is blocked, more events occur than the kernel queues (fs.inotify.max_queued_events).
    /// All directories must be reported as changed, because the lost events are unknown.
    #[test]
    fn a_lost_event_is_reported_for_every_directory() {
        let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        let limit: usize = limit.trim().parse().unwrap();
        let (change_sender, changes) = channel();
        let (go, held) = channel::<()>();
        let watcher = Watcher::start(move |change| {
            // The first change waits until the events were made. Later ones find that the sender was dropped.
            drop(change_sender.send(change));
            let _ = held.recv();
        })
        .unwrap();
        let (noisy, quiet) = (tempdir().unwrap(), tempdir().unwrap());
        let noisy_id = watcher.watch(noisy.path()).unwrap();
        let quiet_id = watcher.watch(quiet.path()).unwrap();
        fs::write(noisy.path().join("first"), "").unwrap();
        changes.recv().unwrap();
        // The kernel merges successive equal events, so the names alternate.
        let (one, two) = (noisy.path().join("one"), noisy.path().join("two"));
        fs::write(&one, "").unwrap();
        for _ in 0..limit.div_ceil(2) + 16 {
            fs::rename(&one, &two).unwrap();
            fs::rename(&two, &one).unwrap();
        }
        drop(go);
        let mut waiting: BTreeSet<DirectoryId> = [noisy_id, quiet_id].into();
        while !waiting.is_empty() {
            let change = changes.recv_timeout(Duration::from_secs(60)).expect("the overflow is reported");
            if change.name.is_none() {
                waiting.remove(&change.directory);
            }
        }
        assert!(watcher.is_running());
    }

    #[test]
    fn nothing_is_reported_after_the_drop() {
        let (sender, changes) = channel();
        let watcher = Watcher::start(move |change| drop(sender.send(change))).unwrap();
        let directory = tempdir().unwrap();
        watcher.watch(directory.path()).unwrap();
        drop(watcher);
        // The function was dropped with its thread, so the channel is closed.
        fs::write(directory.path().join("page"), "").unwrap();
        while changes.try_recv().is_ok() {}
        assert_eq!(changes.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected));
    }

    #[test]
    fn a_panic_in_the_function_is_noticed() {
        let (sender, ended) = channel::<()>();
        let watcher = Watcher::start(move |_| {
            let _held_until_the_panic = &sender;
            panic!("on purpose");
        })
        .unwrap();
        let directory = tempdir().unwrap();
        watcher.watch(directory.path()).unwrap();
        assert!(watcher.is_running());
        fs::write(directory.path().join("page"), "").unwrap();
        assert!(ended.recv().is_err(), "the thread dropped the function, the last thing it does");
        assert!(!watcher.is_running());
        assert!(matches!(watcher.watch(directory.path()), Err(WatchRefused::Stopped)));
    }
}
