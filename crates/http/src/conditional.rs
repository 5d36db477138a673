//! Conditional requests (RFC 9110 section 13): whether a request is answered in full, with 304 or with 412,
//! and whether its `Range` applies.
//!
//! The caller collects the condition fields of a request in [`Conditions`] and the properties of the selected
//! representation in [`Validators`]; [`evaluate`] follows the order of section 13.2.2.

use crate::date::parse_http_date;
use crate::entity_tag::{EntityTag, entity_tags, is_any};

/// The field lines that a request has under one name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FieldLines<'a> {
    /// The field does not occur.
    #[default]
    Absent,
    /// It occurs once, as nearly always.
    One(&'a [u8]),
    /// It occurs more often; the values in their order.
    Several(&'a [&'a [u8]]),
}

impl<'a> FieldLines<'a> {
    /// Whether the field occurs at all.
    pub fn is_present(&self) -> bool {
        !self.as_slice().is_empty()
    }

    /// The values in their order.
    pub fn as_slice(&self) -> &[&'a [u8]] {
        match self {
            FieldLines::Absent => &[],
            FieldLines::One(value) => std::slice::from_ref(value),
            FieldLines::Several(values) => values,
        }
    }

    /// The value of a field that may occur only once. Repeated lines would combine to a value with a comma,
    /// which no such field allows (RFC 9110 section 5.3); the result is then an empty value, which is invalid
    /// as well.
    fn singleton(&self) -> Option<&'a [u8]> {
        match *self.as_slice() {
            [] => None,
            [value] => Some(value),
            _ => Some(b""),
        }
    }
}

impl<'a> From<Option<&'a [u8]>> for FieldLines<'a> {
    fn from(value: Option<&'a [u8]>) -> Self {
        value.map_or(FieldLines::Absent, FieldLines::One)
    }
}

impl<'a> From<&'a [u8]> for FieldLines<'a> {
    fn from(value: &'a [u8]) -> Self {
        FieldLines::One(value)
    }
}

/// The condition fields of a request, as received.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Conditions<'a> {
    /// `If-Match` (section 13.1.1).
    pub if_match: FieldLines<'a>,
    /// `If-None-Match` (section 13.1.2).
    pub if_none_match: FieldLines<'a>,
    /// `If-Modified-Since` (section 13.1.3).
    pub if_modified_since: FieldLines<'a>,
    /// `If-Unmodified-Since` (section 13.1.4).
    pub if_unmodified_since: FieldLines<'a>,
    /// `If-Range` (section 13.1.5).
    pub if_range: FieldLines<'a>,
}

/// What identifies the representation that the server would send now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validators<'a> {
    /// The value of its `ETag` field, with the quotes. An empty value, or one that is not an entity tag,
    /// means that it has none.
    pub etag: &'a [u8],
    /// When it was last modified, in Unix seconds.
    pub last_modified: i64,
}

/// The result of the conditions of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precondition {
    /// Answer as if there were no conditions; a `Range` applies if [`if_range_holds`].
    Proceed,
    /// 304 Not Modified.
    NotModified,
    /// 412 Precondition Failed.
    Failed,
}

/// Evaluates the conditions in the order of RFC 9110 section 13.2.2, for a resource that has a current
/// representation.
///
/// Conditions do not count where the answer without them would not be 2xx (section 13.2.1); that is for the
/// caller. Dates that cannot be read are ignored; entity tags that cannot be read match nothing.
/// `now_unix_seconds` is needed for dates with two-digit years only.
pub fn evaluate(
    conditions: &Conditions<'_>,
    validators: &Validators<'_>,
    is_get_or_head: bool,
    now_unix_seconds: i64,
) -> Precondition {
    let date =
        |lines: &FieldLines<'_>| lines.singleton().and_then(|value| parse_http_date(value, now_unix_seconds));
    let current = EntityTag::parse(validators.etag);

    if conditions.if_match.is_present() {
        if !any_matches(&conditions.if_match, current, |tag, current| tag.matches_strongly(current)) {
            return Precondition::Failed;
        }
    } else if date(&conditions.if_unmodified_since).is_some_and(|date| validators.last_modified > date) {
        return Precondition::Failed;
    }

    if conditions.if_none_match.is_present() {
        if any_matches(&conditions.if_none_match, current, |tag, current| tag.matches_weakly(current)) {
            return if is_get_or_head { Precondition::NotModified } else { Precondition::Failed };
        }
    } else if is_get_or_head
        && date(&conditions.if_modified_since).is_some_and(|date| validators.last_modified <= date)
    {
        return Precondition::NotModified;
    }
    Precondition::Proceed
}

