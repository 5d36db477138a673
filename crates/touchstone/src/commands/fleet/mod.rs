//! `touchstone fleet`: makes a fleet, and manages it.

mod text;

use super::bench::duration;
use super::print::print;
use crate::exit::Exit;
use std::path::PathBuf;
use std::time::Duration;
use touchstone_fleet::{
    AgentEntry, AllowRule, Broker, FleetFile, Launch, Launcher, ManifestOptions, Role, Visitor, init,
    manifests,
};
use touchstone_lab_run::bench::interrupt_on_signals;

/// How long to receive agents' reports before their state is printed: some beats.
const LOOK_TIME: Duration = Duration::from_millis(1500);

/// The arguments of `touchstone fleet`.
#[derive(clap::Args)]
#[command(
    flatten_help = true,
    after_help = "\
A fleet is a directory on the controller: fleet.toml, the broker's configuration and key, and the \
credentials of every member. FLEET is the directory, or its name below fleets/.

  touchstone fleet init fleets/lab --host 10.0.0.1 --agents load-1,load-2
  touchstone fleet broker lab
  touchstone fleet status lab
  touchstone bench webbench-1.1-static --sut http://10.0.0.5/ --fleet lab"
)]
pub struct Arguments {
    #[command(subcommand)]
    command: FleetCommand,
}

/// What to do with a fleet.
#[derive(clap::Subcommand)]
enum FleetCommand {
    /// Make a fleet: keys, certificates, credentials, the broker's configuration
    Init(Box<InitArguments>),
    /// Run the fleet's broker (nats-server), and restart it if it dies
    Broker(OneFleet),
    /// Print the state of every agent
    Status(StatusArguments),
    /// Print the version and the machine of each agent
    Versions(OneFleet),
    /// Print the recent notes of agents
    Logs(SomeAgents),
    /// Make agents end when they have finished their work
    Drain(SomeAgents),
    /// Print manifests for Kubernetes to run the agents that make load: an Indexed Job, a Secret, a Service
    Manifests(ManifestsArguments),
}

/// A fleet to create.
#[derive(clap::Args)]
struct InitArguments {
    /// The new directory; its last part is the fleet's name
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// This machine's address or name, as the agents reach it
    #[arg(long, value_name = "HOST")]
    host: String,
    /// The broker's port
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 4222,
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    port: u16,
    /// The names of the agents that make load, separated by commas
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', required = true)]
    agents: Vec<String>,
    /// The names of agents that monitor a server's machine
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    probes: Vec<String>,
    /// How touchstone bench starts the agents: in network namespaces of this machine, over ssh, or under
    /// Slurm
    #[arg(long, value_enum, value_name = "BY")]
    launch: Option<LauncherWord>,
    /// With --launch: the addresses to which these agents may send load (touchstone agent --allow)
    #[arg(long, value_name = "RULE", value_delimiter = ',', requires = "launch")]
    allow: Vec<AllowRule>,
    /// With --launch: the machine of each agent, in the order of --agents
    #[arg(long, value_name = "HOST,...", value_delimiter = ',', requires = "launch")]
    hosts: Vec<String>,
    /// With --launch: the program on the load machines [default: touchstone on their search path]
    #[arg(long, value_name = "PATH", requires = "launch")]
    program: Option<String>,
    #[command(flatten)]
    ssh: SshArguments,
}

/// The ssh settings for load machines.
#[derive(clap::Args)]
struct SshArguments {
    /// With --launch ssh: the user there [default: ssh's own choice]
    #[arg(long, value_name = "USER", requires = "launch")]
    ssh_user: Option<String>,
    /// With --launch ssh: the port of their sshd [default: ssh's own choice]
    #[arg(long, value_name = "PORT", requires = "launch", value_parser = clap::value_parser!(u16).range(1..))]
    ssh_port: Option<u16>,
    /// With --launch ssh: the file of the key for logging in [default: ssh's own choice]
    #[arg(long, value_name = "FILE", requires = "launch")]
    ssh_identity: Option<String>,
    /// With --launch ssh: the file of the host keys that are known; a machine with another one gets no
    /// credentials [default: ssh's own choice]
    #[arg(long, value_name = "FILE", requires = "launch")]
    ssh_known_hosts: Option<String>,
}

/// The launchers.
#[derive(Clone, Copy, clap::ValueEnum)]
enum LauncherWord {
    /// Network namespaces of this machine
    Local,
    /// Machines that are reached over ssh
    Ssh,
    /// A step of srun for each agent
    Slurm,
}

/// A fleet.
#[derive(clap::Args)]
struct OneFleet {
    /// The directory of the fleet, or its name below fleets/
    #[arg(value_name = "FLEET")]
    fleet: String,
}

/// A fleet for a cluster.
#[derive(clap::Args)]
struct ManifestsArguments {
    #[command(flatten)]
    fleet: OneFleet,
    /// The image that contains this program
    #[arg(long, value_name = "IMAGE")]
    image: String,
    /// The namespace of all objects [default: that of the user who applies them]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// The addresses to which the agents may send load (touchstone agent --allow) [default: those in
    /// fleet.toml]
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    allow: Vec<AllowRule>,
    /// The number of processors that each agent has for itself [default: what its machine has left]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    processors: Option<u32>,
}

