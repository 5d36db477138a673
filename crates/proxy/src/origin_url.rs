//! The address of an origin, and its role in a group: `https://app.example:8443/base weight=2`.

use std::fmt;
use std::path::PathBuf;

use touchstone_http::grammar::is_token;

/// `http://host:port/path`, `https://host:port/path` or `unix:/path/of/socket`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OriginUrl {
    /// Where it listens.
    pub address: Address,
    /// Whether TLS is used.
    pub is_tls: bool,
    /// The value of `Host`, if the configuration selects the origin's name.
    pub authority: String,
    /// The prefix of each path, without a slash at its end.
    pub base_path: String,
    /// The kind of traffic that it gets.
    pub traffic: Traffic,
}

/// The kind of traffic to an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Traffic {
    /// Requests.
    Http,
    /// The bytes of TCP connections.
    Bytes,
    /// Datagrams.
    Datagrams,
}

/// Where an origin listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// A host, which is resolved, and a port.
    Tcp(String, u16),
    /// A unix socket.
    Unix(PathBuf),
}

/// One origin of a group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OriginSpec {
    /// Its address.
    pub url: OriginUrl,
    /// Its share of the requests, 1 or more.
    pub weight: u32,
    /// When it gets requests.
    pub role: Role,
    /// The suffix of its session identifiers (`jvmRoute`); empty: none.
    pub route: String,
}

/// When an origin gets requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Always.
    Active,
    /// Only if no active origin is available.
    Backup,
    /// Only for its sessions.
    Draining,
}

/// The largest weight. It prevents an overflow of sums.
const MOST_WEIGHT: u32 = 10_000;

impl OriginSpec {
    /// Parses a URL and the parameters after it; the error says what is wrong.
    pub fn parse(text: &str) -> Result<OriginSpec, String> {
        let mut words = text.split_ascii_whitespace();
        let url = OriginUrl::parse(words.next().unwrap_or_default())?;
        OriginSpec::with_parameters(url, words)
    }

    /// Parses an origin of a stream: `host:port`, `tls://host:port` or `unix:/path`.
    pub fn parse_stream(text: &str, traffic: Traffic) -> Result<OriginSpec, String> {
        let mut words = text.split_ascii_whitespace();
        let url = OriginUrl::parse_stream(words.next().unwrap_or_default(), traffic)?;
        let origin = OriginSpec::with_parameters(url, words)?;
        match origin.route.is_empty() {
            true => Ok(origin),
            false => Err("\"route=NAME\" is for HTTP only".to_string()),
        }
    }

    fn with_parameters<'w>(
        url: OriginUrl,
        words: impl Iterator<Item = &'w str>,
    ) -> Result<OriginSpec, String> {
        let mut origin = OriginSpec { url, weight: 1, role: Role::Active, route: String::new() };
        for word in words {
            if let Some(route) = word.strip_prefix("route=") {
                if !is_token(route.as_bytes()) {
                    return Err(format!("{route:?} is not the name of a route"));
                }
                origin.route = route.to_string();
                continue;
            }
            match (word, word.strip_prefix("weight=")) {
                ("backup", _) => origin.role = Role::Backup,
                ("drain", _) => origin.role = Role::Draining,
                (_, Some(weight)) => {
                    let parsed = weight.parse().ok().filter(|weight| (1..=MOST_WEIGHT).contains(weight));
                    origin.weight = parsed
                        .ok_or_else(|| format!("a weight is from 1 to {MOST_WEIGHT}, not {weight:?}"))?;
                }
                _ => {
                    return Err(format!(
                        "{word:?} is none of \"weight=N\", \"route=NAME\", \"backup\" and \"drain\""
                    ));
                }
            }
        }
        Ok(origin)
    }
}

impl OriginUrl {
    /// Parses a URL; the error says what is wrong.
    pub fn parse(text: &str) -> Result<OriginUrl, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            if !path.starts_with('/') {
                return Err(format!("{text:?} needs an absolute path, such as \"unix:/run/app.sock\""));
            }
            return Ok(OriginUrl {
                address: Address::Unix(path.into()),
                is_tls: false,
                authority: "localhost".to_string(),
                base_path: String::new(),
                traffic: Traffic::Http,
            });
        }
        let (is_tls, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => {
                let forms = "\"http://host:port\", \"https://host:port\" or \"unix:/path/of/socket\"";
                return Err(format!("{text:?}: an origin is {forms}"));
            }
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if path.contains(['?', '#', ' ']) || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("{text:?} must not have a query, a fragment or spaces"));
        }
        let (host, port) = split_authority(authority, if is_tls { 443 } else { 80 })
            .ok_or_else(|| format!("{text:?} needs a host, and a port from 1 to 65535 if it has one"))?;
        Ok(OriginUrl {
            address: Address::Tcp(host.to_string(), port),
            is_tls,
            authority: authority.to_string(),
            base_path: path.trim_end_matches('/').to_string(),
            traffic: Traffic::Http,
        })
    }

    /// Parses `host:port`, `tls://host:port` or `unix:/path/of/socket`; for datagrams only `host:port`.
    pub fn parse_stream(text: &str, traffic: Traffic) -> Result<OriginUrl, String> {
        if traffic == Traffic::Bytes && text.starts_with("unix:") {
            return OriginUrl::parse(text).map(|url| OriginUrl { traffic, ..url });
        }
        let (is_tls, authority) = match text.strip_prefix("tls://") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        if is_tls && traffic == Traffic::Datagrams {
            return Err(format!("{text:?}: TLS is not supported for datagrams"));
        }
        // 0 means that no port is given: a stream has no default port.
        let parsed = split_authority(authority, 0).or_else(|| {
            let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
            (!has_port).then_some(("", 0))
        });
        let (host, port) = match parsed {
            Some((host, port)) if !host.is_empty() && port != 0 => (host, port),
            _ => {
                let forms = match traffic {
                    Traffic::Datagrams => "\"host:port\"",
                    _ => "\"host:port\", \"tls://host:port\" or \"unix:/path/of/socket\"",
                };
                return Err(format!("{text:?}: write {forms}, with a port from 1 to 65535"));
            }
        };
        Ok(OriginUrl {
            address: Address::Tcp(host.to_string(), port),
            is_tls,
            authority: authority.to_string(),
            base_path: String::new(),
            traffic,
        })
    }

    /// The name that its certificate must contain, without the key `server_name`.
    pub fn server_name(&self) -> &str {
        match &self.address {
            Address::Tcp(host, _) => host,
            Address::Unix(_) => "localhost",
        }
    }
}

