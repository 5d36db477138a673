//! The fields of `security_fields` and `cors` of a site or route, prepared once. The fields that are the same
//! for all answers are an [`AddedFields`]; it is part of cached files and of stored answers. Only policies
//! with a nonce, and requests with an Origin where origins are listed, need more work for each request; these
//! requests take the exchange.

use std::sync::Arc;

use touchstone_config::{CorsConfig, NONCE, SecurityFieldsConfig, SiteConfig};
use touchstone_http::added_fields::{AddedFields, IfPresent};
use touchstone_http::request_view::RequestView;

use crate::cors::Cors;

/// The fields of answers with which browsers restrict other sites and the page itself.
pub struct AnswerPolicy {
    /// For all answers; its policies have no nonce.
    added: AddedFields,
    /// The same without the policies that have a nonce, and these policies.
    with_nonce: Option<(AddedFields, Vec<Policy>)>,
    cors: Option<Cors>,
}

/// A content security policy that contains a nonce.
struct Policy {
    name: &'static str,
    text: String,
    if_present: IfPresent,
}

/// The properties of the request that the fields depend on.
#[derive(Debug, Clone, Copy, Default)]
pub struct BrowserRequest<'a> {
    /// The value of Origin, if there is exactly one.
    pub origin: Option<&'a [u8]>,
    /// The nonce with which the page was made.
    pub nonce: Option<&'a str>,
}

impl AnswerPolicy {
    /// The policy of a site, or of a route with keys of its own; `None`: there are no such fields.
    pub fn open(
        site: &SiteConfig,
        security: Option<&SecurityFieldsConfig>,
        cors: Option<&CorsConfig>,
    ) -> Option<Arc<AnswerPolicy>> {
        let mut common = AddedFields::default();
        let mut policies = Vec::new();
        if let Some(security) = security {
            policies = add_security(security, site, &mut common);
        }
        let cors = cors.and_then(Cors::new);
        if let Some(cors) = &cors {
            cors.add_common(&mut common);
        }
        let mut added = common.clone();
        for policy in &policies {
            added.add(policy.name, &without_nonce(&policy.text), policy.if_present);
        }
        if added.is_empty() {
            return None;
        }
        let with_nonce = (!policies.is_empty()).then_some((common, policies));
        Some(Arc::new(AnswerPolicy { added, with_nonce, cors }))
    }

    /// The fields for answers to requests without Origin, and without a nonce.
    pub fn common(&self) -> &AddedFields {
        &self.added
    }

    /// Whether programs get a nonce.
    pub fn has_nonce(&self) -> bool {
        self.with_nonce.is_some()
    }

    /// Whether the fields depend on the request's Origin.
    pub fn lists_origins(&self) -> bool {
        self.cors.as_ref().is_some_and(Cors::lists_origins)
    }

    /// Whether [`AnswerPolicy::common`] is sufficient for a GET: no program needs a nonce, and the request
    /// has no Origin on which the answer depends.
    #[inline]
    pub fn is_common_for(&self, request: &RequestView<'_>) -> bool {
        !self.lists_origins() || request.values(b"origin").next().is_none()
    }

    /// The status of the answer to a preflight request (see [`preflight_method`]), and the lines to add to
    /// its fields; `None`: the site or route does not answer it.
    pub fn preflight(&self, request: &RequestView<'_>) -> Option<(u16, Vec<u8>)> {
        self.cors.as_ref().map(|cors| cors.preflight(origin_of(request)))
    }

    /// Whether there are rules for scripts of other origins.
    pub fn has_cors(&self) -> bool {
        self.cors.is_some()
    }

