//! The TLS side of one listening address: from settings to rustls configurations, kept up to date.
//!
//! A new connection gets an [`ActiveTls`], which never changes; when a file has changed, a new `ActiveTls`
//! replaces it, and existing connections keep theirs. Each different [`Policy`] has its own rustls
//! configuration, chosen by the name that the client requests; all of them choose certificates from one
//! table.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedProtocolVersion};

use super::active_tls::{ActiveTls, OnDemandNames};
use super::certificate::{host_address, is_host_name};
use super::certificate_table::{CertificateTable, unnamed_site};
use super::notice::Notice;
use super::quic_rules::{QuicConfig, QuicTls, early_data_bytes, quic_policy};
use super::server_names::ServerNames;
use super::session::TlsSession;
use super::settings::{EndpointSettings, MaximumVersion, MinimumVersion, Policy, Resumption, SiteSettings};
use super::shared::{Challenges, Sessions, SessionsKey, TlsShared};
use super::sources::{CertificateState, Sources};

/// The TLS side of one listening address.
pub struct TlsEndpoint {
    settings: EndpointSettings,
    shared: Arc<TlsShared>,
    /// Used by [`TlsEndpoint::refresh`] only.
    sources: Mutex<Sources>,
    active: RwLock<Arc<ActiveTls>>,
}

/// Why an endpoint cannot be opened: all errors, one line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusableTls(pub Vec<String>);

impl fmt::Display for UnusableTls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for UnusableTls {}

impl TlsEndpoint {
    /// Reads and checks everything. The notices are for the log.
    pub fn open(
        settings: EndpointSettings,
        shared: &Arc<TlsShared>,
    ) -> Result<(TlsEndpoint, Vec<Notice>), UnusableTls> {
        let mut problems = check(&settings);
        let mut notices = Vec::new();
        let mut sources = Sources::open(&settings, shared, &mut notices, &mut problems);
        if !problems.is_empty() {
            return Err(UnusableTls(problems));
        }
        sources.report_ages(&mut notices);
        let active = assemble(&settings, &sources, shared, Some(&mut notices))
            .map_err(|error| UnusableTls(vec![error]))?;
        let endpoint = TlsEndpoint {
            settings,
            shared: shared.clone(),
            sources: Mutex::new(sources),
            active: RwLock::new(Arc::new(active)),
        };
        Ok((endpoint, notices))
    }

    /// A session for a connection that was just accepted.
    pub fn session(&self) -> TlsSession {
        TlsSession::new(self.active())
    }

    /// Whether any of its sites is reached over QUIC too.
    pub fn speaks_http3(&self) -> bool {
        self.settings.sites.iter().any(|site| site.http3)
    }

