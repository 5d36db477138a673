//! `[acme.on_demand]`: certificates for names that the configuration does not list.

use std::time::Duration;

use touchstone_config_section::{Key, Kind, Section, as_usize, values};

use super::host_address::host_address;

/// `[acme.on_demand]`
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OnDemandConfig {
    /// The URL that decides whether a name may have a certificate.
    pub ask: String,
    /// How long a handshake waits for its certificate.
    pub wait: Duration,
    /// How many handshakes may wait at a time.
    pub waiting: usize,
    /// How many certificates may be ordered in a minute.
    pub orders_per_minute: u64,
    /// How many names may have a certificate.
    pub names: usize,
    /// How long a refusal of the URL is stored.
    pub refusal_time: Duration,
}

/// `[acme.on_demand]`
pub static ACME_ON_DEMAND: Section<OnDemandConfig> = Section {
    name: "acme.on_demand",
    repeated: false,
    documentation: "The rules for sites with `certificate_on_demand = true`. A name without a certificate \
        gets one at its first handshake, if a server of yours allows it.",
    blank: || OnDemandConfig {
        ask: String::new(),
        wait: Duration::ZERO,
        waiting: 0,
        orders_per_minute: 0,
        names: 0,
        refusal_time: Duration::ZERO,
    },
    keys: &[
        Key {
            name: "ask",
            default: None,
            example: "\"http://127.0.0.1:9000/allowed\"",
            documentation: "The URL that is requested before a certificate is ordered or renewed, with \
                `?domain=NAME` added. Status 200 allows the certificate, any other answer refuses it. \
                `http://` is for addresses of this machine only.",
            kind: Kind::Checked {
                what: "URL with `https://`, or with `http://` on this machine",
                parse: |text, _| parse_ask(text),
                set: |on_demand, value| on_demand.ask = value,
            },
        },
        Key {
            name: "wait",
            default: Some("\"9s\""),
            example: "\"9s\"",
            documentation: "How long a handshake waits for its certificate. Then it fails, and the order \
                continues for the next one. At most `limits.header_timeout`.",
            kind: Kind::Duration {
                least: Duration::from_secs(1),
                most: Duration::from_secs(120),
                set: |on_demand, value| on_demand.wait = value,
            },
        },
        Key {
            name: "waiting",
            default: Some("256"),
            example: "256",
            documentation: "How many handshakes may wait for certificates at a time; further ones fail at \
                once.",
            kind: Kind::Number {
                least: 1,
                most: 100_000,
                set: |on_demand, value| on_demand.waiting = as_usize(value),
            },
        },
        Key {
            name: "orders_per_minute",
            default: Some("10"),
            example: "10",
            documentation: "How many certificates may be ordered in a minute, all names together.",
            kind: Kind::Number {
                least: 1,
                most: 100_000,
                set: |on_demand, value| on_demand.orders_per_minute = value,
            },
        },
        Key {
            name: "names",
            default: Some("10000"),
            example: "10000",
            documentation: "How many names may have a certificate on demand.",
            kind: Kind::Number {
                least: 1,
                most: 10_000_000,
                set: |on_demand, value| on_demand.names = as_usize(value),
            },
        },
        Key {
            name: "refusal_time",
            default: Some("\"5m\""),
            example: "\"1h\"",
            documentation: "How long a refused name is stored. During this time its handshakes fail at once, \
                and the URL is not requested.",
            kind: Kind::Duration {
                least: Duration::from_secs(1),
                most: Duration::from_secs(24 * 3600),
                set: |on_demand, value| on_demand.refusal_time = value,
            },
        },
    ],
};

/// The URL to request.
fn parse_ask(text: &str) -> Result<String, String> {
    let shown = values::shorten(text);
    let uri: http::Uri = text.parse().map_err(|_| format!("{shown:?} is not a URL"))?;
    let is_local = uri.host().is_some_and(|host| {
        host == "localhost" || host_address(host).is_some_and(|address| address.is_loopback())
    });
    match uri.scheme_str() {
        Some("https") if uri.host().is_some() => Ok(text.to_string()),
        Some("http") if is_local => Ok(text.to_string()),
        Some("http") => Err(format!(
            "{shown:?} is not safe from others on the way; write it with https://, or name a server on this \
             machine"
        )),
        _ => Err(format!("{shown:?} is not a URL, such as \"http://127.0.0.1:9000/allowed\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_text;
    use std::path::Path;

    #[test]
    fn urls_to_ask() {
        for good in ["http://127.0.0.1:9/a", "http://[::1]/", "http://localhost/x?y=z", "https://a.org/"] {
            assert!(parse_ask(good).is_ok(), "{good}");
        }
        for bad in ["", "a.org", "http://a.org/", "ftp://127.0.0.1/", "/x"] {
            assert!(parse_ask(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sites_on_demand_need_rules() {
        let read = |more: &str, site: &str| {
            let text = format!(
                "[acme]\ndirectory = 'letsencrypt'\nagree_to_terms = true\n{more}\n\
                 [[site]]\nlisten = ['127.0.0.1:0']\nroot = 'www'\n{site}\ncertificate_on_demand = true\n"
            );
            match load_text(&text, Path::new("/etc/t.toml")) {
                Ok(loaded) => {
                    assert!(loaded.config.sites[0].tls.on_demand);
                    String::new()
                }
                Err(problems) => problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
            }
        };
        let rules = "on_demand = { ask = 'http://127.0.0.1:1/' }";
        assert_eq!(read(rules, "certificate = 'acme'"), "");
        assert_eq!(read(rules, "certificate = 'acme'\nhosts = ['*.a.org']"), "");
        assert!(read("", "certificate = 'acme'").contains("needs [acme.on_demand]"));
        assert!(read(rules, "").contains("has no effect without 'certificate' \"acme\""));
    }
}
