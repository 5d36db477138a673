//! Tests of valid and invalid thresholds, and of their verdicts on known figures.

use super::*;
use crate::record::{Times, ValidAnswer};
use crate::target::Target;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn plan() -> Plan {
    let target = Target::plain(([127, 0, 0, 1], 80).into(), "shop.example");
    let request = |class, method: &str, path: &str| PlannedRequest {
        class,
        method: method.to_string(),
        ..PlannedRequest::get(path)
    };
    let requests = vec![request(0, "GET", "/"), request(1, "GET", "/basket"), request(2, "POST", "/basket")];
    Plan { requests, ..Plan::of_one(target, "/") }
}

/// The figures of 10 s in which class n had 100 answers of (n + 1) x 100 ms, and class 2 also had five
/// timeouts.
fn figures(plan: &Plan) -> LiveFigures {
    let times = Times::new(0, Duration::ZERO, Duration::from_secs(10), Duration::ZERO);
    let mut record = Record::new(plan, times, 1);
    for class in 0..3 {
        for number in 0..100 {
            let latency_ns = (class as u64 + 1) * 100 * MS;
            let ended_ns = 1000 * MS + number;
            let (bytes, body_bytes, service_ns, intended_ns) = (10, 5, latency_ns, ended_ns - latency_ns);
            let valid =
                ValidAnswer { intended_ns, ended_ns, latency_ns, service_ns, class, bytes, body_bytes };
            record.answered(0, &valid);
        }
    }
    for _ in 0..5 {
        record.failed(
            0,
            2,
            2,
            crate::outcome::ErrorKind::Timeout.into(),
            2000 * MS,
            crate::failure::Example::default(),
        );
    }
    LiveFigures::of(&record, 10_000 * MS)
}

fn judged(text: &str) -> Verdict {
    let plan = plan();
    let threshold = Threshold::parse(text).expect("a threshold").bind(&plan).expect("of this plan");
    threshold.verdict_on_figures(&figures(&plan).figures())
}

#[test]
fn known_figures_have_the_stated_distance() {
    for (text, words) in [
        ("p99>200ms", "300 ms, 100 ms above 200 ms, 50 %"),
        ("p99 > 0.2s", "300 ms, 100 ms above 200 ms, 50 %"),
        ("max>=300ms", "300 ms, exactly the limit"),
        ("errors>1%", "1.64 %, 0.639 % above 1 %, 63.9 %"),
        ("errors>4", "5, 1 above 4, 25 %"),
        ("timeout>0", "5, 5 above 0"),
        ("rate<40", "30 a second, 10 a second below 40 a second, 25 %"),
        ("requests<=300", "300, exactly the limit"),
        ("p50{/basket}>150ms", "200 ms, 50 ms above 150 ms, 33.3 %"),
        ("p50{POST /basket}>150ms", "300 ms, 150 ms above 150 ms, 100 %"),
        ("p50{http://shop.example/b*}>150ms", "200 ms, 50 ms above 150 ms, 33.3 %"),
        ("rate{/}<20", "10 a second, 10 a second below 20 a second, 50 %"),
        ("errors{POST /*}>0.1%", "4.76 %, 4.66 % above 0.1 %, 4,662 %"),
    ] {
        let verdict = judged(text);
        assert!(!verdict.is_kept, "{text}: {}", verdict.words);
        // Histograms have two or three digits, and return the highest equivalent value.
        let rounded = verdict.words.replace("302 ms", "300 ms").replace("101 ms", "100 ms");
        let rounded = rounded.replace("50.5 %", "50 %").replace("50.1 %", "50 %").replace("201 ms", "200 ms");
        assert_eq!(rounded.split(',').next(), words.split(',').next(), "{text}: {}", verdict.words);
        assert!(verdict.to_string().starts_with(text));
    }
    assert_eq!(judged("rate<40").words, "30 a second, 10 a second below 40 a second, 25 %");
    assert_eq!(judged("rate<40000").words, "30 a second, 39,970 a second below 40,000 a second, 99.9 %");
    assert_eq!(judged("max>=300ms").measured.map(|us| us >= 300_000.0), Some(true));
}

#[test]
fn a_met_threshold_shows_its_figure_and_a_missing_figure_fails() {
    for text in ["p99>400ms", "p99{/}>150ms", "errors>2%", "errors{/}>0", "rate<30", "requests<300", "tls>0"]
    {
        assert!(judged(text).is_kept, "{text}: {}", judged(text).words);
    }
    let verdict = judged("handshake.p99>1s");
    assert!(!verdict.is_kept && verdict.measured.is_none() && verdict.words == "nothing was measured");
    let plan = plan();
    let threshold = Threshold::parse("handshake.p99>1s").expect("a threshold");
    assert!(
        threshold.missed_so_far(&figures(&plan)).is_none(),
        "a run is not ended while a figure is missing"
    );
}

#[test]
fn the_threads_are_added_up() {
    let plan = plan();
    let mut sum = figures(&plan);
    sum.merge(&figures(&plan));
    let measured =
        |text: &str| Threshold::parse(text).expect("a threshold").verdict_on_figures(&sum.figures()).measured;
    assert_eq!(measured("requests<1"), Some(600.0));
    assert_eq!(measured("timeout>0"), Some(10.0));
    assert_eq!(measured("rate<1"), Some(60.0));
}

#[test]
fn invalid_thresholds_are_refused_with_a_hint() {
    for (text, words) in [
        ("", "p99>200ms"),
        ("p99", "p99>200ms"),
        ("p99=200ms", "p99>200ms"),
        ("p99>200", "write 200ms"),
        ("p99>ms", "not a limit"),
        ("p100>1s", "not a measure"),
        ("p0>1s", "not a measure"),
        ("q99>1s", "not a measure"),
        ("errors>1x", "0.1%"),
        ("rate<10%", "not a rate"),
        ("requests<10%", "a number"),
        ("timeout{/}>0", "latencies, errors"),
        ("connect.p99{/}>1s", "latencies, errors"),
        ("p99{/>1s", "between { and }"),
        ("p99}/{>1s", "between { and }"),
    ] {
        let error = Threshold::parse(text).expect_err(text);
        assert!(error.contains(words), "{text}: {error}");
    }
    let bind = |text: &str| Threshold::parse(text).expect("a threshold").bind(&plan());
    assert!(bind("p99{/nowhere}>1s").is_err_and(|error| error.contains("no request has the URL /nowhere")));
    assert!(bind("unsent>0").is_err_and(|error| error.contains("rate")));
    let mut together = plan();
    together.requests.iter_mut().for_each(|request| request.class = 0);
    let threshold = Threshold::parse("p99{/}>1s").expect("a threshold");
    assert!(threshold.bind(&together).is_err_and(|error| error.contains("not separate")));
    for text in ["requests<5", "errors<=5", "unsent>0"] {
        assert!(Threshold::parse(text).expect("a threshold").only_at_the_end().is_some(), "{text}");
    }
    assert!(Threshold::parse("errors<1%").expect("a threshold").only_at_the_end().is_none());
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(text in "\\PC{0,40}") {
        let _ = Threshold::parse(&text);
    }

    #[test]
    fn any_text_of_threshold_characters_is_parsed_or_refused(text in "[pemrs0-9.{}/<>=% ]{0,24}") {
        if let Ok(threshold) = Threshold::parse(&text) {
            let plan = plan();
            if let Ok(threshold) = threshold.bind(&plan) {
                threshold.verdict_on_figures(&figures(&plan).figures());
            }
        }
    }
}
