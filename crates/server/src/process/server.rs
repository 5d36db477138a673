//! The start of the process: binds, drops root's rights, opens all other files, starts the cores.
//!
//! The order is important. The steps that need root are first: addresses, the pid file, the control socket.
//! Then root's rights are dropped (`privileges`), and roots, certificates and logs are opened as the user who
//! must open them again later.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use tokio::sync::mpsc::unbounded_channel;
use touchstone_access::AccessShared;
use touchstone_acme::AcmeManager;
use touchstone_admin::Admin;
use touchstone_config::{Config, ControlSocket, ListenAddress, LogLevel};
use touchstone_lifecycle::control::{ControlAddress, ControlListener};
use touchstone_lifecycle::handover::Predecessor;
use touchstone_lifecycle::heartbeat::Heartbeat;
use touchstone_lifecycle::inherited::{Inheritance, InheritedSocket};
use touchstone_lifecycle::pid_file::PidFile;
use touchstone_lifecycle::privileges::{self, Account};
use touchstone_lifecycle::start_error::StartError;
use touchstone_lifecycle::systemd::Notifier;
use touchstone_observe::log::access::AccessLog;
use touchstone_observe::log::error::ErrorLog;
use touchstone_observe::metrics::{MetricSources, Metrics};
use touchstone_sites::accelerator;
use touchstone_sites::logs::ServerLogs;
use touchstone_sites::services::{ServerShared, Services};
use touchstone_sites::site::Snapshot;
use touchstone_sites::{programs, python, servlet, wasm};
use touchstone_telemetry::{SpanQueue, Telemetry};
use touchstone_tls::TlsShared;

use crate::http3;
use crate::process::control_api;
use crate::process::core_loop::{self, CoreSeed, NewSockets};
use crate::process::datagram_sockets::{CoreShare, DatagramSockets, datagram_addresses};
use crate::process::listener::ListenerSeed;
use crate::process::listening::{Listening, addresses};
use crate::process::operator_view::OperatorView;
use crate::process::running::{Running, RunningCore};
use crate::process::socket_rights::socket_rights;
use touchstone_exchange::core::connection_count::ConnectionCount;
use touchstone_exchange::core::worker::WorkerSeed;

/// A server with all files and sockets open, which has not accepted a connection yet.
pub struct Server {
    snapshot: Arc<Snapshot>,
    shared: ServerShared,
    acme: AcmeManager,
    /// The file that a reload reads again.
    config_file: Option<PathBuf>,
    access_log: AccessLog,
    error_log: ErrorLog,
    listening: Listening,
    /// The sockets of each core.
    shares: Vec<Vec<ListenerSeed>>,
    /// The HTTP/3 sockets, and those of each core.
    http3: (http3::Sockets, Vec<http3::CoreSockets>),
    /// The sockets of streams for datagrams, and those of each core.
    datagrams: (DatagramSockets, Vec<CoreShare>),
    signals: Signals,
    view: Arc<OperatorView>,
    metrics: Arc<Metrics>,
    telemetry: Telemetry,
    admin: Admin,
    notifier: Notifier,
    pid_file: Option<PidFile>,
    control: Option<ControlListener>,
    predecessor: Option<Predecessor>,
}

impl Server {
    /// Opens listeners, roots and logs, and changes to the user of `[server] user`. Requests are served from
    /// [`Server::run`] on. On an error, informs the process that this one should replace.
    ///
    /// `start_spawner` starts the process that starts programs: after root's rights are dropped, and before
    /// there are threads, keys or other state that programs must not inherit.
    pub fn bind(
        config: Config,
        config_file: Option<PathBuf>,
        mut inheritance: Inheritance,
        start_spawner: impl FnOnce() -> io::Result<()>,
    ) -> Result<Server, StartError> {
        let services = Services::default();
        let bound = Server::bind_with(config, config_file, &mut inheritance, start_spawner, &services);
        if let Err(error) = &bound {
            // Programs that were started for a configuration that cannot be served end before this process
            // does.
            services.stop();
            inheritance.refuse(std::slice::from_ref(&error.0));
        }
        bound
    }

