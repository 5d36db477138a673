//! Where an origin is, and how long it may take.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// How requests reach an origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxySettings {
    /// The origin.
    pub origin: OriginUrl,
    /// What is left out at the beginning of paths; empty: nothing.
    pub strip_prefix: Vec<u8>,
    /// What `Host` says.
    pub host: HostField,
    /// How long a connection may take to come about.
    pub connect_timeout: Duration,
    /// How long the origin may take from the whole request to the head of its response.
    pub response_timeout: Duration,
    /// How long it may make no progress after that.
    pub idle_timeout: Duration,
    /// How long a connection without a request is kept.
    pub keep_alive_timeout: Duration,
    /// How many such connections each core keeps; 0: none.
    pub idle_connections: usize,
}

/// What `Host` says to the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostField {
    /// What the client said.
    Client,
    /// The name of the origin.
    Origin,
}

/// `http://host:port/path` or `unix:/path/of/socket`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginUrl {
    /// Where it listens.
    pub address: Address,
    /// What `Host` says where it is to name the origin.
    pub authority: String,
    /// What stands before each path, without a slash at its end.
    pub base_path: String,
}

/// Where an origin listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A host, which is looked up for each connection, and a port.
    Tcp(String, u16),
    /// A unix socket.
    Unix(PathBuf),
}

impl OriginUrl {
    /// Reads a URL; the error says what is wrong with it.
    pub fn parse(text: &str) -> Result<OriginUrl, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            if !path.starts_with('/') {
                return Err(format!("{text:?} needs an absolute path, such as \"unix:/run/app.sock\""));
            }
            let address = Address::Unix(path.into());
            return Ok(OriginUrl { address, authority: "localhost".to_string(), base_path: String::new() });
        }
        let Some(rest) = text.strip_prefix("http://") else {
            let hint = match text.starts_with("https://") {
                true => "TLS to an origin is not spoken yet; use http://",
                false => "an origin is \"http://host:port\" or \"unix:/path/of/socket\"",
            };
            return Err(format!("{text:?}: {hint}"));
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if path.contains(['?', '#', ' ']) || !path.is_ascii() {
            return Err(format!("{text:?} must not have a query, a fragment or spaces"));
        }
        let (host, port) = split_authority(authority)
            .ok_or_else(|| format!("{text:?} needs a host, and a port from 1 to 65535 if it has one"))?;
        Ok(OriginUrl {
            address: Address::Tcp(host.to_string(), port),
            authority: authority.to_string(),
            base_path: path.trim_end_matches('/').to_string(),
        })
    }
}

fn split_authority(authority: &str) -> Option<(&str, u16)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, port.strip_prefix(':'))
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
    let port = port.map_or(Some(80), |port| port.parse().ok())?;
    (port != 0).then_some((host, port))
}

impl fmt::Display for OriginUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Tcp(..) => write!(formatter, "http://{}{}", self.authority, self.base_path),
            Address::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_read() {
        let tcp = |host: &str, port| Address::Tcp(host.to_string(), port);
        for (text, address, base_path) in [
            ("http://127.0.0.1:3000", tcp("127.0.0.1", 3000), ""),
            ("http://app", tcp("app", 80), ""),
            ("http://[::1]:81/", tcp("::1", 81), ""),
            ("http://app/base/", tcp("app", 80), "/base"),
            ("unix:/run/app.sock", Address::Unix("/run/app.sock".into()), ""),
        ] {
            let origin = OriginUrl::parse(text).unwrap();
            assert_eq!((origin.address, origin.base_path.as_str()), (address, base_path), "{text}");
        }
        for text in [
            "app:3000",
            "https://app",
            "http://",
            "http://app:0",
            "http://app:x",
            "http://a b/",
            "http://a/?q",
            "unix:app.sock",
            "http://[::1",
            "http://user@app/",
        ] {
            assert!(OriginUrl::parse(text).is_err(), "{text}");
        }
    }
}
