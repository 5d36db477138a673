//! Keyed hashes for entity tags and for placeholders of secrets. They show whether two values are equal.
//! Clients do not have the key and cannot compare guessed values with them.

use aws_lc_rs::hmac;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use touchstone_http::hexadecimal;

/// The key of this process.
pub struct HashKey(hmac::Key);

impl HashKey {
    /// A new key.
    ///
    /// # Panics
    ///
    /// If the system has no source of random numbers.
    pub fn new() -> HashKey {
        let mut bytes = [0; 32];
        aws_lc_rs::rand::fill(&mut bytes).expect("the system has random numbers");
        HashKey(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
    }

    /// 64 hexadecimal digits.
    pub fn hash(&self, bytes: &[u8]) -> String {
        hexadecimal::encode(hmac::sign(&self.0, bytes).as_ref())
    }

    /// The entity tag of a value.
    pub fn entity_tag(&self, value: &Value) -> String {
        format!("\"{}\"", &self.hash(value.to_string().as_bytes())[..32])
    }
}

impl Default for HashKey {
    fn default() -> HashKey {
        HashKey::new()
    }
}

/// A hash of a value without a key, which is the same in every process.
pub fn digest(value: &Value) -> String {
    hexadecimal::encode(&Sha256::digest(value.to_string().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tags_differ_by_value_and_digests_are_the_same_in_every_process() {
        let key = HashKey::new();
        assert_eq!(key.entity_tag(&json!({ "a": 1, "b": 2 })), key.entity_tag(&json!({ "b": 2, "a": 1 })));
        assert_ne!(key.entity_tag(&json!(1)), key.entity_tag(&json!(2)));
        assert_ne!(key.entity_tag(&json!(1)), HashKey::new().entity_tag(&json!(1)));
        assert_eq!(digest(&json!({})), hexadecimal::encode(&Sha256::digest(b"{}")));
    }
}
