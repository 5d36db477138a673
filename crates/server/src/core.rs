//! One core: an event loop of its own with everything that its connections need, shared with nobody.
//!
//! A core is one thread with one current-thread runtime. What is used for every request lies in [`Hot`]; what is
//! shared with other cores is either never changed (the snapshot) or touched rarely (the cache's store, the log's
//! writer). The thread that started the cores speaks to them through [`Order`]s.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedReceiver;
use touchstone_files::cache::{CoreCache, Entry, NewEntry, Prepared, ReadTicket};
use touchstone_http::request::{Limits, RequestHead};

use crate::clock::{CoreClock, TICK, Ticker};
use crate::config::LogLevel;
use crate::deadline::Deadlines;
use crate::listener::Listener;
use crate::log::access::CoreBuffer;
use crate::log::error::ErrorLog;
use crate::site::Snapshot;
use crate::site_tls::log_notices;
use crate::socket::Socket;
use crate::static_files::FileRequest;
use crate::tls::CiphertextBuffer;
use crate::transport::Transport;

/// Received at once. A request head is far smaller; a body or a pipeline comes in a few pieces.
const RECEIVE_BYTES: usize = 64 * 1024;

/// Idle connections that make room for a new one when a core is full.
const MAKE_ROOM: usize = 16;

/// After a stop began: how long a kept connection without a request may hope for one.
const IDLE_GRACE: Duration = Duration::from_secs(1);

/// What the starting thread tells a core.
pub enum Order {
    /// Take up a new configuration; these listeners are new, those that it does not name go.
    Reload(Arc<Snapshot>, Vec<(SocketAddr, TcpListener)>),
    /// Accept nothing more, finish what was begun, end.
    Drain,
}

/// What a core is started with.
pub struct CoreSeed {
    /// Its number, from 0.
    pub index: usize,
    /// The configuration.
    pub snapshot: Arc<Snapshot>,
    /// Its listening sockets with their configured addresses.
    pub listeners: Vec<(SocketAddr, TcpListener)>,
    /// Its end of the access log.
    pub access_log: CoreBuffer,
    /// The error log.
    pub error_log: ErrorLog,
    /// Orders.
    pub orders: UnboundedReceiver<Order>,
    /// The connections of all cores.
    pub connections: Arc<Connections>,
}

/// What every request uses.
pub struct Hot {
    /// Where received bytes land; all connections of the core share it.
    pub receive_buffer: Box<[u8]>,
    /// Filled anew by every request.
    pub head: RequestHead,
    /// The head's limits, from the snapshot.
    pub limits: Limits,
    /// Answers to pipelined requests on their way into one write.
    pub gathered: Vec<u8>,
    /// The cache, one view a site; empty when it is switched off.
    pub caches: Vec<CoreCache>,
    /// The access log.
    pub log: CoreBuffer,
    /// When the bytes that are being served came in; read only where the log wants durations.
    pub received_at: Option<Instant>,
    /// The configuration.
    pub snapshot: Arc<Snapshot>,
    /// Raised with every new snapshot; begins at 1.
    pub generation: u64,
}

/// One core.
pub struct Core {
    /// What every request uses.
    pub hot: RefCell<Hot>,
    /// The time.
    pub clock: CoreClock,
    /// Deadlines of waiting connections.
    pub deadlines: Rc<Deadlines>,
    /// The error log.
    pub error_log: ErrorLog,
    /// Where the TLS sessions of this core make their records.
    pub records: Rc<RefCell<CiphertextBuffer>>,
    /// A stop has begun: every answer ends its connection.
    pub draining: Cell<bool>,
    index: usize,
    /// Connections of all cores.
    connections: Arc<Connections>,
    /// Connections of this core that `connections` knows of.
    counted: Cell<usize>,
}

/// The open connections of all cores together. Cores count theirs in when they first wait; a connection that is
/// answered and closed at once is none.
#[derive(Default)]
pub struct Connections {
    open: AtomicUsize,
    /// Raised by a core that has no room for another: the others let go of idle ones at their next tick.
    wanted: AtomicUsize,
}

/// Runs a core on this thread until it has drained.
pub fn run(seed: CoreSeed) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // After so many tasks the loop looks for new events. The default suits tasks that do more than ours.
        .event_interval(256)
        .build_local(tokio::runtime::LocalOptions::default())?;
    runtime.block_on(Core::live(seed))
}

