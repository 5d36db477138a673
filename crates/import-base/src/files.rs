//! The files of a configuration: limits on their number and size, and the files that a pattern matches.

use std::fmt::Display;
use std::path::{Path, PathBuf};

/// The maximum size of one file in bytes.
pub const FILE_BYTES: u64 = 4 << 20;
/// The maximum number of files of one configuration.
pub const FILES: usize = 1_000;
/// The maximum number of directives of a configuration.
pub const DIRECTIVES: usize = 100_000;
/// The maximum depth of nested blocks and included files.
pub const DEPTH: usize = 32;

/// Counts the files and directives of one configuration.
#[derive(Debug, Default)]
pub struct Counts {
    files: usize,
    directives: usize,
}

impl Counts {
    /// Reads a file. `verb`: what the configuration does with its files, for the message.
    ///
    /// # Errors
    /// As for [`read_text`], and if there are more than [`FILES`].
    pub fn read_text(&mut self, path: &Path, verb: &str) -> Result<String, String> {
        self.files += 1;
        if self.files > FILES {
            return Err(format!("{}: more than {FILES} files are {verb}", path.display()));
        }
        read_text(path)
    }

    /// Adds directives that are at a place.
    ///
    /// # Errors
    /// There are more than [`DIRECTIVES`].
    pub fn add_directives(&mut self, count: usize, place: impl Display) -> Result<(), String> {
        self.directives += count;
        match self.directives > DIRECTIVES {
            true => Err(format!("{place}: more than {DIRECTIVES} directives")),
            false => Ok(()),
        }
    }
}

/// The text of a file; bytes that are not UTF-8 are replaced.
///
/// # Errors
/// The file cannot be read, is not a regular file, or is too large; the message has the file's name.
pub fn read_text(path: &Path) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let metadata = std::fs::metadata(path).map_err(failed)?;
    let refused = |reason: &str| Err(format!("{}: {reason}", path.display()));
    if metadata.is_dir() {
        return refused("is a directory; name the file of the configuration");
    }
    if !metadata.is_file() || metadata.len() > FILE_BYTES {
        return refused(&format!("not a file of at most {FILE_BYTES} bytes"));
    }
    let bytes = std::fs::read(path).map_err(failed)?;
    if bytes.contains(&0) {
        return refused("not a text file: it has bytes of zero");
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The files that match a name with `*` and `?` in its last part, sorted by name.
pub fn matching(pattern: &Path) -> Vec<PathBuf> {
    let name = pattern.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if !name.contains(['*', '?']) {
        return if pattern.is_file() { vec![pattern.to_path_buf()] } else { Vec::new() };
    }
    let Ok(entries) = std::fs::read_dir(pattern.parent().unwrap_or(Path::new("."))) else {
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_file())
        .filter(|path| {
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (!file.starts_with('.') || name.starts_with('.')) && fits(name.as_bytes(), file.as_bytes())
        })
        .collect();
    files.sort();
    files
}

fn fits(pattern: &[u8], name: &[u8]) -> bool {
    // The position after the last '*', and the position in the name from which it was last tried.
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, tried)) => {
                    star = Some((at, tried + 1));
                    p = at + 1;
                    n = tried + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// Whether a path and its target are one file, by their endings.
pub fn is_file(path: &str, target: &str) -> bool {
    let ending = |text: &str| {
        let name = text.rsplit('/').next().unwrap_or_default();
        let ending =
            name.rsplit_once('.').map_or("", |(begin, ending)| if begin.is_empty() { "" } else { ending });
        ending.to_string()
    };
    // Directories have names such as `app.d` and `1.2`, too.
    let (one, other) = (ending(path), ending(target));
    let is_ending = (2..=5).contains(&one.len()) && one.bytes().any(|byte| byte.is_ascii_alphabetic());
    is_ending && one == other
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn names_fit_as_in_a_shell(pattern in "[ab*?]{0,6}", name in "[ab]{0,6}") {
            let mut table = vec![vec![false; name.len() + 1]; pattern.len() + 1];
            table[0][0] = true;
            for (p, byte) in pattern.bytes().enumerate() {
                for n in 0..=name.len() {
                    table[p + 1][n] = match byte {
                        b'*' => table[p][n] || n > 0 && table[p + 1][n - 1],
                        byte => n > 0 && table[p][n - 1] && (byte == b'?' || byte == name.as_bytes()[n - 1]),
                    };
                }
            }
            prop_assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), table[pattern.len()][name.len()]);
        }
    }
}
