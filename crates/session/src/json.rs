//! Finds values in a JSON document.
//!
//! A path that has only names and numbers (`$.user.ids[0]`) is followed while the document is parsed: no tree
//! is built, and parsing ends at the value. Any other query (RFC 9535) is evaluated on the whole document.

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json_path::JsonPath;
use std::fmt;
use std::io::Write;

/// A compiled query.
#[derive(Debug)]
pub(crate) enum JsonQuery {
    Path(Vec<Segment>),
    Whole(Box<JsonPath>),
}

/// A step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    Name(String),
    Index(usize),
}

impl JsonQuery {
    /// Parses a query, for example `$.token`.
    pub(crate) fn compile(text: &str) -> Result<JsonQuery, String> {
        let whole = JsonPath::parse(text)
            .map_err(|error| format!("{text:?} is not a JSON path (RFC 9535) such as $.token: {error}"))?;
        Ok(match simple_path(text) {
            Some(path) => JsonQuery::Path(path),
            None => JsonQuery::Whole(Box::new(whole)),
        })
    }

    /// Appends the first value that the query finds: a string without its quotes, anything else as JSON.
    /// False if there is none, or it is null.
    pub(crate) fn find(&self, body: &[u8], out: &mut Vec<u8>) -> bool {
        match self {
            JsonQuery::Path(path) => {
                let mut is_found = false;
                let mut reader = serde_json::Deserializer::from_slice(body);
                // Parsing stops with an error after the value was found.
                let _ = Seek { path, out, is_found: &mut is_found }.deserialize(&mut reader);
                is_found
            }
            JsonQuery::Whole(query) => {
                let Ok(document) = serde_json::from_slice::<Value>(body) else { return false };
                query.query(&document).first().is_some_and(|value| append(value, out))
            }
        }
    }
}

/// Parses a path of names and numbers, `$.a['b'][0]`; `None`: the query has other parts.
fn simple_path(text: &str) -> Option<Vec<Segment>> {
    let mut rest = text.strip_prefix('$')?;
    let mut path = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let name = &after[..end];
            let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if !is_plain || name.is_empty() {
                return None;
            }
            path.push(Segment::Name(name.to_string()));
            rest = &after[end..];
        } else {
            let (inside, behind) = rest.strip_prefix('[')?.split_once(']')?;
            path.push(match inside.strip_prefix('\'').and_then(|inside| inside.strip_suffix('\'')) {
                Some(name) if !name.contains(['\\', '\'', '[']) => Segment::Name(name.to_string()),
                Some(_) => return None,
                None => Segment::Index(inside.parse().ok()?),
            });
            rest = behind;
        }
    }
    Some(path)
}

/// Appends a value; false for null.
fn append(value: &Value, out: &mut Vec<u8>) -> bool {
    match value {
        Value::Null => return false,
        Value::String(text) => out.extend_from_slice(text.as_bytes()),
        // Writing to memory does not fail.
        other => _ = write!(out, "{other}"),
    }
    true
}

/// Follows the rest of a path.
struct Seek<'a> {
    path: &'a [Segment],
    out: &'a mut Vec<u8>,
    is_found: &'a mut bool,
}

impl<'de> DeserializeSeed<'de> for Seek<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.path {
            [] => deserializer.deserialize_any(Leaf(self)),
            [Segment::Name(_), ..] => deserializer.deserialize_map(Inside(self)),
            [Segment::Index(_), ..] => deserializer.deserialize_seq(Inside(self)),
        }
    }
}

/// Visits an object or array along the path.
struct Inside<'a>(Seek<'a>);

impl<'de> Visitor<'de> for Inside<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let [Segment::Name(name), rest @ ..] = self.0.path else { return Ok(()) };
        while let Some(is_it) = map.next_key_seed(KeyMatcher(name))? {
            if is_it {
                map.next_value_seed(Seek { path: rest, ..self.0 })?;
                return Err(A::Error::custom(""));
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let [Segment::Index(index), rest @ ..] = self.0.path else { return Ok(()) };
        for _ in 0..*index {
            if list.next_element::<IgnoredAny>()?.is_none() {
                return Ok(());
            }
        }
        list.next_element_seed(Seek { path: rest, ..self.0 })?;
        Err(A::Error::custom(""))
    }
}

/// Compares a key with a name.
struct KeyMatcher<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for KeyMatcher<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeyMatcher<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<bool, E> {
        Ok(key == self.0)
    }
}

