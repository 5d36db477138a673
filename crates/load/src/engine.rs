//! One engine thread: its virtual clients and the loop that serves their sockets.
//!
//! Sockets are registered once a connection, edge-triggered, so that a request on a kept connection costs one
//! send and one receive, and its share of one wait. Edge-triggered means: an event reports that bytes arrived
//! since the last one. After a complete answer only the next answer or the end of the connection can follow,
//! and each produces an event; a short receive has emptied the socket, and later bytes produce an event too;
//! only a receive that filled the buffer must be repeated.
//!
//! The steps of a request are in [`crate::request_cycle`], the steps of a connection in [`crate::http1`] and,
//! with TLS or HTTP/2, in [`crate::layered`].

use crate::arrivals::{ArrivalQueue, ArrivalTimes, Due};
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

/// Events taken from the kernel in one call.
const EVENTS_AT_ONCE: usize = 256;
/// Clients whose time has come are started in parts of this size, with a check of the sockets in between, so
/// that a start of very many clients does not hold up the answers to the first.
const STARTS_AT_ONCE: usize = 64;
const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// What marks the timer's events; sockets are marked by [`Connection::mark`].
const TIMER: u64 = u64::MAX;
/// After a stop, answers that are under way are awaited for this long.
const STOP_GRACE_NS: u64 = 50_000_000;

/// What all threads of a run share.
pub(crate) struct Shared<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) requests: &'a [PreparedRequest],
    /// Of each target that has it.
    pub(crate) tls: &'a [Option<TlsBase>],
    pub(crate) choice: &'a WeightedChoice,
    /// What sessions do with values.
    pub(crate) script: &'a Script,
    pub(crate) times: Times,
    pub(crate) progress: &'a Progress,
    /// When the caller's stop was first seen, on the monotonic clock; 0 while it was not.
    pub(crate) stopped_ns: AtomicU64,
}

/// What one thread brings back.
pub(crate) struct ThreadOutcome {
    pub(crate) record: Record,
    pub(crate) user_s: f64,
    pub(crate) system_s: f64,
    pub(crate) busy: f64,
    pub(crate) waiting: f64,
    /// When the thread began, on the monotonic clock; 0 where it never did.
    pub(crate) started_ns: u64,
}

impl ThreadOutcome {
    /// Requests that ended, well or not.
    pub(crate) fn ended(&self) -> u64 {
        self.record.total_requests + self.record.total_errors.total()
    }
}

/// What the shared counters already know of this thread.
#[derive(Default)]
pub(crate) struct Published {
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
    /// Ends a wait in time: it produces an event when the housekeeping or a client is due.
    timer: OwnedFd,
    /// What the timer is set to; the end of time when it is not set.
    timer_ns: u64,
    pub(crate) clients: Vec<Client>,
    /// Of each client, or group of clients, one to each target.
    pub(crate) connections: Vec<Connection>,
    pub(crate) targets: Vec<EngineTarget>,
    /// How many clients share a connection.
    pub(crate) streams: usize,
    /// Requests that may still be started.
    pub(crate) left_to_start: u64,
    /// The last head that answered each request of the plan.
    pub(crate) heads: Vec<ResponseHead>,
    /// What the step of each request of the plan remembers.
    pub(crate) step_caches: Vec<StepCache>,
    /// The buffer of every receive, and the buffer of the decrypted bytes.
    pub(crate) buffer: Vec<u8>,
    pub(crate) plaintext: Vec<u8>,
    pub(crate) stream_events: Vec<StreamEvent>,
    pub(crate) websocket_output: WebSocketOutput,
    pub(crate) timers: Timers,
    /// Moments that connections of QUIC, and WebSockets, wait for.
    pub(crate) connection_timers: Timers,
    /// Connections that have more to receive without a new event: a long body is received in parts, in turns
    /// with others.
    pub(crate) unfinished: VecDeque<usize>,
    /// Connections that are begun and whose first request is to be sent.
    pub(crate) unsent: Vec<usize>,
    /// Connections with layers that may have something to send.
    pub(crate) dirty: Vec<usize>,
    /// Requests under way.
    pub(crate) under_way: usize,
    pub(crate) record: Record,
    /// The latest reading of the clock.
    pub(crate) now_ns: u64,
    pub(crate) stop_ns: u64,
    pub(crate) housekeeping_ns: u64,
    pub(crate) sweep_ns: u64,
    /// When this thread began, on the monotonic clock; 0 before.
    started_ns: u64,
    pub(crate) published: Published,
    /// Its place among the threads.
    pub(crate) thread: usize,
    /// When it hands its latest latencies over.
    pub(crate) hand_over_ns: u64,
    pub(crate) window_start: Option<ThreadTime>,
    pub(crate) window_end: Option<ThreadTime>,
}

/// What makes a client start its next request.
pub(crate) enum LoadModel {
    /// The end of its last request; with stages, only while the stage has a place for the client.
    Closed(Option<StageCurve>),
    /// An arrival.
    Open(Box<ArrivalQueue>),
}

