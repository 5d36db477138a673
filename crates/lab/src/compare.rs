//! Whether two systems differ, from mixes that both were measured with: two systems of one result, or the
//! same mixes of two results.
//!
//! Each mix that both completed is a pair. Its ratio is that of the rates and, where both were watched, that
//! of the processor time of a request, which moves least from run to run. The comparison is that of
//! [`crate::statistics::paired`]: an interval, the noise floor if one is given, and a conclusion.

use crate::result::{Compared, Figure, MixResult, ResultFile};
use crate::series::{self, Series};
use crate::statistics::gate::{self, Gate};
use crate::statistics::paired::{self, Conclusion};
use std::collections::BTreeMap;

/// One side: a result and one of its series.
#[derive(Debug, Clone)]
pub struct Side<'a> {
    /// Its name among the others.
    pub label: String,
    /// The system's name in its result.
    pub system: &'a str,
    /// The interface; empty where the suite has one workload for all.
    pub interface: &'a str,
    /// Its mixes.
    pub mixes: Vec<&'a MixResult>,
}

/// Every series of a result, named for a reader; the limit is left out.
pub fn sides<'a>(label: &str, result: &'a ResultFile) -> Vec<Side<'a>> {
    let side = |series: Series<'a>| Side {
        label: if label.is_empty() { series.title.clone() } else { format!("{} ({label})", series.title) },
        system: &series.system.name,
        interface: series.runs.first().map_or("", |mix| &mix.interface),
        mixes: series.runs,
    };
    series::from_result(result).into_iter().filter(|series| !series.system.is_limit).map(side).collect()
}

/// The pairs of a figure: mixes of the same name, interface and turn that both sides completed, in their
/// order.
fn pairs(first: &Side<'_>, second: &Side<'_>, figure: Figure) -> Vec<(f64, f64)> {
    let mut used = vec![false; second.mixes.len()];
    let mut pairs = Vec::new();
    for mix in first.mixes.iter().filter(|mix| mix.complete) {
        let alike = |other: &MixResult| {
            other.complete
                && other.name == mix.name
                && other.interface == mix.interface
                && other.clients == mix.clients
                && other.run == mix.run
        };
        let at = second.mixes.iter().zip(&used).position(|(other, used)| !used && alike(other));
        let Some(at) = at else { continue };
        used[at] = true;
        if let (Some(left), Some(right)) = (figure.of(mix), figure.of(second.mixes[at])) {
            pairs.push((left, right));
        }
    }
    pairs
}

/// The verdict of the gate on a new side against an old one, by the processor time of a request; `None` where
/// the two have no run in common.
pub fn gate(new: &Side<'_>, old: &Side<'_>, tolerated: f64) -> Option<Gate> {
    let mut runs: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for mix in new.mixes.iter().filter(|mix| mix.complete) {
        let alike = |other: &&&MixResult| {
            other.complete
                && (&other.name, &other.interface, other.clients, other.run)
                    == (&mix.name, &mix.interface, mix.clients, mix.run)
        };
        let Some(other) = old.mixes.iter().find(alike) else { continue };
        if let (Some(new), Some(old)) = (Figure::ProcessorTime.of(mix), Figure::ProcessorTime.of(other)) {
            runs.entry(mix.run).or_default().push(new / old);
        }
    }
    let runs: Vec<Vec<f64>> = runs.into_values().collect();
    gate::verdict(&runs, tolerated)
}

/// Compares two sides by each figure that both have. `noise` are two runs of one system, for the noise floor.
pub fn compare(
    first: &Side<'_>,
    second: &Side<'_>,
    noise: Option<(&Side<'_>, &Side<'_>)>,
    seed: u64,
) -> Vec<Compared> {
    let compared = |figure: Figure| {
        let floor = noise.and_then(|(left, right)| paired::noise_floor(&pairs(left, right, figure), seed));
        let comparison = paired::compare(&pairs(first, second, figure), floor, seed)?;
        Some(Compared { first: first.label.clone(), second: second.label.clone(), figure, comparison })
    };
    [Figure::Rate, Figure::ProcessorTime].into_iter().filter_map(compared).collect()
}

/// Compares the systems of one result with each other, interface by interface; if there are more than
/// `each_max` systems, each with the first. A system that took part twice gives the noise floor of its
/// comparisons.
pub fn of_result(result: &ResultFile, seed: u64, each_max: usize) -> Vec<Compared> {
    let sides = sides("", result);
    let systems = result.systems.iter().filter(|system| !system.is_limit).count();
    let mut found = Vec::new();
    for (index, first) in sides.iter().enumerate() {
        if systems > each_max && first.system != sides[0].system {
            break;
        }
        for second in sides[index + 1..].iter().filter(|second| second.interface == first.interface) {
            found.extend(compare(first, second, noise_of(&sides, first, second), seed));
        }
    }
    found
}

/// The source of the noise floor of two sides: a system of them that took part twice. There is none for a
/// system compared with itself.
pub fn noise_of<'s, 'a>(
    sides: &'s [Side<'a>],
    first: &Side<'_>,
    second: &Side<'_>,
) -> Option<(&'s Side<'a>, &'s Side<'a>)> {
    let is_itself = is_repeat(second.system, first.system) || is_repeat(first.system, second.system);
    let noise = repeated(sides, first).or_else(|| repeated(sides, second));
    noise.filter(|_| !is_itself)
}

