//! `touchstone purge`: removes stored responses from a running server's accelerator.

use touchstone_accelerator::purge::PurgeRequest;
use touchstone_lifecycle::control::Request;

use super::running_server::{PATIENCE, Target};
use crate::exit::Exit;

/// Which server, and which responses.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true))]
pub(crate) struct Arguments {
    /// One URL as clients request it, such as http://example.org/a?b; or a path such as /a?b, of any host
    #[arg(long, value_name = "URL", group = "what")]
    url: Option<String>,

    /// Every URL, or every path, with this prefix
    #[arg(long, value_name = "URL", group = "what")]
    prefix: Option<String>,

    /// Every response with this tag in Surrogate-Key or Cache-Tag
    #[arg(long, value_name = "TAG", group = "what")]
    tag: Option<String>,

    /// Everything
    #[arg(long, group = "what")]
    all: bool,

    /// Make them stale instead: they are still served while they are validated, or when the origin fails
    #[arg(long)]
    soft: bool,

    #[command(flatten)]
    target: Target,
}

/// Purges, and prints the number of responses.
pub(crate) fn run(arguments: &Arguments) -> Exit {
    let mut parameters: Vec<(&str, String)> = Vec::new();
    let given = [("url", &arguments.url), ("prefix", &arguments.prefix), ("tag", &arguments.tag)];
    parameters.extend(given.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))));
    parameters.extend(arguments.all.then(|| ("all", "1".to_string())));
    parameters.extend(arguments.soft.then(|| ("soft", "1".to_string())));
    let purge = match PurgeRequest::parse(&parameters) {
        Ok(purge) => purge,
        Err(problem) => {
            eprintln!("touchstone purge: {problem}");
            return Exit::Usage;
        }
    };
    match arguments.target.ask("purge", &Request::Purge(purge), |_| PATIENCE) {
        Ok(asked) => arguments.target.print_answer("purge", &asked.answer),
        Err(exit) => exit,
    }
}
