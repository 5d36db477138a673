//! Regular expressions of conditions and maps. They take linear time, and work on bytes.

use regex::bytes::{Regex, RegexBuilder};

/// The most memory that an expression may take.
const MOST_BYTES: usize = 1 << 20;

/// Reads an expression; the error describes its problem.
pub(crate) fn read(text: &str, ignore_case: bool) -> Result<Regex, String> {
    let built =
        RegexBuilder::new(text).unicode(false).case_insensitive(ignore_case).size_limit(MOST_BYTES).build();
    built.map_err(|error| last_line(&error.to_string()).to_string())
}

/// The regex crate marks the place on several lines; the last one describes the problem.
fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or(text).trim_start_matches("error: ")
}
