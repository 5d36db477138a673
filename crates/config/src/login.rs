//! `login`: users sign in at an OpenID provider, and have a session in a cookie.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use touchstone_client::HttpClient;
use touchstone_config_section::reader::{Reader, Value};
use touchstone_config_section::{ABSENT, Choice, Key, Kind, Section, SectionPlaces, values};

use super::jwt::{self, TOKEN_ALGORITHMS};

/// `login`
#[derive(Debug, Clone, PartialEq)]
pub struct LoginConfig {
    /// The provider; empty: no login is needed.
    pub issuer: String,
    /// The name of this site at the provider.
    pub client_id: String,
    /// The file with its secret; `None`: it has none.
    pub client_secret_file: Option<PathBuf>,
    /// How the secret is sent.
    pub client_authentication: ClientAuthentication,
    /// The scopes that the user is requested to allow.
    pub scopes: Vec<String>,
    /// Further parameters of the address where a user signs in.
    pub parameters: BTreeMap<String, String>,
    /// Claims that a user must have: `NAME=VALUE`.
    pub claims: Vec<String>,
    /// The claim that is the user.
    pub user: String,
    /// Header fields that programs and origins get, with the claims that are their values.
    pub fields: BTreeMap<String, String>,
    /// Whether further claims are requested from the provider.
    pub user_information: bool,
    /// The signature algorithms of ID tokens that are accepted.
    pub algorithms: Vec<String>,
    /// The path to which the provider sends a browser back.
    pub callback: String,
    /// The path that begins a login; empty: none.
    pub sign_in: String,
    /// The path that ends a session; empty: none.
    pub sign_out: String,
    /// The target of a redirect after that; empty: a page that confirms it.
    pub after_sign_out: String,
    /// The path to which the provider sends logout tokens; empty: none. Clients may share it.
    pub back_channel: String,
    /// The file with the keys of cookies; `None`: this process makes one.
    pub key_file: Option<PathBuf>,
    /// How long a session lasts.
    pub lifetime: Duration,
    /// How long a session without requests lasts; zero: as long as others.
    pub idle: Duration,
    /// How often the provider is queried whether a session continues; zero: never.
    pub renew: Duration,
    /// How long the provider may take for an answer.
    pub timeout: Duration,
    /// How far clocks may differ.
    pub leeway: Duration,
    /// How often metadata and keys of the provider are fetched.
    pub refresh: Duration,
    /// The authorities that the provider may have its certificate from; `None`: those of the system.
    pub ca_certificate: Option<PathBuf>,
}

/// How the secret of the client is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAuthentication {
    /// According to the provider's metadata.
    Auto,
    /// In `Authorization`.
    Basic,
    /// In the form.
    Post,
}

/// Parameters that the server itself sets.
const OWN_PARAMETERS: [&str; 10] = [
    "client_id",
    "code_challenge",
    "code_challenge_method",
    "nonce",
    "redirect_uri",
    "request",
    "request_uri",
    "response_mode",
    "response_type",
    "state",
];

impl LoginConfig {
    /// The claims that a user must have, with the values that they must contain.
    pub fn required_claims(&self) -> impl Iterator<Item = (&str, &str)> {
        self.claims.iter().filter_map(|claim| claim.split_once('='))
    }

    /// The paths that the login answers itself, with their keys.
    pub fn paths(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [("callback", &self.callback), ("sign_in", &self.sign_in), ("sign_out", &self.sign_out)];
        all.into_iter().map(|(key, path)| (key, path.as_str())).filter(|(_, path)| !path.is_empty())
    }

    /// What is wrong with the keys together.
    fn problem(&self) -> Option<String> {
        if self.issuer.is_empty() {
            return None;
        }
        if self.client_id.is_empty() {
            return Some("'client_id' is missing: the identifier of this site at the provider".into());
        }
        if !self.scopes.iter().any(|scope| scope == "openid") {
            return Some("'scopes' must have \"openid\": without it there is no ID token".into());
        }
        let back_channel = Some(("back_channel", self.back_channel.as_str()));
        let paths: Vec<_> = self.paths().chain(back_channel.filter(|(_, path)| !path.is_empty())).collect();
        for (position, (key, path)) in paths.iter().enumerate() {
            if let Some((other, _)) = paths[..position].iter().find(|(_, before)| before == path) {
                return Some(format!("'{key}' and '{other}' are the same path"));
            }
        }
        if self.idle > self.lifetime {
            return Some("'idle' is longer than 'lifetime', the longest that a session lasts".into());
        }
        None
    }
}

