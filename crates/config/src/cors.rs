//! `cors`: scripts of which other sites may read the answers (the CORS protocol of the Fetch standard).

use std::time::Duration;

use touchstone_config_section::reader::{Reader, Value};
use touchstone_config_section::{ABSENT, Key, Kind, Section, SectionPlaces, values};

/// `cors`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CorsConfig {
    /// The origins whose scripts may read answers; empty: none.
    pub origins: Vec<String>,
    /// The methods that they may use.
    pub methods: Vec<String>,
    /// The request fields that they may set.
    pub headers: Vec<String>,
    /// The answer's fields that they may read.
    pub expose: Vec<String>,
    /// Requests may have cookies and other credentials.
    pub credentials: bool,
    /// How long a browser may store the answer to a preflight request.
    pub max_age: Duration,
}

impl CorsConfig {
    /// Whether every origin may read answers.
    pub fn is_for_all(&self) -> bool {
        self.origins.iter().any(|origin| origin == "*")
    }

    /// Keys that contradict each other.
    fn problem(&self) -> Option<String> {
        if self.is_for_all() && self.origins.len() > 1 {
            return Some("'origins': \"*\" is all origins; list it alone".to_string());
        }
        let has_star = |list: &[String]| list.iter().any(|item| item == "*");
        let all = [
            ("origins", has_star(&self.origins)),
            ("methods", has_star(&self.methods)),
            ("headers", has_star(&self.headers)),
            ("expose", has_star(&self.expose)),
        ];
        let all = all.iter().find_map(|(key, has_star)| has_star.then_some(key));
        match all {
            Some(key) if self.credentials => Some(format!(
                "'credentials' cannot be used with \"*\" in '{key}': any site could act in the name of a \
                 visitor who is logged in; list the {key}"
            )),
            _ => None,
        }
    }
}

/// `[site.cors]`
pub static CORS: Section<CorsConfig> = Section {
    name: "site.cors",
    repeated: false,
    documentation: "Scripts of which other sites may read the answers (CORS, the Fetch standard). \
        `[site.route.cors]` has the same keys. The server answers the browser's questions (preflight \
        requests) itself, and the `Access-Control-` fields of programs and origins are replaced.",
    blank: CorsConfig::default,
    keys: &[
        Key {
            name: "origins",
            default: None,
            example: "[\"https://www.example.org\", \"https://*.example.net\"]",
            documentation: "The origins whose scripts may read answers, as browsers write them: scheme and \
                host in lower case, and the port if it is not the default port. `*.` matches one or more \
                labels. `\"*\"` is every origin. An origin that is not listed is never sent in an answer. \
                Empty: none, for a route in a site that has some.",
            kind: Kind::CheckedArray {
                what: "array of origins",
                parse: parse_origin,
                set: |cors, value| cors.origins = value,
            },
        },
        Key {
            name: "methods",
            default: Some("[\"GET\", \"HEAD\", \"POST\"]"),
            example: "[\"GET\", \"PUT\", \"DELETE\"]",
            documentation: "The methods that their scripts may use; `\"*\"` is all.",
            kind: Kind::CheckedArray {
                what: "array of methods",
                parse: values::parse_method,
                set: |cors, value| cors.methods = value,
            },
        },
        Key {
            name: "headers",
            default: Some("[]"),
            example: "[\"Authorization\", \"Content-Type\"]",
            documentation: "The request fields that their scripts may set, in addition to those that every \
                script may; `\"*\"` is all but `Authorization`.",
            kind: Kind::CheckedArray {
                what: "array of names of header fields",
                parse: parse_name,
                set: |cors, value| cors.headers = value,
            },
        },
        Key {
            name: "expose",
            default: Some("[]"),
            example: "[\"ETag\", \"X-Request-Id\"]",
            documentation: "The fields of an answer that their scripts may read, in addition to those that \
                every script may; `\"*\"` is all.",
            kind: Kind::CheckedArray {
                what: "array of names of header fields",
                parse: parse_name,
                set: |cors, value| cors.expose = value,
            },
        },
        Key {
            name: "credentials",
            default: Some("false"),
            example: "true",
            documentation: "Requests may have cookies, passwords and client certificates. \
                Not with `\"*\"` in any of the lists.",
            kind: Kind::Boolean(|cors, value| cors.credentials = value),
        },
        Key {
            name: "max_age",
            default: Some("\"10m\""),
            example: "\"2h\"",
            documentation: "How long a browser may store the answer to a preflight request. Browsers have \
                their own limits: two hours, or a day.",
            kind: Kind::Duration {
                least: Duration::ZERO,
                most: Duration::from_secs(24 * 3600),
                set: |cors, value| cors.max_age = value,
            },
        },
    ],
};

