//! The reasons of failed requests, each with its count and the first request that failed with it.
//!
//! During the run only numbers are kept; they are converted to text at the end.

use crate::outcome::{ErrorKind, ErrorReason};
use crate::plan::Plan;
use crate::websocket::{WrongFrame, WrongHandshake};
use rustix::io::Errno;
use touchstone_session::Script;

/// The most different reasons; failures with further reasons are counted only by kind.
const MAXIMUM_REASONS: usize = 64;
/// The most characters of a path in the output.
const MAXIMUM_SHOWN: usize = 200;

/// A failure: its kind and, if there is one, its status or error number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: ErrorKind,
    code: i32,
}

impl From<ErrorKind> for Failure {
    fn from(kind: ErrorKind) -> Failure {
        Failure { kind, code: 0 }
    }
}

impl Failure {
    pub(crate) fn status(status: u16) -> Failure {
        Failure { kind: ErrorKind::BadStatus, code: i32::from(status) }
    }

    pub(crate) fn system(kind: ErrorKind, error: Errno) -> Failure {
        Failure { kind, code: error.raw_os_error() }
    }

    /// A gRPC call with a status other than 0.
    pub(crate) fn grpc_status(status: u16) -> Failure {
        Failure { kind: ErrorKind::BadStatus, code: -1 - i32::from(status) }
    }

    /// A WebSocket that the server closed with this code.
    pub(crate) fn closed(code: u16) -> Failure {
        Failure { kind: ErrorKind::Closed, code: i32::from(code) }
    }

    /// A failure whose text has this number in the script.
    pub(crate) fn numbered(kind: ErrorKind, number: usize) -> Failure {
        Failure { kind, code: i32::try_from(number + 1).unwrap_or(0) }
    }

    fn description(self, tls_error: Option<&str>, script: &Script) -> String {
        let system = || std::io::Error::from_raw_os_error(self.code).to_string();
        match (self.kind, self.code) {
            (ErrorKind::BadStatus, 1..) => format!("status {}", self.code),
            (ErrorKind::BadStatus, ..=-1) => format!("grpc-status {}", -1 - self.code),
            (ErrorKind::Tls, _) => tls_error.unwrap_or("the handshake failed").to_string(),
            (ErrorKind::Connect | ErrorKind::Reset, 1..) => system(),
            (ErrorKind::Connect, _) => "the connection could not be established".to_string(),
            (ErrorKind::Reset, _) => "the server ended the connection or the stream".to_string(),
            (ErrorKind::Timeout, _) => "no complete answer within the time limit".to_string(),
            (ErrorKind::ShortBody, _) => "the body does not have the expected length".to_string(),
            (ErrorKind::BadStatus, _) => "other statuses".to_string(),
            (ErrorKind::Malformed, 1..) => {
                let wrong = WrongHandshake::at(self.code as usize - 1);
                wrong.map_or("an invalid handshake", WrongHandshake::description).to_string()
            }
            (ErrorKind::Malformed, _) => "the answer is not HTTP".to_string(),
            (ErrorKind::WrongFrame, code) => {
                let wrong = usize::try_from(code - 1).ok().and_then(WrongFrame::at);
                wrong.map_or("other invalid frames", WrongFrame::description).to_string()
            }
            (ErrorKind::Closed, 1005) => {
                "the server closed the WebSocket too early, without a code".to_string()
            }
            (ErrorKind::Closed, 1006) => "the connection ended without a close frame".to_string(),
            (ErrorKind::Closed, 1..) => format!("the server closed with code {}", self.code),
            (ErrorKind::Closed, _) => "the server closed WebSockets with other codes".to_string(),
            (ErrorKind::WrongBody, _) => "the body does not have the expected hash".to_string(),
            (ErrorKind::Extraction | ErrorKind::Assertion, 1..) => {
                script.problem_text(self.code as usize - 1).to_string()
            }
            (ErrorKind::Extraction, _) => "another value is missing".to_string(),
            (ErrorKind::Assertion, _) => "another assertion is false".to_string(),
        }
    }
}

/// The first failure with a reason: the request, if it differs from the plan, and the beginning of the
/// answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Example {
    pub(crate) request: Option<String>,
    pub(crate) answer: Option<String>,
}

/// One reason, as a thread counts it.
#[derive(Debug, Clone)]
struct CountedReason {
    failure: Failure,
    count: u64,
    first_at_ns: u64,
    first_request: usize,
    example: Example,
}

/// The reasons of all failures of a run, ramps included.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reasons(Vec<CountedReason>);

impl Reasons {
    /// Whether the failure is the first one with its reason, and needs an example.
    pub(crate) fn is_new(&self, failure: Failure) -> bool {
        !self.0.iter().any(|known| known.failure == failure)
    }

    pub(crate) fn record(&mut self, failure: Failure, request: usize, at_ns: u64, example: Example) {
        self.add(&CountedReason { failure, count: 1, first_at_ns: at_ns, first_request: request, example });
    }

