//! The tree of files that a workload asks for: made once, kept in a cache directory, verified before every use.
//!
//! The cache directory is `$TOUCHSTONE_CACHE` where that is set; otherwise the first of these that can be written:
//! for root `/var/cache/touchstone` (servers that give up root's rights must still be able to read the tree), for
//! others `$XDG_CACHE_HOME/touchstone` or `~/.cache/touchstone`, and at last a directory of the user's own below
//! the temporary directory.

use super::content;
use super::{Class, Workload};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The workload's tree in the cache directory: the directory that a server is given as its root. Every file is
/// compared with what it must hold, and written again where it differs.
pub fn prepare(workload: &Workload) -> io::Result<PathBuf> {
    let mut refusals = Vec::new();
    for cache in cache_directories() {
        let root = cache.join("trees").join(directory_name(workload));
        match make_cache_directory(&cache).and_then(|()| write(workload, &root)) {
            Ok(()) => return Ok(root),
            Err(error) => refusals.push(format!("{}: {error}", root.display())),
        }
    }
    let message =
        format!("no place for the workload's files ({}); set TOUCHSTONE_CACHE", refusals.join("; "));
    Err(io::Error::other(message))
}

/// Makes the tree below `root`, or makes it whole where it is there already.
pub fn write(workload: &Workload, root: &Path) -> io::Result<()> {
    for (index, class) in workload.classes.iter().enumerate() {
        let directory = root.join(&class.name);
        fs::create_dir_all(&directory)?;
        for file in 0..class.files {
            let path = root.join(class.path(file).trim_start_matches('/'));
            let content = file_content(workload, index, class, file);
            if fs::read(&path).is_ok_and(|found| found == content) {
                continue;
            }
            crate::output::write_atomically(&path, &content)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
        }
    }
    Ok(())
}

/// What one file must hold.
pub fn file_content(workload: &Workload, class_index: usize, class: &Class, file: u64) -> Vec<u8> {
    let position = ((class_index as u64) << 32) | file;
    let seed = content::SplitMix(workload.content_seed).next() ^ content::SplitMix(position).next();
    let title = format!("{} {}", workload.name, class.path(file));
    content::make(&title, class.file_bytes as usize, seed)
}

/// A name that differs for trees that differ, so that two suites never share one by mistake.
fn directory_name(workload: &Workload) -> String {
    let shape: Vec<String> = workload
        .classes
        .iter()
        .map(|class| format!("{}:{}:{}", class.name, class.files, class.file_bytes))
        .collect();
    let digest = crate::machine::sha256(shape.join(",").as_bytes());
    format!("{}-seed-{}-{}", workload.name, workload.content_seed, &digest[..12])
}

fn cache_directories() -> Vec<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(stated) = variable("TOUCHSTONE_CACHE") {
        return vec![stated];
    }
    let user = rustix::process::geteuid();
    let mut directories = Vec::new();
    if user.is_root() {
        directories.push(PathBuf::from("/var/cache/touchstone"));
    } else if let Some(cache) = variable("XDG_CACHE_HOME") {
        directories.push(cache.join("touchstone"));
    } else if let Some(home) = variable("HOME") {
        directories.push(home.join(".cache/touchstone"));
    }
    directories.push(temporary_cache());
    directories
}

fn temporary_cache() -> PathBuf {
    std::env::temp_dir().join(format!("touchstone-cache-{}", rustix::process::geteuid().as_raw()))
}

/// Makes the directory, readable by all and writable by this user alone. The one below the shared temporary
/// directory must be this user's own: there, anybody can make a name first.
fn make_cache_directory(directory: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
    let found = fs::symlink_metadata(directory)?;
    let own = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    if own || directory != temporary_cache() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"))
}

#[cfg(test)]
mod tests {
    use super::super::Suite;
    use super::*;

    #[test]
    fn the_golden_tree_has_100_files_and_2618880_bytes() {
        let suite = Suite::find("webbench-1.1-static").unwrap();
        let place = tempfile::tempdir().unwrap();
        write(&suite.workload, place.path()).unwrap();
        let (mut files, mut bytes) = (0, 0);
        for class in fs::read_dir(place.path()).unwrap() {
            for file in fs::read_dir(class.unwrap().path()).unwrap() {
                files += 1;
                bytes += file.unwrap().metadata().unwrap().len();
            }
        }
        assert_eq!((files, bytes), (100, 2_618_880));
        assert_eq!(fs::metadata(place.path().join("CLASS_128K/9.html")).unwrap().len(), 131_072);
    }

    #[test]
    fn a_damaged_file_is_made_whole_and_a_whole_one_is_left_alone() {
        let suite = Suite::find("webbench-1.1-static").unwrap();
        let place = tempfile::tempdir().unwrap();
        write(&suite.workload, place.path()).unwrap();
        let damaged = place.path().join("CLASS_4K/3.html");
        let whole = place.path().join("CLASS_4K/4.html");
        let (before, inode) = (fs::read(&damaged).unwrap(), fs::metadata(&whole).unwrap().ino());
        fs::write(&damaged, vec![b'x'; 4096]).unwrap();
        fs::remove_file(place.path().join("CLASS_1K/0.html")).unwrap();
        write(&suite.workload, place.path()).unwrap();
        assert_eq!(fs::read(&damaged).unwrap(), before);
        assert_eq!(fs::metadata(place.path().join("CLASS_1K/0.html")).unwrap().len(), 1024);
        assert_eq!(fs::metadata(&whole).unwrap().ino(), inode);
    }

    #[test]
    fn trees_that_differ_have_names_that_differ() {
        let suite = Suite::find("webbench-1.1-static").unwrap();
        let mut other = suite.workload.clone();
        other.classes[3].file_bytes += 1;
        assert_ne!(directory_name(&suite.workload), directory_name(&other));
    }
}
