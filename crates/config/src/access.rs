//! Access: the keys that a `[[site]]` and a `[[site.route]]` have in common, and `[proxies]`.

use std::path::PathBuf;
use std::time::Duration;

use touchstone_config_section::reader::{Reader, Value};
use touchstone_config_section::{ABSENT, Choice, Key, Kind, ListenAddress, Section, SectionPlaces, values};
use touchstone_expression::{AvailableFrom, Text};

use super::config_reader::ConfigReader;
use super::crawlers::CrawlersConfig;
use super::forward_auth::ForwardAuthConfig;
use super::geoip::GeoRulesConfig;
use super::jwt::{JwtConfig, TokenKeys};
use super::login::LoginConfig;
use super::{ConfigWithPlaces, Network, SignedLinkConfig, SiteConfig};

/// The access keys of a site or route.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AccessConfig {
    /// The networks that are admitted.
    pub allow: Vec<Network>,
    /// The networks that are not.
    pub deny: Vec<Network>,
    /// Users and passwords; `None`: not set here.
    pub basic_authentication: Option<BasicAuthenticationConfig>,
    /// Tokens; `None`: not set here.
    pub jwt: Option<JwtConfig>,
    /// How many requests a client may make; `None`: not set here.
    pub rate_limit: Option<RateLimitConfig>,
    /// Links that need a signature; `None`: not set here.
    pub signed_link: Option<SignedLinkConfig>,
    /// From where clients are admitted; `None`: not set here.
    pub geoip: Option<GeoRulesConfig>,
    /// The server that decides; `None`: not set here.
    pub forward_auth: Option<ForwardAuthConfig>,
    /// The login; `None`: not set here.
    pub login: Option<LoginConfig>,
    /// The rules on bots and other visitors; `None`: not set here.
    pub crawlers: Option<CrawlersConfig>,
    /// How many of the rules on addresses and users must admit a request; `None`: not set here.
    pub satisfy: Option<Satisfy>,
}

impl AccessConfig {
    /// The rules of `satisfy = "any"`, if a network of `allow` is enough here; `site`: the rules of the site,
    /// for a route of it.
    pub fn any_of(&self, site: Option<&AccessConfig>) -> Option<AnyOf> {
        let inherited = || [Some(self), site].into_iter().flatten();
        let satisfy = inherited().find_map(|access| access.satisfy);
        let networks = inherited().find(|access| !access.allow.is_empty() || !access.deny.is_empty());
        let is_any = satisfy == Some(Satisfy::Any) && networks.is_some_and(|access| !access.allow.is_empty());
        let login = inherited().find_map(|access| access.login.as_ref());
        let authority = inherited().find_map(|access| access.forward_auth.as_ref());
        let is_asked_later = login.is_some_and(|login| !login.issuer.is_empty())
            || authority.is_some_and(|authority| authority.url.is_some());
        is_any.then_some(AnyOf { is_asked_later })
    }
}

/// What a site or route with `satisfy = "any"` has besides networks that admit their clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnyOf {
    /// A login or an authority decides about clients of other networks.
    pub is_asked_later: bool,
}

/// How many of the rules on addresses and users must admit a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Satisfy {
    /// All of them.
    All,
    /// One of them.
    Any,
}

/// `basic_authentication`
#[derive(Debug, Clone, PartialEq)]
pub struct BasicAuthenticationConfig {
    /// Users and their passwords.
    pub file: PasswordSource,
    /// The name that the browser shows when it requests a password.
    pub realm: String,
    /// How long a correct password is not checked again.
    pub remember: Duration,
    /// How many wrong passwords a client may send; 0: any number.
    pub failures_per_minute: u64,
}

/// The source of users and passwords.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PasswordSource {
    /// No password is needed.
    Off,
    /// This file.
    File(PathBuf),
}

/// `rate_limit`
#[derive(Debug, Clone, PartialEq)]
pub struct RateLimitConfig {
    /// How many requests; 0: no limit.
    pub requests: u64,
    /// The period.
    pub per: Duration,
    /// How many at the same time; 0: as many as `requests`.
    pub burst: u64,
    /// How many further requests are delayed.
    pub delay: u64,
    /// Whose requests are counted together; `None`: those of a client.
    pub key: Option<Text>,
}

