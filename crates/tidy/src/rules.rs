//! The rules. Each returns what breaks it.

use std::collections::BTreeMap;

use crate::exceptions::Fault;
use crate::imports;
use crate::tree::SourceFile;
use crate::workspace::Workspace;

/// The longest line of code and prose, in characters.
pub const COLUMNS: usize = 110;

/// The longest function, from `fn` to its closing brace.
pub const FUNCTION_LINES: usize = 100;

/// The longest crate, in lines without its tests.
pub const CRATE_LINES: usize = 15_000;

/// A crate uses only crates that stand before it in the root Cargo.toml.
pub fn crates_use_only_earlier_ones(workspace: &Workspace) -> Vec<Fault> {
    let place = |name: &str| workspace.crates.iter().position(|it| it.name == name);
    let mut faults = Vec::new();
    for (at, krate) in workspace.crates.iter().enumerate() {
        for used in krate.uses.iter().filter(|used| place(used).is_none_or(|other| other >= at)) {
            let name = &krate.name;
            let text =
                format!("crates/{name} uses crates/{used}, which does not stand before it in `members`");
            faults.push(Fault { subject: format!("{name} -> {used}"), text });
        }
    }
    faults
}

/// Siblings do not import each other in a circle.
pub fn modules_import_one_way(workspace: &Workspace) -> Vec<Fault> {
    let mut faults = Vec::new();
    for krate in &workspace.crates {
        for (parent, edges) in imports::modules(workspace, &krate.name).levels {
            let shown = [std::slice::from_ref(&krate.name), &parent[..]].concat().join("::");
            for edge in imports::circles(&edges) {
                let subject = format!("{shown}: {} -> {}", edge.0, edge.1);
                let text = format!("{subject} is part of a circle ({})", edges[&edge]);
                faults.push(Fault { subject, text });
            }
        }
    }
    faults
}

/// A module with children is `name/mod.rs`, not `name.rs` beside `name/`.
pub fn modules_with_children_are_mod_rs(workspace: &Workspace) -> Vec<Fault> {
    let is_parent = |path: &str| {
        let directory = format!("{}/", path.trim_end_matches(".rs"));
        path.contains("/src/") && workspace.rust.iter().any(|other| other.path.starts_with(&directory))
    };
    workspace
        .rust
        .iter()
        .filter(|file| is_parent(&file.path))
        .map(|file| Fault {
            subject: file.path.clone(),
            text: format!("{0}.rs has children: its name is {0}/mod.rs", file.path.trim_end_matches(".rs")),
        })
        .collect()
}

/// `allow` and `expect` say why.
pub fn allows_have_a_reason(workspace: &Workspace) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in &workspace.rust {
        for line in &file.allows_without_reason {
            let text = format!("{}:{line}: `allow` without a reason", file.path);
            faults.push(Fault { subject: file.path.clone(), text });
        }
    }
    faults
}

/// Functions fit on a screen or two.
pub fn functions_are_short(workspace: &Workspace) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in &workspace.rust {
        for function in file.functions.iter().filter(|function| function.lines > FUNCTION_LINES) {
            let subject = format!("{} {}", file.path, function.name);
            let text = format!("{subject} has {} lines, more than {FUNCTION_LINES}", function.lines);
            faults.push(Fault { subject, text });
        }
    }
    faults
}

/// Crates are small enough to be read.
pub fn crates_are_small(workspace: &Workspace) -> Vec<Fault> {
    let mut faults = Vec::new();
    for krate in &workspace.crates {
        let lines = imports::lines(workspace, &krate.name);
        if lines > CRATE_LINES {
            let text =
                format!("crates/{} has {lines} lines without tests, more than {CRATE_LINES}", krate.name);
            faults.push(Fault { subject: krate.name.clone(), text });
        }
    }
    faults
}

/// Lines fit beside each other on a screen.
pub fn lines_are_short(workspace: &Workspace) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in &workspace.files {
        for (number, line) in checked_lines(file) {
            let length = line.chars().count();
            if length > COLUMNS && line.split_whitespace().count() > 2 {
                let text = format!("{}:{number}: {length} columns, more than {COLUMNS}", file.path);
                faults.push(Fault { subject: file.path.clone(), text });
            }
        }
    }
    faults
}

