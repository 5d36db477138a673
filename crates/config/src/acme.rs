//! `[acme]`: the authority that issues certificates for the sites with `certificate = "acme"`.

use std::path::PathBuf;
use std::time::Duration;

use touchstone_config_section::reader::alternatives;
use touchstone_config_section::{ABSENT, Key, Kind, Section, SectionPlaces, values};

use super::acme_dns::{ACME_DNS, AcmeDnsConfig};
use super::acme_nats::{ACME_NATS, AcmeNatsConfig};
use super::acme_on_demand::{ACME_ON_DEMAND, OnDemandConfig};
use super::config_reader::ConfigReader;
use super::host_address::host_address;
use super::{ConfigWithPlaces, SiteConfig};

/// Let's Encrypt, whose certificates browsers trust.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// Let's Encrypt's directory for tests.
const LETS_ENCRYPT_STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";

/// `[acme]`
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AcmeConfig {
    /// The URL of the authority's directory; empty without `[acme]`.
    pub directory: String,
    /// The operator agrees to the authority's terms of service.
    pub agree_to_terms: bool,
    /// Where the authority may write to, as URLs (`mailto:`).
    pub contact: Vec<String>,
    /// The directory for account and certificates.
    pub storage: PathBuf,
    /// The authority that must have signed the directory's own certificate, PEM; `None`: those that the
    /// system trusts.
    pub ca_certificate: Option<PathBuf>,
    /// An account that the operator already has with the authority.
    pub external_account: Option<ExternalAccountConfig>,
    /// The proofs to offer, the preferred one first.
    pub challenges: Vec<AcmeChallenge>,
    /// How records are set for the proofs in DNS.
    pub dns: Option<AcmeDnsConfig>,
    /// Certificates for names that the configuration does not list.
    pub on_demand: Option<OnDemandConfig>,
    /// Several machines use the same storage.
    pub shared: bool,
    /// Several machines share certificates by this bucket.
    pub nats: Option<AcmeNatsConfig>,
    /// How long a machine that makes an order may be silent before another one takes its place.
    pub lease: Duration,
    /// The kind of certificate to request, by the authority's name for it; empty: its default.
    pub profile: String,
    /// The share of a certificate's life after which it is renewed, in percent.
    pub renew_at_percent: u64,
    /// Request the time of renewal from the authority.
    pub renewal_information: bool,
    /// The wait after the first failure.
    pub retry_after: Duration,
    /// The longest wait after a failure.
    pub retry_at_most: Duration,
}

/// `[acme.external_account]`
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ExternalAccountConfig {
    /// The authority's name for the account.
    pub key_id: String,
    /// The file with the key of the account.
    pub hmac_key: Option<PathBuf>,
}

/// The kinds of proof that this server serves a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AcmeChallenge {
    /// In a TLS handshake on port 443 (RFC 8737).
    TlsAlpn01,
    /// By an answer in plain HTTP on port 80 (RFC 8555 section 8.3).
    Http01,
    /// By a TXT record that is set for one order (RFC 8555 section 8.4).
    Dns01,
    /// By a TXT record that stays (draft-ietf-acme-dns-persist).
    DnsPersist01,
}

impl AcmeChallenge {
    const ALL: [AcmeChallenge; 4] =
        [AcmeChallenge::TlsAlpn01, AcmeChallenge::Http01, AcmeChallenge::Dns01, AcmeChallenge::DnsPersist01];

    /// Its name in the registry of ACME.
    pub fn name(self) -> &'static str {
        match self {
            AcmeChallenge::TlsAlpn01 => "tls-alpn-01",
            AcmeChallenge::Http01 => "http-01",
            AcmeChallenge::Dns01 => "dns-01",
            AcmeChallenge::DnsPersist01 => "dns-persist-01",
        }
    }

    /// Whether the proof is a record in DNS. Wildcards need such a proof, and addresses cannot have it.
    pub fn is_in_dns(self) -> bool {
        matches!(self, AcmeChallenge::Dns01 | AcmeChallenge::DnsPersist01)
    }

    fn parse(text: &str) -> Result<AcmeChallenge, String> {
        let known = AcmeChallenge::ALL.into_iter().find(|challenge| challenge.name() == text);
        known.ok_or_else(|| {
            let names = AcmeChallenge::ALL.map(|challenge| format!("\"{}\"", challenge.name()));
            format!("{:?} is not a challenge; write {}", values::shorten(text), alternatives(&names))
        })
    }
}

