//! The subjects of commits, from the commit on that added this crate.

use std::process::Command;

use crate::exceptions::Fault;

/// The longest subject.
pub const COLUMNS: usize = 72;

/// Subjects that are too long. Empty where there is no git or no history.
pub fn long_subjects() -> Vec<Fault> {
    let added = git(&["log", "--diff-filter=A", "--format=%H", "--", "crates/tidy/src/commits.rs"]);
    let Some(first) = added.lines().last() else { return Vec::new() };
    git(&["log", "--no-merges", "--format=%h %s", &format!("{first}..HEAD")])
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(_, subject)| subject.chars().count() > COLUMNS)
        .map(|(hash, subject)| Fault {
            subject: hash.to_owned(),
            text: format!("{hash}: the subject has more than {COLUMNS} characters: {subject}"),
        })
        .collect()
}

fn git(arguments: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(crate::tree::top()).args(arguments).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}
