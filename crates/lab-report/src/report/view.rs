//! The view of a result for the report: every system, and each of its interfaces if several were measured,
//! with a unique name and style, its mixes in the order of their clients, and its peak.

use super::scale::ClientScale;
use super::style::{CURVES_MAX, Style};
use super::words;
use super::{Source, number};
use crate::planning::Plan;
use touchstone_lab::arrivals::is_open;
use touchstone_lab::peaks::{peak_of, rate_is_the_servers};
use touchstone_lab::result::{InterfaceRecord, MixResult, ResultFile, SystemResult};
use touchstone_lab::series;
use touchstone_lab::verdict;

/// The most characters of a system's name in the report's text; the section of the systems has the whole
/// name.
const LABEL_LIMIT: usize = 60;

/// Everything that the sections need.
pub(super) struct View<'a> {
    /// What was measured.
    pub(super) result: &'a ResultFile,
    /// Its runs.
    pub(super) sources: &'a [Source],
    /// What each system is planned from.
    pub(super) plans: &'a [Plan],
    /// The systems, in the result's order; where several interfaces were measured, an entry for each.
    pub(super) systems: Vec<SystemView<'a>>,
    /// The loads of all mixes: their numbers of clients, or their arrivals a second.
    pub(super) clients: ClientScale,
    /// The systems' names in the report, in the result's order.
    labels: Vec<String>,
}

/// One system, or one interface of it.
pub(super) struct SystemView<'a> {
    /// What it did.
    pub(super) system: &'a SystemResult,
    /// The interface, where several were measured.
    pub(super) interface: Option<&'a InterfaceRecord>,
    /// Whether it is the first entry of its system: facts that are shown once for each system are shown
    /// there.
    pub(super) is_first: bool,
    /// The system's name in the report.
    pub(super) system_label: String,
    /// Its name in the report, with the interface's where there are several.
    pub(super) label: String,
    /// Its style in every chart.
    pub(super) style: Style,
    /// Its place among the curves: of few that in the result, of many that by its peak.
    pub(super) rank: usize,
    /// Its mixes by rising numbers of clients; of a mix that was run several times the run of the median
    /// rate, so that all its figures are of one run.
    pub(super) mixes: Vec<&'a MixResult>,
    /// Every run of each of them, in the order of `mixes`.
    pub(super) runs: Vec<Vec<&'a MixResult>>,
    /// The mix with its highest rate; of open loads that of the highest rate that it carried.
    pub(super) peak: Option<&'a MixResult>,
    /// The plan from it; absent without measurements, and for the limit.
    pub(super) plan: Option<&'a Plan>,
}

impl<'a> View<'a> {
    /// Makes the view of a result.
    pub(super) fn new(result: &'a ResultFile, sources: &'a [Source], plans: &'a [Plan]) -> View<'a> {
        let labels = unique_labels(result);
        let mut systems: Vec<SystemView> = Vec::new();
        for (system, system_label) in result.systems.iter().zip(&labels) {
            for (index, series) in series::of_system(result, system).into_iter().enumerate() {
                let label = match series.interface {
                    // First what differs most: a chart has little room for names.
                    Some(interface) => {
                        format!("{}, {system_label}", words::line(&interface.title, LABEL_LIMIT))
                    }
                    None => system_label.clone(),
                };
                let plan = plans.iter().find(|plan| plan.system == series.title && !system.is_limit);
                let interface = series.mixes.first().map_or("", |mix| mix.interface.as_str());
                let runs = runs_of(system.mixes.iter().filter(|mix| mix.interface == interface));
                let mixes: Vec<&MixResult> = runs.iter().filter_map(|runs| median_run(runs)).collect();
                // A rate that was not carried is no system's best.
                let carried = mixes.iter().rfind(|mix| mix.carried()).copied();
                let peak = carried.or_else(|| peak_of(mixes.iter().copied()));
                systems.push(SystemView {
                    system,
                    interface: series.interface,
                    is_first: index == 0,
                    system_label: system_label.clone(),
                    label,
                    style: Style::of_limit(),
                    rank: 0,
                    mixes,
                    runs,
                    peak,
                    plan,
                });
            }
        }
        assign_styles(&mut systems);
        let loads = result.systems.iter().flat_map(|system| &system.mixes).map(MixResult::load);
        let clients = ClientScale::new(loads).of_open_loads(is_open(result));
        View { result, sources, plans, systems, clients, labels }
    }

    /// Each system once.
    pub(super) fn each_system(&self) -> impl Iterator<Item = &SystemView<'a>> {
        self.systems.iter().filter(|system| system.is_first)
    }

    /// The name in the report of a system that is named as in the result.
    pub(super) fn system_label(&self, name: &str) -> &str {
        let place = self.result.systems.iter().position(|system| system.name == name);
        place.and_then(|place| self.labels.get(place)).map_or("unnamed", String::as_str)
    }

