//! `touchstone probe`: this program on the machine of a system under test. A bench on another machine starts
//! it over ssh.

use crate::exit::Exit;
use std::io::BufReader;
use touchstone_lab_run::remote::probe;

/// The arguments of `touchstone probe`.
#[derive(clap::Args)]
pub struct Arguments {}

/// Answers questions until an order or the end of its input stops it.
pub fn run(_: &Arguments) -> Exit {
    match probe::answer(&mut BufReader::new(std::io::stdin()), &mut std::io::stdout()) {
        Ok(()) => Exit::Done,
        Err(error) => {
            eprintln!("touchstone probe: {error}");
            Exit::Failed
        }
    }
}
