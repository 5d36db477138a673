//! Every figure of a result, computed again from its raw data.
//!
//! The comparison is of the written JSON, leaf by leaf, so that a figure unknown to this program is reported
//! and not skipped.

use hdrhistogram::Histogram;
use serde::Serialize;
use serde_json::{Map, Value, json};
use touchstone_lab::derived;
use touchstone_lab::engine_seconds::{self, Second};
use touchstone_lab::latency::latency_record;
use touchstone_lab::raw::{RawArrivals, RawClass, RawHistogram, RawInterval, RawMix};
use touchstone_lab::result::{CpuShares, MachineUse, MixResult, ProcessUse, ResultFile, RunStatus};
use touchstone_lab::saturation;
use touchstone_lab::series;
use touchstone_lab::statistics::{fairness, taint};
use touchstone_lab::threshold_record::ThresholdRecord;
use touchstone_load::Threshold;

/// Figures are equal if they differ by less than this share: the loss of a text of decimal digits.
const SAME: f64 = 1e-9;
/// The most differences that are reported.
const DIFFERENCES_MAX: usize = 100;
/// Parts of a mix that are not measured but set, or names or words, and are not in raw data of version 1. The
/// figures of thresholds are computed again at their own places.
const SET: [&str; 13] = [
    "name",
    "interface",
    "clients",
    "cpus",
    "ramp_up_s",
    "length_s",
    "ramp_down_s",
    "delay_s",
    "think_time_s",
    "complete",
    "run",
    "thresholds",
    "error_reasons",
];

/// The outcome of the comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Recomputation {
    /// Figures that were computed again.
    pub figures: usize,
    /// Figures that differ or could not be computed; the first hundred.
    pub differences: Vec<String>,
}

/// Computes every mix again.
pub fn result(result: &ResultFile, raw: &[RawMix]) -> Recomputation {
    let mut comparison = Comparison { figures: 0, differences: Vec::new() };
    let mut used = 0;
    for system in &result.systems {
        for (row, mix) in system.mixes.iter().enumerate() {
            let place = format!("{}, {}", series::title(result, system, &mix.interface), mix.name);
            let of_row = |raw: &&RawMix| raw.system == system.name && raw.row == row && raw.mix == mix.name;
            match raw.iter().find(of_row) {
                None => comparison.differ(format!("{place}: the raw data does not have it")),
                Some(raw) => {
                    used += 1;
                    comparison.mix(&place, mix, raw);
                }
            }
        }
    }
    comparison.derived(result);
    if used < raw.len() {
        comparison.differ(format!("the raw data has {} mixes, and the result {used} of them", raw.len()));
    }
    Recomputation { figures: comparison.figures, differences: comparison.differences }
}

struct Comparison {
    figures: usize,
    differences: Vec<String>,
}

impl Comparison {
    fn differ(&mut self, difference: String) {
        if self.differences.len() < DIFFERENCES_MAX {
            self.differences.push(difference);
        }
    }

    fn mix(&mut self, place: &str, mix: &MixResult, raw: &RawMix) {
        // What can be written can be made a value.
        let stated = serde_json::to_value(mix).unwrap_or_default();
        match expected(raw, &stated) {
            Err(message) => self.differ(format!("{place}: {message}")),
            Ok(expected) => self.value(place, &stated, &expected),
        }
        self.sum_of_agents(place, raw);
        for record in &mix.thresholds {
            self.threshold(&format!("{place}, the threshold {}", record.threshold), mix, record);
        }
    }

