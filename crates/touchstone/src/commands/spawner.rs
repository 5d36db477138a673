//! `touchstone spawner`: the process that starts programs for a server. Only a server starts it.

use crate::exit::Exit;

/// The arguments from the server.
#[derive(clap::Args)]
pub struct Arguments {
    /// The maximum number of files that a program may open
    open_files: Option<u64>,
}

/// Works until the server has ended.
pub fn run(arguments: Arguments) -> Exit {
    match touchstone_interfaces::cgi::spawner::run(arguments.open_files) {
        Ok(()) => Exit::Done,
        Err(error) => {
            eprintln!("touchstone spawner: {error}");
            Exit::Usage
        }
    }
}
