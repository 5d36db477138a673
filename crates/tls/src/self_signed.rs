//! The development certificate: a self-signed certificate for `localhost` and other names, for trying HTTPS
//! at once.
//!
//! No browser trusts it by default. It is for the machine that it was made on, never for a site that others
//! visit.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose};
use rustls::crypto::CryptoProvider;
use time::{Duration, OffsetDateTime};

use super::certificate::{Age, LoadedCertificate, UnusableCertificate, is_host_name};
use crate::private_file;

/// The certificate's file in the directory where it is kept.
const CERTIFICATE_FILE: &str = "development-certificate.pem";

/// The key's file.
const KEY_FILE: &str = "development-key.pem";

/// The names in every development certificate.
const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The longest validity that all browsers accept.
const LIFE: Duration = Duration::days(397);

/// Its validity begins in the past, for devices whose clock is slow.
const LEAD: Duration = Duration::days(1);

/// A development certificate that is ready to be served.
#[derive(Debug)]
pub struct DevelopmentCertificate {
    /// The certificate and its key. If it is stored, its origin is the file: a browser or `curl --cacert` can
    /// be configured to trust that file.
    pub loaded: LoadedCertificate,
    /// False if it was loaded from the directory.
    pub is_new: bool,
}

/// Why there is no development certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoDevelopmentCertificate(pub String);

impl fmt::Display for NoDevelopmentCertificate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the development certificate cannot be made: {}", self.0)
    }
}

/// A certificate for `localhost`, `127.0.0.1`, `::1` and `names` (host names, wildcards or addresses).
///
/// With a directory, the certificate is stored there, with a key that only its owner can read, and loaded the
/// next time if it is still valid at `now` for all names.
pub fn development_certificate(
    names: &[String],
    directory: Option<&Path>,
    provider: &CryptoProvider,
    now: OffsetDateTime,
) -> Result<DevelopmentCertificate, NoDevelopmentCertificate> {
    let names = all_names(names)?;
    if let Some(directory) = directory
        && let Some(loaded) = load_kept(directory, &names, provider, now)
    {
        return Ok(DevelopmentCertificate { loaded, is_new: false });
    }
    let fresh = generate(&names, now).map_err(|error| NoDevelopmentCertificate(error.to_string()))?;
    if let Some(directory) = directory {
        keep(directory, &fresh).map_err(|error| {
            NoDevelopmentCertificate(format!("it cannot be kept in {}: {error}", directory.display()))
        })?;
    }
    let origin = directory.map_or("the development certificate".to_string(), |directory| {
        directory.join(CERTIFICATE_FILE).display().to_string()
    });
    let loaded =
        fresh.load(origin, provider).map_err(|error| NoDevelopmentCertificate(format!("{error:?}")))?;
    Ok(DevelopmentCertificate { loaded, is_new: true })
}

fn all_names(names: &[String]) -> Result<Vec<String>, NoDevelopmentCertificate> {
    let mut all: Vec<String> = LOCAL_NAMES.iter().map(ToString::to_string).collect();
    for name in names {
        let name = name.to_ascii_lowercase();
        if name.parse::<IpAddr>().is_err() && !is_host_name(&name) {
            return Err(NoDevelopmentCertificate(format!("'{name}' is neither a host name nor an address")));
        }
        if !all.contains(&name) {
            all.push(name);
        }
    }
    Ok(all)
}

struct Fresh {
    certificate_pem: String,
    certificate: rustls::pki_types::CertificateDer<'static>,
    key: KeyPair,
}

impl Fresh {
    fn load(
        &self,
        origin: String,
        provider: &CryptoProvider,
    ) -> Result<LoadedCertificate, UnusableCertificate> {
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(self.key.serialize_der());
        LoadedCertificate::from_der(origin, vec![self.certificate.clone()], key.into(), provider)
    }
}

fn generate(names: &[String], now: OffsetDateTime) -> Result<Fresh, rcgen::Error> {
    let mut params = CertificateParams::new(names.to_vec())?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Touchstone development certificate");
    params.not_before = now - LEAD;
    params.not_after = now - LEAD + LIFE;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
    let certificate = params.self_signed(&key)?;
    Ok(Fresh { certificate_pem: certificate.pem(), certificate: certificate.der().clone(), key })
}

/// The stored certificate, if it can still be used for `names`.
fn load_kept(
    directory: &Path,
    names: &[String],
    provider: &CryptoProvider,
    now: OffsetDateTime,
) -> Option<LoadedCertificate> {
    let (certificate, key) = (directory.join(CERTIFICATE_FILE), directory.join(KEY_FILE));
    let loaded = LoadedCertificate::from_files(&certificate, &key, provider).ok()?;
    let covered = names.iter().all(|name| match name.parse::<IpAddr>() {
        Ok(address) => loaded.addresses.contains(&address),
        Err(_) => loaded.names.contains(name),
    });
    (covered && loaded.age(now.unix_timestamp()) == Age::Valid).then_some(loaded)
}

fn keep(directory: &Path, fresh: &Fresh) -> io::Result<()> {
    private_file::make_directory(directory)?;
    private_file::write(&directory.join(KEY_FILE), fresh.key.serialize_pem().as_bytes(), 0o600)?;
    private_file::write(&directory.join(CERTIFICATE_FILE), fresh.certificate_pem.as_bytes(), 0o644)
}