    /// What new connections use now.
    pub fn active(&self) -> Arc<ActiveTls> {
        self.active.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Checks whether files have changed, and applies the changes. Must be called about once a second; a
    /// change is applied when two checks found the same. A file that cannot be used is reported once, and its
    /// previous value stays.
    pub fn refresh(&self) -> Vec<Notice> {
        let mut notices = Vec::new();
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = sources.check(&self.shared.provider, &mut notices);
        sources.report_ages(&mut notices);
        if changed {
            match assemble(&self.settings, &sources, &self.shared, None) {
                Ok(active) => *self.active.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(active),
                Err(error) => notices.push(Notice::warning(format!("{error}: the previous value stays"))),
            }
        }
        notices
    }
}

// ---- derived from the settings

fn check(settings: &EndpointSettings) -> Vec<String> {
    let mut problems = Vec::new();
    if settings.sites.is_empty() {
        problems.push("there is no site for TLS here".to_string());
    }
    for site in &settings.sites {
        check_site(site, &mut problems);
    }
    problems
}

fn check_site(site: &SiteSettings, problems: &mut Vec<String>) {
    let label = &site.label;
    if site.certificates.is_empty() && !site.on_demand {
        problems.push(format!("site {label} has no certificate"));
    }
    for host in &site.hosts {
        if !is_host_name(host) && host_address(host).is_none() {
            problems.push(format!(
                "site {label}: '{host}' is neither a host name nor a wildcard like *.example.org"
            ));
        }
    }
    for protocol in &site.policy.protocols {
        // RFC 7301 section 3.1. An ACME authority is answered without being named here.
        if protocol.is_empty() || protocol.len() > 255 || protocol.as_bytes() == Challenges::PROTOCOL {
            problems.push(format!(
                "site {label}: '{protocol}' is not an application protocol that can be offered"
            ));
        }
    }
    if site.policy.resumption.tickets_per_handshake > Resumption::MOST_TICKETS {
        problems
            .push(format!("site {label}: at most {} tickets for each handshake", Resumption::MOST_TICKETS));
    }
}

// ---- what connections use

fn assemble(
    settings: &EndpointSettings,
    sources: &Sources,
    shared: &TlsShared,
    notices: Option<&mut Vec<Notice>>,
) -> Result<ActiveTls, String> {
    let default_site = default_site(settings);
    let on_demand = shared.on_demand();
    let table = CertificateTable::new(settings, sources, default_site, on_demand.clone(), notices);
    let certificates = Arc::new(table);
    let mut distinct: Vec<&Policy> = Vec::new();
    let policy_of_site: Vec<usize> =
        settings.sites.iter().map(|site| place_of(&site.policy, &mut distinct)).collect();
    let (mut configs, mut chacha_configs, mut all_sessions) = (Vec::new(), Vec::new(), Vec::new());
    for policy in distinct {
        let (config, sessions) = server_config(policy, sources, shared, certificates.clone())?;
        chacha_configs.push(Arc::new(in_clients_order(&config)));
        configs.push(Arc::new(config));
        all_sessions.push(sessions);
    }
    let quic = quic_tls(settings, sources, shared, default_site, &certificates, &mut all_sessions)?;
    Ok(ActiveTls {
        configs,
        chacha_configs,
        quic,
        _sessions: all_sessions,
        policies: policy_table(settings, sources, &policy_of_site),
        default_policy: policy_of_site.get(default_site).copied().unwrap_or(0),
        unnamed_policy: policy_of_site
            .get(unnamed_site(settings).unwrap_or(default_site))
            .copied()
            .unwrap_or(0),
        on_demand: OnDemandNames::of(settings, sources, default_site, on_demand),
        challenges: shared.challenges.clone(),
        challenge_config: challenge_config(shared).map_err(|error| error.to_string())?,
    })
}

/// The site for names that no site claims: a site without names of its own, or the first one.
fn default_site(settings: &EndpointSettings) -> usize {
    settings.sites.iter().position(|site| site.hosts.is_empty()).unwrap_or(0)
}

/// The index of a policy in the list of distinct policies; a new one is added at the end.
fn place_of<P: PartialEq>(policy: P, distinct: &mut Vec<P>) -> usize {
    distinct.iter().position(|known| *known == policy).unwrap_or_else(|| {
        distinct.push(policy);
        distinct.len() - 1
    })
}

/// The same configuration with the client's order of cipher suites instead of the server's.
fn in_clients_order(config: &ServerConfig) -> ServerConfig {
    let mut config = config.clone();
    config.ignore_client_order = false;
    config
}

/// The rules over QUIC of the sites with HTTP/3.
fn quic_tls(
    settings: &EndpointSettings,
    sources: &Sources,
    shared: &TlsShared,
    default_site: usize,
    certificates: &Arc<CertificateTable>,
    all_sessions: &mut Vec<Arc<Sessions>>,
) -> Result<QuicTls, String> {
    let mut distinct: Vec<Policy> = Vec::new();
    let policy_of_site: Vec<Option<usize>> = settings
        .sites
        .iter()
        .map(|site| site.http3.then(|| place_of(quic_policy(&site.policy), &mut distinct)))
        .collect();
    let mut configs = Vec::new();
    for policy in &distinct {
        let (mut config, sessions) = server_config(policy, sources, shared, certificates.clone())?;
        config.max_early_data_size = early_data_bytes(policy);
        configs.push(QuicConfig {
            chacha_config: Arc::new(in_clients_order(&config)),
            config: Arc::new(config),
        });
        all_sessions.push(sessions);
    }
    Ok(QuicTls {
        configs,
        policies: policy_table(settings, sources, &policy_of_site),
        default: policy_of_site.get(default_site).copied().flatten(),
    })
}

fn policy_table<T: Copy>(
    settings: &EndpointSettings,
    sources: &Sources,
    policy_of_site: &[T],
) -> ServerNames<T> {
    let mut table = ServerNames::new();
    for (site, policy) in settings.sites.iter().zip(policy_of_site) {
        for host in &site.hosts {
            table.entry(host, || *policy);
        }
    }
    // A name that is only in a certificate leads to the certificate's site, unless a site has the name among
    // its hosts.
    let claimed = table.clone();
    for ((site, states), policy) in settings.sites.iter().zip(&sources.certificates).zip(policy_of_site) {
        if site.hosts.is_empty() {
            for name in states.iter().filter_map(CertificateState::loaded).flat_map(|loaded| &loaded.names) {
                if claimed.find(name).is_none() {
                    table.entry(name, || *policy);
                }
            }
        }
    }
    table
}

fn server_config(
    policy: &Policy,
    sources: &Sources,
    shared: &TlsShared,
    certificates: Arc<CertificateTable>,
) -> Result<(ServerConfig, Arc<Sessions>), String> {
    let versions: &[&SupportedProtocolVersion] = match (policy.minimum_version, policy.maximum_version) {
        (MinimumVersion::Tls12, MaximumVersion::Tls13) => &[&TLS13, &TLS12],
        (MinimumVersion::Tls12, MaximumVersion::Tls12) => &[&TLS12],
        (MinimumVersion::Tls13, MaximumVersion::Tls13) => &[&TLS13],
        (MinimumVersion::Tls13, MaximumVersion::Tls12) => {
            return Err("no version of TLS is both 1.3 or newer and 1.2 or older".to_string());
        }
    };
    let builder = ServerConfig::builder_with_provider(shared.provider.clone())
        .with_protocol_versions(versions)
        .map_err(|error| error.to_string())?;
    let authorities = match &policy.client_authorities {
        Some(settings) => {
            Some(sources.authorities(settings).ok_or("the authorities for client certificates are missing")?)
        }
        None => None,
    };
    let builder = match authorities {
        Some(authorities) => builder.with_client_cert_verifier(authorities.verifier.clone()),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(certificates);
    config.alpn_protocols = policy.protocols.iter().map(|protocol| protocol.clone().into_bytes()).collect();
    let key = SessionsKey {
        policy: policy.clone(),
        authorities: authorities.map(|authorities| authorities.digest),
    };
    let sessions = shared.sessions(key).map_err(|error| error.to_string())?;
    let resumable = policy.resumption.tickets || policy.resumption.stored_sessions > 0;
    config.send_tls13_tickets = if resumable { policy.resumption.tickets_per_handshake } else { 0 };
    config.session_storage = sessions.storage.clone();
    if let Some(ticketer) = &sessions.ticketer {
        config.ticketer = ticketer.clone();
    }
    // The server's order has AES-128 with SHA-256 first: it is as safe as the others, and a handshake with
    // SHA-384 costs a third more, which clients that put it first (OpenSSL's) hardly need. The order of a
    // client without fast AES shows this, and is then used.
    config.ignore_client_order = true;
    // An attacker who recorded early data could replay it.
    config.max_early_data_size = 0;
    Ok((config, sessions))
}

fn challenge_config(shared: &TlsShared) -> Result<Arc<ServerConfig>, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(shared.provider.clone())
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_no_client_auth()
        .with_cert_resolver(shared.challenges.clone());
    config.alpn_protocols = vec![Challenges::PROTOCOL.to_vec()];
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    Ok(Arc::new(config))
}
