//! The process: starts the cores, waits for signals, reloads, stops.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::access::AccessShared;
use crate::acme::AcmeManager;
use crate::admin::Admin;
use crate::config::{self, Config, LogLevel};
use crate::core::Connections;
use crate::core_loop::{self, CoreSeed, Order};
use crate::http3;
use crate::listener;
use crate::log::access::AccessLog;
use crate::log::error::ErrorLog;
use crate::metrics::Metrics;
use crate::operator_view::OperatorView;
use crate::programs;
use crate::site::{ListenerSites, Snapshot};
use crate::tls::TlsShared;

/// Why the server cannot start: one line for the operator.
#[derive(Debug)]
pub struct StartError(pub String);

impl std::fmt::Display for StartError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

/// A server that holds all it needs and has answered nobody yet.
pub struct Server {
    snapshot: Arc<Snapshot>,
    tls: Arc<TlsShared>,
    access: Arc<AccessShared>,
    acme: AcmeManager,
    /// Read again on SIGHUP.
    config_file: Option<PathBuf>,
    access_log: AccessLog,
    error_log: ErrorLog,
    cores: usize,
    /// For each configured address: where it really listens, and one socket a core.
    listeners: Vec<(SocketAddr, SocketAddr, Vec<TcpListener>)>,
    /// Sockets of HTTP/3, and those of each core.
    http3: (http3::Sockets, Vec<http3::CoreSockets>),
    signals: Signals,
    view: Arc<OperatorView>,
    metrics: Arc<Metrics>,
    admin: Admin,
}

impl Server {
    /// Opens roots, logs and listeners. Nothing is served before [`Server::run`].
    pub fn bind(config: Config, config_file: Option<PathBuf>) -> Result<Server, StartError> {
        // What was started for a configuration that cannot be served ends before the process does.
        Server::open(config, config_file).inspect_err(|_| programs::stop_pools())
    }

    fn open(config: Config, config_file: Option<PathBuf>) -> Result<Server, StartError> {
        // Before any thread starts: a signal that comes early must not end the process in the default way.
        let signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1])
            .map_err(|error| StartError(format!("cannot watch for signals: {error}")))?;
        let error_log = ErrorLog::start(&config.error_log).map_err(|error| StartError(error.to_string()))?;
        programs::log_pools_to(&error_log);
        let cores = core_count(&config);
        let access_log = {
            let error_log = error_log.clone();
            AccessLog::start(&config.access_log, Box::new(move |problem| error_log.error(problem)))
                .map_err(|error| StartError(error.to_string()))?
        };
        let tls = TlsShared::new();
        let access = {
            let error_log = error_log.clone();
            AccessShared::new(Box::new(move |problem| {
                error_log.limited(LogLevel::Warning, "password file", problem);
            }))
        };
        let acme = AcmeManager::new(tls.clone(), error_log.clone());
        let snapshot = Snapshot::open(config, &tls, &access, acme.http_challenges(), &error_log)
            .map_err(|unusable| StartError(unusable.0))?;
        let snapshot = Arc::new(snapshot);
        if let Some(problem) = &snapshot.watcher_problem {
            error_log.warning(format_args!(
                "changes on disk are found once a second by comparison, not at once: {problem}"
            ));
        }
        let listeners = snapshot
            .listeners
            .iter()
            .map(|sites| bind(sites.address, cores))
            .collect::<Result<Vec<_>, StartError>>()?;
        let mut http3 = http3::Sockets::new(cores).map_err(|problem| StartError(problem.to_string()))?;
        let bound = bound_addresses(&listeners);
        let opened = http3.open(&snapshot, |address| bound_address(&bound, address), &error_log);
        let http3_shares = http3.take_up(opened.map_err(StartError)?);
        raise_descriptor_limit(&error_log, snapshot.config.limits.connections);
        let metrics = Metrics::new(access_log.lost_lines_count());
        let view = OperatorView::new(metrics.clone());
        let admin = Admin::start(&snapshot.config.admin, view.sources(cores), error_log.clone())
            .map_err(StartError)?;
        Ok(Server {
            snapshot,
            tls,
            access,
            acme,
            config_file,
            access_log,
            error_log,
            cores,
            listeners,
            http3: (http3, http3_shares),
            signals,
            view,
            metrics,
            admin,
        })
    }

    /// The addresses that it really listens on.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().map(|(_, bound, _)| *bound).collect()
    }

    /// Serves until SIGTERM or SIGINT, then finishes what was begun.
    pub fn run(self) -> io::Result<()> {
        let Server {
            snapshot,
            tls,
            access,
            acme,
            config_file,
            access_log,
            error_log,
            cores,
            listeners,
            http3: (http3, mut http3_shares),
            mut signals,
            view,
            metrics,
            admin,
        } = self;
        let mut running = Running {
            cores: Vec::new(),
            addresses: bound_addresses(&listeners),
            http3,
            snapshot: snapshot.clone(),
            tls,
            access,
            acme,
            error_log: error_log.clone(),
            view,
            metrics: metrics.clone(),
            admin,
        };
        for (sites, (configured, bound, _)) in snapshot.listeners.iter().zip(&listeners) {
            running.view.add_listener(*configured, *bound);
            error_log.info(format_args!("listening on {}://{bound}", scheme(sites)));
        }
        let mut shares =
            shares(listeners.into_iter().map(|(configured, _, sockets)| (configured, sockets)), cores);
        let connections = Arc::new(Connections::default());
        for index in (0..cores).rev() {
            let (orders, received) = unbounded_channel();
            let seed = CoreSeed {
                index,
                snapshot: snapshot.clone(),
                listeners: shares.pop().unwrap_or_default(),
                http3_sockets: http3_shares.pop().unwrap_or_default(),
                http3_secrets: (running.http3.secrets.clone(), cores),
                access_log: access_log.core_buffer(),
                error_log: error_log.clone(),
                orders: received,
                connections: connections.clone(),
                metrics: metrics.clone(),
            };
            running.view.add_core(orders.clone());
            running.cores.push((orders, spawn_core(seed, &snapshot.config)?));
        }
        running.view.show(&snapshot);
        drop(snapshot);
        running.acme.take_up(&running.snapshot.config);
        for signal in signals.forever() {
            match signal {
                SIGHUP => running.reload(config_file.as_deref(), &access_log),
                SIGUSR1 => {
                    access_log.reopen();
                    match error_log.reopen() {
                        Ok(()) => error_log.info("logs opened again"),
                        Err(error) => error_log.error(format_args!("the error log stays as it was: {error}")),
                    }
                }
                _ => break,
            }
        }
        let result = running.stop();
        // Their requests are done; nobody is to be left behind.
        programs::stop_pools();
        access_log.finish();
        error_log.info("stopped");
        result
    }
}