/// An origin as browsers write it, so that a comparison of bytes is enough.
fn parse_origin(text: &str) -> Result<String, String> {
    if text == "*" {
        return Ok(text.to_string());
    }
    let wrong = |reason: &str| {
        Err(format!(
            "{:?} is not an origin such as \"https://www.example.org\": {reason}",
            values::shorten(text)
        ))
    };
    if text == "null" {
        return wrong("every page in a sandbox has the origin null, also that of an attacker");
    }
    let Some((scheme, authority)) = text.split_once("://") else {
        return wrong("it begins with a scheme and ://");
    };
    let is_scheme = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(&byte);
    if scheme.is_empty() || !scheme.bytes().all(is_scheme) {
        return wrong("browsers write the scheme in lower case");
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let usual = match scheme {
        "http" => Some("80"),
        "https" => Some("443"),
        _ => None,
    };
    match port {
        Some(port) if Some(port) == usual => return wrong("browsers omit the default port"),
        Some(port) if port.parse::<u16>().is_err() || port.starts_with('0') => {
            return wrong("its port is not a number from 1 to 65535");
        }
        _ => {}
    }
    let name = host.strip_prefix("*.").unwrap_or(host);
    let is_host = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._[]:".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_host) || name.starts_with('.') {
        return wrong("its host is in lower case, in its ASCII form, without a path after it");
    }
    if name != host && !name.contains('.') {
        return wrong("the hosts of a top-level domain do not have one owner");
    }
    Ok(text.to_string())
}

fn parse_name(text: &str) -> Result<String, String> {
    match values::is_token(text) {
        true => Ok(text.to_string()),
        false => Err(format!("{:?} is not the name of a header field", values::shorten(text))),
    }
}

/// Reads the section, and checks its keys together.
pub(super) fn read(
    reader: &mut Reader<'_>,
    value: &Value<'_>,
    target: &mut Option<CorsConfig>,
) -> Vec<SectionPlaces> {
    reader.checked_table_into(&CORS, value, target, CorsConfig::problem)
}

/// `cors`
pub(super) const fn cors<C>(read: fn(&mut Reader<'_>, &Value<'_>, &mut C) -> Vec<SectionPlaces>) -> Key<C> {
    Key {
        name: "cors",
        default: Some(ABSENT),
        example: "{ origins = [\"https://www.example.org\"] }",
        documentation: "The other sites whose scripts may read the answers, see `[site.cors]`. A route \
            without this key uses the setting of its site.",
        kind: Kind::Table { read },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_written_as_browsers_do() {
        for good in [
            "*",
            "https://www.example.org",
            "http://localhost:3000",
            "https://*.example.org",
            "https://*.example.org:8443",
            "http://[::1]:8080",
            "https://xn--bcher-kva.example",
            "capacitor://localhost",
        ] {
            assert_eq!(parse_origin(good).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "null",
            "www.example.org",
            "https://",
            "HTTPS://www.example.org",
            "https://WWW.example.org",
            "https://www.example.org/",
            "https://www.example.org:443",
            "http://www.example.org:80",
            "https://www.example.org:0",
            "https://www.example.org:99999",
            "https://*",
            "https://*.org",
            "https://a*.example.org",
            "https://user@example.org",
            "https://b\u{fc}cher.example",
        ] {
            assert!(parse_origin(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn credentials_need_lists() {
        let listed = CorsConfig { origins: vec!["https://a.example".into()], ..CorsConfig::default() };
        assert_eq!(listed.problem(), None);
        let with = CorsConfig { credentials: true, ..listed.clone() };
        assert_eq!(with.problem(), None);
        for star in [
            CorsConfig { origins: vec!["*".into()], ..with.clone() },
            CorsConfig { methods: vec!["*".into()], ..with.clone() },
            CorsConfig { headers: vec!["*".into()], ..with.clone() },
            CorsConfig { expose: vec!["*".into()], ..with.clone() },
        ] {
            assert!(star.problem().unwrap().contains("'credentials'"));
            assert_eq!(CorsConfig { credentials: false, ..star }.problem(), None);
        }
        let both = CorsConfig { origins: vec!["*".into(), "https://a.example".into()], ..listed };
        assert!(both.problem().is_some());
    }
}
