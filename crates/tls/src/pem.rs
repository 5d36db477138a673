//! Reads PEM files (RFC 7468). If a file contains something else than expected, the error names what it
//! contains.

use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::{PemObject, SectionKind};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

/// The largest file that is read. The bundle of all public authorities has about 200 KiB.
const MOST_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Revocation lists may be large.
const MOST_REVOCATION_LIST_BYTES: u64 = 64 * 1024 * 1024;

/// Why a PEM file cannot be used. Displayed as `FILE: the fault and its remedy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PemProblem {
    /// The file.
    pub file: PathBuf,
    /// The fault.
    pub message: String,
}

impl fmt::Display for PemProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.file.display(), self.message)
    }
}

/// All certificates of a file, in order; at least one.
pub fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, PemProblem> {
    let text = read_file(file, MOST_FILE_BYTES)?;
    let certificates = sections::<CertificateDer<'static>>(file, &text)?;
    if certificates.is_empty() {
        return Err(problem(file, format!("holds no certificate: {}", contents_of(&text))));
    }
    Ok(certificates)
}

/// The one private key of a file.
pub fn read_key(file: &Path) -> Result<PrivateKeyDer<'static>, PemProblem> {
    let text = read_file(file, MOST_FILE_BYTES)?;
    let mut keys = sections::<PrivateKeyDer<'static>>(file, &text)?;
    match (keys.pop(), keys.len()) {
        (Some(key), 0) => Ok(key),
        (Some(_), _) => {
            Err(problem(file, "holds more than one private key: leave the one of the certificate"))
        }
        (None, _) => Err(problem(file, format!("holds no private key: {}", contents_of(&text)))),
    }
}

/// All revocation lists of a file; at least one.
pub fn read_revocation_lists(file: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, PemProblem> {
    let text = read_file(file, MOST_REVOCATION_LIST_BYTES)?;
    let lists = sections::<CertificateRevocationListDer<'static>>(file, &text)?;
    if lists.is_empty() {
        return Err(problem(file, format!("holds no revocation list: {}", contents_of(&text))));
    }
    Ok(lists)
}

fn read_file(file: &Path, most_bytes: u64) -> Result<Vec<u8>, PemProblem> {
    let read = || -> io::Result<Vec<u8>> {
        let opened = std::fs::File::open(file)?;
        if opened.metadata()?.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let mut bytes = Vec::new();
        opened.take(most_bytes + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|error| {
        let message = match error.kind() {
            io::ErrorKind::NotFound => "there is no such file".to_string(),
            io::ErrorKind::PermissionDenied => {
                "may not be read by this process: check its owner and mode".to_string()
            }
            io::ErrorKind::IsADirectory => "is a directory, not a PEM file".to_string(),
            _ => format!("cannot be read: {error}"),
        };
        problem(file, message)
    })?;
    if bytes.len() as u64 > most_bytes {
        return Err(problem(file, format!("is larger than {} MiB", most_bytes / (1024 * 1024))));
    }
    Ok(bytes)
}

fn sections<T: PemObject>(file: &Path, text: &[u8]) -> Result<Vec<T>, PemProblem> {
    T::pem_slice_iter(text).collect::<Result<Vec<T>, _>>().map_err(|error| {
        use rustls::pki_types::pem::Error;
        let message = match error {
            Error::MissingSectionEnd { end_marker } => {
                format!(
                    "is cut off: the line '-----END {}-----' is missing",
                    String::from_utf8_lossy(&end_marker)
                )
            }
            Error::IllegalSectionStart { line } => {
                format!("has a damaged line: '{}'", String::from_utf8_lossy(&line).trim_end())
            }
            Error::Base64Decode(_) => "is damaged: the text between BEGIN and END is not base64".to_string(),
            other => other.to_string(),
        };
        problem(file, message)
    })
}

/// Names what a file contains instead of what was expected.
fn contents_of(text: &[u8]) -> String {
    let has = |mark: &str| memchr::memmem::find(text, mark.as_bytes()).is_some();
    if text.is_empty() {
        return "it is empty".to_string();
    }
    if has("-----BEGIN ENCRYPTED PRIVATE KEY-----") || has("Proc-Type: 4,ENCRYPTED") {
        return "its key is locked with a passphrase; \
                write it unlocked with 'openssl pkey -in FILE -out NEW'"
            .to_string();
    }
    if has("-----BEGIN CERTIFICATE REQUEST-----") || has("-----BEGIN NEW CERTIFICATE REQUEST-----") {
        return "it holds a certificate request, which is what an authority turns into a certificate"
            .to_string();
    }
    if has("-----BEGIN TRUSTED CERTIFICATE-----") {
        return "it has OpenSSL's own format; convert it with 'openssl x509 -in FILE -out NEW'".to_string();
    }
    let kinds: Vec<&str> = <(SectionKind, Vec<u8>)>::pem_slice_iter(text)
        .filter_map(|section| match section.ok()?.0 {
            SectionKind::Certificate => Some("a certificate"),
            SectionKind::PublicKey => Some("a public key"),
            SectionKind::RsaPrivateKey | SectionKind::PrivateKey | SectionKind::EcPrivateKey => {
                Some("a private key")
            }
            SectionKind::Crl => Some("a revocation list"),
            _ => None,
        })
        .collect();
    if let Some(kind) = kinds.first() {
        return format!("it holds {kind}");
    }
    if text.first() == Some(&0x30) {
        return "it is in DER form; \
                write it as PEM with 'openssl x509 -inform DER' or 'openssl pkey -inform DER'"
            .to_string();
    }
    "it is not in PEM form ('-----BEGIN ...')".to_string()
}

fn problem(file: &Path, message: impl Into<String>) -> PemProblem {
    PemProblem { file: file.to_path_buf(), message: message.into() }
}
