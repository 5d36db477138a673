//! The options of a k6 script, as options of `touchstone load`.

use crate::evaluate::Interpreter;
use crate::evaluate::values::{Value, number_text, plain};

/// A scenario: the function of a session, and its share of the load.
pub(super) struct Scenario {
    pub(super) name: String,
    /// The function that its users run.
    pub(super) function: String,
    /// The number of users or arrivals, which determines its share.
    pub(super) weight: f64,
}

/// The scenarios, and a note with the command-line options.
pub(super) fn read(interpreter: &mut Interpreter) -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    let mut words = Vec::new();
    if let Some(options) = interpreter.global("options") {
        for (key, value) in interpreter.fields(&options).unwrap_or_default() {
            match key.as_str() {
                "thresholds" => thresholds(interpreter, &value, &mut words),
                "scenarios" => {
                    for (name, scenario) in interpreter.fields(&value).unwrap_or_default() {
                        scenarios.push(read_scenario(interpreter, &name, &scenario));
                    }
                }
                "vus" | "duration" | "stages" | "iterations" => {}
                "insecureSkipTLSVerify" => words.push("--insecure".to_string()),
                "maxRedirects" => {
                    if let Value::Number(most) = value {
                        interpreter.redirects = most.clamp(0.0, 20.0) as u32;
                    }
                }
                // Options for the output of k6, or for the default behaviour of sessions.
                "summaryTrendStats"
                | "discardResponseBodies"
                | "systemTags"
                | "noConnectionReuse"
                | "tags" => {}
                other => interpreter.notes.push(format!("options: left out: {other}")),
            }
        }
        words.splice(0..0, load(interpreter, &options));
        if let [scenario] = &scenarios[..] {
            words.splice(0..0, scenario.1.clone());
        } else {
            for (scenario, words) in &scenarios {
                interpreter.notes.push(format!("the scenario {}: load {}", scenario.name, words.join(" ")));
            }
        }
    }
    if !words.is_empty() {
        interpreter.notes.push(format!("the options correspond to: load {}", words.join(" ")));
    }
    if scenarios.is_empty() {
        return vec![Scenario { name: "default".into(), function: "default".into(), weight: 1.0 }];
    }
    scenarios.into_iter().map(|(scenario, _)| scenario).collect()
}

fn number(interpreter: &Interpreter, object: &Value, name: &str) -> Option<f64> {
    match interpreter.field(object, name)? {
        Value::Number(number) => Some(number),
        _ => None,
    }
}

fn text(interpreter: &Interpreter, object: &Value, name: &str) -> Option<String> {
    match interpreter.field(object, name)? {
        Value::Text(text) => plain(&text),
        Value::Number(number) => Some(number_text(number)),
        _ => None,
    }
}

/// The seconds of a time such as `1m30s`.
fn seconds(text: &str) -> Option<f64> {
    let mut seconds = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let unit_end = rest[digits..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |at| digits + at);
        let factor = match &rest[digits..unit_end] {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        seconds += rest[..digits].parse::<f64>().ok()? * factor;
        rest = &rest[unit_end..];
    }
    Some(seconds)
}

/// The text of a time for `touchstone load`, which does not support combined units such as `1m30s`.
fn time(text: &str) -> String {
    match seconds(text) {
        None => text.to_string(),
        Some(seconds) if seconds >= 1.0 => format!("{}s", number_text(seconds)),
        Some(seconds) => format!("{}ms", number_text(seconds * 1e3)),
    }
}

/// The options for clients and time, from the options or from a scenario.
fn load(interpreter: &Interpreter, object: &Value) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(stages) =
        stages(interpreter, object, number(interpreter, object, "startVUs").unwrap_or(0.0), 1.0)
    {
        return vec![format!("--stages {stages}")];
    }
    words.extend(number(interpreter, object, "vus").map(clients));
    words.extend(duration(interpreter, object));
    words
}

fn clients(count: f64) -> String {
    format!("--clients {}", number_text(count))
}

fn duration(interpreter: &Interpreter, object: &Value) -> Option<String> {
    text(interpreter, object, "duration").map(|duration| format!("--duration {}", time(&duration)))
}

/// The stages of ramps from a start value to each target.
fn stages(interpreter: &Interpreter, object: &Value, start: f64, factor: f64) -> Option<String> {
    let list = interpreter.field(object, "stages")?;
    let mut from = start * factor;
    let mut parts = Vec::new();
    for stage in interpreter.elements(&list)? {
        let to = number(interpreter, &stage, "target")? * factor;
        let duration = time(&text(interpreter, &stage, "duration")?);
        let range =
            if from == to { number_text(to) } else { format!("{}-{}", number_text(from), number_text(to)) };
        // A stage without duration is a step.
        if !["0s", "0ms"].contains(&duration.as_str()) {
            parts.push(format!("{duration}:{range}"));
        }
        from = to;
    }
    Some(parts.join(","))
}

