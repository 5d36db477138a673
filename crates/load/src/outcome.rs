//! The measured figures of a run.

use crate::value_summary::ValueSummary;
use hdrhistogram::{Counter, Histogram};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// A reason of failed requests: its count, and the first request that failed with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorReason {
    /// The name of the kind in [`crate::ErrorCounts::by_kind`].
    pub kind: String,
    /// The reason as text.
    pub reason: String,
    /// The number of failures in the whole run, ramps included.
    pub count: u64,
    /// The time of the first failure, in seconds since the start of the run.
    pub first_at_s: f64,
    /// Method and path of the first failed request.
    pub first_request: String,
    /// The beginning of its answer, if it explains the failure.
    pub first_answer: Option<String>,
}

/// Failed requests by kind. A failed request is not included in rates, bytes and latencies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCounts {
    /// The connection was refused or could not be established.
    pub connect: u64,
    /// The connection was reset, or closed before the end of the answer.
    pub reset: u64,
    /// No complete answer was received within the time limit.
    pub timeout: u64,
    /// The body ended before its Content-Length, or its length differs from that of the workload.
    pub short_body: u64,
    /// An unexpected status: outside 200 to 399, unless the workload sets the expected ones.
    pub bad_status: u64,
    /// The answer is not HTTP.
    pub malformed: u64,
    /// The TLS handshake failed, the session was aborted, or HTTP/2 was not negotiated.
    pub tls: u64,
    /// The hash of the body differs from that of the workload.
    pub wrong_body: u64,
    /// The answer does not contain a value to extract.
    pub extraction: u64,
    /// An assertion on the answer failed.
    pub assertion: u64,
    /// The server of a WebSocket sent an invalid frame.
    pub wrong_frame: u64,
    /// The server closed a WebSocket too early, with an error code, or without a close frame.
    pub closed: u64,
}

/// The kinds of [`ErrorCounts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    Connect,
    Reset,
    Timeout,
    ShortBody,
    BadStatus,
    Malformed,
    Tls,
    WrongBody,
    Extraction,
    Assertion,
    WrongFrame,
    Closed,
}

impl ErrorKind {
    /// The name of the kind, as in [`ErrorCounts::by_kind`].
    pub(crate) fn name(self) -> &'static str {
        match self {
            ErrorKind::Connect => "connect",
            ErrorKind::Reset => "reset",
            ErrorKind::Timeout => "timeout",
            ErrorKind::ShortBody => "short_body",
            ErrorKind::BadStatus => "bad_status",
            ErrorKind::Malformed => "malformed",
            ErrorKind::Tls => "tls",
            ErrorKind::WrongBody => "wrong_body",
            ErrorKind::Extraction => "extraction",
            ErrorKind::Assertion => "assertion",
            ErrorKind::WrongFrame => "wrong_frame",
            ErrorKind::Closed => "closed",
        }
    }
}

impl ErrorCounts {
    /// The sum of all kinds.
    pub fn total(&self) -> u64 {
        self.by_kind().iter().map(|(_, count)| count).sum()
    }

    /// The count of each kind with its name, in a fixed order.
    pub fn by_kind(&self) -> [(&'static str, u64); 12] {
        [
            ("connect", self.connect),
            ("reset", self.reset),
            ("timeout", self.timeout),
            ("short_body", self.short_body),
            ("bad_status", self.bad_status),
            ("malformed", self.malformed),
            ("tls", self.tls),
            ("wrong_body", self.wrong_body),
            ("extraction", self.extraction),
            ("assertion", self.assertion),
            ("wrong_frame", self.wrong_frame),
            ("closed", self.closed),
        ]
    }

    pub(crate) fn count(&mut self, kind: ErrorKind) {
        *match kind {
            ErrorKind::Connect => &mut self.connect,
            ErrorKind::Reset => &mut self.reset,
            ErrorKind::Timeout => &mut self.timeout,
            ErrorKind::ShortBody => &mut self.short_body,
            ErrorKind::BadStatus => &mut self.bad_status,
            ErrorKind::Malformed => &mut self.malformed,
            ErrorKind::Tls => &mut self.tls,
            ErrorKind::WrongBody => &mut self.wrong_body,
            ErrorKind::Extraction => &mut self.extraction,
            ErrorKind::Assertion => &mut self.assertion,
            ErrorKind::WrongFrame => &mut self.wrong_frame,
            ErrorKind::Closed => &mut self.closed,
        } += 1;
    }

    pub(crate) fn add(&mut self, other: &ErrorCounts) {
        self.connect += other.connect;
        self.reset += other.reset;
        self.timeout += other.timeout;
        self.short_body += other.short_body;
        self.bad_status += other.bad_status;
        self.malformed += other.malformed;
        self.tls += other.tls;
        self.wrong_body += other.wrong_body;
        self.extraction += other.extraction;
        self.assertion += other.assertion;
        self.wrong_frame += other.wrong_frame;
        self.closed += other.closed;
    }
}

/// The figures of one virtual client.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClientOutcome {
    /// Valid answers between the ramps.
    pub requests: u64,
    /// Errors between the ramps.
    pub errors: u64,
    /// Bytes received between the ramps, heads included.
    pub bytes: u64,
    /// Latency in nanoseconds, two significant digits.
    #[serde(with = "crate::base64_serde::histogram")]
    pub latency_ns: Histogram<u32>,
}

