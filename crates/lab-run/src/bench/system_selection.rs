//! The systems of a run: found by their names, checked for the parts of the suite that they can do, and given
//! their ports.

use super::Options;
use super::port::HeldPort;
use crate::placement::Placement;
use crate::programs::{self, Programs};
use crate::remote::{Host, RemoteSystem, Session};
use crate::system::memory_group::MemoryGroup;
use crate::system::url::SystemUrl;
use crate::system::{Definition, InstalledSystem};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use touchstone_lab::memory::{self, Size};
use touchstone_lab::result::SkippedInterface;
use touchstone_lab::speedup;
use touchstone_lab::suite::{Part, Suite};
use touchstone_load::Target;

/// A system that will be measured.
#[derive(Debug, Clone)]
pub struct SelectedSystem {
    /// Its name, unlike any other's: one that is named twice gets a number.
    pub name: String,
    /// Its name for people, with its version.
    pub title: String,
    /// True for the kernel's limit.
    pub is_limit: bool,
    /// Whether and how it is started.
    pub kind: SystemKind,
    /// The processors that it gets; empty: it runs already, on its own processors.
    pub cpus: Vec<usize>,
    /// The most memory that it gets; absent: as much as the machine has.
    pub memory: Option<Size>,
    /// The state of each part of the suite on it.
    pub parts: Vec<PartState>,
}

/// The state of a part of the suite on a system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartState {
    /// It is measured.
    Runs,
    /// It cannot be measured, for this reason: a sentence without its full stop.
    Skipped(String),
    /// It is not measured: there is no other system to compare it with.
    NotNeeded,
}

/// Whether and how a system is started.
#[derive(Debug, Clone)]
pub enum SystemKind {
    /// It is started here.
    Started {
        /// How.
        definition: Box<Definition>,
        /// What.
        installed: InstalledSystem,
        /// On which port of 127.0.0.1.
        port: u16,
        /// And on which with TLS; 0 if the suite needs none.
        tls_port: u16,
    },
    /// It is started on another machine, over ssh.
    Remote {
        /// The way to the probe there.
        session: Session,
        /// What was found there.
        found: Box<RemoteSystem>,
        /// How it is started.
        definition: Box<Definition>,
    },
    /// It runs already.
    Running {
        /// Where.
        url: SystemUrl,
        /// Its process on this machine, if it is to be watched.
        pid: Option<u32>,
    },
}

/// The systems that the options name.
pub(super) struct EnteredSystems {
    /// The systems, with what they can do of the suite.
    pub(super) selected: Vec<SelectedSystem>,
    /// The programs that the suite needs.
    pub(super) programs: Programs,
    /// The systems' ports, held so that no other program gets one before its system is started.
    pub(super) held_ports: Vec<HeldPort>,
}

/// The systems that the options name, with what is needed to run them.
pub(super) fn enter(
    options: &Options,
    suite: &Suite,
    placement: &Placement,
) -> Result<EnteredSystems, String> {
    let selected = selected(options, placement)?;
    let sizes = if options.memory.is_empty() { &suite.memory } else { &options.memory };
    let selected = with_memory(selected, sizes)?;
    let mut selected = on_processors(selected, &options.processors, placement)?;
    let programs = needed_programs(suite, &selected);
    for system in &mut selected {
        system.parts = part_states(suite, system, &programs);
    }
    refuse_if_nothing_runs(&selected)?;
    let secure = suite.parts.iter().any(|part| part.workload.endpoints().any_secure());
    let held_ports = assign_ports(&mut selected, options.port, secure)?;
    Ok(EnteredSystems { selected, programs, held_ports })
}

impl SelectedSystem {
    /// Whether it shares this machine with the load engine.
    pub fn is_on_this_machine(&self) -> bool {
        match &self.kind {
            SystemKind::Started { .. } => true,
            SystemKind::Remote { found, .. } => crate::system::url::is_own_address(found.address),
            SystemKind::Running { url, .. } => url.is_this_machine(),
        }
    }

    /// Whether this run starts it on this machine.
    pub fn is_started_here(&self) -> bool {
        matches!(self.kind, SystemKind::Started { .. })
    }

    /// Whether any part of the suite is measured on it.
    pub fn runs(&self) -> bool {
        self.parts.contains(&PartState::Runs)
    }

    /// The parts that are not measured on it, as the result file records them.
    pub fn skipped(&self, suite: &Suite) -> Vec<SkippedInterface> {
        let skipped = |(part, state): (&Part, &PartState)| match state {
            PartState::Skipped(reason) => {
                Some(SkippedInterface { interface: part.name().to_string(), reason: reason.clone() })
            }
            PartState::Runs | PartState::NotNeeded => None,
        };
        suite.parts.iter().zip(&self.parts).filter_map(skipped).collect()
    }

