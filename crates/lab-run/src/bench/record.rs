//! Computes the row of a mix in the result file from the data of the load engine and the monitor.

use super::measure::{MeasuredMix, MixEnding};
use touchstone_lab::engine_seconds::{self, Second};
use touchstone_lab::latency::{latency_record, mean_us};
use touchstone_lab::loads;
use touchstone_lab::raw::{RawArrivals, RawClass, RawMessages};
use touchstone_lab::recording::Recording;
use touchstone_lab::result::{
    ClientRow, ErrorRecord, HandshakeRecord, LoadUse, MachineUse, MixResult, ProcessUse, TimelineRow,
};
use touchstone_lab::saturation;
use touchstone_lab::statistics::taint::{self, Sign};
use touchstone_lab::suite::Mix;
use touchstone_lab::threshold_record::ReasonRecord;
use touchstone_load::{Arrivals, ErrorCounts, Interval, Outcome, Threshold};

/// What a mix was measured on.
pub(super) struct Place<'a> {
    /// The interface's name; empty where the suite has one workload for all.
    pub(super) interface: &'a str,
    /// Which run of the mix it is, from 1.
    pub(super) run: u64,
    /// The processors of the load engine.
    pub(super) load_cpus: &'a [usize],
    /// The processors of the system; empty: not pinned.
    pub(super) cpus: &'a [usize],
    /// The thresholds, bound to the plan.
    pub(super) thresholds: &'a [Threshold],
    /// Whether the kernel adds the time of the interface's programs to none of the system's processes.
    pub(super) uncounted: bool,
}

/// The row of a mix.
pub(super) fn mix_result(mix: &Mix, place: &Place<'_>, measured: &MeasuredMix) -> MixResult {
    let MeasuredMix { outcome, recording, ending, fleet, .. } = measured;
    let window_s = outcome.window.as_secs_f64();
    let server = recording.process_use(outcome.requests, window_s, place.cpus.len());
    let machine = recording.machine_use();
    let latency = latency_record(&outcome.latency_ns);
    // What was just written as raw data can be read again.
    let arrivals = arrivals(mix, outcome).and_then(|raw| raw.figures().ok());
    let messages = RawMessages::of(outcome).and_then(|raw| raw.figures(window_s).ok());
    let result = MixResult {
        name: mix.name.clone(),
        interface: place.interface.to_string(),
        run: place.run,
        clients: mix.clients as u64,
        load_cpus: place.load_cpus.to_vec(),
        ramp_up_s: mix.ramp_up_s,
        length_s: mix.length_s,
        ramp_down_s: mix.ramp_down_s,
        delay_s: mix.delay_s,
        think_time_s: mix.think_time_s,
        window_s,
        requests: outcome.requests,
        errors: error_record(&outcome.errors),
        requests_per_second: outcome.requests_per_second(),
        bytes_per_second: outcome.bytes_per_second(),
        megabits_per_second: outcome.bytes_per_second() * 8.0 / 1e6,
        mean_body_bytes: ratio(outcome.body_bytes as f64, outcome.requests as f64),
        classes: outcome.classes.iter().map(|class| RawClass::of(class).figures()).collect(),
        connections: outcome.connections,
        tls_handshakes: HandshakeRecord::of(outcome.handshakes),
        littles_law_clients: outcome.requests_per_second() * latency.mean_us / 1e6,
        connect: (!outcome.connect_ns.is_empty()).then(|| latency_record(&outcome.connect_ns)),
        arrivals,
        messages,
        latency,
        client_rows: client_rows(outcome),
        server: match (server, &machine) {
            (Some(server), Some(machine)) if place.uncounted => {
                Some(of_processors(server, machine, place.cpus, window_s, outcome.requests))
            }
            (server, _) => server,
        },
        machine,
        load: load_use(outcome, recording),
        timeline: outcome.intervals.iter().map(|interval| timeline_row(interval, recording)).collect(),
        generator_saturated: saturation::signs(outcome, recording),
        taint: taint(mix, place, outcome, recording),
        fairness: None,
        complete: *ending == MixEnding::Whole && !outcome.interrupted,
        total_requests: outcome.total_requests,
        fleet: fleet.clone(),
        thresholds: place.thresholds.iter().map(|threshold| threshold.verdict(outcome).into()).collect(),
        error_reasons: outcome.error_reasons.iter().map(ReasonRecord::from).collect(),
    };
    MixResult { fairness: loads::fairness_of(&result), ..result }
}

/// The signs of an engine at its limit, by the seconds of the counted window.
fn taint(mix: &Mix, place: &Place<'_>, outcome: &Outcome, recording: &Recording) -> Vec<Sign> {
    let second = |interval: &Interval| Second {
        start_s: interval.start_s,
        length_s: interval.length_s,
        errors: interval.errors,
    };
    let window_s = (mix.ramp_up_s, mix.length_s - mix.ramp_down_s);
    let seconds = outcome.intervals.iter().map(second);
    let (load_cpus, cpus) = (place.load_cpus.len(), place.cpus.len());
    taint::signs(&engine_seconds::of(seconds, window_s, recording, load_cpus, cpus))
}

