//! What the connections of an endpoint use: the rustls configuration of each policy, and the choice between
//! them.

use std::sync::Arc;

use rustls::ServerConfig;

use super::client_hello::Hello;
use super::quic_rules::QuicTls;
use super::server_names::ServerNames;
use super::shared::{Challenges, Sessions};

/// What new connections of an endpoint use. It never changes.
pub struct ActiveTls {
    /// One for each different policy.
    pub(super) configs: Vec<Arc<ServerConfig>>,
    /// The same for clients that prefer not to use AES.
    pub(super) chacha_configs: Vec<Arc<ServerConfig>>,
    /// The policy of each name.
    pub(super) policies: ServerNames<usize>,
    /// The policy for unknown names.
    pub(super) default_policy: usize,
    /// The rules over QUIC.
    pub(super) quic: QuicTls,
    /// Held so that the next `ActiveTls` finds the same sessions.
    pub(super) _sessions: Vec<Arc<Sessions>>,
    pub(super) challenges: Arc<Challenges>,
    /// Answers only an ACME authority. It asks for no client certificate and has no session.
    pub(super) challenge_config: Arc<ServerConfig>,
}

impl ActiveTls {
    /// The configuration for a client, and its policy's index.
    pub(super) fn config_for(&self, hello: &Hello) -> (Arc<ServerConfig>, usize) {
        if hello.is_acme_challenge && self.challenges.any() {
            return (self.challenge_config.clone(), self.default_policy);
        }
        let policy = self.policy_of(hello.server_name.as_deref());
        let configs = if hello.prefers_chacha { &self.chacha_configs } else { &self.configs };
        (configs[policy].clone(), policy)
    }

    /// The policy for a host name in lower case.
    pub(super) fn policy_of(&self, name: Option<&str>) -> usize {
        if self.configs.len() == 1 {
            return 0;
        }
        name.and_then(|name| self.policies.find(name)).copied().unwrap_or(self.default_policy)
    }
}
