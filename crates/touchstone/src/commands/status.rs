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

/// Asks the server, and prints one line for each fact.
pub(crate) fn run(arguments: &Arguments) -> Exit {
    let answer = match arguments.target.ask("status", &Request::Status, |_| PATIENCE) {
        Ok(asked) => asked.answer,
        Err(exit) => return exit,
    };
    if arguments.target.is_json() || !answer.ok {
        return arguments.target.print_answer("status", &answer);
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
        ("active upgrade", text("upgrade_under_way")),
    ];
    let origins =
        facts["origins"].as_array().into_iter().flatten().map(|origin| ("origin", about_origin(origin)));
    let servlets = about_servlets(&facts["servlets"]);
    let python = about_python(&facts["python"]);
    let components = facts["components"].as_array().into_iter().flatten();
    let components = components.map(|component| ("component", about_component(component)));
    let streams = facts["streams"].as_array().into_iter().flatten();
    let streams = streams.map(|stream| ("stream", about_stream(stream)));
    let lines =
        rows.into_iter().chain(streams).chain(origins).chain(servlets).chain(python).chain(components);
    lines.map(|(name, value)| format!("{name:<18} {value}\n")).collect()
}

/// `http://127.0.0.1:3000 up, 12 requests, 0 failures, 3 connections, for example.org /app/`
fn about_origin(origin: &Value) -> String {
    let text = |name: &str| origin[name].as_str().unwrap_or("-").to_string();
    let number = |name: &str| origin[name].as_u64().unwrap_or(0);
    let failures = origin["failures"].as_object().into_iter().flat_map(|failures| failures.values());
    let failures: u64 = failures.filter_map(Value::as_u64).sum::<u64>() + number("broken_bodies");
    let service = match origin["service"].as_str() {
        Some("ready") | None => String::new(),
        Some(service) => format!(", {service}"),
    };
    format!(
        "{} {}{service}, {} requests, {failures} failures, {} connections, for {} {}",
        text("origin"),
        text("state").replace('_', " "),
        number("requests"),
        number("connections"),
        text("site"),
        text("route"),
    )
}

/// `app.wasm 340 requests, 3 active, 2 failures, 5 instances with 10 MiB, for example.org /app/`
fn about_component(component: &Value) -> String {
    let number = |name: &str| component[name].as_u64().unwrap_or(0);
    let text = |name: &str| component[name].as_str().unwrap_or("-").to_string();
    let failures = component["failures"].as_object().into_iter().flat_map(|failures| failures.values());
    format!(
        "{} {} requests, {} active, {} failures, {} instances with {} MiB, for {} {}",
        text("component"),
        number("requests"),
        number("under_way"),
        failures.filter_map(Value::as_u64).sum::<u64>(),
        number("instances"),
        number("memory_bytes") >> 20,
        text("site"),
        text("route"),
    )
}

/// `mail tcp, 2 open of 17 connections, 522 bytes received, 10240 sent`
fn about_stream(stream: &Value) -> String {
    let number = |name: &str| stream[name].as_u64().unwrap_or(0);
    let text = |name: &str| stream[name].as_str().unwrap_or("-").to_string();
    format!(
        "{} {}, {} open of {} connections, {} bytes received, {} sent",
        text("stream"),
        text("protocol"),
        number("open"),
        number("accepted"),
        number("received_bytes"),
        number("sent_bytes"),
    )
}

/// One line for each application, for the threads of each route, and for each virtual machine.
fn about_servlets(servlets: &Value) -> Vec<(&'static str, String)> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut lines = Vec::new();
    for route in &list(&servlets["routes"]) {
        for application in &list(&route["java"]["applications"]) {
            lines.push(("application", about_application(application, route)));
        }
        lines.push(("servlet threads", about_threads(route)));
    }
    lines.extend(list(&servlets["machines"]).iter().map(|machine| ("java", about_machine(machine))));
    lines
}

