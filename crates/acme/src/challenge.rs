//! Publishes proofs that this server serves a name, while an order lasts: in plain HTTP (HTTP-01, RFC 8555
//! section 8.3), and in a TLS handshake (TLS-ALPN-01, RFC 8737).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use rcgen::{CertificateParams, CustomExtension, DistinguishedName, DnType, KeyPair};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::sign::CertifiedKey;

use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_tls::TlsShared;

/// The path at which an authority requests the proof of a token.
const PATH: &[u8] = b"/.well-known/acme-challenge/";

/// The proofs that are published in plain HTTP now.
#[derive(Debug, Default)]
pub struct HttpChallenges {
    by_token: RwLock<HashMap<String, HttpProof>>,
    /// Checked for requests that the cache does not answer; it avoids the lock.
    count: AtomicUsize,
}

#[derive(Debug)]
struct HttpProof {
    host: String,
    key_authorization: String,
}

impl HttpChallenges {
    /// The answer to an authority that requests a proof; `None` for any other request. It takes precedence
    /// over all rules of the site: neither a redirect nor a password may prevent it.
    #[inline]
    pub fn answer(&self, path: &[u8], host: Option<&[u8]>) -> Option<Answer> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.look_up(path, host.unwrap_or_default())
    }

    #[cold]
    fn look_up(&self, path: &[u8], host: &[u8]) -> Option<Answer> {
        let token = std::str::from_utf8(path.strip_prefix(PATH)?).ok()?;
        let name = touchstone_http::host::split_port(host).0;
        let name = name.strip_suffix(b".").unwrap_or(name);
        let table = self.by_token.read().unwrap_or_else(PoisonError::into_inner);
        let proof = table.get(token).filter(|proof| proof.host.as_bytes().eq_ignore_ascii_case(name))?;
        let answer = Answer::new(200)
            .field("Content-Type", "application/octet-stream")
            .field("Cache-Control", "no-store");
        Some(answer.part(BodyPart::Bytes(proof.key_authorization.clone().into())))
    }

    fn change(&self, change: impl FnOnce(&mut HashMap<String, HttpProof>)) {
        let mut table = self.by_token.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut table);
        self.count.store(table.len(), Ordering::Relaxed);
    }
}

/// The places where proofs are published.
#[derive(Debug, Clone)]
pub struct Offers {
    /// In plain HTTP.
    pub http: Arc<HttpChallenges>,
    /// In TLS handshakes.
    pub tls: Arc<TlsShared>,
}

/// A published proof; it is removed when this is dropped.
#[must_use]
pub struct Offer {
    offers: Offers,
    kind: OfferKind,
}

enum OfferKind {
    Http { token: String },
    Tls { host: String },
}

impl Offers {
    /// Publishes a proof in plain HTTP.
    pub fn http(&self, host: &str, token: &str, key_authorization: &str) -> Offer {
        // In a Host field, an IPv6 address has brackets.
        let host = match host.parse() {
            Ok(IpAddr::V6(address)) => format!("[{address}]"),
            _ => host.to_string(),
        };
        let proof = HttpProof { host, key_authorization: key_authorization.to_string() };
        self.http.change(|table| {
            table.insert(token.to_string(), proof);
        });
        Offer { offers: self.clone(), kind: OfferKind::Http { token: token.to_string() } }
    }

    /// Publishes a proof in TLS handshakes: the SHA-256 digest of the key authorization.
    pub fn tls(&self, host: &str, digest: &[u8]) -> Result<Offer, String> {
        let certificate = challenge_certificate(host, digest, self.tls.provider())?;
        let host = requested_name(host);
        self.tls.add_challenge(&host, Arc::new(certificate));
        Ok(Offer { offers: self.clone(), kind: OfferKind::Tls { host } })
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        match &self.kind {
            OfferKind::Http { token } => self.offers.http.change(|table| {
                table.remove(token);
            }),
            OfferKind::Tls { host } => self.offers.tls.remove_challenge(host),
        }
    }
}

/// The name that the authority requests in its handshake: the host, or the name for an address in the reverse
/// zones (RFC 8738 section 6).
fn requested_name(host: &str) -> String {
    match host.parse() {
        Ok(IpAddr::V4(address)) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        Ok(IpAddr::V6(address)) => {
            let octets = address.octets();
            let digits = octets.iter().rev().flat_map(|octet| [octet & 0xf, octet >> 4]);
            let labels: Vec<String> = digits.map(|digit| format!("{digit:x}")).collect();
            format!("{}.ip6.arpa", labels.join("."))
        }
        Err(_) => host.to_string(),
    }
}

