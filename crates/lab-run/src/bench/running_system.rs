//! A system under test in a run: started (or reached), checked, warmed up, watched and finally stopped.

use super::BenchError;
use super::ask::{Problem, Question, REQUEST_TIME_LIMIT};
use super::certificate::Certificate;
use super::origin::Origin;
use super::prepare::PreparedBench;
use super::system_selection::{PartState, SelectedSystem, SystemKind};
use crate::probe;
use crate::remote::Session;
use crate::system::companion::SocketDirectory;
use crate::system::launch::{LaunchContext, LaunchTls, LaunchedSystem, launch};
use crate::system::memory_group::{self, MemoryGroup};
use crate::system::process::SystemProcess;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use touchstone_lab::capability::TLS;
use touchstone_lab::memory::Size;
use touchstone_lab::result::{ConfigurationFile, OriginResult, SystemResult};
use touchstone_lab::suite::{Lengths, Mix, RunParameters, Suite, tree};
use touchstone_load::Target;

/// How long a system may take until it answers other than 503 (not ready): on a busy machine Java and its
/// compiler take long.
const START_TIME_LIMIT: Duration = Duration::from_secs(120);
/// How long a system that answers may continue to answer something other than the requested file.
const WRONG_ANSWER_TIME_LIMIT: Duration = Duration::from_secs(3);
/// The most requests of a class that are made with TLS before the measurement.
const SECURE_ASKED_MAX: u64 = 20;
/// The longest answer that is read if its length is not known.
const ORIGIN_BYTES_MAX: u64 = 16 << 20;

/// A system under test that is ready to be measured. Dropping it stops what the run started.
#[derive(Debug)]
pub(super) struct RunningSystem {
    pub(super) system: SelectedSystem,
    pub(super) target: Target,
    /// Its port with TLS, if the suite requires one.
    tls_target: Option<Target>,
    /// Its place among all systems that were named.
    pub(super) place: usize,
    command: Vec<String>,
    configuration: Vec<ConfigurationFile>,
    runs: Runs,
}

/// Where it runs.
#[derive(Debug)]
enum Runs {
    /// It was started here, with its origin where it has one.
    Local {
        launched: Box<LaunchedSystem>,
        origin: Option<Box<Origin>>,
        /// What limits its memory, and the files that count to it; kept as long as the processes.
        _memory: Option<(MemoryGroup, OwnTree)>,
    },
    /// It was started on another machine.
    Remote(Session),
    /// It ran already.
    External,
}

impl RunningSystem {
    /// Starts the system unless it runs already, waits until it answers, and requests everything once. A part
    /// of the suite, other than the first, that it does not answer correctly is skipped.
    pub(super) fn start(
        system: SelectedSystem,
        place: usize,
        prepared: &PreparedBench,
        interrupt: &AtomicBool,
    ) -> Result<RunningSystem, BenchError> {
        let mut running = match &system.kind {
            SystemKind::Running { .. } => RunningSystem {
                target: system.target(),
                system,
                tls_target: None,
                place,
                command: Vec::new(),
                configuration: Vec::new(),
                runs: Runs::External,
            },
            SystemKind::Started { .. } => {
                start_local(system, place, prepared).map_err(BenchError::Refused)?
            }
            SystemKind::Remote { .. } => {
                start_remote(system, place, prepared).map_err(BenchError::Refused)?
            }
        };
        for part in 0..prepared.suite.parts.len() {
            if running.system.parts[part] != PartState::Runs {
                continue;
            }
            let warmed = running
                .wait_until_ready(prepared, part, interrupt)
                .and_then(|()| running.warm(prepared, part, interrupt));
            match warmed {
                Ok(()) => {}
                Err(Refusal::Part(problem)) if part > 0 => {
                    let reason = format!("{} {problem}", running.system.title);
                    running.system.parts[part] = PartState::Skipped(reason);
                }
                Err(Refusal::Part(problem) | Refusal::System(problem)) => {
                    return Err(running.refusal(&problem));
                }
                Err(Refusal::Interrupted(error)) => return Err(error),
            }
        }
        Ok(running)
    }