impl Core {
    async fn live(seed: CoreSeed) -> io::Result<()> {
        let CoreSeed { index, snapshot, listeners, access_log, error_log, mut orders, connections } = seed;
        let core = Rc::new(Core {
            hot: RefCell::new(Hot {
                receive_buffer: vec![0; RECEIVE_BYTES].into_boxed_slice(),
                head: RequestHead::new(),
                limits: head_limits(&snapshot),
                gathered: Vec::new(),
                caches: caches(&snapshot),
                log: access_log,
                received_at: None,
                snapshot: snapshot.clone(),
                generation: 1,
            }),
            clock: CoreClock::new(),
            deadlines: Rc::default(),
            error_log,
            records: Rc::default(),
            draining: Cell::new(false),
            index,
            connections,
            counted: Cell::new(0),
        });
        let mut open = Vec::new();
        core.clone().listen(listeners, &mut open)?;
        tokio::task::spawn_local(core.clone().tick(Ticker::new()?));
        // An order to drain ends the loop, and so does the end of whoever gives orders.
        while let Some(Order::Reload(snapshot, listeners)) = orders.recv().await {
            core.clone().reload(snapshot, listeners, &mut open)?;
        }
        core.drain(open).await;
        core.hot.borrow_mut().log.flush();
        Ok(())
    }

    fn listen(
        self: Rc<Core>,
        listeners: Vec<(SocketAddr, TcpListener)>,
        open: &mut Vec<Rc<Listener>>,
    ) -> io::Result<()> {
        for (configured, socket) in listeners {
            let listener = Listener::new(configured, socket)?;
            tokio::task::spawn_local(listener.clone().run(self.clone()));
            open.push(listener);
        }
        Ok(())
    }

    fn reload(
        self: Rc<Core>,
        snapshot: Arc<Snapshot>,
        listeners: Vec<(SocketAddr, TcpListener)>,
        open: &mut Vec<Rc<Listener>>,
    ) -> io::Result<()> {
        {
            let hot = &mut *self.hot.borrow_mut();
            hot.limits = head_limits(&snapshot);
            hot.caches = caches(&snapshot);
            hot.generation += 1;
            hot.snapshot = snapshot.clone();
        }
        let named = |listener: &Rc<Listener>| {
            snapshot.listeners.iter().any(|sites| sites.address == listener.configured)
        };
        for gone in open.extract_if(.., |listener| !named(listener)) {
            gone.stop();
        }
        self.listen(listeners, open)
    }

    /// Keeps the clock, and does what is to be done once a tick or once a second.
    async fn tick(self: Rc<Core>, ticker: Ticker) {
        while ticker.tick().await.is_ok() {
            let new_second = self.clock.tick();
            self.deadlines.sweep(self.clock.coarse_ms());
            self.count_connections();
            self.make_wanted_room();
            let hot = &mut *self.hot.borrow_mut();
            hot.log.flush();
            if new_second {
                for cache in &mut hot.caches {
                    cache.tick();
                }
                if self.index == 0 {
                    self.refresh_roots(&hot.snapshot);
                    self.refresh_certificates(&hot.snapshot);
                    self.error_log.tick();
                }
            }
        }
    }

    /// A root that is a link may lead elsewhere now.
    fn refresh_roots(&self, snapshot: &Snapshot) {
        for site in &snapshot.sites {
            if let Err(error) = site.root.refresh() {
                let path = site.root.path().display();
                let message = format_args!("cannot look at the root {path}: {error}");
                self.error_log.limited(LogLevel::Warning, "roots not found", message);
            }
        }
    }

    /// Certificate files may have been renewed.
    fn refresh_certificates(&self, snapshot: &Snapshot) {
        for endpoint in snapshot.listeners.iter().filter_map(|listener| listener.tls.as_ref()) {
            log_notices(&self.error_log, endpoint.refresh());
        }
    }

    /// What carries the bytes of a connection that was accepted on `listener`.
    pub fn transport(&self, socket: Socket, listener: SocketAddr) -> Transport {
        let hot = self.hot.borrow();
        let sites = hot.snapshot.listeners.iter().find(|sites| sites.address == listener);
        match sites.and_then(|sites| sites.tls.as_ref()) {
            Some(endpoint) => Transport::tls(socket, endpoint.session(), self.records.clone()),
            None => Transport::Plain(socket),
        }
    }

