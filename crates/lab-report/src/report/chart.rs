//! The line chart: one drawing routine for all charts of one quantity against another, as an SVG that is
//! complete without a script. It is drawn for two widths; the style sheet shows the one that fits.

use maud::{Markup, html};

use super::interval::Ends;
use super::scale::{ClientScale, NinesScale, Spacing, ValueScale, spread};
use super::style::{CURVES_MAX, Style, pixel};
use super::words::{fitted, width};

/// A chart, before it is drawn for one canvas.
#[derive(Debug, Clone)]
pub(super) struct LineChart {
    /// Unique in the page; the ids of its parts begin with it.
    pub(super) id: String,
    /// What it shows, in a few words: its accessible name.
    pub(super) title: String,
    /// Its description, in a sentence or two: its accessible description.
    pub(super) description: String,
    /// The horizontal axis.
    pub(super) across: HorizontalAxis,
    /// The vertical axis.
    pub(super) upward: VerticalAxis,
    /// The curves.
    pub(super) series: Vec<Series>,
}

/// The horizontal axis.
#[derive(Debug, Clone)]
pub(super) enum HorizontalAxis {
    /// Numbers of virtual clients.
    Clients(ClientScale),
    /// Percentiles by nines.
    Percentiles(NinesScale),
}

/// The vertical axis.
#[derive(Debug, Clone)]
pub(super) struct VerticalAxis {
    /// From values to heights.
    pub(super) scale: ValueScale,
    /// Its unit, printed over it.
    pub(super) unit: String,
    /// The same values in a second unit: its name, and what one of the first is in it.
    pub(super) second: Option<(String, f64)>,
}

/// One curve.
#[derive(Debug, Clone)]
pub(super) struct Series {
    /// Its name, printed at its right end.
    pub(super) label: String,
    /// Its style.
    pub(super) style: Style,
    /// Its place among the curves where they do not all go into one drawing.
    pub(super) rank: usize,
    /// Its points, from left to right.
    pub(super) points: Vec<Point>,
}

/// One point of a curve.
#[derive(Debug, Clone)]
pub(super) struct Point {
    /// Its place on the horizontal axis.
    pub(super) across: f64,
    /// Its value; absent if it was not measured, which breaks the line.
    pub(super) value: Option<f64>,
    /// Its text; with a text it gets a marker.
    pub(super) words: Option<String>,
    /// The figure is only a lower bound: the marker is hollow.
    pub(super) lower_bound: bool,
    /// The interval of the figure: a bar through the marker.
    pub(super) interval: Option<Ends>,
}

/// The paper to draw on, pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Canvas {
    /// Part of the ids and the class that shows or hides it.
    pub(super) name: &'static str,
    /// Width.
    pub(super) width: f64,
    /// Height.
    pub(super) height: f64,
    /// The most room that the names at the line ends may take.
    pub(super) label_room: f64,
    /// About how many ticks the vertical axis gets.
    pub(super) ticks: usize,
}

impl Canvas {
    /// As wide as the page.
    pub(super) const WIDE: Canvas =
        Canvas { name: "wide", width: 1072.0, height: 420.0, label_room: 280.0, ticks: 6 };
    /// Half as wide as the page.
    pub(super) const HALF: Canvas =
        Canvas { name: "wide", width: 516.0, height: 310.0, label_room: 150.0, ticks: 5 };
    /// A third of the page.
    pub(super) const THIRD: Canvas =
        Canvas { name: "any", width: 336.0, height: 270.0, label_room: 40.0, ticks: 5 };
    /// A telephone.
    pub(super) const NARROW: Canvas =
        Canvas { name: "narrow", width: 336.0, height: 280.0, label_room: 40.0, ticks: 5 };

    /// Whether a name fits at a line's end.
    pub(super) fn fits(self, name: &str) -> bool {
        width(name, LABEL_SIZE) <= self.label_room
    }
}

