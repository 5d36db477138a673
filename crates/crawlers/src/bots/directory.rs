//! A directory of keys: a JSON Web Key Set (RFC 7517 section 5) whose keys are named by their thumbprints.

use crate::signature::VerificationKey;

/// The maximum size of a directory in bytes.
pub const LARGEST_BYTES: usize = 64 * 1024;

/// The maximum number of its keys.
pub const MOST_KEYS: usize = 64;

/// The media type of the directory of an origin.
pub const MEDIA_TYPE: &str = "application/http-message-signatures-directory+json";

/// The keys of the examples of RFC 9421 and the drafts, whose private parts are public.
const PUBLIC_EXAMPLES: [&str; 2] =
    ["poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U", "oD0HwocPBSfpNy5W3bpJeyFGY_IQ_YpqxSjQ3Yd-CLA"];

/// The keys of a bot.
#[derive(Default)]
pub struct Directory {
    keys: Vec<VerificationKey>,
}

impl Directory {
    /// Reads a directory. Keys that cannot verify signatures of bots are omitted; the error describes why
    /// there is none, or another problem.
    pub fn parse(text: &[u8]) -> Result<Directory, String> {
        Directory::parse_with(text, |key| !PUBLIC_EXAMPLES.contains(&key.thumbprint.as_str()))
    }

    fn parse_with(text: &[u8], is_allowed: impl Fn(&VerificationKey) -> bool) -> Result<Directory, String> {
        if text.len() > LARGEST_BYTES {
            return Err(format!("has more than {LARGEST_BYTES} bytes"));
        }
        let document: serde_json::Value =
            serde_json::from_slice(text).map_err(|error| format!("is not JSON: {error}"))?;
        let Some(serde_json::Value::Array(listed)) = document.get("keys") else {
            return Err("is not a JSON Web Key Set: it has no array \"keys\"".to_string());
        };
        if listed.len() > MOST_KEYS {
            return Err(format!("has more than {MOST_KEYS} keys"));
        }
        let mut keys = Vec::new();
        let mut problem = "it is empty".to_string();
        for jwk in listed {
            match VerificationKey::of_jwk(jwk) {
                Ok(key) if key.is_secret() => problem = "a secret does not identify a bot".to_string(),
                Ok(key) if !is_allowed(&key) => {
                    problem =
                        "the key is one of the examples of RFC 9421, which every client can sign with".into();
                }
                Ok(key) => keys.push(key),
                Err(why) => problem = why.to_string(),
            }
        }
        // An empty set is how a bot withdraws its keys.
        if keys.is_empty() && !listed.is_empty() {
            return Err(format!("has no key that can be used: {problem}"));
        }
        Ok(Directory { keys })
    }

    /// The key with this thumbprint.
    pub fn key(&self, thumbprint: &str) -> Option<&VerificationKey> {
        self.keys.iter().find(|key| key.thumbprint == thumbprint)
    }

    /// A directory that has examples too, for the vectors.
    #[cfg(test)]
    pub fn with_examples(text: &[u8]) -> Directory {
        Directory::parse_with(text, |_| true).expect("a directory")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str =
        r#"{"kty":"OKP","crv":"Ed25519","kid":"x","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;

    #[test]
    fn usable_keys_are_found_by_their_thumbprints() {
        // The key and the thumbprint of RFC 8037 appendix A.
        let text = format!(r#"{{"keys":[{{"kty":"EC"}},{KEY}]}}"#);
        let directory = Directory::parse(text.as_bytes()).unwrap();
        assert!(directory.key("kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k").is_some());
        assert!(directory.key("x").is_none(), "the operator's name of a key is not its thumbprint");
        assert!(Directory::parse(br#"{"keys":[]}"#).is_ok());
    }

    #[test]
    fn other_texts_are_refused() {
        let many = format!(r#"{{"keys":[{}]}}"#, vec![KEY; MOST_KEYS + 1].join(","));
        let secret = r#"{"keys":[{"kty":"oct","k":"MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE"}]}"#;
        let example =
            r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"}]}"#;
        for (text, problem) in [
            ("", "not JSON"),
            ("{}", "no array"),
            (r#"{"keys":{}}"#, "no array"),
            (&*many, "more than 64 keys"),
            (secret, "a secret"),
            (example, "examples of RFC 9421"),
            (&*format!("{{\"keys\":[]}}{}", " ".repeat(LARGEST_BYTES)), "bytes"),
        ] {
            let found = Directory::parse(text.as_bytes()).err().unwrap();
            assert!(found.contains(problem), "{found}");
        }
    }
}
