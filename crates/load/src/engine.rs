//! One engine thread: its virtual clients and the loop that serves their sockets.
//!
//! Sockets are registered once a connection, edge-triggered, so that a request on a kept connection costs one send and
//! one receive, and its share of one wait. Edge-triggered means: an event says that something came since the last
//! one. After a whole answer nothing can come but the next answer or the connection's end, and either brings an event
//! of its own; a short receive has emptied the socket, and what comes later brings an event too; only a receive that
//! filled the buffer must be repeated.
//!
//! What happens within one exchange (connect, send, receive, end) is in [`crate::exchange`].

use crate::answer::AnswerReader;
use crate::choice::{Choice, Random};
use crate::clock::{ThreadTime, now_ns};
use crate::outcome::ErrorKind;
use crate::plan::{ConnectionUse, Plan, PlanError, Progress};
use crate::record::{Record, Times, nanoseconds};
use crate::request::PreparedRequest;
use crate::schedule::RateSchedule;
use crate::timers::Timers;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use touchstone_http::response::ResponseHead;

/// Events taken from the kernel in one call.
const EVENTS_AT_ONCE: usize = 256;
/// Clients whose moment has come are started in parts of this size, with a look at the sockets between, so that a
/// start of very many clients does not hold up the answers to the first.
const STARTS_AT_ONCE: usize = 64;
/// How often a thread looks at what is not tied to a socket: progress, the caller's stop, time limits. A timer of the
/// thread brings an event then. Waits for sockets have no time limit of their own: it would be in milliseconds, and
/// the kernel would have to set and clear a timer for each wait.
const HOUSEKEEPING_NS: u64 = 10_000_000;
const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// What marks the timer's events; sockets are marked with the number of their client.
const TIMER: u64 = u64::MAX;
/// After a stop, answers that are under way are awaited for this long.
const STOP_GRACE_NS: u64 = 50_000_000;

/// What all threads of a run share.
pub(crate) struct Shared<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) requests: &'a [PreparedRequest],
    pub(crate) choice: &'a Choice,
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
}

/// What a client is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientState {
    /// No request is under way; its socket, if it has one, is a kept connection.
    Resting,
    /// The connection is being made; nothing of the request could be sent yet.
    Connecting,
    /// A part of the request is sent.
    Sending,
    /// The request is sent; the answer is awaited.
    Receiving,
}

/// One virtual client.
pub(crate) struct Client {
    /// Its number in the whole run.
    pub(crate) number: usize,
    pub(crate) socket: Option<OwnedFd>,
    pub(crate) state: ClientState,
    pub(crate) random: Random,
    /// The request that is under way, an index into [`Shared::requests`].
    pub(crate) request: usize,
    /// How many of its bytes are sent.
    pub(crate) sent: usize,
    /// The connection has carried an answer before.
    pub(crate) reused: bool,
    /// The request was already sent once, on a kept connection that the server had closed.
    pub(crate) retried: bool,
    /// Where the latency begins: under a rate the intended start.
    pub(crate) started_ns: u64,
    /// The real start of the request.
    pub(crate) service_started_ns: u64,
    pub(crate) connect_started_ns: u64,
    pub(crate) connect_returned_ns: u64,
    /// Requests that it has started, its turns of the schedule.
    pub(crate) turns: u64,
    /// An event has told that the server ended the connection: what is left to receive must be looked for, as no
    /// other event will come.
    pub(crate) hung_up: bool,
    /// It stands in [`Engine::unfinished`].
    pub(crate) unfinished: bool,
    pub(crate) answer: AnswerReader,
}

impl Client {
    fn new(number: usize, seed: u64) -> Client {
        Client {
            number,
            socket: None,
            state: ClientState::Resting,
            random: Random::of_client(seed, number),
            request: 0,
            sent: 0,
            reused: false,
            retried: false,
            started_ns: 0,
            service_started_ns: 0,
            connect_started_ns: 0,
            connect_returned_ns: 0,
            turns: 0,
            hung_up: false,
            unfinished: false,
            answer: AnswerReader::new(),
        }
    }
}

/// One engine thread.
pub(crate) struct Engine<'a> {
    pub(crate) shared: &'a Shared<'a>,
    pub(crate) address: SocketAddr,
    pub(crate) connections: ConnectionUse,
    pub(crate) think_ns: u64,
    pub(crate) schedule: Option<RateSchedule>,
    pub(crate) epoll: OwnedFd,
    /// Ends a wait in time: it brings an event when it is time to keep house, or a client's moment has come.
    timer: OwnedFd,
    /// What the timer is set to; the end of time when it is not set.
    timer_ns: u64,
    pub(crate) clients: Vec<Client>,
    /// The last head that answered each request of the plan.
    pub(crate) heads: Vec<ResponseHead>,
    /// What every receive goes into.
    pub(crate) buffer: Vec<u8>,
    pub(crate) timers: Timers,
    /// Clients that have more to receive without a new event: a long body is received in parts, in turns with others.
    pub(crate) unfinished: VecDeque<usize>,
    /// Clients whose connection is begun and whose first request is to be sent.
    pub(crate) unsent: Vec<usize>,
    pub(crate) is_loopback: bool,
    /// Requests under way.
    pub(crate) under_way: usize,
    pub(crate) record: Record,
    /// The latest reading of the clock.
    pub(crate) now_ns: u64,
    pub(crate) stop_ns: u64,
    housekeeping_ns: u64,
    sweep_ns: u64,
    published: Published,
    window_start: Option<ThreadTime>,
    window_end: Option<ThreadTime>,
}

