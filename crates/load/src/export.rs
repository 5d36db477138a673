//! The export of latencies for other tools: HdrHistogram's interval log and its percentile distribution.

use crate::outcome::Outcome;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
use std::fmt::Write;
use std::time::{Duration, SystemTime};

/// The time line as an interval log (format 1.3), one histogram in nanoseconds for each second; the maximum
/// in each line is in milliseconds, as usual.
pub fn interval_log(outcome: &Outcome, started: SystemTime) -> Vec<u8> {
    let (mut text, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
    let mut builder = IntervalLogWriterBuilder::new();
    builder
        .add_comment(concat!("[Logged with touchstone load ", env!("CARGO_PKG_VERSION"), "]"))
        .add_comment("[Histogram log format version 1.3]")
        .with_start_time(started)
        .with_base_time(started)
        .with_max_value_divisor(1e6);
    let written = builder.begin_log_with(&mut text, &mut serializer).map(|mut log| {
        for interval in &outcome.intervals {
            let (start, length) =
                (Duration::from_secs_f64(interval.start_s), Duration::from_secs_f64(interval.length_s));
            if log.write_histogram(&interval.latency_ns, start, length, None).is_err() {
                break;
            }
        }
    });
    // Writing to memory does not fail.
    debug_assert!(written.is_ok());
    text
}

/// The percentile distribution (.hgrm): values in milliseconds, five steps for each halving of the distance
/// to 100 %.
pub fn percentile_text(latency_ns: &Histogram<u64>) -> String {
    let mut text =
        format!("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
    let mut count = 0;
    for step in latency_ns.iter_quantiles(5) {
        count += step.count_since_last_iteration();
        let (quantile, milliseconds) = (step.quantile_iterated_to(), step.value_iterated_to() as f64 / 1e6);
        // Writing to a string does not fail.
        let _ = write!(text, "{milliseconds:>12.3} {quantile:>14.12} {count:>10}");
        let _ = match quantile {
            quantile if quantile < 1.0 => writeln!(text, " {:>14.2}", 1.0 / (1.0 - quantile)),
            _ => writeln!(text),
        };
    }
    let milliseconds = |nanoseconds: f64| nanoseconds / 1e6;
    let _ = writeln!(
        text,
        "#[Mean    = {:>12.3}, StdDeviation   = {:>12.3}]\n#[Max     = {:>12.3}, Total count    = {:>12}]\n\
         #[Buckets = {:>12}, SubBuckets     = {:>12}]",
        milliseconds(latency_ns.mean()),
        milliseconds(latency_ns.stdev()),
        milliseconds(latency_ns.max() as f64),
        latency_ns.len(),
        latency_ns.buckets(),
        latency_ns.distinct_values() / (usize::from(latency_ns.buckets()) + 1) * 2
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_ends_with_the_largest_value_and_the_total_count() {
        let mut histogram = Histogram::new(3).expect("three digits are within the limits");
        (1..=1000).for_each(|ms| histogram.record(ms * 1_000_000).expect("it resizes itself"));
        let text = percentile_text(&histogram);
        let rows: Vec<Vec<f64>> = text
            .lines()
            .skip(2)
            .take_while(|line| !line.starts_with('#'))
            .map(|line| line.split_ascii_whitespace().map(|word| word.parse().expect("a number")).collect())
            .collect();
        assert!(rows.windows(2).all(|pair| pair[0][0] <= pair[1][0] && pair[0][1] <= pair[1][1]));
        let last = rows.last().expect("there are rows");
        assert!((last[0] - 1000.0).abs() < 1.0 && last[1] == 1.0 && last[2] == 1000.0, "{last:?}");
        let median = rows.iter().find(|row| row[1] >= 0.5).expect("there is a median");
        assert!((median[0] - 500.0).abs() < 1.0, "{median:?}");
        assert!(text.contains("Total count    =         1000]"), "{text}");
        assert!(percentile_text(&Histogram::new(3).expect("an empty histogram")).contains("#[Mean"));
    }
}