/// The figures of one class of requests.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClassOutcome {
    /// Valid answers between the ramps.
    pub requests: u64,
    /// Errors between the ramps.
    pub errors: u64,
    /// Bytes received between the ramps, heads included; 0 if there is only one class.
    pub bytes: u64,
    /// Latency in nanoseconds, two significant digits; empty if there is only one class.
    #[serde(with = "crate::base64_serde::histogram")]
    pub latency_ns: Histogram<u32>,
    /// Pages whose last request ended between the ramps, valid or failed; without pages, the number of
    /// requests.
    pub pages: u64,
    /// Latency of the valid answers in nanoseconds.
    pub response_ns: ValueSummary,
    /// Connect time in nanoseconds, of the connections that its requests opened (HTTP/1).
    pub connect_ns: ValueSummary,
    /// Bytes of a valid answer, head included.
    pub answer_bytes: ValueSummary,
    /// Bytes of a valid answer's body.
    pub body_bytes: ValueSummary,
}

impl ClassOutcome {
    /// Adds all figures except for the histogram, whose addition can fail.
    pub(crate) fn add(&mut self, other: &ClassOutcome) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.bytes += other.bytes;
        self.pages += other.pages;
        self.response_ns.merge(&other.response_ns);
        self.connect_ns.merge(&other.connect_ns);
        self.answer_bytes.merge(&other.answer_bytes);
        self.body_bytes.merge(&other.body_bytes);
    }
}

/// One interval of the time line, usually a second; ramps are included.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Interval {
    /// The beginning of the interval, in seconds since the start of the run.
    pub start_s: f64,
    /// The length of the interval in seconds.
    pub length_s: f64,
    /// Valid answers that ended in it.
    pub requests: u64,
    /// Errors in it.
    pub errors: u64,
    /// Bytes received in it.
    pub bytes: u64,
    /// Latency in nanoseconds of the answers that ended in it.
    #[serde(with = "crate::base64_serde::histogram")]
    pub latency_ns: Histogram<u32>,
}

/// One of [`crate::Plan::stages`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StageOutcome {
    /// The beginning of the stage, in seconds since the start of the run.
    pub start_s: f64,
    /// The length of the stage in seconds.
    pub length_s: f64,
    /// Valid answers that ended in it.
    pub requests: u64,
    /// Errors in it.
    pub errors: u64,
    /// Bytes received in it.
    pub bytes: u64,
    /// Latency in nanoseconds of the answers that ended in the stage; in an open load, of the requests that
    /// were due in it.
    #[serde(with = "crate::base64_serde::histogram")]
    pub latency_ns: Histogram<u64>,
}

/// The arrivals of an open load that were due between the ramps.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ArrivalsOutcome {
    /// The number of due arrivals.
    pub due: u64,
    /// The number of started arrivals; for the others no client was free before the end.
    pub started: u64,
    /// The number of arrivals that were started more than [`LATE`] after their due time.
    pub late: u64,
    /// Nanoseconds from the due time of a request to its start.
    #[serde(with = "crate::base64_serde::histogram")]
    pub lateness_ns: Histogram<u64>,
    /// The same for requests for which a client was free: the lateness of the engine itself.
    #[serde(with = "crate::base64_serde::histogram")]
    pub engine_lateness_ns: Histogram<u64>,
}

impl ArrivalsOutcome {
    /// The number of arrivals that were due and were not started.
    pub fn unsent(&self) -> u64 {
        self.due - self.started
    }
}

