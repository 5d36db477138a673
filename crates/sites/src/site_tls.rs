//! Makes the TLS endpoint of each address from the configuration of its sites.

use std::sync::Arc;

use touchstone_acme as acme;
pub use touchstone_acme::records_to_set;
use touchstone_config::{
    AcmeConfig, Config, ConfigPlaces, ConfigProblem, ListenAddress, SiteConfig, StreamCertificate,
    StreamConfig, site_name,
};
use touchstone_observe::log::error::ErrorLog;
use touchstone_tls::{
    CertificateSource, ClientAuthorities, EndpointSettings, LoadedAuthorities, LoadedCertificate, Notice,
    NoticeLevel, Policy, SiteSettings, TlsEndpoint, TlsShared, UnknownNames, provider,
};

use crate::unusable::Unusable;

/// The endpoint of `address`; `None`: it uses plain HTTP.
pub fn open_endpoint(
    address: ListenAddress,
    config: &Config,
    shared: &Arc<TlsShared>,
    error_log: &ErrorLog,
) -> Result<Option<Arc<TlsEndpoint>>, Unusable> {
    let here = config.sites.iter().filter(|site| site.listen.contains(&address) && site.tls.is_on());
    let sites: Vec<SiteSettings> = here.map(|site| site_settings(site, &config.acme)).collect();
    if sites.is_empty() {
        return Ok(None);
    }
    let settings = EndpointSettings { sites, unknown_names: UnknownNames::DefaultCertificate };
    let (endpoint, notices) = TlsEndpoint::open(settings, shared).map_err(|unusable| {
        Unusable(format!("cannot serve HTTPS on {address}: {}", unusable.0.join("; ")))
    })?;
    log_notices(error_log, notices);
    Ok(Some(Arc::new(endpoint)))
}

/// The endpoint of a stream whose TLS ends at this server; `None`: it does not end here.
pub fn open_stream_endpoint(
    stream: &StreamConfig,
    config: &Config,
    shared: &Arc<TlsShared>,
    error_log: &ErrorLog,
) -> Result<Option<Arc<TlsEndpoint>>, Unusable> {
    let Some(settings) = stream_endpoint_settings(stream, config) else { return Ok(None) };
    let (endpoint, notices) = TlsEndpoint::open(settings, shared).map_err(|unusable| {
        Unusable(format!("stream {}: cannot terminate TLS: {}", stream.name, unusable.0.join("; ")))
    })?;
    log_notices(error_log, notices);
    Ok(Some(Arc::new(endpoint)))
}

/// The certificates of a stream, and the rules for all of them.
fn stream_endpoint_settings(stream: &StreamConfig, config: &Config) -> Option<EndpointSettings> {
    if !stream.any_ends_tls() {
        return None;
    }
    let policy = Policy { protocols: stream.alpn.clone(), ..Policy::default() };
    let sites = match &stream.certificate {
        StreamCertificate::None => return None,
        StreamCertificate::File(chain) => vec![SiteSettings {
            label: format!("of stream {}", stream.name),
            hosts: Vec::new(),
            on_demand: false,
            certificates: vec![CertificateSource::Files {
                chain: chain.clone(),
                key: stream.key.as_ref().unwrap_or(chain).clone(),
                may_be_absent: false,
            }],
            policy,
            http3: false,
        }],
        StreamCertificate::OfSites => {
            let with_tls = config.sites.iter().filter(|site| site.tls.is_on());
            let settings = |site| SiteSettings {
                policy: policy.clone(),
                http3: false,
                ..site_settings(site, &config.acme)
            };
            with_tls.map(settings).collect()
        }
    };
    Some(EndpointSettings { sites, unknown_names: UnknownNames::DefaultCertificate })
}

/// Checks the files of certificates, keys and authorities of sites: that they exist, that a server can use
/// them, and that a key belongs to its certificate. This is for checks before a start or a reload. A start
/// reads the files itself, and a reload that cannot read them keeps the current configuration.
pub fn check_certificates(config: &Config, places: &ConfigPlaces) -> Vec<ConfigProblem> {
    let provider = provider();
    let mut problems = Vec::new();
    for (position, site) in config.sites.iter().enumerate() {
        let Some(chain) = &site.tls.certificate else { continue };
        let key = site.tls.key.as_ref().unwrap_or(chain);
        if let Err(problem) = LoadedCertificate::from_files(chain, key, &provider) {
            let is_of_key = site.tls.key.is_some() && problem.file == *key;
            let name = if is_of_key { "key" } else { "certificate" };
            let has_no_key = site.tls.key.is_none() && problem.message.starts_with("holds no private key");
            let advice = if has_no_key { "; name the file of the key with 'key'" } else { "" };
            let message = format!("'{name}': {problem}{advice}");
            problems.push(places.problem_in_site(position, name, message));
        }
    }
    for (position, site) in config.sites.iter().enumerate() {
        let authorities = client_authorities(site);
        let loaded = authorities.map(|authorities| LoadedAuthorities::from_files(&authorities, &provider));
        if let Some(Err(problem)) = loaded {
            let message = format!("'client_authorities': {problem}");
            problems.push(places.problem_in_site(position, "client_authorities", message));
        }
    }
    problems
}

/// Writes notices for the operator into the error log.
pub fn log_notices(error_log: &ErrorLog, notices: Vec<Notice>) {
    for notice in notices {
        match notice.level {
            NoticeLevel::Info => error_log.info(notice.text),
            NoticeLevel::Warning => error_log.warning(notice.text),
        }
    }
}

/// What messages call a site.
fn label(site: &SiteConfig) -> String {
    let root = || site.root.as_ref().map(|root| root.display().to_string());
    site.hosts.first().cloned().or_else(root).unwrap_or_else(|| site_name(site))
}

fn site_settings(site: &SiteConfig, acme: &AcmeConfig) -> SiteSettings {
    SiteSettings {
        label: label(site),
        hosts: site.hosts.clone(),
        on_demand: site.tls.on_demand,
        certificates: match site.tls.on_demand {
            true => Vec::new(),
            false => vec![certificate_source(site, acme)],
        },
        policy: Policy {
            minimum_version: site.tls.minimum_version,
            maximum_version: site.tls.maximum_version,
            client_authorities: client_authorities(site),
            // Some clients offer only the older name (curl --http1.0).
            protocols: ["h2", "http/1.1", "http/1.0"].map(str::to_string).to_vec(),
            ..Policy::default()
        },
        http3: site.tls.http3,
    }
}

fn client_authorities(site: &SiteConfig) -> Option<ClientAuthorities> {
    site.tls.client_authorities.as_ref().map(|authorities| ClientAuthorities {
        authorities: authorities.clone(),
        revocation_lists: Vec::new(),
        mode: site.tls.client_certificate,
    })
}

fn certificate_source(site: &SiteConfig, acme: &AcmeConfig) -> CertificateSource {
    let tls = &site.tls;
    match &tls.certificate {
        Some(chain) => {
            let key = tls.key.as_ref().unwrap_or(chain).clone();
            CertificateSource::Files { chain: chain.clone(), key, may_be_absent: false }
        }
        None if tls.acme => {
            let file = acme::certificate_file(acme, &site.hosts);
            CertificateSource::Files { chain: file.clone(), key: file, may_be_absent: true }
        }
        None => CertificateSource::SelfSigned { names: site.hosts.clone(), directory: None },
    }
}
