//! Reads field sections (RFC 9204 section 4.5).

use super::SectionLimits;
use super::{QpackError, static_table};
use crate::h2::hpack::field_list::{Field, FieldList, Span};
use crate::h2::hpack::known_name::KnownName;
use crate::h2::hpack::validity::{is_valid_name, is_valid_value};
use crate::h2::hpack::{HpackError, integer};

/// Reads a whole section and adds its fields to `list`. Returns true if it had more than the limits allow:
/// the fields up to there are in the list, the others were not read.
pub fn decode(section: &[u8], limits: SectionLimits, list: &mut FieldList) -> Result<bool, QpackError> {
    let mut input = section;
    read_prefix(&mut input)?;
    let (mut bytes, mut fields) = (0, 0);
    while let Some((&first, rest)) = input.split_first() {
        input = rest;
        let text_end = list.text_end();
        let field = read_field(first, &mut input, list)?;
        bytes += field.size();
        fields += 1;
        if bytes > limits.bytes || fields > limits.fields {
            list.truncate_text(text_end);
            return Ok(true);
        }
        list.push(field);
    }
    Ok(false)
}

/// Section 4.5.1: a section that needs no insertions, with any base that is not negative.
fn read_prefix(input: &mut &[u8]) -> Result<(), QpackError> {
    let first = take_byte(input)?;
    if integer::decode(first, 8, input)? != 0 {
        return Err(QpackError::DynamicReference);
    }
    let first = take_byte(input)?;
    integer::decode(first, 7, input)?;
    // With the sign, the base would be below 0.
    if first & 0x80 != 0 { Err(QpackError::DynamicReference) } else { Ok(()) }
}

fn read_field(first: u8, input: &mut &[u8], list: &mut FieldList) -> Result<Field, QpackError> {
    match first >> 4 {
        // Indexed, static: 11.
        0b1100..=0b1111 => {
            let entry = static_entry(integer::decode(first, 6, input)?)?;
            let name = store_name(entry, list);
            let value = list.store(entry.value.as_bytes());
            Ok(Field { name, value, known: entry.known, is_valid: true, is_never_indexed: false })
        }
        // Literal with a name of the static table: 01N1.
        0b0101 | 0b0111 => {
            let entry = static_entry(integer::decode(first, 4, input)?)?;
            let name = store_name(entry, list);
            let value = read_string(input, list)?;
            let is_valid = is_valid_value(entry.known, list.text(value));
            Ok(Field { name, value, known: entry.known, is_valid, is_never_indexed: first & 0x20 != 0 })
        }
        // Literal with its name as a string: 001N.
        0b0010 | 0b0011 => {
            let name = read_text(first, 3, input, list)?;
            let known = KnownName::of(list.text(name));
            let value = read_string(input, list)?;
            let is_valid = (known != KnownName::Other || is_valid_name(list.text(name)))
                && is_valid_value(known, list.text(value));
            Ok(Field { name, value, known, is_valid, is_never_indexed: first & 0x10 != 0 })
        }
        // Dynamic (10, 01N0), and with a post-base index (0001, 0000).
        _ => Err(QpackError::DynamicReference),
    }
}

fn static_entry(index: usize) -> Result<&'static static_table::Entry, QpackError> {
    static_table::ENTRIES.get(index).ok_or(QpackError::UnknownIndex)
}

/// The text of a name. Every list already contains the known names.
fn store_name(entry: &static_table::Entry, list: &mut FieldList) -> Span {
    match entry.known {
        KnownName::Other => list.store(entry.name.as_bytes()),
        known => FieldList::known_name(known),
    }
}

/// A string literal whose length begins in a byte of its own.
fn read_string(input: &mut &[u8], list: &mut FieldList) -> Result<Span, QpackError> {
    let first = take_byte(input)?;
    read_text(first, 7, input, list)
}

/// A string whose length begins in the lowest `prefix_bits` of `first`; the bit above is set for Huffman
/// code.
fn read_text(
    first: u8,
    prefix_bits: u32,
    input: &mut &[u8],
    list: &mut FieldList,
) -> Result<Span, QpackError> {
    let length = integer::decode(first, prefix_bits, input)?;
    let (text, rest) = input.split_at_checked(length).ok_or(QpackError::Truncated)?;
    *input = rest;
    match first >> prefix_bits & 1 {
        1 => Ok(list.store_huffman(text)?),
        _ => Ok(list.store(text)),
    }
}

