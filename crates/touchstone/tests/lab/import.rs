//! `touchstone import` and `touchstone load --replay` from the outside: a recording of another tool becomes a
//! suite that runs, and a recorded load is repeated at its times.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{Nginx, Server, Tree};
use serde_json::Value;

const HAR: &str = r#"{"log":{"version":"1.2","entries":[
{"startedDateTime":"2026-11-22T08:00:00.000Z","time":100,"request":{"method":"GET","url":"ORIGIN/alphabet.txt","httpVersion":"HTTP/1.1","headers":[{"name":"Cookie","value":"id=1"}]},"response":{"status":200,"bodySize":26,"content":{"mimeType":"text/plain"}}},
{"startedDateTime":"2026-11-22T08:00:00.300Z","request":{"method":"GET","url":"ORIGIN/none","httpVersion":"HTTP/1.1","headers":[]},"response":{"status":404,"bodySize":9,"content":{"mimeType":"text/html"}}}
]}}"#;

fn touchstone(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_touchstone")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Measures for a second; for longer if a busy machine counts no answers in it.
fn bench(place: &Path, suite: &str, system: &str) -> Value {
    let mut result = bench_for(place, suite, system, "1s");
    for length in ["5s", "25s"] {
        if crate::spice::counted_nothing(&result) {
            result = bench_for(place, suite, system, length);
        }
    }
    result
}

fn bench_for(place: &Path, suite: &str, system: &str, length: &str) -> Value {
    let result = place.join("result");
    let _ = fs::remove_dir_all(&result);
    let output = Command::new(env!("CARGO_BIN_EXE_touchstone"))
        .args([
            "bench",
            suite,
            "--quick",
            "--sut",
            system,
            "--clients",
            "2",
            "--length",
            length,
            "--ramp-up",
            "100ms",
        ])
        .args(["--ramp-down", "50ms", "--output"])
        .arg(&result)
        .env("TOUCHSTONE_CACHE", place.join("cache"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_str(&fs::read_to_string(result.join("result.json")).unwrap()).unwrap()
}

fn assert_clean(result: &Value) {
    for system in result["systems"].as_array().unwrap() {
        let mix = &system["mixes"][0];
        assert!(mix["requests"].as_u64().unwrap() > 0, "{mix}");
        let errors: u64 = mix["errors"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
        assert_eq!(errors, 0, "{}", mix["errors"]);
    }
}

#[test]
fn a_log_becomes_a_suite_that_runs_on_files_of_the_same_sizes() {
    let place = tempfile::tempdir().unwrap();
    let log = place.path().join("access.log");
    let line = |path: &str, bytes: u64| {
        format!("10.0.0.1 - - [10/Oct/2000:13:55:36 -0700] \"GET {path} HTTP/1.1\" 200 {bytes} \"-\" \"-\"\n")
    };
    fs::write(&log, line("/a.html", 1000).repeat(3) + &line("/img/b.png", 5000)).unwrap();
    let suite = place.path().join("mine.toml");
    let (log, suite) = (log.display().to_string(), suite.display().to_string());
    let output = touchstone(&["import", "log", &log, "--output", &suite]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("4 requests, 2 different ones"), "{}", text(&output.stdout));
    let result = bench(place.path(), &suite, "touchstone");
    assert_clean(&result);
    let mean = result["suite"]["mean_body_bytes"].as_f64().unwrap();
    assert!((mean - 2000.0).abs() < 1e-6, "{mean}");
    assert!(
        text(&output.stdout).trim_end().ends_with("--quick --sut touchstone"),
        "{}",
        text(&output.stdout)
    );
    // A target that is not a file needs a server that answers it, and the proposed command must not be
    // refused because of it.
    let queries = place.path().join("queries.log");
    fs::write(&queries, line("/search?q=a", 1000)).unwrap();
    let other = place.path().join("queries.toml").display().to_string();
    let output = touchstone(&["import", "log", &queries.display().to_string(), "--output", &other]);
    let told = text(&output.stdout);
    assert!(told.trim_end().ends_with("--quick --sut http://127.0.0.1:8080"), "{told}");
    // The command does not overwrite the suite.
    let again = touchstone(&["import", "log", &log, "--output", &suite]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("exists already"), "{}", text(&again.stderr));
}

#[test]
fn a_har_is_run_and_replayed_against_its_server() {
    let place = tempfile::tempdir().unwrap();
    let tree = Tree::standard();
    let server = Server::quick(&tree.root());
    let origin = format!("http://{}", server.address());
    let har = place.path().join("x.har");
    fs::write(&har, HAR.replace("ORIGIN", &origin)).unwrap();
    let (har, suite) = (har.display().to_string(), place.path().join("x.toml").display().to_string());
    let output = touchstone(&["import", "har", &har, "--output", &suite]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("name a server that answers them by its URL"),
        "{}",
        text(&output.stderr)
    );
    let written = fs::read_to_string(&suite).unwrap();
    assert!(!written.contains("id=1"));
    // The requests of one user, in order; the browser waited for 0.3 s, of which the first request took 0.1
    // s.
    assert!(
        text(&output.stdout).contains("2 requests in their order, with 0.2 s of think time"),
        "{}",
        text(&output.stdout)
    );
    assert!(
        written.contains("session = [") && written.contains("path = \"/none\", think_time_s = 0.200"),
        "{written}"
    );
    let result = bench(place.path(), &suite, &origin);
    assert_clean(&result);
    assert_eq!(result["suite"]["classes"][0]["session_think_s"], 0.2);
    let mix = touchstone(&["import", "har", &har, "--as", "mix"]);
    assert!(mix.status.success() && text(&mix.stdout).contains("requests = ["), "{}", text(&mix.stdout));

    let output = touchstone(&["load", "--replay", &har, "--speed", "2", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&value["requests"], &value["errors"]), (&2.into(), &0.into()), "{value:#}");
    assert_eq!((&value["plan"]["model"], &value["plan"]["arrivals"]), (&"open".into(), &"recorded".into()));
    assert_eq!((&value["arrivals"]["due"], &value["plan"]["recorded_requests"]), (&2.into(), &2.into()));
}

/// Logs that nginx itself writes, in its usual format, in a custom one and in JSON, compressed as by log
/// rotation: all have the same result.
#[test]
fn the_logs_of_nginx_are_read_in_every_format() {
    let tree = Tree::standard();
    fs::write(tree.root().join("a.html"), "a".repeat(1000)).unwrap();
    let logs = tree.around().display();
    let own = r#"$remote_addr|$msec|"$request"|$status|$body_bytes_sent|$upstream_response_time"#;
    let json = concat!(
        r#"{"time_iso8601":"$time_iso8601","request_method":"$request_method","uri":"$uri","#,
        r#""args":"$args","status":"$status","body_bytes_sent":"$body_bytes_sent"}"#
    );
    let formats = format!("log_format own '{own}'; log_format json escape=json '{json}';");
    let server = format!(
        "root {}; access_log {logs}/combined.log combined; access_log {logs}/own.log own; access_log \
         {logs}/json.log json;",
        tree.root().display()
    );
    let Some(nginx) = Nginx::start_with(&tree, &formats, "", &server) else { return };
    let requests: [&[u8]; 6] = [
        b"GET /a.html HTTP/1.1\r\nHost: h\r\n",
        b"GET /a.html HTTP/1.1\r\nHost: h\r\nUser-Agent: \"quoted\\ \xff\r\n",
        b"GET /a.html?q=%22&r=[1] HTTP/1.1\r\nHost: h\r\n",
        b"GET /none HTTP/1.1\r\nHost: h\r\n",
        b"HEAD /a.html HTTP/1.0\r\n",
        b"\x16\x03\x01\x02\x00",
    ];
    for request in requests {
        let mut client = TcpStream::connect(nginx.address).unwrap();
        client.write_all(&[request, b"Connection: close\r\n\r\n"].concat()).unwrap();
        let _ = client.read_to_end(&mut Vec::new());
    }
    // nginx writes a line when a request is done, and the last lines at its end.
    drop(nginx);
    for (log, format) in [("combined", None), ("own", Some(own)), ("json", None)] {
        let path = tree.around().join(format!("{log}.log"));
        assert!(Command::new("gzip").arg(&path).status().unwrap().success());
        let packed = format!("{}.gz", path.display());
        let format = format.map_or(Vec::new(), |format| vec!["--log-format", format]);
        let output = touchstone(&[&["import", "log", &packed][..], &format].concat());
        let (suite, notes) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{log}: {notes}");
        for line in [
            "{ path = \"/a.html\", weight = 2, file_bytes = 1000 }",
            "{ path = \"/a.html?q=%22&r=[1]\", file_bytes = 1000 }",
            "{ method = \"HEAD\", path = \"/a.html\" }",
            "{ path = \"/none\", status = [404] }",
        ] {
            assert!(suite.contains(line), "{log}: {suite}");
        }
        assert!(notes.contains("1 requests that were no HTTP"), "{log}: {notes}");
    }
}

#[test]
fn lists_and_commands_become_suites() {
    let place = tempfile::tempdir().unwrap();
    let list = place.path().join("filelist");
    fs::write(&list, "1\n100 2\n/file1k.html\n/file500.html\n").unwrap();
    let output = touchstone(&["import", "webstone", &list.display().to_string()]);
    assert!(output.status.success() && text(&output.stdout).contains("page = ["), "{}", text(&output.stdout));
    let command = "curl -X PUT http://127.0.0.1:8080/things/1 --json '{\"a\":1}'";
    let output = touchstone(&["import", "curl", command]);
    let suite = text(&output.stdout);
    assert!(output.status.success() && suite.contains("method = \"PUT\""), "{suite}{}", text(&output.stderr));
    let urls = place.path().join("urls.txt");
    fs::write(&urls, "70 /a\n30 /b\n").unwrap();
    let output = touchstone(&["import", "urls", &urls.display().to_string(), "--name", "mine"]);
    assert!(text(&output.stdout).contains("name = \"mine\"\n"), "{}", text(&output.stdout));
}

/// A list of pages is measured as WebStone does, and the report has its lines.
#[test]
fn a_list_of_webstone_is_measured_page_by_page() {
    let place = tempfile::tempdir().unwrap();
    let list = place.path().join("filelist");
    fs::write(&list, "2 # pages\n50 2\n/file1k.html # text\n/file500.html\n50 1\n/file1k.html\n").unwrap();
    let suite = place.path().join("mine.toml").display().to_string();
    let output = touchstone(&["import", "webstone", &list.display().to_string(), "--output", &suite]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let result = bench(place.path(), &suite, "touchstone");
    assert_clean(&result);
    let mix = &result["systems"][0]["mixes"][0];
    let of = |class: usize, name: &str| mix["classes"][class][name].as_u64().unwrap();
    let answers = |class: usize| mix["classes"][class]["body_bytes"]["count"].as_u64().unwrap();
    assert_eq!(answers(0) + answers(1), mix["requests"].as_u64().unwrap());
    // A page is two answers, except at the edges of the window.
    assert!(answers(0).abs_diff(2 * of(0, "pages")) <= 2 * mix["clients"].as_u64().unwrap(), "{mix}");
    assert_eq!(answers(1), of(1, "pages"));
    let sizes = &mix["classes"][0]["body_bytes"];
    assert_eq!((sizes["min"].as_f64(), sizes["max"].as_f64()), (Some(500.0), Some(1025.0)));
    let sizes = &mix["classes"][1];
    assert_eq!(sizes["body_bytes"]["stddev"].as_f64(), Some(0.0));
    assert_eq!(sizes["connect_us"]["count"].as_u64().map(|count| count > 0), Some(true));
    assert_eq!(result["suite"]["http_version"], "HTTP/1.0");
}

#[test]
fn what_cannot_be_imported_says_where_and_what_to_do() {
    let place = tempfile::tempdir().unwrap();
    let urls = place.path().join("urls.txt");
    fs::write(&urls, "/a\nftp://x/\n").unwrap();
    let urls = urls.display().to_string();
    for (arguments, said) in [
        (vec!["import", "urls", &urls], "urls.txt:2: "),
        (vec!["import", "log", &urls], "no request of the file can be imported"),
        (vec!["import", "har", "/nowhere/x.har"], "/nowhere/x.har: "),
        (vec!["import", "log", "/nowhere/x.log", "--as", "session"], "only a HAR contains the requests"),
        (vec!["import", "curl", "curl http://h/ -d @f"], "put the data into the command"),
        (vec!["load", "--replay", &urls], "no request of the file can be imported"),
    ] {
        let output = touchstone(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(said), "{arguments:?}: {}", text(&output.stderr));
    }
}
