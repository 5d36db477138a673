//! Sends spans and metrics to the collector, on a separate thread.
//!
//! One request to the collector is running at a time. One that may succeed later is repeated, with growing
//! pauses or after the pause that the collector requests, and dropped after five minutes. During this time
//! the queue fills up to its limit, and further spans are dropped. Metrics are not repeated, because they
//! are cumulative.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep_until};
use touchstone_config::{LogLevel, TelemetryConfig};
use touchstone_observe::log::error::ErrorLog;
use touchstone_observe::metrics::Metrics;
use touchstone_observe::request_id::RequestIds;

use crate::destination::{Destination, Outcome, PackedMessage, Signal};
use crate::encode;
use crate::queue::SpanQueue;

/// The first pause after a failure, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How long a batch is kept for a collector that is away.
const MOST_AGE: Duration = Duration::from_secs(300);

/// How long the last spans may take when the server ends.
const LAST_CHANCE: Duration = Duration::from_secs(5);

/// How often dropped spans are logged.
const DROPS_INTERVAL: Duration = Duration::from_secs(60);

/// So far in the future that it is never reached.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// The telemetry of a process: its queue, and the thread that sends what is in it.
pub struct Telemetry {
    queue: Arc<SpanQueue>,
    metrics: Arc<Metrics>,
    error_log: ErrorLog,
    instance: String,
    running: Option<RunningExporter>,
}

struct RunningExporter {
    commands: UnboundedSender<Command>,
    thread: JoinHandle<()>,
}

enum Command {
    /// Sends to this collector from now on; `None`: sends what waits, and then no more.
    Use(Option<Box<Destination>>),
    /// Sends what waits, and ends.
    Finish,
}

impl Telemetry {
    /// The telemetry of a process before its first export.
    pub fn new(queue: Arc<SpanQueue>, metrics: Arc<Metrics>, error_log: ErrorLog) -> Telemetry {
        let instance = String::from_utf8_lossy(&RequestIds::new().next_uuid()).into_owned();
        Telemetry { queue, metrics, error_log, instance, running: None }
    }

    /// The queue of spans.
    pub fn queue(&self) -> &Arc<SpanQueue> {
        &self.queue
    }

    /// Opens the collector of a configuration, without using it. The error names the wrong file.
    pub fn open(&self, config: &TelemetryConfig) -> Result<Option<Destination>, String> {
        Destination::open(config, &self.instance)
    }

    /// Sends to this collector from now on.
    pub fn apply(&mut self, config: &TelemetryConfig, destination: Option<Destination>) {
        if destination.is_some() {
            self.queue.set_most(config.queue);
            self.queue.counts().set_used();
            if self.running.is_none() {
                self.start();
            }
        }
        if let Some(running) = &self.running {
            // A thread that has ended was ended by a fault that its log line names.
            let _ = running.commands.send(Command::Use(destination.map(Box::new)));
        }
    }

    fn start(&mut self) {
        let (commands, received) = unbounded_channel();
        let (queue, metrics) = (self.queue.clone(), self.metrics.clone());
        let error_log = self.error_log.clone();
        let work = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(Exporter::new(queue, metrics, error_log).run(received)),
                Err(error) => error_log.error(format_args!("telemetry cannot be sent: {error}")),
            }
        };
        match std::thread::Builder::new().name("telemetry".to_string()).spawn(work) {
            Ok(thread) => self.running = Some(RunningExporter { commands, thread }),
            Err(error) => self.error_log.error(format_args!("telemetry cannot be sent: {error}")),
        }
    }

    /// Sends what waits, for a few seconds at most. The cores must have ended.
    pub fn finish(&mut self) {
        if let Some(running) = self.running.take() {
            let _ = running.commands.send(Command::Finish);
            if running.thread.join().is_err() {
                self.error_log.error("the thread that sends telemetry has panicked");
            }
        }
    }
}

/// A request to the collector.
struct Export {
    signal: Signal,
    message: PackedMessage,
    /// How many spans it has.
    spans: u64,
    /// When it was first sent.
    began: Instant,
    /// The pause after the next failure.
    pause: Duration,
}

