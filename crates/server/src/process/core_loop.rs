//! The life of a core: starts it, keeps its clock, reloads it, drains it.
//!
//! The thread that started the cores controls them with [`CoreOrder`]s.

use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedReceiver;
use touchstone_admin::connection_info::CoreSessions;
use touchstone_config::{ListenAddress, LogLevel};
use touchstone_lifecycle::heartbeat::Heartbeat;
use touchstone_observe::log::access::CoreBuffer;
use touchstone_observe::log::error::ErrorLog;
use touchstone_observe::metrics::Metrics;
use touchstone_sites::site::Snapshot;
use touchstone_sites::site_tls::log_notices;
use touchstone_stream::{CoreParts, CoreStreams};

use crate::connection::parked;
use crate::http3;
use crate::process::datagram_sockets::CoreShare;
use crate::process::listener::{Listener, ListenerSeed};
use crate::process::stream_server::StreamServer;
use touchstone_exchange::core::Core;
use touchstone_exchange::core::clock::{TICK, Ticker};
use touchstone_exchange::core::connection_count::ConnectionCount;
use touchstone_exchange::core::memory;
use touchstone_exchange::core::parking::Parking;
use touchstone_exchange::core::worker::{CallerThread, WorkerSeed};
use touchstone_exchange::steps::{OWN_REQUESTS, begin_early};

/// After a stop began: how long an idle persistent connection may still send a request.
const IDLE_GRACE: Duration = Duration::from_secs(1);

/// An order of the starting thread to a core.
pub enum CoreOrder {
    /// Apply a new configuration. These sockets are new; those that the configuration does not name are
    /// closed. Then send the previous configuration back: the drop of its last handle waits for its watcher
    /// of files, and a core must not wait.
    Reload(Arc<Snapshot>, NewSockets, Sender<Arc<Snapshot>>),
    /// Use these HTTP/3 sockets too.
    Http3(http3::CoreSockets),
    /// Send a copy of up to this many sessions.
    Sessions(usize, Sender<CoreSessions>),
    /// Accept no more connections, finish the running requests, end.
    Drain(Drain),
}

/// How a core drains.
#[derive(Clone)]
pub struct Drain {
    /// Addresses, as configured, whose sockets another process continues to use.
    pub left: Arc<[ListenAddress]>,
    /// If true, persistent connections may stay until shortly before `server.drain_timeout`, to send one more
    /// request and receive `Connection: close` with its answer. Another process serves new connections, so no
    /// client waits for this one. If false, idle connections are soon closed.
    pub patient: bool,
}

/// The sockets of a core that a configuration adds.
pub struct NewSockets {
    /// Listening sockets with their configured addresses.
    pub listeners: Vec<ListenerSeed>,
    /// HTTP/3 sockets.
    pub http3: http3::CoreSockets,
    /// Sockets of streams for datagrams.
    pub datagrams: CoreShare,
}

/// What a core is started with.
pub struct CoreSeed {
    /// Its number, from 0.
    pub index: usize,
    /// The configuration.
    pub snapshot: Arc<Snapshot>,
    /// Its sockets.
    pub sockets: NewSockets,
    /// The keys of QUIC, and how many cores share them.
    pub http3_secrets: (http3::Secrets, usize),
    /// Where it writes the access log.
    pub access_log: CoreBuffer,
    /// The error log.
    pub error_log: ErrorLog,
    /// The orders of the starting thread.
    pub orders: UnboundedReceiver<CoreOrder>,
    /// The connections of all cores.
    pub connections: Arc<ConnectionCount>,
    /// The counters of all cores.
    pub metrics: Arc<Metrics>,
    /// Where it reports that it is alive.
    pub heartbeat: Arc<Heartbeat>,
    /// What its worker is started with.
    pub worker: WorkerSeed,
    /// Signalled once the core accepts connections.
    pub accepting: Sender<()>,
}

/// Runs a core on this thread until it has drained.
pub fn run(seed: CoreSeed) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // How many tasks run before the loop checks for new events. The default suits tasks with more work.
        .event_interval(256)
        .build_local(tokio::runtime::LocalOptions::default())?;
    runtime.block_on(live(seed))
}

async fn live(seed: CoreSeed) -> io::Result<()> {
    let CoreSeed { index, snapshot, sockets, access_log, error_log, connections, .. } = seed;
    let (mut orders, (secrets, cores)) = (seed.orders, seed.http3_secrets);
    let mut core = Core::new(index, snapshot, access_log, error_log, connections, seed.metrics, OWN_REQUESTS);
    core.worker = Some(CallerThread::new(seed.worker));
    core.parking = Some(Parking::new()?);
    let core = Rc::new(core);
    let streams = CoreStreams::new(CoreParts {
        server: StreamServer::of_core(&core),
        records: core.records.clone(),
        counts: core.counts.clone(),
    });
    let setups = core.state.borrow().snapshot.streams.clone();
    streams.apply(&setups, sockets.datagrams)?;
    let mut open = Vec::new();
    listen((&core, &streams), sockets.listeners, &mut open)?;
    let mut http3 = http3::Listeners::open(core.clone(), cores, secrets, sockets.http3)?;
    tokio::task::spawn_local(tick((core.clone(), streams.clone()), Ticker::new()?, seed.heartbeat));
    tokio::task::spawn_local(parked::watch(core.clone()));
    begin_early(&core);
    // The starting thread may have stopped waiting.
    let _ = seed.accepting.send(());
    drop(seed.accepting);
    let departure = loop {
        match orders.recv().await {
            Some(CoreOrder::Reload(snapshot, sockets, done)) => {
                streams.apply(&snapshot.streams, sockets.datagrams)?;
                let before = reload((&core, &streams), snapshot, sockets.listeners, &mut open)?;
                http3.reload(sockets.http3)?;
                let _ = done.send(before);
            }
            Some(CoreOrder::Http3(sockets)) => http3.reload(sockets)?,
            Some(CoreOrder::Sessions(most, asker)) => send_sessions(&core, most, &asker),
            Some(CoreOrder::Drain(departure)) => break departure,
            // The thread that sent orders has ended.
            None => break Drain { left: Arc::from([]), patient: false },
        }
    };
    // The status page can show which sessions a drain still waits for.
    tokio::task::spawn_local({
        let core = core.clone();
        async move {
            while let Some(order) = orders.recv().await {
                if let CoreOrder::Sessions(most, asker) = order {
                    send_sessions(&core, most, &asker);
                }
            }
        }
    });
    core.draining.set(true);
    http3.stop();
    streams.stop();
    drain(&core, &streams, open, departure).await;
    core.state.borrow().metrics.publish([0; 4]);
    core.state.borrow_mut().log.flush();
    Ok(())
}