/// `[site.login]`
pub static LOGIN: Section<LoginConfig> = Section {
    name: "site.login",
    repeated: false,
    documentation: "Users sign in at an OpenID provider such as Keycloak, Dex, Google or Entra, see \
        [login](login.md). `[site.route.login]` has the same keys. The session is in an encrypted cookie. A \
        browser that loads a page without a session is sent to the provider (302); other requests without \
        one are answered with 401, users without a required claim with 403. Use it with HTTPS: over plain \
        HTTP it works for clients on this machine only.",
    blank: || LoginConfig {
        issuer: String::new(),
        client_id: String::new(),
        client_secret_file: None,
        client_authentication: ClientAuthentication::Auto,
        scopes: Vec::new(),
        parameters: BTreeMap::new(),
        claims: Vec::new(),
        user: String::new(),
        fields: BTreeMap::new(),
        user_information: false,
        algorithms: Vec::new(),
        callback: String::new(),
        sign_in: String::new(),
        sign_out: String::new(),
        back_channel: String::new(),
        after_sign_out: String::new(),
        key_file: None,
        lifetime: Duration::ZERO,
        idle: Duration::ZERO,
        renew: Duration::ZERO,
        timeout: Duration::ZERO,
        leeway: Duration::ZERO,
        refresh: Duration::ZERO,
        ca_certificate: None,
    },
    keys: &[
        Key {
            name: "issuer",
            default: None,
            example: "\"https://login.example.org\"",
            documentation: "The URL of the provider, exactly as in its own metadata (`issuer`), or \
                `\"off\"`. `/.well-known/openid-configuration` below it is fetched at the start and at every \
                `refresh`. Only an address of this machine may begin with `http://`. `\"off\"` in a route \
                admits every client even if the site requires a login.",
            kind: Kind::Checked {
                what: "URL, or `\"off\"`",
                parse: parse_issuer,
                set: |login, text| login.issuer = if text == "off" { String::new() } else { text },
            },
        },
        Key {
            name: "client_id",
            default: Some("\"\""),
            example: "\"www\"",
            documentation: "The identifier of this site at the provider.",
            kind: Kind::HeaderValue(|login, value| login.client_id = value),
        },
        Key {
            name: "client_secret_file",
            default: Some("\"\""),
            example: "\"login.secret\"",
            documentation: "The file with the secret of this site at the provider, on one line. \
                Empty means a client without a secret; PKCE (RFC 7636) is used in both cases.",
            kind: Kind::File(|login, value| login.client_secret_file = value),
        },
        Key {
            name: "client_authentication",
            default: Some("\"auto\""),
            example: "\"post\"",
            documentation: "How the secret is sent to the provider.",
            kind: Kind::Choice(&[
                Choice {
                    word: "auto",
                    meaning: "according to the provider's metadata, `basic` where they allow both",
                    set: |login| login.client_authentication = ClientAuthentication::Auto,
                },
                Choice {
                    word: "basic",
                    meaning: "in `Authorization` (`client_secret_basic`)",
                    set: |login| login.client_authentication = ClientAuthentication::Basic,
                },
                Choice {
                    word: "post",
                    meaning: "in the form (`client_secret_post`)",
                    set: |login| login.client_authentication = ClientAuthentication::Post,
                },
            ]),
        },
        Key {
            name: "scopes",
            default: Some("[\"openid\", \"profile\", \"email\"]"),
            example: "[\"openid\", \"email\", \"groups\", \"offline_access\"]",
            documentation: "The scopes that the user is requested to allow; `openid` must be one of them. \
                Many providers issue a refresh token for `offline_access` only, see `renew`.",
            kind: Kind::CheckedArray {
                what: "array of scopes",
                parse: parse_scope,
                set: |login, value| login.scopes = value,
            },
        },
        Key {
            name: "parameters",
            default: Some("{}"),
            example: "{ prompt = \"select_account\" }",
            documentation: "Further parameters of the address where users sign in, such as `prompt`, \
                `acr_values`, `hd` or `max_age`.",
            kind: Kind::Pairs {
                what: "table from names of parameters to values",
                check: check_parameter,
                set: |login, value| login.parameters = value,
            },
        },
        Key {
            name: "claims",
            default: Some("[]"),
            example: "[\"groups=staff\"]",
            documentation: "Claims that a user must have, each as `NAME=VALUE`. The claim must be equal to \
                the value, be an array with it, or be a text that lists it between spaces. A dot in the name \
                selects a member of an object. A user without one of them is answered with 403.",
            kind: Kind::CheckedArray {
                what: "array of `NAME=VALUE`",
                parse: jwt::parse_claim,
                set: |login, value| login.claims = value,
            },
        },
        Key {
            name: "user",
            default: Some("\"sub\""),
            example: "\"email\"",
            documentation: "The claim that names the user, for programs (`REMOTE_USER`) and the access log.",
            kind: Kind::Checked {
                what: "name of a claim",
                parse: |text, _| jwt::check_claim_name(text),
                set: |login, value| login.user = value,
            },
        },
        Key {
            name: "fields",
            default: Some("{}"),
            example: "{ X-User = \"email\", X-Groups = \"groups\" }",
            documentation: "Header fields that programs and origins get, each with the claim that is its \
                value; the items of an array are separated by commas. Fields of these names that the client \
                sends are dropped. A user whose claim cannot be the value of a field is refused.",
            kind: Kind::Fields {
                what: "table from names of header fields to claims",
                check: jwt::check_field,
                set: |login, value| login.fields = value,
            },
        },
        Key {
            name: "user_information",
            default: Some("false"),
            example: "true",
            documentation: "Whether claims that the ID token does not have are requested from the provider's \
                user information endpoint.",
            kind: Kind::Boolean(|login, value| login.user_information = value),
        },
        Key {
            name: "algorithms",
            default: Some(
                "[\"RS256\", \"RS384\", \"RS512\", \"PS256\", \"PS384\", \"PS512\", \"ES256\", \"ES384\", \
                 \"EdDSA\"]",
            ),
            example: "[\"ES256\"]",
            documentation: "The signature algorithms of ID tokens that are accepted. The kind of the \
                provider's key must fit the algorithm, regardless of the token.",
            kind: Kind::CheckedArray {
                what: "array of signature algorithms",
                parse: parse_algorithm,
                set: |login, value| login.algorithms = value,
            },
        },
        Key {
            name: "callback",
            default: Some("\"/.touchstone/login/callback\""),
            example: "\"/oauth2/callback\"",
            documentation: "The path to which the provider sends a browser back. The whole URL, such as \
                `https://www.example.org/.touchstone/login/callback`, is registered at the provider.",
            kind: Kind::Checked {
                what: "path",
                parse: parse_own_path,
                set: |login, value| login.callback = value,
            },
        },
        Key {
            name: "sign_in",
            default: Some("\"/.touchstone/login/sign-in\""),
            example: "\"/sign-in\"",
            documentation: "The path that begins a login, for links and scripts: \
                `/.touchstone/login/sign-in?to=/orders` redirects to `/orders` after the login. Empty means \
                none.",
            kind: Kind::Checked {
                what: "path",
                parse: parse_own_path_or_empty,
                set: |login, value| login.sign_in = value,
            },
        },
        Key {
            name: "sign_out",
            default: Some("\"/.touchstone/login/sign-out\""),
            example: "\"/sign-out\"",
            documentation: "The path that ends a session, here and at the provider if it has an address for \
                that. For a link from another site a page with a question is shown first. Empty means none.",
            kind: Kind::Checked {
                what: "path",
                parse: parse_own_path_or_empty,
                set: |login, value| login.sign_out = value,
            },
        },
        Key {
            name: "back_channel",
            default: Some("\"/.touchstone/login/back-channel\""),
            example: "\"/backchannel-logout\"",
            documentation: "The path to which the provider sends a logout token when a session ends there \
                (OpenID Connect Back-Channel Logout 1.0), so that it ends here at once. The whole URL is \
                registered at the provider. Several logins may have the same path. Empty means none.",
            kind: Kind::Checked {
                what: "path",
                parse: parse_own_path_or_empty,
                set: |login, value| login.back_channel = value,
            },
        },
        Key {
            name: "after_sign_out",
            default: Some("\"\""),
            example: "\"/goodbye.html\"",
            documentation: "The path of this site to which a browser is redirected after the logout. The \
                whole URL is registered at the provider as a URL for redirects after a logout. Empty means \
                the provider's own page, or one of this server.",
            kind: Kind::Checked {
                what: "path",
                parse: parse_own_path_or_empty,
                set: |login, value| login.after_sign_out = value,
            },
        },
        Key {
            name: "key_file",
            default: Some("\"\""),
            example: "\"login.keys\"",
            documentation: "The file with the secrets that encrypt cookies, one of at least 32 characters on \
                each line. The first secret encrypts, all decrypt: insert a new secret before the old one, \
                and remove the old one after `lifetime`. Machines with the same file share sessions. The \
                file is read together with the configuration. Empty means a key that this process generates: \
                sessions are valid until the process ends.",
            kind: Kind::File(|login, value| login.key_file = value),
        },
        Key {
            name: "lifetime",
            default: Some("\"8h\""),
            example: "\"12h\"",
            documentation: "How long a session lasts at most; then the user signs in again.",
            kind: Kind::Duration {
                least: Duration::from_secs(1),
                most: Duration::from_secs(90 * 24 * 3600),
                set: |login, value| login.lifetime = value,
            },
        },
        Key {
            name: "idle",
            default: Some("\"1h\""),
            example: "\"15m\"",
            documentation: "How long a session without requests lasts. `\"0s\"` means that only `lifetime` \
                applies.",
            kind: Kind::Duration {
                least: Duration::ZERO,
                most: Duration::from_secs(90 * 24 * 3600),
                set: |login, value| login.idle = value,
            },
        },
        Key {
            name: "renew",
            default: Some("\"10m\""),
            example: "\"5m\"",
            documentation: "How often the provider is queried with the refresh token of a session: whether \
                the session continues, and for new claims. A session that the provider has ended then ends \
                here. While the provider cannot be reached, sessions continue. Without a refresh token, or \
                with `\"0s\"`, there are no queries.",
            kind: Kind::Duration {
                least: Duration::ZERO,
                most: Duration::from_secs(30 * 24 * 3600),
                set: |login, value| login.renew = value,
            },
        },
        Key {
            name: "timeout",
            default: Some("\"10s\""),
            example: "\"5s\"",
            documentation: "How long the provider may take for an answer; then a login is answered with 504.",
            kind: Kind::Duration {
                least: Duration::from_millis(10),
                most: Duration::from_secs(60),
                set: |login, value| login.timeout = value,
            },
        },
        Key {
            name: "leeway",
            default: Some("\"30s\""),
            example: "\"5s\"",
            documentation: "How far the clocks of provider and server may differ, for times in ID tokens.",
            kind: Kind::Duration {
                least: Duration::ZERO,
                most: Duration::from_secs(300),
                set: |login, value| login.leeway = value,
            },
        },
        Key {
            name: "refresh",
            default: Some("\"10m\""),
            example: "\"1h\"",
            documentation: "How often the provider's metadata and keys are fetched. Keys are also fetched \
                when a token names an unknown key.",
            kind: Kind::Duration {
                least: Duration::from_secs(10),
                most: Duration::from_secs(24 * 3600),
                set: |login, value| login.refresh = value,
            },
        },
        Key {
            name: "ca_certificate",
            default: Some("\"\""),
            example: "\"/etc/ssl/own-ca.pem\"",
            documentation: "The authorities that may issue the provider's certificate, in PEM form. Empty \
                means the authorities that the system trusts.",
            kind: Kind::File(|login, value| login.ca_certificate = value),
        },
    ],
};

