//! `touchstone man`: the manual pages, one of the program and one of each command, generated from their
//! definitions.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};

use super::print::print;
use crate::exit::Exit;

/// The destination of the pages.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The directory for touchstone.1 and touchstone-COMMAND.1; it is created if it is missing
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Writes the pages, and prints their number.
pub(crate) fn run(arguments: &Arguments) -> Exit {
    match write_pages(&arguments.directory) {
        Ok(count) => {
            print(&format!("{count} manual pages in {}", arguments.directory.display()));
            Exit::Done
        }
        Err(error) => {
            eprintln!("touchstone man: {}: {error}", arguments.directory.display());
            Exit::Failed
        }
    }
}

fn write_pages(directory: &Path) -> io::Result<usize> {
    fs::create_dir_all(directory)?;
    let mut program = crate::definition().disable_help_subcommand(true);
    program.build();
    let mut count = 0;
    write_page(directory, "touchstone", program.clone(), &mut count)?;
    for command in program.get_subcommands() {
        write_with_below(directory, "touchstone", command, &mut count)?;
    }
    Ok(count)
}

/// The page of a command and those of the commands below it.
fn write_with_below(
    directory: &Path,
    above: &str,
    command: &clap::Command,
    count: &mut usize,
) -> io::Result<()> {
    let name = format!("{above}-{}", command.get_name());
    write_page(directory, &name, command.clone(), count)?;
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        write_with_below(directory, &name, below, count)?;
    }
    Ok(())
}

fn write_page(directory: &Path, name: &str, command: clap::Command, count: &mut usize) -> io::Result<()> {
    // A date in a page would make two builds of one source differ.
    let man = Man::new(command.display_name(name))
        .title(name.to_uppercase())
        .source(format!("touchstone {}", env!("CARGO_PKG_VERSION")));
    let man = man.manual("User Commands").date("");
    let mut page = Vec::new();
    man.render(&mut page)?;
    rest_of_page(name).to_writer(&mut page)?;
    fs::write(directory.join(format!("{name}.1")), page)?;
    *count += 1;
    Ok(())
}

/// The sections that are equal for every command, and those of the program as a whole.
fn rest_of_page(name: &str) -> Roff {
    const STATUS: [(&str, &str); 4] = [
        ("0", "done"),
        ("1", "the run or the check failed"),
        ("2", "it could not start: bad usage, configuration or environment"),
        ("3", "it ran, and thresholds were not met"),
    ];
    const SIGNALS: [(&str, &str); 4] = [
        ("SIGTERM, SIGINT", "Finish running requests, and end."),
        ("SIGHUP", "Read the configuration file again."),
        ("SIGUSR1", "Open the log files again."),
        ("SIGUSR2", "Start a new process that takes over."),
    ];
    const FILES: [(&str, &str); 3] = [
        ("/etc/touchstone/touchstone.toml", "the configuration"),
        ("/run/touchstone/control.sock", "where the commands reach the server"),
        ("/var/log/touchstone/", "logs"),
    ];
    let mut roff = Roff::new();
    let mut list = |title: &str, items: &[(&str, &str)]| {
        roff.control("SH", [title]);
        for (term, text) in items {
            roff.control("TP", []).text([italic(*term)]).text([roman(*text)]);
        }
    };
    list("EXIT STATUS", &STATUS);
    if ["touchstone", "touchstone-serve", "touchstone-accelerate"].contains(&name) {
        list("SIGNALS", &SIGNALS);
        list("FILES", &FILES);
    }
    roff.control("SH", ["SEE ALSO"]);
    let pages: &[&str] = match name {
        "touchstone" => &["systemctl(1)", "logrotate(8)"],
        _ => &["touchstone(1)"],
    };
    roff.text([bold(pages.join(", "))]);
    roff.text([roman("The book: /usr/share/doc/touchstone/docs/README.md")]);
    roff
}