/// The messages of answers that are message streams.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MessagesOutcome {
    /// Messages that were received between the ramps.
    pub count: u64,
    /// Messages of the whole run, including those of failed answers.
    pub total: u64,
    /// Nanoseconds from the start of the request (in an open load: from its due time) to its first message.
    #[serde(with = "crate::base64_serde::histogram")]
    pub first_ns: Histogram<u64>,
    /// Nanoseconds from one message of an answer to the next.
    #[serde(with = "crate::base64_serde::histogram")]
    pub gap_ns: Histogram<u64>,
}

/// The figures of WebSockets. The messages of the server are in [`Outcome::messages`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WebSocketsOutcome {
    /// WebSockets that were opened between the ramps.
    pub opened: u64,
    /// The same for the whole run.
    pub total_opened: u64,
    /// Messages that the clients sent between the ramps.
    pub sent: u64,
    /// The same for the whole run.
    pub total_sent: u64,
    /// Pings that were received in the whole run.
    pub pings: u64,
    /// The close codes of servers in the whole run: 1005 stands for no code, 1006 for an end without a close
    /// frame.
    pub closes: BTreeMap<u16, u64>,
    /// Nanoseconds from the start of the request (in an open load: from its due time) to the end of the
    /// handshake.
    #[serde(with = "crate::base64_serde::histogram")]
    pub open_ns: Histogram<u64>,
    /// Nanoseconds from the due time of a client's message to its answer, which is the server's message with
    /// the same number.
    #[serde(with = "crate::base64_serde::histogram")]
    pub answer_ns: Histogram<u64>,
    /// Nanoseconds from a ping of the client to its pong.
    #[serde(with = "crate::base64_serde::histogram")]
    pub pong_ns: Histogram<u64>,
}

impl WebSocketsOutcome {
    /// Adds all figures except for the histograms, whose addition can fail.
    pub(crate) fn add_counts(&mut self, other: &WebSocketsOutcome) {
        self.opened += other.opened;
        self.total_opened += other.total_opened;
        self.sent += other.sent;
        self.total_sent += other.total_sent;
        self.pings += other.pings;
        other.closes.iter().for_each(|(code, count)| *self.closes.entry(*code).or_default() += count);
    }
}

/// The code for a WebSocket that ended without a close frame (RFC 6455, section 7.1.5).
pub(crate) const ABNORMAL_CLOSURE: u16 = 1006;

/// A request that starts with a longer delay is late.
pub const LATE: Duration = Duration::from_millis(1);

/// The completed TLS handshakes of the whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandshakeCounts {
    /// Full handshakes.
    pub full: u64,
    /// Handshakes that resumed a session.
    pub resumed: u64,
}

impl HandshakeCounts {
    /// The share of handshakes that resumed a session; `None` without handshakes.
    pub fn resumed_share(&self) -> Option<f64> {
        let all = self.full + self.resumed;
        (all > 0).then(|| self.resumed as f64 / all as f64)
    }
}

/// The engine's own use of the machine between the ramps.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct EngineUse {
    /// Processor time in user mode of all engine threads, seconds.
    pub user_s: f64,
    /// Processor time in system mode of all engine threads, seconds.
    pub system_s: f64,
    /// The processor use of the busiest engine thread, 0 to 1.
    pub busiest_thread: f64,
    /// The largest share of the time in which an engine thread waited for its processor, 0 to 1.
    pub longest_waiting_thread: f64,
}

/// The signs that rates are a lower bound; without any, the figures are those of the server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Saturation(pub Vec<SaturationSign>);

/// A sign that a rate is a lower bound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SaturationSign {
    /// What limited the rate.
    pub limit: RateLimit,
    /// The sign, in a sentence.
    pub text: String,
}

/// What limited a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RateLimit {
    /// The engine, or other work on its processors.
    Engine,
    /// The server cannot serve the rate of an open load: a result of the measurement.
    Server,
}

impl Saturation {
    /// Whether there is no sign.
    pub fn is_clear(&self) -> bool {
        self.0.is_empty()
    }

    /// All signs in one text; `None`: there are none.
    pub fn text(&self) -> Option<String> {
        joined(self.0.iter())
    }

    /// The same for the signs that the engine itself was at its limit.
    pub fn engine_text(&self) -> Option<String> {
        joined(self.0.iter().filter(|sign| sign.limit == RateLimit::Engine))
    }
}

