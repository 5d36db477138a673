//! `security_fields`: header fields that restrict a page, and the use of it by other pages, in browsers.

use std::path::Path;
use std::time::Duration;

use toml::de::DeValue;

use touchstone_config_section::reader::{Reader, Value};
use touchstone_config_section::{ABSENT, Key, Kind, Section, SectionPlaces, values};

use super::ConfigWithPlaces;
use super::config_reader::ConfigReader;

/// The place of the nonce in a policy.
pub const NONCE: &str = "{nonce}";

/// The field in which programs and origins get the nonce of an answer.
pub const NONCE_FIELD: &str = "X-CSP-Nonce";

/// `security_fields`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecurityFieldsConfig {
    /// How long browsers use HTTPS only; zero: the field is not sent.
    pub hsts: Duration,
    /// The same for all names below the host.
    pub hsts_include_subdomains: bool,
    /// The host may be in the lists that browsers bring.
    pub hsts_preload: bool,
    /// Policy of what a page may load; empty: none.
    pub content_security_policy: String,
    /// Policy that is only reported; empty: none.
    pub content_security_policy_report_only: String,
    /// Which features of the browser a page may use; empty: not sent.
    pub permissions_policy: String,
    /// `X-Content-Type-Options: nosniff`
    pub nosniff: bool,
    /// `Referrer-Policy`; empty: not sent.
    pub referrer_policy: String,
    /// `X-Frame-Options`; empty: not sent.
    pub frame_options: String,
    /// `Cross-Origin-Opener-Policy`; empty: not sent.
    pub cross_origin_opener_policy: String,
    /// `Cross-Origin-Embedder-Policy`; empty: not sent.
    pub cross_origin_embedder_policy: String,
    /// `Cross-Origin-Resource-Policy`; empty: not sent.
    pub cross_origin_resource_policy: String,
    /// These fields replace those of programs and origins.
    pub replace: bool,
}

impl SecurityFieldsConfig {
    /// The fields with the safe values.
    pub fn safe() -> SecurityFieldsConfig {
        SECURITY_FIELDS.defaults()
    }

    /// Whether a policy has the nonce in it.
    pub fn has_nonce(&self) -> bool {
        self.content_security_policy.contains(NONCE)
            || self.content_security_policy_report_only.contains(NONCE)
    }

    /// Keys that contradict each other.
    pub(super) fn problem(&self) -> Option<String> {
        const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
        if self.hsts_preload && (self.hsts < YEAR || !self.hsts_include_subdomains) {
            return Some(
                "'hsts_preload' needs 'hsts' of at least \"8760h\" (a year) and 'hsts_include_subdomains = \
                 true': the lists of browsers require both"
                    .to_string(),
            );
        }
        if self.hsts_include_subdomains && self.hsts.is_zero() {
            return Some("'hsts_include_subdomains' has no effect without 'hsts'".to_string());
        }
        None
    }
}

