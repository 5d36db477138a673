//! Signatures of requests with a shared key, and the verification of the answers (TSIG, RFC 8945).

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::message::{HEADER_BYTES, Message, SignatureRecord, kind};
use super::name::Name;

/// The largest key file.
const MOST_FILE_BYTES: u64 = 64 * 1024;

/// How far the clocks may differ, in seconds (RFC 8945 section 10).
const FUDGE_S: u16 = 300;

/// The class of a signature's record.
const CLASS_ANY: u16 = 255;

/// The errors of signatures (RFC 8945 section 3).
const BAD_SIGNATURE: u16 = 16;
const BAD_KEY: u16 = 17;
const BAD_TIME: u16 = 18;
const BAD_TRUNCATION: u16 = 22;

/// A key that a DNS server has too.
#[derive(Clone)]
pub struct TsigKey {
    name: Name,
    algorithm: Name,
    key: hmac::Key,
}

impl TsigKey {
    /// Reads a key file, which other users of the machine must not be able to read.
    pub fn from_file(file: &Path) -> Result<TsigKey, String> {
        let shown = file.display();
        let metadata = fs::metadata(file).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => format!("{shown}: the file does not exist"),
            _ => format!("{shown}: cannot be read: {error}"),
        })?;
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o007 != 0 {
            return Err(format!(
                "{shown}: every user of this machine may read this key (mode {mode:03o}): 'chmod o-rwx' it"
            ));
        }
        let mut text = String::new();
        let opened =
            File::open(file).and_then(|opened| opened.take(MOST_FILE_BYTES).read_to_string(&mut text));
        opened.map_err(|error| match error.kind() {
            // The content is not repeated.
            io::ErrorKind::InvalidData => format!("{shown}: is not text"),
            _ => format!("{shown}: cannot be read: {error}"),
        })?;
        TsigKey::parse(&text).map_err(|error| format!("{shown}: {error}"))
    }

    /// Reads a key in the form of BIND (`tsig-keygen`), in that of Knot (`keymgr -t`), or as one line
    /// `ALGORITHM:NAME:SECRET`. Messages do not repeat the text.
    pub fn parse(text: &str) -> Result<TsigKey, String> {
        let mut words = words(text);
        let (algorithm, name, secret) = match words
            .first()
            .map(|first| first.splitn(3, ':').collect::<Vec<_>>())
        {
            Some(parts) if parts.len() == 3 && words.len() == 1 => {
                (parts[0].to_string(), parts[1].to_string(), parts[2].to_string())
            }
            Some(_) => {
                words.iter_mut().for_each(|word| {
                    if let Some(bare) = word.strip_suffix(':') {
                        *word = bare.to_string();
                    }
                });
                let after = |keys: &[&str]| {
                    let place = words.iter().rposition(|word| keys.contains(&word.as_str()));
                    place.and_then(|place| words.get(place + 1)).cloned()
                };
                let parts = (after(&["algorithm"]), after(&["id", "key"]), after(&["secret"]));
                let (Some(algorithm), Some(name), Some(secret)) = parts else {
                    return Err("is not a key: it needs a name, an algorithm and a secret, as tsig-keygen \
                        writes them, or one line ALGORITHM:NAME:SECRET"
                        .to_string());
                };
                (algorithm, name, secret)
            }
            None => return Err("is empty".to_string()),
        };
        TsigKey::new(&name, &algorithm, &secret)
    }

    fn new(name: &str, algorithm: &str, secret: &str) -> Result<TsigKey, String> {
        let lower = algorithm.trim_end_matches('.').to_ascii_lowercase();
        let kind = match lower.as_str() {
            "hmac-sha256" => hmac::HMAC_SHA256,
            "hmac-sha384" => hmac::HMAC_SHA384,
            "hmac-sha512" => hmac::HMAC_SHA512,
            "hmac-md5" | "hmac-md5.sig-alg.reg.int" | "hmac-sha1" | "hmac-sha224" => {
                return Err(format!("the algorithm {lower} is too weak; use hmac-sha256 or hmac-sha512"));
            }
            _ => {
                return Err(
                    "the algorithm is unknown; use hmac-sha256, hmac-sha384 or hmac-sha512".to_string()
                );
            }
        };
        let secret = BASE64_STANDARD.decode(secret).map_err(|_| "the secret is not base64".to_string())?;
        if secret.is_empty() {
            return Err("the secret is empty".to_string());
        }
        Ok(TsigKey {
            name: Name::parse(name).map_err(|_| "the name of the key is not a domain name".to_string())?,
            algorithm: Name::parse(&lower)?,
            key: hmac::Key::new(kind, &secret),
        })
    }

    /// The name of the key.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Adds a signature to a request; the answer is verified with the code that this returns.
    pub(crate) fn sign(&self, message: &mut Vec<u8>, now_s: u64) -> Vec<u8> {
        let id = [message[0], message[1]];
        let variables = self.variables(now_s, FUDGE_S, 0, &[]);
        let mut signed = hmac::Context::with_key(&self.key);
        signed.update(message);
        signed.update(&variables);
        let mac = signed.sign().as_ref().to_vec();
        message.extend_from_slice(self.name.wire());
        [kind::TSIG, CLASS_ANY, 0, 0].iter().for_each(|value| message.extend(value.to_be_bytes()));
        let mut data = self.algorithm.wire().to_vec();
        data.extend_from_slice(&now_s.to_be_bytes()[2..]);
        data.extend(FUDGE_S.to_be_bytes());
        data.extend((mac.len() as u16).to_be_bytes());
        data.extend_from_slice(&mac);
        data.extend_from_slice(&id);
        data.extend_from_slice(&[0; 4]); // no error, no other data
        message.extend((data.len() as u16).to_be_bytes());
        message.extend_from_slice(&data);
        let additional = u16::from_be_bytes([message[10], message[11]]) + 1;
        message[10..12].copy_from_slice(&additional.to_be_bytes());
        mac
    }

    /// Checks that the answer to a signed request has a valid signature. `request_mac` is the result of
    /// [`TsigKey::sign`].
    pub(crate) fn verify(
        &self,
        bytes: &[u8],
        message: &Message,
        request_mac: &[u8],
        now_s: u64,
    ) -> Result<(), String> {
        let key = &self.name;
        let Some(signature) = &message.signature else {
            return match message.code() {
                0 => Err("the answer is not signed".to_string()),
                code => Err(super::message::code_text(code)),
            };
        };
        match signature.error {
            0 => {}
            BAD_KEY => {
                return Err(format!("it has no key {key} with this algorithm (BADKEY)"));
            }
            BAD_SIGNATURE => {
                return Err(format!("it has another secret for the key {key} (BADSIG)"));
            }
            BAD_TIME => {
                return Err(
                    "its clock and the clock of this machine differ by more than 5 minutes (BADTIME)"
                        .to_string(),
                );
            }
            BAD_TRUNCATION => return Err("it requires longer signatures (BADTRUNC)".to_string()),
            other => return Err(format!("it refuses the signature with error {other}")),
        }
        if signature.key != self.name || signature.algorithm != self.algorithm {
            return Err("the answer is signed with another key".to_string());
        }
        let expected = self.answer_mac(bytes, signature, request_mac);
        if expected.as_deref().is_none_or(|data| hmac::verify(&self.key, data, &signature.mac).is_err()) {
            return Err(format!("the answer is not signed with the secret of the key {key}"));
        }
        if signature.time.abs_diff(now_s) > u64::from(signature.fudge) {
            return Err("the answer is signed for another time; are both clocks right?".to_string());
        }
        Ok(())
    }

    /// The data that the signature of an answer is about (RFC 8945 section 4.3).
    fn answer_mac(&self, bytes: &[u8], signature: &SignatureRecord, request_mac: &[u8]) -> Option<Vec<u8>> {
        let mut data = (request_mac.len() as u16).to_be_bytes().to_vec();
        data.extend_from_slice(request_mac);
        let mut unsigned = bytes.get(..signature.begin)?.to_vec();
        if unsigned.len() < HEADER_BYTES {
            return None;
        }
        unsigned[..2].copy_from_slice(&signature.original_id.to_be_bytes());
        let additional = u16::from_be_bytes([unsigned[10], unsigned[11]]).checked_sub(1)?;
        unsigned[10..12].copy_from_slice(&additional.to_be_bytes());
        data.extend_from_slice(&unsigned);
        data.extend(self.variables(signature.time, signature.fudge, signature.error, &signature.other));
        Some(data)
    }

    /// The fields of a signature that it covers itself.
    fn variables(&self, time_s: u64, fudge: u16, error: u16, other: &[u8]) -> Vec<u8> {
        let mut out = self.name.wire().to_vec();
        out.extend(CLASS_ANY.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(self.algorithm.wire());
        out.extend_from_slice(&time_s.to_be_bytes()[2..]);
        out.extend(fudge.to_be_bytes());
        out.extend(error.to_be_bytes());
        out.extend((other.len() as u16).to_be_bytes());
        out.extend_from_slice(other);
        out
    }
}

