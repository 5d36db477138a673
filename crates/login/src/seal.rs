//! Seals the contents of cookies: AES-256-GCM-SIV (RFC 8452), with a key that is derived from a line of the
//! key file. A sealed text is base64url of
//!
//! ```text
//! name of the key (4 bytes) | nonce (12 bytes) | encrypted contents | tag (16 bytes)
//! ```
//!
//! The first key seals, all keys open. A purpose is authenticated with the contents, so that a text that was
//! sealed for one purpose, client and host does not open for another. This algorithm allows random nonces
//! for more cookies than a server ever makes.

use std::path::Path;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The minimum length of a line of the key file in characters.
const SHORTEST_SECRET: usize = 32;

const NAME_BYTES: usize = 4;
const TAG_BYTES: usize = 16;

/// The keys of cookies.
pub struct SealingKeys {
    keys: Vec<SealingKey>,
}

struct SealingKey {
    name: [u8; NAME_BYTES],
    key: LessSafeKey,
}

impl SealingKeys {
    /// The keys of a file: 1 to 16 lines, of which the first seals. The error names the file.
    pub fn open_file(path: &Path) -> Result<SealingKeys, String> {
        let lines = touchstone_access::read_secret_lines("key_file", path, SHORTEST_SECRET)?;
        Ok(SealingKeys::from_secrets(&lines))
    }

    /// The keys that these secrets make.
    pub fn from_secrets(secrets: &[String]) -> SealingKeys {
        let derive = |what: &[u8], secret: &String| {
            let mut hash = digest::Context::new(&digest::SHA256);
            hash.update(what);
            hash.update(secret.as_bytes());
            hash.finish()
        };
        let key = |secret: &String| {
            let name = derive(b"touchstone login, name of a key\0", secret);
            let key = derive(b"touchstone login, key of cookies\0", secret);
            let key = UnboundKey::new(&AES_256_GCM_SIV, key.as_ref()).expect("the key has 32 bytes");
            let name = name.as_ref().first_chunk().copied().unwrap_or_default();
            SealingKey { name, key: LessSafeKey::new(key) }
        };
        SealingKeys { keys: secrets.iter().map(key).collect() }
    }

    /// Seals contents for a purpose; `None`: the system has no random numbers.
    pub fn seal(&self, contents: &[u8], purpose: &[u8]) -> Option<String> {
        let key = self.keys.first()?;
        let nonce: [u8; NONCE_LEN] = random()?;
        let mut sealed = contents.to_vec();
        let nonce_used = Nonce::assume_unique_for_key(nonce);
        key.key.seal_in_place_append_tag(nonce_used, Aad::from(purpose), &mut sealed).ok()?;
        Some(URL_SAFE_NO_PAD.encode([&key.name[..], &nonce, &sealed].concat()))
    }

    /// Opens a text that was sealed for this purpose; `None`: it was not, or not with one of these keys.
    pub fn open(&self, text: &[u8], purpose: &[u8]) -> Option<Vec<u8>> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (name, rest) = bytes.split_first_chunk::<NAME_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        if sealed.len() < TAG_BYTES {
            return None;
        }
        let key = self.keys.iter().find(|key| key.name == *name)?;
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length = key.key.open_in_place(nonce, Aad::from(purpose), &mut sealed).ok()?.len();
        sealed.truncate(length);
        Some(sealed)
    }
}

/// Random bytes; `None`: the system has none.
pub fn random<const LENGTH: usize>() -> Option<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    aws_lc_rs::rand::fill(&mut bytes).ok()?;
    Some(bytes)
}

/// Random bytes as base64url. A process without random numbers cannot have a key, and ends.
pub fn random_text<const LENGTH: usize>() -> String {
    URL_SAFE_NO_PAD.encode(random::<LENGTH>().expect("the system has random numbers"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys(secrets: &[&str]) -> SealingKeys {
        SealingKeys::from_secrets(&secrets.iter().map(|secret| secret.to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn a_new_key_seals_and_the_old_one_still_opens() {
        let old = keys(&["old"]);
        let sealed = old.seal(b"session", b"purpose").unwrap();
        let both = keys(&["new", "old"]);
        assert_eq!(both.open(sealed.as_bytes(), b"purpose").as_deref(), Some(&b"session"[..]));
        let sealed_again = both.seal(b"session", b"purpose").unwrap();
        assert_eq!(old.open(sealed_again.as_bytes(), b"purpose"), None);
        assert_eq!(keys(&["new"]).open(sealed.as_bytes(), b"purpose"), None);
    }

    #[test]
    fn key_files_are_checked() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys");
        assert!(SealingKeys::open_file(&path).err().unwrap().contains("cannot be read"));
        for (text, problem) in [
            ("", "1 to 16 lines"),
            ("\n \n", "1 to 16 lines"),
            ("0123456789012345678901234567890\n", "secret 1"),
            ("01234567890123456789012345678901\n\nshort\n", "secret 2"),
        ] {
            std::fs::write(&path, text).unwrap();
            let found = SealingKeys::open_file(&path).err().unwrap();
            assert!(found.contains(problem) && !found.contains("0123456789"), "{found}");
        }
        std::fs::write(&path, "01234567890123456789012345678901\n").unwrap();
        assert!(SealingKeys::open_file(&path).is_ok());
    }

    proptest! {
        #[test]
        fn what_was_sealed_opens_for_its_purpose_only(
            contents in proptest::collection::vec(any::<u8>(), 0..300),
            position in any::<prop::sample::Index>(),
            replacement in "[A-Za-z0-9_-]",
        ) {
            let keys = keys(&["one"]);
            let sealed = keys.seal(&contents, b"a").unwrap();
            prop_assert_eq!(keys.open(sealed.as_bytes(), b"a"), Some(contents));
            prop_assert_eq!(keys.open(sealed.as_bytes(), b"b"), None);
            let mut changed = sealed.clone().into_bytes();
            let position = position.index(changed.len());
            changed[position] = replacement.as_bytes()[0];
            if changed != sealed.as_bytes() {
                prop_assert_eq!(keys.open(&changed, b"a"), None);
            }
            prop_assert_eq!(keys.open(&sealed.as_bytes()[..position], b"a"), None);
        }

        #[test]
        fn other_bytes_do_not_open(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(keys(&["one"]).open(&bytes, b"a"), None);
        }
    }
}
