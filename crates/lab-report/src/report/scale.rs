//! Scales of the charts: from values to places between 0 and 1, with ticks on numbers that a person would
//! choose.

/// The vertical scale of a chart.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ValueScale {
    /// From zero to `top`, a tick at every `step`.
    Linear {
        /// The value at the upper end, a multiple of `step`.
        top: f64,
        /// The distance of two ticks: 1, 2, 2.5 or 5 times a power of ten.
        step: f64,
    },
    /// By powers of ten, for values that spread too far for a scale that starts at zero.
    Logarithmic {
        /// The power of ten at the lower end.
        low: i32,
        /// The power of ten at the upper end.
        high: i32,
    },
}

impl ValueScale {
    /// A scale from zero that holds every value up to `largest`, with about `wanted` ticks: of the round
    /// steps that result in between half of that number and one more, the one that leaves the least room
    /// empty.
    pub(super) fn from_zero(largest: f64, wanted: usize) -> ValueScale {
        let largest = if largest.is_finite() && largest > 0.0 { largest.clamp(1e-300, 1e300) } else { 1.0 };
        let (fewest, most) = ((wanted as f64 / 2.0).ceil(), wanted as f64 + 1.0);
        let mut best: Option<(f64, f64)> = None;
        let mut step = nice_step(largest, wanted + 1);
        loop {
            // A value on the highest tick keeps its place there; the tolerance forgives the division's
            // rounding.
            let steps = (largest / step - 1e-9).ceil().max(1.0);
            if steps <= most && best.is_none_or(|(top, _)| steps * step < top * (1.0 - 1e-9)) {
                best = Some((steps * step, step));
            }
            if steps <= fewest {
                break;
            }
            step = nice_step(step * 1.01, 1);
        }
        let (top, step) = best.unwrap_or((largest, largest));
        ValueScale::Linear { top, step }
    }

    /// A scale by powers of ten that holds both.
    pub(super) fn logarithmic(smallest: f64, largest: f64) -> ValueScale {
        let exponent = |value: f64| {
            if value.is_finite() && value > 0.0 { value.log10().clamp(-12.0, 300.0) } else { 0.0 }
        };
        let low = (exponent(smallest) + 1e-9).floor() as i32;
        let high = ((exponent(largest) - 1e-9).ceil() as i32).max(low + 1);
        ValueScale::Logarithmic { low, high }
    }

    /// The position of a value: 0 at the lower end, 1 at the upper.
    pub(super) fn position(&self, value: f64) -> f64 {
        let place = match *self {
            ValueScale::Linear { top, .. } => value / top,
            ValueScale::Logarithmic { low, high } => {
                if value <= 0.0 {
                    0.0
                } else {
                    (value.log10() - f64::from(low)) / f64::from(high - low)
                }
            }
        };
        if place.is_finite() { place.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// The values that get a tick, rising.
    pub(super) fn ticks(&self) -> Vec<f64> {
        match *self {
            ValueScale::Linear { top, step } => {
                let steps = (top / step).round().clamp(1.0, 100.0) as u32;
                (0..=steps).map(|number| f64::from(number) * step).collect()
            }
            ValueScale::Logarithmic { low, high } => {
                let between: &[f64] = if high - low <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let mut ticks: Vec<f64> = (low..high)
                    .flat_map(|power| between.iter().map(move |factor| factor * 10f64.powi(power)))
                    .collect();
                ticks.push(10f64.powi(high));
                ticks
            }
        }
    }

    /// A tick as it is written: no more decimals than the ticks need, and zero without any.
    pub(super) fn tick_label(&self, value: f64) -> String {
        if value == 0.0 {
            return "0".to_owned();
        }
        let unit = match *self {
            ValueScale::Linear { step, .. } => step,
            ValueScale::Logarithmic { .. } => value,
        };
        super::number::grouped(value, decimals_of(unit))
    }
}

/// The scale of the loads: numbers of virtual clients, or arrivals a second where the loads are open.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ClientScale {
    counts: Vec<u64>,
    spacing: Spacing,
    is_open: bool,
}

/// How the numbers of clients are spaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spacing {
    /// In proportion to the number.
    Linear,
    /// In proportion to its logarithm: every doubling takes the same room.
    Doubling,
}

