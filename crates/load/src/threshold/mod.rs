//! Thresholds: conditions under which a run fails, such as `p99>200ms`, and the distance of the figures from
//! them.
//!
//! The conditions are checked at the end with the outcome, and during the run with the figures of the threads
//! ([`ThreadFigures`]).

use crate::outcome::{ClassOutcome, ErrorCounts, MessagesOutcome, Outcome, WebSocketsOutcome};
use crate::plan::{Plan, PlannedRequest};
use crate::record::{Record, add, small_histogram};
use hdrhistogram::{Counter, Histogram};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use touchstone_http::decimal::with_thousands_separators;

/// One threshold: the run fails if it is true.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    text: String,
    measure: Measure,
    urls: Option<String>,
    comparison: Comparison,
    limit: f64,
    unit: Unit,
    /// The classes of the plan that match `urls`; `None`: the whole run.
    classes: Option<Vec<usize>>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Measure {
    Time(Distribution, Figure),
    /// All errors, or those of one kind (its index in [`ErrorCounts::by_kind`]).
    Errors(Option<usize>),
    Rate,
    Requests,
    Unsent,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Distribution {
    Latency,
    Service,
    Connect,
    Handshake,
    FirstMessage,
    MessageGap,
    Opening,
    MessageAnswer,
    Pong,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Figure {
    Min,
    Mean,
    Quantile(f64),
    Max,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Comparison {
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// The unit of a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Microseconds.
    Microseconds,
    /// A share, 0 to 1.
    Share,
    /// Answers per second.
    PerSecond,
    /// A number.
    Count,
}

impl Unit {
    /// The name of the unit in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Microseconds => "us",
            Unit::Share => "share",
            Unit::PerSecond => "per_second",
            Unit::Count => "count",
        }
    }

    fn words(self, value: f64) -> String {
        match self {
            Unit::Microseconds if value >= 1e6 => format!("{} s", three_digits(value / 1e6)),
            Unit::Microseconds if value >= 1e3 => format!("{} ms", three_digits(value / 1e3)),
            Unit::Microseconds => format!("{} us", three_digits(value)),
            Unit::Share => format!("{} %", three_digits(value * 100.0)),
            Unit::PerSecond => format!("{} a second", three_digits(value)),
            Unit::Count => three_digits(value),
        }
    }
}

/// Formats a value with three significant digits; a whole number keeps all its digits.
fn three_digits(value: f64) -> String {
    let before_point = value.abs().max(f64::MIN_POSITIVE).log10().floor() as i32 + 1;
    let decimals = (3 - before_point).clamp(0, 9) as usize;
    let text = format!("{value:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    with_thousands_separators(text)
}

/// The outcome of a threshold.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The threshold as it was given.
    pub threshold: String,
    /// Whether the run met the threshold.
    pub is_kept: bool,
    /// The figure; `None`: nothing was measured, and the threshold counts as not met.
    pub measured: Option<f64>,
    /// The limit, in the same unit.
    pub limit: f64,
    /// The unit of the figure and of the limit.
    pub unit: Unit,
    /// The figure, the limit and their distance as text.
    pub words: String,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.threshold, self.words)
    }
}

const SYNTAX: &str = "write a threshold such as p99>200ms, errors>0.1%, rate<1000 or p99{/basket}>200ms";