/// The field in which the trusted proxies name the client. Only this field is read: a proxy that writes one
/// field passes the others through as the client sent them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientField {
    /// `X-Forwarded-For`: addresses after commas.
    XForwardedFor,
    /// `Forwarded`: elements with `for=` (RFC 7239).
    Forwarded,
    /// `X-Real-IP`: one address.
    XRealIp,
}

impl ClientField {
    /// The name in lower case.
    pub fn name(self) -> &'static [u8] {
        match self {
            ClientField::XForwardedFor => b"x-forwarded-for",
            ClientField::Forwarded => b"forwarded",
            ClientField::XRealIp => b"x-real-ip",
        }
    }
}

/// `[proxies]`
#[derive(Debug, Clone, PartialEq)]
pub struct ProxiesConfig {
    /// The proxies whose information about the client is used.
    pub trusted: Vec<Network>,
    /// The field in which they name it.
    pub client_field: ClientField,
    /// The addresses to listen on where they name it in a PROXY header.
    pub proxy_protocol: Vec<ListenAddress>,
}

impl Default for ProxiesConfig {
    fn default() -> ProxiesConfig {
        PROXIES.defaults()
    }
}

/// `[proxies]`
pub static PROXIES: Section<ProxiesConfig> = Section {
    name: "proxies",
    repeated: false,
    documentation: "The proxies and load balancers in front of this server. Their information about the \
        client is used; that of other clients is ignored.",
    blank: || ProxiesConfig {
        trusted: Vec::new(),
        client_field: ClientField::XForwardedFor,
        proxy_protocol: Vec::new(),
    },
    keys: &[
        Key {
            name: "trusted",
            default: Some("[]"),
            example: "[\"10.0.0.0/8\", \"2001:db8::7\"]",
            documentation: "The addresses of the proxies. \
                The client of their requests is the right-most address in `client_field` that is not one of \
                them. Name no network that also contains clients: they could choose their address. \
                `\"unix:\"` trusts the programs that connect to unix sockets in `listen`.",
            kind: Kind::Networks(|proxies, value| proxies.trusted = value),
        },
        Key {
            name: "client_field",
            default: Some("\"x-forwarded-for\""),
            example: "\"forwarded\"",
            documentation: "The header field in which the proxies name the client. \
                Only this field is read, because a proxy passes the others on as the client wrote them.",
            kind: Kind::Choice(&[
                Choice {
                    word: "x-forwarded-for",
                    meaning: "X-Forwarded-For: addresses after commas",
                    set: |proxies| proxies.client_field = ClientField::XForwardedFor,
                },
                Choice {
                    word: "forwarded",
                    meaning: "Forwarded, with for= (RFC 7239)",
                    set: |proxies| proxies.client_field = ClientField::Forwarded,
                },
                Choice {
                    word: "x-real-ip",
                    meaning: "X-Real-IP: one address",
                    set: |proxies| proxies.client_field = ClientField::XRealIp,
                },
            ]),
        },
        Key {
            name: "proxy_protocol",
            default: Some("[]"),
            example: "[\"127.0.0.1:8080\"]",
            documentation: "The addresses from the sites' `listen` on which a trusted proxy begins each \
                connection with a header of the PROXY protocol, version 1 or 2. A connection of a trusted \
                proxy without the header is closed. From any other client such a header is a bad request.",
            kind: Kind::SocketAddresses(|proxies, value| proxies.proxy_protocol = value),
        },
    ],
};

