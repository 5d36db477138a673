//! The manifest: every file of a result directory with its length and its SHA-256.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fs;
use std::io::{self, Read as _};
use std::path::Path;
use touchstone_http::hexadecimal;
use touchstone_lab::regular_file;

/// The manifest's own file.
pub const FILE_NAME: &str = "manifest.json";
/// The files that are written after the manifest and are not in it.
pub const LATER_FILES: [&str; 3] = [FILE_NAME, STATEMENT_FILE, SIGNATURE_FILE];
/// The statement's file.
pub const STATEMENT_FILE: &str = "statement.json";
/// Its signature's file.
pub const SIGNATURE_FILE: &str = "statement.json.minisig";
/// The most files that a result directory may have, and how deep they may lie.
const FILES_MAX: usize = 10_000;
const DEPTH_MAX: usize = 16;
/// The most bytes of one of them, and of all.
pub(super) const FILE_BYTES_MAX: u64 = 4 << 30;
const ALL_BYTES_MAX: u64 = 16 << 30;

/// Every file of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The version of this form.
    pub version: u32,
    /// The files in the order of their paths.
    pub files: Vec<FileEntry>,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Its path below the directory, with `/`.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// Its SHA-256, hexadecimal.
    pub sha256: String,
}

impl Manifest {
    /// Lists a directory with the hash of every file. The text names the file that cannot be listed.
    pub fn of(directory: &Path) -> Result<Manifest, String> {
        let mut files = Vec::new();
        for (path, _) in list(directory)?.files {
            let (bytes, sha256) =
                hash(&directory.join(&path)).map_err(|error| format!("{path} cannot be read: {error}"))?;
            files.push(FileEntry { path, bytes, sha256 });
        }
        Ok(Manifest { version: 1, files })
    }

    /// Its text, always the same for the same files.
    pub fn text(&self) -> String {
        // Strings and numbers: it can always be serialized.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// What of a directory is not as listed here; empty: all is.
    pub fn differences(&self, directory: &Path) -> Vec<String> {
        let found = match Manifest::of(directory) {
            Ok(found) => found,
            Err(message) => return vec![message],
        };
        let mut differences = Vec::new();
        for entry in &self.files {
            match found.files.iter().find(|other| other.path == entry.path) {
                None => differences.push(format!("{} is missing", entry.path)),
                Some(other) if other != entry => {
                    differences.push(format!("{} is not the file that was sealed", entry.path));
                }
                Some(_) => {}
            }
        }
        differences.extend(
            empty_directories(directory)
                .into_iter()
                .map(|path| format!("{path} is an empty directory: no signed result has one")),
        );
        let listed = |path: &str| self.files.iter().any(|entry| entry.path == path);
        let extra = found.files.iter().filter(|entry| !listed(&entry.path));
        differences.extend(extra.map(|entry| format!("{} was added", entry.path)));
        differences
    }
}

/// What is in a directory, in the order of the paths.
pub(super) struct Listing {
    /// Files, with their lengths.
    pub(super) files: Vec<(String, u64)>,
    /// Empty directories.
    empty: Vec<String>,
}

/// Lists a directory without reading a file. The text of an error states what a result may not have: a link,
/// a special file, a name that is not text, too many files or too long ones.
pub(super) fn list(directory: &Path) -> Result<Listing, String> {
    let mut listing = Listing { files: Vec::new(), empty: Vec::new() };
    collect(directory, "", 0, &mut listing)?;
    if listing.files.iter().map(|(_, bytes)| bytes).sum::<u64>() > ALL_BYTES_MAX {
        return Err(format!("more than {ALL_BYTES_MAX} bytes: is this a result directory?"));
    }
    listing.files.sort();
    Ok(listing)
}

/// The empty directories.
fn empty_directories(directory: &Path) -> Vec<String> {
    list(directory).map(|listing| listing.empty).unwrap_or_default()
}

/// Removes empty directories, which a manifest does not list.
pub(super) fn remove_empty_directories(directory: &Path) -> Result<(), String> {
    loop {
        let empty = list(directory)?.empty;
        if empty.is_empty() {
            return Ok(());
        }
        for path in empty {
            fs::remove_dir(directory.join(&path)).map_err(|error| format!("{path}: {error}"))?;
        }
    }
}

fn collect(directory: &Path, prefix: &str, depth: usize, listing: &mut Listing) -> Result<(), String> {
    let place = directory.display();
    if depth > DEPTH_MAX {
        return Err(format!("{place} is nested too deeply"));
    }
    let entries = fs::read_dir(directory).map_err(|error| format!("{place} cannot be read: {error}"))?;
    let mut is_empty = true;
    for entry in entries {
        is_empty = false;
        let entry = entry.map_err(|error| format!("{place} cannot be read: {error}"))?;
        let name = entry
            .file_name()
            .into_string()
            .map_err(|name| format!("{place}: the name {name:?} is not text"))?;
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
        let metadata = entry.metadata().map_err(|error| format!("{path}: {error}"))?;
        if metadata.is_dir() {
            collect(&entry.path(), &path, depth + 1, listing)?;
        } else if !metadata.is_file() {
            return Err(format!("{path} is a link or a special file: a result has none"));
        } else if metadata.len() > FILE_BYTES_MAX {
            return Err(format!(
                "{path} has {} bytes; a result's files have at most {FILE_BYTES_MAX}",
                metadata.len()
            ));
        } else if depth > 0 || !LATER_FILES.contains(&name.as_str()) {
            listing.files.push((path, metadata.len()));
        }
        if listing.files.len() + listing.empty.len() > FILES_MAX {
            return Err(format!("more than {FILES_MAX} files: is this a result directory?"));
        }
    }
    if is_empty && depth > 0 {
        listing.empty.push(prefix.to_owned());
    }
    Ok(())
}

/// A file's length and SHA-256.
fn hash(path: &Path) -> io::Result<(u64, String)> {
    let mut file = regular_file::open(path)?.take(FILE_BYTES_MAX);
    let (mut hasher, mut bytes, mut buffer) = (Sha256::new(), 0, vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((bytes, hexadecimal::encode(&hasher.finalize()))),
            read => {
                hasher.update(&buffer[..read]);
                bytes += read as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_changed_missing_or_added_is_found() {
        let place = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| fs::write(place.path().join(path), text).unwrap();
        fs::create_dir(place.path().join("systems")).unwrap();
        write("result.json", "{}");
        write("systems/nginx.conf", "listen 80;");
        let manifest = Manifest::of(place.path()).unwrap();
        let paths: Vec<&str> = manifest.files.iter().map(|entry| entry.path.as_str()).collect();
        assert_eq!(paths, ["result.json", "systems/nginx.conf"]);
        write(FILE_NAME, &manifest.text());
        assert_eq!(serde_json::from_str::<Manifest>(&manifest.text()).unwrap(), manifest);
        assert_eq!(manifest.differences(place.path()), Vec::<String>::new());
        write("result.json", "[]");
        write("more", "");
        fs::remove_file(place.path().join("systems/nginx.conf")).unwrap();
        let expected = [
            "result.json is not the file that was sealed",
            "systems/nginx.conf is missing",
            "systems is an empty directory: no signed result has one",
            "more was added",
        ];
        assert_eq!(manifest.differences(place.path()), expected);
        std::os::unix::fs::symlink("/etc/passwd", place.path().join("link")).unwrap();
        assert!(manifest.differences(place.path())[0].contains("a link or a special file"));
    }
}
