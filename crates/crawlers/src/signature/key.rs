//! Keys that verify signatures, from JSON Web Keys (RFC 7517), and the algorithms of RFC 9421 section 3.3.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
    VerificationAlgorithm,
};
use aws_lc_rs::{constant_time, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use super::Problem;

/// The minimum length of a secret in bytes.
const LEAST_SECRET_BYTES: usize = 32;

/// The lengths of an RSA modulus in bytes.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;

/// An algorithm of section 3.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// `rsa-pss-sha512`
    RsaPssSha512,
    /// `rsa-v1_5-sha256`
    RsaPkcs1Sha256,
    /// `hmac-sha256`
    HmacSha256,
    /// `ecdsa-p256-sha256`
    EcdsaP256Sha256,
    /// `ecdsa-p384-sha384`
    EcdsaP384Sha384,
    /// `ed25519`
    Ed25519,
}

impl Algorithm {
    /// All of them, with their names in the registry and in a JSON Web Key.
    const NAMES: [(Algorithm, &'static str, &'static str); 6] = [
        (Algorithm::RsaPssSha512, "rsa-pss-sha512", "PS512"),
        (Algorithm::RsaPkcs1Sha256, "rsa-v1_5-sha256", "RS256"),
        (Algorithm::HmacSha256, "hmac-sha256", "HS256"),
        (Algorithm::EcdsaP256Sha256, "ecdsa-p256-sha256", "ES256"),
        (Algorithm::EcdsaP384Sha384, "ecdsa-p384-sha384", "ES384"),
        (Algorithm::Ed25519, "ed25519", "EdDSA"),
    ];

    /// The algorithm of this name in the registry.
    pub fn named(name: &str) -> Option<Algorithm> {
        Algorithm::NAMES.into_iter().find(|(_, known, _)| *known == name).map(|(algorithm, ..)| algorithm)
    }

    fn of_jwk(name: &str) -> Option<Algorithm> {
        // "Ed25519" is the name of RFC 9864.
        let name = if name == "Ed25519" { "EdDSA" } else { name };
        let found = Algorithm::NAMES.into_iter().find(|(_, own, jwk)| *jwk == name || *own == name);
        found.map(|(algorithm, ..)| algorithm)
    }
}

/// A key.
pub struct VerificationKey {
    /// Its thumbprint (RFC 7638), as base64url.
    pub thumbprint: String,
    /// Its name in the set.
    pub id: Option<String>,
    /// It may not be used before this second of Unix time.
    pub not_before: Option<u64>,
    /// It may not be used from this second on.
    pub expires: Option<u64>,
    algorithms: Vec<Algorithm>,
    material: Material,
}

enum Material {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    Point(Vec<u8>),
    Secret(Box<hmac::Key>),
}

/// Why a JSON Web Key cannot be used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyProblem(pub &'static str);

impl fmt::Display for KeyProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0)
    }
}

