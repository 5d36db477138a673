//! The TLS side of one listening address: from settings to rustls configurations, kept up to date.
//!
//! What a new connection needs is an [`ActiveTls`], which never changes; when a file has changed, a new one takes its
//! place, and connections that have begun go on with theirs. Each different [`Policy`] has a rustls configuration of
//! its own, chosen by the name that the client asks for; all of them choose certificates from one table.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use time::OffsetDateTime;

use super::certificate::{Age, LoadedCertificate, is_host_name};
use super::client_authorities::LoadedAuthorities;
use super::client_hello::Hello;
use super::pem::PemProblem;
use super::self_signed::development_certificate;
use super::server_names::ServerNames;
use super::session::TlsSession;
use super::settings::{
    CertificateSource, ClientAuthorities, EndpointSettings, MinimumVersion, Policy, Resumption, SiteSettings,
    UnknownNames,
};
use super::shared::{Challenges, Sessions, SessionsKey, TlsShared};
use super::watched::{Look, Watched};

/// The TLS side of one listening address.
pub struct TlsEndpoint {
    settings: EndpointSettings,
    shared: Arc<TlsShared>,
    /// Only [`TlsEndpoint::refresh`] touches these.
    sources: Mutex<Sources>,
    active: RwLock<Arc<ActiveTls>>,
}

/// What new connections of an endpoint work with. It never changes.
pub struct ActiveTls {
    /// One for each different policy.
    configs: Vec<Arc<ServerConfig>>,
    /// The policy of each name.
    policies: ServerNames<usize>,
    /// The policy for names that are not known.
    default_policy: usize,
    /// Held so that the next one finds them.
    _sessions: Vec<Arc<Sessions>>,
    challenges: Arc<Challenges>,
    /// Answers an ACME authority, which has no client certificate and no session, and nobody else.
    challenge_config: Arc<ServerConfig>,
}

/// Something that the operator should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// How much it matters.
    pub level: NoticeLevel,
    /// One line.
    pub text: String,
}

/// How much a [`Notice`] matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeLevel {
    /// All is well.
    Info,
    /// Something should be done.
    Warning,
}

/// Why an endpoint cannot be opened: everything that is wrong, one line each.
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
        sources.say_ages(&mut notices);
        let active = assemble(&settings, &sources, shared, Some(&mut notices)).map_err(|error| UnusableTls(vec![error]))?;
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

    /// What new connections work with now.
    pub fn active(&self) -> Arc<ActiveTls> {
        self.active.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks whether files have changed, and takes up those that have. To be called about once a second; a change is
    /// taken up when two looks found the same. What cannot be used is said once, and what was there before stays.
    pub fn refresh(&self) -> Vec<Notice> {
        let mut notices = Vec::new();
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = sources.look(&self.shared.provider, &mut notices);
        sources.say_ages(&mut notices);
        if changed {
            match assemble(&self.settings, &sources, &self.shared, None) {
                Ok(active) => *self.active.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(active),
                Err(error) => notices.push(warning(format!("{error}: what was there before stays"))),
            }
        }
        notices
    }
}

impl ActiveTls {
    /// The configuration for a client, and its policy's index.
    pub(super) fn choose(&self, hello: &Hello) -> (Arc<ServerConfig>, usize) {
        if hello.is_acme_challenge && self.challenges.any() {
            return (self.challenge_config.clone(), self.default_policy);
        }
        let policy = self.policy_of(hello.server_name.as_deref());
        (self.configs[policy].clone(), policy)
    }

    /// The policy for a host name in lower case.
    pub(super) fn policy_of(&self, name: Option<&str>) -> usize {
        if self.configs.len() == 1 {
            return 0;
        }
        name.and_then(|name| self.policies.find(name)).copied().unwrap_or(self.default_policy)
    }

    /// The rustls configuration for a host name, for protocols that have their own connections (QUIC). It is a copy to
    /// be changed at will: application protocols and early data are the caller's to set.
    pub fn server_config(&self, name: Option<&str>) -> ServerConfig {
        ServerConfig::clone(&self.configs[self.policy_of(name)])
    }
}

fn warning(text: String) -> Notice {
    Notice { level: NoticeLevel::Warning, text }
}

fn info(text: String) -> Notice {
    Notice { level: NoticeLevel::Info, text }
}

// ---- what the settings alone tell

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
    if site.certificates.is_empty() {
        problems.push(format!("site {label} has no certificate"));
    }
    for host in &site.hosts {
        if !is_host_name(host) && host.parse::<std::net::IpAddr>().is_err() {
            problems.push(format!("site {label}: '{host}' is neither a host name nor a wildcard like *.example.org"));
        }
    }
    for protocol in &site.policy.protocols {
        // RFC 7301 section 3.1. An ACME authority is answered without being named here.
        if protocol.is_empty() || protocol.len() > 255 || protocol.as_bytes() == Challenges::PROTOCOL {
            problems.push(format!("site {label}: '{protocol}' is not an application protocol that can be offered"));
        }
    }
    if site.policy.resumption.tickets_per_handshake > Resumption::MOST_TICKETS {
        problems.push(format!("site {label}: at most {} tickets for each handshake", Resumption::MOST_TICKETS));
    }
}

