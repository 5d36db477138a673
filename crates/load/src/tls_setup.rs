//! The state that all TLS connections of an engine thread to one target share: configurations, and sessions
//! to resume.
//!
//! There are two configurations. Both store the sessions that the server issues, and only one of them resumes
//! sessions. The share of resumed handshakes is controlled by the choice between them; the actual share is
//! measured.

use crate::named_certificate::named_certificates;
use crate::target::{ClientCertificate, TlsTarget, TlsVersions, Trust};
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, NamedGroup, RootCertStore, SupportedProtocolVersion};
use std::sync::{Arc, Mutex};
use touchstone_tls::any_certificate::AnyCertificate;

/// The most stored sessions; if there are more, the oldest half is removed. A TLS 1.3 session is used for one
/// connection only, so that simultaneous connections need one session each.
const MAXIMUM_SESSIONS: usize = 4096;

/// The TLS configuration of one target, created once before the run.
#[derive(Debug)]
pub(crate) struct TlsBase {
    name: ServerName<'static>,
    config: ClientConfig,
    share: f64,
}

impl TlsBase {
    /// Reads the certificates and creates the configuration; `protocol` is offered to the server (ALPN).
    pub(crate) fn new(target: &TlsTarget, protocol: &[u8]) -> Result<TlsBase, String> {
        let name = server_name(&target.server_name)?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let versions: &[&SupportedProtocolVersion] = match target.versions {
            TlsVersions::Both => &[&rustls::version::TLS13, &rustls::version::TLS12],
            TlsVersions::Tls12 => &[&rustls::version::TLS12],
            TlsVersions::Tls13 => &[&rustls::version::TLS13],
        };
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .map_err(|error| format!("TLS cannot be configured: {error}"))?;
        let verifier: Arc<dyn ServerCertVerifier> = match roots(&target.trust)? {
            Some(roots) => named_certificates(&target.trust, roots, provider)?,
            None => Arc::new(AnyCertificate(provider)),
        };
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let mut config = match &target.client_certificate {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let (chain, key) = parse_client_certificate(own)?;
                let config = builder.with_client_auth_cert(chain, key);
                config.map_err(|error| format!("the client certificate cannot be used: {error}"))?
            }
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        Ok(TlsBase { name, config, share: target.resumption_share })
    }
}

/// The TLS state of one target in one engine thread.
pub(crate) struct TlsSetup {
    name: ServerName<'static>,
    resuming: Arc<ClientConfig>,
    full: Arc<ClientConfig>,
    sessions: Arc<SharedSessions>,
    share: f64,
    handshakes: u64,
    resumptions: u64,
}

impl TlsSetup {
    pub(crate) fn new(base: &TlsBase) -> TlsSetup {
        let sessions = Arc::new(SharedSessions::default());
        let with_store = |resumes| {
            let mut config = base.config.clone();
            config.resumption =
                Resumption::store(Arc::new(SessionStore { sessions: sessions.clone(), resumes }));
            Arc::new(config)
        };
        TlsSetup {
            name: base.name.clone(),
            resuming: with_store(true),
            full: with_store(false),
            share: base.share,
            handshakes: 0,
            resumptions: 0,
            sessions,
        }
    }

    /// The configuration and the server name of the next connection. It resumes a session if one is stored
    /// and the share of resumptions is below the planned share.
    pub(crate) fn next_connection(&mut self) -> (Arc<ClientConfig>, ServerName<'static>) {
        self.handshakes += 1;
        let resumes =
            (self.resumptions as f64) < self.share * self.handshakes as f64 && self.sessions.has_session();
        self.resumptions += u64::from(resumes);
        let config = if resumes { &self.resuming } else { &self.full };
        (config.clone(), self.name.clone())
    }
}

/// The certificate chain and the private key of the client.
fn parse_client_certificate(
    own: &ClientCertificate,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
    let chain = CertificateDer::pem_slice_iter(&own.chain).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| format!("the client certificate cannot be read: {error}"))?;
    if chain.is_empty() {
        return Err("the file of the client certificate contains no certificate (PEM)".to_string());
    }
    let key = PrivateKeyDer::from_pem_slice(&own.key);
    Ok((chain, key.map_err(|error| format!("the key of the client certificate cannot be read: {error}"))?))
}

/// Parses a name or an address of a certificate.
fn server_name(name: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(name.to_string())
        .map_err(|_| format!("{name:?} is not a valid name or address of a certificate"))
}

fn roots(trust: &Trust) -> Result<Option<RootCertStore>, String> {
    let mut roots = RootCertStore::empty();
    match trust {
        Trust::Anything => return Ok(None),
        Trust::System => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                return Err(
                    "this system has no trusted certificate authorities: install ca-certificates, set \
                            your own authority, or trust any certificate"
                        .to_string(),
                );
            }
        }
        Trust::Authorities(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate
                    .map_err(|error| format!("the certificate authorities cannot be read: {error}"))?;
                roots
                    .add(certificate)
                    .map_err(|error| format!("a certificate authority cannot be used: {error}"))?;
            }
            if roots.is_empty() {
                return Err("the file of certificate authorities contains no certificate (PEM)".to_string());
            }
        }
    }
    Ok(Some(roots))
}

/// The sessions that the server has issued.
#[derive(Debug, Default)]
struct SharedSessions {
    stored: Mutex<StoredSessions>,
}

#[derive(Debug, Default)]
struct StoredSessions {
    tls13: Vec<Tls13ClientSessionValue>,
    tls12: Option<Tls12ClientSessionValue>,
    group: Option<NamedGroup>,
}

impl SharedSessions {
    fn lock(&self) -> std::sync::MutexGuard<'_, StoredSessions> {
        self.stored.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn has_session(&self) -> bool {
        let stored = self.lock();
        !stored.tls13.is_empty() || stored.tls12.is_some()
    }
}

/// The session store of rustls: sessions are always stored, and returned only for connections that resume.
#[derive(Debug)]
struct SessionStore {
    sessions: Arc<SharedSessions>,
    resumes: bool,
}

impl ClientSessionStore for SessionStore {
    fn set_kx_hint(&self, _name: ServerName<'static>, group: NamedGroup) {
        self.sessions.lock().group = Some(group);
    }

    fn kx_hint(&self, _name: &ServerName<'_>) -> Option<NamedGroup> {
        self.sessions.lock().group
    }

    fn set_tls12_session(&self, _name: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.sessions.lock().tls12 = Some(value);
    }

    fn tls12_session(&self, _name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        if self.resumes { self.sessions.lock().tls12.clone() } else { None }
    }

    fn remove_tls12_session(&self, _name: &ServerName<'static>) {
        self.sessions.lock().tls12 = None;
    }

    fn insert_tls13_ticket(&self, _name: ServerName<'static>, value: Tls13ClientSessionValue) {
        let mut stored = self.sessions.lock();
        if stored.tls13.len() >= MAXIMUM_SESSIONS {
            stored.tls13.drain(..MAXIMUM_SESSIONS / 2);
        }
        stored.tls13.push(value);
    }

    fn take_tls13_ticket(&self, _name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        if self.resumes { self.sessions.lock().tls13.pop() } else { None }
    }
}
