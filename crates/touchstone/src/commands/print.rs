//! Text for standard output. A reader that stops reading (`| head`) is not an error.

use std::io::{IsTerminal, Write};

/// A line with this many gaps of two spaces or more is a row of a table: it is broken only between its cells,
/// unless they are too long for a table.
const GAPS_OF_ROW: usize = 4;
/// A terminal narrower than this has no room to break lines between words.
const WIDTH_MIN: usize = 20;

/// Writes the text, and a line end unless it has one.
pub(super) fn print(text: &str) {
    let mut output = std::io::stdout().lock();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    // If standard output is closed, the error is ignored.
    let _ = output.write_all(text.as_bytes()).and_then(|()| output.write_all(end.as_bytes()));
    let _ = output.flush();
}

/// Writes text for people: on a terminal, lines that are too wide are broken between words. Elsewhere lines
/// are unchanged, since programs that read them count lines.
pub(super) fn print_for_reading(text: &str) {
    match terminal_width() {
        Some(width) => print(&broken(text, width)),
        None => print(text),
    }
}

/// The columns of the terminal on standard output.
fn terminal_width() -> Option<usize> {
    let output = std::io::stdout();
    let size = if output.is_terminal() { rustix::termios::tcgetwinsize(output).ok()? } else { return None };
    Some(usize::from(size.ws_col)).filter(|width| *width >= WIDTH_MIN)
}

/// The text with no line longer than the width, except for long words.
fn broken(text: &str, width: usize) -> String {
    let mut all = String::with_capacity(text.len() + text.len() / 16);
    for line in text.lines() {
        break_line(&mut all, line, width);
    }
    all
}

/// A continued line is aligned with the text that it continues.
fn break_line(all: &mut String, line: &str, width: usize) {
    if line.chars().count() <= width {
        all.push_str(line);
        all.push('\n');
        return;
    }
    let hang = hang(line, width);
    let cells: Vec<&str> = line.split("  ").filter(|cell| !cell.is_empty()).collect();
    let is_row = cells.len() > GAPS_OF_ROW && cells.iter().all(|cell| cell.chars().count() < width / 2);
    let gap = if is_row { "  " } else { " " };
    let (mut column, mut begins_line) = (0, true);
    // A word includes the spaces before it, which keep columns aligned.
    let mut rest = line;
    while !rest.is_empty() {
        let spaces = rest.len() - rest.trim_start_matches(' ').len();
        let end = end_of_word(&rest[spaces..], gap).map_or(rest.len(), |at| spaces + at);
        let (word, length) = (&rest[spaces..end], rest[spaces..end].chars().count());
        if !begins_line && column + spaces + length > width {
            all.push('\n');
            all.extend(std::iter::repeat_n(' ', hang));
            column = hang;
        } else {
            all.push_str(&rest[..spaces]);
            column += spaces;
        }
        all.push_str(word);
        column += length;
        (begins_line, rest) = (false, &rest[end..]);
    }
    all.push('\n');
}

/// The end of the first word; a percent sign belongs to its number.
fn end_of_word(text: &str, gap: &str) -> Option<usize> {
    text.match_indices(gap).map(|(at, _)| at).find(|at| !text[at + gap.len()..].starts_with('%'))
}

/// The indentation of a continued line: below its last column of words, unless that is so far to the right
/// that little room is left.
fn hang(line: &str, width: usize) -> usize {
    let (mut hang, mut spaces) = (0, 0);
    for (column, character) in line.chars().enumerate() {
        if character != ' ' && (spaces >= 2 || column == spaces) && column <= width / 2 {
            hang = column;
        }
        spaces = if character == ' ' { spaces + 1 } else { 0 };
    }
    hang
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_are_broken_between_words_and_go_on_under_their_column() {
        let text = "Verdict\n  nginx answered most\nWhich?   the first of\n         all of them\n";
        assert_eq!(
            broken(text, 18),
            concat!(
                "Verdict\n  nginx answered\n  most\n",
                "Which?   the first\n         of\n         all of\n         them\n"
            )
        );
        assert_eq!(broken(text, 80), text);
        assert_eq!(broken("it waited for 55 % of the time", 17), "it waited for\n55 % of the time\n");
        assert_eq!(broken("report: /a/very/long/path.html", 20), "report:\n/a/very/long/path.html\n");
        let row = "  clients  requests/s  mean ms  server CPU  errors";
        assert_eq!(broken(row, 40), "  clients  requests/s  mean ms\n           server CPU  errors\n");
        // Columns of figures keep their position, and no continuation starts so far to the right.
        assert_eq!(
            broken("  16   61,234   12.5  peak of all", 24),
            "  16   61,234   12.5\n       peak of all\n"
        );
    }

    proptest! {
        #[test]
        fn no_word_is_broken_or_lost(text in "[a-zé ]{0,200}", width in 20usize..60) {
            let broken = broken(&text, width);
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            prop_assert_eq!(words(&broken), words(&text));
            for line in broken.lines() {
                let length = line.chars().count();
                prop_assert!(length <= width || words(line).len() <= 1 || line.ends_with(' '), "{line:?}");
            }
        }
    }
}
