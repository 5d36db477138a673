//! The fairness strip: at each system's peak, one dot for each virtual client, by its number of answers and
//! its mean latency. Dots in one heap mean that all clients were served equally; distant dots mean that some
//! clients waited for others.

use maud::{Markup, html};

use super::figure::Figure;
use super::number;
use super::scale::ValueScale;
use super::style::pixel;
use super::table::{Part, Row, Table};
use super::view::{SystemView, View, drawable};
use super::words::{self, fitted, width};
use touchstone_lab::result::{ClientRow, MixResult};

/// The most dots in a strip; with more clients each dot represents several.
const DOTS_MAX: usize = 500;
/// The smallest radius of a dot, pixels.
const RADIUS_MIN: f64 = 2.0;

/// The section of fairness.
pub(super) fn section(view: &View) -> Markup {
    html! {
        section aria-labelledby="fair" {
            h2 id="fair" { "Fairness between clients" }
            @if view.clients.is_open() {
                p { "The load is open: an arrival takes any client that is free, so that clients are not \
                     users and need not be served equally." }
            } @else {
                (figure(view).write())
            }
        }
    }
}

/// What the dots show.
struct Measure {
    /// Part of the drawing's id.
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    /// The unit in the words of a dot.
    short: &'static str,
    /// A client's figure, with the mean of the mix's requests for a client.
    value: fn(&ClientRow, f64) -> f64,
    write: fn(f64) -> String,
}

const MEASURES: [Measure; 2] = [
    Measure {
        name: "requests",
        title: "Requests answered to each client",
        unit: "% of the mean",
        short: "% of the mean",
        value: |row, mean| row.requests as f64 / mean * 100.0,
        write: |value| number::grouped(value, 1),
    },
    Measure {
        name: "latency",
        title: "Mean latency of each client",
        unit: "mean latency, ms",
        short: "ms",
        value: |row, _| row.mean_us / 1000.0,
        write: |value| number::grouped(value, 3),
    },
];

fn figure(view: &View) -> Figure {
    let peaks: Vec<(&SystemView, &MixResult)> = view
        .systems
        .iter()
        .filter_map(|system| Some((system, system.peak?)))
        .filter(|(_, peak)| !peak.client_rows.is_empty())
        .collect();
    let most = peaks.iter().map(|(_, peak)| peak.client_rows.len()).max().unwrap_or(0);
    let each = if most > DOTS_MAX {
        format!("One dot stands for up to {} clients.", most.div_ceil(DOTS_MAX))
    } else {
        "One dot a virtual client.".to_owned()
    };
    Figure {
        id: "fairness".to_owned(),
        heading: "Every client at the peak".to_owned(),
        caption: format!("{each} Close together is fair: all were served equally. {}", evenness(&peaks)),
        drawing: (!peaks.is_empty()).then(|| {
            html! {
                div class="figures two" {
                    @for measure in &MEASURES {
                        div { (draw(measure, &peaks, HALF)) (draw(measure, &peaks, NARROW)) }
                    }
                }
            }
        }),
        tables: peaks.iter().map(|(system, peak)| table(system, peak)).collect(),
    }
}

/// The requests of a client if all were served equally.
fn mean_requests(peak: &MixResult) -> f64 {
    let sum: f64 = peak.client_rows.iter().map(|row| row.requests as f64).sum();
    (sum / peak.client_rows.len().max(1) as f64).max(f64::MIN_POSITIVE)
}

/// The busiest client against the quietest, in a sentence.
fn evenness(peaks: &[(&SystemView, &MixResult)]) -> String {
    let parts: Vec<String> = peaks
        .iter()
        .filter(|(_, peak)| peak.client_rows.len() > 1)
        .filter_map(|(system, peak)| {
            let requests = || peak.client_rows.iter().map(|row| row.requests);
            let (low, high) = (requests().min()?, requests().max()?);
            let times = if low == 0 {
                "a client without any answer".to_owned()
            } else {
                format!("{} times", number::grouped(high as f64 / low as f64, 2))
            };
            Some(format!("{}: {times} ({})", system.label, words::load(peak)))
        })
        .collect();
    if parts.is_empty() {
        return String::new();
    }
    format!("The requests of the busiest client against those of the quietest \u{2013} {}.", parts.join("; "))
}