fn parse_issuer(text: &str, _: &Path) -> Result<String, String> {
    if text == "off" {
        return Ok(text.to_string());
    }
    HttpClient::check_url(text)?;
    if text.contains(['?', '#']) || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("{:?} must have no query, fragment or spaces", values::shorten(text)));
    }
    if text.ends_with("/.well-known/openid-configuration") {
        return Err("name the issuer without /.well-known/openid-configuration".to_string());
    }
    Ok(text.to_string())
}

/// RFC 6749 section 3.3.
fn parse_scope(text: &str) -> Result<String, String> {
    let is_scope = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    match !text.is_empty() && text.bytes().all(is_scope) {
        true => Ok(text.to_string()),
        false => Err(format!("{:?} is not one scope", values::shorten(text))),
    }
}

fn check_parameter(name: &str, value: &str) -> Result<(), String> {
    if OWN_PARAMETERS.contains(&name) || name == "scope" {
        return Err(format!("the server itself sets the parameter {name}"));
    }
    if !values::is_token(name) || value.chars().any(char::is_control) {
        return Err(format!("{:?} is not a parameter", values::shorten(name)));
    }
    Ok(())
}

fn parse_algorithm(text: &str) -> Result<String, String> {
    match TOKEN_ALGORITHMS.contains(&text) && !text.starts_with("HS") {
        true => Ok(text.to_string()),
        false => Err(format!(
            "{text:?} is none of {}",
            TOKEN_ALGORITHMS
                .iter()
                .filter(|name| !name.starts_with("HS"))
                .copied()
                .collect::<Vec<_>>()
                .join(", ")
        )),
    }
}

