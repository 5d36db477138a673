//! One core: an event loop with everything that its connections need, not shared with other cores.
//!
//! A core is one thread with one current-thread runtime. [`CoreState`] holds the state that every request
//! uses. State that the core shares with other cores is either never changed (the snapshot) or used rarely
//! (the cache's store, the log's writer). `core_loop` runs it.

pub mod accelerator;
pub mod cache_lookup;
pub mod clock;
pub mod connection_count;
pub mod deadline;
pub mod encoded_responses;
pub mod handler_table;
pub mod header_blocks;
pub mod logs;
pub mod memory;
pub mod parking;
pub mod worker;

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use touchstone_access::{Admission, TOO_MANY_CONNECTIONS};
use touchstone_config::{ListenAddress, LogLevel};
use touchstone_files::cache::{ConnectionForm, CoreCache, Entry, NewEntry, PreparedResponse, ReadTicket};
use touchstone_handler::answer::Answer;
use touchstone_handler::handler::LocalBoxFuture;
use touchstone_handler::request::Request;
use touchstone_http::request::{Limits, RequestHead};
use touchstone_observe::log::access::CoreBuffer;
use touchstone_observe::log::error::ErrorLog;
use touchstone_observe::metrics::{ConnectionRefusal, CoreCounts, CoreMetrics, Metrics, Timeout};
use touchstone_observe::request_id::RequestIds;
use touchstone_sites::site::Snapshot;
use touchstone_telemetry::Tracer;
use touchstone_tls::CiphertextBuffer;
use touchstone_transport::Socket;
use touchstone_transport::Transport;

use crate::core::cache_lookup::Caches;
use crate::core::clock::CoreClock;
use crate::core::connection_count::ConnectionCount;
use crate::core::deadline::Deadlines;
use crate::core::encoded_responses::EncodedResponses;
use crate::core::handler_table::Handlers;
use crate::core::header_blocks::encode_head;
use crate::core::logs::CoreLogs;
use crate::core::parking::Parking;
use crate::core::worker::{CallerThread, Callers};

/// The most bytes received at once. A request head is far smaller; a body or a pipeline arrives in a few
/// pieces.
pub const RECEIVE_BYTES: usize = 64 * 1024;

/// How many idle connections end to make room for a new one when a core is full.
const MAKE_ROOM: usize = 16;

/// The state that every request uses.
pub struct CoreState {
    /// The buffer for received bytes; all connections of the core share it.
    pub receive_buffer: Box<[u8]>,
    /// The head of the current request.
    pub head: RequestHead,
    /// The head's limits, from the snapshot.
    pub limits: Limits,
    /// Answers to pipelined requests that will leave in one write.
    pub gathered: Vec<u8>,
    /// The body of an answer that a program writes at once; empty between requests.
    pub written: Vec<u8>,
    /// The prepared answers.
    pub caches: Caches,
    /// HTTP/2's header blocks of the current second.
    pub header_blocks: EncodedResponses<Vec<u8>>,
    /// The access logs.
    pub log: CoreLogs,
    /// When the current input was received; set only if the log needs durations.
    pub received_at: Option<Instant>,
    /// The counters of answers.
    pub metrics: CoreMetrics,
    /// Makes ids for requests.
    pub request_ids: RequestIds,
    /// Decides which requests are traced; `None`: tracing is off.
    pub tracer: Option<Tracer>,
    /// The configuration.
    pub snapshot: Arc<Snapshot>,
    /// Incremented with every new snapshot; starts at 1.
    pub generation: u64,
}

impl CoreState {
    /// Whether the present input, of this peer, must have a time: a log or a span contains it.
    #[inline]
    pub fn needs_time(&self, peer: Option<SocketAddr>) -> bool {
        let gate = &self.snapshot.connection_gate;
        let is_from_proxy = || peer.is_some_and(|peer| gate.trusts_fields_of(peer.ip()));
        self.log.needs_duration() || self.tracer.as_ref().is_some_and(|tracer| tracer.is_near(is_from_proxy))
    }

    /// Whether the facts of a connection are needed for its requests: a log or a span contains them.
    #[inline]
    pub fn needs_facts(&self) -> bool {
        self.log.is_on() || self.tracer.is_some()
    }
}

/// How the requests that the server makes itself are answered, for example for a page's inclusion. The
/// functions are in `steps`, which depends on the code that makes such requests; so they are passed to the
/// core as values.
#[derive(Clone, Copy)]
pub struct OwnRequests {
    /// Answers a request by the routes and rules of its site.
    pub answer: fn(Rc<Core>, Arc<Snapshot>, Request) -> LocalBoxFuture<Answer>,
    /// Answers a request with a file of the site with this index.
    pub answer_file: fn(Rc<Core>, Arc<Snapshot>, usize, Request) -> LocalBoxFuture<Answer>,
}

