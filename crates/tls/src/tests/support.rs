//! An authority, certificates, endpoints, and a client in memory.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use rustls::client::Resumption as ClientResumption;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};

use crate::endpoint::UnusableTls;
use crate::session::Received;
use crate::{
    CertificateSource, CiphertextBuffer, EndpointSettings, Notice, Policy, SiteSettings, TlsEndpoint,
    TlsError, TlsSession, TlsShared, UnknownNames,
};

/// An authority that signs certificates of servers and clients.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its key, in PEM form.
pub struct Pair {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Authority { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap() }
    }

    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    pub fn der(&self) -> CertificateDer<'static> {
        self.issuer.der().clone()
    }

    pub fn issuer(&self) -> &rcgen::Issuer<'static, KeyPair> {
        &self.issuer
    }

    pub fn issue(&self, names: &[&str]) -> Pair {
        self.issue_with(names, |_| {})
    }

    /// Like `issue`, with changes.
    pub fn issue_with(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Pair {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names.clone()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        if let Some(name) = names.first() {
            params.distinguished_name.push(DnType::CommonName, name.as_str());
        }
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Pair { certificate: certificate.pem() + &self.pem(), key: key.serialize_pem() }
    }
}

/// A directory with certificates.
pub struct Files {
    pub directory: tempfile::TempDir,
}

impl Files {
    pub fn new() -> Files {
        Files { directory: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes the file as a new one, so that it always differs from the one before.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let new = self.path("being-written");
        std::fs::write(&new, text).unwrap();
        set_mode(&new, 0o600);
        std::fs::rename(&new, self.path(name)).unwrap();
        self.path(name)
    }

    pub fn write_pair(&self, name: &str, pair: &Pair) -> CertificateSource {
        let chain = self.write(&format!("{name}.pem"), &pair.certificate);
        let key = self.write(&format!("{name}.key"), &pair.key);
        CertificateSource::Files { chain, key, may_be_absent: false }
    }
}

pub fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

pub fn site(hosts: &[&str], certificates: Vec<CertificateSource>, policy: Policy) -> SiteSettings {
    SiteSettings {
        on_demand: false,
        label: hosts.first().unwrap_or(&"default").to_string(),
        hosts: hosts.iter().map(ToString::to_string).collect(),
        certificates,
        policy,
        http3: false,
    }
}

pub fn settings(sites: Vec<SiteSettings>) -> EndpointSettings {
    EndpointSettings { sites, unknown_names: UnknownNames::DefaultCertificate }
}

pub fn open(sites: Vec<SiteSettings>) -> (TlsEndpoint, Vec<Notice>) {
    TlsEndpoint::open(settings(sites), &TlsShared::new()).unwrap()
}

pub fn open_error(sites: Vec<SiteSettings>) -> String {
    let opened: Result<_, UnusableTls> = TlsEndpoint::open(settings(sites), &TlsShared::new());
    match opened {
        Ok(_) => panic!("opened"),
        Err(unusable) => unusable.to_string(),
    }
}

/// One authority, one site `localhost` under `policy`.
pub struct Scene {
    pub authority: Authority,
    pub files: Files,
    pub endpoint: TlsEndpoint,
}

impl Scene {
    pub fn new() -> Scene {
        Scene::with(Policy::default())
    }

    pub fn with(policy: Policy) -> Scene {
        let (authority, files) = (Authority::new("Test authority"), Files::new());
        let source = files.write_pair("localhost", &authority.issue(&["localhost"]));
        let (endpoint, notices) = open(vec![site(&["localhost"], vec![source], policy)]);
        assert_eq!(notices, []);
        Scene { authority, files, endpoint }
    }

