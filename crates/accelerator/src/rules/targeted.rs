//! `CDN-Cache-Control`, which takes precedence over `Cache-Control` for caches like this one: a dictionary of
//! structured fields (RFC 9213, RFC 9651 section 3.2).
//!
//! A field that is not a valid dictionary is ignored as a whole, and so is one whose numbers are not
//! integers, because its meaning is unknown.

use super::directives::{MOST_SECONDS, ResponseDirectives};
use super::structured::{Value, dictionary};

/// The directives of the field; `None`: it is absent or invalid.
pub fn parse(values: &[&[u8]]) -> Option<ResponseDirectives> {
    let joined = values.join(&b", "[..]);
    let members = dictionary(&joined)?;
    if members.is_empty() {
        return None;
    }
    let mut directives = ResponseDirectives::default();
    for (key, value) in members {
        let flag = || match value {
            Value::Boolean(is_set) => Some(is_set),
            _ => None,
        };
        let number = || match value {
            Value::Integer(number) => {
                Some(Some(u32::try_from(number.max(0)).unwrap_or(MOST_SECONDS).min(MOST_SECONDS)))
            }
            _ => None,
        };
        match key.as_slice() {
            b"max-age" => directives.max_age = number()?,
            b"s-maxage" => directives.s_maxage = number()?,
            b"stale-while-revalidate" => directives.stale_while_revalidate = number()?,
            b"stale-if-error" => directives.stale_if_error = number()?,
            b"no-store" => directives.no_store = flag()?,
            b"public" => directives.public = flag()?,
            b"must-revalidate" => directives.must_revalidate = flag()?,
            b"proxy-revalidate" => directives.proxy_revalidate = flag()?,
            b"must-understand" => directives.must_understand = flag()?,
            b"immutable" => directives.immutable = flag()?,
            b"no-cache" | b"private" => {
                let is_private = key == b"private";
                match &value {
                    Value::Boolean(is_set) if is_private => directives.private = *is_set,
                    Value::Boolean(is_set) => directives.no_cache = *is_set,
                    Value::Text(names) | Value::Token(names) => {
                        let names = names.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
                        directives.fields.extend(names.filter(|name| !name.is_empty()).map(Box::from));
                    }
                    _ => return None,
                }
            }
            _ => {}
        }
    }
    Some(directives)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dictionaries() {
        for (value, max_age) in [
            ("max-age=60", Some(Some(60))),
            ("max-age=60, foo;a=1;b, bar=(1 2);x", Some(Some(60))),
            ("max-age=1, max-age=2", Some(Some(2))),
            ("max-age=99999999999", Some(Some(MOST_SECONDS))),
            ("max-age=-5", Some(Some(0))),
            ("no-store", Some(None)),
            ("a=:aGk=:, b=@1, c=?0, d=1.5, e=tok/en", Some(None)),
            ("", None),
            ("MaX-aGe=60", None),
            ("max-age =60", None),
            ("max-age= 60", None),
            ("max-age=\"60\"", None),
            ("max-age=6.5", None),
            ("max-age=60, &&&", None),
            ("max-age=60,", None),
            ("max-age=1234567890123456", None),
            ("no-store=1", None),
            ("a=\"x", None),
        ] {
            assert_eq!(parse(&[value.as_bytes()]).map(|directives| directives.max_age), max_age, "{value}");
        }
        assert!(parse(&[b"private"]).unwrap().private);
        assert!(!parse(&[b"private=?0"]).unwrap().private);
        let limited = parse(&[b"no-cache=\"a, b\""]).unwrap();
        assert!(!limited.no_cache && limited.fields.len() == 2);
        assert_eq!(parse(&[b"max-age=1", b"no-store"]).unwrap().max_age, Some(1));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(value in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = parse(&[&value]);
        }
    }
}
