//! Tasks and passes: texts with a code (HMAC with SHA-256) that only this server can compute, so that it need
//! not store them. The code also covers a purpose: the site and the kind of the text.
//!
//! ```text
//! base64url( version | issued | difficulty | wait | random | binding | code )
//! ```

use std::path::Path;

use aws_lc_rs::digest::{Context, SHA256};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The minimum length of a line of the key file in characters.
const SHORTEST_SECRET: usize = 32;

const VERSION: u8 = 1;
const CONTENTS_BYTES: usize = 1 + 8 + 1 + 2 + 16 + 16;
const CODE_BYTES: usize = 32;

/// The length of a text.
pub const TEXT_BYTES: usize = ((CONTENTS_BYTES + CODE_BYTES) * 8).div_ceil(6);

/// The properties that bind a client, see [`super::binding`].
pub type Binding = [u8; 16];

/// What a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A task.
    Task,
    /// The pass of a visitor.
    Pass,
}

/// The contents of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contents {
    /// When it was created, in seconds of Unix time.
    pub issued_s: u64,
    /// The required zero bits; of a pass: that were found, 0 if its visitor waited.
    pub difficulty: u8,
    /// The required seconds; of a pass: that its visitor waited, 0 if it worked.
    pub wait_s: u16,
    /// No other text has it.
    pub random: [u8; 16],
    /// The client that it is for.
    pub binding: Binding,
}

/// The keys of texts.
pub struct TextKeys {
    keys: Vec<hmac::Key>,
}

impl TextKeys {
    /// The keys of a file: 1 to 16 lines, of which the first makes texts. The error names the file.
    pub fn open_file(path: &Path) -> Result<TextKeys, String> {
        let lines = touchstone_access::read_secret_lines("key_file", path, SHORTEST_SECRET)?;
        Ok(TextKeys::from_secrets(&lines))
    }

    /// A new key.
    pub fn random() -> TextKeys {
        let secret: [u8; 32] = random().expect("the system has random numbers");
        TextKeys::from_secrets(&[URL_SAFE_NO_PAD.encode(secret)])
    }

    /// The keys that these secrets make.
    pub fn from_secrets(secrets: &[String]) -> TextKeys {
        let key = |secret: &String| {
            let mut hash = Context::new(&SHA256);
            hash.update(b"touchstone check, key of passes\0");
            hash.update(secret.as_bytes());
            hmac::Key::new(hmac::HMAC_SHA256, hash.finish().as_ref())
        };
        TextKeys { keys: secrets.iter().map(key).collect() }
    }

    /// Makes a text for a site.
    pub fn make(&self, kind: Kind, site: &[u8], contents: &Contents) -> String {
        let mut bytes = contents.encode().to_vec();
        if let Some(key) = self.keys.first() {
            bytes.extend_from_slice(code(key, kind, site, &bytes).as_ref());
        }
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Opens a text of this kind for this site; `None`: it is not one.
    pub fn open(&self, kind: Kind, site: &[u8], text: &[u8]) -> Option<Contents> {
        if text.len() != TEXT_BYTES {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (contents, found) = bytes.split_first_chunk::<CONTENTS_BYTES>()?;
        let is_right = |key: &hmac::Key| {
            let code = code(key, kind, site, contents);
            aws_lc_rs::constant_time::verify_slices_are_equal(code.as_ref(), found).is_ok()
        };
        self.keys.iter().any(is_right).then(|| Contents::decode(contents))?
    }
}

impl Contents {
    /// New contents at this time for a client; `None`: the system has no random numbers.
    pub fn new(issued_s: u64, difficulty: u8, wait_s: u16, binding: Binding) -> Option<Contents> {
        Some(Contents { issued_s, difficulty, wait_s, random: random()?, binding })
    }

    fn encode(&self) -> [u8; CONTENTS_BYTES] {
        let mut bytes = [0; CONTENTS_BYTES];
        bytes[0] = VERSION;
        bytes[1..9].copy_from_slice(&self.issued_s.to_be_bytes());
        bytes[9] = self.difficulty;
        bytes[10..12].copy_from_slice(&self.wait_s.to_be_bytes());
        bytes[12..28].copy_from_slice(&self.random);
        bytes[28..44].copy_from_slice(&self.binding);
        bytes
    }

    fn decode(bytes: &[u8; CONTENTS_BYTES]) -> Option<Contents> {
        (bytes[0] == VERSION).then_some(Contents {
            issued_s: u64::from_be_bytes(bytes[1..9].try_into().ok()?),
            difficulty: bytes[9],
            wait_s: u16::from_be_bytes(bytes[10..12].try_into().ok()?),
            random: bytes[12..28].try_into().ok()?,
            binding: bytes[28..44].try_into().ok()?,
        })
    }
}

fn code(key: &hmac::Key, kind: Kind, site: &[u8], contents: &[u8]) -> hmac::Tag {
    let mut context = hmac::Context::with_key(key);
    context.update(match kind {
        Kind::Task => b"task\0",
        Kind::Pass => b"pass\0",
    });
    context.update(&(site.len() as u64).to_be_bytes());
    context.update(site);
    context.update(contents);
    context.sign()
}

fn random<const LENGTH: usize>() -> Option<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    aws_lc_rs::rand::fill(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys(secrets: &[&str]) -> TextKeys {
        TextKeys::from_secrets(&secrets.iter().map(|secret| secret.to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn a_text_is_for_its_site_and_kind_only() {
        let contents = Contents::new(1_800_000_000, 16, 5, [7; 16]).unwrap();
        let (own, other) = (keys(&["one"]), keys(&["two"]));
        let text = own.make(Kind::Task, b"a.example", &contents);
        assert_eq!(text.len(), TEXT_BYTES);
        assert_eq!(own.open(Kind::Task, b"a.example", text.as_bytes()), Some(contents));
        assert_eq!(own.open(Kind::Pass, b"a.example", text.as_bytes()), None);
        assert_eq!(own.open(Kind::Task, b"b.example", text.as_bytes()), None);
        assert_eq!(other.open(Kind::Task, b"a.example", text.as_bytes()), None);
        assert_eq!(keys(&["two", "one"]).open(Kind::Task, b"a.example", text.as_bytes()), Some(contents));
    }

    proptest! {
        #[test]
        fn changed_texts_do_not_open(position in any::<prop::sample::Index>(), with in "[A-Za-z0-9_-]") {
            let contents = Contents::new(1_800_000_000, 16, 5, [7; 16]).unwrap();
            let keys = keys(&["one"]);
            let text = keys.make(Kind::Pass, b"a", &contents);
            let mut changed = text.clone().into_bytes();
            let position = position.index(changed.len());
            changed[position] = with.as_bytes()[0];
            if changed != text.as_bytes() {
                prop_assert_eq!(keys.open(Kind::Pass, b"a", &changed), None);
            }
            prop_assert_eq!(keys.open(Kind::Pass, b"a", &text.as_bytes()[..position]), None);
        }

        #[test]
        fn other_bytes_do_not_open(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            prop_assert_eq!(keys(&["one"]).open(Kind::Pass, b"a", &bytes), None);
        }
    }
}
