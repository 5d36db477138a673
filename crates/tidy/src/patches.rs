//! The planted faults of the simulator: patches of the sources in `crates/simulation/faults`. A patch that no
//! longer fits is found here, and not only when `make planted-faults` runs.

use crate::exceptions::Fault;
use crate::tree::{self, SourceFile};

/// The directory of the patches.
const DIRECTORY: &str = "crates/simulation/faults";

/// Every hunk of every patch fits the file that it names.
pub fn planted_faults_fit(files: &[SourceFile]) -> Vec<Fault> {
    let mut patches: Vec<_> = std::fs::read_dir(tree::top().join(DIRECTORY))
        .map(|entries| entries.filter_map(Result::ok).map(|entry| entry.path()).collect())
        .unwrap_or_default();
    patches.sort();
    let mut faults = Vec::new();
    for patch in patches {
        let name = patch.file_name().unwrap_or_default().to_string_lossy();
        let subject = format!("{DIRECTORY}/{name}");
        let misfit = match std::fs::read_to_string(&patch) {
            Ok(text) => misfit(&text, files),
            Err(error) => Some(format!("cannot be read: {error}")),
        };
        if let Some(misfit) = misfit {
            faults.push(Fault { text: format!("{subject}: {misfit}"), subject });
        }
    }
    faults
}

/// Why a patch does not fit; `None`: it does.
fn misfit(patch: &str, files: &[SourceFile]) -> Option<String> {
    let mut path = None;
    let mut hunks: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in patch.lines() {
        if let Some(name) = line.strip_prefix("+++ b/") {
            path = Some(name);
        } else if line.starts_with("@@") {
            hunks.push((path?, Vec::new()));
        } else if let (Some((_, old)), Some(kept)) = (hunks.last_mut(), line.strip_prefix([' ', '-'])) {
            // The head of the next file begins with hyphens too.
            if !line.starts_with("--- a/") {
                old.push(kept);
            }
        } else if let (true, Some((_, old))) = (line.is_empty(), hunks.last_mut()) {
            old.push("");
        }
    }
    if hunks.is_empty() {
        return Some("it has no hunks".to_owned());
    }
    for (name, old) in hunks {
        let Some(file) = files.iter().find(|file| file.path == name) else {
            return Some(format!("{name} does not exist"));
        };
        let lines: Vec<&str> = file.text.lines().collect();
        if !lines.windows(old.len()).any(|window| window == old) {
            return Some(format!("{name} has no such lines:\n{}", old.join("\n")));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_fits_where_its_old_lines_are() {
        let files = [SourceFile { path: "a.rs".to_owned(), text: "one\ntwo\n\nthree\n".to_owned() }];
        let patch = |old: &str| format!("--- a/a.rs\n+++ b/a.rs\n@@ -1,3 +1,3 @@\n {old}\n-two\n+2\n \n");
        assert_eq!(misfit(&patch("one"), &files), None);
        assert!(misfit(&patch("other"), &files).unwrap().contains("no such lines"));
        assert!(misfit(&patch("one"), &[]).unwrap().contains("does not exist"));
        assert!(misfit("", &files).is_some());
    }
}
