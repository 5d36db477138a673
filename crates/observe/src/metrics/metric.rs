//! What a metric is, and how its samples are written.

use std::fmt::Write as _;

use super::histogram::Distribution;
use super::totals::Totals;

/// One metric.
pub struct Definition {
    /// Its name, without the ending that its kind adds (`_total`, `_info`).
    pub name: &'static str,
    /// What kind of number it is.
    pub kind: Kind,
    /// What it means, in one sentence.
    pub help: &'static str,
    /// Its labels, each with what its values are.
    pub labels: &'static [(&'static str, &'static str)],
    /// Gives its samples.
    pub(super) collect: fn(&Totals, &mut Samples<'_>),
}

/// What kind of number a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, until the process starts anew.
    Counter,
    /// It goes up and down.
    Gauge,
    /// How many were no larger than each bound.
    Histogram,
    /// Always 1; the labels say it.
    Info,
}

impl Kind {
    /// What a sample's name has after the metric's.
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

/// The samples of one metric.
pub struct Samples<'d> {
    pub(super) definition: &'d Definition,
    pub(super) text: String,
}

impl Samples<'_> {
    /// Adds a whole number; the values of the labels are in the order of the definition.
    pub fn add(&mut self, labels: &[&str], value: u64) {
        self.name(self.definition.kind.ending());
        self.labels(labels, None);
        let _ = writeln!(self.text, " {value}");
    }

    /// Adds a number with a fraction.
    pub fn add_float(&mut self, labels: &[&str], value: f64) {
        self.name(self.definition.kind.ending());
        self.labels(labels, None);
        let _ = writeln!(self.text, " {value:?}");
    }

    /// Adds a histogram of times, in seconds.
    pub fn add_histogram(&mut self, labels: &[&str], distribution: &Distribution) {
        for (bound_ns, count) in distribution.cumulative() {
            self.name("_bucket");
            self.labels(labels, Some(&format!("{:?}", bound_ns as f64 / 1e9)));
            let _ = writeln!(self.text, " {count}");
        }
        self.name("_bucket");
        self.labels(labels, Some("+Inf"));
        let _ = writeln!(self.text, " {}", distribution.count);
        self.name("_sum");
        self.labels(labels, None);
        let _ = writeln!(self.text, " {:?}", distribution.sum_ns as f64 / 1e9);
        self.name("_count");
        self.labels(labels, None);
        let _ = writeln!(self.text, " {}", distribution.count);
    }

    /// Adds a histogram of times from counts that are added up already: bounds in seconds, how many were no
    /// larger, how many there were, and their sum.
    pub fn add_cumulative(&mut self, labels: &[&str], bounds_s: &[f64], counts: &[u64], all: (u64, f64)) {
        for (bound, count) in bounds_s.iter().zip(counts) {
            self.name("_bucket");
            self.labels(labels, Some(&format!("{bound:?}")));
            let _ = writeln!(self.text, " {count}");
        }
        self.name("_bucket");
        self.labels(labels, Some("+Inf"));
        let _ = writeln!(self.text, " {}", all.0);
        self.name("_sum");
        self.labels(labels, None);
        let _ = writeln!(self.text, " {:?}", all.1);
        self.name("_count");
        self.labels(labels, None);
        let _ = writeln!(self.text, " {}", all.0);
    }

    fn name(&mut self, ending: &str) {
        self.text.push_str(self.definition.name);
        self.text.push_str(ending);
    }

    fn labels(&mut self, values: &[&str], bound: Option<&str>) {
        debug_assert_eq!(values.len(), self.definition.labels.len(), "{}", self.definition.name);
        let names = self.definition.labels.iter().map(|(name, _)| *name);
        let pairs = names.zip(values.iter().copied()).chain(bound.map(|bound| ("le", bound)));
        let mut separator = '{';
        for (name, value) in pairs {
            self.text.push(separator);
            separator = ',';
            self.text.push_str(name);
            self.text.push_str("=\"");
            append_label_value(&mut self.text, value);
            self.text.push('"');
        }
        if separator == ',' {
            self.text.push('}');
        }
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