/// The paper, pixels.
#[derive(Clone, Copy)]
struct Sheet {
    name: &'static str,
    width: f64,
}

const HALF: Sheet = Sheet { name: "wide", width: 516.0 };
const NARROW: Sheet = Sheet { name: "narrow", width: 336.0 };
const LEFT: f64 = 4.0;
const LABEL: f64 = 20.0;
const STRIP: f64 = 58.0;
const ROW: f64 = LABEL + STRIP + 10.0;
const TOP: f64 = 22.0;
const FOOT: f64 = 46.0;

fn draw(measure: &Measure, peaks: &[(&SystemView, &MixResult)], sheet: Sheet) -> Markup {
    let largest = peaks
        .iter()
        .flat_map(|(_, peak)| peak.client_rows.iter().map(|row| (measure.value)(row, mean_requests(peak))))
        .filter_map(drawable)
        .fold(0.0, f64::max);
    let scale = ValueScale::from_zero(largest, if sheet.width < 400.0 { 4 } else { 5 });
    let last = scale.ticks().last().map_or(0.0, |&tick| width(&scale.tick_label(tick), 12.0) / 2.0);
    let right = sheet.width - last.max(8.0);
    let height = TOP + peaks.len() as f64 * ROW + FOOT;
    let name = format!("fairness-{}-{}", measure.name, sheet.name);
    let place = |value: f64| LEFT + 6.0 + scale.position(value) * (right - LEFT - 6.0);
    html! {
        svg class={ "chart " (sheet.name) } role="img"
            viewBox={ "0 0 " (pixel(sheet.width)) " " (pixel(height)) }
            width=(pixel(sheet.width)) height=(pixel(height))
            aria-labelledby={ (name) "-title " (name) "-words" } {
            title id={ (name) "-title" } { (measure.title) }
            desc id={ (name) "-words" } { "A strip a system, a dot a client. " (evenness(peaks)) }
            text class="heading" x="0" y="13" { (measure.title) }
            (axis(measure, &scale, &place, height))
            @for (index, (system, peak)) in peaks.iter().enumerate() {
                @let floor = TOP + index as f64 * ROW + LABEL + STRIP;
                g class=(system.style.class) {
                    text class="name" x="0" y=(pixel(floor - STRIP - 4.0)) {
                        (fitted(
                            &format!("{}, {}", system.label, words::load(peak)),
                            13.0,
                            sheet.width,
                        ))
                    }
                    path class="axis-line"
                        d={ "M" (pixel(place(0.0))) " " (pixel(floor)) "H" (pixel(right)) } {}
                    (dots(measure, system, peak, &place, floor))
                }
            }
        }
    }
}

fn axis(measure: &Measure, scale: &ValueScale, place: &dyn Fn(f64) -> f64, height: f64) -> Markup {
    let bottom = height - FOOT + 4.0;
    html! {
        g class="axis" aria-hidden="true" {
            @for tick in scale.ticks() {
                path class="grid"
                    d={ "M" (pixel(place(tick))) " " (pixel(TOP + LABEL)) "V" (pixel(bottom)) } {}
                text x=(pixel(place(tick))) y=(pixel(bottom + 16.0)) text-anchor="middle" {
                    (scale.tick_label(tick))
                }
            }
            text class="unit" x=(pixel(place(0.0))) y=(pixel(height - 6.0)) { (measure.unit) }
        }
    }
}

/// The dots of a strip, heaped where they would lie on each other.
fn dots(
    measure: &Measure,
    system: &SystemView,
    peak: &MixResult,
    place: &dyn Fn(f64) -> f64,
    floor: f64,
) -> Markup {
    let mut rows: Vec<(f64, &ClientRow)> = peak
        .client_rows
        .iter()
        .filter_map(|row| Some((drawable((measure.value)(row, mean_requests(peak)))?, row)))
        .collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let together = rows.len().div_ceil(DOTS_MAX).max(1);
    let places: Vec<f64> = rows.chunks(together).map(|rows| place(rows[rows.len() / 2].0)).collect();
    let (radius, heights) = heap(&places);
    html! {
        @for ((rows, x), rank) in rows.chunks(together).zip(&places).zip(heights) {
            @let y = floor - radius - 1.5 - rank as f64 * 2.0 * radius;
            g class="dot" {
                title { (told(measure, rows)) }
                (system.style.marker(*x, y, radius * 0.86, false))
            }
        }
    }
}