fn read_scenario(interpreter: &Interpreter, name: &str, scenario: &Value) -> (Scenario, Vec<String>) {
    let executor = text(interpreter, scenario, "executor").unwrap_or_default();
    let most =
        ["maxVUs", "preAllocatedVUs", "vus"].into_iter().find_map(|key| number(interpreter, scenario, key));
    let unit = text(interpreter, scenario, "timeUnit").and_then(|unit| seconds(&unit));
    let unit = unit.filter(|seconds| *seconds > 0.0).unwrap_or(1.0);
    let rate = number(interpreter, scenario, "rate").map(|rate| rate / unit);
    let mut words = Vec::new();
    match executor.as_str() {
        "constant-arrival-rate" => {
            words.push(format!("--rate {}", number_text(rate.unwrap_or(1.0))));
            words.extend(most.map(clients));
            words.extend(duration(interpreter, scenario));
        }
        "ramping-arrival-rate" => {
            let start = number(interpreter, scenario, "startRate").unwrap_or(0.0);
            words.extend(
                stages(interpreter, scenario, start, 1.0 / unit)
                    .map(|stages| format!("--rate-stages {stages}")),
            );
            words.extend(most.map(clients));
        }
        _ => words.extend(load(interpreter, scenario)),
    }
    let function = text(interpreter, scenario, "exec").unwrap_or_else(|| "default".to_string());
    let weight = rate.or(number(interpreter, scenario, "vus")).or(most).unwrap_or(1.0);
    (Scenario { name: name.to_string(), function, weight }, words)
}

/// `{ http_req_duration: ['p(95)<500', 'avg<200'] }`: a run fails if the opposite is true.
fn thresholds(interpreter: &mut Interpreter, thresholds: &Value, words: &mut Vec<String>) {
    for (metric, list) in interpreter.fields(thresholds).unwrap_or_default() {
        let list = interpreter.elements(&list).unwrap_or_else(|| vec![list]);
        for one in list {
            let aborts = matches!(interpreter.field(&one, "abortOnFail"), Some(Value::Bool(true)));
            let one = interpreter.field(&one, "threshold").unwrap_or(one);
            let Value::Text(written) = one else { continue };
            let written = plain(&written).unwrap_or_default();
            match threshold(&metric, &written) {
                Some(limit) => {
                    words.push(format!("{} '{limit}'", if aborts { "--abort-if" } else { "--fail-if" }));
                }
                None => {
                    interpreter.notes.push(format!("options: left out: the threshold {metric}: {written}"))
                }
            }
        }
    }
}

fn threshold(metric: &str, written: &str) -> Option<String> {
    let plain: String = written.chars().filter(|c| !c.is_whitespace()).collect();
    let at = plain.find(['<', '>'])?;
    let measure = &plain[..at];
    let is_or_equal = plain[at + 1..].starts_with('=');
    let limit: f64 = plain[at + 1 + usize::from(is_or_equal)..].parse().ok()?;
    // The threshold is met if this is not true.
    let opposite = match (plain[at..].starts_with('<'), is_or_equal) {
        (true, false) => ">=",
        (true, true) => ">",
        (false, false) => "<=",
        (false, true) => "<",
    };
    let prefix = match metric {
        "http_req_duration" | "http_req_waiting" => "",
        "http_req_connecting" => "connect.",
        "http_req_tls_handshaking" => "handshake.",
        "http_req_failed" if measure == "rate" => {
            return Some(format!("errors{opposite}{}%", number_text((limit * 1e6).round() / 1e4)));
        }
        "http_reqs" if measure == "rate" => return Some(format!("rate{opposite}{}", number_text(limit))),
        "http_reqs" if measure == "count" => {
            return Some(format!("requests{opposite}{}", number_text(limit)));
        }
        // A failed check is an error of its request.
        "checks" if measure == "rate" => {
            let turned = if opposite.starts_with('<') { ">" } else { "<" };
            let equal = if opposite.ends_with('=') { "=" } else { "" };
            return Some(format!(
                "errors{turned}{equal}{}%",
                number_text(((1.0 - limit) * 1e6).round() / 1e4)
            ));
        }
        _ => return None,
    };
    let figure = match measure {
        "avg" => "mean".to_string(),
        "med" => "p50".to_string(),
        "min" | "max" => measure.to_string(),
        _ => format!("p{}", measure.strip_prefix("p(")?.strip_suffix(')')?),
    };
    let limit = if limit >= 1000.0 {
        format!("{}s", number_text(limit / 1e3))
    } else {
        format!("{}ms", number_text(limit))
    };
    Some(format!("{prefix}{figure}{opposite}{limit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_turned() {
        for (metric, written, limit) in [
            ("http_req_duration", "p(95)<500", "p95>=500ms"),
            ("http_req_duration", "avg <= 1500", "mean>1.5s"),
            ("http_req_failed", "rate<0.01", "errors>=1%"),
            ("checks", "rate>0.99", "errors>=1%"),
            ("http_reqs", "count>100", "requests<=100"),
        ] {
            assert_eq!(threshold(metric, written).as_deref(), Some(limit), "{metric}: {written}");
        }
        assert_eq!(threshold("my_trend", "p(95)<500"), None);
        assert_eq!(time("1m30s"), "90s");
        assert_eq!(time("200ms"), "200ms");
        assert_eq!((seconds("500ms"), seconds("soon")), (Some(0.5), None));
    }
}
