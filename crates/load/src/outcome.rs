//! What a run measured.

use crate::value_summary::ValueSummary;
use hdrhistogram::{Counter, Histogram};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Why requests failed, how many did, and the first of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorReason {
    /// The kind, by its name in [`crate::ErrorCounts::by_kind`].
    pub kind: String,
    /// The reason in words.
    pub reason: String,
    /// Failures of the whole run, ramps included.
    pub count: u64,
    /// When the first one was seen, seconds from the start of the run.
    pub first_at_s: f64,
    /// The first request that failed so: method and path.
    pub first_request: String,
    /// The beginning of its answer, where that says why.
    pub first_answer: Option<String>,
}

/// Failed requests by kind. A failed request counts in no rate, no byte figure and no latency.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCounts {
    /// The connection was refused or could not be made.
    pub connect: u64,
    /// The connection was reset or broke in mid-answer.
    pub reset: u64,
    /// No complete answer within the time limit.
    pub timeout: u64,
    /// The body ended before its Content-Length, or is not the length that the workload states.
    pub short_body: u64,
    /// A status that is not expected: outside 200 to 399, unless the workload says otherwise.
    pub bad_status: u64,
    /// An answer that is not HTTP.
    pub malformed: u64,
    /// The TLS handshake failed or the session broke; or HTTP/2 was not agreed upon in it.
    pub tls: u64,
    /// A body whose hash is not the one that the workload states.
    pub wrong_body: u64,
    /// An answer without a value that was to be taken from it.
    pub extraction: u64,
    /// An answer of which something does not hold that must.
    pub assertion: u64,
    /// A WebSocket whose server has broken the protocol of frames.
    pub wrong_frame: u64,
    /// A WebSocket that the server has closed too early, with a code that is not an orderly one, or without a
    /// close frame.
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
    /// The kind as in [`ErrorCounts::by_kind`].
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
    /// All kinds together.
    pub fn total(&self) -> u64 {
        self.by_kind().iter().map(|(_, count)| count).sum()
    }

    /// Every kind with its name, in a fixed order.
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

/// One virtual client's share of the run.
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

/// The share of one class of requests.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClassOutcome {
    /// Valid answers between the ramps.
    pub requests: u64,
    /// Errors between the ramps.
    pub errors: u64,
    /// Bytes received between the ramps, heads included; not kept where there is one class only.
    pub bytes: u64,
    /// Latency in nanoseconds, two significant digits; empty where there is one class only.
    #[serde(with = "crate::base64_serde::histogram")]
    pub latency_ns: Histogram<u32>,
    /// Pages whose last request ended between the ramps, answered or not; where there are none, requests.
    pub pages: u64,
    /// Latency of the valid answers, nanoseconds.
    pub response_ns: ValueSummary,
    /// From connect to connected, nanoseconds, of the connections that its requests had made (HTTP/1).
    pub connect_ns: ValueSummary,
    /// Bytes of a valid answer, head included.
    pub answer_bytes: ValueSummary,
    /// Bytes of a valid answer's body.
    pub body_bytes: ValueSummary,
}

impl ClassOutcome {
    /// Adds what does not fail: all but the histogram.
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

/// One second of the run (ramps included), from its start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Interval {
    /// Seconds since the run's start at the interval's beginning.
    pub start_s: f64,
    /// How long the interval is, in seconds.
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
    /// Seconds since the run's start at its beginning.
    pub start_s: f64,
    /// How long it was, in seconds.
    pub length_s: f64,
    /// Valid answers that ended in it.
    pub requests: u64,
    /// Errors in it.
    pub errors: u64,
    /// Bytes received in it.
    pub bytes: u64,
    /// Latency in nanoseconds: of the answers that ended in it or, in an open load, of the requests that were
    /// due in it.
    #[serde(with = "crate::base64_serde::histogram")]
    pub latency_ns: Histogram<u64>,
}

/// What became of the arrivals of an open load that were due between the ramps.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ArrivalsOutcome {
    /// All that were due.
    pub due: u64,
    /// Those that were started; the others found no free client before the end.
    pub started: u64,
    /// Those that were started more than [`LATE`] after their moment.
    pub late: u64,
    /// Nanoseconds from the moment at which a request was due to its start.
    #[serde(with = "crate::base64_serde::histogram")]
    pub lateness_ns: Histogram<u64>,
    /// The same for requests that a client was free for: what is late here is the engine itself.
    #[serde(with = "crate::base64_serde::histogram")]
    pub engine_lateness_ns: Histogram<u64>,
}

impl ArrivalsOutcome {
    /// Arrivals that were due and never started.
    pub fn unsent(&self) -> u64 {
        self.due - self.started
    }
}

