//! Text of the report that is not markup: outside strings made visible and harmless, lists as a person writes
//! them, and the estimate of how wide a label will be.

use std::fmt::Write;
use touchstone_lab::result::MixResult;

/// The most characters of a sentence of the result file: a reason, a warning.
pub(super) const SENTENCE_LIMIT: usize = 1000;

/// Makes an outside string safe to display: control characters become their pictures (ESC is `␛`), and
/// characters that change the direction of the text, or are invisible, become their code points. Newlines and
/// tabs are kept.
pub(super) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => shown.push(character),
            '\0'..='\u{1f}' => shown.push(char::from_u32(0x2400 + character as u32).unwrap_or('\u{fffd}')),
            '\u{7f}' => shown.push('\u{2421}'),
            '\u{80}'..='\u{9f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{fffe}'
            | '\u{ffff}' => {
                let _ = write!(shown, "\u{27e8}U+{:04X}\u{27e9}", character as u32);
            }
            _ => shown.push(character),
        }
    }
    shown
}

/// One line of at most `limit` characters; what is cut off is shown by an ellipsis. No line of the page ends
/// between a number and its percent sign.
pub(super) fn line(text: &str, limit: usize) -> String {
    let one = visible(text).split_whitespace().collect::<Vec<_>>().join(" ").replace(" %", "\u{a0}%");
    if one.chars().count() <= limit {
        return one;
    }
    let mut cut: String = one.chars().take(limit.saturating_sub(1)).collect();
    cut.truncate(cut.trim_end().len());
    cut.push('…');
    cut
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// `1 client`, `16 clients`.
pub(super) fn clients(number: u64) -> String {
    format!("{}\u{a0}{}", super::number::count(number), if number == 1 { "client" } else { "clients" })
}

/// The load of a mix: `16 clients`, or of an open load `2,000 arrivals/s`.
pub(super) fn load(mix: &MixResult) -> String {
    mix.load_in_words().replace(' ', "\u{a0}")
}

/// How wide a label will be at most, in pixels, in the widest of the common sans-serif faces (DejaVu Sans,
/// Verdana). It must not be too small, as room is kept by it; in most faces it is a little too large.
pub(super) fn width(text: &str, font_size: f64) -> f64 {
    let em: f64 = text
        .chars()
        .map(|character| match character {
            'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 0.38,
            ' ' | '\u{a0}' | 'f' | 't' | 'r' | '(' | ')' | '/' | '-' | '[' | ']' => 0.45,
            'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' => 1.0,
            'A'..='Z' => 0.76,
            '\u{2e80}'..='\u{10ffff}' => 1.1,
            _ => 0.66,
        })
        .sum();
    em * font_size
}

/// A label cut so that it takes no more than `room` pixels.
pub(super) fn fitted(text: &str, font_size: f64, room: f64) -> String {
    let mut limit = text.chars().count();
    let mut cut = line(text, limit.max(1));
    while limit > 1 && width(&cut, font_size) > room {
        limit -= 1;
        cut = line(text, limit);
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown() {
        assert_eq!(visible("a\u{1b}[31mred\0\n\tb\r"), "a␛[31mred␀\n\tb␍");
        assert_eq!(visible("x\u{202e}y\u{feff}"), "x⟨U+202E⟩y⟨U+FEFF⟩");
    }

    #[test]
    fn long_labels_are_cut() {
        assert_eq!(line("nginx  1.22.1\n", 40), "nginx 1.22.1");
        assert_eq!(line("abcdefgh", 5), "abcd…");
        let cut = fitted("http://127.0.0.1:8080/a/very/long/path/to/a/file.html", 13.0, 120.0);
        assert!(cut.ends_with('…') && width(&cut, 13.0) <= 120.0, "{cut}");
        assert_eq!(fitted("nginx 1.22.1", 13.0, 200.0), "nginx 1.22.1");
        assert_eq!(fitted("", 13.0, 10.0), "");
    }

    #[test]
    fn lists_read_as_sentences() {
        let words = |items: &[&str]| list(&items.iter().map(|&item| item.to_owned()).collect::<Vec<_>>());
        assert_eq!(words(&[]), "");
        assert_eq!(words(&["a"]), "a");
        assert_eq!(words(&["a", "b"]), "a and b");
        assert_eq!(words(&["a", "b", "c"]), "a, b and c");
        assert_eq!(clients(1), "1\u{a0}client");
    }
}
