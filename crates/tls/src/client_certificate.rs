//! The identity of a client, from its verified certificate.

use std::net::IpAddr;

use rustls::pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};
use touchstone_http::hexadecimal;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;

use super::certificate::address;
use super::distinguished_name;

/// The contents of a verified client certificate, for handlers, access rules and logs.
///
/// All text is as the certificate has it, except that the distinguished names are escaped (RFC 4514). Before
/// a value is put into a header, the caller must check it for characters that are not allowed there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The subject: `CN=Ada,O=Example,C=GB`.
    pub subject: String,
    /// The subject's common name, unescaped.
    pub common_name: Option<String>,
    /// The issuer.
    pub issuer: String,
    /// The serial number in upper-case hexadecimal.
    pub serial_number: String,
    /// SHA-256 of the certificate in lower-case hexadecimal.
    pub fingerprint: String,
    /// Host names among the subject's alternative names.
    pub host_names: Vec<String>,
    /// Mail addresses.
    pub mail_addresses: Vec<String>,
    /// URIs, such as SPIFFE identities.
    pub uris: Vec<String>,
    /// Network addresses.
    pub addresses: Vec<IpAddr>,
    /// Valid from, in seconds since 1970.
    pub not_before_s: i64,
    /// Valid until, in seconds since 1970.
    pub not_after_s: i64,
    /// The certificates that the client showed, its own first, in DER form.
    pub chain: Vec<Vec<u8>>,
}

impl ClientCertificate {
    /// Reads the certificate that the handshake has verified; `None` when the client sent none, or one that
    /// cannot be read.
    pub fn read(chain: &[CertificateDer<'_>]) -> Option<ClientCertificate> {
        let own = chain.first()?;
        let (_, certificate) = X509Certificate::from_der(own).ok()?;
        let mut read = ClientCertificate {
            subject: distinguished_name::to_text(certificate.subject()),
            common_name: distinguished_name::common_name(certificate.subject()),
            issuer: distinguished_name::to_text(certificate.issuer()),
            serial_number: hexadecimal::encode(certificate.raw_serial()).to_ascii_uppercase(),
            fingerprint: hexadecimal::encode(&Sha256::digest(own)),
            host_names: Vec::new(),
            mail_addresses: Vec::new(),
            uris: Vec::new(),
            addresses: Vec::new(),
            not_before_s: certificate.validity().not_before.timestamp(),
            not_after_s: certificate.validity().not_after.timestamp(),
            chain: chain.iter().map(|certificate| certificate.to_vec()).collect(),
        };
        if let Ok(Some(alternatives)) = certificate.subject_alternative_name() {
            read.take_names(&alternatives.value.general_names);
        }
        Some(read)
    }

    fn take_names(&mut self, names: &[GeneralName<'_>]) {
        for name in names {
            match name {
                GeneralName::DNSName(name) => self.host_names.push(name.to_ascii_lowercase()),
                GeneralName::RFC822Name(address) => self.mail_addresses.push((*address).to_string()),
                GeneralName::URI(uri) => self.uris.push((*uri).to_string()),
                GeneralName::IPAddress(bytes) => self.addresses.extend(address(bytes)),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType, SerialNumber};

    #[test]
    fn everything_is_read() {
        let mut params = CertificateParams::new(vec!["Client.Example.org".to_string()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "Ada");
        params.serial_number = Some(SerialNumber::from_slice(&[0x0a, 0xbc]));
        params.subject_alt_names.push(SanType::Rfc822Name("ada@example.org".try_into().unwrap()));
        params.subject_alt_names.push(SanType::URI("spiffe://example.org/ada".try_into().unwrap()));
        params.subject_alt_names.push(SanType::IpAddress("192.0.2.7".parse().unwrap()));
        params.subject_alt_names.push(SanType::IpAddress("2001:db8::7".parse().unwrap()));
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let read = ClientCertificate::read(std::slice::from_ref(certificate.der())).unwrap();
        assert_eq!(read.common_name.as_deref(), Some("Ada"));
        assert!(read.subject.contains("CN=Ada"), "{}", read.subject);
        assert_eq!(read.serial_number, "0ABC");
        assert_eq!(read.fingerprint.len(), 64);
        assert_eq!(read.host_names, ["client.example.org"]);
        assert_eq!(read.mail_addresses, ["ada@example.org"]);
        assert_eq!(read.uris, ["spiffe://example.org/ada"]);
        assert_eq!(read.addresses, ["192.0.2.7".parse::<IpAddr>().unwrap(), "2001:db8::7".parse().unwrap()]);
        assert_eq!(read.chain, [certificate.der().to_vec()]);
    }

    #[test]
    fn none_is_none() {
        assert_eq!(ClientCertificate::read(&[]), None);
        assert_eq!(ClientCertificate::read(&[CertificateDer::from_slice(b"nonsense")]), None);
    }

    fn any_certificate() -> Vec<u8> {
        let params = CertificateParams::new(vec!["a.org".to_string(), "192.0.2.7".to_string()]).unwrap();
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    proptest! {
        #[test]
        fn damaged_certificates_are_survived(at in 0_usize..2000, mask in 1_u8.., cut in 0_usize..2000) {
            thread_local! { static WHOLE: Vec<u8> = any_certificate(); }
            let mut bytes = WHOLE.with(Clone::clone);
            let at = at % bytes.len();
            bytes[at] ^= mask;
            ClientCertificate::read(&[CertificateDer::from_slice(&bytes)]);
            bytes.truncate(cut % bytes.len());
            ClientCertificate::read(&[CertificateDer::from_slice(&bytes)]);
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            ClientCertificate::read(&[CertificateDer::from_slice(&bytes)]);
        }
    }
}
