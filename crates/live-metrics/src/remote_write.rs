//! Prometheus remote write 1.0: series with labels as Protocol Buffers, packed by Snappy.

use crate::figures::{Figures, METRICS};
use prost::Message;
use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

/// The header fields of a request.
pub(crate) const FIELDS: [(&str, &str); 3] = [
    ("Content-Type", "application/x-protobuf"),
    ("Content-Encoding", "snappy"),
    ("X-Prometheus-Remote-Write-Version", "0.1.0"),
];

#[derive(Clone, PartialEq, Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    timeseries: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    timestamp: i64,
}

/// The body of a request with these figures, oldest first.
pub(crate) fn body(figures: &[Figures], labels: &[(String, String)]) -> Vec<u8> {
    // A series has its samples in the order of their times.
    let mut series: BTreeMap<(usize, Option<&str>), Vec<Sample>> = BTreeMap::new();
    for figures in figures {
        let since = figures.at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let timestamp = since.as_millis() as i64;
        for &(metric, quantile, value) in &figures.values {
            series.entry((metric, quantile)).or_default().push(Sample { value, timestamp });
        }
    }
    let timeseries = series.into_iter().map(|((metric, quantile), samples)| {
        let mut pairs: BTreeMap<&str, &str> =
            labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        pairs.insert("__name__", METRICS[metric].name);
        if let Some(quantile) = quantile {
            pairs.insert("quantile", quantile);
        }
        // Labels are sorted by their names.
        let label = |(name, value): (&str, &str)| Label { name: name.to_string(), value: value.to_string() };
        TimeSeries { labels: pairs.into_iter().map(label).collect(), samples }
    });
    let request = WriteRequest { timeseries: timeseries.collect() };
    // Packing fails for more than 4 GiB alone.
    snap::raw::Encoder::new().compress_vec(&request.encode_to_vec()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_have_sorted_labels_and_samples_in_order() {
        let figures = |seconds: u64, requests: f64| Figures {
            at: UNIX_EPOCH + Duration::from_secs(seconds),
            values: vec![(0, None, requests), (3, Some("0.99"), 0.25)],
        };
        let labels = [("run".to_string(), "a".to_string()), ("Zone".to_string(), "b".to_string())];
        let packed = body(&[figures(1, 5.0), figures(2, 9.0)], &labels);
        let plain = snap::raw::Decoder::new().decompress_vec(&packed).expect("it is packed");
        let request = WriteRequest::decode(plain.as_slice()).expect("it is a request");
        assert_eq!(request.timeseries.len(), 2);
        let names: Vec<&str> = request.timeseries[1].labels.iter().map(|label| &label.name[..]).collect();
        assert_eq!(names, ["Zone", "__name__", "quantile", "run"]);
        let samples: Vec<(f64, i64)> =
            request.timeseries[0].samples.iter().map(|sample| (sample.value, sample.timestamp)).collect();
        assert_eq!(samples, [(5.0, 1000), (9.0, 2000)]);
    }
}
