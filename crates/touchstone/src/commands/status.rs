//! `touchstone status`: the state of a running server.

use serde_json::Value;
use touchstone_lifecycle::control::Request;

use super::print::print;
use super::running_server::{PATIENCE, Target};
use crate::exit::Exit;

/// Which server.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
}

/// Asks the server, and prints a line for each fact.
pub(crate) fn run(arguments: &Arguments) -> Exit {
    let answer = match arguments.target.ask("status", &Request::Status, |_| PATIENCE) {
        Ok(asked) => asked.answer,
        Err(exit) => return exit,
    };
    if arguments.target.wants_json() || !answer.ok {
        return arguments.target.say("status", &answer);
    }
    print(&table(&answer.facts));
    Exit::Done
}

fn table(facts: &Value) -> String {
    let text = |name: &str| match &facts[name] {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        Value::Bool(true) => "yes".to_string(),
        Value::Bool(false) => "no".to_string(),
        Value::Null => "-".to_string(),
        other => other.to_string(),
    };
    let uptime = facts["uptime_s"].as_u64().map_or_else(|| "-".to_string(), duration);
    let rows = [
        ("process", text("process")),
        ("version", text("version")),
        ("configuration", text("config_file")),
        ("running for", uptime),
        ("listening on", text("listening")),
        ("cores", text("cores")),
        ("sites", text("sites")),
        ("open connections", text("connections")),
        ("reloads", text("reloads")),
        ("upgrade under way", text("upgrade_under_way")),
    ];
    let origins =
        facts["origins"].as_array().into_iter().flatten().map(|origin| ("origin", about_origin(origin)));
    rows.into_iter().chain(origins).map(|(name, value)| format!("{name:<18} {value}\n")).collect()
}

/// `http://127.0.0.1:3000 up, 12 requests, 0 failures, 3 connections, for example.org /app/`
fn about_origin(origin: &Value) -> String {
    let text = |name: &str| origin[name].as_str().unwrap_or("-").to_string();
    let number = |name: &str| origin[name].as_u64().unwrap_or(0);
    let failures = origin["failures"].as_object().into_iter().flat_map(|failures| failures.values());
    let failures: u64 = failures.filter_map(Value::as_u64).sum::<u64>() + number("broken_bodies");
    format!(
        "{} {}, {} requests, {failures} failures, {} connections, for {} {}",
        text("origin"),
        text("state").replace('_', " "),
        number("requests"),
        number("connections"),
        text("site"),
        text("route"),
    )
}

/// `3 d 4 h`, `4 h 5 min`, `5 min 6 s`, `6 s`.
fn duration(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_become_lines() {
        let facts = serde_json::json!({
            "process": 7, "uptime_s": 3_725, "listening": ["127.0.0.1:80", "[::1]:80"],
            "upgrade_under_way": false,
            "origins": [{
                "origin": "http://a", "state": "slow_start", "requests": 5,
                "failures": { "connect": 1, "timeout": 2 },
                "broken_bodies": 1, "connections": 3, "site": "b", "route": "/c/",
            }],
        });
        let table = table(&facts);
        for line in [
            "process            7\n",
            "running for        1 h 2 min\n",
            "listening on       127.0.0.1:80, [::1]:80\n",
            "upgrade under way  no\n",
            "version            -\n",
            "origin             http://a slow start, 5 requests, 4 failures, 3 connections, for b /c/\n",
        ] {
            assert!(table.contains(line), "{line}{table}");
        }
        assert_eq!([59, 60, 90_000].map(duration), ["59 s", "1 min 0 s", "1 d 1 h"]);
    }
}
