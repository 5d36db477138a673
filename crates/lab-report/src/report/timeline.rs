//! The time line: second by second, the rate of every mix with the server's processor use beneath it. One
//! panel a mix, side by side on one scale; the ramps, which do not count, are shaded.
//!
//! A long mix has more samples than a panel has room for: they are averaged over equal steps of time, and the
//! figure states that. `timeline.csv` in the result directory keeps every sample.

use maud::{Markup, html};

use super::figure::Figure;
use super::number;
use super::scale::ValueScale;
use super::style::pixel;
use super::table::{Part, Row, Table};
use super::view::{SystemView, View, drawable};
use super::words::{self, width};
use touchstone_lab::result::{MixResult, TimelineRow};

/// The most steps of time in a panel, and rows in its table.
const STEPS_MAX: f64 = 60.0;
/// The least share of the counted time that whole samples must have to represent it.
const WHOLE_SHARE: f64 = 0.95;
/// Mixes in a table: as many as fit on a printed page.
const TABLE_MIXES: usize = 4;
/// Lengths of a step, seconds.
const STEP_LENGTHS: [f64; 17] =
    [0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0];

/// The section: a figure a system.
pub(super) fn section(view: &View) -> Markup {
    let scales = Scales::for_all(view);
    html! {
        section aria-labelledby="time" {
            h2 id="time" { "Over time" }
            p class="lead" {
                "Each mix from its first second to its last. Only the time between the shaded ramps is \
                 counted. A steady rate means that the mix\u{2019}s figures represent all of it. All \
                 drawings have the same scales."
            }
            @for (index, system) in
                view.systems.iter().enumerate().filter(|(_, system)| !system.mixes.is_empty())
            {
                (figure(index, system, &scales).write())
            }
        }
    }
}

fn figure(index: usize, system: &SystemView, scales: &Scales) -> Figure {
    let step = step_length(system);
    let strips: Vec<Strip> = system.mixes.iter().map(|mix| Strip::new(mix, step)).collect();
    let measured = strips.iter().any(|strip| !strip.steps.is_empty());
    let id = format!("time-{index}");
    let averaged = if step > 1.0 {
        format!(
            " Every point is the mean of {}; timeline.csv beside the report has every sample.",
            number::seconds(step)
        )
    } else {
        String::new()
    };
    let errors = if strips.iter().any(|strip| strip.steps.iter().any(|step| step.errors > 0)) {
        " A cross on the base line marks a time with errors."
    } else {
        ""
    };
    let caption = format!(
        "Above, valid answers a second; below, the processors that the server used (1 is one whole \
         processor). {}{averaged}{errors}",
        steadiness(system)
    );
    Figure {
        heading: system.label.clone(),
        drawing: measured.then(|| {
            html! {
                (draw(&id, system, &strips, scales, Sheet::WIDE))
                (draw(&id, system, &strips, scales, Sheet::NARROW))
            }
        }),
        tables: strips.chunks(TABLE_MIXES).map(|strips| table(system, strips)).collect(),
        id,
        caption,
    }
}

/// How much the counted seconds of the peak differ, in a sentence.
fn steadiness(system: &SystemView) -> String {
    let Some(peak) = system.peak else { return String::new() };
    let distance = sample_length(peak);
    let rates: Vec<f64> = peak
        .timeline
        .iter()
        .filter(|row| {
            let counted = peak.ramp_up_s - 0.05..=peak.length_s - peak.ramp_down_s + 0.05;
            counted.contains(&row.at_s) && counted.contains(&(row.at_s + distance))
        })
        .filter_map(|row| drawable(row.requests_per_second))
        .collect();
    // Samples that are partly in a ramp are left out: if much of the counted time is in these, the others do
    // not represent it.
    let whole = rates.len() as f64 * distance >= WHOLE_SHARE * peak.window_s;
    if rates.len() < 2 || !whole {
        return String::new();
    }
    let low = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let high = rates.iter().copied().fold(0.0, f64::max);
    format!(
        "With {}, the peak, the counted samples lie between {} and {} requests/s.",
        words::load(peak),
        number::rate(low),
        number::rate(high)
    )
}

