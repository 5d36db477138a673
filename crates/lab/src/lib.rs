//! The model of the laboratory: suites and mixes, results and raw data, statistics, and the statements that
//! follow from them.
//!
//! A [`suite::Suite`] describes the requests. A [`result::ResultFile`] is the result of a run in an
//! [`output::ResultDirectory`]: all measured data, with everything that is needed to check and repeat the
//! run; [`raw`] has the counts that its figures are made of. The [`verdict`] is made from a result alone.
//!
//! Runs are carried out by `touchstone-lab-run`, reports are made by `touchstone-lab-report`.

pub mod acceleration;
pub mod arrivals;
pub mod bottleneck;
pub mod cache;
pub mod capability;
pub mod compare;
pub mod definition;
pub mod derived;
pub mod engine_seconds;
pub mod figures;
pub mod hardware;
pub mod history;
pub mod latency;
pub mod loads;
pub mod machine;
pub mod memory;
pub mod open_load;
pub mod output;
pub mod peaks;
pub mod ranking;
pub mod raw;
mod raw_histogram;
mod raw_streams;
pub mod read_result;
pub mod recording;
pub mod reference;
pub mod regular_file;
pub mod result;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
pub mod saturation;
#[cfg(test)]
mod schema;
pub mod series;
pub mod shares;
pub mod shell;
pub mod speedup;
pub mod spice;
pub mod statistics;
pub mod suite;
pub mod threshold_record;
pub mod verdict;
pub mod warnings;

pub use definition::DefinitionError;
