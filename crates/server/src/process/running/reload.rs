//! Reload: applies the whole present configuration file, or keeps the previous configuration. Also reopens
//! log files.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use touchstone_config::{Config, ConfigProblem, ListenAddress};
use touchstone_control::{ControlApi, LoadedConfig, OriginName, OriginOverride, apply_origin_overrides};
use touchstone_lifecycle::control::Answer;
use touchstone_lifecycle::systemd::Notice;
use touchstone_sites::logs::ServerLogs;
use touchstone_sites::site::{Snapshot, scheme};
use touchstone_telemetry::Destination;

use super::Running;
use crate::http3;
use crate::process::core_loop::{CoreOrder, NewSockets};
use crate::process::datagram_sockets;
use crate::process::listening::{Added, addresses};
use crate::process::socket_rights::{SocketRights, socket_rights};

/// How long cores may take to apply a new configuration before the answer is sent without their reports.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(10);

/// A configuration with all its files and sockets open.
pub(super) struct OpenedConfig {
    snapshot: Arc<Snapshot>,
    wanted: Vec<ListenAddress>,
    rights: SocketRights,
    added: Added,
    http3: http3::OpenedSockets,
    wanted_datagrams: Vec<SocketAddr>,
    datagrams: datagram_sockets::Added,
    /// What telemetry is sent to.
    collector: Option<Destination>,
}

impl Running {
    /// Applies the present configuration file, or keeps the previous configuration and returns the reason.
    pub(super) fn reload(&mut self, asked_by: &str) -> Answer {
        let Some(file) = self.parts.config_file.clone() else {
            let message = format!("{asked_by}: there is no configuration file to read again");
            self.parts.error_log.warning(&message);
            return Answer::refused(message, Vec::new());
        };
        self.notify(&Notice::Reloading);
        let answer = match self.try_reload(&file) {
            Ok(()) => {
                self.reloads += 1;
                let message = format!("configuration {} applied", file.display());
                self.parts.error_log.info(&message);
                Answer { facts: self.facts(), ..Answer::done(message) }
            }
            Err(problems) => {
                for problem in &problems {
                    self.parts.error_log.error(problem);
                }
                self.parts.metrics.reload_failed();
                let message = "the configuration was not applied; the one before stays";
                self.parts.error_log.error(message);
                Answer::refused(message, problems)
            }
        };
        let outcome = if answer.ok { "" } else { "; the last reload was refused, see the error log" };
        self.notify(&Notice::Ready(&format!("{}{outcome}", self.status_line())));
        answer
    }

    /// Reads the configuration, prepares all steps that can fail, and then applies it.
    fn try_reload(&mut self, file: &Path) -> Result<(), Vec<String>> {
        let opened = read(file)?;
        let config = &opened.effective.config;
        for key in fixed_keys_that_differ(config, &self.parts.snapshot.config) {
            self.parts.error_log.warning(when_it_changes(key));
        }
        let ready = self.make_ready(config.clone()).map_err(|problem| vec![problem])?;
        self.apply(ready, Some(&opened.overlay.origins));
        self.control_reloaded(opened);
        Ok(())
    }

    /// Opens what the new configuration needs. The admin listener and the logs are last, because they change
    /// at once.
    pub(super) fn make_ready(&mut self, config: Config) -> Result<OpenedConfig, String> {
        let parts = &mut self.parts;
        parts.shared.services.begin_configuration();
        let snapshot = Snapshot::open(
            config,
            &parts.shared,
            parts.acme.http_challenges(),
            &parts.snapshot.dictionaries,
            &ServerLogs {
                error_log: &parts.error_log,
                lost_lines: parts.access_log.lost_lines_count(),
                spans: parts.telemetry.queue(),
            },
        )
        .map_err(|unusable| unusable.0)?;
        let snapshot = Arc::new(snapshot);
        let wanted = addresses(&snapshot.config);
        // The server keeps its user, with any value of `server.user`: its files have this owner.
        let rights = socket_rights(&snapshot.config, None).map_err(|error| error.0)?;
        let added = parts.listening.prepare(&wanted, parts.cores.len(), &rights).map_err(|error| error.0)?;
        let wanted_datagrams = datagram_sockets::datagram_addresses(&snapshot.config);
        let datagrams = parts.datagrams.prepare(&wanted_datagrams).map_err(|error| error.0)?;
        let bound: Vec<_> = parts.listening.bound().chain(added.addresses()).collect();
        let bound_of = |wanted: SocketAddr| {
            let found = bound.iter().find(|(known, _)| *known == wanted);
            found.and_then(|(_, bound)| bound.ip()).unwrap_or(wanted)
        };
        let collector = parts.telemetry.open(&snapshot.config.telemetry)?;
        let http3 = parts.http3.open(&snapshot, bound_of, &parts.error_log)?;
        parts.admin.reconfigure(&snapshot.config)?;
        if snapshot.config.access_log != parts.snapshot.config.access_log {
            let reconfigured = parts.access_log.reconfigure(&snapshot.config.access_log);
            reconfigured.map_err(|error| error.to_string())?;
        }
        if snapshot.config.error_log != parts.snapshot.config.error_log {
            let reconfigured = parts.error_log.reconfigure(&snapshot.config.error_log);
            reconfigured.map_err(|error| error.to_string())?;
        }
        Ok(OpenedConfig { snapshot, wanted, rights, added, http3, wanted_datagrams, datagrams, collector })
    }