fn joined<'s>(signs: impl Iterator<Item = &'s SaturationSign>) -> Option<String> {
    let texts: Vec<&str> = signs.map(|sign| &*sign.text).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// The measured figures of a run. Unless otherwise noted, only requests that ended between the ramps are
/// counted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// The counted time: the length without the ramps (the actual time if the run was ended early).
    pub window: Duration,
    /// Valid answers.
    pub requests: u64,
    /// Valid answers by [`crate::PlannedRequest::class`].
    pub requests_by_class: Vec<u64>,
    /// Further figures by class.
    pub classes: Vec<ClassOutcome>,
    /// Complete answers by status, including those that count as errors.
    pub statuses: BTreeMap<u16, u64>,
    /// Failed requests.
    pub errors: ErrorCounts,
    /// Bytes received, heads included.
    pub bytes: u64,
    /// Bytes of the bodies.
    pub body_bytes: u64,
    /// Established connections.
    pub connections: u64,
    /// Started requests, valid or failed (with a rate: on time or late).
    pub started: u64,
    /// Nanoseconds from the start of the connection (on a kept one: of the request) to the last byte of the
    /// answer. In an open load: from the due time of the request, for all answers to requests that were due
    /// between the ramps.
    #[serde(with = "crate::base64_serde::histogram")]
    pub latency_ns: Histogram<u64>,
    /// Nanoseconds from the actual start of the request to the last byte of the answer (differs from
    /// `latency_ns` only in an open load).
    #[serde(with = "crate::base64_serde::histogram")]
    pub service_ns: Histogram<u64>,
    /// Connect times in nanoseconds, one value for each connection.
    #[serde(with = "crate::base64_serde::histogram")]
    pub connect_ns: Histogram<u64>,
    /// Nanoseconds from the established connection to the end of the TLS handshake.
    #[serde(with = "crate::base64_serde::histogram")]
    pub handshake_ns: Histogram<u64>,
    /// TLS handshakes of the whole run.
    pub handshakes: HandshakeCounts,
    /// The messages, if answers are message streams.
    pub messages: Option<MessagesOutcome>,
    /// The WebSockets, if the plan opens any.
    pub websockets: Option<WebSocketsOutcome>,
    /// The arrivals of an open load.
    pub arrivals: Option<ArrivalsOutcome>,
    /// The stages of the run, if the plan has any.
    pub stages: Vec<StageOutcome>,
    /// The figures of each client.
    pub clients: Vec<ClientOutcome>,
    /// The time line, ramps included. Requests that ended after the length, while the engine waited for the
    /// last answers, are only in the totals.
    pub intervals: Vec<Interval>,
    /// All valid answers of the whole run, ramps included, for the comparison with the server's log.
    pub total_requests: u64,
    /// All errors of the whole run, ramps included.
    pub total_errors: u64,
    /// The errors of the whole run by kind; their sum is `total_errors`.
    pub total_errors_by_kind: ErrorCounts,
    /// The errors of the whole run by reason, the most frequent first.
    pub error_reasons: Vec<ErrorReason>,
    /// The first TLS error.
    pub tls_error: Option<String>,
    /// Established connections of the whole run.
    pub total_connections: u64,
    /// Requests of the whole run that were sent again on a new connection, because the server had closed the
    /// kept connection before the first byte of the answer (RFC 9112, section 9.3.1). Each counts once in the
    /// other figures.
    pub total_retries: u64,
    /// Warnings for the reader of the figures, one sentence each (see [`crate::Plan::check`]).
    pub warnings: Vec<String>,
    /// The processor use of the engine itself.
    pub engine: EngineUse,
    /// The signs that rates are a lower bound.
    pub saturation: Saturation,
    /// The delay of the first engine thread's start.
    pub first_start_lateness: Duration,
    /// The delay of the last engine thread's start.
    pub start_lateness: Duration,
    /// Whether [`crate::Progress::stop`] ended the run.
    pub interrupted: bool,
}

impl Outcome {
    /// Valid answers per second.
    pub fn requests_per_second(&self) -> f64 {
        per_second(self.requests, self.window)
    }

    /// Bytes received per second, heads included.
    pub fn bytes_per_second(&self) -> f64 {
        per_second(self.bytes, self.window)
    }

    /// The engine's own processor time per answer in microseconds; `None` without answers.
    pub fn engine_us_per_request(&self) -> Option<f64> {
        let answered = self.requests + self.errors.total();
        (answered > 0).then(|| (self.engine.user_s + self.engine.system_s) * 1e6 / answered as f64)
    }

