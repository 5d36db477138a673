//! Prints the imports: `make tidy`, or `cargo run -p touchstone-tidy -- CRATE` for all modules of one crate.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this program is run to print")]

use std::process::ExitCode;

use touchstone_tidy::{picture, workspace};

fn main() -> ExitCode {
    let workspace = match workspace::read() {
        Ok(workspace) => workspace,
        Err(error) => {
            eprintln!("tidy: {error}");
            return ExitCode::FAILURE;
        }
    };
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if wanted.is_empty() {
        print!("{}", picture::of_crates(&workspace));
    }
    for krate in workspace.crates.iter().rev() {
        if wanted.is_empty() || wanted.contains(&krate.name) {
            print!("{}", picture::of_modules(&workspace, &krate.name, !wanted.is_empty()));
        }
    }
    ExitCode::SUCCESS
}
