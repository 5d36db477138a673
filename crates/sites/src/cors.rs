//! Answers to scripts of other origins: the server's side of the CORS protocol of the Fetch standard.
//!
//! An answer that depends on the origin has `Vary: Origin`, also if the request has no origin, so that no
//! cache sends the answer for one origin to another. An origin that is not listed is never repeated.

use rustc_hash::FxHashSet;
use touchstone_config::CorsConfig;
use touchstone_http::added_fields::{AddedFields, IfPresent};

/// The fields that only this server sets.
const OWN: [&str; 7] = [
    "Access-Control-Allow-Origin",
    "Access-Control-Allow-Credentials",
    "Access-Control-Allow-Methods",
    "Access-Control-Allow-Headers",
    "Access-Control-Expose-Headers",
    "Access-Control-Max-Age",
    "Access-Control-Allow-Private-Network",
];

/// The longest origin that is looked up: a host has at most 255 bytes.
const LONGEST_ORIGIN: usize = 300;

/// The origins that may read answers, and the fields for them.
pub struct Cors {
    /// `None`: every origin.
    listed: Option<ListedOrigins>,
    /// Lines of all answers except the one that names the origin.
    of_answer: Vec<u8>,
    /// Lines of answers to preflight requests except the one that names the origin.
    of_preflight: Vec<u8>,
}

/// The text before and after the labels that a `*.` stands for.
type AroundLabels = (Box<[u8]>, Box<[u8]>);

/// The listed origins.
struct ListedOrigins {
    whole: FxHashSet<Box<[u8]>>,
    wild: Vec<AroundLabels>,
}

impl Cors {
    /// The rules; `None`: no origin is listed.
    pub fn new(config: &CorsConfig) -> Option<Cors> {
        if config.origins.is_empty() {
            return None;
        }
        let mut listed = ListedOrigins { whole: FxHashSet::default(), wild: Vec::new() };
        for origin in &config.origins {
            match origin.split_once("*.") {
                Some((scheme, domain)) => {
                    let behind = format!(".{domain}").into_bytes();
                    listed.wild.push((scheme.as_bytes().into(), behind.into()));
                }
                None => _ = listed.whole.insert(origin.as_bytes().into()),
            }
        }
        let mut of_answer = Vec::new();
        let mut of_preflight = Vec::new();
        if config.credentials {
            line(&mut of_answer, "Access-Control-Allow-Credentials", "true");
        }
        of_preflight.extend_from_slice(&of_answer);
        list(&mut of_answer, "Access-Control-Expose-Headers", &config.expose);
        list(&mut of_preflight, "Access-Control-Allow-Methods", &config.methods);
        list(&mut of_preflight, "Access-Control-Allow-Headers", &config.headers);
        line(&mut of_preflight, "Access-Control-Max-Age", &config.max_age.as_secs().to_string());
        Some(Cors { listed: (!config.is_for_all()).then_some(listed), of_answer, of_preflight })
    }

    /// Whether answers to different origins differ.
    pub fn lists_origins(&self) -> bool {
        self.listed.is_some()
    }

    /// Adds the fields that all answers have, whatever their requests are.
    pub fn add_common(&self, added: &mut AddedFields) {
        OWN.iter().for_each(|name| added.remove(name));
        if self.lists_origins() {
            added.add("Vary", "Origin", IfPresent::Beside);
            return;
        }
        added.add("Access-Control-Allow-Origin", "*", IfPresent::Beside);
        let lines = String::from_utf8_lossy(&self.of_answer).into_owned();
        for (name, value) in lines.lines().filter_map(|line| line.split_once(": ")) {
            added.add(name, value, IfPresent::Beside);
        }
    }

    /// Adds the fields of an answer for this origin, in addition to the common ones.
    pub fn add_for(&self, origin: &[u8], fields: &mut Vec<u8>) {
        if self.listed.as_ref().is_some_and(|listed| listed.has(origin)) {
            allow(origin, fields);
            fields.extend_from_slice(&self.of_answer);
        }
    }

    /// The status of the answer to a preflight request, and the lines to add to its fields in addition to the
    /// common ones.
    pub fn preflight(&self, origin: Option<&[u8]>) -> (u16, Vec<u8>) {
        let origin = origin.filter(|origin| self.listed.as_ref().is_none_or(|listed| listed.has(origin)));
        let mut fields = Vec::new();
        if let Some(origin) = origin {
            if self.lists_origins() {
                allow(origin, &mut fields);
            }
            fields.extend_from_slice(&self.of_preflight);
        }
        line(&mut fields, "Vary", "Origin, Access-Control-Request-Method, Access-Control-Request-Headers");
        (if origin.is_some() { 204 } else { 403 }, fields)
    }
}

impl ListedOrigins {
    fn has(&self, origin: &[u8]) -> bool {
        if origin.len() > LONGEST_ORIGIN {
            return false;
        }
        let is_label =
            |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._".contains(byte);
        let matches = |(scheme, behind): &(Box<[u8]>, Box<[u8]>)| {
            let labels = origin.strip_prefix(&**scheme).and_then(|rest| rest.strip_suffix(&**behind));
            labels.is_some_and(|labels| {
                !labels.is_empty()
                    && labels.iter().all(is_label)
                    && labels.split(|&byte| byte == b'.').all(|label| !label.is_empty())
            })
        };
        self.whole.contains(origin) || self.wild.iter().any(matches)
    }
}

