//! The archive of Tomcat's classes in the virtual machine's memory format (class-data sharing): it halves the
//! start time of Java.
//!
//! `make java` stores one beside the jars. It is valid for one version of Java and for jars at one path. If
//! it is not valid, another process creates a valid one soon after the start, for the next start: in the
//! `work_directory`, otherwise in the cache directory of the service or of the user.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::FlockOperation;

use crate::directory::{hash, make_directory, private_directory_in};
use crate::server_log::log;

/// The archive, and the text that describes its Java and its jars. `scripts/java.sh` writes the same text.
const ARCHIVE: &str = "classes.jsa";
const KEY: &str = "classes.key";

/// After this time, another process that was making one is assumed to have ended.
const CREATION_TIMEOUT: Duration = Duration::from_secs(600);

/// The delay after the start before one is created, so that it does not slow down the first requests.
const DELAY: Duration = Duration::from_secs(5);

/// The cache directories of a user, or of a systemd service: the variable with the directory, and the path
/// below it.
const CACHES: [(&str, &str); 3] =
    [("CACHE_DIRECTORY", "java"), ("XDG_CACHE_HOME", "touchstone/java"), ("HOME", ".cache/touchstone/java")];

/// The properties that an archive must match.
pub struct ClassArchive {
    home: PathBuf,
    class_path: String,
    key: String,
    /// The directory in which one may be created.
    place: Option<PathBuf>,
    found: Option<PathBuf>,
}

impl ClassArchive {
    /// Searches for a valid one, beside the jars, below `work`, and otherwise in a cache directory, which
    /// `variable` names. `jars` are those of the library.
    pub fn find(
        libjvm: &Path,
        library: &Path,
        jars: &[PathBuf],
        work: Option<&Path>,
        variable: impl Fn(&str) -> Option<PathBuf>,
    ) -> ClassArchive {
        let libjvm = libjvm.canonicalize().unwrap_or_else(|_| libjvm.to_path_buf());
        // lib/server/libjvm.so
        let home = libjvm.ancestors().nth(3).unwrap_or(Path::new("/")).to_path_buf();
        let class_path: Vec<String> = jars.iter().map(|jar| jar.display().to_string()).collect();
        let class_path = class_path.join(":");
        let key = format!("{}\n{}\n{class_path}\n", home.display(), version(&home));
        let place = match work {
            Some(work) => place_in(work, "classes"),
            // Several servers of one user may have several versions of Java.
            None => {
                cache(variable).and_then(|cache| place_in(&cache, &format!("classes-{:016x}", hash(&key))))
            }
        };
        let mut archive = ClassArchive { home, class_path, key, place, found: None };
        let places = [Some(library), archive.place.as_deref()];
        archive.found = places.into_iter().flatten().find_map(|place| archive.fits(place));
        archive
    }

    /// The archive in a directory, if it is valid.
    fn fits(&self, place: &Path) -> Option<PathBuf> {
        let is_same = std::fs::read_to_string(place.join(KEY)).is_ok_and(|found| found == self.key);
        Some(place.join(ARCHIVE)).filter(|archive| is_same && archive.is_file())
    }

    /// The valid archive.
    pub fn path(&self) -> Option<&Path> {
        self.found.as_deref()
    }

    /// Starts to create one for the next start, if there is no valid one and there is a directory for it.
    /// Returns at once.
    pub fn make_if_missing(self) {
        let java = self.home.join("bin/java");
        let (None, Some(place)) = (&self.found, self.place.clone()) else { return };
        // It extends the archive of Java's own classes, which reduced Javas lack.
        if !java.is_file() || !self.home.join("lib/server/classes.jsa").is_file() {
            return;
        }
        let make = move || {
            std::thread::sleep(DELAY);
            if let Err(message) = self.make(&java, &place) {
                log(3, &format!("the archive of Java's classes cannot be created: {message}"));
            }
        };
        // If no thread can be started, the next start takes as long as this one.
        let _ = std::thread::Builder::new().name("java-classes".to_string()).spawn(make);
    }

    fn make(&self, java: &Path, place: &Path) -> Result<(), String> {
        let lock = File::create(place.join("lock")).map_err(|error| error.to_string())?;
        let is_free = rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
        if !is_free || self.fits(place).is_some() {
            // Another process creates it, or has created it since this one started.
            return Ok(());
        }
        remove_unfinished(place);
        let new = place.join(format!("{ARCHIVE}.{}", std::process::id()));
        let ended = Command::new(java)
            .arg(format!("-XX:ArchiveClassesAtExit={}", new.display()))
            .args(["-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-cp", &self.class_path])
            .arg("org.touchstone.servlet.Training")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(|error| error.to_string())?;
        let is_made = ended.success() && new.is_file();
        let kept = || {
            // The key is written last, so that it is never beside another archive.
            let _ = std::fs::remove_file(place.join(KEY));
            std::fs::rename(&new, place.join(ARCHIVE))?;
            std::fs::write(place.join(KEY), &self.key)
        };
        let outcome =
            if is_made { kept().map_err(|error| error.to_string()) } else { Err(ended.to_string()) };
        // It was moved to its place.
        let _ = std::fs::remove_file(&new);
        outcome
    }
}

