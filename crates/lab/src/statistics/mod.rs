//! The statistics of the lab, as pure functions of numbers: no function here reads a file, a clock or a
//! result.
//!
//! - [`warm_up`]: when a run is in a steady state (MSER-5);
//! - [`bootstrap`]: intervals of medians and of time series, seeded, so that the same figures give the same
//!   interval;
//! - [`quantile`]: medians, and the interval of a percentile of one run (order statistics);
//! - [`paired`]: whether two systems differ, against the noise that a system shows against itself;
//! - [`gate`]: whether a figure became worse, for continuous integration; [`change_points`]: since when;
//! - [`fairness`]: whether all clients were served equally;
//! - [`taint`]: whether the load engine, not the server, limited the figures;
//! - [`useful_peak`]: the highest load with acceptable latency and errors.
//!
//! `docs/method.md` describes the methods and their sources.

pub mod bootstrap;
pub mod change_points;
pub mod fairness;
pub mod gate;
pub mod paired;
pub mod quantile;
pub mod taint;
pub mod useful_peak;
pub mod warm_up;

/// A figure with its interval.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The estimate.
    pub estimate: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// Whether a value is in it.
    pub fn holds(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}
