//! The figure: a heading, a caption that describes the drawing, the drawing, and the same numbers as a table.
//! The most frequent figure of the report is here too: one measure against the number of clients, a curve for
//! each system.

use maud::{Markup, html};

use super::chart::{Canvas, HorizontalAxis, LineChart, Point, Series, VerticalAxis, highest};
use super::interval::{self, Ends};
use super::number::{self, NOT_MEASURED};
use super::scale::ValueScale;
use super::table::{Part, Row, Table};
use super::view::{SystemView, View, drawable, is_lower_bound};
use super::words;
use touchstone_lab::result::MixResult;

/// With more curves than these the caption states only the first and the last.
const TOLD_MAX: usize = 6;

/// A figure, before it is written.
pub(super) struct Figure {
    /// Unique in the page.
    pub(super) id: String,
    /// Its heading.
    pub(super) heading: String,
    /// What it shows, in words.
    pub(super) caption: String,
    /// The drawing, with line samples and names if these do not fit into it; absent without measurements.
    pub(super) drawing: Option<Markup>,
    /// The numbers of the drawing.
    pub(super) tables: Vec<Table>,
}

impl Figure {
    /// The figure as HTML.
    pub(super) fn write(&self) -> Markup {
        html! {
            figure id=(self.id) aria-labelledby={ (self.id) "-heading" } {
                figcaption {
                    h3 id={ (self.id) "-heading" } { (self.heading) }
                    p { (self.caption) }
                }
                @match &self.drawing {
                    Some(drawing) => {
                        (drawing)
                        details class="numbers" {
                            summary { "The numbers" span class="unseen" { " of: " (self.heading) } }
                            @for table in &self.tables { (table.write()) }
                        }
                    }
                    None => p class="absent" { (NOT_MEASURED) }
                }
            }
        }
    }
}

/// A measure of a mix, to be drawn against the number of clients.
pub(super) struct Measure<'a> {
    /// Unique in the page.
    pub(super) id: &'a str,
    /// The figure's heading.
    pub(super) heading: &'a str,
    /// Over the axis, and in the words of a point.
    pub(super) unit: &'a str,
    /// A second unit for the axis and the table: its name, one of the first in it, and how it is written.
    pub(super) second: Option<(&'a str, f64)>,
    /// The text before the systems' figures.
    pub(super) meaning: &'a str,
    /// The text of the highest value of a system: "highest" or "lowest".
    pub(super) best: Best,
    /// The measure itself, in the unit of the axis.
    pub(super) value: &'a dyn Fn(&MixResult) -> Option<f64>,
    /// How one figure is written.
    pub(super) write: fn(f64) -> String,
    /// The text for the limit's line, if there is one.
    pub(super) of_the_limit: &'a str,
    /// Whether it is proportional to the rate. The seconds of the rate then determine the interval of a
    /// single run.
    pub(super) follows_rate: bool,
}

/// The value of a curve that its caption names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Best {
    /// The highest.
    Highest,
    /// The lowest.
    Lowest,
}

