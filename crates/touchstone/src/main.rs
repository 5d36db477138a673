//! `touchstone`: a web server, an accelerator and the laboratory that measures both.
//!
//! Each command is a module of [`commands`] that turns its arguments into a call of the library that does the
//! work, and the outcome into text and an exit code.

#![allow(clippy::print_stderr, reason = "a command prints its errors and notes to standard error")]

mod allocator;
mod commands;
mod exit;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};

/// A request that is not a cache hit uses about twenty small pieces of memory for a moment, and one of
/// several kilobytes, which the C library's allocator is slow to allocate and free (docs/decisions/0012 has
/// the measurements).
#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

/// A web server that runs every kind of server-side program, a caching accelerator for any other server, and
/// a laboratory that measures them and their rivals.
#[derive(Parser)]
#[command(name = "touchstone", version, arg_required_else_help = true, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: commands::Command,
}

/// The definition of every visible command and option, for what is generated from it.
fn definition() -> clap::Command {
    let whole = Arguments::command();
    let shown = whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let about = whole.get_about().cloned().unwrap_or_default();
    let version = whole.get_version().unwrap_or_default().to_string();
    clap::Command::new("touchstone").version(version).about(about).propagate_version(true).subcommands(shown)
}

fn main() -> std::process::ExitCode {
    let arguments =
        Arguments::try_parse().unwrap_or_else(|error| with_useful_advice(without_hidden(error)).exit());
    arguments.command.run().into()
}

/// The same error, but without the advice to write an unknown option as a value: no value begins with two
/// hyphens. For the port of a server it names the option that has one.
fn with_useful_advice(mut error: clap::Error) -> clap::Error {
    if error.kind() == ErrorKind::UnknownArgument {
        error.remove(ContextKind::Suggested);
        if matches!(error.get(ContextKind::InvalidArg), Some(ContextValue::String(name)) if name == "--port")
        {
            let listen = "--listen 127.0.0.1:PORT".to_string();
            error.insert(ContextKind::SuggestedArg, ContextValue::String(listen));
        }
    }
    error
}

/// The same error, but without proposing a subcommand that only the server starts.
fn without_hidden(mut error: clap::Error) -> clap::Error {
    const SUGGESTED: ContextKind = ContextKind::SuggestedSubcommand;
    let Some(ContextValue::Strings(mut names)) = error.remove(SUGGESTED) else { return error };
    let command = Arguments::command();
    names.retain(|name| command.find_subcommand(name).is_some_and(|found| !found.is_hide_set()));
    if !names.is_empty() {
        error.insert(SUGGESTED, ContextValue::Strings(names));
    }
    error
}
