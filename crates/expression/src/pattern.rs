//! Regular expressions of conditions, maps and routes. They take linear time, and work on bytes.

use regex::bytes::{Regex, RegexBuilder};

/// The most memory that an expression may take.
const MOST_BYTES: usize = 1 << 20;

/// Reads an expression; the error describes its problem.
pub(crate) fn read(text: &str, ignore_case: bool) -> Result<Regex, String> {
    let built = build(RegexBuilder::new(text).case_insensitive(ignore_case));
    built.map_err(|error| last_line(&error.to_string()).to_string())
}

/// Reads an expression for paths, which may hold any bytes: a dot matches line ends too.
pub fn for_path(text: &str) -> Result<Regex, String> {
    build(RegexBuilder::new(text).dot_matches_new_line(true)).map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "the expression is too large when it is compiled".to_string(),
        other => format!("not a regular expression: {}", last_line(&other.to_string())),
    })
}

fn build(builder: &mut RegexBuilder) -> Result<Regex, regex::Error> {
    builder.unicode(false).size_limit(MOST_BYTES).build()
}

/// The regex crate marks the place on several lines; the last one describes the problem.
fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or(text).trim_start_matches("error: ")
}