// ---- what is read from files

/// All that is read from files, and watched.
struct Sources {
    /// The certificates of each site.
    certificates: Vec<Vec<CertificateState>>,
    /// The authorities of each different policy that has any.
    authorities: Vec<(ClientAuthorities, Watched<Arc<LoadedAuthorities>>)>,
}

struct CertificateState {
    origin: CertificateOrigin,
    /// The age that was last spoken of.
    said: Option<(i64, Age)>,
}

enum CertificateOrigin {
    Fixed(Arc<LoadedCertificate>),
    Files { label: String, chain: PathBuf, key: PathBuf, watched: Watched<Arc<LoadedCertificate>> },
}

impl CertificateState {
    fn loaded(&self) -> Option<&Arc<LoadedCertificate>> {
        match &self.origin {
            CertificateOrigin::Fixed(loaded) => Some(loaded),
            CertificateOrigin::Files { watched, .. } => watched.value(),
        }
    }
}

impl Sources {
    fn open(
        settings: &EndpointSettings,
        shared: &TlsShared,
        notices: &mut Vec<Notice>,
        problems: &mut Vec<String>,
    ) -> Sources {
        let mut sources = Sources { certificates: Vec::new(), authorities: Vec::new() };
        for site in &settings.sites {
            let mut states = Vec::new();
            for source in &site.certificates {
                match open_certificate(&site.label, source, shared, notices) {
                    Ok(origin) => states.push(CertificateState { origin, said: None }),
                    Err(problem) => problems.push(format!("site {}: {problem}", site.label)),
                }
            }
            sources.certificates.push(states);
            if let Some(authorities) = &site.policy.client_authorities
                && !sources.authorities.iter().any(|(known, _)| known == authorities)
            {
                match open_authorities(authorities, &shared.provider) {
                    Ok(watched) => sources.authorities.push((authorities.clone(), watched)),
                    Err(problem) => problems.push(format!("site {}: {problem}", site.label)),
                }
            }
        }
        sources
    }

    /// Looks at all files; true when something is new.
    fn look(&mut self, provider: &Arc<CryptoProvider>, notices: &mut Vec<Notice>) -> bool {
        let mut changed = false;
        for state in self.certificates.iter_mut().flatten() {
            let CertificateOrigin::Files { label, chain, key, watched } = &mut state.origin else { continue };
            let had_one = watched.value().is_some();
            match watched.look(|| LoadedCertificate::from_files(chain, key, provider).map(Arc::new)) {
                Look::Same => {}
                Look::Renewed => {
                    changed = true;
                    say_renewed(label, watched.value(), notices);
                }
                Look::Refused(problem) => {
                    let meanwhile = if had_one { "the certificate before stays" } else { "there is none yet" };
                    notices.push(warning(format!("site {label}: {problem}; {meanwhile}")));
                }
            }
        }
        for (settings, watched) in &mut self.authorities {
            match watched.look(|| LoadedAuthorities::from_files(settings, provider).map(Arc::new)) {
                Look::Same => {}
                Look::Renewed => {
                    changed = true;
                    let file = settings.authorities.display();
                    notices.push(info(format!("authorities for client certificates taken up anew from {file}")));
                }
                Look::Refused(problem) => {
                    notices.push(warning(format!("{problem}; the authorities before stay")));
                }
            }
        }
        changed
    }

    /// Says what a certificate's age asks for, once for each certificate and age.
    fn say_ages(&mut self, notices: &mut Vec<Notice>) {
        let now_s = OffsetDateTime::now_utc().unix_timestamp();
        for state in self.certificates.iter_mut().flatten() {
            let Some(loaded) = state.loaded().cloned() else { continue };
            let now = (loaded.not_after_s, loaded.age(now_s));
            if state.said == Some(now) {
                continue;
            }
            state.said = Some(now);
            let origin = &loaded.origin;
            match now.1 {
                Age::Valid => {}
                Age::Early => {
                    let begin = loaded.begin_day();
                    notices.push(warning(format!("{origin}: the certificate is not valid before {begin}")));
                }
                Age::EndsSoon => {
                    let end = loaded.end_day();
                    notices.push(warning(format!("{origin}: the certificate expires on {end}: renew it")));
                }
                Age::Expired => {
                    let end = loaded.end_day();
                    let text = format!("{origin}: the certificate expired on {end}: clients refuse it; renew it");
                    notices.push(warning(text));
                }
            }
        }
    }

