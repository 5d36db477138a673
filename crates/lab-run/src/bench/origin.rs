//! The origin behind an accelerator: started before it from its own definition, on its own port and on the
//! same processors, and watched with it; its processor time is recorded separately.

use super::port::HeldPort;
use super::prepare::PreparedBench;
use super::system_selection;
use crate::system::companion::{Companion, SocketDirectory};
use crate::system::launch::{LaunchContext, launch};
use crate::system::process::SystemProcess;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use touchstone_lab::recording::ProcessTree;
use touchstone_lab::result::{ClassHits, ConfigurationFile, OriginResult, OriginUse};
use touchstone_lab::suite::Mix;

/// How long an origin may take until it accepts connections.
const START_TIME_LIMIT: Duration = Duration::from_secs(120);

/// An origin that runs. Dropping it stops it.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) process: SystemProcess,
    pub(super) port: u16,
    /// Its configuration files, under names that contain the origin's name.
    pub(super) configuration: Vec<ConfigurationFile>,
    pub(super) result: OriginResult,
    tree: ProcessTree,
    /// The processor time when the mix began, seconds.
    cpu_s_before: f64,
    /// Kept as long as the process: taken away when this is dropped.
    _sockets: SocketDirectory,
}

impl Origin {
    /// Starts it for what its accelerator is started for, and waits until it accepts connections.
    pub(super) fn start(
        name: &str,
        accelerator: &str,
        context: &LaunchContext<'_>,
        prepared: &PreparedBench,
    ) -> Result<Origin, String> {
        let (definition, installed) = system_selection::find_origin(name, accelerator)?;
        let title = definition.title_with(installed.version.as_deref());
        let failed = |error: std::io::Error| format!("{title}, the origin of {accelerator}: {error}");
        if let Some(reason) = definition.lacks(context.needs, &title) {
            return Err(format!("{reason}, and is the origin of {accelerator}"));
        }
        let asks = |companion: &Companion| context.needs.contains(&companion.needs.as_str());
        if definition.origin.is_some() || definition.companions.iter().any(asks) {
            return Err(format!(
                "{title} cannot be the origin of {accelerator}: others run beside it, which is not supported"
            ));
        }
        let directory =
            prepared.directory.system_directory(&format!("{accelerator}-origin")).map_err(failed)?;
        let port = HeldPort::any().map_err(|error| failed(error.into()))?.number();
        let sockets = SocketDirectory::make(context.user).map_err(failed)?;
        let context = LaunchContext { directory: &directory, port, ..*context };
        let mut launched = launch(&definition, &installed, sockets, &context)
            .map_err(|problem| format!("{title}, the origin of {accelerator}: {problem}"))?;
        let process = &mut launched.process;
        wait_until_it_accepts(process, port).map_err(|problem| {
            format!(
                "{title}, the origin of {accelerator}, {problem}. {}",
                process.last_output().unwrap_or_default()
            )
        })?;
        let tree = ProcessTree::of(&[process.pid()]);
        let mut configuration = vec![ConfigurationFile {
            name: "origin: command".to_string(),
            text: launched.command.join(" ") + "\n",
        }];
        configuration.extend(
            launched
                .configuration
                .into_iter()
                .map(|file| ConfigurationFile { name: format!("origin: {}", file.name), ..file }),
        );
        let result = OriginResult { name: definition.name, title, mixes: Vec::new(), hits: Vec::new() };
        Ok(Origin {
            process: launched.process,
            port,
            configuration,
            result,
            tree,
            cpu_s_before: 0.0,
            _sockets: launched.sockets,
        })
    }

    /// Called when a mix begins.
    pub(super) fn begin(&mut self) {
        self.cpu_s_before = self.cpu_s();
    }

    /// A mix has ended, with this many valid answers of the accelerator.
    pub(super) fn end(&mut self, mix: &Mix, run: u64, requests: u64) {
        let cpu_s = (self.cpu_s() - self.cpu_s_before).max(0.0);
        self.result.mixes.push(OriginUse {
            mix: mix.name.clone(),
            run,
            clients: mix.clients as u64,
            cpu_s,
            length_s: mix.length_s,
            cpu_us_per_request: if requests > 0 { cpu_s * 1e6 / requests as f64 } else { 0.0 },
        });
    }

    /// A request of a class was answered, from what is stored or not.
    pub(super) fn count(&mut self, class: &str, hit: bool) {
        let hits = &mut self.result.hits;
        let place = hits.iter().position(|own| own.class == class).unwrap_or_else(|| {
            hits.push(ClassHits { class: class.to_string(), asked: 0, hits: 0 });
            hits.len() - 1
        });
        hits[place].asked += 1;
        hits[place].hits += u64::from(hit);
    }

    fn cpu_s(&mut self) -> f64 {
        self.tree.read().map_or(0.0, |reading| reading.user_s + reading.system_s)
    }
}

fn wait_until_it_accepts(process: &mut SystemProcess, port: u16) -> Result<(), String> {
    let started = Instant::now();
    while TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).is_err() {
        if let Some(end) = process.has_ended() {
            return Err(format!("ended at once ({end})"));
        }
        if started.elapsed() > START_TIME_LIMIT {
            return Err("does not accept connections".to_string());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
