//! `touchstone systems`: the systems on which suites can be run.

use super::print::{print, print_for_reading};
use crate::exit::Exit;
use serde_json::json;
use touchstone_lab_run::system::{Definition, InstalledSystem};

/// The arguments of `touchstone systems`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Lists the systems with their versions, or with the commands that install them.
pub fn run(arguments: Arguments) -> Exit {
    let systems = match Definition::built_in() {
        Ok(systems) => systems,
        Err(error) => {
            eprintln!("touchstone systems: {error}");
            return Exit::Failed;
        }
    };
    if arguments.json {
        print(&format!("{:#}", json!({ "systems": systems.into_iter().map(to_json).collect::<Vec<_>>() })));
        return Exit::Done;
    }
    let width = systems.iter().map(|system| system.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for system in systems {
        let installed = system.installed();
        let state = state(&system, installed.as_ref());
        text += &format!("{:width$}  {state}\n{:width$}  {}\n", system.name, "", system.description);
        let system = with_build(system, installed.as_ref());
        if !system.capabilities.is_empty() {
            text += &format!("{:width$}  has: {}\n", "", system.capabilities.join(", "));
        }
    }
    text += "\nFor a server that runs already, give its URL: touchstone bench SUITE --sut http://HOST:PORT";
    print_for_reading(&text);
    Exit::Done
}

/// With the capabilities of the build that is installed, if one is.
fn with_build(system: Definition, installed: Option<&InstalledSystem>) -> Definition {
    match installed {
        Some(installed) => system.of_build(installed),
        None => system,
    }
}

fn state(system: &Definition, installed: Option<&InstalledSystem>) -> String {
    match installed {
        Some(installed) => match &installed.version {
            Some(version) => format!("{version}  ({})", installed.executable.display()),
            None => format!("({})", installed.executable.display()),
        },
        None => format!("not installed: {}", system.how_to_install()),
    }
}

fn to_json(system: Definition) -> serde_json::Value {
    let installed = system.installed();
    let system = with_build(system, installed.as_ref());
    json!({
        "name": system.name,
        "title": system.title_with(installed.as_ref().and_then(|installed| installed.version.as_deref())),
        "description": system.description,
        "installed": installed.is_some(),
        "version": installed.as_ref().and_then(|installed| installed.version.clone()),
        "executable": installed.as_ref().map(|installed| installed.executable.display().to_string()),
        "package": system.package,
        "capabilities": system.capabilities,
        "is_limit": system.is_limit,
    })
}
