//! The figures of a result, found again by plain means: what a reader of `result.json` would do.

use touchstone_lab::result::{MixResult, ResultFile, SystemResult};

/// The system of a title.
pub(super) fn system<'a>(result: &'a ResultFile, title: &str) -> &'a SystemResult {
    let own = |system: &&SystemResult| system.title == title;
    result.systems.iter().find(own).unwrap_or_else(|| panic!("{title} is no system"))
}

/// The loads of a system in the order in which they were first run, each with the runs that count.
pub(super) fn loads(system: &SystemResult) -> Vec<Vec<&MixResult>> {
    let mut loads: Vec<Vec<&MixResult>> = Vec::new();
    for mix in &system.mixes {
        match loads.iter_mut().find(|runs| runs[0].clients == mix.clients) {
            Some(runs) => runs.push(mix),
            None => loads.push(vec![mix]),
        }
    }
    for runs in &mut loads {
        let is_whole = |mix: &MixResult| mix.complete && mix.requests > 0;
        if runs.iter().any(|mix| is_whole(mix)) {
            runs.retain(|mix| is_whole(mix));
        }
    }
    loads
}

/// The run with the median rate.
pub(super) fn median<'a>(runs: &[&'a MixResult]) -> &'a MixResult {
    let mut runs = runs.to_vec();
    runs.sort_by(|left, right| left.requests_per_second.total_cmp(&right.requests_per_second));
    runs[(runs.len() - 1) / 2]
}

/// The median run of the load with this many clients.
pub(super) fn at(system: &SystemResult, clients: u64) -> Option<&MixResult> {
    loads(system).iter().find(|runs| runs[0].clients == clients).map(|runs| median(runs))
}

/// The peak: the highest median rate, of the loads that were measured whole if there are any.
pub(super) fn peak(system: &SystemResult) -> Option<&MixResult> {
    let all: Vec<&MixResult> = loads(system).iter().map(|runs| median(runs)).collect();
    let answered = |whole: bool| {
        let own = all.iter().copied().filter(move |mix| mix.complete == whole && mix.requests > 0);
        own.reduce(|best, mix| if mix.requests_per_second > best.requests_per_second { mix } else { best })
    };
    answered(true).or_else(|| answered(false))
}

/// The processors that other work used.
pub(super) fn other_work(mix: &MixResult) -> Option<f64> {
    let (server, machine) = (mix.server.as_ref()?, mix.machine.as_ref()?);
    let used: f64 = machine.cpus.iter().map(|cpu| cpu.user + cpu.system).sum();
    let own = server.user_s + server.system_s + mix.load.user_s + mix.load.system_s;
    Some(used - own / mix.window_s)
}

/// Whether the load engine and not the server decided a rate: there is a sign, the engine ran or could have
/// run for 70 % of the time, and the server's processors were not full (95 %), with any work.
pub(super) fn engine_decided(system: &SystemResult, mix: &MixResult) -> bool {
    let used = mix.load.busiest_thread + mix.load.longest_waiting_thread.unwrap_or(1.0);
    mix.generator_saturated.is_some() && used >= 0.7 && !is_full(system, mix)
}

/// Whether the server's processors were full.
fn is_full(system: &SystemResult, mix: &MixResult) -> bool {
    let (Some(server), Some(machine)) = (&mix.server, &mix.machine) else { return false };
    let own = |cpu: &&touchstone_lab::result::CpuShares| {
        system.cpus.is_empty() || system.cpus.contains(&(cpu.cpu as usize))
    };
    let cpus: Vec<_> = machine.cpus.iter().filter(own).collect();
    let mean = |of: fn(&touchstone_lab::result::CpuShares) -> f64| {
        cpus.iter().map(|cpu| of(cpu)).sum::<f64>() / cpus.len() as f64
    };
    let (all, softirq) = match system.cpus.is_empty() {
        true => (machine.cpus.len() as f64, 0.0),
        false => (1.0, mean(|cpu| cpu.softirq)),
    };
    server.cpu_share / all + softirq >= 0.95 || mean(|cpu| 1.0 - cpu.idle) >= 0.95
}

/// A number as it is written, with half of the value of its last digit.
pub(super) fn number(told: &str) -> (f64, f64) {
    let plain: String = told.chars().filter(|letter| *letter != ',').collect();
    let decimals = plain.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let value: f64 = plain.parse().unwrap_or_else(|_| panic!("{told:?} is no number"));
    (value, 0.5 * 10f64.powi(-(decimals as i32)) + value.abs() * 1e-9)
}

/// A time as it is written, in microseconds.
pub(super) fn time_us(told: &str, unit: &str) -> (f64, f64) {
    let scale = match unit {
        "µs" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => panic!("{unit:?} is no unit of time"),
    };
    let (value, half) = number(told);
    (value * scale, half * scale)
}

/// The users that a rate serves, by what the answer states: a page of this many requests per minute.
pub(super) fn users(rate: f64, requests_a_page: f64) -> f64 {
    rate * 60.0 / requests_a_page
}