type Sending = Pin<Box<dyn Future<Output = Outcome>>>;

/// The state of the thread.
struct Exporter {
    queue: Arc<SpanQueue>,
    metrics: Arc<Metrics>,
    error_log: ErrorLog,
    destination: Option<Rc<Destination>>,
    /// The request that is active or waits for its repetition.
    export: Option<Export>,
    sending: Option<Sending>,
    retry_at: Option<Instant>,
    next_spans: Instant,
    next_metrics: Instant,
    next_report: Instant,
    reported_drops: u64,
    /// Until when the queued spans may be sent, if no more will be added.
    last_chance: Option<Instant>,
    /// The thread ends after that.
    is_ending: bool,
}

impl Exporter {
    fn new(queue: Arc<SpanQueue>, metrics: Arc<Metrics>, error_log: ErrorLog) -> Exporter {
        let now = Instant::now();
        Exporter {
            queue,
            metrics,
            error_log,
            destination: None,
            export: None,
            sending: None,
            retry_at: None,
            next_spans: now + NEVER,
            next_metrics: now + NEVER,
            next_report: now + DROPS_INTERVAL,
            reported_drops: 0,
            last_chance: None,
            is_ending: false,
        }
    }

    async fn run(mut self, mut commands: UnboundedReceiver<Command>) {
        loop {
            self.begin_due();
            if self.is_ending && self.export.is_none() {
                return;
            }
            let next = self.next_moment();
            let may_begin = self.export.is_none() && self.destination.is_some();
            tokio::select! {
                biased;
                outcome = poll_sending(&mut self.sending) => self.handle_outcome(outcome),
                command = commands.recv(), if !self.is_ending => self.handle_command(command),
                () = self.queue.wait_for_batch(), if may_begin => self.next_spans = Instant::now(),
                () = sleep_until(next) => self.handle_timer(),
            }
        }
    }

    /// The time of the next action, if there is no event before.
    fn next_moment(&self) -> Instant {
        let mut next = self.next_report;
        if self.export.is_none() && self.destination.is_some() {
            next = next.min(self.next_spans).min(self.next_metrics);
        }
        let others = [self.retry_at, self.last_chance];
        others.into_iter().flatten().fold(next, Instant::min)
    }

    fn handle_timer(&mut self) {
        let now = Instant::now();
        if self.next_report <= now {
            self.next_report = now + DROPS_INTERVAL;
            self.report_drops();
        }
        if self.last_chance.is_some_and(|at| at <= now) {
            self.drop_all_spans();
        }
    }

