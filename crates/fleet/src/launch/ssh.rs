//! Agents on machines that are reached over ssh. Whoever answers there is handed an agent's credentials, so
//! nobody is whose host key is not known.

use super::Launch;
use crate::setup::AgentEntry;
use std::process::Command;
use touchstone_lab::shell;
use touchstone_lab_run::remote::{Host, ssh_command};

/// How long a machine may take to answer at all, seconds. One that is there takes some milliseconds; of one
/// that is not, nobody wants to hear only when all agents should have come.
const CONNECT_TIME_S: u32 = 5;

/// The command that runs an agent on its machine, with the words behind the program's name.
pub(super) fn command(launch: &Launch, agent: &AgentEntry, words: &[String]) -> Result<Command, String> {
    let name = agent.host.clone().ok_or("fleet.toml names no host for it, and ssh needs one")?;
    let host = Host { user: launch.ssh_user.clone(), name, port: launch.ssh_port };
    let mut ssh = vec!["ssh".to_string(), "-o".to_string(), "StrictHostKeyChecking=yes".to_string()];
    // Of an option that is given twice ssh takes the first.
    ssh.extend(["-o".to_string(), format!("ConnectTimeout={CONNECT_TIME_S}")]);
    if let Some(identity) = &launch.ssh_identity {
        // No other key is offered: a server counts each as an attempt.
        ssh.extend(["-i", identity, "-o", "IdentitiesOnly=yes"].map(String::from));
    }
    if let Some(known_hosts) = &launch.ssh_known_hosts {
        ssh.extend(["-o".to_string(), format!("UserKnownHostsFile=\"{known_hosts}\"")]);
    }
    let program = launch.program.as_deref().unwrap_or("touchstone");
    let words = [program].into_iter().chain(words.iter().map(String::as_str));
    // Without a shell between sshd and the agent, which hears the end of its standard input then.
    Ok(ssh_command(&ssh, &host, &format!("exec {}", shell::line(words))))
}