    fn bind_with(
        config: Config,
        config_file: Option<PathBuf>,
        inheritance: &mut Inheritance,
        start_spawner: impl FnOnce() -> io::Result<()>,
        services: &Services,
    ) -> Result<Server, StartError> {
        // Before any thread starts: an early signal must not end the process in the default way.
        let signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2])
            .map_err(|error| StartError(format!("cannot watch for signals: {error}")))?;
        let privileged = PrivilegedStart::open(&config, config_file.as_deref(), inheritance)?;
        wasm::prepare(&config);
        let opened = privileged.drop_rights(&config)?;
        let PrivilegedResources { cores, listening, shares, mut http3, datagrams, pid_file, control, .. } =
            opened;

        let spawner = start_spawner();
        let error_log = ErrorLog::start(&config.error_log).map_err(|error| StartError(error.to_string()))?;
        if let Err(error) = spawner {
            error_log.error(format_args!("programs cannot be started: {error}"));
        }
        programs::log_to(&services.pools, &error_log);
        servlet::log_to(&error_log);
        python::log_to(&services.python, &error_log);
        warn_of_unused(&opened.unused_sockets, &error_log);
        opened.unset_rights.iter().for_each(|problem| error_log.warning(problem));
        if let Some(problem) = opened.control_problem {
            error_log.warning(format_args!("`touchstone reload` and similar commands fail: {problem}"));
        }
        let notifier = Notifier::from_environment().or_else(|error| {
            error_log.warning(format_args!("systemd is not notified: {error}"));
            Notifier::to(None).map_err(|error| StartError(error.to_string()))
        })?;
        let access_log = start_access_log(&config, &error_log)?;
        let shared = ServerShared {
            tls: TlsShared::new(),
            access: access_shared(&error_log),
            accelerator: accelerator::start(&config.accelerator, &error_log).map_err(StartError)?,
            services: services.clone(),
        };
        let metrics = Metrics::new(MetricSources {
            lost_lines: access_log.lost_lines_count(),
            origins: services.origins.clone(),
            python: services.python.clone(),
            servlets: services.servlets.clone(),
            counts: services.counts.clone(),
        });
        let acme = AcmeManager::new(shared.tls.clone(), error_log.clone(), metrics.acme().clone());
        let challenges = acme.http_challenges();
        let dictionaries = Arc::default();
        let spans = SpanQueue::new(metrics.telemetry().clone());
        let logs = server_logs(&access_log, &error_log, &spans);
        let snapshot = Snapshot::open(config, &shared, challenges, &dictionaries, &logs)
            .map_err(|unusable| StartError(unusable.0))?;
        let snapshot = Arc::new(snapshot);
        note_watcher(&snapshot, &error_log);
        let opened = http3.open(&snapshot, |address| listening.bound_ip_of(address), &error_log);
        let http3_shares = http3.apply(opened.map_err(StartError)?);
        raise_descriptor_limit(&error_log, snapshot.config.limits.connections);
        let telemetry = start_telemetry(&snapshot.config, spans, &metrics, &error_log)?;
        let view = OperatorView::new(metrics.clone());
        // The previous process still has its admin listener: this one begins when that has ended.
        let must_wait = inheritance.predecessor.is_some();
        let admin = Admin::start(&snapshot.config, must_wait, view.sources(cores), error_log.clone());
        let admin = admin.map_err(StartError)?;
        Ok(Server {
            snapshot,
            shared,
            acme,
            config_file,
            access_log,
            error_log,
            listening,
            shares,
            http3: (http3, http3_shares),
            datagrams,
            signals,
            view,
            metrics,
            telemetry,
            admin,
            notifier,
            pid_file,
            control,
            predecessor: inheritance.predecessor.take(),
        })
    }

    /// The addresses on which the server listens.
    pub fn addresses(&self) -> Vec<ListenAddress> {
        self.listening.bound().map(|(_, bound)| bound).collect()
    }

    /// Serves until it is stopped, or another process has taken over; then finishes the running requests.
    pub fn run(self) -> io::Result<()> {
        let Server {
            snapshot,
            shared,
            acme,
            config_file,
            access_log,
            error_log,
            listening,
            shares,
            http3: (http3, http3_shares),
            datagrams: (datagrams, datagram_shares),
            signals,
            view,
            metrics,
            telemetry,
            mut admin,
            notifier,
            pid_file,
            control,
            predecessor,
        } = self;
        let control_api = control_api::start(&snapshot.config, config_file.as_deref(), &metrics, &error_log);
        let count = shares.len();
        let (heartbeat, connections) =
            (Arc::new(Heartbeat::new(count)), Arc::new(ConnectionCount::default()));
        let ((accepting, started), mut cores) = (channel(), Vec::with_capacity(count));
        let sockets = sockets_of_cores(shares, http3_shares, datagram_shares);
        for (index, sockets) in sockets.enumerate() {
            let (orders, received) = unbounded_channel();
            let seed = CoreSeed {
                index,
                snapshot: snapshot.clone(),
                sockets,
                http3_secrets: (http3.secrets.clone(), count),
                access_log: access_log.core_buffer(),
                error_log: error_log.clone(),
                orders: received,
                connections: connections.clone(),
                metrics: metrics.clone(),
                heartbeat: heartbeat.clone(),
                worker: WorkerSeed {
                    index: count + index,
                    access_log: access_log.core_buffer(),
                    error_log: error_log.clone(),
                    connections: connections.clone(),
                    metrics: metrics.clone(),
                },
                accepting: accepting.clone(),
            };
            view.add_core(orders.clone());
            cores.push(RunningCore { orders, thread: spawn_core(seed, &snapshot.config)? });
        }
        drop(accepting);
        // The channel ends when every core has reported or has ended.
        if started.iter().count() < cores.len() {
            let reason = "not every core can accept connections; the error log has the reason".to_string();
            if let Some(predecessor) = &predecessor {
                predecessor.failed(std::slice::from_ref(&reason));
            }
            return Err(io::Error::other(reason));
        }
        listening.bound().for_each(|(configured, bound)| view.add_listener(configured, bound));
        view.show(&snapshot);
        if let Some(predecessor) = &predecessor {
            predecessor.ready(listening.bound().map(|(configured, _)| configured).collect());
            error_log.info("took over from the previous process");
            if let Err(problem) = admin.reconfigure(&snapshot.config) {
                error_log.error(problem);
            }
        }
        write_pid_file(pid_file.as_ref(), &error_log);
        note_root(config_file.is_some(), &error_log);
        let running = Running::new(crate::process::running::Parts {
            cores,
            listening,
            http3,
            datagrams,
            snapshot,
            shared,
            acme,
            admin,
            view,
            metrics,
            telemetry,
            access_log,
            error_log,
            config_file,
            notifier: Arc::new(notifier),
            pid_file,
            connections,
            heartbeat,
            control_api,
        });
        running.serve(signals, control, predecessor)
    }
}

