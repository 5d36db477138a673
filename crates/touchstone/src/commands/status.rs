//! `touchstone status`: how a running server is.

use serde_json::Value;
use touchstone_server::control::Request;

use super::print::print;
use super::running_server::{PATIENCE, Target};
use crate::exit::Exit;

/// Which server.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
}

/// Asks, and prints a line for each fact.
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
    rows.iter().map(|(name, value)| format!("{name:<18} {value}\n")).collect()
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
            "process": 7, "uptime_s": 3_725, "listening": ["127.0.0.1:80", "[::1]:80"], "upgrade_under_way": false,
        });
        let table = table(&facts);
        for line in [
            "process            7\n",
            "running for        1 h 2 min\n",
            "listening on       127.0.0.1:80, [::1]:80\n",
            "upgrade under way  no\n",
            "version            -\n",
        ] {
            assert!(table.contains(line), "{line}{table}");
        }
        assert_eq!([59, 60, 90_000].map(duration), ["59 s", "1 min 0 s", "1 d 1 h"]);
    }
}