/// Whether the `Range` of a request applies (RFC 9110 section 13.1.5): there is no `If-Range`, or it names
/// the current representation, by a strong entity tag or by exactly its modification date.
///
/// When the value cannot be read, the condition does not hold: sending the whole representation is always
/// correct.
pub fn if_range_holds(if_range: FieldLines<'_>, validators: &Validators<'_>, now_unix_seconds: i64) -> bool {
    let Some(value) = if_range.singleton() else { return true };
    match (EntityTag::parse(value), EntityTag::parse(validators.etag)) {
        (Some(tag), Some(current)) => tag.matches_strongly(&current),
        (Some(_), None) => false,
        (None, _) => parse_http_date(value, now_unix_seconds) == Some(validators.last_modified),
    }
}

/// Whether a list of tags, over all its field lines, is `*` or holds one that matches the current tag.
///
/// `*` is valid only as the whole value, not together with other members (RFC 9110 section 13.1.1).
fn any_matches(
    lines: &FieldLines<'_>,
    current: Option<EntityTag<'_>>,
    matches: impl Fn(&EntityTag<'_>, &EntityTag<'_>) -> bool,
) -> bool {
    let lines = lines.as_slice();
    if let [value] = lines
        && is_any(value)
    {
        return true;
    }
    let Some(current) = current else { return false };
    lines.iter().flat_map(|value| entity_tags(value)).any(|tag| matches(&tag, &current))
}

#[cfg(test)]
mod tests {
    use super::Precondition::{Failed, NotModified, Proceed};
    use super::*;
    use crate::date::format_imf_fixdate;
    use proptest::prelude::*;

    /// Sun, 06 Nov 1994 08:49:37 GMT
    const MODIFIED: i64 = 784_111_777;
    const NOW: i64 = 1_795_168_800;
    const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const EARLIER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const LATER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
    const VALIDATORS: Validators<'static> = Validators { etag: b"\"now\"", last_modified: MODIFIED };

    /// Names and values of field lines.
    type Lines = &'static [(&'static str, &'static str)];