    /// Restarts it in the same way as before: the random effects of a start, such as the placement of its
    /// memory, differ in the next. The figures of its origin until now are kept.
    pub(super) fn restart(&mut self, prepared: &PreparedBench, interrupt: &AtomicBool) -> Result<(), String> {
        self.request_end();
        self.stop();
        let until_now = self.origin();
        let mut again = RunningSystem::start(self.system.clone(), self.place, prepared, interrupt)
            .map_err(|error| error.to_string())?;
        if again.system.parts != self.system.parts {
            let title = &self.system.title;
            return Err(format!("{title} was restarted, and its answers differ from those before"));
        }
        if let (Some(origin), Some(until_now)) = (again.own_origin(), until_now) {
            origin.result = until_now;
        }
        *self = again;
        Ok(())
    }

    /// The processes that the monitor watches, with all their descendants.
    pub(super) fn pids(&self) -> Vec<u32> {
        match &self.system.kind {
            SystemKind::Running { pid, .. } => pid.iter().copied().collect(),
            SystemKind::Started { .. } | SystemKind::Remote { .. } => {
                self.processes().map(SystemProcess::pid).collect()
            }
        }
    }

    /// The session with the probe that watches it, if it runs on another machine.
    pub(super) fn session(&self) -> Option<Session> {
        match &self.runs {
            Runs::Remote(session) => Some(session.clone()),
            Runs::Local { .. } | Runs::External => None,
        }
    }

    /// The processors that it was given; empty if the run did not start it.
    pub(super) fn cpus(&self) -> &[usize] {
        &self.system.cpus
    }

    /// Whether a part of the suite is measured on it.
    pub(super) fn runs(&self, part: usize) -> bool {
        self.system.parts[part] == PartState::Runs
    }

    /// Whether the kernel adds the processor time of programs of these capabilities to none of its processes.
    pub(super) fn does_not_count(&self, needs: &[&str]) -> bool {
        match &self.system.kind {
            SystemKind::Running { .. } | SystemKind::Remote { .. } => false,
            SystemKind::Started { definition, .. } => {
                definition.uncounted.iter().any(|uncounted| needs.contains(&uncounted.as_str()))
            }
        }
    }

    /// The prefix of the workload's paths.
    pub(super) fn path_prefix(&self) -> &str {
        match &self.system.kind {
            SystemKind::Running { url, .. } => &url.path_prefix,
            SystemKind::Started { .. } | SystemKind::Remote { .. } => "",
        }
    }

    /// How it ended, if it did.
    pub(super) fn has_ended(&mut self) -> Option<String> {
        match &mut self.runs {
            Runs::Local { launched, origin, .. } => {
                if let Some(end) = launched.process.has_ended() {
                    return Some(end.to_string());
                }
                let origin = origin.iter_mut().map(|origin| &mut origin.process);
                let mut beside = launched.companions.iter_mut().chain(origin);
                let ended = beside.find_map(|companion| companion.has_ended().map(str::to_string));
                ended.map(|end| format!("a program beside it: {end}"))
            }
            Runs::Remote(session) => session.has_ended(),
            Runs::External => {
                let SystemKind::Running { pid, .. } = &self.system.kind else { return None };
                let pid = (*pid)?;
                (!Path::new(&format!("/proc/{pid}")).exists()).then(|| format!("process {pid} has ended"))
            }
        }
    }

    /// The end of its output.
    pub(super) fn last_output(&self) -> Option<String> {
        match &self.runs {
            Runs::Local { launched, .. } => launched.process.last_output(),
            Runs::Remote(session) => session.last_output(),
            Runs::External => None,
        }
    }

    /// Whether it was started for this run.
    fn was_started(&self) -> bool {
        !matches!(self.runs, Runs::External)
    }

    /// Asks it to end, without waiting.
    pub(super) fn request_end(&self) {
        self.processes().for_each(SystemProcess::request_end);
    }

    /// Ends it, if it was started for this run.
    pub(super) fn stop(&mut self) {
        match &mut self.runs {
            Runs::Local { launched, origin, .. } => {
                let origin = origin.iter_mut().map(|origin| &mut origin.process);
                let beside = launched.companions.iter_mut().chain(origin);
                std::iter::once(&mut launched.process).chain(beside).for_each(SystemProcess::stop);
            }
            Runs::Remote(session) => session.stop(),
            Runs::External => {}
        }
    }