    fn authorities(&self, settings: &ClientAuthorities) -> Option<&Arc<LoadedAuthorities>> {
        self.authorities.iter().find(|(known, _)| known == settings).and_then(|(_, watched)| watched.value())
    }
}

fn open_certificate(
    label: &str,
    source: &CertificateSource,
    shared: &TlsShared,
    notices: &mut Vec<Notice>,
) -> Result<CertificateOrigin, String> {
    match source {
        CertificateSource::Files { chain, key, may_be_absent } => {
            let files = vec![chain.clone(), key.clone()];
            let make = || LoadedCertificate::from_files(chain, key, &shared.provider).map(Arc::new);
            let watched = match Watched::open(files.clone(), make) {
                Ok(watched) => watched,
                Err(problem) if *may_be_absent => {
                    notices.push(info(format!("site {label} has no certificate yet: {problem}")));
                    Watched::waiting(files)
                }
                Err(problem) => return Err(problem.to_string()),
            };
            if let Some(loaded) = watched.value() {
                notices.extend(loaded.warnings.iter().cloned().map(warning));
            }
            let (chain, key) = (chain.clone(), key.clone());
            Ok(CertificateOrigin::Files { label: label.to_string(), chain, key, watched })
        }
        CertificateSource::SelfSigned { names, directory } => {
            open_self_signed(label, names, directory.as_ref(), shared, notices).map(CertificateOrigin::Fixed)
        }
    }
}

fn open_self_signed(
    label: &str,
    names: &[String],
    directory: Option<&PathBuf>,
    shared: &TlsShared,
    notices: &mut Vec<Notice>,
) -> Result<Arc<LoadedCertificate>, String> {
    let make = || development_certificate(names, directory.map(PathBuf::as_path), &shared.provider, OffsetDateTime::now_utc());
    if let Some(directory) = directory {
        let made = make().map_err(|error| error.to_string())?;
        let file = directory.join(super::self_signed::CERTIFICATE_FILE);
        let what = if made.is_new { "was made" } else { "is used again" };
        notices.push(info(format!(
            "site {label}: a development certificate {what}: {}; browsers trust it only when told to",
            file.display()
        )));
        return Ok(Arc::new(made.loaded));
    }
    let (loaded, is_new) =
        shared.development(names, || make().map(|made| made.loaded)).map_err(|error| error.to_string())?;
    if is_new {
        notices.push(info(format!(
            "site {label}: a development certificate was made, which ends with this process; browsers do not trust it"
        )));
    }
    Ok(loaded)
}

fn open_authorities(
    settings: &ClientAuthorities,
    provider: &Arc<CryptoProvider>,
) -> Result<Watched<Arc<LoadedAuthorities>>, PemProblem> {
    let mut files = vec![settings.authorities.clone()];
    files.extend(settings.revocation_lists.iter().cloned());
    Watched::open(files, || LoadedAuthorities::from_files(settings, provider).map(Arc::new))
}

fn say_renewed(label: &str, loaded: Option<&Arc<LoadedCertificate>>, notices: &mut Vec<Notice>) {
    let Some(loaded) = loaded else { return };
    let (origin, end) = (&loaded.origin, loaded.end_day());
    notices.push(info(format!("site {label}: new certificate {origin} taken up, valid until {end}")));
    notices.extend(loaded.warnings.iter().cloned().map(warning));
}

// ---- what connections work with

fn assemble(
    settings: &EndpointSettings,
    sources: &Sources,
    shared: &TlsShared,
    notices: Option<&mut Vec<Notice>>,
) -> Result<ActiveTls, String> {
    let default_site = default_site(settings);
    let certificates = Arc::new(certificate_table(settings, sources, default_site, notices));
    let mut distinct: Vec<&Policy> = Vec::new();
    let mut policy_of_site = Vec::new();
    for site in &settings.sites {
        let index = distinct.iter().position(|known| **known == site.policy).unwrap_or_else(|| {
            distinct.push(&site.policy);
            distinct.len() - 1
        });
        policy_of_site.push(index);
    }
    let (mut configs, mut all_sessions) = (Vec::new(), Vec::new());
    for policy in distinct {
        let (config, sessions) = server_config(policy, sources, shared, certificates.clone())?;
        configs.push(Arc::new(config));
        all_sessions.push(sessions);
    }
    Ok(ActiveTls {
        configs,
        _sessions: all_sessions,
        policies: policy_table(settings, sources, &policy_of_site),
        default_policy: policy_of_site.get(default_site).copied().unwrap_or(0),
        challenges: shared.challenges.clone(),
        challenge_config: challenge_config(shared).map_err(|error| error.to_string())?,
    })
}

/// The site for names that none claims: one that has no names of its own, or the first.
fn default_site(settings: &EndpointSettings) -> usize {
    settings.sites.iter().position(|site| site.hosts.is_empty()).unwrap_or(0)
}

