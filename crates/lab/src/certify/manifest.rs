//! The manifest: every file of a result directory with its length and its SHA-256.

use crate::machine::sha256;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// The manifest's own file.
pub const FILE_NAME: &str = "manifest.json";
/// The files that come after the manifest and are not in it.
pub const LATER_FILES: [&str; 3] = [FILE_NAME, super::seal::STATEMENT_FILE, super::seal::SIGNATURE_FILE];
/// The most files that a result directory may have, and how deep they may lie.
const FILES_MAX: usize = 10_000;
const DEPTH_MAX: usize = 16;

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
    /// Lists a directory. The text says what cannot be listed: a link, a special file, a name that is not text.
    pub fn of(directory: &Path) -> Result<Manifest, String> {
        let mut files = Vec::new();
        collect(directory, "", 0, &mut files)?;
        files.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(Manifest { version: 1, files })
    }

    /// Its text, always the same for the same files.
    pub fn text(&self) -> String {
        // Strings and numbers: nothing in it can fail to be written.
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
        let listed = |path: &str| self.files.iter().any(|entry| entry.path == path);
        let extra = found.files.iter().filter(|entry| !listed(&entry.path));
        differences.extend(extra.map(|entry| format!("{} was added", entry.path)));
        differences
    }
}

fn collect(directory: &Path, prefix: &str, depth: usize, files: &mut Vec<FileEntry>) -> Result<(), String> {
    let place = directory.display();
    if depth > DEPTH_MAX {
        return Err(format!("{place} lies too deep"));
    }
    let entries = fs::read_dir(directory).map_err(|error| format!("{place} cannot be read: {error}"))?;
    for entry in entries {
        let entry = entry.map_err(|error| format!("{place} cannot be read: {error}"))?;
        let name = entry
            .file_name()
            .into_string()
            .map_err(|name| format!("{place}: the name {name:?} is not text"))?;
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
        if depth == 0 && LATER_FILES.contains(&name.as_str()) {
            continue;
        }
        let kind = entry.file_type().map_err(|error| format!("{path}: {error}"))?;
        if kind.is_dir() {
            collect(&entry.path(), &path, depth + 1, files)?;
        } else if kind.is_file() {
            let content =
                fs::read(entry.path()).map_err(|error| format!("{path} cannot be read: {error}"))?;
            files.push(FileEntry { path, bytes: content.len() as u64, sha256: sha256(&content) });
        } else {
            return Err(format!("{path} is a link or a special file: a result has none"));
        }
        if files.len() > FILES_MAX {
            return Err(format!("more than {FILES_MAX} files: is this a result directory?"));
        }
    }
    Ok(())
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
            "more was added",
        ];
        assert_eq!(manifest.differences(place.path()), expected);
        std::os::unix::fs::symlink("/etc/passwd", place.path().join("link")).unwrap();
        assert!(manifest.differences(place.path())[0].contains("a link or a special file"));
    }
}