/// `[site.security_fields]`
pub static SECURITY_FIELDS: Section<SecurityFieldsConfig> = Section {
    name: "site.security_fields",
    repeated: false,
    documentation: "Header fields that protect the site's visitors in their browsers. \
        `[site.route.security_fields]` has the same keys. Every key has a safe value if it is not given; an \
        empty value omits its field. The fields are in all answers: files, programs, other servers, the \
        cache, errors. A field of the same name in `headers` replaces it.",
    blank: SecurityFieldsConfig::default,
    keys: &[
        Key {
            name: "hsts",
            default: Some("\"8760h\""),
            example: "\"17520h\"",
            documentation: "How long a browser uses HTTPS only (`Strict-Transport-Security`). \
                Sent by sites with a certificate only: a browser ignores the field over plain HTTP. \
                `\"0s\"`: not sent.",
            kind: Kind::Duration {
                least: Duration::ZERO,
                most: Duration::from_secs(10 * 366 * 24 * 3600),
                set: |fields, value| fields.hsts = value,
            },
        },
        Key {
            name: "hsts_include_subdomains",
            default: Some("false"),
            example: "true",
            documentation: "Whether `Strict-Transport-Security` holds for all names below the host too. All \
                of them must have HTTPS; browsers cannot reach the others any more.",
            kind: Kind::Boolean(|fields, value| fields.hsts_include_subdomains = value),
        },
        Key {
            name: "hsts_preload",
            default: Some("false"),
            example: "false",
            documentation: "The host may be entered into the lists of browsers (hstspreload.org). The \
                removal from the lists takes months. Needs `hsts` of a year and `hsts_include_subdomains`.",
            kind: Kind::Boolean(|fields, value| fields.hsts_preload = value),
        },
        Key {
            name: "content_security_policy",
            default: Some(
                "\"default-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'; \
                 img-src 'self' data:; object-src 'none'\"",
            ),
            example: "\"default-src 'self'; script-src 'nonce-{nonce}' 'strict-dynamic'; object-src 'none'\"",
            documentation: "What a page may load and do (`Content-Security-Policy`). The default keeps all \
                to the site itself, without scripts and styles inside pages. `'nonce-{nonce}'` is a new \
                nonce for each answer. Programs and origins get it in the request field `X-CSP-Nonce`, and \
                pages with directives as the variable `HTTP_X_CSP_NONCE`; plain files have no nonce in \
                them, and get the policy without it. Not on routes with `cache`: a stored page would \
                have the nonce of another answer.",
            kind: Kind::Checked {
                what: "string of printable ASCII",
                parse: parse_policy,
                set: |fields, value| fields.content_security_policy = value,
            },
        },
        Key {
            name: "content_security_policy_report_only",
            default: Some("\"\""),
            example: "\"default-src 'self'; report-to csp\"",
            documentation: "A policy that the browser reports on and does not enforce, to try one out \
                (`Content-Security-Policy-Report-Only`).",
            kind: Kind::Checked {
                what: "string of printable ASCII",
                parse: parse_policy,
                set: |fields, value| fields.content_security_policy_report_only = value,
            },
        },
        Key {
            name: "permissions_policy",
            default: Some(
                "\"camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()\"",
            ),
            example: "\"geolocation=(self), camera=()\"",
            documentation: "Which features of the browser a page and its frames may use \
                (`Permissions-Policy`).",
            kind: Kind::HeaderValue(|fields, value| fields.permissions_policy = value),
        },
        Key {
            name: "nosniff",
            default: Some("true"),
            example: "true",
            documentation: "The browser does not guess another media type than the one of the answer \
                (`X-Content-Type-Options: nosniff`).",
            kind: Kind::Boolean(|fields, value| fields.nosniff = value),
        },
        Key {
            name: "referrer_policy",
            default: Some("\"strict-origin-when-cross-origin\""),
            example: "\"no-referrer\"",
            documentation: "The part of a page's URL that the browser sends to other sites when a link is \
                followed (`Referrer-Policy`).",
            kind: Kind::Checked {
                what: "policies of referrers after commas",
                parse: |text, _| words_of(text, &REFERRER_POLICIES),
                set: |fields, value| fields.referrer_policy = value,
            },
        },
        Key {
            name: "frame_options",
            default: Some("\"SAMEORIGIN\""),
            example: "\"DENY\"",
            documentation: "Whether pages of other sites may show this one in a frame (`X-Frame-Options`), \
                for browsers that do not support `frame-ancestors` of a content security policy.",
            kind: Kind::Checked {
                what: "`\"DENY\"`, `\"SAMEORIGIN\"` or empty",
                parse: |text, _| words_of(text, &["DENY", "SAMEORIGIN"]),
                set: |fields, value| fields.frame_options = value,
            },
        },
        Key {
            name: "cross_origin_opener_policy",
            default: Some("\"same-origin\""),
            example: "\"same-origin-allow-popups\"",
            documentation: "Whether windows of other sites keep a reference to this one \
                (`Cross-Origin-Opener-Policy`). Pages that open a login of another site in a window need \
                `\"same-origin-allow-popups\"`.",
            kind: Kind::Checked {
                what: "policy of windows, or empty",
                parse: |text, _| {
                    words_of(
                        text,
                        &["same-origin", "same-origin-allow-popups", "noopener-allow-popups", "unsafe-none"],
                    )
                },
                set: |fields, value| fields.cross_origin_opener_policy = value,
            },
        },
        Key {
            name: "cross_origin_embedder_policy",
            default: Some("\"\""),
            example: "\"require-corp\"",
            documentation: "Which answers of other sites a page may have in it \
                (`Cross-Origin-Embedder-Policy`). Not sent without this key, because pictures and scripts of \
                other sites must agree.",
            kind: Kind::Checked {
                what: "`\"require-corp\"`, `\"credentialless\"`, `\"unsafe-none\"` or empty",
                parse: |text, _| words_of(text, &["require-corp", "credentialless", "unsafe-none"]),
                set: |fields, value| fields.cross_origin_embedder_policy = value,
            },
        },
        Key {
            name: "cross_origin_resource_policy",
            default: Some("\"same-origin\""),
            example: "\"cross-origin\"",
            documentation: "Which sites may have these answers in their pages \
                (`Cross-Origin-Resource-Policy`). Pictures and scripts for other sites' pages need \
                `\"cross-origin\"`.",
            kind: Kind::Checked {
                what: "`\"same-origin\"`, `\"same-site\"`, `\"cross-origin\"` or empty",
                parse: |text, _| words_of(text, &["same-origin", "same-site", "cross-origin"]),
                set: |fields, value| fields.cross_origin_resource_policy = value,
            },
        },
        Key {
            name: "replace",
            default: Some("false"),
            example: "true",
            documentation: "These fields replace those of programs and origins. \
                `false`: the fields of a program or an origin take precedence.",
            kind: Kind::Boolean(|fields, value| fields.replace = value),
        },
    ],
};

