//! The laboratory: suites, load, measured results, reports.
//!
//! One program for all of them: a new file is a module here, and takes what it needs from `crate::support`.
//! `cargo test -p touchstone --test lab NAME` runs the tests whose path contains NAME.

#[path = "../support/mod.rs"]
mod support;

mod bench_script;
mod compare;
mod conformance;
mod import;
mod import_sessions;
mod limit_command;
mod live;
mod load_command;
mod load_layers;
mod load_live;
mod load_open;
mod load_sessions;
mod load_streams;
mod load_thresholds;
mod load_websockets;
mod method;
mod plan;
mod remote;
mod report;
mod spice;
mod suites;
mod verify;
