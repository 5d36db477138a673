//! A file of users and their stored passwords, in the format of Apache's `htpasswd`: one `name:password` a
//! line; empty lines and lines that begin with `#` are skipped.
//!
//! The file may change while the server runs. It is checked at most once a second, and read again on a thread
//! that may wait. A line that cannot be used excludes only its user, and is reported. A file that cannot be
//! read leaves the users unchanged, and is reported.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use super::password_hash::StoredPassword;

/// The maximum size of a file; it has room for some hundred thousand users.
const LARGEST_FILE_BYTES: u64 = 64 << 20;

/// The maximum length of a user name in bytes.
pub const LONGEST_NAME_BYTES: usize = 255;

/// The minimum time between two checks of the file.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A file changed within this time before it was read may be changed again afterwards, with the same size and
/// within the same tick of the file system's clock.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// The users of a file at one time.
#[derive(Debug, Default)]
pub struct Users {
    by_name: HashMap<Box<[u8]>, Arc<StoredUser>>,
    /// Verified in place of a user that does not exist, so that the response time does not reveal this.
    stand_in: Option<Arc<StoredUser>>,
}

/// One user.
#[derive(Debug)]
pub struct StoredUser {
    /// The name.
    pub name: Arc<[u8]>,
    /// The stored password.
    pub password: StoredPassword,
}

impl Users {
    /// The user of this name.
    pub fn get(&self, name: &[u8]) -> Option<&Arc<StoredUser>> {
        self.by_name.get(name)
    }

    /// The user to verify if no user has the name; `None` if there are no users.
    pub fn stand_in(&self) -> Option<&Arc<StoredUser>> {
        self.stand_in.as_ref()
    }
}

/// Parses the text of a file. Returns the users, and the problems of the lines that were skipped.
pub fn parse(text: &[u8]) -> (Users, Vec<String>) {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut users = Users::default();
    let mut problems = Vec::new();
    let mut refused = Vec::new();
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        match parse_line(line) {
            Ok(user) => match users.by_name.entry(user.name.as_ref().into()) {
                Entry::Vacant(free) => _ = free.insert(Arc::new(user)),
                Entry::Occupied(_) => {
                    // It is unclear which of the two lines is valid.
                    let shown = user.name.escape_ascii();
                    problems.push(format!("line {number}: user \"{shown}\" is listed twice"));
                    refused.push(user.name);
                }
            },
            Err(problem) => problems.push(format!("line {number}: {problem}")),
        }
    }
    for name in refused {
        users.by_name.remove(name.as_ref());
    }
    // Any user would do, but the choice must not depend on the map's order.
    users.stand_in = users.by_name.values().max_by_key(|user| user.password.as_str()).cloned();
    (users, problems)
}

fn parse_line(line: &[u8]) -> Result<StoredUser, String> {
    let Some(colon) = line.iter().position(|byte| *byte == b':') else {
        return Err("there is no ':' between a name and a password".to_string());
    };
    let (name, behind) = (&line[..colon], &line[colon + 1..]);
    if name.is_empty() || name.len() > LONGEST_NAME_BYTES || name.iter().any(u8::is_ascii_control) {
        return Err(format!(
            "the name must have 1 to {LONGEST_NAME_BYTES} bytes, none of them a control character"
        ));
    }
    // Some programs keep more fields after another colon.
    let stored = behind.split(|byte| *byte == b':').next().unwrap_or_default();
    let stored = std::str::from_utf8(stored).map_err(|_| "has a password that is not a hash".to_string());
    let password = stored.and_then(StoredPassword::parse);
    let password = password.map_err(|problem| format!("user \"{}\" {problem}", name.escape_ascii()))?;
    Ok(StoredUser { name: name.into(), password })
}

/// A password file that follows changes of the file.
pub struct PasswordFile {
    path: PathBuf,
    users: RwLock<Arc<Users>>,
    /// The version of the file that was read; locked while it is read again.
    read: Mutex<FileVersion>,
    next_check_ns: AtomicU64,
    /// The file has changed since it was read, or may have.
    changed: AtomicBool,
}

/// What distinguishes one version of a file from the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileVersion {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    status_changed: (i64, i64),
    /// The file was old enough when it was read that a later change must look different.
    settled: bool,
}

impl FileVersion {
    fn of(metadata: &Metadata) -> FileVersion {
        let age =
            metadata.modified().ok().and_then(|modified| SystemTime::now().duration_since(modified).ok());
        FileVersion {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            status_changed: (metadata.ctime(), metadata.ctime_nsec()),
            settled: age.is_some_and(|age| age > SETTLED_AFTER),
        }
    }

    fn is_still(&self, metadata: &Metadata) -> bool {
        self.settled && FileVersion { settled: true, ..FileVersion::of(metadata) } == *self
    }
}