    fn own_origin(&mut self) -> Option<&mut Origin> {
        match &mut self.runs {
            Runs::Local { origin, .. } => origin.as_deref_mut(),
            Runs::Remote(_) | Runs::External => None,
        }
    }

    /// Its origin, if it accelerates one, as far as it was measured.
    pub(super) fn origin(&self) -> Option<OriginResult> {
        match &self.runs {
            Runs::Local { origin, .. } => origin.as_ref().map(|origin| origin.result.clone()),
            Runs::Remote(_) | Runs::External => None,
        }
    }

    /// Called when a mix begins.
    pub(super) fn begin_mix(&mut self) {
        self.own_origin().into_iter().for_each(Origin::begin);
    }

    /// A mix has ended: if there is an origin, its processor time is stored, and everything is requested once
    /// to see how much of each class is stored.
    pub(super) fn end_mix(
        &mut self,
        prepared: &PreparedBench,
        part: usize,
        (mix, run): (&Mix, u64),
        requests: u64,
    ) {
        let Target { address, host, .. } = self.target.clone();
        let Some(origin) = self.own_origin() else { return };
        origin.end(mix, run, requests);
        for class in &prepared.suite.parts[part].workload.classes {
            for number in 0..class.requests() {
                let path = class.path(number);
                let length = class.body_bytes(number).unwrap_or(ORIGIN_BYTES_MAX) as usize;
                let answer = probe::get(address, &host, &path, length, REQUEST_TIME_LIMIT);
                origin.count(&class.name, answer.is_ok_and(|answer| answer.status == 200 && answer.hit));
            }
        }
    }

    fn processes(&self) -> impl Iterator<Item = &SystemProcess> {
        let here = match &self.runs {
            Runs::Local { launched, origin, .. } => Some((launched, origin)),
            Runs::Remote(_) | Runs::External => None,
        };
        here.into_iter().flat_map(|(launched, origin)| {
            let origin = origin.iter().map(|origin| &origin.process);
            std::iter::once(&launched.process).chain(&launched.companions).chain(origin)
        })
    }

    /// Its part of the result, before anything was measured.
    pub(super) fn empty_result(&self, suite: &Suite) -> SystemResult {
        SystemResult {
            command: self.command.clone(),
            cpus: self.system.cpus.clone(),
            machine: match &self.system.kind {
                SystemKind::Remote { found, .. } => Some(found.machine.clone()),
                SystemKind::Started { .. } | SystemKind::Running { .. } => None,
            },
            configuration: self.configuration.clone(),
            origin: self.origin(),
            ..not_measured(&self.system, suite)
        }
    }