    /// The number of clients according to Little's law: the rate times the sum of latency and think time. In
    /// a closed loop without errors it is the number of virtual clients.
    pub fn implied_clients(&self, think_time: Duration) -> f64 {
        self.requests_per_second() * (self.service_ns.mean() / 1e9 + think_time.as_secs_f64())
    }
}

fn per_second(count: u64, window: Duration) -> f64 {
    if window.is_zero() { 0.0 } else { count as f64 / window.as_secs_f64() }
}

/// The summary of a distribution of times in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeSummary {
    /// The number of values.
    pub count: u64,
    /// The smallest.
    pub min_us: f64,
    /// The mean.
    pub mean_us: f64,
    /// The standard deviation.
    pub deviation_us: f64,
    /// The median.
    pub p50_us: f64,
    /// 90 % of the values are at most this.
    pub p90_us: f64,
    /// 95 % of the values are at most this.
    pub p95_us: f64,
    /// 99 % of the values are at most this.
    pub p99_us: f64,
    /// 99.9 % of the values are at most this.
    pub p999_us: f64,
    /// The largest.
    pub max_us: f64,
}

impl TimeSummary {
    /// The summary of a histogram in nanoseconds; `None` if it is empty.
    pub fn of<T: Counter>(histogram_ns: &Histogram<T>) -> Option<TimeSummary> {
        if histogram_ns.is_empty() {
            return None;
        }
        let quantile_us = |quantile: f64| histogram_ns.value_at_quantile(quantile) as f64 / 1e3;
        Some(TimeSummary {
            count: histogram_ns.len(),
            min_us: histogram_ns.min() as f64 / 1e3,
            mean_us: histogram_ns.mean() / 1e3,
            deviation_us: histogram_ns.stdev() / 1e3,
            p50_us: quantile_us(0.5),
            p90_us: quantile_us(0.9),
            p95_us: quantile_us(0.95),
            p99_us: quantile_us(0.99),
            p999_us: quantile_us(0.999),
            max_us: histogram_ns.max() as f64 / 1e3,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_the_server_cannot_serve_is_no_limit_of_the_engine() {
        let sign = |limit, text: &str| SaturationSign { limit, text: text.to_string() };
        let server = sign(RateLimit::Server, "s");
        let both = Saturation(vec![sign(RateLimit::Engine, "e"), server.clone()]);
        assert_eq!((both.text().as_deref(), both.engine_text().as_deref()), (Some("e; s"), Some("e")));
        assert_eq!(Saturation(vec![server]).engine_text(), None);
        assert!(Saturation::default().is_clear() && Saturation::default().text().is_none());
    }

    #[test]
    fn a_distribution_is_summarized_in_microseconds() {
        let mut histogram = Histogram::<u64>::new(3).expect("three digits are within the limits");
        assert_eq!(TimeSummary::of(&histogram), None);
        for value_us in 1..=1000 {
            histogram.record(value_us * 1000).expect("the histogram resizes itself");
        }
        let summary = TimeSummary::of(&histogram).expect("there are values");
        assert_eq!(summary.count, 1000);
        for (figure, exact) in [
            (summary.min_us, 1.0),
            (summary.mean_us, 500.5),
            (summary.deviation_us, 288.7),
            (summary.p50_us, 500.0),
            (summary.p90_us, 900.0),
            (summary.p95_us, 950.0),
            (summary.p99_us, 990.0),
            (summary.p999_us, 999.0),
            (summary.max_us, 1000.0),
        ] {
            assert!((figure / exact - 1.0).abs() < 2e-3, "{figure} instead of {exact}");
        }
    }

    #[test]
    fn every_kind_of_error_is_counted_by_its_name() {
        let mut errors = ErrorCounts::default();
        for kind in [
            ErrorKind::Connect,
            ErrorKind::Reset,
            ErrorKind::Timeout,
            ErrorKind::ShortBody,
            ErrorKind::BadStatus,
            ErrorKind::Malformed,
            ErrorKind::Tls,
            ErrorKind::WrongBody,
            ErrorKind::Extraction,
            ErrorKind::Assertion,
            ErrorKind::WrongFrame,
            ErrorKind::Closed,
        ] {
            errors.count(kind);
        }
        assert!(errors.by_kind().iter().all(|(_, count)| *count == 1));
        let mut sum = errors.clone();
        sum.add(&errors);
        assert_eq!((errors.total(), sum.total()), (12, 24));
    }
}
