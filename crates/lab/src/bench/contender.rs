//! A system under test in a run: started (or reached), checked, warmed, watched and at last stopped.

use super::BenchError;
use super::prepare::{Entrant, EntrantKind, Prepared};
use crate::probe;
use crate::result::{ConfigurationFile, SystemResult};
use crate::suite::tree::file_content;
use crate::system::Values;
use crate::system::process::{Start, SystemProcess};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use touchstone_load::Target;

/// How long a system may take until it answers at all.
const START_TIME_LIMIT: Duration = Duration::from_secs(30);
/// How long a system that answers may go on answering something else than the file that was asked for.
const WRONG_ANSWER_TIME_LIMIT: Duration = Duration::from_secs(3);
/// How long one request of the check may take.
const REQUEST_TIME_LIMIT: Duration = Duration::from_secs(10);

/// A system under test that is ready to be measured. Dropping it stops what was started.
#[derive(Debug)]
pub(super) struct Contender {
    pub(super) entrant: Entrant,
    pub(super) target: Target,
    process: Option<SystemProcess>,
    command: Vec<String>,
    configuration: Vec<ConfigurationFile>,
    cpus: Vec<usize>,
}

impl Contender {
    /// Starts the system unless it runs already, waits until it answers, and asks once for every file.
    pub(super) fn start(
        entrant: Entrant,
        prepared: &Prepared,
        interrupt: &AtomicBool,
    ) -> Result<Contender, BenchError> {
        let target = entrant.target();
        let mut contender = match &entrant.kind {
            EntrantKind::Running { .. } => Contender {
                entrant,
                target,
                process: None,
                command: Vec::new(),
                configuration: Vec::new(),
                cpus: Vec::new(),
            },
            EntrantKind::Started { .. } => launch(entrant, target, prepared).map_err(BenchError::Refused)?,
        };
        contender.wait_until_ready(prepared, interrupt)?;
        contender.warm(prepared, interrupt)?;
        Ok(contender)
    }

    /// The process that the monitor watches.
    pub(super) fn pid(&self) -> Option<u32> {
        match &self.entrant.kind {
            EntrantKind::Running { pid, .. } => *pid,
            EntrantKind::Started { .. } => self.process.as_ref().map(SystemProcess::pid),
        }
    }

