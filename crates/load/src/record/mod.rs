//! The record of one engine thread, and its merge into the record of the run.
//!
//! Threads share no data, and no averages are computed: counts and histograms are merged by addition.

use crate::failure::{Example, Failure, Reasons};
use crate::messages::ReceivedMessage;
use crate::outcome::{
    ArrivalsOutcome, ClassOutcome, ClientOutcome, ErrorCounts, HandshakeCounts, Interval, LATE,
    MessagesOutcome, StageOutcome, WebSocketsOutcome,
};
use crate::plan::Plan;
use crate::value_summary::ValueSummary;
use crate::websocket::WebSocketEvent;
use hdrhistogram::{Counter, Histogram};
use std::collections::BTreeMap;
use std::time::Duration;

/// The most intervals of a time line. A run of up to an hour has one per second; a longer run has longer
/// intervals.
const MAXIMUM_INTERVALS: u64 = 3600;
/// Latencies up to this value are recorded without resizing a histogram.
const USUAL_LATENCY_NS: u64 = 10_000_000_000;
/// A status has three digits.
const STATUSES: usize = 1000;

/// The times of the run on the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// The start of the run.
    pub(crate) start_ns: u64,
    /// The end of the ramp up: figures are counted from this time.
    pub(crate) window_start_ns: u64,
    /// The beginning of the ramp down: figures are counted until this time.
    pub(crate) window_end_ns: u64,
    /// The end of the length: no request starts after this time.
    pub(crate) stop_ns: u64,
    /// The length of an interval of the time line.
    pub(crate) interval_ns: u64,
}

impl Times {
    pub(crate) fn new(start_ns: u64, ramp_up: Duration, length: Duration, ramp_down: Duration) -> Times {
        let stop_ns = start_ns + nanoseconds(length);
        Times {
            start_ns,
            window_start_ns: start_ns + nanoseconds(ramp_up),
            window_end_ns: stop_ns - nanoseconds(ramp_down),
            stop_ns,
            interval_ns: length.as_secs().div_ceil(MAXIMUM_INTERVALS).max(1) * 1_000_000_000,
        }
    }

    /// The times of the same run if it is ended early.
    pub(crate) fn ended_at(mut self, at_ns: u64) -> Times {
        // A stop can come before the start.
        let at_ns = at_ns.max(self.start_ns);
        self.stop_ns = self.stop_ns.min(at_ns);
        self.window_end_ns = self.window_end_ns.min(at_ns);
        self.window_start_ns = self.window_start_ns.min(at_ns);
        self
    }

    pub(crate) fn counts(&self, at_ns: u64) -> bool {
        self.window_start_ns <= at_ns && at_ns < self.window_end_ns
    }

    pub(crate) fn window(&self) -> Duration {
        Duration::from_nanos(self.window_end_ns.saturating_sub(self.window_start_ns))
    }
}

/// A duration in nanoseconds; [`crate::Plan::check`] has limited it.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

/// One valid answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ValidAnswer {
    /// The due time of its request; in a closed loop, the start.
    pub(crate) intended_ns: u64,
    pub(crate) ended_ns: u64,
    pub(crate) latency_ns: u64,
    pub(crate) service_ns: u64,
    pub(crate) class: usize,
    pub(crate) bytes: u64,
    pub(crate) body_bytes: u64,
}

/// The figures of one thread or, after a merge, of several threads.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) times: Times,
    pub(crate) requests: u64,
    pub(crate) classes: Vec<ClassOutcome>,
    /// Complete answers, indexed by status.
    statuses: Box<[u64; STATUSES]>,
    pub(crate) errors: ErrorCounts,
    pub(crate) reasons: Reasons,
    pub(crate) bytes: u64,
    pub(crate) body_bytes: u64,
    pub(crate) started: u64,
    pub(crate) connections: u64,
    pub(crate) latency_ns: Histogram<u64>,
    /// Only in an open load; otherwise it is equal to the latency.
    pub(crate) service_ns: Option<Histogram<u64>>,
    pub(crate) connect_ns: Histogram<u64>,
    pub(crate) handshake_ns: Histogram<u64>,
    pub(crate) handshakes: HandshakeCounts,
    /// Only if answers are message streams.
    pub(crate) messages: Option<MessagesOutcome>,
    /// Only if the plan opens WebSockets.
    pub(crate) websockets: Option<Box<WebSocketsOutcome>>,
    /// Only in an open load.
    pub(crate) arrivals: Option<ArrivalsOutcome>,
    pub(crate) stages: Vec<StageOutcome>,
    /// The end of each stage.
    stage_ends_ns: Vec<u64>,
    /// The end of the last request.
    pub(crate) last_ended_ns: u64,
    pub(crate) tls_error: Option<String>,
    /// Requests that waited for a free stream of their connection.
    pub(crate) stream_waits: u64,
    pub(crate) clients: Vec<ClientOutcome>,
    pub(crate) intervals: Vec<Interval>,
    pub(crate) total_requests: u64,
    pub(crate) total_errors: ErrorCounts,
    pub(crate) total_bytes: u64,
    pub(crate) total_connections: u64,
    pub(crate) total_retries: u64,
}

