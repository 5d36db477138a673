//! The jars of the server's own servlets, for the user that the server switches to: only root may be able to
//! read the target directory (below /root, for example), and a server that drops root's rights could not
//! start Java from there. Then the jars are copied into the cache directory, which every user can read.

use crate::system::user;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use touchstone_lab::cache;

/// The jar that identifies such a directory.
const OWN_JAR: &str = "touchstone-servlet.jar";

/// The directory of the jars, relative to this program, where the server searches for them.
pub(super) fn beside_the_program() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let directories = ["../java", "../../java", "../share/touchstone/java"];
    let mut places = directories.iter().filter_map(|place| Some(program.parent()?.join(place)));
    places.find(|directory| directory.join(OWN_JAR).is_file())
}

/// A copy of the jars, if the server changes to a user who cannot read those of this program; otherwise none,
/// and the server finds the original ones. An error is the reason why there is no copy.
pub(super) fn copy_for_all() -> Result<Option<PathBuf>, String> {
    let own = beside_the_program().filter(|_| user::unprivileged().is_some());
    let Some(own) = own.and_then(|directory| directory.canonicalize().ok()) else { return Ok(None) };
    if all_may_read(&own) {
        return Ok(None);
    }
    let copied = cache::prepare(|cache| copy(&own, cache));
    copied.map(Some).map_err(|refusals| format!("no place for its jars ({refusals}); set TOUCHSTONE_CACHE"))
}

/// Whether any user may enter the directory and read what is in it.
fn all_may_read(directory: &Path) -> bool {
    let has =
        |path: &Path, bits| fs::metadata(path).is_ok_and(|found| found.permissions().mode() & bits == bits);
    let mut files = jars(directory).unwrap_or_default().into_iter();
    directory.ancestors().all(|above| has(above, 0o001))
        && has(directory, 0o005)
        && files.all(|jar| has(&jar, 0o004))
}

/// Copies the jars into a directory of the cache whose name is made of them, unless they are there.
fn copy(own: &Path, cache: &Path) -> io::Result<PathBuf> {
    let mut contents = Vec::new();
    let mut all = Vec::new();
    for jar in jars(own)? {
        let (name, bytes) = (jar.file_name().unwrap_or_default().to_owned(), fs::read(&jar)?);
        all.extend_from_slice(name.as_encoded_bytes());
        all.extend_from_slice(touchstone_lab::machine::sha256(&bytes).as_bytes());
        contents.push((name, bytes));
    }
    let directory = cache.join("java").join(&touchstone_lab::machine::sha256(&all)[..12]);
    fs::create_dir_all(&directory)?;
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755))?;
    for (name, bytes) in contents {
        let place = directory.join(name);
        if !fs::metadata(&place).is_ok_and(|found| found.len() == bytes.len() as u64) {
            touchstone_lab::output::write_atomically(&place, &bytes)?;
            fs::set_permissions(&place, fs::Permissions::from_mode(0o644))?;
        }
    }
    Ok(directory)
}

/// The jars of a directory, in order.
fn jars(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries: io::Result<Vec<PathBuf>> =
        fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut jars = entries?;
    jars.retain(|path| path.extension().is_some_and(|extension| extension == "jar"));
    jars.sort();
    Ok(jars)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jars_that_not_all_may_read_are_copied_where_all_may() {
        let place = tempfile::tempdir().unwrap();
        let own = place.path().join("own");
        fs::create_dir(&own).unwrap();
        for (name, text) in [("a.jar", "one"), (OWN_JAR, "two"), ("classes.jsa", "of the paths of the jars")]
        {
            fs::write(own.join(name), text).unwrap();
        }
        let allow = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let jar = own.join("a.jar");
        for path in [place.path(), own.as_path()] {
            allow(path, 0o755);
        }
        for name in ["a.jar", OWN_JAR] {
            allow(&own.join(name), 0o644);
        }
        assert_eq!(all_may_read(&own), all_may_read(place.path()));
        for (path, forbidden, allowed) in
            [(place.path(), 0o700, 0o755), (own.as_path(), 0o700, 0o755), (jar.as_path(), 0o600, 0o644)]
        {
            allow(path, forbidden);
            assert!(!all_may_read(&own), "{}", path.display());
            allow(path, allowed);
        }

        let copied = copy(&own, &place.path().join("cache")).unwrap();
        let names: Vec<_> =
            jars(&copied).unwrap().iter().map(|jar| jar.file_name().unwrap().to_owned()).collect();
        assert_eq!(names, ["a.jar", OWN_JAR]);
        assert_eq!(fs::read(copied.join("a.jar")).unwrap(), b"one");
        assert!(!copied.join("classes.jsa").exists());
        // The same jars have the same directory, and an incomplete copy is completed.
        fs::write(copied.join("a.jar"), "").unwrap();
        assert_eq!(copy(&own, &place.path().join("cache")).unwrap(), copied);
        assert_eq!(fs::read(copied.join("a.jar")).unwrap(), b"one");
        fs::write(own.join("a.jar"), "three").unwrap();
        assert_ne!(copy(&own, &place.path().join("cache")).unwrap(), copied);
    }
}
