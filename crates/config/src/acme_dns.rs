//! `[acme.dns]`: how records in DNS are set for the proofs of certificates.

use std::path::PathBuf;
use std::time::Duration;

use touchstone_config_section::{Key, Kind, Section, values};

/// `[acme.dns]`
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AcmeDnsConfig {
    /// The file with the key for signed updates.
    pub key: Option<PathBuf>,
    /// The server that takes updates, `HOST` or `HOST:PORT`; empty: the primary server of the zone.
    pub server: String,
    /// The program that sets and removes records, with its first arguments; empty: none.
    pub hook: Vec<String>,
    /// How long one call of the program may take.
    pub hook_timeout: Duration,
    /// The recursive servers, as addresses with ports; empty: those of the system.
    pub resolvers: Vec<String>,
    /// The servers that must show a record, as addresses with ports; empty: all servers of the zone.
    pub check_servers: Vec<String>,
    /// How long to wait for that.
    pub wait: Duration,
    /// How long others may cache the records.
    pub ttl: Duration,
}

/// `[acme.dns]`
pub static ACME_DNS: Section<AcmeDnsConfig> = Section {
    name: "acme.dns",
    repeated: false,
    documentation: "How the server sets the TXT records of the challenge `\"dns-01\"`: by updates that are \
        signed with a key (RFC 2136, TSIG), which BIND, Knot DNS and PowerDNS take, or by a program of \
        yours for any other name service. Either `key` or `hook` must be set for it. \
        `\"dns-persist-01\"` uses `resolvers` only.",
    blank: || AcmeDnsConfig {
        key: None,
        server: String::new(),
        hook: Vec::new(),
        hook_timeout: Duration::ZERO,
        resolvers: Vec::new(),
        check_servers: Vec::new(),
        wait: Duration::ZERO,
        ttl: Duration::ZERO,
    },
    keys: &[
        Key {
            name: "key",
            default: Some("\"\""),
            example: "\"tls/acme.tsig\"",
            documentation: "A file with the key for updates, as `tsig-keygen` or `keymgr -t` writes it, or \
                one line `ALGORITHM:NAME:SECRET`. The algorithm is hmac-sha256, hmac-sha384 or hmac-sha512. \
                Other users must not be able to read the file.",
            kind: Kind::File(|dns, value| dns.key = value),
        },
        Key {
            name: "server",
            default: Some("\"\""),
            example: "\"192.0.2.53\"",
            documentation: "The server that takes updates: a host or an address, with a port if it is not \
                53. Empty: the primary server of the zone, by its SOA record.",
            kind: Kind::Checked {
                what: "host or address, with a port or without",
                parse: |text, _| parse_server(text),
                set: |dns, value| dns.server = value,
            },
        },
        Key {
            name: "hook",
            default: Some("[]"),
            example: "[\"/usr/local/bin/dns-record\"]",
            documentation: "A program that sets and removes records, with its first arguments. It is called \
                with the further arguments `present NAME VALUE` or `cleanup NAME VALUE`, and with the same \
                values in the environment (see [the hook](acme.md#a-program-for-any-other-name-service)).",
            kind: Kind::CheckedArray {
                what: "array of a program and its first arguments",
                parse: |text| match text.contains('\0') {
                    true => Err("an argument must not contain a NUL character".to_string()),
                    false => Ok(text.to_string()),
                },
                set: |dns, value| dns.hook = value,
            },
        },
        Key {
            name: "hook_timeout",
            default: Some("\"2m\""),
            example: "\"30s\"",
            documentation: "How long one call of the program may take; then it is ended.",
            kind: Kind::Duration {
                least: Duration::from_secs(1),
                most: Duration::from_secs(600),
                set: |dns, value| dns.hook_timeout = value,
            },
        },
        Key {
            name: "resolvers",
            default: Some("[]"),
            example: "[\"192.0.2.1:53\"]",
            documentation: "The recursive name servers by which zones, aliases and name servers are found. \
                Empty: those in `/etc/resolv.conf`.",
            kind: Kind::CheckedArray {
                what: "array of addresses, with ports or without",
                parse: parse_address,
                set: |dns, value| dns.resolvers = value,
            },
        },
        Key {
            name: "check_servers",
            default: Some("[]"),
            example: "[\"192.0.2.53:53\"]",
            documentation: "The name servers that must return a new record before the authority is requested \
                to check it. Empty: all servers of the zone, by its NS records.",
            kind: Kind::CheckedArray {
                what: "array of addresses, with ports or without",
                parse: parse_address,
                set: |dns, value| dns.check_servers = value,
            },
        },
        Key {
            name: "wait",
            default: Some("\"2m\""),
            example: "\"5m\"",
            documentation: "How long to wait until the servers show a new record. After that the order \
                fails, and is tried again later.",
            kind: Kind::Duration {
                least: Duration::from_secs(1),
                most: Duration::from_secs(600),
                set: |dns, value| dns.wait = value,
            },
        },
        Key {
            name: "ttl",
            default: Some("\"1m\""),
            example: "\"5m\"",
            documentation: "How long others may cache a record that is set by an update.",
            kind: Kind::Duration {
                least: Duration::from_secs(1),
                most: Duration::from_secs(24 * 3600),
                set: |dns, value| dns.ttl = value,
            },
        },
    ],
};