/// Removes the files of servers that ended before their archive was complete.
fn remove_unfinished(place: &Path) {
    let is_old = |path: &Path| {
        let changed = path.metadata().and_then(|facts| facts.modified());
        changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|since| since > CREATION_TIMEOUT))
    };
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_unfinished = path.file_stem().is_some_and(|stem| stem == ARCHIVE);
        if is_unfinished && is_old(&path) {
            // The next one tries again.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn place_in(parent: &Path, name: &str) -> Option<PathBuf> {
    make_directory(parent).ok()?;
    private_directory_in(parent, name).ok()
}

/// The first cache directory that is set. A missing directory is not created, because a user without a home
/// has none.
fn cache(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    CACHES.iter().find_map(|(name, below)| {
        let above = variable(name).filter(|above| above.is_absolute() && above.is_dir())?;
        Some(above.join(below))
    })
}

/// The line of a Java home's description that changes with each update.
fn version(home: &Path) -> String {
    let release = std::fs::read_to_string(home.join("release")).unwrap_or_default();
    release.lines().find(|line| line.starts_with("JAVA_RUNTIME_VERSION=")).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::SystemTime;

    #[test]
    fn what_a_server_left_that_has_ended_too_early_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let (left, current, archive) = (
            place.path().join("classes.jsa.17"),
            place.path().join("classes.jsa.18"),
            place.path().join(ARCHIVE),
        );
        for path in [&left, &current, &archive] {
            File::create(path).unwrap();
        }
        let before = SystemTime::now() - 2 * CREATION_TIMEOUT;
        for path in [&left, &archive] {
            File::options().write(true).open(path).unwrap().set_modified(before).unwrap();
        }
        remove_unfinished(place.path());
        assert!(!left.exists() && current.exists() && archive.exists());
    }

    #[test]
    fn an_archive_is_used_where_it_was_made_for_this_java_and_these_jars() {
        let around = tempfile::tempdir().unwrap();
        let (home, library) = (around.path().join("home"), around.path().join("library"));
        let libjvm = home.join("lib/server/libjvm.so");
        fs::create_dir_all(libjvm.parent().unwrap()).unwrap();
        fs::create_dir_all(&library).unwrap();
        fs::write(&libjvm, "").unwrap();
        fs::write(home.join("release"), "A=\"b\"\nJAVA_RUNTIME_VERSION=\"17.0.1+2\"\n").unwrap();
        let jars = [library.join("a.jar"), library.join("b.jar")];
        let find = || ClassArchive::find(&libjvm, &library, &jars, None, |_| None);
        assert_eq!(find().path(), None);
        fs::write(library.join(ARCHIVE), "").unwrap();
        assert_eq!(find().path(), None, "made for something that is not known");
        fs::write(library.join(KEY), find().key).unwrap();
        assert_eq!(find().path(), Some(library.join(ARCHIVE)).as_deref());
        fs::write(home.join("release"), "JAVA_RUNTIME_VERSION=\"17.0.2+8\"\n").unwrap();
        assert_eq!(find().path(), None, "an update of Java");
        let below = around.path().join("work");
        fs::create_dir(&below).unwrap();
        let user = around.path().join("user");
        let with_cache = |name: &str| (name == "HOME").then(|| user.clone());
        let in_work = || ClassArchive::find(&libjvm, &library, &jars, Some(&below), with_cache);
        let in_cache = || ClassArchive::find(&libjvm, &library, &jars, None, with_cache);
        assert_eq!(in_cache().place, None, "the user has no home");
        fs::create_dir(&user).unwrap();
        for find in [&in_work as &dyn Fn() -> ClassArchive, &in_cache] {
            assert_eq!(find().path(), None);
            let directory = find().place.unwrap();
            fs::write(directory.join(ARCHIVE), "").unwrap();
            fs::write(directory.join(KEY), find().key).unwrap();
            assert_eq!(find().path(), Some(directory.join(ARCHIVE)).as_deref());
        }
        assert!(in_work().place.unwrap().starts_with(&below));
        assert!(in_cache().place.unwrap().starts_with(user.join(".cache/touchstone/java")));
        let (before, release) = (in_cache().place.unwrap(), "JAVA_RUNTIME_VERSION=\"21.0.1+2\"\n");
        fs::write(home.join("release"), release).unwrap();
        assert_ne!(in_cache().place.unwrap(), before, "each version of Java has its own");
    }
}