const TICK_SIZE: f64 = 12.0;
/// The names are semi-bold, and so a tenth wider than their size of 13.
const LABEL_SIZE: f64 = 14.3;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 48.0;
/// The least distance of two names at the line ends.
const LABEL_GAP: f64 = 17.0;
/// With more curves than these no bands are drawn: they would hide each other. The bars remain.
const BANDS_MAX: usize = 4;
/// Half the width of the ends of a bar.
const BAR_END: f64 = 4.0;
/// An interval of less height than this would be hidden by its marker.
const BAR_MIN: f64 = 1.0;

/// The highest value of some curves, with the intervals.
pub(super) fn highest(curves: &[Series]) -> f64 {
    let points = curves.iter().flat_map(|series| &series.points);
    points.filter_map(|point| point.interval.map(|ends| ends.high).or(point.value)).fold(0.0, f64::max)
}

impl LineChart {
    /// True if it has no point to draw.
    pub(super) fn is_empty(&self) -> bool {
        self.series.iter().all(|series| series.points.iter().all(|point| point.value.is_none()))
    }

    /// Whether some point has an interval.
    pub(super) fn has_intervals(&self) -> bool {
        self.series.iter().any(|series| series.points.iter().any(|point| point.interval.is_some()))
    }

    /// Whether the names fit at the line ends of this canvas; if not, the chart needs a legend there.
    pub(super) fn names_fit(&self, canvas: Canvas) -> bool {
        self.series.iter().all(|series| canvas.fits(&series.label))
    }

    /// The chart as several, each with as many curves as a reader can distinguish, in the order of their
    /// ranks. All have the same horizontal axis.
    pub(super) fn parts(mut self) -> Vec<LineChart> {
        if self.series.len() <= CURVES_MAX {
            return vec![self];
        }
        self.series.sort_by_key(|series| series.rank);
        let (series, mut parts, mut first) = (std::mem::take(&mut self.series), Vec::new(), 1);
        for curves in series.chunks(CURVES_MAX) {
            let (number, last) = (parts.len() + 1, first + curves.len() - 1);
            parts.push(LineChart {
                id: if number == 1 { self.id.clone() } else { format!("{}-part-{number}", self.id) },
                title: format!("{}, curves {first} to {last}", self.title),
                upward: self.upward_of(curves),
                series: curves.to_vec(),
                ..self.clone()
            });
            first = last + 1;
        }
        parts
    }

    /// The vertical axis of some of the curves: that of all curves, or a separate one if they would use less
    /// than a third of its height.
    fn upward_of(&self, curves: &[Series]) -> VerticalAxis {
        let highest = highest(curves);
        match self.upward.scale {
            ValueScale::Linear { top, .. } if highest > 0.0 && highest < top / 3.0 => VerticalAxis {
                scale: ValueScale::from_zero(highest, 6),
                unit: format!("{} (separate scale)", self.upward.unit),
                ..self.upward.clone()
            },
            _ => self.upward.clone(),
        }
    }

    /// The chart as SVG for one canvas.
    pub(super) fn draw(&self, canvas: Canvas) -> Markup {
        let frame = Frame::new(self, canvas);
        let name = format!("{}-{}", self.id, canvas.name);
        html! {
            svg class={ "chart " (canvas.name) } role="img"
                viewBox={ "0 0 " (pixel(canvas.width)) " " (pixel(canvas.height)) }
                width=(pixel(canvas.width)) height=(pixel(canvas.height))
                aria-labelledby={ (name) "-title " (name) "-words" }
                data-top=(pixel(frame.top)) data-bottom=(pixel(frame.bottom)) {
                title id={ (name) "-title" } { (self.title) }
                desc id={ (name) "-words" } { (self.description) }
                (self.value_axis(&frame))
                (self.across_axis(&frame))
                @if self.series.len() <= BANDS_MAX {
                    @for series in self.series.iter().rev() { (self.band(series, &frame)) }
                }
                @for series in self.series.iter().rev() { (self.curve(series, &frame)) }
                (self.names(&frame))
            }
        }
    }

