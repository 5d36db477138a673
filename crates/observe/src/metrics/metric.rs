//! The definition of a metric, and how its samples are written.

use std::fmt::{self, Display, Write as _};

use super::histogram::Distribution;
use super::totals::Totals;

/// One metric.
pub struct Definition {
    /// Its name, without the ending that its kind adds (`_total`, `_info`).
    pub name: &'static str,
    /// The kind of its values.
    pub kind: Kind,
    /// Its meaning, in one sentence.
    pub help: &'static str,
    /// Its labels, each with its values.
    pub labels: &'static [(&'static str, &'static str)],
    /// Adds its samples.
    pub(super) collect: fn(&Totals, &mut Samples<'_>),
}

/// The kind of a metric's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, until the process starts again.
    Counter,
    /// It rises and falls.
    Gauge,
    /// How many values were at most each bound.
    Histogram,
    /// Always 1; the labels contain the information.
    Info,
}

impl Kind {
    /// The suffix of a sample's name.
    pub fn ending(self) -> &'static str {
        match self {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        }
    }
}

impl Definition {
    /// The unit that the name ends with, if it has one.
    pub fn unit(&self) -> Option<&'static str> {
        ["seconds", "bytes"]
            .into_iter()
            .find(|unit| self.name.strip_suffix(unit).is_some_and(|before| before.ends_with('_')))
    }
}

/// The samples of one metric: as text for the exposition, or as numbers.
pub struct Samples<'d> {
    pub(super) definition: &'d Definition,
    pub(super) output: Output,
}

/// The destination of samples.
pub(super) enum Output {
    Text(String),
    Points(Vec<Point>),
}

/// One sample as numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The values of the labels, in the order of the definition.
    pub labels: Vec<String>,
    /// The value.
    pub value: PointValue,
}

/// The value of a sample.
#[derive(Debug, Clone, PartialEq)]
pub enum PointValue {
    /// A whole number.
    Number(u64),
    /// A number with a fraction.
    Float(f64),
    /// How many values were at most each bound, the number of all values, and their sum.
    Histogram {
        /// The bounds, in their order.
        bounds: Vec<f64>,
        /// For each bound, how many values were at most this bound.
        cumulative: Vec<u64>,
        /// The number of all values.
        count: u64,
        /// Their sum.
        sum: f64,
    },
}

impl Definition {
    /// Its samples as numbers.
    pub fn points(&self, totals: &Totals) -> Vec<Point> {
        let mut samples = Samples { definition: self, output: Output::Points(Vec::new()) };
        (self.collect)(totals, &mut samples);
        match samples.output {
            Output::Points(points) => points,
            Output::Text(_) => Vec::new(),
        }
    }

    /// Its samples as lines of the exposition.
    pub(super) fn text(&self, totals: &Totals) -> String {
        let mut samples = Samples { definition: self, output: Output::Text(String::new()) };
        (self.collect)(totals, &mut samples);
        match samples.output {
            Output::Text(text) => text,
            Output::Points(_) => String::new(),
        }
    }
}

