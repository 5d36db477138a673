//! `touchstone servlet-host`: the process that the server starts for Java applications with `isolation =
//! "isolated"`.

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
    match touchstone_servlet::run_isolated(&arguments.directory) {
        0 => Exit::Done,
        _ => Exit::Failed,
    }
}