/// Writes the value itself.
struct Leaf<'a>(Seek<'a>);

impl Leaf<'_> {
    fn take<E>(self, text: fmt::Arguments<'_>) -> Result<(), E> {
        // Writing to memory does not fail.
        let _ = self.0.out.write_fmt(text);
        *self.0.is_found = true;
        Ok(())
    }

    fn take_value<E>(self, value: &Value) -> Result<(), E> {
        *self.0.is_found = append(value, self.0.out);
        Ok(())
    }
}

impl<'de> Visitor<'de> for Leaf<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.0.out.extend_from_slice(text.as_bytes());
        *self.0.is_found = true;
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.take(format_args!("{value}"))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.take(format_args!("{value}"))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.take(format_args!("{value}"))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.take_value(&Value::from(value))
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        let value = Value::deserialize(MapAccessDeserializer::new(map))?;
        self.take_value(&value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<(), A::Error> {
        let value = Value::deserialize(SeqAccessDeserializer::new(list))?;
        self.take_value(&value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(query: &str, body: &str) -> Option<String> {
        let mut out = Vec::new();
        let is_found = JsonQuery::compile(query).expect("a good query").find(body.as_bytes(), &mut out);
        is_found.then(|| String::from_utf8(out).expect("JSON is text"))
    }

    #[test]
    fn values_are_found_by_path_and_by_query() {
        let body = r#"{"a":{"x":[1,{"b":"q\"\u00e9"},2.5,true,null,-7]},"z":{}}"#;
        for (query, wanted) in [
            ("$.a.x[0]", Some("1")),
            ("$.a.x[1].b", Some("q\"é")),
            ("$.a.x[2]", Some("2.5")),
            ("$.a.x[3]", Some("true")),
            ("$.a.x[4]", None),
            ("$.a.x[5]", Some("-7")),
            ("$.a.x[6]", None),
            ("$.a.x[1]", Some("{\"b\":\"q\\\"é\"}")),
            ("$['a']['x'][0]", Some("1")),
            ("$.b", None),
            ("$.a.x.b", None),
            ("$..b", Some("q\"é")),
            ("$.z", Some("{}")),
        ] {
            assert_eq!(found(query, body).as_deref(), wanted, "{query}");
        }
        let body = r#"{"list":[{"id":3,"on":false},{"id":4,"on":true}],"z":{}}"#;
        for (query, wanted) in [
            ("$..id", Some("3")),
            ("$.list[?@.on == true].id", Some("4")),
            ("$.list[-1].id", Some("4")),
            ("$.z", Some("{}")),
            ("$.none[*]", None),
        ] {
            assert_eq!(found(query, body).as_deref(), wanted, "{query}");
        }
        assert_eq!(found("$", "\"text\"").as_deref(), Some("text"));
        assert!(JsonQuery::compile("token").is_err() && JsonQuery::compile("$.a[").is_err());
    }

    #[test]
    fn a_plain_path_is_not_a_whole_query() {
        for (text, is_plain) in
            [("$.a.b[0]", true), ("$['a b'].c", true), ("$..a", false), ("$.a[*]", false), ("$.a[-1]", false)]
        {
            let is_path = matches!(JsonQuery::compile(text), Ok(JsonQuery::Path(_)));
            assert_eq!(is_path, is_plain, "{text}");
        }
    }

    fn document() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            "[a-c\"\\\\é]{0,5}".prop_map(Value::from),
            Just(Value::Null),
        ];
        leaf.prop_recursive(4, 40, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map("[a-c]", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_path_finds_what_the_query_finds(
            document in document(),
            path in prop::collection::vec(prop_oneof!["\\.[a-c]", "\\[[0-3]\\]"], 0..4),
        ) {
            let text = format!("${}", path.concat());
            let whole = JsonQuery::Whole(Box::new(JsonPath::parse(&text).expect("a good path")));
            let (mut one, mut other) = (Vec::new(), Vec::new());
            let body = document.to_string();
            let is_found = JsonQuery::compile(&text).expect("a good path").find(body.as_bytes(), &mut one);
            prop_assert_eq!(is_found, whole.find(body.as_bytes(), &mut other));
            prop_assert_eq!(one, other);
        }

        #[test]
        fn any_bytes_are_a_document_or_not(body: Vec<u8>) {
            let mut out = Vec::new();
            JsonQuery::compile("$.a[0]").expect("a good path").find(&body, &mut out);
            JsonQuery::compile("$..a").expect("a good path").find(&body, &mut out);
        }
    }
}
