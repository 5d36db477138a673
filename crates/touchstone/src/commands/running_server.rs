//! The common part of the commands for a running server: finding it, sending it a request, and printing its
//! answer.

use std::path::{Path, PathBuf};
use std::time::Duration;

use touchstone_config::{ServerConfig, load_file, load_server_section};
use touchstone_lifecycle::control::{Answer, AskError, ControlAddress, Request, ask};

use super::print::print;
use crate::exit::Exit;

/// The configuration of the packaged server.
const PACKAGED_CONFIG: &str = "/etc/touchstone/touchstone.toml";

/// The maximum time for a quick answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// Which server.
#[derive(clap::Args)]
pub(crate) struct Target {
    /// The configuration file that the server was started with [default: /etc/touchstone/touchstone.toml]
    #[arg(long, value_name = "FILE", conflicts_with = "socket")]
    config: Option<PathBuf>,

    /// The server's control socket, if the configuration cannot be read
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// The reply of a server.
pub(super) struct ServerReply {
    /// The answer.
    pub(super) answer: Answer,
    /// The server's configuration, as far as it could be read.
    pub(super) server: ServerConfig,
}

impl Target {
    /// Sends the server a request; prints the reason if that is impossible.
    pub(super) fn ask(
        &self,
        command: &str,
        request: &Request,
        patience: impl Fn(&ServerConfig) -> Duration,
    ) -> Result<ServerReply, Exit> {
        let ControlTarget { address, server, unreadable } = self.find().map_err(|problem| {
            eprintln!("touchstone {command}: {problem}");
            Exit::Usage
        })?;
        match ask(&address, request, patience(&server)) {
            Ok(answer) => Ok(ServerReply { answer, server }),
            Err(_) if self.config.as_deref().is_some_and(|file| !file.exists()) => {
                let file = self.config.as_deref().unwrap_or(Path::new("")).display();
                eprintln!(
                    "touchstone {command}: {file}: no such file, and no server answers that was started with \
                     it; name the server's own configuration, or its control socket with --socket"
                );
                Err(Exit::Failed)
            }
            Err(error) => {
                eprintln!("touchstone {command}: {}", explained(&address, &server, &error));
                if let Some(problem) = unreadable {
                    eprintln!(
                        "{problem}\ntouchstone {command}: --socket names the server without its configuration"
                    );
                }
                Err(Exit::Failed)
            }
        }
    }

    /// Prints the result that the server reports.
    pub(super) fn print_answer(&self, command: &str, answer: &Answer) -> Exit {
        if self.json {
            print(&format!("{:#}", answer.to_json()));
        } else if answer.ok {
            print(&answer.message);
        } else {
            for problem in &answer.problems {
                eprintln!("{problem}");
            }
            eprintln!("touchstone {command}: {}", answer.message);
        }
        if answer.ok { Exit::Done } else { Exit::Failed }
    }

    /// Whether the answer is to be printed as JSON.
    pub(super) fn is_json(&self) -> bool {
        self.json
    }

    /// The address of the server, and its configuration.
    fn find(&self) -> Result<ControlTarget, String> {
        if let Some(path) = &self.socket {
            let address = ControlAddress::Path(path.clone());
            return Ok(ControlTarget { address, server: ServerConfig::default(), unreadable: None });
        }
        let file = self.config.as_deref().unwrap_or(Path::new(PACKAGED_CONFIG));
        if self.config.is_none() && !file.exists() {
            return Err(format!(
                "which server? Name its configuration with --config ({PACKAGED_CONFIG} does not exist)"
            ));
        }
        // The file may be the invalid one that the server will refuse. If its `[server]` section can be read,
        // it is used; otherwise the default address.
        let (server, unreadable) = match load_file(file) {
            Ok(loaded) => (loaded.config.server, None),
            Err(problems) => {
                let server = load_server_section(file).unwrap_or_default();
                (server, problems.first().map(ToString::to_string))
            }
        };
        match ControlAddress::of(&server, Some(file)) {
            Some(address) => Ok(ControlTarget { address, server, unreadable }),
            None => Err(format!(
                "{}: server.control_socket is \"off\"; signals still work, see docs/signals.md",
                file.display()
            )),
        }
    }
}

/// The address at which a server should be.
struct ControlTarget {
    address: ControlAddress,
    server: ServerConfig,
    /// Why only a part of its configuration can be read.
    unreadable: Option<String>,
}

fn explained(address: &ControlAddress, server: &ServerConfig, error: &AskError) -> String {
    let mut text = format!("{address}: {error}");
    if let AskError::NoServer(_) = error {
        text.push_str("; is it running, and was it started with this configuration file?");
        let process = server.pid_file.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
        if let (Some(path), Some(process)) = (&server.pid_file, process) {
            text.push_str(&format!(" {} names process {}", path.display(), process.trim()));
        }
    }
    text
}
