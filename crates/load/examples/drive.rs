//! Sends requests to one URL and prints the engine's processor time per request, for comparisons with other
//! load generators.
//!
//! ```sh
//! cargo run --release -p touchstone-load --example drive -- http://127.0.0.1:8080/ 64 5 kept
//! cargo run --release -p touchstone-load --example drive -- https://127.0.0.1:8443/ 100 5 100-streams
//! cargo run --release -p touchstone-load --example drive -- http://127.0.0.1:8080/a.json 64 5 kept 1
//! ```
//!
//! The last argument is the number of values that are extracted from the JSON of each answer: `$.v0`, `$.v1`
//! and so on.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints its results")]

use std::time::Duration;
use touchstone_load::{
    ConnectionUse, ExtractPlan, HttpUrl, HttpVersion, Plan, Progress, ScriptPlan, StepPlan, Trust, run,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ([url, clients, seconds, connections], values) = match &arguments[..] {
        [url, clients, seconds, connections] => ([url, clients, seconds, connections], None),
        [url, clients, seconds, connections, values] => {
            ([url, clients, seconds, connections], Some(values.parse::<usize>()?))
        }
        _ => {
            eprintln!("usage: drive URL CLIENTS SECONDS kept|new|N-streams [VALUES]");
            std::process::exit(2);
        }
    };
    let url = HttpUrl::parse(url)?;
    let mut plan = Plan::of_one(url.resolve()?, &url.path);
    plan.clients = clients.parse()?;
    plan.length = Duration::from_secs_f64(seconds.parse()?);
    plan.connections = if connections == "new" { ConnectionUse::New } else { ConnectionUse::Kept };
    if let Some(tls) = &mut plan.target.tls {
        tls.trust = Trust::Anything;
    }
    if let Some(values) = values {
        let value = |number| ExtractPlan { name: format!("v{number}"), from: format!("json $.v{number}") };
        plan.requests[0].step =
            Some(StepPlan { extract: (0..values).map(value).collect(), ..StepPlan::default() });
        plan.script = Some(ScriptPlan::default());
    }
    if let Some(streams) = connections.strip_suffix("-streams") {
        (plan.version, plan.streams) = (HttpVersion::Http2, streams.parse()?);
    }
    let outcome = run(&plan, &Progress::default())?;
    println!(
        "{} requests, {} errors, {:.0} a second, {:.3} us of the engine each",
        outcome.total_requests,
        outcome.total_errors,
        outcome.requests_per_second(),
        outcome.engine_us_per_request().unwrap_or_default()
    );
    Ok(())
}
