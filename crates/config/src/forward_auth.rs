//! `forward_auth`: another server that decides which requests of a site or route pass.

use std::path::{Path, PathBuf};
use std::time::Duration;

use touchstone_config_section::reader::{Reader, Value};
use touchstone_config_section::{ABSENT, Key, Kind, Section, SectionPlaces, values};
use touchstone_proxy::{HostField, OriginUrl};

use touchstone_config_interfaces::proxy::{PROXY, ProxyConfig};

/// `forward_auth`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardAuthConfig {
    /// The URL of the authority; `None`: it is not queried.
    pub url: Option<String>,
    /// The request fields that it gets; empty: all.
    pub send: Vec<String>,
    /// The fields of its answer that programs and origins get.
    pub fields: Vec<String>,
    /// The field of its answer that names the user; empty: none.
    pub user: String,
    /// The target of a redirect for clients without a session; empty: they are not redirected.
    pub sign_in: String,
    /// How long it may take to decide.
    pub timeout: Duration,
    /// How long a request that passed passes again without a question.
    pub remember: Duration,
    /// What else than the fields sent makes a request the same as one that passed.
    pub remember_by: Vec<String>,
    /// The authorities that its certificate may be from; `None`: those of the system.
    pub ca_certificate: Option<PathBuf>,
}

/// The properties that identify a request, in addition to the fields that are sent.
pub const REMEMBER_BY: [&str; 4] = ["method", "host", "uri", "client"];

impl ForwardAuthConfig {
    /// The origin and the path of the query; `None`: there are no queries.
    pub fn target(&self) -> Option<(String, String)> {
        split_url(self.url.as_deref()?).ok()
    }

    /// How the authority is queried: one origin, with its own name as the host.
    pub fn proxy(&self, origin: String) -> ProxyConfig {
        let mut proxy = PROXY.defaults();
        proxy.to = vec![origin];
        proxy.host = HostField::Origin;
        proxy.total_timeout = self.timeout;
        // There is no other origin: each query is sent, so that the end of an outage is detected at once.
        proxy.health.max_failures = 0;
        proxy.tls.authorities = self.ca_certificate.clone();
        proxy
    }

    fn problem(&self) -> Option<String> {
        if !self.remember.is_zero() && self.send.is_empty() {
            return Some(
                "'remember' needs 'send', the fields that the decision depends on, such as [\"Cookie\", \
                 \"Authorization\"]: only requests with the same values of them are the same"
                    .to_string(),
            );
        }
        None
    }
}

