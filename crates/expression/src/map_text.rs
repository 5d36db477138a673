//! The text of a map's file: one entry a line.
//!
//! ```text
//! # a comment
//! shop.example.org   one
//! *.example.org      two;
//! "a value"          'with spaces'
//! ~^v([0-9]+)\.      release-$1
//! ~*^/OLD/(.*)$      /new/$1
//! default            three
//! ```
//!
//! The form is that of the maps of nginx, in which a line may end with a semicolon, and of Apache's text
//! maps. A backslash before a key with a special meaning removes this meaning: `\default`, `\~x`, `\*.x`.

use std::net::IpAddr;

use crate::network::Network;
use crate::table::read_share;

/// The largest file of a map, in bytes.
pub const LARGEST_FILE_BYTES: u64 = 64 << 20;

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    /// What it is for.
    pub key: EntryKey,
    /// Its value, as it was written.
    pub value: String,
}

/// What an entry is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EntryKey {
    /// All that no other entry is for.
    Default,
    /// This value.
    Exact(String),
    /// Names of hosts that end so: `.example.org`.
    Hosts(String),
    /// What this expression matches.
    Pattern {
        /// The expression.
        expression: String,
        /// The case of letters is ignored.
        ignore_case: bool,
    },
    /// Addresses in this network.
    Network(Network),
    /// The network of an earlier entry, which is taken back.
    WithoutNetwork(Network),
    /// The share in hundredths of a percent; `None`: all other values.
    Share(Option<u32>),
}

impl EntryKey {
    /// Reads a key.
    pub fn read(text: &str) -> Result<EntryKey, String> {
        if let Some(rest) = text.strip_prefix('\\')
            && (rest == "default" || rest.starts_with(['~', '*', '\\', '#']))
        {
            return Ok(EntryKey::Exact(rest.to_string()));
        }
        if text == "default" {
            return Ok(EntryKey::Default);
        }
        if let Some(expression) = text.strip_prefix("~*") {
            return Ok(EntryKey::Pattern { expression: expression.to_string(), ignore_case: true });
        }
        if let Some(expression) = text.strip_prefix('~') {
            return Ok(EntryKey::Pattern { expression: expression.to_string(), ignore_case: false });
        }
        match text.strip_prefix('*') {
            Some(suffix) if suffix.len() > 1 && suffix.starts_with('.') && !suffix.contains('*') => {
                Ok(EntryKey::Hosts(suffix.to_string()))
            }
            Some(_) => Err(format!(
                "{text:?} begins with an asterisk but is not such as \"*.example.org\"; write a pattern, or \
                 a backslash before it"
            )),
            None => Ok(EntryKey::Exact(text.to_string())),
        }
    }
}

/// Reads the entries, each with its line, from 1. The error names the line.
pub fn read(text: &str) -> Result<Vec<(usize, Entry)>, String> {
    let mut entries = Vec::new();
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let number = index + 1;
        let entry = read_line(line).map_err(|problem| format!("line {number}: {problem}"))?;
        entries.extend(entry.map(|entry| (number, entry)));
    }
    Ok(entries)
}

/// Reads the entries of a file of networks, as of nginx's `geo`: a network and its text on each line,
/// `default` and a text, or `delete` and a network.
pub fn read_networks(text: &str) -> Result<Vec<(usize, Entry)>, String> {
    let mut entries = Vec::new();
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let number = index + 1;
        let place = |problem: String| format!("line {number}: {problem}");
        let Some((_, key, value)) = words_of_line(line).map_err(place)? else { continue };
        let (key, value) = match key.as_str() {
            "default" => (EntryKey::Default, value),
            "delete" => (EntryKey::WithoutNetwork(network_of(&value).map_err(place)?), String::new()),
            _ => (EntryKey::Network(network_of(&key).map_err(place)?), value),
        };
        entries.push((number, Entry { key, value }));
    }
    Ok(entries)
}

/// The network of a line. Bits beyond its length are ignored, as in nginx.
fn network_of(text: &str) -> Result<Network, String> {
    let masked = text.split_once('/').and_then(|(address, length)| {
        let address: IpAddr = address.parse().ok()?;
        Network::around(address, length.parse().ok()?)
    });
    masked.map_or_else(|| text.parse(), Ok)
}

/// Reads a line with a share and its text: `12.5% one`.
pub fn read_share_line(line: &str) -> Result<Entry, String> {
    let read = words_of_line(line)?;
    let (_, key, value) = read.ok_or_else(|| "an empty text is not a share".to_string())?;
    Ok(Entry { key: EntryKey::Share(read_share(&key)?), value })
}

/// Reads one line; `None`: it has no entry.
pub fn read_line(line: &str) -> Result<Option<Entry>, String> {
    let Some((is_quoted, key, value)) = words_of_line(line)? else { return Ok(None) };
    // A pattern in quotes is still a pattern, as in nginx; other keys in quotes have no special meaning.
    let key = match is_quoted && !key.starts_with('~') {
        true => EntryKey::Exact(key),
        false => EntryKey::read(&key)?,
    };
    Ok(Some(Entry { key, value }))
}

/// Whether the key of a line is in quotes, the key, and the text.
fn words_of_line(line: &str) -> Result<Option<(bool, String, String)>, String> {
    let mut rest = line.trim();
    if rest.is_empty() || rest.starts_with('#') {
        return Ok(None);
    }
    if rest.chars().any(|character| character.is_control() && character != '\t') {
        return Err("has a control character".to_string());
    }
    let is_quoted = rest.starts_with(['"', '\'']);
    let key = word(&mut rest)?;
    let value = word(&mut rest)?;
    let rest = rest.trim_start();
    let rest = rest.strip_prefix(';').unwrap_or(rest).trim_start();
    if !rest.is_empty() && !rest.starts_with('#') {
        return Err(format!("continues after its value: {rest:?}; write a value with spaces in quotes"));
    }
    let Some(value) = value else {
        return Err("has a key without a value".to_string());
    };
    Ok(Some((is_quoted, key.unwrap_or_default(), value)))
}

