//! Thresholds of `touchstone load`, and its report of errors, against a server with known answers and delays.

use crate::support::{Origin, Tree, error_lines, free_port, read_head, run};
use serde_json::Value;
use std::io::Write;
use std::process::Output;
use std::time::Duration;

const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy";
const MISSING: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
/// How long the server takes for `/slow`, at least.
const SLOW: Duration = Duration::from_millis(40);

/// Answers by the path; connections are kept.
fn origin() -> Origin {
    Origin::start(|stream| {
        while let Some(head) = read_head(stream) {
            let answer = match head.split(' ').nth(1) {
                Some("/busy") => BUSY,
                Some("/missing") => MISSING,
                Some("/slow") => {
                    std::thread::sleep(SLOW);
                    GOOD
                }
                _ => GOOD,
            };
            if stream.write_all(answer).is_err() {
                return;
            }
        }
    })
}

fn load(arguments: &[&str]) -> Output {
    run(std::iter::once("load").chain(arguments.iter().copied()))
}

fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in: {text}"))
}

/// A list of these lines, of the server.
fn list(tree: &Tree, origin: &Origin, lines: &str) -> (String, String) {
    let path = tree.beside("urls.txt");
    std::fs::write(&path, lines).expect("the directory can be written");
    (format!("http://{}/", origin.address), path.to_str().expect("the path is text").to_string())
}

#[test]
fn a_missed_threshold_fails_the_run_and_says_by_how_much() {
    let (tree, origin) = (Tree::standard(), origin());
    let (base, urls) = list(&tree, &origin, "/fast\n/slow\n");
    let begin = [&base[..], "--urls", &urls, "--requests", "40", "--clients", "2"];
    let kept = ["--fail-if", "p50{/slow}>60s", "--fail-if", "errors>0", "--fail-if", "p99{GET /fast}>=120s"];
    let output = load(&[&begin[..], &kept].concat());
    assert_eq!(output.status.code(), Some(0), "{:?}", error_lines(&output));
    assert!(!String::from_utf8_lossy(&output.stdout).contains("MISSED"));

    let missed = ["--fail-if", "min{/slow}>20ms", "--fail-if", "requests<100", "--fail-if", "errors>1%"];
    let output = load(&[&begin[..], &missed].concat());
    assert_eq!(output.status.code(), Some(3), "{:?}", error_lines(&output));
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("MISSED        requests<100: 40, 60 below 100, 60 %"), "{text}");
    assert!(text.contains("MISSED        min{/slow}>20ms: ") && text.contains("above 20 ms"), "{text}");
    assert!(text.contains("kept          errors>1%: 0 %"), "{text}");
    assert!(errors.contains("threshold missed: requests<100: 40, 60 below 100, 60 %"), "{errors}");
    assert!(!errors.contains("errors>1%"), "{errors}");

    let output = load(&[&begin[..], &missed, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(3));
    let value = json(&output);
    assert_eq!(value["thresholds"][1]["measured"], 40.0, "{value:#}");
    assert_eq!(value["thresholds"][1]["kept"], false);
    assert_eq!(value["thresholds"][0]["unit"], "us");
    assert!(value["thresholds"][0]["measured"].as_f64().is_some_and(|us| us >= 39_000.0), "{value:#}");
    assert!(value["aborted_by"].is_null());
}

#[test]
fn a_run_ends_as_soon_as_a_threshold_to_abort_is_missed() {
    let origin = origin();
    let url = format!("http://{}/busy", origin.address);
    let begin = [&url[..], "--duration", "1h", "--clients", "1", "--think-time", "5ms"];
    for threshold in ["errors>10%", "bad_status>0", "rate<1"] {
        let output = load(&[&begin[..], &["--abort-if", threshold]].concat());
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(3), "{:?}", error_lines(&output));
        assert!(text.contains(&format!("ENDED EARLY   by --abort-if {threshold}: ")), "{text}");
        assert!(text.contains("ended early"), "{text}");
    }
    let slow = format!("http://{}/slow", origin.address);
    let output = load(&[&slow, "--duration", "1h", "--cores", "1", "--abort-if", "p99>30ms", "--json"]);
    assert_eq!(output.status.code(), Some(3), "{:?}", error_lines(&output));
    let value = json(&output);
    assert_eq!(
        (&value["interrupted"], &value["aborted_by"]["threshold"]),
        (&true.into(), &"p99>30ms".into())
    );
    // A threshold that is met does not end the run.
    let output = load(&[&slow, "--requests", "100", "--clients", "2", "--abort-if", "p99>60s"]);
    assert_eq!(output.status.code(), Some(0), "{:?}", error_lines(&output));
}