/// What the shared counters already know of this thread.
#[derive(Default)]
struct Published {
    requests: u64,
    errors: u64,
    bytes: u64,
}

impl<'a> Engine<'a> {
    /// Makes everything ready, so that nothing large is allocated once the run has started.
    pub(crate) fn new(shared: &'a Shared<'a>, clients: Range<usize>) -> Result<Engine<'a>, PlanError> {
        let plan = shared.plan;
        let (epoll, timer) = new_epoll_with_timer()
            .map_err(|error| PlanError(format!("an engine thread cannot be made ready: {error}")))?;
        let classes = plan.requests.iter().map(|request| request.class + 1).max().unwrap_or(1);
        let mut engine = Engine {
            shared,
            address: plan.target.address,
            connections: plan.connections,
            think_ns: nanoseconds(plan.think_time),
            schedule: plan.rate.map(|rate| RateSchedule::new(rate, plan.clients)),
            epoll,
            timer,
            timer_ns: u64::MAX,
            heads: plan.requests.iter().map(|_| ResponseHead::new()).collect(),
            buffer: vec![0; plan.receive_buffer_bytes],
            timers: Timers::with_capacity(clients.len()),
            unfinished: VecDeque::with_capacity(clients.len()),
            unsent: Vec::with_capacity(clients.len()),
            is_loopback: plan.target.address.ip().is_loopback(),
            under_way: 0,
            record: Record::new(shared.times, clients.len(), classes, plan.rate.is_some()),
            clients: clients.map(|number| Client::new(number, plan.seed)).collect(),
            now_ns: now_ns(),
            stop_ns: shared.times.stop_ns,
            housekeeping_ns: shared.times.start_ns,
            sweep_ns: 0,
            published: Published::default(),
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
        // Without this the kernel may be 50 us late with every wait. Where it is forbidden, waits are just later.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
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
            self.start_due();
            self.send_all_first();
            if self.now_ns >= self.housekeeping_ns {
                self.keep_house();
            }
        }
        Ok(self.finish())
    }

    /// Every client's first moment: its turn of the schedule, or a random part of the delay.
    fn set_first_starts(&mut self) {
        let start_ns = self.shared.times.start_ns;
        let delay_ns = nanoseconds(self.shared.plan.delay);
        for index in 0..self.clients.len() {
            let client = &mut self.clients[index];
            let wait_ns = match &self.schedule {
                Some(schedule) => schedule.due_ns(client.number, 0),
                None if delay_ns > 0 => client.random.at_most(delay_ns),
                None => 0,
            };
            self.timers.set(start_ns.saturating_add(wait_ns), index);
        }
    }

    fn goes_on(&self) -> bool {
        if self.now_ns < self.stop_ns {
            return true;
        }
        let stopped_ns = self.shared.stopped_ns.load(Ordering::Relaxed);
        self.under_way > 0 && (stopped_ns == 0 || self.now_ns < stopped_ns + STOP_GRACE_NS)
    }

    /// Whether to wait for an event at all; if so, the timer is set to end the wait in time.
    fn prepare_wait(&mut self) -> Result<bool, PlanError> {
        let next_start_ns = self.timers.next_ns().filter(|_| self.now_ns < self.stop_ns).unwrap_or(u64::MAX);
        if !self.unfinished.is_empty() || next_start_ns <= self.now_ns {
            return Ok(false);
        }
        let until_ns = self.housekeeping_ns.min(next_start_ns);
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
        let index = mark as usize;
        let client = &mut self.clients[index];
        client.hung_up |= flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        match client.state {
            // Nothing was asked, so the server has closed the connection, or said why it is about to (RFC 9110,
            // section 15.5.9). Neither is an error; the next request makes a new connection.
            ClientState::Resting => {
                if client.hung_up || flags.contains(EventFlags::IN) {
                    client.socket = None;
                }
            }
            ClientState::Connecting | ClientState::Sending => {
                self.send(index);
                // An answer can come before the whole request is sent.
                if self.clients[index].state == ClientState::Sending && flags.contains(EventFlags::IN) {
                    self.receive(index);
                }
            }
            // A client that waits for its turn to go on receiving has it soon anyway.
            ClientState::Receiving if client.unfinished => {}
            ClientState::Receiving => self.receive(index),
        }
    }

    /// Goes on with the bodies that were left in the last turn.
    fn receive_unfinished(&mut self) {
        for _ in 0..self.unfinished.len() {
            let Some(index) = self.unfinished.pop_front() else { return };
            self.clients[index].unfinished = false;
            if self.clients[index].state == ClientState::Receiving {
                self.receive(index);
            }
        }
    }

    fn start_due(&mut self) {
        for _ in 0..STARTS_AT_ONCE {
            if self.now_ns >= self.stop_ns {
                return;
            }
            let Some(index) = self.timers.take_due(self.now_ns) else { return };
            let intended_ns = self.intended_start(index).unwrap_or(self.now_ns);
            self.start_request(index, intended_ns, self.now_ns);
            self.now_ns = now_ns();
        }
    }

    /// What is done every few milliseconds, whatever the sockets do.
    fn keep_house(&mut self) {
        self.look_for_stop();
        self.note_window_edges();
        if self.now_ns >= self.sweep_ns {
            self.sweep_time_limits();
        }
        self.publish_progress();
        self.housekeeping_ns = self.now_ns + HOUSEKEEPING_NS;
        for edge_ns in [self.record.times.window_start_ns, self.record.times.window_end_ns] {
            if edge_ns > self.now_ns {
                self.housekeeping_ns = self.housekeeping_ns.min(edge_ns);
            }
        }
    }

    /// Setting the timer again also clears what it brought, so that it need not be read.
    fn set_timer(&mut self, at_ns: u64) -> Result<(), PlanError> {
        let once = Itimerspec { it_interval: NO_WAIT, it_value: timespec(at_ns) };
        self.timer_ns = at_ns;
        match timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once) {
            Ok(_) => Ok(()),
            Err(error) => Err(PlanError(format!("the timer of an engine thread cannot be set: {error}"))),
        }
    }

    fn look_for_stop(&mut self) {
        let shared = self.shared;
        if !shared.progress.stop.load(Ordering::Relaxed) {
            return;
        }
        // The first thread that sees the stop sets the end for all of them.
        let _ = shared.stopped_ns.compare_exchange(0, self.now_ns, Ordering::Relaxed, Ordering::Relaxed);
        let stopped_ns = shared.stopped_ns.load(Ordering::Relaxed);
        self.stop_ns = self.stop_ns.min(stopped_ns);
        self.record.times = self.record.times.ended_at(stopped_ns);
    }

    fn note_window_edges(&mut self) {
        if self.window_start.is_none() && self.now_ns >= self.record.times.window_start_ns {
            self.window_start = Some(ThreadTime::read());
        }
        if self.window_end.is_none() && self.now_ns >= self.record.times.window_end_ns {
            self.window_end = Some(ThreadTime::read());
        }
    }

    /// Ends the requests whose time is over. Coarse on purpose: a timer a request would cost more than it tells.
    fn sweep_time_limits(&mut self) {
        let timeout_ns = nanoseconds(self.shared.plan.timeout);
        for index in 0..self.clients.len() {
            let client = &self.clients[index];
            if client.state != ClientState::Resting
                && self.now_ns.saturating_sub(client.service_started_ns) > timeout_ns
            {
                self.fail(index, ErrorKind::Timeout);
            }
        }
        self.sweep_ns = self.now_ns + (timeout_ns / 20).clamp(HOUSEKEEPING_NS, 250_000_000);
    }

    fn publish_progress(&mut self) {
        let progress = self.shared.progress;
        let now = Published {
            requests: self.record.total_requests,
            errors: self.record.total_errors.total(),
            bytes: self.record.total_bytes,
        };
        let before = &self.published;
        progress.requests.fetch_add(now.requests - before.requests, Ordering::Relaxed);
        progress.errors.fetch_add(now.errors - before.errors, Ordering::Relaxed);
        progress.bytes.fetch_add(now.bytes - before.bytes, Ordering::Relaxed);
        self.published = now;
    }

    fn finish(mut self) -> ThreadOutcome {
        self.note_window_edges();
        self.publish_progress();
        let start = self.window_start.unwrap_or_default();
        let end = self.window_end.unwrap_or(start);
        let (user_s, system_s) = end.user_and_system_s_since(&start);
        ThreadOutcome { record: self.record, user_s, system_s, busy: end.share_since(&start) }
    }
}

fn new_epoll_with_timer() -> Result<(OwnedFd, OwnedFd), Errno> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
    let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
    epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN | EventFlags::ET)?;
    Ok((epoll, timer))
}

fn timespec(nanoseconds: u64) -> Timespec {
    Timespec { tv_sec: (nanoseconds / 1_000_000_000) as i64, tv_nsec: (nanoseconds % 1_000_000_000) as i64 }
}

fn pin_to(core: usize) -> Result<(), PlanError> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set)
        .map_err(|error| PlanError(format!("an engine thread cannot be pinned to processor {core}: {error}")))
}
