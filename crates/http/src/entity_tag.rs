//! Entity tags (RFC 9110 section 8.8.3): reading one, reading the lists of `If-Match` and `If-None-Match`,
//! comparing.
//!
//! A comma may be inside a tag, so a list of tags cannot be split at its commas; [`entity_tags`] reads it
//! from left to right.

use crate::grammar::trim_optional_white_space;

/// One entity tag: `"xyzzy"` or `W/"xyzzy"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntityTag<'a> {
    /// Whether it is marked weak: two bodies with this tag mean the same but may differ in their bytes.
    pub weak: bool,
    /// The text between the quotes.
    pub opaque: &'a [u8],
}

impl<'a> EntityTag<'a> {
    /// Reads a field value that is exactly one entity tag.
    pub fn parse(value: &'a [u8]) -> Option<EntityTag<'a>> {
        match EntityTag::parse_prefix(value)? {
            (tag, []) => Some(tag),
            _ => None,
        }
    }

    /// Strong comparison (RFC 9110 section 8.8.3.2): neither is weak, and they are the same.
    pub fn matches_strongly(&self, other: &EntityTag<'_>) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }

    /// Weak comparison (RFC 9110 section 8.8.3.2): they are the same, weak or not.
    pub fn matches_weakly(&self, other: &EntityTag<'_>) -> bool {
        self.opaque == other.opaque
    }

    /// Reads the entity tag at the beginning of `bytes`; returns it and the rest.
    fn parse_prefix(bytes: &'a [u8]) -> Option<(EntityTag<'a>, &'a [u8])> {
        let (weak, quoted) = match bytes {
            // "W" is case-sensitive.
            [b'W', b'/', rest @ ..] => (true, rest),
            _ => (false, bytes),
        };
        let [b'"', rest @ ..] = quoted else { return None };
        let length = rest.iter().position(|&byte| !is_entity_tag_byte(byte))?;
        (rest[length] == b'"').then(|| (EntityTag { weak, opaque: &rest[..length] }, &rest[length + 1..]))
    }
}

/// Whether `byte` is an `etagc`: visible ASCII but the quote, or 0x80 and above. There are no escapes in a
/// tag.
fn is_entity_tag_byte(byte: u8) -> bool {
    byte == 0x21 || (0x23..=0x7e).contains(&byte) || byte >= 0x80
}

/// The entity tags of a list, as in one field line of `If-Match` or `If-None-Match`. Empty members are
/// skipped.
///
/// The iterator ends before the first member that is not an entity tag: what cannot be read matches nothing.
/// The same applies to `*`, which is not a tag; check [`is_any`] first.
pub fn entity_tags(value: &[u8]) -> EntityTags<'_> {
    EntityTags { rest: value }
}

/// Whether a field value is `*`, which means any current representation.
pub fn is_any(value: &[u8]) -> bool {
    trim_optional_white_space(value) == b"*"
}

/// The iterator that [`entity_tags`] returns.
#[derive(Debug, Clone)]
pub struct EntityTags<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for EntityTags<'a> {
    type Item = EntityTag<'a>;

    fn next(&mut self) -> Option<EntityTag<'a>> {
        while let [b' ' | b'\t' | b',', rest @ ..] = self.rest {
            self.rest = rest;
        }
        // Taken, so that a bad member ends the list for good.
        let (tag, after) = EntityTag::parse_prefix(std::mem::take(&mut self.rest))?;
        match trim_optional_white_space(after) {
            [] => {}
            members @ [b',', ..] => self.rest = members,
            _ => return None,
        }
        Some(tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn strong(opaque: &str) -> EntityTag<'_> {
        EntityTag { weak: false, opaque: opaque.as_bytes() }
    }