/// The next word, in quotes or until white space or a semicolon.
fn word(rest: &mut &str) -> Result<Option<String>, String> {
    *rest = rest.trim_start();
    let Some(first) = rest.chars().next() else { return Ok(None) };
    if first == ';' {
        return Ok(None);
    }
    if first == '"' || first == '\'' {
        let mut word = String::new();
        let mut characters = rest.char_indices().skip(1).peekable();
        while let Some((position, character)) = characters.next() {
            let next = characters.peek().map(|(_, next)| *next);
            match character {
                _ if character == first => {
                    *rest = &rest[position + 1..];
                    return Ok(Some(word));
                }
                '\\' if next == Some(first) => {
                    word.push(first);
                    characters.next();
                }
                _ => word.push(character),
            }
        }
        return Err("has a quote without its end".to_string());
    }
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let (word, after) = rest.split_at(end);
    // A semicolon at the end of the line is not a part of the value.
    let (word, after) = match word.strip_suffix(';') {
        Some(before) if after.trim().is_empty() && !before.is_empty() => (before, ""),
        _ => (word, after),
    };
    *rest = after;
    Ok(Some(word.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(line: &str) -> (EntryKey, String) {
        let entry = read_line(line).unwrap().unwrap();
        (entry.key, entry.value)
    }

    fn exact(key: &str, value: &str) -> (EntryKey, String) {
        (EntryKey::Exact(key.to_string()), value.to_string())
    }

    #[test]
    fn lines() {
        assert_eq!(one("a b"), exact("a", "b"));
        assert_eq!(one("  a\tb;  "), exact("a", "b"));
        assert_eq!(one("a b # why"), exact("a", "b"));
        assert_eq!(one("\"a b\" 'c \\'d';"), exact("a b", "c 'd"));
        assert_eq!(one("'' x"), exact("", "x"));
        assert_eq!(one("a \"\""), exact("a", ""));
        assert_eq!(one("\\default x"), exact("default", "x"));
        assert_eq!(one("\"default\" x"), exact("default", "x"));
        assert_eq!(one("\\~x y"), exact("~x", "y"));
        assert_eq!(one("\\*.x y"), exact("*.x", "y"));
        assert_eq!(one("*.example.org x").0, EntryKey::Hosts(".example.org".to_string()));
        assert_eq!(one("default x").0, EntryKey::Default);
        let pattern =
            |expression: &str, ignore_case| EntryKey::Pattern { expression: expression.into(), ignore_case };
        assert_eq!(one("~^/a x").0, pattern("^/a", false));
        assert_eq!(one("\"~*^/a b\" x").0, pattern("^/a b", true));
        assert_eq!(read_line("  # nothing").unwrap(), None);
        assert_eq!(read("\u{feff}a b\n\n# c\nd e\n").unwrap().len(), 2);
    }

    #[test]
    fn networks_and_shares() {
        let text = "# comment\ndefault ZZ;\n127.0.0.1 a;\n10.1.2.3/8 'b c';\ndelete 10.0.0.0/8;\n::1/128 d\n";
        let network = |text: &str| EntryKey::Network(text.parse().unwrap());
        let entry = |key, value: &str| Entry { key, value: value.to_string() };
        assert_eq!(
            read_networks(text).unwrap(),
            [
                (2, entry(EntryKey::Default, "ZZ")),
                (3, entry(network("127.0.0.1"), "a")),
                (4, entry(network("10.0.0.0/8"), "b c")),
                (5, entry(EntryKey::WithoutNetwork("10.0.0.0/8".parse().unwrap()), "")),
                (6, entry(network("::1"), "d")),
            ]
        );
        assert!(read_networks("\n10.0.0.0-10.0.0.9 a;").unwrap_err().starts_with("line 2: "));
        assert!(read_networks("ranges;").unwrap_err().contains("without a value"));
        assert_eq!(read_share_line("12.5% one").unwrap(), entry(EntryKey::Share(Some(1250)), "one"));
        assert_eq!(read_share_line("* ''").unwrap(), entry(EntryKey::Share(None), ""));
        assert!(read_share_line("12.5 one").unwrap_err().contains("is not a share"));
        assert!(read_share_line("").is_err());
    }

    #[test]
    fn refused() {
        let problem = |line: &str| read_line(line).unwrap_err();
        assert!(problem("a").contains("without a value"));
        assert!(problem("a;").contains("without a value"));
        assert!(problem("a b c").contains("continues"));
        assert!(problem("\"a b").contains("without its end"));
        assert!(problem("*a b").contains("asterisk"));
        assert!(problem("a\u{1}b c").contains("control character"));
        assert!(read("a b\nc").unwrap_err().starts_with("line 2: "));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z~*\"'\\\\; #\\n]{0,60}|\\PC{0,60}") {
            let _ = read(&text);
        }

        #[test]
        fn no_text_of_networks_or_shares_panics(text in "[0-9a-f.:/%*;# \n]{0,60}|\\PC{0,60}") {
            let _ = (read_networks(&text), read_share_line(&text));
        }

        /// What is written in quotes is read back.
        #[test]
        fn quotes_hold_anything(key in "[ -~&&[^\\\\~]]{0,12}", value in "[ -~&&[^\\\\]]{0,12}") {
            let quote = |text: &str| format!("\"{}\"", text.replace('"', "\\\""));
            let line = format!("{} {}", quote(&key), quote(&value));
            prop_assert_eq!(one(&line), exact(&key, &value));
        }
    }
}