impl VerificationKey {
    /// Reads a JSON Web Key.
    pub fn of_jwk(jwk: &Value) -> Result<VerificationKey, KeyProblem> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        let bytes = |name: &str| {
            let coded = text(name).ok_or(KeyProblem("a member of the key is missing"))?;
            URL_SAFE_NO_PAD.decode(coded).map_err(|_| KeyProblem("a member of the key is not base64url"))
        };
        if text("use").is_some_and(|purpose| purpose != "sig") {
            return Err(KeyProblem("the key is not for signatures"));
        }
        let (of_kind, material, members): (&[Algorithm], Material, String) = match (text("kty"), text("crv"))
        {
            (Some("RSA"), _) => {
                let (modulus, exponent) = (shortest(bytes("n")?), shortest(bytes("e")?));
                if !RSA_BYTES.contains(&modulus.len()) || exponent.is_empty() || exponent.len() > 8 {
                    return Err(KeyProblem("an RSA key must have 2,048 to 8,192 bits"));
                }
                let (n, e) = (URL_SAFE_NO_PAD.encode(&modulus), URL_SAFE_NO_PAD.encode(&exponent));
                let members = format!(r#"{{"e":"{e}","kty":"RSA","n":"{n}"}}"#);
                let both = &[Algorithm::RsaPssSha512, Algorithm::RsaPkcs1Sha256];
                (both, Material::Rsa { modulus, exponent }, members)
            }
            (Some("EC"), Some(curve @ ("P-256" | "P-384"))) => {
                let (x, y) = (bytes("x")?, bytes("y")?);
                let (length, algorithm): (usize, &[Algorithm]) = match curve {
                    "P-256" => (32, &[Algorithm::EcdsaP256Sha256]),
                    _ => (48, &[Algorithm::EcdsaP384Sha384]),
                };
                if x.len() != length || y.len() != length {
                    return Err(KeyProblem("the coordinates of the key have a wrong length"));
                }
                let point = [&[4], &x[..], &y[..]].concat();
                let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
                let members = format!(r#"{{"crv":"{curve}","kty":"EC","x":"{x}","y":"{y}"}}"#);
                (algorithm, Material::Point(point), members)
            }
            (Some("OKP"), Some("Ed25519")) => {
                let x = bytes("x")?;
                if x.len() != 32 {
                    return Err(KeyProblem("an Ed25519 key must have 32 bytes"));
                }
                let coded = URL_SAFE_NO_PAD.encode(&x);
                let members = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{coded}"}}"#);
                (&[Algorithm::Ed25519], Material::Point(x), members)
            }
            (Some("oct"), _) => {
                let secret = bytes("k")?;
                if secret.len() < LEAST_SECRET_BYTES {
                    return Err(KeyProblem("a secret must have 32 bytes or more"));
                }
                let members = format!(r#"{{"k":"{}","kty":"oct"}}"#, URL_SAFE_NO_PAD.encode(&secret));
                let key = hmac::Key::new(hmac::HMAC_SHA256, &secret);
                (&[Algorithm::HmacSha256], Material::Secret(Box::new(key)), members)
            }
            _ => return Err(KeyProblem("the kind of the key is unknown")),
        };
        let algorithms = match text("alg") {
            None => of_kind.to_vec(),
            Some(name) => {
                of_kind.iter().copied().filter(|one| Algorithm::of_jwk(name) == Some(*one)).collect()
            }
        };
        if algorithms.is_empty() {
            return Err(KeyProblem("the algorithm of the key does not fit its kind"));
        }
        Ok(VerificationKey {
            thumbprint: URL_SAFE_NO_PAD.encode(digest(&SHA256, members.as_bytes())),
            id: text("kid").map(str::to_string),
            not_before: seconds(jwk, "nbf")?,
            expires: seconds(jwk, "exp")?,
            algorithms,
            material,
        })
    }

    /// Whether it is a shared secret, which does not identify the signer.
    pub fn is_secret(&self) -> bool {
        matches!(self.material, Material::Secret(_))
    }

    /// Whether it may be used at this second of Unix time.
    pub fn is_current(&self, now_s: u64) -> bool {
        self.not_before.is_none_or(|from| from <= now_s) && self.expires.is_none_or(|end| now_s < end)
    }

    /// The algorithm of a signature that names this one, or none (section 3.2, step 6). The key decides: a
    /// signature cannot choose one that is not the key's.
    pub fn algorithm(&self, named: Option<&str>) -> Result<Algorithm, Problem> {
        match (named, &self.algorithms[..]) {
            (None, [only]) => Ok(*only),
            (None, _) => Err(Problem::Algorithm),
            (Some(name), all) => {
                let named = Algorithm::named(name).ok_or(Problem::Algorithm)?;
                all.contains(&named).then_some(named).ok_or(Problem::Algorithm)
            }
        }
    }

    /// Verifies a signature of these bytes.
    pub fn verify(&self, named: Option<&str>, signed: &[u8], signature: &[u8]) -> Result<(), Problem> {
        let algorithm = self.algorithm(named)?;
        let of_point = |algorithm: &'static dyn VerificationAlgorithm, point: &[u8]| {
            UnparsedPublicKey::new(algorithm, point).verify(signed, signature).is_ok()
        };
        let of_rsa = |parameters: &'static RsaParameters, modulus: &Vec<u8>, exponent: &Vec<u8>| {
            RsaPublicKeyComponents { n: modulus, e: exponent }.verify(parameters, signed, signature).is_ok()
        };
        let is_right = match (algorithm, &self.material) {
            (Algorithm::Ed25519, Material::Point(point)) => of_point(&ED25519, point),
            (Algorithm::EcdsaP256Sha256, Material::Point(point)) => of_point(&ECDSA_P256_SHA256_FIXED, point),
            (Algorithm::EcdsaP384Sha384, Material::Point(point)) => of_point(&ECDSA_P384_SHA384_FIXED, point),
            (Algorithm::RsaPssSha512, Material::Rsa { modulus, exponent }) => {
                of_rsa(&RSA_PSS_2048_8192_SHA512, modulus, exponent)
            }
            (Algorithm::RsaPkcs1Sha256, Material::Rsa { modulus, exponent }) => {
                of_rsa(&RSA_PKCS1_2048_8192_SHA256, modulus, exponent)
            }
            (Algorithm::HmacSha256, Material::Secret(key)) => {
                let expected = hmac::sign(key, signed);
                constant_time::verify_slices_are_equal(expected.as_ref(), signature).is_ok()
            }
            _ => return Err(Problem::Algorithm),
        };
        if is_right { Ok(()) } else { Err(Problem::Wrong) }
    }
}

/// A number without zeros before it.
fn shortest(bytes: Vec<u8>) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes[zeros..].to_vec()
}

/// A time of a key. Some directories have milliseconds: in seconds, this number is after the year 5138.
fn seconds(jwk: &Value, name: &str) -> Result<Option<u64>, KeyProblem> {
    const FIRST_MILLISECOND: u64 = 100_000_000_000;
    match jwk.get(name) {
        None => Ok(None),
        Some(value) => match value.as_u64() {
            Some(time) if time >= FIRST_MILLISECOND => Ok(Some(time / 1000)),
            Some(time) => Ok(Some(time)),
            None => Err(KeyProblem("a time of the key is not a number of seconds")),
        },
    }
}
