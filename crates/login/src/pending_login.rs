//! A started login: the contents of its cookie. It binds the answer of the provider to the browser that was
//! sent there: the state to the callback, the nonce to the ID token, the verifier to the code.
//!
//! Each login has its own cookie, so that several tabs can sign in at the same time.

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::binary::{Reader, Writer};
use crate::seal::random_text;
use touchstone_http::addresses::is_local_path;

/// How long a user may take to sign in at the provider.
pub const LIFETIME_S: u64 = 600;

/// The most logins of one browser at a time; earlier ones are removed.
pub const MOST_AT_A_TIME: usize = 8;

/// How many characters of the state are in the name of the cookie.
const NAMED_CHARACTERS: usize = 8;

const VERSION: u8 = 1;

/// A started login.
#[derive(Debug, PartialEq, Eq)]
pub struct PendingLogin {
    /// Names it: 24 random bytes in base64url.
    pub state: String,
    /// Must be in the ID token.
    pub nonce: String,
    /// Proves to the provider who began (RFC 7636).
    pub verifier: String,
    /// The path and query that the browser requested.
    pub return_to: String,
    /// When it began, in seconds since 1970.
    pub began_s: u64,
}

impl PendingLogin {
    /// A login that starts now, and redirects to this path after its completion.
    pub fn new(return_to: &[u8], now_s: u64) -> PendingLogin {
        let return_to = if is_local_path(return_to) { return_to } else { b"/" };
        PendingLogin {
            state: random_text::<24>(),
            nonce: random_text::<24>(),
            verifier: random_text::<32>(),
            return_to: String::from_utf8_lossy(return_to).into_owned(),
            began_s: now_s,
        }
    }

    /// The end of the name of its cookie.
    pub fn name_of(state: &str) -> &str {
        state.get(..NAMED_CHARACTERS).unwrap_or_default()
    }

    /// The code challenge (RFC 7636 section 4.2, `S256`).
    pub fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, self.verifier.as_bytes()))
    }

    /// Whether it started too long ago.
    pub fn is_over(&self, now_s: u64) -> bool {
        now_s.saturating_sub(self.began_s) > LIFETIME_S
    }

    /// As bytes, for sealing.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer(vec![VERSION]);
        writer.number(self.began_s);
        for text in [&self.state, &self.nonce, &self.verifier, &self.return_to] {
            writer.bytes(text.as_bytes());
        }
        writer.0
    }

    /// From the bytes of a cookie that was opened.
    pub fn decode(bytes: &[u8]) -> Option<PendingLogin> {
        let mut reader = Reader(bytes.strip_prefix(&[VERSION])?);
        let began_s = reader.number()?;
        let (state, nonce, verifier) = (reader.text()?, reader.text()?, reader.text()?);
        let return_to = reader.text()?;
        let is_right = reader.is_at_end() && is_local_path(return_to.as_bytes());
        is_right.then_some(PendingLogin { state, nonce, verifier, return_to, began_s })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::callback::STATE_LENGTH;

    #[test]
    fn a_login_has_values_of_its_own() {
        let (one, other) = (PendingLogin::new(b"/a?b", 5), PendingLogin::new(b"//evil.example/", 5));
        assert_eq!((one.return_to.as_str(), other.return_to.as_str()), ("/a?b", "/"));
        assert_eq!(one.state.len(), STATE_LENGTH);
        assert!(one.state != other.state && one.nonce != other.nonce && one.verifier != other.verifier);
        assert!(one.state != one.nonce);
        assert!((43..=128).contains(&one.verifier.len()), "RFC 7636 section 4.1");
        assert_eq!(PendingLogin::decode(&one.encode()), Some(one));
    }

    #[test]
    fn the_challenge_is_that_of_the_document() {
        // RFC 7636 appendix B.
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_string();
        let login = PendingLogin { verifier, ..PendingLogin::new(b"/", 0) };
        assert_eq!(login.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn it_ends() {
        let login = PendingLogin::new(b"/", 1000);
        assert!(!login.is_over(1000 + LIFETIME_S) && login.is_over(1001 + LIFETIME_S));
    }

    #[test]
    fn cut_bytes_are_none() {
        let bytes = PendingLogin::new(b"/a", 7).encode();
        for length in 0..bytes.len() {
            assert_eq!(PendingLogin::decode(&bytes[..length]), None);
        }
        assert_eq!(PendingLogin::decode(&[&bytes[..], b"x"].concat()), None);
    }
}
