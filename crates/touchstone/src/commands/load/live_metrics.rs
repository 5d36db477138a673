//! Metrics that are sent during a load: from the command line to the senders, and the summary at the end.

use super::Arguments;
use touchstone_live_metrics::{DeliveryReport, Destination, Endpoint, Sender};

/// The path of remote write in Prometheus.
const REMOTE_WRITE_PATH: &str = "/api/v1/write";
/// The path of metrics in OTLP over HTTP.
const OTLP_PATH: &str = "/v1/metrics";

/// The senders that the options name.
pub(super) fn sender(arguments: &Arguments) -> Result<Sender, String> {
    let headers = &arguments.metrics_header;
    let endpoint = |option: &str, url: &String, path: &str| {
        Endpoint::new(url, path, headers).map_err(|error| format!("{option} {url}: {error}"))
    };
    let mut destinations = Vec::new();
    for url in &arguments.prometheus_write {
        destinations.push(Destination::RemoteWrite(endpoint("--prometheus-write", url, REMOTE_WRITE_PATH)?));
    }
    for url in &arguments.otlp {
        destinations.push(Destination::Otlp(endpoint("--otlp", url, OTLP_PATH)?));
    }
    if arguments.metrics_each.is_zero() {
        return Err("--metrics-each: figures are sent every second or so, not all the time".to_string());
    }
    let labels = arguments.metrics_label.iter().map(|label| self::label(label)).collect::<Result<_, _>>()?;
    Ok(Sender { destinations, labels, each: arguments.metrics_each })
}

/// Reads `NAME=VALUE`.
fn label(text: &str) -> Result<(String, String), String> {
    let is_name = |name: &str| {
        let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        is_word && !name.is_empty() && !name.starts_with(|first: char| first.is_ascii_digit())
    };
    match text.split_once('=') {
        Some((name, value)) if is_name(name) && !name.starts_with("__") && name != "quantile" => {
            Ok((name.to_string(), value.to_string()))
        }
        _ => {
            Err(format!("--metrics-label {text:?}: write a label such as run=nightly: letters, digits and _"))
        }
    }
}

/// Prints what did not arrive.
pub(super) fn report_failed(sent: &[DeliveryReport]) {
    for sent in sent.iter().filter(|sent| sent.failed > 0) {
        let reason = sent.reason.as_deref().unwrap_or("no reason is known");
        let all = sent.taken + sent.failed;
        eprintln!("touchstone load: live figures: {} of {all} sendings failed: {reason}", sent.failed);
    }
}

#[cfg(test)]
mod tests {
    use super::label;

    #[test]
    fn labels_are_names_with_values() {
        assert_eq!(label("run=a=b"), Ok(("run".to_string(), "a=b".to_string())));
        for bad in ["run", "=a", "1=a", "__name__=a", "quantile=1", "a-b=c"] {
            assert!(label(bad).is_err(), "{bad}");
        }
    }
}