    /// Applies it to the fields of an answer with this status.
    pub fn apply(&self, browser_request: BrowserRequest<'_>, status: u16, fields: &mut Vec<u8>) {
        match (&self.with_nonce, browser_request.nonce) {
            (Some((common, policies)), Some(nonce)) => {
                let mut added = common.clone();
                // The page in the client's cache has the nonce of its own policy, which is cached with it.
                for policy in policies.iter().filter(|_| status != 304) {
                    added.add(policy.name, &policy.text.replace(NONCE, nonce), policy.if_present);
                }
                added.apply(fields);
            }
            _ => self.added.apply(fields),
        }
        if let (Some(cors), Some(origin)) = (&self.cors, browser_request.origin) {
            cors.add_for(origin, fields);
        }
    }
}

/// The only Origin of a request.
pub fn origin_of<'a>(request: &RequestView<'a>) -> Option<&'a [u8]> {
    let mut origins = request.values(b"origin");
    let first = origins.next()?;
    origins.next().is_none().then_some(first)
}

/// The method of a preflight request, by which a browser requests permission for a script (Fetch, section
/// "CORS-preflight fetch").
pub fn preflight_method<'a>(request: &RequestView<'a>) -> Option<&'a [u8]> {
    if request.method != b"OPTIONS" || request.values(b"origin").next().is_none() {
        return None;
    }
    request.values(b"access-control-request-method").next()
}

/// Adds the fields without a nonce, and returns the policies with one. A field of the same name in `headers`
/// of the site takes precedence.
fn add_security(config: &SecurityFieldsConfig, site: &SiteConfig, added: &mut AddedFields) -> Vec<Policy> {
    let if_present = if config.replace { IfPresent::Replace } else { IfPresent::Keep };
    let is_in_headers = |name: &str| site.headers.keys().any(|other| other.eq_ignore_ascii_case(name));
    let mut hsts = String::new();
    if site.tls.is_on() && !config.hsts.is_zero() {
        hsts = format!("max-age={}", config.hsts.as_secs());
        for (word, is_set) in
            [("; includeSubDomains", config.hsts_include_subdomains), ("; preload", config.hsts_preload)]
        {
            if is_set {
                hsts.push_str(word);
            }
        }
    }
    let mut policies = Vec::new();
    for (name, value) in [
        ("Strict-Transport-Security", hsts.as_str()),
        ("Content-Security-Policy", &config.content_security_policy),
        ("Content-Security-Policy-Report-Only", &config.content_security_policy_report_only),
        ("Permissions-Policy", &config.permissions_policy),
        ("X-Content-Type-Options", if config.nosniff { "nosniff" } else { "" }),
        ("Referrer-Policy", &config.referrer_policy),
        ("X-Frame-Options", &config.frame_options),
        ("Cross-Origin-Opener-Policy", &config.cross_origin_opener_policy),
        ("Cross-Origin-Embedder-Policy", &config.cross_origin_embedder_policy),
        ("Cross-Origin-Resource-Policy", &config.cross_origin_resource_policy),
    ] {
        if value.is_empty() || is_in_headers(name) {
            continue;
        }
        if value.contains(NONCE) {
            policies.push(Policy { name, text: value.to_string(), if_present });
        } else {
            added.add(name, value, if_present);
        }
    }
    policies
}