    async fn drain(&self, open: Vec<Rc<Listener>>) {
        self.draining.set(true);
        // From here on each listener belongs to its accept loop alone, and is closed when that has let everybody in.
        let closing: Vec<Weak<Listener>> = open.iter().map(Rc::downgrade).collect();
        for listener in open {
            listener.stop();
        }
        let limit = self.hot.borrow().snapshot.config.server.drain_timeout;
        let began = Instant::now();
        loop {
            let listening = closing.iter().any(|listener| listener.strong_count() > 0);
            let connections = self.deadlines.connections();
            if !listening && connections == 0 {
                return;
            }
            if began.elapsed() >= limit {
                self.error_log.warning(format_args!(
                    "{connections} connections on core {} were not done within server.drain_timeout",
                    self.index
                ));
                return;
            }
            if began.elapsed() >= IDLE_GRACE {
                self.deadlines.expire_idle(usize::MAX);
            }
            tokio::time::sleep(TICK / 10).await;
        }
    }

    /// True when another connection may be accepted; makes room by ending idle ones.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.count_connections();
        let most = self.hot.borrow().snapshot.config.limits.connections;
        self.connections.open.load(Ordering::Relaxed) < most || self.make_room()
    }

    /// Brings what all cores know up to what this one knows.
    #[inline]
    fn count_connections(&self) {
        let (now, before) =
            (self.deadlines.connections(), self.counted.replace(self.deadlines.connections()));
        match now.cmp(&before) {
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Greater => {
                _ = self.connections.open.fetch_add(now - before, Ordering::Relaxed)
            }
            std::cmp::Ordering::Less => _ = self.connections.open.fetch_sub(before - now, Ordering::Relaxed),
        }
    }

    #[cold]
    fn make_room(&self) -> bool {
        let message = "limits.connections is reached; idle connections are ended";
        self.error_log.limited(LogLevel::Warning, "connections over the limit", message);
        if self.deadlines.expire_idle(MAKE_ROOM) == 0 {
            self.connections.wanted.store(MAKE_ROOM, Ordering::Relaxed);
        }
        false
    }

    /// Makes room for a connection that another core has no room for.
    fn make_wanted_room(&self) {
        if self.connections.wanted.load(Ordering::Relaxed) > 0 {
            let wanted = self.connections.wanted.swap(0, Ordering::Relaxed);
            self.deadlines.expire_idle(wanted);
        }
    }

    /// True when somebody will want to know where a client is.
    #[inline]
    pub fn wants_peers(&self) -> bool {
        self.hot.borrow().log.is_on()
    }

    /// The cached answer for `path`, if this core works under the request's snapshot.
    pub fn cache_entry(&self, request: &FileRequest<'_>, path: &[u8]) -> Option<(Arc<Entry>, Arc<Prepared>)> {
        let hot = &mut *self.hot.borrow_mut();
        if !std::ptr::eq(request.snapshot, &*hot.snapshot) {
            return None;
        }
        hot.caches.get_mut(request.site)?.entry(path, request.variant, &self.clock.second())
    }

    /// Puts a file that was just read into the cache and gives its answer.
    pub fn cache_insert(
        &self,
        request: &FileRequest<'_>,
        new: NewEntry<'_>,
        ticket: ReadTicket,
    ) -> Option<Arc<Prepared>> {
        let hot = &mut *self.hot.borrow_mut();
        let date = self.clock.second();
        if std::ptr::eq(request.snapshot, &*hot.snapshot) {
            let cache = hot.caches.get_mut(request.site)?;
            return Some(cache.insert(new, ticket, request.variant, &date).1);
        }
        // A reload came between: the answer is still made from the old snapshot, and kept by nobody.
        let cache = request.snapshot.cache.clone()?;
        Some(CoreCache::new(cache, request.site).insert(new, ticket, request.variant, &date).1)
    }
}

fn head_limits(snapshot: &Snapshot) -> Limits {
    let limits = &snapshot.config.limits;
    Limits {
        request_line_bytes: limits.request_line_bytes,
        header_bytes: limits.header_bytes,
        header_fields: limits.header_fields,
    }
}

fn caches(snapshot: &Snapshot) -> Vec<CoreCache> {
    let Some(cache) = &snapshot.cache else { return Vec::new() };
    (0..snapshot.sites.len()).map(|site| CoreCache::new(cache.clone(), site)).collect()
}
