//! Tests of the exposition: a strict reader, written from the two specifications, reads it.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::metrics::{Distribution, Metrics, RouteLabels, RouteTotals};

/// A sample as the reader found it.
#[derive(Debug, Clone, PartialEq)]
struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

/// Reads an exposition, and refuses what the specifications forbid.
fn read(text: &str, format: Format) -> Result<Vec<Sample>, String> {
    let body = match format {
        Format::Prometheus => text,
        Format::OpenMetrics => text.strip_suffix("# EOF\n").ok_or("no end mark")?,
    };
    if !body.is_empty() && !body.ends_with('\n') {
        return Err("the last line has no end".to_string());
    }
    let mut types: BTreeMap<&str, &str> = BTreeMap::new();
    let mut current = "";
    let mut samples: Vec<Sample> = Vec::new();
    for line in body.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (kind, name, rest) =
                (words.next().unwrap_or(""), words.next().unwrap_or(""), words.next().unwrap_or(""));
            match kind {
                "HELP" if rest.is_empty() => return Err(format!("no help: {line}")),
                "HELP" => {
                    if types.contains_key(name) {
                        return Err(format!("announced twice: {name}"));
                    }
                    current = name;
                }
                "TYPE" if name != current => return Err(format!("out of order: {line}")),
                "TYPE" => {
                    if types.insert(name, rest).is_some() {
                        return Err(format!("announced twice: {name}"));
                    }
                }
                "UNIT" if format == Format::OpenMetrics && name.ends_with(&format!("_{rest}")) => {}
                _ => return Err(format!("what is {line}?")),
            }
            continue;
        }
        let sample = read_sample(line)?;
        let kind = types.get(current).ok_or_else(|| format!("no type: {line}"))?;
        let endings: &[&str] = match (format, *kind) {
            (Format::Prometheus, "counter" | "gauge") | (Format::OpenMetrics, "gauge") => &[""],
            (Format::OpenMetrics, "counter") => &["_total"],
            (Format::OpenMetrics, "info") => &["_info"],
            (_, "histogram") => &["_bucket", "_sum", "_count"],
            _ => return Err(format!("unknown type {kind}")),
        };
        if !endings.iter().any(|ending| sample.name == format!("{current}{ending}")) {
            return Err(format!("{} does not belong to {current}, a {kind}", sample.name));
        }
        samples.push(sample);
    }
    let names: BTreeSet<String> =
        samples.iter().map(|sample| format!("{}{:?}", sample.name, sample.labels)).collect();
    if names.len() != samples.len() {
        return Err("a sample stands twice".to_string());
    }
    Ok(samples)
}

fn read_sample(line: &str) -> Result<Sample, String> {
    let name_end = line.find(['{', ' ']).ok_or_else(|| format!("no value: {line}"))?;
    let name = &line[..name_end];
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    if !is_name(name) {
        return Err(format!("not a name: {name}"));
    }
    let mut labels = Vec::new();
    let mut rest = &line[name_end..];
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, value) = rest.split_once("=\"").ok_or_else(|| format!("no label: {line}"))?;
            if !is_name(label) {
                return Err(format!("not a label: {label}"));
            }
            let mut text = String::new();
            let mut characters = value.chars();
            loop {
                match characters.next().ok_or_else(|| format!("a label without end: {line}"))? {
                    '"' => break,
                    '\\' => text.push(match characters.next() {
                        Some('n') => '\n',
                        Some(escaped @ ('\\' | '"')) => escaped,
                        other => return Err(format!("what is \\{other:?}?")),
                    }),
                    character => text.push(character),
                }
            }
            labels.push((label.to_string(), text));
            rest = characters.as_str();
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break,
            }
        }
        rest = rest.strip_prefix('}').ok_or_else(|| format!("no end of labels: {line}"))?;
    }
    let value = rest.strip_prefix(' ').ok_or_else(|| format!("no value: {line}"))?;
    let value = value.parse().map_err(|error| format!("{value}: {error}"))?;
    Ok(Sample { name: name.to_string(), labels, value })
}

fn both(totals: &Totals) -> [Vec<Sample>; 2] {
    [Format::Prometheus, Format::OpenMetrics].map(|format| {
        let text = expose(totals, format);
        read(&text, format).unwrap_or_else(|problem| panic!("{problem}\n{text}"))
    })
}