impl fmt::Debug for TsigKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The secret is omitted.
        write!(formatter, "TsigKey({} {})", self.name, self.algorithm)
    }
}

/// The words of a key file, without comments (`#`, `//`), quotes, braces and semicolons.
fn words(text: &str) -> Vec<String> {
    let without_comment = |line: &str| {
        let line = line.split_once('#').map_or(line, |(before, _)| before).trim_end().to_string();
        // In a secret, slashes are parts of the base64 text.
        if line.trim_start().starts_with("//") { String::new() } else { line }
    };
    let text = text.lines().map(without_comment).collect::<Vec<_>>().join("\n");
    text.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '{' | '}' | ';'))
        .filter(|word| !word.is_empty() && *word != "-")
        .map(str::to_string)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::message::query;
    use super::*;
    use proptest::prelude::*;

    const LINE: &str = "hmac-sha256:acme.test:c2VjcmV0IHNlY3JldA==";

    #[test]
    fn forms_of_key_files() {
        let bind = "key \"acme.test\" {\n\talgorithm hmac-sha256;\n\tsecret \"c2VjcmV0IHNlY3JldA==\";\n};\n";
        let knot = "# hmac-sha256:acme.test:c2VjcmV0IHNlY3JldA==\nkey:\n  - id: acme.test\n    \
            algorithm: hmac-sha256\n    secret: c2VjcmV0IHNlY3JldA==\n";
        let sign = |text: &str| {
            let key = TsigKey::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            key.sign(&mut query(1, &Name::parse("a.org").unwrap(), 1, false), 1_000)
        };
        assert_eq!(sign(bind), sign(LINE));
        assert_eq!(sign(knot), sign(LINE));
        assert_eq!(sign(&format!("{LINE}\n")), sign(LINE));
        assert_ne!(sign("hmac-sha512:acme.test:c2VjcmV0IHNlY3JldA=="), sign(LINE));
        for (bad, expected) in [
            ("", "is empty"),
            ("# a comment\n", "is empty"),
            ("secret", "it needs a name, an algorithm and a secret"),
            ("hmac-md5:a:c2VjcmV0", "too weak"),
            ("hmac-sha3:a:c2VjcmV0", "the algorithm is unknown"),
            ("hmac-sha256:a:secret!", "is not base64"),
            ("hmac-sha256:a:", "the secret is empty"),
            ("hmac-sha256:a..b:c2VjcmV0", "is not a domain name"),
        ] {
            let message = TsigKey::parse(bad).expect_err(bad);
            assert!(message.contains(expected) && !message.contains("secret!"), "{bad}: {message}");
        }
        assert!(!format!("{:?}", TsigKey::parse(LINE).unwrap()).contains("c2Vj"));
    }

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("key");
        assert!(TsigKey::from_file(&file).expect_err("no file").ends_with("the file does not exist"));
        fs::write(&file, LINE).expect("it is written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("a mode");
        assert!(TsigKey::from_file(&file).expect_err("others").contains("(mode 644): 'chmod o-rwx' it"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("a mode");
        assert_eq!(TsigKey::from_file(&file).expect("a key").name().to_string(), "acme.test");
        fs::write(&file, b"\xff\xfe").expect("it is written");
        assert!(TsigKey::from_file(&file).expect_err("not text").ends_with("is not text"));
    }

    /// An answer as a server signs it.
    fn signed_answer(key: &TsigKey, request_mac: &[u8], now_s: u64) -> Vec<u8> {
        let mut answer = query(7, &Name::parse("a.org").unwrap(), 6, false);
        answer[2] |= 0x80;
        let unsigned = answer.clone();
        key.sign(&mut answer, now_s);
        let message = Message::parse(&answer).unwrap();
        let signature = message.signature.unwrap();
        let mut data = (request_mac.len() as u16).to_be_bytes().to_vec();
        data.extend_from_slice(request_mac);
        data.extend_from_slice(&unsigned);
        data.extend(key.variables(now_s, FUDGE_S, 0, &[]));
        let mac = hmac::sign(&key.key, &data);
        let place = answer.windows(signature.mac.len()).position(|window| window == signature.mac).unwrap();
        answer[place..place + signature.mac.len()].copy_from_slice(mac.as_ref());
        answer
    }

    #[test]
    fn only_the_answer_of_the_key_is_accepted() {
        let key = TsigKey::parse(LINE).unwrap();
        let check = |answer: &[u8], mac: &[u8], now_s: u64| {
            key.verify(answer, &Message::parse(answer).unwrap(), mac, now_s)
        };
        let answer = signed_answer(&key, &[5; 32], 1_000_000);
        assert_eq!(check(&answer, &[5; 32], 1_000_010), Ok(()));
        assert!(check(&answer, &[6; 32], 1_000_010).unwrap_err().contains("is not signed with the secret"));
        assert!(check(&answer, &[5; 32], 2_000_000).unwrap_err().contains("another time"));
        let other = TsigKey::parse("hmac-sha256:acme.test:b3RoZXI=").unwrap();
        assert!(check(&signed_answer(&other, &[5; 32], 1_000_000), &[5; 32], 1_000_000).is_err());
        let mut changed = answer.clone();
        changed[3] ^= 0x01;
        assert!(check(&changed, &[5; 32], 1_000_010).is_err());
        let unsigned = query(7, &Name::parse("a.org").unwrap(), 6, false);
        assert!(check(&unsigned, &[5; 32], 1_000_000).unwrap_err().contains("is not signed"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text: String) {
            let _ = TsigKey::parse(&text);
        }

        #[test]
        fn no_damaged_answer_is_accepted(at: usize, value in 1u8..=255) {
            let key = TsigKey::parse(LINE).unwrap();
            let mut answer = signed_answer(&key, &[5; 32], 1_000_000);
            let place = 2 + at % (answer.len() - 2);
            answer[place] ^= value;
            if let Some(message) = Message::parse(&answer) {
                // Letters of names count in lower case, and the fields of a record's life are not signed.
                let is_signed = message.signature.as_ref().is_some_and(|found| place < found.begin);
                if is_signed {
                    prop_assert!(key.verify(&answer, &message, &[5; 32], 1_000_000).is_err());
                }
            }
        }
    }
}
