//! Variables in texts of session files, `${name}`.

/// The variables that every session has.
pub(crate) const PREDEFINED: [&str; 3] = ["client", "session", "random"];

/// The names of the variables in a text of a session.
pub(crate) fn names(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let is_escaped = rest[..at].ends_with('$');
        rest = &rest[at + 2..];
        if let (false, Some(end)) = (is_escaped, rest.find('}')) {
            names.push(rest[..end].split('|').next().unwrap_or_default().trim().to_string());
        }
    }
    names
}

/// Adds a filter to all variables of a text that have none: `${name|json}`.
pub(crate) fn with_filter(text: &str, filter: &str) -> String {
    let mut written = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let is_escaped = rest[..at].ends_with('$');
        written.push_str(&rest[..at + 2]);
        rest = &rest[at + 2..];
        if let (false, Some(end)) = (is_escaped, rest.find('}')) {
            written.push_str(&rest[..end]);
            if !rest[..end].contains('|') {
                written.push('|');
                written.push_str(filter);
            }
            rest = &rest[end..];
        }
    }
    written + rest
}

/// Converts a name to a valid name of a variable: other characters become `_`.
pub(crate) fn plain_name(name: &str) -> String {
    let mut plain: String = name
        .chars()
        .take(100)
        .map(|character| if character.is_ascii_alphanumeric() { character } else { '_' })
        .collect();
    if !plain.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        plain.insert(0, '_');
        plain.truncate(100);
    }
    plain
}

/// Replaces `OPEN name CLOSE` by what `value` returns for the name. Literal text that looks like a variable
/// of a session is escaped.
pub(crate) fn replace(
    text: &str,
    (open, close): (&str, &str),
    mut value: impl FnMut(&str) -> String,
) -> String {
    let mut written = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(open) {
        let inside = &rest[at + open.len()..];
        let Some(end) = inside.find(close) else { break };
        written.push_str(&escaped(&rest[..at], open));
        written.push_str(&value(inside[..end].trim()));
        rest = &inside[end + close.len()..];
    }
    written.push_str(&escaped(rest, open));
    written
}

fn escaped(text: &str, open: &str) -> String {
    if open == "${" { text.to_string() } else { text.replace("${", "$${") }
}

/// Encodes a part of a form. Variables stay, with a filter that encodes their values.
pub(crate) fn form_text(text: &str) -> String {
    let mut written = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let Some(length) = rest[at..].find('}') else { break };
        written += &form_encoded(&rest[..at]);
        written += &format!("{}|query}}", &rest[at..at + length]);
        rest = &rest[at + length + 1..];
    }
    written + &form_encoded(rest)
}

fn form_encoded(text: &str) -> String {
    let mut written = String::new();
    for byte in text.bytes() {
        match byte {
            b' ' => written.push('+'),
            byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => written.push(byte.into()),
            byte => written += &format!("%{byte:02X}"),
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_found_and_replaced() {
        assert_eq!(names("/${a}?${b|query}&$${c}${d"), ["a", "b"]);
        let replaced = replace("/{{a b}}/${x}/{{", ("{{", "}}"), |name| format!("${{{}}}", plain_name(name)));
        assert_eq!(replaced, "/${a_b}/$${x}/{{");
        assert_eq!((plain_name("1-é"), plain_name("")), ("_1__".to_string(), "_".to_string()));
    }

    proptest! {
        #[test]
        fn any_text_is_replaced(text: String, name: String) {
            let _ = (names(&text), replace(&text, ("{{", "}}"), |name| name.to_string()));
            prop_assert!(!plain_name(&name).is_empty());
        }
    }
}