impl<'a> Engine<'a> {
    /// Prepares everything, so that no large allocation happens during the run.
    pub(crate) fn new(shared: &'a Shared<'a>, share: ThreadShare) -> Result<Engine<'a>, PlanError> {
        let plan = shared.plan;
        let (epoll, timer) = new_epoll_with_timer()
            .map_err(|error| PlanError(format!("an engine thread cannot be made ready: {error}")))?;
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
            unsent: Vec::with_capacity(connections.len()),
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
            // Before the start, too: the caller may stop a run that has not begun.
            housekeeping_ns: 0,
            sweep_ns: 0,
            started_ns: 0,
            published: Published::default(),
            thread: share.thread,
            hand_over_ns: 0,
            window_start: None,
            window_end: None,
        };
        engine.set_first_starts();
        Ok(engine)
    }

    /// Serves the clients until the run is over.
    pub(crate) fn run(mut self, core: Option<usize>) -> Result<ThreadOutcome, PlanError> {
        if let Some(core) = core {
            pin_to(core)?;
        }
        // Without this the kernel may be 50 us late with every wait. Where it is forbidden, waits are just
        // later.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        if let Some(started_ns) = wait_for_start(self.shared.times.start_ns, &self.shared.progress.stop) {
            (self.started_ns, self.now_ns) = (started_ns, started_ns);
        }
        let mut space = [MaybeUninit::<Event>::uninit(); EVENTS_AT_ONCE];
        while self.goes_on() {
            let timeout = if self.prepare_wait()? { None } else { Some(&NO_WAIT) };
            match epoll::wait(&self.epoll, &mut space, timeout) {
                Ok((events, _)) => events.iter().for_each(|event| self.on_event(event)),
                Err(Errno::INTR) => {}
                Err(error) => return Err(PlanError(format!("waiting for sockets failed: {error}"))),
            }
            self.receive_unfinished();
            self.now_ns = now_ns();
            self.on_connection_time();
            self.start_due();
            self.send_all_first();
            self.flush_dirty();
            if self.now_ns >= self.housekeeping_ns {
                self.do_housekeeping();
            }
        }
        Ok(self.finish())
    }

    /// Every client's first moment in a closed loop: where its stage begins, after a random part of the
    /// delay.
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

    fn goes_on(&self) -> bool {
        let is_before_end = self.now_ns < self.stop_ns || self.next_arrival_ns() < self.stop_ns;
        if is_before_end && (self.left_to_start > 0 || self.under_way > 0) {
            return true;
        }
        let stopped_ns = self.shared.stopped_ns.load(Ordering::Relaxed);
        self.under_way > 0 && (stopped_ns == 0 || self.now_ns < stopped_ns + STOP_GRACE_NS)
    }

    /// When the next arrival of an open load is due; the end of time where there is none.
    fn next_arrival_ns(&self) -> u64 {
        match &self.load_model {
            LoadModel::Open(arrivals) => arrivals.next_ns(),
            LoadModel::Closed(_) => u64::MAX,
        }
    }

    /// When the next request is to start. After the end that is only what was due before it: a thread that
    /// was late itself leaves none of that out.
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

    /// Whether to wait for an event at all; if so, the timer is set to end the wait in time.
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
        let mark = event.data.u64();
        if mark == TIMER {
            self.timer_ns = u64::MAX;
            return;
        }
        let index = mark as u32 as usize;
        let connection = &mut self.connections[index];
        if connection.mark(index) != mark {
            return;
        }
        connection.hung_up |= flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        if connection.layers.is_some() {
            self.on_layered_event(index, flags);
        } else {
            self.on_plain_event(index, flags);
        }
    }

    /// Continues with the bodies that were left in the last turn.
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

    /// Starts the due requests, beginning with the clients' own times.
    fn start_due(&mut self) {
        for _ in 0..STARTS_AT_ONCE {
            if self.next_start_ns() > self.now_ns {
                return;
            }
            let own = if self.now_ns < self.stop_ns { self.timers.take_due(self.now_ns) } else { None };
            if let Some((due_ns, index)) = own {
                self.on_timer(index, due_ns);
            } else if let LoadModel::Open(arrivals) = &mut self.load_model
                && let Due::Start { client, arrival } = arrivals.take_due(self.now_ns)
            {
                self.begin_session(client, arrival, false);
            }
            self.now_ns = now_ns();
        }
    }

    /// Setting the timer again also clears its event, so that it need not be read.
    fn set_timer(&mut self, at_ns: u64) -> Result<(), PlanError> {
        // 0 would not be a moment long ago but a timer that is off.
        let once = Itimerspec { it_interval: NO_WAIT, it_value: timespec(at_ns.max(1)) };
        self.timer_ns = at_ns;
        match timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once) {
            Ok(_) => Ok(()),
            Err(error) => Err(PlanError(format!("the timer of an engine thread cannot be set: {error}"))),
        }
    }

    fn finish(mut self) -> ThreadOutcome {
        self.note_window_edges();
        self.publish_progress();
        self.connections.iter_mut().for_each(Connection::close);
        if let LoadModel::Open(arrivals) = self.load_model {
            for arrival in arrivals.left_over(self.stop_ns) {
                self.record.unsent(arrival.at_ns);
            }
        }
        // A run that is over before its window counts to here.
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