    /// Requests the first item of a part until the answer is correct.
    fn wait_until_ready(
        &mut self,
        prepared: &PreparedBench,
        part: usize,
        interrupt: &AtomicBool,
    ) -> Result<(), Refusal> {
        let started = Instant::now();
        let mut first_answer = None;
        loop {
            check_interrupt(interrupt, &self.system.title)?;
            let problem = match self.ask(prepared, part, 0, 0) {
                Ok(()) => return Ok(()),
                Err(problem) => problem,
            };
            if let Some(end) = self.has_ended() {
                let when = if part == 0 { "at once" } else { "while it was asked" };
                return Err(Refusal::System(format!("ended {when} ({end})")));
            }
            if problem.answered {
                let first = *first_answer.get_or_insert_with(Instant::now);
                if first.elapsed() > WRONG_ANSWER_TIME_LIMIT || !self.was_started() {
                    return Err(Refusal::Part(problem.text));
                }
            } else if started.elapsed() > START_TIME_LIMIT || !self.was_started() {
                return Err(Refusal::Part(problem.text));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Requests everything of a part once: the server's caches are warm then, and every answer was checked.
    fn warm(&mut self, prepared: &PreparedBench, part: usize, interrupt: &AtomicBool) -> Result<(), Refusal> {
        for (index, class) in prepared.suite.parts[part].workload.classes.iter().enumerate() {
            // Of classes that need a handshake for each request, a sample is checked.
            let most = if class.endpoint.is_secure { SECURE_ASKED_MAX } else { u64::MAX };
            let step = class.requests().div_ceil(most).max(1);
            for number in (0..class.requests()).step_by(step as usize) {
                check_interrupt(interrupt, &self.system.title)?;
                self.ask(prepared, part, index, number).map_err(|problem| Refusal::Part(problem.text))?;
            }
        }
        Ok(())
    }

    /// Requests one item of the workload; an error states what is wrong with the answer.
    fn ask(&self, prepared: &PreparedBench, part: usize, class: usize, number: u64) -> Result<(), Problem> {
        let limit_bytes = self.system.is_limit.then(|| limit_body_bytes(prepared));
        // A system that was started here was given the tree; another server may have one of the same shape.
        let is_comparable = self.was_started() && !self.system.is_limit;
        let run_parameters = self.run_parameters(&prepared.placement.load, 0);
        Question { prepared, run_parameters, part, class, number, limit_bytes, is_comparable }.ask()
    }

    /// The parameters of its load, for any suite.
    pub(super) fn run_parameters<'d>(&'d self, cores: &'d [usize], seed: u64) -> RunParameters<'d> {
        RunParameters {
            target: self.target.clone(),
            tls_target: self.tls_target.clone(),
            path_prefix: self.path_prefix(),
            cores,
            seed,
            lengths: match self.system.is_limit {
                true => Lengths::Unchecked,
                // The files that were made belong to the systems that were started here.
                false if self.was_started() => Lengths::OfTree,
                false => Lengths::Stated,
            },
        }
    }

    /// The error that it cannot be measured, with its output or advice.
    fn refusal(&self, problem: &str) -> BenchError {
        let title = &self.system.title;
        if !self.was_started() {
            return BenchError::Refused(format!(
                "{title} {problem}. The workload's files must be served there (`touchstone suites NAME \
                 --tree DIR` writes them), and the programs of its interfaces at their paths."
            ));
        }
        let words = match self.last_output() {
            Some(words) => format!(" It printed last:\n{words}"),
            None => " It printed nothing.".to_string(),
        };
        BenchError::Refused(format!("{title} {problem}.{words}"))
    }
}

/// Why a part of the suite, or all of it, cannot be measured.
enum Refusal {
    /// The part was not answered correctly.
    Part(String),
    /// The system ended.
    System(String),
    /// The run was interrupted.
    Interrupted(BenchError),
}

impl From<BenchError> for Refusal {
    fn from(error: BenchError) -> Refusal {
        Refusal::Interrupted(error)
    }
}

/// The result of a system that was not measured.
pub(super) fn not_measured(system: &SelectedSystem, suite: &Suite) -> SystemResult {
    SystemResult {
        name: system.name.clone(),
        title: system.title.clone(),
        is_limit: system.is_limit,
        command: Vec::new(),
        cpus: Vec::new(),
        machine: None,
        configuration: Vec::new(),
        mixes: Vec::new(),
        loads: Vec::new(),
        peaks: Vec::new(),
        search: Vec::new(),
        skipped: system.skipped(suite),
        origin: None,
        last_words: None,
        memory_bytes: system.memory.map(Size::bytes),
    }
}

/// A tree of the workload's files for one system alone. The kernel caches none of them yet; what it caches
/// from now on counts as memory of that system. Dropping this removes the tree.
#[derive(Debug)]
struct OwnTree {
    path: PathBuf,
}

impl OwnTree {
    fn make(prepared: &PreparedBench, place: usize) -> std::io::Result<OwnTree> {
        let name = prepared.tree.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{name}-of-{}-{place}", std::process::id());
        let own = OwnTree { path: prepared.tree.with_file_name(name) };
        tree::write(&prepared.suite, &own.path)?;
        memory_group::forget_files(&own.path)?;
        Ok(own)
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for OwnTree {
    fn drop(&mut self) {
        // If removing fails, the rest remains in the cache, with this process's number in its name.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The length of the body that the kernel's limit answers with: the workload's mean.
fn limit_body_bytes(prepared: &PreparedBench) -> u64 {
    prepared.suite.first_part().workload.mean_body_bytes().round() as u64
}

/// Starts a system here, after its origin if it has one.
fn start_local(
    system: SelectedSystem,
    place: usize,
    prepared: &PreparedBench,
) -> Result<RunningSystem, String> {
    let SystemKind::Started { definition, installed, port, tls_port } = &system.kind else {
        return Err("only a system that is defined can be started".to_string());
    };
    let directory = prepared.directory.system_directory(&system.name).map_err(|error| error.to_string())?;
    let user = prepared.user.as_ref();
    let sockets = SocketDirectory::make(user)
        .map_err(|error| format!("{}: a directory for its sockets cannot be made: {error}", system.title))?;
    let needs = system.needs(&prepared.suite);
    let certificate = needs.contains(&TLS).then(|| Certificate::make(sockets.path(), user)).transpose();
    let certificate =
        certificate.map_err(|error| format!("{}: its certificate cannot be made: {error}", system.title))?;
    let memory = system.memory.map(MemoryGroup::make).transpose()?;
    let own_tree = memory.as_ref().map(|_| OwnTree::make(prepared, place)).transpose();
    let own_tree = own_tree.map_err(|error| {
        format!("{}: the files that count to its memory cannot be written: {error}", system.title)
    })?;
    let mut context = LaunchContext {
        tree: own_tree.as_ref().map_or(prepared.tree.as_path(), OwnTree::path),
        tls: certificate.as_ref().map(|certificate| LaunchTls {
            port: *tls_port,
            certificate: &certificate.file,
            certificate_key: &certificate.key_file,
        }),
        programs: &prepared.programs.directory,
        jars: prepared.programs.jars.as_deref(),
        directory: &directory,
        address: Ipv4Addr::LOCALHOST.into(),
        port: *port,
        origin_port: 0,
        cpus: &system.cpus,
        user,
        mean_body_bytes: limit_body_bytes(prepared),
        needs: &needs,
        memory: memory.as_ref(),
    };
    let start_origin = |name: &String| Origin::start(name, &system.name, &context, prepared);
    let origin = definition.origin.as_ref().map(start_origin).transpose()?;
    context.origin_port = origin.as_ref().map_or(0, |origin| origin.port);
    let launched = launch(definition, installed, sockets, &context)
        .map_err(|problem| format!("{}: {problem}", system.title))?;
    let mut configuration = launched.configuration.clone();
    configuration.extend(origin.iter().flat_map(|origin| origin.configuration.clone()));
    let tls_target = certificate.map(|certificate| {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *tls_port));
        Target { tls: Some(certificate.tls_target()), ..Target::plain(address, &address.to_string()) }
    });
    Ok(RunningSystem {
        target: system.target(),
        tls_target,
        place,
        command: launched.command.clone(),
        configuration,
        runs: Runs::Local {
            launched: Box::new(launched),
            origin: origin.map(Box::new),
            _memory: memory.zip(own_tree),
        },
        system,
    })
}

/// Starts a system on another machine.
fn start_remote(
    system: SelectedSystem,
    place: usize,
    prepared: &PreparedBench,
) -> Result<RunningSystem, String> {
    let SystemKind::Remote { session, found, .. } = &system.kind else {
        return Err("only a system on another machine is started there".to_string());
    };
    let session = session.clone();
    let needs = system.needs(&prepared.suite);
    let (tree, programs) = (&prepared.tree, &prepared.programs.directory);
    let (command, configuration) = session
        .start(found, tree, programs, &needs, limit_body_bytes(prepared))
        .map_err(|problem| format!("{}: {problem}", system.title))?;
    Ok(RunningSystem {
        target: system.target(),
        tls_target: None,
        place,
        command,
        configuration,
        runs: Runs::Remote(session),
        system,
    })
}

fn check_interrupt(interrupt: &AtomicBool, title: &str) -> Result<(), BenchError> {
    if interrupt.load(Ordering::Relaxed) {
        return Err(BenchError::Failed(format!(
            "interrupted while {title} was started; nothing was measured"
        )));
    }
    Ok(())
}
