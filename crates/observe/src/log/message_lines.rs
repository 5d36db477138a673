//! A message of several lines, such as a stack of Java, as lines of the error log.
//!
//! ```text
//! 2026-11-20T10:00:00.123Z error java: the servlet has failed java.lang.IllegalStateException: no stock
//! 2026-11-20T10:00:00.123Z error java |     at shop.Cart.add(Cart.java:42)
//! ```
//!
//! Such a message may contain bytes of a client, including line feeds. So that they cannot imitate an entry,
//! each line except the first has a mark in the place of the first line's colon, and no text of a message can
//! produce this mark.

use std::borrow::Cow;

/// The lines at the beginning of a message that are written: they describe the event.
const FIRST_LINES: usize = 150;

/// The lines at its end that are written: in a stack trace of Java they contain the cause.
const LAST_LINES: usize = 50;

/// The lines of a message from `who`. In a long message, a line with their number replaces those in the
/// middle. A tab becomes four spaces, and empty lines are left out.
pub fn message_lines<'m>(who: &'m str, message: &'m str) -> impl Iterator<Item = String> + 'm {
    let texts: Vec<&str> = message.lines().map(str::trim_end).filter(|text| !text.is_empty()).collect();
    // Replacing a single line would save nothing.
    let left_out =
        Some(texts.len().saturating_sub(FIRST_LINES + LAST_LINES)).filter(|count| *count > 1).unwrap_or(0);
    let ends_at = if left_out > 0 { FIRST_LINES } else { texts.len() };
    let last = texts[ends_at + left_out..].to_vec();
    let first = texts.into_iter().take(ends_at).map(Cow::Borrowed);
    let gap = (left_out > 0).then(|| Cow::Owned(format!("... {left_out} lines left out ...")));
    first.chain(gap).chain(last.into_iter().map(Cow::Borrowed)).enumerate().map(move |(index, text)| {
        let mark = if index == 0 { ":" } else { " |" };
        format!("{who}{mark} {}", text.replace('\t', "    "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(message: &str) -> Vec<String> {
        message_lines("java", message).collect()
    }

    #[test]
    fn a_stack_is_readable() {
        assert_eq!(lines("printed"), ["java: printed"]);
        assert_eq!(
            lines("failed a.B: no\r\n\tat a.C(C.java:1)\n\nCaused by: a.D\n\t... 3 more\n"),
            [
                "java: failed a.B: no",
                "java |     at a.C(C.java:1)",
                "java | Caused by: a.D",
                "java |     ... 3 more"
            ]
        );
        assert!(lines("").is_empty() && lines("\n \r\n").is_empty());
    }

    #[test]
    fn a_long_one_keeps_its_beginning_and_its_end() {
        let numbered_lines =
            |count: usize| (0..count).map(|number| format!("{number}\n")).collect::<String>();
        let whole = lines(&numbered_lines(201));
        assert_eq!((whole.len(), whole[200].as_str()), (201, "java | 200"));
        let cut = lines(&numbered_lines(202));
        assert_eq!(cut.len(), 201);
        assert_eq!(cut[149..152], ["java | 149", "java | ... 2 lines left out ...", "java | 152"]);
        let cut = lines(&numbered_lines(1_000));
        assert_eq!((cut.len(), cut[150].as_str()), (201, "java | ... 800 lines left out ..."));
        assert_eq!((cut[151].as_str(), cut[200].as_str()), ("java | 950", "java | 999"));
    }

    proptest! {
        /// Whatever a client can put into a message: one entry, and marked lines behind it.
        #[test]
        fn nothing_makes_a_second_entry(message in "(\\PC|[\\r\\n\\t|:]|java: ){0,60}") {
            for (index, line) in lines(&message).iter().enumerate() {
                let begin = if index == 0 { "java: " } else { "java | " };
                prop_assert!(line.starts_with(begin));
                prop_assert!(!line.contains('\n'));
            }
        }
    }
}