impl Threshold {
    /// Parses `MEASURE[{URL}]` `>`, `>=`, `<` or `<=` `LIMIT`.
    pub fn parse(text: &str) -> Result<Threshold, String> {
        let bad = |reason: &str| format!("{text:?}: {reason}");
        let end = match (text.find('{'), text.find('}')) {
            (None, _) => 0,
            (Some(open), Some(close)) if open < close => close,
            _ => return Err(bad("a URL must be between { and }")),
        };
        let at = text[end..].find(['<', '>']).map(|at| at + end).ok_or_else(|| bad(SYNTAX))?;
        let (left, right) = (text[..at].trim(), &text[at..]);
        let operators = [
            (">=", Comparison::AtLeast),
            ("<=", Comparison::AtMost),
            (">", Comparison::Above),
            ("<", Comparison::Below),
        ];
        let known =
            operators.into_iter().find_map(|(sign, is)| right.strip_prefix(sign).map(|rest| (is, rest)));
        let (comparison, limit) = known.ok_or_else(|| bad(SYNTAX))?;
        let (measure, urls) = match left.split_once('{') {
            None => (left, None),
            Some((measure, rest)) => {
                let urls =
                    rest.strip_suffix('}').ok_or_else(|| bad("} must be followed by <, <=, > or >="))?;
                (measure.trim_end(), Some(urls.trim().to_string()))
            }
        };
        let measure = self::measure(measure).map_err(|reason| bad(&reason))?;
        if urls.is_some() && !has_urls(measure) {
            return Err(bad("only latencies, errors, rate and requests can be limited to a URL"));
        }
        let (limit, unit) = self::limit(limit.trim(), measure).map_err(|reason| bad(&reason))?;
        Ok(Threshold { text: text.to_string(), measure, urls, comparison, limit, unit, classes: None })
    }

    /// Finds the requests of the plan to which the threshold applies.
    pub fn bind(mut self, plan: &Plan) -> Result<Threshold, String> {
        let is_of_messages =
            matches!(self.measure, Measure::Time(Distribution::FirstMessage | Distribution::MessageGap, _));
        if is_of_messages && !plan.has_messages() {
            return Err(format!("{}: no answer is a stream of messages", self.text));
        }
        let is_of_websockets = matches!(
            self.measure,
            Measure::Time(Distribution::Opening | Distribution::MessageAnswer | Distribution::Pong, _)
        );
        if is_of_websockets && !plan.has_websockets() {
            return Err(format!("{}: no WebSocket is opened", self.text));
        }
        if self.measure == Measure::Unsent && !plan.is_open() {
            return Err(format!("{}: only an open load has due requests: set a rate", self.text));
        }
        let Some(urls) = &self.urls else { return Ok(self) };
        let (mut inside, mut outside) = (Vec::new(), std::collections::HashSet::new());
        for request in &plan.requests {
            match matches_urls(urls, plan, request) {
                true => inside.push(request.class),
                false => _ = outside.insert(request.class),
            }
        }
        inside.sort_unstable();
        inside.dedup();
        if inside.is_empty() {
            return Err(format!("{}: no request has the URL {urls}", self.text));
        }
        if inside.iter().any(|class| outside.contains(class)) {
            return Err(format!(
                "{}: the figures of {urls} are not separate from those of other requests",
                self.text
            ));
        }
        // If all requests match, the histogram of the whole run is used: it has more digits, and a single
        // class has no histogram of its own.
        self.classes = (!outside.is_empty()).then_some(inside);
        Ok(self)
    }

    /// The classes of the plan to which the threshold applies; empty for the whole run.
    pub fn classes(&self) -> &[usize] {
        self.classes.as_deref().unwrap_or_default()
    }

    /// The reason why the threshold can be checked only at the end of the run; `None`: it can be checked
    /// during the run.
    pub fn only_at_the_end(&self) -> Option<String> {
        let is_growing = matches!(self.measure, Measure::Requests | Measure::Errors(_))
            && self.unit == Unit::Count
            && matches!(self.comparison, Comparison::Below | Comparison::AtMost);
        (is_growing || self.measure == Measure::Unsent)
            .then(|| format!("{}: this is known only at the end of the run: use --fail-if", self.text))
    }

    /// The verdict on a finished run.
    pub fn verdict(&self, outcome: &Outcome) -> Verdict {
        self.verdict_on_figures(&Figures::of(outcome))
    }

    /// The same during a run; `None` while nothing was measured or the threshold is met.
    pub fn missed_so_far(&self, figures: &LiveFigures) -> Option<Verdict> {
        let verdict = self.verdict_on_figures(&figures.figures());
        (!verdict.is_kept && verdict.measured.is_some()).then_some(verdict)
    }

