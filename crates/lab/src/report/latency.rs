//! Latency: its percentiles against the number of clients, a drawing for each system, and the whole distribution at
//! the peak, drawn by nines.

use maud::{Markup, html};

use super::chart::{Across, Canvas, LineChart, Point, Series, Upward};
use super::figure::{Figure, both, legend};
use super::interval::{self, Ends};
use super::number;
use super::scale::{NinesScale, ValueScale};
use super::table::{Part, Row, Table};
use super::view::{SystemView, View, drawable, is_lower_bound};
use super::words;
use crate::result::{LatencyRecord, MixResult};

/// A slowest answer so many times the quickest median takes a scale by powers of ten.
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

/// The figures that stand on the percentile curve, with their percentile.
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
    let measured: Vec<(usize, &SystemView)> =
        view.systems.iter().enumerate().filter(|(_, system)| !system.mixes.is_empty()).collect();
    let (canvas, class) = match measured.len() {
        0 | 1 if view.clients.counts().len() < 2 => (Canvas::HALF, "figures"),
        0 | 1 => (Canvas::WIDE, "figures"),
        2 | 4 => (Canvas::HALF, "figures two"),
        _ => (Canvas::THIRD, "figures three"),
    };
    let unit = Unit::for_largest(largest(view));
    html! {
        section aria-labelledby="latency" {
            h2 id="latency" { "Latency" }
            p class="lead" {
                "From the start of the connection, or of the request on a kept one, to the last byte of the answer. \
                 p50 is the median: half of the answers came sooner; of a hundred answers, one took longer than p99. "
                @if measured.len() > 1 { "All drawings have the same scale." }
            }
            div class=(class) {
                @for (index, system) in measured { (by_clients(view, index, system, &unit, canvas).write()) }
            }
            (at_the_peak(view).write())
        }
    }
}

/// The largest figure of all that are drawn against clients, microseconds.
fn largest(view: &View) -> f64 {
    view.systems
        .iter()
        .flat_map(|system| system.runs.iter().flatten())
        .flat_map(|mix| DRAWN.iter().map(|(_, figure)| figure(&mix.latency)))
        .filter_map(drawable)
        .fold(0.0, f64::max)
}

fn by_clients(view: &View, index: usize, system: &SystemView, unit: &Unit, canvas: Canvas) -> Figure {
    let series: Vec<Series> = DRAWN
        .iter()
        .enumerate()
        .map(|(number, (name, figure))| Series {
            label: (*name).to_owned(),
            style: system.style.variant(number),
            points: system.mixes.iter().map(|mix| point(name, system, mix, *figure, unit)).collect(),
        })
        .collect();
    let chart = LineChart {
        id: format!("latency-{index}"),
        title: format!("Latency percentiles of {} against virtual clients", system.label),
        description: growth(system),
        across: Across::Clients(view.clients.clone()),
        upward: Upward {
            scale: ValueScale::from_zero(largest(view) / unit.microseconds, 5),
            unit: unit.name.to_owned(),
            second: None,
        },
        series,
    };
    Figure {
        id: format!("latency-{index}"),
        heading: system.label.clone(),
        caption: growth(system),
        legend: legend(&chart, canvas),
        drawing: (!chart.is_empty()).then(|| both(&chart, canvas)),
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
        across: mix.clients as f64,
        value: value.map(|value| value / unit.microseconds),
        words: value.map(|value| {
            format!("{name}, {}: {} ms", words::clients(mix.clients), number::milliseconds(value))
        }),
        lower_bound: is_lower_bound(mix),
        interval: interval::of_runs(system.runs_of(mix), &|run| Some(figure(&run.latency)), false)
            .map(scaled),
    }
}

/// What the curves of a system say, in a sentence.
fn growth(system: &SystemView) -> String {
    let told = |mix: &MixResult| {
        format!("{} with {}", number::latency(mix.latency.p50_us), words::clients(mix.clients))
    };
    match (system.mixes.first(), system.mixes.last()) {
        (Some(first), Some(last)) if first.clients != last.clients => {
            format!(
                "Median {}, {}; p99 there {}.",
                told(first),
                told(last),
                number::latency(last.latency.p99_us)
            )
        }
        (Some(only), _) => format!("Median {}; p99 {}.", told(only), number::latency(only.latency.p99_us)),
        _ => String::new(),
    }
}

