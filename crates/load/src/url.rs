//! The URL of a target: parsed strictly (RFC 3986, RFC 9110 section 4.2), and resolved before the run.

use crate::target::{Target, TlsTarget};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// The longest URL, in bytes.
pub const MAXIMUM_URL_BYTES: usize = 8 * 1024;

/// The time limit of the connection attempt to one of several addresses.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The parts of an `http://` or `https://` URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpUrl {
    /// The scheme is `https`: connections use TLS.
    pub is_secure: bool,
    /// The host: a name, an IPv4 address, or an IPv6 address without its brackets.
    pub host: String,
    /// The port; by default 80, or 443 with TLS.
    pub port: u16,
    /// Path and query as they are sent; at least `/`.
    pub path: String,
}

/// The reason why a URL cannot be used, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlError(pub String);

impl std::fmt::Display for UrlError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UrlError {}

impl HttpUrl {
    /// Parses a URL. Ambiguous URLs are refused, not corrected.
    pub fn parse(url: &str) -> Result<HttpUrl, UrlError> {
        if url.len() > MAXIMUM_URL_BYTES {
            return refuse(format!(
                "the URL has {} bytes: at most {MAXIMUM_URL_BYTES} are possible",
                url.len()
            ));
        }
        let (is_secure, rest) = after_scheme(url)?;
        let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(authority_end);
        if authority.contains('@') {
            return refuse(format!(
                "{url:?} contains a user name: remove it and send it with --header 'Authorization: ...'"
            ));
        }
        let (host, port) = split_authority(url, authority)?;
        let port = port.unwrap_or(default_port(is_secure));
        Ok(HttpUrl { is_secure, host, port, path: check_path(url, path)? })
    }

    /// The same for a URL that may also be a WebSocket URL: `ws://` is parsed as `http://`, and `wss://` as
    /// `https://`. Returns whether it is a WebSocket URL.
    pub fn parse_any(url: &str) -> Result<(HttpUrl, bool), UrlError> {
        let known = [("ws://", "http://"), ("wss://", "https://")];
        let websocket = known.into_iter().find_map(|(scheme, base)| {
            let found = url.get(..scheme.len())?;
            found.eq_ignore_ascii_case(scheme).then(|| format!("{base}{}", &url[scheme.len()..]))
        });
        match websocket {
            Some(text) => Ok((HttpUrl::parse(&text)?, true)),
            None => Ok((HttpUrl::parse(url)?, false)),
        }
    }

    /// The value of the Host field, with the port unless it is the default of the scheme (RFC 9110, section
    /// 7.2).
    pub fn host_field(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == default_port(self.is_secure) { host } else { format!("{host}:{}", self.port) }
    }

    /// Scheme, host and port, for example `http://127.0.0.1:8080`.
    pub fn origin(&self) -> String {
        format!("{}://{}", if self.is_secure { "https" } else { "http" }, self.host_field())
    }

    /// Looks up the addresses of the host. If it has several, as `localhost` often has, they are tried in
    /// order, and the first that accepts a connection is used; if none does, the first address.
    pub fn resolve(&self) -> Result<Target, UrlError> {
        let address = match self.host.parse::<IpAddr>() {
            Ok(address) => SocketAddr::new(address, self.port),
            Err(_) => choose(&self.look_up()?),
        };
        let tls = self.is_secure.then(|| TlsTarget::new(&self.host));
        Ok(Target { address, host: self.host_field(), tls, version: None })
    }

    /// Returns at least one address.
    fn look_up(&self) -> Result<Vec<SocketAddr>, UrlError> {
        let none = |reason: String| UrlError(format!("no address was found for {:?}: {reason}", self.host));
        let addresses = (self.host.as_str(), self.port).to_socket_addrs();
        let addresses: Vec<SocketAddr> = addresses.map_err(|error| none(error.to_string()))?.collect();
        if addresses.is_empty() { Err(none("the name has no address".to_string())) } else { Ok(addresses) }
    }
}

fn choose(addresses: &[SocketAddr]) -> SocketAddr {
    let first = addresses[0];
    if addresses.iter().all(|address| *address == first) {
        return first;
    }
    let accepts = |address: &&SocketAddr| TcpStream::connect_timeout(address, CONNECT_TIMEOUT).is_ok();
    addresses.iter().find(accepts).copied().unwrap_or(first)
}

fn refuse<T>(text: String) -> Result<T, UrlError> {
    Err(UrlError(text))
}

fn default_port(is_secure: bool) -> u16 {
    if is_secure { 443 } else { 80 }
}

