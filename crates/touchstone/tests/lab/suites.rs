//! A few of the suites, each for a second, against our own server and nginx: pages over HTTP/1.0, programs
//! that are asked for a size, two ports with and without TLS, HTTP/2 and 3, and an application over FastCGI.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::skipped;
use serde_json::Value;

/// The systems that can be measured: ours, and nginx where it is installed.
fn systems() -> &'static str {
    if ["/usr/sbin/nginx", "/usr/bin/nginx"].iter().any(|path| Path::new(path).exists()) {
        return "touchstone,nginx";
    }
    skipped("suites on nginx (install nginx)");
    "touchstone"
}

fn can_compile() -> bool {
    let can = Command::new("cc").arg("--version").output().is_ok();
    if !can {
        skipped("suites with programs in C (install gcc)");
    }
    can
}

/// Runs a suite for a second, and looks that every system that was measured answered rightly.
fn run(suite: &str, systems: &str, clients: &str) -> Value {
    let place = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_touchstone"))
        .args(["bench", suite, "--quick", "--sut", systems, "--clients", clients])
        .args(["--length", "1s", "--ramp-up", "100ms", "--ramp-down", "50ms", "--output"])
        .arg(place.path().join("result"))
        .env("TOUCHSTONE_CACHE", place.path().join("cache"))
        .env_remove("TOUCHSTONE_PROGRAMS")
        .output()
        .unwrap();
    assert!(output.status.success(), "{suite}: {}", String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(place.path().join("result/result.json")).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    for system in result["systems"].as_array().unwrap() {
        for mix in system["mixes"].as_array().unwrap() {
            assert!(mix["requests"].as_u64().unwrap() > 0, "{suite}: {}: {mix}", system["name"]);
            let errors: u64 = mix["errors"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
            assert_eq!(errors, 0, "{suite}: {}: {}", system["name"], mix["errors"]);
        }
    }
    result
}

/// How many systems were measured.
fn measured(result: &Value) -> usize {
    let systems = result["systems"].as_array().unwrap().iter();
    systems.filter(|system| !system["mixes"].as_array().unwrap().is_empty()).count()
}

#[test]
fn pages_of_webstone_come_over_a_connection_for_each_file() {
    let systems = systems();
    let result = run("webstone-1.1", systems, "2");
    assert_eq!(measured(&result), systems.split(',').count());
    for system in result["systems"].as_array().unwrap() {
        let mix = &system["mixes"][0];
        let (requests, connections) =
            (mix["requests"].as_u64().unwrap(), mix["connections"].as_u64().unwrap());
        // Those under way at the edges of the window are counted once.
        assert!(requests.abs_diff(connections) <= 4, "{requests} requests, {connections} connections");
    }
}

#[test]
fn programs_answer_with_as_many_bytes_as_they_are_asked_for() {
    if can_compile() {
        assert_eq!(measured(&run("webstone-2-cgi", "touchstone", "2")), 1);
        assert_eq!(measured(&run("webstone-2-dynamic", "touchstone", "2")), 1);
        assert_eq!(measured(&run("webbench-1.0-heavy-cgi", "touchstone", "2")), 1);
    }
}

#[test]
fn some_requests_go_over_tls_and_some_do_not() {
    if can_compile() {
        let result = run("e-commerce", "touchstone,limit", "8");
        // The limit has no TLS, and says so.
        assert_eq!(measured(&result), 1);
        let reason = result["systems"][1]["skipped"][0]["reason"].as_str().unwrap();
        assert!(reason.contains("is without TLS, which the suite asks for"), "{reason}");
    }
}

#[test]
fn handshakes_are_full_or_resumed_as_the_suite_says() {
    let systems = systems();
    for (suite, resumed_share) in [("tls-full", 0.0), ("tls-resumed", 1.0)] {
        let result = run(suite, systems, "4");
        assert_eq!(measured(&result), systems.split(',').count());
        for system in result["systems"].as_array().unwrap() {
            let counts = &system["mixes"][0]["tls_handshakes"];
            let (full, resumed) = (counts["full"].as_f64().unwrap(), counts["resumed"].as_f64().unwrap());
            // The first connections have no session to take up.
            assert!((resumed / (full + resumed) - resumed_share).abs() < 0.2, "{}: {counts}", system["name"]);
        }
    }
}

#[test]
fn the_objects_of_a_page_come_over_http_2() {
    let systems = systems();
    let result = run("page-2025", systems, "32");
    assert_eq!(measured(&result), systems.split(',').count());
    assert_eq!(result["suite"]["http_version"], "HTTP/2");
}

#[test]
fn the_same_objects_and_single_answers_come_over_http_3() {
    let has_caddy = ["/usr/bin/caddy", "/usr/local/bin/caddy"].iter().any(|path| Path::new(path).exists());
    if !has_caddy {
        skipped("suites of HTTP/3 on Caddy (install caddy)");
    }
    for (suite, clients) in [("page-2025-h3", "32"), ("h3-static", "16"), ("h3-small", "16")] {
        let systems = if has_caddy { "touchstone,caddy,nginx" } else { "touchstone,nginx" };
        let result = run(suite, systems, clients);
        assert_eq!(measured(&result), 1 + usize::from(has_caddy), "{suite}");
        assert_eq!(result["suite"]["http_version"], "HTTP/3");
        let without = result["systems"].as_array().unwrap().last().unwrap();
        let reason = without["skipped"][0]["reason"].as_str().unwrap();
        assert!(reason.contains("HTTP/3"), "{reason}");
    }
}

#[test]
fn an_application_over_fastcgi_answers_with_json() {
    if can_compile() {
        let systems = systems();
        assert_eq!(measured(&run("api-json", systems, "4")), systems.split(',').count());
    }
}
