//! Answers of the control API for people.

use serde_json::Value;

fn field<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or("-")
}

/// A line for each origin, below its route.
pub(super) fn origins(body: &Value) -> String {
    let groups = body["groups"].as_array().map_or(&[][..], Vec::as_slice);
    if groups.is_empty() {
        return "no route has origins".to_string();
    }
    let mut text = String::new();
    for group in groups {
        text.push_str(&format!("{} {}\n", field(group, "site"), field(group, "route")));
        for one in group["origins"].as_array().into_iter().flatten() {
            text.push_str(&format!("  {}\n", origin(one)));
        }
    }
    text
}

/// `http://10.0.0.1:80 drain, weight 2, up, 3 active requests, 5 connections`
pub(super) fn origin(origin: &Value) -> String {
    let number = |name: &str| origin[name].as_u64().unwrap_or(0);
    let backup = if origin["backup"] == true { ", backup" } else { "" };
    format!(
        "{} {}, weight {}{backup}, {}, {} active requests, {} connections",
        field(origin, "origin"),
        field(origin, "state"),
        number("weight"),
        field(origin, "health").replace('_', " "),
        number("active_requests"),
        number("connections"),
    )
}

/// A line for each certificate.
pub(super) fn certificates(body: &Value) -> String {
    let all = body["certificates"].as_array().map_or(&[][..], Vec::as_slice);
    if all.is_empty() {
        return "no site has a certificate".to_string();
    }
    let line = |one: &Value| {
        let head = format!("{} {}", field(one, "site"), field(one, "source"));
        match (&one["problem"], &one["days_left"]) {
            (Value::String(problem), _) => format!("{head}: {problem}\n"),
            (_, Value::Number(days)) => format!(
                "{head}, {}, {days} days left, until {}, renewed {}\n",
                field(one, "state"),
                field(one, "not_after"),
                field(one, "renewal"),
            ),
            _ => format!("{head}\n"),
        }
    };
    all.iter().map(line).collect()
}

/// A line for each change.
pub(super) fn history(body: &Value) -> String {
    let all = body["changes"].as_array().map_or(&[][..], Vec::as_slice);
    if all.is_empty() {
        return "no changes since the start of the server".to_string();
    }
    let line = |one: &Value| {
        let error = one["error"].as_str().map(|error| format!(": {error}")).unwrap_or_default();
        let subjects: Vec<&str> =
            one["subjects"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        format!(
            "{} {} {} {} {}{error}\n",
            field(one, "time"),
            field(one, "who"),
            field(one, "method"),
            subjects.join(", "),
            field(one, "result"),
        )
    };
    all.iter().map(line).collect()
}

/// What a change has changed.
pub(super) fn changed(body: &Value) -> String {
    let Some(changes) = body["changes"].as_array() else { return format!("{body:#}") };
    let line = |change: &Value| match change["path"].as_str() {
        Some(path) => format!("{path}: {} -> {}\n", change["before"], change["after"]),
        None => format!("{change}\n"),
    };
    let lines: String = changes.iter().map(line).collect();
    match lines.is_empty() {
        true => "nothing is different".to_string(),
        false => lines,
    }
}

/// Why a request was not carried out.
pub(super) fn refused(status: u16, body: &Value) -> String {
    let mut text = String::new();
    for problem in body["problems"].as_array().into_iter().flatten() {
        let message = problem["message"].as_str().or(problem.as_str()).unwrap_or_default();
        let near = problem["near"].as_str().map(|near| format!(" (near `{near}`)")).unwrap_or_default();
        text.push_str(&format!("{message}{near}\n"));
    }
    if let Some(change) = body["last_change"].as_object() {
        let member = |name: &str| change.get(name).and_then(Value::as_str).unwrap_or("-").to_string();
        text.push_str(&format!("the last change was made by {} at {}\n", member("who"), member("time")));
        text.push_str(&changed(&body["last_change"]));
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    if let Some(tag) = body["etag"].as_str() {
        text.push_str(&format!("its ETag is now {tag}\n"));
    }
    text.push_str(&format!("touchstone control: {} (status {status})\n", field(body, "error")));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_conflict_shows_the_other_change() {
        let body = json!({
            "error": "it was changed",
            "etag": "\"b\"",
            "last_change": {
                "who": "deploy",
                "time": "t",
                "changes": [{ "path": "/site a/root", "before": "/x", "after": "/y" }],
            },
        });
        assert_eq!(
            refused(412, &body),
            "the last change was made by deploy at t\n/site a/root: \"/x\" -> \"/y\"\nits ETag is now \"b\"\n\
             touchstone control: it was changed (status 412)\n"
        );
    }

    #[test]
    fn lists() {
        let body = json!({ "groups": [{ "site": "a", "route": "/", "origins": [
            { "origin": "http://b", "state": "drain", "weight": 2, "health": "up", "active_requests": 1,
              "connections": 3, "backup": true },
        ] }] });
        let expected = "a /\n  http://b drain, weight 2, backup, up, 1 active requests, 3 connections\n";
        assert_eq!(origins(&body), expected);
        assert_eq!(history(&json!({ "changes": [] })), "no changes since the start of the server");
    }
}
