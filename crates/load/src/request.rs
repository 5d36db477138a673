//! The bytes of every request, written once before the run.

use crate::plan::{ConnectionUse, HttpVersion, Plan};

/// One request as it is sent, and what its answer must be.
#[derive(Debug)]
pub(crate) struct PreparedRequest {
    /// Request line and header fields, ready to send.
    pub(crate) bytes: Vec<u8>,
    /// The index into [`crate::Outcome::requests_by_class`].
    pub(crate) class: usize,
    /// The exact body length of a valid answer, where known.
    pub(crate) expected_body_bytes: Option<u64>,
}

/// Writes all requests of the plan.
pub(crate) fn prepare(plan: &Plan) -> Vec<PreparedRequest> {
    let fields = header_fields(plan);
    plan.requests
        .iter()
        .map(|request| PreparedRequest {
            bytes: format!("GET {} {}\r\n{fields}\r\n", request.path, version_text(plan.version))
                .into_bytes(),
            class: request.class,
            expected_body_bytes: request.expected_body_bytes,
        })
        .collect()
}

fn version_text(version: HttpVersion) -> &'static str {
    match version {
        HttpVersion::Http10 => "HTTP/1.0",
        HttpVersion::Http11 => "HTTP/1.1",
    }
}

/// The fields of every request. A field of the plan replaces ours of the same name.
fn header_fields(plan: &Plan) -> String {
    let mut own = vec![
        ("Host", plan.target.host.clone()),
        ("User-Agent", concat!("touchstone-load/", env!("CARGO_PKG_VERSION")).to_string()),
        ("Accept", "*/*".to_string()),
    ];
    // RFC 9112, section 9.3: HTTP/1.1 keeps a connection unless told, HTTP/1.0 closes it unless told.
    match (plan.connections, plan.version) {
        (ConnectionUse::Kept, HttpVersion::Http10) => own.push(("Connection", "keep-alive".to_string())),
        (ConnectionUse::New, HttpVersion::Http11) => own.push(("Connection", "close".to_string())),
        (ConnectionUse::Kept, HttpVersion::Http11) | (ConnectionUse::New, HttpVersion::Http10) => {}
    }
    let replaced = |name: &str| {
        plan.headers
            .iter()
            .any(|header| header.split_once(':').is_some_and(|(given, _)| given.eq_ignore_ascii_case(name)))
    };
    let mut text = String::new();
    for (name, value) in own.iter().filter(|(name, _)| !replaced(name)) {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    for header in &plan.headers {
        text.push_str(header);
        text.push_str("\r\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Target;

    fn written(change: impl FnOnce(&mut Plan)) -> String {
        let target = Target { address: ([127, 0, 0, 1], 8080).into(), host: "www.example:8080".to_string() };
        let mut plan = Plan::of_one(target, "/a?b=c");
        change(&mut plan);
        String::from_utf8(prepare(&plan).remove(0).bytes).expect("requests are text")
    }

    #[test]
    fn the_version_and_the_use_of_connections_decide_the_fields() {
        let agent = concat!("User-Agent: touchstone-load/", env!("CARGO_PKG_VERSION"), "\r\nAccept: */*\r\n");
        let with = |line: &str, connection: &str| {
            format!("GET /a?b=c {line}\r\nHost: www.example:8080\r\n{agent}{connection}\r\n")
        };
        assert_eq!(written(|_| ()), with("HTTP/1.1", ""));
        assert_eq!(
            written(|plan| plan.connections = ConnectionUse::New),
            with("HTTP/1.1", "Connection: close\r\n")
        );
        assert_eq!(
            written(|plan| plan.version = HttpVersion::Http10),
            with("HTTP/1.0", "Connection: keep-alive\r\n")
        );
        assert_eq!(
            written(|plan| {
                plan.version = HttpVersion::Http10;
                plan.connections = ConnectionUse::New;
            }),
            with("HTTP/1.0", "")
        );
    }

    #[test]
    fn a_given_field_replaces_ours() {
        let text = written(|plan| {
            plan.headers = vec!["host: other".to_string(), "X-Trace: 1".to_string()];
        });
        assert!(!text.contains("www.example"), "{text}");
        assert!(text.ends_with("host: other\r\nX-Trace: 1\r\n\r\n"), "{text}");
    }
}