/// The two turns of a side's system, where it took part twice.
fn repeated<'s, 'a>(sides: &'s [Side<'a>], of: &Side<'_>) -> Option<(&'s Side<'a>, &'s Side<'a>)> {
    let same = |side: &&Side<'_>| side.interface == of.interface;
    let name = of.system.split_once('#').map_or(of.system, |(name, _)| name);
    let first = sides.iter().filter(same).find(|side| side.system == name)?;
    let second = sides.iter().filter(same).find(|side| is_repeat(side.system, name))?;
    Some((first, second))
}

/// Whether two systems are the same: `nginx#2` is `nginx`.
fn is_repeat(name: &str, of: &str) -> bool {
    name.strip_prefix(of).is_some_and(|rest| rest.starts_with('#'))
}

impl Compared {
    /// The outcome, in a sentence.
    pub fn sentence(&self) -> String {
        let it = &self.comparison;
        let floor = match it.noise_floor {
            Some(floor) => format!("noise floor {:.1} %", floor * 100.0),
            None => "no noise floor was measured".to_owned(),
        };
        let figures = format!(
            "{:.3} times (95 %: {:.3} to {:.3}), {} pairs, {floor}",
            it.ratio.estimate, it.ratio.low, it.ratio.high, it.pairs
        );
        let title = self.figure.title();
        let name = |label: &str, other: &str| format!("{label} has more {title} than {other}");
        let conclusion = match it.conclusion {
            Conclusion::FirstHigher => name(&self.first, &self.second),
            Conclusion::SecondHigher => name(&self.second, &self.first),
            Conclusion::NoDifferenceShown => {
                format!("no difference shown between {} and {} in {title}", self.first, self.second)
            }
            Conclusion::TooFewPairs => {
                format!(
                    "too few pairs to compare {} and {} in {title}: {} are needed",
                    self.first,
                    self.second,
                    paired::FEWEST_PAIRS
                )
            }
        };
        format!("{conclusion}: {figures}.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use touchstone_http::split_mix::SplitMix;

    /// Two systems with seven mixes each, the first `ratio` times the second, with noise.
    fn result(ratio: f64, seed: u64) -> ResultFile {
        let mut generator = SplitMix(seed);
        let mut noise = || 1.0 + 0.01 * (generator.below(1001) as f64 / 500.0 - 1.0);
        let mut result = crate::sample::result();
        let clients = [1, 2, 4, 8, 16, 32, 64];
        let mut mixes = |scale: f64| {
            clients
                .map(|clients| crate::sample::mix(clients, 1000.0 * clients as f64 * scale * noise()))
                .to_vec()
        };
        (result.systems[0].mixes, result.systems[1].mixes) = (mixes(ratio), mixes(1.0));
        result
    }

    fn conclusions(result: &ResultFile) -> Vec<Conclusion> {
        let sides = sides("", result);
        compare(&sides[0], &sides[1], None, 1).into_iter().map(|it| it.comparison.conclusion).collect()
    }

    #[test]
    fn a_difference_is_shown_where_there_is_one_and_holds_the_truth() {
        let result = result(1.15, 1);
        let sides = sides("", &result);
        let found = compare(&sides[0], &sides[1], None, 1);
        assert!(found[0].comparison.ratio.holds(1.15), "{found:?}");
        // Of the sample the processor time falls as the rate rises.
        assert_eq!(conclusions(&result), [Conclusion::FirstHigher, Conclusion::SecondHigher]);
        assert!(
            found[0].sentence().starts_with("touchstone 0.1.0 has more requests/s than nginx 1.22.1: 1.1")
        );
    }

    #[test]
    fn the_same_system_twice_differs_by_nothing() {
        for seed in 0..10 {
            let (monday, tuesday) = (result(1.0, seed), result(1.0, seed + 50));
            let floor = (&sides("monday", &monday)[0], &sides("tuesday", &tuesday)[0]);
            let found = compare(floor.0, floor.1, Some(floor), 1);
            assert_eq!(found[0].comparison.conclusion, Conclusion::NoDifferenceShown);
            assert!(found[0].sentence().contains("no difference shown between touchstone 0.1.0 (monday)"));
        }
    }

    #[test]
    fn a_system_that_took_part_twice_gives_the_noise_floor() {
        let mut result = result(1.15, 4);
        let mut again = result.systems[0].clone();
        again.name = format!("{}#2", again.name);
        for (mix, noise) in again.mixes.iter_mut().zip([0.98, 1.02, 0.99, 1.01, 1.03, 0.97, 1.0]) {
            mix.requests_per_second *= noise;
        }
        result.systems.push(again);
        let found = of_result(&result, 1, 6);
        // Three systems by two figures; the pair of the one with itself has no floor but its own width.
        assert_eq!(found.len(), 6);
        let floors = found.iter().filter(|it| it.figure == Figure::Rate).map(|it| it.comparison.noise_floor);
        assert_eq!(floors.map(|floor| floor.is_some()).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(found[2].comparison.conclusion, Conclusion::NoDifferenceShown);
        assert_eq!(of_result(&result, 1, 2).len(), 4, "each with the first only");
    }

    #[test]
    fn only_what_both_completed_is_compared() {
        let mut result = result(1.5, 3);
        result.systems[0].mixes.truncate(5);
        result.systems[1].mixes[0].complete = false;
        assert_eq!(conclusions(&result), [Conclusion::TooFewPairs, Conclusion::TooFewPairs]);
        result.systems[1].mixes.iter_mut().for_each(|mix| mix.server = None);
        assert_eq!(conclusions(&result).len(), 1);
        result.systems[1].mixes.clear();
        assert!(conclusions(&result).is_empty());
    }
}