/// One core.
pub struct Core {
    /// The state that every request uses.
    pub state: RefCell<CoreState>,
    /// The time.
    pub clock: CoreClock,
    /// Deadlines of waiting connections.
    pub deadlines: Rc<Deadlines>,
    /// The error log.
    pub error_log: ErrorLog,
    /// The buffer in which the TLS sessions of this core make their records.
    pub records: Rc<RefCell<CiphertextBuffer>>,
    /// A stop has begun: every answer ends its connection.
    pub draining: Cell<bool>,
    /// Its number, from 0.
    pub index: usize,
    /// The counters that do not belong to a request.
    pub counts: Arc<CoreCounts>,
    /// How the server's own requests are answered.
    pub own_requests: OwnRequests,
    /// The handlers of requests that are not for files.
    pub handlers: Handlers,
    /// The core's worker.
    pub worker: Option<CallerThread>,
    /// Its idle connections without a task; `None` on a worker's thread.
    pub parking: Option<Parking>,
    /// The programs that this thread calls; only on a worker's thread.
    pub callers: Option<Callers>,
    /// Connections of all cores.
    connections: Arc<ConnectionCount>,
    /// How many connections of this core `connections` includes.
    counted: Cell<usize>,
}

impl Core {
    /// A core under `snapshot` without connections.
    pub fn new(
        index: usize,
        snapshot: Arc<Snapshot>,
        access_log: CoreBuffer,
        error_log: ErrorLog,
        connections: Arc<ConnectionCount>,
        registry: Arc<Metrics>,
        own_requests: OwnRequests,
    ) -> Core {
        let sampling = snapshot.config.admin.hit_sampling();
        let metrics = CoreMetrics::new(registry, index, snapshot.route_table.clone(), sampling);
        let counts = metrics.counts().clone();
        let mut request_ids = RequestIds::new();
        Core {
            state: RefCell::new(CoreState {
                receive_buffer: vec![0; RECEIVE_BYTES].into_boxed_slice(),
                head: RequestHead::new(),
                limits: head_limits(&snapshot),
                gathered: Vec::new(),
                written: Vec::new(),
                caches: Caches::new(&snapshot),
                header_blocks: EncodedResponses::new(|prepared| encode_head(prepared.head())),
                log: CoreLogs::new(access_log, &snapshot),
                received_at: None,
                metrics,
                tracer: tracer(&snapshot, &mut request_ids),
                request_ids,
                snapshot,
                generation: 1,
            }),
            clock: CoreClock::default(),
            deadlines: Rc::default(),
            error_log,
            records: Rc::default(),
            draining: Cell::new(false),
            index,
            counts,
            own_requests,
            handlers: Handlers::default(),
            worker: None,
            parking: None,
            callers: None,
            connections,
            counted: Cell::new(0),
        }
    }

    /// Applies another configuration from the next request on; returns the previous one.
    pub fn apply_config(&self, snapshot: Arc<Snapshot>) -> Arc<Snapshot> {
        self.handlers.clear();
        if let Some(worker) = &self.worker {
            worker.apply_config(&snapshot);
        }
        if let Some(callers) = &self.callers {
            callers.clear();
        }
        let state = &mut *self.state.borrow_mut();
        state.limits = head_limits(&snapshot);
        state.caches = Caches::new(&snapshot);
        state.log.apply_config(&snapshot);
        state.metrics.apply_routes(snapshot.route_table.clone(), snapshot.config.admin.hit_sampling());
        state.tracer = tracer(&snapshot, &mut state.request_ids);
        state.generation += 1;
        std::mem::replace(&mut state.snapshot, snapshot)
    }

    /// The work of a tick and of a second. `states` are those of the connections.
    pub fn note_tick(&self, is_new_second: bool, states: [u64; 4]) {
        let state = &mut *self.state.borrow_mut();
        state.metrics.publish(states);
        state.log.flush();
        if is_new_second {
            state.header_blocks.clear();
            state.caches.tick();
        }
    }

    /// The transport of a connection that was accepted on `listener`.
    pub fn transport(&self, socket: Socket, listener: ListenAddress) -> Transport {
        let state = self.state.borrow();
        let sites = state.snapshot.listeners.iter().find(|sites| sites.address == listener);
        match sites.and_then(|sites| sites.tls.as_ref()) {
            Some(endpoint) => {
                Transport::tls(socket, endpoint.session(), self.records.clone(), self.counts.clone())
            }
            None => Transport::Plain(socket),
        }
    }