/// `[site.basic_authentication]`
pub static BASIC_AUTHENTICATION: Section<BasicAuthenticationConfig> = Section {
    name: "site.basic_authentication",
    repeated: false,
    documentation: "Users and passwords with Basic authentication (RFC 7617). \
        `[site.route.basic_authentication]` has the same keys. Use it with HTTPS: without HTTPS, passwords \
        can be read on the network.",
    blank: || BasicAuthenticationConfig {
        file: PasswordSource::Off,
        realm: String::new(),
        remember: Duration::ZERO,
        failures_per_minute: 0,
    },
    keys: &[
        Key {
            name: "file",
            default: None,
            example: "\"users.htpasswd\"",
            documentation: "The file of users and passwords, in the form of `htpasswd -B`, or `\"off\"`. \
                Passwords may be hashed with bcrypt, SHA-crypt (`$5$`, `$6$`) or Argon2id; other forms are \
                refused. A change takes effect within two seconds. `\"off\"` in a route admits every client \
                even if the site does not.",
            kind: Kind::Checked {
                what: "path of a file, or `\"off\"`",
                parse: |text, base| match text {
                    "off" => Ok("off".to_string()),
                    _ => values::parse_path(text, base).map(|path| path.to_string_lossy().into_owned()),
                },
                set: |basic, text| {
                    basic.file = match text.as_str() {
                        "off" => PasswordSource::Off,
                        _ => PasswordSource::File(text.into()),
                    };
                },
            },
        },
        Key {
            name: "realm",
            default: Some("\"Restricted\""),
            example: "\"Members\"",
            documentation: "The name that a browser shows when it requests user and password. A browser \
                sends the same password to all of a server's pages with the same realm.",
            kind: Kind::HeaderValue(|basic, value| basic.realm = value),
        },
        Key {
            name: "remember",
            default: Some("\"1m\""),
            example: "\"5m\"",
            documentation: "How long a correct password is accepted without another check. A check takes \
                some hundredths of a second of processor time. A password that has changed in the file is \
                always checked.",
            kind: Kind::Duration {
                least: Duration::ZERO,
                most: Duration::from_secs(3600),
                set: |basic, value| basic.remember = value,
            },
        },
        Key {
            name: "failures_per_minute",
            default: Some("10"),
            example: "5",
            documentation: "How many wrong passwords a client may send in a minute. Further requests with a \
                password are answered with 429 Too Many Requests, and the password is not checked. 0 means \
                any number.",
            kind: Kind::Number {
                least: 0,
                most: 1_000_000,
                set: |basic, value| basic.failures_per_minute = value,
            },
        },
    ],
};

/// `[site.rate_limit]`
pub static RATE_LIMIT: Section<RateLimitConfig> = Section {
    name: "site.rate_limit",
    repeated: false,
    documentation: "How many requests each client may make: an IPv4 address, or the first 64 bits of an IPv6 \
        address. `[site.route.rate_limit]` has the same keys. Requests above the limit are answered with 429 \
        Too Many Requests and the time to wait.",
    blank: || RateLimitConfig { requests: 0, per: Duration::ZERO, burst: 0, delay: 0, key: None },
    keys: &[
        Key {
            name: "requests",
            default: None,
            example: "100",
            documentation: "How many requests a client may make in the time of `per`. \
                0 means any number, for a route in a site that has a limit.",
            kind: Kind::Number { least: 0, most: 1_000_000_000, set: |limit, value| limit.requests = value },
        },
        Key {
            name: "per",
            default: Some("\"1s\""),
            example: "\"1s\"",
            documentation: "The time that `requests` counts for.",
            kind: Kind::Duration {
                least: Duration::from_millis(1),
                most: Duration::from_secs(24 * 3600),
                set: |limit, value| limit.per = value,
            },
        },
        Key {
            name: "burst",
            default: Some("0"),
            example: "200",
            documentation: "How many requests are accepted at the same time before the steady rate applies. \
                0 means as many as `requests`.",
            kind: Kind::Number { least: 0, most: 1_000_000_000, set: |limit, value| limit.burst = value },
        },
        Key {
            name: "delay",
            default: Some("0"),
            example: "20",
            documentation: "How many requests beyond `burst` are delayed instead of refused; each is served \
                when the rate allows it. nginx's `burst=20` without `nodelay` is `burst = 1, delay = 20`.",
            kind: Kind::Number { least: 0, most: 100_000, set: |limit, value| limit.delay = value },
        },
        Key {
            name: "key",
            default: Some("\"\""),
            example: "\"$header{x-api-key}\"",
            documentation: "The requests that are counted together, as a [text with \
                variables](expressions.md) of the request, in place of the client's address. Requests for \
                which it is empty are not counted. With `$user` or `$claim{...}` they are counted when the \
                user has been determined.",
            kind: Kind::Checked {
                what: "text with variables",
                parse: |text, _| values::check_text(text, AvailableFrom::Admitted),
                set: |limit, value| {
                    limit.key = Text::read(&value, AvailableFrom::Admitted)
                        .ok()
                        .filter(|key| !key.source().is_empty());
                },
            },
        },
    ],
};

