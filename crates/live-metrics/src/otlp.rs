//! OpenTelemetry's protocol (OTLP 1.x) over HTTP, in its JSON form.

use crate::figures::{Figures, METRICS};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// The header fields of a request.
pub(crate) const FIELDS: [(&str, &str); 1] = [("Content-Type", "application/json")];

/// The body of a request with these figures, oldest first.
pub(crate) fn body(figures: &[Figures], labels: &[(String, String)], started: SystemTime) -> Vec<u8> {
    let metrics: Vec<Value> = METRICS
        .iter()
        .enumerate()
        .filter_map(|(place, metric)| {
            let points: Vec<Value> = figures
                .iter()
                .flat_map(|figures| {
                    let own = figures.values.iter().filter(move |(metric, ..)| *metric == place);
                    own.map(|(_, quantile, value)| point(figures.at, started, *quantile, *value))
                })
                .collect();
            if points.is_empty() {
                return None;
            }
            let mut written =
                json!({ "name": metric.dotted, "description": metric.help, "unit": metric.unit });
            if metric.is_counter {
                // 2: cumulative.
                written["sum"] =
                    json!({ "aggregationTemporality": 2, "isMonotonic": true, "dataPoints": points });
            } else {
                written["gauge"] = json!({ "dataPoints": points });
            }
            Some(written)
        })
        .collect();
    let service = [("service.name".to_string(), "touchstone-load".to_string())];
    let attributes: Vec<Value> =
        service.iter().chain(labels).map(|(name, value)| attribute(name, value)).collect();
    let scope = json!({ "name": "touchstone-load", "version": env!("CARGO_PKG_VERSION") });
    let body = json!({
        "resourceMetrics": [{
            "resource": { "attributes": attributes },
            "scopeMetrics": [{ "scope": scope, "metrics": metrics }],
        }],
    });
    body.to_string().into_bytes()
}

fn point(at: SystemTime, started: SystemTime, quantile: Option<&str>, value: f64) -> Value {
    let attributes: Vec<Value> = quantile.iter().map(|quantile| attribute("quantile", quantile)).collect();
    json!({
        "startTimeUnixNano": nanoseconds(started),
        "timeUnixNano": nanoseconds(at),
        "asDouble": value,
        "attributes": attributes,
    })
}

fn attribute(name: &str, value: &str) -> Value {
    json!({ "key": name, "value": { "stringValue": value } })
}

/// 64-bit integers are text in the JSON form of Protocol Buffers.
fn nanoseconds(at: SystemTime) -> String {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn counters_are_cumulative_sums_and_others_gauges() {
        let at = UNIX_EPOCH + Duration::from_nanos(5);
        let figures = Figures { at, values: vec![(0, None, 5.0), (3, Some("0.5"), 0.25)] };
        let labels = [("run".to_string(), "a".to_string())];
        let body: Value = serde_json::from_slice(&body(&[figures], &labels, UNIX_EPOCH)).expect("JSON");
        let metrics = &body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
        assert_eq!(metrics.as_array().map(Vec::len), Some(2));
        assert_eq!(metrics[0]["sum"]["dataPoints"][0]["asDouble"], 5.0);
        assert_eq!(metrics[0]["sum"]["dataPoints"][0]["timeUnixNano"], "5");
        let quantile = &metrics[1]["gauge"]["dataPoints"][0]["attributes"][0];
        assert_eq!(
            (&quantile["key"], &quantile["value"]["stringValue"]),
            (&json!("quantile"), &json!("0.5"))
        );
        let attributes = &body["resourceMetrics"][0]["resource"]["attributes"];
        assert_eq!(attributes[1]["value"]["stringValue"], "a");
    }
}
