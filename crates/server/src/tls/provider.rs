//! The cryptography: aws-lc-rs, arranged for a server with many handshakes.
//!
//! Three things differ from what rustls arranges by default. Everything else, X25519MLKEM768 as the first choice of a
//! key exchange included, is as it comes.
//!
//! - Suites with AES-128 and SHA-256 come first, as with BoringSSL and the large sites. SHA-384 makes the key schedule
//!   of TLS 1.3 several times dearer on processors with SHA instructions, a third of a whole handshake, and AES-256
//!   every byte; an attacker gains nothing by AES-128.
//! - HKDF keeps the state of HMAC after the key, instead of beginning with the key for each of some 30 derivations.
//! - A client whose own first choice is ChaCha20 has no fast AES: it gets what it asks for, see
//!   [`Hello::prefers_chacha`](super::client_hello::Hello).

use std::sync::Arc;

use aws_lc_rs::hmac;
use rustls::crypto::hmac::{Hmac, Key, Tag};
use rustls::crypto::tls13::HkdfUsingHmac;
use rustls::crypto::{CipherSuiteCommon, CryptoProvider};
use rustls::{CipherSuite, SupportedCipherSuite, Tls13CipherSuite};

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
    // rustls wants its suites to live for ever; three of them, once a process, do no harm.
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

static HKDF_SHA256: HkdfUsingHmac<'static> = HkdfUsingHmac(&KeyedHash(&hmac::HMAC_SHA256));
static HKDF_SHA384: HkdfUsingHmac<'static> = HkdfUsingHmac(&KeyedHash(&hmac::HMAC_SHA384));

/// HMAC of aws-lc-rs, as rustls wants it.
struct KeyedHash(&'static hmac::Algorithm);

struct KeyedHashKey(hmac::Key);

impl Hmac for KeyedHash {
    fn with_key(&self, key: &[u8]) -> Box<dyn Key> {
        Box::new(KeyedHashKey(hmac::Key::new(*self.0, key)))
    }

    fn hash_output_len(&self) -> usize {
        self.0.digest_algorithm().output_len()
    }
}

impl Key for KeyedHashKey {
    fn sign_concat(&self, first: &[u8], middle: &[&[u8]], last: &[u8]) -> Tag {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(first);
        for part in middle {
            context.update(part);
        }
        context.update(last);
        Tag::new(context.sign().as_ref())
    }

    fn tag_len(&self) -> usize {
        self.0.algorithm().digest_algorithm().output_len()
    }
}
