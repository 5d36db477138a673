//! Tests the rules of HTTP on each system of a run, before its mixes. Each test has its own instance of the
//! system, without the settings for speed that break rules. A system in front of another one gets the
//! scripted origin behind it.

use super::certificate::Certificate;
use super::event::Event;
use super::port::HeldPort;
use super::prepare::PreparedBench;
use super::system_selection::{SelectedSystem, SystemKind};
use super::{Run, unwritable};
use crate::system::companion::SocketDirectory;
use crate::system::launch::{LaunchContext, LaunchTls, LaunchedSystem, launch};
use crate::system::template::CONFORMANCE;
use crate::system::{Definition, InstalledSystem};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use touchstone_conformance::case::{self, Case};
use touchstone_conformance::client::Target;
use touchstone_conformance::origin::Origin;
use touchstone_conformance::record::{self, Conformance, Line};
use touchstone_conformance::run::{Outcome, Server};
use touchstone_lab::capability::{CACHE, FILES, HTTP2, HTTP3, TLS};

/// The capabilities that an instance for the rules has, as far as the system has them.
const WANTED: [&str; 5] = [FILES, TLS, HTTP2, HTTP3, CACHE];
/// How often the views get the progress.
const TICK: Duration = Duration::from_millis(200);

impl Run<'_> {
    /// Tests the rules on every system, if the suite requires it. An error is the reason why the run ends.
    pub(super) fn try_cases(&mut self) -> Result<(), String> {
        if !self.prepared.suite.conformance {
            return Ok(());
        }
        let cases = case::all().map_err(|error| error.to_string())?;
        let mut lines: Vec<Line> = Vec::new();
        for number in 0..self.running.len() {
            let system = self.running[number].system.clone();
            if system.is_limit {
                continue;
            }
            match self.test_system(&system, &cases) {
                Ok(outcome) => {
                    let own = record::lines(&system.name, &cases, &outcome);
                    let kept = self.prepared.directory.append_conformance(&own);
                    kept.map_err(|error| unwritable(&self.prepared.directory, &error))?;
                    lines.extend(own);
                }
                Err(problem) => self
                    .warnings
                    .push(format!("The rules of HTTP were not tried on {}: {problem}.", system.title)),
            }
            if self.interrupt.load(Ordering::Relaxed) {
                return Err(format!("it was interrupted while the rules were tried on {}", system.title));
            }
        }
        self.conformance = Some(Conformance::of(&cases, &lines)?);
        Ok(())
    }

    /// Tests the rules on one system; an error states why they could not be tested.
    fn test_system(&mut self, system: &SelectedSystem, cases: &[Case]) -> Result<Outcome, String> {
        let instance = Instance::of(system, &self.prepared)?;
        let server = instance.server(system, &self.prepared);
        let interrupt = self.interrupt;
        let facts = server.learn(&|| interrupt.load(Ordering::Relaxed))?;
        let (done, of) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let progress = |now: usize, all: usize| {
            done.fetch_max(now, Ordering::Relaxed);
            of.store(all, Ordering::Relaxed);
        };
        let observer = &mut *self.observer;
        Ok(std::thread::scope(|scope| {
            let trying = scope.spawn(|| server.try_all(cases, facts, interrupt, &progress));
            while !trying.is_finished() {
                std::thread::sleep(TICK);
                observer.event(Event::Conformance {
                    system: &system.title,
                    done: done.load(Ordering::Relaxed),
                    of: of.load(Ordering::Relaxed),
                });
            }
            trying.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        }))
    }
}

/// A server that is tested, and the origin behind it. Dropping it stops what was started.
struct Instance {
    target: Target,
    origin: Option<Origin>,
    is_cache: bool,
    _launched: Option<LaunchedSystem>,
}

impl Instance {
    fn of(system: &SelectedSystem, prepared: &PreparedBench) -> Result<Instance, String> {
        match &system.kind {
            SystemKind::Started { definition, installed, .. } => {
                started(system, definition, installed, prepared)
            }
            SystemKind::Running { url, .. } if url.target.tls.is_none() => Ok(Instance {
                target: Target { plain: url.target.address, secure: None },
                origin: None,
                is_cache: false,
                _launched: None,
            }),
            SystemKind::Running { .. } => Err("it is known by an address with TLS alone".to_owned()),
            SystemKind::Remote { .. } => Err("it is on another machine".to_owned()),
        }
    }

    fn server<'a>(&'a self, system: &SelectedSystem, prepared: &'a PreparedBench) -> Server<'a> {
        let class = &prepared.suite.first_part().workload.classes[0];
        let (prefix, host) = match &system.kind {
            SystemKind::Running { url, .. } => (url.path_prefix.as_str(), url.target.host.clone()),
            _ => ("", self.target.plain.to_string()),
        };
        Server {
            target: self.target,
            page: format!("{prefix}{}", class.path(0)),
            host,
            origin: self.origin.as_ref(),
            is_cache: self.is_cache,
            wanted: &prepared.suite.conformance_cases,
        }
    }
}

/// Starts a system for the rules.
fn started(
    system: &SelectedSystem,
    definition: &Definition,
    installed: &InstalledSystem,
    prepared: &PreparedBench,
) -> Result<Instance, String> {
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    let has = |name: &str| definition.capabilities.iter().any(|own| own == name);
    let mut needs: Vec<&str> = WANTED.into_iter().filter(|name| has(name)).collect();
    needs.push(CONFORMANCE);
    let directory = prepared.directory.system_directory(&format!("{}-conformance", system.name));
    let directory = directory.map_err(|error| failed(&error))?;
    let user = prepared.user.as_ref();
    let sockets = SocketDirectory::make(user).map_err(|error| failed(&error))?;
    let certificate = has(TLS).then(|| Certificate::make(sockets.path(), user)).transpose();
    let certificate = certificate.map_err(|error| failed(&error))?;
    // Both are held until both are known, so that they differ.
    let held = (HeldPort::any(), HeldPort::any());
    let number = |held: &rustix::io::Result<HeldPort>| match held {
        Ok(held) => Ok(held.number()),
        Err(error) => Err(failed(error)),
    };
    let (port, tls_port) = (number(&held.0)?, number(&held.1)?);
    drop(held);
    let origin = match definition.origin {
        Some(_) => Some(Origin::start().map_err(|error| failed(&error))?),
        None => None,
    };
    let context = LaunchContext {
        tree: &prepared.tree,
        tls: certificate.as_ref().map(|certificate| LaunchTls {
            port: tls_port,
            certificate: &certificate.file,
            certificate_key: &certificate.key_file,
        }),
        programs: &prepared.programs.directory,
        jars: None,
        directory: &directory,
        address: Ipv4Addr::LOCALHOST.into(),
        port,
        origin_port: origin.as_ref().map_or(0, |origin| origin.address().port()),
        cpus: &system.cpus,
        user,
        mean_body_bytes: prepared.suite.first_part().workload.mean_body_bytes().round() as u64,
        needs: &needs,
        memory: None,
    };
    let launched = launch(definition, installed, sockets, &context)?;
    let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    Ok(Instance {
        target: Target { plain: address(port), secure: certificate.map(|_| address(tls_port)) },
        origin,
        is_cache: has(CACHE),
        _launched: Some(launched),
    })
}