    /// The verdict on a given figure, in the unit of the limit.
    pub fn verdict_on(&self, measured: Option<f64>) -> Verdict {
        let is_kept = measured.is_some_and(|measured| !match self.comparison {
            Comparison::Above => measured > self.limit,
            Comparison::AtLeast => measured >= self.limit,
            Comparison::Below => measured < self.limit,
            Comparison::AtMost => measured <= self.limit,
        });
        let words = self.words(measured, is_kept);
        let (threshold, limit, unit) = (self.text.clone(), self.limit, self.unit);
        Verdict { threshold, is_kept, measured, limit, unit, words }
    }

    fn verdict_on_figures(&self, figures: &Figures<'_>) -> Verdict {
        self.verdict_on(self.measured(figures))
    }

    fn words(&self, measured: Option<f64>, is_kept: bool) -> String {
        let Some(measured) = measured else { return "nothing was measured".to_string() };
        let figure = self.unit.words(measured);
        if is_kept {
            return figure;
        }
        let side = if measured < self.limit { "below" } else { "above" };
        let distance = (measured - self.limit).abs();
        let limit = self.unit.words(self.limit);
        if distance == 0.0 {
            return format!("{figure}, exactly the limit");
        }
        let part = match self.limit {
            0.0 => String::new(),
            limit => format!(", {} %", three_digits(distance / limit * 100.0)),
        };
        format!("{figure}, {} {side} {limit}{part}", self.unit.words(distance))
    }

    fn measured(&self, figures: &Figures<'_>) -> Option<f64> {
        let of_classes = |count: fn(&ClassOutcome) -> u64| {
            self.classes
                .as_ref()
                .map(|classes| classes.iter().filter_map(|&class| figures.classes.of(class)).map(count).sum())
        };
        let requests: u64 = of_classes(|class| class.requests).unwrap_or(figures.requests);
        let errors: u64 = match self.measure {
            Measure::Errors(Some(kind)) => figures.errors.by_kind()[kind].1,
            _ => of_classes(|class| class.errors).unwrap_or_else(|| figures.errors.total()),
        };
        let share = |part: u64, all: u64| (all > 0).then(|| part as f64 / all as f64);
        match self.measure {
            Measure::Time(distribution, figure) => match (&self.classes, distribution) {
                (Some(classes), _) => {
                    let mut all = small_histogram();
                    let classes = classes.iter().filter_map(|&class| figures.classes.of(class));
                    classes.for_each(|class| add(&mut all, &class.latency_ns));
                    time_us(&all, figure)
                }
                (None, Distribution::Latency) => time_us(figures.latency_ns, figure),
                (None, Distribution::Service) => time_us(figures.service_ns, figure),
                (None, Distribution::Connect) => time_us(figures.connect_ns, figure),
                (None, Distribution::Handshake) => time_us(figures.handshake_ns, figure),
                (None, Distribution::FirstMessage) => {
                    figures.messages.and_then(|messages| time_us(&messages.first_ns, figure))
                }
                (None, Distribution::MessageGap) => {
                    figures.messages.and_then(|messages| time_us(&messages.gap_ns, figure))
                }
                (None, Distribution::Opening) => {
                    figures.websockets.and_then(|websockets| time_us(&websockets.open_ns, figure))
                }
                (None, Distribution::MessageAnswer) => {
                    figures.websockets.and_then(|websockets| time_us(&websockets.answer_ns, figure))
                }
                (None, Distribution::Pong) => {
                    figures.websockets.and_then(|websockets| time_us(&websockets.pong_ns, figure))
                }
            },
            Measure::Errors(_) if self.unit == Unit::Share => {
                // The share of one kind of errors is also that in all requests.
                let all = of_classes(|class| class.errors).unwrap_or_else(|| figures.errors.total());
                share(errors, requests + all)
            }
            Measure::Errors(_) => Some(errors as f64),
            Measure::Rate => {
                (!figures.window.is_zero()).then(|| requests as f64 / figures.window.as_secs_f64())
            }
            Measure::Requests => Some(requests as f64),
            Measure::Unsent if self.unit == Unit::Share => {
                figures.unsent_and_due.and_then(|(unsent, due)| share(unsent, due))
            }
            Measure::Unsent => figures.unsent_and_due.map(|(unsent, _)| unsent as f64),
        }
    }
}