/// What is opened with the rights of the user that has started the server: sockets on ports below 1024, files
/// in directories of root. Only [`PrivilegedStart::drop_rights`] gives it away.
struct PrivilegedStart {
    account: Option<Account>,
    opened: PrivilegedResources,
}

/// What was opened before the rights were dropped.
struct PrivilegedResources {
    cores: usize,
    listening: Listening,
    /// The sockets of each core.
    shares: Vec<Vec<ListenerSeed>>,
    /// The problems with the rights of files of unix sockets.
    unset_rights: Vec<String>,
    /// The passed sockets on which no site or stream listens.
    unused_sockets: Vec<ListenAddress>,
    http3: http3::Sockets,
    datagrams: (DatagramSockets, Vec<CoreShare>),
    pid_file: Option<PidFile>,
    control: Option<ControlListener>,
    control_problem: Option<String>,
}

impl PrivilegedStart {
    fn open(
        config: &Config,
        config_file: Option<&Path>,
        inheritance: &mut Inheritance,
    ) -> Result<PrivilegedStart, StartError> {
        let account = account_to_become(config)?;
        if let Some(mask) = config.server.umask {
            privileges::set_umask(mask);
        }
        let cores = core_count(config);
        let (listened, http3) = open_sockets(config, cores, inheritance, account.as_ref())?;
        let (mut listening, shares, unset_rights) = listened;
        let unused_sockets = listening.drop_unwanted();
        let datagrams = open_datagrams(config, cores, inheritance)?;
        let pid_file = open_pid_file(config, account.as_ref())?;
        let (control, control_problem) = open_control(config, config_file, inheritance.control.take())?;
        let opened = PrivilegedResources {
            cores,
            listening,
            shares,
            unset_rights,
            unused_sockets,
            http3,
            datagrams,
            pid_file,
            control,
            control_problem,
        };
        Ok(PrivilegedStart { account, opened })
    }

    /// Changes to the user of `[server] user`. All else is opened with that user's rights.
    fn drop_rights(self, config: &Config) -> Result<PrivilegedResources, StartError> {
        if let Some(account) = &self.account {
            account.switch_user().map_err(StartError)?;
        }
        if config.server.no_new_privileges {
            privileges::set_no_new_privileges().map_err(StartError)?;
        }
        Ok(self.opened)
    }
}

