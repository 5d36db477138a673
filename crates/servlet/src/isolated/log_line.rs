//! A message of a child for the log, as one line of its standard output: `log LEVEL TEXT`. Line feeds of the
//! text are written as `\n`, and backslashes are doubled.

/// The line, without its end.
pub fn write(level: i32, text: &str) -> String {
    format!("log {level} {}", text.replace('\\', "\\\\").replace('\n', "\\n"))
}

/// Reads the level and the text after `log ` in a line.
pub fn read(line: &str) -> (i32, String) {
    let (level, escaped) = line.split_once(' ').unwrap_or(("2", line));
    let mut text = String::with_capacity(escaped.len());
    let mut letters = escaped.chars();
    while let Some(letter) = letters.next() {
        // An application may write such lines, too: an invalid escape is kept as it is.
        text.push(match letter {
            '\\' => match letters.next() {
                Some('n') => '\n',
                Some(other) => other,
                None => letter,
            },
            _ => letter,
        });
    }
    (level.parse().unwrap_or(2), text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn texts_arrive_as_they_were_said(level in 0..4, text in "(\\PC|[\\\\n\\n\\r\\t]){0,40}") {
            let line = write(level, &text);
            prop_assert!(!line.contains('\n'));
            prop_assert_eq!(read(line.strip_prefix("log ").unwrap()), (level, text));
        }

        #[test]
        fn whatever_an_application_writes_is_read(line: String) {
            read(&line);
        }
    }

    #[test]
    fn lines_of_others() {
        assert_eq!(read("word"), (2, "word".to_string()));
        assert_eq!(read("9x a\\"), (2, "a\\".to_string()));
    }
}