/// One mix's time line in equal steps.
struct Strip<'a> {
    mix: &'a MixResult,
    step_s: f64,
    steps: Vec<Step>,
}

/// The samples of one step of time, from its beginning on.
struct Step {
    from_s: f64,
    requests_per_second: f64,
    server_cpus: Option<f64>,
    errors: u64,
}

impl<'a> Strip<'a> {
    fn new(mix: &'a MixResult, step_s: f64) -> Strip<'a> {
        let mut rows: Vec<(i64, &TimelineRow)> = mix
            .timeline
            .iter()
            .filter(|row| drawable(row.at_s).is_some() && drawable(row.requests_per_second).is_some())
            // A sample that begins at 2.98 or 3.03 seconds belongs to the step that begins at 3.
            .map(|row| (((row.at_s + 0.25 * step_s.min(1.0)) / step_s).floor() as i64, row))
            .collect();
        rows.sort_by_key(|row| row.0);
        let steps = rows
            .chunk_by(|a, b| a.0 == b.0)
            .map(|rows| Step {
                from_s: rows[0].0 as f64 * step_s,
                requests_per_second: mean(rows.iter().map(|(_, row)| row.requests_per_second)).unwrap_or(0.0),
                server_cpus: mean(rows.iter().filter_map(|(_, row)| row.server_cpus.and_then(drawable))),
                errors: rows.iter().map(|(_, row)| row.errors).fold(0, u64::saturating_add),
            })
            .collect();
        Strip { mix, step_s, steps }
    }

    /// The time at the right end of its panel.
    fn end(&self) -> f64 {
        let last = self.steps.last().map_or(0.0, |step| step.from_s + self.step_s / 2.0);
        drawable(self.mix.length_s).unwrap_or(0.0).max(last).max(1.0)
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, number) = values.fold((0.0, 0u32), |(sum, number), value| (sum + value, number + 1));
    (number > 0).then(|| sum / f64::from(number))
}

/// How long the samples of a mix are, seconds: the distance of their beginnings.
fn sample_length(mix: &MixResult) -> f64 {
    let times = || mix.timeline.iter().filter_map(|row| drawable(row.at_s));
    let span = times().fold(0.0, f64::max) - times().fold(f64::INFINITY, f64::min);
    let steps = times().count().saturating_sub(1);
    if steps > 0 && span > 0.0 { span / steps as f64 } else { 1.0 }
}

/// The shortest step that is no shorter than the samples' distance and leaves no more than [`STEPS_MAX`] of
/// them.
fn step_length(system: &SystemView) -> f64 {
    let needed = system
        .mixes
        .iter()
        .map(|mix| {
            let last = mix.timeline.iter().filter_map(|row| drawable(row.at_s)).fold(0.0, f64::max);
            (sample_length(mix) * 0.8).max(last / STEPS_MAX)
        })
        .fold(0.0, f64::max);
    STEP_LENGTHS
        .into_iter()
        .find(|&step| step >= needed)
        .unwrap_or_else(|| super::scale::nice_step(needed, 1))
}

/// The paper for the panels, pixels.
#[derive(Clone, Copy)]
struct Sheet {
    name: &'static str,
    width: f64,
    /// Panels in a row, at most.
    across: usize,
}

impl Sheet {
    const WIDE: Sheet = Sheet { name: "wide", width: 1072.0, across: 8 };
    const NARROW: Sheet = Sheet { name: "narrow", width: 336.0, across: 2 };
}

const TITLE: f64 = 40.0;
const RATE_HEIGHT: f64 = 110.0;
const BETWEEN: f64 = 16.0;
const CPU_HEIGHT: f64 = 48.0;
const FOOT: f64 = 36.0;
const ROW_HEIGHT: f64 = TITLE + RATE_HEIGHT + BETWEEN + CPU_HEIGHT + FOOT;
const GUTTER: f64 = 14.0;

/// The scales that all panels of all systems share.
#[derive(Clone)]
struct Scales {
    rate: ValueScale,
    cpus: ValueScale,
}

impl Scales {
    fn for_all(view: &View) -> Scales {
        let strips: Vec<Strip> = view
            .systems
            .iter()
            .flat_map(|system| {
                let step = step_length(system);
                system.mixes.iter().map(move |mix| Strip::new(mix, step))
            })
            .collect();
        let steps = || strips.iter().flat_map(|strip| &strip.steps);
        Scales {
            rate: ValueScale::from_zero(steps().map(|step| step.requests_per_second).fold(0.0, f64::max), 4),
            // A processor that seems busy for a little more than all of the time is a rounding of its clock
            // ticks.
            cpus: ValueScale::from_zero(
                0.97 * steps().filter_map(|step| step.server_cpus).fold(0.0, f64::max),
                2,
            ),
        }
    }
}

/// The scales on one sheet.
struct Axes {
    rate: ValueScale,
    cpus: ValueScale,
    left: f64,
    panel_width: f64,
}

fn draw(id: &str, system: &SystemView, strips: &[Strip], scales: &Scales, sheet: Sheet) -> Markup {
    let axes = Axes::new(strips.len(), scales, sheet);
    let rows: Vec<&[Strip]> = strips.chunks(sheet.across).collect();
    let height = rows.len() as f64 * ROW_HEIGHT;
    let name = format!("{id}-{}", sheet.name);
    html! {
        svg class={ "chart times " (sheet.name) } role="img"
            viewBox={ "0 0 " (pixel(sheet.width)) " " (pixel(height)) }
            width=(pixel(sheet.width)) height=(pixel(height))
            aria-labelledby={ (name) "-title " (name) "-words" } {
            title id={ (name) "-title" } { "Rate and processor use of " (system.label) " over time" }
            desc id={ (name) "-words" } {
                (strips.len()) " mixes, a panel each, with the rate above and the server\u{2019}s \
                                processors below. "
                (steadiness(system))
            }
            g class=(system.style.class) {
                @for (number, row) in rows.iter().enumerate() {
                    (axes.write(number as f64 * ROW_HEIGHT, row.len(), sheet))
                    @for (column, strip) in row.iter().enumerate() {
                        (panel(strip, &axes, column, number as f64 * ROW_HEIGHT, sheet.name == "wide"))
                    }
                }
            }
        }
    }
}

impl Axes {
    fn new(panels: usize, scales: &Scales, sheet: Sheet) -> Axes {
        let Scales { rate, cpus } = scales.clone();
        let widest = |scale: &ValueScale| {
            scale.ticks().iter().map(|&tick| width(&scale.tick_label(tick), 12.0)).fold(0.0, f64::max)
        };
        let left = widest(&rate).max(widest(&cpus)) + 12.0;
        let columns = panels.clamp(1, sheet.across) as f64;
        // A lone mix does not need the whole width.
        let panel_width =
            ((sheet.width - left - (columns - 1.0) * GUTTER - 2.0) / columns).clamp(24.0, 420.0);
        Axes { rate, cpus, left, panel_width }
    }

