//! The reports of the laboratory: the outcome of a result, in every form, and its checks.
//!
//! [`report`] is the page, [`export`] has the other forms, [`table`] the one for a terminal. [`certify`]
//! checks every figure against the raw data and signs; [`planning`] and [`answers`] draw conclusions from a
//! result.

pub mod answers;
mod audit;
pub mod certify;
#[cfg(test)]
mod contradictions;
pub mod export;
mod hardware;
mod number;
pub mod planning;
pub mod report;
pub mod run_rules;
pub mod table;
mod words;
