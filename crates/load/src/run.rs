//! The execution of a plan: one thread for each processor is started, and the records of the threads are
//! merged into the outcome.

use crate::choice::WeightedChoice;
use crate::clock::now_ns;
use crate::engine::{Engine, Shared, ThreadOutcome};
use crate::outcome::{
    ArrivalsOutcome, EngineUse, HandshakeCounts, LATE, Outcome, RateLimit, Saturation, SaturationSign,
};
use crate::plan::{Plan, PlanError};
use crate::portion::Portion;
use crate::progress::Progress;
use crate::record::{Record, Times};
use crate::request::{PreparedRequest, prepare};
use crate::target::HttpVersion;
use crate::target::Target;
use crate::thread_share::{ThreadShare, clients_of_thread};
use crate::tls_setup::TlsBase;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use touchstone_session::Script;

/// A thread with a higher processor use is at its limit, which affects the figures.
const BUSY_THREAD: f64 = 0.9;
/// A thread that waits for its processor for a larger share of the time shares it with other programs.
const WAITING_THREAD: f64 = 0.1;
/// If a smaller share of the due arrivals was started, the rate was not reached.
const REACHED_RATE: f64 = 0.99;

/// Executes a plan. Blocks until the length is over and the active requests have ended; after
/// [`Progress::stop`], returns within 100 ms.
pub fn run(plan: &Plan, progress: &Progress) -> Result<Outcome, PlanError> {
    let ready = PreparedRun::new(plan, Portion::whole(plan))?;
    ready.run_at(now_ns() + ready.time_to_prepare_ns(), progress)
}

/// A checked plan, or a portion of one, with encoded requests. It can be started at a given time.
pub struct PreparedRun<'a> {
    plan: &'a Plan,
    portion: Portion,
    requests: Vec<PreparedRequest>,
    tls: Vec<Option<TlsBase>>,
    choice: WeightedChoice,
    script: Script,
    warnings: Vec<String>,
}

impl<'a> PreparedRun<'a> {
    /// Checks and prepares a plan. The plan's processors are those of this machine, one for each thread of
    /// the portion.
    pub fn new(plan: &'a Plan, portion: Portion) -> Result<PreparedRun<'a>, PlanError> {
        let warnings = plan.check_portion(&portion)?;
        let (requests, script) = prepare(plan)?;
        let (tls, choice) = (prepare_tls(plan)?, WeightedChoice::new(&plan.requests));
        Ok(PreparedRun { plan, portion, requests, tls, choice, script, warnings })
    }

    /// Warnings for the reader of the figures, one sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The time between the call of [`PreparedRun::run_at`] and the start of the run that the threads need to
    /// prepare their clients, so that all of them start together.
    pub fn time_to_prepare_ns(&self) -> u64 {
        10_000_000 + self.portion.client_count(self.plan) as u64 * 5_000
    }

    /// Executes the plan as [`run`] does. The run starts at this time of the monotonic clock.
    pub fn run_at(&self, start_ns: u64, progress: &Progress) -> Result<Outcome, PlanError> {
        let plan = self.plan;
        let shared = Shared {
            plan,
            requests: &self.requests,
            tls: &self.tls,
            choice: &self.choice,
            script: &self.script,
            times: Times::new(start_ns, plan.ramp_up, plan.length, plan.ramp_down),
            progress,
            stopped_ns: AtomicU64::new(0),
        };
        let threads = run_threads(&shared, &self.portion)?;
        Ok(outcome(&shared, threads, self.warnings.clone()))
    }
}

fn prepare_tls(plan: &Plan) -> Result<Vec<Option<TlsBase>>, PlanError> {
    let protocol = |version: HttpVersion| -> &[u8] {
        match version {
            HttpVersion::Http10 => b"http/1.0",
            HttpVersion::Http11 => b"http/1.1",
            HttpVersion::Http2 => b"h2",
            HttpVersion::Http3 => b"h3",
        }
    };
    let of_target = |target: &Target| {
        let protocol = protocol(plan.version_of(target));
        target.tls.as_ref().map(|tls| TlsBase::new(tls, protocol)).transpose()
    };
    plan.targets().map(of_target).collect::<Result<_, _>>().map_err(PlanError)
}

fn run_threads(shared: &Shared<'_>, portion: &Portion) -> Result<Vec<ThreadOutcome>, PlanError> {
    let plan = shared.plan;
    let engines = portion
        .threads
        .iter()
        .map(|&thread| Engine::new(shared, share(plan, thread, portion.of)))
        .collect::<Result<Vec<_>, _>>()?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = engines
            .into_iter()
            .enumerate()
            .map(|(thread, engine)| {
                let core = plan.cores.get(thread).copied();
                std::thread::Builder::new()
                    .name(format!("load-{thread}"))
                    .spawn_scoped(scope, move || engine.run(core))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                let thread = thread
                    .map_err(|error| PlanError(format!("an engine thread cannot be started: {error}")))?;
                thread.join().unwrap_or_else(|_| Err(PlanError("an engine thread panicked".to_string())))
            })
            .collect()
    })
}

