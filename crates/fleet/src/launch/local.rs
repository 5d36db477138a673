//! Network namespaces of this machine, one for each agent and one for a server, joined by a bridge: what
//! several machines are to each other, as far as one machine can show it.

use crate::setup::AgentEntry;
use std::process::{Command, Output};

/// The name of the server's namespace.
pub(super) const SERVER: &str = "server";
/// The most namespaces of a network.
const MAXIMUM: usize = 200;

/// Namespaces that were made here; taken away when this is dropped.
pub(super) struct Namespaces {
    fleet: String,
    bridge: String,
    names: Vec<String>,
    links: Vec<String>,
}

impl Namespaces {
    /// The bridge has the address 10.213.N.1, the server 10.213.N.2, and the agents those from 10.213.N.11
    /// on.
    pub(super) fn make(fleet: &str, network: u8, agents: &[AgentEntry]) -> Result<Namespaces, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("only root can create network namespaces: run this as root".to_string());
        }
        if agents.len() > MAXIMUM {
            return Err(format!(
                "{} agents on one machine, but at most {MAXIMUM} are possible",
                agents.len()
            ));
        }
        let mut namespaces = Namespaces {
            fleet: fleet.to_string(),
            bridge: format!("tsf{network}"),
            names: Vec::new(),
            links: Vec::new(),
        };
        ip(&["link", "add", &namespaces.bridge, "type", "bridge"])?;
        let address = format!("10.213.{network}.1/24");
        ip(&["address", "add", &address, "dev", &namespaces.bridge])?;
        ip(&["link", "set", &namespaces.bridge, "up"])?;
        namespaces.add(SERVER, network, 2)?;
        for (place, agent) in agents.iter().enumerate() {
            namespaces.add(&agent.name, network, 11 + place)?;
        }
        Ok(namespaces)
    }

    fn add(&mut self, member: &str, network: u8, host: usize) -> Result<(), String> {
        let (name, link) = (self.name(member), format!("tsf{network}-{host}"));
        ip(&["netns", "add", &name])?;
        self.names.push(name.clone());
        ip(&["link", "add", &link, "type", "veth", "peer", "name", "eth0", "netns", &name])?;
        self.links.push(link.clone());
        ip(&["link", "set", &link, "master", &self.bridge, "up"])?;
        ip(&["-n", &name, "address", "add", &format!("10.213.{network}.{host}/24"), "dev", "eth0"])?;
        ip(&["-n", &name, "link", "set", "eth0", "up"])?;
        ip(&["-n", &name, "link", "set", "lo", "up"])
    }

    fn name(&self, member: &str) -> String {
        format!("ts-{}-{member}", self.fleet)
    }

    /// A command in a member's namespace. `nsenter`, since `ip netns exec` would put another /sys in the
    /// place of this one.
    pub(super) fn enter(&self, member: &str, program: &str, words: &[String]) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/var/run/netns/{}", self.name(member))).arg(program).args(words);
        command
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        // The kernel would remove the links with their namespaces, but later: the next ones have the same
        // names.
        for link in &self.links {
            let _ = ip(&["link", "delete", link]);
        }
        for name in &self.names {
            let _ = ip(&["netns", "delete", name]);
        }
        let _ = ip(&["link", "delete", &self.bridge]);
    }
}

fn ip(words: &[&str]) -> Result<(), String> {
    let command_line = || format!("ip {}", words.join(" "));
    let Output { status, stderr, .. } = Command::new("ip")
        .args(words)
        .output()
        .map_err(|error| format!("{}: {error} (install iproute2)", command_line()))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("{}: {}", command_line(), String::from_utf8_lossy(&stderr).trim()))
}
