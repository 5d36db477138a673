//! Agents on machines that are reached over ssh. The machine that answers gets an agent's credentials, so ssh
//! must verify its host key.

use super::Launch;
use crate::setup::AgentEntry;
use std::process::Command;
use touchstone_lab::shell;
use touchstone_lab_run::remote::{Host, ssh_command};

/// How long a machine may take to answer, in seconds. A machine that is up answers in some milliseconds; one
/// that is down is reported long before all agents are due.
const CONNECT_TIME_S: u32 = 5;

/// The command that runs an agent on its machine; `words` are the arguments after the program's name.
pub(super) fn command(launch: &Launch, agent: &AgentEntry, words: &[String]) -> Result<Command, String> {
    let name = agent.host.clone().ok_or("fleet.toml has no host for it, which ssh needs")?;
    let host = Host { user: launch.ssh_user.clone(), name, port: launch.ssh_port };
    let mut ssh = vec!["ssh".to_string(), "-o".to_string(), "StrictHostKeyChecking=yes".to_string()];
    // If an option is given twice, ssh uses the first.
    ssh.extend(["-o".to_string(), format!("ConnectTimeout={CONNECT_TIME_S}")]);
    if let Some(identity) = &launch.ssh_identity {
        // No other key is offered, because the server counts each as an attempt.
        ssh.extend(["-i", identity, "-o", "IdentitiesOnly=yes"].map(String::from));
    }
    if let Some(known_hosts) = &launch.ssh_known_hosts {
        ssh.extend(["-o".to_string(), format!("UserKnownHostsFile=\"{known_hosts}\"")]);
    }
    let program = launch.program.as_deref().unwrap_or("touchstone");
    let words = [program].into_iter().chain(words.iter().map(String::as_str));
    // No shell remains between sshd and the agent, so that the agent gets the end of its standard input.
    Ok(ssh_command(&ssh, &host, &format!("exec {}", shell::line(words))))
}