/// Whether the scheme is `https`, and the part after the scheme.
fn after_scheme(url: &str) -> Result<(bool, &str), UrlError> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return refuse(format!("{url:?} has no scheme: write http://HOST[:PORT]/PATH"));
    };
    if scheme.eq_ignore_ascii_case("http") {
        return Ok((false, rest));
    }
    if scheme.eq_ignore_ascii_case("https") {
        return Ok((true, rest));
    }
    refuse(format!("{url:?} has the scheme {scheme:?}: only http:// and https:// can be loaded"))
}

fn split_authority(url: &str, authority: &str) -> Result<(String, Option<u16>), UrlError> {
    let (host, port) = if let Some(bracketed) = authority.strip_prefix('[') {
        let Some((address, port)) = bracketed.split_once(']') else {
            return refuse(format!("{url:?}: the bracket of the IPv6 address is not closed"));
        };
        if address.parse::<Ipv6Addr>().is_err() {
            return refuse(format!("{url:?}: {address:?} is not an IPv6 address"));
        }
        (address, port)
    } else {
        let end = authority.find(':').unwrap_or(authority.len());
        let (host, port) = authority.split_at(end);
        check_host(url, host)?;
        (host, port)
    };
    let port = match port.strip_prefix(':') {
        Some(digits) => Some(check_port(url, digits)?),
        None if port.is_empty() => None,
        None => {
            return refuse(format!("{url:?}: {port:?} follows the address, where a port or '/' is expected"));
        }
    };
    Ok((host.to_ascii_lowercase(), port))
}

/// Checks for a host name (RFC 1123, section 2.1; underscores are in use and accepted) or an IPv4 address.
fn check_host(url: &str, host: &str) -> Result<(), UrlError> {
    if host.is_empty() {
        return refuse(format!("{url:?} has no host: write http://HOST[:PORT]/PATH"));
    }
    if let Some(character) = host.chars().find(|c| !(c.is_ascii_alphanumeric() || "-._".contains(*c))) {
        return refuse(format!(
            "{url:?}: the host contains {character:?}, which is not allowed in host names"
        ));
    }
    if host.len() > 253 || host.split('.').any(|label| label.len() > 63) || host.contains("..") {
        return refuse(format!("{url:?}: {host:?} is not a host name (a part is empty or too long)"));
    }
    // "1.2.3" or "1.2.3.400" could be looked up as a name, or parsed as another address.
    let numeric = host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if numeric && host.parse::<std::net::Ipv4Addr>().is_err() {
        return refuse(format!("{url:?}: {host:?} is not an IPv4 address"));
    }
    Ok(())
}

fn check_port(url: &str, digits: &str) -> Result<u16, UrlError> {
    let number =
        if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse::<u16>().ok() } else { None };
    match number {
        Some(port) if port > 0 => Ok(port),
        _ => refuse(format!("{url:?}: {digits:?} is not a port: give a number from 1 to 65535")),
    }
}