fn route(site: &str, route: &str, hits: u64) -> RouteTotals {
    RouteTotals {
        labels: RouteLabels { site: site.to_string(), route: route.to_string() },
        hits,
        cache_results: [0; 5],
        classes: [0, hits, 0, 2, 0],
        body_bytes: 9,
        durations: Distribution::default(),
        hit_durations: Distribution::default(),
    }
}

#[test]
fn both_formats_say_the_same() {
    let mut totals =
        Totals { routes: vec![route("a", "-", 3)], ..Totals::of(&Metrics::new(Default::default())) };
    let histogram = crate::metrics::histogram::Histogram::default();
    [5_000, 20_000, 3_000_000, 200_000_000_000].iter().for_each(|took| histogram.record(*took, 1));
    totals.routes[0].durations.add(&histogram);
    totals.statuses.insert(404, 2);
    let [old, new] = both(&totals);
    assert_eq!(old, new);
    let value = |name: &str, labels: &[(&str, &str)]| {
        let found = old.iter().find(|sample| {
            sample.name == name
                && labels
                    .iter()
                    .all(|(label, value)| sample.labels.contains(&(label.to_string(), value.to_string())))
        });
        found.unwrap_or_else(|| panic!("no {name} {labels:?}")).value
    };
    assert_eq!(value("touchstone_responses_total", &[("code", "404"), ("class", "4xx")]), 2.0);
    assert_eq!(value("touchstone_route_responses_total", &[("site", "a"), ("class", "2xx")]), 3.0);
    let bucket = |bound| value("touchstone_request_duration_seconds_bucket", &[("le", bound)]);
    assert_eq!(
        ["1e-5", "2.5e-5", "0.0025", "0.005", "100.0", "+Inf"].map(bucket),
        [1.0, 2.0, 2.0, 3.0, 3.0, 4.0]
    );
    assert_eq!(value("touchstone_request_duration_seconds_count", &[]), 4.0);
    assert_eq!(value("touchstone_request_duration_seconds_sum", &[]), 200.003025);
    assert_eq!(value("touchstone_build_info", &[("version", env!("CARGO_PKG_VERSION"))]), 1.0);
    assert!(value("process_resident_memory_bytes", &[]) > 0.0);
}

#[test]
fn the_table_is_in_order() {
    let names: BTreeSet<&str> = definitions().map(|definition| definition.name).collect();
    assert_eq!(names.len(), definitions().count());
    for definition in definitions() {
        assert!(definition.name.starts_with("touchstone_") || definition.name.starts_with("process_"));
        assert!(
            !definition.name.ends_with("_total") && definition.help.ends_with('.'),
            "{}",
            definition.name
        );
        assert!(definition.labels.iter().all(|(name, values)| *name != "le" && !values.is_empty()));
        assert!(definition.kind != Kind::Histogram || definition.unit() == Some("seconds"));
    }
}

#[test]
fn the_format_for_an_accept_field() {
    let accepted = |accept: &str| Format::accepted(Some(accept.as_bytes()));
    // What Prometheus 2.x and 3.x send.
    assert_eq!(
        accepted(
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
             text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
        ),
        Format::OpenMetrics
    );
    assert_eq!(
        accepted(
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;q=0.4,*/*;q=0.1"
        ),
        Format::OpenMetrics
    );
    assert_eq!(
        accepted("text/plain;version=0.0.4;q=1,application/openmetrics-text;q=0.5"),
        Format::Prometheus
    );
    assert_eq!(accepted("application/openmetrics-text; version=2.0.0"), Format::Prometheus);
    assert_eq!(accepted("application/openmetrics-text;q=0"), Format::Prometheus);
    assert_eq!(accepted("*/*"), Format::Prometheus);
    assert_eq!(accepted("text/html"), Format::Prometheus);
    assert_eq!(Format::accepted(None), Format::Prometheus);
    assert_eq!(Format::accepted(Some(b"\xff")), Format::Prometheus);
}

proptest! {
    /// Names of sites and routes may contain any text that a configuration may contain.
    #[test]
    fn any_label_reads_back(
        site in any::<String>(),
        name in "[ -~\n\"\\\\]{0,20}",
        accept in any::<String>(),
    ) {
        let totals = Totals { routes: vec![route(&site, &name, 1)], ..Totals::default() };
        let [old, new] = both(&totals);
        prop_assert_eq!(&old, &new);
        let labels = vec![("site".to_string(), site.clone()), ("route".to_string(), name.clone())];
        let name = "touchstone_route_cache_hits_total";
        prop_assert!(old.iter().any(|sample| sample.name == name && sample.labels == labels));
        let _ = Format::accepted(Some(accept.as_bytes()));
    }
}
