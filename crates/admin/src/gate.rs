//! Decides which clients may use the admin listener.
//!
//! A client address is allowed if it is in `allow` or if that list is empty. If there is a token, a request
//! must show it; if there is none, the request's host must be an address, `localhost` or a configured name.
//! The last rule stops web pages whose own name points to 127.0.0.1: the browser would let them read the
//! answers of their own host.

use std::net::IpAddr;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use touchstone_access::AddressRules;
use touchstone_config::{AdminListen, Config};
use touchstone_control::ControlGate;
use touchstone_http::host::split_port;
use touchstone_http::request::RequestHead;
use touchstone_http::request_view::{HeadFields, RequestFields};

use crate::token::read_token;

/// The rules for clients of the listener.
pub struct Gate {
    addresses: Option<AddressRules>,
    token: Option<String>,
    hosts: Vec<String>,
    is_unix: bool,
    /// The rules for clients of the control API; `None`: there is none.
    control: Option<ControlGate>,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It shows no token, or a wrong one.
    Token,
    /// It requests an unknown host.
    Host,
}

impl Gate {
    /// Creates the gate of a configuration; the error states what is wrong with a file of tokens.
    pub fn open(config: &Config) -> Result<Gate, String> {
        let owner = rustix::process::geteuid().as_raw();
        let (config, control) = (&config.admin, &config.control);
        Ok(Gate {
            control: ControlGate::open(control, config, owner)?,
            addresses: AddressRules::new(&config.allow, &[]),
            token: config.token_file.as_deref().map(read_token).transpose()?,
            hosts: config.hosts.clone(),
            is_unix: matches!(config.listen, AdminListen::Unix(_)),
        })
    }

    /// Whether a connection from this address is allowed; a unix socket has no address.
    pub fn admits(&self, client: Option<IpAddr>) -> bool {
        match (&self.addresses, client) {
            (Some(addresses), Some(client)) => addresses.allows(Some(client.to_canonical())),
            _ => true,
        }
    }

    /// The rules for clients of the control API; `None`: there is none.
    pub fn control(&self) -> Option<&ControlGate> {
        self.control.as_ref()
    }

    /// Checks whether a request is allowed.
    pub fn check(&self, head: &RequestHead, buffer: &[u8]) -> Result<(), Refusal> {
        if let Some(token) = &self.token {
            let fields = HeadFields { head, buffer };
            return if shows(&fields, token) { Ok(()) } else { Err(Refusal::Token) };
        }
        let host = head.host.map(|host| host.of(buffer)).unwrap_or_default();
        if self.is_unix || self.has_host(host) { Ok(()) } else { Err(Refusal::Host) }
    }

    /// Whether a request may change something: it has the token as a bearer token, which a browser never adds
    /// to requests of a foreign page, or it arrived over a unix socket.
    pub fn may_change(&self, head: &RequestHead, buffer: &[u8]) -> bool {
        let fields = HeadFields { head, buffer };
        let mut all = (0..).map_while(|position| fields.field(position));
        let is_bearer = |(name, value): (&[u8], &[u8])| {
            name.eq_ignore_ascii_case(b"authorization")
                && value.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer "))
        };
        self.is_unix || (self.token.is_some() && all.any(is_bearer))
    }

    fn has_host(&self, host: &[u8]) -> bool {
        let name = split_port(host).0;
        let Ok(name) = std::str::from_utf8(name.strip_suffix(b".").unwrap_or(name)) else { return false };
        let literal = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        name.is_empty()
            || literal.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// Whether a request shows the token: as a bearer token (RFC 6750), or as the password of Basic
/// authentication, for which browsers have a dialog.
fn shows(fields: &dyn RequestFields, token: &str) -> bool {
    let mut all = (0..).map_while(|position| fields.field(position));
    let value = all.find(|(name, _)| name.eq_ignore_ascii_case(b"authorization")).map(|(_, value)| value);
    let Some((scheme, credentials)) =
        value.and_then(|value| std::str::from_utf8(value).ok()?.split_once(' '))
    else {
        return false;
    };
    let credentials = credentials.trim();
    let shown = if scheme.eq_ignore_ascii_case("bearer") {
        credentials.as_bytes().to_vec()
    } else if scheme.eq_ignore_ascii_case("basic") {
        let Ok(decoded) = STANDARD.decode(credentials) else { return false };
        let Some(colon) = decoded.iter().position(|byte| *byte == b':') else { return false };
        decoded[colon + 1..].to_vec()
    } else {
        return false;
    };
    verify_slices_are_equal(&shown, token.as_bytes()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use touchstone_http::request::{Limits, Parsed};

    const TOKEN: &str = "0123456789abcdef";

    fn gate(token: Option<&str>, hosts: &[&str]) -> Gate {
        Gate {
            addresses: AddressRules::new(&["10.0.0.0/8".parse().unwrap()], &[]),
            token: token.map(str::to_string),
            hosts: hosts.iter().map(|host| host.to_string()).collect(),
            is_unix: false,
            control: None,
        }
    }

    fn check(gate: &Gate, fields: &str) -> Result<(), Refusal> {
        let text = format!("GET / HTTP/1.1\r\n{fields}\r\n");
        let mut head = RequestHead::new();
        let limits = Limits { request_line_bytes: 100, header_bytes: 1000, header_fields: 10 };
        assert!(matches!(head.parse(text.as_bytes(), &limits), Ok(Parsed::Complete(_))), "{text}");
        gate.check(&head, text.as_bytes())
    }

    #[test]
    fn addresses() {
        let gate = gate(None, &[]);
        let admits = |address: &str| gate.admits(Some(address.parse().unwrap()));
        assert!(admits("10.1.2.3") && admits("::ffff:10.1.2.3"));
        assert!(!admits("127.0.0.1") && !admits("192.0.2.1"));
        assert!(gate.admits(None));
    }

    #[test]
    fn a_web_page_cannot_ask_under_its_own_name() {
        let gate = gate(None, &["metrics.example.org"]);
        for good in ["127.0.0.1:9180", "[::1]:9180", "localhost", "LOCALHOST:1", "metrics.example.org:9180"] {
            assert_eq!(check(&gate, &format!("Host: {good}\r\n")), Ok(()), "{good}");
        }
        for bad in ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:9180"] {
            assert_eq!(check(&gate, &format!("Host: {bad}\r\n")), Err(Refusal::Host), "{bad}");
        }
    }

    #[test]
    fn tokens() {
        let gate = gate(Some(TOKEN), &[]);
        let check = |value: &str| check(&gate, &format!("Host: any.example\r\nAuthorization: {value}\r\n"));
        assert_eq!(check(&format!("Bearer {TOKEN}")), Ok(()));
        assert_eq!(check(&format!("bearer  {TOKEN}")), Ok(()));
        assert_eq!(check(&format!("Basic {}", STANDARD.encode(format!("anybody:{TOKEN}")))), Ok(()));
        for bad in
            ["Bearer", "Bearer 0123456789abcdee", "Bearer 0123456789abcde", "Basic ???", "Digest a", ""]
        {
            assert_eq!(check(bad), Err(Refusal::Token), "{bad}");
        }
        assert_eq!(super::tests::check(&gate, "Host: a\r\n"), Err(Refusal::Token));
    }
}