/// The share of one thread: its clients, and its part of a limited number of requests.
fn share(plan: &Plan, thread: usize, threads: usize) -> ThreadShare {
    let share = |number: usize| {
        plan.request_limit.map(|limit| (u128::from(limit) * number as u128 / threads as u128) as u64)
    };
    let request_limit = match (share(thread), share(thread + 1)) {
        (Some(before), Some(after)) => after - before,
        _ => u64::MAX,
    };
    let clients = clients_of_thread(plan.clients, plan.streams, threads, thread);
    ThreadShare { clients, thread, threads, request_limit }
}

fn outcome(shared: &Shared<'_>, threads: Vec<ThreadOutcome>, warnings: Vec<String>) -> Outcome {
    let stopped_ns = shared.stopped_ns.load(Ordering::Relaxed);
    let mut times = if stopped_ns > 0 { shared.times.ended_at(stopped_ns) } else { shared.times };
    if shared
        .plan
        .request_limit
        .is_some_and(|limit| threads.iter().map(ThreadOutcome::ended).sum::<u64>() >= limit)
    {
        let last_ns = threads.iter().map(|thread| thread.record.last_ended_ns).max().unwrap_or_default();
        // The window includes the last ended request.
        times = times.ended_at(last_ns + 1);
    }
    let mut record = Record::new(shared.plan, times, 0);
    let mut engine = EngineUse::default();
    let (mut first_ns, mut last_ns) = (u64::MAX, 0);
    for thread in threads {
        (first_ns, last_ns) = (first_ns.min(thread.started_ns), last_ns.max(thread.started_ns));
        engine.user_s += thread.user_s;
        engine.system_s += thread.system_s;
        engine.busiest_thread = engine.busiest_thread.max(thread.busy);
        engine.longest_waiting_thread = engine.longest_waiting_thread.max(thread.waiting);
        record.merge(thread.record);
    }
    record.finish_intervals();
    let warnings = [warnings, server_warnings(shared.plan, &record)].concat();
    let window = times.window();
    let statuses = record.answers_by_status();
    let error_reasons = std::mem::take(&mut record.reasons).into_error_reasons(
        shared.plan,
        shared.script,
        times.start_ns,
        record.tls_error.as_deref(),
    );
    let lateness = |at_ns: u64| Duration::from_nanos(at_ns.saturating_sub(shared.times.start_ns));
    Outcome {
        window,
        saturation: saturation(shared.plan, &record, &engine),
        requests: record.requests,
        requests_by_class: record.classes.iter().map(|class| class.requests).collect(),
        classes: record.classes,
        statuses,
        errors: record.errors,
        error_reasons,
        bytes: record.bytes,
        body_bytes: record.body_bytes,
        started: record.started,
        connections: record.connections,
        service_ns: record.service_ns.unwrap_or_else(|| record.latency_ns.clone()),
        latency_ns: record.latency_ns,
        connect_ns: record.connect_ns,
        handshake_ns: record.handshake_ns,
        handshakes: record.handshakes,
        messages: record.messages,
        websockets: record.websockets.map(|websockets| *websockets),
        arrivals: record.arrivals,
        stages: record.stages,
        tls_error: record.tls_error,
        clients: record.clients,
        intervals: record.intervals,
        total_requests: record.total_requests,
        total_errors: record.total_errors.total(),
        total_errors_by_kind: record.total_errors,
        total_connections: record.total_connections,
        total_retries: record.total_retries,
        warnings,
        engine,
        first_start_lateness: lateness(first_ns),
        start_lateness: lateness(last_ns),
        interrupted: stopped_ns > 0,
    }
}