    /// True when another connection may be accepted; makes room by ending idle ones.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.count_connections();
        let most = self.state.borrow().snapshot.config.limits.connections;
        self.connections.open() < most || self.make_room()
    }

    /// Updates the count of all cores with that of this one.
    #[inline]
    pub fn count_connections(&self) {
        let now = self.deadlines.connections();
        self.connections.change(self.counted.replace(now), now);
    }

    #[cold]
    fn make_room(&self) -> bool {
        let message = "limits.connections is reached; idle connections are ended";
        self.error_log.limited(LogLevel::Warning, "connections over the limit", message);
        self.counts.refused(ConnectionRefusal::Limit);
        let ended = self.deadlines.expire_idle(MAKE_ROOM);
        self.counts.timeouts[Timeout::MadeRoom as usize].add(ended as u64);
        if ended == 0 {
            self.connections.want(MAKE_ROOM);
        }
        false
    }

    /// Makes room for a connection when another core needs it.
    pub fn make_wanted_room(&self) {
        if self.connections.is_room_wanted() {
            let wanted = self.connections.take_wanted();
            let ended = self.deadlines.expire_idle(wanted);
            self.counts.timeouts[Timeout::MadeRoom as usize].add(ended as u64);
        }
    }

    /// True if a log, a rule or the admin listener needs the client's address.
    #[inline]
    pub fn needs_peers(&self) -> bool {
        let state = self.state.borrow();
        let is_shown = state.log.is_on() || state.tracer.is_some();
        state.snapshot.needs_peers || is_shown || state.snapshot.config.admin.is_on()
    }

    /// Whether the connection must begin with a PROXY header.
    #[inline]
    pub fn expects_proxy_header(&self, listener: ListenAddress, peer: Option<SocketAddr>) -> bool {
        let state = self.state.borrow();
        state.snapshot.connection_gate.expects_proxy_header(listener, peer.map(|peer| peer.ip()))
    }

    /// Sends a client in plain text that it has too many connections, unless the listener uses TLS, and drops
    /// the connection.
    pub fn refuse_connection(&self, descriptor: std::os::fd::OwnedFd, listener: ListenAddress) {
        let state = self.state.borrow();
        let speaks_tls =
            state.snapshot.listeners.iter().any(|sites| sites.address == listener && sites.tls.is_some());
        if !speaks_tls {
            // Unread bytes would make the kernel reset the connection before the client reads the answer.
            let mut request = [0; 4096];
            let _ = rustix::net::recv(&descriptor, &mut request, rustix::net::RecvFlags::DONTWAIT);
            let _ = rustix::net::send(&descriptor, TOO_MANY_CONNECTIONS, rustix::net::SendFlags::NOSIGNAL);
        }
    }

    /// Whether the client named by a PROXY header is admitted.
    pub fn admit_proxied(&self, client: SocketAddr) -> Admission {
        self.state.borrow().snapshot.connection_gate.admit_proxied(client.ip())
    }

    /// Whether a connection from this peer is admitted.
    #[inline]
    pub fn admit(&self, peer: Option<SocketAddr>) -> Admission {
        self.state.borrow().snapshot.connection_gate.admit_connection(peer.map(|peer| peer.ip()))
    }

    /// The cached answer for `path`, if this core runs under `snapshot`.
    pub fn cache_entry(
        &self,
        snapshot: &Snapshot,
        site: usize,
        path: &[u8],
        form: ConnectionForm,
    ) -> Option<(Arc<Entry>, Arc<PreparedResponse>)> {
        let state = &mut *self.state.borrow_mut();
        if !std::ptr::eq(snapshot, &*state.snapshot) {
            return None;
        }
        state.caches.files.get_mut(site)?.entry(path, form, &self.clock.second())
    }

    /// Puts a file that was just read into the cache and returns its answer.
    pub fn cache_insert(
        &self,
        snapshot: &Snapshot,
        new: NewEntry<'_>,
        ticket: ReadTicket,
        form: ConnectionForm,
    ) -> Option<Arc<PreparedResponse>> {
        let state = &mut *self.state.borrow_mut();
        let (site, date) = (new.site, self.clock.second());
        if std::ptr::eq(snapshot, &*state.snapshot) {
            let cache = state.caches.files.get_mut(site)?;
            return Some(cache.insert(new, ticket, form, &date).1);
        }
        // There was a reload since: the answer is still made from the old snapshot, and the core does not
        // keep it.
        let cache = snapshot.cache.clone()?;
        Some(CoreCache::new(cache, site).insert(new, ticket, form, &date).1)
    }
}

/// What decides which requests are traced, if any are.
fn tracer(snapshot: &Snapshot, random: &mut RequestIds) -> Option<Tracer> {
    snapshot.trace_rules.clone().map(|rules| Tracer::new(rules, random))
}

fn head_limits(snapshot: &Snapshot) -> Limits {
    let limits = &snapshot.config.limits;
    Limits {
        request_line_bytes: limits.request_line_bytes,
        header_bytes: limits.header_bytes,
        header_fields: limits.header_fields,
    }
}
