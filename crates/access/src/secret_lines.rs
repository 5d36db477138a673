//! Files with secrets, one on each line: the first one signs or encrypts, all of them verify or decrypt.

use std::path::Path;

/// The most secrets in a file.
const MOST_SECRETS: usize = 16;

/// What to do about a file without good secrets.
const MAKE: &str = "'openssl rand -base64 32' makes one";

/// Reads the secrets of a file that the key `key` names, each of at least `shortest` bytes. The error names
/// the file, and contains no part of the secrets.
pub fn read_secret_lines(key: &str, path: &Path, shortest: usize) -> Result<Vec<String>, String> {
    let named = || format!("{key} '{}'", path.display());
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("{} cannot be read: {error}", named()))?;
    let lines: Vec<String> =
        text.lines().map(|line| line.trim().to_string()).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() || lines.len() > MOST_SECRETS {
        return Err(format!("{} must have 1 to {MOST_SECRETS} lines, one secret on each; {MAKE}", named()));
    }
    match lines.iter().position(|line| line.len() < shortest) {
        None => Ok(lines),
        Some(short) => Err(format!(
            "{}: secret {} (empty lines not counted) is shorter than {shortest} characters; {MAKE}",
            named(),
            short + 1
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_lines() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys");
        let read = || read_secret_lines("key_file", &path, 8);
        assert!(read().unwrap_err().contains("cannot be read"));
        let many = "a-good-secret\n".repeat(MOST_SECRETS + 1);
        for (text, problem) in [
            ("", "1 to 16 lines"),
            ("\n \n", "1 to 16 lines"),
            (many.as_str(), "1 to 16 lines"),
            ("1234567\n", "secret 1"),
            ("12345678\n\nshort\n", "secret 2"),
        ] {
            std::fs::write(&path, text).unwrap();
            let found = read().unwrap_err();
            assert!(found.contains(problem) && found.contains("keys'"), "{found}");
            assert!(!found.contains("1234567") && !found.contains("a-good"), "{found}");
        }
        std::fs::write(&path, " 12345678 \n\nanother one\n").unwrap();
        assert_eq!(read().unwrap(), ["12345678", "another one"]);
    }
}
