//! An issuer of tokens: an RSA key and signatures of openssl.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::support::skipped;

/// A key with its name.
pub(crate) struct Issuer {
    id: String,
    directory: tempfile::TempDir,
    modulus: Vec<u8>,
}

pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn openssl(arguments: &[&str], input: &[u8]) -> Option<Vec<u8>> {
    let command = Command::new("openssl")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut process) = command else {
        skipped("tokens are made by openssl (install openssl)");
        return None;
    };
    process.stdin.take().unwrap().write_all(input).unwrap();
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success(), "openssl {arguments:?}");
    Some(output.stdout)
}

impl Issuer {
    /// An issuer with a new key; `None`: openssl is missing, which was reported.
    pub(crate) fn new(id: &str) -> Option<Issuer> {
        let directory = tempfile::TempDir::new().unwrap();
        let key = directory.path().join("key.pem");
        let key = key.to_str().unwrap();
        openssl(&["genrsa", "-out", key, "2048"], b"")?;
        let text = String::from_utf8(openssl(&["rsa", "-in", key, "-noout", "-modulus"], b"")?).unwrap();
        let digits = text.trim().strip_prefix("Modulus=").unwrap();
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        let modulus = (0..digits.len()).step_by(2).map(byte).collect();
        Some(Issuer { id: id.to_string(), directory, modulus })
    }

    /// The key set with its public key.
    pub(crate) fn key_set(&self) -> String {
        let modulus = URL_SAFE_NO_PAD.encode(&self.modulus);
        format!(
            "{{\"keys\":[{{\"kty\":\"RSA\",\"kid\":\"{}\",\"use\":\"sig\",\
             \"n\":\"{modulus}\",\"e\":\"AQAB\"}}]}}",
            self.id
        )
    }

    /// A token that is valid for ten minutes.
    pub(crate) fn token(&self, user: &str, more: &str) -> String {
        self.token_until(user, now_s() + 600, more)
    }

    /// A token of this user until then; `more` are further claims, each after a comma.
    pub(crate) fn token_until(&self, user: &str, expires_s: u64, more: &str) -> String {
        let claims = format!(
            "{{\"iss\":\"https://issuer.test/\",\"aud\":\"api\",\
             \"sub\":\"{user}\",\"exp\":{expires_s}{more}}}"
        );
        self.signed(&claims)
    }

    /// A token with these claims.
    pub(crate) fn signed(&self, claims: &str) -> String {
        let header = format!("{{\"alg\":\"RS256\",\"typ\":\"JWT\",\"kid\":\"{}\"}}", self.id);
        let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        let key = self.directory.path().join("key.pem");
        let signature = openssl(&["dgst", "-sha256", "-sign", key.to_str().unwrap()], signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.unwrap()))
    }
}