fn table(view: &View, system: &SystemView) -> Table {
    let columns: Vec<String> = std::iter::once("Clients".to_owned())
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
    let values: Vec<f64> = peaks
        .iter()
        .flat_map(|(_, peak)| curve(&peak.latency).into_iter().map(|(_, value)| value))
        .filter(|&value| value > 0.0)
        .collect();
    let largest = values.iter().copied().fold(0.0, f64::max);
    let median =
        peaks.iter().filter_map(|(_, peak)| drawable(peak.latency.p50_us)).fold(f64::INFINITY, f64::min);
    let unit = Unit::for_largest(largest);
    let logarithmic = median > 0.0 && largest > SPREAD_FOR_LOGARITHM * median;
    let scale = if logarithmic {
        let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
        ValueScale::logarithmic(smallest / unit.microseconds, largest / unit.microseconds)
    } else {
        ValueScale::from_zero(largest / unit.microseconds, 6)
    };
    let count = peaks.iter().map(|(_, peak)| peak.latency.count).max().unwrap_or(1);
    let chart = LineChart {
        id: "percentiles".to_owned(),
        title: "Latency by percentile at the peak".to_owned(),
        description: tails(&peaks),
        across: Across::Percentiles(NinesScale::for_count(count)),
        upward: Upward { scale, unit: unit.name.to_owned(), second: None },
        series: peaks.iter().map(|(system, peak)| distribution(system, peak, &unit)).collect(),
    };
    Figure {
        id: "percentiles".to_owned(),
        heading: "The whole distribution at the peak".to_owned(),
        caption: format!(
            "How long the answers took, each system at the mix of its highest rate: read off how many percent came \
             within how long. The slowest tenth, hundredth and thousandth get as much room as all the rest{}. {}",
            if logarithmic { ", and the latencies are spaced by powers of ten" } else { "" },
            tails(&peaks)
        ),
        legend: legend(&chart, Canvas::WIDE),
        drawing: (!chart.is_empty()).then(|| both(&chart, Canvas::WIDE)),
        tables: vec![peak_table(&peaks)],
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
        let words = format!(
            "{}, {}, {name}: {} ms",
            system.label,
            words::clients(peak.clients),
            number::milliseconds(value)
        );
        points.push(Point {
            across,
            value: Some(value / unit.microseconds),
            words: Some(words),
            lower_bound: is_lower_bound(peak),
            interval: None,
        });
    }
    points.sort_by(|a, b| {
        a.across.total_cmp(&b.across).then(a.value.unwrap_or(0.0).total_cmp(&b.value.unwrap_or(0.0)))
    });
    Series { label: system.label.clone(), style: system.style, points }
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

/// The percentile at which the largest of the values is drawn; 100 % itself lies at infinity.
fn place_of_largest(latency: &LatencyRecord) -> f64 {
    100.0 * (1.0 - 1.0 / latency.count.max(2) as f64)
}

fn tails(peaks: &[(&SystemView, &MixResult)]) -> String {
    let told: Vec<String> = peaks
        .iter()
        .map(|(system, peak)| {
            format!(
                "{}: {} with {}",
                system.label,
                number::latency(peak.latency.p99_us),
                words::clients(peak.clients)
            )
        })
        .collect();
    if told.is_empty() { String::new() } else { format!("99 % came within \u{2013} {}.", told.join("; ")) }
}

fn peak_table(peaks: &[(&SystemView, &MixResult)]) -> Table {
    let columns: Vec<String> =
        ["System".to_owned(), "Clients".to_owned(), "Answers".to_owned(), "smallest".to_owned()]
            .into_iter()
            .chain(MARKED.iter().map(|(_, (name, _))| (*name).to_owned()))
            .collect();
    let rows = peaks
        .iter()
        .map(|(system, peak)| {
            let latency = &peak.latency;
            let mut cells = vec![
                number::count(peak.clients),
                number::count(latency.count),
                number::milliseconds(latency.min_us),
            ];
            cells.extend(MARKED.iter().map(|(_, (_, figure))| number::milliseconds(figure(latency))));
            Row::new(system.label.clone(), cells)
        })
        .collect();
    Table {
        caption: "Latency at the peak, milliseconds; every figure is the latency that so many percent did not exceed"
            .to_owned(),
        columns,
        words: vec![0],
        parts: vec![Part { heading: None, rows }],
        ..Table::default()
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
