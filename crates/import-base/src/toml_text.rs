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

/// An array of basic strings.
pub fn toml_strings<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let texts: Vec<String> = texts.into_iter().map(|text| toml_string(text.as_ref())).collect();
    format!("[{}]", texts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn text_is_read_as_it_was(text in any::<String>()) {
            let table: toml::Table = format!("a = {}", toml_string(&text)).parse().unwrap();
            prop_assert_eq!(table["a"].as_str(), Some(text.as_str()));
        }
    }
}
