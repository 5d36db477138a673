//! How `touchstone bench` measures: runs in blocks, a search for the peak that is confirmed by runs, and the
//! speedup over processors; its statements about them follow from the raw data.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use crate::support::skipped;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Runs the program, however long a busy machine takes for it.
fn touchstone<'w>(words: impl IntoIterator<Item = &'w str>) -> Output {
    Command::new(env!("CARGO_BIN_EXE_touchstone")).args(words).output().unwrap()
}

/// Measures the kernel's limit, which is always available, in short mixes, and returns the result.
fn measure(result: &Path, words: &[&str]) -> Value {
    let times = ["--length", "1s", "--ramp-up", "100ms", "--ramp-down", "50ms", "--no-report", "--output"];
    let before = ["bench", "webbench-1.1-static", "--sut", "limit"];
    let result_words = [result.to_str().unwrap()];
    let output = touchstone(before.iter().chain(words).chain(&times).chain(&result_words).copied());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&std::fs::read(result.join("result.json")).unwrap()).unwrap()
}

/// Whether every figure is computed again with the same value. (On a busy machine short mixes can break run
/// rules, which does not matter here.)
fn follows_from_raw_data(result: &Path) -> bool {
    let output = touchstone(["verify", result.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("figures from raw data"), "{text}");
    text.contains("computed again, all the same")
}

fn rows<'a>(value: &'a Value, name: &str) -> &'a Vec<Value> {
    value[name].as_array().unwrap()
}

fn numbers(rows: &[Value], name: &str) -> Vec<u64> {
    rows.iter().map(|row| row[name].as_u64().unwrap()).collect()
}

#[test]
fn mixes_are_run_in_blocks_and_all_that_is_said_of_them_is_computed_again() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("result");
    let result = measure(&directory, &["--runs", "3", "--clients", "1,3", "--p95", "10s"]);
    let system = &result["systems"][0];
    let mixes = rows(system, "mixes");
    assert_eq!(
        (numbers(mixes, "run"), numbers(mixes, "clients")),
        (vec![1, 1, 2, 2, 3, 3], vec![1, 3, 1, 3, 1, 3])
    );
    let loads = rows(system, "loads");
    assert_eq!((numbers(loads, "runs"), numbers(loads, "clients")), (vec![3, 3], vec![1, 3]));
    for load in loads {
        let rate = &load["requests_per_second"];
        let of = |end: &str| rate[end].as_f64().unwrap();
        assert!(of("low") <= of("median") && of("median") <= of("high"), "{rate}");
        // The run that represents the load is the middle one.
        let row = load["median_row"].as_u64().unwrap() as usize;
        assert_eq!(mixes[row]["requests_per_second"], rate["median"]);
    }
    assert!(mixes.iter().all(|mix| mix["fairness"]["jain"].as_f64().unwrap() > 0.0));
    assert_eq!(result["method"]["useful"]["p95_max_us"], 10e6);
    assert_eq!(rows(system, "peaks").len(), 1);
    // Another figure than that which follows from the runs is found.
    assert!(follows_from_raw_data(&directory));
    let path = directory.join("result.json");
    let mut changed = result.clone();
    changed["systems"][0]["peaks"][0]["peak"]["requests_per_second"]["median"] = 1e9.into();
    std::fs::write(&path, changed.to_string()).unwrap();
    assert!(!follows_from_raw_data(&directory));
}

#[test]
fn a_peak_is_searched_for_and_then_confirmed() {
    let place = tempfile::tempdir().unwrap();
    let result = measure(&place.path().join("result"), &["--find-peak", "--runs", "2"]);
    let system = &result["systems"][0];
    let trials = rows(system, "search");
    assert_eq!(numbers(trials, "clients")[..2], [1, 2]);
    let rate = |trial: &&Value| trial["requests_per_second"].as_f64().unwrap();
    let best = trials.iter().max_by(|left, right| rate(left).total_cmp(&rate(right))).unwrap();
    // What was found is measured as often as any mix, with loads on both sides of it.
    let loads = rows(system, "loads");
    let clients = numbers(loads, "clients");
    assert!(clients.contains(&best["clients"].as_u64().unwrap()) && clients[0] == 1, "{clients:?}");
    assert!(numbers(loads, "runs").iter().all(|runs| *runs == 2));
    assert!(follows_from_raw_data(&place.path().join("result")));
}

#[test]
fn a_system_is_measured_on_one_processor_and_on_two() {
    if std::thread::available_parallelism().map_or(1, std::num::NonZero::get) < 2 {
        return skipped("the speedup over processors (needs two processors)");
    }
    let place = tempfile::tempdir().unwrap();
    let result = measure(&place.path().join("result"), &["--cores", "1,2", "--clients", "4", "--runs", "1"]);
    let names: Vec<&str> = rows(&result, "systems").iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["limit@1p", "limit@2p"]);
    assert_eq!(result["systems"][1]["cpus"].as_array().unwrap().len(), 2);
    let speedups = rows(&result, "speedups");
    assert_eq!(
        (speedups.len(), &speedups[0]["base_processors"], &speedups[0]["processors"]),
        (1, &1.into(), &2.into())
    );
    let of = |name: &str| speedups[0][name].as_f64().unwrap();
    assert!((of("speedup") / 2.0 - of("efficiency")).abs() < 1e-9 && of("speedup") > 0.0);
}
