//! The addresses of a site: scheme, name and port, with Caddy's defaults.

/// The address and name of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The name; empty: any.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Clients use HTTPS.
    pub is_secure: bool,
    /// The address had a path, which is part of the site's routes instead.
    pub path: String,
}

/// The ports of the global options.
#[derive(Debug, Clone, Copy)]
pub struct Ports {
    /// `http_port`
    pub http: u16,
    /// `https_port`
    pub https: u16,
    /// `auto_https off`: a name without a scheme uses plain HTTP unless the port or scheme is that of HTTPS.
    pub is_manual: bool,
}

impl Address {
    /// Parses an address; the error states what is wrong.
    pub fn parse(text: &str, ports: Ports) -> Result<Address, String> {
        if text.contains("{$") {
            return Err("replace the environment variable by its value".to_string());
        }
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme @ ("http" | "https"), rest)) => (scheme, rest),
            Some((scheme, _)) => return Err(format!("'{scheme}' is neither http nor https")),
            None => ("", text),
        };
        let at = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = (&rest[..at], &rest[at..]);
        let (host, port) = split(authority)?;
        let port = match (port, scheme) {
            (Some(port), _) => port,
            (None, "http") => ports.http,
            (None, _) => ports.https,
        };
        // Like Caddy: HTTPS, unless the scheme or the port is that of HTTP, or the address is only a port,
        // which has no name for a certificate.
        let is_secure = match scheme {
            "http" => false,
            "https" => true,
            _ => port != ports.http && !(host.is_empty() && port != ports.https),
        };
        let path = if path == "/" { String::new() } else { path.to_string() };
        Ok(Address { host: host.to_ascii_lowercase(), port, is_secure, path })
    }

    /// Whether Caddy issues the certificate of this name from its local authority.
    pub fn is_local(&self) -> bool {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost"
            || host.ends_with(".localhost")
            || host.ends_with(".local")
            || host.ends_with(".internal")
            || host.ends_with(".home.arpa")
            || host.parse::<std::net::IpAddr>().is_ok()
    }
}

fn split(authority: &str) -> Result<(&str, Option<u16>), String> {
    let behind_bracket = authority.rfind(']').unwrap_or(0);
    match authority[behind_bracket..].rfind(':') {
        Some(at) => {
            let at = behind_bracket + at;
            let port = authority[at + 1..].parse();
            let port = port.map_err(|_| format!("'{}' is not a port", &authority[at + 1..]))?;
            Ok((&authority[..at], Some(port)))
        }
        None => Ok((authority, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_and_ports() {
        let ports = Ports { http: 80, https: 443, is_manual: false };
        for (text, host, port, is_secure) in [
            ("example.org", "example.org", 443, true),
            ("http://example.org", "example.org", 80, false),
            ("Example.org:80", "example.org", 80, false),
            ("example.org:8443", "example.org", 8443, true),
            (":8080", "", 8080, false),
            (":443", "", 443, true),
            ("http://", "", 80, false),
            ("*.example.org", "*.example.org", 443, true),
            ("https://[::1]:9000", "[::1]", 9000, true),
        ] {
            let address = Address::parse(text, ports).unwrap();
            assert_eq!((address.host.as_str(), address.port, address.is_secure), (host, port, is_secure));
        }
        assert!(Address::parse("ftp://a", ports).is_err() && Address::parse("a:b", ports).is_err());
        assert!(Address::parse("localhost", ports).unwrap().is_local());
    }
}