fn take_byte(input: &mut &[u8]) -> Result<u8, QpackError> {
    let (&first, rest) = input.split_first().ok_or(HpackError::Truncated)?;
    *input = rest;
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::super::encode_fields;
    use super::*;
    use proptest::prelude::*;

    const LIMITS: SectionLimits = SectionLimits { bytes: 4096, fields: 50 };

    fn fields(section: &[u8]) -> Result<Vec<(String, String, bool)>, QpackError> {
        let mut list = FieldList::new();
        decode(section, LIMITS, &mut list)?;
        let text = |span| String::from_utf8_lossy(list.text(span)).into_owned();
        Ok(list.fields().iter().map(|field| (text(field.name), text(field.value), field.is_valid)).collect())
    }

    /// RFC 9204 appendix B.1.
    #[test]
    fn an_example_of_the_standard() {
        let section = b"\x00\x00\x51\x0b/index.html";
        assert_eq!(fields(section), Ok(vec![(":path".into(), "/index.html".into(), true)]));
    }

    #[test]
    fn all_entries_of_the_static_table() {
        for (index, entry) in static_table::ENTRIES.iter().enumerate() {
            let mut section = vec![0, 0];
            integer::encode(index, 6, 0xc0, &mut section);
            integer::encode(index, 4, 0x50, &mut section);
            section.extend_from_slice(b"\x02/v");
            let name = entry.name.to_string();
            let expected = vec![(name.clone(), entry.value.to_string()), (name, "/v".to_string())];
            let found: Vec<(String, String)> =
                fields(&section).unwrap().into_iter().map(|(name, value, _)| (name, value)).collect();
            assert_eq!(found, expected);
        }
        assert_eq!(fields(b"\x00\x00\xff\x24"), Err(QpackError::UnknownIndex));
    }

    #[test]
    fn what_needs_a_dynamic_table_is_refused() {
        for section in [
            &b"\x02\x00\x80"[..],
            b"\x00\x80",
            b"\x00\x00\x80",
            b"\x00\x00\x40\x01v",
            b"\x00\x00\x10",
            b"\x00\x00\x00\x01v",
        ] {
            assert_eq!(fields(section), Err(QpackError::DynamicReference), "{section:?}");
        }
        for section in [&b""[..], b"\x00", b"\x00\x00\x51", b"\x00\x00\x51\x05abc", b"\x00\x00\x27"] {
            assert_eq!(fields(section), Err(QpackError::Truncated), "{section:?}");
        }
        assert_eq!(fields(b"\x00\x00\x51\xff\xff\xff\xff\xff\xff\x00"), Err(QpackError::IntegerTooLarge));
        assert_eq!(fields(b"\x00\x00\x51\x81\x00"), Err(QpackError::Huffman));
    }

    #[test]
    fn names_and_values_are_judged() {
        let wrong = [
            &b"\x00\x00\x21A\x01b"[..],
            b"\x00\x00\x21a\x02 b",
            b"\x00\x00\x21a\x01\n",
            b"\x00\x00\x51\x03a b",
        ];
        for section in wrong {
            assert!(!fields(section).unwrap()[0].2, "{section:?}");
        }
        assert!(fields(b"\x00\x00\x21a\x01b").unwrap()[0].2);
        assert!(fields(b"\x00\x7f\x00\x21a\x01b").unwrap()[0].2, "any base will do");
    }

    proptest! {
        #[test]
        fn reads_what_is_written(
            written in proptest::collection::vec(
                ("[a-z][a-z0-9-]{0,12}", "([!-~]([ -~]{0,30}[!-~])?)?"),
                0..10,
            )
        ) {
            // The encoder leaves out fields of HTTP/1's connections.
            let written: Vec<(String, String)> = written
                .into_iter()
                .filter(|(name, _)| name != "host")
                .filter(|(name, _)| !KnownName::of(name.as_bytes()).is_connection_specific())
                .collect();
            let mut section = Vec::new();
            let pairs = written.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            encode_fields(pairs, &mut section);
            let read = fields(&section).unwrap();
            prop_assert!(read.iter().all(|(_, _, is_valid)| *is_valid));
            let read: Vec<(String, String)> =
                read.into_iter().map(|(name, value, _)| (name, value)).collect();
            prop_assert_eq!(read, written);
        }

        #[test]
        fn never_panics_and_holds_its_limits(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let limits = SectionLimits { bytes: 100, fields: 3 };
            for section in [&bytes[..], &[&[0, 0], &bytes[..]].concat()] {
                let mut list = FieldList::new();
                if decode(section, limits, &mut list).is_ok() {
                    prop_assert!(list.len() <= 3);
                    prop_assert!(list.fields().iter().map(Field::size).sum::<usize>() <= 100);
                }
            }
        }
    }
}