    /// Whether it was started here, on processors of its own.
    pub(super) fn is_pinned(&self) -> bool {
        !self.cpus.is_empty()
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
            return process.has_ended().map(str::to_string);
        }
        let pid = self.pid()?;
        (!Path::new(&format!("/proc/{pid}")).exists()).then(|| format!("process {pid} is gone"))
    }

    /// The end of what it printed.
    pub(super) fn last_words(&self) -> Option<String> {
        self.process.as_ref().and_then(SystemProcess::last_words)
    }

    /// Asks it to end, without waiting.
    pub(super) fn ask_to_end(&self) {
        if let Some(process) = &self.process {
            process.ask_to_end();
        }
    }

    /// Ends it, if it was started here.
    pub(super) fn stop(&mut self) {
        if let Some(process) = &mut self.process {
            process.stop();
        }
    }

    /// Its part of the result, before anything was measured.
    pub(super) fn empty_result(&self) -> SystemResult {
        SystemResult {
            name: self.entrant.name.clone(),
            title: self.entrant.title.clone(),
            is_limit: self.entrant.is_limit,
            command: self.command.clone(),
            cpus: self.cpus.clone(),
            configuration: self.configuration.clone(),
            mixes: Vec::new(),
            last_words: None,
        }
    }

    /// Asks for the first file until it is answered rightly.
    fn wait_until_ready(&mut self, prepared: &Prepared, interrupt: &AtomicBool) -> Result<(), BenchError> {
        let started = Instant::now();
        let mut first_answer = None;
        loop {
            check_interrupt(interrupt, &self.entrant.title)?;
            let problem = match self.ask(prepared, 0, 0) {
                Ok(()) => return Ok(()),
                Err(problem) => problem,
            };
            if let Some(end) = self.has_ended() {
                return Err(self.refusal(&format!("ended at once ({end})")));
            }
            if problem.answered {
                let first = *first_answer.get_or_insert_with(Instant::now);
                if first.elapsed() > WRONG_ANSWER_TIME_LIMIT || self.process.is_none() {
                    return Err(self.refusal(&problem.text));
                }
            } else if started.elapsed() > START_TIME_LIMIT || self.process.is_none() {
                return Err(self.refusal(&problem.text));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Asks once for every file: the server's caches are warm, and every answer was compared with its file.
    fn warm(&mut self, prepared: &Prepared, interrupt: &AtomicBool) -> Result<(), BenchError> {
        for (index, class) in prepared.suite.workload.classes.iter().enumerate() {
            for file in 0..class.files {
                check_interrupt(interrupt, &self.entrant.title)?;
                self.ask(prepared, index, file).map_err(|problem| self.refusal(&problem.text))?;
            }
        }
        Ok(())
    }

    /// Asks for one file of the workload and says what is wrong with the answer.
    fn ask(&self, prepared: &Prepared, class_index: usize, file: u64) -> Result<(), Problem> {
        let workload = &prepared.suite.workload;
        let class = &workload.classes[class_index];
        let path = format!("{}{}", self.path_prefix(), class.path(file));
        let length = if self.entrant.is_limit { limit_body_bytes(prepared) } else { class.file_bytes };
        let answer =
            probe::get(self.target.address, &self.target.host, &path, length as usize, REQUEST_TIME_LIMIT)
                .map_err(|error| Problem {
                    text: format!("did not answer a request for {path}: {error}"),
                    answered: error.kind() == std::io::ErrorKind::InvalidData,
                })?;
        let wrong = |text: String| Err(Problem { text, answered: true });
        if answer.status != 200 {
            return wrong(format!("answered {} to a request for {path}", answer.status));
        }
        if answer.body.len() as u64 != length {
            let found = answer.body.len();
            return wrong(format!("answered {path} with {found} bytes; the file has {length}"));
        }
        // What was started here was given the tree; another server may have one of the same shape.
        let comparable = self.process.is_some() && !self.entrant.is_limit;
        if comparable && answer.body != file_content(workload, class_index, class, file) {
            return wrong(format!("answered {path} with other bytes than the file's"));
        }
        Ok(())
    }

    /// Why it cannot be measured, with what it printed or what to do.
    fn refusal(&self, problem: &str) -> BenchError {
        let title = &self.entrant.title;
        if self.process.is_none() {
            return BenchError::Refused(format!(
                "{title} {problem}. The workload's files must be served there: `touchstone suites NAME --tree DIR` \
                 writes them."
            ));
        }
        let words = match self.last_words() {
            Some(words) => format!(" Its last words:\n{words}"),
            None => " It printed nothing.".to_string(),
        };
        BenchError::Refused(format!("{title} {problem}.{words}"))
    }
}

struct Problem {
    text: String,
    /// Whether it answered at all.
    answered: bool,
}

/// The body that the kernel's limit answers with: the workload's mean.
fn limit_body_bytes(prepared: &Prepared) -> u64 {
    prepared.suite.workload.mean_body_bytes().round() as u64
}

fn launch(entrant: Entrant, target: Target, prepared: &Prepared) -> Result<Contender, String> {
    let EntrantKind::Started { definition, installed, port } = &entrant.kind else {
        return Err("only a system that is defined can be started".to_string());
    };
    let directory = prepared.directory.system_directory(&entrant.name).map_err(|error| error.to_string())?;
    let values = Values {
        executable: &installed.executable,
        root: &prepared.tree,
        directory: &directory,
        port: *port,
        cores: prepared.placement.system.len(),
        mean_body_bytes: limit_body_bytes(prepared),
    };
    let filled = definition.prepare(&values);
    let failed = |what: &str, error: std::io::Error| format!("{}: {what}: {error}", entrant.title);
    filled.write_files(&directory).map_err(|error| failed("its configuration cannot be written", error))?;
    let start = Start {
        command: &filled.command,
        environment: &filled.environment,
        cpus: &prepared.placement.system,
        directory: &directory,
    };
    let process = SystemProcess::start(start)
        .map_err(|error| failed(&format!("{} cannot be started", filled.command[0]), error))?;
    Ok(Contender {
        target,
        process: Some(process),
        command: filled.command,
        configuration: filled.files,
        cpus: prepared.placement.system.clone(),
        entrant,
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
