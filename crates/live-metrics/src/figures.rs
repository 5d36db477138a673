//! What is sent: the metrics, and their values at a moment.

use std::sync::atomic::Ordering;
use std::time::SystemTime;
use touchstone_load::Progress;

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its name in Prometheus.
    pub name: &'static str,
    /// Its name in OpenTelemetry.
    pub dotted: &'static str,
    /// What it is.
    pub help: &'static str,
    /// Its unit (UCUM).
    pub unit: &'static str,
    /// Whether it only grows.
    pub is_counter: bool,
}

const REQUESTS: usize = 0;
const ERRORS: usize = 1;
const BYTES: usize = 2;
const LATENCY: usize = 3;
const CLIENTS: usize = 4;

/// All of them.
pub const METRICS: [Metric; 5] = [
    Metric {
        name: "touchstone_load_requests_total",
        dotted: "touchstone.load.requests",
        help: "Valid answers since the load began, ramps included.",
        unit: "{request}",
        is_counter: true,
    },
    Metric {
        name: "touchstone_load_errors_total",
        dotted: "touchstone.load.errors",
        help: "Failed requests since the load began, ramps included.",
        unit: "{request}",
        is_counter: true,
    },
    Metric {
        name: "touchstone_load_received_bytes_total",
        dotted: "touchstone.load.received",
        help: "Bytes received since the load began, heads included.",
        unit: "By",
        is_counter: true,
    },
    Metric {
        name: "touchstone_load_latency_seconds",
        dotted: "touchstone.load.latency",
        help: "Latency within which a part of the answers of the last second or two came, by its quantile.",
        unit: "s",
        is_counter: false,
    },
    Metric {
        name: "touchstone_load_clients",
        dotted: "touchstone.load.clients",
        help: "Virtual clients of the plan.",
        unit: "{client}",
        is_counter: false,
    },
];

/// The quantiles of the latency, as they are written.
const QUANTILES: [(&str, f64); 5] =
    [("0.5", 0.5), ("0.9", 0.9), ("0.99", 0.99), ("0.999", 0.999), ("1", 1.0)];

/// The values at a moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// When.
    pub at: SystemTime,
    /// The metric's place in [`METRICS`], its quantile where it has one, and its value.
    pub values: Vec<(usize, Option<&'static str>, f64)>,
}

impl Figures {
    /// The current figures.
    pub fn of(progress: &Progress, clients: usize) -> Figures {
        let counter = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed) as f64;
        let mut values = vec![
            (REQUESTS, None, counter(&progress.requests)),
            (ERRORS, None, counter(&progress.errors)),
            (BYTES, None, counter(&progress.bytes)),
            (CLIENTS, None, clients as f64),
        ];
        if let Some(recent) = progress.recent.histogram() {
            let at = |quantile| recent.value_at_quantile(quantile) as f64 / 1e9;
            values.extend(QUANTILES.map(|(name, quantile)| (LATENCY, Some(name), at(quantile))));
        }
        Figures { at: SystemTime::now(), values }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dashboard_asks_for_these_metrics() {
        let text = include_str!("../../../packaging/grafana/touchstone-load.json");
        let dashboard: serde_json::Value = serde_json::from_str(text).expect("JSON");
        let panels = dashboard["panels"].as_array().expect("panels");
        let expressions: Vec<&str> = panels
            .iter()
            .flat_map(|panel| panel["targets"].as_array().expect("targets"))
            .map(|target| target["expr"].as_str().expect("an expression"))
            .collect();
        for metric in METRICS {
            assert!(expressions.iter().any(|expression| expression.contains(metric.name)), "{}", metric.name);
        }
        for expression in expressions {
            assert!(METRICS.iter().any(|metric| expression.contains(metric.name)), "{expression}");
        }
    }

    #[test]
    fn figures_are_those_of_the_progress() {
        let progress = Progress::default();
        progress.requests.store(7, Ordering::Relaxed);
        progress.errors.store(2, Ordering::Relaxed);
        let figures = Figures::of(&progress, 3);
        assert_eq!(figures.values, [(0, None, 7.0), (1, None, 2.0), (2, None, 0.0), (4, None, 3.0)]);
    }
}