/// Warnings about a server that does not behave as the plan assumes.
fn server_warnings(plan: &Plan, record: &Record) -> Vec<String> {
    let mut signs = Vec::new();
    if record.stream_waits > 0 {
        signs.push(format!(
            "{} requests waited, because the server accepts fewer than {} requests at once on a connection: \
             use fewer --streams",
            record.stream_waits, plan.streams
        ));
    }
    let HandshakeCounts { full, resumed } = record.handshakes;
    let planned = plan.targets().filter_map(|target| target.tls.as_ref()).map(|tls| tls.resumption_share);
    // The first connections of the clients have no session to resume.
    let resumable =
        (full + resumed).saturating_sub((record.clients.len() * plan.targets().len()) as u64) as f64;
    let expected = planned.fold(1.0, f64::min) * resumable * 0.95 - 2.0;
    if (resumed as f64) < expected {
        signs.push(format!(
            "only {resumed} of {} TLS handshakes resumed a session, and at least {:.0} were expected: the \
             server refuses sessions, or issues none",
            full + resumed,
            expected
        ));
    }
    signs
}

/// The signs that rates are a lower bound.
fn saturation(plan: &Plan, record: &Record, engine: &EngineUse) -> Saturation {
    let mut signs = Vec::new();
    let mut add = |limit, text| signs.push(SaturationSign { limit, text });
    if engine.busiest_thread > BUSY_THREAD {
        let text = format!(
            "the busiest engine thread used {:.0} % of its processor: the server may be faster than this; \
             give the engine more processors",
            engine.busiest_thread * 100.0
        );
        add(RateLimit::Engine, text);
    }
    if engine.longest_waiting_thread > WAITING_THREAD {
        let text = format!(
            "an engine thread waited {:.0} % of the time while another program used its processor, and the \
             measured times include this wait: give the engine a processor of its own",
            engine.longest_waiting_thread * 100.0
        );
        add(RateLimit::Engine, text);
    }
    if let Some(arrivals) = &record.arrivals {
        add_lateness(plan, record, arrivals, add);
    }
    Saturation(signs)
}

fn add_lateness(
    plan: &Plan,
    record: &Record,
    arrivals: &ArrivalsOutcome,
    mut add: impl FnMut(RateLimit, String),
) {
    let own_late_ns = arrivals.engine_lateness_ns.value_at_quantile(0.99);
    if own_late_ns > LATE.as_nanos() as u64 {
        let text = format!(
            "the engine itself started one request in a hundred more than {:.1} ms after its due time, \
             although a client was free",
            own_late_ns as f64 / 1e6
        );
        add(RateLimit::Engine, text);
    }
    if record.errors.total() == 0 && (arrivals.started as f64) < arrivals.due as f64 * REACHED_RATE {
        let text = format!(
            "only {} of the {} due requests were started, because all clients were waiting for answers: \
             the server cannot serve the rate with {} clients (try more clients)",
            arrivals.started, arrivals.due, plan.clients
        );
        add(RateLimit::Server, text);
    }
}