/// A fleet whose state is printed.
#[derive(clap::Args)]
struct StatusArguments {
    #[command(flatten)]
    fleet: OneFleet,
    /// How long to listen
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1.5s")]
    time: Duration,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

/// Agents of a fleet.
#[derive(clap::Args)]
struct SomeAgents {
    #[command(flatten)]
    fleet: OneFleet,
    /// The agents [default: all]
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,
}

/// Runs the command.
pub fn run(arguments: Arguments) -> Exit {
    let done = match arguments.command {
        FleetCommand::Init(arguments) => make(&arguments),
        FleetCommand::Broker(arguments) => broker(&arguments),
        FleetCommand::Status(arguments) => status(&arguments),
        FleetCommand::Versions(arguments) => versions(&arguments),
        FleetCommand::Logs(arguments) => logs(&arguments),
        FleetCommand::Drain(arguments) => drain(&arguments),
        FleetCommand::Manifests(arguments) => write_manifests(arguments),
    };
    done.unwrap_or_else(|message| {
        eprintln!("touchstone fleet: {message}");
        Exit::Usage
    })
}

fn make(arguments: &InitArguments) -> Result<Exit, String> {
    let InitArguments { directory, host, port, .. } = arguments;
    let name = directory.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| format!("{} has no name", directory.display()))?;
    if !arguments.hosts.is_empty() && arguments.hosts.len() != arguments.agents.len() {
        return Err(format!("{} hosts for {} agents", arguments.hosts.len(), arguments.agents.len()));
    }
    if matches!(arguments.launch, Some(LauncherWord::Ssh)) && arguments.hosts.is_empty() {
        return Err("--launch ssh needs --hosts: the machine of each agent".to_string());
    }
    let mut hosts = arguments.hosts.iter();
    let load = arguments
        .agents
        .iter()
        .map(|name| AgentEntry { host: hosts.next().cloned(), ..AgentEntry::new(name, Role::Load) });
    let probes = arguments.probes.iter().map(|name| AgentEntry::new(name, Role::Probe));
    let launch = arguments.launch.map(|word| Launch {
        by: match word {
            LauncherWord::Local => Launcher::Local,
            LauncherWord::Ssh => Launcher::Ssh,
            LauncherWord::Slurm => Launcher::Slurm,
        },
        allow: arguments.allow.iter().map(ToString::to_string).collect(),
        program: arguments.program.clone(),
        ssh_user: arguments.ssh.ssh_user.clone(),
        ssh_port: arguments.ssh.ssh_port,
        ssh_identity: arguments.ssh.ssh_identity.clone(),
        ssh_known_hosts: arguments.ssh.ssh_known_hosts.clone(),
        ..Launch::default()
    });
    let file = init(directory, name, host, *port, load.chain(probes).collect(), launch)?;
    print(&text::created(&file, directory));
    Ok(Exit::Done)
}

fn broker(arguments: &OneFleet) -> Result<Exit, String> {
    let interrupt = interrupt_on_signals().map_err(|error| format!("signals cannot be handled: {error}"))?;
    let directory = FleetFile::directory(&arguments.fleet);
    Broker::supervise(&directory, &interrupt, &mut |line| eprintln!("{line}"))?;
    Ok(Exit::Done)
}

fn visit(fleet: &OneFleet) -> Result<Visitor, String> {
    let mut report = |line: &str| eprintln!("touchstone fleet: {line}");
    Visitor::open(&FleetFile::directory(&fleet.fleet), &mut report).map_err(|error| error.to_string())
}

/// The exit code states whether all agents are present.
fn status(arguments: &StatusArguments) -> Result<Exit, String> {
    let mut visitor = visit(&arguments.fleet)?;
    let members = visitor.measure_clocks(arguments.time);
    print(&match arguments.json {
        true => format!("{:#}", text::members_json(&members)),
        false => text::members(&members),
    });
    for line in text::notices(&visitor.notices()) {
        eprintln!("{line}");
    }
    let all_here = members.iter().all(|member| member.is_present());
    Ok(if all_here { Exit::Done } else { Exit::Failed })
}

fn versions(arguments: &OneFleet) -> Result<Exit, String> {
    let members = visit(arguments)?.listen(LOOK_TIME);
    print(&text::versions(&members));
    let all_here = members.iter().all(|member| member.is_present());
    Ok(if all_here { Exit::Done } else { Exit::Failed })
}

fn logs(arguments: &SomeAgents) -> Result<Exit, String> {
    let mut visitor = visit(&arguments.fleet)?;
    check_agents(&visitor, &arguments.agents)?;
    print(&text::logs(&visitor.logs(&arguments.agents, LOOK_TIME)));
    Ok(Exit::Done)
}

fn drain(arguments: &SomeAgents) -> Result<Exit, String> {
    let mut visitor = visit(&arguments.fleet)?;
    check_agents(&visitor, &arguments.agents)?;
    visitor.listen(LOOK_TIME);
    visitor.drain(&arguments.agents);
    let members = visitor.listen(LOOK_TIME);
    print(&text::members(&members));
    Ok(Exit::Done)
}

fn write_manifests(arguments: ManifestsArguments) -> Result<Exit, String> {
    let directory = FleetFile::directory(&arguments.fleet.fleet);
    let options = ManifestOptions {
        image: arguments.image,
        namespace: arguments.namespace,
        allow: arguments.allow.iter().map(ToString::to_string).collect(),
        processors: arguments.processors,
    };
    print(&manifests(&directory, &FleetFile::read(&directory)?, &options)?);
    Ok(Exit::Done)
}

fn check_agents(visitor: &Visitor, names: &[String]) -> Result<(), String> {
    let expected = visitor.expected();
    match names.iter().find(|name| !expected.iter().any(|agent| agent.name == **name)) {
        Some(name) => {
            let known: Vec<&str> = expected.iter().map(|agent| agent.name.as_str()).collect();
            Err(format!("unknown agent {name}; the agents are {}", known.join(", ")))
        }
        None => Ok(()),
    }
}