    /// The capabilities that the measured parts need, each once.
    pub fn needs<'s>(&self, suite: &'s Suite) -> Vec<&'s str> {
        let runs = suite.parts.iter().zip(&self.parts).filter(|(_, state)| **state == PartState::Runs);
        let mut needs: Vec<&str> = runs.flat_map(|(part, _)| part.needs()).collect();
        needs.sort_unstable();
        needs.dedup();
        needs
    }

    /// Where the load is sent.
    pub fn target(&self) -> Target {
        match &self.kind {
            SystemKind::Started { port, .. } => {
                let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
                Target::plain(address, &address.to_string())
            }
            SystemKind::Remote { found, .. } => {
                let address = SocketAddr::from((found.address, found.port));
                Target::plain(address, &address.to_string())
            }
            SystemKind::Running { url, .. } => url.target.clone(),
        }
    }

    /// How it is started, where it is.
    fn definition(&self) -> Option<&Definition> {
        match &self.kind {
            SystemKind::Started { definition, .. } | SystemKind::Remote { definition, .. } => {
                Some(definition)
            }
            SystemKind::Running { .. } => None,
        }
    }
}

fn selected(options: &Options, placement: &Placement) -> Result<Vec<SelectedSystem>, String> {
    let own = ["touchstone".to_string()];
    let words = if options.systems.is_empty() { &own[..] } else { &options.systems[..] };
    let is_url = |word: &&String| !Host::looks_like(word) && SystemUrl::looks_like(word);
    let urls = words.iter().filter(is_url).count();
    if let Some(pid) = options.pid {
        check_pid(pid, urls)?;
    }
    let mut selected: Vec<SelectedSystem> = Vec::with_capacity(words.len());
    for word in words {
        let mut system = if Host::looks_like(word) {
            remote(word, options, placement)?
        } else if SystemUrl::looks_like(word) {
            running(word, options.pid)?
        } else {
            to_be_started(word)?
        };
        let before = selected.iter().filter(|other| same_system(&other.name, &system.name)).count();
        if before > 0 {
            system.name = format!("{}#{}", system.name, before + 1);
            system.title = format!("{} ({})", system.title, before + 1);
        }
        selected.push(system);
    }
    Ok(selected)
}

/// Each system once for each size of memory; the limit, which needs next to none, once.
fn with_memory(systems: Vec<SelectedSystem>, sizes: &[Size]) -> Result<Vec<SelectedSystem>, String> {
    if sizes.is_empty() {
        return Ok(systems);
    }
    // An interface that cannot be limited is reported before any system starts.
    MemoryGroup::make(sizes[0])?;
    let mut sized = Vec::new();
    for system in systems {
        if system.is_limit {
            sized.push(system);
            continue;
        }
        if !matches!(system.kind, SystemKind::Started { .. }) {
            return Err(format!(
                "{} is not started on this machine: its memory cannot be limited (--memory)",
                system.name
            ));
        }
        sized.extend(sizes.iter().map(|&size| SelectedSystem {
            name: memory::name_with(&system.name, size),
            title: format!("{}, {size}", system.title),
            memory: Some(size),
            ..system.clone()
        }));
    }
    Ok(sized)
}

/// Gives the selected their processors: all processors of systems, or, if numbers of them are named, each
/// system once for each number with the first this many.
fn on_processors(
    selected: Vec<SelectedSystem>,
    numbers: &[usize],
    placement: &Placement,
) -> Result<Vec<SelectedSystem>, String> {
    let started = |system: &SelectedSystem| matches!(system.kind, SystemKind::Started { .. });
    if numbers.len() < 2 {
        let with_all = |system: SelectedSystem| match started(&system) {
            true => SelectedSystem { cpus: placement.system.clone(), ..system },
            false => system,
        };
        return Ok(selected.into_iter().map(with_all).collect());
    }
    let mut placed = Vec::new();
    for system in selected {
        if !started(&system) {
            return Err(format!(
                "{} runs already: it cannot be given one number of processors after the other (--cores)",
                system.name
            ));
        }
        for &number in numbers {
            let cpus = placement.system.get(..number).filter(|cpus| !cpus.is_empty());
            let cpus = cpus.ok_or_else(|| format!("--cores: {number} processors cannot be had"))?;
            let processor_words =
                if number == 1 { "1 processor".to_string() } else { format!("{number} processors") };
            placed.push(SelectedSystem {
                name: speedup::name_on(&system.name, number),
                title: format!("{}, {processor_words}", system.title),
                cpus: cpus.to_vec(),
                ..system.clone()
            });
        }
    }
    Ok(placed)
}

