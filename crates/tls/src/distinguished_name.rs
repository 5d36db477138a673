//! Distinguished names as text (RFC 4514): `CN=Ada,O=Example\, Inc.,C=GB`.
//!
//! Programs decide access by this text, so the content of a name must never look like another name: every
//! special character is escaped, and values that are not text are written as hexadecimal.

use std::fmt::Write as _;

use touchstone_http::hexadecimal;
use x509_parser::asn1_rs::Tag;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// The name as text, the most specific part first, as the standard requires.
pub fn to_text(name: &X509Name<'_>) -> String {
    let mut text = String::new();
    let parts: Vec<_> = name.iter().collect();
    for (index, part) in parts.iter().rev().enumerate() {
        if index > 0 {
            text.push(',');
        }
        for (index, attribute) in part.iter().enumerate() {
            if index > 0 {
                text.push('+');
            }
            write_attribute(attribute, &mut text);
        }
    }
    text
}

/// The value of the first common name, unescaped.
pub fn common_name(name: &X509Name<'_>) -> Option<String> {
    name.iter_common_name().find_map(decoded)
}

fn write_attribute(attribute: &AttributeTypeAndValue<'_>, text: &mut String) {
    let identifier = attribute.attr_type().to_id_string();
    let short = short_name(&identifier);
    text.push_str(short.unwrap_or(&identifier));
    text.push('=');
    match (short, decoded(attribute)) {
        (Some(_), Some(value)) => escape(&value, text),
        // RFC 4514 section 2.4: the encoding, in hexadecimal, if the type has no short name.
        _ => write_hexadecimal(attribute, text),
    }
}

/// The short names of RFC 4514 section 3, and those that OpenSSL and others write.
fn short_name(identifier: &str) -> Option<&'static str> {
    Some(match identifier {
        "2.5.4.3" => "CN",
        "2.5.4.4" => "SN",
        "2.5.4.5" => "serialNumber",
        "2.5.4.6" => "C",
        "2.5.4.7" => "L",
        "2.5.4.8" => "ST",
        "2.5.4.9" => "street",
        "2.5.4.10" => "O",
        "2.5.4.11" => "OU",
        "2.5.4.12" => "title",
        "2.5.4.42" => "GN",
        "2.5.4.43" => "initials",
        "2.5.4.46" => "dnQualifier",
        "2.5.4.65" => "pseudonym",
        "2.5.4.97" => "organizationIdentifier",
        "0.9.2342.19200300.100.1.1" => "UID",
        "0.9.2342.19200300.100.1.25" => "DC",
        "1.2.840.113549.1.9.1" => "emailAddress",
        _ => return None,
    })
}

fn decoded(attribute: &AttributeTypeAndValue<'_>) -> Option<String> {
    let value = attribute.attr_value();
    match value.tag() {
        Tag::Utf8String | Tag::PrintableString | Tag::Ia5String | Tag::NumericString => {
            String::from_utf8(value.data.to_vec()).ok()
        }
        // In practice T.61 strings hold Latin 1.
        Tag::T61String => Some(value.data.iter().copied().map(char::from).collect()),
        Tag::BmpString if value.data.len().is_multiple_of(2) => {
            let units = value.data.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
            char::decode_utf16(units).collect::<Result<String, _>>().ok()
        }
        Tag::UniversalString if value.data.len().is_multiple_of(4) => value
            .data
            .chunks_exact(4)
            .map(|four| char::from_u32(u32::from_be_bytes([four[0], four[1], four[2], four[3]])))
            .collect(),
        _ => None,
    }
}

