//! `jwt`: tokens that a site or route requires.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use touchstone_config_section::reader::{Reader, Value};
use touchstone_config_section::{ABSENT, Key, Kind, Section, SectionPlaces, values};

/// `jwt`
#[derive(Debug, Clone, PartialEq)]
pub struct JwtConfig {
    /// Where the keys of the issuer are.
    pub keys: TokenKeys,
    /// The signature algorithms that are accepted.
    pub algorithms: Vec<String>,
    /// The issuer; empty: any.
    pub issuer: String,
    /// The audiences of which a token must name one; empty: a token with an audience is refused.
    pub audience: Vec<String>,
    /// Claims that a token must have: `NAME=VALUE`.
    pub claims: Vec<String>,
    /// The claim that is the user.
    pub user: String,
    /// Header fields that programs and origins get, with the claims that are their values.
    pub fields: BTreeMap<String, String>,
    /// The cookie that may hold the token; empty: none.
    pub cookie: String,
    /// The name of the protected area.
    pub realm: String,
    /// How far clocks may differ.
    pub leeway: Duration,
    /// How often keys of an address are fetched.
    pub refresh: Duration,
    /// The authorities that the server of the keys may have its certificate from; `None`: those of the
    /// system.
    pub ca_certificate: Option<PathBuf>,
}

/// Where the keys of the issuer are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenKeys {
    /// No token is needed.
    Off,
    /// In this file.
    File(PathBuf),
    /// At this address.
    Url(String),
}

/// The algorithms that can be accepted, as RFC 7518 and RFC 8037 name them.
pub const TOKEN_ALGORITHMS: [&str; 12] = [
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA", "HS256", "HS384",
    "HS512",
];

impl JwtConfig {
    /// The claims that a token must have, with the values that they must contain.
    pub fn required_claims(&self) -> impl Iterator<Item = (&str, &str)> {
        self.claims.iter().filter_map(|claim| claim.split_once('='))
    }
}

/// `[site.jwt]`
pub static JWT: Section<JwtConfig> = Section {
    name: "site.jwt",
    repeated: false,
    documentation: "Requires a JSON Web Token (RFC 7519), as `Authorization: Bearer TOKEN` (RFC 6750) or in \
        a cookie. `[site.route.jwt]` has the same keys. The time claims `exp` (required) and `nbf` are \
        checked always. Without a token, or with one that is not valid, the answer is 401 Unauthorized; \
        without a required claim 403 Forbidden. Use it with HTTPS: without HTTPS, tokens can be read on the \
        network.",
    blank: || JwtConfig {
        keys: TokenKeys::Off,
        algorithms: Vec::new(),
        issuer: String::new(),
        audience: Vec::new(),
        claims: Vec::new(),
        user: String::new(),
        fields: BTreeMap::new(),
        cookie: String::new(),
        realm: String::new(),
        leeway: Duration::ZERO,
        refresh: Duration::ZERO,
        ca_certificate: None,
    },
    keys: &[
        Key {
            name: "keys",
            default: None,
            example: "\"https://login.example.org/.well-known/jwks.json\"",
            documentation: "The public keys of the issuer, a JSON Web Key Set (RFC 7517): the path of a \
                file, an `https://` address, or `\"off\"`. A change of the file takes effect within two \
                seconds. An address is fetched at the start, at every `refresh`, and when a token names an \
                unknown key, but then at most every ten seconds. Until keys have been fetched, requests are \
                answered with 503 Service Unavailable. Only an address of this machine may begin with \
                `http://`. `\"off\"` in a route admits every client even if the site requires a token.",
            kind: Kind::Checked {
                what: "path of a file, `https://` address, or `\"off\"`",
                parse: parse_keys,
                set: |jwt, text| {
                    jwt.keys = match text.as_str() {
                        "off" => TokenKeys::Off,
                        url if is_url(url) => TokenKeys::Url(text),
                        _ => TokenKeys::File(text.into()),
                    };
                },
            },
        },
        Key {
            name: "algorithms",
            default: Some(
                "[\"RS256\", \"RS384\", \"RS512\", \"PS256\", \"PS384\", \"PS512\", \"ES256\", \"ES384\", \
                 \"EdDSA\"]",
            ),
            example: "[\"ES256\"]",
            documentation: "The signature algorithms that are accepted (RFC 7518, RFC 8037). `HS256`, \
                `HS384` and `HS512` must be named: their key is a secret, and a server that checks such \
                tokens could also create them. `none` is never accepted. The kind of the key must fit the \
                algorithm, regardless of the token.",
            kind: Kind::CheckedArray {
                what: "array of signature algorithms",
                parse: |text| match TOKEN_ALGORITHMS.contains(&text) {
                    true => Ok(text.to_string()),
                    false => Err(format!("{text:?} is none of {}", TOKEN_ALGORITHMS.join(", "))),
                },
                set: |jwt, value| jwt.algorithms = value,
            },
        },
        Key {
            name: "issuer",
            default: Some("\"\""),
            example: "\"https://login.example.org/\"",
            documentation: "The issuer that a token must name in `iss`. Empty means any issuer.",
            kind: Kind::HeaderValue(|jwt, value| jwt.issuer = value),
        },
        Key {
            name: "audience",
            default: Some("[]"),
            example: "[\"https://api.example.org\"]",
            documentation: "The audiences of which a token must name at least one in `aud`. \
                Empty means that a token with an audience is refused: it was issued for another service.",
            kind: Kind::CheckedArray {
                what: "array of audiences",
                parse: values::parse_header_value,
                set: |jwt, value| jwt.audience = value,
            },
        },
        Key {
            name: "claims",
            default: Some("[]"),
            example: "[\"scope=orders.read\", \"realm_access.roles=admin\"]",
            documentation: "Claims that a token must have, each as `NAME=VALUE`. The claim must be equal to \
                the value, be an array with it, or be a text that lists it between spaces, as `scope` does. \
                A dot in the name selects a member of an object. A token without one of them is answered \
                with 403.",
            kind: Kind::CheckedArray {
                what: "array of `NAME=VALUE`",
                parse: parse_claim,
                set: |jwt, value| jwt.claims = value,
            },
        },
        Key {
            name: "user",
            default: Some("\"sub\""),
            example: "\"preferred_username\"",
            documentation: "The claim that names the user, for programs (`REMOTE_USER`) and the access log.",
            kind: Kind::Checked {
                what: "name of a claim",
                parse: |text, _| check_claim_name(text),
                set: |jwt, value| jwt.user = value,
            },
        },
        Key {
            name: "fields",
            default: Some("{}"),
            example: "{ X-User = \"sub\", X-Roles = \"realm_access.roles\" }",
            documentation: "Header fields that programs and origins get, each with the claim that is its \
                value; the items of an array are separated by commas. Fields of these names that the client \
                sends are dropped. A token whose claim cannot be the value of a field is refused.",
            kind: Kind::Fields {
                what: "table from names of header fields to claims",
                check: check_field,
                set: |jwt, value| jwt.fields = value,
            },
        },
        Key {
            name: "cookie",
            default: Some("\"\""),
            example: "\"access_token\"",
            documentation: "The cookie that may hold the token, for requests without `Authorization`. Empty: \
                cookies are not used. Requests from pages of other sites contain cookies too: use it with \
                `SameSite`, or for reading only.",
            kind: Kind::Token(|jwt, value| jwt.cookie = value),
        },
        Key {
            name: "realm",
            default: Some("\"Restricted\""),
            example: "\"Orders\"",
            documentation: "The name of the protected area in `WWW-Authenticate`.",
            kind: Kind::HeaderValue(|jwt, value| jwt.realm = value),
        },
        Key {
            name: "leeway",
            default: Some("\"30s\""),
            example: "\"5s\"",
            documentation: "How far the clocks of issuer and server may differ, for `exp` and `nbf`.",
            kind: Kind::Duration {
                least: Duration::ZERO,
                most: Duration::from_secs(300),
                set: |jwt, value| jwt.leeway = value,
            },
        },
        Key {
            name: "refresh",
            default: Some("\"10m\""),
            example: "\"1h\"",
            documentation: "How often the keys of an address are fetched. \
                A key that the issuer has withdrawn is accepted for this time at most.",
            kind: Kind::Duration {
                least: Duration::from_secs(10),
                most: Duration::from_secs(24 * 3600),
                set: |jwt, value| jwt.refresh = value,
            },
        },
        Key {
            name: "ca_certificate",
            default: Some("\"\""),
            example: "\"/etc/ssl/own-ca.pem\"",
            documentation: "The authorities that may issue the certificate of the server of the keys, in PEM \
                form. Empty means the authorities that the system trusts.",
            kind: Kind::File(|jwt, value| jwt.ca_certificate = value),
        },
    ],
};