/// The cores at work.
struct Running {
    cores: Vec<(UnboundedSender<Order>, JoinHandle<io::Result<()>>)>,
    /// As configured, and where it really listens.
    addresses: Vec<(SocketAddr, SocketAddr)>,
    http3: http3::Sockets,
    snapshot: Arc<Snapshot>,
    tls: Arc<TlsShared>,
    access: Arc<AccessShared>,
    acme: AcmeManager,
    error_log: ErrorLog,
    view: Arc<OperatorView>,
    metrics: Arc<Metrics>,
    admin: Admin,
}

impl Running {
    /// Takes up the configuration file as it is now, or keeps everything as it was and says why.
    fn reload(&mut self, config_file: Option<&Path>, access_log: &AccessLog) {
        let Some(file) = config_file else {
            self.error_log.warning("SIGHUP: there is no configuration file to read again");
            return;
        };
        match self.try_reload(file, access_log) {
            Ok(()) => self.error_log.info(format_args!("configuration {} taken up", file.display())),
            Err(problems) => {
                for problem in problems {
                    self.error_log.error(problem);
                }
                self.metrics.reload_failed();
                self.error_log.error("the configuration was not taken up; the one before stays");
            }
        }
    }

    fn try_reload(&mut self, file: &Path, access_log: &AccessLog) -> Result<(), Vec<String>> {
        let texts = |problems: Vec<config::ConfigProblem>| problems.iter().map(ToString::to_string).collect();
        let config::Loaded { config, places } = config::load_file(file).map_err(texts)?;
        let problems = config::check_surroundings(&config, &places);
        if !problems.is_empty() {
            return Err(texts(problems));
        }
        if config.server.cores != self.snapshot.config.server.cores
            || config.server.pin_cores != self.snapshot.config.server.pin_cores
        {
            self.error_log
                .warning("server.cores and server.pin_cores change only when the server is started anew");
        }
        let log_problem = |error: io::Error| vec![error.to_string()];
        let snapshot =
            Snapshot::open(config, &self.tls, &self.access, self.acme.http_challenges(), &self.error_log)
                .map_err(|unusable| vec![unusable.0])?;
        let snapshot = Arc::new(snapshot);
        let mut added = Vec::new();
        let mut addresses = self.addresses.clone();
        let is_new =
            |sites: &&ListenerSites| !self.addresses.iter().any(|(known, _)| *known == sites.address);
        for sites in snapshot.listeners.iter().filter(is_new) {
            let (configured, bound, sockets) =
                bind(sites.address, self.cores.len()).map_err(|error| vec![error.0])?;
            self.error_log.info(format_args!("listening on {}://{bound}", scheme(sites)));
            self.view.add_listener(configured, bound);
            addresses.push((configured, bound));
            added.push((configured, sockets));
        }
        let http3 = self
            .http3
            .open(&snapshot, |address| bound_address(&addresses, address), &self.error_log)
            .map_err(|problem| vec![problem])?;
        self.admin.reconfigure(&snapshot.config.admin).map_err(|problem| vec![problem])?;
        if snapshot.config.access_log != self.snapshot.config.access_log {
            access_log.reconfigure(&snapshot.config.access_log).map_err(log_problem)?;
        }
        if snapshot.config.error_log != self.snapshot.config.error_log {
            self.error_log.reconfigure(&snapshot.config.error_log).map_err(log_problem)?;
        }
        addresses.retain(|(known, _)| snapshot.listeners.iter().any(|sites| sites.address == *known));
        self.addresses = addresses;
        let mut http3_shares = self.http3.take_up(http3);
        self.metrics.reload_taken_up();
        let mut shares = shares(added.into_iter(), self.cores.len());
        for (orders, _) in &self.cores {
            // A core that has ended is reported when the server stops.
            let (listeners, sockets) = (shares.pop(), http3_shares.pop());
            let order =
                Order::Reload(snapshot.clone(), listeners.unwrap_or_default(), sockets.unwrap_or_default());
            let _ = orders.send(order);
        }
        self.acme.take_up(&snapshot.config);
        self.view.show(&snapshot);
        self.snapshot = snapshot;
        Ok(())
    }

