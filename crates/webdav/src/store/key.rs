//! Keys of resources: bytes. Lines of the journal contain their percent-encoded form.

use serde::{Deserialize, Deserializer, Serializer, de::Error};
use touchstone_files::percent::encode_path;
use touchstone_http::hexadecimal;

/// Writes a key.
pub fn serialize<S: Serializer>(key: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    let mut out = Vec::new();
    encode_path(key, &mut out);
    serializer.serialize_str(&String::from_utf8_lossy(&out))
}

/// Reads a key.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    decode(text.as_bytes()).ok_or_else(|| D::Error::custom("a path with a wrong escape"))
}

fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut key = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte == b'%' {
            let [high, low, after @ ..] = rest else { return None };
            key.push(hexadecimal::byte(*high, *low)?);
            rest = after;
        } else {
            key.push(*byte);
        }
    }
    Some(key)
}

/// Whether a resource is below another one.
pub fn is_below(key: &[u8], of: &[u8]) -> bool {
    key.strip_prefix(of).is_some_and(|rest| rest.starts_with(b"/"))
}