/// Plain words: none of the words and phrases in `words.txt`.
pub fn words_are_plain(workspace: &Workspace) -> Vec<Fault> {
    let entries = include_str!("../words.txt").lines().filter(|line| !line.starts_with('#'));
    let entries = entries.filter_map(|line| line.split_once(": "));
    let (phrases, banned): (Vec<_>, Vec<_>) = entries.partition(|(word, _)| word.contains(' '));
    let banned: BTreeMap<&str, &str> = banned.into_iter().collect();
    let mut faults = Vec::new();
    for file in &workspace.files {
        for (number, line) in file.text.lines().enumerate() {
            let lower = line.to_ascii_lowercase();
            let single = words(&lower).filter(|(_, quoted)| !quoted);
            let single = single.filter_map(|(word, _)| Some((word, *banned.get(word)?)));
            let several = phrases.iter().filter(|(phrase, _)| has_phrase(&lower, phrase)).copied();
            for (word, instead) in single.chain(several) {
                let text = format!("{}:{}: \"{word}\": {instead}", file.path, number + 1);
                faults.push(Fault { subject: file.path.clone(), text });
            }
        }
    }
    faults
}

/// Whether a line contains a phrase as whole words.
fn has_phrase(line: &str, phrase: &str) -> bool {
    let is_letter = |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric());
    line.match_indices(phrase).any(|(at, _)| {
        let (before, after) = (line[..at].chars().next_back(), line[at + phrase.len()..].chars().next());
        !is_letter(before) && !is_letter(after)
    })
}

/// The lines of a file that have a limit: in Markdown not tables, code and what is generated.
fn checked_lines(file: &SourceFile) -> Vec<(usize, &str)> {
    let numbered = file.text.lines().enumerate().map(|(at, line)| (at + 1, line));
    if file.kind() != "md" {
        return numbered.collect();
    }
    let (mut in_code, mut in_generated) = (false, false);
    let mut kept = Vec::new();
    for (number, line) in numbered {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        if line.starts_with("<!-- ") && line.ends_with(":start -->") {
            in_generated = true;
        }
        if line.starts_with("<!-- ") && line.ends_with(":end -->") {
            in_generated = false;
        }
        if !in_code && !is_fence && !in_generated && !line.starts_with('|') {
            kept.push((number, line));
        }
    }
    kept
}

/// The words of a line, each with whether it stands alone in quotes or is part of a path or a name.
fn words(line: &str) -> impl Iterator<Item = (&str, bool)> {
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
    line.split(move |letter| !is_letter(letter)).filter(|word| !word.is_empty()).map(move |word| {
        let at = word.as_ptr() as usize - line.as_ptr() as usize;
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let marks = |letter: Option<char>| matches!(letter, Some('"' | '`' | ':' | '/' | '=' | '\'' | '-'));
        (word, marks(before) || (marks(after) && after != Some('\'')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_quotes_are_names() {
        let found: Vec<_> = words("user `nobody`, user=nobody, and nobody else's").collect();
        let is_quoted_at = |at: usize| found.iter().filter(|(word, _)| *word == "nobody").nth(at).unwrap().1;
        assert!(is_quoted_at(0) && is_quoted_at(1) && !is_quoted_at(2));
    }

    #[test]
    fn phrases_are_whole_words() {
        assert!(has_phrase("// it waited in vain.", "in vain") && has_phrase("in vain", "in vain"));
        assert!(!has_phrase("in vainer", "in vain") && !has_phrase("begin vain", "in vain"));
    }

    #[test]
    fn tables_and_code_of_markdown_have_no_limit() {
        let text = "prose\n| table |\n```sh\ncode\n```\n<!-- help:start -->\nhelp\n<!-- help:end -->\nmore\n"
            .to_owned();
        let file = SourceFile { path: "a.md".into(), text };
        let lines: Vec<&str> = checked_lines(&file).into_iter().map(|(_, line)| line).collect();
        assert_eq!(lines, ["prose", "<!-- help:end -->", "more"]);
    }
}