/// Checks path and query (RFC 3986, sections 3.3 and 3.4). A URL with a fragment is refused: a fragment is
/// never sent (RFC 9110, section 7.1), and the user would expect an effect.
fn check_path(url: &str, path: &str) -> Result<String, UrlError> {
    let bytes = path.as_bytes();
    for (position, &byte) in bytes.iter().enumerate() {
        let fine = match byte {
            b'%' => bytes
                .get(position + 1..position + 3)
                .is_some_and(|pair| pair.iter().all(u8::is_ascii_hexdigit)),
            _ => byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?".contains(&byte),
        };
        if fine {
            continue;
        }
        return refuse(match byte {
            b'#' => format!(
                "{url:?} contains a fragment, which is never sent to a server: remove '#' and the rest"
            ),
            b'%' => format!(
                "{url:?}: '%' is not followed by two hexadecimal digits (a plain percent sign is %25)"
            ),
            _ => format!("{url:?} contains a character that must be written as %{byte:02X}"),
        });
    }
    Ok(if path.starts_with('/') { path.to_string() } else { format!("/{path}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(url: &str) -> (String, u16, String) {
        let url = HttpUrl::parse(url).expect("the URL is good");
        (url.host, url.port, url.path)
    }

    #[test]
    fn valid_urls_are_parsed() {
        let cases = [
            ("http://localhost", ("localhost", 80, "/")),
            ("HTTP://LocalHost:8080/", ("localhost", 8080, "/")),
            ("http://127.0.0.1:1/a/b.html?c=d&e=%20f", ("127.0.0.1", 1, "/a/b.html?c=d&e=%20f")),
            ("http://[::1]:65535/x", ("::1", 65535, "/x")),
            ("http://[2001:DB8::1]", ("2001:db8::1", 80, "/")),
            ("http://www.example?q", ("www.example", 80, "/?q")),
            ("http://a_b-c.example./~user/", ("a_b-c.example.", 80, "/~user/")),
        ];
        for (url, (host, port, path)) in cases {
            assert_eq!(parts(url), (host.to_string(), port, path.to_string()), "{url}");
        }
    }

    #[test]
    fn the_scheme_determines_tls_and_the_port() {
        let url = HttpUrl::parse("HTTPS://www.example/x").expect("a good URL");
        assert_eq!((url.is_secure, url.port), (true, 443));
        assert_eq!(url.origin(), "https://www.example");
        assert_eq!(
            HttpUrl::parse("http://www.example:443/").expect("a good URL").origin(),
            "http://www.example:443"
        );
    }

    #[test]
    fn errors_of_invalid_urls_state_the_reason() {
        let cases = [
            ("", "no scheme"),
            ("localhost:8080", "no scheme"),
            ("ftp://localhost/", "only http:// and https://"),
            ("http://", "has no host"),
            ("http:///path", "has no host"),
            ("http://user:secret@localhost/", "user name"),
            ("http://local host/", "the host contains ' '"),
            ("http://localhost:/", "is not a port"),
            ("http://localhost:0/", "is not a port"),
            ("http://localhost:65536/", "is not a port"),
            ("http://localhost:+80/", "is not a port"),
            ("http://localhost:80:80/", "is not a port"),
            ("http://[::1/", "not closed"),
            ("http://[::1]80/", "follows the address"),
            ("http://[::g]/", "not an IPv6 address"),
            ("http://::1/", "has no host"),
            ("http://1.2.3/", "not an IPv4 address"),
            ("http://1.2.3.400/", "not an IPv4 address"),
            ("http://a..b/", "not a host name"),
            ("http://localhost/#top", "fragment"),
            ("http://localhost#top", "fragment"),
            ("http://localhost/a b", "%20"),
            ("http://localhost/ä", "%C3"),
            ("http://localhost/100%", "two hexadecimal digits"),
            ("http://localhost/%zz", "two hexadecimal digits"),
            ("http://localhost/\r\nHost: x", "%0D"),
            ("http://bücher.example/", "the host contains 'ü'"),
        ];
        for (url, expected) in cases {
            let text = HttpUrl::parse(url).expect_err(url).0;
            assert!(text.contains(expected), "{url:?}: {text}");
        }
        assert!(HttpUrl::parse(&format!("http://a/{}", "b".repeat(MAXIMUM_URL_BYTES))).is_err());
    }

    #[test]
    fn the_host_field_names_the_port_unless_it_is_the_default() {
        for (url, field) in [
            ("http://localhost", "localhost"),
            ("http://localhost:8080", "localhost:8080"),
            ("http://[::1]:8080", "[::1]:8080"),
            ("http://[::1]", "[::1]"),
            ("https://localhost", "localhost"),
            ("https://localhost:80", "localhost:80"),
            ("http://localhost:443", "localhost:443"),
        ] {
            assert_eq!(HttpUrl::parse(url).expect(url).host_field(), field);
        }
    }

    #[test]
    fn addresses_resolve_without_a_lookup() {
        let target = HttpUrl::parse("http://[::1]:8080/").and_then(|url| url.resolve()).expect("an address");
        assert_eq!(target.address, "[::1]:8080".parse().expect("an address"));
        assert_eq!(target.host, "[::1]:8080");
        let target =
            HttpUrl::parse("http://localhost:8080/").and_then(|url| url.resolve()).expect("localhost");
        assert!(target.address.ip().is_loopback());
    }

    #[test]
    fn the_first_address_that_accepts_a_connection_is_used() {
        let listener =
            std::net::TcpListener::bind("127.0.0.1:0").expect("the loopback interface is available");
        let open = listener.local_addr().expect("a bound socket has an address");
        let closed = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|other| other.local_addr())
            .expect("an address");
        assert_eq!(choose(&[closed, open]), open);
        assert_eq!(choose(&[open, closed]), open);
        assert_eq!(choose(&[closed]), closed);
        drop(listener);
        assert_eq!(choose(&[closed, open]), closed);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(url in "\\PC*") {
            let _ = HttpUrl::parse(&url);
        }

        #[test]
        fn accepted_urls_can_be_sent(rest in "[a-z0-9.:/?#%@\\[\\] -]{0,40}") {
            if let Ok(url) = HttpUrl::parse(&format!("http://{rest}")) {
                prop_assert!(url.path.starts_with('/'));
                prop_assert!(url.path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#'));
                prop_assert!(url.host_field().bytes().all(|byte| byte.is_ascii_graphic()));
                let again = HttpUrl::parse(&format!("http://{}{}", url.host_field(), url.path));
                prop_assert_eq!(again, Ok(url));
            }
        }
    }
}
