//! The rules of one address for connections over QUIC, derived from those over TCP.

use std::sync::Arc;

use rustls::ServerConfig;

use super::server_names::ServerNames;
use super::settings::{MaximumVersion, MinimumVersion, Policy, Resumption};

/// The application protocol (RFC 9114 section 3.1).
const PROTOCOL: &str = "h3";

/// The rules of one address for connections over QUIC. It never changes.
pub struct QuicTls {
    /// One for each different policy.
    pub(super) configs: Vec<QuicConfig>,
    /// The policy of each name; `None`: its site does not use HTTP/3.
    pub(super) policies: ServerNames<Option<usize>>,
    /// The policy for unknown names.
    pub(super) default: Option<usize>,
}

/// The rustls configuration of one policy.
pub(super) struct QuicConfig {
    pub(super) config: Arc<ServerConfig>,
    /// The same for clients that prefer not to use AES.
    pub(super) chacha_config: Arc<ServerConfig>,
}

impl QuicTls {
    /// The policy of a name; `None`: its site does not use HTTP/3.
    pub(super) fn policy_of(&self, name: Option<&str>) -> Option<usize> {
        name.and_then(|name| self.policies.find(name)).copied().unwrap_or(self.default)
    }
}

/// The rules over QUIC of a site that has these rules over TCP.
pub(super) fn quic_policy(policy: &Policy) -> Policy {
    let resumption = &policy.resumption;
    Policy {
        minimum_version: MinimumVersion::Tls13,
        maximum_version: MaximumVersion::Tls13,
        client_authorities: policy.client_authorities.clone(),
        protocols: vec![PROTOCOL.to_string()],
        resumption: Resumption { tickets: false, ..resumption.clone() },
    }
}

/// The limit of early data. A client that must send a certificate has not sent it yet, so it may send no
/// early data.
pub(super) fn early_data_bytes(policy: &Policy) -> u32 {
    // QUIC has its own limits, and allows only all or nothing here (RFC 9001 section 4.6.1).
    if policy.client_authorities.is_none() && policy.resumption.stored_sessions > 0 { u32::MAX } else { 0 }
}