    pub fn client(&self) -> ClientConfig {
        client(&self.authority)
    }
}

/// A client that trusts `authority` and supports 1.2 and 1.3.
pub fn client(authority: &Authority) -> ClientConfig {
    client_with(authority, &[&TLS13, &TLS12], None)
}

pub fn client_with(
    authority: &Authority,
    versions: &[&'static SupportedProtocolVersion],
    identity: Option<&Pair>,
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(authority.der()).unwrap();
    let builder =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
    match identity {
        None => builder.with_no_client_auth(),
        Some(pair) => {
            let chain =
                CertificateDer::pem_slice_iter(pair.certificate.as_bytes()).map(Result::unwrap).collect();
            let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    }
}

/// A client with other cryptography.
pub fn client_of(
    provider: rustls::crypto::CryptoProvider,
    authority: &Authority,
    versions: &[&'static SupportedProtocolVersion],
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(authority.der()).unwrap();
    ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

pub fn without_resumption(mut config: ClientConfig) -> ClientConfig {
    config.resumption = ClientResumption::disabled();
    config
}

/// A session and its client, and the bytes exchanged between them.
pub struct Pipe {
    pub session: TlsSession,
    pub client: ClientConnection,
    /// Plaintext that the session received.
    pub plaintext: Vec<u8>,
    /// Plaintext that the client received.
    pub client_plaintext: Vec<u8>,
    pub out: CiphertextBuffer,
    /// How the session ended.
    pub ended: Option<TlsError>,
    /// The last result of the session.
    pub received: Received,
    /// How often it reported that the handshake was done.
    pub handshakes_done: usize,
    /// Why the client ended, if it did.
    pub client_error: Option<rustls::Error>,
    /// How many bytes are passed to the session at once.
    pub piece_bytes: usize,
}

impl Pipe {
    pub fn new(endpoint: &TlsEndpoint, config: &Arc<ClientConfig>, name: &str) -> Pipe {
        let name = ServerName::try_from(name.to_string()).unwrap();
        Pipe {
            session: endpoint.session(),
            client: ClientConnection::new(config.clone(), name).unwrap(),
            plaintext: Vec::new(),
            client_plaintext: Vec::new(),
            out: CiphertextBuffer::default(),
            ended: None,
            received: Received::default(),
            handshakes_done: 0,
            client_error: None,
            piece_bytes: usize::MAX,
        }
    }

    /// A pipe whose handshake is done.
    pub fn connect(endpoint: &TlsEndpoint, config: &Arc<ClientConfig>, name: &str) -> Pipe {
        let mut pipe = Pipe::new(endpoint, config, name);
        pipe.exchange();
        assert_eq!((&pipe.ended, &pipe.client_error), (&None, &None));
        assert!(pipe.session.is_open() && !pipe.client.is_handshaking());
        assert_eq!(pipe.handshakes_done, 1);
        pipe
    }

    /// Exchanges bytes until there are no more.
    pub fn exchange(&mut self) {
        loop {
            let mut to_session = Vec::new();
            while self.client.wants_write() {
                self.client.write_tls(&mut to_session).unwrap();
            }
            self.give(&mut to_session);
            let to_client = self.out.as_slice().to_vec();
            self.out.clear();
            self.give_client(&to_client);
            if to_session.is_empty() && to_client.is_empty() {
                return;
            }
        }
    }

    /// Passes bytes to the session.
    pub fn give(&mut self, bytes: &mut [u8]) {
        if self.ended.is_some() {
            return;
        }
        let pieces = self.piece_bytes.min(bytes.len().max(1));
        for piece in bytes.chunks_mut(pieces) {
            match self.session.receive(piece, &mut self.plaintext, &mut self.out) {
                Ok(received) => {
                    self.handshakes_done += usize::from(received.handshake_done);
                    self.received = received;
                }
                Err(error) => return self.ended = Some(error),
            }
        }
    }

    pub fn give_client(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.client_error.is_none() {
            if self.client.read_tls(&mut bytes).unwrap() == 0 {
                return;
            }
            if let Err(error) = self.client.process_new_packets() {
                self.client_error = Some(error);
            }
            // An end without close_notify is an error for the reader; this test only needs the end.
            let _ = self.client.reader().read_to_end(&mut self.client_plaintext);
        }
    }

    pub fn client_sends(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let count = self.client.writer().write(bytes).unwrap();
            bytes = &bytes[count..];
            self.exchange();
        }
        self.exchange();
    }

    /// The bytes that the client has received since the last call.
    pub fn client_received(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.client_plaintext)
    }

    pub fn server_sends(&mut self, parts: [&[u8]; 2]) {
        self.session.send(parts, &mut self.out).unwrap();
    }

    pub fn certificate_names(&self) -> Vec<String> {
        let certificate = &self.client.peer_certificates().unwrap()[0];
        let (_, parsed) = x509_parser::parse_x509_certificate(certificate).unwrap();
        let alternatives = parsed.subject_alternative_name().unwrap().unwrap();
        alternatives.value.general_names.iter().map(|name| name.to_string()).collect()
    }
}

/// The first bytes of a client.
pub fn hello_bytes(name: &str, protocols: &[&[u8]]) -> Vec<u8> {
    thread_local! { static AUTHORITY: Authority = Authority::new("Nobody"); }
    let mut config = AUTHORITY.with(client);
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let name = ServerName::try_from(name.to_string()).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    bytes
}
