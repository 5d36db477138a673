//! Programs of `exec cmd`: a shell runs them, with the page's variables as environment. The text of a command
//! comes only from the page; no part of it comes from a request.
//!
//! The standard library starts them with `posix_spawn`, so the server is not copied. The command has a
//! process group of its own. The group is killed when the command takes too long or prints too much, or when
//! its request ends first.

use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use touchstone_includes::{ShellCommand, Variable};

/// The limits of a command.
pub struct Limits {
    /// How long it may run.
    pub timeout: Duration,
    /// How much it may print.
    pub most_bytes: u64,
}

/// Runs a command in a directory, and returns its output.
pub async fn run(
    command: ShellCommand,
    directory: PathBuf,
    environment: Vec<Variable>,
    limits: Limits,
) -> Result<Vec<u8>, String> {
    let mut child = spawn(command, directory, environment).map_err(|error| format!("exec: {error}"))?;
    let output = child.stdout.take();
    let group = Group::of(&child);
    let ended = group.ended.clone();
    let most_bytes = limits.most_bytes;
    let reading = tokio::task::spawn_blocking(move || {
        let result = read(output, most_bytes);
        let result = match result {
            // The command still prints, or hangs: the task that awaits this result kills the group.
            Err(error) => return (Err(error), child),
            Ok(result) => result,
        };
        wait(&mut child, &ended);
        (Ok(result), child)
    });
    let outcome = tokio::time::timeout(limits.timeout, reading).await;
    match outcome {
        Ok(Ok((Ok(output), _))) => Ok(output),
        Ok(Ok((Err(error), mut child))) => {
            group.kill();
            let ended = group.ended.clone();
            tokio::task::spawn_blocking(move || wait(&mut child, &ended));
            Err(format!("exec: {error}"))
        }
        Ok(Err(error)) => Err(format!("exec: {error}")),
        // Dropping the group kills it; the thread then reaches the end of its output, and waits for its end.
        Err(_) => Err(format!("exec: the command ran longer than {:?}", limits.timeout)),
    }
}

/// Whether a page may set a variable of this name for a command; false if it changes how programs are
/// executed.
pub fn may_be_set(name: &[u8]) -> bool {
    const CHANGE_EXECUTION: [&[u8]; 6] = [b"BASH_ENV", b"ENV", b"IFS", b"PATH", b"PS4", b"SHELLOPTS"];
    !CHANGE_EXECUTION.contains(&name) && !name.starts_with(b"LD_")
}

fn spawn(command: ShellCommand, directory: PathBuf, environment: Vec<Variable>) -> io::Result<Child> {
    let text = |bytes: Vec<u8>| std::ffi::OsString::from_vec(bytes);
    // Starts with $0. A zero byte ends an argument, so none can be passed.
    let groups = command.groups.into_iter().map(|group| if group.contains(&0) { Vec::new() } else { group });
    let is_variable = |(name, value): &Variable| {
        !name.is_empty() && !name.contains(&b'=') && !name.contains(&0) && !value.contains(&0)
    };
    let named = command.variables.into_iter().filter(|(name, _)| may_be_set(name));
    let environment = environment
        .into_iter()
        .chain(named)
        .filter(is_variable)
        .map(|(name, value)| (text(name), text(value)));
    Command::new("/bin/sh")
        .arg("-c")
        .arg(text(command.text))
        .args(groups.map(text))
        .current_dir(directory)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .envs(environment)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .process_group(0)
        .spawn()
}

fn read(output: Option<std::process::ChildStdout>, most_bytes: u64) -> io::Result<Vec<u8>> {
    let mut printed = Vec::new();
    if let Some(output) = output {
        output.take(most_bytes + 1).read_to_end(&mut printed)?;
    }
    if printed.len() as u64 > most_bytes {
        return Err(io::Error::other("the command prints more than the output may have"));
    }
    Ok(printed)
}

/// Waits for the command's end. The process id is released only once no signal can be sent to it any more.
fn wait(child: &mut Child, ended: &Mutex<bool>) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    }
    let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
    *ended = true;
    _ = child.wait();
}

/// The process group of a command; killed if it is dropped before the command has ended.
struct Group {
    leader: Option<Pid>,
    ended: Arc<Mutex<bool>>,
}

impl Group {
    fn of(child: &Child) -> Group {
        Group { leader: i32::try_from(child.id()).ok().and_then(Pid::from_raw), ended: Arc::default() }
    }

    fn kill(&self) {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(leader), false) = (self.leader, *ended) {
            _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_now(command: &str, limits: Limits) -> Result<Vec<u8>, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let environment = vec![(b"A".to_vec(), b"1".to_vec()), (b"".to_vec(), b"x".to_vec())];
        let bytes = |text: &str| text.as_bytes().to_vec();
        let command = ShellCommand {
            text: bytes(command),
            variables: vec![(bytes("b"), bytes("$(echo ran); 'x'")), (bytes("PATH"), bytes("/nowhere"))],
            groups: ["sh", "`echo ran`", "a\0b"].map(bytes).to_vec(),
        };
        runtime.block_on(run(command, "/".into(), environment, limits))
    }

    fn limits() -> Limits {
        Limits { timeout: Duration::from_secs(30), most_bytes: 1000 }
    }

    #[test]
    fn a_command_prints() {
        assert_eq!(run_now("echo $A; pwd; cat", limits()), Ok(b"1\n/\n".to_vec()));
        assert_eq!(run_now("exit 3", limits()), Ok(Vec::new()));
    }

    #[test]
    fn values_are_not_executed() {
        let printed =
            run_now("printf '%s|' \"$b\" \"$1\" \"$2\" $b; date >/dev/null || echo no PATH", limits());
        let words = "$(echo ran); 'x'|`echo ran`||$(echo|ran);|'x'|";
        assert_eq!(printed.map(|printed| String::from_utf8(printed).unwrap()), Ok(words.to_owned()));
    }

    #[test]
    fn a_command_that_hangs_or_floods_is_killed() {
        let short = Limits { timeout: Duration::from_millis(200), most_bytes: 10 };
        assert!(run_now("sleep 1000 & sleep 1000", short).unwrap_err().contains("longer"));
        assert!(run_now("yes", limits()).unwrap_err().contains("prints more"));
    }
}