impl PasswordFile {
    /// Reads a file. The error lists every problem, each with the file's name.
    pub fn open(path: &Path) -> Result<PasswordFile, Vec<String>> {
        let (version, text) = read(path).map_err(|problem| vec![about(path, &problem)])?;
        let (users, problems) = parse(&text);
        if !problems.is_empty() {
            return Err(problems.iter().map(|problem| about(path, problem)).collect());
        }
        Ok(PasswordFile {
            path: path.to_path_buf(),
            users: RwLock::new(Arc::new(users)),
            read: Mutex::new(version),
            next_check_ns: AtomicU64::new(0),
            changed: AtomicBool::new(false),
        })
    }

    /// The users, as last read.
    pub fn users(&self) -> Arc<Users> {
        self.users.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the file has changed since it was read, as of the last check. Checks again when a second has
    /// passed on the process's clock.
    pub fn has_changed(&self, now_ns: u64) -> bool {
        let due_ns = self.next_check_ns.load(Ordering::Relaxed);
        if now_ns >= due_ns {
            let next_ns = now_ns.saturating_add(CHECK_INTERVAL.as_nanos() as u64);
            let exchanged =
                self.next_check_ns.compare_exchange(due_ns, next_ns, Ordering::Relaxed, Ordering::Relaxed);
            // While another thread reads the file, no check is needed.
            if exchanged.is_ok()
                && let Ok(read) = self.read.try_lock()
            {
                let is_still = std::fs::metadata(&self.path).is_ok_and(|metadata| read.is_still(&metadata));
                if !is_still {
                    self.changed.store(true, Ordering::Release);
                }
            }
        }
        self.changed.load(Ordering::Acquire)
    }

    /// Reads the file again if it has changed, and returns the users. May wait for the disk. Reports problems
    /// with `report`.
    pub fn refresh(&self, report: &dyn Fn(&str)) -> Arc<Users> {
        let mut version = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        // If another thread has read the file during the wait for the lock, there is no more to do.
        if self.changed.swap(false, Ordering::AcqRel) {
            match read(&self.path) {
                Ok((new_version, _)) if new_version == *version && version.settled => {}
                Ok((new_version, text)) => {
                    let (users, problems) = parse(&text);
                    for problem in problems {
                        report(&about(&self.path, &format!("{problem}; the user cannot log in")));
                    }
                    *version = new_version;
                    *self.users.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(users);
                }
                Err(problem) => {
                    report(&about(&self.path, &format!("{problem}; the users are unchanged")));
                }
            }
        }
        self.users()
    }
}

fn read(path: &Path) -> Result<(FileVersion, Vec<u8>), String> {
    let failed = |error: std::io::Error| format!("cannot be read: {error}");
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err("is not a file".to_string());
    }
    // Taken before the content: if the file changes in between, the next check finds another version.
    let version = FileVersion::of(&metadata);
    let mut text = Vec::new();
    file.take(LARGEST_FILE_BYTES + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > LARGEST_FILE_BYTES {
        return Err("is larger than 64 MiB, which no file of passwords should be".to_string());
    }
    Ok((version, text))
}

fn about(path: &Path, problem: &str) -> String {
    format!("password file '{}': {problem}", path.display())
}

#[cfg(test)]
mod tests {
    use super::super::password_hash::tests::{BCRYPT, SHA_256};
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    fn write(path: &Path, text: &str) {
        fs::write(path, text).unwrap();
    }

    /// Replaces the file with another of the same name, as careful programs do.
    fn replace(path: &Path, text: &str) {
        let other = path.with_extension("new");
        write(&other, text);
        fs::rename(other, path).unwrap();
    }

