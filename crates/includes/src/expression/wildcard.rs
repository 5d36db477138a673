//! Wildcard patterns for `-strmatch`, `-strcmatch` and `-fnmatch`: `*`, `?`, `[a-z]`, `[!a-z]`, `\`.

/// Whether `subject` matches `pattern`. With `paths`, no wildcard matches a slash.
pub(super) fn matches(pattern: &[u8], subject: &[u8], any_case: bool, paths: bool) -> bool {
    let same = |one: u8, other: u8| one == other || (any_case && one.eq_ignore_ascii_case(&other));
    let (mut at, mut position) = (0, 0);
    // The positions for backtracking if the part after the last star does not match: one byte further on.
    let mut star: Option<(usize, usize)> = None;
    while position < subject.len() {
        let byte = subject[position];
        let step = match pattern.get(at) {
            Some(b'*') => {
                star = Some((at + 1, position));
                at += 1;
                continue;
            }
            Some(b'?') if !(paths && byte == b'/') => Some(at + 1),
            Some(b'?') => None,
            Some(b'[') => match set(&pattern[at..], byte, any_case) {
                Some((true, length)) if !(paths && byte == b'/') => Some(at + length),
                Some(_) => None,
                // Without a closing bracket it is literal.
                None => (byte == b'[').then_some(at + 1),
            },
            Some(b'\\') if at + 1 < pattern.len() => same(pattern[at + 1], byte).then_some(at + 2),
            Some(&literal) => same(literal, byte).then_some(at + 1),
            None => None,
        };
        match (step, star) {
            (Some(next), _) => {
                at = next;
                position += 1;
            }
            (None, Some((after, from))) if !(paths && subject[from] == b'/') => {
                star = Some((after, from + 1));
                at = after;
                position = from + 1;
            }
            (None, _) => return false,
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

/// Whether `byte` is in the set at the beginning of `pattern`, and the length of the set in the pattern.
fn set(pattern: &[u8], byte: u8, any_case: bool) -> Option<(bool, usize)> {
    let mut at = 1;
    let negated = matches!(pattern.get(at), Some(b'!' | b'^'));
    at += usize::from(negated);
    let mut found = false;
    let first = at;
    loop {
        let mut low = *pattern.get(at)?;
        if low == b']' && at > first {
            return Some((found != negated, at + 1));
        }
        if low == b'\\' {
            at += 1;
            low = *pattern.get(at)?;
        }
        at += 1;
        let mut high = low;
        if pattern.get(at) == Some(&b'-') && pattern.get(at + 1).is_some_and(|&next| next != b']') {
            high = pattern[at + 1];
            at += 2;
            if high == b'\\' {
                high = *pattern.get(at)?;
                at += 1;
            }
        }
        let within = |byte: u8| (low..=high).contains(&byte);
        found |= within(byte)
            || (any_case && (within(byte.to_ascii_lowercase()) || within(byte.to_ascii_uppercase())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns() {
        let table: [(&str, &str, bool); 18] = [
            ("", "", true),
            ("*", "", true),
            ("a*c", "abbbc", true),
            ("a*c", "abbbd", false),
            ("*.html", "/x/y.html", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[^a-c]x", "dx", true),
            ("[]]", "]", true),
            ("[a", "[a", true),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("**b", "aab", true),
            ("a*", "b", false),
            ("[a-]", "-", true),
            ("a", "A", false),
        ];
        for (pattern, subject, expected) in table {
            assert_eq!(
                matches(pattern.as_bytes(), subject.as_bytes(), false, false),
                expected,
                "{pattern} {subject}"
            );
        }
        assert!(matches(b"A[x-z]", b"aY", true, false));
        assert!(!matches(b"/*", b"/a/b", false, true));
        assert!(matches(b"/*/b", b"/a/b", false, true));
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(
            pattern in "[a*?\\[\\]!^\\\\-]{0,20}",
            subject in "[a/*-]{0,40}",
            any_case: bool,
            paths: bool,
        ) {
            matches(pattern.as_bytes(), subject.as_bytes(), any_case, paths);
        }
    }
}
