//! Logical lines: without comments and empty lines, and with continuations joined.

use std::sync::Arc;

use super::{Problem, SourceLocation, Stage};

/// The longest line with its continuations, in bytes: CONF_MAXLEN.
pub const LONGEST_LINE_BYTES: usize = 16_384;

/// The longest file in bytes.
pub const LONGEST_FILE_BYTES: usize = 4 * 1024 * 1024;

/// A line with its continuations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The line at which it begins.
    pub location: SourceLocation,
    /// Its bytes, with a space before each continuation.
    pub text: Vec<u8>,
}

/// Reads the lines of a file. A line that begins with white space continues the previous line, except that an
/// indented tag or directive name begins a new line. A line that begins with `#` is a comment; it may be
/// between a line and its continuation.
pub fn logical_lines(file: &Arc<str>, text: &[u8], problems: &mut Vec<Problem>) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut too_long = 0;
    if text.len() > LONGEST_FILE_BYTES {
        let location = SourceLocation { file: file.clone(), line: 1 };
        problems.push(Problem {
            location,
            message: format!("the file is longer than {LONGEST_FILE_BYTES} bytes"),
        });
        return lines;
    }
    for (index, raw) in text.split(|byte| *byte == b'\n').enumerate() {
        let raw = raw.strip_suffix(b"\r").unwrap_or(raw);
        let words = raw.trim_ascii();
        if words.is_empty() || words[0] == b'#' {
            continue;
        }
        let location = SourceLocation { file: file.clone(), line: index + 1 };
        if words.contains(&0) {
            problems.push(Problem { location, message: "the line contains a NUL byte".to_string() });
            continue;
        }
        let is_continuation = raw[0].is_ascii_whitespace() && !begins_a_line(words);
        match lines.last_mut() {
            Some(last) if is_continuation => {
                last.text.push(b' ');
                last.text.extend_from_slice(words);
                if last.text.len() > LONGEST_LINE_BYTES && too_long != last.location.line {
                    too_long = last.location.line;
                    problems.push(too_long_problem(last.location.clone()));
                }
            }
            _ if is_continuation => problems.push(Problem {
                location,
                message: "the first line begins with white space, as if it continued another".to_string(),
            }),
            _ => {
                if words.len() > LONGEST_LINE_BYTES {
                    problems.push(too_long_problem(location.clone()));
                }
                lines.push(Line { location, text: words.to_vec() });
            }
        }
    }
    lines
}

fn too_long_problem(location: SourceLocation) -> Problem {
    Problem {
        location,
        message: format!("the line with its continuations is longer than {LONGEST_LINE_BYTES} bytes"),
    }
}

fn begins_a_line(words: &[u8]) -> bool {
    if words[0] == b'<' {
        return true;
    }
    let end = words.iter().position(u8::is_ascii_whitespace).unwrap_or(words.len());
    let first = &words[..end];
    first.eq_ignore_ascii_case(b"Init")
        || Stage::ALL.iter().any(|stage| first.eq_ignore_ascii_case(stage.name().as_bytes()))
}
