//! The public keys of an issuer, from a JSON Web Key Set (RFC 7517).
//!
//! Keys that cannot verify a signature here are ignored: those for encryption, those of other kinds, and RSA
//! keys of fewer than 2,048 bits (RFC 7518 section 3.3).

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};

/// The maximum size of a key set in bytes.
pub const LARGEST_KEY_SET_BYTES: usize = 1 << 20;

/// The maximum number of keys in a set; an issuer has a handful.
const MOST_KEYS: usize = 100;

/// The minimum length of an RSA modulus in bytes.
const LEAST_RSA_BYTES: usize = 256;

/// The minimum length of an HMAC secret in bytes (RFC 7518 section 3.2: as long as the hash of HS256).
const LEAST_SECRET_BYTES: usize = 32;

/// Keys that verify signatures.
#[derive(Default)]
pub struct KeySet {
    keys: Vec<Key>,
}

/// One key.
pub struct Key {
    id: Option<String>,
    /// The algorithms of the key: the one that it names, or else all of its kind.
    algorithms: Vec<Algorithm>,
    /// The key.
    pub key: DecodingKey,
}

impl KeySet {
    /// Reads a key set, or a single key. The error is for the log and contains no key.
    pub fn parse(text: &[u8]) -> Result<KeySet, String> {
        if text.len() > LARGEST_KEY_SET_BYTES {
            return Err(format!("has more than {LARGEST_KEY_SET_BYTES} bytes"));
        }
        let document: serde_json::Value =
            serde_json::from_slice(text).map_err(|error| format!("is not JSON: {error}"))?;
        let listed = match document.get("keys") {
            Some(serde_json::Value::Array(keys)) => keys.clone(),
            Some(_) => return Err("has a member \"keys\" that is not an array".to_string()),
            None if document.get("kty").is_some() => vec![document],
            None => return Err("is not a JSON Web Key Set: it has no member \"keys\"".to_string()),
        };
        if listed.len() > MOST_KEYS {
            return Err(format!("has more than {MOST_KEYS} keys"));
        }
        let keys = listed.into_iter().filter_map(|key| usable(&serde_json::from_value(key).ok()?)).collect();
        let set = KeySet { keys };
        if set.keys.is_empty() {
            return Err("has no key that can verify a signature (RSA of 2,048 bits or more, P-256, P-384, \
                        Ed25519, or a secret of 32 bytes or more)"
                .to_string());
        }
        Ok(set)
    }

    /// The keys that may have signed with this algorithm: the one with the id that the token names, or else
    /// all that match.
    pub fn candidates<'s>(
        &'s self,
        id: Option<&'s str>,
        algorithm: Algorithm,
    ) -> impl Iterator<Item = &'s Key> {
        self.keys.iter().filter(move |key| {
            key.algorithms.contains(&algorithm) && id.is_none_or(|id| key.id.as_deref() == Some(id))
        })
    }
}

/// A usable key with its algorithms. The type of the key decides, never the token: so a public RSA key cannot
/// be used as an HMAC secret.
fn usable(jwk: &Jwk) -> Option<Key> {
    use Algorithm::{ES256, ES384, EdDSA, HS256, HS384, HS512, PS256, PS384, PS512, RS256, RS384, RS512};
    if jwk.common.public_key_use.as_ref().is_some_and(|intent| *intent != PublicKeyUse::Signature) {
        return None;
    }
    let of_kind: &[Algorithm] = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => &[RS256, RS384, RS512, PS256, PS384, PS512],
        AlgorithmParameters::EllipticCurve(key) => match key.curve {
            EllipticCurve::P256 => &[ES256],
            EllipticCurve::P384 => &[ES384],
            _ => return None,
        },
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => &[EdDSA],
        AlgorithmParameters::OctetKey(_) => &[HS256, HS384, HS512],
        _ => return None,
    };
    let algorithms = match jwk.common.key_algorithm {
        None => of_kind.to_vec(),
        Some(named) => {
            let named = Algorithm::try_from(named).ok()?;
            of_kind.iter().copied().filter(|algorithm| *algorithm == named).collect()
        }
    };
    let key = DecodingKey::from_jwk(jwk).ok()?;
    let is_long_enough = match key.kind() {
        jsonwebtoken::DecodingKeyKind::RsaModulusExponent { n, .. } => {
            n.iter().skip_while(|byte| **byte == 0).count() >= LEAST_RSA_BYTES
        }
        jsonwebtoken::DecodingKeyKind::SecretOrDer(bytes) => {
            !matches!(jwk.algorithm, AlgorithmParameters::OctetKey(_)) || bytes.len() >= LEAST_SECRET_BYTES
        }
    };
    (is_long_enough && !algorithms.is_empty()).then(|| Key { id: jwk.common.key_id.clone(), algorithms, key })
}
