//! `No-Vary-Search`: the parts of a query that do not matter to a response
//! (draft-ietf-httpbis-no-vary-search-05).
//!
//! The response itself states this, and only for its own path. An invalid field is the same as no field:
//! every part matters, byte by byte.

use touchstone_http::percent;

use super::fields::{FieldText, Fields};
use super::structured::{Value, dictionary};

/// The parts of a query that matter. By default all do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variance {
    parameters: Parameters,
    order_matters: bool,
}

/// The parameters that matter.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Parameters {
    /// All except these.
    AllBut(Vec<Vec<u8>>),
    /// Only these.
    Only(Vec<Vec<u8>>),
}

impl Default for Variance {
    fn default() -> Variance {
        Variance { parameters: Parameters::AllBut(Vec::new()), order_matters: true }
    }
}

impl Variance {
    /// What a response states (sections 4.1 and 4.2); `None`: everything matters, byte by byte.
    pub fn of_response(fields: &[u8]) -> Option<Variance> {
        let mut values = Vec::new();
        let fields = FieldText(fields);
        fields.values("no-vary-search", &mut |value| values.push(value));
        if values.is_empty() {
            return None;
        }
        let variance = read(&values.join(&b", "[..]))?;
        (variance != Variance::default()).then_some(variance)
    }

    /// The query without the parts that do not matter (section 5). Two queries of one path are equivalent for
    /// the response if this is equal for both.
    pub fn canonical(&self, query: &[u8]) -> Vec<u8> {
        let mut pairs: Vec<(Vec<u8>, Vec<u8>)> = query
            .split(|&byte| byte == b'&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let (name, value) = match memchr::memchr(b'=', pair) {
                    Some(mark) => (&pair[..mark], &pair[mark + 1..]),
                    None => (pair, &b""[..]),
                };
                (decode(name), decode(value))
            })
            .filter(|(name, _)| match &self.parameters {
                Parameters::AllBut(names) => !names.contains(name),
                Parameters::Only(names) => names.contains(name),
            })
            .collect();
        if !self.order_matters {
            // The sort is by name alone, and stable: the values of one name keep their order.
            pairs.sort_by(|one, other| one.0.cmp(&other.0));
        }
        let mut canonical = Vec::with_capacity(query.len());
        for (name, value) in pairs {
            for piece in [name, value] {
                canonical.extend_from_slice(&(piece.len() as u64).to_le_bytes());
                canonical.extend_from_slice(&piece);
            }
        }
        canonical
    }
}

/// Parses a field value.
fn read(text: &[u8]) -> Option<Variance> {
    let members = dictionary(text)?;
    let member =
        |key: &str| members.iter().find(|(other, _)| other == key.as_bytes()).map(|(_, value)| value);
    let order_matters = match member("key-order") {
        None => true,
        Some(Value::Boolean(is_free)) => !is_free,
        Some(_) => return None,
    };
    let mut parameters = match member("params") {
        None | Some(Value::Boolean(false)) => Parameters::AllBut(Vec::new()),
        Some(Value::Boolean(true)) => Parameters::Only(Vec::new()),
        Some(Value::InnerList(names)) => Parameters::AllBut(strings(names)?),
        Some(_) => return None,
    };
    match (member("except"), &mut parameters) {
        (None, _) => {}
        (Some(Value::InnerList(names)), Parameters::Only(only)) => *only = strings(names)?,
        (Some(_), _) => return None,
    }
    Some(Variance { parameters, order_matters })
}

/// The names of parameters in a list of strings.
fn strings(items: &[Value]) -> Option<Vec<Vec<u8>>> {
    let name = |item: &Value| match item {
        Value::Text(text) => Some(decode(text)),
        _ => None,
    };
    items.iter().map(name).collect()
}

