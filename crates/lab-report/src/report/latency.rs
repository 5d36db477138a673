//! Latency: its percentiles against the number of clients, a drawing for each system, and the whole
//! distribution at the peak, drawn by nines.

use maud::{Markup, html};

use super::chart::{Canvas, HorizontalAxis, LineChart, Point, Series, VerticalAxis};
use super::figure::{Figure, drawing};
use super::interval::{self, Ends};
use super::number;
use super::scale::{NinesScale, ValueScale};
use super::style::CURVES_MAX;
use super::table::{Part, Row, Table};
use super::view::{SystemView, View, drawable, is_lower_bound};
use super::words;
use touchstone_lab::result::{LatencyRecord, MixResult};

/// If the largest figure is this many times the fastest median, the scale has powers of ten: on one from zero
/// the fast curves would be flat.
const SPREAD_FOR_LOGARITHM: f64 = 25.0;

/// A figure of a latency record.
type Percentile = (&'static str, fn(&LatencyRecord) -> f64);

/// The percentiles that are drawn.
const DRAWN: [Percentile; 3] =
    [("p50", |latency| latency.p50_us), ("p95", |latency| latency.p95_us), ("p99", |latency| latency.p99_us)];

/// The figures of the table under each drawing.
const TABLED: [Percentile; 8] = [
    ("mean", |latency| latency.mean_us),
    ("min", |latency| latency.min_us),
    ("p50", |latency| latency.p50_us),
    ("p90", |latency| latency.p90_us),
    ("p95", |latency| latency.p95_us),
    ("p99", |latency| latency.p99_us),
    ("p99.9", |latency| latency.p999_us),
    ("max", |latency| latency.max_us),
];

/// The figures on the percentile curve, with their percentile.
const MARKED: [(f64, Percentile); 6] = [
    (50.0, ("50 %", |latency| latency.p50_us)),
    (90.0, ("90 %", |latency| latency.p90_us)),
    (95.0, ("95 %", |latency| latency.p95_us)),
    (99.0, ("99 %", |latency| latency.p99_us)),
    (99.9, ("99.9 %", |latency| latency.p999_us)),
    (100.0, ("largest", |latency| latency.max_us)),
];

/// The section of all latency figures.
pub(super) fn section(view: &View) -> Markup {
    let mut measured: Vec<(usize, &SystemView)> =
        view.systems.iter().enumerate().filter(|(_, system)| !system.mixes.is_empty()).collect();
    measured.sort_by_key(|(_, system)| system.rank);
    let further = measured.split_off(measured.len().min(CURVES_MAX));
    let (canvas, class) = match measured.len() {
        0 | 1 if view.clients.counts().len() < 2 => (Canvas::HALF, "figures"),
        0 | 1 => (Canvas::WIDE, "figures"),
        2 | 4 => (Canvas::HALF, "figures two"),
        _ => (Canvas::THIRD, "figures three"),
    };
    let axis = Axis::of_figures(drawn(view), drawn(view).fold(f64::INFINITY, f64::min), 5);
    html! {
        section aria-labelledby="latency" {
            h2 id="latency" { "Latency" }
            p class="lead" {
                "From the start of the connection, or of the request on a kept one, to the last byte of the \
                 answer. p50 is the median: half of the answers came sooner; of a hundred answers, one took \
                 longer than p99. "
                @if view.clients.is_open() {
                    "The load is open: a latency counts from the moment when its request was due, so that \
                     a server that stands still shows it in every request that it held up. "
                }
                (axis.in_words(measured.len() + further.len()))
            }
            div class=(class) {
                @for (index, system) in measured { (by_clients(view, index, system, &axis, canvas).write()) }
            }
            @if !further.is_empty() {
                details class="further-curves" {
                    summary { (further.len()) " more of them" }
                    div class=(class) {
                        @for (index, system) in further {
                            (by_clients(view, index, system, &axis, canvas).write())
                        }
                    }
                }
            }
            (at_the_peak(view).write())
        }
    }
}

/// All figures that are drawn against clients, of every run, as their intervals hold them all; microseconds.
fn drawn(view: &View) -> impl Iterator<Item = f64> {
    let mixes = view.systems.iter().flat_map(|system| system.runs.iter().flatten());
    mixes.flat_map(|mix| DRAWN.iter().map(|(_, figure)| figure(&mix.latency))).filter_map(drawable)
}

fn by_clients(view: &View, index: usize, system: &SystemView, axis: &Axis, canvas: Canvas) -> Figure {
    let series: Vec<Series> = DRAWN
        .iter()
        .enumerate()
        .map(|(number, (name, figure))| Series {
            label: (*name).to_owned(),
            style: system.style.variant(number),
            rank: number,
            points: system.mixes.iter().map(|mix| point(name, system, mix, *figure, &axis.unit)).collect(),
        })
        .collect();
    let chart = LineChart {
        id: format!("latency-{index}"),
        title: format!("Latency percentiles of {} against {}", system.label, view.clients.title()),
        description: growth(system),
        across: HorizontalAxis::Clients(view.clients.clone()),
        upward: axis.upward(),
        series,
    };
    Figure {
        id: format!("latency-{index}"),
        heading: system.label.clone(),
        caption: growth(system),
        drawing: drawing(chart, canvas),
        tables: vec![table(view, system)],
    }
}

fn point(
    name: &str,
    system: &SystemView,
    mix: &MixResult,
    figure: fn(&LatencyRecord) -> f64,
    unit: &Unit,
) -> Point {
    let value = drawable(figure(&mix.latency));
    let scaled = |ends: Ends| Ends { low: ends.low / unit.microseconds, high: ends.high / unit.microseconds };
    Point {
        across: mix.load() as f64,
        value: value.map(|value| value / unit.microseconds),
        words: value.map(|value| format!("{name}, {}: {} ms", words::load(mix), number::milliseconds(value))),
        lower_bound: is_lower_bound(system.system, mix),
        interval: interval::of_runs(system.runs_of(mix), &|run| Some(figure(&run.latency)), false)
            .map(scaled),
    }
}

/// The message of a system's curves, in a sentence.
fn growth(system: &SystemView) -> String {
    let median_words =
        |mix: &MixResult| format!("{} with {}", number::latency(mix.latency.p50_us), words::load(mix));
    match (system.mixes.first(), system.mixes.last()) {
        (Some(first), Some(last)) if first.load() != last.load() => {
            format!(
                "Median {}, {}; p99 there {}.",
                median_words(first),
                median_words(last),
                number::latency(last.latency.p99_us)
            )
        }
        (Some(only), _) => {
            format!("Median {}; p99 {}.", median_words(only), number::latency(only.latency.p99_us))
        }
        _ => String::new(),
    }
}

fn table(view: &View, system: &SystemView) -> Table {
    let columns: Vec<String> = std::iter::once(view.clients.head().to_owned())
        .chain(TABLED.iter().map(|(name, _)| (*name).to_owned()))
        .collect();
    let rows = system
        .mixes
        .iter()
        .map(|mix| {
            let cells = TABLED.iter().map(|(_, figure)| number::milliseconds(figure(&mix.latency))).collect();
            Row::new(view.mix_label(&super::view::MixKey::of(mix)), cells).strong(system.is_peak(mix))
        })
        .collect();
    Table {
        caption: format!("Latency of {}, milliseconds", system.label),
        columns,
        parts: vec![Part { heading: None, rows }],
        ..Table::default()
    }
}

/// The distribution of every system at its peak.
fn at_the_peak(view: &View) -> Figure {
    let peaks: Vec<(&SystemView, &MixResult)> =
        view.systems.iter().filter_map(|system| Some((system, system.peak?))).collect();
    let values = peaks.iter().flat_map(|(_, peak)| curve(&peak.latency).into_iter().map(|(_, value)| value));
    let medians = peaks.iter().filter_map(|(_, peak)| drawable(peak.latency.p50_us));
    let axis = Axis::of_figures(values, medians.fold(f64::INFINITY, f64::min), 6);
    let count = peaks.iter().map(|(_, peak)| peak.latency.count).max().unwrap_or(1);
    let chart = LineChart {
        id: "percentiles".to_owned(),
        title: "Latency by percentile at the peak".to_owned(),
        description: tails(&peaks),
        across: HorizontalAxis::Percentiles(NinesScale::for_count(count)),
        upward: axis.upward(),
        series: peaks.iter().map(|(system, peak)| distribution(system, peak, &axis.unit)).collect(),
    };
    Figure {
        id: "percentiles".to_owned(),
        heading: "The whole distribution at the peak".to_owned(),
        caption: format!(
            "How long the answers took, each system at {}: read off how many \
             percent came within how long. The slowest tenth, hundredth and thousandth get as much room as \
             all the rest{}. {}{}",
            if view.clients.is_open() {
                "the highest rate that it carried"
            } else {
                "the mix of its highest rate"
            },
            if axis.is_logarithmic() { ", and the latencies are spaced by powers of ten" } else { "" },
            tails(&peaks),
            stall(&peaks, view).map(|sentence| format!(" {sentence}")).unwrap_or_default(),
        ),
        drawing: drawing(chart, Canvas::WIDE),
        tables: vec![peak_table(view, &peaks)],
    }
}

fn distribution(system: &SystemView, peak: &MixResult, unit: &Unit) -> Series {
    let latency = &peak.latency;
    let bare = |(across, value): (f64, f64)| Point {
        across,
        value: Some(value / unit.microseconds),
        words: None,
        lower_bound: false,
        interval: None,
    };
    let mut points: Vec<Point> = curve(latency).into_iter().map(bare).collect();
    for (percentile, (name, figure)) in MARKED {
        let Some(value) = drawable(figure(latency)) else { continue };
        let across = if percentile < 100.0 { percentile } else { place_of_largest(latency) };
        let words =
            format!("{}, {}, {name}: {} ms", system.label, words::load(peak), number::milliseconds(value));
        points.push(Point {
            across,
            value: Some(value / unit.microseconds),
            words: Some(words),
            lower_bound: is_lower_bound(system.system, peak),
            interval: None,
        });
    }
    points.sort_by(|a, b| {
        a.across.total_cmp(&b.across).then(a.value.unwrap_or(0.0).total_cmp(&b.value.unwrap_or(0.0)))
    });
    Series { label: system.label.clone(), style: system.style, rank: system.rank, points }
}

/// The effect of the longest answer on an open loop: clients of a closed loop send no requests while they
/// wait, so a stall affects few of their answers. Empty if no answer took much longer than the others.
fn stall(peaks: &[(&SystemView, &MixResult)], view: &View) -> Option<String> {
    const TIMES_P99: f64 = 5.0;
    if view.clients.is_open() {
        return None;
    }
    let unusual = |(_, peak): &&(&SystemView, &MixResult)| {
        drawable(peak.latency.max_us).is_some_and(|longest| longest > TIMES_P99 * peak.latency.p99_us)
            && drawable(peak.requests_per_second).is_some()
    };
    let longest = |(_, peak): &(&SystemView, &MixResult)| peak.latency.max_us;
    let (system, peak) =
        peaks.iter().filter(unusual).max_by(|left, right| longest(left).total_cmp(&longest(right)))?;
    let (wait_us, rate) = (peak.latency.max_us, peak.requests_per_second);
    let arrivals = rate * wait_us / 1e6;
    let which = if view.systems.len() > 1 { format!(" of {}", system.label) } else { String::new() };
    (arrivals > peak.clients as f64).then(|| {
        format!(
            "The longest answer{which} took {}: if the server stood still for it, {} of this closed loop \
             waited, and an open loop of as many requests a second would have had {} arrive meanwhile, which \
             had waited {} on average.",
            number::latency(wait_us),
            words::load(peak),
            number::grouped(arrivals, 0),
            number::latency(wait_us / 2.0),
        )
    })
}

/// The points of the curve that can be drawn, with the largest value at its own place.
fn curve(latency: &LatencyRecord) -> Vec<(f64, f64)> {
    let end = place_of_largest(latency);
    latency
        .curve
        .iter()
        .filter(|(percentile, value)| percentile.is_finite() && drawable(*value).is_some())
        .map(|&(percentile, value)| (percentile.clamp(0.0, end), value))
        .collect()
}

/// The percentile at which the largest of the values is drawn; 100 % itself is at infinity.
fn place_of_largest(latency: &LatencyRecord) -> f64 {
    100.0 * (1.0 - 1.0 / latency.count.max(2) as f64)
}

fn tails(peaks: &[(&SystemView, &MixResult)]) -> String {
    // The table has the figures of very many.
    let peaks: &[(&SystemView, &MixResult)] = if peaks.len() > CURVES_MAX { &[] } else { peaks };
    let parts: Vec<String> = peaks
        .iter()
        .map(|(system, peak)| {
            format!("{}: {} with {}", system.label, number::latency(peak.latency.p99_us), words::load(peak))
        })
        .collect();
    if parts.is_empty() { String::new() } else { format!("99 % came within \u{2013} {}.", parts.join("; ")) }
}

fn peak_table(view: &View, peaks: &[(&SystemView, &MixResult)]) -> Table {
    let columns: Vec<String> =
        ["System".to_owned(), view.clients.head().to_owned(), "Answers".to_owned(), "smallest".to_owned()]
            .into_iter()
            .chain(MARKED.iter().map(|(_, (name, _))| (*name).to_owned()))
            .collect();
    let rows = peaks
        .iter()
        .map(|(system, peak)| {
            let latency = &peak.latency;
            let mut cells = vec![
                number::count(peak.load()),
                number::count(latency.count),
                number::milliseconds(latency.min_us),
            ];
            cells.extend(MARKED.iter().map(|(_, (_, figure))| number::milliseconds(figure(latency))));
            Row::new(system.label.clone(), cells)
        })
        .collect();
    Table {
        caption: "Latency at the peak, milliseconds; every figure is the latency that so many percent did \
                  not exceed"
            .to_owned(),
        columns,
        words: vec![0],
        parts: vec![Part { heading: None, rows }],
        ..Table::default()
    }
}

/// The vertical axis of latencies, shared by all drawings that are to be compared.
struct Axis {
    scale: ValueScale,
    unit: Unit,
}

impl Axis {
    /// An axis that holds all the figures, microseconds, with about this many ticks; the fastest median and
    /// the largest figure decide the spacing.
    fn of_figures(figures: impl Iterator<Item = f64>, quickest_us: f64, ticks: usize) -> Axis {
        let (mut smallest, mut largest) = (f64::INFINITY, 0.0);
        for figure in figures.filter(|figure| *figure > 0.0) {
            (smallest, largest) = (f64::min(smallest, figure), f64::max(largest, figure));
        }
        let unit = Unit::for_largest(largest);
        let (low, high) = (smallest / unit.microseconds, largest / unit.microseconds);
        let scale = if quickest_us > 0.0 && largest > SPREAD_FOR_LOGARITHM * quickest_us {
            ValueScale::logarithmic(low, high)
        } else {
            ValueScale::from_zero(high, ticks)
        };
        Axis { scale, unit }
    }

    fn is_logarithmic(&self) -> bool {
        matches!(self.scale, ValueScale::Logarithmic { .. })
    }

    fn upward(&self) -> VerticalAxis {
        let kind = if self.is_logarithmic() { " (log scale)" } else { "" };
        VerticalAxis { scale: self.scale.clone(), unit: format!("{}{kind}", self.unit.name), second: None }
    }

    /// A note on how to read the drawings.
    fn in_words(&self, drawings: usize) -> String {
        let mut words = String::new();
        if self.is_logarithmic() {
            words.push_str(
                "Latencies are spaced by powers of ten, so that the quick can be read beside the slow: the \
                 same distance upwards is the same factor. ",
            );
        }
        if drawings > 1 {
            words.push_str("All drawings have the same scale.");
        }
        words
    }
}

/// The unit of a latency axis.
struct Unit {
    name: &'static str,
    microseconds: f64,
}

impl Unit {
    fn for_largest(microseconds: f64) -> Unit {
        match microseconds {
            largest if largest < 1000.0 => Unit { name: "µs", microseconds: 1.0 },
            largest if largest < 10_000_000.0 => Unit { name: "ms", microseconds: 1000.0 },
            _ => Unit { name: "s", microseconds: 1_000_000.0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quick_is_not_flat_beside_the_slow() {
        // A static file in 0.1 ms and CGI in 30 ms.
        let axis = Axis::of_figures([100.0, 250.0, 8_000.0, 30_000.0].into_iter(), 100.0, 5);
        assert!(axis.is_logarithmic() && axis.upward().unit == "ms (log scale)");
        let height = |microseconds: f64| axis.scale.position(microseconds / axis.unit.microseconds);
        assert!(height(250.0) - height(100.0) > 0.1, "{}", height(250.0) - height(100.0));
        assert!(axis.in_words(2).ends_with("All drawings have the same scale."));
        // Figures of one order of magnitude are drawn from zero, so that heights are proportions.
        let axis = Axis::of_figures([100.0, 250.0].into_iter(), 100.0, 5);
        assert_eq!((axis.is_logarithmic(), axis.upward().unit.as_str()), (false, "µs"));
        assert_eq!(axis.in_words(1), "");
        // An axis exists without figures, too.
        assert!(!Axis::of_figures(std::iter::empty(), f64::INFINITY, 5).is_logarithmic());
    }
}