/// `[site.forward_auth]`
pub static FORWARD_AUTH: Section<ForwardAuthConfig> = Section {
    name: "site.forward_auth",
    repeated: false,
    documentation: "Another server decides which requests pass, such as oauth2-proxy or Authelia. \
        `[site.route.forward_auth]` has the same keys. The server sends it a GET without the request's body. \
        With an answer 2xx the request is allowed; a redirect or an answer 4xx is sent to the client. If it \
        cannot be reached, is too slow or fails, no request is allowed.",
    blank: || ForwardAuthConfig {
        url: None,
        send: Vec::new(),
        fields: Vec::new(),
        user: String::new(),
        sign_in: String::new(),
        timeout: Duration::ZERO,
        remember: Duration::ZERO,
        remember_by: Vec::new(),
        ca_certificate: None,
    },
    keys: &[
        Key {
            name: "url",
            default: None,
            example: "\"http://127.0.0.1:4180/oauth2/auth\"",
            documentation: "The URL of the authority, with `http://` or `https://`, or `\"off\"`. It gets \
                `X-Forwarded-Method`, `-Proto`, `-Host`, `-Uri` and `-For`, and the same as \
                `X-Original-Method`, `X-Original-URI` and `X-Original-URL`. `\"off\"` in a route admits \
                every client even if the site requires a decision.",
            kind: Kind::Checked {
                what: "URL, or `\"off\"`",
                parse: |text, _| match text {
                    "off" => Ok(text.to_string()),
                    url => split_url(url).map(|_| url.to_string()),
                },
                set: |forward, text| forward.url = Some(text).filter(|text| text != "off"),
            },
        },
        Key {
            name: "send",
            default: Some("[]"),
            example: "[\"Cookie\", \"Authorization\"]",
            documentation: "The fields of a request that the authority gets. \
                Empty: all but those of the connection and the body.",
            kind: Kind::CheckedArray {
                what: "array of names of header fields",
                parse: parse_name,
                set: |forward, value| forward.send = value,
            },
        },
        Key {
            name: "fields",
            default: Some("[]"),
            example: "[\"X-Auth-Request-User\", \"X-Auth-Request-Email\"]",
            documentation: "The fields of the authority's answer that programs and origins get. \
                Fields of these names from the client are dropped, also with an underscore for a hyphen, and \
                also if the answer has none of that name.",
            kind: Kind::CheckedArray {
                what: "array of names of header fields",
                parse: parse_copied,
                set: |forward, value| forward.fields = value,
            },
        },
        Key {
            name: "user",
            default: Some("\"\""),
            example: "\"X-Auth-Request-User\"",
            documentation: "The field of the authority's answer that names the user, for `REMOTE_USER` of \
                programs and `$user` of the access log.",
            kind: Kind::Token(|forward, value| forward.user = value),
        },
        Key {
            name: "sign_in",
            default: Some("\"\""),
            example: "\"/oauth2/start?rd={url}\"",
            documentation: "The target of the redirect (302) if the authority answers a GET of the client \
                with 401: a path or a URL. `{url}` is the requested URL, percent-encoded. Empty: the client \
                gets the 401.",
            kind: Kind::Checked {
                what: "path or URL",
                parse: parse_sign_in,
                set: |forward, value| forward.sign_in = value,
            },
        },
        Key {
            name: "timeout",
            default: Some("\"5s\""),
            example: "\"2s\"",
            documentation: "How long the authority may take to decide; then the answer is 504 Gateway \
                Timeout.",
            kind: Kind::Duration {
                least: Duration::from_millis(10),
                most: Duration::from_secs(3600),
                set: |forward, value| forward.timeout = value,
            },
        },
        Key {
            name: "remember",
            default: Some("\"0s\""),
            example: "\"10s\"",
            documentation: "How long a request that was allowed is allowed again without a query. A request \
                is the same if the fields of `send` and the properties of `remember_by` are the same. \
                Refusals are not stored, nor are answers with `Set-Cookie` or `Cache-Control: no-store`. A \
                session that has ended is allowed for this time at most.",
            kind: Kind::Duration {
                least: Duration::ZERO,
                most: Duration::from_secs(3600),
                set: |forward, value| forward.remember = value,
            },
        },
        Key {
            name: "remember_by",
            default: Some("[\"method\", \"host\", \"uri\", \"client\"]"),
            example: "[\"host\"]",
            documentation: "The properties that must be equal in the same requests, in addition to the \
                fields of `send`: `method`, `host` (with the scheme), `uri` (path and query), `client` (its \
                address). Omit a property only if the authority does not use it.",
            kind: Kind::CheckedArray {
                what: "array of `\"method\"`, `\"host\"`, `\"uri\"` and `\"client\"`",
                parse: |text| match REMEMBER_BY.contains(&text) {
                    true => Ok(text.to_string()),
                    false => {
                        Err(format!("{:?} is none of {}", values::shorten(text), REMEMBER_BY.join(", ")))
                    }
                },
                set: |forward, value| forward.remember_by = value,
            },
        },
        Key {
            name: "ca_certificate",
            default: Some("\"\""),
            example: "\"/etc/ssl/own-ca.pem\"",
            documentation: "The authorities that may issue the server's certificate, in PEM form. Empty \
                means the authorities that the system trusts.",
            kind: Kind::File(|forward, value| forward.ca_certificate = value),
        },
    ],
};

/// The origin of a URL, and the path with the query.
fn split_url(url: &str) -> Result<(String, String), String> {
    let begin = url.find("://").map_or(0, |scheme| scheme + 3);
    let (origin, path) = url.split_at(url[begin..].find(['/', '?', '#']).map_or(url.len(), |at| begin + at));
    OriginUrl::parse(origin)?;
    if origin.starts_with("unix:") {
        return Err(format!("{:?}: the authority has a URL with http:// or https://", values::shorten(url)));
    }
    let path = if path.starts_with('/') { path.to_string() } else { format!("/{path}") };
    if path.contains('#') || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("{:?} must not have a fragment or spaces", values::shorten(url)));
    }
    Ok((origin.to_string(), path))
}

