//! Starts a system from its definition: its templates filled and written to files, its companions started,
//! all on their processors.

use super::companion::{PreparedCompanion, SocketDirectory};
use super::memory_group::MemoryGroup;
use super::process::{OUTPUT_FILE, Start, SystemProcess};
use super::user::User;
use super::{Definition, InstalledSystem, Values};
use std::net::IpAddr;
use std::path::Path;
use touchstone_lab::result::ConfigurationFile;

/// Where and for what a system is started.
#[derive(Debug, Clone, Copy)]
pub struct LaunchContext<'a> {
    /// The workload's files.
    pub tree: &'a Path,
    /// The programs of the suite's interfaces.
    pub programs: &'a Path,
    /// A copy of the jars of the server's own servlets, where the user cannot read those beside the program.
    pub jars: Option<&'a Path>,
    /// The directory for its configuration and what it prints.
    pub directory: &'a Path,
    /// The address on which it listens.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// Its TLS, if the suite requires it.
    pub tls: Option<LaunchTls<'a>>,
    /// The port of its origin; 0 where it has none.
    pub origin_port: u16,
    /// Its processors.
    pub cpus: &'a [usize],
    /// The user that it becomes where this program runs as root.
    pub user: Option<&'a User>,
    /// The mean body of the workload, bytes.
    pub mean_body_bytes: u64,
    /// The capabilities that the run needs of it.
    pub needs: &'a [&'a str],
    /// The control group that limits its memory, with that of the programs beside it; absent: no limit.
    pub memory: Option<&'a MemoryGroup>,
}

/// The settings of a system with TLS on its own port.
#[derive(Debug, Clone, Copy)]
pub struct LaunchTls<'a> {
    /// The port.
    pub port: u16,
    /// The certificate, a PEM file.
    pub certificate: &'a Path,
    /// Its key, a PEM file.
    pub certificate_key: &'a Path,
}

/// A system that was started. Dropping it stops it.
#[derive(Debug)]
pub struct LaunchedSystem {
    /// The system.
    pub process: SystemProcess,
    /// The programs beside it.
    pub companions: Vec<SystemProcess>,
    /// The command that started it.
    pub command: Vec<String>,
    /// Its configuration files, and what ran beside it.
    pub configuration: Vec<ConfigurationFile>,
    /// Kept as long as the processes: taken away when this is dropped.
    pub sockets: SocketDirectory,
}

/// Starts a system; the text of a refusal states what could not be done.
pub fn launch(
    definition: &Definition,
    installed: &InstalledSystem,
    sockets: SocketDirectory,
    context: &LaunchContext<'_>,
) -> Result<LaunchedSystem, String> {
    let failed = |what: &str, error: std::io::Error| format!("{what}: {error}");
    let filled = definition.prepare(&context.values(installed, sockets.path()));
    filled
        .write_files(context.directory)
        .map_err(|error| failed("its configuration cannot be written", error))?;
    let mut companions = Vec::new();
    for companion in &filled.companions {
        let output = context.directory.join("companions.log");
        let started = companion.start(context.cpus, &output, sockets.path(), context.user, context.memory);
        companions.extend(started.map_err(|error| {
            failed(&format!("{} cannot be started beside it", companion.command[0]), error)
        })?);
    }
    let process = SystemProcess::start(Start {
        command: &filled.command,
        environment: &filled.environment,
        cpus: context.cpus,
        directory: context.directory,
        output: &context.directory.join(OUTPUT_FILE),
        socket: None,
        user: None,
        memory: context.memory,
    })
    .map_err(|error| failed(&format!("{} cannot be started", filled.command[0]), error))?;
    let configuration = with_companions(filled.files, &filled.companions, context.cpus.len());
    Ok(LaunchedSystem { process, companions, command: filled.command, configuration, sockets })
}

impl LaunchContext<'_> {
    /// The values of the placeholders of a definition. `sockets` is the directory of its sockets.
    pub fn values<'v>(&'v self, installed: &'v InstalledSystem, sockets: &'v Path) -> Values<'v> {
        Values {
            executable: &installed.executable,
            root: self.tree,
            directory: self.directory,
            address: self.address,
            port: self.port,
            origin_port: self.origin_port,
            tls_port: self.tls.map_or(0, |tls| tls.port),
            certificate: self.tls.map_or(Path::new(""), |tls| tls.certificate),
            certificate_key: self.tls.map_or(Path::new(""), |tls| tls.certificate_key),
            cores: self.cpus.len(),
            mean_body_bytes: self.mean_body_bytes,
            programs: self.programs,
            jars: self.jars,
            sockets,
            user: self.user.map_or("", |user| &user.name),
            group: self.user.map_or("", |user| &user.group),
            as_root: self.user.is_some(),
            needs: self.needs,
        }
    }
}

/// The companions of a system belong to its configuration.
fn with_companions(
    mut files: Vec<ConfigurationFile>,
    companions: &[PreparedCompanion],
    processes: usize,
) -> Vec<ConfigurationFile> {
    let line = |companion: &PreparedCompanion| {
        format!("{} x {} (listens at {})\n", processes, companion.command.join(" "), companion.socket)
    };
    if !companions.is_empty() {
        let text = companions.iter().map(line).collect();
        files.push(ConfigurationFile { name: "programs that ran beside it".to_string(), text });
    }
    files
}
