//! The server at work: one thread that hears signals and the control socket, and reloads, upgrades and stops.
//!
//! Everything that changes the server happens on this thread, one thing after another; the cores are told by orders.
//! What takes long (a new process that gets ready) waits on a thread of its own and comes back as an event.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::accelerator::purge::PurgeOrder;
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use tokio::sync::mpsc::UnboundedSender;
use touchstone_accelerator::layer::Accelerator;

use crate::access::AccessShared;
use crate::acme::AcmeManager;
use crate::admin::Admin;
use crate::config::{self, Config};
use crate::control::{Answer, Control, ControlListener, Reply, Request};
use crate::core::Connections;
use crate::core_loop::{Departure, Order};
use crate::handover::{Predecessor, Ready, Successor, own_program};
use crate::heartbeat::Heartbeat;
use crate::http3;
use crate::listening::{Listening, addresses};
use crate::log::access::AccessLog;
use crate::log::error::ErrorLog;
use crate::metrics::Metrics;
use crate::operator_view::OperatorView;
use crate::pid_file::PidFile;
use crate::site::{Snapshot, scheme};
use crate::systemd::{self, Notice, Notifier};
use crate::tls::TlsShared;
use crate::{programs, servlet};

/// How long cores may take to begin with a new configuration before the answer goes out without their word.
const RELOAD_PATIENCE: Duration = Duration::from_secs(10);

/// A core and the way to it.
pub struct RunningCore {
    /// What it is told.
    pub orders: UnboundedSender<Order>,
    /// Its thread.
    pub thread: JoinHandle<io::Result<()>>,
}

/// What a running server is made of.
pub struct Parts {
    /// The cores, which accept.
    pub cores: Vec<RunningCore>,
    /// Every address.
    pub listening: Listening,
    /// Sockets of HTTP/3.
    pub http3: http3::Sockets,
    /// The configuration.
    pub snapshot: Arc<Snapshot>,
    /// What outlives a configuration of TLS.
    pub tls: Arc<TlsShared>,
    /// What outlives a configuration of the access rules.
    pub access: Arc<AccessShared>,
    /// The cache before programs and origins.
    pub accelerator: Arc<Accelerator>,
    /// The way to certificates of authorities.
    pub acme: AcmeManager,
    /// The admin listener.
    pub admin: Admin,
    /// What it sees.
    pub view: Arc<OperatorView>,
    /// The counts.
    pub metrics: Arc<Metrics>,
    /// The access log.
    pub access_log: AccessLog,
    /// The error log.
    pub error_log: ErrorLog,
    /// Read again on a reload.
    pub config_file: Option<PathBuf>,
    /// The way to systemd.
    pub notifier: Arc<Notifier>,
    /// The file with our number.
    pub pid_file: Option<PidFile>,
    /// The connections of all cores.
    pub connections: Arc<Connections>,
    /// Signs of life of the cores.
    pub heartbeat: Arc<Heartbeat>,
}

/// What the main thread hears.
enum Event {
    Signal(i32),
    Request(Request, Reply),
    Successor(Result<Ready, String>),
    PredecessorGone,
}

/// How serving ends.
enum End {
    /// Stop.
    Stop,
    /// Another process goes on.
    HandedOver(Ready),
}

/// The server at work.
pub struct Running {
    parts: Parts,
    control: Option<Control>,
    upgrade: Option<Upgrade>,
    events: Sender<Event>,
    received: Receiver<Event>,
    began: Instant,
    reloads: u64,
}

/// A new process that is getting ready.
struct Upgrade {
    successor: Arc<Successor>,
    /// Who wants to know what comes of it.
    replies: Vec<Reply>,
}

impl Running {
    /// A server whose cores accept.
    pub fn new(parts: Parts) -> Running {
        let (events, received) = channel();
        Running { parts, control: None, upgrade: None, events, received, began: Instant::now(), reloads: 0 }
    }