/// Whether a name is this one, or this one with a number.
fn same_system(name: &str, base: &str) -> bool {
    name.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
}

fn check_pid(pid: u32, urls: usize) -> Result<(), String> {
    if urls != 1 {
        return Err("--pid names the process of one system that is given by its URL".to_string());
    }
    if !Path::new(&format!("/proc/{pid}")).exists() {
        return Err(format!("--pid {pid}: there is no such process on this machine"));
    }
    Ok(())
}

fn running(url: &str, pid: Option<u32>) -> Result<SelectedSystem, String> {
    let url = SystemUrl::parse(url)?;
    if pid.is_some() && !url.is_this_machine() {
        return Err(format!("--pid: {} is not an address of this machine", url.url));
    }
    Ok(SelectedSystem {
        name: url.url.clone(),
        title: url.url.clone(),
        is_limit: false,
        kind: SystemKind::Running { url, pid },
        cpus: Vec::new(),
        memory: None,
        parts: Vec::new(),
    })
}

/// A system on another machine: this program is copied there as its probe, and searches for the system.
fn remote(word: &str, options: &Options, placement: &Placement) -> Result<SelectedSystem, String> {
    let (host, name) = Host::parse(word)?;
    let mut definition = Definition::find(&name)?;
    let session = Session::open(&options.ssh, &host)?;
    // If the other machine is this one, its processors are shared like those of systems that are started
    // here.
    let cpus = host.is_this_machine().then(|| placement.system.clone());
    let found = session.find(&name, &Definition::text_of(&name)?, cpus)?;
    definition.capabilities.extend(found.capabilities.iter().cloned());
    Ok(SelectedSystem {
        name: format!("{}@{}", definition.name, host.name),
        title: format!("{} on {}", found.title, host.name),
        is_limit: definition.is_limit,
        cpus: found.cpus.clone(),
        memory: None,
        kind: SystemKind::Remote { session, found: Box::new(found), definition: Box::new(definition) },
        parts: Vec::new(),
    })
}

fn to_be_started(word: &str) -> Result<SelectedSystem, String> {
    let definition = Definition::find(word)?;
    let installed = definition
        .installed()
        .ok_or_else(|| format!("{} is not installed; {}", definition.name, definition.how_to_install()))?;
    if let Some(name) = &definition.origin {
        find_origin(name, &definition.name)?;
    }
    let definition = definition.of_build(&installed);
    Ok(SelectedSystem {
        name: definition.name.clone(),
        title: definition.title_with(installed.version.as_deref()),
        is_limit: definition.is_limit,
        kind: SystemKind::Started { definition: Box::new(definition), installed, port: 0, tls_port: 0 },
        cpus: Vec::new(),
        memory: None,
        parts: Vec::new(),
    })
}

/// Finds or builds the programs that the suite's interfaces call on the systems that are started here.
fn needed_programs(suite: &Suite, selected: &[SelectedSystem]) -> Programs {
    let can = |part: &&Part| {
        let has_it = |definition: &Definition| definition.lacks(&part.needs(), "").is_none();
        selected.iter().filter_map(SelectedSystem::definition).any(has_it)
    };
    let mut names: Vec<&str> = suite.parts.iter().filter(can).flat_map(Part::programs).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() { Programs::default() } else { programs::prepare(&names) }
}

/// The state of each part of the suite on a system, as far as it is known before its start.
fn part_states(suite: &Suite, system: &SelectedSystem, programs: &Programs) -> Vec<PartState> {
    let Some(definition) = system.definition() else {
        // A system that runs already gets requests; its answers decide.
        let state = |part| match &system.kind {
            SystemKind::Running { url, .. } => {
                no_address(part, url).map_or(PartState::Runs, PartState::Skipped)
            }
            _ => PartState::Runs,
        };
        return suite.parts.iter().map(state).collect();
    };
    if definition.is_limit && suite.parts.iter().any(|part| part.workload.endpoints().any_secure()) {
        let reason = format!("{} is without TLS, which the suite requires", system.title);
        return vec![PartState::Skipped(reason); suite.parts.len()];
    }
    if definition.is_limit {
        // It answers every request with the same bytes, so it is measured only with the part that all others
        // are compared with.
        let state = |index| if index == 0 { PartState::Runs } else { PartState::NotNeeded };
        return (0..suite.parts.len()).map(state).collect();
    }
    let state = |part: &Part| {
        let lacks = definition.lacks(&part.needs(), &system.title);
        let reason = lacks.or_else(|| missing_program(part, programs, definition));
        reason.map_or(PartState::Runs, PartState::Skipped)
    };
    let mut states: Vec<PartState> = suite.parts.iter().map(state).collect();
    if let PartState::Skipped(reason) = states[0].clone() {
        states.fill(PartState::Skipped(reason));
    } else if suite.compares_interfaces() && !states[1..].contains(&PartState::Runs) {
        states[0] = PartState::NotNeeded;
    }
    states
}

