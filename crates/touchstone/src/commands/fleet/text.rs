//! The output of `touchstone fleet`.

use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;
use touchstone_fleet::{FleetFile, MemberView, Notice, Role};

/// The created files, and the next steps.
pub(super) fn created(file: &FleetFile, directory: &Path) -> String {
    let directory = directory.display();
    if let Some(launch) = &file.launch {
        return format!(
            "the fleet {} is in {directory}\n\nits broker and its agents are started here, by {}:\n  \
             touchstone bench SUITE --sut URL --fleet {directory}\n",
            file.name,
            launch.by.name()
        );
    }
    let mut text = format!(
        "the fleet {} is in {directory}\n\non this machine:\n  touchstone fleet broker {directory}\n",
        file.name
    );
    for agent in &file.agents {
        let role = match agent.role {
            Role::Load => "--allow ADDRESS:PORT",
            Role::Probe => "--role probe",
        };
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "\non the machine of {name}, with the file {directory}/{name}.credentials:\n  touchstone agent \
             --controller {} --credentials {name}.credentials {role}\n",
            file.controller,
            name = agent.name
        );
    }
    text
}

/// One row for each agent.
pub(super) fn members(members: &[MemberView]) -> String {
    let mut rows = vec![
        ["agent", "role", "state", "requests/s", "errors", "CPU", "clock ahead", "to send"].map(String::from),
    ];
    for member in members {
        rows.push([
            member.name.clone(),
            role_word(member.role).to_string(),
            member.state_word().to_string(),
            format!("{:.0}", member.requests_per_second),
            member.errors.to_string(),
            format!("{:.0} %", member.cpu_share * 100.0),
            member.clock.map_or("-".to_string(), |clock| {
                let milliseconds = |nanoseconds: f64| nanoseconds / 1e6;
                format!(
                    "{:.3} \u{b1} {:.3} ms",
                    milliseconds(clock.real_offset_ns as f64),
                    milliseconds(clock.bound_ns as f64)
                )
            }),
            member.spooled.to_string(),
        ]);
    }
    table(&rows)
}

/// The program of each agent, and its machine.
pub(super) fn versions(members: &[MemberView]) -> String {
    let mut rows =
        vec![["agent", "version", "program", "kernel", "cores", "memory", "open files"].map(String::from)];
    for member in members {
        let facts = member.facts.as_ref();
        let fact =
            |text: &dyn Fn(&touchstone_fleet::AgentFacts) -> String| facts.map_or("-".to_string(), text);
        rows.push([
            member.name.clone(),
            fact(&|facts| facts.version.clone()),
            fact(&|facts| facts.binary_sha256.get(..12).unwrap_or("unknown").to_string()),
            fact(&|facts| facts.kernel.clone()),
            fact(&|facts| facts.cores.len().to_string()),
            fact(&|facts| format!("{} MiB", facts.memory_bytes >> 20)),
            fact(&|facts| facts.open_files_limit.to_string()),
        ]);
    }
    table(&rows)
}

/// Every agent's lines under its name.
pub(super) fn logs(logs: &[(String, Vec<String>)]) -> String {
    let mut text = String::new();
    for (agent, lines) in logs {
        lines.iter().for_each(|line| text.push_str(&format!("{agent}: {line}\n")));
    }
    if text.is_empty() { "no agent has notes\n".to_string() } else { text }
}

/// The broker's notices about other members.
pub(super) fn notices(notices: &[Notice]) -> Vec<String> {
    let line = |notice: &Notice| match notice {
        Notice::Unauthorised(name) => {
            Some(format!("the broker refused {name}: its credentials are not those of this fleet"))
        }
        Notice::Refused(what) => Some(format!("the broker says: {what}")),
        Notice::Disconnected => Some("the connection to the broker was lost".to_string()),
        Notice::Connected => None,
    };
    let mut lines: Vec<String> = notices.iter().filter_map(line).collect();
    lines.sort();
    lines.dedup();
    lines
}

/// The same for programs.
pub(super) fn members_json(members: &[MemberView]) -> Value {
    let row = |member: &MemberView| {
        json!({
            "name": member.name,
            "role": role_word(member.role),
            "state": member.state_word(),
            "requests_per_second": member.requests_per_second,
            "errors": member.errors,
            "cpu_share": member.cpu_share,
            "clock": member.clock,
            "traffic": member.traffic,
            "spooled": member.spooled,
            "facts": member.facts,
        })
    };
    json!({ "agents": members.iter().map(row).collect::<Vec<_>>() })
}

fn role_word(role: Role) -> &'static str {
    match role {
        Role::Load => "load",
        Role::Probe => "probe",
    }
}

/// Columns as wide as their widest cell; the first to the left, the others to the right.
fn table<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMNS).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match column {
                0 => write!(text, "{cell:<width$}"),
                _ => write!(text, "  {cell:>width$}"),
            };
        }
        text.push('\n');
    }
    text
}
