//! TLS to origins: the trusted authorities, and the client certificate of this server.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quinn::crypto::rustls::QuicClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use touchstone_tls::any_certificate::AnyCertificate;

use super::version::Version;

/// The settings of TLS to origins.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct TlsSettings {
    /// A PEM file with the trusted authorities; `None`: those of the system.
    pub authorities: Option<PathBuf>,
    /// The name that certificates must contain, also sent as SNI; `None`: the origin's host.
    pub server_name: Option<String>,
    /// This server's own certificate with its chain, in PEM.
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate.
    pub key: Option<PathBuf>,
    /// Certificates of origins are not verified.
    pub is_insecure: bool,
}

/// The TLS configuration for the origins of a group.
pub struct OriginTls {
    settings: TlsSettings,
    /// The contents of the files. They are compared, so that a changed file makes another configuration.
    files: Vec<Vec<u8>>,
    /// The configuration that offers the versions of HTTP of the group.
    default: Arc<ClientConfig>,
    /// The configuration that offers HTTP/1.1 only, for requests to switch protocols.
    http1: Arc<ClientConfig>,
    /// The configuration for QUIC, with HTTP/3.
    quic: Option<Arc<QuicClientConfig>>,
    server_name: Option<ServerName<'static>>,
}

impl fmt::Debug for OriginTls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(formatter)
    }
}

impl PartialEq for OriginTls {
    fn eq(&self, other: &OriginTls) -> bool {
        self.settings == other.settings
            && self.files == other.files
            && self.default.alpn_protocols == other.default.alpn_protocols
    }
}

impl OriginTls {
    /// Reads the files; the error says what is wrong, and names the key.
    pub fn open(settings: TlsSettings, version: Version) -> Result<OriginTls, String> {
        let protocols: &[&[u8]] = match version {
            Version::Http11 => &[b"http/1.1"],
            Version::Http2 => &[b"h2"],
            Version::Http3 => &[b"h3"],
            Version::Negotiated => &[b"h2", b"http/1.1"],
        };
        let protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let mut tls = OriginTls::with_protocols(settings, protocols, vec![b"http/1.1".to_vec()])?;
        if version == Version::Http3 {
            let quic = QuicClientConfig::try_from(tls.default.clone());
            tls.quic = Some(Arc::new(quic.map_err(|error| format!("'tls': {error}"))?));
        }
        Ok(tls)
    }

    /// Reads the files for the origins of a stream; `protocols` are offered by ALPN.
    pub fn of_stream(settings: TlsSettings, protocols: &[String]) -> Result<OriginTls, String> {
        let protocols: Vec<Vec<u8>> =
            protocols.iter().map(|protocol| protocol.clone().into_bytes()).collect();
        OriginTls::with_protocols(settings, protocols.clone(), protocols)
    }

    fn with_protocols(
        settings: TlsSettings,
        protocols: Vec<Vec<u8>>,
        http1_protocols: Vec<Vec<u8>>,
    ) -> Result<OriginTls, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("'tls': {error}"))?;
        let builder = if settings.is_insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        } else {
            builder.with_root_certificates(roots(settings.authorities.as_deref())?)
        };
        let mut config = match (&settings.certificate, &settings.key) {
            (Some(certificate), Some(key)) => {
                let (chain, key) = (read_certificates(certificate, "tls.certificate")?, read_key(key)?);
                let refused = |error| format!("'tls.certificate': does not match its key: {error}");
                builder.with_client_auth_cert(chain, key).map_err(refused)?
            }
            (None, None) => builder.with_no_client_auth(),
            _ => return Err("'tls.certificate' and 'tls.key' must be set together".to_string()),
        };
        let server_name = settings.server_name.clone().map(parse_name).transpose();
        let server_name = server_name.map_err(|problem| format!("'tls.server_name': {problem}"))?;
        config.alpn_protocols = http1_protocols;
        let http1 = Arc::new(config.clone());
        config.alpn_protocols = protocols;
        let paths = [&settings.authorities, &settings.certificate, &settings.key];
        let files = paths.into_iter().flatten().map(|path| fs::read(path).unwrap_or_default()).collect();
        Ok(OriginTls { files, settings, default: Arc::new(config), http1, quic: None, server_name })
    }

    /// The configuration for a new connection.
    pub fn config(&self, only_http1: bool) -> Arc<ClientConfig> {
        if only_http1 { self.http1.clone() } else { self.default.clone() }
    }

    /// The configuration for a new QUIC connection; `None` if the version is not HTTP/3.
    pub fn quic(&self) -> Option<&Arc<QuicClientConfig>> {
        self.quic.as_ref()
    }

    /// The name that an origin's certificate must contain.
    pub fn server_name(&self, host: &str) -> Result<ServerName<'static>, String> {
        match &self.server_name {
            Some(name) => Ok(name.clone()),
            None => parse_name(host.to_string()),
        }
    }
}

fn parse_name(name: String) -> Result<ServerName<'static>, String> {
    ServerName::try_from(name.clone()).map_err(|_| format!("{name:?} is not a host name"))
}

fn roots(authorities: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Some(path) => {
            for certificate in read_certificates(path, "tls.authorities")? {
                let refused = |error| format!("'tls.authorities': {}: {error}", path.display());
                roots.add(certificate).map_err(refused)?;
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                return Err("'tls.authorities': this system has no certificate authorities; install \
                            ca-certificates, or name a file"
                    .to_string());
            }
        }
    }
    Ok(roots)
}

fn read_certificates(path: &Path, key: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |error: &dyn fmt::Display| format!("'{key}': {}: {error}", path.display());
    let pem = fs::read(path).map_err(|error| wrong(&error))?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match certificates {
        Ok(certificates) if certificates.is_empty() => Err(wrong(&"holds no certificate")),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(wrong(&error)),
    }
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let wrong = |error: &dyn fmt::Display| format!("'tls.key': {}: {error}", path.display());
    let pem = fs::read(path).map_err(|error| wrong(&error))?;
    PrivateKeyDer::from_pem_slice(&pem).map_err(|error| wrong(&error))
}