impl Default for AcmeConfig {
    fn default() -> AcmeConfig {
        ACME.defaults()
    }
}

/// `[acme]`
pub static ACME: Section<AcmeConfig> = Section {
    name: "acme",
    repeated: false,
    documentation: "The authority that issues the certificates of the sites with `certificate = \"acme\"` \
        (RFC 8555). The server requests them when it starts, stores them, and renews them in time.",
    blank: || AcmeConfig {
        directory: String::new(),
        agree_to_terms: false,
        contact: Vec::new(),
        storage: PathBuf::new(),
        ca_certificate: None,
        external_account: None,
        challenges: Vec::new(),
        dns: None,
        on_demand: None,
        shared: false,
        nats: None,
        lease: Duration::ZERO,
        profile: String::new(),
        renew_at_percent: 0,
        renewal_information: false,
        retry_after: Duration::ZERO,
        retry_at_most: Duration::ZERO,
    },
    keys: &[
        Key {
            name: "directory",
            default: None,
            example: "\"letsencrypt-staging\"",
            documentation: "The authority, by the URL of its directory. `\"letsencrypt\"` and \
                `\"letsencrypt-staging\"` are those of Let's Encrypt. Begin with `\"letsencrypt-staging\"`: \
                browsers do not trust its certificates, but failed attempts do not count for the limits of \
                `\"letsencrypt\"`.",
            kind: Kind::Checked {
                what: "`\"letsencrypt\"`, `\"letsencrypt-staging\"` or a URL with `https://`",
                parse: |text, _| parse_directory(text),
                set: |acme, value| acme.directory = value,
            },
        },
        Key {
            name: "agree_to_terms",
            default: Some("false"),
            example: "true",
            documentation: "Whether you have read the authority's terms of service and agree to them. \
                Without `true`, no certificate is requested.",
            kind: Kind::Boolean(|acme, value| acme.agree_to_terms = value),
        },
        Key {
            name: "contact",
            default: Some("[]"),
            example: "[\"admin@example.org\"]",
            documentation: "Mail addresses of the operator, for messages of the authority. Some authorities \
                require one.",
            kind: Kind::CheckedArray {
                what: "array of mail addresses",
                parse: parse_contact,
                set: |acme, value| acme.contact = value,
            },
        },
        Key {
            name: "storage",
            default: Some("\"/var/lib/touchstone/acme\""),
            example: "\"/var/lib/touchstone/acme\"",
            documentation: "The directory for the account key, the certificates and their keys. It is \
                created if it is missing; only its owner can read it. Keep it: lost certificates are \
                requested again at the next start, but authorities limit how often.",
            kind: Kind::Directory(|acme, value| acme.storage = value),
        },
        Key {
            name: "shared",
            default: Some("false"),
            example: "true",
            documentation: "Whether several machines use the same `storage`, a directory of a network file \
                system. Then one of them makes an order at a time, and all of them show its proofs and serve \
                the certificates.",
            kind: Kind::Boolean(|acme, value| acme.shared = value),
        },
        Key {
            name: "nats",
            default: Some(ABSENT),
            example: "{ url = \"tls://nats.internal.example:4222\" }",
            documentation: "A NATS key-value bucket by which several machines share certificates, without a \
                network file system; see `[acme.nats]`.",
            kind: Kind::Table {
                read: |reader, value, acme| reader.table_into(&ACME_NATS, value, &mut acme.nats),
            },
        },
        Key {
            name: "lease",
            default: Some("\"30s\""),
            example: "\"1m\"",
            documentation: "With `shared` or `nats`: how long a machine that makes an order may be silent \
                before another machine takes its place.",
            kind: Kind::Duration {
                least: Duration::from_secs(1),
                most: Duration::from_secs(3600),
                set: |acme, value| acme.lease = value,
            },
        },
        Key {
            name: "ca_certificate",
            default: Some("\"\""),
            example: "\"tls/our-authority.pem\"",
            documentation: "A PEM file with the authority that must have signed the directory's own HTTPS \
                certificate, for your own ACME server. Empty: those that the system trusts.",
            kind: Kind::File(|acme, value| acme.ca_certificate = value),
        },
        Key {
            name: "external_account",
            default: Some(ABSENT),
            example: "{ key_id = \"kid-1\", hmac_key = \"tls/acme-account.hmac\" }",
            documentation: "Binds the ACME account to an account that you already have with the authority, \
                see `[acme.external_account]`.",
            kind: Kind::Table {
                read: |reader, value, acme| {
                    reader.table_into(&EXTERNAL_ACCOUNT, value, &mut acme.external_account)
                },
            },
        },
        Key {
            name: "challenges",
            default: Some("[\"tls-alpn-01\", \"http-01\"]"),
            example: "[\"http-01\"]",
            documentation: "How the server proves that it serves a host name, the preferred challenge first. \
                `\"tls-alpn-01\"` needs a connection to port 443, `\"http-01\"` one to port 80, where a site \
                must listen in plain HTTP; without such a site it is not used. `\"dns-01\"` sets a record in \
                DNS for each order (`dns`), `\"dns-persist-01\"` needs one record that stays; wildcards need \
                one of these two. If the first challenge fails, the next is tried.",
            kind: Kind::CheckedArray {
                what: "array of `\"tls-alpn-01\"`, `\"http-01\"`, `\"dns-01\"` and `\"dns-persist-01\"`",
                parse: |text| AcmeChallenge::parse(text).map(|challenge| challenge.name().to_string()),
                set: |acme, names| {
                    acme.challenges =
                        names.iter().filter_map(|name| AcmeChallenge::parse(name).ok()).collect();
                },
            },
        },
        Key {
            name: "dns",
            default: Some(ABSENT),
            example: "{ key = \"tls/acme.tsig\" }",
            documentation: "How records in DNS are set for `\"dns-01\"`: by signed updates, or by a program \
                that you provide; see `[acme.dns]`.",
            kind: Kind::Table {
                read: |reader, value, acme| reader.table_into(&ACME_DNS, value, &mut acme.dns),
            },
        },
        Key {
            name: "on_demand",
            default: Some(ABSENT),
            example: "{ ask = \"http://127.0.0.1:9000/allowed\" }",
            documentation: "The rules for sites with `certificate_on_demand = true`, whose names get their \
                certificates at their first handshake; see `[acme.on_demand]`.",
            kind: Kind::Table {
                read: |reader, value, acme| reader.table_into(&ACME_ON_DEMAND, value, &mut acme.on_demand),
            },
        },
        Key {
            name: "profile",
            default: Some("\"\""),
            example: "\"shortlived\"",
            documentation: "The kind of certificate, by the authority's name for it, such as \
                `\"shortlived\"` at Let's Encrypt. Empty: the authority's default, and `\"shortlived\"` for \
                certificates with IP addresses if the authority has it.",
            kind: Kind::Token(|acme, value| acme.profile = value),
        },
        Key {
            name: "renew_at_percent",
            default: Some("60"),
            example: "60",
            documentation: "How much of a certificate's life has passed when it is renewed, in percent. \
                The time is chosen at random from the 5 % that follow. If the authority suggests a time \
                (`renewal_information`), that one is used.",
            kind: Kind::Number { least: 1, most: 90, set: |acme, value| acme.renew_at_percent = value },
        },
        Key {
            name: "renewal_information",
            default: Some("true"),
            example: "true",
            documentation: "Whether the server requests the time of renewal from the authority (ARI, RFC \
                9773), if the authority supports it. In this way the authority announces in advance that \
                certificates will be revoked.",
            kind: Kind::Boolean(|acme, value| acme.renewal_information = value),
        },
        Key {
            name: "retry_after",
            default: Some("\"5m\""),
            example: "\"10m\"",
            documentation: "How long to wait after a failure before a certificate is requested again. \
                The wait doubles with each further failure, up to `retry_at_most`. No certificate is \
                requested twice within this time or a minute, whichever is shorter, even after a restart.",
            kind: Kind::Duration {
                least: Duration::from_secs(1),
                most: Duration::from_secs(24 * 3600),
                set: |acme, value| acme.retry_after = value,
            },
        },
        Key {
            name: "retry_at_most",
            default: Some("\"12h\""),
            example: "\"6h\"",
            documentation: "The longest wait after a failure.",
            kind: Kind::Duration {
                least: Duration::from_secs(1),
                most: Duration::from_secs(7 * 24 * 3600),
                set: |acme, value| acme.retry_at_most = value,
            },
        },
    ],
};

