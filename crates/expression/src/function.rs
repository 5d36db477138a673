//! What a map does with a value in place of a table.

use std::borrow::Cow;

use touchstone_http::path::append_escaped;
use touchstone_http::percent;

/// What becomes of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Function {
    /// ASCII letters become small.
    Lower,
    /// ASCII letters become capital.
    Upper,
    /// Bytes that a path has only escaped are escaped.
    Escape,
    /// What is escaped becomes bytes.
    Unescape,
}

/// The functions by their names.
pub const FUNCTIONS: [(&str, Function); 4] = [
    ("lower", Function::Lower),
    ("upper", Function::Upper),
    ("escape", Function::Escape),
    ("unescape", Function::Unescape),
];

/// What stays as it is in a path: RFC 3986 section 3.3, and the slash.
const OF_PATHS: &[u8] = b"/-._~!$&'()*+,;=:@";

impl Function {
    /// The function of this name.
    pub fn named(name: &str) -> Option<Function> {
        FUNCTIONS.iter().find(|(known, _)| *known == name).map(|(_, function)| *function)
    }

    /// What becomes of a value.
    pub fn apply<'v>(self, value: Cow<'v, [u8]>) -> Cow<'v, [u8]> {
        match self {
            Function::Lower if value.iter().any(u8::is_ascii_uppercase) => {
                Cow::Owned(value.to_ascii_lowercase())
            }
            Function::Upper if value.iter().any(u8::is_ascii_lowercase) => {
                Cow::Owned(value.to_ascii_uppercase())
            }
            Function::Lower | Function::Upper => value,
            Function::Escape => {
                let mut escaped = Vec::with_capacity(value.len());
                append_escaped(&value, OF_PATHS, &mut escaped);
                Cow::Owned(escaped)
            }
            Function::Unescape if value.contains(&b'%') => {
                Cow::Owned(percent::decode(&value, false).into_owned())
            }
            Function::Unescape => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn applied(name: &str, value: &[u8]) -> Vec<u8> {
        Function::named(name).unwrap().apply(Cow::Borrowed(value)).into_owned()
    }

    #[test]
    fn functions() {
        assert_eq!(applied("lower", b"/AbC\xc4"), b"/abc\xc4");
        assert_eq!(applied("upper", b"/AbC"), b"/ABC");
        assert_eq!(applied("escape", b"/a b?%"), b"/a%20b%3F%25");
        assert_eq!(applied("unescape", b"/a%20b%3f%2"), b"/a b?%2");
        assert_eq!(Function::named("sum"), None);
    }

    proptest! {
        #[test]
        fn what_is_escaped_is_unescaped(value in prop::collection::vec(1u8.., 0..40)) {
            prop_assert_eq!(applied("unescape", &applied("escape", &value)), value);
        }

        #[test]
        fn any_value_has_a_result(value in prop::collection::vec(any::<u8>(), 0..40)) {
            for (name, _) in FUNCTIONS {
                prop_assert!(applied(name, &value).len() <= 3 * value.len());
            }
        }
    }
}
