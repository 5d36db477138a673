//! `touchstone nsapi-host`: the process that the server starts for NSAPI plug-ins with `host = "process"`.

use std::path::PathBuf;

use crate::exit::Exit;

/// What the server gives it.
#[derive(clap::Args)]
pub struct Arguments {
    /// The directory with the settings
    directory: PathBuf,
}

/// Runs until the server has it end.
pub fn run(arguments: Arguments) -> Exit {
    match touchstone_nsapi::host::child::run(&arguments.directory) {
        0 => Exit::Done,
        _ => Exit::Failed,
    }
}
