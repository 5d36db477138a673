//! Regular expressions over bytes, with the flags of the conditions' grammars.

use std::ops::Range;

use regex::bytes::{Regex, RegexBuilder};

/// The maximum size of a compiled expression; it is sufficient for any hand-written one.
const MOST_COMPILED_BYTES: usize = 256 * 1024;

/// A regular expression.
#[derive(Debug, Clone)]
pub(super) struct RegularExpression(Regex);

impl RegularExpression {
    /// Compiles a pattern; `flags` are `i` (any case), `s` (a dot matches line ends), `m` (`^` and `$` at
    /// every line) and `g` (for substitutions, ignored here).
    pub(super) fn new(pattern: &[u8], flags: &[u8]) -> Result<RegularExpression, String> {
        let text = escape_high_bytes(pattern);
        let compiled = RegexBuilder::new(&text)
            // Pages may use any charset, so a pattern matches bytes.
            .unicode(false)
            .case_insensitive(flags.contains(&b'i'))
            .dot_matches_new_line(flags.contains(&b's'))
            .multi_line(flags.contains(&b'm'))
            .size_limit(MOST_COMPILED_BYTES)
            .dfa_size_limit(MOST_COMPILED_BYTES)
            .nest_limit(super::limits::MOST_NESTING as u32)
            .build();
        compiled.map(RegularExpression).map_err(|error| {
            let reason = match error {
                regex::Error::Syntax(message) => message.lines().last().unwrap_or_default().trim().to_owned(),
                error => error.to_string(),
            };
            format!("regular expression {:?}: {reason}", String::from_utf8_lossy(pattern))
        })
    }

    /// Whether the pattern has groups.
    pub(super) fn has_groups(&self) -> bool {
        self.0.captures_len() > 1
    }

    pub(super) fn is_match(&self, subject: &[u8]) -> bool {
        self.0.is_match(subject)
    }

    /// The whole match and its groups, at most ten.
    pub(super) fn groups(&self, subject: &[u8]) -> Option<Vec<Option<Range<usize>>>> {
        let captures = self.0.captures(subject)?;
        Some(captures.iter().take(10).map(|group| group.map(|group| group.range())).collect())
    }

    /// The first match and its position.
    pub(super) fn find_at(&self, subject: &[u8], start: usize) -> Option<Range<usize>> {
        self.0.find_at(subject, start).map(|found| found.range())
    }

    /// The groups of the first match from `start` on.
    pub(super) fn groups_at(&self, subject: &[u8], start: usize) -> Option<Vec<Option<Range<usize>>>> {
        let captures = self.0.captures_at(subject, start)?;
        Some(captures.iter().take(10).map(|group| group.map(|group| group.range())).collect())
    }

    /// The names of groups with their indexes.
    pub(super) fn names(&self) -> impl Iterator<Item = (usize, &str)> {
        self.0.capture_names().enumerate().filter_map(|(index, name)| Some((index, name?)))
    }
}

/// The pattern as text: bytes above ASCII become escapes, because the pattern may not be UTF-8.
fn escape_high_bytes(pattern: &[u8]) -> String {
    let mut text = String::with_capacity(pattern.len());
    for &byte in pattern {
        if byte.is_ascii() {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}
