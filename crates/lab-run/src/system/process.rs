//! The processes of a system under test: started on their own processors in a separate process group,
//! monitored, and stopped with all their descendants.

use super::memory_group::MemoryGroup;
use super::user::User;
use crate::placement::pin_this_thread;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The file of the system's directory that holds its standard output and error.
pub const OUTPUT_FILE: &str = "output.log";

/// How long a system may take to end after SIGTERM, before it is killed.
const STOP_TIME_LIMIT: Duration = Duration::from_secs(8);

/// How much of the output is kept as what it printed last.
const LAST_WORDS_BYTES: u64 = 4096;
const LAST_WORDS_LINES: usize = 20;

/// A system under test that was started here. Dropping it stops it.
#[derive(Debug)]
pub struct SystemProcess {
    child: Child,
    output: PathBuf,
    ended: Option<String>,
}

/// What to start.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    /// The command with its arguments.
    pub command: &'a [String],
    /// Environment variables set for it.
    pub environment: &'a [(String, String)],
    /// The processors that it may use.
    pub cpus: &'a [usize],
    /// Its working directory, which the user that it becomes must be able to enter.
    pub directory: &'a Path,
    /// The file that holds its standard output and error.
    pub output: &'a Path,
    /// The socket that becomes its descriptor 0; absent: none.
    pub socket: Option<&'a UnixListener>,
    /// The user that it becomes; absent: the user of this process.
    pub user: Option<&'a User>,
    /// The control group that limits its memory; absent: no limit.
    pub memory: Option<&'a MemoryGroup>,
}

impl SystemProcess {
    /// Starts the command.
    pub fn start(start: Start<'_>) -> io::Result<SystemProcess> {
        let (executable, arguments) =
            start.command.split_first().ok_or_else(|| io::Error::other("there is no command"))?;
        let output = start.output.to_path_buf();
        let log = OpenOptions::new().create(true).append(true).open(&output)?;
        let mut command = match start.memory {
            None => Command::new(executable),
            Some(group) => group.command(executable),
        };
        command
            .args(arguments)
            .envs(start.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(start.directory)
            .stdin(match start.socket {
                Some(socket) => Stdio::from(OwnedFd::from(socket.try_clone()?)),
                None => Stdio::null(),
            })
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0);
        if let Some(user) = start.user {
            // Supplementary groups are given up with root's rights.
            command.uid(user.uid).gid(user.gid);
        }
        let child = spawn_on(start.cpus, &mut command)?;
        // If it cannot be put into its group, dropping it ends it.
        let process = SystemProcess { child, output, ended: None };
        start.memory.map_or(Ok(()), |group| group.add(process.pid()))?;
        Ok(process)
    }

    /// The process that was started: the root of the system's process tree and the leader of its group.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did, as text.
    pub fn has_ended(&mut self) -> Option<&str> {
        if self.ended.is_none() && self.leader_has_ended() {
            self.reap();
        }
        self.ended.as_deref()
    }

    /// The end of what it printed.
    pub fn last_output(&self) -> Option<String> {
        last_output(&self.output).ok().filter(|words| !words.is_empty())
    }

    /// Asks it to end, without waiting.
    pub fn request_end(&self) {
        if self.ended.is_none() {
            // The leader is not yet reaped, so the number is still its group's. An error is ignored: it may
            // have ended already.
            let _ = self.signal(Signal::TERM);
        }
    }

    /// Ends it and everything in its group: SIGTERM, and SIGKILL for what is left after eight seconds.
    pub fn stop(&mut self) {
        self.request_end();
        let deadline = Instant::now() + STOP_TIME_LIMIT;
        while self.ended.is_none() && !self.leader_has_ended() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.reap();
    }

    /// Whether the leader has ended; it is not reaped, so that the number of its group is not reused.
    fn leader_has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.group().is_none_or(|leader| !matches!(waitid(WaitId::Pid(leader), options), Ok(None)))
    }

    /// Kills what is left of the group and collects the leader.
    fn reap(&mut self) {
        if self.ended.is_some() {
            return;
        }
        let _ = self.signal(Signal::KILL);
        self.ended = Some(match self.child.wait() {
            Ok(status) => status.to_string(),
            Err(error) => format!("its end could not be read: {error}"),
        });
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        let group = self.group().ok_or_else(|| io::Error::other("no process group"))?;
        Ok(kill_process_group(group, signal)?)
    }

    fn group(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }
}