impl Record {
    pub(crate) fn new(plan: &Plan, times: Times, clients: usize) -> Record {
        let classes = plan.requests.iter().map(|request| request.class + 1).max().unwrap_or(1);
        let is_open = plan.is_open();
        let (stages, stage_ends_ns) = stages(plan, &times);
        Record {
            times,
            requests: 0,
            classes: (0..classes).map(|_| empty_class()).collect(),
            statuses: Box::new([0; STATUSES]),
            errors: ErrorCounts::default(),
            reasons: Reasons::default(),
            bytes: 0,
            body_bytes: 0,
            started: 0,
            connections: 0,
            latency_ns: run_histogram(),
            service_ns: is_open.then(run_histogram),
            connect_ns: run_histogram(),
            handshake_ns: run_histogram(),
            handshakes: HandshakeCounts::default(),
            messages: plan.has_messages().then(empty_messages),
            websockets: plan.has_websockets().then(empty_websockets),
            arrivals: is_open.then(empty_arrivals),
            stages,
            stage_ends_ns,
            last_ended_ns: 0,
            tls_error: None,
            stream_waits: 0,
            clients: (0..clients).map(|_| empty_client()).collect(),
            intervals: Vec::new(),
            total_requests: 0,
            total_errors: ErrorCounts::default(),
            total_bytes: 0,
            total_connections: 0,
            total_retries: 0,
        }
    }

    /// Counts a started request. In an open load it counts at its due time; `has_waited`: it waited for a
    /// client.
    pub(crate) fn started(&mut self, intended_ns: u64, at_ns: u64, has_waited: bool) {
        let Some(arrivals) = &mut self.arrivals else {
            self.started += u64::from(self.times.counts(at_ns));
            return;
        };
        if !self.times.counts(intended_ns) {
            return;
        }
        self.started += 1;
        arrivals.due += 1;
        arrivals.started += 1;
        let late_ns = at_ns.saturating_sub(intended_ns);
        arrivals.late += u64::from(late_ns > nanoseconds(LATE));
        record_ns(&mut arrivals.lateness_ns, late_ns);
        if !has_waited {
            record_ns(&mut arrivals.engine_lateness_ns, late_ns);
        }
    }