#[test]
fn summaries_are_written_for_continuous_integration() {
    let (tree, origin) = (Tree::standard(), origin());
    let (base, urls) = list(&tree, &origin, "/fast?a=1&b=2\n/busy\n");
    let [junit, markdown] = [tree.beside("junit.xml"), tree.beside("summary.md")];
    std::fs::write(&markdown, "before\n").expect("the directory can be written");
    let output = load(&[
        &base,
        "--urls",
        &urls,
        "--requests",
        "100",
        "--fail-if",
        "p99{/fast?a=1&b=2}>60s",
        "--fail-if",
        "errors{/busy}>0",
        "--junit",
        junit.to_str().expect("the path is text"),
        "--markdown",
        markdown.to_str().expect("the path is text"),
    ]);
    assert_eq!(output.status.code(), Some(3), "{:?}", error_lines(&output));
    let junit = std::fs::read_to_string(junit).expect("the file is there");
    assert!(junit.contains("tests=\"3\" failures=\"1\""), "{junit}");
    assert!(junit.contains("name=\"p99{/fast?a=1&amp;b=2}&gt;60s\"><system-out>"), "{junit}");
    assert!(junit.contains("name=\"errors{/busy}&gt;0\"><failure message=\""), "{junit}");
    let markdown = std::fs::read_to_string(markdown).expect("the file is there");
    assert!(markdown.starts_with("before\n### Load of `2 URLs of "), "{markdown}");
    assert!(markdown.contains("| :x: missed | `errors{/busy}>0` | "), "{markdown}");
    assert!(markdown.contains("`bad_status: status 503` | `GET /busy` |"), "{markdown}");
    let output = load(&[&base, "--requests", "1", "--junit", "/nowhere/junit.xml"]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn thresholds_that_cannot_be_looked_at_are_refused() {
    for (arguments, said) in [
        (["--fail-if", "p99>fast"], "200ms"),
        (["--fail-if", "p99{/nowhere}>1s"], "no request has the URL /nowhere"),
        (["--fail-if", "unsent>0"], "open load"),
        (["--abort-if", "requests<10"], "--fail-if"),
    ] {
        let url = format!("http://127.0.0.1:{}/", free_port());
        let output = load(&[&[&url[..]], &arguments[..]].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(said), "{arguments:?}: {text}");
    }
}

#[test]
fn answers_are_told_by_status_and_errors_by_reason_with_the_first() {
    let (tree, origin) = (Tree::standard(), origin());
    let (base, urls) = list(&tree, &origin, "2 /fast\n1 /busy\n1 POST /missing\n");
    let begin = [&base[..], "--urls", &urls, "--requests", "200", "--clients", "3"];
    let output = load(&[&begin[..], &["--json", "--per-url"]].concat());
    assert_eq!(output.status.code(), Some(0), "{:?}", error_lines(&output));
    let value = json(&output);
    let statuses = value["window"]["answers_by_status"].as_object().expect("statuses");
    assert_eq!(statuses.values().filter_map(Value::as_u64).sum::<u64>(), 200, "{value:#}");
    assert_eq!(statuses["200"], value["per_url"][0]["requests"]);
    assert_eq!(statuses["503"], value["per_url"][1]["errors"]);
    assert_eq!(statuses["404"], value["per_url"][2]["errors"]);
    let reasons = value["error_reasons"].as_array().expect("reasons");
    assert_eq!(reasons.len(), 2, "{value:#}");
    for reason in reasons {
        let (words, request) = match reason["count"] == statuses["503"] && reason["reason"] == "status 503" {
            true => ("status 503", "GET /busy"),
            false => ("status 404", "POST /missing"),
        };
        assert_eq!((&reason["kind"], &reason["reason"]), (&"bad_status".into(), &words.into()), "{value:#}");
        assert_eq!(reason["first_request"], request);
    }
    let text = load(&begin).stdout;
    let text = String::from_utf8_lossy(&text);
    for words in
        ["answers                  200  200: ", ", 404: ", "bad status: status 503", ": POST /missing"]
    {
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
}

#[test]
fn a_refused_port_is_told_and_gives_no_figures_of_a_server() {
    for options in [&[][..], &["--http2"], &["--new-connections"]] {
        let url = format!("http://127.0.0.1:{}/", free_port());
        let output = load(&[&[&url[..], "--clients", "1", "--duration", "1s"], options].concat());
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(!text.contains("the figures are the server's"), "{options:?}: {text}");
        assert!(text.contains("There was no answer"), "{options:?}: {text}");
        assert!(text.contains("connect: Connection refused"), "{options:?}: {text}");
    }
}
