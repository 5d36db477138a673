//! The token file of the control API: its clients and their rights.
//!
//! ```text
//! # name    right   token
//! deploy    change  4f0c...
//! dashboard read    sha256:9f86d0...
//! ```

use std::io::Read as _;
use std::path::Path;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use sha2::{Digest as _, Sha256};
use touchstone_http::hexadecimal;

/// The minimum length of a token; 16 random letters and digits cannot be guessed.
pub const SHORTEST_TOKEN: usize = 16;

/// Whether a token may contain this byte (`b64token`, RFC 6750 section 2.1).
pub fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte)
}

/// The maximum size of the file in bytes.
const MOST_BYTES: u64 = 256 << 10;

/// The maximum length of a name.
const LONGEST_NAME: usize = 64;

/// The right of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Read.
    Read,
    /// Read and change.
    Change,
}

/// An authenticated client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The name of its token, or `uid 1000`.
    pub name: String,
    /// Its right.
    pub right: Right,
}

/// The tokens of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tokens {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    identity: Identity,
    /// SHA-256 of the token.
    digest: [u8; 32],
}

impl Tokens {
    /// Reads the file. Error messages do not contain tokens.
    pub fn read(path: &Path) -> Result<Tokens, String> {
        let name = path.display();
        let cannot = |error: std::io::Error| format!("token file '{name}' cannot be read: {error}");
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(cannot)?;
        file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(cannot)?;
        if text.len() as u64 > MOST_BYTES {
            return Err(format!("token file '{name}' is larger than {MOST_BYTES} bytes"));
        }
        Tokens::parse(&text).map_err(|problem| format!("token file '{name}': {problem}"))
    }

    /// Reads the lines of a file.
    pub fn parse(text: &str) -> Result<Tokens, String> {
        let mut tokens = Tokens::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let entry = parse_line(line).map_err(|problem| format!("line {}: {problem}", number + 1))?;
            let same = |other: &&Entry| other.identity.name == entry.identity.name;
            if let Some(other) = tokens.entries.iter().find(same) {
                return Err(format!("line {}: there are two clients '{}'", number + 1, other.identity.name));
            }
            tokens.entries.push(entry);
        }
        match tokens.entries.is_empty() {
            true => Err("it has no client; a line is a name, 'read' or 'change', and a token".to_string()),
            false => Ok(tokens),
        }
    }

    /// The client with this token.
    pub fn identify(&self, token: &[u8]) -> Option<Identity> {
        let digest = Sha256::digest(token);
        // Every entry is compared, so that the time does not depend on the matching entry.
        self.entries.iter().fold(None, |found, entry| match verify_slices_are_equal(&entry.digest, &digest) {
            Ok(()) => Some(entry.identity.clone()),
            Err(_) => found,
        })
    }
}

fn parse_line(line: &str) -> Result<Entry, String> {
    let mut words = line.split_ascii_whitespace();
    let (Some(name), Some(right), Some(token), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err("it must be a name, 'read' or 'change', and a token".to_string());
    };
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._@".contains(&byte);
    if name.len() > LONGEST_NAME || !name.bytes().all(is_name_byte) {
        return Err(format!("the name must have at most {LONGEST_NAME} letters, digits and -._@"));
    }
    let right = match right {
        "read" => Right::Read,
        "change" => Right::Change,
        _ => return Err("the second word must be 'read' or 'change'".to_string()),
    };
    let digest = match token.strip_prefix("sha256:") {
        Some(hexadecimal) => parse_digest(hexadecimal)
            .ok_or("after 'sha256:' there must be the 64 hexadecimal digits that sha256sum prints")?,
        None => {
            if token.len() < SHORTEST_TOKEN || !token.bytes().all(is_token_byte) {
                return Err(format!(
                    "a token must have at least {SHORTEST_TOKEN} letters, digits and -._~+/=, such as \
                     `openssl rand -hex 32` makes"
                ));
            }
            Sha256::digest(token.as_bytes()).into()
        }
    };
    Ok(Entry { identity: Identity { name: name.to_string(), right }, digest })
}

fn parse_digest(text: &str) -> Option<[u8; 32]> {
    hexadecimal::decode(text).filter(|_| text.len() == 64)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TOKEN: &str = "0123456789abcdef";

    #[test]
    fn clients_are_identified_by_their_tokens() {
        let digest = hexadecimal::encode(&Sha256::digest(b"another-token-of-20"));
        let text = format!("# clients\n\ndeploy change {TOKEN}\n  dashboard\tread sha256:{digest}\n");
        let tokens = Tokens::parse(&text).unwrap();
        let identity = |name: &str, right| Some(Identity { name: name.to_string(), right });
        assert_eq!(tokens.identify(TOKEN.as_bytes()), identity("deploy", Right::Change));
        assert_eq!(tokens.identify(b"another-token-of-20"), identity("dashboard", Right::Read));
        for wrong in ["", "0123456789abcde", "0123456789abcdeF", &format!("sha256:{digest}"), &digest] {
            assert_eq!(tokens.identify(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn wrong_files_are_refused_without_their_tokens() {
        for (text, expected) in [
            ("", "no client"),
            ("# only a comment", "no client"),
            ("deploy 0123456789abcdef", "line 1: it must be a name"),
            ("deploy write 0123456789abcdef", "'read' or 'change'"),
            ("deploy change 0123456789abcde", "at least 16"),
            ("deploy change 0123456789\u{e4}abcdef", "at least 16"),
            ("de/ploy change 0123456789abcdef", "the name"),
            ("deploy change sha256:0123456789abcdef", "64 hexadecimal digits"),
            ("a read 0123456789abcdef\na change 1123456789abcdef", "line 2: there are two clients 'a'"),
        ] {
            let problem = Tokens::parse(text).unwrap_err();
            assert!(problem.contains(expected) && !problem.contains("0123456789"), "{text}: {problem}");
        }
        let directory = tempfile::tempdir().unwrap();
        assert!(Tokens::read(&directory.path().join("none")).unwrap_err().contains("cannot be read"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,80}(\n[a-z ]{0,20}(read|change) [!-~]{0,40}){0,3}") {
            let _ = Tokens::parse(&text);
        }
    }
}
