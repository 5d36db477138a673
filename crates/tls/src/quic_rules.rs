//! The rules of one address for connections over QUIC, and how they follow from those over TCP.

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
    /// The policy of each name; `None` where its site does not speak HTTP/3.
    pub(super) policies: ServerNames<Option<usize>>,
    /// The policy for names that are not known.
    pub(super) default: Option<usize>,
}

/// The rustls configuration of one policy.
pub(super) struct QuicConfig {
    pub(super) config: Arc<ServerConfig>,
    /// The same for clients that would rather not use AES.
    pub(super) chacha_config: Arc<ServerConfig>,
}

impl QuicTls {
    /// The policy of a name; `None` where its site does not speak HTTP/3.
    pub(super) fn policy_of(&self, name: Option<&str>) -> Option<usize> {
        name.and_then(|name| self.policies.find(name)).copied().unwrap_or(self.default)
    }
}

/// The rules over QUIC of a site that has these over TCP.
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

/// Early data is for clients that need not say who they are: whoever must show a certificate has not done so
/// yet.
pub(super) fn early_data_bytes(policy: &Policy) -> u32 {
    // QUIC has its own limits, and asks for all or nothing here (RFC 9001 section 4.6.1).
    if policy.client_authorities.is_none() && policy.resumption.stored_sessions > 0 { u32::MAX } else { 0 }
}