    fn value_axis(&self, frame: &Frame) -> Markup {
        let ticks = self.upward.scale.ticks();
        html! {
            g class="axis" aria-hidden="true" {
                @for &tick in &ticks {
                    @let y = frame.height_of(self.upward.scale.position(tick));
                    path class=(if tick == ticks[0] { "base" } else { "grid" })
                        d={ "M" (pixel(frame.left)) " " (pixel(y)) "H" (pixel(frame.right)) } {}
                    text x=(pixel(frame.left - 10.0)) y=(pixel(y + 4.0)) text-anchor="end" {
                        (self.upward.scale.tick_label(tick))
                    }
                    @if let Some((_, factor)) = &self.upward.second {
                        text class="faint" x=(pixel(frame.second_left)) y=(pixel(y + 4.0)) text-anchor="end" {
                            (second_label(&self.upward.scale, tick, *factor))
                        }
                    }
                }
                @if let Some((unit, _)) = &self.upward.second {
                    text class="unit faint" x=(pixel(frame.second_left)) y="12" text-anchor="end" { (unit) }
                    text class="unit" x=(pixel(frame.left - 10.0)) y="12" text-anchor="end" {
                        (self.upward.unit)
                    }
                } @else {
                    text class="unit" x="0" y="12" { (self.upward.unit) }
                }
            }
        }
    }

    fn across_axis(&self, frame: &Frame) -> Markup {
        let mut free = f64::NEG_INFINITY;
        let ticks = self.across.ticks().into_iter().map(|(value, label)| {
            let x = frame.place_of(self.across.position(value));
            let half = width(&label, TICK_SIZE) / 2.0;
            let shown = x - half >= free;
            if shown {
                free = x + half + 6.0;
            }
            (x, label, shown)
        });
        html! {
            g class="axis" aria-hidden="true" {
                @for (x, label, shown) in ticks {
                    path class="tick" d={ "M" (pixel(x)) " " (pixel(frame.bottom)) "v5" } {}
                    @if shown {
                        text x=(pixel(x)) y=(pixel(frame.bottom + 20.0)) text-anchor="middle" { (label) }
                    }
                }
                text class="unit" x=(pixel((frame.left + frame.right) / 2.0)) y=(pixel(frame.bottom + 41.0))
                    text-anchor="middle" { (self.across.title()) }
            }
        }
    }

    fn curve(&self, series: &Series, frame: &Frame) -> Markup {
        let style = series.style;
        let line = if style.reference { "line reference" } else { "line" };
        html! {
            g class=(style.class) {
                @for stretch in self.stretches(series, frame) {
                    path class=(line)
                        stroke-dasharray=[Some(style.dashes).filter(|dashes| !dashes.is_empty())]
                        d=(stretch) {}
                }
                @for point in &series.points { (self.bar(point, frame)) }
                @for point in &series.points {
                    @if let (Some(value), Some(words)) = (point.value, &point.words) {
                        @let (x, y) = self.place(point.across, value, frame);
                        g class="point" data-x=(pixel(x)) {
                            title { (words) }
                            (style.marker(x, y, style.radius(), point.lower_bound))
                        }
                    }
                }
            }
        }
    }

    /// The ground between the ends of the intervals.
    fn band(&self, series: &Series, frame: &Frame) -> Markup {
        let ends: Vec<(f64, Ends)> =
            series.points.iter().filter_map(|point| Some((point.across, point.interval?))).collect();
        let at = |&(across, value): &(f64, f64)| {
            let (x, y) = self.place(across, value, frame);
            format!("{} {}", pixel(x), pixel(y))
        };
        let above = ends.iter().map(|&(across, ends)| (across, ends.high));
        let below = ends.iter().rev().map(|&(across, ends)| (across, ends.low));
        let outline: Vec<String> = above.chain(below).map(|corner| at(&corner)).collect();
        html! {
            @if ends.len() > 1 {
                path class={ "band " (series.style.class) } aria-hidden="true"
                    d={ "M" (outline.join("L")) "Z" } {}
            }
        }
    }

