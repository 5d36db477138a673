//! Converts regular expressions of other servers to those of this server, which match the whole path in
//! linear time.

/// Groups that need more than linear time.
const UNSUPPORTED_GROUPS: [(&str, &str); 5] = [
    ("(?=", "lookahead"),
    ("(?!", "lookahead"),
    ("(?<=", "lookbehind"),
    ("(?<!", "lookbehind"),
    ("(?>", "atomic groups"),
];

/// What the groups of an expression are called that this server does not support; `None`: it has none.
fn unsupported_group(expression: &str) -> Option<&'static str> {
    UNSUPPORTED_GROUPS.iter().find(|(sign, _)| expression.contains(*sign)).map(|(_, name)| *name)
}

/// Checks an expression that is not changed.
///
/// # Errors
/// The expression has groups that this server does not support.
pub fn check_groups(expression: &str) -> Result<(), String> {
    match unsupported_group(expression) {
        Some(_) => Err("expressions here have no lookahead and no lookbehind".to_string()),
        None => Ok(()),
    }
}

/// A text in quotes. A backslash is kept, because expressions need it.
///
/// # Errors
/// It has both kinds of quotes.
pub fn quoted(text: &str) -> Result<String, String> {
    match (text.contains('\''), text.contains('"')) {
        (false, _) => Ok(format!("'{text}'")),
        (true, false) => Ok(format!("\"{text}\"")),
        (true, true) => Err("a text with both kinds of quotes has no counterpart".to_string()),
    }
}

/// Converts an expression that may match anywhere in a path to one that must match the whole path.
///
/// # Errors
/// The expression uses a feature that needs more than linear time, which this server does not support.
pub fn whole_path(expression: &str, any_case: bool) -> Result<String, String> {
    if let Some(name) = unsupported_group(expression) {
        return Err(format!("expressions here have no {name}: write two routes, the narrower one first"));
    }
    if (1..=9).any(|number| expression.contains(&format!("\\{number}"))) {
        return Err("expressions here have no references to groups in the expression itself".to_string());
    }
    let flags = if any_case { "(?i)" } else { "" };
    // With alternatives at the top level, an anchor belongs to only one of them.
    if expression.contains('|') && !is_in_group(expression) {
        return Ok(format!("{flags}(?s:.*?)(?:{expression})(?s:.*)"));
    }
    let (begin, rest) = match expression.strip_prefix('^') {
        Some(rest) => ("", rest),
        None => ("(?s:.*?)", expression),
    };
    let is_anchored = rest.ends_with('$') && !rest.ends_with("\\$");
    let (rest, end) = if is_anchored { (&rest[..rest.len() - 1], "") } else { (rest, "(?s:.*)") };
    Ok(format!("{flags}{begin}{rest}{end}"))
}

/// Whether every `|` of an expression is inside parentheses.
fn is_in_group(expression: &str) -> bool {
    alternatives(expression).len() == 1
}

/// The alternatives of an expression at the top level, outside parentheses.
pub fn alternatives(expression: &str) -> Vec<&str> {
    let (mut depth, mut is_escaped, mut in_class, mut begin) = (0i32, false, false, 0);
    let mut found = Vec::new();
    for (at, character) in expression.char_indices() {
        if is_escaped {
            is_escaped = false;
            continue;
        }
        match character {
            '\\' => is_escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => depth += 1,
            ')' if !in_class => depth -= 1,
            '|' if !in_class && depth == 0 => {
                found.push(&expression[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    found.push(&expression[begin..]);
    found
}

/// Converts an expression for a file name: what matched any character matches no slash.
pub fn within_name(expression: &str) -> String {
    let (mut out, mut is_escaped, mut in_class) = (String::new(), false, false);
    for character in expression.chars() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            '.' if !in_class => {
                out.push_str("[^/]");
                continue;
            }
            _ => {}
        }
        out.push(character);
    }
    out
}

/// Removes the look-ahead and look-behind groups from an expression; the result matches more.
pub fn without_looks(expression: &str) -> String {
    let mut out = String::new();
    let mut rest = expression;
    while let Some(character) = rest.chars().next() {
        let looks = ["(?!", "(?=", "(?<!", "(?<="].iter().any(|begin| rest.starts_with(begin));
        let length = match character {
            '(' if looks => group_length(rest),
            // An escaped parenthesis does not count.
            '\\' => {
                let length = rest.chars().take(2).map(char::len_utf8).sum();
                out.push_str(&rest[..length]);
                length
            }
            _ => {
                out.push(character);
                character.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    out
}

/// The length of the group at the beginning, with its parentheses.
fn group_length(expression: &str) -> usize {
    let (mut depth, mut is_escaped) = (0usize, false);
    for (at, character) in expression.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '(' => depth += 1,
            ')' if depth <= 1 => return at + 1,
            ')' => depth -= 1,
            _ => {}
        }
    }
    expression.len()
}

/// An expression that matches only this path.
pub fn literal(path: &str) -> String {
    path.chars().fold(String::new(), |mut out, c| {
        if !c.is_alphanumeric() && !matches!(c, '/' | '_' | '-' | ' ') && c.is_ascii() {
            out.push('\\');
        }
        out.push(c);
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_match_the_whole_path() {
        for (text, expected) in [
            (r"\.php$", r"(?s:.*?)\.php"),
            (r"^/a/(.*)$", r"/a/(.*)"),
            (r"^/a", r"/a(?s:.*)"),
            (r"^/a|\.x$", r"(?s:.*?)(?:^/a|\.x$)(?s:.*)"),
            (r"\.(css|js)$", r"(?s:.*?)\.(css|js)"),
        ] {
            assert_eq!(whole_path(text, false).unwrap(), expected);
        }
        assert_eq!(within_name("^\\.x.*[.]$"), "^\\.x[^/]*[.]$");
        assert_eq!(without_looks("^(\\.(?!well-known(x)).*|\\(?a)$"), "^(\\..*|\\(?a)$");
        assert!(whole_path("^/(?!admin)", false).is_err() && whole_path(r"(a)\1", false).is_err());
    }
}
