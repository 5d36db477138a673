//! A server certificate with its key: loaded, checked, and described.
//!
//! A certificate that cannot be used is an error. If only some clients would reject it (expired, no name in
//! it, a chain in the wrong order), that is a warning: the operator may know the reason, and a page with a
//! warning is better than no page.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, InconsistentKeys, SignatureAlgorithm};
use time::OffsetDateTime;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::X509Version;

use super::pem::{self, PemProblem};

/// How long before its end a certificate causes a warning, unless a third of its validity is shorter.
const WARNING_BEFORE_END_S: i64 = 7 * 24 * 3600;

/// A certificate that can be served.
#[derive(Debug)]
pub struct LoadedCertificate {
    /// Its name in messages: the file.
    pub origin: String,
    /// The chain and the key.
    pub certified: Arc<CertifiedKey>,
    /// The host names for which it is valid, in lower case; wildcards as `*.example.org`.
    pub names: Vec<String>,
    /// The network addresses for which it is valid.
    pub addresses: Vec<IpAddr>,
    /// Valid from, in seconds since 1970.
    pub not_before_s: i64,
    /// Valid until, in seconds since 1970.
    pub not_after_s: i64,
    /// Why some clients will reject it.
    pub warnings: Vec<String>,
}

/// Whether a certificate is valid now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// It is not valid yet.
    Early,
    /// It is valid.
    Valid,
    /// It is valid, but should have been renewed by now.
    EndsSoon,
    /// It is not valid any more.
    Expired,
}

impl LoadedCertificate {
    /// Reads a chain and a key, and checks that they belong together.
    pub fn from_files(
        chain: &Path,
        key: &Path,
        provider: &CryptoProvider,
    ) -> Result<LoadedCertificate, PemProblem> {
        let certificates = pem::read_certificates(chain)?;
        let private_key = pem::read_key(key)?;
        let key_warning = key_warning(key);
        let mut loaded =
            LoadedCertificate::from_der(chain.display().to_string(), certificates, private_key, provider)
                .map_err(|unusable| match unusable {
                    UnusableCertificate::Chain(message) => PemProblem { file: chain.to_path_buf(), message },
                    UnusableCertificate::Key(message) => PemProblem { file: key.to_path_buf(), message },
                    UnusableCertificate::Mismatch => {
                        let message = format!("is not the key of the certificate in {}", chain.display());
                        PemProblem { file: key.to_path_buf(), message }
                    }
                })?;
        loaded.warnings.extend(key_warning);
        Ok(loaded)
    }

    /// Uses a chain and a key that were read already.
    pub fn from_der(
        origin: String,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        provider: &CryptoProvider,
    ) -> Result<LoadedCertificate, UnusableCertificate> {
        let mut warnings = Vec::new();
        let (names, addresses, not_before_s, not_after_s) = {
            let parsed = parse_chain(&chain)?;
            let Some(first) = parsed.first() else {
                return Err(UnusableCertificate::Chain("holds no certificate".to_string()));
            };
            check_version(first)?;
            check_chain(&parsed, &mut warnings);
            let (names, addresses) = names_of(first);
            check_purpose(first, &names, &mut warnings);
            let validity = first.validity();
            (names, addresses, validity.not_before.timestamp(), validity.not_after.timestamp())
        };
        let certified = CertifiedKey::from_der(chain, key, provider).map_err(unusable)?;
        for warning in &mut warnings {
            *warning = format!("{origin}: {warning}");
        }
        let certified = Arc::new(certified);
        Ok(LoadedCertificate { origin, certified, names, addresses, not_before_s, not_after_s, warnings })
    }

    /// The state of the certificate at `now_s` seconds since 1970.
    pub fn age(&self, now_s: i64) -> Age {
        let soon_s = ((self.not_after_s - self.not_before_s) / 3).clamp(0, WARNING_BEFORE_END_S);
        if now_s > self.not_after_s {
            Age::Expired
        } else if now_s < self.not_before_s {
            Age::Early
        } else if now_s > self.not_after_s - soon_s {
            Age::EndsSoon
        } else {
            Age::Valid
        }
    }

    /// The day of its end, as `2026-11-20`.
    pub fn end_day(&self) -> String {
        day(self.not_after_s)
    }

    /// The day from which it is valid.
    pub fn begin_day(&self) -> String {
        day(self.not_before_s)
    }

    /// True if the certificate is valid for `name`: a name in lower case, a wildcard, or an address.
    pub fn is_for(&self, name: &str) -> bool {
        if let Some(address) = host_address(name) {
            return self.addresses.contains(&address);
        }
        self.names.iter().any(|own| {
            own == name
                || own.strip_prefix("*.").is_some_and(|parent| {
                    // A wildcard in a certificate matches one label (RFC 9525 section 6.3).
                    name.split_once('.').is_some_and(|(first, rest)| first != "*" && rest == parent)
                })
        })
    }

    /// Of several certificates for one name, the one with the lower value is offered first: an elliptic curve
    /// signs many times faster than RSA.
    pub fn preference(&self) -> u8 {
        match self.certified.key.algorithm() {
            SignatureAlgorithm::ECDSA => 0,
            SignatureAlgorithm::ED25519 => 1,
            _ => 2,
        }
    }
}

