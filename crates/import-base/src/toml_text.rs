//! Values of TOML as text.

use std::fmt::Write as _;

/// A basic string (TOML 1.0, "String").
pub fn toml_string(text: &str) -> String {
    let mut written = String::with_capacity(text.len() + 2);
    written.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => written.extend(['\\', character]),
            '\n' => written.push_str("\\n"),
            '\t' => written.push_str("\\t"),
            _ if character.is_control() => _ = write!(written, "\\u{:04X}", u32::from(character)),
            _ => written.push(character),
        }
    }
    written.push('"');
    written
}

/// The text of a basic string as [`toml_string`] writes it; `None`: it is another value.
pub fn text_of(value: &str) -> Option<String> {
    let mut rest = value.strip_prefix('"')?.strip_suffix('"')?.chars();
    let mut text = String::new();
    while let Some(character) = rest.next() {
        text.push(match character {
            '"' => return None,
            '\\' => match rest.next()? {
                'n' => '\n',
                't' => '\t',
                'u' => {
                    let digits: String = rest.by_ref().take(4).collect();
                    char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?
                }
                other @ ('"' | '\\') => other,
                _ => return None,
            },
            other => other,
        });
    }
    Some(text)
}

/// Checks the text of a target with variables: what stands outside its variables is a part of a URL.
///
/// # Errors
/// The character that must be percent-encoded.
pub fn check_target(target: &str) -> Result<(), String> {
    let mut rest = target;
    while let Some(at) = rest.find(|c: char| !c.is_ascii_graphic() || "\"<>\\^`{|}$".contains(c)) {
        let variable = rest[at..].strip_prefix("${").and_then(|inside| {
            // A map or a field has braces of its own.
            let end = inside.find('}')?;
            let end = if inside[..end].contains('{') { end + 1 } else { end };
            inside.get(end..)?.strip_prefix('}')
        });
        let plain = rest[at..].strip_prefix('$').map(|name| name.strip_prefix('$').unwrap_or(name));
        rest = match variable.or(plain) {
            Some(rest) => rest,
            None => return Err("percent-encode what is not a part of a URL".to_string()),
        };
    }
    Ok(())
}

/// An array of basic strings.
pub fn toml_strings<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let texts: Vec<String> = texts.into_iter().map(|text| toml_string(text.as_ref())).collect();
    format!("[{}]", texts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn targets() {
        for good in ["/index.php?q=$path&${query}", "/a?x=${header{x-a}}&y=1", "/a$$b", "/$map{a}"] {
            let is_map = good.contains("$map");
            assert_eq!(check_target(good).is_err(), is_map, "{good}");
        }
        for bad in ["/a b", "/a?x=<y>", "/a?{x}", "/a|b", "/\u{e9}"] {
            assert!(check_target(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn text_is_read_as_it_was(text in any::<String>()) {
            let table: toml::Table = format!("a = {}", toml_string(&text)).parse().unwrap();
            prop_assert_eq!(table["a"].as_str(), Some(text.as_str()));
            prop_assert_eq!(text_of(&toml_string(&text)), Some(text));
        }
    }
}