/// The server of updates.
fn parse_server(text: &str) -> Result<String, String> {
    if text.is_empty() || parse_address(text).is_ok() {
        return Ok(text.to_string());
    }
    let (host, port) = text.rsplit_once(':').unwrap_or((text, "53"));
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    match values::parse_host(host) {
        Ok(host) if is_port && !host.contains('*') => Ok(text.to_string()),
        _ => Err(format!(
            "{:?} is not a name server, such as \"ns1.example.org\" or \"192.0.2.53:53\"",
            values::shorten(text)
        )),
    }
}

/// An address of a name server; the port is 53 where none is written.
fn parse_address(text: &str) -> Result<String, String> {
    use std::net::{IpAddr, SocketAddr};
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, 53).to_string());
    }
    match text.parse::<SocketAddr>() {
        Ok(address) if address.port() > 0 => Ok(address.to_string()),
        _ => Err(format!("{:?} is not an address, such as \"192.0.2.1:53\"", values::shorten(text))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_text;
    use std::path::Path;

    #[test]
    fn name_servers() {
        for (text, expected) in [
            ("192.0.2.1", "192.0.2.1:53"),
            ("::1", "[::1]:53"),
            ("[::1]", "[::1]:53"),
            ("[::1]:5", "[::1]:5"),
        ] {
            assert_eq!(parse_address(text).as_deref(), Ok(expected));
        }
        for bad in ["", "a.org", "192.0.2.1:0", "192.0.2.1:x", "::1:53:x"] {
            assert!(parse_address(bad).is_err(), "{bad}");
        }
        for good in ["", "ns1.a.org", "ns1.a.org:5353", "192.0.2.1", "[::1]:53"] {
            assert!(parse_server(good).is_ok(), "{good}");
        }
        for bad in ["ns1.a.org:0", "ns1.a.org:dns", "*.a.org", "a b", "http://a.org/"] {
            assert!(parse_server(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn one_way_to_set_records() {
        let problems = |dns: &str| {
            let text = format!(
                "[acme]\ndirectory = 'letsencrypt'\nagree_to_terms = true\nchallenges = ['dns-01']\n{dns}\n\
                 [[site]]\nlisten = ['127.0.0.1:0']\nroot = 'www'\nhosts = ['*.a.org']\n\
                 certificate = 'acme'\n"
            );
            match load_text(&text, Path::new("/etc/t.toml")) {
                Ok(_) => String::new(),
                Err(problems) => problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
            }
        };
        assert_eq!(problems("dns = { key = 'k' }"), "");
        assert_eq!(problems("dns = { hook = ['/bin/true', '--zone'] }"), "");
        assert!(problems("").contains("\"dns-01\" needs [acme.dns]"));
        assert!(problems("dns = { wait = '1m' }").contains("needs 'key'"));
        assert!(problems("dns = { key = 'k', hook = ['/x'] }").contains("both 'key' and 'hook'"));
        assert!(problems("dns = { hook = ['/x'], server = 'a.org' }").contains("has no effect with 'hook'"));
    }
}
