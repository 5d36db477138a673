//! One request of a workload, made before anything is measured: is the system ready, and does it answer
//! correctly?
//!
//! The laboratory itself sends plain GET requests and checks every byte of the answer. The load engine sends
//! the others (TLS, HTTP/2, another method, fields or a body) once, in the same form as in the mix.

use super::PreparedBench;
use crate::probe;
use memchr::memmem;
use std::time::Duration;
use touchstone_lab::suite::tree::{DIRECTIVE, ExpectedAnswer, expected};
use touchstone_lab::suite::{Class, Lengths, RunParameters};
use touchstone_load::{HttpVersion, Outcome, Plan, Progress, Target};

/// How long one request of the check may take.
pub(super) const REQUEST_TIME_LIMIT: Duration = Duration::from_secs(60);
/// What a server answers whose programs are not there yet (RFC 9110 section 15.6.4).
const SERVICE_UNAVAILABLE: u16 = 503;
/// The longest answer that is read of a program whose answers vary.
const VARYING_BYTES_MAX: u64 = 16 << 20;

/// A question, and the system that it is sent to.
pub(super) struct Question<'a> {
    pub(super) prepared: &'a PreparedBench,
    pub(super) run_parameters: RunParameters<'a>,
    pub(super) part: usize,
    pub(super) class: usize,
    pub(super) number: u64,
    /// The length that every answer has, of the kernel's limit.
    pub(super) limit_bytes: Option<u64>,
    /// Whether the system serves the tree that was made here, so that every byte can be compared.
    pub(super) is_comparable: bool,
}

/// What is wrong with an answer.
pub(super) struct Problem {
    pub(super) text: String,
    /// Whether it answered, and with more than that it cannot yet.
    pub(super) answered: bool,
}

impl Question<'_> {
    /// Sends the request; an error states what is wrong with the answer.
    pub(super) fn ask(&self) -> Result<(), Problem> {
        let (suite, class) = (&self.prepared.suite, self.class());
        let request = class.request(self.number, self.run_parameters.path_prefix, Lengths::Unchecked);
        // Only a session has the values that it takes from earlier answers.
        if request.path.contains("${") {
            return Ok(());
        }
        let is_plain = !class.endpoint.is_secure
            && self.run_parameters.target.tls.is_none()
            && !matches!(class.endpoint.version, HttpVersion::Http2 | HttpVersion::Http3)
            && request.method == "GET"
            && request.headers.is_empty()
            && class.headers.is_empty()
            && request.expected_status.is_empty()
            && request.messages.is_none()
            && request.websocket.is_none()
            && suite.headers.is_empty();
        if is_plain || self.limit_bytes.is_some() {
            self.send_plain_request(&request.path)
        } else {
            self.send_with_engine()
        }
    }

    fn class(&self) -> &Class {
        &self.prepared.suite.parts[self.part].workload.classes[self.class]
    }

    fn send_plain_request(&self, path: &str) -> Result<(), Problem> {
        let class = self.class();
        let stated = class.request(self.number, "", self.run_parameters.lengths).expected_body_bytes;
        let length = self.limit_bytes.or(stated);
        let Target { address, host, .. } = &self.run_parameters.target;
        let most = length.unwrap_or(VARYING_BYTES_MAX) as usize;
        let answer = probe::get(*address, host, path, most, REQUEST_TIME_LIMIT).map_err(|error| Problem {
            text: format!("did not answer a request for {path}: {error}"),
            answered: error.kind() == std::io::ErrorKind::InvalidData,
        })?;
        let wrong = |text: String| Err(Problem { text, answered: true });
        if answer.status != 200 {
            let text = format!("answered {} to a request for {path}", answer.status);
            return Err(Problem { text, answered: answer.status != SERVICE_UNAVAILABLE });
        }
        let workload = &self.prepared.suite.parts[self.part].workload;
        let expected = expected(workload, self.class, class, self.number);
        if expected == ExpectedAnswer::Page && memmem::find(&answer.body, DIRECTIVE).is_some() {
            return wrong(format!("answered {path} without carrying out its directives"));
        }
        let found = answer.body.len();
        match length {
            Some(length) if found as u64 != length => {
                return wrong(format!("answered {path} with {found} bytes; there should be {length}"));
            }
            _ => {}
        }
        match expected {
            ExpectedAnswer::Bytes(bytes) if self.is_comparable && answer.body != bytes => {
                wrong(format!("answered {path} with other bytes than the file's"))
            }
            _ => Ok(()),
        }
    }

    fn send_with_engine(&self) -> Result<(), Problem> {
        let suite = &self.prepared.suite;
        let class = self.class();
        let target = class.endpoint.target(&self.run_parameters, suite.tls);
        let mut request =
            class.request(self.number, self.run_parameters.path_prefix, self.run_parameters.lengths);
        request.headers = [&class.headers[..], &request.headers].concat();
        request.step = None;
        let path = request.path.clone();
        let plan = Plan {
            requests: vec![request],
            headers: suite.headers.clone(),
            usual_fields: suite.usual_headers,
            request_limit: Some(1),
            length: REQUEST_TIME_LIMIT,
            timeout: REQUEST_TIME_LIMIT,
            ..Plan::of_one(target, "/")
        };
        let outcome = touchstone_load::run(&plan, &Progress::default()).map_err(|error| Problem {
            text: format!("the request for {path} failed: {error}"),
            answered: true,
        })?;
        match problem(&outcome) {
            None => Ok(()),
            Some((text, answered)) => Err(Problem { text: format!("{text} a request for {path}"), answered }),
        }
    }
}

/// What was wrong with the one answer, and whether there was one.
fn problem(outcome: &Outcome) -> Option<(String, bool)> {
    if outcome.total_requests > 0 {
        return None;
    }
    let errors = outcome.total_errors_by_kind.by_kind();
    let kind = errors.iter().find(|(_, count)| *count > 0).map_or("nothing", |(kind, _)| *kind);
    let tls = outcome.tls_error.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let is_silent = ["connect", "timeout", "nothing"].contains(&kind);
    Some((format!("had the error \"{}\"{tls} with", kind.replace('_', " ")), !is_silent))
}
