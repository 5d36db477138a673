//! The running server: one thread that receives signals and control requests, and reloads, upgrades and
//! stops.
//!
//! This thread makes every change of the server, one after another, and sends orders to the cores. A long
//! wait (for a new process to become ready) is on a separate thread, which reports by an event. Reloads are
//! in `reload`, upgrades in `upgrade`, requests to the control API in `control`, and changes of `.htaccess`
//! files in `htaccess`.

mod control;
mod htaccess;
mod reload;
mod upgrade;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use tokio::sync::mpsc::UnboundedSender;
use touchstone_accelerator::purge::PurgeRequest;
use touchstone_acme::AcmeManager;
use touchstone_admin::Admin;
use touchstone_config::ListenAddress;
use touchstone_control::{ControlApi, ControlRequest, ControlResponse};
use touchstone_lifecycle::control::{Answer, Control, ControlListener, Reply, Request};
use touchstone_lifecycle::handover::{Predecessor, ReadyNotice};
use touchstone_lifecycle::heartbeat::Heartbeat;
use touchstone_lifecycle::pid_file::PidFile;
use touchstone_lifecycle::systemd::{self, Notice, Notifier};
use touchstone_observe::log::access::AccessLog;
use touchstone_observe::log::error::ErrorLog;
use touchstone_observe::metrics::{Metrics, component_totals, origin_totals, stream_totals};
use touchstone_sites::services::ServerShared;
use touchstone_sites::site::{Snapshot, scheme};
use touchstone_telemetry::Telemetry;
use upgrade::Upgrade;

use crate::http3;
use crate::process::core_loop::{CoreOrder, Drain};
use crate::process::datagram_sockets::DatagramSockets;
use crate::process::listening::Listening;
use crate::process::operator_view::OperatorView;
use touchstone_exchange::core::connection_count::ConnectionCount;

/// A core and the channel to it.
pub struct RunningCore {
    /// The channel for its orders.
    pub orders: UnboundedSender<CoreOrder>,
    /// Its thread.
    pub thread: JoinHandle<io::Result<()>>,
}

/// The parts of a running server.
pub struct Parts {
    /// The cores, which accept.
    pub cores: Vec<RunningCore>,
    /// Every address.
    pub listening: Listening,
    /// The HTTP/3 sockets.
    pub http3: http3::Sockets,
    /// The sockets of streams for datagrams.
    pub datagrams: DatagramSockets,
    /// The configuration.
    pub snapshot: Arc<Snapshot>,
    /// What every configuration uses.
    pub shared: ServerShared,
    /// Gets certificates from authorities.
    pub acme: AcmeManager,
    /// The admin listener.
    pub admin: Admin,
    /// The state for the admin listener.
    pub view: Arc<OperatorView>,
    /// The counters.
    pub metrics: Arc<Metrics>,
    /// What is sent to a collector.
    pub telemetry: Telemetry,
    /// The access log.
    pub access_log: AccessLog,
    /// The error log.
    pub error_log: ErrorLog,
    /// The file that a reload reads again.
    pub config_file: Option<PathBuf>,
    /// The connection to systemd.
    pub notifier: Arc<Notifier>,
    /// The file with the process id.
    pub pid_file: Option<PidFile>,
    /// The connections of all cores.
    pub connections: Arc<ConnectionCount>,
    /// Signs of life of the cores.
    pub heartbeat: Arc<Heartbeat>,
    /// The control API, if it is enabled.
    pub control_api: Option<ControlApi>,
}

/// An event for the main thread.
enum Event {
    Signal(i32),
    Request(Request, Reply),
    Control(Box<ControlRequest>, Sender<ControlResponse>),
    Successor(Result<ReadyNotice, String>),
    PredecessorEnded,
    HtaccessChanged,
}

/// Why serving ends.
enum ServeEnd {
    /// The server stops.
    Stop,
    /// Another process continues.
    HandedOver(ReadyNotice),
}

/// The running server.
pub struct Running {
    parts: Parts,
    control: Option<Control>,
    upgrade: Option<Upgrade>,
    events: Sender<Event>,
    received: Receiver<Event>,
    began: Instant,
    reloads: u64,
    htaccess: Option<htaccess::HtaccessWatch>,
}

impl Running {
    /// A server whose cores accept.
    pub fn new(parts: Parts) -> Running {
        let (events, received) = channel();
        let (control, upgrade, htaccess, began) = (None, None, None, Instant::now());
        Running { parts, control, upgrade, events, received, began, reloads: 0, htaccess }
    }