fn send_sessions(core: &Core, most: usize, asker: &Sender<CoreSessions>) {
    // The thread that sent the request may have stopped waiting.
    let _ = asker.send(core.deadlines.sessions(core.index, most));
}

fn listen(
    (core, streams): (&Rc<Core>, &Rc<CoreStreams>),
    listeners: Vec<ListenerSeed>,
    open: &mut Vec<Rc<Listener>>,
) -> io::Result<()> {
    for seed in listeners {
        let listener = Listener::new(seed)?;
        tokio::task::spawn_local(listener.clone().run(core.clone()));
        open.push(listener);
    }
    // A reload may assign an existing address to a stream, or remove it from one.
    for listener in open.iter() {
        listener.pass_to(streams.of_listener(listener.configured));
    }
    Ok(())
}

fn reload(
    (core, streams): (&Rc<Core>, &Rc<CoreStreams>),
    snapshot: Arc<Snapshot>,
    listeners: Vec<ListenerSeed>,
    open: &mut Vec<Rc<Listener>>,
) -> io::Result<Arc<Snapshot>> {
    let before = core.apply_config(snapshot.clone());
    let named = |listener: &Rc<Listener>| {
        streams.of_listener(listener.configured).is_some()
            || snapshot.listeners.iter().any(|sites| sites.address == listener.configured)
    };
    for gone in open.extract_if(.., |listener| !named(listener)) {
        gone.stop();
    }
    listen((core, streams), listeners, open)?;
    begin_early(core);
    Ok(before)
}

/// Keeps the clock, and does the work of every tick and every second.
async fn tick((core, streams): (Rc<Core>, Rc<CoreStreams>), ticker: Ticker, heartbeat: Arc<Heartbeat>) {
    while ticker.tick().await.is_ok() {
        heartbeat.beat(core.index);
        let is_new_second = core.clock.tick();
        let states = core.deadlines.sweep(core.clock.coarse_ms());
        core.count_connections();
        core.make_wanted_room();
        core.note_tick(is_new_second, states);
        streams.tick();
        if is_new_second {
            memory::release_after_burst(&core.clock, &core.deadlines);
        }
        if is_new_second && core.index == 0 {
            let state = core.state.borrow();
            refresh_roots(&core, &state.snapshot);
            refresh_certificates(&core, &state.snapshot);
            streams.refresh(|notices| log_notices(&core.error_log, notices));
            core.error_log.tick();
            if let Some(logs) = &state.snapshot.logs {
                logs.tick();
            }
        }
    }
}

/// A root that is a symbolic link may have a new target.
fn refresh_roots(core: &Core, snapshot: &Snapshot) {
    for site in &snapshot.sites {
        if let Err(error) = site.root.refresh() {
            let path = site.root.path().display();
            let message = format_args!("cannot read the state of the root {path}: {error}");
            core.error_log.limited(LogLevel::Warning, "roots not found", message);
        }
    }
}

/// Certificate files may have been renewed.
fn refresh_certificates(core: &Core, snapshot: &Snapshot) {
    for endpoint in snapshot.listeners.iter().filter_map(|listener| listener.tls.as_ref()) {
        log_notices(&core.error_log, endpoint.refresh());
    }
}

async fn drain(core: &Core, streams: &CoreStreams, open: Vec<Rc<Listener>>, departure: Drain) {
    core.draining.set(true);
    if let Some(worker) = &core.worker {
        worker.end();
    }
    core.deadlines.wake_all();
    // From here on only its accept loop holds each listener, which closes when the loop has accepted every
    // waiting connection.
    let closing: Vec<Weak<Listener>> = open.iter().map(Rc::downgrade).collect();
    for listener in open {
        match departure.left.contains(&listener.configured) {
            true => listener.leave(),
            false => listener.stop(),
        }
    }
    let limit = core.state.borrow().snapshot.config.server.drain_timeout;
    let idle_grace = if departure.patient { limit.saturating_sub(IDLE_GRACE) } else { IDLE_GRACE };
    let began = Instant::now();
    let mut is_late = false;
    loop {
        let listening = closing.iter().any(|listener| listener.strong_count() > 0);
        let connections = core.deadlines.connections();
        let of_streams = streams.open_after(began.elapsed(), limit);
        // Streams may have a longer time than others.
        if (!listening && connections == 0 || is_late) && of_streams == 0 {
            return;
        }
        if began.elapsed() >= limit && !is_late {
            is_late = true;
            if listening || connections > 0 {
                core.error_log.warning(format_args!(
                    "{connections} connections on core {} were not done within server.drain_timeout",
                    core.index
                ));
            }
        }
        if began.elapsed() >= idle_grace {
            core.deadlines.expire_idle(usize::MAX);
        }
        tokio::time::sleep(TICK / 10).await;
    }
}
