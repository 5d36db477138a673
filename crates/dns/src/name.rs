//! Domain names: labels with their lengths in front, as messages contain them (RFC 1035 section 3.1).

use std::fmt;

/// The longest label.
const MOST_LABEL_BYTES: usize = 63;

/// The longest name, with the lengths of its labels.
const MOST_NAME_BYTES: usize = 255;

/// A domain name in lower case. Its wire form ends with the empty label of the root.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Name {
    wire: Vec<u8>,
}

impl Name {
    /// The name of a text such as `www.example.org`; a dot at its end makes no difference.
    pub fn parse(text: &str) -> Result<Name, String> {
        let refused = |reason: &str| Err(format!("{text:?} is not a domain name: {reason}"));
        let without_dot = text.strip_suffix('.').unwrap_or(text);
        let mut wire = Vec::with_capacity(text.len() + 2);
        for label in without_dot.split('.') {
            if label.is_empty() {
                return refused("a label is empty");
            }
            if label.len() > MOST_LABEL_BYTES {
                return refused("a label has more than 63 characters");
            }
            if !label.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\' && byte != b'"') {
                return refused("it has characters that names must not contain");
            }
            wire.push(label.len() as u8);
            wire.extend(label.bytes().map(|byte| byte.to_ascii_lowercase()));
        }
        wire.push(0);
        match wire.len() > MOST_NAME_BYTES {
            true => refused("it has more than 253 characters"),
            false => Ok(Name { wire }),
        }
    }

    /// The name `label.self`.
    pub fn below(&self, label: &str) -> Result<Name, String> {
        Name::parse(&format!("{label}.{self}"))
    }

    /// The name without its first label; `None` for the root.
    pub fn parent(&self) -> Option<Name> {
        let length = usize::from(*self.wire.first()?);
        (length > 0).then(|| Name { wire: self.wire[1 + length..].to_vec() })
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.wire.len() == 1
    }

    /// Whether this is `other`, or a name below it.
    pub fn is_within(&self, other: &Name) -> bool {
        let mut own = Some(self.clone());
        while let Some(name) = own {
            if name == *other {
                return true;
            }
            own = name.parent();
        }
        false
    }

    /// The form in messages, without compression.
    pub fn wire(&self) -> &[u8] {
        &self.wire
    }

    /// Reads the name at `at` of a message, and returns the position after it. Pointers (RFC 1035 section
    /// 4.1.4) must point backwards, so that they end.
    pub(crate) fn read(message: &[u8], at: usize) -> Option<(Name, usize)> {
        let (mut place, mut after, mut least) = (at, None, at);
        let mut wire = Vec::new();
        loop {
            let length = *message.get(place)?;
            match length {
                0 => {
                    wire.push(0);
                    return Some((Name { wire }, after.unwrap_or(place + 1)));
                }
                1..=63 => {
                    let end = place + 1 + usize::from(length);
                    wire.push(length);
                    wire.extend(message.get(place + 1..end)?.iter().map(u8::to_ascii_lowercase));
                    if wire.len() >= MOST_NAME_BYTES {
                        return None;
                    }
                    place = end;
                }
                0xc0.. => {
                    let target = usize::from(length & 0x3f) << 8 | usize::from(*message.get(place + 1)?);
                    after = after.or(Some(place + 2));
                    if target >= least {
                        return None;
                    }
                    (place, least) = (target, target);
                }
                _ => return None,
            }
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return formatter.write_str(".");
        }
        let mut rest = &self.wire[..];
        let mut is_first = true;
        while let Some((&length @ 1.., following)) = rest.split_first() {
            let (label, after) = following.split_at(usize::from(length).min(following.len()));
            if !is_first {
                formatter.write_str(".")?;
            }
            is_first = false;
            // A label from a message may hold any bytes; they must not disturb a log.
            for &byte in label {
                match byte {
                    b'.' | b'\\' => write!(formatter, "\\{}", char::from(byte))?,
                    0x21..=0x7e => write!(formatter, "{}", char::from(byte))?,
                    _ => write!(formatter, "\\{byte:03}")?,
                }
            }
            rest = after;
        }
        Ok(())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Name({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_of_texts() {
        let name = Name::parse("WWW.example.org.").expect("a name");
        assert_eq!(name.wire(), b"\x03www\x07example\x03org\x00");
        assert_eq!(name.to_string(), "www.example.org");
        assert_eq!(name.parent().expect("a parent").to_string(), "example.org");
        assert!(name.is_within(&Name::parse("org").expect("a name")) && name.is_within(&name));
        assert!(!Name::parse("notexample.org").unwrap().is_within(&Name::parse("example.org").unwrap()));
        for bad in ["", ".", "a..b", ".a", "a b", "a\\b", &"a".repeat(64), &"a.".repeat(128)] {
            assert!(Name::parse(bad).is_err(), "{bad:?}");
        }
        assert_eq!(name.below("_acme-challenge").unwrap().to_string(), "_acme-challenge.www.example.org");
    }

    #[test]
    fn pointers_lead_backwards_only() {
        let message = b"\x03org\x00\x07example\xc0\x00\x03www\xc0\x05";
        let (name, after) = Name::read(message, 15).expect("a name");
        assert_eq!((name.to_string().as_str(), after), ("www.example.org", 21));
        for looped in
            [&b"\xc0\x00"[..], b"\x01a\xc0\x00", b"\xc0\x02\xc0\x00", b"\x01a\xc0", b"\x80", b"\x05a"]
        {
            assert!(Name::read(looped, 0).is_none(), "{looped:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, at in 0usize..64) {
            if let Some((name, after)) = Name::read(&bytes, at) {
                prop_assert!(name.wire().len() <= MOST_NAME_BYTES && after <= bytes.len());
                let _ = name.to_string();
            }
        }

        #[test]
        fn a_name_reads_back(text in "[a-z0-9_-]{1,20}(\\.[a-z0-9_-]{1,20}){0,6}") {
            let name = Name::parse(&text).unwrap();
            prop_assert_eq!(name.to_string(), text);
            prop_assert_eq!(Name::read(name.wire(), 0), Some((name.clone(), name.wire().len())));
        }
    }
}