/// Decodes a name or value of application/x-www-form-urlencoded: `+` is a space, escapes are decoded, and
/// bytes that are not UTF-8 become U+FFFD.
fn decode(text: &[u8]) -> Vec<u8> {
    let bytes = percent::decode(text, true).into_owned();
    match String::from_utf8_lossy(&bytes) {
        std::borrow::Cow::Borrowed(_) => bytes,
        std::borrow::Cow::Owned(replaced) => replaced.into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn variance(value: &str) -> Option<Variance> {
        Variance::of_response(format!("A: b\r\nNo-Vary-Search: {value}\r\n").as_bytes())
    }

    fn names(names: &[&str]) -> Vec<Vec<u8>> {
        names.iter().map(|name| name.as_bytes().to_vec()).collect()
    }

    /// The examples of section 4.2.1.
    #[test]
    fn the_examples_of_the_document_are_read_as_it_says() {
        for (value, parameters) in [
            ("params", Parameters::Only(vec![])),
            ("params=(\"a\")", Parameters::AllBut(names(&["a"]))),
            ("params, except=(\"x\")", Parameters::Only(names(&["x"]))),
        ] {
            assert_eq!(variance(value), Some(Variance { parameters, order_matters: true }), "{value}");
        }
        for invalid in [
            "unknown-key",
            "key-order=\"not a boolean\"",
            "params=\"not a boolean or inner list\"",
            "params=(not-a-string)",
            "params=(\"a\"), except=(\"x\")",
            "params=(), except=()",
            "params=?0, except=(\"x\")",
            "params, except=(not-a-string)",
            "params, except=\"not an inner list\"",
            "params, except=?1",
            "except=(\"x\")",
            "except=()",
        ] {
            assert_eq!(variance(invalid), None, "{invalid}");
        }
        for (unusual, usual) in [
            ("params=?1", "params"),
            ("key-order=?1", "key-order"),
            ("params, key-order, except=(\"x\")", "key-order, params, except=(\"x\")"),
            ("params, unknown=1", "params"),
        ] {
            assert!(variance(usual).is_some());
            assert_eq!(variance(unusual), variance(usual), "{unusual}");
        }
        for nothing in ["params=?0", "params=()", "key-order=?0", "", "params=("] {
            assert_eq!(variance(nothing), None, "{nothing}");
        }
        assert_eq!(Variance::of_response(b"A: b\r\n"), None);
    }

    fn is_same(value: &str, one: &str, other: &str) -> bool {
        let variance = variance(value).unwrap();
        variance.canonical(one.as_bytes()) == variance.canonical(other.as_bytes())
    }

    /// The examples of sections 4.3.1 and 5.1.
    #[test]
    fn the_equivalences_of_the_document_hold() {
        for (one, other) in [
            ("", ""),
            ("a=x", "%61=%78"),
            ("a=\u{e9}", "a=%C3%A9"),
            ("a=%f6", "a=%ef%bf%bd"),
            ("a=x&&&&", "a=x"),
            ("a=", "a"),
            ("a=%20", "a=+"),
            ("a=+", "a=+&"),
            ("b=1&a=2", "a=2&b=1"),
        ] {
            assert!(is_same("key-order", one, other), "{one} {other}");
        }
        for other in ["\u{e9} \u{6c17}=1", "\u{e9}+\u{6c17}=2", "%C3%A9%20\u{6c17}=3", "%C3%A9+%E6%B0%97=4"] {
            assert!(is_same("params=(\"%C3%A9+%E6%B0%97\")", "", other), "{other}");
        }
    }

    #[test]
    fn what_matters_tells_queries_apart() {
        for (value, one, other, expected) in [
            ("params=(\"utm_source\" \"utm_medium\")", "id=1&utm_source=a", "utm_medium=b&id=1", true),
            ("params=(\"utm_source\")", "id=1&utm_source=a", "id=2&utm_source=a", false),
            ("params=(\"a\")", "b=1&c=2", "c=2&b=1", false),
            ("params=(\"a\"), key-order", "b=1&c=2&a=3", "c=2&b=1", true),
            ("key-order", "a=1&a=2", "a=2&a=1", false),
            ("key-order", "a=1&b=2", "a=1&b=3", false),
            ("key-order", "ab=c", "a=bc", false),
            ("params, except=(\"productId\")", "productId=1&x=2", "y=3&productId=1", true),
            ("params, except=(\"productId\")", "productId=1", "productId=2", false),
            ("params, except=(\"productId\")", "productId=1", "", false),
            ("params", "a=1", "b=2&c", true),
            ("params=(\"a\")", "A=1", "", false),
        ] {
            assert_eq!(is_same(value, one, other), expected, "{value}: {one} {other}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(value in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = read(&value);
        }

        #[test]
        fn without_what_does_not_matter_a_query_is_the_same(
            query in "[a-c=&%+0-9]{0,30}",
            x in "[a-z0-9]{0,5}",
        ) {
            let more = format!("{query}&x={x}");
            prop_assert!(is_same("params=(\"x\")", &query, &more));
            prop_assert!(is_same("params=(\"x\")", &query, &query));
            let variance = variance("key-order").unwrap();
            let plain = Variance::default();
            // Queries that are equal byte by byte are always equivalent, whatever a response states.
            prop_assert_eq!(variance.canonical(query.as_bytes()), variance.canonical(query.as_bytes()));
            let moved = query.split('&').rev().collect::<Vec<_>>().join("&");
            if plain.canonical(query.as_bytes()) == plain.canonical(moved.as_bytes()) {
                prop_assert!(is_same("key-order", &query, &moved));
            }
        }
    }
}