/// `allow`
pub(super) const fn allow<C>(set: fn(&mut C, Vec<Network>)) -> Key<C> {
    Key {
        name: "allow",
        default: Some("[]"),
        example: "[\"192.0.2.0/24\", \"2001:db8::/32\"]",
        documentation: "The networks whose clients are admitted; other clients are answered with 403 \
            Forbidden. `\"unix:\"` is the clients of unix sockets. If `deny` has networks too, the longest \
            network that contains the address decides. Empty, with an empty `deny`: every client is \
            admitted, or in a route, every client that the site admits.",
        kind: Kind::Networks(set),
    }
}

/// `deny`
pub(super) const fn deny<C>(set: fn(&mut C, Vec<Network>)) -> Key<C> {
    Key {
        name: "deny",
        default: Some("[]"),
        example: "[\"192.0.2.66\"]",
        documentation: "The networks whose clients are answered with 403 Forbidden. \
            Without `allow`, all other clients are admitted.",
        kind: Kind::Networks(set),
    }
}

/// `satisfy`
pub(super) const fn satisfy<C>(choices: &'static [Choice<C>]) -> Key<C> {
    Key {
        name: "satisfy",
        default: Some(ABSENT),
        example: "\"any\"",
        documentation: "Whether a client must be admitted by its address (`allow`, `deny`) and also be known \
            (`basic_authentication`, `jwt`, `login` or `forward_auth`), or only one of both. With `\"any\"` \
            a client in a network of `allow` is not asked for a password or session, and any other client \
            must have one. `\"any\"` needs an `allow`, and one of the other keys; `geoip`, `signed_link` and \
            `rate_limit` apply to all clients. Not given: as in the site, and there `\"all\"`.",
        kind: Kind::Choice(choices),
    }
}

/// The meaning of the words of `satisfy`.
pub(super) const SATISFY_ALL: &str = "all of these rules that are set must admit the client";
/// See [`SATISFY_ALL`].
pub(super) const SATISFY_ANY: &str = "one of them is enough";

/// `basic_authentication`
pub(super) const fn basic_authentication<C>(
    read: fn(&mut Reader<'_>, &Value<'_>, &mut C) -> Vec<SectionPlaces>,
) -> Key<C> {
    Key {
        name: "basic_authentication",
        default: Some(ABSENT),
        example: "{ file = \"users.htpasswd\", realm = \"Members\" }",
        documentation: "Requires user and password, see `[site.basic_authentication]`. A route without this \
            key uses the setting of its site.",
        kind: Kind::Table { read },
    }
}

/// `rate_limit`
pub(super) const fn rate_limit<C>(
    read: fn(&mut Reader<'_>, &Value<'_>, &mut C) -> Vec<SectionPlaces>,
) -> Key<C> {
    Key {
        name: "rate_limit",
        default: Some(ABSENT),
        example: "{ requests = 100, burst = 200 }",
        documentation: "How many requests each client may make, see `[site.rate_limit]`. A route without \
            this key shares the limit of its site.",
        kind: Kind::Table { read },
    }
}

/// A network in both lists, which would be ambiguous.
fn listed_twice(allow: &[Network], deny: &[Network]) -> Option<Network> {
    deny.iter().find(|network| allow.contains(network)).copied()
}