/// The policy for answers without a nonce: the nonce source is removed; `'none'` replaces it if no other
/// source is left.
fn without_nonce(policy: &str) -> String {
    let source = format!("'nonce-{NONCE}'");
    let directives = policy.split(';').map(str::trim).filter(|directive| !directive.is_empty());
    let written = directives.map(|directive| {
        let words: Vec<&str> = directive.split_whitespace().filter(|word| *word != source).collect();
        match words.as_slice() {
            [name] if directive.contains(&source) => format!("{name} 'none'"),
            words => words.join(" "),
        }
    });
    written.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn site() -> SiteConfig {
        SiteConfig::new(Some(PathBuf::from("/")), vec!["127.0.0.1:80".parse().unwrap()])
    }

    fn applied(
        policy: &AnswerPolicy,
        browser_request: BrowserRequest<'_>,
        status: u16,
        fields: &str,
    ) -> String {
        let mut fields = fields.as_bytes().to_vec();
        policy.apply(browser_request, status, &mut fields);
        String::from_utf8(fields).unwrap()
    }

    #[test]
    fn without_settings_there_are_no_fields() {
        let nothing = SecurityFieldsConfig::default();
        assert!(AnswerPolicy::open(&site(), None, None).is_none());
        assert!(AnswerPolicy::open(&site(), Some(&nothing), Some(&CorsConfig::default())).is_none());
    }

    #[test]
    fn hsts_is_for_tls_only() {
        let safe = SecurityFieldsConfig::safe();
        let plain = AnswerPolicy::open(&site(), Some(&safe), None).unwrap();
        assert!(!applied(&plain, BrowserRequest::default(), 200, "").contains("Strict-Transport-Security"));
        let mut secure = site();
        secure.tls.development_certificate = true;
        let secure = AnswerPolicy::open(&secure, Some(&safe), None).unwrap();
        let fields = applied(&secure, BrowserRequest::default(), 200, "");
        assert!(fields.contains("Strict-Transport-Security: max-age=31536000\r\n"), "{fields}");
    }

    #[test]
    fn programs_and_headers_count_first() {
        let mut config = SecurityFieldsConfig::safe();
        let mut site = site();
        site.headers.insert("referrer-policy".into(), "no-referrer".into());
        let kept = AnswerPolicy::open(&site, Some(&config), None).unwrap();
        let own = "X-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n";
        let fields = applied(&kept, BrowserRequest::default(), 200, own);
        assert!(fields.starts_with(own) && !fields.contains("SAMEORIGIN"), "{fields}");
        assert_eq!(fields.matches("Referrer-Policy").count(), 1);
        config.replace = true;
        let replaced = AnswerPolicy::open(&site, Some(&config), None).unwrap();
        let fields = applied(&replaced, BrowserRequest::default(), 200, own);
        assert!(fields.contains("SAMEORIGIN") && !fields.contains("DENY"), "{fields}");
        assert!(fields.contains("Referrer-Policy: no-referrer"), "{fields}");
    }

    #[test]
    fn a_nonce_is_in_pages_that_were_made_with_it_only() {
        let config = SecurityFieldsConfig {
            content_security_policy: "script-src 'nonce-{nonce}'; style-src 'self' 'nonce-{nonce}'".into(),
            ..SecurityFieldsConfig::default()
        };
        let policy = AnswerPolicy::open(&site(), Some(&config), None).unwrap();
        assert!(policy.has_nonce());
        assert_eq!(
            applied(&policy, BrowserRequest::default(), 200, ""),
            "Content-Security-Policy: script-src 'none'; style-src 'self'\r\n"
        );
        let browser_request = BrowserRequest { nonce: Some("abc"), ..BrowserRequest::default() };
        assert_eq!(
            applied(&policy, browser_request, 200, ""),
            "Content-Security-Policy: script-src 'nonce-abc'; style-src 'self' 'nonce-abc'\r\n"
        );
        assert_eq!(applied(&policy, browser_request, 304, ""), "");
    }

    #[test]
    fn a_question_of_a_browser_is_known() {
        let fields = [("Origin", "https://a.example"), ("Access-Control-Request-Method", "PUT")];
        let view = |method: &'static str| RequestView {
            method: method.as_bytes(),
            fields: &fields,
            ..RequestView::example("/")
        };
        assert_eq!(preflight_method(&view("OPTIONS")), Some(&b"PUT"[..]));
        assert_eq!(preflight_method(&view("GET")), None);
        assert_eq!(origin_of(&view("GET")), Some(&b"https://a.example"[..]));
        let two = [("Origin", "https://a.example"), ("Origin", "https://b.example")];
        assert_eq!(origin_of(&RequestView { fields: &two, ..RequestView::example("/") }), None);
    }
}
