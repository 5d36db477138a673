//! Starts a fleet's agents from the controller: in network namespaces of this machine, over ssh, or under
//! Slurm. The agent works in the same way under each: it reads its credentials from standard input, so that
//! they are on no other machine's disk, and ends when standard input closes, so that no process is left when
//! the controller ends.

mod local;
mod ssh;

use crate::agent::LEFT_WORDS;
pub use crate::launch_settings::{Launch, Launcher};
use crate::message::Role;
use crate::setup::{AgentEntry, CONTROLLER, FleetFile};
use local::Namespaces;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long agents may take to end after their input is closed.
const END_TIME: Duration = Duration::from_secs(5);
/// How often their end is checked.
const CHECK_PERIOD: Duration = Duration::from_millis(20);

/// Agents that were started here. They end when this is dropped.
pub struct LaunchedFleet {
    agents: Vec<LaunchedAgent>,
    server: Option<Child>,
    /// Removed last.
    namespaces: Option<Namespaces>,
}

/// An agent that was started here, or the local process that represents it: nsenter, ssh, srun.
struct LaunchedAgent {
    name: String,
    /// How and where it was started.
    started: String,
    log: PathBuf,
    child: Child,
}

impl LaunchedAgent {
    /// The last output of the agent, or of the process that represents it.
    fn last_output(&self) -> String {
        let output = self.output_text();
        output.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it printed nothing").to_string()
    }

    fn output_text(&self) -> String {
        // The output of ssh may be in any encoding.
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }
}

impl LaunchedFleet {
    /// Prepares what the agents need around them; starts none yet.
    pub fn prepare(file: &FleetFile) -> Result<LaunchedFleet, String> {
        let namespaces = match &file.launch {
            Some(launch) if launch.by == Launcher::Local => {
                Some(Namespaces::make(&file.name, launch.network, &file.agents)?)
            }
            _ => None,
        };
        Ok(LaunchedFleet { agents: Vec::new(), server: None, namespaces })
    }

    /// Starts every agent as the fleet's file states, and the server if it names one.
    pub fn start(&mut self, directory: &Path, file: &FleetFile) -> Result<(), String> {
        let Some(launch) = &file.launch else { return Ok(()) };
        if let (Some(namespaces), Some((program, words))) = (&self.namespaces, launch.server.split_first()) {
            let command = namespaces.enter(local::SERVER, program, words);
            self.server = Some(spawn(command, &directory.join("server.log"))?);
        }
        for agent in &file.agents {
            let of_agent = |error: String| format!("agent {} cannot be started: {error}", agent.name);
            let command = self.command(launch, file, agent).map_err(of_agent)?;
            let log = directory.join(format!("{}.log", agent.name));
            let mut child = spawn(command, &log).map_err(of_agent)?;
            let handed = send_credentials(directory, agent, &mut child);
            let started = match (launch.by, &agent.host) {
                (Launcher::Local, _) => "was started in a namespace of this machine".to_string(),
                (by, Some(host)) => format!("was started on {host} by {}", by.name()),
                (by, None) => format!("was started by {}", by.name()),
            };
            self.agents.push(LaunchedAgent { name: agent.name.clone(), started, log, child });
            handed.map_err(of_agent)?;
        }
        Ok(())
    }

    /// Which of the agents have ended, with the last output of each.
    pub fn ended(&mut self) -> Option<String> {
        let mut ended = Vec::new();
        for agent in &mut self.agents {
            if let Some(status) = agent.child.try_wait().ok().flatten() {
                let LaunchedAgent { name, started, .. } = &*agent;
                ended.push(format!(
                    "agent {name} {started} and has ended ({status}): {}",
                    agent.last_output()
                ));
            }
        }
        (!ended.is_empty()).then(|| ended.join("; "))
    }

    /// The state of a started agent that the controller waits for.
    pub fn waited_for(&self, name: &str) -> Option<String> {
        let agent = self.agents.iter().find(|agent| agent.name == name)?;
        Some(format!("agent {name} {}; its last message is: {}", agent.started, agent.last_output()))
    }

    /// Ends the agents, and waits for each; returns which of them have results that the broker does not have,
    /// and where.
    pub fn end(&mut self) -> Vec<String> {
        // At the end of standard input an agent ends.
        self.agents.iter_mut().for_each(|agent| drop(agent.child.stdin.take()));
        let until = Instant::now() + END_TIME;
        for LaunchedAgent { child, .. } in &mut self.agents {
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
                std::thread::sleep(CHECK_PERIOD);
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        let left = |agent: &LaunchedAgent| {
            let output = agent.output_text();
            let line = output.lines().rfind(|line| line.starts_with(LEFT_WORDS))?;
            Some(format!("agent {}: {line}", agent.name))
        };
        self.agents.drain(..).filter_map(|agent| left(&agent)).collect()
    }

    fn command(&self, launch: &Launch, file: &FleetFile, agent: &AgentEntry) -> Result<Command, String> {
        let words = agent_arguments(launch, file, agent);
        match (launch.by, &self.namespaces) {
            (Launcher::Local, None) => Err("the namespaces do not exist".to_string()),
            (Launcher::Local, Some(namespaces)) => {
                let own = std::env::current_exe().map_err(|error| {
                    format!(
                        "the path of this program is \
                        unknown: {error}"
                    )
                })?;
                let own = own.to_string_lossy().into_owned();
                Ok(namespaces.enter(&agent.name, launch.program.as_ref().unwrap_or(&own), &words))
            }
            (Launcher::Ssh, _) => ssh::command(launch, agent, &words),
            (Launcher::Slurm, _) => {
                let mut command = Command::new("srun");
                command.args(["--nodes=1", "--ntasks=1", "--overlap", "--unbuffered", "--job-name"]);
                command.arg(format!("touchstone-{}", agent.name));
                if let Some(host) = &agent.host {
                    command.arg(format!("--nodelist={host}"));
                }
                command.arg(launch.program.as_deref().unwrap_or("touchstone")).args(words);
                Ok(command)
            }
        }
    }
}

impl Drop for LaunchedFleet {
    fn drop(&mut self) {
        self.end();
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// The arguments after the program's name.
fn agent_arguments(launch: &Launch, file: &FleetFile, agent: &AgentEntry) -> Vec<String> {
    let mut words = vec!["agent", "--controller", &file.controller, "--credentials", "-"];
    if agent.role == Role::Probe {
        words.extend(["--role", "probe"]);
    }
    if let Some(cores) = &agent.cores {
        words.extend(["--cores", cores]);
    }
    let allow = launch.allow.join(",");
    if !allow.is_empty() {
        words.extend(["--allow", &allow]);
    }
    words.into_iter().map(String::from).collect()
}

fn spawn(mut command: Command, log: &Path) -> Result<Child, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let log = File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
    let log_too = log.try_clone().map_err(|error| error.to_string())?;
    let child = command.stdin(Stdio::piped()).stdout(log_too).stderr(log).spawn();
    child.map_err(|error| format!("{program} cannot be started: {error}"))
}

/// The credentials, and the line that ends them; the pipe remains open.
fn send_credentials(directory: &Path, agent: &AgentEntry, child: &mut Child) -> Result<(), String> {
    debug_assert!(agent.name != CONTROLLER);
    let path = directory.join(format!("{}.credentials", agent.name));
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let pipe = child.stdin.as_mut().ok_or("an agent without standard input")?;
    let written = pipe.write_all(format!("{text}\n{}\n", crate::credentials::END_LINE).as_bytes());
    match written {
        // The agent has ended already; its output explains more than this error.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| format!("it did not accept its credentials: {error}")),
    }
}
