//! The connection to a probe: ssh with this program at its other end.

use super::host::Host;
use super::messages::{self, Answer, Question, RemoteSystem};
use super::ssh::ssh_command;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use touchstone_lab::machine;
use touchstone_lab::recording::Snapshot;
use touchstone_lab::result::ConfigurationFile;

/// How long a probe may take to end after the request to stop.
const STOP_TIME_LIMIT: Duration = Duration::from_secs(15);
/// The directory of this program's copies on the other machine, below its user's home.
const PROBES: &str = ".cache/touchstone/probe";

/// A connected probe. Its clones share it; the last that is dropped ends it, and the system with it.
#[derive(Debug, Clone)]
pub struct Session {
    connection: Arc<SharedConnection>,
}

#[derive(Debug)]
struct SharedConnection {
    ssh: Vec<String>,
    host: Host,
    process: Mutex<ProbeProcess>,
}

#[derive(Debug)]
struct ProbeProcess {
    child: Child,
    /// Closed when no more questions follow.
    ask: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// How the system ended, as far as it is known.
    ended: Option<String>,
    last_words: Option<String>,
}

impl Session {
    /// Copies this program to the other machine, if it is not there yet, and starts it as a probe. `ssh` is
    /// the command with its options.
    pub fn open(ssh: &[String], host: &Host) -> Result<Session, String> {
        let binary = std::env::current_exe().map_err(|error| error.to_string())?;
        let hash = machine::tool().binary_sha256.ok_or("this program cannot read itself to be copied")?;
        let probe = format!("{PROBES}/touchstone-{}", &hash[..16]);
        let run = |script: &str, input: Stdio| run(ssh, host, script, input);
        let is_there = run(&format!("test -x {probe} || echo missing"), Stdio::null())?;
        if is_there.trim() == "missing" {
            // Written beside and renamed, so that a partial copy is never run.
            let input = File::open(&binary).map_err(|error| error.to_string())?;
            // Copies of older versions are removed after some time.
            let script = format!(
                "umask 077 && mkdir -p {PROBES} && find {PROBES} -type f -mtime +30 -delete && cat \
                 >{probe}.$$ && chmod 700 {probe}.$$ && mv {probe}.$$ {probe}"
            );
            run(&script, input.into())?;
        }
        let mut child = ssh_command(ssh, host, &format!("exec {probe} probe"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|error| format!("{}: {error}", ssh[0]))?;
        let (Some(ask), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("ssh has no standard input or output".to_owned());
        };
        let answers = BufReader::new(answers);
        let open = ProbeProcess { child, ask: Some(ask), answers, ended: None, last_words: None };
        Ok(Session {
            connection: Arc::new(SharedConnection {
                ssh: ssh.to_vec(),
                host: host.clone(),
                process: Mutex::new(open),
            }),
        })
    }

    /// Asks for a system by its definition.
    pub fn find(
        &self,
        file: &str,
        definition: &str,
        cpus: Option<Vec<usize>>,
    ) -> Result<RemoteSystem, String> {
        let question = Question::Find { file: file.to_owned(), definition: definition.to_owned(), cpus };
        match self.ask(&question)? {
            Answer::Found(found) => Ok(*found),
            other => Err(unexpected(other)),
        }
    }

    /// Copies the workload's files and the programs there, and starts the system that was found.
    pub fn start(
        &self,
        found: &RemoteSystem,
        tree: &Path,
        programs: &Path,
        needs: &[&str],
        mean_body_bytes: u64,
    ) -> Result<(Vec<String>, Vec<ConfigurationFile>), String> {
        for (name, local) in [("tree", tree), ("programs", programs)] {
            if local.is_dir() {
                self.copy(local, &found.directory.join(name))?;
            }
        }
        let needs = needs.iter().map(|need| (*need).to_owned()).collect();
        match self.ask(&Question::Start { needs, mean_body_bytes })? {
            Answer::Started { command, configuration } => Ok((command, configuration)),
            other => Err(unexpected(other)),
        }
    }

    /// The figures of the other machine now, dated from `start`: half of the round trip is subtracted.
    pub(crate) fn snapshot(&self, start: Instant) -> Result<Snapshot, String> {
        let asked_at = start.elapsed();
        let Answer::Seen { snapshot, ended, last_words } = self.ask(&Question::Look)? else {
            return Err("the probe answered something else".to_owned());
        };
        let mut open = self.lock();
        open.ended = open.ended.take().or(ended);
        open.last_words = open.last_words.take().or(last_words);
        Ok(Snapshot { at: asked_at + (start.elapsed() - asked_at) / 2, ..*snapshot })
    }

    /// How the system, or the connection to it, ended, as far as it is known.
    pub fn has_ended(&self) -> Option<String> {
        let mut open = self.lock();
        if open.ended.is_none()
            && let Ok(Some(status)) = open.child.try_wait()
        {
            open.ended = Some(format!("ssh to {} ended: {status}", self.connection.host.name));
        }
        open.ended.clone()
    }

    /// The end of the system's output, if it has ended.
    pub fn last_output(&self) -> Option<String> {
        self.lock().last_words.clone()
    }

    /// Ends the system and the probe.
    pub fn stop(&self) {
        // A probe that no longer answers has ended, or ends when its standard input does.
        let _ = self.ask(&Question::Stop);
        self.lock().close();
    }

    fn ask(&self, question: &Question) -> Result<Answer, String> {
        let mut open = self.lock();
        let lost = |error: io::Error| format!("the probe on {} was lost: {error}", self.connection.host.name);
        let Some(ask) = &mut open.ask else { return Err("the probe was ended".to_owned()) };
        messages::write(ask, question).map_err(lost)?;
        let ended = || io::Error::new(io::ErrorKind::UnexpectedEof, "it ended");
        match messages::read(&mut open.answers).and_then(|answer| answer.ok_or_else(ended)).map_err(lost)? {
            Answer::Failed { reason } => Err(format!("{}: {reason}", self.connection.host.name)),
            answer => Ok(answer),
        }
    }

    /// Copies a directory there, by tar over ssh.
    fn copy(&self, from: &Path, to: &Path) -> Result<(), String> {
        let mut tar = Command::new("tar")
            .args(["-C"])
            .arg(from)
            .args(["-cf", "-", "--dereference", "."])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("tar: {error}"))?;
        let output = tar.stdout.take().ok_or("tar has no standard output")?;
        let to = to.display();
        let script = format!("mkdir -p {to} && tar -xf - -C {to} && chmod -R a+rX {to}");
        let copied = run(&self.connection.ssh, &self.connection.host, &script, output.into());
        let packed = tar.wait().map_err(|error| error.to_string())?;
        copied?;
        if packed.success() { Ok(()) } else { Err(format!("tar of {}: {packed}", from.display())) }
    }

    fn lock(&self) -> MutexGuard<'_, ProbeProcess> {
        // A thread that panicked left no partial message: they are written whole.
        self.connection.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProbeProcess {
    /// The end of its input makes the probe end; otherwise it is killed.
    fn close(&mut self) {
        self.ask = None;
        let deadline = Instant::now() + STOP_TIME_LIMIT;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for ProbeProcess {
    fn drop(&mut self) {
        self.close();
    }
}

fn unexpected(answer: Answer) -> String {
    format!("the probe answered something else: {answer:?}")
}

/// Runs a shell script there; returns its output.
fn run(ssh: &[String], host: &Host, script: &str, input: Stdio) -> Result<String, String> {
    let failed = |error: io::Error| format!("{}: {error}", ssh[0]);
    let output = ssh_command(ssh, host, script).stdin(input).output().map_err(failed)?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{} cannot be reached over ssh, or refuses: {}", host.name, words.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
