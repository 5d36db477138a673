//! Finds the certificates that a configuration needs.

use std::path::PathBuf;
use std::sync::Arc;

use touchstone_config::{AcmeChallenge, AcmeConfig, Config, host_address};

use super::storage::Storage;

/// The certificates that are needed, and their authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// `[acme]`, with the challenges that can succeed on this server.
    pub settings: Arc<AcmeConfig>,
    /// The certificates.
    pub certificates: Vec<CertificatePlan>,
    /// Whether names of any site get certificates at their first handshake.
    pub on_demand: bool,
}

/// One certificate that is needed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CertificatePlan {
    /// The host names of the certificate; the first one names it.
    pub names: Vec<String>,
    /// It was requested by a handshake.
    pub is_on_demand: bool,
}

impl CertificatePlan {
    /// For a name of a handshake.
    pub fn on_demand(name: &str) -> CertificatePlan {
        CertificatePlan { names: vec![name.to_string()], is_on_demand: true }
    }

    /// The name of its directory in the storage. Certificates on demand have a separate directory: there may
    /// be many.
    pub fn storage_name(&self) -> String {
        match self.is_on_demand {
            true => format!("on-demand/{}", self.label()),
            false => self.label().to_string(),
        }
    }

    /// The name of the certificate in messages.
    pub fn label(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }
}

impl Plan {
    /// The plan of a configuration; `None` if no site has a certificate by ACME.
    pub fn of(config: &Config) -> Option<Plan> {
        let mut certificates: Vec<CertificatePlan> = Vec::new();
        for site in config.sites.iter().filter(|site| site.tls.acme && !site.tls.on_demand) {
            let Some(first) = site.hosts.first() else { continue };
            match certificates.iter_mut().find(|certificate| certificate.names.first() == Some(first)) {
                // Sites with the same first host share a file, and one certificate for all their hosts.
                Some(known) => {
                    for host in &site.hosts {
                        if !known.names.contains(host) {
                            known.names.push(host.clone());
                        }
                    }
                }
                None => certificates.push(CertificatePlan { names: site.hosts.clone(), is_on_demand: false }),
            }
        }
        let on_demand = config.sites.iter().any(|site| site.tls.on_demand);
        if certificates.is_empty() && !on_demand {
            return None;
        }
        let mut settings = config.acme.clone();
        if config.sites.iter().all(|site| site.tls.is_on()) {
            // No site on this server could answer in plain HTTP.
            settings.challenges.retain(|challenge| *challenge != AcmeChallenge::Http01);
        }
        Some(Plan { settings: Arc::new(settings), certificates, on_demand })
    }
}

/// The records that the operator sets once for DNS-PERSIST-01, as lines of a zone file. They are available
/// after the account was registered.
pub fn records_to_set(config: &Config) -> Vec<String> {
    let persists = config.acme.challenges.contains(&AcmeChallenge::DnsPersist01);
    let Some(plan) = Plan::of(config).filter(|_| persists) else { return Vec::new() };
    let Some(issuer) = Storage::new(&config.acme).issuer() else { return Vec::new() };
    let names = plan.certificates.iter().flat_map(|certificate| &certificate.names);
    let names = names.filter(|name| host_address(name).is_none());
    names.filter_map(|name| issuer.record_for(name)).collect()
}

/// The file with the certificate and its key, for a site with these hosts.
pub fn certificate_file(settings: &AcmeConfig, hosts: &[String]) -> PathBuf {
    Storage::new(settings).certificate_file(hosts.first().map_or("", String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn plan(sites: &str) -> Option<Plan> {
        let acme = "[acme]\ndirectory = 'https://ca.test:14000/dir'\nagree_to_terms = true\nstorage = '/s'\n";
        Plan::of(&touchstone_config::parse(&format!("{acme}{sites}"), Path::new("/etc/t.toml")).unwrap())
    }

    fn site(port: u16, hosts: &str, certificate: &str) -> String {
        let listen = format!("listen = ['127.0.0.1:{port}']");
        format!("[[site]]\n{listen}\nroot = 'www'\nhosts = {hosts}\n{certificate}\n")
    }

    #[test]
    fn no_site_no_plan() {
        assert_eq!(plan(&site(80, "['a.org']", "")), None);
    }

    #[test]
    fn sites_that_begin_with_the_same_host_share_a_certificate() {
        let acme = "certificate = 'acme'";
        let sites = site(443, "['a.org', 'www.a.org']", acme)
            + &site(8443, "['a.org', 'b.org']", acme)
            + &site(9443, "['b.org']", acme);
        let names: Vec<Vec<String>> =
            plan(&sites).unwrap().certificates.into_iter().map(|certificate| certificate.names).collect();
        assert_eq!(names, [vec!["a.org", "www.a.org", "b.org"], vec!["b.org"]]);
    }

    #[test]
    fn http_01_is_offered_only_where_someone_could_answer() {
        let acme = site(443, "['a.org']", "certificate = 'acme'");
        assert_eq!(plan(&acme).unwrap().settings.challenges, [AcmeChallenge::TlsAlpn01]);
        let both = plan(&(acme + &site(80, "['a.org']", ""))).unwrap();
        assert_eq!(both.settings.challenges, [AcmeChallenge::TlsAlpn01, AcmeChallenge::Http01]);
    }

    #[test]
    fn each_authority_has_files_of_its_own() {
        let file = |directory: &str| {
            let acme = AcmeConfig {
                directory: directory.to_string(),
                storage: "/s".into(),
                ..AcmeConfig::default()
            };
            certificate_file(&acme, &["a.org".to_string(), "b.org".to_string()]).display().to_string()
        };
        assert_eq!(file("https://ca.test:14000/dir"), "/s/ca.test+14000_dir/a.org/certificate.pem");
        assert_eq!(file("https://ca.test/../../etc"), "/s/ca.test_.._.._etc/a.org/certificate.pem");
        assert_ne!(file("https://ca.test/a"), file("https://ca.test/b"));
    }
}
