//! Planning: from measurements to predictions and advice.
//!
//! [`plan()`] finds for every system of a result its bottleneck ([`touchstone_lab::bottleneck`]), whether a
//! law describes its curve ([`usl`], [`mva`]), how many users its rate would serve ([`users`]), and what to
//! change first ([`advice`]). If the data is not sufficient, it states so instead of a number.

pub mod advice;
mod least_squares;
pub mod mva;
mod text;
pub mod users;
pub mod usl;

pub use text::text;

use advice::Advice;
use mva::Station;
use serde::Serialize;
use touchstone_lab::arrivals::is_open;
use touchstone_lab::bottleneck::{self, Bottleneck};
use touchstone_lab::loads;
use touchstone_lab::raw::RawMix;
use touchstone_lab::recording::Usage;
use touchstone_lab::result::{MixResult, ResultFile, SystemResult};
use touchstone_lab::series::{self, Series};
use touchstone_lab::statistics::useful_peak::{Criteria, UsefulPeak};

/// What the reader assumes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Assumptions {
    /// Requests of a page.
    pub requests_per_page: f64,
    /// Share of them that go to this server.
    pub first_party_share: f64,
    /// The time within which 95 % of the answers must arrive, microseconds.
    pub p95_max_us: Option<f64>,
    /// What the accelerator spends on an answer from its cache, microseconds; absent: its data in the result.
    pub accelerator_us: Option<f64>,
}

impl Default for Assumptions {
    fn default() -> Assumptions {
        Assumptions {
            requests_per_page: users::REQUESTS_PER_PAGE_2025,
            first_party_share: 1.0,
            p95_max_us: None,
            accelerator_us: None,
        }
    }
}

/// The plan of one system (and interface, if there are several).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// The system.
    pub system: String,
    /// Clients at the peak.
    pub peak_clients: u64,
    /// Requests a second at the peak.
    pub peak_rate: f64,
    /// Mean latency at the peak, microseconds.
    pub peak_latency_us: f64,
    /// The useful peak; absent without measurements.
    pub useful_peak: Option<UsefulPeak>,
    /// Its bottleneck.
    pub bottleneck: Bottleneck,
    /// The monitor's figures at the peak.
    pub usage: Option<Usage>,
    /// The scalability law.
    pub usl: usl::Outcome,
    /// The model of queues.
    pub mva: mva::Outcome,
    /// Users by the assumptions, a row for each number of pages a minute.
    pub users: Vec<Vec<users::Cell>>,
    /// Users by the formula of 1997.
    pub users_of_1997: f64,
    /// What to change, the most important first.
    pub advice: Vec<Advice>,
}

/// The plans of a result, for every system that answered, except the limit. Open loads have none: their rates
/// are set and not measured. `raw` may be empty.
pub fn plan(result: &ResultFile, raw: &[RawMix], assumed: &Assumptions) -> Vec<Plan> {
    if is_open(result) {
        return Vec::new();
    }
    let all = series::from_result(result);
    let rivals = all.iter().filter(|series| !series.system.is_limit);
    rivals.filter_map(|series| of_series(result, series, raw, assumed)).collect()
}

fn of_series(
    result: &ResultFile,
    series: &Series<'_>,
    raw: &[RawMix],
    assumed: &Assumptions,
) -> Option<Plan> {
    let system = series.system;
    let complete: Vec<&MixResult> =
        series.mixes.iter().copied().filter(|mix| mix.complete && mix.requests > 0).collect();
    let peak = series.peak()?;
    let (bottleneck, usage) = bottleneck::of_series(series, raw)?;
    let points: Vec<(f64, f64)> =
        complete.iter().map(|mix| (mix.clients as f64, mix.requests_per_second)).collect();
    let mva = mva::solve(
        &stations(system, &complete),
        result.suite.think_s_per_request(peak),
        &measured(&complete),
    );
    let advice = advice::for_situation(&advice::Situation {
        result,
        system,
        peak,
        bottleneck: &bottleneck,
        usage: usage.as_ref(),
        mva: &mva,
        assumed,
    });
    Some(Plan {
        system: series.title.clone(),
        peak_clients: peak.clients,
        peak_rate: peak.requests_per_second,
        peak_latency_us: peak.latency.mean_us,
        useful_peak: loads::useful_peak(
            series.runs.iter().copied(),
            &system.cpus,
            &Criteria {
                p95_max_us: assumed.p95_max_us.or(result.method.useful.p95_max_us),
                ..result.method.useful
            },
        ),
        bottleneck,
        usl: usl::identify(&points),
        mva,
        users: users::table(peak.requests_per_second, assumed.requests_per_page, assumed.first_party_share),
        users_of_1997: users::users_of_1997(peak.requests_per_second * 600.0),
        usage,
        advice,
    })
}

/// The processors as a station: their time a request, from the median of the loads, as small loads are noisy.
fn stations(system: &SystemResult, mixes: &[&MixResult]) -> Vec<Station> {
    let demands: Vec<f64> =
        mixes.iter().filter_map(|mix| Some(mix.server.as_ref()?.cpu_us_per_request)).collect();
    let demand = touchstone_lab::statistics::quantile::median(&demands).filter(|demand| *demand > 0.0);
    let servers = u32::try_from(system.cpus.len().max(1)).unwrap_or(u32::MAX);
    let station =
        |demand_us: f64| Station { name: "processors".to_owned(), demand_s: demand_us / 1e6, servers };
    demand.map(station).into_iter().collect()
}

fn measured(mixes: &[&MixResult]) -> Vec<mva::LoadPoint> {
    let clients = |mix: &MixResult| u32::try_from(mix.clients).unwrap_or(u32::MAX);
    let load_point = |mix: &&MixResult| mva::LoadPoint {
        clients: clients(mix),
        rate: mix.requests_per_second,
        response_s: mix.latency.mean_us / 1e6,
    };
    mixes.iter().map(load_point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use touchstone_lab::bottleneck::Verdict;

    #[test]
    fn a_result_is_planned_from_and_told_in_words() {
        let result = touchstone_lab::sample::result();
        let plans = plan(&result, &[], &Assumptions::default());
        assert_eq!(plans.len(), 2, "the limit is not a rival");
        let first = &plans[0];
        assert_eq!((first.peak_clients, first.bottleneck.verdict), (16, Verdict::ServerCpu));
        assert!(matches!(first.usl, usl::Outcome::NotIdentified { .. }), "three loads");
        let useful = first.useful_peak.as_ref().unwrap();
        assert!(useful.useful.is_none() && useful.difference.as_ref().unwrap().contains("3 runs are needed"));
        assert!(!first.advice.is_empty());
        let text = text(&plans, &Assumptions::default());
        for words in ["server-cpu", "not identified", "users", "1997", "accelerator"] {
            assert!(text.contains(words), "{words} is not in\n{text}");
        }
        assert!(serde_json::to_string(&plans).is_ok());
    }

    #[test]
    fn a_system_that_answered_nothing_has_no_plan() {
        let mut result = touchstone_lab::sample::result();
        result.systems[0].mixes.clear();
        result.systems[1].mixes.iter_mut().for_each(|mix| mix.requests = 0);
        assert!(plan(&result, &[], &Assumptions::default()).is_empty());
    }
}
