//! The cryptography: aws-lc-rs, arranged for a server with many handshakes.
//!
//! Three things differ from the defaults of rustls. Everything else is unchanged, including X25519MLKEM768 as
//! the first choice of a key exchange.
//!
//! - Suites with AES-128 and SHA-256 come first, as with BoringSSL and the large sites. On processors with
//!   SHA instructions, SHA-384 makes the key schedule of TLS 1.3 several times slower, a third of a whole
//!   handshake, and AES-256 makes every byte slower; AES-128 gives an attacker no advantage.
//! - HKDF keeps the state of HMAC after the key. aws-lc-rs starts from the key, or even from the secret it is
//!   derived from, for each of the 30 derivations of a handshake. This saves a tenth of a resumed handshake
//!   with SHA-256, and a third with SHA-384. The hashes are those of the sha2 crate, which uses the
//!   processor's instructions for them.
//! - A client whose own first choice is ChaCha20 has no fast AES: its choice is used, see
//!   [`Hello::prefers_chacha`](super::client_hello::Hello).

use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use rustls::crypto::hmac::{Key, Tag};
use rustls::crypto::tls13::HkdfUsingHmac;
use rustls::crypto::{CipherSuiteCommon, CryptoProvider};
use rustls::{CipherSuite, SupportedCipherSuite, Tls13CipherSuite};
use sha2::{Digest, Sha256, Sha384};

/// The provider that all endpoints use; made once.
pub fn provider() -> Arc<CryptoProvider> {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    // A stable sort: all others keep their order. Suites of different versions never compete.
    provider.cipher_suites.sort_by_key(|suite| !has_aes_128(suite.suite()));
    for suite in &mut provider.cipher_suites {
        *suite = with_fast_key_schedule(*suite);
    }
    Arc::new(provider)
}

fn has_aes_128(suite: CipherSuite) -> bool {
    matches!(
        suite,
        CipherSuite::TLS13_AES_128_GCM_SHA256
            | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
            | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
    )
}

fn with_fast_key_schedule(suite: SupportedCipherSuite) -> SupportedCipherSuite {
    let SupportedCipherSuite::Tls13(suite) = suite else { return suite };
    let hkdf_provider = match suite.common.suite {
        CipherSuite::TLS13_AES_256_GCM_SHA384 => &HKDF_SHA384,
        _ => &HKDF_SHA256,
    };
    // rustls requires `'static` suites; three leaked ones for each process are acceptable.
    SupportedCipherSuite::Tls13(Box::leak(Box::new(Tls13CipherSuite {
        common: CipherSuiteCommon {
            suite: suite.common.suite,
            hash_provider: suite.common.hash_provider,
            confidentiality_limit: suite.common.confidentiality_limit,
        },
        hkdf_provider,
        aead_alg: suite.aead_alg,
        quic: suite.quic,
    })))
}

static HKDF_SHA256: HkdfUsingHmac<'static> = HkdfUsingHmac(&HmacSha256);
static HKDF_SHA384: HkdfUsingHmac<'static> = HkdfUsingHmac(&HmacSha384);

struct HmacSha256;
struct HmacSha384;

/// The state of an HMAC after its key; it is cleared when it is dropped.
struct KeyedHmac<H>(H);

impl rustls::crypto::hmac::Hmac for HmacSha256 {
    fn with_key(&self, key: &[u8]) -> Box<dyn Key> {
        Box::new(KeyedHmac(keyed::<Hmac<Sha256>>(key)))
    }

    fn hash_output_len(&self) -> usize {
        <Sha256 as Digest>::output_size()
    }
}

impl rustls::crypto::hmac::Hmac for HmacSha384 {
    fn with_key(&self, key: &[u8]) -> Box<dyn Key> {
        Box::new(KeyedHmac(keyed::<Hmac<Sha384>>(key)))
    }

    fn hash_output_len(&self) -> usize {
        <Sha384 as Digest>::output_size()
    }
}

impl<H: Mac + Clone + Send + Sync> Key for KeyedHmac<H> {
    fn sign_concat(&self, first: &[u8], middle: &[&[u8]], last: &[u8]) -> Tag {
        let mut state = self.0.clone();
        state.update(first);
        for part in middle {
            state.update(part);
        }
        state.update(last);
        Tag::new(&state.finalize().into_bytes())
    }

    fn tag_len(&self) -> usize {
        H::output_size()
    }
}

fn keyed<H: KeyInit>(key: &[u8]) -> H {
    // RFC 2104 takes keys of any length, so this cannot fail.
    H::new_from_slice(key).expect("HMAC takes keys of any length")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suites(provider: &CryptoProvider) -> Vec<CipherSuite> {
        provider.cipher_suites.iter().map(SupportedCipherSuite::suite).collect()
    }

    #[test]
    fn no_suite_is_lost_and_aes_128_comes_first() {
        let (ours, stock) = (provider(), rustls::crypto::aws_lc_rs::default_provider());
        assert_eq!(suites(&ours)[0], CipherSuite::TLS13_AES_128_GCM_SHA256);
        assert!(stock.cipher_suites.iter().all(|suite| suites(&ours).contains(&suite.suite())));
        assert_eq!(ours.cipher_suites.len(), stock.cipher_suites.len());
    }

    #[test]
    fn keys_are_derived_as_by_aws_lc() {
        let (ours, stock) = (provider(), rustls::crypto::aws_lc_rs::default_provider());
        for suite in stock.cipher_suites {
            let SupportedCipherSuite::Tls13(theirs) = suite else { continue };
            let found = ours.cipher_suites.iter().find(|own| own.suite() == suite.suite());
            let Some(SupportedCipherSuite::Tls13(own)) = found else { panic!("{suite:?} is missing") };
            let hkdfs = [theirs.hkdf_provider, own.hkdf_provider];
            for (salt, secret) in
                [(None, &b"secret"[..]), (Some(&b"salt"[..]), &[7; 200]), (Some(&[9; 300]), b"")]
            {
                let [theirs, own] = hkdfs.map(|hkdf| {
                    let expander = hkdf.extract_from_secret(salt, secret);
                    let mut long = [0; 500];
                    expander.expand_slice(&[b"some ", b"", b"info"], &mut long).unwrap();
                    let block = expander.expand_block(&[b"info"]);
                    let again = hkdf.expander_for_okm(&block).expand_block(&[]);
                    let none = hkdf.extract_from_zero_ikm(salt).expand_block(&[b"x"]);
                    let tag = hkdf.hmac_sign(&block, b"message");
                    assert!(expander.expand_slice(&[], &mut vec![0; 255 * expander.hash_len() + 1]).is_err());
                    let parts = [block.as_ref(), again.as_ref(), none.as_ref(), tag.as_ref()].concat();
                    (long, parts, expander.hash_len())
                });
                assert!(theirs == own);
            }
        }
    }
}