impl ClientScale {
    /// The scale for these numbers of clients. Powers of two, and numbers that spread by more than 16, are
    /// spaced by their logarithm.
    pub(super) fn new(counts: impl IntoIterator<Item = u64>) -> ClientScale {
        let mut counts: Vec<u64> = counts.into_iter().collect();
        counts.sort_unstable();
        counts.dedup();
        let powers = counts.len() > 1 && counts.iter().all(|count| count.is_power_of_two());
        let wide = match (counts.first(), counts.last()) {
            (Some(&first), Some(&last)) => first > 0 && last / first > 16,
            _ => false,
        };
        let spacing = if powers || wide { Spacing::Doubling } else { Spacing::Linear };
        ClientScale { counts, spacing, is_open: false }
    }

    /// The same, where the numbers are arrivals a second if `is_open`.
    pub(super) fn of_open_loads(self, is_open: bool) -> ClientScale {
        ClientScale { is_open, ..self }
    }

    /// Whether the numbers are arrivals a second.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// The title: what the numbers are.
    pub(super) fn title(&self) -> &'static str {
        if self.is_open { "arrivals a second" } else { "virtual clients" }
    }

    /// The same over a column.
    pub(super) fn head(&self) -> &'static str {
        if self.is_open { "Arrivals per second" } else { "Clients" }
    }

    /// One of the numbers in words.
    pub(super) fn in_words(&self, number: u64) -> String {
        if self.is_open {
            format!("{}\u{a0}arrivals/s", super::number::count(number))
        } else {
            super::words::clients(number)
        }
    }

    /// The spacing of the numbers.
    pub(super) fn spacing(&self) -> Spacing {
        self.spacing
    }

    /// The numbers of clients, each once, rising.
    pub(super) fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The position of a number of clients: 0 at the first, 1 at the last; a single number is in the middle.
    pub(super) fn position(&self, clients: f64) -> f64 {
        let (Some(&first), Some(&last)) = (self.counts.first(), self.counts.last()) else { return 0.5 };
        if first == last {
            return 0.5;
        }
        let place = match self.spacing {
            // From zero, so that the shape of the curve is true.
            Spacing::Linear => clients / last as f64,
            Spacing::Doubling => {
                let first = (first.max(1) as f64).log2();
                (clients.max(1.0).log2() - first) / ((last as f64).log2() - first)
            }
        };
        if place.is_finite() { place.clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// The scale of percentiles by the number of nines: 90 %, 99 % and 99.9 % have equal distances, so that the
/// tail with the slow answers gets most of the room.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NinesScale {
    nines: f64,
}

impl NinesScale {
    /// Room for the largest of `count` values, between one nine and six.
    pub(super) fn for_count(count: u64) -> NinesScale {
        NinesScale { nines: (count.max(1) as f64).log10().clamp(1.0, 6.0) }
    }

    /// The position of a percentile: 0 at 0 %, 1 at the last that has room.
    pub(super) fn position(&self, percentile: f64) -> f64 {
        let above = (1.0 - percentile / 100.0).max(1e-12);
        let place = -above.log10() / self.nines;
        if place.is_finite() { place.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// The percentile at the right end.
    pub(super) fn last(&self) -> f64 {
        100.0 * (1.0 - 10f64.powf(-self.nines))
    }

    /// The percentiles that get a tick, rising, with their labels.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        const TICKS: [(f64, &str); 9] = [
            (0.0, "0"),
            (50.0, "50"),
            (75.0, "75"),
            (90.0, "90"),
            (95.0, "95"),
            (99.0, "99"),
            (99.9, "99.9"),
            (99.99, "99.99"),
            (99.999, "99.999"),
        ];
        let end = self.last() + 1e-9;
        TICKS
            .iter()
            .filter(|tick| tick.0 <= end)
            .map(|&(value, label)| (value, format!("{label} %")))
            .collect()
    }
}

/// The distance of ticks: the least of 1, 2, 2.5, 5 times a power of ten that needs no more than `wanted` of
/// them.
pub(super) fn nice_step(largest: f64, wanted: usize) -> f64 {
    let least = largest / wanted.max(1) as f64;
    let power = 10f64.powf(least.log10().floor());
    let factor = [1.0, 2.0, 2.5, 5.0].into_iter().find(|factor| factor * power >= least * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

/// Moves the requested positions until each two differ by `gap`, within `low` and `high`, and moves them as
/// little as possible (least squares; pool adjacent violators). The result is in the order of the requests.
pub(super) fn spread(wishes: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    let Some(last) = wishes.len().checked_sub(1) else { return Vec::new() };
    let gap = if last == 0 { gap } else { gap.min((high - low) / last as f64) };
    let mut order: Vec<usize> = (0..wishes.len()).collect();
    order.sort_by(|&a, &b| wishes[a].total_cmp(&wishes[b]));
    // With the gaps taken out, the places must only not fall: blocks of (sum, members) are pooled until they
    // do not.
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    for (rank, &index) in order.iter().enumerate() {
        let mut block = (wishes[index] - rank as f64 * gap, 1);
        while let Some(&(sum, members)) = blocks.last() {
            if sum / members as f64 <= block.0 / block.1 as f64 {
                break;
            }
            block = (block.0 + sum, block.1 + members);
            blocks.pop();
        }
        blocks.push(block);
    }
    let highest = high - last as f64 * gap;
    let mut places = vec![0.0; wishes.len()];
    let mut rank = 0;
    for (sum, members) in blocks {
        let place = (sum / members as f64).clamp(low, highest.max(low));
        for _ in 0..members {
            places[order[rank]] = place + rank as f64 * gap;
            rank += 1;
        }
    }
    places
}

fn decimals_of(step: f64) -> usize {
    (0..9)
        .find(|&decimals| {
            let scaled = step * 10f64.powi(decimals);
            (scaled - scaled.round()).abs() < 1e-6 * scaled.abs().max(1e-9)
        })
        .unwrap_or(9) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(largest: f64) -> Vec<String> {
        let scale = ValueScale::from_zero(largest, 5);
        scale.ticks().into_iter().map(|tick| scale.tick_label(tick)).collect()
    }

    #[test]
    fn ticks_are_on_nice_numbers() {
        assert_eq!(labels(56_312.0), ["0", "10,000", "20,000", "30,000", "40,000", "50,000", "60,000"]);
        assert_eq!(labels(19_800.0), ["0", "5,000", "10,000", "15,000", "20,000"]);
        assert_eq!(labels(100.0), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(1.0), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(11.0), ["0", "2", "4", "6", "8", "10", "12"]);
        assert_eq!(labels(0.37), ["0", "0.1", "0.2", "0.3", "0.4"]);
        assert_eq!(labels(7.3), ["0", "2.5", "5.0", "7.5"]);
        assert_eq!(labels(48.0), ["0", "10", "20", "30", "40", "50"]);
    }

    #[test]
    fn every_scale_holds_its_largest_value() {
        let mut value = 1e-9;
        while value < 1e15 {
            let scale = ValueScale::from_zero(value, 5);
            let ticks = scale.ticks();
            assert!(ticks.len() >= 2 && ticks.len() <= 7, "{value}: {ticks:?}");
            assert!(ticks[ticks.len() - 1] >= value * (1.0 - 1e-8), "{value}: {ticks:?}");
            assert!(scale.position(value) > 0.5 && scale.position(value) <= 1.0, "{value}");
            value *= 1.37;
        }
    }

    #[test]
    fn hopeless_values_still_give_a_scale() {
        for value in [0.0, -5.0, f64::NAN, f64::INFINITY, 1e308, f64::MIN_POSITIVE] {
            let scale = ValueScale::from_zero(value, 5);
            assert!(scale.position(value).is_finite());
            assert!(scale.ticks().iter().all(|tick| tick.is_finite()), "{value}");
            let scale = ValueScale::logarithmic(value, value);
            assert!(scale.position(value).is_finite());
            assert!(scale.ticks().iter().all(|tick| tick.is_finite()), "{value}");
        }
    }

    #[test]
    fn a_logarithmic_scale_ends_on_powers_of_ten() {
        let scale = ValueScale::logarithmic(0.08, 31.0);
        assert_eq!(scale, ValueScale::Logarithmic { low: -2, high: 2 });
        assert_eq!(scale.ticks(), [0.01, 0.1, 1.0, 10.0, 100.0]);
        assert!((scale.position(1.0) - 0.5).abs() < 1e-12);
        assert_eq!(ValueScale::logarithmic(10.0, 100.0).ticks(), [10.0, 20.0, 50.0, 100.0]);
        let written: Vec<String> = scale.ticks().iter().map(|&tick| scale.tick_label(tick)).collect();
        assert_eq!(written, ["0.01", "0.1", "1", "10", "100"]);
    }

    #[test]
    fn powers_of_two_are_spaced_by_doubling() {
        let scale = ClientScale::new([16, 1, 4, 1, 64]);
        assert_eq!(scale.spacing(), Spacing::Doubling);
        assert_eq!(scale.counts(), [1, 4, 16, 64]);
        assert!((scale.position(8.0) - 0.5).abs() < 1e-12);
        let scale = ClientScale::new([12, 24, 48, 96, 120]);
        assert_eq!(scale.spacing(), Spacing::Linear);
        assert!((scale.position(60.0) - 0.5).abs() < 1e-12);
        assert_eq!(ClientScale::new([1, 10, 100]).spacing(), Spacing::Doubling);
        assert!((ClientScale::new([16]).position(16.0) - 0.5).abs() < 1e-12);
        assert!((ClientScale::new([]).position(16.0) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn nines_are_equally_far_apart() {
        let scale = NinesScale::for_count(1_000_000);
        let place = |percentile| scale.position(percentile);
        assert!((place(99.0) - place(90.0) - (place(99.9) - place(99.0))).abs() < 1e-9);
        assert_eq!(place(0.0), 0.0);
        assert_eq!(place(100.0), 1.0);
        assert_eq!(scale.ticks().last().map(|tick| tick.1.clone()), Some("99.999 %".to_owned()));
        let few = NinesScale::for_count(10);
        assert_eq!(few.ticks().last().map(|tick| tick.0), Some(90.0));
    }

    #[test]
    fn labels_are_moved_apart_and_stay_inside() {
        assert_eq!(spread(&[], 10.0, 0.0, 100.0), Vec::<f64>::new());
        assert_eq!(spread(&[50.0], 10.0, 0.0, 100.0), [50.0]);
        assert_eq!(spread(&[50.0, 50.0], 10.0, 0.0, 100.0), [45.0, 55.0]);
        assert_eq!(spread(&[90.0, 10.0], 10.0, 0.0, 100.0), [90.0, 10.0]);
        for wishes in [vec![0.0; 8], vec![100.0; 8], vec![3.0, 99.0, 2.0, 98.0, 97.0, 50.0]] {
            let mut places = spread(&wishes, 12.0, 0.0, 100.0);
            places.sort_by(f64::total_cmp);
            assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= 12.0 - 1e-9), "{places:?}");
            assert!(places[0] >= -1e-9 && places[places.len() - 1] <= 100.0 + 1e-9, "{places:?}");
        }
        // Too many for the room: they share it.
        let places = spread(&[0.0; 11], 50.0, 0.0, 100.0);
        assert!((places[10] - 100.0).abs() < 1e-9);
    }
}
