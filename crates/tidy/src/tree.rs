//! The text files of the source tree.

use std::path::{Path, PathBuf};

/// One text file of the tree.
pub struct SourceFile {
    /// The path from the top of the tree, with `/`.
    pub path: String,
    /// What the file contains.
    pub text: String,
}

impl SourceFile {
    /// What stands behind the last dot of the file's name, or the whole name.
    pub fn kind(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        name.rsplit('.').next().unwrap_or(name)
    }
}

/// The kinds of files that are checked.
const KINDS: [&str; 10] = ["rs", "md", "sh", "toml", "java", "c", "h", "js", "css", "Makefile"];

/// Directories that are built, fetched or found by fuzzing.
const NOT_SOURCES: [&str; 7] = [".git", "target", "results", "corpus", "artifacts", "node_modules", "seeds"];

/// The top of the source tree.
pub fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every text file of the tree, by path.
pub fn files() -> std::io::Result<Vec<SourceFile>> {
    let mut found = Vec::new();
    let mut directories = vec![(top(), String::new())];
    while let Some((directory, shown)) = directories.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{shown}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() {
                if !NOT_SOURCES.contains(&name.as_str()) {
                    directories.push((entry.path(), format!("{path}/")));
                }
            } else if kind.is_file() {
                let file = SourceFile { path, text: String::new() };
                if KINDS.contains(&file.kind()) {
                    let text = std::fs::read_to_string(entry.path())?;
                    found.push(SourceFile { text, ..file });
                }
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}