/// Why a chain and a key cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnusableCertificate {
    /// The chain has a problem.
    Chain(String),
    /// The key has a problem.
    Key(String),
    /// They do not belong together.
    Mismatch,
}

fn parse_chain<'a>(
    chain: &'a [CertificateDer<'static>],
) -> Result<Vec<X509Certificate<'a>>, UnusableCertificate> {
    chain
        .iter()
        .enumerate()
        .map(|(index, der)| match X509Certificate::from_der(der) {
            Ok(([], certificate)) => Ok(certificate),
            _ => Err(UnusableCertificate::Chain(format!("certificate {} in it is damaged", index + 1))),
        })
        .collect()
}

/// Refuses a certificate without extensions, which no client accepts from a server (RFC 5280 section 4.1.2.1,
/// RFC 9525 section 6).
fn check_version(certificate: &X509Certificate<'_>) -> Result<(), UnusableCertificate> {
    match certificate.version() {
        X509Version::V3 => Ok(()),
        version => Err(UnusableCertificate::Chain(format!(
            "the certificate is of X.509 version {}, which has no place for the names of hosts: \
             make one of version 3, with 'openssl x509 -req' by the options '-extfile' or \
             '-copy_extensions copy'",
            version.0 + 1
        ))),
    }
}

fn unusable(error: rustls::Error) -> UnusableCertificate {
    match error {
        rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => UnusableCertificate::Mismatch,
        rustls::Error::InvalidCertificate(CertificateError::BadEncoding) => {
            UnusableCertificate::Chain("the certificate is damaged".to_string())
        }
        rustls::Error::InvalidCertificate(error) => {
            UnusableCertificate::Chain(format!("the certificate cannot be used: {error:?}"))
        }
        _ => UnusableCertificate::Key(
            "the key cannot be used: it is damaged, or neither ECDSA P-256, P-384 or P-521, Ed25519, \
             nor RSA of 2048 bits or more"
                .to_string(),
        ),
    }
}

fn check_chain(chain: &[X509Certificate<'_>], warnings: &mut Vec<String>) {
    for (index, pair) in chain.windows(2).enumerate() {
        if pair[0].issuer().as_raw() != pair[1].subject().as_raw() {
            warnings.push(format!(
                "certificate {} did not issue certificate {}: clients may be unable to verify it",
                index + 2,
                index + 1
            ));
            return;
        }
    }
    let alone = chain.len() == 1 && chain[0].issuer().as_raw() != chain[0].subject().as_raw();
    if alone {
        warnings.push(
            "there is no certificate of the authority beside it: most clients cannot verify it".to_string(),
        );
    }
}

fn check_purpose(certificate: &X509Certificate<'_>, names: &[String], warnings: &mut Vec<String>) {
    let has_alternative_names = matches!(certificate.subject_alternative_name(), Ok(Some(_)));
    if !has_alternative_names {
        warnings.push("has no subject alternative name: browsers refuse it".to_string());
    } else if names.is_empty() {
        warnings.push("names no host, only addresses or other things".to_string());
    }
    if let Ok(Some(usage)) = certificate.extended_key_usage()
        && !usage.value.server_auth
        && !usage.value.any
    {
        warnings.push("is not meant for servers (extended key usage): clients refuse it".to_string());
    }
}

/// The host names of a certificate (its common name if it has no others), and its network addresses.
fn names_of(certificate: &X509Certificate<'_>) -> (Vec<String>, Vec<IpAddr>) {
    let (mut names, mut addresses) = (Vec::new(), Vec::new());
    if let Ok(Some(alternatives)) = certificate.subject_alternative_name() {
        for name in &alternatives.value.general_names {
            match name {
                GeneralName::DNSName(name) => names.push(name.to_ascii_lowercase()),
                GeneralName::IPAddress(bytes) => addresses.extend(address(bytes)),
                _ => {}
            }
        }
    } else {
        let common_names = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
        names.extend(common_names.filter(|name| is_host_name(name)).map(str::to_ascii_lowercase));
    }
    (names, addresses)
}

/// A network address as certificates hold it: its 4 or 16 bytes.
pub fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::from(four));
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}

/// True for a host name, or a wildcard.
pub fn is_host_name(name: &str) -> bool {
    rustls::pki_types::DnsName::try_from(name.strip_prefix("*.").unwrap_or(name)).is_ok()
}

/// The address that a host is, for IPv6 with brackets or without; `None` if it is a name.
pub fn host_address(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    bare.parse().ok()
}

fn day(seconds: i64) -> String {
    OffsetDateTime::from_unix_timestamp(seconds)
        .map_or_else(|_| "?".to_string(), |time| time.date().to_string())
}

/// A warning for a key file that every user of the machine can read.
pub fn key_warning(key: &Path) -> Option<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(key).ok()?.permissions().mode();
    (mode & 0o004 != 0).then(|| {
        format!(
            "{}: every user of this machine may read this key (mode {:03o}): 'chmod o-rwx' it",
            key.display(),
            mode & 0o777
        )
    })
}