    /// Field lines as conditions; more than one of a name is given as several.
    fn conditions(lines: &[(&str, &'static str)]) -> Conditions<'static> {
        let gather = |name: &str| {
            let values: Vec<&'static [u8]> =
                lines.iter().filter(|line| line.0 == name).map(|line| line.1.as_bytes()).collect();
            match values.len() {
                0 => FieldLines::Absent,
                1 => FieldLines::One(values[0]),
                _ => FieldLines::Several(values.leak()),
            }
        };
        Conditions {
            if_match: gather("If-Match"),
            if_none_match: gather("If-None-Match"),
            if_modified_since: gather("If-Modified-Since"),
            if_unmodified_since: gather("If-Unmodified-Since"),
            if_range: gather("If-Range"),
        }
    }

    #[test]
    fn get_and_other_methods() {
        // Conditions, the answer to GET and HEAD, the answer to other methods.
        let table: [(Lines, Precondition, Precondition); 36] = [
            (&[], Proceed, Proceed),
            (&[("If-Match", "\"now\"")], Proceed, Proceed),
            (&[("If-Match", "\"old\", \"now\"")], Proceed, Proceed),
            (&[("If-Match", "\"old\""), ("If-Match", "\"now\"")], Proceed, Proceed),
            (&[("If-Match", "*")], Proceed, Proceed),
            (&[("If-Match", "\"old\"")], Failed, Failed),
            (&[("If-Match", "W/\"now\"")], Failed, Failed),
            (&[("If-Match", "")], Failed, Failed),
            (&[("If-Match", "now")], Failed, Failed),
            (&[("If-Match", "*"), ("If-Match", "\"old\"")], Failed, Failed),
            (&[("If-Unmodified-Since", SAME)], Proceed, Proceed),
            (&[("If-Unmodified-Since", LATER)], Proceed, Proceed),
            (&[("If-Unmodified-Since", EARLIER)], Failed, Failed),
            (&[("If-Unmodified-Since", "Sunday, 06-Nov-94 08:49:36 GMT")], Failed, Failed),
            (&[("If-Unmodified-Since", "yesterday")], Proceed, Proceed),
            (&[("If-Unmodified-Since", EARLIER), ("If-Unmodified-Since", EARLIER)], Proceed, Proceed),
            // If-Match is present, so If-Unmodified-Since is not looked at.
            (&[("If-Match", "\"now\""), ("If-Unmodified-Since", EARLIER)], Proceed, Proceed),
            (&[("If-Match", "\"old\""), ("If-Unmodified-Since", LATER)], Failed, Failed),
            (&[("If-None-Match", "\"now\"")], NotModified, Failed),
            (&[("If-None-Match", "W/\"now\"")], NotModified, Failed),
            (&[("If-None-Match", "*")], NotModified, Failed),
            (&[("If-None-Match", "\"old\", W/\"now\"")], NotModified, Failed),
            (&[("If-None-Match", "\"old\""), ("If-None-Match", "\"now\"")], NotModified, Failed),
            (&[("If-None-Match", "\"old\"")], Proceed, Proceed),
            (&[("If-None-Match", "now")], Proceed, Proceed),
            (&[("If-None-Match", "")], Proceed, Proceed),
            (&[("If-Modified-Since", SAME)], NotModified, Proceed),
            (&[("If-Modified-Since", LATER)], NotModified, Proceed),
            (&[("If-Modified-Since", EARLIER)], Proceed, Proceed),
            (&[("If-Modified-Since", "Sun Nov  6 08:49:37 1994")], NotModified, Proceed),
            (&[("If-Modified-Since", "today")], Proceed, Proceed),
            (&[("If-Modified-Since", SAME), ("If-Modified-Since", SAME)], Proceed, Proceed),
            // If-None-Match is present, so If-Modified-Since is not looked at.
            (&[("If-None-Match", "\"old\""), ("If-Modified-Since", LATER)], Proceed, Proceed),
            (&[("If-None-Match", "\"now\""), ("If-Modified-Since", EARLIER)], NotModified, Failed),
            // The conditions with the answer 412 are evaluated before those with the answer 304.
            (&[("If-None-Match", "\"now\""), ("If-Match", "\"old\"")], Failed, Failed),
            (&[("If-Modified-Since", SAME), ("If-Unmodified-Since", EARLIER)], Failed, Failed),
        ];
        for (lines, get, other) in table {
            assert_eq!(evaluate(&conditions(lines), &VALIDATORS, true, NOW), get, "GET {lines:?}");
            assert_eq!(evaluate(&conditions(lines), &VALIDATORS, false, NOW), other, "PUT {lines:?}");
        }
    }

    #[test]
    fn weak_or_absent_current_tag() {
        let table = [
            ("W/\"now\"", "If-Match", "W/\"now\"", Failed),
            ("W/\"now\"", "If-Match", "\"now\"", Failed),
            ("W/\"now\"", "If-None-Match", "\"now\"", NotModified),
            ("", "If-Match", "\"now\"", Failed),
            ("", "If-Match", "\"\"", Failed),
            ("", "If-Match", "*", Proceed),
            ("", "If-None-Match", "\"\"", Proceed),
            ("", "If-None-Match", "*", NotModified),
        ];
        for (etag, name, value, expected) in table {
            let validators = Validators { etag: etag.as_bytes(), last_modified: MODIFIED };
            assert_eq!(
                evaluate(&conditions(&[(name, value)]), &validators, true, NOW),
                expected,
                "{etag} {value}"
            );
        }
    }

    #[test]
    fn if_range() {
        let table: [(Lines, &str, bool); 14] = [
            (&[], "\"now\"", true),
            (&[("If-Range", "\"now\"")], "\"now\"", true),
            (&[("If-Range", "\"old\"")], "\"now\"", false),
            (&[("If-Range", "W/\"now\"")], "\"now\"", false),
            (&[("If-Range", "\"now\"")], "W/\"now\"", false),
            (&[("If-Range", "W/\"now\"")], "W/\"now\"", false),
            (&[("If-Range", "\"now\"")], "", false),
            (&[("If-Range", "\"now\", \"old\"")], "\"now\"", false),
            (&[("If-Range", "*")], "\"now\"", false),
            (&[("If-Range", "")], "\"now\"", false),
            (&[("If-Range", SAME)], "\"now\"", true),
            (&[("If-Range", LATER)], "\"now\"", false),
            (&[("If-Range", EARLIER)], "\"now\"", false),
            (&[("If-Range", "\"now\""), ("If-Range", "\"now\"")], "\"now\"", false),
        ];
        for (lines, etag, expected) in table {
            let validators = Validators { etag: etag.as_bytes(), last_modified: MODIFIED };
            assert_eq!(
                if_range_holds(conditions(lines).if_range, &validators, NOW),
                expected,
                "{lines:?} {etag}"
            );
        }
    }

    proptest! {
        #[test]
        fn dates_split_time_in_two(offset in -100_000i64..100_000) {
            let date = format_imf_fixdate(MODIFIED + offset);
            let since = Conditions { if_modified_since: date.as_slice().into(), ..Conditions::default() };
            let expected = if offset >= 0 { NotModified } else { Proceed };
            prop_assert_eq!(evaluate(&since, &VALIDATORS, true, NOW), expected);
            let until = Conditions { if_unmodified_since: date.as_slice().into(), ..Conditions::default() };
            let expected = if offset >= 0 { Proceed } else { Failed };
            prop_assert_eq!(evaluate(&until, &VALIDATORS, true, NOW), expected);
            prop_assert_eq!(if_range_holds(date.as_slice().into(), &VALIDATORS, NOW), offset == 0);
        }

        #[test]
        fn what_was_sent_as_validators_is_never_sent_again_and_always_ranged(
            opaque in "[!#-~]{0,20}", last_modified in 0i64..4_000_000_000,
        ) {
            let etag = format!("\"{opaque}\"");
            let date = format_imf_fixdate(last_modified);
            let validators = Validators { etag: etag.as_bytes(), last_modified };
            let both = Conditions {
                if_none_match: etag.as_bytes().into(),
                if_modified_since: date.as_slice().into(),
                ..Conditions::default()
            };
            prop_assert_eq!(evaluate(&both, &validators, true, NOW), NotModified);
            prop_assert!(if_range_holds(etag.as_bytes().into(), &validators, NOW));
            prop_assert!(if_range_holds(date.as_slice().into(), &validators, NOW));
        }

        #[test]
        fn never_panics(
            values in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 6),
            is_get_or_head in any::<bool>(), now in any::<i64>(),
        ) {
            let several = [values[0].as_slice(), values[1].as_slice()];
            let conditions = Conditions {
                if_match: values[2].as_slice().into(),
                if_none_match: FieldLines::Several(&several),
                if_modified_since: values[3].as_slice().into(),
                if_unmodified_since: values[4].as_slice().into(),
                if_range: values[5].as_slice().into(),
            };
            let _ = evaluate(&conditions, &VALIDATORS, is_get_or_head, now);
            let _ = if_range_holds(conditions.if_range, &VALIDATORS, now);
        }
    }
}