    fn rate_height(&self, top: f64, value: f64) -> f64 {
        top + TITLE + RATE_HEIGHT * (1.0 - self.rate.position(value))
    }

    fn cpus_height(&self, top: f64, value: f64) -> f64 {
        top + TITLE + RATE_HEIGHT + BETWEEN + CPU_HEIGHT * (1.0 - self.cpus.position(value))
    }

    /// Grid lines over all panels of a row, with their numbers at the left.
    fn write(&self, top: f64, columns: usize, sheet: Sheet) -> Markup {
        let right = self.left + columns as f64 * (self.panel_width + GUTTER) - GUTTER;
        let lines = |scale: &ValueScale, height: &dyn Fn(f64) -> f64| {
            html! {
                @for tick in scale.ticks() {
                    path class=(if tick == 0.0 { "base" } else { "grid" })
                        d={ "M" (pixel(self.left)) " " (pixel(height(tick)))
                            "H" (pixel(right.min(sheet.width))) } {}
                    text x=(pixel(self.left - 8.0)) y=(pixel(height(tick) + 4.0)) text-anchor="end" {
                        (scale.tick_label(tick))
                    }
                }
            }
        };
        html! {
            g class="axis" aria-hidden="true" {
                (lines(&self.rate, &|tick| self.rate_height(top, tick)))
                (lines(&self.cpus, &|tick| self.cpus_height(top, tick)))
                @if top == 0.0 { text class="unit" x="0" y="12" { "requests/s; below: the server\u{2019}s \
                                                                   processors" } }
            }
        }
    }
}

fn panel(strip: &Strip, axes: &Axes, column: usize, top: f64, with_targets: bool) -> Markup {
    let left = axes.left + column as f64 * (axes.panel_width + GUTTER);
    let end = strip.end();
    let across = |seconds: f64| left + axes.panel_width * (seconds / end).clamp(0.0, 1.0);
    let floor = top + TITLE + RATE_HEIGHT + BETWEEN + CPU_HEIGHT;
    let rate = strip.steps.iter().map(|step| {
        (across(step.from_s + strip.step_s / 2.0), Some(axes.rate_height(top, step.requests_per_second)))
    });
    let cpus = strip.steps.iter().map(|step| {
        (across(step.from_s + strip.step_s / 2.0), step.server_cpus.map(|value| axes.cpus_height(top, value)))
    });
    html! {
        (ramps(strip, &across, top + TITLE, floor))
        path class="line thin" d=(path(rate)) {}
        path class="line thin" stroke-dasharray="3 2" d=(path(cpus)) {}
        @for step in strip.steps.iter().filter(|step| step.errors > 0) {
            path class="failure"
                d={ "M" (pixel(across(step.from_s + strip.step_s / 2.0) - 3.5))
                    " " (pixel(top + TITLE + RATE_HEIGHT - 3.5)) "l7 7m0 -7l-7 7" } {}
        }
        @if with_targets { (targets(strip, &across, top + TITLE, floor)) }
        g class="axis" aria-hidden="true" {
            text class="panel" x=(pixel(left)) y=(pixel(top + 32.0)) { (words::load(strip.mix)) }
            text x=(pixel(left)) y=(pixel(floor + 18.0)) { "0" }
            text x=(pixel(left + axes.panel_width)) y=(pixel(floor + 18.0)) text-anchor="end" {
                (number::seconds(end))
            }
        }
    }
}

/// The shades over the two ramps.
fn ramps(strip: &Strip, across: &dyn Fn(f64) -> f64, top: f64, floor: f64) -> Markup {
    let end = strip.end();
    let up = drawable(strip.mix.ramp_up_s).unwrap_or(0.0).min(end);
    let down = drawable(strip.mix.ramp_down_s).unwrap_or(0.0).min(end);
    let shade = |from: f64, to: f64| {
        html! {
            @if to > from {
                rect class="ramp" x=(pixel(across(from))) y=(pixel(top))
                    width=(pixel(across(to) - across(from)))
                    height=(pixel(floor - top)) {}
            }
        }
    };
    html! { (shade(0.0, up)) (shade(end - down, end)) }
}

/// Invisible columns over the panel that show their figures under the pointer.
fn targets(strip: &Strip, across: &dyn Fn(f64) -> f64, top: f64, floor: f64) -> Markup {
    html! {
        @for step in &strip.steps {
            @let x = across(step.from_s);
            @let width = (across(step.from_s + strip.step_s) - x).max(1.0);
            rect class="target" x=(pixel(x)) y=(pixel(top)) width=(pixel(width)) height=(pixel(floor - top)) {
                title {
                    (words::load(strip.mix)) ", from " (number::seconds(step.from_s)) ": "
                    (number::rate(step.requests_per_second)) " requests/s, "
                    (processors(step.server_cpus)) " processors"
                }
            }
        }
    }
}

fn processors(value: Option<f64>) -> String {
    number::optional(value, |value| number::grouped(value, 2))
}

fn path(points: impl Iterator<Item = (f64, Option<f64>)>) -> String {
    let mut text = String::new();
    let mut drawing = false;
    for (x, y) in points {
        match y {
            Some(y) => {
                text.push(if drawing { 'L' } else { 'M' });
                text.push_str(&format!("{} {}", pixel(x), pixel(y)));
                drawing = true;
            }
            None => drawing = false,
        }
    }
    text
}

/// The numbers of a row of panels: a row a step of time, two columns a mix.
fn table(system: &SystemView, strips: &[Strip]) -> Table {
    let mut times: Vec<f64> =
        strips.iter().flat_map(|strip| strip.steps.iter().map(|step| step.from_s)).collect();
    times.sort_by(f64::total_cmp);
    times.dedup();
    let mixes: Vec<String> = strips.iter().map(|strip| words::load(strip.mix)).collect();
    let failed = strips.iter().any(|strip| strip.steps.iter().any(|step| step.errors > 0));
    let mut groups = vec![(String::new(), 1)];
    let mut columns = vec!["From second".to_owned()];
    for strip in strips {
        groups.push((words::load(strip.mix), if failed { 3 } else { 2 }));
        columns.extend(["requests/s", "processors"].map(str::to_owned));
        columns.extend(failed.then(|| "errors".to_owned()));
    }
    let rows = times
        .iter()
        .map(|&time| {
            let mut cells = Vec::new();
            for strip in strips {
                let step = strip.steps.iter().find(|step| step.from_s == time);
                cells.push(number::optional(step, |step| number::rate(step.requests_per_second)));
                cells.push(processors(step.and_then(|step| step.server_cpus)));
                cells.extend(failed.then(|| number::optional(step, |step| number::count(step.errors))));
            }
            Row::new(number::grouped(time, if time.fract() == 0.0 { 0 } else { 2 }), cells)
        })
        .collect();
    Table {
        caption: format!("Time line of {}: {}", system.label, words::list(&mixes)),
        groups,
        columns,
        words: Vec::new(),
        parts: vec![Part { heading: None, rows }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn samples_near_a_second_fall_on_it() {
        let mut mix = fixture::mix("touchstone", 4, 10_000.0);
        mix.timeline.truncate(4);
        for (row, at_s) in mix.timeline.iter_mut().zip([0.0, 0.98, 2.03, 3.0]) {
            row.at_s = at_s;
        }
        let times: Vec<f64> = Strip::new(&mix, 1.0).steps.iter().map(|step| step.from_s).collect();
        assert_eq!(times, [0.0, 1.0, 2.0, 3.0]);
    }

    #[test]
    fn long_mixes_are_averaged() {
        let mut result = fixture::full();
        let template = result.systems[0].mixes[0].timeline[0].clone();
        let row = |second: u32| TimelineRow {
            at_s: f64::from(second),
            requests_per_second: f64::from(second),
            ..template.clone()
        };
        result.systems[0].mixes[0].timeline = (0..600).map(row).collect();
        let sources = [super::super::Source::of("", &result, None)];
        let view = View::new(&result, &sources, &[]);
        let step = step_length(&view.systems[0]);
        assert_eq!(step, 10.0);
        let strip = Strip::new(&result.systems[0].mixes[0], step);
        let means: Vec<f64> = strip.steps.iter().map(|step| step.requests_per_second).collect();
        assert_eq!(means.len(), 60);
        assert_eq!((means[0], means[59]), (4.5, 594.5));
    }

    #[test]
    fn only_what_lies_between_the_ramps_is_called_counted() {
        let mut result = fixture::full();
        for row in &mut result.systems[0].mixes[4].timeline {
            let counted = row.at_s > 0.9 && row.at_s < 6.9;
            row.requests_per_second = if counted { 55_000.0 + row.at_s.round() } else { 1.0 };
        }
        let sources = [super::super::Source::of("", &result, None)];
        let view = View::new(&result, &sources, &[]);
        let sentence = steadiness(&view.systems[0]);
        assert!(sentence.contains("between 55,001 and 55,006 requests/s"), "{sentence}");
    }
}
