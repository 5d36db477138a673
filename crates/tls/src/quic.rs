//! TLS inside QUIC (RFC 9001): the same certificates, names and rules as over TCP, in the form that the QUIC
//! library needs.
//!
//! As over TCP, the rules depend on the name that the client requests, so rustls gets its configuration once
//! the ClientHello has arrived ([`QuicSession`]). Only sites with HTTP/3 take part.
//!
//! A session is resumed at most once, from the server's own store, not from a ticket with the whole state.
//! Early data may only be accepted this way, because it cannot be replayed to this process (RFC 8446 section
//! 8.1).

use std::any::Any;
use std::sync::Arc;

use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::crypto::{
    self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::pki_types::CertificateDer;
use rustls::quic::{KeyChange, Secrets, ServerConnection, Version};
use rustls::{AlertDescription, HandshakeKind};

use super::active_tls::ActiveTls;
use super::client_certificate::ClientCertificate;
use super::client_hello::{self, Hello, Peek};
use super::endpoint::TlsEndpoint;
use super::quic_rules::QuicConfig;
use super::suite_name::suite_name;

/// The most bytes kept of an incomplete ClientHello. The QUIC library has its own limit, which is lower.
const MOST_HELLO_BYTES: usize = 64 * 1024;

/// Makes the sessions for the QUIC library; one for each address, for the life of the endpoint.
pub struct QuicCrypto {
    endpoint: Arc<TlsEndpoint>,
    /// Used for the keys of the first packets, which do not depend on a certificate.
    initial: QuicServerConfig,
}

impl QuicCrypto {
    /// For the sites of this endpoint; `None`: none of them uses HTTP/3.
    pub fn new(endpoint: Arc<TlsEndpoint>) -> Option<QuicCrypto> {
        let active = endpoint.active();
        let config = active.quic.configs.first()?.config.clone();
        let initial = QuicServerConfig::try_from(config).ok()?;
        Some(QuicCrypto { endpoint, initial })
    }
}

impl crypto::ServerConfig for QuicCrypto {
    fn initial_keys(&self, version: u32, id: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.initial.initial_keys(version, id)
    }

    fn retry_tag(&self, version: u32, original_id: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.initial.retry_tag(version, original_id, packet)
    }

    fn start_session(
        self: Arc<Self>,
        _version: u32,
        parameters: &TransportParameters,
    ) -> Box<dyn crypto::Session> {
        let mut written = Vec::new();
        parameters.write(&mut written);
        let active = self.endpoint.active();
        Box::new(QuicSession {
            crypto: self,
            active,
            parameters: written,
            hello: Vec::new(),
            connection: None,
            next_secrets: None,
            facts_are_reported: false,
            server_name: None,
            policy: 0,
        })
    }
}

/// TLS of one QUIC connection.
struct QuicSession {
    crypto: Arc<QuicCrypto>,
    active: Arc<ActiveTls>,
    /// The server's parameters, encoded.
    parameters: Vec<u8>,
    /// The part of the ClientHello that was received.
    hello: Vec<u8>,
    /// Made once the client's request is known.
    connection: Option<Box<ServerConnection>>,
    next_secrets: Option<Secrets>,
    facts_are_reported: bool,
    server_name: Option<Box<str>>,
    /// The index of the policy.
    policy: usize,
}

/// The facts about a session after the ClientHello. The library calls it "handshake data".
#[derive(Clone)]
pub struct QuicFacts {
    active: Arc<ActiveTls>,
    policy: usize,
    /// The host that the client requested, in lower case.
    pub server_name: Option<Box<str>>,
    /// The client is requested to send a certificate. It gets no answer before the handshake is complete.
    pub wants_certificate: bool,
    /// An earlier session was resumed.
    pub is_resumed: bool,
    /// The name of the cipher suite, such as `TLS_AES_128_GCM_SHA256`.
    pub cipher_suite: &'static str,
}

impl QuicFacts {
    /// Whether requests for `host` (in lower case, without port) may use this session; others are answered
    /// with 421 (RFC 9110 section 15.5.20).
    pub fn may_serve(&self, host: &str) -> bool {
        self.server_name.as_deref() == Some(host)
            || self.active.quic.policy_of(Some(host)) == Some(self.policy)
    }
}

/// The client's certificate, which the library calls the peer's identity.
pub fn client_certificate(identity: Option<Box<dyn Any>>) -> Option<ClientCertificate> {
    let chain = identity?.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    ClientCertificate::read(&chain)
}

impl QuicSession {
    /// Collects the ClientHello, and begins the session once it is complete.
    fn begin(&mut self, received: &[u8]) -> Result<bool, TransportError> {
        self.hello.extend_from_slice(received);
        let hello = match client_hello::peek_message(&self.hello) {
            Peek::More if self.hello.len() <= MOST_HELLO_BYTES => return Ok(false),
            Peek::Whole(hello) => hello,
            // rustls refuses it with the proper alert.
            Peek::More | Peek::Unreadable => Hello::default(),
        };
        let quic = &self.active.quic;
        let Some(policy) = quic.policy_of(hello.server_name.as_deref()) else {
            let reason = "HTTP/3 is not available for that name";
            return Err(alert(AlertDescription::UnrecognisedName, reason));
        };
        let QuicConfig { config, chacha_config } = &quic.configs[policy];
        let config = if hello.prefers_chacha { chacha_config } else { config };
        let parameters = std::mem::take(&mut self.parameters);
        let connection = ServerConnection::new(config.clone(), Version::V1, parameters)
            .map_err(|error| alert(AlertDescription::InternalError, &error.to_string()))?;
        self.connection = Some(Box::new(connection));
        self.policy = policy;
        self.server_name = hello.server_name;
        Ok(true)
    }
}

fn alert(description: AlertDescription, reason: &str) -> TransportError {
    TransportError {
        code: TransportErrorCode::crypto(description.into()),
        frame: None,
        reason: reason.to_string(),
    }
}

impl crypto::Session for QuicSession {
    fn initial_keys(&self, id: &ConnectionId, _side: Side) -> Keys {
        // Called with version 1 only, which is always supported.
        crypto::ServerConfig::initial_keys(&self.crypto.initial, 1, id)
            .unwrap_or_else(|_| unreachable!("QUIC version 1 is supported"))
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        let connection = self.connection.as_ref().filter(|_| self.facts_are_reported)?;
        let suite = connection.negotiated_cipher_suite();
        Some(Box::new(QuicFacts {
            active: self.active.clone(),
            policy: self.policy,
            server_name: self.server_name.clone(),
            wants_certificate: self.active.quic.configs[self.policy].config.max_early_data_size == 0,
            is_resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
            cipher_suite: suite_name(suite).unwrap_or_default(),
        }))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        let chain = self.connection.as_ref()?.peer_certificates()?;
        let chain: Vec<CertificateDer<'static>> =
            chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
        Some(Box::new(chain))
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let keys = self.connection.as_ref()?.zero_rtt_keys()?;
        Some((Box::new(keys.header), Box::new(keys.packet)))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        self.connection.as_ref().is_none_or(|connection| connection.is_handshaking())
    }

    fn read_handshake(&mut self, received: &[u8]) -> Result<bool, TransportError> {
        let read = match &mut self.connection {
            Some(connection) => connection.read_hs(received),
            None => {
                if !self.begin(received)? {
                    return Ok(false);
                }
                let hello = std::mem::take(&mut self.hello);
                match &mut self.connection {
                    Some(connection) => connection.read_hs(&hello),
                    None => return Ok(false),
                }
            }
        };
        let Some(connection) = &self.connection else { return Ok(false) };
        if let Err(error) = read {
            let description = connection.alert().unwrap_or(AlertDescription::InternalError);
            return Err(alert(description, &error.to_string()));
        }
        // The hello was answered: everything is known except the client's certificate.
        Ok(!std::mem::replace(&mut self.facts_are_reported, true))
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let received = self.connection.as_ref().and_then(|connection| connection.quic_transport_parameters());
        let Some(mut received) = received else { return Ok(None) };
        Ok(Some(TransportParameters::read(Side::Server, &mut received)?))
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        let keys = match self.connection.as_mut()?.write_hs(out)? {
            KeyChange::Handshake { keys } => keys,
            KeyChange::OneRtt { keys, next } => {
                self.next_secrets = Some(next);
                keys
            }
        };
        Some(Keys {
            header: KeyPair { local: Box::new(keys.local.header), remote: Box::new(keys.remote.header) },
            packet: KeyPair { local: Box::new(keys.local.packet), remote: Box::new(keys.remote.packet) },
        })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.next_secrets.as_mut()?.next_packet_keys();
        Some(KeyPair { local: Box::new(keys.local), remote: Box::new(keys.remote) })
    }

    fn is_valid_retry(&self, _original_id: &ConnectionId, _header: &[u8], _payload: &[u8]) -> bool {
        // A server never receives a Retry packet.
        false
    }

    fn export_keying_material(
        &self,
        _output: &mut [u8],
        _label: &[u8],
        _context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        // HTTP/3 needs none.
        Err(ExportKeyingMaterialError)
    }
}