/// The account under which the server is going to run. The right to change to it is checked before the owner
/// of files is changed, which would fail with a message about the file.
fn account_to_become(config: &Config) -> Result<Option<Account>, StartError> {
    let account = Account::configured(&config.server).map_err(|problem| StartError(problem.to_string()))?;
    if let Some(account) = &account {
        account.check_becoming().map_err(StartError)?;
    }
    Ok(account)
}

/// The sockets that sites and streams listen on, those of each core, and the files of unix sockets whose
/// rights could not be set.
type Listened = (Listening, Vec<Vec<ListenerSeed>>, Vec<String>);

/// How often ports are chosen for sites with port 0.
const PORT_ATTEMPTS: u32 = 8;

/// Opens the sockets of sites and streams, and those of HTTP/3 that cannot be opened later. A site with port
/// 0 and HTTP/3 needs a port that is free for TCP and for UDP: if the port that the system chooses for TCP is
/// in use for UDP, it chooses another one.
fn open_sockets(
    config: &Config,
    cores: usize,
    inheritance: &mut Inheritance,
    account: Option<&Account>,
) -> Result<(Listened, http3::Sockets), StartError> {
    let mut sockets = std::mem::take(&mut inheritance.sockets);
    let may_choose = sockets.is_empty() && http3_addresses(config).any(|address| address.port() == 0);
    let mut attempts = if may_choose { PORT_ATTEMPTS } else { 1 };
    loop {
        let listened = listen(config, cores, std::mem::take(&mut sockets), account)?;
        attempts -= 1;
        match open_http3(config, cores, &listened.0, inheritance, account) {
            Err(_) if attempts > 0 => {}
            opened => return Ok((listened, opened?)),
        }
    }
}

/// The addresses of sites with HTTP/3.
fn http3_addresses(config: &Config) -> impl Iterator<Item = SocketAddr> {
    let sites = config.sites.iter().filter(|site| site.tls.is_on() && site.tls.http3);
    sites.flat_map(|site| &site.listen).filter_map(|address| address.ip())
}

/// Opens the sockets that sites and streams listen on.
fn listen(
    config: &Config,
    cores: usize,
    inherited: Vec<InheritedSocket>,
    account: Option<&Account>,
) -> Result<Listened, StartError> {
    let addresses = addresses(config);
    let mut listening = Listening::inheriting(inherited);
    let rights = socket_rights(config, account)?;
    let added = listening.prepare(&addresses, cores, &rights)?;
    let shares = listening.apply(added, &addresses);
    let unset_rights = listening.set_file_rights(&rights);
    Ok((listening, shares, unset_rights))
}

/// The sockets of each core; there are as many of each kind as there are cores.
fn sockets_of_cores(
    listeners: Vec<Vec<ListenerSeed>>,
    http3: Vec<http3::CoreSockets>,
    datagrams: Vec<CoreShare>,
) -> impl Iterator<Item = NewSockets> {
    let (mut http3, mut datagrams) = (http3.into_iter(), datagrams.into_iter());
    listeners.into_iter().map(move |listeners| NewSockets {
        listeners,
        http3: http3.next().unwrap_or_default(),
        datagrams: datagrams.next().unwrap_or_default(),
    })
}

/// Logs which passed sockets are not used.
fn warn_of_unused(addresses: &[ListenAddress], error_log: &ErrorLog) {
    for address in addresses {
        error_log.warning(format_args!(
            "no site or stream listens on {address}, whose socket was passed to this server: \
             clients that connect there get no answer"
        ));
    }
}

fn start_access_log(config: &Config, error_log: &ErrorLog) -> Result<AccessLog, StartError> {
    let error_log = error_log.clone();
    AccessLog::start(&config.access_log, Box::new(move |problem| error_log.error(problem)))
        .map_err(|error| StartError(error.to_string()))
}

fn server_logs<'a>(
    access_log: &AccessLog,
    error_log: &'a ErrorLog,
    spans: &'a Arc<SpanQueue>,
) -> ServerLogs<'a> {
    ServerLogs { error_log, lost_lines: access_log.lost_lines_count(), spans }
}