/// A path of the site that is written in its normal form, so that requests are compared with it as they are.
fn parse_own_path(text: &str, _: &Path) -> Result<String, String> {
    let path = values::parse_site_path(text)?;
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_' | b'.' | b'~');
    match path == text && path.bytes().all(is_plain) && !path.contains("//") {
        true => Ok(path),
        false => Err(format!(
            "{:?} must be in its normal form, with letters, digits, '-', '_', '.' and '~' only",
            values::shorten(text)
        )),
    }
}

fn parse_own_path_or_empty(text: &str, base: &Path) -> Result<String, String> {
    if text.is_empty() { Ok(String::new()) } else { parse_own_path(text, base) }
}

/// Reads the section, and checks its keys together.
pub(super) fn read(
    reader: &mut Reader<'_>,
    value: &Value<'_>,
    target: &mut Option<LoginConfig>,
) -> Vec<SectionPlaces> {
    reader.checked_table_into(&LOGIN, value, target, LoginConfig::problem)
}

/// `login`
pub(super) const fn login<C>(read: fn(&mut Reader<'_>, &Value<'_>, &mut C) -> Vec<SectionPlaces>) -> Key<C> {
    Key {
        name: "login",
        default: Some(ABSENT),
        example: "{ issuer = \"https://login.example.org\", client_id = \"www\" }",
        documentation: "Users sign in at an OpenID provider, see `[site.login]`. A route without this key \
            uses the setting of its site. Not together with `jwt` or `basic_authentication`.",
        kind: Kind::Table { read },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_one_by_one() {
        let base = Path::new("");
        for good in
            ["off", "https://login.example.org/realms/a", "http://127.0.0.1:5556/dex", "https://a.example/"]
        {
            assert_eq!(parse_issuer(good, base).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "login.example.org",
            "http://login.example.org",
            "https://a.example/?b",
            "https://a.example/#b",
            "https://a.example/.well-known/openid-configuration",
        ] {
            assert!(parse_issuer(bad, base).is_err(), "{bad}");
        }
        for bad in ["", "callback", "/a b", "/a?b", "/a/../b", "/a//b", "/%61"] {
            assert!(parse_own_path(bad, base).is_err(), "{bad}");
        }
        assert_eq!(parse_own_path("/.touchstone/x", base).as_deref(), Ok("/.touchstone/x"));
        for bad in ["none", "HS256", "ES512", ""] {
            assert!(parse_algorithm(bad).is_err(), "{bad}");
        }
        assert!(check_parameter("redirect_uri", "x").unwrap_err().contains("itself sets"));
        assert_eq!(check_parameter("prompt", "login"), Ok(()));
        assert!(parse_scope("a b").is_err());
    }

    #[test]
    fn keys_fit_together() {
        let right = LoginConfig {
            issuer: "https://a.example".into(),
            client_id: "www".into(),
            scopes: vec!["openid".into()],
            callback: "/callback".into(),
            lifetime: Duration::from_secs(10),
            ..(LOGIN.blank)()
        };
        assert_eq!(right.problem(), None);
        for (wrong, message) in [
            (LoginConfig { client_id: String::new(), ..right.clone() }, "'client_id' is missing"),
            (LoginConfig { scopes: vec!["email".into()], ..right.clone() }, "\"openid\""),
            (LoginConfig { sign_out: "/callback".into(), ..right.clone() }, "are the same path"),
            (LoginConfig { idle: Duration::from_secs(11), ..right.clone() }, "longer than 'lifetime'"),
        ] {
            assert!(wrong.problem().unwrap().contains(message), "{message}");
        }
    }
}