    /// Whether a threshold was met, and its text, follow from its figure; and its figure, where the mix has
    /// it.
    fn threshold(&mut self, place: &str, mix: &MixResult, record: &ThresholdRecord) {
        let threshold = match Threshold::parse(&record.threshold) {
            Ok(threshold) => threshold,
            Err(message) => return self.differ(format!("{place}: {message}")),
        };
        let expected = ThresholdRecord::from(threshold.verdict_on(record.measured));
        let mut stated = record.clone();
        // Older builds wrote numbers without commas.
        let plain = |words: &str| words.replace(',', "");
        if plain(&stated.words) == plain(&expected.words) {
            stated.words.clone_from(&expected.words);
        }
        self.value(place, &json!(stated), &json!(expected));
        let of_mix = match record.threshold.split(['<', '>']).next().unwrap_or_default().trim() {
            "p50" => mix.latency.p50_us,
            "p90" => mix.latency.p90_us,
            "p95" => mix.latency.p95_us,
            "p99" => mix.latency.p99_us,
            "p99.9" => mix.latency.p999_us,
            "mean" => mix.latency.mean_us,
            "max" => mix.latency.max_us,
            "rate" => mix.requests_per_second,
            "requests" => mix.requests as f64,
            _ => return,
        };
        if let Some(measured) = record.measured {
            self.value(place, &json!(measured), &json!(of_mix));
        }
    }

    /// The parts that the load machines report must add up to the whole, if none was lost.
    fn sum_of_agents(&mut self, place: &str, raw: &RawMix) {
        let agents = raw.fleet.as_ref().map_or(&[][..], |fleet| &fleet.agents);
        let sum: Option<u64> = agents.iter().map(|agent| agent.total_requests).sum();
        let is_whole = !agents.is_empty() && agents.iter().all(|agent| agent.lost_at_s.is_none());
        if let Some(sum) = sum.filter(|_| is_whole) {
            let place = format!("{place}, total_requests of all agents");
            self.value(&place, &json!(sum), &json!(raw.total_requests));
        }
    }

    /// What follows from the mixes, which were compared before: the SPICE measures, and, of a complete run,
    /// the runs taken together, peaks, comparisons and speedups.
    fn derived(&mut self, result: &ResultFile) {
        let mut again = result.clone();
        derived::make(&mut again);
        // What can be written can be made a value.
        self.value("the SPICE measures", &json!(result.spice), &json!(again.spice));
        let is_derived = |result: &ResultFile| {
            !result.comparisons.is_empty() || result.systems.iter().any(|system| !system.peaks.is_empty())
        };
        if !is_derived(result) {
            return;
        }
        for (stated, again) in result.systems.iter().zip(&again.systems) {
            self.value(&format!("{}, loads", stated.name), &json!(stated.loads), &json!(again.loads));
            self.value(&format!("{}, peaks", stated.name), &json!(stated.peaks), &json!(again.peaks));
        }
        let runs = result.systems.iter().flat_map(|system| &system.mixes).map(|mix| mix.run).max();
        if let Some(runs) = runs.filter(|_| result.status == RunStatus::Complete) {
            self.value("the runs of each mix", &json!(result.method.runs), &json!(runs));
        }
        self.value("comparisons", &json!(result.comparisons), &json!(again.comparisons));
        self.value("speedups", &json!(result.speedups), &json!(again.speedups));
    }

    fn value(&mut self, place: &str, stated: &Value, expected: &Value) {
        match (stated, expected) {
            (Value::Object(stated), Value::Object(expected)) => self.object(place, stated, expected),
            (Value::Array(stated), Value::Array(expected)) => {
                if stated.len() != expected.len() {
                    self.differ(format!(
                        "{place}: {} rows, and {} in the raw data",
                        stated.len(),
                        expected.len()
                    ));
                }
                for (index, (stated, expected)) in stated.iter().zip(expected).enumerate() {
                    self.value(&format!("{place}[{index}]"), stated, expected);
                }
            }
            _ => {
                self.figures += 1;
                if !same(stated, expected) {
                    self.differ(format!(
                        "{place}: {stated} stands there, and {expected} follows from the raw data"
                    ));
                }
            }
        }
    }

