//! `touchstone stop`: a running server finishes its running requests and ends.

use std::time::Duration;

use touchstone_lifecycle::control::{Answer, Request, wait_for_end};

use super::running_server::{PATIENCE, Target};
use crate::exit::Exit;

/// The additional time after `server.drain_timeout`, in which logs are written.
const END_PATIENCE: Duration = Duration::from_secs(20);

/// Which server, and whether to wait for its end.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,

    /// Return as soon as the server has begun to stop
    #[arg(long)]
    no_wait: bool,
}

/// Stops, and waits for the end.
pub(crate) fn run(arguments: &Arguments) -> Exit {
    let reply = match arguments.target.ask("stop", &Request::Stop, |_| PATIENCE) {
        Ok(reply) => reply,
        Err(exit) => return exit,
    };
    if arguments.no_wait || !reply.answer.ok {
        return arguments.target.print_answer("stop", &reply.answer);
    }
    let facts = &reply.answer.facts;
    let process = facts["process"].as_u64().and_then(|process| process.try_into().ok()).unwrap_or(0);
    let drain = facts["drain_timeout_s"].as_u64().map_or(reply.server.drain_timeout, Duration::from_secs);
    match wait_for_end(process, drain.saturating_add(END_PATIENCE)) {
        Ok(true) => {
            arguments.target.print_answer("stop", &Answer::done(format!("process {process} has stopped")))
        }
        Ok(false) => {
            let message = format!("process {process} is still finishing requests");
            arguments.target.print_answer("stop", &Answer::refused(message, Vec::new()))
        }
        Err(error) => {
            eprintln!(
                "touchstone stop: process {process} is stopping; its end cannot be waited for: {error}"
            );
            Exit::Failed
        }
    }
}
