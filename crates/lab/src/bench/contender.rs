//! A system under test in a run: started (or reached), checked, warmed, watched and at last stopped.

use super::BenchError;
use super::ask::{Problem, Question, REQUEST_TIME_LIMIT};
use super::certificate::Certificate;
use super::entrant::{Entrant, EntrantKind, PartState};
use super::origin::Origin;
use super::prepare::Prepared;
use crate::capability::TLS;
use crate::probe;
use crate::result::{ConfigurationFile, OriginResult, SystemResult};
use crate::suite::{Drive, Lengths, Mix, Suite};
use crate::system::Values;
use crate::system::companion::{PreparedCompanion, SocketDirectory};
use crate::system::process::{OUTPUT_FILE, Start, SystemProcess};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use touchstone_load::Target;

/// How long a system may take until it answers at all.
const START_TIME_LIMIT: Duration = Duration::from_secs(30);
/// How long a system that answers may go on answering something else than the file that was asked for.
const WRONG_ANSWER_TIME_LIMIT: Duration = Duration::from_secs(3);
/// The most requests of a class that are made with TLS before anything is measured.
const SECURE_ASKED_MAX: u64 = 20;
/// The longest answer that is read where nobody knows its length.
const ORIGIN_BYTES_MAX: u64 = 16 << 20;

/// A system under test that is ready to be measured. Dropping it stops what was started.
#[derive(Debug)]
pub(super) struct Contender {
    pub(super) entrant: Entrant,
    pub(super) target: Target,
    /// Its port with TLS, where the suite asks for one.
    tls_target: Option<Target>,
    /// Where it stands among all systems that were named.
    pub(super) place: usize,
    process: Option<SystemProcess>,
    companions: Vec<SystemProcess>,
    origin: Option<Origin>,
    command: Vec<String>,
    configuration: Vec<ConfigurationFile>,
    cpus: Vec<usize>,
    /// Kept as long as the processes: taken away when this is dropped.
    _sockets: Option<SocketDirectory>,
}

impl Contender {
    /// Starts the system unless it runs already, waits until it answers, and asks once for everything. A part of the suite,
    /// other than the first, that it does not answer rightly is skipped.
    pub(super) fn start(
        entrant: Entrant,
        place: usize,
        prepared: &Prepared,
        interrupt: &AtomicBool,
    ) -> Result<Contender, BenchError> {
        let target = entrant.target();
        let mut contender = match &entrant.kind {
            EntrantKind::Running { .. } => Contender {
                entrant,
                target,
                tls_target: None,
                place,
                process: None,
                companions: Vec::new(),
                origin: None,
                command: Vec::new(),
                configuration: Vec::new(),
                cpus: Vec::new(),
                _sockets: None,
            },
            EntrantKind::Started { .. } => {
                launch(entrant, target, place, prepared).map_err(BenchError::Refused)?
            }
        };
        for part in 0..prepared.suite.parts.len() {
            if contender.entrant.parts[part] != PartState::Runs {
                continue;
            }
            let asked = contender
                .wait_until_ready(prepared, part, interrupt)
                .and_then(|()| contender.warm(prepared, part, interrupt));
            match asked {
                Ok(()) => {}
                Err(Refusal::Part(problem)) if part > 0 => {
                    let reason = format!("{} {problem}", contender.entrant.title);
                    contender.entrant.parts[part] = PartState::Skipped(reason);
                }
                Err(Refusal::Part(problem) | Refusal::System(problem)) => {
                    return Err(contender.refusal(&problem));
                }
                Err(Refusal::Interrupted(error)) => return Err(error),
            }
        }
        Ok(contender)
    }

    /// The processes that the monitor watches, with all that descend from them.
    pub(super) fn pids(&self) -> Vec<u32> {
        match &self.entrant.kind {
            EntrantKind::Running { pid, .. } => pid.iter().copied().collect(),
            EntrantKind::Started { .. } => self.processes().map(SystemProcess::pid).collect(),
        }
    }