fn policy_table(settings: &EndpointSettings, sources: &Sources, policy_of_site: &[usize]) -> ServerNames<usize> {
    let mut table = ServerNames::new();
    for (site, policy) in settings.sites.iter().zip(policy_of_site) {
        for host in &site.hosts {
            table.entry(host, || *policy);
        }
    }
    // Names that only a certificate has stand for its site, where no site claims them.
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
    let versions = match policy.minimum_version {
        MinimumVersion::Tls12 => [&TLS13, &TLS12].as_slice(),
        MinimumVersion::Tls13 => [&TLS13].as_slice(),
    };
    let builder = ServerConfig::builder_with_provider(shared.provider.clone())
        .with_protocol_versions(versions)
        .map_err(|error| error.to_string())?;
    let authorities = match &policy.client_authorities {
        Some(settings) => Some(sources.authorities(settings).ok_or("the authorities for client certificates are missing")?),
        None => None,
    };
    let builder = match authorities {
        Some(authorities) => builder.with_client_cert_verifier(authorities.verifier.clone()),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(certificates);
    config.alpn_protocols = policy.protocols.iter().map(|protocol| protocol.clone().into_bytes()).collect();
    let key = SessionsKey { policy: policy.clone(), authorities: authorities.map(|authorities| authorities.digest) };
    let sessions = shared.sessions(key).map_err(|error| error.to_string())?;
    let resumable = policy.resumption.tickets || policy.resumption.stored_sessions > 0;
    config.send_tls13_tickets = if resumable { policy.resumption.tickets_per_handshake } else { 0 };
    config.session_storage = sessions.storage.clone();
    if let Some(ticketer) = &sessions.ticketer {
        config.ticketer = ticketer.clone();
    }
    // The client knows better than we whether it has fast AES; early data could be played again by anybody who heard it.
    config.ignore_client_order = false;
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

// ---- the choice of a certificate

/// Which certificates stand for which name. Where a name has several, the first that the client can use is taken.
#[derive(Debug)]
struct CertificateTable {
    /// The names that sites claim.
    claimed: ServerNames<Vec<Arc<CertifiedKey>>>,
    /// The names that only certificates have.
    certified: ServerNames<Vec<Arc<CertifiedKey>>>,
    /// For all others.
    default: Vec<Arc<CertifiedKey>>,
    unknown_names: UnknownNames,
}

impl ResolvesServerCert for CertificateTable {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let known = hello.server_name().and_then(|name| self.claimed.find(name).or_else(|| self.certified.find(name)));
        let candidates = match (known, self.unknown_names) {
            (Some(known), _) => known,
            (None, UnknownNames::DefaultCertificate) => &self.default,
            (None, UnknownNames::Refuse) => return None,
        };
        let schemes = hello.signature_schemes();
        let usable = candidates.iter().find(|candidate| candidate.key.choose_scheme(schemes).is_some());
        usable.or(candidates.first()).cloned()
    }
}

fn certificate_table(
    settings: &EndpointSettings,
    sources: &Sources,
    default_site: usize,
    mut notices: Option<&mut Vec<Notice>>,
) -> CertificateTable {
    let loaded = |site: usize| -> Vec<&Arc<LoadedCertificate>> {
        let mut certificates: Vec<_> =
            sources.certificates.get(site).into_iter().flatten().filter_map(CertificateState::loaded).collect();
        certificates.sort_by_key(|certificate| certificate.preference());
        certificates
    };
    let keys = |certificates: &[&Arc<LoadedCertificate>]| -> Vec<Arc<CertifiedKey>> {
        certificates.iter().map(|certificate| certificate.certified.clone()).collect()
    };
    let mut claimed = ServerNames::new();
    for (index, site) in settings.sites.iter().enumerate() {
        let all = loaded(index);
        for host in &site.hosts {
            let mut fitting: Vec<_> = all.iter().copied().filter(|certificate| certificate.is_for(host)).collect();
            if fitting.is_empty() {
                if let (Some(notices), false) = (notices.as_deref_mut(), all.is_empty()) {
                    let label = &site.label;
                    notices.push(warning(format!("site {label}: no certificate of it is for '{host}': clients refuse it")));
                }
                fitting.clone_from(&all);
            }
            claimed.entry(host, || keys(&fitting));
        }
    }
    let mut certified: ServerNames<Vec<Arc<CertifiedKey>>> = ServerNames::new();
    for certificate in (0..settings.sites.len()).flat_map(&loaded) {
        for name in &certificate.names {
            if claimed.find(name).is_none() {
                certified.entry(name, Vec::new).push(certificate.certified.clone());
            }
        }
    }
    CertificateTable { claimed, certified, default: keys(&loaded(default_site)), unknown_names: settings.unknown_names }
}