/// `[acme.external_account]`
pub static EXTERNAL_ACCOUNT: Section<ExternalAccountConfig> = Section {
    name: "acme.external_account",
    repeated: false,
    documentation: "An account that you already have with the authority (external account binding, RFC 8555 \
        section 7.3.4). The authority issues both values.",
    blank: || ExternalAccountConfig { key_id: String::new(), hmac_key: None },
    keys: &[
        Key {
            name: "key_id",
            default: None,
            example: "\"kid-1\"",
            documentation: "The authority's name for the account.",
            kind: Kind::Checked {
                what: "string",
                parse: |text, _| match text.trim() {
                    "" => Err("an empty string is not the name of an account".to_string()),
                    _ => Ok(text.to_string()),
                },
                set: |account, value| account.key_id = value,
            },
        },
        Key {
            name: "hmac_key",
            default: None,
            example: "\"tls/acme-account.hmac\"",
            documentation: "A file with the account's HMAC key in base64url, in the form that the authority \
                issued. Only the server should be able to read it.",
            kind: Kind::File(|account, value| account.hmac_key = value),
        },
    ],
};

fn parse_directory(text: &str) -> Result<String, String> {
    match text {
        "letsencrypt" => return Ok(LETS_ENCRYPT.to_string()),
        "letsencrypt-staging" => return Ok(LETS_ENCRYPT_STAGING.to_string()),
        _ => {}
    }
    let shown = values::shorten(text);
    let uri: Option<http::Uri> = text.parse().ok();
    match uri.as_ref().and_then(http::Uri::scheme_str) {
        Some("https") if uri.as_ref().and_then(http::Uri::host).is_some_and(|host| !host.is_empty()) => {
            Ok(text.to_string())
        }
        Some("http") => Err(format!("{shown:?} is not safe from others on the way; write it with https://")),
        _ => {
            let near = values::nearest(text, ["letsencrypt", "letsencrypt_staging"]);
            let advice =
                near.map_or(String::new(), |near| format!("; did you mean \"{}\"?", near.replace('_', "-")));
            Err(format!("{shown:?} is not the URL of a directory, such as \"{LETS_ENCRYPT}\"{advice}"))
        }
    }
}