    fn add(&mut self, counted: &CountedReason) {
        if let Some(known) = self.0.iter_mut().find(|known| known.failure == counted.failure) {
            known.count += counted.count;
            if counted.first_at_ns < known.first_at_ns {
                (known.first_at_ns, known.first_request) = (counted.first_at_ns, counted.first_request);
                known.example = counted.example.clone();
            }
        } else if self.0.len() < MAXIMUM_REASONS || counted.failure.code == 0 {
            self.0.push(counted.clone());
        } else {
            self.add(&CountedReason { failure: counted.failure.kind.into(), ..counted.clone() });
        }
    }

    pub(crate) fn merge(&mut self, other: &Reasons) {
        other.0.iter().for_each(|counted| self.add(counted));
    }

    /// The reasons as text, the most frequent first.
    pub(crate) fn into_error_reasons(
        mut self,
        plan: &Plan,
        script: &Script,
        start_ns: u64,
        tls_error: Option<&str>,
    ) -> Vec<ErrorReason> {
        self.0.sort_by_key(|counted| (std::cmp::Reverse(counted.count), counted.first_at_ns));
        let error_reason = |counted: &CountedReason| {
            let request = &plan.requests[counted.first_request];
            let mut first_request = match &counted.example.request {
                Some(written) => written.clone(),
                None => format!("{} {}", request.method, request.path),
            };
            if let Some((end, _)) = first_request.char_indices().nth(MAXIMUM_SHOWN) {
                first_request.truncate(end);
                first_request.push_str("...");
            }
            ErrorReason {
                kind: counted.failure.kind.name().to_string(),
                reason: counted.failure.description(tls_error, script),
                count: counted.count,
                first_at_s: counted.first_at_ns.saturating_sub(start_ns) as f64 / 1e9,
                first_request,
                first_answer: counted.example.answer.clone(),
            }
        };
        self.0.iter().map(error_reason).collect()
    }
}

/// Adds the reasons of another machine.
pub(crate) fn merge_error_reasons(sum: &mut Vec<ErrorReason>, other: Vec<ErrorReason>) {
    for reason in other {
        let same = |known: &&mut ErrorReason| (&known.kind, &known.reason) == (&reason.kind, &reason.reason);
        match sum.iter_mut().find(same) {
            None => sum.push(reason),
            Some(known) => {
                known.count += reason.count;
                if reason.first_at_s < known.first_at_s {
                    (known.first_at_s, known.first_request) = (reason.first_at_s, reason.first_request);
                    known.first_answer = reason.first_answer;
                }
            }
        }
    }
    sum.sort_by_key(|reason| std::cmp::Reverse(reason.count));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PlannedRequest;
    use crate::target::Target;

    fn plan() -> Plan {
        let plan = Plan::of_one(Target::plain(([127, 0, 0, 1], 80).into(), "localhost"), "/");
        Plan { requests: vec![PlannedRequest::get("/a"), PlannedRequest::get("/".repeat(900))], ..plan }
    }

    #[test]
    fn each_reason_has_its_count_and_its_first_request() {
        let (mut one, mut other) = (Reasons::default(), Reasons::default());
        one.record(Failure::status(503), 1, 3_000_000_000, Example::default());
        other.record(Failure::status(503), 0, 2_000_000_000, Example::default());
        other.record(Failure::status(404), 0, 1_000_000_000, Example::default());
        other.record(
            Failure::system(ErrorKind::Connect, Errno::CONNREFUSED),
            0,
            1_500_000_000,
            Example::default(),
        );
        one.merge(&other);
        let reported = one.into_error_reasons(&plan(), &Script::default(), 1_000_000_000, None);
        assert_eq!(
            (reported[0].count, &reported[0].reason[..], reported[0].first_at_s),
            (2, "status 503", 1.0)
        );
        assert_eq!((&reported[0].kind[..], &reported[0].first_request[..]), ("bad_status", "GET /a"));
        assert!(reported[2].reason.contains("refused") && reported[2].kind == "connect", "{reported:?}");
        let mut sum = reported.clone();
        merge_error_reasons(&mut sum, reported);
        assert_eq!(sum.iter().map(|reason| reason.count).collect::<Vec<_>>(), [4, 2, 2]);
    }

    #[test]
    fn the_number_of_reasons_and_the_length_of_a_path_are_bounded() {
        let mut reasons = Reasons::default();
        (400..900).for_each(|status| reasons.record(Failure::status(status), 1, 5, Example::default()));
        let reported = reasons.into_error_reasons(&plan(), &Script::default(), 0, None);
        assert_eq!(reported.len(), MAXIMUM_REASONS + 1);
        assert_eq!(reported.iter().map(|reason| reason.count).sum::<u64>(), 500);
        assert_eq!(
            (reported[0].count, &reported[0].reason[..]),
            (500 - MAXIMUM_REASONS as u64, "other statuses")
        );
        assert!(reported.iter().all(|reason| reason.first_request.len() <= MAXIMUM_SHOWN + 3));
    }
}