    /// Does what signals and the control socket ask, until the end.
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
                drop(events.send(Event::PredecessorGone));
            };
            std::thread::Builder::new().name("predecessor".to_string()).spawn(wait)?;
        }
        self.start_watchdog()?;
        self.parts.acme.take_up(&self.parts.snapshot.config);
        self.tell(&Notice::Ready(&self.status_line()));
        match self.hear() {
            End::Stop => self.stop(),
            End::HandedOver(ready) => self.leave_to_successor(&ready),
        }
    }

    fn hear(&mut self) -> End {
        loop {
            // This object holds a sender, so the channel does not end.
            let Ok(event) = self.received.recv() else { return End::Stop };
            match event {
                Event::Signal(SIGHUP) => drop(self.reload("SIGHUP")),
                Event::Signal(SIGUSR1) => drop(self.reopen_logs()),
                Event::Signal(SIGUSR2) => self.begin_upgrade(None, None),
                Event::Signal(_) => return End::Stop,
                Event::Request(Request::Reload, reply) => reply.send(self.reload("touchstone reload")),
                Event::Request(Request::ReopenLogs, reply) => reply.send(self.reopen_logs()),
                Event::Request(Request::Status, reply) => reply.send(self.status()),
                Event::Request(Request::Purge(order), reply) => reply.send(self.purge(&order)),
                Event::Request(Request::Upgrade(program), reply) => self.begin_upgrade(program, Some(reply)),
                Event::Request(Request::Stop, reply) => {
                    reply.send(Answer {
                        facts: self.facts(),
                        ..Answer::done("stopping: requests under way are finished")
                    });
                    return End::Stop;
                }
                Event::Successor(Ok(ready)) => return End::HandedOver(ready),
                Event::Successor(Err(reason)) => self.upgrade_failed(&reason),
                Event::PredecessorGone => self.begin_http3(),
            }
        }
    }

    /// Takes something out of the cache.
    fn purge(&self, order: &PurgeOrder) -> Answer {
        let Some(purged) = self.parts.view.purge(order) else {
            return Answer::refused("no route of this server has a cache", Vec::new());
        };
        let message =
            format!("{purged} stored responses {}", if order.is_soft { "made stale" } else { "purged" });
        Answer { facts: serde_json::json!({ "purged": purged }), ..Answer::done(message) }
    }

    // --- reload ------------------------------------------------------------------------------------------------------

    /// Takes up the configuration file as it is now, or keeps everything as it was and says why.
    fn reload(&mut self, asked_by: &str) -> Answer {
        let Some(file) = self.parts.config_file.clone() else {
            let message = format!("{asked_by}: there is no configuration file to read again");
            self.parts.error_log.warning(&message);
            return Answer::refused(message, Vec::new());
        };
        self.tell(&Notice::Reloading);
        let answer = match self.try_reload(&file) {
            Ok(()) => {
                self.reloads += 1;
                let message = format!("configuration {} taken up", file.display());
                self.parts.error_log.info(&message);
                Answer { facts: self.facts(), ..Answer::done(message) }
            }
            Err(problems) => {
                for problem in &problems {
                    self.parts.error_log.error(problem);
                }
                self.parts.metrics.reload_failed();
                let message = "the configuration was not taken up; the one before stays";
                self.parts.error_log.error(message);
                Answer::refused(message, problems)
            }
        };
        let outcome = if answer.ok { "" } else { "; the last reload was refused, see the error log" };
        self.tell(&Notice::Ready(&format!("{}{outcome}", self.status_line())));
        answer
    }

    fn try_reload(&mut self, file: &Path) -> Result<(), Vec<String>> {
        let texts = |problems: Vec<config::ConfigProblem>| problems.iter().map(ToString::to_string).collect();
        let config::Loaded { config, places } = config::load_file(file).map_err(texts)?;
        let problems = config::check_surroundings(&config, &places);
        if !problems.is_empty() {
            return Err(texts(problems));
        }
        let parts = &mut self.parts;
        for key in fixed_keys_that_differ(&config, &parts.snapshot.config) {
            parts
                .error_log
                .warning(format_args!("{key} changes only when the server is started anew or upgraded"));
        }
        let log_problem = |error: io::Error| vec![error.to_string()];
        let snapshot = Snapshot::open(
            config,
            &parts.tls,
            &parts.access,
            &parts.accelerator,
            parts.acme.http_challenges(),
            &parts.error_log,
        )
        .map_err(|unusable| vec![unusable.0])?;
        let snapshot = Arc::new(snapshot);
        let wanted = addresses(&snapshot.config);
        let added = parts.listening.prepare(&wanted, parts.cores.len()).map_err(|error| vec![error.0])?;
        let bound: Vec<_> = parts.listening.bound().chain(added.addresses()).collect();
        let bound_of =
            |wanted| bound.iter().find(|(known, _)| *known == wanted).map_or(wanted, |(_, bound)| *bound);
        let http3 =
            parts.http3.open(&snapshot, bound_of, &parts.error_log).map_err(|problem| vec![problem])?;
        parts.admin.reconfigure(&snapshot.config.admin).map_err(|problem| vec![problem])?;
        if snapshot.config.access_log != parts.snapshot.config.access_log {
            parts.access_log.reconfigure(&snapshot.config.access_log).map_err(log_problem)?;
        }
        if snapshot.config.error_log != parts.snapshot.config.error_log {
            parts.error_log.reconfigure(&snapshot.config.error_log).map_err(log_problem)?;
        }
        for (configured, bound) in added.addresses() {
            let sites = snapshot.listeners.iter().find(|sites| sites.address == configured);
            let scheme = sites.map_or("http", scheme);
            parts.error_log.info(format_args!("listening on {scheme}://{bound}"));
            parts.view.add_listener(configured, bound);
        }
        let shares = parts.listening.take_up(added, &wanted);
        let (done, all_done) = channel();
        let http3_shares = parts.http3.take_up(http3);
        parts.metrics.reload_taken_up();
        for ((core, listeners), sockets) in parts.cores.iter().zip(shares).zip(http3_shares) {
            // A core that has ended is reported when the server stops.
            let _ = core.orders.send(Order::Reload(snapshot.clone(), listeners, sockets, done.clone()));
        }
        drop(done);
        parts.view.show(&snapshot);
        parts.acme.take_up(&snapshot.config);
        let mut old = vec![std::mem::replace(&mut parts.snapshot, snapshot)];
        old.extend(wait_for_all(&all_done, parts.cores.len()));
        // The last holder waits for the watcher of files, which is not worth anybody's wait.
        let _ = std::thread::Builder::new().name("old snapshot".to_string()).spawn(move || drop(old));
        Ok(())
    }

    /// Opens the log files again.
    fn reopen_logs(&self) -> Answer {
        self.parts.access_log.reopen();
        match self.parts.error_log.reopen() {
            Ok(()) => {
                self.parts.error_log.info("logs opened again");
                Answer::done("logs opened again")
            }
            Err(error) => {
                let message = format!("the error log stays as it was: {error}");
                self.parts.error_log.error(&message);
                Answer::refused(message, Vec::new())
            }
        }
    }

    // --- upgrade -----------------------------------------------------------------------------------------------------

    /// Starts the new process; what comes of it comes as an event.
    fn begin_upgrade(&mut self, program: Option<PathBuf>, reply: Option<Reply>) {
        if let Some(upgrade) = &self.upgrade {
            let process = upgrade.successor.process();
            let message = format!("an upgrade is under way: process {process} is getting ready");
            self.parts.error_log.warning(&message);
            return reply.into_iter().for_each(|reply| reply.send(Answer::refused(&message, Vec::new())));
        }
        let replies: Vec<Reply> = reply.into_iter().collect();
        match self.start_successor(program) {
            Ok(successor) => {
                let program = successor.program().display();
                let process = successor.process();
                self.parts
                    .error_log
                    .info(format_args!("upgrade: '{program}' is started as process {process}"));
                self.upgrade = Some(Upgrade { successor, replies });
            }
            Err(reason) => self.refuse_upgrade(&reason, replies),
        }
    }

    fn start_successor(&self, program: Option<PathBuf>) -> Result<Arc<Successor>, String> {
        let own =
            || own_program().map_err(|error| format!("the program of this process is not found: {error}"));
        let program = program.map_or_else(own, Ok)?;
        let told = |error: io::Error| format!("the sockets cannot be handed over: {error}");
        let mut sockets = self.parts.listening.to_pass().map_err(told)?;
        sockets.extend(self.parts.http3.to_pass().map_err(told)?);
        if let Some(control) = &self.control {
            sockets.push(control.to_pass().map_err(told)?);
        }
        self.tell(&Notice::Status("Starting the process that is to take over"));
        let successor = Arc::new(Successor::start(&program, sockets)?);
        let (waiting, events) = (successor.clone(), self.events.clone());
        let most = self.parts.snapshot.config.server.upgrade_timeout;
        let wait = move || drop(events.send(Event::Successor(waiting.wait_until_ready(most))));
        match std::thread::Builder::new().name("upgrade".to_string()).spawn(wait) {
            Ok(_) => Ok(successor),
            Err(error) => {
                successor.end();
                Err(format!("no thread can be started to wait for the new process: {error}"))
            }
        }
    }

    fn upgrade_failed(&mut self, reason: &str) {
        let replies = self.upgrade.take().map_or_else(Vec::new, |upgrade| upgrade.replies);
        self.refuse_upgrade(reason, replies);
    }

    fn refuse_upgrade(&self, reason: &str, replies: Vec<Reply>) {
        self.parts.error_log.error(format_args!("upgrade: {reason}"));
        let message = "the upgrade failed; this process goes on";
        self.parts.error_log.error(message);
        let status = format!("{}; the last upgrade failed, see the error log", self.status_line());
        self.tell(&Notice::Ready(&status));
        for reply in replies {
            reply.send(Answer::refused(message, vec![reason.to_string()]));
        }
    }

    /// The new process accepts: lets go of what it has taken, and finishes the rest.
    fn leave_to_successor(mut self, ready: &Ready) -> io::Result<()> {
        let Some(Upgrade { successor, replies }) = self.upgrade.take() else { return self.stop() };
        let process = successor.process();
        self.parts.error_log.info(format_args!(
            "process {process} has taken over; requests and connections of this one are finished"
        ));
        // The new process speaks to systemd once it is told to go on; until then only the main process is heard.
        self.tell(&Notice::MainProcess(process));
        self.parts.notifier.fall_silent();
        if let Some(control) = self.control.take() {
            control.leave();
        }
        // They are the new process's now.
        self.parts.pid_file = None;
        self.parts.admin.end();
        self.order_to_drain(Departure { left: ready.taken.clone().into(), patient: true });
        // Should it be gone by now, nobody is left to go on; its end is in its own log.
        let _ = successor.go();
        for reply in replies {
            let mut answer = Answer::done(format!("process {process} has taken over"));
            answer.facts = json!({ "process": process, "program": successor.program().to_string_lossy() });
            reply.send(answer);
        }
        self.finish()
    }

    /// The process before has ended, and with it its connections of HTTP/3: the sockets are ours alone.
    fn begin_http3(&mut self) {
        let parts = &mut self.parts;
        parts.http3.go_on();
        let listening = &parts.listening;
        match parts.http3.open(&parts.snapshot, |address| listening.bound_of(address), &parts.error_log) {
            Ok(opened) => {
                for (core, sockets) in parts.cores.iter().zip(parts.http3.take_up(opened)) {
                    let _ = core.orders.send(Order::Http3(sockets));
                }
            }
            Err(problem) => parts.error_log.error(format_args!("no HTTP/3 until the next start: {problem}")),
        }
    }

    // --- stop --------------------------------------------------------------------------------------------------------

    fn stop(mut self) -> io::Result<()> {
        if let Some(upgrade) = self.upgrade.take() {
            upgrade.successor.end();
            self.parts.error_log.warning("upgrade: given up, because the server is being stopped");
        }
        self.tell(&Notice::Stopping);
        self.parts.error_log.info("stopping: requests under way are finished");
        if let Some(control) = self.control.take() {
            control.remove();
        }
        self.order_to_drain(Departure { left: Arc::from([]), patient: false });
        let file = self.parts.pid_file.take();
        let result = self.finish();
        if let Some(file) = file {
            file.remove();
        }
        result
    }

    /// Tells every core. The sockets that this thread holds are closed, so that the cores' own decide.
    fn order_to_drain(&mut self, departure: Departure) {
        self.parts.metrics.begin_drain();
        self.parts.listening = Listening::default();
        for core in &self.parts.cores {
            let _ = core.orders.send(Order::Drain(departure.clone()));
        }
    }

    /// Waits for the cores, and closes the logs.
    fn finish(self) -> io::Result<()> {
        // Who has asked for something since gets no answer from this process: not to wait for one is an answer.
        drop((self.received, self.events));
        let mut result = Ok(());
        for core in self.parts.cores {
            match core.thread.join() {
                Ok(ended) => result = result.and(ended),
                Err(_) => result = Err(io::Error::other("a core panicked")),
            }
        }
        // Their requests are done; nobody is to be left behind.
        programs::stop_pools();
        servlet::stop();
        self.parts.access_log.finish();
        self.parts.error_log.info("stopped");
        result
    }

    // --- telling -----------------------------------------------------------------------------------------------------

    fn tell(&self, notice: &Notice<'_>) {
        if let Err(error) = self.parts.notifier.send(notice) {
            self.parts.error_log.warning(format_args!("systemd cannot be told: {error}"));
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
            "sites": parts.snapshot.config.sites.len(),
            "origins": crate::admin::origins_json(&crate::metrics::origin_totals()),
            "reloads": self.reloads,
            "user": rustix::process::geteuid().as_raw(),
            "drain_timeout_s": parts.snapshot.config.server.drain_timeout.as_secs(),
            "upgrade_under_way": self.upgrade.is_some(),
        })
    }

    /// Tells systemd that every core is alive, as long as that is so, if it wants to know.
    fn start_watchdog(&self) -> io::Result<()> {
        let Some(interval) = systemd::watchdog_interval().filter(|_| self.parts.notifier.is_heard()) else {
            return Ok(());
        };
        let notifier = Arc::downgrade(&self.parts.notifier);
        let (heartbeat, error_log) = (self.parts.heartbeat.clone(), self.parts.error_log.clone());
        let watch = move || {
            // Half of the interval, as sd_watchdog_enabled(3) asks for. With the server this ends too.
            while let Some(notifier) = notifier.upgrade() {
                match heartbeat.silent(interval) {
                    None => drop(notifier.send(&Notice::Watchdog)),
                    Some(core) => error_log.error(format_args!(
                        "core {core} has shown no sign of life for {interval:?}; systemd's watchdog is not told otherwise"
                    )),
                }
                drop(notifier);
                std::thread::sleep(interval / 2);
            }
        };
        std::thread::Builder::new().name("watchdog".to_string()).spawn(watch).map(drop)
    }
}