fn has_urls(measure: Measure) -> bool {
    matches!(
        measure,
        Measure::Time(Distribution::Latency, _) | Measure::Errors(None) | Measure::Rate | Measure::Requests
    )
}

fn measure(text: &str) -> Result<Measure, String> {
    let kinds = ErrorCounts::default().by_kind();
    match text {
        "errors" => return Ok(Measure::Errors(None)),
        "rate" => return Ok(Measure::Rate),
        "requests" => return Ok(Measure::Requests),
        "unsent" => return Ok(Measure::Unsent),
        _ => {}
    }
    if let Some(kind) = kinds.iter().position(|(kind, _)| *kind == text) {
        return Ok(Measure::Errors(Some(kind)));
    }
    let (distribution, figure) = match text.split_once('.') {
        Some(("service", figure)) => (Distribution::Service, figure),
        Some(("connect", figure)) => (Distribution::Connect, figure),
        Some(("handshake", figure)) => (Distribution::Handshake, figure),
        Some(("first", figure)) => (Distribution::FirstMessage, figure),
        Some(("gap", figure)) => (Distribution::MessageGap, figure),
        Some(("open", figure)) => (Distribution::Opening, figure),
        Some(("answer", figure)) => (Distribution::MessageAnswer, figure),
        Some(("pong", figure)) => (Distribution::Pong, figure),
        Some(("latency", figure)) => (Distribution::Latency, figure),
        _ => (Distribution::Latency, text),
    };
    let quantile = || figure.strip_prefix('p')?.parse::<f64>().ok().filter(|p| *p > 0.0 && *p < 100.0);
    let figure = match figure {
        "min" => Figure::Min,
        "mean" => Figure::Mean,
        "max" => Figure::Max,
        _ => Figure::Quantile(quantile().ok_or_else(|| {
            let kinds: Vec<_> = kinds.iter().map(|(kind, _)| *kind).collect();
            format!(
                "{text:?} is not a measure: use p50, p99.9 or another percentile, min, mean, max (of \
                 latency, or service.p99, connect.p99, handshake.p99, first.p99, gap.p99, open.p99, \
                 answer.p99, pong.p99), errors, {}, rate, requests, unsent",
                kinds.join(", ")
            )
        })?),
    };
    Ok(Measure::Time(distribution, figure))
}

fn limit(text: &str, measure: Measure) -> Result<(f64, Unit), String> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(unit_at);
    let number = digits.parse::<f64>().map_err(|_| format!("{text:?} is not a limit; {SYNTAX}"))?;
    let may_be_share = matches!(measure, Measure::Errors(_) | Measure::Unsent);
    match (measure, unit.trim_start()) {
        (Measure::Time(..), "us") => Ok((number, Unit::Microseconds)),
        (Measure::Time(..), "ms") => Ok((number * 1e3, Unit::Microseconds)),
        (Measure::Time(..), "s") => Ok((number * 1e6, Unit::Microseconds)),
        (Measure::Time(..), "m") => Ok((number * 60e6, Unit::Microseconds)),
        (Measure::Time(..), _) => Err(format!("{text:?} is not a time: write 200ms, 1.5s or 800us")),
        (_, "%") if may_be_share => Ok((number / 100.0, Unit::Share)),
        (Measure::Rate, "" | "/s") => Ok((number, Unit::PerSecond)),
        (Measure::Rate, _) => Err(format!("{text:?} is not a rate: write a number of answers a second")),
        (_, "") => Ok((number, Unit::Count)),
        (_, _) if may_be_share => Err(format!("{text:?}: write a number, or a share such as 0.1%")),
        _ => Err(format!("{text:?}: write a number")),
    }
}