/// The messages of answers that are streams of them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MessagesOutcome {
    /// Messages that were received between the ramps.
    pub count: u64,
    /// Messages of the whole run, those of answers that failed included.
    pub total: u64,
    /// Nanoseconds from the start of the request (in an open load: from when it was due) to its first
    /// message.
    #[serde(with = "crate::base64_serde::histogram")]
    pub first_ns: Histogram<u64>,
    /// Nanoseconds from one message of an answer to the next.
    #[serde(with = "crate::base64_serde::histogram")]
    pub gap_ns: Histogram<u64>,
}

/// WebSockets. The messages of the server are in [`Outcome::messages`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WebSocketsOutcome {
    /// WebSockets that were opened between the ramps.
    pub opened: u64,
    /// Those of the whole run.
    pub total_opened: u64,
    /// Messages that the clients sent between the ramps.
    pub sent: u64,
    /// Those of the whole run.
    pub total_sent: u64,
    /// Pings of the server in the whole run.
    pub pings: u64,
    /// The codes that servers closed with in the whole run: 1005 stands for none, 1006 for an end without a
    /// close frame.
    pub closes: BTreeMap<u16, u64>,
    /// Nanoseconds from the start of the request (in an open load: from when it was due) to the end of the
    /// handshake.
    #[serde(with = "crate::base64_serde::histogram")]
    pub open_ns: Histogram<u64>,
    /// Nanoseconds from when a message of the client was due to its answer: the server's message of the same
    /// number.
    #[serde(with = "crate::base64_serde::histogram")]
    pub answer_ns: Histogram<u64>,
    /// Nanoseconds from a ping of the client to its pong.
    #[serde(with = "crate::base64_serde::histogram")]
    pub pong_ns: Histogram<u64>,
}

impl WebSocketsOutcome {
    /// Adds what does not fail: all but the histograms.
    pub(crate) fn add_counts(&mut self, other: &WebSocketsOutcome) {
        self.opened += other.opened;
        self.total_opened += other.total_opened;
        self.sent += other.sent;
        self.total_sent += other.total_sent;
        self.pings += other.pings;
        other.closes.iter().for_each(|(code, count)| *self.closes.entry(*code).or_default() += count);
    }
}

/// The code of a WebSocket that ended without a close frame (RFC 6455, section 7.1.5).
pub(crate) const CUT_WITHOUT_CLOSE: u16 = 1006;

/// The text of the sign that a server cannot serve the rate of an open load.
pub(crate) const NOT_CARRIED: &str = "the server does not carry the rate";
/// The separator between several signs of saturation.
const BETWEEN_SIGNS: &str = "; ";

/// A start with this delay is late.
pub const LATE: Duration = Duration::from_millis(1);

/// The TLS handshakes of the whole run that were finished.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandshakeCounts {
    /// Full handshakes.
    pub full: u64,
    /// Handshakes that took up an earlier session.
    pub resumed: u64,
}

impl HandshakeCounts {
    /// The share that took up an earlier session; `None` without handshakes.
    pub fn resumed_share(&self) -> Option<f64> {
        let all = self.full + self.resumed;
        (all > 0).then(|| self.resumed as f64 / all as f64)
    }
}

/// The engine's own use of the machine while it counted.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct EngineUse {
    /// Processor time in user mode of all engine threads, seconds.
    pub user_s: f64,
    /// Processor time in system mode of all engine threads, seconds.
    pub system_s: f64,
    /// The busiest engine thread's share of one processor, 0 to 1.
    pub busiest_thread: f64,
    /// The largest share of the time that an engine thread waited while something else had its processor, 0
    /// to 1.
    pub longest_waiting_thread: f64,
}

/// Whether the figures are the server's or the engine's own limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Saturation {
    /// The engine had room: the figures are the server's.
    Clear,
    /// The engine was at its own limit: rates are a lower bound; the text says by what sign.
    Saturated(String),
}

