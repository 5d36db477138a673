//! A request of a recording as a suite writes it.

use super::RecordedRequest;
use std::fmt::Write;
use touchstone_http::hexadecimal;
use touchstone_lab::suite::OwnRequest;
use touchstone_load::{ExtractPlan, StepPlan};

/// A request as a suite states it.
pub(super) fn own(request: &RecordedRequest) -> OwnRequest {
    // Recorded text is never a variable, except for the values that the session sends back.
    let literal = |text: &String| {
        let plain = text.replace("${", "$${");
        request.uses.iter().fold(plain, |text, (value, name)| text.replace(value, &format!("${{{name}}}")))
    };
    let extract: Vec<ExtractPlan> = request
        .extract
        .iter()
        .map(|(name, from)| ExtractPlan { name: name.clone(), from: from.clone() })
        .collect();
    OwnRequest {
        method: request.method.clone(),
        headers: request.headers.iter().chain(&request.session_headers).map(literal).collect(),
        body: request.body.as_ref().map(|body| literal(body).into_bytes()),
        file_bytes: request.bytes.filter(|bytes| *bytes > 0),
        statuses: request.status.filter(|status| *status >= 400).into_iter().collect(),
        step: (!extract.is_empty()).then(|| StepPlan { extract, ..StepPlan::default() }),
        ..OwnRequest::get(literal(&request.path))
    }
}

/// The line of a request in the list of its class, with one more key.
pub(super) fn line(request: &RecordedRequest, key: Option<String>) -> String {
    let own = own(request);
    let mut keys = Vec::new();
    if own.method != "GET" {
        keys.push(format!("method = {}", quoted(&own.method)));
    }
    keys.push(format!("path = {}", quoted(&own.path)));
    keys.extend(key);
    keys.extend(own.file_bytes.map(|bytes| format!("file_bytes = {bytes}")));
    if !own.headers.is_empty() {
        let headers: Vec<String> = own.headers.iter().map(|header| quoted(header)).collect();
        keys.push(format!("headers = [{}]", headers.join(", ")));
    }
    keys.extend(own.body.as_ref().map(|body| match std::str::from_utf8(body) {
        Ok(text) => format!("body = {}", quoted(text)),
        Err(_) => format!("body_hex = \"{}\"", hexadecimal::encode(body)),
    }));
    if let Some(step) = &own.step {
        let pairs = step.extract.iter().map(|one| format!("{} = {}", one.name, quoted(&one.from)));
        keys.push(format!("extract = {{ {} }}", pairs.collect::<Vec<_>>().join(", ")));
    }
    keys.extend(own.statuses.first().map(|status| format!("status = [{status}]")));
    format!("  {{ {} }},\n", keys.join(", "))
}

/// A basic string of TOML 1.0.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            control if control < ' ' || control == '\u{7f}' => {
                let _ = write!(out, "\\u{:04X}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}