    fn object(&mut self, place: &str, stated: &Map<String, Value>, expected: &Map<String, Value>) {
        for (name, value) in stated {
            let place = format!("{place}, {name}");
            match expected.get(name) {
                Some(expected) => self.value(&place, value, expected),
                None if SET.contains(&name.as_str()) => {}
                None if is_empty(value) => {}
                None => self.differ(format!("{place}: this program cannot compute it again")),
            }
        }
        let is_missing = |(name, value): &(&String, &Value)| !stated.contains_key(*name) && !value.is_null();
        for (name, _) in expected.iter().filter(is_missing) {
            self.differ(format!("{place}, {name}: it is missing"));
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn same(stated: &Value, expected: &Value) -> bool {
    match (stated.as_f64(), expected.as_f64()) {
        (Some(left), Some(right)) => (left - right).abs() <= SAME * left.abs().max(right.abs()),
        _ => stated == expected,
    }
}

/// What a mix must be by its raw data.
fn expected(raw: &RawMix, stated: &Value) -> Result<Value, String> {
    let ratio = |above: f64, below: f64| if below > 0.0 { above / below } else { 0.0 };
    let latency = latency_record(&raw.latency.read()?);
    let connect = raw.connect.read()?;
    let rate = ratio(raw.requests as f64, raw.window_s);
    let bytes_per_second = ratio(raw.bytes as f64, raw.window_s);
    let clients: Result<Vec<Value>, String> =
        raw.clients.iter().enumerate().map(|(index, _)| client(raw, index)).collect();
    let timeline: Result<Vec<Value>, String> =
        raw.intervals.iter().map(|interval| second(raw, interval)).collect();
    let clients = clients?;
    let machine = raw.recording.machine_use();
    let usage = raw.recording.usage();
    let engine = raw.engine;
    let arrivals = raw.arrivals.as_ref().map(RawArrivals::figures).transpose()?;
    let messages = raw.messages.as_ref().map(|messages| messages.figures(raw.window_s)).transpose()?;
    let mut expected = json!({
        "load_cpus": raw.load_cpus,
        "window_s": raw.window_s,
        "requests": raw.requests,
        "errors": errors(raw, stated),
        "requests_per_second": rate,
        "bytes_per_second": bytes_per_second,
        "megabits_per_second": bytes_per_second * 8.0 / 1e6,
        "mean_body_bytes": ratio(raw.body_bytes as f64, raw.requests as f64),
        "classes": (!raw.classes.is_empty())
            .then(|| raw.classes.iter().map(RawClass::figures).collect::<Vec<_>>()),
        "connections": raw.connections,
        "tls_handshakes": raw.tls_handshakes,
        "littles_law_clients": rate * latency.mean_us / 1e6,
        "latency": latency,
        "connect": (!connect.is_empty()).then(|| latency_record(&connect)),
        // An arrival takes any client that is free.
        "fairness": fairness(&clients).filter(|_| arrivals.is_none()),
        "arrivals": arrivals,
        "messages": messages,
        "client_rows": clients,
        "server": server(raw, machine.as_ref(), stated),
        "machine": machine,
        "load": {
            "user_s": engine.user_s,
            "system_s": engine.system_s,
            "cpu_us_per_request": ratio((engine.user_s + engine.system_s) * 1e6, raw.requests as f64),
            "busiest_thread": engine.busiest_thread,
            // Older results do not have it.
            "longest_waiting_thread": stated["load"]["longest_waiting_thread"].is_number().then(|| {
                saturation::engine_waited(engine.longest_waiting_thread, usage.as_ref())
            }),
            "held_back_by_quota": saturation::held_back_by_quota(usage.as_ref()),
        },
        "timeline": timeline?,
        "generator_saturated": raw.generator_saturated,
        "taint": taint(raw, stated),
        "total_requests": raw.total_requests,
        "fleet": raw.fleet,
    });
    if let (Some(labels), Some(expected)) = (&raw.labels, expected.as_object_mut()) {
        let labels = serde_json::to_value(labels).unwrap_or_default();
        expected.extend(labels.as_object().cloned().unwrap_or_default());
    }
    Ok(expected)
}

/// How evenly the clients were served.
fn fairness(clients: &[Value]) -> Option<fairness::Fairness> {
    let figure_of = |client: &Value, name: &str| client[name].as_f64().unwrap_or(0.0);
    let answered: Vec<f64> = clients.iter().map(|client| figure_of(client, "requests")).collect();
    let waited: Vec<f64> = clients
        .iter()
        .filter(|client| figure_of(client, "requests") > 0.0)
        .map(|client| figure_of(client, "mean_us"))
        .collect();
    fairness::of_clients(&answered, &waited)
}

/// The signs of a load engine at its limit.
fn taint(raw: &RawMix, stated: &Value) -> Vec<taint::Sign> {
    let set = |name: &str| stated[name].as_f64().unwrap_or(0.0);
    let window_s = (set("ramp_up_s"), set("length_s") - set("ramp_down_s"));
    let seconds = raw.intervals.iter().map(|interval| Second {
        start_s: interval.start_s,
        length_s: interval.length_s,
        errors: interval.errors,
    });
    taint::signs(&engine_seconds::of(seconds, window_s, &raw.recording, raw.load_cpus.len(), raw.cpus.len()))
}

/// The errors by kind. A kind without errors need not be in the result.
fn errors(raw: &RawMix, stated: &Value) -> Value {
    let stands = |kind: &str| stated["errors"].get(kind).is_some();
    raw.errors
        .iter()
        .filter(|(kind, count)| **count > 0 || stands(kind))
        .map(|(kind, count)| (kind.clone(), *count))
        .collect()
}

/// The use of the system under test. If the result states that its processors and not its processes were
/// counted (the kernel adds the time of some programs to no process), the same is done here.
fn server(raw: &RawMix, machine: Option<&MachineUse>, stated: &Value) -> Value {
    let Some(of_processes) = raw.recording.process_use(raw.requests, raw.window_s, raw.cpus.len()) else {
        return Value::Null;
    };
    let used = |server: &ProcessUse| serde_json::to_value(server).unwrap_or_default();
    let by_processors = stated["server"]["of_processors"] == true;
    let mut value = match machine.filter(|_| by_processors) {
        Some(machine) => used(&by_processor_time(of_processes, machine, raw)),
        None => used(&of_processes),
    };
    if by_processors {
        value["of_processors"] = true.into();
    }
    value
}

fn by_processor_time(server: ProcessUse, machine: &MachineUse, raw: &RawMix) -> ProcessUse {
    let own: Vec<&CpuShares> =
        machine.cpus.iter().filter(|cpu| raw.cpus.contains(&(cpu.cpu as usize))).collect();
    if own.is_empty() || raw.window_s <= 0.0 {
        return server;
    }
    let user_s = own.iter().map(|cpu| cpu.user).sum::<f64>() * raw.window_s;
    let system_s = own.iter().map(|cpu| cpu.system + cpu.softirq).sum::<f64>() * raw.window_s;
    let cpu_us_per_request =
        if raw.requests == 0 { 0.0 } else { (user_s + system_s) * 1e6 / raw.requests as f64 };
    ProcessUse {
        user_s,
        system_s,
        cpu_us_per_request,
        cpu_share: (user_s + system_s) / (raw.window_s * raw.cpus.len() as f64),
        ..server
    }
}

fn client(raw: &RawMix, index: usize) -> Result<Value, String> {
    let client = &raw.clients[index];
    let latency = client.latency.read()?;
    let mean_us = if latency.is_empty() { 0.0 } else { latency.mean() / 1000.0 };
    Ok(json!({
        "client": index + 1,
        "requests": client.requests,
        "errors": client.errors,
        "bytes": client.bytes,
        "mean_us": mean_us,
        "p95_us": latency.value_at_quantile(0.95) as f64 / 1000.0,
        "max_us": latency.max() as f64 / 1000.0,
    }))
}

fn second(raw: &RawMix, interval: &RawInterval) -> Result<Value, String> {
    let (from_s, to_s) = (interval.start_s, interval.start_s + interval.length_s);
    let latency = interval.latency.read()?;
    let quantile_us =
        |share: f64| (!latency.is_empty()).then(|| latency.value_at_quantile(share) as f64 / 1000.0);
    let recording = &raw.recording;
    let rate = if interval.length_s > 0.0 { interval.requests as f64 / interval.length_s } else { 0.0 };
    Ok(json!({
        "at_s": from_s,
        "requests_per_second": rate,
        "errors": interval.errors,
        "p50_us": quantile_us(0.5),
        "p99_us": quantile_us(0.99),
        "server_cpus": recording.server_cpus(from_s, to_s),
        "server_resident_bytes": recording.server_resident_bytes(f64::midpoint(from_s, to_s)),
        "machine_cpu_share": recording.machine_cpu_share(from_s, to_s),
        "load_cpus": recording.load_cpus(from_s, to_s),
    }))
}

/// Sums within the raw data itself that must be correct for every program that wrote it.
pub fn contradictions(raw: &[RawMix]) -> Vec<String> {
    raw.iter().flat_map(of_mix).collect()
}

fn of_mix(raw: &RawMix) -> Vec<String> {
    let mut found = Vec::new();
    let mut check = |holds: bool, what: &str| {
        if !holds {
            found.push(format!("{}, {}: {what}", raw.system, raw.mix));
        }
    };
    let sum = |figure: fn(&touchstone_lab::raw::RawClient) -> u64| {
        raw.clients.iter().map(figure).fold(0u64, u64::saturating_add)
    };
    check(sum(|client| client.requests) == raw.requests, "the clients' requests do not add up");
    check(
        sum(|client| client.errors)
            == raw.errors.values().fold(0u64, |all, count| all.saturating_add(*count)),
        "the clients' errors do not add up",
    );
    check(raw.total_requests >= raw.requests, "more was answered in the window than in the whole mix");
    let seconds = &raw.intervals;
    let in_order = seconds.windows(2).all(|pair| pair[0].start_s <= pair[1].start_s);
    check(in_order, "the seconds are not in the order of time");
    let of_seconds = seconds.iter().fold(0u64, |all, second| all.saturating_add(second.requests));
    check(of_seconds <= raw.total_requests, "the seconds have more requests than the whole mix");
    let values = |histogram: &RawHistogram| histogram.read().map(|histogram: Histogram<u64>| histogram.len());
    match &raw.arrivals {
        None => {
            check(values(&raw.latency) == Ok(raw.requests), "the latencies are not as many as the requests")
        }
        // For an open load they count the requests that were due in the window, whenever the answer arrived.
        Some(arrivals) => check(
            values(&raw.latency) == values(&arrivals.service)
                && values(&raw.latency).is_ok_and(|count| count <= arrivals.started)
                && arrivals.started <= arrivals.due,
            "the arrivals, their starts and their latencies do not add up",
        ),
    }
    let of_clients: Result<u64, String> = raw.clients.iter().map(|client| values(&client.latency)).sum();
    check(of_clients == Ok(raw.requests), "the clients' latencies are not as many as the requests");
    found
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::time::Duration;
    use touchstone_lab::raw::{
        RawClient, RawEngine, RawLabels, RawMessages, RawWebSockets, VERSION, ValueSummary,
    };
    use touchstone_lab::recording::{Recording, Snapshot, TreeReading};

    fn histogram(values: impl IntoIterator<Item = u64>) -> RawHistogram {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        values.into_iter().for_each(|value| histogram.record(value).unwrap());
        RawHistogram::of(&histogram)
    }

    /// A mix of two clients in five seconds, each answered 500 times a second.
    pub(crate) fn raw() -> RawMix {
        let latency = |client: u64| (0..2500).map(move |index| 1_900_000 + client * 1000 + index * 80);
        let client = |index| RawClient {
            requests: 2500,
            errors: 0,
            bytes: 2500 * 1200,
            latency: histogram(latency(index)),
        };
        let interval = |second: u64| RawInterval {
            start_s: second as f64,
            length_s: 1.0,
            requests: 1000,
            errors: 0,
            bytes: 1_200_000,
            latency: histogram(latency(0).take(1000)),
        };
        let snapshot = |second: u64| Snapshot {
            at: Duration::from_secs(second),
            tree: Some(TreeReading {
                user_s: 0.2 * second as f64,
                system_s: 0.3 * second as f64,
                resident_bytes: 1 << 20,
                processes: 1,
                threads: 1,
            }),
            own_cpu_s: 0.1 * second as f64,
            ..Snapshot::default()
        };
        let summary = |mean: u64| ValueSummary {
            count: 5000,
            sum: (5000 * mean) as f64,
            sum_of_squares: (5000 * mean * mean) as f64,
            min: mean,
            max: mean,
        };
        let class = || RawClass {
            errors: 0,
            pages: 5000,
            response_ns: summary(2_000_000),
            connect_ns: ValueSummary::default(),
            answer_bytes: summary(8500),
            body_bytes: summary(8348),
        };
        RawMix {
            version: VERSION,
            system: "nginx".into(),
            row: 0,
            mix: "2_clients".into(),
            labels: Some(RawLabels { clients: 2, ..RawLabels::of(&touchstone_lab::sample::mix(2, 1000.0)) }),
            classes: vec![class()],
            load_cpus: vec![1],
            cpus: vec![0],
            window_s: 5.0,
            requests: 5000,
            total_requests: 7000,
            errors: [
                ("connect", 0),
                ("reset", 0),
                ("timeout", 0),
                ("short_body", 0),
                ("bad_status", 0),
                ("malformed", 0),
                ("tls", 0),
                ("wrong_body", 0),
                ("extraction", 0),
                ("assertion", 0),
                ("wrong_frame", 0),
                ("closed", 0),
            ]
            .map(|(name, count)| (name.to_owned(), count))
            .into_iter()
            .collect::<BTreeMap<_, _>>(),
            bytes: 42_500_000,
            // The mean of the sample's workload is 8,348.16 bytes.
            body_bytes: 41_740_800,
            connections: 2,
            tls_handshakes: None,
            latency: histogram((0..2).flat_map(latency)),
            connect: RawHistogram(String::new()),
            arrivals: None,
            messages: None,
            clients: vec![client(0), client(1)],
            intervals: (0..7).map(interval).collect(),
            engine: RawEngine {
                user_s: 0.1,
                system_s: 0.4,
                busiest_thread: 0.1,
                longest_waiting_thread: 0.0,
            },
            generator_saturated: None,
            fleet: None,
            recording: Recording {
                snapshots: (0..=7).map(snapshot).collect(),
                window_start: Some(1),
                window_end: Some(6),
            },
        }
    }

    /// A result of that one mix.
    pub(crate) fn result_of(raw: &RawMix) -> ResultFile {
        let mut result = touchstone_lab::sample::result();
        result.systems.remove(0);
        result.systems.truncate(1);
        let template = touchstone_lab::sample::mix(2, 1000.0);
        let mut value = serde_json::to_value(&template).unwrap();
        let figures = expected(raw, &value).unwrap();
        for (name, figure) in figures.as_object().unwrap() {
            value[name] = figure.clone();
        }
        value["name"] = raw.mix.clone().into();
        result.systems[0].mixes = vec![serde_json::from_value(value).unwrap()];
        result.systems[0].cpus = vec![0];
        result
    }

    #[test]
    fn figures_that_follow_from_the_raw_data_are_accepted() {
        let raw = raw();
        let found = super::result(&result_of(&raw), std::slice::from_ref(&raw));
        assert_eq!(found.differences, Vec::<String>::new());
        assert!(found.figures > 150, "{}", found.figures);
        assert_eq!(contradictions(&[raw]), Vec::<String>::new());
    }

    #[test]
    fn every_figure_that_is_changed_is_found() {
        let raw = raw();
        let good = result_of(&raw);
        let value = serde_json::to_value(&good).unwrap();
        let mut changed = 0;
        let mut paths = Vec::new();
        numbers(&value["systems"][0]["mixes"][0], "/systems/0/mixes/0", &mut paths);
        for path in paths {
            let mut damaged = value.clone();
            let place = damaged.pointer_mut(&path).unwrap();
            *place = match place.as_u64() {
                Some(number) => (number + 1).into(),
                None => (place.as_f64().unwrap() * 1.001 + 1e-6).into(),
            };
            let damaged: ResultFile = serde_json::from_value(damaged).unwrap();
            let found = super::result(&damaged, std::slice::from_ref(&raw));
            assert!(!found.differences.is_empty(), "{path}");
            changed += 1;
        }
        assert!(changed > 150, "{changed}");
    }

    #[test]
    fn swapped_labels_are_found_and_are_not_in_raw_data_of_the_first_version() {
        let raw = raw();
        let mut result = result_of(&raw);
        result.systems[0].mixes[0].interface = "cgi".into();
        result.systems[0].mixes[0].complete = false;
        let found = super::result(&result, std::slice::from_ref(&raw)).differences;
        assert!(found.iter().any(|text| text.contains("interface: \"cgi\" stands there")), "{found:?}");
        assert!(found.iter().any(|text| text.contains("complete: false stands there")), "{found:?}");
        let old = RawMix { version: 1, labels: None, ..raw };
        assert_eq!(super::result(&result, &[old]).differences, Vec::<String>::new());
    }

    /// The same mix as an open load of WebSockets.
    pub(crate) fn open_raw() -> RawMix {
        let times = || histogram((1..=5000).map(|value| value * 1000));
        RawMix {
            arrivals: Some(RawArrivals {
                per_second: 1000.0,
                at_random: false,
                due: 5000,
                started: 5000,
                late: 3,
                service: times(),
            }),
            messages: Some(RawMessages {
                count: 10_000,
                total: 14_000,
                first: times(),
                gap: times(),
                websockets: Some(RawWebSockets {
                    opened: 5000,
                    sent: 10_000,
                    total_sent: 14_000,
                    open: times(),
                    answer: times(),
                    pong: RawHistogram(String::new()),
                }),
            }),
            ..raw()
        }
    }

    #[test]
    fn arrivals_and_messages_follow_from_the_raw_data() {
        let raw = open_raw();
        let good = result_of(&raw);
        let found = super::result(&good, std::slice::from_ref(&raw));
        assert_eq!(found.differences, Vec::<String>::new());
        assert_eq!(contradictions(std::slice::from_ref(&raw)), Vec::<String>::new());
        let value = serde_json::to_value(&good).unwrap();
        for part in ["arrivals", "messages"] {
            let mut paths = Vec::new();
            let path = format!("/systems/0/mixes/0/{part}");
            numbers(value.pointer(&path).unwrap(), &path, &mut paths);
            assert!(paths.len() > 5, "{paths:?}");
            for path in paths {
                let mut damaged = value.clone();
                let place = damaged.pointer_mut(&path).unwrap();
                *place = match place.as_u64() {
                    Some(number) => (number + 1).into(),
                    None => (place.as_f64().unwrap() * 1.001 + 1e-6).into(),
                };
                let damaged: ResultFile = serde_json::from_value(damaged).unwrap();
                let found = super::result(&damaged, std::slice::from_ref(&raw));
                assert!(!found.differences.is_empty(), "{path}");
            }
        }
        let mut wrong = raw;
        wrong.arrivals.as_mut().unwrap().started = 4_000;
        assert!(contradictions(&[wrong])[0].contains("do not add up"));
    }

    fn numbers(value: &Value, path: &str, found: &mut Vec<String>) {
        match value {
            Value::Number(_) => found.push(path.to_owned()),
            Value::Array(items) => {
                items
                    .iter()
                    .enumerate()
                    .for_each(|(index, item)| numbers(item, &format!("{path}/{index}"), found));
            }
            Value::Object(fields) => {
                fields.iter().for_each(|(name, item)| numbers(item, &format!("{path}/{name}"), found));
            }
            _ => {}
        }
    }

    #[test]
    fn mixes_that_are_missing_on_either_side_are_found() {
        let raw = raw();
        let mut result = result_of(&raw);
        assert!(super::result(&result, &[]).differences[0].contains("does not have it"));
        result.systems[0].mixes.clear();
        assert!(super::result(&result, std::slice::from_ref(&raw)).differences[0].contains("has 1 mixes"));
        let mut wrong = raw;
        wrong.clients[0].requests += 1;
        assert_eq!(contradictions(&[wrong]), ["nginx, 2_clients: the clients' requests do not add up"]);
    }
}