/// What a run measured. Unless a field says otherwise, only requests that ended between the ramps are
/// counted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// The counted time: length without the ramps (as it really was, if the run was ended early).
    pub window: Duration,
    /// Valid answers.
    pub requests: u64,
    /// Valid answers for each class of [`crate::PlannedRequest::class`].
    pub requests_by_class: Vec<u64>,
    /// The same with more figures.
    pub classes: Vec<ClassOutcome>,
    /// Complete answers by their status, those that count as errors included.
    pub statuses: BTreeMap<u16, u64>,
    /// Failed requests.
    pub errors: ErrorCounts,
    /// Bytes received, heads included.
    pub bytes: u64,
    /// Bytes of the bodies.
    pub body_bytes: u64,
    /// Connections made.
    pub connections: u64,
    /// Requests that were started (with a rate: on schedule or late), whatever became of them.
    pub started: u64,
    /// Nanoseconds from the start of the connection (or, on a kept one, of the request) to the last byte. In
    /// an open load from the moment at which the request was due, of all answers to requests that were due
    /// between the ramps.
    #[serde(with = "crate::base64_serde::histogram")]
    pub latency_ns: Histogram<u64>,
    /// Nanoseconds from the real start of the request to the last byte (differs from `latency_ns` only in an
    /// open load).
    #[serde(with = "crate::base64_serde::histogram")]
    pub service_ns: Histogram<u64>,
    /// Nanoseconds from connect to connected, one value a connection.
    #[serde(with = "crate::base64_serde::histogram")]
    pub connect_ns: Histogram<u64>,
    /// Nanoseconds from connected to the end of the TLS handshake.
    #[serde(with = "crate::base64_serde::histogram")]
    pub handshake_ns: Histogram<u64>,
    /// TLS handshakes of the whole run.
    pub handshakes: HandshakeCounts,
    /// The messages, where answers are streams of them.
    pub messages: Option<MessagesOutcome>,
    /// The WebSockets, where the plan asks for any.
    pub websockets: Option<WebSocketsOutcome>,
    /// What became of the arrivals of an open load.
    pub arrivals: Option<ArrivalsOutcome>,
    /// The phases of the run, if it has several.
    pub stages: Vec<StageOutcome>,
    /// Each client's share.
    pub clients: Vec<ClientOutcome>,
    /// The time line, ramps included. Requests that ended after the length, while the last answers were
    /// awaited, are only in the totals.
    pub intervals: Vec<Interval>,
    /// Every valid answer of the whole run, ramps included: what the server's log must agree with.
    pub total_requests: u64,
    /// Every error of the whole run, ramps included.
    pub total_errors: u64,
    /// The errors of the whole run by kind; their sum is `total_errors`.
    pub total_errors_by_kind: ErrorCounts,
    /// The errors of the whole run by their reason, the most frequent first.
    pub error_reasons: Vec<ErrorReason>,
    /// The first error of TLS, in words.
    pub tls_error: Option<String>,
    /// Connections made in the whole run.
    pub total_connections: u64,
    /// Requests of the whole run that were sent again on a new connection because the server had closed the
    /// kept one before any byte of the answer (RFC 9112, section 9.3.1). Each counts once in the other
    /// figures.
    pub total_retries: u64,
    /// What the reader of the figures should know, a sentence each (see [`crate::Plan::check`]).
    pub warnings: Vec<String>,
    /// The engine's own cost.
    pub engine: EngineUse,
    /// Whose limit the figures show.
    pub saturation: Saturation,
    /// How long after its moment the first engine thread began.
    pub first_start_lateness: Duration,
    /// How long after its moment the last engine thread began. It is known if the start was given as a time.
    pub start_lateness: Duration,
    /// True when [`crate::Progress::stop`] ended the run.
    pub interrupted: bool,
}

impl Outcome {
    /// The signs that the engine itself was at its limit. That the server cannot serve the rate of an open
    /// load is not one of them: the purpose of the load is to find this out.
    pub fn engine_signs(&self) -> Option<String> {
        let Saturation::Saturated(signs) = &self.saturation else { return None };
        let own: Vec<&str> = signs.split(BETWEEN_SIGNS).filter(|sign| !sign.contains(NOT_CARRIED)).collect();
        (!own.is_empty()).then(|| own.join(BETWEEN_SIGNS))
    }

    /// Valid answers a second.
    pub fn requests_per_second(&self) -> f64 {
        per_second(self.requests, self.window)
    }

    /// Bytes received a second, heads included.
    pub fn bytes_per_second(&self) -> f64 {
        per_second(self.bytes, self.window)
    }

    /// The engine's own processor time for each answer, in microseconds; `None` when nothing was answered.
    pub fn engine_us_per_request(&self) -> Option<f64> {
        let answered = self.requests + self.errors.total();
        (answered > 0).then(|| (self.engine.user_s + self.engine.system_s) * 1e6 / answered as f64)
    }

    /// Little's law: the clients that rate and latency imply, each resting for the think time after its
    /// answer. In a closed loop without errors it is the number of virtual clients.
    pub fn implied_clients(&self, think_time: Duration) -> f64 {
        self.requests_per_second() * (self.service_ns.mean() / 1e9 + think_time.as_secs_f64())
    }
}

fn per_second(count: u64, window: Duration) -> f64 {
    if window.is_zero() { 0.0 } else { count as f64 / window.as_secs_f64() }
}

/// The figures of a distribution of times, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeSummary {
    /// Values in the distribution.
    pub count: u64,
    /// The smallest.
    pub min_us: f64,
    /// The mean.
    pub mean_us: f64,
    /// The standard deviation.
    pub deviation_us: f64,
    /// The median.
    pub p50_us: f64,
    /// 90 % are not above it.
    pub p90_us: f64,
    /// 95 % are not above it.
    pub p95_us: f64,
    /// 99 % are not above it.
    pub p99_us: f64,
    /// 99.9 % are not above it.
    pub p999_us: f64,
    /// The largest.
    pub max_us: f64,
}

impl TimeSummary {
    /// The figures of a histogram in nanoseconds; `None` where nothing was measured.
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
    fn a_distribution_is_summed_up_in_microseconds() {
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