    /// The bar from one end of an interval to the other.
    fn bar(&self, point: &Point, frame: &Frame) -> Markup {
        let ends = point.interval.map(|ends| {
            let (x, low) = self.place(point.across, ends.low, frame);
            (x, low, self.place(point.across, ends.high, frame).1)
        });
        html! {
            @if let Some((x, low, high)) = ends.filter(|(_, low, high)| low - high >= BAR_MIN) {
                @let (left, right) = (pixel(x - BAR_END), pixel(x + BAR_END));
                path class="interval" aria-hidden="true"
                    d={ "M" (left) " " (pixel(low)) "H" (right)
                        "M" (pixel(x)) " " (pixel(low)) "V" (pixel(high))
                        "M" (left) " " (pixel(high)) "H" (right) } {}
            }
        }
    }

    /// The line, in as many pieces as unmeasured points leave.
    fn stretches(&self, series: &Series, frame: &Frame) -> Vec<String> {
        let mut pieces = Vec::new();
        for stretch in series.points.split(|point| point.value.is_none()) {
            let places: Vec<String> = stretch
                .iter()
                .filter_map(|point| point.value.map(|value| self.place(point.across, value, frame)))
                .map(|(x, y)| format!("{} {}", pixel(x), pixel(y)))
                .collect();
            if places.len() > 1 {
                pieces.push(format!("M{}", places.join("L")));
            }
        }
        pieces
    }

    /// The curves' names at their right ends, moved where they would overlap.
    fn names(&self, frame: &Frame) -> Markup {
        if frame.label_room <= 0.0 {
            return html! {};
        }
        let ends: Vec<(&Series, f64, f64)> = self
            .series
            .iter()
            .filter_map(|series| {
                let (across, value) = series
                    .points
                    .iter()
                    .rev()
                    .find_map(|point| point.value.map(|value| (point.across, value)))?;
                let (x, y) = self.place(across, value, frame);
                Some((series, x, y))
            })
            .collect();
        let wishes: Vec<f64> = ends.iter().map(|end| end.2).collect();
        let places = spread(&wishes, LABEL_GAP, frame.top - 6.0, frame.bottom);
        let margin = frame.right + 20.0;
        html! {
            @for (&(series, x, y), place) in ends.iter().zip(places) {
                g class={ "name " (series.style.class) } aria-hidden="true" {
                    // A curve that ends before the right edge, or a name that had to move, is joined to its
                    // name.
                    @if x < frame.right - 12.0 || (place - y).abs() > 5.0 {
                        path class="leader"
                            d={ "M" (pixel(x + 7.0)) " " (pixel(y))
                                "L" (pixel(margin - 4.0)) " " (pixel(place)) } {}
                    }
                    text x=(pixel(margin)) y=(pixel(place + 4.5)) {
                        (fitted(&series.label, LABEL_SIZE, frame.label_room))
                    }
                }
            }
        }
    }

    fn place(&self, across: f64, value: f64, frame: &Frame) -> (f64, f64) {
        (frame.place_of(self.across.position(across)), frame.height_of(self.upward.scale.position(value)))
    }
}

impl HorizontalAxis {
    /// The position of a value, 0 to 1.
    fn position(&self, value: f64) -> f64 {
        match self {
            HorizontalAxis::Clients(scale) => scale.position(value),
            HorizontalAxis::Percentiles(scale) => scale.position(value),
        }
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        match self {
            HorizontalAxis::Clients(scale) => {
                scale.counts().iter().map(|&count| (count as f64, super::number::count(count))).collect()
            }
            HorizontalAxis::Percentiles(scale) => scale.ticks(),
        }
    }