/// Adds a line that names an origin, which must be listed.
fn allow(origin: &[u8], fields: &mut Vec<u8>) {
    for piece in [&b"Access-Control-Allow-Origin: "[..], origin, b"\r\n"] {
        fields.extend_from_slice(piece);
    }
}

fn list(fields: &mut Vec<u8>, name: &str, values: &[String]) {
    if !values.is_empty() {
        line(fields, name, &values.join(", "));
    }
}

fn line(fields: &mut Vec<u8>, name: &str, value: &str) {
    fields.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn config(origins: &[&str]) -> CorsConfig {
        CorsConfig {
            origins: origins.iter().map(|origin| origin.to_string()).collect(),
            methods: vec!["GET".into(), "PUT".into()],
            headers: vec!["Authorization".into()],
            expose: vec!["ETag".into()],
            credentials: !origins.contains(&"*"),
            max_age: Duration::from_secs(600),
        }
    }

    fn text(fields: &[u8]) -> String {
        String::from_utf8(fields.to_vec()).unwrap()
    }

    fn said_to(cors: &Cors, origin: &str) -> String {
        let mut fields = Vec::new();
        cors.add_for(origin.as_bytes(), &mut fields);
        text(&fields)
    }

    #[test]
    fn only_listed_origins_are_named() {
        let cors = Cors::new(&config(&["https://a.example", "https://*.b.example:8443"])).unwrap();
        for origin in ["https://a.example", "https://x.b.example:8443", "https://x.y-1.b.example:8443"] {
            assert_eq!(
                said_to(&cors, origin),
                format!(
                    "Access-Control-Allow-Origin: {origin}\r\nAccess-Control-Allow-Credentials: true\r\n\
                     Access-Control-Expose-Headers: ETag\r\n"
                )
            );
        }
        let long = format!("https://{}.b.example:8443", "x.".repeat(200));
        for origin in [
            "",
            "null",
            "*",
            "http://a.example",
            "https://a.example:444",
            "https://A.example",
            "https://a.example.evil.example",
            "https://evil-a.example",
            "https://b.example:8443",
            "https://.b.example:8443",
            "https://x..b.example:8443",
            "https://evil.example/x.b.example:8443",
            "https://evil.example#x.b.example:8443",
            "https://evil.example@x.b.example:8443",
            "https://x.b.example",
            "https://xb.example:8443",
            &long,
        ] {
            assert_eq!(said_to(&cors, origin), "", "{origin}");
        }
    }

    #[test]
    fn questions_are_answered() {
        let cors = Cors::new(&config(&["https://a.example"])).unwrap();
        let (status, fields) = cors.preflight(Some(b"https://a.example"));
        assert_eq!(status, 204);
        assert_eq!(
            text(&fields),
            "Access-Control-Allow-Origin: https://a.example\r\nAccess-Control-Allow-Credentials: true\r\n\
             Access-Control-Allow-Methods: GET, PUT\r\nAccess-Control-Allow-Headers: Authorization\r\n\
             Access-Control-Max-Age: 600\r\n\
             Vary: Origin, Access-Control-Request-Method, Access-Control-Request-Headers\r\n"
        );
        for other in [None, Some(&b"https://b.example"[..])] {
            let (status, fields) = cors.preflight(other);
            assert_eq!(status, 403);
            assert!(!text(&fields).contains("Access-Control-Allow"));
        }
        let all = Cors::new(&config(&["*"])).unwrap();
        let (status, fields) = all.preflight(Some(b"null"));
        assert_eq!(status, 204);
        // That every origin may read it is in all answers.
        assert!(!text(&fields).contains("Access-Control-Allow-Origin"));
        assert!(text(&fields).contains("Access-Control-Allow-Methods: GET, PUT\r\n"));
    }

    #[test]
    fn fields_of_programs_about_origins_are_replaced() {
        let own = b"access-control-allow-origin: https://evil.example\r\nVary: Accept\r\n";
        let mut added = AddedFields::default();
        Cors::new(&config(&["https://a.example"])).unwrap().add_common(&mut added);
        let mut fields = own.to_vec();
        added.apply(&mut fields);
        assert_eq!(text(&fields), "Vary: Accept\r\nVary: Origin\r\n");
        let mut added = AddedFields::default();
        Cors::new(&config(&["*"])).unwrap().add_common(&mut added);
        let mut fields = own.to_vec();
        added.apply(&mut fields);
        assert_eq!(
            text(&fields),
            "Vary: Accept\r\nAccess-Control-Allow-Origin: *\r\nAccess-Control-Expose-Headers: ETag\r\n"
        );
    }

    proptest! {
        #[test]
        fn a_name_is_one_line_at_most(origin in prop::collection::vec(any::<u8>(), 0..60)) {
            let cors = Cors::new(&config(&["https://a.example", "https://*.b.example"])).unwrap();
            let mut fields = Vec::new();
            cors.add_for(&origin, &mut fields);
            prop_assert!(fields.is_empty() || text(&fields).lines().count() == 3);
        }

        #[test]
        fn subdomains_are_labels(labels in prop::collection::vec("[a-z0-9-]{1,8}", 1..4)) {
            let cors = Cors::new(&config(&["https://*.b.example"])).unwrap();
            let origin = format!("https://{}.b.example", labels.join("."));
            prop_assert!(!said_to(&cors, &origin).is_empty());
        }
    }
}
