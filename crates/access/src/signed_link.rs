//! Links that need a signature: an HMAC with SHA-256 of a text, or the MD5 of a text that contains a secret,
//! like nginx's `secure_link_md5`.
//!
//! The comparison time does not depend on the position of a difference. All secrets of the file are tried, so
//! that a secret can be replaced while old links are still valid.

use std::path::Path;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use md5::{Digest as _, Md5};
use touchstone_config::{SignatureForm, SignedLinkConfig, SignedPart};
use touchstone_expression::source::argument;
use touchstone_http::request_view::RequestView;

use super::refusal::Refusal;
use super::secret_lines::read_secret_lines;

/// The minimum length of an HMAC secret in bytes. Secrets for nginx's links may be shorter: existing links
/// need them.
const SHORTEST_SECRET: usize = 16;

/// The maximum length of the text of a time.
const LONGEST_TIME: usize = 12;

/// base64url as links use it: with or without padding.
const BASE64URL: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_encode_padding(false)
        // The unused bits of a signature's last letter may be set.
        .with_decode_allow_trailing_bits(true),
);

/// The rule of a site or route.
pub struct SignedLinks {
    secrets: Vec<Secret>,
    form: SignatureForm,
    parts: Box<[SignedPart]>,
    signature: Box<str>,
    expires: Box<str>,
}

struct Secret {
    bytes: Vec<u8>,
    key: hmac::Key,
}

impl SignedLinks {
    /// Creates the rule; `None` if no signature is needed.
    pub fn open(config: &SignedLinkConfig) -> Result<Option<SignedLinks>, String> {
        let Some(path) = &config.secret_file else { return Ok(None) };
        Ok(Some(SignedLinks {
            secrets: read_secrets(path, config.form)?,
            form: config.form,
            parts: config.parts()?.into(),
            signature: config.signature.as_str().into(),
            expires: config.expires.as_str().into(),
        }))
    }

    /// Checks a request at this time, in seconds since 1970.
    pub fn check(&self, request: &RequestView<'_>, now: u64) -> Result<(), Refusal> {
        let refused = || Refusal::new(403);
        let query = request.query.ok_or_else(refused)?;
        let signature = argument(query, &self.signature).ok_or_else(refused)?;
        let signature = BASE64URL.decode(signature).map_err(|_| refused())?;
        let expires = match &*self.expires {
            "" => None,
            name => Some(argument(query, name).filter(|time| is_time(time)).ok_or_else(refused)?),
        };
        let is_of = |secret: &Secret| {
            let expected = self.signature(request, expires.unwrap_or_default(), secret);
            verify_slices_are_equal(&expected, &signature).is_ok()
        };
        if !self.secrets.iter().any(is_of) {
            return Err(refused());
        }
        let time = expires.and_then(|time| std::str::from_utf8(time).ok()?.parse::<u64>().ok());
        match time {
            Some(time) if now > time => Err(Refusal::new(410)),
            _ => Ok(()),
        }
    }

    fn signature(&self, request: &RequestView<'_>, expires: &[u8], secret: &Secret) -> Vec<u8> {
        let mut text = Vec::with_capacity(128);
        for part in &self.parts {
            match part {
                SignedPart::Text(part) => text.extend_from_slice(&part.render(request)),
                SignedPart::Expires => text.extend_from_slice(expires),
                SignedPart::Secret => text.extend_from_slice(&secret.bytes),
            }
        }
        match self.form {
            SignatureForm::Hmac => hmac::sign(&secret.key, &text).as_ref().to_vec(),
            SignatureForm::Md5 => Md5::digest(&text).to_vec(),
        }
    }
}

fn is_time(text: &[u8]) -> bool {
    (1..=LONGEST_TIME).contains(&text.len()) && text.iter().all(u8::is_ascii_digit)
}