    fn weak(opaque: &str) -> EntityTag<'_> {
        EntityTag { weak: true, opaque: opaque.as_bytes() }
    }

    #[test]
    fn one_tag() {
        let good = [
            (r#""xyzzy""#, strong("xyzzy")),
            (r#"W/"xyzzy""#, weak("xyzzy")),
            (r#""""#, strong("")),
            (r#"W/"""#, weak("")),
            (r#""a,b""#, strong("a,b")),
            (r#""a\""#, strong(r"a\")),
            (r#""W/""#, strong("W/")),
            ("\"é\"", strong("é")),
        ];
        for (value, expected) in good {
            assert_eq!(EntityTag::parse(value.as_bytes()), Some(expected), "{value}");
        }
        let bad = [
            "",
            "xyzzy",
            "*",
            "\"",
            "\"a",
            "a\"",
            r#"w/"a""#,
            r#"W"a""#,
            r#"W/ "a""#,
            r#""a" "#,
            r#" "a""#,
            "W/",
        ];
        for value in bad.into_iter().chain([r#""a b""#, "\"a\tb\"", "\"a\x7f\"", "\"a\0\"", r#""a""b""#]) {
            assert_eq!(EntityTag::parse(value.as_bytes()), None, "{value:?}");
        }
    }

    #[test]
    fn comparison_as_in_the_table_of_rfc_9110_8_8_3_2() {
        let table = [
            (weak("1"), weak("1"), false, true),
            (weak("1"), weak("2"), false, false),
            (weak("1"), strong("1"), false, true),
            (strong("1"), weak("1"), false, true),
            (strong("1"), strong("1"), true, true),
            (strong("1"), strong("2"), false, false),
        ];
        for (one, other, strongly, weakly) in table {
            assert_eq!(one.matches_strongly(&other), strongly, "{one:?} {other:?}");
            assert_eq!(one.matches_weakly(&other), weakly, "{one:?} {other:?}");
        }
    }

    #[test]
    fn lists() {
        let table: [(&str, &[EntityTag<'_>]); 14] = [
            ("", &[]),
            (" , ,", &[]),
            (r#""a""#, &[strong("a")]),
            (r#"  "a"  "#, &[strong("a")]),
            (r#""a","b""#, &[strong("a"), strong("b")]),
            (r#""a" , W/"b",, "c,d" ,"#, &[strong("a"), weak("b"), strong("c,d")]),
            (r#",,"a""#, &[strong("a")]),
            ("*", &[]),
            (r#""a", *"#, &[strong("a")]),
            (r#""a", b, "c""#, &[strong("a")]),
            // The member that has something behind its tag is not a tag.
            (r#""a" "b""#, &[]),
            (r#""a", "b"c, "d""#, &[strong("a")]),
            (r#"a"b""#, &[]),
            (r#""a", "b"#, &[strong("a")]),
        ];
        for (value, expected) in table {
            assert_eq!(entity_tags(value.as_bytes()).collect::<Vec<_>>(), expected, "{value}");
        }
        assert!(is_any(b"*") && is_any(b" *\t"));
        assert!(!is_any(b"") && !is_any(b"**") && !is_any(b"*, *") && !is_any(b"\"*\""));
    }

    proptest! {
        #[test]
        fn a_list_gives_back_its_members(
            members in proptest::collection::vec((any::<bool>(), "[!#-~]{0,8}"), 0..6),
            separator in "[ \t]{0,2},[ \t,]{0,3}",
        ) {
            let mark = |weak: &bool| if *weak { "W/" } else { "" };
            let texts: Vec<String> =
                members.iter().map(|(weak, opaque)| format!("{}\"{opaque}\"", mark(weak))).collect();
            let list = texts.join(&separator);
            let expected: Vec<_> = members
                .iter()
                .map(|(weak, opaque)| EntityTag { weak: *weak, opaque: opaque.as_bytes() })
                .collect();
            prop_assert_eq!(entity_tags(list.as_bytes()).collect::<Vec<_>>(), expected);
        }

        #[test]
        fn any_bytes_end_and_give_valid_tags(value in proptest::collection::vec(
            prop_oneof![Just(b'"'), Just(b','), Just(b'W'), Just(b'/'), Just(b' '), any::<u8>()], 0..60))
        {
            let mut tags = entity_tags(&value);
            let mut count = 0;
            for tag in tags.by_ref() {
                prop_assert!(tag.opaque.iter().all(|&byte| is_entity_tag_byte(byte)));
                count += 1;
            }
            prop_assert!(count <= value.len() / 2);
            prop_assert_eq!(tags.next(), None);
        }
    }
}
