//! `touchstone nsapi-host`: the process that the server starts for NSAPI plug-ins with `host = "process"`.

use std::path::PathBuf;

use crate::exit::Exit;

/// The arguments from the server.
#[derive(clap::Args)]
pub struct Arguments {
    /// The directory with the settings
    directory: PathBuf,
}

/// Runs until the server ends it.
pub fn run(arguments: Arguments) -> Exit {
    match touchstone_nsapi::host::child::run(&arguments.directory) {
        0 => Exit::Done,
        _ => Exit::Failed,
    }
}
