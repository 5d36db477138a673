//! The command that runs a program on another machine over ssh.

use super::Host;
use std::process::Command;

/// How long ssh may take until it is connected, seconds.
const CONNECT_TIME_LIMIT_S: u32 = 20;

/// ssh (the command with its options) with a script for the shell there.
pub fn ssh_command(ssh: &[String], host: &Host, script: &str) -> Command {
    let mut command = Command::new(&ssh[0]);
    command
        .args(&ssh[1..])
        // It never prompts: a run needs no operator.
        .args(["-o", "BatchMode=yes", "-o", &format!("ConnectTimeout={CONNECT_TIME_LIMIT_S}")])
        .args(["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=6"]);
    if let Some(port) = host.port {
        command.args(["-p", &port.to_string()]);
    }
    command.arg("--").arg(host.destination()).arg(script);
    command
}