impl Samples<'_> {
    /// Adds a whole number; the values of the labels are in the order of the definition.
    pub fn add(&mut self, labels: &[&str], value: u64) {
        self.add_point(labels, PointValue::Number(value));
    }

    /// Adds one number for each row; `labels` are those of a row.
    pub fn each<R, const LABELS: usize>(
        &mut self,
        rows: &[R],
        labels: impl Fn(&R) -> [&str; LABELS],
        number: impl Fn(&R) -> u64,
    ) {
        rows.iter().for_each(|row| self.add(&labels(row), number(row)));
    }

    /// Adds numbers for each row, which one more label distinguishes; it is the last label.
    pub fn each_of<R, const LABELS: usize, const COUNT: usize>(
        &mut self,
        rows: &[R],
        labels: impl Fn(&R) -> [&str; LABELS],
        more: [&str; COUNT],
        numbers: impl Fn(&R) -> [u64; COUNT],
    ) {
        for row in rows {
            let labels = labels(row);
            for (last, number) in more.iter().zip(numbers(row)) {
                let all: Vec<&str> = labels.iter().copied().chain([*last]).collect();
                self.add(&all, number);
            }
        }
    }

    /// Adds a number with a fraction.
    pub fn add_float(&mut self, labels: &[&str], value: f64) {
        self.add_point(labels, PointValue::Float(value));
    }

    /// Adds a histogram of times, in seconds.
    pub fn add_histogram(&mut self, labels: &[&str], distribution: &Distribution) {
        let (bounds, cumulative) =
            distribution.cumulative().map(|(bound_ns, count)| (bound_ns as f64 / 1e9, count)).unzip();
        let (count, sum) = (distribution.count, distribution.sum_ns as f64 / 1e9);
        self.add_point(labels, PointValue::Histogram { bounds, cumulative, count, sum });
    }

    /// Adds a histogram of times from cumulative counts: bounds in seconds, how many values were at most each
    /// bound, the number of all values, and their sum.
    pub fn add_cumulative(&mut self, labels: &[&str], bounds_s: &[f64], counts: &[u64], all: (u64, f64)) {
        let (bounds, cumulative) = bounds_s.iter().copied().zip(counts.iter().copied()).unzip();
        self.add_point(labels, PointValue::Histogram { bounds, cumulative, count: all.0, sum: all.1 });
    }

    fn add_point(&mut self, labels: &[&str], value: PointValue) {
        debug_assert_eq!(labels.len(), self.definition.labels.len(), "{}", self.definition.name);
        match &mut self.output {
            Output::Points(points) => {
                let labels = labels.iter().map(ToString::to_string).collect();
                points.push(Point { labels, value });
            }
            Output::Text(text) => Lines { definition: self.definition, text }.append(labels, &value),
        }
    }
}

/// Writes samples as lines.
struct Lines<'d, 't> {
    definition: &'d Definition,
    text: &'t mut String,
}

impl Lines<'_, '_> {
    fn append(&mut self, labels: &[&str], value: &PointValue) {
        let ending = self.definition.kind.ending();
        match value {
            PointValue::Number(number) => self.line(ending, labels, None, number),
            PointValue::Float(number) => self.line(ending, labels, None, &Fraction(*number)),
            PointValue::Histogram { bounds, cumulative, count, sum } => {
                for (bound, count) in bounds.iter().zip(cumulative) {
                    self.line("_bucket", labels, Some(&format!("{bound:?}")), count);
                }
                self.line("_bucket", labels, Some("+Inf"), count);
                self.line("_sum", labels, None, &Fraction(*sum));
                self.line("_count", labels, None, count);
            }
        }
    }

    fn line(&mut self, ending: &str, labels: &[&str], bound: Option<&str>, value: &dyn Display) {
        self.text.push_str(self.definition.name);
        self.text.push_str(ending);
        self.labels(labels, bound);
        let _ = writeln!(self.text, " {value}");
    }

    fn labels(&mut self, values: &[&str], bound: Option<&str>) {
        let names = self.definition.labels.iter().map(|(name, _)| *name);
        let pairs = names.zip(values.iter().copied()).chain(bound.map(|bound| ("le", bound)));
        let mut separator = '{';
        for (name, value) in pairs {
            self.text.push(separator);
            separator = ',';
            self.text.push_str(name);
            self.text.push_str("=\"");
            append_label_value(self.text, value);
            self.text.push('"');
        }
        if separator == ',' {
            self.text.push('}');
        }
    }
}

/// A number that always has a fraction or an exponent.
struct Fraction(f64);

impl Display for Fraction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.0)
    }
}

/// Line ends, backslashes and quotes are escaped; a label may hold any other text.
fn append_label_value(text: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            _ => text.push(character),
        }
    }
}
