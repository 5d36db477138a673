//! The commands, one module each: its arguments, which are its help, and its implementation.

use crate::exit::Exit;

mod accelerate;
mod agent;
mod bench;
mod certify;
mod check;
mod compare;
mod completions;
mod control;
mod fleet;
mod import;
mod init;
mod limit;
mod load;
mod man;
mod nsapi_host;
mod plan;
mod print;
mod probe;
mod purge;
mod python_worker;
mod reload;
mod report;
mod running_server;
mod schema;
mod serve;
mod serve_target;
mod servlet_host;
mod spawner;
mod status;
mod stop;
mod suites;
mod systems;
mod upgrade;
mod verify;
mod warm;

/// The commands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Serve the sites of a configuration file, or directly a directory, an application or another server
    Serve(serve::Arguments),
    /// Put a cache in front of another server, without a configuration file
    Accelerate(accelerate::Arguments),
    /// Write a configuration from a few answers
    Init(init::Arguments),
    /// Report what is wrong with a configuration, with file and line
    Check(check::Arguments),
    /// Make a running server read its configuration, certificates and logs again
    Reload(reload::Arguments),
    /// Read and change a running server: origins, routes, certificates
    Control(control::Arguments),
    /// Remove stored responses from a running server's accelerator
    Purge(purge::Arguments),
    /// Request a list of URLs, or those of a sitemap, from an accelerator, so that they are stored
    Warm(warm::Arguments),
    /// Replace a running server with a new process that takes over its sockets
    Upgrade(upgrade::Arguments),
    /// Print the state of a running server
    Status(status::Arguments),
    /// Stop a running server after it has finished its requests
    Stop(stop::Arguments),
    /// Load a URL, or a list of them, with virtual clients and print the figures
    #[command(after_help = load::AFTER_HELP)]
    Load(Box<load::Arguments>),
    /// Run a suite on one or more systems under test and write a report
    Bench(Box<bench::Arguments>),
    /// Be a load machine of a fleet: generate load on this machine for a controller
    Agent(agent::Arguments),
    /// Create and manage a fleet of load machines
    Fleet(fleet::Arguments),
    /// Make the report of a result again, or one of several results side by side
    Report(report::Arguments),
    /// Report whether systems or results differ by more than noise
    Compare(compare::Arguments),
    /// Report what limited a system, what load it can take, and what to change first
    Plan(plan::Arguments),
    /// Sign a result, with its class by the run rules
    Certify(certify::Arguments),
    /// Check a result: its signature, every figure against the raw data, the audit, the run rules
    Verify(verify::Arguments),
    /// List the suites that can be run, or print one
    Suites(suites::Arguments),
    /// Translate a configuration of nginx, Caddy or Apache, or make a suite from a HAR, an access log, a list
    /// of URLs, a WebStone file list or a curl command
    Import(import::Arguments),
    /// List the systems that suites can be run against
    Systems(systems::Arguments),
    /// Measure the best result that this machine's kernel allows
    #[command(after_help = limit::AFTER_HELP)]
    Limit(limit::Arguments),
    /// Print the JSON schema of the configuration, for editors
    Schema(schema::Arguments),
    /// Print a completion script for a shell
    Completions(completions::Arguments),
    /// Write the manual pages
    Man(man::Arguments),
    /// Answer a bench on another machine, which starts this over ssh
    #[command(hide = true)]
    Probe(probe::Arguments),
    /// Start programs for the server that started this
    #[command(hide = true)]
    Spawner(spawner::Arguments),
    /// Run NSAPI plug-ins for a server, which starts this itself
    #[command(hide = true)]
    NsapiHost(nsapi_host::Arguments),
    /// Run Java applications for a server, which starts this itself
    #[command(hide = true)]
    ServletHost(servlet_host::Arguments),
    /// Run a Python application for a server, which starts this itself
    #[command(hide = true)]
    PythonWorker,
}

impl Command {
    /// Runs the command.
    pub fn run(self) -> Exit {
        match self {
            Command::Serve(arguments) => serve::run(arguments),
            Command::Accelerate(arguments) => accelerate::run(arguments),
            Command::Init(arguments) => init::run(arguments),
            Command::Check(arguments) => check::run(arguments),
            Command::Reload(arguments) => reload::run(&arguments),
            Command::Control(arguments) => control::run(arguments),
            Command::Purge(arguments) => purge::run(&arguments),
            Command::Warm(arguments) => warm::run(&arguments),
            Command::Upgrade(arguments) => upgrade::run(&arguments),
            Command::Status(arguments) => status::run(&arguments),
            Command::Stop(arguments) => stop::run(&arguments),
            Command::Load(arguments) => load::run(*arguments),
            Command::Bench(arguments) => bench::run(*arguments),
            Command::Agent(arguments) => agent::run(arguments),
            Command::Fleet(arguments) => fleet::run(arguments),
            Command::Report(arguments) => report::run(arguments),
            Command::Compare(arguments) => compare::run(arguments),
            Command::Plan(arguments) => plan::run(arguments),
            Command::Certify(arguments) => certify::run(arguments),
            Command::Verify(arguments) => verify::run(arguments),
            Command::Suites(arguments) => suites::run(arguments),
            Command::Import(arguments) => import::run(&arguments),
            Command::Systems(arguments) => systems::run(arguments),
            Command::Limit(arguments) => limit::run(arguments),
            Command::Schema(arguments) => schema::run(&arguments),
            Command::Completions(arguments) => completions::run(&arguments),
            Command::Man(arguments) => man::run(&arguments),
            Command::Probe(arguments) => probe::run(&arguments),
            Command::Spawner(arguments) => spawner::run(arguments),
            Command::NsapiHost(arguments) => nsapi_host::run(arguments),
            Command::ServletHost(arguments) => servlet_host::run(arguments),
            Command::PythonWorker => python_worker::run(),
        }
    }
}