    /// Counts an arrival that was due and was not started.
    pub(crate) fn unsent(&mut self, intended_ns: u64) {
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.due += u64::from(self.times.counts(intended_ns));
        }
    }

    /// Records a received message of a request that was due (or started) at `intended_ns`.
    pub(crate) fn message(&mut self, intended_ns: u64, message: ReceivedMessage) {
        let Some(messages) = &mut self.messages else { return };
        messages.total += 1;
        if !self.times.counts(message.at_ns) {
            return;
        }
        messages.count += 1;
        match message.gap_ns {
            Some(gap_ns) => record_ns(&mut messages.gap_ns, gap_ns),
            None => record_ns(&mut messages.first_ns, message.at_ns.saturating_sub(intended_ns)),
        }
    }

    /// Records another event of a WebSocket whose request was due (or started) at `intended_ns`.
    pub(crate) fn websocket(&mut self, intended_ns: u64, at_ns: u64, what: WebSocketEvent) {
        let Some(websockets) = &mut self.websockets else { return };
        let counts = u64::from(self.times.counts(at_ns));
        match what {
            WebSocketEvent::Opened => {
                websockets.total_opened += 1;
                websockets.opened += counts;
            }
            WebSocketEvent::Sent => {
                websockets.total_sent += 1;
                websockets.sent += counts;
            }
            WebSocketEvent::Ping => websockets.pings += 1,
            WebSocketEvent::Message { .. }
            | WebSocketEvent::Answered { .. }
            | WebSocketEvent::Pong { .. } => {}
        }
        if counts == 0 {
            return;
        }
        match what {
            WebSocketEvent::Opened => record_ns(&mut websockets.open_ns, at_ns.saturating_sub(intended_ns)),
            WebSocketEvent::Answered { answer_ns } => record_ns(&mut websockets.answer_ns, answer_ns),
            WebSocketEvent::Pong { pong_ns } => record_ns(&mut websockets.pong_ns, pong_ns),
            WebSocketEvent::Sent | WebSocketEvent::Ping | WebSocketEvent::Message { .. } => {}
        }
    }

    /// Counts the close code of a WebSocket.
    pub(crate) fn websocket_closed(&mut self, code: u16) {
        if let Some(websockets) = &mut self.websockets {
            *websockets.closes.entry(code).or_default() += 1;
        }
    }

    /// Records a completed TLS handshake.
    pub(crate) fn handshake_completed(&mut self, at_ns: u64, handshake_ns: u64, is_resumed: bool) {
        match is_resumed {
            true => self.handshakes.resumed += 1,
            false => self.handshakes.full += 1,
        }
        if self.times.counts(at_ns) {
            record_ns(&mut self.handshake_ns, handshake_ns);
        }
    }

    /// Records an established connection; `class`: the class of its request, if the connection is not shared.
    pub(crate) fn connected(&mut self, class: Option<usize>, at_ns: u64, connect_ns: u64) {
        self.total_connections += 1;
        if self.times.counts(at_ns) {
            self.connections += 1;
            record_ns(&mut self.connect_ns, connect_ns);
            if let Some(class) = class {
                self.classes[class].connect_ns.record(connect_ns);
            }
        }
    }

    /// Counts a page whose last request has ended, valid or failed.
    pub(crate) fn page_ended(&mut self, class: usize, at_ns: u64) {
        self.classes[class].pages += u64::from(self.times.counts(at_ns));
    }

    /// Counts a complete answer by its status, valid or not.
    pub(crate) fn count_status(&mut self, status: u16, at_ns: u64) {
        if self.times.counts(at_ns) {
            self.statuses[usize::from(status).min(STATUSES - 1)] += 1;
        }
    }

    /// The number of complete answers by status.
    pub(crate) fn answers_by_status(&self) -> BTreeMap<u16, u64> {
        let numbered = self.statuses.iter().enumerate().filter(|(_, count)| **count > 0);
        numbered.map(|(status, count)| (status as u16, *count)).collect()
    }

    /// Records a valid answer.
    pub(crate) fn answered(&mut self, client: usize, answer: &ValidAnswer) {
        self.total_requests += 1;
        self.total_bytes += answer.bytes;
        self.last_ended_ns = answer.ended_ns;
        if let Some(interval) = self.interval_at(answer.ended_ns) {
            interval.requests += 1;
            interval.bytes += answer.bytes;
            record_ns(&mut interval.latency_ns, answer.latency_ns);
        }
        if !self.stages.is_empty() {
            self.answered_in_stage(answer);
        }
        // The latencies of an open load are those of the requests that were due in the window, so that slow
        // requests are not omitted. Its rate is that of the answers that ended in the window, as in a closed
        // loop.
        if let Some(service) = &mut self.service_ns
            && self.times.counts(answer.intended_ns)
        {
            record_ns(&mut self.latency_ns, answer.latency_ns);
            record_ns(service, answer.service_ns);
        }
        if !self.times.counts(answer.ended_ns) {
            return;
        }
        self.requests += 1;
        self.answered_in_class(answer);
        self.bytes += answer.bytes;
        self.body_bytes += answer.body_bytes;
        if self.service_ns.is_none() {
            record_ns(&mut self.latency_ns, answer.latency_ns);
        }
        let client = &mut self.clients[client];
        client.requests += 1;
        client.bytes += answer.bytes;
        record_ns(&mut client.latency_ns, answer.latency_ns);
    }

    fn answered_in_class(&mut self, answer: &ValidAnswer) {
        // The figures of a single class are those of the run.
        let is_one_of_many = self.classes.len() > 1;
        let class = &mut self.classes[answer.class];
        class.requests += 1;
        class.response_ns.record(answer.latency_ns);
        class.answer_bytes.record(answer.bytes);
        class.body_bytes.record(answer.body_bytes);
        if is_one_of_many {
            class.bytes += answer.bytes;
            record_ns(&mut class.latency_ns, answer.latency_ns);
        }
    }

    fn answered_in_stage(&mut self, answer: &ValidAnswer) {
        let (ended, intended) = (self.stage_at(answer.ended_ns), self.stage_at(answer.intended_ns));
        if let Some(stage) = ended {
            self.stages[stage].requests += 1;
            self.stages[stage].bytes += answer.bytes;
        }
        if let Some(stage) = if self.service_ns.is_some() { intended } else { ended } {
            record_ns(&mut self.stages[stage].latency_ns, answer.latency_ns);
        }
    }

    fn stage_at(&self, at_ns: u64) -> Option<usize> {
        let stage = self.stage_ends_ns.partition_point(|&end_ns| end_ns <= at_ns);
        (stage < self.stages.len()).then_some(stage)
    }

    /// Records a failed request.
    pub(crate) fn failed(
        &mut self,
        client: usize,
        request: usize,
        class: usize,
        failure: Failure,
        at_ns: u64,
        example: Example,
    ) {
        let kind = failure.kind;
        self.total_errors.count(kind);
        self.reasons.record(failure, request, at_ns, example);
        self.last_ended_ns = at_ns;
        if let Some(stage) = self.stage_at(at_ns) {
            self.stages[stage].errors += 1;
        }
        if let Some(interval) = self.interval_at(at_ns) {
            interval.errors += 1;
        }
        if self.times.counts(at_ns) {
            self.errors.count(kind);
            self.clients[client].errors += 1;
            self.classes[class].errors += 1;
        }
    }

    /// Adds the figures of another thread. Its clients are appended.
    pub(crate) fn merge(&mut self, other: Record) {
        self.requests += other.requests;
        for (sum, class) in self.classes.iter_mut().zip(&other.classes) {
            sum.add(class);
            add(&mut sum.latency_ns, &class.latency_ns);
        }
        self.statuses.iter_mut().zip(other.statuses.iter()).for_each(|(sum, count)| *sum += count);
        self.errors.add(&other.errors);
        self.reasons.merge(&other.reasons);
        self.bytes += other.bytes;
        self.body_bytes += other.body_bytes;
        self.started += other.started;
        self.connections += other.connections;
        add(&mut self.latency_ns, &other.latency_ns);
        if let (Some(sum), Some(service)) = (&mut self.service_ns, &other.service_ns) {
            add(sum, service);
        }
        add(&mut self.connect_ns, &other.connect_ns);
        add(&mut self.handshake_ns, &other.handshake_ns);
        self.handshakes.full += other.handshakes.full;
        self.handshakes.resumed += other.handshakes.resumed;
        if let (Some(sum), Some(messages)) = (&mut self.messages, &other.messages) {
            sum.count += messages.count;
            sum.total += messages.total;
            add(&mut sum.first_ns, &messages.first_ns);
            add(&mut sum.gap_ns, &messages.gap_ns);
        }
        if let (Some(sum), Some(websockets)) = (&mut self.websockets, &other.websockets) {
            sum.add_counts(websockets);
            add(&mut sum.open_ns, &websockets.open_ns);
            add(&mut sum.answer_ns, &websockets.answer_ns);
            add(&mut sum.pong_ns, &websockets.pong_ns);
        }
        if let (Some(sum), Some(arrivals)) = (&mut self.arrivals, &other.arrivals) {
            sum.due += arrivals.due;
            sum.started += arrivals.started;
            sum.late += arrivals.late;
            add(&mut sum.lateness_ns, &arrivals.lateness_ns);
            add(&mut sum.engine_lateness_ns, &arrivals.engine_lateness_ns);
        }
        for (sum, stage) in self.stages.iter_mut().zip(&other.stages) {
            sum.requests += stage.requests;
            sum.errors += stage.errors;
            sum.bytes += stage.bytes;
            add(&mut sum.latency_ns, &stage.latency_ns);
        }
        self.last_ended_ns = self.last_ended_ns.max(other.last_ended_ns);
        self.tls_error = self.tls_error.take().or(other.tls_error);
        self.stream_waits += other.stream_waits;
        self.clients.extend(other.clients);
        for (index, interval) in other.intervals.iter().enumerate() {
            self.provide_interval(index);
            let sum = &mut self.intervals[index];
            sum.requests += interval.requests;
            sum.errors += interval.errors;
            sum.bytes += interval.bytes;
            add(&mut sum.latency_ns, &interval.latency_ns);
        }
        self.total_requests += other.total_requests;
        self.total_errors.add(&other.total_errors);
        self.total_bytes += other.total_bytes;
        self.total_connections += other.total_connections;
        self.total_retries += other.total_retries;
    }

    /// Completes the time line from the start to the end of the run, empty intervals included, and sets the
    /// length of the last interval.
    pub(crate) fn finish_intervals(&mut self) {
        let length_ns = self.times.stop_ns - self.times.start_ns;
        let count = length_ns.div_ceil(self.times.interval_ns) as usize;
        self.intervals.truncate(count);
        if let Some(last) = count.checked_sub(1) {
            self.provide_interval(last);
            let before_ns = last as u64 * self.times.interval_ns;
            self.intervals[last].length_s = (length_ns - before_ns) as f64 / 1e9;
        }
    }

    /// The interval of a time; `None` after the end of the length.
    fn interval_at(&mut self, at_ns: u64) -> Option<&mut Interval> {
        if at_ns >= self.times.stop_ns {
            return None;
        }
        let index = (at_ns.saturating_sub(self.times.start_ns) / self.times.interval_ns) as usize;
        if index >= self.intervals.len() {
            self.provide_interval(index);
        }
        Some(&mut self.intervals[index])
    }

    fn provide_interval(&mut self, index: usize) {
        let length_s = self.times.interval_ns as f64 / 1e9;
        while self.intervals.len() <= index {
            self.intervals.push(Interval {
                start_s: self.intervals.len() as f64 * length_s,
                length_s,
                requests: 0,
                errors: 0,
                bytes: 0,
                latency_ns: small_histogram(),
            });
        }
    }
}