/// The use with the time that the system's processors were busy in the place of that of its processes.
fn of_processors(
    server: ProcessUse,
    machine: &MachineUse,
    cpus: &[usize],
    window_s: f64,
    requests: u64,
) -> ProcessUse {
    let own = || machine.cpus.iter().filter(|shares| cpus.contains(&(shares.cpu as usize)));
    if own().count() == 0 {
        return server;
    }
    let user_s = own().map(|cpu| cpu.user).sum::<f64>() * window_s;
    let system_s = own().map(|cpu| cpu.system + cpu.softirq).sum::<f64>() * window_s;
    ProcessUse {
        user_s,
        system_s,
        cpu_us_per_request: ratio((user_s + system_s) * 1e6, requests as f64),
        of_processors: true,
        cpu_share: ratio(user_s + system_s, window_s * cpus.len() as f64),
        ..server
    }
}

fn error_record(errors: &ErrorCounts) -> ErrorRecord {
    ErrorRecord {
        connect: errors.connect,
        reset: errors.reset,
        timeout: errors.timeout,
        short_body: errors.short_body,
        bad_status: errors.bad_status,
        malformed: errors.malformed,
        tls: errors.tls,
        wrong_body: errors.wrong_body,
        extraction: errors.extraction,
        assertion: errors.assertion,
        wrong_frame: errors.wrong_frame,
        closed: errors.closed,
    }
}

/// What became of the arrivals of a mix, where its load is open.
pub(super) fn arrivals(mix: &Mix, outcome: &Outcome) -> Option<RawArrivals> {
    RawArrivals::of(mix.rate?, mix.arrivals == Arrivals::Poisson, outcome)
}

fn load_use(outcome: &Outcome, recording: &Recording) -> LoadUse {
    let engine = &outcome.engine;
    let usage = recording.usage();
    let waited = saturation::engine_waited(engine.longest_waiting_thread, usage.as_ref());
    LoadUse {
        user_s: engine.user_s,
        system_s: engine.system_s,
        cpu_us_per_request: ratio((engine.user_s + engine.system_s) * 1e6, outcome.requests as f64),
        busiest_thread: engine.busiest_thread,
        longest_waiting_thread: Some(waited),
        held_back_by_quota: saturation::held_back_by_quota(usage.as_ref()),
    }
}

fn client_rows(outcome: &Outcome) -> Vec<ClientRow> {
    let row = |(index, client): (usize, &touchstone_load::ClientOutcome)| ClientRow {
        client: index as u64 + 1,
        requests: client.requests,
        errors: client.errors,
        bytes: client.bytes,
        mean_us: mean_us(&client.latency_ns),
        p95_us: client.latency_ns.value_at_quantile(0.95) as f64 / 1000.0,
        max_us: client.latency_ns.max() as f64 / 1000.0,
    };
    outcome.clients.iter().enumerate().map(row).collect()
}

fn timeline_row(interval: &Interval, recording: &Recording) -> TimelineRow {
    let (from_s, to_s) = (interval.start_s, interval.start_s + interval.length_s);
    let latency = &interval.latency_ns;
    let quantile_us =
        |quantile| (!latency.is_empty()).then(|| latency.value_at_quantile(quantile) as f64 / 1000.0);
    TimelineRow {
        at_s: from_s,
        requests_per_second: ratio(interval.requests as f64, interval.length_s),
        errors: interval.errors,
        p50_us: quantile_us(0.5),
        p99_us: quantile_us(0.99),
        server_cpus: recording.server_cpus(from_s, to_s),
        server_resident_bytes: recording.server_resident_bytes((from_s + to_s) / 2.0),
        machine_cpu_share: recording.machine_cpu_share(from_s, to_s),
        load_cpus: recording.load_cpus(from_s, to_s),
    }
}

/// Zero if the divisor is zero: the result file holds finite numbers only.
fn ratio(dividend: f64, divisor: f64) -> f64 {
    if divisor > 0.0 { dividend / divisor } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uncounted_programs_are_counted_by_the_busy_time_of_the_processors() {
        let mix = touchstone_lab::sample::mix(4, 1000.0);
        let (server, machine) = (mix.server.unwrap(), mix.machine.unwrap());
        let used = of_processors(server.clone(), &machine, &[1], 5.0, 5000);
        // The sample's processors are 20 % user, 50 % system and 20 % softirq.
        let close = |left: f64, right: f64| (left - right).abs() < 1e-9;
        assert!(close(used.user_s, 1.0) && close(used.system_s, 3.5), "{used:?}");
        assert!(used.of_processors && close(used.cpu_us_per_request, 900.0) && close(used.cpu_share, 0.9));
        assert_eq!(of_processors(server.clone(), &machine, &[], 5.0, 5000), server);
    }
}
