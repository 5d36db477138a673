//! A few of the suites, each for a second, against our own server and nginx: pages over HTTP/1.0, programs
//! with a requested size, two ports with and without TLS, HTTP/2 and 3, and an application over FastCGI.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::spice::{counted_nothing, has_java};
use crate::support::skipped;
use serde_json::Value;
use touchstone_lab::result::ResultFile;
use touchstone_lab::shares;

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

/// Runs a suite for a second, and checks that every measured system answered correctly.
fn run(suite: &str, systems: &str, clients: &str) -> Value {
    run_until(suite, systems, clients, |result| !counted_nothing(result))
}

/// The same; if a busy machine counts too little in a second, longer mixes are run.
fn run_until(suite: &str, systems: &str, clients: &str, is_enough: impl Fn(&Value) -> bool) -> Value {
    let place = tempfile::tempdir().unwrap();
    let measure = |seconds: u64| -> Value {
        let output = Command::new(env!("CARGO_BIN_EXE_touchstone"))
            .args(["bench", suite, "--quick", "--sut", systems, "--clients", clients])
            .args(["--length", &format!("{seconds}s"), "--ramp-up", "100ms", "--ramp-down", "50ms"])
            .arg("--output")
            .arg(place.path().join(format!("result-{seconds}")))
            .env("TOUCHSTONE_CACHE", place.path().join("cache"))
            .env_remove("TOUCHSTONE_PROGRAMS")
            .output()
            .unwrap();
        assert!(output.status.success(), "{suite}: {}", String::from_utf8_lossy(&output.stderr));
        let text = fs::read_to_string(place.path().join(format!("result-{seconds}/result.json"))).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let mut result = measure(1);
    for seconds in [5, 25] {
        if !is_enough(&result) {
            result = measure(seconds);
        }
    }
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
        // Requests that are active at the edges of the window are counted once.
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
        // The limit has no TLS, and reports that.
        assert_eq!(measured(&result), 1);
        let reason = result["systems"][1]["skipped"][0]["reason"].as_str().unwrap();
        assert!(reason.contains("is without TLS, which the suite requires"), "{reason}");
        tls_is_counted_in_the_window(&result);
    }
}

#[test]
fn the_e_commerce_mix_runs_with_servlets() {
    if !can_compile() || !has_java() {
        return;
    }
    let result = run("e-commerce-servlet", "touchstone", "8");
    assert_eq!(measured(&result), 1);
    tls_is_counted_in_the_window(&result);
}

/// 8 % of the counted requests use TLS, a quarter of them to a program.
fn tls_is_counted_in_the_window(result: &Value) {
    let result: ResultFile = serde_json::from_value(result.clone()).unwrap();
    let mix = &result.systems[0].mixes[0];
    let shares = shares::of(&result.suite, mix);
    let all: u64 = shares.iter().map(|share| share.requests).sum();
    assert_eq!(all, mix.requests, "every answer in the window is of one kind: {shares:?}");
    for share in &shares {
        // Five standard errors of a chance that is drawn so often.
        let tolerance = 5.0 * (share.stated * (1.0 - share.stated) / all as f64).sqrt() + 1.0 / all as f64;
        assert!((share.counted - share.stated).abs() < tolerance, "{share:?} of {all}");
    }
    let with_tls = shares.iter().filter(|share| share.tls);
    assert!((with_tls.map(|share| share.stated).sum::<f64>() - 0.08).abs() < 1e-9);
}

