//! The suites of the accelerator from the outside: Apache httpd alone and accelerated in one run of the
//! shortest form, with its factors, what is left for the origin, and the hits of each class.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::skipped;
use serde_json::Value;

fn can_run() -> bool {
    let apache = ["apache2", "httpd"].iter().any(|name| {
        ["/usr/sbin", "/usr/bin"].iter().any(|directory| Path::new(directory).join(name).exists())
    });
    if !apache {
        skipped("an origin alone and accelerated (install apache2)");
        return false;
    }
    let compiler = Command::new("cc").arg("--version").output().is_ok();
    if !compiler {
        skipped("an origin with CGI programs in C (install gcc)");
    }
    compiler
}

fn bench(place: &Path, suite: &str, systems: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_touchstone"))
        .args(["bench", suite, "--quick", "--sut", systems, "--clients", "2"])
        .args(["--length", "2s", "--ramp-up", "100ms", "--ramp-down", "50ms", "--output"])
        .arg(place.join("result"))
        .env("TOUCHSTONE_CACHE", place.join("cache"))
        .env_remove("TOUCHSTONE_PROGRAMS")
        .output()
        .unwrap()
}

#[test]
fn an_origin_is_measured_alone_and_accelerated_in_one_run() {
    if !can_run() {
        return;
    }
    for (suite, classes, factors) in
        [("accelerator-static", 10, "report 004: 6.0 and 7.4"), ("accelerator-mixed", 11, "report 004: 12.4")]
    {
        let place = tempfile::tempdir().unwrap();
        let output = bench(place.path(), suite, "apache,touchstone-accelerator");
        assert!(output.status.success(), "{suite}: {}", String::from_utf8_lossy(&output.stderr));
        let text = fs::read_to_string(place.path().join("result/result.json")).unwrap();
        let result: Value = serde_json::from_str(&text).unwrap();
        for system in result["systems"].as_array().unwrap() {
            let mix = &system["mixes"][0];
            assert!(mix["requests"].as_u64().unwrap() > 0, "{suite}: {}: {mix}", system["name"]);
            for kind in ["connect", "reset", "timeout", "short_body", "bad_status", "malformed"] {
                assert_eq!(mix["errors"][kind].as_u64(), Some(0), "{suite}: {} {kind}", system["name"]);
            }
        }
        assert!(result["systems"][0]["origin"].is_null(), "{suite}");
        let origin = &result["systems"][1]["origin"];
        assert_eq!(origin["name"], "apache");
        assert_eq!(origin["mixes"].as_array().unwrap().len(), 1);
        let hits = origin["hits"].as_array().unwrap();
        assert_eq!(hits.len(), classes, "{suite}");
        for class in hits {
            // Each file was requested before the mix, and is fresh for ten minutes.
            assert_eq!(class["hits"], class["asked"], "{suite}: {class}");
        }
        // The origin is the same server in the same configuration, but for its port and its own directories.
        let configuration = result["systems"][1]["configuration"].as_array().unwrap();
        assert!(configuration.iter().any(|file| file["name"] == "origin: httpd.conf"), "{suite}");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(
            printed.contains("times as fast accelerated as alone") && printed.contains(factors),
            "{printed}"
        );
        let report = fs::read_to_string(place.path().join("result/report.html")).unwrap();
        for text in
            ["Acceleration: the origin alone and accelerated", "Report 004, Table 5", "Hits per class"]
        {
            assert!(report.contains(text), "{suite}: {text} is not in the report");
        }
    }
}

#[test]
fn an_accelerator_without_its_origin_says_what_to_install() {
    let place = tempfile::tempdir().unwrap();
    let built_in = include_str!("../../../../systems/touchstone-accelerator.toml");
    let definition = place.path().join("accelerator.toml");
    fs::write(&definition, built_in.replace("origin = \"apache\"", "origin = \"apacke\"")).unwrap();
    let output = bench(place.path(), "accelerator-static", &definition.display().to_string());
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("there is no system `apacke`; did you mean `apache`?"), "{message}");
}