    /// The processors that it was given; empty where it was not started here.
    pub(super) fn cpus(&self) -> &[usize] {
        &self.cpus
    }

    /// Whether a part of the suite is measured on it.
    pub(super) fn runs(&self, part: usize) -> bool {
        self.entrant.parts[part] == PartState::Runs
    }

    /// Whether the kernel adds the processor time of programs of these capabilities to none of its processes.
    pub(super) fn does_not_count(&self, needs: &[&str]) -> bool {
        match &self.entrant.kind {
            EntrantKind::Running { .. } => false,
            EntrantKind::Started { definition, .. } => {
                definition.uncounted.iter().any(|uncounted| needs.contains(&uncounted.as_str()))
            }
        }
    }

    /// Set before the paths of the workload.
    pub(super) fn path_prefix(&self) -> &str {
        match &self.entrant.kind {
            EntrantKind::Running { url, .. } => &url.path_prefix,
            EntrantKind::Started { .. } => "",
        }
    }

    /// How it ended, if it did.
    pub(super) fn has_ended(&mut self) -> Option<String> {
        if let Some(process) = &mut self.process {
            if let Some(end) = process.has_ended() {
                return Some(end.to_string());
            }
            let origin = self.origin.iter_mut().map(|origin| &mut origin.process);
            let mut beside = self.companions.iter_mut().chain(origin);
            let ended = beside.find_map(|companion| companion.has_ended().map(str::to_string));
            return ended.map(|end| format!("a program beside it: {end}"));
        }
        let EntrantKind::Running { pid, .. } = &self.entrant.kind else { return None };
        let pid = (*pid)?;
        (!Path::new(&format!("/proc/{pid}")).exists()).then(|| format!("process {pid} is gone"))
    }

    /// The end of what it printed.
    pub(super) fn last_words(&self) -> Option<String> {
        self.process.as_ref().and_then(SystemProcess::last_words)
    }

    /// Asks it to end, without waiting.
    pub(super) fn ask_to_end(&self) {
        self.processes().for_each(SystemProcess::ask_to_end);
    }

    /// Ends it, if it was started here.
    pub(super) fn stop(&mut self) {
        let origin = self.origin.iter_mut().map(|origin| &mut origin.process);
        self.process.iter_mut().chain(&mut self.companions).chain(origin).for_each(SystemProcess::stop);
    }

    /// Its origin, where it accelerates one, as far as it was measured.
    pub(super) fn origin(&self) -> Option<OriginResult> {
        self.origin.as_ref().map(|origin| origin.result.clone())
    }

    /// A mix begins.
    pub(super) fn begin_mix(&mut self) {
        self.origin.iter_mut().for_each(Origin::begin);
    }

    /// A mix has ended: where there is an origin, its processor time is kept, and everything is asked for once to see how much
    /// of each class is stored.
    pub(super) fn end_mix(&mut self, prepared: &Prepared, part: usize, mix: &Mix, requests: u64) {
        let Some(origin) = &mut self.origin else { return };
        origin.end(mix, requests);
        for class in &prepared.suite.parts[part].workload.classes {
            for number in 0..class.requests() {
                let path = class.path(number);
                let length = class.body_bytes(number).unwrap_or(ORIGIN_BYTES_MAX) as usize;
                let Target { address, host, .. } = &self.target;
                let answer = probe::get(*address, host, &path, length, REQUEST_TIME_LIMIT);
                origin.count(&class.name, answer.is_ok_and(|answer| answer.status == 200 && answer.hit));
            }
        }
    }

    fn processes(&self) -> impl Iterator<Item = &SystemProcess> {
        let origin = self.origin.iter().map(|origin| &origin.process);
        self.process.iter().chain(&self.companions).chain(origin)
    }

    /// Its part of the result, before anything was measured.
    pub(super) fn empty_result(&self, suite: &Suite) -> SystemResult {
        SystemResult {
            command: self.command.clone(),
            cpus: self.cpus.clone(),
            configuration: self.configuration.clone(),
            origin: self.origin(),
            ..not_measured(&self.entrant, suite)
        }
    }

