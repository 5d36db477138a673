//! One engine thread: its virtual clients and the event loop for their sockets.
//!
//! Each socket is registered once, edge-triggered, so that a request on a kept connection costs one send, one
//! receive, and its share of one wait. An edge-triggered event reports that bytes arrived since the last
//! event. After a complete answer only the next answer or the end of the connection can follow, and each
//! produces an event. A receive that does not fill the buffer has emptied the socket, and later bytes produce
//! an event. Only a receive that fills the buffer must be repeated.
//!
//! The steps of a request are in [`crate::request_cycle`], the steps of a connection in [`crate::http1`] and,
//! with TLS or HTTP/2, in [`crate::layered`].

use crate::arrivals::{ArrivalQueue, ArrivalStep, ArrivalTimes};
use crate::choice::WeightedChoice;
use crate::client::{Client, ClientState, Connection};
use crate::clock::{ThreadTime, now_ns, timespec};
use crate::h2::StreamEvent;
use crate::plan::{Plan, PlanError};
use crate::progress::Progress;
use crate::record::{Record, Times, nanoseconds};
use crate::request::PreparedRequest;
use crate::stages::StageCurve;
use crate::start_time::wait_for_start;
use crate::thread_share::{EngineTarget, ThreadShare, connections};
use crate::timers::Timers;
use crate::tls_setup::TlsBase;
use crate::websocket::WebSocketOutput;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};
use touchstone_http::response::ResponseHead;
use touchstone_session::{Script, StepCache};

/// The most events that one wait returns.
const EVENTS_AT_ONCE: usize = 256;
/// Due requests are started in batches of this size, with a check of the sockets in between, so that the
/// start of many clients does not delay the processing of the first answers.
const STARTS_AT_ONCE: usize = 64;
const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// The token of the timer's events; the tokens of sockets are those of [`Connection::event_token`].
const TIMER: u64 = u64::MAX;
/// The time that active requests may take after a stop.
const STOP_GRACE_NS: u64 = 50_000_000;

/// The state that all threads of a run share.
pub(crate) struct Shared<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) requests: &'a [PreparedRequest],
    /// The TLS configuration of each target with TLS.
    pub(crate) tls: &'a [Option<TlsBase>],
    pub(crate) choice: &'a WeightedChoice,
    /// The script of the sessions.
    pub(crate) script: &'a Script,
    pub(crate) times: Times,
    pub(crate) progress: &'a Progress,
    /// The time at which a thread first observed the caller's stop, on the monotonic clock; 0 before.
    pub(crate) stopped_ns: AtomicU64,
}

/// The result of one thread.
pub(crate) struct ThreadOutcome {
    pub(crate) record: Record,
    pub(crate) user_s: f64,
    pub(crate) system_s: f64,
    pub(crate) busy: f64,
    pub(crate) waiting: f64,
    /// The thread's start on the monotonic clock; 0 if it did not start.
    pub(crate) started_ns: u64,
}

impl ThreadOutcome {
    /// The number of ended requests, valid or failed.
    pub(crate) fn ended(&self) -> u64 {
        self.record.total_requests + self.record.total_errors.total()
    }
}

/// The part of this thread's counts that is already in the shared counters.
#[derive(Default)]
pub(crate) struct PublishedCounts {
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) bytes: u64,
}