/// The plan's stages, and the end of each.
fn stages(plan: &Plan, times: &Times) -> (Vec<StageOutcome>, Vec<u64>) {
    let mut end_ns = times.start_ns;
    let place = |stage: &crate::stages::Stage| {
        let start_s = (end_ns - times.start_ns) as f64 / 1e9;
        end_ns += nanoseconds(stage.length);
        let length_s = stage.length.as_secs_f64();
        let outcome =
            StageOutcome { start_s, length_s, requests: 0, errors: 0, bytes: 0, latency_ns: run_histogram() };
        (outcome, end_ns)
    };
    plan.stages.iter().map(place).unzip()
}

fn empty_class() -> ClassOutcome {
    let none = ValueSummary::default();
    ClassOutcome {
        requests: 0,
        errors: 0,
        bytes: 0,
        latency_ns: small_histogram(),
        pages: 0,
        response_ns: none,
        connect_ns: none,
        answer_bytes: none,
        body_bytes: none,
    }
}

fn empty_messages() -> MessagesOutcome {
    MessagesOutcome { count: 0, total: 0, first_ns: run_histogram(), gap_ns: run_histogram() }
}

fn empty_websockets() -> Box<WebSocketsOutcome> {
    Box::new(WebSocketsOutcome {
        opened: 0,
        total_opened: 0,
        sent: 0,
        total_sent: 0,
        pings: 0,
        closes: BTreeMap::new(),
        open_ns: run_histogram(),
        answer_ns: run_histogram(),
        pong_ns: run_histogram(),
    })
}

fn empty_arrivals() -> ArrivalsOutcome {
    ArrivalsOutcome {
        due: 0,
        started: 0,
        late: 0,
        lateness_ns: run_histogram(),
        engine_lateness_ns: run_histogram(),
    }
}

fn empty_client() -> ClientOutcome {
    ClientOutcome { requests: 0, errors: 0, bytes: 0, latency_ns: small_histogram() }
}

/// A histogram with three significant digits, for the whole run.
fn run_histogram() -> Histogram<u64> {
    let mut histogram = Histogram::new_with_max(USUAL_LATENCY_NS, 3)
        .expect("the bounds and the digits are within the limits");
    histogram.auto(true);
    histogram
}

/// A histogram with two significant digits, for one client or one interval.
pub(crate) fn small_histogram() -> Histogram<u32> {
    Histogram::new(2).expect("two digits are within the limits")
}

fn record_ns<T: Counter>(histogram: &mut Histogram<T>, value_ns: u64) {
    histogram.record(value_ns).expect("a histogram that resizes itself accepts any value");
}

pub(crate) fn add<T: Counter>(sum: &mut Histogram<T>, other: &Histogram<T>) {
    sum.add(other).expect("a histogram that resizes itself accepts any other");
}

#[cfg(test)]
mod tests;
