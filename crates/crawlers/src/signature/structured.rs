//! Structured fields (RFC 9651) as signatures need them: read completely, and written again in the strict
//! form.

use sfv::{Dictionary, FieldType, Item, List, ListEntry, Parser};

/// The type of a structured field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// One item.
    Item,
    /// A list.
    List,
    /// A dictionary.
    Dictionary,
}

/// The types of known fields, for the parameter `sf` (the column of the registry of fields at IANA).
const TYPES: &[(&str, Type)] = &[
    ("accept-ch", Type::List),
    ("accept-query", Type::List),
    ("accept-signature", Type::Dictionary),
    ("available-dictionary", Type::Item),
    ("cache-groups", Type::List),
    ("cache-status", Type::List),
    ("capsule-protocol", Type::Item),
    ("cdn-cache-control", Type::Dictionary),
    ("client-cert", Type::Item),
    ("client-cert-chain", Type::List),
    ("content-digest", Type::Dictionary),
    ("deprecation", Type::Item),
    ("dictionary-id", Type::Item),
    ("priority", Type::Dictionary),
    ("proxy-status", Type::List),
    ("repr-digest", Type::Dictionary),
    ("sec-gpc", Type::Item),
    ("signature", Type::Dictionary),
    ("signature-agent", Type::Dictionary),
    ("signature-input", Type::Dictionary),
    ("use-as-dictionary", Type::Dictionary),
    ("want-content-digest", Type::Dictionary),
    ("want-repr-digest", Type::Dictionary),
];

/// The type of a field; `None`: it is unknown.
pub fn type_of(name: &str) -> Option<Type> {
    TYPES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
}

/// The lines of a field as one value (RFC 9110 section 5.2); `None`: there is no such field.
pub fn joined<'v>(values: impl Iterator<Item = &'v [u8]>) -> Option<Vec<u8>> {
    let mut whole: Option<Vec<u8>> = None;
    for value in values {
        match &mut whole {
            None => whole = Some(value.trim_ascii().to_vec()),
            Some(whole) => {
                whole.extend_from_slice(b", ");
                whole.extend_from_slice(value.trim_ascii());
            }
        }
    }
    whole
}

/// A dictionary; `None`: it is not one.
pub fn dictionary(value: &[u8]) -> Option<Dictionary> {
    Parser::new(value).parse().ok()
}

/// A value in the strict form of its type; `None`: it is not of that type.
pub fn strict(value: &[u8], kind: Type) -> Option<String> {
    let parser = Parser::new(value);
    // An empty list or dictionary is written as an empty text.
    match kind {
        Type::Item => Some(parser.parse::<Item>().ok()?.serialize()),
        Type::List => Some(parser.parse::<List>().ok()?.serialize().unwrap_or_default()),
        Type::Dictionary => Some(parser.parse::<Dictionary>().ok()?.serialize().unwrap_or_default()),
    }
}

/// A member of a dictionary or list in its strict form.
pub fn strict_member(member: &ListEntry) -> String {
    match member {
        ListEntry::Item(item) => item.serialize(),
        list @ ListEntry::InnerList(_) => vec![list.clone()].serialize().unwrap_or_default(),
    }
}