/// The keys that differ and do not follow a reload.
fn fixed_keys_that_differ(new: &Config, old: &Config) -> Vec<&'static str> {
    let ((server, accelerator), (old_server, old_accelerator)) =
        ((&new.server, &new.accelerator), (&old.server, &old.accelerator));
    let table = [
        ("server.cores", server.cores != old_server.cores),
        ("server.pin_cores", server.pin_cores != old_server.pin_cores),
        ("server.pid_file", server.pid_file != old_server.pid_file),
        ("server.control_socket", server.control_socket != old_server.control_socket),
        ("server.user", server.user != old_server.user),
        ("server.group", server.group != old_server.group),
        ("server.supplementary_groups", server.supplementary_groups != old_server.supplementary_groups),
        ("server.umask", server.umask != old_server.umask),
        ("server.no_new_privileges", server.no_new_privileges != old_server.no_new_privileges),
        ("accelerator.disk", accelerator.disk != old_accelerator.disk),
        ("accelerator.disk_size", accelerator.disk_bytes != old_accelerator.disk_bytes),
    ];
    table.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
}

/// Waits until so many have given back what they had before, or nobody is left who could.
fn wait_for_all(done: &Receiver<Arc<Snapshot>>, count: usize) -> Vec<Arc<Snapshot>> {
    let until = Instant::now() + RELOAD_PATIENCE;
    let next = || done.recv_timeout(until.saturating_duration_since(Instant::now())).ok();
    std::iter::from_fn(next).take(count).collect()
}