/// One engine thread.
pub(crate) struct Engine<'a> {
    pub(crate) shared: &'a Shared<'a>,
    pub(crate) think_ns: u64,
    pub(crate) load_model: LoadModel,
    pub(crate) epoll: OwnedFd,
    /// The timer that ends a wait: it produces an event when the housekeeping or a client is due.
    timer: OwnedFd,
    /// The expiry of the timer; `u64::MAX` if it is not set.
    timer_ns: u64,
    pub(crate) clients: Vec<Client>,
    /// For each client, or group of clients, one connection to each target.
    pub(crate) connections: Vec<Connection>,
    pub(crate) targets: Vec<EngineTarget>,
    /// The number of clients that share a connection.
    pub(crate) streams: usize,
    /// The number of requests that may still be started.
    pub(crate) left_to_start: u64,
    /// The last head of an answer to each request of the plan.
    pub(crate) heads: Vec<ResponseHead>,
    /// The cache of the step of each request of the plan.
    pub(crate) step_caches: Vec<StepCache>,
    /// The buffer for received bytes, and the buffer for decrypted bytes.
    pub(crate) buffer: Vec<u8>,
    pub(crate) plaintext: Vec<u8>,
    pub(crate) stream_events: Vec<StreamEvent>,
    pub(crate) websocket_output: WebSocketOutput,
    pub(crate) timers: Timers,
    /// The timers of QUIC connections and of WebSockets.
    pub(crate) connection_timers: Timers,
    /// Connections with more bytes to receive and without a new event: a long body is received in parts, in
    /// turns with other connections.
    pub(crate) unfinished: VecDeque<usize>,
    /// New connections whose first request has not been sent yet.
    pub(crate) first_sends: Vec<usize>,
    /// Connections with layers that may have output.
    pub(crate) dirty: Vec<usize>,
    /// The number of active requests.
    pub(crate) under_way: usize,
    pub(crate) record: Record,
    /// The latest reading of the clock.
    pub(crate) now_ns: u64,
    pub(crate) stop_ns: u64,
    pub(crate) housekeeping_ns: u64,
    pub(crate) sweep_ns: u64,
    /// The start of this thread on the monotonic clock; 0 before.
    started_ns: u64,
    pub(crate) published: PublishedCounts,
    /// The index of the thread.
    pub(crate) thread: usize,
    /// The time of the next publication of its latencies.
    pub(crate) next_publish_ns: u64,
    pub(crate) window_start: Option<ThreadTime>,
    pub(crate) window_end: Option<ThreadTime>,
}

/// The condition for a client's next request.
pub(crate) enum LoadModel {
    /// Closed loop: the client starts it after its last request. With stages, only while the stage includes
    /// the client.
    Closed(Option<StageCurve>),
    /// Open load: the client starts it when it is assigned to an arrival.
    Open(Box<ArrivalQueue>),
}