#[test]
fn handshakes_are_full_or_resumed_as_the_suite_says() {
    let systems = systems();
    for (suite, resumed_share) in [("tls-full", 0.0), ("tls-resumed", 1.0)] {
        let handshakes = |system: &Value| {
            let counts = &system["mixes"][0]["tls_handshakes"];
            (counts["full"].as_f64().unwrap_or(0.0), counts["resumed"].as_f64().unwrap_or(0.0))
        };
        let many = |system: &Value| handshakes(system).0 + handshakes(system).1 >= 40.0;
        let result =
            run_until(suite, systems, "4", |result| result["systems"].as_array().unwrap().iter().all(many));
        assert_eq!(measured(&result), systems.split(',').count());
        for system in result["systems"].as_array().unwrap() {
            let counts = &system["mixes"][0]["tls_handshakes"];
            let (full, resumed) = handshakes(system);
            // The first connections have no session to resume.
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
fn rates_that_are_stated_are_told_by_what_was_carried_and_hold_on_verification() {
    // On a machine that stands still for a moment the sums of so short a run may not agree; if they are
    // wrong, they are wrong in every run.
    let mut tried = Vec::new();
    loop {
        let (is_verified, words) = measured_at_rates();
        if is_verified {
            break;
        }
        assert!(words.contains("sums do not come out right") && tried.len() < 5, "{tried:#?}{words}");
        tried.push(words);
    }
    for (arguments, reason) in [
        (&["--rate", "5,5"][..], "names 5 twice"),
        (&["--rate", "5", "--clients", "1,2"], "--clients is one number"),
        (&["--rate", "0"], "above 0"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_touchstone"))
            .args(["bench", "webbench-1.1-static", "--quick"])
            .args(arguments)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(reason), "{arguments:?}: {said}");
    }
}

/// Measures at two rates; returns whether the result is verified, and what is said of it.
fn measured_at_rates() -> (bool, String) {
    let place = tempfile::tempdir().unwrap();
    let result = place.path().join("result");
    let systems = systems();
    let output = Command::new(env!("CARGO_BIN_EXE_touchstone"))
        .args(["bench", "webbench-1.1-static", "--quick", "--sut", systems, "--rate", "100,200"])
        .args(["--clients", "16", "--length", "2s", "--ramp-up", "200ms", "--ramp-down", "200ms", "--output"])
        .arg(&result)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said} {}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("arrivals/s") && !said.contains("peaked"), "{said}");
    let text = fs::read_to_string(result.join("result.json")).unwrap();
    let read: ResultFile = serde_json::from_str(&text).unwrap();
    for system in &read.systems {
        assert!(system.peaks.is_empty() && system.loads.len() == 2, "{system:?}");
        for (mix, rate) in system.mixes.iter().zip([100.0, 200.0]) {
            let arrivals = mix.arrivals.as_ref().unwrap();
            assert_eq!((arrivals.per_second, mix.clients, mix.errors.total()), (rate, 16, 0));
            // 1.6 s are counted, to the arrival at each end.
            assert!((arrivals.due as f64 - rate * 1.6).abs() <= 2.0, "{arrivals:?}");
            assert!(mix.fairness.is_none() && mix.latency.count <= arrivals.started);
        }
    }
    let verified = Command::new(env!("CARGO_BIN_EXE_touchstone"))
        .args(["verify", "--require", "indicative"])
        .arg(&result)
        .output()
        .unwrap();
    let words = [&verified.stdout[..], &verified.stderr].concat();
    (verified.status.success(), String::from_utf8_lossy(&words).into_owned())
}

#[test]
fn an_application_over_fastcgi_answers_with_json() {
    if can_compile() {
        let systems = systems();
        assert_eq!(measured(&run("api-json", systems, "4")), systems.split(',').count());
    }
}

#[test]
fn a_system_is_measured_with_little_and_with_more_memory_and_what_is_said_is_disclosed() {
    let place = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_touchstone"))
        .args(["bench", "memory", "--quick", "--sut", "touchstone", "--memory", "96MiB,1GiB"])
        .args(["--clients", "2", "--length", "1s", "--ramp-up", "100ms", "--ramp-down", "50ms"])
        .args([
            "--warm-up",
            "100ms",
            "--sponsor",
            "Example Inc.",
            "--switch",
            "none",
            "--note",
            "after lunch",
        ])
        .arg("--output")
        .arg(place.path().join("result"))
        .env("TOUCHSTONE_CACHE", place.path().join("cache"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("cannot be limited here") {
        assert_eq!(output.status.code(), Some(2), "{said}");
        return skipped("memory variation (run as root, or with systemd-run --user --scope)");
    }
    assert!(output.status.success(), "{said}");
    let text = fs::read_to_string(place.path().join("result/result.json")).unwrap();
    let result: ResultFile = serde_json::from_str(&text).unwrap();
    let sizes: Vec<(&str, Option<u64>)> =
        result.systems.iter().map(|system| (system.name.as_str(), system.memory_bytes)).collect();
    assert_eq!(sizes, [("touchstone@96MiB", Some(96 << 20)), ("touchstone@1GiB", Some(1 << 30))]);
    for system in &result.systems {
        let mix = &system.mixes[0];
        assert!(mix.requests > 0 && mix.errors.total() == 0, "{}: {:?}", system.name, mix.errors);
        let resident = mix.server.as_ref().unwrap().resident_bytes_max;
        assert!(resident < 1 << 30, "{}: {resident} bytes", system.name);
    }
    assert_eq!(touchstone_lab::memory::rows(&result).len(), 1);
    assert_eq!(result.disclosure.sponsor.as_deref(), Some("Example Inc."));
    let page = fs::read_to_string(place.path().join("result/report.html")).unwrap();
    for words in ["Example Inc.", "after lunch", "Network cards", "Disks", "96MiB"] {
        assert!(page.contains(words), "{words} is not in the report");
    }
}