    /// Drains every core.
    fn stop(self) -> io::Result<()> {
        self.metrics.begin_drain();
        self.error_log.info("stopping: requests under way are finished");
        for (orders, _) in &self.cores {
            let _ = orders.send(Order::Drain);
        }
        let mut result = Ok(());
        for (_, core) in self.cores {
            match core.join() {
                Ok(ended) => result = result.and(ended),
                Err(_) => result = Err(io::Error::other("a core panicked")),
            }
        }
        result
    }
}

/// Each configured address with the one that it really listens on.
fn bound_addresses(
    listeners: &[(SocketAddr, SocketAddr, Vec<TcpListener>)],
) -> Vec<(SocketAddr, SocketAddr)> {
    listeners.iter().map(|(configured, bound, _)| (*configured, *bound)).collect()
}

fn bound_address(addresses: &[(SocketAddr, SocketAddr)], configured: SocketAddr) -> SocketAddr {
    let known = addresses.iter().find(|(address, _)| *address == configured);
    known.map_or(configured, |(_, bound)| *bound)
}

/// Turns "sockets for each address" into "addresses with a socket for each core".
fn shares(
    listeners: impl Iterator<Item = (SocketAddr, Vec<TcpListener>)>,
    cores: usize,
) -> Vec<Vec<(SocketAddr, TcpListener)>> {
    let mut shares: Vec<Vec<(SocketAddr, TcpListener)>> = (0..cores).map(|_| Vec::new()).collect();
    for (configured, sockets) in listeners {
        for (share, socket) in shares.iter_mut().zip(sockets) {
            share.push((configured, socket));
        }
    }
    shares
}

fn scheme(sites: &ListenerSites) -> &'static str {
    if sites.tls.is_some() { "https" } else { "http" }
}

fn bind(address: SocketAddr, cores: usize) -> Result<(SocketAddr, SocketAddr, Vec<TcpListener>), StartError> {
    match listener::bind(address, cores) {
        Ok((bound, sockets)) => Ok((address, bound, sockets)),
        Err(error) => {
            let help = match error.kind() {
                io::ErrorKind::AddrInUse => "another program listens there; stop it or choose another port",
                io::ErrorKind::PermissionDenied => "ports below 1024 need root or CAP_NET_BIND_SERVICE",
                io::ErrorKind::AddrNotAvailable => "this machine does not have that address",
                _ => "the address cannot be used",
            };
            Err(StartError(format!("cannot listen on {address}: {error}: {help}")))
        }
    }
}

/// As many as configured, or as many as the process may run on.
fn core_count(config: &Config) -> usize {
    match config.server.cores {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        cores => cores,
    }
}

fn spawn_core(seed: CoreSeed, config: &Config) -> io::Result<JoinHandle<io::Result<()>>> {
    let (index, pin) = (seed.index, config.server.pin_cores);
    std::thread::Builder::new().name(format!("core {index}")).spawn(move || {
        let error_log = seed.error_log.clone();
        if pin && let Err(error) = pin_to_processor(index) {
            error_log.warning(format_args!("core {index} cannot be pinned: {error}"));
        }
        let result = core_loop::run(seed);
        if let Err(error) = &result {
            error_log.error(format_args!("core {index} ended: {error}"));
        }
        result
    })
}

/// Pins this thread to the nth processor that the process may run on.
fn pin_to_processor(index: usize) -> io::Result<()> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let allowed = sched_getaffinity(None)?;
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    let Some(&processor) = processors.get(index % processors.len().max(1)) else { return Ok(()) };
    let mut one = CpuSet::new();
    one.set(processor);
    Ok(sched_setaffinity(None, &one)?)
}

/// Each connection is a descriptor; the soft limit of most systems is far below what a server needs.
fn raise_descriptor_limit(error_log: &ErrorLog, connections: usize) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current < limit.maximum || limit.maximum.is_none() {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            error_log.warning(format_args!("cannot raise the limit of open files: {error}"));
        }
    }
    let descriptors = getrlimit(Resource::Nofile).current;
    if let Some(descriptors) = descriptors
        && (connections as u64) + 64 > descriptors
    {
        error_log.debug(format_args!(
            "limits.connections is {connections}, but the process may open only {descriptors} files"
        ));
    }
}
