//! The probe: this program on the machine of a system under test. It answers questions until it receives
//! `Stop` or its input ends, and leaves no process.

use super::messages::{self, Answer, Question, RemoteSystem};
use crate::placement;
use crate::system::companion::SocketDirectory;
use crate::system::launch::{LaunchContext, LaunchedSystem, launch};
use crate::system::process::SystemProcess;
use crate::system::user;
use crate::system::{Definition, InstalledSystem};
use std::io::{self, BufRead, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::time::Instant;
use touchstone_lab::machine;
use touchstone_lab::recording::{ProcessTree, Snapshot};

/// Answers questions until the input ends.
pub fn answer(from: &mut impl BufRead, to: &mut impl Write) -> io::Result<()> {
    let mut probe = Probe::default();
    while let Some(question) = messages::read(from)? {
        let stops = question == Question::Stop;
        let answer = probe.answer(question).unwrap_or_else(|reason| Answer::Failed { reason });
        messages::write(to, &answer)?;
        if stops {
            break;
        }
    }
    Ok(())
}

/// Its state. Dropping it ends the system and removes the files that were written.
#[derive(Default)]
struct Probe {
    system: Option<System>,
}

/// A system, found or started.
struct System {
    definition: Definition,
    installed: InstalledSystem,
    found: RemoteSystem,
    /// Holds the port until the system takes it.
    listener: Option<TcpListener>,
    running: Option<Running>,
    /// Dropped last, when no process runs in it any more.
    _directory: ScratchDirectory,
}

struct Running {
    launched: LaunchedSystem,
    tree: ProcessTree,
}

impl Probe {
    fn answer(&mut self, question: Question) -> Result<Answer, String> {
        match question {
            Question::Find { file, definition, cpus } => {
                let system = System::find(&file, &definition, cpus)?;
                let found = system.found.clone();
                self.system = Some(system);
                Ok(Answer::Found(Box::new(found)))
            }
            Question::Start { needs, mean_body_bytes } => self.found()?.start(&needs, mean_body_bytes),
            Question::Look => self.found()?.observe(),
            Question::Stop => {
                self.system = None;
                Ok(Answer::Stopped)
            }
        }
    }

    fn found(&mut self) -> Result<&mut System, String> {
        self.system.as_mut().ok_or_else(|| "no system was found before".to_owned())
    }
}

impl System {
    fn find(file: &str, definition: &str, cpus: Option<Vec<usize>>) -> Result<System, String> {
        let definition = Definition::read(file, definition).map_err(|error| error.to_string())?;
        if definition.origin.is_some() {
            return Err(format!(
                "{} has an origin, which is not started over ssh: start both there, and name the accelerator \
                 by its URL",
                definition.name
            ));
        }
        let installed = definition.installed().ok_or_else(|| {
            format!("{} is not installed; {}", definition.name, definition.how_to_install())
        })?;
        let allowed =
            placement::allowed().map_err(|error| format!("its processors cannot be read: {error}"))?;
        let cpus = cpus.unwrap_or_else(|| allowed.clone());
        if let Some(cpu) = cpus.iter().find(|cpu| !allowed.contains(cpu)) {
            return Err(format!("there is no processor {cpu} on this machine"));
        }
        let address = own_address();
        let failed = |error: io::Error| error.to_string();
        let listener = TcpListener::bind((address, 0)).map_err(failed)?;
        let directory = ScratchDirectory::make().map_err(failed)?;
        let found = RemoteSystem {
            title: definition.title_with(installed.version.as_deref()),
            capabilities: installed.capabilities.clone(),
            address,
            port: listener.local_addr().map_err(failed)?.port(),
            cpus,
            machine: machine::facts(false),
            directory: directory.0.clone(),
        };
        Ok(System {
            definition,
            installed,
            found,
            listener: Some(listener),
            running: None,
            _directory: directory,
        })
    }

    fn start(&mut self, needs: &[String], mean_body_bytes: u64) -> Result<Answer, String> {
        let needs: Vec<&str> = needs.iter().map(String::as_str).collect();
        let user = user::unprivileged();
        let failed = |error: io::Error| error.to_string();
        let sockets = SocketDirectory::make(user.as_ref()).map_err(failed)?;
        let directory = self.found.directory.join("system");
        std::fs::create_dir_all(&directory).map_err(failed)?;
        self.listener = None;
        let context = LaunchContext {
            tree: &self.found.directory.join("tree"),
            programs: &self.found.directory.join("programs"),
            jars: None,
            tls: None,
            directory: &directory,
            address: self.found.address,
            port: self.found.port,
            origin_port: 0,
            cpus: &self.found.cpus,
            user: user.as_ref(),
            mean_body_bytes,
            needs: &needs,
            memory: None,
        };
        let launched = launch(&self.definition, &self.installed, sockets, &context)?;
        let answer = Answer::Started {
            command: launched.command.clone(),
            configuration: launched.configuration.clone(),
        };
        let pids: Vec<u32> =
            std::iter::once(&launched.process).chain(&launched.companions).map(SystemProcess::pid).collect();
        self.running = Some(Running { tree: ProcessTree::of(&pids), launched });
        Ok(answer)
    }

    fn observe(&mut self) -> Result<Answer, String> {
        let running = self.running.as_mut().ok_or_else(|| "nothing was started".to_owned())?;
        let launched = &mut running.launched;
        let ended = launched.process.has_ended().map(str::to_owned);
        let mut beside = || launched.companions.iter_mut().find_map(|it| it.has_ended().map(str::to_owned));
        let ended = ended.or_else(|| beside().map(|end| format!("a program beside it: {end}")));
        let last_words = ended.as_ref().and_then(|_| running.launched.process.last_output());
        let snapshot = Snapshot::take(Instant::now(), Some(&mut running.tree));
        Ok(Answer::Seen { snapshot: Box::new(snapshot), ended, last_words })
    }
}

/// The address that ssh connected to (`SSH_CONNECTION`: the client's address and port, and ours): the load
/// arrives over the same network.
fn own_address() -> IpAddr {
    let connection = std::env::var("SSH_CONNECTION").unwrap_or_default();
    let address = connection.split_whitespace().nth(2).and_then(|address| address.parse().ok());
    address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// A directory below the temporary one that is removed with its content. A server that drops its privileges
/// can read in it.
struct ScratchDirectory(PathBuf);

impl ScratchDirectory {
    fn make() -> io::Result<ScratchDirectory> {
        use std::os::unix::fs::DirBuilderExt;
        let base = std::env::temp_dir();
        for number in 0..1000 {
            let path = base.join(format!("touchstone-probe-{}-{number}", std::process::id()));
            match std::fs::DirBuilder::new().mode(0o755).create(&path) {
                Ok(()) => return Ok(ScratchDirectory(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "every name for a directory is taken"))
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        // What cannot be removed is in the temporary directory, and is removed with it.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(lines: &str) -> Vec<Answer> {
        let mut written = Vec::new();
        answer(&mut lines.as_bytes(), &mut written).unwrap();
        let mut from = written.as_slice();
        std::iter::from_fn(|| messages::read(&mut from).unwrap()).collect()
    }

    #[test]
    fn what_cannot_be_done_is_said_and_the_probe_goes_on() {
        let answers = said("{\"ask\":\"look\"}\n{\"ask\":\"stop\"}\n{\"ask\":\"look\"}\n");
        let reason = "no system was found before".to_owned();
        assert_eq!(answers, [Answer::Failed { reason }, Answer::Stopped]);
        assert!(said("").is_empty());
        let mut written = Vec::new();
        assert!(answer(&mut &b"{\"ask\":\"dance\"}\n"[..], &mut written).is_err());
    }

    #[test]
    fn a_system_is_found_started_looked_at_and_ended() {
        let definition = "name = \"x\"\ntitle = \"x\"\ndescription = \"d\"\nexecutables = [\"/bin/sh\"]\n\
                          command = [\"{executable}\", \"-c\", \"echo {address}:{port}; exec sleep 1000\"]\n\
                          capabilities = [\"files\"]\n";
        let mut probe = Probe::default();
        let cpus = placement::allowed().unwrap()[..1].to_vec();
        let find =
            Question::Find { file: "x".into(), definition: definition.into(), cpus: Some(cpus.clone()) };
        let Ok(Answer::Found(found)) = probe.answer(find) else { panic!("not found") };
        assert!(found.port > 0 && found.cpus == cpus && found.machine.cpus > 0 && found.directory.exists());
        let start = Question::Start { needs: vec!["files".into()], mean_body_bytes: 1 };
        let Ok(Answer::Started { command, .. }) = probe.answer(start) else { panic!("not started") };
        assert!(command[2].contains(&format!("{}:{}", found.address, found.port)));
        let Ok(Answer::Seen { snapshot, ended, .. }) = probe.answer(Question::Look) else {
            panic!("not seen")
        };
        assert!(
            ended.is_none() && snapshot.tree.unwrap().processes == 1 && !snapshot.machine.cpus.is_empty()
        );
        probe.answer(Question::Stop).unwrap();
        assert!(!found.directory.exists());
        let with_origin = definition.to_owned() + "origin = \"apache\"\n";
        let find = Question::Find { file: "x".into(), definition: with_origin, cpus: None };
        assert!(probe.answer(find).unwrap_err().contains("has an origin"));
    }
}