fn split_authority(authority: &str, default_port: u16) -> Option<(&str, u16)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            match port {
                "" => (host, None),
                port => (host, Some(port.strip_prefix(':')?)),
            }
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let named = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':');
    if host.is_empty() || !host.bytes().all(named) {
        return None;
    }
    let digits = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()).then(|| port.parse().ok())?;
    let port = port.map_or(Some(default_port), digits)?;
    (port != 0).then_some((host, port))
}

impl fmt::Display for OriginUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match (&self.address, self.traffic, self.is_tls) {
            (Address::Unix(path), ..) => return write!(formatter, "unix:{}", path.display()),
            (_, Traffic::Http, false) => "http",
            (_, Traffic::Http, true) => "https",
            (_, Traffic::Bytes, false) => "tcp",
            (_, Traffic::Bytes, true) => "tls",
            (_, Traffic::Datagrams, _) => "udp",
        };
        write!(formatter, "{scheme}://{}{}", self.authority, self.base_path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_parsed() {
        let tcp = |host: &str, port| Address::Tcp(host.to_string(), port);
        for (text, address, is_tls, base_path) in [
            ("http://127.0.0.1:3000", tcp("127.0.0.1", 3000), false, ""),
            ("http://app", tcp("app", 80), false, ""),
            ("https://app", tcp("app", 443), true, ""),
            ("https://app:8443/v1", tcp("app", 8443), true, "/v1"),
            ("http://[::1]:81/", tcp("::1", 81), false, ""),
            ("http://[::1]", tcp("::1", 80), false, ""),
            ("http://app/base/", tcp("app", 80), false, "/base"),
            ("unix:/run/app.sock", Address::Unix("/run/app.sock".into()), false, ""),
        ] {
            let origin = OriginUrl::parse(text).unwrap();
            assert_eq!(
                (origin.address, origin.is_tls, origin.base_path.as_str()),
                (address, is_tls, base_path),
                "{text}"
            );
        }
        for text in [
            "app:3000",
            "ftp://app",
            "http://",
            "http://app:0",
            "http://app:x",
            "http://app:+1",
            "http://a b/",
            "http://a/?q",
            "unix:app.sock",
            "http://[::1",
            "http://[::1]81",
            "http://user@app/",
            "http://a/\u{7f}",
        ] {
            assert!(OriginUrl::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn origins_of_streams_are_parsed() {
        for (text, traffic, shown) in [
            ("127.0.0.1:5432", Traffic::Bytes, "tcp://127.0.0.1:5432"),
            ("tls://db.internal:5432", Traffic::Bytes, "tls://db.internal:5432"),
            ("[::1]:53", Traffic::Datagrams, "udp://[::1]:53"),
            ("unix:/run/db.sock", Traffic::Bytes, "unix:/run/db.sock"),
        ] {
            let origin = OriginSpec::parse_stream(&format!("{text} weight=2"), traffic).unwrap();
            assert_eq!((origin.url.to_string().as_str(), origin.weight), (shown, 2));
        }
        for (text, traffic) in [
            ("", Traffic::Bytes),
            ("db", Traffic::Bytes),
            ("db:0", Traffic::Bytes),
            ("db:65536", Traffic::Bytes),
            ("[::1]", Traffic::Bytes),
            ("http://db:1", Traffic::Bytes),
            ("db:1/path", Traffic::Bytes),
            ("unix:db.sock", Traffic::Bytes),
            ("tls://dns:853", Traffic::Datagrams),
            ("unix:/run/dns.sock", Traffic::Datagrams),
            ("db:1 route=a", Traffic::Bytes),
        ] {
            assert!(OriginSpec::parse_stream(text, traffic).is_err(), "{text}");
        }
    }

    #[test]
    fn parameters_after_a_url_are_parsed() {
        let parsed = |text| OriginSpec::parse(text).map(|origin| (origin.weight, origin.role));
        assert_eq!(parsed("http://a"), Ok((1, Role::Active)));
        assert_eq!(parsed("http://a weight=3"), Ok((3, Role::Active)));
        assert_eq!(parsed("unix:/a  backup weight=2"), Ok((2, Role::Backup)));
        assert_eq!(parsed("https://a drain"), Ok((1, Role::Draining)));
        assert_eq!(
            OriginSpec::parse("http://a route=n.1 weight=2").map(|origin| origin.route).as_deref(),
            Ok("n.1")
        );
        for text in [
            "http://a route=",
            "http://a route=a/b",
            "",
            "http://a weight=0",
            "http://a weight=10001",
            "http://a weight",
            "http://a spare",
        ] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }
}