const REFERRER_POLICIES: [&str; 8] = [
    "no-referrer",
    "no-referrer-when-downgrade",
    "origin",
    "origin-when-cross-origin",
    "same-origin",
    "strict-origin",
    "strict-origin-when-cross-origin",
    "unsafe-url",
];

/// Words separated by commas, each of which is one of these; an empty text has none.
fn words_of(text: &str, known: &[&str]) -> Result<String, String> {
    for word in text.split(',').map(str::trim).filter(|_| !text.is_empty()) {
        if !known.contains(&word) {
            let near = values::nearest(word, known.iter().copied());
            let advice = near.map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
            return Err(format!("{:?} is not one of {}{advice}", values::shorten(word), known.join(", ")));
        }
    }
    Ok(text.to_string())
}

/// A content security policy, in which braces are valid only in the source of the nonce.
fn parse_policy(text: &str, _: &Path) -> Result<String, String> {
    let policy = values::parse_header_value(text)?;
    let source = format!("'nonce-{NONCE}'");
    if policy.replace(&source, "").contains(['{', '}']) {
        return Err(format!("braces are valid only in the source of the nonce, \"{source}\""));
    }
    let mut seen: Vec<&str> = Vec::new();
    for directive in policy.split(';').filter_map(|directive| directive.split_whitespace().next()) {
        if !directive.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(format!(
                "{:?} is not the name of a directive; directives end with a semicolon",
                values::shorten(directive)
            ));
        }
        if seen.iter().any(|other| other.eq_ignore_ascii_case(directive)) {
            return Err(format!("\"{directive}\" appears twice; browsers ignore the second"));
        }
        seen.push(directive);
    }
    Ok(policy)
}

