//! Compression dictionaries (RFC 9842): which dictionary a client has, and in which codings it takes answers
//! that were made with it.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, PAD};

use crate::content_coding::ContentCoding;
use crate::grammar::list_members;
use crate::request_view::{RequestFields, values};
use crate::weight::split_weight;

/// The SHA-256 of a dictionary. Client and server identify the dictionary by it.
pub type DictionaryHash = [u8; 32];

/// A content coding that needs a dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DictionaryCoding {
    /// `dcb`: brotli with a dictionary (section 4).
    Brotli = 0,
    /// `dcz`: zstd with a dictionary (section 5).
    Zstd = 1,
}

impl DictionaryCoding {
    /// Both.
    pub const ALL: [DictionaryCoding; 2] = [DictionaryCoding::Brotli, DictionaryCoding::Zstd];

    /// The name in Accept-Encoding and Content-Encoding.
    pub fn token(self) -> &'static str {
        match self {
            DictionaryCoding::Brotli => "dcb",
            DictionaryCoding::Zstd => "dcz",
        }
    }

    /// The coding without a dictionary.
    pub fn plain(self) -> ContentCoding {
        match self {
            DictionaryCoding::Brotli => ContentCoding::Brotli,
            DictionaryCoding::Zstd => ContentCoding::Zstd,
        }
    }

    /// The bytes at the beginning of a coded body, before the hash of its dictionary. For dcz they are the
    /// head of a skippable frame.
    pub fn magic(self) -> &'static [u8] {
        match self {
            DictionaryCoding::Brotli => b"\xffDCB",
            DictionaryCoding::Zstd => b"\x5e\x2a\x4d\x18\x20\0\0\0",
        }
    }
}

/// The dictionary that a client has, and the codings that it accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AvailableDictionary {
    /// The hash of the dictionary.
    pub hash: DictionaryHash,
    /// Weights in thousandths, by [`DictionaryCoding`].
    weights: [u16; 2],
}

impl AvailableDictionary {
    /// Reads the fields of a request. `None`: the client has no dictionary, accepts no coding that needs one,
    /// or the field is not valid.
    pub fn of(fields: &dyn RequestFields) -> Option<AvailableDictionary> {
        let mut hashes = values(fields, b"available-dictionary");
        let hash = read_hash(hashes.next()?)?;
        // Section 2.2: a client sends one hash.
        if hashes.next().is_some() {
            return None;
        }
        let mut weights = [None; 2];
        for member in values(fields, b"accept-encoding").flat_map(list_members) {
            let Some((name, weight)) = split_weight(member) else { continue };
            for coding in DictionaryCoding::ALL {
                if name.eq_ignore_ascii_case(coding.token().as_bytes()) {
                    let kept = &mut weights[coding as usize];
                    *kept = Some(kept.map_or(weight, |other: u16| other.min(weight)));
                }
            }
        }
        let weights = weights.map(|weight| weight.unwrap_or(0));
        (weights != [0, 0]).then_some(AvailableDictionary { hash, weights })
    }

    /// The codings that the client accepts, the most preferred first; codings of equal weight are in the
    /// order of `order`.
    pub fn codings(&self, order: &[ContentCoding; 3]) -> impl Iterator<Item = DictionaryCoding> + use<> {
        let place = |coding: DictionaryCoding| order.iter().position(|other| *other == coding.plain());
        let weight = |coding: DictionaryCoding| self.weights[coding as usize];
        let mut both = DictionaryCoding::ALL;
        both.sort_by_key(|&coding| (std::cmp::Reverse(weight(coding)), place(coding)));
        let is_taken = both.map(|coding| weight(coding) > 0);
        both.into_iter().zip(is_taken).filter(|(_, is_taken)| *is_taken).map(|(coding, _)| coding)
    }
}

/// A byte sequence (RFC 9651 section 3.3.5) of 32 bytes. Unused bits after the last byte are ignored.
fn read_hash(value: &[u8]) -> Option<DictionaryHash> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(&STANDARD, PAD.with_decode_allow_trailing_bits(true));
    let text = value.strip_prefix(b":")?.strip_suffix(b":")?;
    let mut hash = [0; 33];
    let length = LENIENT.decode_slice(text, &mut hash).ok()?;
    hash[..length].try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HASH: &str = ":pZGm1Av0IEBKARczz7exkNYsZb8LzaMrV7J32a2fFG4=:";

    fn read(fields: &[(&str, &str)]) -> Option<AvailableDictionary> {
        AvailableDictionary::of(&fields.to_vec())
    }

    fn order(accept: &str, order: [ContentCoding; 3]) -> Vec<&'static str> {
        let read = read(&[("Accept-Encoding", accept), ("available-dictionary", HASH)]);
        read.map_or(vec![], |read| read.codings(&order).map(DictionaryCoding::token).collect())
    }

    #[test]
    fn the_example_of_the_document_is_read() {
        // Section 2.2.
        let read =
            read(&[("Accept-Encoding", "gzip, deflate, br, zstd, dcb, dcz"), ("Available-Dictionary", HASH)]);
        let hash = read.unwrap().hash;
        assert_eq!(hash[..4], [0xa5, 0x91, 0xa6, 0xd4]);
        assert_eq!(hash[28..], [0xad, 0x9f, 0x14, 0x6e]);
    }

    #[test]
    fn codings_come_by_weight_and_then_in_the_order_of_the_server() {
        let usual = ContentCoding::ALL;
        let other = [ContentCoding::Zstd, ContentCoding::Gzip, ContentCoding::Brotli];
        for (accept, expected, in_other) in [
            ("br, dcb, dcz", vec!["dcb", "dcz"], vec!["dcz", "dcb"]),
            ("dcb;q=0.5, DCZ", vec!["dcz", "dcb"], vec!["dcz", "dcb"]),
            ("dcz", vec!["dcz"], vec!["dcz"]),
            ("dcb;q=0, dcz, dcz;q=0", vec![], vec![]),
            ("*", vec![], vec![]),
            ("br", vec![], vec![]),
        ] {
            assert_eq!(order(accept, usual), expected, "{accept}");
            assert_eq!(order(accept, other), in_other, "{accept}");
        }
    }

    #[test]
    fn what_is_not_one_hash_is_none() {
        let short = ":AAAA:";
        let long = format!(":{}=:", "A".repeat(44));
        for values in [
            vec![short],
            vec![&long],
            vec![&HASH[1..]],
            vec![&HASH[..HASH.len() - 1]],
            vec![":pZGm1Av0IEBKARczz7exkNYsZb8LzaMrV7J32a2fFG-=:"],
            vec![":pZGm1Av0IEBKARczz7exkNYsZb8LzaMrV7J32a2fFG4A:"],
            vec![HASH, HASH],
            vec![],
        ] {
            let mut fields = vec![("accept-encoding", "dcz")];
            fields.extend(values.iter().map(|value| ("available-dictionary", *value)));
            assert_eq!(read(&fields), None, "{values:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_hash_or_none(value in proptest::collection::vec(any::<u8>(), 0..60)) {
            read_hash(&value);
        }
    }
}
