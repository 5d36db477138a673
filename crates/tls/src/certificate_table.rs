//! The choice of a certificate by the name that a client requests (SNI), and by the signatures that it can
//! verify.

use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::certificate::{LoadedCertificate, host_address};
use super::notice::Notice;
use super::on_demand::OnDemandSource;
use super::server_names::ServerNames;
use super::settings::{EndpointSettings, UnknownNames};
use super::sources::{CertificateState, Sources};

/// Which certificates serve which name. If a name has several, the first that the client can use is taken.
#[derive(Debug)]
pub struct CertificateTable {
    /// The names that sites claim.
    claimed: ServerNames<Vec<Arc<CertifiedKey>>>,
    /// The names that only certificates have.
    certified: ServerNames<Vec<Arc<CertifiedKey>>>,
    /// For all others.
    default: Vec<Arc<CertifiedKey>>,
    /// For clients that send no name: they requested an address, which TLS does not send.
    unnamed: Vec<Arc<CertifiedKey>>,
    /// For sites on demand; `None`: there is no such site.
    on_demand: Option<OnDemandSource>,
    unknown_names: UnknownNames,
}

impl CertificateTable {
    /// Makes the table. Problems are reported in `notices`.
    pub fn new(
        settings: &EndpointSettings,
        sources: &Sources,
        default_site: usize,
        on_demand: OnDemandSource,
        mut notices: Option<&mut Vec<Notice>>,
    ) -> CertificateTable {
        let loaded = |site: usize| -> Vec<&Arc<LoadedCertificate>> {
            let mut certificates: Vec<_> = sources
                .certificates
                .get(site)
                .into_iter()
                .flatten()
                .filter_map(CertificateState::loaded)
                .collect();
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
                let mut fitting: Vec<_> =
                    all.iter().copied().filter(|certificate| certificate.is_for(host)).collect();
                if fitting.is_empty() {
                    if let (Some(notices), false) = (notices.as_deref_mut(), all.is_empty()) {
                        let label = &site.label;
                        notices.push(Notice::warning(format!(
                            "site {label}: no certificate of it is for '{host}': clients refuse it"
                        )));
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
        CertificateTable {
            claimed,
            certified,
            default: keys(&loaded(default_site)),
            unnamed: keys(&loaded(unnamed_site(settings).unwrap_or(default_site))),
            on_demand: settings.sites.iter().any(|site| site.on_demand).then_some(on_demand),
            unknown_names: settings.unknown_names,
        }
    }
}

/// The site for clients that send no name: the first one with an address among its hosts.
pub fn unnamed_site(settings: &EndpointSettings) -> Option<usize> {
    settings.sites.iter().position(|site| site.hosts.iter().any(|host| host_address(host).is_some()))
}

impl ResolvesServerCert for CertificateTable {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name();
        let known = name.and_then(|name| self.claimed.find(name).or_else(|| self.certified.find(name)));
        let candidates = match (known, self.unknown_names) {
            (Some(known), _) => known,
            (None, UnknownNames::DefaultCertificate) if name.is_none() => &self.unnamed,
            (None, UnknownNames::DefaultCertificate) => &self.default,
            (None, UnknownNames::Refuse) => return None,
        };
        if candidates.is_empty()
            && let Some(OnDemandSource(Some(source))) = &self.on_demand
        {
            return source.find(name?);
        }
        let schemes = hello.signature_schemes();
        let usable = candidates.iter().find(|candidate| candidate.key.choose_scheme(schemes).is_some());
        usable.or(candidates.first()).cloned()
    }
}