/// The problem of `satisfy = "any"` in a site, or in a route of this site.
fn satisfy_problem(own: &AccessConfig, site: Option<&AccessConfig>) -> Option<String> {
    let inherited = || [Some(own), site].into_iter().flatten();
    if inherited().find_map(|access| access.satisfy) != Some(Satisfy::Any) {
        return None;
    }
    let mut users = Vec::new();
    let password = inherited().find_map(|access| match (&access.jwt, &access.basic_authentication) {
        (Some(jwt), _) => Some(("jwt", jwt.keys != TokenKeys::Off)),
        (None, Some(basic)) => Some(("basic_authentication", basic.file != PasswordSource::Off)),
        (None, None) => None,
    });
    users.extend(password.filter(|(_, is_on)| *is_on).map(|(key, _)| key));
    let login = inherited().find_map(|access| access.login.as_ref());
    users.extend(login.filter(|login| !login.issuer.is_empty()).map(|_| "login"));
    let authority = inherited().find_map(|access| access.forward_auth.as_ref());
    users.extend(authority.filter(|authority| authority.url.is_some()).map(|_| "forward_auth"));
    let networks = inherited().find(|access| !access.allow.is_empty() || !access.deny.is_empty());
    let allows = networks.is_some_and(|access| !access.allow.is_empty());
    match users.as_slice() {
        [one, other, ..] => Some(format!(
            "'satisfy' \"any\" admits a client by its address or by one other rule, but there are '{one}' \
             and '{other}'; keep one of them"
        )),
        // A site may state it for its routes.
        _ if own.satisfy.is_none() || site.is_none() => None,
        [] => Some(
            "'satisfy' \"any\" needs 'basic_authentication', 'jwt', 'login' or 'forward_auth': without one \
             of them only the address counts"
                .to_string(),
        ),
        [_] if !allows => Some(
            "'satisfy' \"any\" needs 'allow': the networks whose clients are admitted without a password or \
             session"
                .to_string(),
        ),
        [_] => None,
    }
}

/// The problems of the access keys of a site or route: a key and a message each.
pub(super) fn problems(access: &AccessConfig) -> Vec<(&'static str, String)> {
    let twice = listed_twice(&access.allow, &access.deny);
    let twice = twice.map(|network| ("deny", format!("'deny': {network} is also in 'allow'")));
    let both = access.jwt.is_some() && access.basic_authentication.is_some();
    let both = both.then(|| ("jwt", "'jwt' and 'basic_authentication' exclude each other".to_string()));
    let has_login = access.login.as_ref().is_some_and(|login| !login.issuer.is_empty());
    let other = if access.jwt.is_some() { "jwt" } else { "basic_authentication" };
    let with_login = has_login && (access.jwt.is_some() || access.basic_authentication.is_some());
    let with_login = with_login.then(|| ("login", format!("'login' and '{other}' exclude each other")));
    twice.into_iter().chain(both).chain(with_login).collect()
}

impl ConfigReader<'_> {
    /// Checks for access keys of sites that contradict each other, and for impossible settings of proxies.
    pub(super) fn check_access(&mut self, loaded: &ConfigWithPlaces) {
        for (site, places) in loaded.config.sites.iter().zip(&loaded.places.sites) {
            for (key, message) in problems(&site.access) {
                self.problem(places.key(key), message);
            }
            if let Some(message) = satisfy_problem(&site.access, None) {
                self.problem(places.key("satisfy"), message);
            }
            for (position, route) in site.routes.iter().enumerate() {
                let is_own = route.access != AccessConfig::default();
                let problem = satisfy_problem(&route.access, Some(&site.access)).filter(|_| is_own);
                if let Some(message) = problem {
                    self.problem(places.table("route", position).unwrap_or(places).key("satisfy"), message);
                }
            }
        }
        let Some(places) = loaded.places.sections.get(PROXIES.name) else { return };
        let proxies = &loaded.config.proxies;
        if proxies.trusted.is_empty() && !proxies.proxy_protocol.is_empty() {
            let message =
                "'proxy_protocol' has no effect without 'trusted', the addresses of the proxies".to_string();
            self.problem(places.key("proxy_protocol"), message);
        }
        if loaded.places.sites.iter().any(|site| site.is_unread("listen")) {
            return;
        }
        let listens = |site: &SiteConfig, address| site.listen.contains(address);
        for (position, address) in proxies.proxy_protocol.iter().enumerate() {
            if !loaded.config.sites.iter().any(|site| listens(site, address)) {
                let message = format!("'proxy_protocol': no [[site]] listens on {address}");
                self.problem(places.item("proxy_protocol", position), message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_in_both_lists_is_found() {
        let networks =
            |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<Network>>();
        let both = networks(&["10.0.0.0/8", "::1"]);
        assert_eq!(listed_twice(&both, &networks(&["::1"])), Some(networks(&["::1"])[0]));
        assert_eq!(listed_twice(&both, &networks(&["::2"])), None);
    }
}