/// The certificate of RFC 8737 section 3: self-signed, for this host, with the digest in an extension.
fn challenge_certificate(
    host: &str,
    digest: &[u8],
    provider: &CryptoProvider,
) -> Result<CertifiedKey, String> {
    if digest.len() != 32 {
        return Err("the digest of the proof is not a SHA-256 digest".to_string());
    }
    let make = || -> Result<_, rcgen::Error> {
        let mut params = CertificateParams::new(vec![host.to_string()])?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "ACME challenge");
        params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        Ok((params.self_signed(&key)?, key))
    };
    let (certificate, key) =
        make().map_err(|error| format!("the certificate of the proof cannot be created: {error}"))?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    // The key is not compared with the certificate, because rustls does not support its critical extension.
    let key = provider
        .key_provider
        .load_private_key(key.into())
        .map_err(|error| format!("the key of the proof cannot be used: {error}"))?;
    Ok(CertifiedKey::new(vec![certificate.der().clone()], key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use x509_parser::prelude::{FromDer as _, X509Certificate};

    fn offers() -> Offers {
        Offers { http: Arc::default(), tls: TlsShared::new() }
    }

    fn body(answer: Option<Answer>) -> Option<Vec<u8>> {
        let mut answer = answer?;
        assert_eq!(answer.status, 200);
        match answer.body.pop() {
            Some(BodyPart::Bytes(bytes)) => Some(bytes.to_vec()),
            _ => None,
        }
    }

    #[test]
    fn a_proof_in_plain_http_is_for_its_host_and_token_alone() {
        let offers = offers();
        let ask = |path: &str, host: &str| body(offers.http.answer(path.as_bytes(), Some(host.as_bytes())));
        assert_eq!(ask("/.well-known/acme-challenge/abc", "a.org"), None);
        let one = offers.http("a.org", "abc", "abc.thumb");
        let other = offers.http("b.org", "def", "def.thumb");
        for host in ["a.org", "A.ORG", "a.org:80", "a.org."] {
            assert_eq!(
                ask("/.well-known/acme-challenge/abc", host).as_deref(),
                Some(&b"abc.thumb"[..]),
                "{host}"
            );
        }
        for (path, host) in [
            ("/.well-known/acme-challenge/abc", "b.org"),
            ("/.well-known/acme-challenge/abc", ""),
            ("/.well-known/acme-challenge/abcd", "a.org"),
            ("/.well-known/acme-challenge/", "a.org"),
            ("/.well-known/acme-challenge", "a.org"),
            ("/abc", "a.org"),
        ] {
            assert_eq!(ask(path, host), None, "{path} {host}");
        }
        drop(one);
        assert_eq!(ask("/.well-known/acme-challenge/abc", "a.org"), None);
        assert!(ask("/.well-known/acme-challenge/def", "b.org").is_some());
        drop(other);
        assert_eq!(offers.http.count.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn names_of_addresses() {
        assert_eq!(requested_name("a.org"), "a.org");
        assert_eq!(requested_name("192.0.2.1"), "1.2.0.192.in-addr.arpa");
        let v6 = requested_name("2001:db8::1");
        assert!(v6.starts_with("1.0.0.0.") && v6.ends_with("8.b.d.0.1.0.0.2.ip6.arpa"), "{v6}");
        assert_eq!(v6.len(), 72);
        let offers = offers();
        let _offer = offers.http("2001:db8::1", "abc", "abc.thumb");
        let path = b"/.well-known/acme-challenge/abc";
        assert!(offers.http.answer(path, Some(b"[2001:db8::1]:80")).is_some());
    }

    #[test]
    fn the_certificate_of_a_proof_holds_the_digest() {
        let provider = TlsShared::new();
        let digest = [7; 32];
        let certified = challenge_certificate("a.org", &digest, provider.provider()).unwrap();
        let (_, certificate) = X509Certificate::from_der(&certified.cert[0]).unwrap();
        let identifier =
            certificate.extensions().iter().find(|found| found.oid.to_id_string() == "1.3.6.1.5.5.7.1.31");
        let identifier = identifier.unwrap();
        assert!(identifier.critical);
        assert_eq!(identifier.value, [&[4, 32][..], &digest].concat());
        let names = certificate.subject_alternative_name().unwrap().unwrap();
        assert_eq!(names.value.general_names.len(), 1);
        assert!(challenge_certificate("a.org", &[7; 31], provider.provider()).is_err());
    }

    proptest! {
        #[test]
        fn whatever_is_asked_only_the_token_is_answered(path: Vec<u8>, host: Vec<u8>, begins_right: bool) {
            let offers = offers();
            let _offer = offers.http("a.org", "a-token-that-nobody-guesses", "proof");
            let path = if begins_right { [PATH, &path].concat() } else { path };
            prop_assert!(offers.http.answer(&path, Some(&host)).is_none());
        }
    }
}