impl Measure<'_> {
    /// The figure for the systems of a result, drawn for the page's width and for a telephone.
    pub(super) fn figure(&self, view: &View, canvas: Canvas) -> Figure {
        let chart = self.chart(view);
        let mut caption = format!("{} {}", self.meaning, chart.description);
        if view.has_limit() {
            caption.push_str(self.of_the_limit);
        }
        if chart.has_intervals() {
            caption.push(' ');
            caption.push_str(&interval::in_words(view));
        }
        if view.has_lower_bounds() {
            caption.push_str(
                " A hollow marker: the mix was cut short, or the load engine was at its limit or disturbed; \
                 its rate is a lower bound.",
            );
        }
        Figure {
            id: self.id.to_owned(),
            heading: self.heading.to_owned(),
            caption,
            drawing: drawing(chart, canvas),
            tables: vec![self.table(view)],
        }
    }

    fn chart(&self, view: &View) -> LineChart {
        let series: Vec<Series> = view
            .systems
            .iter()
            .map(|system| Series {
                label: system.label.clone(),
                style: system.style,
                rank: system.rank,
                points: system.mixes.iter().map(|mix| self.point(system, mix)).collect(),
            })
            .collect();
        let scale = ValueScale::from_zero(highest(&series), 6);
        LineChart {
            id: self.id.to_owned(),
            title: format!("{} against {}", self.heading, view.clients.title()),
            description: self.description(view, &series),
            across: HorizontalAxis::Clients(view.clients.clone()),
            upward: VerticalAxis {
                scale,
                unit: self.unit.to_owned(),
                second: self.second.map(|(unit, factor)| (unit.to_owned(), factor)),
            },
            series,
        }
    }

    fn point(&self, system: &SystemView, mix: &MixResult) -> Point {
        let value = (self.value)(mix).and_then(drawable);
        let words = value.map(|value| {
            format!("{}, {}: {} {}", system.label, words::load(mix), (self.write)(value), self.unit)
        });
        let interval = value.and_then(|_| self.interval(system, mix));
        Point {
            across: mix.load() as f64,
            value,
            words,
            lower_bound: is_lower_bound(system.system, mix),
            interval,
        }
    }

    fn interval(&self, system: &SystemView, mix: &MixResult) -> Option<Ends> {
        interval::of_runs(system.runs_of(mix), self.value, self.follows_rate)
    }

    /// The best value of every curve, in a sentence; of many curves those of the first and the last.
    fn description(&self, view: &View, series: &[Series]) -> String {
        let mut best_values: Vec<(f64, String)> = series
            .iter()
            .filter_map(|series| {
                let measured = series.points.iter().filter_map(|point| Some((point.across, point.value?)));
                let better = |a: &(f64, f64), b: &(f64, f64)| a.1.total_cmp(&b.1);
                let (clients, value) = match self.best {
                    Best::Highest => measured.max_by(better),
                    Best::Lowest => measured.min_by(better),
                }?;
                let written = (self.write)(value);
                Some((
                    value,
                    format!("{}: {written} with {}", series.label, view.clients.in_words(clients as u64)),
                ))
            })
            .collect();
        let best = if self.best == Best::Highest { "Highest" } else { "Lowest" };
        if best_values.len() > TOLD_MAX {
            best_values.sort_by(|left, right| right.0.total_cmp(&left.0));
            let (first, last) = (&best_values[0].1, &best_values[best_values.len() - 1].1);
            return format!("{best} of each curve, in {}, from {first} to {last}.", self.unit);
        }
        let best_values: Vec<String> = best_values.into_iter().map(|(_, text)| text).collect();
        if best_values.is_empty() {
            String::new()
        } else {
            format!("{best}, in {} \u{2013} {}.", self.unit, best_values.join("; "))
        }
    }

    fn table(&self, view: &View) -> Table {
        let systems = &view.systems;
        // A column for the intervals, where some figure has one.
        let with_intervals =
            systems.iter().any(|system| system.mixes.iter().any(|mix| self.interval(system, mix).is_some()));
        let units = 1 + usize::from(self.second.is_some()) + usize::from(with_intervals);
        let mut columns = vec![view.clients.head().to_owned()];
        let mut groups = vec![(String::new(), 1)];
        for system in systems {
            groups.push((system.label.clone(), units));
            columns.push(self.unit.to_owned());
            columns.extend(with_intervals.then(|| "interval".to_owned()));
            columns.extend(self.second.map(|(unit, _)| unit.to_owned()));
        }
        let rows = view
            .mix_keys()
            .iter()
            .map(|key| {
                let mut cells = Vec::new();
                for system in systems {
                    let mix = system.mix(key);
                    let value = mix.and_then(|mix| (self.value)(mix)).and_then(drawable);
                    cells.push(number::optional(value, self.write));
                    if with_intervals {
                        let ends = mix.and_then(|mix| self.interval(system, mix));
                        cells.push(ends.map_or_else(String::new, |ends| {
                            format!("{} to {}", (self.write)(ends.low), (self.write)(ends.high))
                        }));
                    }
                    if let Some((_, factor)) = self.second {
                        cells.push(number::optional(value, |value| number::rate(value * factor)));
                    }
                }
                Row::new(view.mix_label(key), cells)
            })
            .collect();
        Table {
            caption: format!("{}, by {}", self.heading, view.clients.title()),
            groups,
            columns,
            words: Vec::new(),
            parts: vec![Part { heading: None, rows }],
        }
    }
}

/// A chart for the page's width and for a telephone, each drawing with its legend. If there are more curves
/// than a reader can distinguish, the others are in further drawings, which open on demand and need no
/// script. Empty without measurements.
pub(super) fn drawing(chart: LineChart, canvas: Canvas) -> Option<Markup> {
    if chart.is_empty() {
        return None;
    }
    let parts = chart.parts();
    let (first, further) = parts.split_first()?;
    let one = |part: &LineChart| {
        html! {
            @if let Some(legend) = legend(part, canvas) { (legend) }
            (part.draw(canvas))
            @if canvas.name != "any" { (part.draw(Canvas::NARROW)) }
        }
    };
    Some(html! {
        (one(first))
        @for part in further {
            details class="further-curves" {
                summary { (part.series.len()) " more: " (names(part)) }
                (one(part))
            }
        }
    })
}

/// What the curves of a drawing are, by the first and the last.
fn names(part: &LineChart) -> String {
    match part.series.as_slice() {
        [] => String::new(),
        [only] => only.label.clone(),
        [first, .., last] => format!("{} to {}", first.label, last.label),
    }
}

/// A legend, where the names do not fit at the line ends: on a telephone, or on every canvas.
fn legend(chart: &LineChart, canvas: Canvas) -> Option<Markup> {
    if chart.series.len() < 2 || chart.names_fit(Canvas::NARROW) {
        return None;
    }
    let class = if canvas.name == "wide" { "legend narrow" } else { "legend" };
    Some(html! {
        ul class=(class) aria-hidden="true" {
            @for series in &chart.series {
                li { (series.style.sample()) span { (series.label) } }
            }
        }
    })
}