fn start_telemetry(
    config: &Config,
    spans: Arc<SpanQueue>,
    metrics: &Arc<Metrics>,
    error_log: &ErrorLog,
) -> Result<Telemetry, StartError> {
    let mut telemetry = Telemetry::new(spans, metrics.clone(), error_log.clone());
    let collector = telemetry.open(&config.telemetry).map_err(StartError)?;
    telemetry.apply(&config.telemetry, collector);
    Ok(telemetry)
}

fn note_watcher(snapshot: &Snapshot, error_log: &ErrorLog) {
    if let Some(problem) = &snapshot.watcher_problem {
        error_log.warning(format_args!(
            "changes on disk are found once a second by comparison, not at once: {problem}"
        ));
    }
}

fn access_shared(error_log: &ErrorLog) -> Arc<AccessShared> {
    let error_log = error_log.clone();
    AccessShared::new(Arc::new(move |problem| {
        error_log.limited(LogLevel::Warning, "password file", problem);
    }))
}

fn write_pid_file(pid_file: Option<&PidFile>, error_log: &ErrorLog) {
    if let Some(Err(error)) = pid_file.map(PidFile::write) {
        error_log.error(format_args!("server.pid_file cannot be written: {error}"));
    }
}

/// Logs that the server runs as root. The quick form has no place to name another user.
fn note_root(has_config_file: bool, error_log: &ErrorLog) {
    if has_config_file && rustix::process::geteuid().is_root() {
        error_log.info("the server runs as root; server.user can name another user for it");
    }
}

/// The configured number of cores, or as many as the process may run on.
fn core_count(config: &Config) -> usize {
    match config.server.cores {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        cores => cores,
    }
}

/// The HTTP/3 sockets that were inherited, and those that only root may open.
fn open_http3(
    config: &Config,
    cores: usize,
    listening: &Listening,
    inheritance: &mut Inheritance,
    account: Option<&Account>,
) -> Result<http3::Sockets, StartError> {
    let mut http3 = http3::Sockets::new(cores).map_err(|problem| StartError(problem.to_string()))?;
    http3.inherit(std::mem::take(&mut inheritance.http3_sockets));
    if inheritance.predecessor.is_some() {
        // The previous process uses them until its connections have ended.
        http3.wait();
        return Ok(http3);
    }
    let loses_rights = account.is_some_and(|account| !account.is_ours());
    for address in http3_addresses(config).filter(|address| loses_rights || address.port() == 0) {
        http3.open_ahead(address, listening.bound_ip_of(address)).map_err(StartError)?;
    }
    Ok(http3)
}

/// The sockets of streams for datagrams; some ports need root's rights.
fn open_datagrams(
    config: &Config,
    cores: usize,
    inheritance: &mut Inheritance,
) -> Result<(DatagramSockets, Vec<CoreShare>), StartError> {
    let addresses = datagram_addresses(config);
    let inherited = std::mem::take(&mut inheritance.udp_sockets);
    let mut sockets = DatagramSockets::inheriting(cores, inherited);
    let added = sockets.prepare(&addresses)?;
    let shares = sockets.apply(added, &addresses);
    Ok((sockets, shares))
}

fn open_pid_file(config: &Config, account: Option<&Account>) -> Result<Option<PidFile>, StartError> {
    let Some(path) = &config.server.pid_file else { return Ok(None) };
    let opened = PidFile::open(path, account);
    opened.map(Some).map_err(|error| {
        StartError(format!("server.pid_file '{}' cannot be written: {error}", path.display()))
    })
}

/// Opens the control socket. If the configuration does not name it, an error does not prevent the start.
fn open_control(
    config: &Config,
    config_file: Option<&Path>,
    inherited: Option<ControlListener>,
) -> Result<(Option<ControlListener>, Option<String>), StartError> {
    let Some(address) = ControlAddress::of(&config.server, config_file) else {
        return Ok((None, None));
    };
    if let Some(inherited) = inherited.filter(|inherited| inherited.address().as_ref() == Some(&address)) {
        return Ok((Some(inherited), None));
    }
    match ControlListener::bind(&address) {
        Ok(control) => Ok((Some(control), None)),
        Err(error) => {
            let problem = format!("server.control_socket {address} cannot be created: {error}");
            match config.server.control_socket {
                ControlSocket::Path(_) => Err(StartError(problem)),
                _ => Ok((None, Some(problem))),
            }
        }
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

/// Raises the limit of open files. Each connection is a descriptor, and the soft limit of most systems is too
/// low for a server.
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
