//! The state that the connections of an endpoint use: the rustls configuration of each policy, and the choice
//! between them.

use std::sync::Arc;

use rustls::ServerConfig;

use super::client_hello::Hello;
use super::on_demand::{CertificateWait, CertificatesOnDemand, OnDemandSource};
use super::quic_rules::QuicTls;
use super::server_names::ServerNames;
use super::settings::EndpointSettings;
use super::shared::{Challenges, Sessions};
use super::sources::{CertificateState, Sources};

/// The state that new connections of an endpoint use. It never changes.
pub struct ActiveTls {
    /// One for each different policy.
    pub(super) configs: Vec<Arc<ServerConfig>>,
    /// The same for clients that prefer not to use AES.
    pub(super) chacha_configs: Vec<Arc<ServerConfig>>,
    /// The policy of each name.
    pub(super) policies: ServerNames<usize>,
    /// The policy for unknown names.
    pub(super) default_policy: usize,
    /// The policy for clients that send no name.
    pub(super) unnamed_policy: usize,
    /// The names that get certificates at their first handshake; `None`: there are none.
    pub(super) on_demand: Option<OnDemandNames>,
    /// The rules over QUIC.
    pub(super) quic: QuicTls,
    /// Held so that the next `ActiveTls` finds the same sessions.
    pub(super) _sessions: Vec<Arc<Sessions>>,
    pub(super) challenges: Arc<Challenges>,
    /// Answers only an ACME authority. It requests no client certificate and has no session.
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
        match name {
            Some(name) => self.policies.find(name).copied().unwrap_or(self.default_policy),
            None => self.unnamed_policy,
        }
    }

    /// The wait of a handshake for the certificate of its name, which is being obtained.
    pub(super) fn certificate_wait(&self, hello: &Hello) -> Option<CertificateWait> {
        let on_demand = self.on_demand.as_ref()?;
        let name = hello.server_name.as_deref().filter(|_| !hello.is_acme_challenge)?;
        let name = name.strip_suffix('.').unwrap_or(name);
        let is_on_demand = on_demand.names.find(name).copied().unwrap_or(on_demand.others);
        match is_on_demand && on_demand.source.find(name).is_none() {
            true => on_demand.source.request(name),
            false => None,
        }
    }
}

/// The names that get certificates at their first handshake, and the source of the certificates.
pub struct OnDemandNames {
    /// The names of sites on demand, among the names of sites and their certificates.
    names: ServerNames<bool>,
    /// Whether all other names do.
    others: bool,
    source: Arc<dyn CertificatesOnDemand>,
}

impl OnDemandNames {
    /// `None` if no site is on demand.
    pub(super) fn of(
        settings: &EndpointSettings,
        sources: &Sources,
        default_site: usize,
        source: OnDemandSource,
    ) -> Option<OnDemandNames> {
        if !settings.sites.iter().any(|site| site.on_demand) {
            return None;
        }
        let mut names = ServerNames::new();
        for site in &settings.sites {
            for host in &site.hosts {
                names.entry(host, || site.on_demand);
            }
        }
        let certificates = sources.certificates.iter().flatten().filter_map(CertificateState::loaded);
        for name in certificates.flat_map(|loaded| &loaded.names) {
            names.entry(name, || false);
        }
        let default = settings.sites.get(default_site);
        let others = default.is_some_and(|site| site.on_demand && site.hosts.is_empty());
        Some(OnDemandNames { names, others, source: source.0? })
    }
}