    /// Handles signals and control requests until the end.
    pub fn serve(
        mut self,
        mut signals: Signals,
        control: Option<ControlListener>,
        predecessor: Option<Predecessor>,
    ) -> io::Result<()> {
        let events = self.events.clone();
        std::thread::Builder::new().name("signals".to_string()).spawn(move || {
            for signal in signals.forever() {
                if events.send(Event::Signal(signal)).is_err() {
                    break;
                }
            }
        })?;
        if let Some(listener) = control {
            let events = self.events.clone();
            let take = move |request, reply| drop(events.send(Event::Request(request, reply)));
            self.control = Some(listener.start(take)?);
        }
        if let Some(predecessor) = predecessor {
            let events = self.events.clone();
            let wait = move || {
                predecessor.wait_for_end();
                drop(events.send(Event::PredecessorEnded));
            };
            std::thread::Builder::new().name("predecessor".to_string()).spawn(wait)?;
        }
        self.parts.view.control_by(control::by_events(self.events.clone()));
        self.watch_htaccess();
        self.start_watchdog()?;
        self.announce();
        self.parts.acme.apply_config(&self.parts.snapshot.config);
        self.notify(&Notice::Ready(&self.status_line()));
        match self.run_until_end() {
            ServeEnd::Stop => self.stop(),
            ServeEnd::HandedOver(ready) => self.leave_to_successor(&ready),
        }
    }

    /// Logs the addresses of the server, once all of them are ready; scripts and tests wait for these lines.
    fn announce(&self) {
        for sites in &self.parts.snapshot.listeners {
            let bound = self.parts.listening.bound().filter(|(configured, _)| *configured == sites.address);
            for (_, bound) in bound {
                self.parts.error_log.info(format_args!("listening on {}://{bound}", scheme(sites)));
            }
        }
        for (name, address) in self.stream_addresses() {
            self.parts.error_log.info(format_args!("listening on {address} for stream {name}"));
        }
    }

    /// The addresses of streams as URLs, each with the stream's name.
    fn stream_addresses(&self) -> Vec<(String, String)> {
        let parts = &self.parts;
        let of_stream = |stream: &touchstone_config::StreamConfig| {
            let scheme = stream.protocol();
            let bound: Vec<(ListenAddress, ListenAddress)> = match stream.is_udp {
                true => parts.datagrams.bound().map(|(from, bound)| (from.into(), bound.into())).collect(),
                false => parts.listening.bound().collect(),
            };
            let is_its = |(configured, _): &(_, _)| stream.listen.contains(configured);
            let urls = bound.into_iter().filter(is_its).map(|(_, bound)| format!("{scheme}://{bound}"));
            urls.map(|url| (stream.name.clone(), url)).collect::<Vec<_>>()
        };
        parts.snapshot.config.streams.iter().flat_map(of_stream).collect()
    }

    fn run_until_end(&mut self) -> ServeEnd {
        loop {
            // This object holds a sender, so the channel does not end.
            let Ok(event) = self.received.recv() else { return ServeEnd::Stop };
            match event {
                Event::Signal(SIGHUP) => drop(self.reload("SIGHUP")),
                Event::Signal(SIGUSR1) => drop(self.reopen_logs()),
                Event::Signal(SIGUSR2) => self.begin_upgrade(None, None),
                Event::Signal(_) => return ServeEnd::Stop,
                Event::Request(Request::Reload, reply) => reply.send(self.reload("touchstone reload")),
                Event::Request(Request::ReopenLogs, reply) => reply.send(self.reopen_logs()),
                Event::Request(Request::Status, reply) => reply.send(self.status()),
                Event::Request(Request::Purge(order), reply) => reply.send(self.purge(&order)),
                Event::Request(Request::Upgrade(program), reply) => self.begin_upgrade(program, Some(reply)),
                Event::Request(Request::Stop, reply) => {
                    reply.send(Answer {
                        facts: self.facts(),
                        ..Answer::done("stopping: active requests are finished")
                    });
                    return ServeEnd::Stop;
                }
                Event::Control(request, reply) => drop(reply.send(self.control(&request))),
                Event::Successor(Ok(ready)) => return ServeEnd::HandedOver(ready),
                Event::Successor(Err(reason)) => self.upgrade_failed(&reason),
                Event::PredecessorEnded => self.begin_http3(),
                Event::HtaccessChanged => self.htaccess_changed(),
            }
        }
    }

    /// Removes responses from the cache.
    fn purge(&self, order: &PurgeRequest) -> Answer {
        let Some(purged) = self.parts.view.purge(order) else {
            return Answer::refused("no route of this server has a cache", Vec::new());
        };
        let message =
            format!("{purged} stored responses {}", if order.is_soft { "made stale" } else { "purged" });
        Answer { facts: serde_json::json!({ "purged": purged }), ..Answer::done(message) }
    }