/// The text of a dot: its client, or the range of its clients.
fn told(measure: &Measure, rows: &[(f64, &ClientRow)]) -> String {
    match rows {
        [(value, row)] => format!("client {}: {} {}", row.client, (measure.write)(*value), measure.short),
        [(low, _), .., (high, _)] => {
            format!(
                "{}: {} to {} {}",
                words::clients(rows.len() as u64),
                (measure.write)(*low),
                (measure.write)(*high),
                measure.short
            )
        }
        [] => String::new(),
    }
}

/// Heaps dots in order of their positions: returns the radius at which the highest heap fits the strip, and
/// how many dots are under each. Dots do not shrink below a visible size: then the heap starts again at the
/// bottom, and dots overlap.
fn heap(places: &[f64]) -> (f64, Vec<usize>) {
    let mut radius = 5.0;
    loop {
        let heights = heap_with(places, radius);
        let levels = ((STRIP - 4.0) / (2.0 * radius)) as usize;
        let highest = heights.iter().copied().max().unwrap_or(0) + 1;
        if highest <= levels || radius <= RADIUS_MIN {
            return (radius, heights.into_iter().map(|rank| rank % levels.max(1)).collect());
        }
        radius = (radius * 0.9).max(RADIUS_MIN);
    }
}

fn heap_with(places: &[f64], radius: f64) -> Vec<usize> {
    // The right end of the last dot of every level: a dot is put at the lowest free level.
    let mut ends: Vec<f64> = Vec::new();
    places
        .iter()
        .map(|&x| {
            let level = ends.iter().position(|&end| x - radius >= end - 1e-9).unwrap_or(ends.len());
            match ends.get_mut(level) {
                Some(end) => *end = x + radius,
                None => ends.push(x + radius),
            }
            level
        })
        .collect()
}

fn table(system: &SystemView, peak: &MixResult) -> Table {
    let rows = super::tables::shown_clients(&peak.client_rows)
        .into_iter()
        .map(|row| {
            let cells =
                MEASURES.iter().map(|measure| (measure.write)((measure.value)(row, mean_requests(peak))));
            let cells = std::iter::once(number::count(row.requests)).chain(cells);
            Row::new(number::count(row.client), cells.collect())
        })
        .collect();
    Table {
        caption: format!(
            "Clients of {} at its peak{}",
            system.label,
            super::tables::left_out(&peak.client_rows)
        ),
        columns: ["Client", "Requests answered", "% of the mean", "Mean latency, ms"]
            .map(str::to_owned)
            .to_vec(),
        parts: vec![Part { heading: None, rows }],
        ..Table::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_do_not_lie_on_each_other_while_there_is_room() {
        for places in [vec![100.0; 12], (0..64).map(|x| f64::from(x) * 1.5).collect(), vec![10.0], vec![]] {
            let (radius, heights) = heap(&places);
            let dots: Vec<(f64, f64)> =
                places.iter().zip(&heights).map(|(&x, &rank)| (x, rank as f64 * 2.0 * radius)).collect();
            for (index, a) in dots.iter().enumerate() {
                for b in &dots[..index] {
                    let distance = (a.0 - b.0).hypot(a.1 - b.1);
                    assert!(distance >= 2.0 * radius - 1e-6, "{a:?} {b:?} {radius}");
                }
            }
        }
    }

    #[test]
    fn dots_stay_in_their_strip() {
        for number in [1, 12, 64, 500] {
            let (radius, heights) = heap(&vec![100.0; number]);
            assert!(radius >= RADIUS_MIN);
            assert!(heights.iter().all(|&rank| (rank + 1) as f64 * 2.0 * radius <= STRIP), "{number}");
        }
    }
}