    /// Asks for the first thing of a part until it is answered rightly.
    fn wait_until_ready(
        &mut self,
        prepared: &Prepared,
        part: usize,
        interrupt: &AtomicBool,
    ) -> Result<(), Refusal> {
        let started = Instant::now();
        let mut first_answer = None;
        loop {
            check_interrupt(interrupt, &self.entrant.title)?;
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
                if first.elapsed() > WRONG_ANSWER_TIME_LIMIT || self.process.is_none() {
                    return Err(Refusal::Part(problem.text));
                }
            } else if started.elapsed() > START_TIME_LIMIT || self.process.is_none() {
                return Err(Refusal::Part(problem.text));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Asks once for everything of a part: the server's caches are warm, and every answer was looked at.
    fn warm(&mut self, prepared: &Prepared, part: usize, interrupt: &AtomicBool) -> Result<(), Refusal> {
        for (index, class) in prepared.suite.parts[part].workload.classes.iter().enumerate() {
            // Of what takes a handshake each, a sample is looked at.
            let most = if class.endpoint.is_secure { SECURE_ASKED_MAX } else { u64::MAX };
            let step = class.requests().div_ceil(most).max(1);
            for number in (0..class.requests()).step_by(step as usize) {
                check_interrupt(interrupt, &self.entrant.title)?;
                self.ask(prepared, part, index, number).map_err(|problem| Refusal::Part(problem.text))?;
            }
        }
        Ok(())
    }

    /// Asks for one thing of the workload and says what is wrong with the answer.
    fn ask(&self, prepared: &Prepared, part: usize, class: usize, number: u64) -> Result<(), Problem> {
        let limit_bytes = self.entrant.is_limit.then(|| limit_body_bytes(prepared));
        // What was started here was given the tree; another server may have one of the same shape.
        let is_comparable = self.process.is_some() && !self.entrant.is_limit;
        let drive = self.drive(&prepared.placement.load, 0);
        Question { prepared, drive, part, class, number, limit_bytes, is_comparable }.ask()
    }

    /// How it is loaded, whatever the suite.
    pub(super) fn drive<'d>(&'d self, cores: &'d [usize], seed: u64) -> Drive<'d> {
        Drive {
            target: self.target.clone(),
            tls_target: self.tls_target.clone(),
            path_prefix: self.path_prefix(),
            cores,
            seed,
            lengths: match self.entrant.is_limit {
                true => Lengths::Unchecked,
                // The files that were made are those of what was started here.
                false if self.process.is_some() => Lengths::OfTree,
                false => Lengths::Stated,
            },
        }
    }

    /// Why it cannot be measured, with what it printed or what to do.
    fn refusal(&self, problem: &str) -> BenchError {
        let title = &self.entrant.title;
        if self.process.is_none() {
            return BenchError::Refused(format!(
                "{title} {problem}. The workload's files must be served there (`touchstone suites NAME --tree DIR` \
                 writes them), and the programs of its interfaces at their paths."
            ));
        }
        let words = match self.last_words() {
            Some(words) => format!(" Its last words:\n{words}"),
            None => " It printed nothing.".to_string(),
        };
        BenchError::Refused(format!("{title} {problem}.{words}"))
    }
}

/// Why a part of the suite, or all of it, cannot be measured.
enum Refusal {
    /// The part was not answered rightly.
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

/// The result of a system of which nothing was measured.
pub(super) fn not_measured(entrant: &Entrant, suite: &Suite) -> SystemResult {
    SystemResult {
        name: entrant.name.clone(),
        title: entrant.title.clone(),
        is_limit: entrant.is_limit,
        command: Vec::new(),
        cpus: Vec::new(),
        configuration: Vec::new(),
        mixes: Vec::new(),
        skipped: entrant.skipped(suite),
        origin: None,
        last_words: None,
    }
}

/// The body that the kernel's limit answers with: the workload's mean.
fn limit_body_bytes(prepared: &Prepared) -> u64 {
    prepared.suite.first_part().workload.mean_body_bytes().round() as u64
}

fn launch(entrant: Entrant, target: Target, place: usize, prepared: &Prepared) -> Result<Contender, String> {
    let EntrantKind::Started { definition, installed, port, tls_port } = &entrant.kind else {
        return Err("only a system that is defined can be started".to_string());
    };
    let failed = |what: &str, error: std::io::Error| format!("{}: {what}: {error}", entrant.title);
    let directory = prepared.directory.system_directory(&entrant.name).map_err(|error| error.to_string())?;
    let user = prepared.user.as_ref();
    let sockets = SocketDirectory::make(user)
        .map_err(|error| failed("a directory for its sockets cannot be made", error))?;
    let cpus = &prepared.placement.system;
    let needs = entrant.needs(&prepared.suite);
    let start_origin = |name: &String| Origin::start(name, &entrant.name, &needs, sockets.path(), prepared);
    let origin = definition.origin.as_ref().map(start_origin).transpose()?;
    let certificate = needs.contains(&TLS).then(|| Certificate::make(sockets.path(), user)).transpose();
    let certificate = certificate.map_err(|error| failed("its certificate cannot be made", error))?;
    let filled = definition.prepare(&Values {
        executable: &installed.executable,
        root: &prepared.tree,
        directory: &directory,
        port: *port,
        origin_port: origin.as_ref().map_or(0, |origin| origin.port),
        tls_port: *tls_port,
        certificate: certificate.as_ref().map_or(Path::new(""), |certificate| &certificate.file),
        certificate_key: certificate.as_ref().map_or(Path::new(""), |certificate| &certificate.key_file),
        cores: cpus.len(),
        mean_body_bytes: limit_body_bytes(prepared),
        programs: &prepared.programs.directory,
        sockets: sockets.path(),
        user: user.map_or("", |user| &user.name),
        group: user.map_or("", |user| &user.group),
        as_root: user.is_some(),
        needs: &needs,
    });
    filled.write_files(&directory).map_err(|error| failed("its configuration cannot be written", error))?;
    let mut companions = Vec::new();
    for companion in &filled.companions {
        let started = companion.start(cpus, &directory.join("companions.log"), sockets.path(), user);
        companions.extend(started.map_err(|error| {
            failed(&format!("{} cannot be started beside it", companion.command[0]), error)
        })?);
    }
    let process = SystemProcess::start(Start {
        command: &filled.command,
        environment: &filled.environment,
        cpus,
        directory: &directory,
        output: &directory.join(OUTPUT_FILE),
        socket: None,
        user: None,
    })
    .map_err(|error| failed(&format!("{} cannot be started", filled.command[0]), error))?;
    let mut configuration = with_companions(filled.files, &filled.companions, cpus.len());
    configuration.extend(origin.iter().flat_map(|origin| origin.configuration.clone()));
    let tls_target = certificate.map(|certificate| {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *tls_port));
        Target { tls: Some(certificate.tls_target()), ..Target::plain(address, &address.to_string()) }
    });
    Ok(Contender {
        target,
        tls_target,
        place,
        process: Some(process),
        companions,
        origin,
        command: filled.command,
        configuration,
        cpus: cpus.clone(),
        _sockets: Some(sockets),
        entrant,
    })
}

/// What ran beside a system belongs to how it was configured.
fn with_companions(
    mut files: Vec<ConfigurationFile>,
    companions: &[PreparedCompanion],
    processes: usize,
) -> Vec<ConfigurationFile> {
    let line = |companion: &PreparedCompanion| {
        format!("{} x {} (listens at {})\n", processes, companion.command.join(" "), companion.socket)
    };
    if !companions.is_empty() {
        let text = companions.iter().map(line).collect();
        files.push(ConfigurationFile { name: "programs that ran beside it".to_string(), text });
    }
    files
}

fn check_interrupt(interrupt: &AtomicBool, title: &str) -> Result<(), BenchError> {
    if interrupt.load(Ordering::Relaxed) {
        return Err(BenchError::Failed(format!(
            "interrupted while {title} was started; nothing was measured"
        )));
    }
    Ok(())
}