impl Drop for SystemProcess {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Starts the command from a thread that is pinned: a child inherits the processors of the thread that starts
/// it.
fn spawn_on(cpus: &[usize], command: &mut Command) -> io::Result<Child> {
    std::thread::scope(|scope| {
        let spawner = scope.spawn(|| {
            pin_this_thread(cpus)?;
            command.spawn()
        });
        spawner.join().unwrap_or_else(|_| Err(io::Error::other("the starting thread panicked")))
    })
}

fn last_output(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LAST_WORDS_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(LAST_WORDS_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.trim().lines().collect();
    Ok(lines[lines.len().saturating_sub(LAST_WORDS_LINES)..].join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, directory: &Path) -> SystemProcess {
        let command = ["/bin/sh", "-c", script].map(str::to_string);
        let cpus = crate::placement::allowed().unwrap();
        let environment = [("GREETING".to_string(), "good morning".to_string())];
        let start = Start {
            command: &command,
            environment: &environment,
            cpus: &cpus[..1],
            directory,
            output: &directory.join(OUTPUT_FILE),
            socket: None,
            user: None,
            memory: None,
        };
        SystemProcess::start(start).unwrap()
    }

    fn wait_for_end(process: &mut SystemProcess) -> String {
        loop {
            if let Some(end) = process.has_ended() {
                return end.to_string();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn one_that_dies_leaves_its_last_words() {
        let place = tempfile::tempdir().unwrap();
        let mut process = shell("echo \"$GREETING\"; echo cannot bind >&2; exit 7", place.path());
        assert!(wait_for_end(&mut process).contains('7'));
        assert_eq!(process.last_output().unwrap(), "good morning\ncannot bind");
    }

    #[test]
    fn it_runs_on_its_processors_in_its_own_group_and_directory() {
        let place = tempfile::tempdir().unwrap();
        let first = crate::placement::allowed().unwrap()[0];
        let mut process =
            shell("grep Cpus_allowed_list /proc/self/status; pwd; cut -d' ' -f5 /proc/$$/stat", place.path());
        wait_for_end(&mut process);
        let words = process.last_output().unwrap();
        let lines: Vec<&str> = words.lines().collect();
        assert_eq!(lines[0].split_whitespace().nth(1), Some(first.to_string().as_str()));
        assert_eq!(Path::new(lines[1]), place.path().canonicalize().unwrap());
        assert_eq!(lines[2], process.pid().to_string());
    }

    #[test]
    fn stopping_ends_the_whole_group() {
        let place = tempfile::tempdir().unwrap();
        let mut process = shell("sleep 1000 & echo $!; wait", place.path());
        let child = loop {
            if let Some(words) = process.last_output() {
                break words.parse::<u32>().unwrap();
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        process.stop();
        assert!(process.has_ended().is_some());
        let gone = || match std::fs::read_to_string(format!("/proc/{child}/stat")) {
            Ok(stat) => stat.contains(") Z "),
            Err(_) => true,
        };
        while !gone() {
            std::thread::sleep(Duration::from_millis(5));
        }
        process.stop();
    }

    #[test]
    fn only_the_end_of_a_long_output_is_kept() {
        let place = tempfile::tempdir().unwrap();
        let mut process = shell("seq 1 5000", place.path());
        wait_for_end(&mut process);
        let words = process.last_output().unwrap();
        assert_eq!(words.lines().count(), LAST_WORDS_LINES);
        assert!(words.ends_with("5000"));
    }

    #[test]
    fn what_cannot_be_started_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let command = ["/no/such/server".to_string()];
        let start = Start {
            command: &command,
            environment: &[],
            cpus: &[0],
            directory: place.path(),
            output: &place.path().join(OUTPUT_FILE),
            socket: None,
            user: None,
            memory: None,
        };
        assert!(SystemProcess::start(start).is_err());
    }
}