/// Whether the request matches the threshold's `[METHOD ]PATH` or `[METHOD ]URL`. A `*` at the end matches
/// any rest.
fn matches_urls(urls: &str, plan: &Plan, request: &PlannedRequest) -> bool {
    let (method, place) = match urls.split_once(' ') {
        Some((method, place)) => (Some(method), place.trim_start()),
        None => (None, urls),
    };
    let fits = |text: &str| match place.strip_suffix('*') {
        Some(beginning) => text.starts_with(beginning),
        None => text == place,
    };
    let whole = |target: &crate::target::Target| {
        let scheme = if target.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}{}", target.host, request.path)
    };
    method.is_none_or(|method| method == request.method)
        && match place.contains("://") {
            true => plan.targets().nth(request.target).is_some_and(|target| fits(&whole(target))),
            false => fits(&request.path),
        }
}

fn time_us<T: Counter>(histogram_ns: &Histogram<T>, figure: Figure) -> Option<f64> {
    (!histogram_ns.is_empty()).then(|| match figure {
        Figure::Min => histogram_ns.min() as f64 / 1e3,
        Figure::Mean => histogram_ns.mean() / 1e3,
        Figure::Quantile(percent) => histogram_ns.value_at_quantile(percent / 100.0) as f64 / 1e3,
        Figure::Max => histogram_ns.max() as f64 / 1e3,
    })
}

/// The figures to which thresholds are applied.
struct Figures<'a> {
    window: Duration,
    requests: u64,
    errors: &'a ErrorCounts,
    classes: Classes<'a>,
    latency_ns: &'a Histogram<u64>,
    service_ns: &'a Histogram<u64>,
    connect_ns: &'a Histogram<u64>,
    handshake_ns: &'a Histogram<u64>,
    messages: Option<&'a MessagesOutcome>,
    websockets: Option<&'a WebSocketsOutcome>,
    unsent_and_due: Option<(u64, u64)>,
}

/// The figures of all classes, or of the checked ones.
enum Classes<'a> {
    All(&'a [ClassOutcome]),
    Some(&'a BTreeMap<usize, ClassOutcome>),
}

impl Classes<'_> {
    fn of(&self, class: usize) -> Option<&ClassOutcome> {
        match self {
            Classes::All(classes) => classes.get(class),
            Classes::Some(classes) => classes.get(&class),
        }
    }
}

impl Figures<'_> {
    fn of(outcome: &Outcome) -> Figures<'_> {
        Figures {
            window: outcome.window,
            requests: outcome.requests,
            errors: &outcome.errors,
            classes: Classes::All(&outcome.classes),
            latency_ns: &outcome.latency_ns,
            service_ns: &outcome.service_ns,
            connect_ns: &outcome.connect_ns,
            handshake_ns: &outcome.handshake_ns,
            messages: outcome.messages.as_ref(),
            websockets: outcome.websockets.as_ref(),
            unsent_and_due: outcome.arrivals.as_ref().map(|arrivals| (arrivals.unsent(), arrivals.due)),
        }
    }
}

/// The figures of a run in progress, between the ramps.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LiveFigures {
    /// The counted time so far.
    pub window: Duration,
    requests: u64,
    errors: ErrorCounts,
    classes: BTreeMap<usize, ClassOutcome>,
    #[serde(with = "crate::base64_serde::histogram")]
    latency_ns: Histogram<u64>,
    #[serde(with = "crate::base64_serde::histogram")]
    service_ns: Histogram<u64>,
    #[serde(with = "crate::base64_serde::histogram")]
    connect_ns: Histogram<u64>,
    #[serde(with = "crate::base64_serde::histogram")]
    handshake_ns: Histogram<u64>,
    messages: Option<MessagesOutcome>,
    websockets: Option<WebSocketsOutcome>,
}