/// `/shop running for 5 min 3 s, 12 sessions, 340 requests, 2 errors, for example.org /shop/`
fn about_application(application: &Value, route: &Value) -> String {
    let number = |name: &str| application[name].as_u64().unwrap_or(0);
    let text = |value: &Value| value.as_str().unwrap_or("-").to_string();
    let version = match application["version"].as_str() {
        Some("") | None => String::new(),
        Some(version) => format!("##{version}"),
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let since = match number("started_ms") {
        0 => String::new(),
        started_ms => format!(" for {}", duration(now.as_secs().saturating_sub(started_ms / 1000))),
    };
    format!(
        "{}{version} {}{since}, {} sessions, {} requests, {} errors, for {} {}",
        text(&application["path"]),
        text(&application["state"]),
        number("sessions"),
        number("requests"),
        number("errors"),
        text(&route["site"]),
        text(&route["route"]),
    )
}

/// `3 of 12 busy, at most 200; 0 wait, 0 refused, for example.org /shop/`
fn about_threads(route: &Value) -> String {
    let number = |name: &str| route["threads"][name].as_u64().unwrap_or(0);
    let most = match number("most_threads") {
        0 => "virtual ones for requests".to_string(),
        most => format!("at most {most}"),
    };
    format!(
        "{} of {} busy, {most}; {} wait, {} refused, for {} {}",
        number("busy"),
        number("threads"),
        number("waiting") + number("held"),
        number("refused"),
        route["site"].as_str().unwrap_or("-"),
        route["route"].as_str().unwrap_or("-"),
    )
}

/// `17.0.15 in process 7, heap 12 of 128 MiB, 5 collections in 31 ms`
fn about_machine(machine: &Value) -> String {
    let sum = |name: &str| {
        let collectors = machine["collectors"].as_array();
        collectors.into_iter().flatten().filter_map(|one| one[name].as_u64()).sum::<u64>()
    };
    let mebibytes = |name: &str| machine[name].as_u64().map_or(0, |bytes| bytes >> 20);
    format!(
        "{} in process {}, heap {} of {} MiB, {} collections in {} ms",
        machine["version"].as_str().unwrap_or("-"),
        machine["process"],
        mebibytes("heap_used_bytes"),
        mebibytes("heap_most_bytes"),
        sum("collections"),
        sum("time_ms"),
    )
}

/// One line for each Python application, for its restarts if there were any, and for each of its workers.
fn about_python(python: &Value) -> Vec<(&'static str, String)> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_string();
    let mut lines = Vec::new();
    for application in &list(&python["applications"]) {
        let workers = list(&application["workers"]);
        let sum = |name: &str| workers.iter().filter_map(|worker| worker[name].as_u64()).sum::<u64>();
        lines.push((
            "python",
            format!(
                "{} {}, {} of {} workers, {} requests busy, {} wait, {} MiB, for {} {}",
                text(&application["app"]),
                text(&application["state"]),
                workers.len(),
                application["most_workers"],
                sum("busy"),
                sum("queue"),
                sum("resident_bytes") >> 20,
                text(&application["site"]),
                text(&application["route"]),
            ),
        ));
        let restarts = counts(&application["restarts"]);
        if !restarts.is_empty() {
            let last = text(&application["last_restart"]["text"]);
            lines.push(("python restarts", format!("{restarts}; the last: {last}")));
        }
        let failures = counts(&application["failures"]);
        if !failures.is_empty() {
            lines.push(("python failures", failures));
        }
        lines.extend(workers.iter().map(|worker| ("python worker", about_worker(worker))));
    }
    lines
}

/// `3 reload, 1 end`, without the counts that are 0.
fn counts(counts: &Value) -> String {
    let counts = counts.as_object().into_iter().flatten();
    let counts = counts.filter_map(|(name, count)| Some((name, count.as_u64().filter(|count| *count > 0)?)));
    let words: Vec<String> =
        counts.map(|(name, count)| format!("{count} {}", name.replace('_', " "))).collect();
    words.join(", ")
}

/// `4711 runs for 5 min 3 s, 2 requests busy, 0 wait, 340 in all, 31 MiB`
fn about_worker(worker: &Value) -> String {
    let number = |name: &str| worker[name].as_u64().unwrap_or(0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!(
        "{} runs for {}, {} requests busy, {} wait, {} in all, {} MiB",
        number("process"),
        duration(now.as_secs().saturating_sub(number("started_unix_s"))),
        number("busy"),
        number("queue"),
        number("requests"),
        number("resident_bytes") >> 20,
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
            "streams": [{
                "stream": "mail", "protocol": "tcp", "open": 2, "accepted": 17, "received_bytes": 522,
                "sent_bytes": 10_240,
            }],
            "components": [{
                "site": "b", "route": "/w/", "component": "w.wasm", "requests": 9, "under_way": 1,
                "failures": { "fault": 1, "timeout": 2 }, "instances": 3, "memory_bytes": 6 << 20,
            }],
            "servlets": {
                "routes": [{
                    "site": "b", "route": "/s/",
                    "threads": { "threads": 3, "busy": 1, "most_threads": 200, "waiting": 2, "held": 1,
                                 "refused": 4 },
                    "java": { "applications": [
                        { "path": "/s", "version": "2", "state": "failed", "sessions": 0, "requests": 5,
                          "errors": 1, "started_ms": 0 },
                    ] },
                }],
                "machines": [{
                    "version": "17.0.1", "process": 7, "heap_used_bytes": 3 << 20,
                    "heap_most_bytes": 9 << 20,
                    "collectors": [{ "collections": 2, "time_ms": 5 }, { "collections": 1, "time_ms": 6 }],
                }],
            },
            "python": { "applications": [{
                "app": "shop.wsgi", "state": "ready", "most_workers": 2, "site": "b", "route": "/p/",
                "restarts": { "end": 2, "memory": 0, "reload": 1 },
                "last_restart": { "text": "worker 4 has ended by signal 9" },
                "failures": { "no_worker": 3, "lost": 0 },
                "workers": [{ "process": 5, "busy": 2, "queue": 1, "requests": 9, "resident_bytes": 7 << 20,
                              "started_unix_s": u64::MAX }],
            }] },
        });
        let table = table(&facts);
        for line in [
            "process            7\n",
            "running for        1 h 2 min\n",
            "listening on       127.0.0.1:80, [::1]:80\n",
            "active upgrade     no\n",
            "version            -\n",
            "application        /s##2 failed, 0 sessions, 5 requests, 1 errors, for b /s/\n",
            "servlet threads    1 of 3 busy, at most 200; 3 wait, 4 refused, for b /s/\n",
            "python             shop.wsgi ready, 1 of 2 workers, 2 requests busy, 1 wait, 7 MiB, for b /p/\n",
            "python restarts    2 end, 1 reload; the last: worker 4 has ended by signal 9\n",
            "python failures    3 no worker\n",
            "python worker      5 runs for 0 s, 2 requests busy, 1 wait, 9 in all, 7 MiB\n",
            "java               17.0.1 in process 7, heap 3 of 9 MiB, 3 collections in 11 ms\n",
            "component          w.wasm 9 requests, 1 active, 3 failures, 3 instances with 6 MiB, \
             for b /w/\n",
            "stream             mail tcp, 2 open of 17 connections, 522 bytes received, 10240 sent\n",
            "origin             http://a slow start, 5 requests, 4 failures, 3 connections, for b /c/\n",
        ] {
            assert!(table.contains(line), "{line}{table}");
        }
        assert_eq!([59, 60, 90_000].map(duration), ["59 s", "1 min 0 s", "1 d 1 h"]);
    }
}
