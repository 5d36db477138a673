//! A table from host names and wildcards to values.

use std::borrow::Cow;
use std::collections::HashMap;

/// A table from server names to values. An exact name takes precedence over a wildcard, a longer wildcard
/// over a shorter one.
///
/// `*.example.org` matches every name below `example.org`, at any depth, but not `example.org` itself.
#[derive(Debug, Clone)]
pub struct ServerNames<T> {
    exact: HashMap<Box<str>, T>,
    /// By the part after `*.`.
    wildcards: HashMap<Box<str>, T>,
}

impl<T> Default for ServerNames<T> {
    fn default() -> ServerNames<T> {
        ServerNames { exact: HashMap::new(), wildcards: HashMap::new() }
    }
}

impl<T> ServerNames<T> {
    /// An empty table.
    pub fn new() -> ServerNames<T> {
        ServerNames::default()
    }

    /// The value of `name`, a name in lower case or a wildcard, exactly as it was inserted; a new name gets
    /// the value of `or_insert`.
    pub fn entry(&mut self, name: &str, or_insert: impl FnOnce() -> T) -> &mut T {
        let (table, key) = match name.strip_prefix("*.") {
            Some(parent) => (&mut self.wildcards, parent),
            None => (&mut self.exact, name),
        };
        table.entry(without_last_dot(key).into()).or_insert_with(or_insert)
    }

    /// The value for `name`, which must be in lower case.
    pub fn find(&self, name: &str) -> Option<&T> {
        let name = without_last_dot(name);
        if let Some(value) = self.exact.get(name) {
            return Some(value);
        }
        if self.wildcards.is_empty() {
            return None;
        }
        let mut rest = name;
        while let Some((_, parent)) = rest.split_once('.') {
            if let Some(value) = self.wildcards.get(parent) {
                return Some(value);
            }
            rest = parent;
        }
        None
    }
}

/// The host of a Host field or an authority in the form in which names are looked up: without its port, in
/// lower case; `example.org.` is the same name as `example.org`. `None` if it cannot be a name.
#[inline]
pub fn host_name(host: Option<&[u8]>) -> Option<Cow<'_, str>> {
    let name = touchstone_http::host::split_port(host.unwrap_or_default()).0;
    let name = std::str::from_utf8(name.strip_suffix(b".").unwrap_or(name)).ok()?;
    // Nearly every client sends names in lower case; other names are copied.
    Some(match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(name.to_ascii_lowercase()),
        false => Cow::Borrowed(name),
    })
}

fn without_last_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(names: &[&'static str]) -> ServerNames<&'static str> {
        let mut table = ServerNames::new();
        for name in names {
            table.entry(name, || *name);
        }
        table
    }

    #[test]
    fn exact_before_wildcard_and_longer_before_shorter() {
        let table =
            table(&["example.org", "*.example.org", "*.deep.example.org", "www.example.org", "*.org"]);
        let cases = [
            ("example.org", Some("example.org")),
            ("example.org.", Some("example.org")),
            ("www.example.org", Some("www.example.org")),
            ("other.example.org", Some("*.example.org")),
            ("a.b.example.org", Some("*.example.org")),
            ("deep.example.org", Some("*.example.org")),
            ("a.deep.example.org", Some("*.deep.example.org")),
            ("elsewhere.org", Some("*.org")),
            ("org", None),
            ("example.net", None),
            ("", None),
            (".", None),
        ];
        for (name, expected) in cases {
            assert_eq!(table.find(name).copied(), expected, "{name}");
        }
    }

    #[test]
    fn a_wildcard_is_not_the_name_itself() {
        let table = table(&["*.example.org"]);
        assert_eq!(table.find("example.org"), None);
        assert_eq!(table.find("notexample.org"), None);
        assert_eq!(table.find("*.example.org").copied(), Some("*.example.org"));
    }

    #[test]
    fn the_first_stays() {
        let mut table = ServerNames::new();
        *table.entry("a.org", || 1) += 10;
        table.entry("a.org", || 2);
        assert_eq!(table.find("a.org"), Some(&11));
        assert_eq!(table.find("a.org."), Some(&11));
    }

    proptest! {
        #[test]
        fn any_name_can_be_looked_up(name in "[a-z.*-]{0,80}") {
            let table = table(&["a.b", "*.c", "*.b.c"]);
            if let Some(found) = table.find(&name) {
                let parent = found.strip_prefix("*.").unwrap_or(found);
                prop_assert!(name.trim_end_matches('.').ends_with(parent));
            }
        }
    }
}