/// RFC 4514 section 2.4. Control characters are escaped too: a name must not end a line of a log or a header.
fn escape(value: &str, text: &mut String) {
    let last = value.chars().count().saturating_sub(1);
    for (index, character) in value.chars().enumerate() {
        match character {
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' => {
                text.push('\\');
                text.push(character);
            }
            '#' if index == 0 => text.push_str("\\#"),
            ' ' if index == 0 || index == last => text.push_str("\\ "),
            _ if character.is_control() => {
                let mut bytes = [0; 4];
                for byte in character.encode_utf8(&mut bytes).bytes() {
                    // Writing to a String cannot fail.
                    let _ = write!(text, "\\{byte:02X}");
                }
            }
            _ => text.push(character),
        }
    }
}

fn write_hexadecimal(attribute: &AttributeTypeAndValue<'_>, text: &mut String) {
    let value = attribute.attr_value();
    text.push('#');
    let length = value.data.len();
    let mut head = vec![value.header.raw_tag().and_then(|tag| tag.first().copied()).unwrap_or(0)];
    match length {
        0..=0x7f => head.push(length as u8),
        _ => {
            let bytes = length.to_be_bytes();
            let significant = &bytes[bytes.iter().position(|byte| *byte != 0).unwrap_or(0)..];
            head.push(0x80 | significant.len() as u8);
            head.extend_from_slice(significant);
        }
    }
    text.push_str(&hexadecimal::encode(&head));
    text.push_str(&hexadecimal::encode(value.data));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair};
    use x509_parser::prelude::{FromDer as _, X509Certificate};

    fn subject(entries: Vec<(DnType, DnValue)>) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in entries {
            params.distinguished_name.push(kind, value);
        }
        let der = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let (_, certificate) = X509Certificate::from_der(der.der()).unwrap();
        to_text(certificate.subject())
    }

    fn utf8(text: &str) -> DnValue {
        DnValue::Utf8String(text.to_string())
    }

    #[test]
    fn most_specific_first() {
        let text = subject(vec![
            (DnType::CountryName, utf8("GB")),
            (DnType::OrganizationName, utf8("Example")),
            (DnType::CommonName, utf8("Ada")),
        ]);
        assert_eq!(text, "CN=Ada,O=Example,C=GB");
    }

    #[test]
    fn nothing_in_a_value_looks_like_another_part() {
        let cases = [
            ("Ada,O=Admin", r"CN=Ada\,O=Admin"),
            ("a+b", r"CN=a\+b"),
            (r#"a"b\c;d<e>f"#, r#"CN=a\"b\\c\;d\<e\>f"#),
            ("#1", r"CN=\#1"),
            (" a b ", r"CN=\ a b\ "),
            ("a\nb\0", r"CN=a\0Ab\00"),
            ("Grüße", "CN=Grüße"),
            ("\u{85}", r"CN=\C2\85"),
            (" ", r"CN=\ "),
            ("", "CN="),
        ];
        for (value, expected) in cases {
            assert_eq!(subject(vec![(DnType::CommonName, utf8(value))]), expected, "{value:?}");
        }
    }

    #[test]
    fn unknown_types_and_other_strings() {
        let unknown = subject(vec![(DnType::CustomDnType(vec![1, 2, 3, 4]), utf8("x"))]);
        assert_eq!(unknown, "1.2.3.4=#0c0178");
        let long = subject(vec![(DnType::CustomDnType(vec![1, 2, 3, 4]), utf8(&"y".repeat(200)))]);
        assert!(long.starts_with("1.2.3.4=#0c81c87979"), "{long}");
        let sixteen_bits = DnValue::BmpString("Zoë".try_into().unwrap());
        assert_eq!(subject(vec![(DnType::CommonName, sixteen_bits)]), "CN=Zoë");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn escaped_text_has_no_bare_separator(value in any::<String>()) {
            let mut text = String::new();
            escape(&value, &mut text);
            let mut characters = text.chars();
            while let Some(character) = characters.next() {
                match character {
                    '\\' => { prop_assert!(characters.next().is_some()); }
                    ',' | '+' | '"' | ';' | '<' | '>' => {
                        prop_assert!(false, "bare {character:?} in {text:?}");
                    }
                    _ => prop_assert!(!character.is_control()),
                }
            }
        }
    }
}