    fn stop(mut self) -> io::Result<()> {
        if let Some(upgrade) = self.upgrade.take() {
            upgrade.successor.end();
            self.parts.error_log.warning("upgrade: cancelled, because the server is being stopped");
        }
        self.notify(&Notice::Stopping);
        self.parts.error_log.info("stopping: active requests are finished");
        if let Some(control) = self.control.take() {
            control.remove();
        }
        self.parts.listening.remove_files(&[]);
        self.order_to_drain(Drain { left: Arc::from([]), patient: false });
        let file = self.parts.pid_file.take();
        let result = self.finish();
        if let Some(file) = file {
            file.remove();
        }
        result
    }

    /// Orders every core to drain. Closes the sockets that this thread holds, so that only the cores hold
    /// them.
    fn order_to_drain(&mut self, departure: Drain) {
        self.parts.metrics.begin_drain();
        self.parts.listening = Listening::default();
        self.parts.datagrams = DatagramSockets::inheriting(1, Vec::new());
        for core in &self.parts.cores {
            let _ = core.orders.send(CoreOrder::Drain(departure.clone()));
        }
    }

    /// Waits for the cores to end, and closes the logs.
    fn finish(mut self) -> io::Result<()> {
        // A client of the control socket that still waits gets no answer; this closes its channel at once.
        drop((self.received, self.events));
        let mut result = Ok(());
        for core in self.parts.cores {
            match core.thread.join() {
                Ok(ended) => result = result.and(ended),
                Err(_) => result = Err(io::Error::other("a core panicked")),
            }
        }
        // Their requests are done; no process of a program may remain.
        self.parts.shared.services.stop();
        self.parts.telemetry.finish();
        self.parts.access_log.finish();
        if let Some(logs) = &self.parts.snapshot.logs {
            logs.finish();
        }
        self.parts.snapshot.streams.iter().for_each(|stream| stream.finish_log());
        self.parts.error_log.info("stopped");
        result
    }

    fn notify(&self, notice: &Notice<'_>) {
        if let Err(error) = self.parts.notifier.send(notice) {
            self.parts.error_log.warning(format_args!("systemd cannot be notified: {error}"));
        }
    }

    fn status_line(&self) -> String {
        let cores = self.parts.cores.len();
        let bound: Vec<String> = self.parts.listening.bound().map(|(_, bound)| bound.to_string()).collect();
        format!("{cores} cores serve {}", bound.join(", "))
    }

    fn status(&self) -> Answer {
        Answer { facts: self.facts(), ..Answer::done(self.status_line()) }
    }

    fn facts(&self) -> serde_json::Value {
        let parts = &self.parts;
        let uptime = self.began.elapsed();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        json!({
            "process": std::process::id(),
            "version": env!("CARGO_PKG_VERSION"),
            "config_file": parts.config_file.as_ref().map(|file| file.to_string_lossy()),
            "started_unix_s": now.saturating_sub(uptime).as_secs(),
            "uptime_s": uptime.as_secs(),
            "cores": parts.cores.len(),
            "connections": parts.connections.open(),
            "listening": parts.listening.bound().map(|(_, bound)| bound.to_string()).collect::<Vec<_>>(),
            "listening_udp": parts.datagrams.bound().map(|(_, bound)| bound.to_string()).collect::<Vec<_>>(),
            "sites": parts.snapshot.config.sites.len(),
            "streams": touchstone_admin::streams_json(&stream_totals(parts.metrics.counts())),
            "origins": touchstone_admin::origins_json(&origin_totals(parts.metrics.origins())),
            "servlets": parts.metrics.servlets().status(),
            "python": parts.metrics.python().status(),
            "components": touchstone_admin::components_json(&component_totals(parts.metrics.counts())),
            "reloads": self.reloads,
            "user": rustix::process::geteuid().as_raw(),
            "drain_timeout_s": parts.snapshot.config.server.drain_timeout.as_secs(),
            "upgrade_under_way": self.upgrade.is_some(),
        })
    }

    /// Notifies systemd that all cores respond, while they do, if its watchdog is on.
    fn start_watchdog(&self) -> io::Result<()> {
        let Some(interval) = systemd::watchdog_interval().filter(|_| self.parts.notifier.is_heard()) else {
            return Ok(());
        };
        let notifier = Arc::downgrade(&self.parts.notifier);
        let (heartbeat, error_log) = (self.parts.heartbeat.clone(), self.parts.error_log.clone());
        let watch = move || {
            // Half of the interval, as sd_watchdog_enabled(3) advises. The thread ends with the server.
            while let Some(notifier) = notifier.upgrade() {
                match heartbeat.silent(interval) {
                    None => drop(notifier.send(&Notice::Watchdog)),
                    Some(core) => error_log.error(format_args!(
                        "core {core} has not responded for {interval:?}; systemd's watchdog is not notified"
                    )),
                }
                drop(notifier);
                std::thread::sleep(interval / 2);
            }
        };
        std::thread::Builder::new().name("watchdog".to_string()).spawn(watch).map(drop)
    }
}
