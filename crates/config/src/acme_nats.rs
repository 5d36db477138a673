//! `[acme.nats]`: the NATS key-value bucket by which several machines share certificates.

use std::path::PathBuf;

use touchstone_config_section::{Key, Kind, Section, values};

use super::host_address::host_address;

/// `[acme.nats]`
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AcmeNatsConfig {
    /// The server, `tls://HOST:PORT`, or `nats://HOST:PORT` on this machine.
    pub url: String,
    /// The bucket.
    pub bucket: String,
    /// A file with credentials.
    pub credentials: Option<PathBuf>,
    /// The authority that must have signed the server's certificate; `None`: those of the system.
    pub ca_certificate: Option<PathBuf>,
}

/// `[acme.nats]`
pub static ACME_NATS: Section<AcmeNatsConfig> = Section {
    name: "acme.nats",
    repeated: false,
    documentation: "A bucket of NATS JetStream by which several machines share the account, the \
        certificates and their keys. Each machine has a copy in its own `storage`. Only the servers may \
        have access to the bucket.",
    blank: || AcmeNatsConfig {
        url: String::new(),
        bucket: String::new(),
        credentials: None,
        ca_certificate: None,
    },
    keys: &[
        Key {
            name: "url",
            default: None,
            example: "\"tls://nats.internal.example:4222\"",
            documentation: "The NATS server. `nats://`, without encryption, is for addresses of this machine \
                only.",
            kind: Kind::Checked {
                what: "URL with `tls://`, or with `nats://` on this machine",
                parse: |text, _| parse_url(text),
                set: |nats, value| nats.url = value,
            },
        },
        Key {
            name: "bucket",
            default: Some("\"touchstone-certificates\""),
            example: "\"certificates\"",
            documentation: "The name of the bucket. It is created if it is missing, for one server of a \
                cluster; create it beforehand for more (`nats kv add --replicas 3 --history 1`).",
            kind: Kind::Checked {
                what: "name of letters, digits, `-` and `_`",
                parse: |text, _| parse_bucket(text),
                set: |nats, value| nats.bucket = value,
            },
        },
        Key {
            name: "credentials",
            default: Some("\"\""),
            example: "\"nats/certificates.creds\"",
            documentation: "A file with the credentials of a user (`nsc generate creds`), or with the seed \
                of its NKey. Other users of the machine must not be able to read it.",
            kind: Kind::File(|nats, value| nats.credentials = value),
        },
        Key {
            name: "ca_certificate",
            default: Some("\"\""),
            example: "\"nats/ca.pem\"",
            documentation: "A PEM file with the authority that must have signed the certificate of the NATS \
                server. Empty: those that the system trusts.",
            kind: Kind::File(|nats, value| nats.ca_certificate = value),
        },
    ],
};

fn parse_bucket(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    match !text.is_empty() && text.len() <= 64 && text.bytes().all(is_plain) {
        true => Ok(text.to_string()),
        false => Err(format!("{:?} is not the name of a bucket", values::shorten(text))),
    }
}

fn parse_url(text: &str) -> Result<String, String> {
    let shown = values::shorten(text);
    let uri: http::Uri = text.parse().map_err(|_| format!("{shown:?} is not a URL"))?;
    if text.contains('@') {
        return Err("a URL with a password is shown in logs; write credentials into a file".to_string());
    }
    let is_local = uri.host().is_some_and(|host| {
        host == "localhost" || host_address(host).is_some_and(|address| address.is_loopback())
    });
    match uri.scheme_str() {
        Some("tls") if uri.host().is_some() => Ok(text.to_string()),
        Some("nats") if is_local => Ok(text.to_string()),
        Some("nats") => Err(format!("{shown:?}: keys must not be sent without encryption; write tls://")),
        _ => Err(format!("{shown:?} is not a URL, such as \"tls://nats.example:4222\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_and_buckets() {
        for good in ["tls://a.org:4222", "nats://127.0.0.1:4222", "nats://localhost:4222"] {
            assert!(parse_url(good).is_ok(), "{good}");
        }
        for bad in ["", "nats://a.org:4222", "a.org", "tls://u:p@a.org", "http://a.org"] {
            assert!(parse_url(bad).is_err(), "{bad}");
        }
        assert!(!parse_url("tls://u:geheim@a.org").unwrap_err().contains("geheim"));
        assert!(parse_bucket("touchstone-certificates").is_ok());
        assert!(parse_bucket("").is_err() && parse_bucket("a.b").is_err());
    }
}