    /// The mixes of all systems, each once, by rising numbers of clients.
    pub(super) fn mix_keys(&self) -> Vec<MixKey> {
        let mut keys: Vec<MixKey> =
            self.systems.iter().flat_map(|system| system.mixes.iter().map(|mix| MixKey::of(mix))).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// The name of a mix in a table: its number of clients, if that identifies it.
    pub(super) fn mix_label(&self, key: &MixKey) -> String {
        let others = |other: &&MixKey| other.load == key.load && other.name != key.name;
        if self.mix_keys().iter().any(|other| others(&other)) {
            format!("{} ({})", number::count(key.load), words::line(&key.name, LABEL_LIMIT))
        } else {
            number::count(key.load)
        }
    }

    /// True when some curve holds figures that are only lower bounds.
    pub(super) fn has_lower_bounds(&self) -> bool {
        self.systems.iter().any(|system| system.mixes.iter().any(|mix| is_lower_bound(system.system, mix)))
    }

    /// The most runs of a mix.
    pub(super) fn most_runs(&self) -> usize {
        self.systems.iter().flat_map(|system| &system.runs).map(Vec::len).max().unwrap_or(0)
    }

    /// Whether a limit was measured.
    pub(super) fn has_limit(&self) -> bool {
        self.systems.iter().any(|system| system.system.is_limit && system.peak.is_some())
    }

    /// The limit that a system is compared with; `None` for a limit.
    pub(super) fn limit_of(&self, system: &SystemView<'_>) -> Option<&'a SystemResult> {
        verdict::limit_of(self.result, system.system).filter(|_| !system.system.is_limit)
    }
}

impl<'a> SystemView<'a> {
    /// Its figures of a mix.
    pub(super) fn mix(&self, key: &MixKey) -> Option<&'a MixResult> {
        self.mixes.iter().find(|mix| MixKey::of(mix) == *key).copied()
    }

    /// Every run of a mix of it.
    pub(super) fn runs_of(&self, mix: &MixResult) -> &[&'a MixResult] {
        let place = self.mixes.iter().position(|own| std::ptr::eq(*own, mix));
        place.and_then(|place| self.runs.get(place)).map_or(&[], Vec::as_slice)
    }

    /// Whether a mix is its peak.
    pub(super) fn is_peak(&self, mix: &MixResult) -> bool {
        self.peak.is_some_and(|peak| std::ptr::eq(peak, mix))
    }
}

/// Assigns each curve its rank and its style. If there are more curves than a drawing can hold, they are
/// ordered by their peaks, so that the first drawing has the most important ones. The limit keeps its style
/// and is the first.
fn assign_styles(systems: &mut [SystemView]) {
    let mut order: Vec<usize> = (0..systems.len()).collect();
    if systems.len() > CURVES_MAX {
        let rate = |place: usize| systems[place].peak.map_or(0.0, |peak| peak.requests_per_second);
        order.sort_by(|&left, &right| rate(right).total_cmp(&rate(left)));
        order.sort_by_key(|&place| !systems[place].system.is_limit);
    }
    let mut rivals = 0;
    for (rank, place) in order.into_iter().enumerate() {
        let view = &mut systems[place];
        view.rank = rank;
        if !view.system.is_limit {
            view.style = Style::of_system(rivals);
            rivals += 1;
        }
    }
}

/// The mixes by rising numbers of clients, the runs of each together.
fn runs_of<'a>(mixes: impl Iterator<Item = &'a MixResult>) -> Vec<Vec<&'a MixResult>> {
    let mut runs: Vec<Vec<&MixResult>> = Vec::new();
    for mix in mixes {
        match runs.iter_mut().find(|runs| MixKey::of(runs[0]) == MixKey::of(mix)) {
            Some(runs) => runs.push(mix),
            None => runs.push(vec![mix]),
        }
    }
    runs.sort_by_key(|runs| runs[0].load());
    runs
}

/// The run of the median rate, of an even number the lower of the two; one that was cut short only where no
/// other is there.
fn median_run<'a>(runs: &[&'a MixResult]) -> Option<&'a MixResult> {
    let median_run = |complete: bool| {
        let mut runs: Vec<&MixResult> = runs.iter().copied().filter(|mix| mix.complete == complete).collect();
        runs.sort_by(|left, right| left.requests_per_second.total_cmp(&right.requests_per_second));
        runs.get(runs.len().saturating_sub(1) / 2).copied()
    };
    median_run(true).or_else(|| median_run(false))
}

/// Which mix: its load, and its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MixKey {
    /// Virtual clients, or arrivals a second.
    pub(super) load: u64,
    /// The mix's name.
    pub(super) name: String,
}

impl MixKey {
    /// The key of a mix.
    pub(super) fn of(mix: &MixResult) -> MixKey {
        MixKey { load: mix.load(), name: mix.name.clone() }
    }
}

/// Whether a mix's rate is only a lower bound: the load engine set it, or the mix was cut short.
pub(super) fn is_lower_bound(system: &SystemResult, mix: &MixResult) -> bool {
    !rate_is_the_servers(system, mix) || !mix.complete
}

/// A figure that can be drawn: finite and not negative.
pub(super) fn drawable(value: f64) -> Option<f64> {
    (value.is_finite() && value >= 0.0).then_some(value)
}

fn unique_labels(result: &ResultFile) -> Vec<String> {
    let mut labels: Vec<String> = Vec::with_capacity(result.systems.len());
    for system in &result.systems {
        let title = if system.title.trim().is_empty() { &system.name } else { &system.title };
        let mut label = words::line(title, LABEL_LIMIT);
        if label.is_empty() {
            label = "unnamed".to_owned();
        }
        let mut number = 2;
        let plain = label.clone();
        while labels.contains(&label) {
            label = format!("{plain} #{number}");
            number += 1;
        }
        labels.push(label);
    }
    labels
}
