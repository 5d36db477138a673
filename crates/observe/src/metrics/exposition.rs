//! The metrics in the formats of monitoring systems: the text format of Prometheus (version 0.0.4) and
//! OpenMetrics 1.0.
//!
//! Both are made from the same table. They differ in the announcement of counters, in units, and in the end
//! mark.

use std::fmt::Write as _;

use super::definitions;
use super::metric::{Definition, Kind};
use super::totals::Totals;

/// The form of the exposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The text format of Prometheus.
    Prometheus,
    /// OpenMetrics.
    OpenMetrics,
}

impl Format {
    /// Its media type.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The format for an `Accept` field: OpenMetrics if its weight is not less than that of the other format.
    pub fn accepted(accept: Option<&[u8]>) -> Format {
        let Some(accept) = accept.and_then(|accept| std::str::from_utf8(accept).ok()) else {
            return Format::Prometheus;
        };
        let mut weights = [None::<f32>; 2];
        for item in accept.split(',') {
            let mut parameters = item.split(';').map(str::trim);
            let slot = match parameters.next().unwrap_or_default().to_ascii_lowercase().as_str() {
                "application/openmetrics-text" => 0,
                "text/plain" | "text/*" | "*/*" => 1,
                _ => continue,
            };
            let mut weight = 1.0;
            let mut known_version = true;
            for parameter in parameters {
                match parameter.split_once('=') {
                    Some((name, value)) if name.trim().eq_ignore_ascii_case("q") => {
                        weight = value.trim().parse().unwrap_or(0.0);
                    }
                    // Later versions may exist that this server cannot write.
                    Some((name, value)) if slot == 0 && name.trim().eq_ignore_ascii_case("version") => {
                        known_version = matches!(value.trim().trim_matches('"'), "1.0.0" | "0.0.1");
                    }
                    _ => {}
                }
            }
            if known_version && weights[slot].is_none_or(|known| weight > known) {
                weights[slot] = Some(weight);
            }
        }
        match weights {
            [Some(open), plain] if open > 0.0 && plain.is_none_or(|plain| open >= plain) => {
                Format::OpenMetrics
            }
            _ => Format::Prometheus,
        }
    }
}

/// All metrics.
pub fn expose(totals: &Totals, format: Format) -> String {
    let mut text = String::with_capacity(16 * 1024);
    for definition in definitions() {
        let samples = definition.text(totals);
        if !samples.is_empty() {
            announce(&mut text, definition, format);
            text.push_str(&samples);
        }
    }
    if format == Format::OpenMetrics {
        text.push_str("# EOF\n");
    }
    text
}

fn announce(text: &mut String, definition: &Definition, format: Format) {
    let (name, kind) = match (format, definition.kind) {
        // The older format uses the name of the samples, and has no kind for information.
        (Format::Prometheus, Kind::Counter) => (format!("{}_total", definition.name), "counter"),
        (Format::Prometheus, Kind::Info) => (format!("{}_info", definition.name), "gauge"),
        (Format::OpenMetrics, Kind::Counter) => (definition.name.to_string(), "counter"),
        (Format::OpenMetrics, Kind::Info) => (definition.name.to_string(), "info"),
        (_, Kind::Gauge) => (definition.name.to_string(), "gauge"),
        (_, Kind::Histogram) => (definition.name.to_string(), "histogram"),
    };
    let _ = write!(text, "# HELP {name} ");
    append_help(text, definition.help, format);
    let _ = writeln!(text, "\n# TYPE {name} {kind}");
    if let (Format::OpenMetrics, Some(unit)) = (format, definition.unit()) {
        let _ = writeln!(text, "# UNIT {name} {unit}");
    }
}

fn append_help(text: &mut String, help: &str, format: Format) {
    // Code is marked in the page of the book only.
    for character in help.chars().filter(|character| *character != '`') {
        match (character, format) {
            ('\\', _) => text.push_str("\\\\"),
            ('"', Format::OpenMetrics) => text.push_str("\\\""),
            _ => text.push(character),
        }
    }
}

#[cfg(test)]
#[path = "exposition_tests.rs"]
mod tests;
