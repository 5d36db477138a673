//! `touchstone bench` and `touchstone compare` on a server whose difference is known: for nginx against
//! itself no difference is shown, and nginx without its cache of open files needs more processor time a
//! request than with it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use crate::support::skipped;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

/// How often a comparison is made: on a machine that is busy with other work chance shows a difference now
/// and then, as it may once in twenty times, or hides one.
const TRIES: usize = 6;

/// A definition of nginx of another name, with a change to its configuration.
fn nginx(place: &Path, name: &str, change: impl Fn(&str) -> String) -> String {
    let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../systems/nginx.toml");
    let text = fs::read_to_string(original).unwrap();
    let named = text.replacen("name = \"nginx\"", &format!("name = \"{name}\""), 1).replacen(
        "title = \"nginx {version}\"",
        &format!("title = \"{name}\""),
        1,
    );
    assert_ne!(named, text);
    let path = place.join(format!("{name}.toml"));
    fs::write(&path, change(&named)).unwrap();
    path.display().to_string()
}

/// Measures the systems in turns and returns the result.
fn measure(place: &Path, systems: &str) -> Value {
    let result = place.join("result");
    // Of an earlier try.
    let _ = fs::remove_dir_all(&result);
    // Root's run has precedence over other work: the kernel counts processor time by ticks, and a server that
    // seldom runs has few.
    let nice = if fs::metadata("/proc/self").unwrap().uid() == 0 { "-15" } else { "0" };
    let output = Command::new("nice")
        .args(["-n", nice, env!("CARGO_BIN_EXE_touchstone"), "bench", "webbench-1.1-static", "--no-report"])
        .args(["--sut", systems, "--clients", "4,8", "--runs", "8", "--length", "500ms"])
        .args(["--ramp-up", "150ms", "--ramp-down", "50ms", "--json", "--output"])
        .arg(&result)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&fs::read(result.join("result.json")).unwrap()).unwrap()
}

/// The comparison by a figure.
fn by<'a>(result: &'a Value, figure: &str) -> &'a Value {
    let all = result["comparisons"].as_array().unwrap();
    &all.iter().find(|it| it["figure"] == figure).unwrap()["comparison"]
}

#[test]
fn nginx_against_itself_shows_no_difference_and_gives_the_noise_floor() {
    let place = tempfile::tempdir().unwrap();
    if Command::new("nginx").arg("-v").output().is_err() {
        return skipped("nginx against itself (install nginx)");
    }
    let mut last = Value::Null;
    for _ in 0..TRIES {
        let result = measure(place.path(), "nginx,nginx");
        // Two systems, two mixes, eight runs: each run of each mix is a pair.
        assert_eq!(result["systems"][1]["name"], "nginx#2");
        assert_eq!(result["systems"][0]["mixes"].as_array().unwrap().len(), 16);
        assert_eq!(result["systems"][0]["loads"][0]["runs"], 8);
        assert_eq!(by(&result, "rate")["pairs"], 16);
        last = by(&result, "rate").clone();
        if last["conclusion"] == "no_difference_shown" {
            break;
        }
    }
    assert_eq!(last["conclusion"], "no_difference_shown", "{last:#}");
    // The command prints the same, and that a system that took part twice determines the floor.
    let directory = place.path().join("result");
    let output =
        Command::new(env!("CARGO_BIN_EXE_touchstone")).arg("compare").arg(&directory).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("no difference shown between nginx"));
}

#[test]
fn what_nginx_spends_without_its_cache_of_open_files_is_shown() {
    let place = tempfile::tempdir().unwrap();
    if Command::new("nginx").arg("-v").output().is_err() {
        return skipped("nginx with and without open_file_cache (install nginx)");
    }
    let with = nginx(place.path(), "nginx-with", str::to_owned);
    let without = nginx(place.path(), "nginx-without", |text| {
        text.lines()
            .filter(|line| !line.trim_start().starts_with("open_file_cache"))
            .map(|line| format!("{line}\n"))
            .collect()
    });
    let mut last = Value::Null;
    for _ in 0..TRIES {
        last = by(&measure(place.path(), &format!("{without},{with}")), "processor_time").clone();
        if last["conclusion"] == "first_higher" && last["ratio"]["low"].as_f64() > Some(1.01) {
            break;
        }
    }
    // It opens, stats and closes a file for each request: three system calls more.
    assert_eq!(last["conclusion"], "first_higher", "{last:#}");
    let ratio = |end: &str| last["ratio"][end].as_f64().unwrap();
    assert!(ratio("low") > 1.01 && ratio("low") <= ratio("estimate") && ratio("estimate") <= ratio("high"));
}