/// A mail address, as a URL.
fn parse_contact(text: &str) -> Result<String, String> {
    let address = text.strip_prefix("mailto:").unwrap_or(text);
    let is_plain = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_graphic() && !b"@,;<>?".contains(&byte))
    };
    match address.split_once('@') {
        Some((local, domain)) if is_plain(local) && is_plain(domain) => Ok(format!("mailto:{address}")),
        _ => Err(format!("{:?} is not a mail address, such as \"admin@example.org\"", values::shorten(text))),
    }
}

impl ConfigReader<'_> {
    /// Reports sites whose certificates cannot be issued by ACME, and keys of `[acme]` that are missing for
    /// the others.
    pub(super) fn check_acme(&mut self, loaded: &ConfigWithPlaces) {
        let sites = || loaded.config.sites.iter().zip(&loaded.places.sites);
        for (site, places) in sites().filter(|(site, _)| site.tls.acme) {
            let challenges = &loaded.config.acme.challenges;
            self.check_acme_site(site, places, challenges);
        }
        let Some((_, first)) = sites().find(|(site, _)| site.tls.acme) else { return };
        let acme = &loaded.config.acme;
        let Some(places) = loaded.places.sections.get(ACME.name) else {
            let message = "'certificate' \"acme\" needs a section [acme], with 'directory' and \
                'agree_to_terms' (see docs/acme.md)";
            return self.problem(first.key("certificate"), message.to_string());
        };
        if !acme.agree_to_terms {
            let message = "'agree_to_terms' must be true for certificates to be requested: it states that \
                you have read the authority's terms of service and agree to them";
            self.problem(places.key("agree_to_terms"), message.to_string());
        }
        if acme.retry_at_most < acme.retry_after {
            let message = "'retry_at_most' is shorter than 'retry_after'".to_string();
            self.problem(places.key("retry_at_most"), message);
        }
        let speaks_plain_http = sites().any(|(site, _)| !site.tls.is_on());
        match acme.challenges[..] {
            [] => {
                let names = AcmeChallenge::ALL.map(|challenge| format!("\"{}\"", challenge.name()));
                let message = format!("'challenges' is empty; name {}", alternatives(&names));
                self.problem(places.key("challenges"), message);
            }
            [AcmeChallenge::Http01] if !speaks_plain_http => {
                let message = "'challenges': \"http-01\" needs a [[site]] that listens in plain HTTP, where \
                    the authority finds it on port 80";
                self.problem(places.key("challenges"), message.to_string());
            }
            _ => {}
        }
        if acme.challenges.contains(&AcmeChallenge::Dns01) && acme.dns.is_none() {
            let message = "'challenges': \"dns-01\" needs [acme.dns], with a 'key' for signed updates or a \
                'hook' (see docs/acme.md)";
            self.problem(places.key("challenges"), message.to_string());
        }
        self.check_acme_dns(acme, places);
        if acme.shared && acme.nats.is_some() {
            let message = "'shared' and 'acme.nats' are two ways to share certificates; choose one";
            self.problem(places.key("shared"), message.to_string());
        }
        let wait = acme.on_demand.as_ref().map(|rules| rules.wait);
        if wait.is_some_and(|wait| wait > loaded.config.limits.header_timeout) {
            let message = "'acme.on_demand.wait' is longer than 'limits.header_timeout', after which the \
                connection is closed";
            self.problem(places.key("on_demand"), message.to_string());
        }
        let needs_rules = sites().find(|(site, _)| site.tls.on_demand);
        if let Some((_, site)) = needs_rules.filter(|_| acme.on_demand.is_none()) {
            let message = "'certificate_on_demand' needs [acme.on_demand], with the 'ask' URL that decides \
                which names may have a certificate (see docs/acme.md)";
            self.problem(site.key("certificate_on_demand"), message.to_string());
        }
    }

    /// Checks that `[acme.dns]` names one way to set records.
    fn check_acme_dns(&mut self, acme: &AcmeConfig, places: &SectionPlaces) {
        let Some(dns) = &acme.dns else { return };
        let message = match (dns.key.is_some(), !dns.hook.is_empty()) {
            (true, true) => "'acme.dns' has both 'key' and 'hook'; choose one",
            // Without it, the section only names the servers to query.
            (false, false) if !acme.challenges.contains(&AcmeChallenge::Dns01) => return,
            (false, false) => "'acme.dns' needs 'key', the file of a key for signed updates, or 'hook'",
            (false, true) if !dns.server.is_empty() => {
                "'acme.dns.server' has no effect with 'hook': the program changes the zone"
            }
            _ => return,
        };
        self.problem(places.key("dns"), message.to_string());
    }

    fn check_acme_site(&mut self, site: &SiteConfig, places: &SectionPlaces, challenges: &[AcmeChallenge]) {
        if site.tls.on_demand {
            return;
        }
        if site.hosts.is_empty() {
            let message = "'certificate' \"acme\" needs 'hosts', the names that the certificate is for";
            self.problem(places.key("certificate"), message.to_string());
        }
        for (position, host) in site.hosts.iter().enumerate() {
            let reason = if host.contains('*') && !challenges.iter().any(|challenge| challenge.is_in_dns()) {
                "a certificate for a wildcard needs a proof in DNS: add \"dns-01\" to 'acme.challenges' and \
                 set 'acme.dns', or add \"dns-persist-01\""
            } else if host_address(host).is_some() && challenges.iter().all(|challenge| challenge.is_in_dns())
            {
                "a certificate for an IP address needs \"tls-alpn-01\" or \"http-01\" in 'acme.challenges'"
            } else if host.contains('_') {
                "authorities issue no certificates for names with '_'"
            } else {
                continue;
            };
            self.problem(places.item("hosts", position), format!("'hosts': {host:?}: {reason}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, load_text};
    use std::path::Path;

    const ACME_SECTION: &str = "[acme]\ndirectory = 'letsencrypt-staging'\nagree_to_terms = true\n";
    const SITE: &str =
        "[[site]]\nlisten = ['127.0.0.1:0']\nroot = 'www'\nhosts = ['a.org']\ncertificate = 'acme'\n";

    fn read(text: &str) -> Result<Config, Vec<String>> {
        load_text(text, Path::new("/etc/t.toml")).map(|loaded| loaded.config).map_err(|problems| {
            problems.iter().map(|problem| problem.to_string().replace("/etc/t.toml:", "")).collect()
        })
    }

    fn problems(text: &str) -> Vec<String> {
        read(text).expect_err(text)
    }

    #[test]
    fn a_site_with_acme() {
        let config = read(&format!("{ACME_SECTION}contact = ['a@b.org']\n{SITE}")).unwrap();
        assert!(config.sites[0].tls.acme && config.sites[0].tls.is_on());
        assert_eq!(config.sites[0].tls.certificate, None);
        assert_eq!(config.acme.directory, LETS_ENCRYPT_STAGING);
        assert_eq!(config.acme.contact, ["mailto:a@b.org"]);
        assert_eq!(config.acme.challenges, [AcmeChallenge::TlsAlpn01, AcmeChallenge::Http01]);
        assert_eq!(config.acme.storage, Path::new("/var/lib/touchstone/acme"));
    }

    #[test]
    fn a_file_of_that_name_is_still_a_file() {
        let config = read(&SITE.replace("'acme'", "'./acme'")).unwrap();
        assert!(!config.sites[0].tls.acme);
        assert_eq!(config.sites[0].tls.certificate.as_deref(), Some(Path::new("/etc/./acme")));
    }

    #[test]
    fn what_is_missing_is_said_where_it_belongs() {
        assert!(problems(SITE)[0].starts_with("5:15: 'certificate' \"acme\" needs a section [acme]"));
        let no_terms = ACME_SECTION.replace("true", "false");
        assert!(problems(&format!("{no_terms}{SITE}"))[0].starts_with("3:18: 'agree_to_terms' must be true"));
        let no_directory = "[acme]\nagree_to_terms = true\n";
        assert!(problems(&format!("{no_directory}{SITE}"))[0].starts_with("1:1: [acme] needs 'directory'"));
        let no_hosts = SITE.replace("hosts = ['a.org']\n", "");
        assert!(problems(&format!("{ACME_SECTION}{no_hosts}"))[0].contains("needs 'hosts'"));
        let only_http = format!("{ACME_SECTION}challenges = ['http-01']\n{SITE}");
        assert!(problems(&only_http)[0].starts_with("4:14: 'challenges': \"http-01\" needs a [[site]]"));
        let none = format!("{ACME_SECTION}challenges = []\n{SITE}");
        assert!(problems(&none)[0].contains("'challenges' is empty; name \"tls-alpn-01\", \"http-01\""));
        let shorter = format!("{ACME_SECTION}retry_at_most = '1m'\n{SITE}");
        assert!(problems(&shorter)[0].starts_with("4:17: 'retry_at_most' is shorter"));
    }

    #[test]
    fn hosts_that_get_no_certificate() {
        let with =
            |host: &str| problems(&format!("{ACME_SECTION}{}", SITE.replace("a.org", host))).join("\n");
        assert!(with("*.a.org").contains("7:10: 'hosts': \"*.a.org\": a certificate for a wildcard needs"));
        let dns = "[acme]\ndirectory = 'letsencrypt'\nagree_to_terms = true\nchallenges = ['dns-01']\n\
            dns = { hook = ['/bin/true'] }\n";
        assert!(read(&format!("{dns}{}", SITE.replace("a.org", "*.a.org"))).is_ok());
        let address = problems(&format!("{dns}{}", SITE.replace("a.org", "192.0.2.1")));
        assert!(address[0].contains("an IP address needs \"tls-alpn-01\""), "{address:?}");
        for address in ["192.0.2.1", "[2001:db8::1]"] {
            assert!(read(&format!("{ACME_SECTION}{}", SITE.replace("a.org", address))).is_ok(), "{address}");
        }
        assert_eq!(host_address("[::1]"), Some("::1".parse().unwrap()));
        assert_eq!((host_address("a.org"), host_address("*.a.org")), (None, None));
        assert!(with("a_b.org").contains("names with '_'"));
    }

    #[test]
    fn values_that_are_refused() {
        for (directory, expected) in [
            ("http://a.org/", "write it with https://"),
            ("letsencrypt-stagin", "did you mean \"letsencrypt-staging\"?"),
            ("a.org", "is not the URL of a directory"),
            ("https://", "is not the URL of a directory"),
        ] {
            let message = parse_directory(directory).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
        assert!(parse_directory("https://localhost:14000/dir").is_ok());
        for contact in ["", "a", "a@", "@b", "a@b@c", "a b@c", "tel:+1", "a@b,c@d", "a@b\n"] {
            assert!(parse_contact(contact).is_err(), "{contact:?}");
        }
        assert!(AcmeChallenge::parse("dns-02").unwrap_err().contains("\"dns-01\" or \"dns-persist-01\""));
    }
}
