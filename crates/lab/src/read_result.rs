//! Reads a result. An error states the file, its fault, and what to do.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::result::{ResultFile, SCHEMA_VERSION};

/// The name of the result's file in its directory.
const FILE_NAME: &str = "result.json";
/// The largest file that is read, bytes. A result of a thousand mixes with a thousand clients each has about
/// 200 MB.
const BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Why a result could not be read.
#[derive(Debug)]
pub enum ReadError {
    /// There is no such file.
    Missing(PathBuf),
    /// It could not be opened or read.
    Io(PathBuf, io::Error),
    /// It is larger than any result.
    TooLarge(PathBuf, u64),
    /// It is not a result: the place and the reason.
    Corrupt(PathBuf, serde_json::Error),
    /// A newer version of the program wrote it.
    Newer(PathBuf, u64),
    /// The directory has what no result has, or cannot be listed.
    NoResult(PathBuf, String),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Missing(path) => write!(
                f,
                "there is no result at {}: name a result directory (it holds {FILE_NAME}) or the file itself",
                path.display()
            ),
            ReadError::Io(path, error) => write!(f, "cannot read {}: {error}", path.display()),
            ReadError::TooLarge(path, bytes) => write!(
                f,
                "{} has {bytes} bytes; a result has at most {BYTES_MAX}: is it the right file?",
                path.display()
            ),
            ReadError::Corrupt(path, error) => {
                write!(f, "{} is damaged or not a result: {error}", path.display())
            }
            ReadError::Newer(path, version) => write!(
                f,
                "{} has schema version {version}, and this program reads up to {SCHEMA_VERSION}: \
                 use the touchstone that wrote it, or a later one",
                path.display()
            ),
            ReadError::NoResult(path, reason) => write!(f, "{} is not a result: {reason}", path.display()),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ReadError::Io(_, error) => Some(error),
            ReadError::Corrupt(_, error) => Some(error),
            _ => None,
        }
    }
}

/// Reads the result of a directory, or of a `result.json`. Returns it with the directory that contains it.
pub fn read(path: &Path) -> Result<(ResultFile, PathBuf), ReadError> {
    let file = if path.is_dir() { path.join(FILE_NAME) } else { path.to_owned() };
    let text = contents(&file)?;
    // The version first: a newer file may differ elsewhere too, so the message names the version and not a
    // place.
    let version: Version =
        serde_json::from_slice(&text).map_err(|error| ReadError::Corrupt(file.clone(), error))?;
    if version.schema_version > u64::from(SCHEMA_VERSION) {
        return Err(ReadError::Newer(file, version.schema_version));
    }
    let result = serde_json::from_slice(&text).map_err(|error| ReadError::Corrupt(file.clone(), error))?;
    let directory = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    Ok((result, directory))
}

#[derive(Deserialize)]
struct Version {
    schema_version: u64,
}

fn contents(file: &Path) -> Result<Vec<u8>, ReadError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => ReadError::Missing(file.to_owned()),
        _ => ReadError::Io(file.to_owned(), error),
    };
    let bytes = fs::metadata(file).map_err(failed)?.len();
    if bytes > BYTES_MAX {
        return Err(ReadError::TooLarge(file.to_owned(), bytes));
    }
    let mut text = Vec::new();
    // A pipe or a growing file has no length to trust.
    File::open(file).map_err(failed)?.take(BYTES_MAX + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(ReadError::TooLarge(file.to_owned(), text.len() as u64));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn message(name: &str, text: &str) -> String {
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join(FILE_NAME), text).expect("written");
        let error = read(directory.path()).expect_err(name);
        error.to_string().replace(&directory.path().display().to_string(), "DIR")
    }

    #[test]
    fn a_result_is_read_from_its_directory_or_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let result = sample::result();
        let file = directory.path().join(FILE_NAME);
        fs::write(&file, serde_json::to_vec(&result).expect("serialises")).expect("written");
        for path in [directory.path(), file.as_path()] {
            let (again, lies_in) = read(path).expect("reads");
            assert!(
                again.systems.len() == 3 && again.suite == result.suite && again.machine == result.machine
            );
            assert_eq!(lies_in, directory.path());
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let missing = read(&directory.path().join("none")).expect_err("missing").to_string();
        assert!(missing.starts_with("there is no result at ") && missing.contains("none"), "{missing}");
        let empty = read(directory.path()).expect_err("empty").to_string();
        assert!(empty.contains("result.json"), "{empty}");
        assert_eq!(
            message("corrupt", "{\"schema_version\": 1,"),
            "DIR/result.json is damaged or not a result: EOF while parsing a value at line 1 column 21"
        );
        let lacking = message("lacking", "{\"schema_version\": 1}");
        assert!(lacking.contains("missing field `tool`"), "{lacking}");
        let newer = message("newer", "{\"schema_version\": 9, \"everything\": \"is different\"}");
        assert!(newer.contains("schema version 9") && newer.contains("reads up to 1"), "{newer}");
        assert!(message("bytes", "\u{0}\u{1}").contains("line 1 column 1"));
    }
}
