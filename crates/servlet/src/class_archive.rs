//! The archive of Tomcat's classes in the form that the virtual machine has in memory (class-data sharing):
//! with it Java starts in about half the time.
//!
//! `make java` leaves one beside the jars. It fits one version of Java, and the jars under one path. Where it
//! does not fit and there is a `work_directory`, one that does is made there soon after the start, by another
//! process, for the next start.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::directory::{make_directory, private_directory_in};
use crate::server_log::log;

/// The archive, and the text that says what it was made for. `scripts/java.sh` writes the same.
const ARCHIVE: &str = "classes.jsa";
const KEY: &str = "classes.key";

/// How long after the start it is made, so that first requests do not wait for it.
const DELAY: Duration = Duration::from_secs(5);

/// What an archive must be made for.
pub struct ClassArchive {
    home: PathBuf,
    class_path: String,
    key: String,
    /// Where one may be made.
    work: Option<PathBuf>,
    found: Option<PathBuf>,
}

impl ClassArchive {
    /// Looks for one that fits, beside the jars and below `work`. `jars` are those of the library.
    pub fn find(libjvm: &Path, library: &Path, jars: &[PathBuf], work: Option<&Path>) -> ClassArchive {
        let libjvm = libjvm.canonicalize().unwrap_or_else(|_| libjvm.to_path_buf());
        // lib/server/libjvm.so
        let home = libjvm.ancestors().nth(3).unwrap_or(Path::new("/")).to_path_buf();
        let class_path: Vec<String> = jars.iter().map(|jar| jar.display().to_string()).collect();
        let class_path = class_path.join(":");
        let key = format!("{}\n{}\n{class_path}\n", home.display(), version(&home));
        let work = work.and_then(|work| {
            make_directory(work).ok()?;
            private_directory_in(work, "classes").ok()
        });
        let places = [Some(library), work.as_deref()];
        let fits = |place: &Path| {
            let is_same = std::fs::read_to_string(place.join(KEY)).is_ok_and(|found| found == key);
            Some(place.join(ARCHIVE)).filter(|archive| is_same && archive.is_file())
        };
        let found = places.into_iter().flatten().find_map(fits);
        ClassArchive { home, class_path, key, work, found }
    }

    /// The one that fits.
    pub fn path(&self) -> Option<&Path> {
        self.found.as_deref()
    }

    /// Has one made for the next start, where none fits and there is a place for it. Returns at once.
    pub fn make_if_missing(self) {
        let java = self.home.join("bin/java");
        let (None, Some(work)) = (&self.found, self.work.clone()) else { return };
        if !java.is_file() {
            return;
        }
        let make = move || {
            std::thread::sleep(DELAY);
            if let Err(message) = self.make(&java, &work) {
                log(3, &format!("no archive of Java's classes could be made: {message}"));
            }
        };
        // Without a thread, the next start takes as long as this one.
        let _ = std::thread::Builder::new().name("java-classes".to_string()).spawn(make);
    }

    fn make(&self, java: &Path, work: &Path) -> Result<(), String> {
        let new = work.join(format!("{ARCHIVE}.{}", std::process::id()));
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
            // The key is written last, so that it never stands beside another archive.
            let _ = std::fs::remove_file(work.join(KEY));
            std::fs::rename(&new, work.join(ARCHIVE))?;
            std::fs::write(work.join(KEY), &self.key)
        };
        let outcome =
            if is_made { kept().map_err(|error| error.to_string()) } else { Err(ended.to_string()) };
        // It is gone where it was kept.
        let _ = std::fs::remove_file(&new);
        outcome
    }
}

/// The line of a Java home's own description that changes with each of its updates.
fn version(home: &Path) -> String {
    let release = std::fs::read_to_string(home.join("release")).unwrap_or_default();
    release.lines().find(|line| line.starts_with("JAVA_RUNTIME_VERSION=")).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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
        let find = || ClassArchive::find(&libjvm, &library, &jars, None);
        assert_eq!(find().path(), None);
        fs::write(library.join(ARCHIVE), "").unwrap();
        assert_eq!(find().path(), None, "made for something that is not known");
        fs::write(library.join(KEY), find().key).unwrap();
        assert_eq!(find().path(), Some(library.join(ARCHIVE)).as_deref());
        fs::write(home.join("release"), "JAVA_RUNTIME_VERSION=\"17.0.2+8\"\n").unwrap();
        assert_eq!(find().path(), None, "an update of Java");
        let below = around.path().join("work");
        fs::create_dir(&below).unwrap();
        let find = || ClassArchive::find(&libjvm, &library, &jars, Some(&below));
        let made = find().work.unwrap();
        fs::write(made.join(ARCHIVE), "").unwrap();
        fs::write(made.join(KEY), find().key).unwrap();
        assert_eq!(find().path(), Some(made.join(ARCHIVE)).as_deref());
    }
}
