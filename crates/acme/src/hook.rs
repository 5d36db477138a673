//! A program of the operator that sets and removes records in DNS.

use std::env;
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// The pause between two checks of a running program.
const CHECK_PAUSE: Duration = Duration::from_millis(50);

/// The most output of a program that is shown.
const MOST_OUTPUT_BYTES: usize = 2048;

/// Parts of the names of environment variables whose values are secrets.
const SECRET_NAMES: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASSW", "PASSPHRASE", "CREDENTIAL"];

/// The shortest value that is hidden: shorter ones are parts of ordinary words.
const LEAST_SECRET_BYTES: usize = 6;

/// The program.
pub struct Hook {
    command: Vec<String>,
    time_limit: Duration,
}

/// What the program is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Set the record.
    Present,
    /// Remove it.
    Cleanup,
}

impl Action {
    fn word(self) -> &'static str {
        match self {
            Action::Present => "present",
            Action::Cleanup => "cleanup",
        }
    }
}

impl Hook {
    /// A program with its first arguments.
    pub fn new(command: Vec<String>, time_limit: Duration) -> Hook {
        Hook { command, time_limit }
    }

    /// Calls the program for the record `name`, which proves `host`.
    pub async fn run(&self, action: Action, host: &str, name: &str, value: &str) -> Result<(), String> {
        let Some((program, first)) = self.command.split_first() else {
            return Err("acme.dns.hook names no program".to_string());
        };
        let word = action.word();
        let mut command = Command::new(program);
        command
            .args(first)
            .args([word, name, value])
            .env("TOUCHSTONE_ACME_ACTION", word)
            .env("TOUCHSTONE_ACME_DOMAIN", host)
            .env("TOUCHSTONE_ACME_NAME", name)
            .env("TOUCHSTONE_ACME_VALUE", value)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let time_limit = self.time_limit;
        let outcome = tokio::task::spawn_blocking(move || run_limited(command, time_limit)).await;
        let outcome = outcome.map_err(|error| format!("the hook {program} {word}: {error}"))?;
        match outcome {
            Ok(Some((status, _))) if status.success() => Ok(()),
            Ok(Some((status, output))) => {
                Err(format!("the hook {program} {word} failed with {status}{}", shown(&output)))
            }
            Ok(None) => Err(format!("the hook {program} {word} took more than {} s", time_limit.as_secs())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(format!("the hook {program} does not exist"))
            }
            Err(error) => Err(format!("the hook {program} cannot be started: {error}")),
        }
    }
}

/// Runs a program with all its children; returns its status and its last output, `None` if it took too long.
fn run_limited(mut command: Command, limit: Duration) -> io::Result<Option<(ExitStatus, Vec<u8>)>> {
    let mut child = command.spawn()?;
    let (out, errors) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let until = Instant::now() + limit;
    let mut status = child.try_wait()?;
    while status.is_none() && Instant::now() < until {
        std::thread::sleep(CHECK_PAUSE);
        status = child.try_wait()?;
    }
    // Children of the program would hold the pipes of its output open.
    end_group(&mut child);
    let (out, errors) = (last_output(out), last_output(errors));
    Ok(status.map(|status| (status, if errors.is_empty() { out } else { errors })))
}

/// Ends a program and its children.
fn end_group(child: &mut Child) {
    if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
        // They may have ended already.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

/// Reads all output, so that the program never waits; the last bytes are kept.
fn reader(from: Option<impl Read + Send + 'static>) -> Option<JoinHandle<Vec<u8>>> {
    let mut from = from?;
    let read = move || {
        let (mut last, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            last.extend_from_slice(&buffer[..count]);
            let surplus = last.len().saturating_sub(MOST_OUTPUT_BYTES);
            last.drain(..surplus);
        }
        last
    };
    std::thread::Builder::new().name("acme-hook".to_string()).spawn(read).ok()
}

fn last_output(reader: Option<JoinHandle<Vec<u8>>>) -> Vec<u8> {
    reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
}

/// The output for the log, in one line.
fn shown(output: &[u8]) -> String {
    let secrets = env::vars_os().filter_map(|(name, value)| {
        let name = name.to_string_lossy().to_ascii_uppercase();
        let is_secret = SECRET_NAMES.iter().any(|part| name.contains(part));
        is_secret.then(|| value.to_string_lossy().into_owned())
    });
    let text = without_secrets(String::from_utf8_lossy(output).into_owned(), secrets);
    let line: Vec<String> = text
        .lines()
        .map(|line| line.trim().replace(char::is_control, " "))
        .filter(|line| !line.is_empty())
        .collect();
    match line.is_empty() {
        true => String::new(),
        false => format!(": {}", line.join(" | ").chars().take(MOST_OUTPUT_BYTES).collect::<String>()),
    }
}

/// Replaces the values of secret variables of the environment.
fn without_secrets(mut text: String, secrets: impl Iterator<Item = String>) -> String {
    for secret in secrets.filter(|secret| secret.len() >= LEAST_SECRET_BYTES) {
        text = text.replace(&secret, "***");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, limit_s: u64) -> Hook {
        let command = ["/bin/sh", "-c", script, "sh"].map(str::to_string).to_vec();
        Hook::new(command, Duration::from_secs(limit_s))
    }

    async fn run(script: &str, limit_s: u64) -> Result<(), String> {
        sh(script, limit_s).run(Action::Present, "a.org", "_acme-challenge.a.org", "value").await
    }

    #[tokio::test]
    async fn arguments_and_environment() {
        let script = r#"test "$1 $2 $3" = "present _acme-challenge.a.org value" &&
            test "$TOUCHSTONE_ACME_ACTION $TOUCHSTONE_ACME_NAME" = "$1 $2" &&
            test "$TOUCHSTONE_ACME_DOMAIN $TOUCHSTONE_ACME_VALUE" = "a.org $3""#;
        assert_eq!(run(script, 30).await, Ok(()));
    }

    #[tokio::test]
    async fn a_program_that_fails_is_quoted() {
        let failed = run("echo one; echo 'two\tthree' >&2; exit 3", 30).await.unwrap_err();
        assert!(failed.ends_with("present failed with exit status: 3: two three"), "{failed}");
        let much = run("yes | head -c 1000000; exit 1", 30).await.unwrap_err();
        assert!(much.len() < MOST_OUTPUT_BYTES + 200, "{}", much.len());
        let missing = Hook::new(vec!["/nowhere/hook".to_string()], Duration::from_secs(1));
        let error = missing.run(Action::Cleanup, "a", "b", "c").await.unwrap_err();
        assert_eq!(error, "the hook /nowhere/hook does not exist");
    }

    #[tokio::test]
    async fn a_program_that_takes_too_long_is_ended() {
        let error = run("exec sleep 600", 1).await.unwrap_err();
        assert!(error.ends_with("took more than 1 s"), "{error}");
    }

    #[test]
    fn secrets_of_the_environment_are_hidden() {
        let secrets = ["hunter22".to_string(), "on".to_string()];
        let text = without_secrets("login on hunter22 failed".to_string(), secrets.into_iter());
        assert_eq!(text, "login on *** failed");
    }
}