impl<'a> Engine<'a> {
    /// Prepares the thread and allocates its memory, so that no large allocation is needed during the run.
    pub(crate) fn new(shared: &'a Shared<'a>, share: ThreadShare) -> Result<Engine<'a>, PlanError> {
        let plan = shared.plan;
        let (epoll, timer) = new_epoll_with_timer()
            .map_err(|error| PlanError(format!("an engine thread cannot be prepared: {error}")))?;
        let targets: Vec<EngineTarget> = plan
            .targets()
            .zip(shared.tls)
            .enumerate()
            .map(|(number, (target, tls))| EngineTarget {
                has_websockets: plan.has_websockets_of(number),
                is_pipelined: plan.is_pipelined_to(target),
                ..EngineTarget::new(target, plan.version_of(target), tls.as_ref())
            })
            .collect();
        let count = share.clients.len();
        let load_model = match ArrivalTimes::of_plan(plan, share.thread, share.threads) {
            Some(times) => LoadModel::Open(Box::new(ArrivalQueue::new(times, shared.times.start_ns, count))),
            None => LoadModel::Closed(plan.client_stages().map(StageCurve::new)),
        };
        let connections = connections(count, plan.streams, &targets);
        let mut engine = Engine {
            shared,
            think_ns: nanoseconds(plan.think_time),
            load_model,
            epoll,
            timer,
            timer_ns: u64::MAX,
            heads: plan.requests.iter().map(|_| ResponseHead::new()).collect(),
            step_caches: plan.requests.iter().map(|_| StepCache::default()).collect(),
            buffer: vec![0; plan.receive_buffer_bytes],
            plaintext: Vec::new(),
            stream_events: Vec::new(),
            websocket_output: WebSocketOutput::default(),
            timers: Timers::with_capacity(count),
            connection_timers: Timers::with_capacity(0),
            unfinished: VecDeque::with_capacity(connections.len()),
            first_sends: Vec::with_capacity(connections.len()),
            dirty: Vec::with_capacity(connections.len()),
            connections,
            targets,
            streams: plan.streams,
            left_to_start: share.request_limit,
            under_way: 0,
            record: Record::new(plan, shared.times, count),
            clients: share.clients.map(|number| new_client(shared, number)).collect(),
            now_ns: now_ns(),
            stop_ns: shared.times.stop_ns,
            // The first check is before the start, because the caller may stop a run that has not started.
            housekeeping_ns: 0,
            sweep_ns: 0,
            started_ns: 0,
            published: PublishedCounts::default(),
            thread: share.thread,
            next_publish_ns: 0,
            window_start: None,
            window_end: None,
        };
        engine.set_first_starts();
        Ok(engine)
    }

    /// Runs the event loop until the run is over.
    pub(crate) fn run(mut self, core: Option<usize>) -> Result<ThreadOutcome, PlanError> {
        if let Some(core) = core {
            pin_to(core)?;
        }
        // The default timer slack of the kernel delays each wait by up to 50 us. If the call is not allowed,
        // the waits end later.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        if let Some(started_ns) = wait_for_start(self.shared.times.start_ns, &self.shared.progress.stop) {
            (self.started_ns, self.now_ns) = (started_ns, started_ns);
        }
        let mut space = [MaybeUninit::<Event>::uninit(); EVENTS_AT_ONCE];
        while self.is_running() {
            let timeout = if self.prepare_wait()? { None } else { Some(&NO_WAIT) };
            match epoll::wait(&self.epoll, &mut space, timeout) {
                Ok((events, _)) => events.iter().for_each(|event| self.on_event(event)),
                Err(Errno::INTR) => {}
                Err(error) => return Err(PlanError(format!("waiting for sockets failed: {error}"))),
            }
            self.receive_unfinished();
            self.now_ns = now_ns();
            self.on_connection_timer();
            self.start_due();
            self.send_first_requests();
            self.flush_dirty();
            if self.now_ns >= self.housekeeping_ns {
                self.do_housekeeping();
            }
        }
        Ok(self.finish())
    }

    /// Sets the first start of every client in a closed loop: the beginning of its stage plus a random part
    /// of the delay.
    fn set_first_starts(&mut self) {
        let LoadModel::Closed(curve) = &self.load_model else { return };
        let start_ns = self.shared.times.start_ns;
        let delay_ns = nanoseconds(self.shared.plan.delay);
        for (index, client) in self.clients.iter_mut().enumerate() {
            let stage_s = match curve {
                Some(curve) => curve.next_above(client.number as f64, 0.0),
                None => Some(0.0),
            };
            let wait_ns = if delay_ns > 0 { client.random.at_most(delay_ns) } else { 0 };
            if let Some(stage_s) = stage_s {
                self.timers
                    .set(start_ns.saturating_add((stage_s * 1e9) as u64).saturating_add(wait_ns), index);
            }
        }
    }

    fn is_running(&self) -> bool {
        let is_before_end = self.now_ns < self.stop_ns || self.next_arrival_ns() < self.stop_ns;
        if is_before_end && (self.left_to_start > 0 || self.under_way > 0) {
            return true;
        }
        let stopped_ns = self.shared.stopped_ns.load(Ordering::Relaxed);
        self.under_way > 0 && (stopped_ns == 0 || self.now_ns < stopped_ns + STOP_GRACE_NS)
    }

    /// The due time of the next arrival of an open load; `u64::MAX` if there is none.
    fn next_arrival_ns(&self) -> u64 {
        match &self.load_model {
            LoadModel::Open(arrivals) => arrivals.next_ns(),
            LoadModel::Closed(_) => u64::MAX,
        }
    }

    /// The time of the next start of a request. After the end of the run, only arrivals that were due before
    /// the end are started, so that a late thread omits none of them.
    fn next_start_ns(&self) -> u64 {
        let arrival_ns = self.next_arrival_ns();
        if self.left_to_start == 0 {
            u64::MAX
        } else if self.now_ns < self.stop_ns {
            arrival_ns.min(self.timers.next_ns().unwrap_or(u64::MAX))
        } else if arrival_ns < self.stop_ns {
            arrival_ns
        } else {
            u64::MAX
        }
    }

    /// Returns whether the thread may wait for an event; if so, sets the timer that ends the wait.
    fn prepare_wait(&mut self) -> Result<bool, PlanError> {
        let next_ns = self.next_start_ns().min(self.connection_timers.next_ns().unwrap_or(u64::MAX));
        if !self.unfinished.is_empty() || next_ns <= self.now_ns {
            return Ok(false);
        }
        let until_ns = self.housekeeping_ns.min(next_ns);
        if until_ns < self.timer_ns {
            self.set_timer(until_ns)?;
        }
        Ok(true)
    }

    fn on_event(&mut self, event: &Event) {
        let flags = event.flags;
        let event_token = event.data.u64();
        if event_token == TIMER {
            self.timer_ns = u64::MAX;
            return;
        }
        let index = event_token as u32 as usize;
        let connection = &mut self.connections[index];
        if connection.event_token(index) != event_token {
            return;
        }
        connection.peer_closed |= flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        if connection.layers.is_some() {
            self.on_layered_event(index, flags);
        } else {
            self.on_plain_event(index, flags);
        }
    }

    /// Continues to receive the bodies that were incomplete after the last turn.
    fn receive_unfinished(&mut self) {
        for _ in 0..self.unfinished.len() {
            let Some(index) = self.unfinished.pop_front() else { return };
            self.connections[index].unfinished = false;
            if self.connections[index].layers.is_some() {
                self.receive_layered(index);
            } else {
                let client = self.connections[index].first_client;
                let client = &self.clients[client];
                if client.state == ClientState::Receiving && client.connection == index {
                    self.receive(index);
                }
            }
        }
    }

    /// Starts the due requests: first those of the clients' timers, then arrivals.
    fn start_due(&mut self) {
        for _ in 0..STARTS_AT_ONCE {
            if self.next_start_ns() > self.now_ns {
                return;
            }
            let own = if self.now_ns < self.stop_ns { self.timers.take_due(self.now_ns) } else { None };
            if let Some((due_ns, index)) = own {
                self.on_timer(index, due_ns);
            } else if let LoadModel::Open(arrivals) = &mut self.load_model
                && let ArrivalStep::Start { client, arrival } = arrivals.take_due(self.now_ns)
            {
                self.begin_session(client, arrival, false);
            }
            self.now_ns = now_ns();
        }
    }

    /// Sets the timer. This also clears its event, so that the timer need not be read.
    fn set_timer(&mut self, at_ns: u64) -> Result<(), PlanError> {
        // The value 0 would disarm the timer.
        let once = Itimerspec { it_interval: NO_WAIT, it_value: timespec(at_ns.max(1)) };
        self.timer_ns = at_ns;
        match timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once) {
            Ok(_) => Ok(()),
            Err(error) => Err(PlanError(format!("the timer of an engine thread cannot be set: {error}"))),
        }
    }

    fn finish(mut self) -> ThreadOutcome {
        self.record_window_edges();
        self.publish_progress();
        self.connections.iter_mut().for_each(Connection::close);
        if let LoadModel::Open(arrivals) = self.load_model {
            for arrival in arrivals.into_unstarted(self.stop_ns) {
                self.record.unsent(arrival.at_ns);
            }
        }
        // If the run ended before the end of its window, the window ends here.
        let end = self.window_end.unwrap_or_else(ThreadTime::read);
        let start = self.window_start.unwrap_or(end);
        let (user_s, system_s) = end.user_and_system_s_since(&start);
        let (busy, waiting) = (end.share_since(&start), end.waiting_share_since(&start));
        ThreadOutcome { record: self.record, user_s, system_s, busy, waiting, started_ns: self.started_ns }
    }
}

fn new_client(shared: &Shared<'_>, number: usize) -> Client {
    let mut client = Client::new(number, shared.plan.seed);
    if shared.requests.iter().any(|request| request.varying.is_some() || request.step.is_some()) {
        client.script = Some(Box::new(shared.script.new_state()));
    }
    client
}

fn new_epoll_with_timer() -> Result<(OwnedFd, OwnedFd), Errno> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
    let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
    epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN | EventFlags::ET)?;
    Ok((epoll, timer))
}

fn pin_to(core: usize) -> Result<(), PlanError> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set)
        .map_err(|error| PlanError(format!("an engine thread cannot be pinned to processor {core}: {error}")))
}
