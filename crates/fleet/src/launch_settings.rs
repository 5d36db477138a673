//! How a fleet's agents are started: the section `[launch]` of fleet.toml.

use serde::Deserialize;

/// How a fleet's agents are started: `[launch]` in fleet.toml.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// The launcher.
    pub by: Launcher,
    /// Where the agents may send load, as with `--allow`.
    pub allow: Vec<String>,
    /// The program on the load machines; absent: `touchstone` on their search path, on this machine the
    /// running program.
    #[serde(default)]
    pub program: Option<String>,
    /// The user on the load machines: with `ssh` only, as the next three keys; ssh chooses what is absent.
    #[serde(default)]
    pub ssh_user: Option<String>,
    /// The port of their sshd.
    #[serde(default)]
    pub ssh_port: Option<u16>,
    /// The file of the private key for the login.
    #[serde(default)]
    pub ssh_identity: Option<String>,
    /// The file of known host keys.
    #[serde(default)]
    pub ssh_known_hosts: Option<String>,
    /// A server to measure, started in its own namespace: with `local` only.
    #[serde(default)]
    pub server: Vec<String>,
    /// The third number of the network 10.213.N.0/24 of the namespaces: with `local` only.
    #[serde(default = "default_network")]
    pub network: u8,
}

impl Default for Launch {
    fn default() -> Launch {
        Launch {
            by: Launcher::Local,
            allow: Vec::new(),
            program: None,
            ssh_user: None,
            ssh_port: None,
            ssh_identity: None,
            ssh_known_hosts: None,
            server: Vec::new(),
            network: default_network(),
        }
    }
}

fn default_network() -> u8 {
    77
}

/// What starts agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Launcher {
    /// Network namespaces of this machine, joined by a bridge, to try out a fleet.
    Local,
    /// Machines that are reached over ssh.
    Ssh,
    /// A step of `srun` for each agent, within the current allocation, or in a new one.
    Slurm,
}

impl Launcher {
    /// Its name in fleet.toml.
    pub fn name(self) -> &'static str {
        match self {
            Launcher::Local => "local",
            Launcher::Ssh => "ssh",
            Launcher::Slurm => "slurm",
        }
    }
}