    /// Begins what is due.
    fn begin_due(&mut self) {
        let now = Instant::now();
        let Some(destination) = self.destination.clone() else { return };
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
            self.send();
        }
        if self.export.is_some() {
            return;
        }
        let is_last = self.last_chance.is_some();
        if self.next_spans <= now || is_last {
            self.next_spans = now + destination.interval;
            let spans = self.queue.take_batch();
            if !spans.is_empty() {
                let count = spans.len() as u64;
                return self.begin(Signal::Traces, encode::spans(&destination.resource, spans), count);
            }
        }
        if self.next_metrics <= now {
            self.next_metrics = match destination.metrics_interval {
                Some(interval) if !is_last => now + interval,
                _ => now + NEVER,
            };
            return self.begin(Signal::Metrics, encode::metrics(&destination.resource, &self.metrics), 0);
        }
        if is_last {
            self.last_chance = None;
            self.destination = None;
        }
    }

    fn begin(&mut self, signal: Signal, message: Vec<u8>, spans: u64) {
        let Some(destination) = &self.destination else { return };
        let (began, message) = (Instant::now(), destination.packed(message));
        self.export = Some(Export { signal, message, spans, began, pause: FIRST_PAUSE });
        self.send();
    }

    /// Sends the present request, again or for the first time.
    fn send(&mut self) {
        let (Some(export), Some(destination)) = (&self.export, &self.destination) else { return };
        let (signal, message, destination) = (export.signal, export.message.clone(), destination.clone());
        self.sending = Some(Box::pin(async move { destination.export(signal, &message).await }));
    }

    fn handle_outcome(&mut self, outcome: Outcome) {
        self.sending = None;
        let Some(export) = &mut self.export else { return };
        let name = self.destination.as_ref().map_or(String::new(), |destination| destination.name.clone());
        let counts = self.queue.counts().clone();
        match outcome {
            Outcome::Accepted { rejected, message } => {
                counts.exports_done.fetch_add(1, Relaxed);
                let rejected = match export.signal {
                    Signal::Traces => rejected.min(export.spans),
                    Signal::Metrics => rejected,
                };
                if export.signal == Signal::Traces {
                    counts.spans_sent.fetch_add(export.spans - rejected, Relaxed);
                    counts.spans_failed.fetch_add(rejected, Relaxed);
                }
                self.error_log.recovered(&name);
                if rejected > 0 {
                    let text =
                        format_args!("{name} has not accepted {rejected} of what it was sent: {message}");
                    self.error_log.limited(LogLevel::Warning, "telemetry refused", text);
                }
                self.export = None;
            }
            Outcome::Again { reason, after } => {
                counts.exports_failed.fetch_add(1, Relaxed);
                self.error_log.failing(&name, &reason);
                let is_old = export.began.elapsed() >= MOST_AGE;
                if export.signal == Signal::Metrics || is_old || self.last_chance.is_some() {
                    return self.drop_request();
                }
                self.retry_at = Some(Instant::now() + after.unwrap_or(export.pause));
                export.pause = (export.pause * 2).min(LONGEST_PAUSE);
            }
            Outcome::Refused(reason) => {
                counts.exports_failed.fetch_add(1, Relaxed);
                self.error_log.failing(&name, &reason);
                self.drop_request();
            }
        }
    }

    /// Drops the present request.
    fn drop_request(&mut self) {
        (self.sending, self.retry_at) = (None, None);
        if let Some(export) = self.export.take() {
            self.queue.counts().spans_failed.fetch_add(export.spans, Relaxed);
        }
    }

    /// Drops all spans, because the time limit is reached.
    fn drop_all_spans(&mut self) {
        self.drop_request();
        self.queue.drop_all();
        (self.last_chance, self.destination) = (None, None);
        self.report_drops();
    }

    fn handle_command(&mut self, command: Option<Command>) {
        let now = Instant::now();
        match command {
            Some(Command::Use(Some(destination))) => {
                self.last_chance = None;
                self.next_spans = now + destination.interval;
                self.next_metrics = now + destination.metrics_interval.unwrap_or(NEVER);
                self.destination = Some(Rc::from(destination));
                // What was refused by the collector before is sent to this one.
                if self.retry_at.is_some() {
                    self.retry_at = Some(now);
                }
            }
            Some(Command::Use(None)) => self.end_of_spans(),
            // Without its sender, the server has ended.
            Some(Command::Finish) | None => {
                self.is_ending = true;
                self.end_of_spans();
            }
        }
    }

    /// No more spans will be added: the queued ones are sent now.
    fn end_of_spans(&mut self) {
        let now = Instant::now();
        if self.destination.is_none() {
            return self.queue.drop_all();
        }
        self.last_chance = Some(now + LAST_CHANCE);
        if self.retry_at.is_some() {
            self.retry_at = Some(now);
        }
        if self.next_metrics < now + NEVER / 2 {
            self.next_metrics = now;
        }
    }

    /// Logs how many spans were dropped since the last message.
    fn report_drops(&mut self) {
        let dropped = self.queue.counts().spans_dropped.load(Relaxed);
        let more = dropped.saturating_sub(self.reported_drops);
        if more > 0 {
            self.reported_drops = dropped;
            self.error_log.warning(format_args!(
                "telemetry: {more} spans were dropped, because {} wait already or the collector is away; \
                 telemetry.queue and telemetry.sample can change that",
                self.queue.most(),
            ));
        }
    }
}

/// The outcome of the running request; pending if there is none.
async fn poll_sending(sending: &mut Option<Sending>) -> Outcome {
    match sending {
        Some(sending) => sending.await,
        None => std::future::pending().await,
    }
}
