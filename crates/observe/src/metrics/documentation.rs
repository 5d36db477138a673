//! Writes the table of metrics for readers: `docs/metrics.md`.

use std::fmt::Write as _;

use super::definitions;
use super::metric::Kind;

/// The page of the book that documents every metric.
pub fn documentation_markdown() -> String {
    let mut page = String::from(INTRODUCTION);
    for definition in definitions() {
        let kind = match definition.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Info => "info",
        };
        let _ = write!(
            page,
            "\n### `{}{}`\n\n{}\n",
            definition.name,
            definition.kind.ending(),
            wrapped(&format!("{} ({kind})", definition.help))
        );
        if !definition.labels.is_empty() {
            page.push('\n');
        }
        for (name, values) in definition.labels {
            let _ = writeln!(page, "{}", wrapped(&format!("- `{name}`: {values}")));
        }
    }
    page
}

/// The text in lines of at most 110 columns; those of a list are indented.
fn wrapped(text: &str) -> String {
    let indent = if text.starts_with("- ") { "  " } else { "" };
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() || line.chars().count() + 1 + word.chars().count() <= 110 => {
                if !line.is_empty() {
                    line.push(' ');
                }
                line.push_str(word);
            }
            _ => lines.push(format!("{indent}{word}")),
        }
    }
    lines.join("\n")
}

const INTRODUCTION: &str = r#"# Metrics

<!-- Generated from crates/observe/src/metrics/definition.rs. Change it there, then run:
     BLESS=1 cargo test -p touchstone-observe metrics_page -->

The [admin listener](admin.md) serves them at `/metrics`, in the text format of Prometheus, or in OpenMetrics
1.0 to a client whose `Accept` field prefers it:

```toml
[admin]
listen = "127.0.0.1:9180"

[[site]]
listen = ["127.0.0.1:8080"]
root = "www"
```

```sh
curl http://127.0.0.1:9180/metrics
```

For Prometheus:

```yaml
scrape_configs:
  - job_name: touchstone
    static_configs:
      - targets: ["127.0.0.1:9180"]
```

A collector of OpenTelemetry is sent the same by [`[telemetry] metrics`](telemetry.md#metrics).

Each core counts in its own memory, which no other core writes, and the counts are added up for each query. A
response directly from the file cache costs two additions; a query takes no time from the cores. Counts
continue over reloads and begin at zero with every start of the process.

Times are measured for every request except those that are answered directly from the file cache: reading a
clock twice would cost them more than all the counting. Of those, one in
[`admin.sample_hits`](configuration.md#admin-sample_hits) (64 by default) is timed, and represents the others.
Internally, histograms have 36 steps for each power of ten; the bounds that are shown are bounds of these
steps, so their counts are exact.

Frequent queries, in PromQL:

```text
sum(rate(touchstone_requests_total[5m]))                                             requests a second
sum(rate(touchstone_route_responses_total{class="5xx"}[5m])) by (site, route)        errors a second
histogram_quantile(0.99, sum(rate(touchstone_request_duration_seconds_bucket[5m])) by (le, route))
rate(touchstone_cache_hits_total[5m])
  / (rate(touchstone_cache_hits_total[5m]) + rate(touchstone_cache_misses_total[5m])) cache hit ratio
```

## All metrics
"#;

#[cfg(test)]
mod tests {
    use super::*;

    /// The page in the book equals the table. `BLESS=1` writes it again.
    #[test]
    fn metrics_page_is_up_to_date() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
        let page = documentation_markdown();
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, &page).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == page,
            "docs/metrics.md is not up to date: BLESS=1 cargo test -p touchstone-observe metrics_page"
        );
    }
}