    fn names(users: &Users) -> Vec<String> {
        let mut names: Vec<String> =
            users.by_name.keys().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn lines() {
        let text = format!(
            "\u{feff}alice:{BCRYPT}\n# a comment\n\nb\u{f6}b smith:{SHA_256}:Bob Smith\r\ncarol:{BCRYPT}"
        );
        let (users, problems) = parse(text.as_bytes());
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(names(&users), ["alice", "b\u{f6}b smith", "carol"]);
        assert_eq!(users.get(b"alice").unwrap().password.as_str(), BCRYPT);
        assert_eq!(&*users.get("b\u{f6}b smith".as_bytes()).unwrap().name, "b\u{f6}b smith".as_bytes());
        assert!(users.get(b"Alice").is_none() && users.stand_in().is_some());
        let (none, problems) = parse(b"");
        assert!(none.stand_in().is_none() && problems.is_empty());
    }

    #[test]
    fn lines_refused() {
        let text = format!(
            "alice:{BCRYPT}\nbob\n:{BCRYPT}\ndave:secret\neve\x07:{BCRYPT}\n\
             alice:{SHA_256}\n{}:{BCRYPT}\ngrace:\nhal:\u{e9}\n",
            "f".repeat(256)
        );
        let (users, problems) = parse(text.as_bytes());
        let bad_name = "the name must have 1 to 255 bytes, none of them a control character";
        assert_eq!(
            problems,
            [
                "line 2: there is no ':' between a name and a password",
                &format!("line 3: {bad_name}"),
                "line 4: user \"dave\" has a password that is plain text; \
                 make it again with 'htpasswd -B' (bcrypt)",
                &format!("line 5: {bad_name}"),
                "line 6: user \"alice\" is listed twice",
                &format!("line 7: {bad_name}"),
                "line 8: user \"grace\" has no password; make it again with 'htpasswd -B' (bcrypt)",
                "line 9: user \"hal\" has a password that is plain text; \
                 make it again with 'htpasswd -B' (bcrypt)",
            ]
        );
        // It is unclear which of the two alices is valid, so neither can log in.
        assert_eq!(names(&users), Vec::<String>::new());
        let (_, problems) = parse(b"x:\xff");
        assert_eq!(problems.len(), 1);
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("users");
        let shown = path.display();
        let problems = |path: &Path| PasswordFile::open(path).err().unwrap();
        assert_eq!(
            problems(&path),
            [format!("password file '{shown}': cannot be read: No such file or directory (os error 2)")]
        );
        write(&path, "alice:secret\nbob\n");
        assert_eq!(
            problems(&path),
            [
                format!(
                    "password file '{shown}': line 1: user \"alice\" has a password that is plain text; \
                     make it again with 'htpasswd -B' (bcrypt)"
                ),
                format!("password file '{shown}': line 2: there is no ':' between a name and a password"),
            ]
        );
        let shown = directory.path().display();
        assert_eq!(problems(directory.path()), [format!("password file '{shown}': is not a file")]);
    }

    #[test]
    fn changes_are_seen() {
        const SECOND_NS: u64 = 1_000_000_000;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("users");
        write(&path, &format!("alice:{BCRYPT}\n"));
        let file = PasswordFile::open(&path).unwrap();
        let reported = Mutex::new(Vec::new());
        let report = |problem: &str| reported.lock().unwrap().push(problem.to_string());
        assert_eq!(names(&file.users()), ["alice"]);

        replace(&path, &format!("bob:{SHA_256}\n"));
        assert!(file.has_changed(SECOND_NS));
        // The change is noticed, but not read yet; the file is checked no more than once a second.
        assert_eq!(names(&file.users()), ["alice"]);
        assert!(file.has_changed(SECOND_NS + 1));
        assert_eq!(names(&file.refresh(&report)), ["bob"]);
        assert!(!file.has_changed(SECOND_NS + 2));

        // A line that cannot be used excludes only its user.
        replace(&path, &format!("bob:{SHA_256}\ncarol:secret\n"));
        assert!(!file.has_changed(2 * SECOND_NS - 1));
        assert!(file.has_changed(2 * SECOND_NS));
        assert_eq!(names(&file.refresh(&report)), ["bob"]);
        let first = reported.lock().unwrap().remove(0);
        assert!(
            first.contains("line 2: user \"carol\"") && first.ends_with("; the user cannot log in"),
            "{first}"
        );

        // If the file is missing, the users stay, and each check reports it.
        fs::remove_file(&path).unwrap();
        for second in 3..5 {
            assert!(file.has_changed(second * SECOND_NS));
            assert_eq!(names(&file.refresh(&report)), ["bob"]);
            let problem = reported.lock().unwrap().remove(0);
            assert!(problem.ends_with("(os error 2); the users are unchanged"), "{problem}");
        }
        write(&path, "");
        assert!(file.has_changed(5 * SECOND_NS));
        assert_eq!(names(&file.refresh(&report)), Vec::<String>::new());
        assert!(reported.lock().unwrap().is_empty());
    }

    /// A file that was just written is read again until it is old enough to differ from a later version.
    #[test]
    fn a_second_change_within_one_tick_is_seen() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("users");
        write(&path, &format!("alice:{BCRYPT}\n"));
        let file = PasswordFile::open(&path).unwrap();
        let metadata = fs::metadata(&path).unwrap();
        let version = FileVersion::of(&metadata);
        assert!(!version.settled && !version.is_still(&metadata));
        // Changed in place with the same size; the times may be the same.
        write(&path, &format!("alicf:{BCRYPT}\n"));
        assert!(file.has_changed(1));
        assert_eq!(names(&file.refresh(&|_| {})), ["alicf"]);

        let old = SystemTime::now() - Duration::from_secs(60);
        fs::File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
        assert!(file.has_changed(2_000_000_000));
        file.refresh(&|_| {});
        assert!(!file.has_changed(4_000_000_000));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(text: Vec<u8>) {
            let _ = parse(&text);
        }

        /// Each name that is listed once is a user; each other line is a problem.
        #[test]
        fn every_line_is_a_user_or_a_problem(names in prop::collection::vec("[a-c]{0,2}", 0..8)) {
            let lines: Vec<String> = names.iter().map(|name| format!("{name}:{SHA_256}")).collect();
            let (users, problems) = parse(lines.join("\n").as_bytes());
            let once = |name: &&String| names.iter().filter(|other| other == name).count() == 1;
            let good = names.iter().filter(|name| !name.is_empty()).filter(once).count();
            prop_assert_eq!(users.by_name.len(), good);
            let is_first = |at: usize, name: &String| !name.is_empty() && !names[..at].contains(name);
            let firsts = names.iter().enumerate().filter(|&(at, name)| is_first(at, name));
            prop_assert_eq!(problems.len(), names.len() - firsts.count());
        }
    }
}
