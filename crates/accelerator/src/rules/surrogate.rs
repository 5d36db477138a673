//! `Surrogate-Control`, the predecessor of `CDN-Cache-Control` for caches like this one (W3C Note "Edge
//! Architecture Specification", 2001). Its only grammar is that of its examples: `max-age=3600+600;target,
//! no-store, content="ESI/1.0"`.

use super::directives::{Members, ResponseDirectives, seconds};

/// The name of this cache in a target.
pub const TARGET: &str = "touchstone";

/// The directives of the field for this cache; `None`: it has none that this cache understands.
pub fn parse(values: &[&[u8]]) -> Option<ResponseDirectives> {
    let mut directives = ResponseDirectives::default();
    let mut says_something = false;
    for member in values.iter().flat_map(|value| Members::new(value)) {
        let (argument, argument_target) = split_target(member.argument.unwrap_or_default());
        let (name, name_target) = split_target(member.name);
        if !is_for_us(argument_target) || !is_for_us(name_target) {
            continue;
        }
        if name.eq_ignore_ascii_case(b"no-store") {
            directives.no_store = true;
            says_something = true;
        } else if name.eq_ignore_ascii_case(b"max-age") {
            let mut times = argument.splitn(2, |&byte| byte == b'+');
            let lifetime = times.next().and_then(seconds).unwrap_or(0);
            let stale = times.next().and_then(seconds);
            directives.max_age.get_or_insert(lifetime);
            directives.stale_while_revalidate = directives.stale_while_revalidate.or(stale);
            says_something = true;
        }
    }
    says_something.then_some(directives)
}

/// Whether a directive with this target is for this cache.
pub(super) fn is_for_us(target: Option<&[u8]>) -> bool {
    target.is_none_or(|target| target.eq_ignore_ascii_case(TARGET.as_bytes()))
}

/// Splits a text at its semicolon.
pub(super) fn split_target(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b';', text) {
        Some(semicolon) => (&text[..semicolon], Some(text[semicolon + 1..].trim_ascii())),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_for_others_is_left_alone() {
        for (value, expected) in [
            ("max-age=60", Some((Some(60), None, false))),
            ("MaX-aGe=60+10, content=\"ESI/1.0\"", Some((Some(60), Some(10), false))),
            ("max-age=60;touchstone", Some((Some(60), None, false))),
            ("max-age=60;other", None),
            ("no-store;other, max-age=5", Some((Some(5), None, false))),
            ("no-store", Some((None, None, true))),
            ("max-age= 60", Some((Some(0), None, false))),
            ("content=\"ESI/1.0\"", None),
            ("", None),
        ] {
            let parsed = parse(&[value.as_bytes()])
                .map(|said| (said.max_age, said.stale_while_revalidate, said.no_store));
            assert_eq!(parsed, expected, "{value}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(value in proptest::collection::vec(any::<u8>(), 0..60)) {
            parse(&[&value]);
        }
    }
}
