//! `touchstone reload`: a running server reads its configuration and certificates and opens its logs again.

use touchstone_lifecycle::control::{Answer, Request};

use super::running_server::{PATIENCE, ServerReply, Target};
use crate::exit::Exit;

/// Which server to reload, and what to reload.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,

    /// Only open the log files again, as after a rotation
    #[arg(long)]
    logs_only: bool,
}

/// Reloads, and reports whether the new configuration was applied.
pub(crate) fn run(arguments: &Arguments) -> Exit {
    let ask = |request: &Request| arguments.target.ask("reload", request, |_| PATIENCE);
    match reload(arguments.logs_only, ask) {
        Ok(answer) => arguments.target.print_answer("reload", &answer),
        Err(exit) => exit,
    }
}

/// Opens the logs again even if the new configuration is refused: the program that renamed them waits for it.
fn reload(logs_only: bool, ask: impl Fn(&Request) -> Result<ServerReply, Exit>) -> Result<Answer, Exit> {
    let logs = ask(&Request::ReopenLogs)?.answer;
    if logs_only || !logs.ok {
        return Ok(logs);
    }
    Ok(ask(&Request::Reload)?.answer)
}
