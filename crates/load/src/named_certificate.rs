//! The verification of servers whose own certificate is among the trusted ones, such as test servers with
//! self-signed certificates.
//!
//! Most tools create such a certificate as a CA certificate, and a server must not use a CA certificate as
//! its own. If exactly this certificate is trusted, it is accepted nevertheless; its validity period and its
//! name are still verified.

use crate::target::Trust;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::Arc;

/// A verifier that checks certificates against these authorities, and also accepts the listed certificates
/// themselves.
pub(crate) fn named_certificates(
    trust: &Trust,
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let authorities = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| format!("the certificate authorities cannot be used: {error}"))?;
    let Trust::Authorities(pem) = trust else { return Ok(authorities) };
    // They were parsed without an error before.
    let named = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).collect();
    Ok(Arc::new(NamedCertificates { authorities, named }))
}

#[derive(Debug)]
struct NamedCertificates {
    authorities: Arc<WebPkiServerVerifier>,
    named: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for NamedCertificates {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            Err(error) if is_authority(&error) && self.named.iter().any(|named| named == end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

/// Whether the only error is that the certificate is a CA certificate. webpki checks the validity period
/// before this; the test with an expired certificate verifies that it does.
fn is_authority(error: &Error) -> bool {
    match error {
        Error::InvalidCertificate(CertificateError::Other(other)) => {
            format!("{:?}", other.0).contains("CaUsedAsEndEntity")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
    use rustls::crypto::aws_lc_rs;

    const NAME: &str = "www.example";

    /// A self-signed CA certificate, as `openssl req -x509` creates it.
    fn self_signed(change: impl Fn(&mut CertificateParams)) -> rcgen::Certificate {
        let mut parameters = CertificateParams::new([NAME.to_string()]).expect("a good name");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(&mut parameters);
        parameters.self_signed(&KeyPair::generate().expect("a key")).expect("a certificate")
    }

    fn verify(
        shown: &rcgen::Certificate,
        named: &rcgen::Certificate,
        name: &'static str,
    ) -> Result<(), Error> {
        let mut roots = RootCertStore::empty();
        roots.add(named.der().clone()).expect("a certificate");
        let trust = Trust::Authorities(named.pem().into_bytes());
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = named_certificates(&trust, roots, provider).expect("a verifier");
        let name = ServerName::try_from(name).expect("a good name");
        verifier.verify_server_cert(shown.der(), &[], &name, &[], UnixTime::now()).map(|_| ())
    }

    #[test]
    fn a_trusted_certificate_is_accepted_and_its_name_is_verified() {
        for is_ca in [IsCa::Ca(BasicConstraints::Unconstrained), IsCa::NoCa, IsCa::ExplicitNoCa] {
            let own = self_signed(|parameters| parameters.is_ca = is_ca);
            assert!(verify(&own, &own, NAME).is_ok(), "{is_ca:?}: {:?}", verify(&own, &own, NAME));
            assert!(verify(&own, &own, "other.example").is_err(), "{is_ca:?}");
        }
    }

    #[test]
    fn expired_certificates_and_others_with_the_same_name_are_refused() {
        let expired = self_signed(|parameters| parameters.not_after = rcgen::date_time_ymd(2020, 1, 1));
        assert!(verify(&expired, &expired, NAME).is_err());
        let early = self_signed(|parameters| parameters.not_before = rcgen::date_time_ymd(4000, 1, 1));
        assert!(verify(&early, &early, NAME).is_err());
        assert!(verify(&self_signed(|_| {}), &self_signed(|_| {}), NAME).is_err());
    }
}