    fn title(&self) -> &'static str {
        match self {
            HorizontalAxis::Clients(scale) if scale.counts().len() < 2 => scale.title(),
            HorizontalAxis::Clients(scale) => match (scale.spacing(), scale.is_open()) {
                (Spacing::Linear, _) => scale.title(),
                (Spacing::Doubling, true) => "arrivals a second (log₂ scale)",
                (Spacing::Doubling, false) => "virtual clients (log₂ scale)",
            },
            HorizontalAxis::Percentiles(_) => "percentile of the answers (log scale)",
        }
    }

    /// How far in from the edges the first and last values lie, pixels.
    fn inset(&self) -> f64 {
        match self {
            HorizontalAxis::Clients(_) => 14.0,
            HorizontalAxis::Percentiles(_) => 0.0,
        }
    }
}

/// Where the axes lie on the canvas.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    second_left: f64,
    label_room: f64,
    inset: f64,
}

impl Frame {
    fn new(chart: &LineChart, canvas: Canvas) -> Frame {
        let scale = &chart.upward.scale;
        let widest = |texts: &mut dyn Iterator<Item = String>| {
            texts.map(|text| width(&text, TICK_SIZE)).fold(0.0, f64::max)
        };
        let first = widest(&mut scale.ticks().into_iter().map(|tick| scale.tick_label(tick)));
        let mut left = 4.0;
        let mut second_left = 0.0;
        if let Some((unit, factor)) = &chart.upward.second {
            let labels = scale.ticks().into_iter().map(|tick| second_label(scale, tick, *factor));
            second_left = left + widest(&mut labels.chain([unit.clone()]));
            // The two units are side by side over their columns.
            left = second_left + 8.0 + (width(&chart.upward.unit, TICK_SIZE) - first).max(0.0);
        }
        left += first + 10.0;
        let names = chart.series.iter().map(|series| width(&series.label, LABEL_SIZE)).fold(0.0, f64::max);
        let label_room = if chart.series.len() < 2 && !matches!(chart.across, HorizontalAxis::Percentiles(_))
        {
            0.0
        } else if canvas.name == "wide" || chart.names_fit(canvas) {
            names.min(canvas.label_room)
        } else {
            0.0
        };
        let right = canvas.width - if label_room > 0.0 { label_room + 22.0 } else { 14.0 };
        Frame {
            left,
            right,
            top: TOP,
            bottom: canvas.height - BOTTOM,
            second_left,
            label_room,
            inset: chart.across.inset(),
        }
    }

    fn place_of(&self, position: f64) -> f64 {
        self.left + self.inset + position * (self.right - self.left - 2.0 * self.inset)
    }

    fn height_of(&self, position: f64) -> f64 {
        self.bottom - position * (self.bottom - self.top)
    }
}

fn second_label(scale: &ValueScale, tick: f64, factor: f64) -> String {
    match *scale {
        ValueScale::Linear { top, step } => {
            ValueScale::Linear { top: top * factor, step: step * factor }.tick_label(tick * factor)
        }
        ValueScale::Logarithmic { .. } => scale.tick_label(tick * factor),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(rank: usize, value: f64) -> Series {
        let point =
            Point { across: 1.0, value: Some(value), words: None, lower_bound: false, interval: None };
        Series { label: format!("curve {rank}"), style: Style::of_system(rank), rank, points: vec![point] }
    }

    #[test]
    fn low_curves_get_a_scale_on_which_they_are_seen() {
        let series: Vec<Series> = (0..CURVES_MAX + 2)
            .map(|rank| curve(rank, if rank < CURVES_MAX { 20.0 } else { 1500.0 }))
            .collect();
        let chart = LineChart {
            id: "cost".to_string(),
            title: "Cost".to_string(),
            description: String::new(),
            across: HorizontalAxis::Clients(ClientScale::new([1])),
            upward: VerticalAxis {
                scale: ValueScale::from_zero(highest(&series), 6),
                unit: "us".to_string(),
                second: None,
            },
            series,
        };
        let parts = chart.parts();
        let seen = |part: &LineChart| {
            (part.upward.scale.position(highest(&part.series)) > 0.5, part.upward.unit.clone())
        };
        assert_eq!(
            parts.iter().map(seen).collect::<Vec<_>>(),
            [(true, "us (separate scale)".to_string()), (true, "us".to_string())]
        );
    }
}