/// Why a part cannot be requested from a system that runs already: it is known by one URL, with TLS or
/// without.
fn no_address(part: &Part, url: &SystemUrl) -> Option<String> {
    let endpoints = part.workload.endpoints();
    match (endpoints.any_secure(), endpoints.all_secure(), url.target.tls.is_some()) {
        (true, false, _) => Some(format!(
            "the suite asks for some things with TLS and for some without, and {} is one address: only a \
             system that is started here has both",
            url.url
        )),
        (true, true, false) => {
            Some(format!("the suite uses TLS: name the system by https:// and not by {}", url.url))
        }
        _ => None,
    }
}

fn missing_program(part: &Part, programs: &Programs, definition: &Definition) -> Option<String> {
    let names = part.programs();
    let missing = programs.missing.iter().find(|(name, _)| names.contains(&name.as_str()));
    let of_own_server = || {
        let needs_python =
            definition.is_this_program() && names.iter().any(|name| programs::is_in_python(name));
        programs.no_python_here.as_ref().filter(|_| needs_python)
    };
    let reason = missing.map(|(_, reason)| reason).or_else(of_own_server)?;
    let title = part.interface.as_ref().map_or("the suite's program", |interface| &interface.title);
    Some(format!("{title}: {reason}"))
}

/// At least one system must have something to measure.
fn refuse_if_nothing_runs(selected: &[SelectedSystem]) -> Result<(), String> {
    if selected.iter().any(SelectedSystem::runs) {
        return Ok(());
    }
    let mut reasons: Vec<&str> = Vec::new();
    for state in selected.iter().flat_map(|system| &system.parts) {
        if let PartState::Skipped(reason) = state
            && !reasons.contains(&reason.as_str())
        {
            reasons.push(reason);
        }
    }
    Err(format!("nothing can be measured: {}", reasons.join("; ")))
}

/// Finds a free port for every system that is started, and a second one for TLS if the suite needs it.
fn assign_ports(
    selected: &mut [SelectedSystem],
    first: Option<u16>,
    secure: bool,
) -> Result<Vec<HeldPort>, String> {
    let mut held = Vec::new();
    let mut next = first;
    for system in selected {
        let SystemKind::Started { port, tls_port, .. } = &mut system.kind else { continue };
        for port in [port, tls_port].into_iter().take(if secure { 2 } else { 1 }) {
            let free = next.map_or_else(HeldPort::any, HeldPort::named).map_err(|error| match next {
                Some(port) => format!(
                    "port {port} of 127.0.0.1 cannot be had for {} ({error}); name another with --port",
                    system.name
                ),
                None => format!("no port of 127.0.0.1 is free for {}: {error}", system.name),
            })?;
            *port = free.number();
            held.push(free);
            next = match next {
                Some(65535) => return Err("--port is too high for the systems that follow".to_string()),
                Some(port) => Some(port + 1),
                None => None,
            };
        }
    }
    Ok(held)
}

/// The definition of an origin and what is installed of it, or what to do about it.
pub(super) fn find_origin(name: &str, accelerator: &str) -> Result<(Definition, InstalledSystem), String> {
    let wrong = |problem: String| format!("the origin of {accelerator}: {problem}");
    let definition = Definition::find(name).map_err(wrong)?;
    let installed = definition
        .installed()
        .ok_or_else(|| wrong(format!("{name} is not installed; {}", definition.how_to_install())))?;
    Ok((definition.of_build(&installed), installed))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The definition of a system with these capabilities, whose executable is there.
    pub(crate) fn system(place: &Path, name: &str, capabilities: &str) -> String {
        let text = format!(
            "name = \"{name}\"\ntitle = \"{name}\"\ndescription = \"for tests\"\n\
             executables = [\"/bin/sh\"]\n\
             command = [\"{{executable}}\", \"{{port}}\"]\ncapabilities = [{capabilities}]\n"
        );
        let path = place.join(format!("{name}.toml"));
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    #[test]
    fn a_program_that_cannot_be_built_is_a_reason() {
        let suite = Suite::find("spice-cgi").unwrap();
        let place = tempfile::tempdir().unwrap();
        let system = to_be_started(&system(place.path(), "all", "\"files\", \"cgi\"")).unwrap();
        let missing = [("cgi".to_string(), "there is no cc".to_string())].into();
        let programs = Programs { missing, ..Programs::default() };
        let states = part_states(&suite, &system, &programs);
        assert_eq!(states, [PartState::NotNeeded, PartState::Skipped("CGI: there is no cc".to_string())]);
    }
}
