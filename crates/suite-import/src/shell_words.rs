//! The words of a command line, as a POSIX shell splits them, without running or expanding anything; and as
//! the command line of Windows splits them, in the form that browsers copy for it (`curl ^"https://..."`).

/// The words of a command; an error has its line.
pub(super) fn words(text: &str) -> Result<Vec<String>, (usize, String)> {
    let is_of_windows =
        text.split_once(char::is_whitespace).is_some_and(|(_, rest)| rest.trim_start().starts_with("^\""));
    if is_of_windows { posix_words(&without_carets(text)) } else { posix_words(text) }
}

/// A command after the command line of Windows has removed its own escapes: a caret makes the next character
/// a plain one, and joins lines.
fn without_carets(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().filter(|character| *character != '\r').peekable();
    while let Some(character) = characters.next() {
        if character != '^' {
            out.push(character);
            continue;
        }
        characters.next_if_eq(&'\n');
        out.extend(characters.next());
    }
    out
}

/// The words of POSIX (Shell Command Language, 2.2), and `$'...'` of later shells.
fn posix_words(text: &str) -> Result<Vec<String>, (usize, String)> {
    let (mut words, mut word): (Vec<String>, Option<String>) = (Vec::new(), None);
    let (mut line, mut characters) = (1, text.chars().peekable());
    while let Some(character) = characters.next() {
        match character {
            '\n' | ' ' | '\t' | '\r' => {
                line += usize::from(character == '\n');
                words.extend(word.take());
            }
            '\\' => match characters.next() {
                Some('\n') => line += 1,
                // A continuation of Windows.
                Some('\r') => {}
                Some(next) => word.get_or_insert_default().push(next),
                None => return Err((line, "the command ends with a backslash".to_string())),
            },
            '\'' | '"' => {
                let start_line = line;
                let into = word.get_or_insert_default();
                if !quoted(character, false, &mut characters, into, &mut line) {
                    return Err((start_line, format!("the quote {character} is not closed")));
                }
            }
            '$' if characters.peek() == Some(&'\'') => {
                characters.next();
                let start_line = line;
                if !quoted('\'', true, &mut characters, word.get_or_insert_default(), &mut line) {
                    return Err((start_line, "the quote $' is not closed".to_string()));
                }
            }
            ';' | '|' | '&' | '<' | '>' | '`' => {
                return Err((
                    line,
                    format!("{character:?} outside quotes is for the shell: leave it and what follows out"),
                ));
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}

/// The text in quotes; false if they are not closed. `escapes`: those of C are read.
fn quoted(
    quote: char,
    escapes: bool,
    characters: &mut std::iter::Peekable<std::str::Chars<'_>>,
    into: &mut String,
    line: &mut usize,
) -> bool {
    while let Some(character) = characters.next() {
        *line += usize::from(character == '\n');
        match character {
            end if end == quote => return true,
            '\\' if escapes => match characters.next() {
                Some('n') => into.push('\n'),
                Some('r') => into.push('\r'),
                Some('t') => into.push('\t'),
                Some(kind @ ('u' | 'x')) => {
                    let mut digits = String::new();
                    while let Some(digit) = characters.peek().filter(|c| c.is_ascii_hexdigit())
                        && digits.len() < if kind == 'u' { 4 } else { 2 }
                    {
                        digits.push(*digit);
                        characters.next();
                    }
                    let code = u32::from_str_radix(&digits, 16).ok();
                    into.push(code.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                Some(other) => into.push(other),
                None => return false,
            },
            '\\' if quote == '"' => match characters.next() {
                Some('\n') => *line += 1,
                Some(special @ ('"' | '\\' | '$' | '`')) => into.push(special),
                Some(other) => into.extend(['\\', other]),
                None => return false,
            },
            other => into.push(other),
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quotes_and_continued_lines_are_read() {
        assert_eq!(words("a 'b c' \"d \\\" \\x\" \\\n e\\ f''").unwrap(), ["a", "b c", "d \" \\x", "e f"]);
        assert_eq!(words(r"a $'b\n\u00e9\x41'").unwrap(), ["a", "b\n\u{e9}A"]);
        assert_eq!(words("a\n'b").unwrap_err().0, 2);
    }

    #[test]
    fn the_form_for_windows_is_read() {
        // As Chromium copies it: a caret before each special character of the command line, with the quotes
        // of the C library inside.
        let command = "curl.exe ^\"http://h/a?b=1^&c=^%^20d^\" ^\r\n  -H ^\"accept: text/html^\" ^\r\n  \
                       --data-raw ^\"^{^\\^\"a^\\^\":^\n\n1^}^\"";
        assert_eq!(
            words(command).unwrap(),
            ["curl.exe", "http://h/a?b=1&c=%20d", "-H", "accept: text/html", "--data-raw", "{\"a\":\n1}"]
        );
    }

    proptest! {
        #[test]
        fn any_text_in_quotes_is_a_word(text in "[^']{0,40}") {
            prop_assert_eq!(words(&format!("a '{text}' b")).unwrap(), ["a", &text, "b"]);
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "a ?(\\^\"|[\\^\"'$\\\\nx \n\r]|\\PC){0,40}") {
            let _ = words(&text);
        }
    }
}
