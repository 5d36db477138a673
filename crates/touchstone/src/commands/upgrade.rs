//! `touchstone upgrade`: a running server is replaced by a new process that takes over its sockets.

use std::path::PathBuf;
use std::time::Duration;

use touchstone_lifecycle::control::Request;

use super::running_server::Target;
use crate::exit::Exit;

/// Which server, and the new program.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,

    /// The new program [default: the path that the running one was started from]
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

/// Upgrades, and reports which process serves now, or why it is still the old one.
pub(crate) fn run(arguments: &Arguments) -> Exit {
    // The server may have another working directory.
    let program =
        arguments.program.as_ref().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()));
    let request = Request::Upgrade(program);
    // The server itself stops waiting after its own time; the additional time is for the messages.
    let patience =
        |server: &touchstone_config::ServerConfig| server.upgrade_timeout + Duration::from_secs(30);
    match arguments.target.ask("upgrade", &request, patience) {
        Ok(asked) => arguments.target.print_answer("upgrade", &asked.answer),
        Err(exit) => exit,
    }
}
