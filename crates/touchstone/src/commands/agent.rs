//! `touchstone agent`: the process on a load machine. It connects to its controller's broker and runs the
//! controller's orders, within the limits of this machine.

use crate::exit::Exit;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use touchstone_fleet::{
    AgentEnd, AgentOptions, AllowList, AllowRule, Clock, Credentials, Nats, Patience, Role, run_agent,
};
use touchstone_lab_run::{bench, placement};

/// The arguments of `touchstone agent`.
#[derive(clap::Args)]
#[command(after_help = "\
The agent sends load only to addresses that its own --allow lists; without --allow to none. It stops \
sending when it receives no messages from its controller for 3 seconds. Results that the broker does not \
have yet are kept in the spool and sent when the broker can be reached.

  touchstone agent --controller tls://10.0.0.1:4222 --credentials load-1.credentials --allow 10.0.0.5:80")]
pub struct Arguments {
    /// The URL of the fleet's broker: `controller` in fleet.toml
    #[arg(long, value_name = "URL")]
    controller: String,

    /// The file with this agent's credentials, made by touchstone fleet init; only its owner may be able to
    /// read it. `-`: a launcher sends them on standard input
    #[arg(long, value_name = "FILE")]
    credentials: PathBuf,

    /// Where load may be sent: an address or a network, with or without ports: 10.0.0.5, 10.0.0.0/24:80,
    /// [fd00::/8]:8000-8100; several separated by commas or by repeating the option [default: nowhere]
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    allow: Vec<AllowRule>,

    /// The task of the agent
    #[arg(long, value_enum, default_value_t = RoleWord::Load)]
    role: RoleWord,

    /// The processors for the load engine, for example 0,2-3 [default: all]
    #[arg(long, value_name = "LIST")]
    cores: Option<String>,

    /// With --role probe: the server's process, which is monitored with all its descendants
    #[arg(long, value_name = "PID,...", value_delimiter = ',')]
    pid: Vec<u32>,

    /// The directory for results that the broker does not have yet; only its owner may be able to write there
    /// [default: <credentials>.spool; with -: a new directory that only its owner can read, which is removed
    /// at the end unless results are left in it]
    #[arg(long, value_name = "DIR")]
    spool: Option<PathBuf>,

    /// Shifts the clock, in milliseconds, for tests
    #[arg(long, value_name = "MS", hide = true, default_value_t = 0, allow_negative_numbers = true)]
    test_clock_shift: i64,
}

/// The roles of an agent.
#[derive(Clone, Copy, clap::ValueEnum)]
enum RoleWord {
    /// Make load
    Load,
    /// Monitor this machine, which runs the server
    Probe,
}

/// Serves until a signal or an order ends it.
pub fn run(arguments: Arguments) -> Exit {
    let interrupt = match bench::interrupt_on_signals() {
        Ok(interrupt) => interrupt,
        Err(error) => return refuse(&format!("signals cannot be handled: {error}")),
    };
    match serve(arguments, &interrupt) {
        Ok(AgentEnd::Drained | AgentEnd::Interrupted) => Exit::Done,
        Ok(AgentEnd::Refused(reason)) => {
            eprintln!("touchstone agent: the controller refuses this agent: {reason}");
            Exit::Failed
        }
        Err(message) => refuse(&message),
    }
}

fn refuse(message: &str) -> Exit {
    eprintln!("touchstone agent: {message}");
    Exit::Usage
}

fn serve(arguments: Arguments, interrupt: &Arc<AtomicBool>) -> Result<AgentEnd, String> {
    let from_launcher = arguments.credentials.as_os_str() == "-";
    let credentials = match from_launcher {
        true => {
            let credentials = Credentials::receive(std::io::stdin().lock())?;
            end_with_launcher(Arc::clone(interrupt))?;
            credentials
        }
        false => Credentials::read(&arguments.credentials)?,
    };
    let cores = match &arguments.cores {
        Some(text) => placement::parse_list(text).map_err(|error| format!("--cores: {error}"))?,
        None => Vec::new(),
    };
    let clock = Clock::shifted(arguments.test_clock_shift.saturating_mul(1_000_000));
    let Some(nats) = connect(&arguments.controller, &credentials, &clock, interrupt, from_launcher)? else {
        return Ok(AgentEnd::Interrupted);
    };
    eprintln!(
        "agent {} of the fleet {} is with {}",
        credentials.member, credentials.fleet, arguments.controller
    );
    let options = AgentOptions {
        name: credentials.member.clone(),
        role: match arguments.role {
            RoleWord::Load => Role::Load,
            RoleWord::Probe => Role::Probe,
        },
        cores,
        allow: AllowList(arguments.allow),
        spool: match (arguments.spool, from_launcher) {
            (Some(spool), _) => Some(spool),
            (None, false) => Some(arguments.credentials.with_extension("spool")),
            (None, true) => None,
        },
        pids: arguments.pid,
        clock,
    };
    let end =
        run_agent(Arc::new(nats), &credentials.fleet, options, interrupt, &mut |line| eprintln!("{line}"));
    end.map_err(|error| error.to_string())
}

/// Ends the agent when standard input ends: the launcher that started it and passed it the credentials has
/// ended.
fn end_with_launcher(interrupt: Arc<AtomicBool>) -> Result<(), String> {
    let wait = move || {
        // An error is an end as well.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        interrupt.store(true, Ordering::Relaxed);
    };
    let thread = std::thread::Builder::new().name("launcher".to_string()).spawn(wait);
    thread.map(drop).map_err(|error| format!("no thread: {error}"))
}

/// Connects to the broker; retries while the broker cannot be reached or refuses the credentials. The agent
/// retries on a refusal because the broker then tells a waiting controller about it. An agent of a launcher
/// reports the refusal itself and ends. `None`: interrupted.
fn connect(
    url: &str,
    credentials: &Credentials,
    clock: &Clock,
    interrupt: &AtomicBool,
    from_launcher: bool,
) -> Result<Option<Nats>, String> {
    let patience = Patience { limit: None, retries_refusals: !from_launcher, interrupt };
    let attempt = || Nats::connect(url, credentials, clock.clone());
    let connected = patience.connect(attempt, &mut |line| eprintln!("touchstone agent: {line}"));
    connected.map_err(|error| error.to_string())
}