impl LiveFigures {
    fn of(record: &Record, now_ns: u64) -> LiveFigures {
        let times = &record.times;
        let window_ns = now_ns.min(times.window_end_ns).saturating_sub(times.window_start_ns);
        LiveFigures {
            window: Duration::from_nanos(window_ns),
            requests: record.requests,
            errors: record.errors.clone(),
            classes: record.classes.iter().cloned().enumerate().collect(),
            latency_ns: record.latency_ns.clone(),
            service_ns: record.service_ns.as_ref().unwrap_or(&record.latency_ns).clone(),
            connect_ns: record.connect_ns.clone(),
            handshake_ns: record.handshake_ns.clone(),
            messages: record.messages.clone(),
            websockets: record.websockets.as_deref().cloned(),
        }
    }

    /// Removes the figures of other classes.
    pub fn of_classes(mut self, classes: &[usize]) -> LiveFigures {
        self.classes.retain(|class, _| classes.contains(class));
        self
    }

    /// Adds the figures of another thread. The counted time is the longest of all threads, so that the rate
    /// is not overestimated.
    fn merge(&mut self, other: &LiveFigures) {
        self.window = self.window.max(other.window);
        self.requests += other.requests;
        self.errors.add(&other.errors);
        for (class, other) in &other.classes {
            if let Some(sum) = self.classes.get_mut(class) {
                sum.requests += other.requests;
                sum.errors += other.errors;
                add(&mut sum.latency_ns, &other.latency_ns);
            }
        }
        add(&mut self.latency_ns, &other.latency_ns);
        add(&mut self.service_ns, &other.service_ns);
        add(&mut self.connect_ns, &other.connect_ns);
        add(&mut self.handshake_ns, &other.handshake_ns);
        if let (Some(sum), Some(messages)) = (&mut self.messages, &other.messages) {
            add(&mut sum.first_ns, &messages.first_ns);
            add(&mut sum.gap_ns, &messages.gap_ns);
        }
        if let (Some(sum), Some(websockets)) = (&mut self.websockets, &other.websockets) {
            add(&mut sum.open_ns, &websockets.open_ns);
            add(&mut sum.answer_ns, &websockets.answer_ns);
            add(&mut sum.pong_ns, &websockets.pong_ns);
        }
    }

    fn figures(&self) -> Figures<'_> {
        Figures {
            window: self.window,
            requests: self.requests,
            errors: &self.errors,
            classes: Classes::Some(&self.classes),
            latency_ns: &self.latency_ns,
            service_ns: &self.service_ns,
            connect_ns: &self.connect_ns,
            handshake_ns: &self.handshake_ns,
            messages: self.messages.as_ref(),
            websockets: self.websockets.as_ref(),
            unsent_and_due: None,
        }
    }
}

/// The figures that the threads publish during a run, if the caller requests it: copies of their histograms,
/// a few times per second.
#[derive(Debug, Default)]
pub struct ThreadFigures {
    /// Set by the caller before the run to request the figures.
    pub is_requested: AtomicBool,
    threads: Mutex<Vec<Option<LiveFigures>>>,
}

impl ThreadFigures {
    /// The sum of the figures of all threads; `None` before the first publication.
    pub fn sum(&self) -> Option<LiveFigures> {
        // Only complete figures are stored, so that the data is valid after a panic of a thread.
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let mut threads = threads.iter().flatten();
        let mut sum = threads.next()?.clone();
        threads.for_each(|other| sum.merge(other));
        Some(sum)
    }

    pub(crate) fn publish(&self, thread: usize, record: &Record, now_ns: u64) {
        if !self.is_requested.load(Ordering::Relaxed) {
            return;
        }
        self.put(thread, LiveFigures::of(record, now_ns));
    }

    /// Replaces the figures of a thread or a machine.
    pub fn put(&self, place: usize, figures: LiveFigures) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if threads.len() <= place {
            threads.resize_with(place + 1, || None);
        }
        threads[place] = Some(figures);
    }
}

#[cfg(test)]
mod tests;