fn read_secrets(path: &Path, form: SignatureForm) -> Result<Vec<Secret>, String> {
    let shortest = if form == SignatureForm::Hmac { SHORTEST_SECRET } else { 1 };
    let secret = |line: &str| Secret {
        bytes: line.as_bytes().to_vec(),
        key: hmac::Key::new(hmac::HMAC_SHA256, line.as_bytes()),
    };
    Ok(read_secret_lines("secret_file", path, shortest)?.iter().map(|line| secret(line)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write as _;

    fn links(form: SignatureForm, text: &str, secrets: &str) -> SignedLinks {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(secrets.as_bytes()).unwrap();
        let config = SignedLinkConfig {
            secret_file: Some(file.path().to_path_buf()),
            form,
            text: text.to_string(),
            signature: "s".to_string(),
            expires: "e".to_string(),
        };
        SignedLinks::open(&config).unwrap().unwrap()
    }

    fn status(links: &SignedLinks, path: &str, query: &str, now: u64) -> u16 {
        let request = RequestView { query: Some(query.as_bytes()), ..RequestView::example(path) };
        links.check(&request, now).map_or_else(|refusal| refusal.status, |()| 200)
    }

    /// The example from nginx's documentation:
    /// `printf '2147483647/s/link127.0.0.1 secret' | openssl md5 -binary | basenc --base64url`
    #[test]
    fn a_link_of_nginx() {
        let links = SignedLinks {
            secrets: vec![Secret {
                bytes: b"secret".to_vec(),
                key: hmac::Key::new(hmac::HMAC_SHA256, b"secret"),
            }],
            form: SignatureForm::Md5,
            parts: SignedLinkConfig {
                secret_file: None,
                form: SignatureForm::Md5,
                text: "$expires$path$client $secret".to_string(),
                signature: String::new(),
                expires: "expires".to_string(),
            }
            .parts()
            .unwrap()
            .into(),
            signature: "md5".into(),
            expires: "expires".into(),
        };
        let request = RequestView {
            query: Some(b"md5=_e4Nc3iduzkWRm01TBBNYw&expires=2147483647"),
            client: Some([127, 0, 0, 1].into()),
            ..RequestView::example("/s/link")
        };
        assert_eq!(links.check(&request, 2_147_483_647), Ok(()));
        assert_eq!(links.check(&request, 2_147_483_648), Err(Refusal::new(410)));
        let other = RequestView { path: b"/s/other", ..request };
        assert_eq!(links.check(&other, 5), Err(Refusal::new(403)));
    }

    #[test]
    fn links_with_an_hmac() {
        let links = links(SignatureForm::Hmac, "", "old secret of links\n\nnew secret of links\n");
        for secret in ["old secret of links", "new secret of links"] {
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
            let signature = BASE64URL.encode(hmac::sign(&key, b"/a b/c 1000"));
            assert_eq!(status(&links, "/a b/c", &format!("x=1&e=1000&s={signature}"), 1000), 200);
            assert_eq!(status(&links, "/a b/c", &format!("e=1000&s={signature}="), 1000), 200);
            assert_eq!(status(&links, "/a b/c", &format!("e=1000&s={signature}"), 1001), 410);
            assert_eq!(status(&links, "/a b/c", &format!("e=2000&s={signature}"), 1000), 403);
            assert_eq!(status(&links, "/a b/d", &format!("e=1000&s={signature}"), 1000), 403);
            assert_eq!(status(&links, "/a b/c", &format!("s={signature}"), 1000), 403);
            assert_eq!(status(&links, "/a b/c", &format!("e=1000 &s={signature}"), 1000), 403);
        }
        assert_eq!(status(&links, "/a", "e=1000", 1), 403);
        assert_eq!(status(&links, "/a", "e=1000&s=", 1), 403);
        assert_eq!(links.check(&RequestView::example("/a"), 1), Err(Refusal::new(403)));
    }

    #[test]
    fn files_of_secrets() {
        let problem = |text: &str| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            read_secrets(file.path(), SignatureForm::Hmac).err().unwrap_or_default()
        };
        assert!(problem("").contains("1 to 16 lines"));
        assert!(problem("short\n").contains("shorter than 16"));
        assert!(problem(&"0123456789abcdef\n".repeat(17)).contains("1 to 16 lines"));
        assert_eq!(problem("0123456789abcdef"), "");
        assert!(
            read_secrets(Path::new("/no/such/file"), SignatureForm::Md5)
                .err()
                .unwrap()
                .contains("cannot be read")
        );
    }

    proptest! {
        #[test]
        fn no_query_passes_by_chance(query in "[a-z0-9=&_%-]{0,60}") {
            let links = links(SignatureForm::Hmac, "", "0123456789abcdef");
            prop_assert_eq!(status(&links, "/", &query, 0), 403);
        }
    }
}
