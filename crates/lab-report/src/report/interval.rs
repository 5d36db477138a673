//! The interval of a drawn figure: for several runs of a mix that of their median, for a single run that of
//! its rate by its seconds, and otherwise none.

use super::view::{View, drawable};
use touchstone_lab::result::MixResult;
use touchstone_lab::statistics::bootstrap;

/// The seed of the bootstrap: the same result always makes the same page.
const SEED: u64 = 1;
/// With fewer runs the interval of a median is the range of the runs (`bootstrap::of_median`), which needs no
/// drawing.
const RUNS_FOR_BOOTSTRAP: usize = 6;
/// The fewest samples of a window that allow an interval of its mean.
const SAMPLES_MIN: usize = 4;

/// The two ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ends {
    /// The lower end.
    pub(super) low: f64,
    /// The upper end.
    pub(super) high: f64,
}

/// The interval of a figure over the runs of a mix. With a single run only a rate has one: `follows_rate`
/// states that the figure is proportional to it.
pub(super) fn of_runs(
    runs: &[&MixResult],
    figure: &dyn Fn(&MixResult) -> Option<f64>,
    follows_rate: bool,
) -> Option<Ends> {
    let whole: Vec<&MixResult> = runs.iter().copied().filter(|run| run.complete).collect();
    match whole[..] {
        [] => None,
        [run] if follows_rate => of_window(run, figure(run).and_then(drawable)?),
        [_] => None,
        _ => of_values(&whole.iter().filter_map(|run| figure(run).and_then(drawable)).collect::<Vec<_>>()),
    }
}

fn of_values(values: &[f64]) -> Option<Ends> {
    if values.len() < 2 {
        return None;
    }
    if values.len() >= RUNS_FOR_BOOTSTRAP {
        let interval = bootstrap::of_median(values, SEED)?;
        return Some(Ends { low: interval.low, high: interval.high });
    }
    Some(Ends {
        low: values.iter().copied().fold(f64::INFINITY, f64::min),
        high: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    })
}

/// The mean of the counted seconds, drawn in blocks, in the unit of the figure.
fn of_window(run: &MixResult, value: f64) -> Option<Ends> {
    let end_s = run.length_s - run.ramp_down_s;
    let counted =
        run.timeline.iter().filter(|row| row.at_s >= run.ramp_up_s - 0.05 && row.at_s < end_s - 0.5);
    let rates: Vec<f64> = counted.filter_map(|row| drawable(row.requests_per_second)).collect();
    if rates.len() < SAMPLES_MIN {
        return None;
    }
    let interval = bootstrap::of_series_mean(&rates, SEED)?;
    let ends = |bound: f64| value * bound / interval.estimate;
    let (low, high) = (drawable(ends(interval.low))?, drawable(ends(interval.high))?);
    Some(Ends { low, high })
}

/// What the bars of the charts are, in a sentence.
pub(super) fn in_words(view: &View) -> String {
    match view.most_runs() {
        0 | 1 => {
            "Each mix was run once. A bar on a rate is what the seconds of that run tell of its mean (95 %, \
             bootstrap of blocks); another run may differ by more. A window of fewer than four samples \
             has no bar."
                .to_owned()
        }
        runs if runs < RUNS_FOR_BOOTSTRAP => format!(
            "A point is the run of the median rate among up to {runs}, a bar from the lowest to the highest \
             of them: fewer than six runs bound no median at 95 %."
        ),
        runs => format!(
            "A point is the run of the median rate among up to {runs}, a bar the interval of the median (95 \
             %, bootstrap)."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(mix: &MixResult) -> Option<f64> {
        Some(mix.requests_per_second)
    }

    #[test]
    fn few_runs_give_their_range_and_many_an_interval_within_it() {
        let mixes: Vec<MixResult> =
            (0..9).map(|run| touchstone_lab::sample::mix(4, 1000.0 + f64::from(run))).collect();
        let three: Vec<&MixResult> = mixes[..3].iter().collect();
        assert_eq!(of_runs(&three, &rate, true), Some(Ends { low: 1000.0, high: 1002.0 }));
        let all: Vec<&MixResult> = mixes.iter().collect();
        let ends = of_runs(&all, &rate, true).unwrap();
        assert!(
            ends.low >= 1000.0 && ends.low < 1004.0 && ends.high > 1004.0 && ends.high <= 1008.0,
            "{ends:?}"
        );
    }

    #[test]
    fn a_lone_run_has_an_interval_of_its_rate_only_and_a_short_one_none() {
        let mut mix = touchstone_lab::sample::mix(4, 1000.0);
        for (row, rate) in mix.timeline.iter_mut().zip([0.0, 950.0, 1050.0, 990.0, 1010.0, 1000.0, 0.0]) {
            row.requests_per_second = rate;
        }
        let ends = of_runs(&[&mix], &rate, true).unwrap();
        assert!(
            ends.low > 950.0 && ends.low < 1000.0 && ends.high > 1000.0 && ends.high < 1050.0,
            "{ends:?}"
        );
        assert_eq!(of_runs(&[&mix], &rate, false), None);
        mix.timeline.truncate(3);
        assert_eq!(of_runs(&[&mix], &rate, true), None);
        mix.complete = false;
        assert_eq!(of_runs(&[&mix], &rate, true), None);
        assert_eq!(of_runs(&[], &rate, true), None);
    }
}