/// `security_fields`, which may be a word.
pub(super) fn read(
    reader: &mut Reader<'_>,
    value: &Value<'_>,
    target: &mut Option<SecurityFieldsConfig>,
) -> Vec<SectionPlaces> {
    let place = reader.place(value.span().start);
    match value.get_ref() {
        DeValue::String(word) if word == "default" => {
            *target = Some(SecurityFieldsConfig::safe());
            Vec::new()
        }
        DeValue::String(word) if word == "off" => {
            *target = Some(SecurityFieldsConfig::default());
            Vec::new()
        }
        DeValue::String(_) => {
            let message = "'security_fields' must be \"default\", \"off\" or a table such as \
                           { frame_options = \"DENY\" }";
            reader.problem(place, message.to_string());
            Vec::new()
        }
        _ => reader.checked_table_into(&SECURITY_FIELDS, value, target, SecurityFieldsConfig::problem),
    }
}

/// `security_fields`
pub(super) const fn security_fields<C>(
    read: fn(&mut Reader<'_>, &Value<'_>, &mut C) -> Vec<SectionPlaces>,
) -> Key<C> {
    Key {
        name: "security_fields",
        default: Some(ABSENT),
        example: "{ frame_options = \"DENY\" }",
        documentation: "Header fields that protect visitors in their browsers, see `[site.security_fields]`: \
            `\"default\"` for the safe values of all of them, `\"off\"` for none, or a table. A route \
            without this key uses the setting of its site.",
        kind: Kind::Table { read },
    }
}

impl ConfigReader<'_> {
    /// A stored answer would have the nonce of the request that it answered.
    pub(super) fn check_nonces(&mut self, loaded: &ConfigWithPlaces) {
        for (site, places) in loaded.config.sites.iter().zip(&loaded.places.sites) {
            for (index, route) in site.routes.iter().enumerate() {
                let fields = route.security_fields.as_ref().or(site.security_fields.as_ref());
                if route.cache.is_none() || !fields.is_some_and(SecurityFieldsConfig::has_nonce) {
                    continue;
                }
                let place = places.table("route", index).map_or(places.header, |within| within.key("cache"));
                let message = "'cache' cannot be used with a nonce in 'security_fields': a stored page would \
                               have the nonce of another answer; configure 'security_fields' without a nonce \
                               for the route";
                self.problem(place, message.to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> Result<String, String> {
        parse_policy(text, Path::new(""))
    }

    #[test]
    fn policies_are_checked() {
        for good in [
            "",
            "default-src 'self'",
            "script-src 'nonce-{nonce}' 'strict-dynamic'; object-src 'none';",
            "upgrade-insecure-requests; default-src https:",
        ] {
            assert_eq!(policy(good).as_deref(), Ok(good));
        }
        for (bad, reason) in [
            ("script-src {nonce}", "braces are valid only in the source of the nonce"),
            ("script-src 'nonce-{other}'", "braces are valid only in the source of the nonce"),
            ("script-src 'self'; script-src 'none'", "appears twice"),
            ("'self'", "is not the name of a directive"),
            ("default-src 'self'\r\nX: y", "control"),
        ] {
            let message = policy(bad).unwrap_err();
            assert!(message.contains(reason) || reason == "control", "{bad}: {message}");
        }
    }

    #[test]
    fn words_are_those_that_browsers_know() {
        assert_eq!(words_of("", &["DENY"]).as_deref(), Ok(""));
        assert_eq!(words_of("origin, no-referrer", &REFERRER_POLICIES).as_deref(), Ok("origin, no-referrer"));
        let message = words_of("no-refferer", &REFERRER_POLICIES).unwrap_err();
        assert!(message.contains("did you mean \"no-referrer\"?"), "{message}");
    }

    #[test]
    fn lists_of_browsers_ask_for_a_year_and_all_names() {
        let safe = SecurityFieldsConfig::safe();
        assert_eq!(safe.problem(), None);
        let preload = SecurityFieldsConfig { hsts_preload: true, ..safe.clone() };
        assert!(preload.problem().unwrap().contains("hsts_include_subdomains"));
        let all_names = SecurityFieldsConfig { hsts_include_subdomains: true, ..preload };
        assert_eq!(all_names.problem(), None);
        let short = SecurityFieldsConfig { hsts: Duration::from_secs(3600), ..all_names };
        assert!(short.problem().is_some());
    }
}
