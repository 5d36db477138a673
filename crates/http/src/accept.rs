//! Media types that a client accepts (RFC 9110 section 12.5.1): the weight of a media type that the server
//! could send.

use crate::grammar::trim_optional_white_space;
use crate::weight::{FULL_WEIGHT, NOT_ACCEPTABLE, parse_qvalue};

/// The weight of `media_type` (such as `text/html`, in lower case) for a client, in thousandths; 0: it is not
/// acceptable.
///
/// `lines` are the values of its Accept fields. Without any, every type has the full weight. The most
/// specific range that matches decides: `text/html` before `text/html;level=1`, that before `text/*`, that
/// before `*/*`. Ranges that cannot be read are skipped.
pub fn weight_of<'a>(lines: impl IntoIterator<Item = &'a [u8]>, media_type: &str) -> u16 {
    let wanted = media_type.split_once('/').unwrap_or((media_type, ""));
    let mut is_present = false;
    let mut best: Option<(Specificity, u16)> = None;
    for line in lines {
        is_present = true;
        for member in split_outside_quotes(line, b',') {
            if let Some(found) = matching_range(member, wanted)
                && best.is_none_or(|best| found > best)
            {
                best = Some(found);
            }
        }
    }
    match best {
        Some((_, weight)) => weight,
        None if is_present => NOT_ACCEPTABLE,
        None => FULL_WEIGHT,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Specificity {
    Anything,
    Type,
    SubtypeWithParameters,
    Subtype,
}

/// How specific a media range is, and its weight, if it matches.
fn matching_range(member: &[u8], (kind, subtype): (&str, &str)) -> Option<(Specificity, u16)> {
    let mut pieces = split_outside_quotes(member, b';').map(trim_optional_white_space);
    let range = pieces.next()?;
    let slash = range.iter().position(|&byte| byte == b'/')?;
    let (range_kind, range_subtype) = (&range[..slash], &range[slash + 1..]);
    let mut specificity = match (range_kind, range_subtype) {
        (b"*", b"*") => Specificity::Anything,
        (_, b"*") if range_kind.eq_ignore_ascii_case(kind.as_bytes()) => Specificity::Type,
        _ if range_kind.eq_ignore_ascii_case(kind.as_bytes())
            && range_subtype.eq_ignore_ascii_case(subtype.as_bytes()) =>
        {
            Specificity::Subtype
        }
        _ => return None,
    };
    let mut weight = FULL_WEIGHT;
    for piece in pieces {
        if let [b'q' | b'Q', b'=', qvalue @ ..] = piece {
            // What follows the weight was once an extension of Accept; RFC 9110 dropped it.
            weight = parse_qvalue(qvalue)?;
            break;
        }
        if specificity == Specificity::Subtype {
            specificity = Specificity::SubtypeWithParameters;
        }
    }
    Some((specificity, weight))
}

/// The parts of `value` between separators. Separators inside quoted strings (RFC 9110 section 5.6.4) do not
/// split.
fn split_outside_quotes(value: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    value.split(move |&byte| {
        if escaped {
            escaped = false;
        } else if quoted && byte == b'\\' {
            escaped = true;
        } else if byte == b'"' {
            quoted = !quoted;
        } else {
            return byte == separator && !quoted;
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn html(value: &str) -> u16 {
        weight_of([value.as_bytes()], "text/html")
    }

    #[test]
    fn what_clients_send() {
        for (value, expected) in [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", 1000),
            ("*/*", 1000),
            ("text/*;q=0.3", 300),
            ("application/json, text/plain, */*", 1000),
            ("application/json", 0),
            ("image/avif,image/webp", 0),
            ("*/*;q=0.1, text/html;q=0.7", 700),
            ("text/html;q=0, */*", 0),
            ("text/*;q=0.2, */*;q=0.9", 200),
            ("TEXT/HTML ; Q=0.4", 400),
            ("text/html;level=1;q=0.4, text/*;q=0.6", 400),
            ("text/html;level=1;q=0.4, text/html;q=0.7", 700),
            ("text/html;charset=\"a,b;q=0\";q=0.5", 500),
            ("text/html;q=0.5;extension=1", 500),
            ("text/html;q=7", 0),
            ("", 0),
            ("text", 0),
            ("*/html", 0),
        ] {
            assert_eq!(html(value), expected, "{value:?}");
        }
    }

    #[test]
    fn without_the_field_everything_is_acceptable() {
        assert_eq!(weight_of([], "text/html"), 1000);
        assert_eq!(weight_of([&b"application/json"[..], b"text/*;q=0.5"], "text/html"), 500);
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_weight_in_range(
            value in proptest::collection::vec(
                prop_oneof![
                    Just(b','), Just(b';'), Just(b'"'), Just(b'\\'), Just(b'/'), Just(b'*'), Just(b'q'),
                    any::<u8>()
                ], 0..40)
        ) {
            prop_assert!(weight_of([&value[..]], "text/html") <= 1000);
        }

        #[test]
        fn the_order_of_ranges_does_not_matter(
            ranges in Just(vec!["text/html;q=0.3", "text/*;q=0.5", "*/*;q=0.7", "a/b", "text/html;x=1"])
                .prop_shuffle(),
            count in 0usize..6,
        ) {
            let ranges = &ranges[..count];
            let weights = [
                ("text/html;q=0.3", 300),
                ("text/html;x=1", 1000),
                ("text/*;q=0.5", 500),
                ("*/*;q=0.7", 700),
            ];
            let expected = weights
                .into_iter()
                .find(|(range, _)| ranges.contains(range))
                .map_or(0, |(_, weight)| weight);
            prop_assert_eq!(html(&ranges.join(", ")), expected);
        }
    }
}
