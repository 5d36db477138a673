//! The laboratory: suites, mixes, systems under test, the monitor, results and reports.
//!
//! [`bench::run`] is the way through it: a [`suite::Suite`] is run on one or more systems under test
//! ([`system::Definition`]) while the [`monitor`] watches; what was measured becomes a [`result::ResultFile`] in an
//! [`output::ResultDirectory`].
//!
//! A [`result::ResultFile`] is what a bench run leaves behind: everything that was measured, with what is needed
//! to check and repeat it. The report ([`report`]), the [`verdict`] and the [`table`] are made from it alone, so that
//! they can be made again at any time.

pub mod acceleration;
pub mod answers;
pub mod bench;
mod cache;
pub mod capability;
pub mod certify;
pub mod compare;
mod definition;
pub mod derived;
mod engine_seconds;
pub mod export;
pub mod figures;
pub mod import;
pub mod latency;
pub mod limit;
pub mod live;
pub mod loads;
pub mod machine;
pub mod monitor;
pub mod output;
pub mod peaks;
pub mod placement;
pub mod planning;
mod probe;
pub mod programs;
pub mod raw;
pub mod read_result;
pub mod recording;
pub mod reference;
pub mod regular_file;
pub mod remote;
pub mod report;
pub mod result;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod schema;
pub mod series;
pub mod shell;
pub mod speedup;
pub mod spice;
pub mod statistics;
pub mod suite;
pub mod system;
pub mod table;
pub mod verdict;

pub use definition::DefinitionError;
