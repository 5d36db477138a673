//! The facts about a session after its handshake: for handlers, access rules, logs and counters.

use rustls::{HandshakeKind, NamedGroup, ProtocolVersion};

use super::{Phase, TlsSession};
use crate::client_certificate::ClientCertificate;
use crate::shared::Challenges;
use crate::suite_name::suite_name;

impl TlsSession {
    /// True when the handshake is done and data may flow.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// True until the handshake is done or has failed.
    pub fn is_handshaking(&self) -> bool {
        matches!(self.phase, Phase::Hello | Phase::Handshake)
    }

    /// The server's name that the client requested, in lower case. Known once the hello was read.
    pub fn server_name(&self) -> Option<&str> {
        self.server_name.as_deref()
    }

    /// The application protocol: `h2`, `http/1.1`; `None` when the client offered none.
    pub fn protocol(&self) -> Option<&[u8]> {
        self.connection.as_ref()?.alpn_protocol()
    }

    /// The client was an ACME authority and has received its proof: close the connection.
    pub fn is_acme_challenge(&self) -> bool {
        self.protocol() == Some(Challenges::PROTOCOL)
    }

    /// The version, as other servers' logs name it: `TLSv1.3`.
    pub fn version(&self) -> Option<&'static str> {
        match self.connection.as_ref()?.protocol_version()? {
            ProtocolVersion::TLSv1_3 => Some("TLSv1.3"),
            ProtocolVersion::TLSv1_2 => Some("TLSv1.2"),
            _ => None,
        }
    }

    /// The cipher suite, as other servers' logs name it: `TLS_AES_128_GCM_SHA256`,
    /// `ECDHE-ECDSA-AES128-GCM-SHA256`.
    pub fn cipher_suite(&self) -> Option<&'static str> {
        suite_name(self.connection.as_ref()?.negotiated_cipher_suite())
    }

    /// The group of the key exchange: `X25519`, `X25519MLKEM768`, `secp256r1`. `None` if a session was
    /// resumed without a key exchange (TLS 1.2).
    pub fn key_exchange(&self) -> Option<&'static str> {
        let group: NamedGroup = self.connection.as_ref()?.negotiated_key_exchange_group()?.name();
        group.as_str()
    }

    /// True when an earlier session was resumed.
    pub fn is_resumed(&self) -> bool {
        let kind = self.connection.as_ref().and_then(|connection| connection.handshake_kind());
        kind == Some(HandshakeKind::Resumed)
    }

    /// The identity of the client from its verified certificate; `None` when it sent none.
    pub fn client_certificate(&self) -> Option<&ClientCertificate> {
        let read = || {
            let chain = self.connection.as_ref()?.peer_certificates()?;
            ClientCertificate::read(chain).map(Box::new)
        };
        if self.phase != Phase::Open {
            return None;
        }
        self.client_certificate.get_or_init(read).as_deref()
    }

    /// Whether requests for `host` (in lower case, without port) may use this session. They may not if the
    /// host has other rules than those under which the session was opened, for example a client certificate:
    /// such a request is answered with 421 (RFC 9110 section 15.5.20).
    #[inline]
    pub fn may_serve(&self, host: &str) -> bool {
        self.server_name.as_deref() == Some(host) || self.active.policy_of(Some(host)) == self.policy
    }
}