fn parse_name(text: &str) -> Result<String, String> {
    match values::is_token(text) {
        true => Ok(text.to_string()),
        false => Err(format!("{:?} is not the name of a header field", values::shorten(text))),
    }
}

/// Fields that frame the message, or that other rules rely on, are not copied.
fn parse_copied(text: &str) -> Result<String, String> {
    const OWN: [&str; 8] = [
        "cookie",
        "set-cookie",
        "host",
        "forwarded",
        "content-type",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
    ];
    let name = parse_name(text)?;
    values::check_answer_field(&name)?;
    match OWN.iter().any(|own| name.eq_ignore_ascii_case(own)) {
        true => Err(format!("{name} of the authority's answer cannot be passed to programs and origins")),
        false => Ok(name),
    }
}

/// A path or a URL, in which braces are valid only in `{url}`.
fn parse_sign_in(text: &str, _: &Path) -> Result<String, String> {
    let is_local = text.starts_with('/') && !text.starts_with("//");
    let is_url = text.starts_with("https://") || text.starts_with("http://");
    if !text.is_empty() && !is_local && !is_url {
        return Err(format!("{:?} is neither a path nor a URL", values::shorten(text)));
    }
    if text.replacen("{url}", "", 1).contains(['{', '}', '\\', ' ', '"']) {
        return Err("braces are valid only in {url}, the requested URL".to_string());
    }
    values::parse_header_value(text)
}

/// Reads the section, and checks its keys together.
pub(super) fn read(
    reader: &mut Reader<'_>,
    value: &Value<'_>,
    target: &mut Option<ForwardAuthConfig>,
) -> Vec<SectionPlaces> {
    reader.checked_table_into(&FORWARD_AUTH, value, target, ForwardAuthConfig::problem)
}

/// `forward_auth`
pub(super) const fn forward_auth<C>(
    read: fn(&mut Reader<'_>, &Value<'_>, &mut C) -> Vec<SectionPlaces>,
) -> Key<C> {
    Key {
        name: "forward_auth",
        default: Some(ABSENT),
        example: "{ url = \"http://127.0.0.1:4180/oauth2/auth\" }",
        documentation: "Another server decides which requests pass, see `[site.forward_auth]`. A route \
            without this key uses the setting of its site.",
        kind: Kind::Table { read },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (url, origin, path) in [
            ("http://127.0.0.1:4180/oauth2/auth", "http://127.0.0.1:4180", "/oauth2/auth"),
            ("https://auth.example.org", "https://auth.example.org", "/"),
            ("https://auth.example.org?a=/b", "https://auth.example.org", "/?a=/b"),
            ("http://[::1]:80/a?b=c", "http://[::1]:80", "/a?b=c"),
        ] {
            assert_eq!(split_url(url), Ok((origin.to_string(), path.to_string())));
        }
        for bad in ["", "/auth", "ftp://a/", "http:///a", "http://a/#b", "http://a/b c", "unix:/run/a"] {
            assert!(split_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_sign_in_leads_to_one_place() {
        for good in ["", "/start", "/oauth2/start?rd={url}", "https://auth.example.org/?rd={url}&rm=GET"] {
            assert_eq!(parse_sign_in(good, Path::new("")).as_deref(), Ok(good));
        }
        for bad in ["start", "//evil.example/", "javascript:a", "/a?b={uri}", "/a\r\nX: y", "/{url}{url}"] {
            assert!(parse_sign_in(bad, Path::new("")).is_err(), "{bad}");
        }
    }

    #[test]
    fn fields_of_the_message_are_not_copied() {
        for bad in ["Host", "content-length", "Cookie", "Transfer-Encoding", "a b", "X-Forwarded-For"] {
            assert!(parse_copied(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_copied("X-Auth-Request-User").as_deref(), Ok("X-Auth-Request-User"));
        assert_eq!(parse_copied("Authorization").as_deref(), Ok("Authorization"));
    }

    #[test]
    fn decisions_are_remembered_by_what_is_sent() {
        let config = ForwardAuthConfig {
            url: Some("http://a/".into()),
            remember: Duration::from_secs(1),
            ..(FORWARD_AUTH.blank)()
        };
        assert!(config.problem().unwrap().contains("'send'"));
        let listed = ForwardAuthConfig { send: vec!["Cookie".into()], ..config };
        assert_eq!(listed.problem(), None);
    }
}