    /// Passes the new configuration to the cores, and waits until they have applied it. `overrides` are the
    /// states and weights of origins that operators have set; `None`: these stay.
    pub(super) fn apply(
        &mut self,
        ready: OpenedConfig,
        overrides: Option<&BTreeMap<OriginName, OriginOverride>>,
    ) {
        // Before a core chooses an origin of a new group.
        if let Some(overrides) = overrides {
            apply_origin_overrides(&self.parts.shared.services.origins, overrides);
        }
        let OpenedConfig { snapshot, wanted, rights, added, http3, wanted_datagrams, datagrams, collector } =
            ready;
        let parts = &mut self.parts;
        for (configured, bound) in added.addresses() {
            let sites = snapshot.listeners.iter().find(|sites| sites.address == configured);
            let scheme = sites.map_or("tcp", scheme);
            parts.error_log.info(format_args!("listening on {scheme}://{bound}"));
            parts.view.add_listener(configured, bound);
        }
        let shares = parts.listening.apply(added, &wanted);
        for problem in parts.listening.set_file_rights(&rights) {
            parts.error_log.warning(problem);
        }
        let telemetry = snapshot.config.telemetry.clone();
        let is_last = collector.is_none();
        if !is_last {
            // The buffer of spans must exist before the cores record any.
            parts.telemetry.apply(&telemetry, collector);
        }
        let (done, all_done) = channel();
        let http3_shares = parts.http3.apply(http3);
        let datagram_shares = parts.datagrams.apply(datagrams, &wanted_datagrams);
        parts.metrics.reload_applied();
        let shares = shares.into_iter().zip(http3_shares).zip(datagram_shares);
        for (core, ((listeners, http3), datagrams)) in parts.cores.iter().zip(shares) {
            let sockets = NewSockets { listeners, http3, datagrams };
            // A core that has ended is reported when the server stops.
            let _ = core.orders.send(CoreOrder::Reload(snapshot.clone(), sockets, done.clone()));
        }
        drop(done);
        parts.view.show(&snapshot);
        parts.acme.apply_config(&snapshot.config);
        let mut old = vec![std::mem::replace(&mut parts.snapshot, snapshot)];
        old.extend(wait_for_all(&all_done, parts.cores.len()));
        if is_last {
            parts.telemetry.apply(&telemetry, None);
        }
        parts.shared.services.configuration_in_use();
        self.watch_htaccess();
        // The drop of the last handle waits for the watcher of files; this thread must not wait for that.
        let _ = std::thread::Builder::new().name("old snapshot".to_string()).spawn(move || drop(old));
    }

    /// Reopens the log files.
    pub(super) fn reopen_logs(&mut self) -> Answer {
        self.parts.access_log.reopen();
        if let Some(Err(problem)) = self.parts.control_api.as_mut().map(ControlApi::reopen_log) {
            self.parts.error_log.error(problem);
        }
        if let Some(Err(problem)) = self.parts.snapshot.logs.as_ref().map(|logs| logs.reopen()) {
            self.parts.error_log.error(format_args!("a log stays as it was: {problem}"));
        }
        self.parts.snapshot.streams.iter().for_each(|stream| stream.reopen_log());
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
}

/// Reads a configuration file with the changes of the control API that are kept for it, and checks whether
/// this machine has what it names.
fn read(file: &Path) -> Result<LoadedConfig, Vec<String>> {
    let texts =
        |problems: Vec<ConfigProblem>| -> Vec<String> { problems.iter().map(ToString::to_string).collect() };
    let opened = touchstone_control::open(file).map_err(texts)?;
    let (config, places) = (&opened.effective.config, &opened.effective.places);
    let problems = touchstone_sites::machine::check_machine(config, places);
    let problems: Vec<String> =
        opened.effective.problems(problems).into_iter().map(|problem| problem.message).collect();
    if problems.is_empty() { Ok(opened) } else { Err(problems) }
}

/// The keys that differ but that a reload cannot change.
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

/// When a key counts that a reload cannot change.
fn when_it_changes(key: &str) -> String {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let is_of_account = matches!(key, "server.user" | "server.group" | "server.supplementary_groups");
    if is_of_account && !user.is_root() {
        // A successor has this user too, and cannot become another one.
        return format!(
            "{key} changes only when root restarts the server, and no upgrade is possible \
             before; until then the server runs as user {} and group {}, which also own new unix sockets",
            user.as_raw(),
            group.as_raw()
        );
    }
    format!("{key} needs a restart or an upgrade")
}

/// Waits until this many cores have returned their previous snapshots, or until no other core can.
fn wait_for_all(done: &Receiver<Arc<Snapshot>>, count: usize) -> Vec<Arc<Snapshot>> {
    let until = Instant::now() + RELOAD_TIMEOUT;
    let next = || done.recv_timeout(until.saturating_duration_since(Instant::now())).ok();
    std::iter::from_fn(next).take(count).collect()
}