fn is_url(text: &str) -> bool {
    text.starts_with("https://") || text.starts_with("http://")
}

fn parse_keys(text: &str, base: &Path) -> Result<String, String> {
    match text {
        "off" => Ok(text.to_string()),
        url if is_url(url) => touchstone_client::HttpClient::check_url(url).map(|()| url.to_string()),
        _ => values::parse_path(text, base).map(|path| path.to_string_lossy().into_owned()),
    }
}

/// The name of the claim that names the user.
pub(super) fn check_claim_name(text: &str) -> Result<String, String> {
    match text {
        "" => Err("an empty string is not the name of a claim; write one such as \"sub\"".to_string()),
        text => values::parse_header_value(text),
    }
}

/// A required claim: `NAME=VALUE`.
pub(super) fn parse_claim(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok(text.to_string()),
        _ => Err(format!("{text:?} has not the form \"NAME=VALUE\", such as \"scope=orders.read\"")),
    }
}

/// Fields that frame the message, or that other rules rely on, cannot have the value of a claim.
pub(super) fn check_field(name: &str, claim: &str) -> Result<(), String> {
    const OWN: [&str; 5] = ["authorization", "cookie", "host", "forwarded", "content-type"];
    values::check_answer_field(name)?;
    if OWN.iter().any(|own| name.eq_ignore_ascii_case(own))
        || name.to_ascii_lowercase().starts_with("x-forwarded-")
    {
        return Err(format!("{name} cannot have the value of a claim"));
    }
    if claim.is_empty() {
        return Err(format!("{name} needs the name of a claim, such as \"sub\""));
    }
    Ok(())
}

/// `jwt`
pub(super) const fn jwt<C>(read: fn(&mut Reader<'_>, &Value<'_>, &mut C) -> Vec<SectionPlaces>) -> Key<C> {
    Key {
        name: "jwt",
        default: Some(ABSENT),
        example: "{ keys = \"https://login.example.org/.well-known/jwks.json\", audience = [\"api\"] }",
        documentation: "Requires a JSON Web Token, see `[site.jwt]`. A route without this key uses the \
            setting of its site. Not together with `basic_authentication`: one in a route replaces the other \
            in its site.",
        kind: Kind::Table { read },
    }
}
