//! `touchstone bench conformance` on this program's own server and its accelerator: what they do not keep is
//! what docs/conformance.md lists, and no verdict can be changed unseen.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use crate::support::{run, skipped};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Tries the rules on a system; its speed is measured for a second only.
fn tried(place: &Path, system: &str) -> PathBuf {
    tried_with(place, "conformance", system)
}

/// The same with a suite.
fn tried_with(place: &Path, suite: &str, system: &str) -> PathBuf {
    let result = place.join("result");
    // Servers that are started beside other tests may take their time.
    let output = Command::new(env!("CARGO_BIN_EXE_touchstone"))
        .args(["bench", suite, "--quick", "--sut", system, "--clients", "1", "--length", "1s"])
        .args(["--ramp-up", "200ms", "--ramp-down", "200ms", "--output"])
        .arg(&result)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    result
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The cases of a level, with the verdict of the only system.
fn cases<'a>(result: &'a Value, level: &str) -> Vec<(&'a str, &'a Value)> {
    let all = result["conformance"]["cases"].as_array().unwrap();
    let of_level = all.iter().filter(|case| case["level"] == level && !case["outcomes"][0].is_null());
    of_level.map(|case| (case["id"].as_str().unwrap(), &case["outcomes"][0])).collect()
}

/// The cases of a section of the page that are listed as not kept: the first words of its rows.
fn listed(heading: &str) -> BTreeSet<String> {
    let page = include_str!("../../../../docs/conformance.md");
    let section = page.split("\n## ").find(|section| section.starts_with(heading)).unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split('`').next()).map(str::to_owned).collect()
}

fn broken(result: &Value) -> BTreeSet<String> {
    let all = cases(result, "must").into_iter();
    all.filter(|(_, outcome)| outcome["verdict"] == "broken").map(|(id, _)| id.to_owned()).collect()
}

fn verify(result: &Path) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_touchstone"))
        .args(["verify", "--require", "invalid"])
        .arg(result)
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn the_server_keeps_what_the_documents_demand_and_no_verdict_is_changed_unseen() {
    let place = tempfile::tempdir().unwrap();
    let directory = tried(place.path(), "touchstone");
    let result = json(&directory.join("result.json"));
    let tried = cases(&result, "must").len() + cases(&result, "should").len();
    assert!(tried >= 400, "{tried} cases");
    // What is broken is listed.
    let unlisted: Vec<String> =
        broken(&result).difference(&listed("Rules that this server does not fulfil")).cloned().collect();
    assert!(unlisted.is_empty(), "docs/conformance.md does not list {unlisted:?}");

    let (code, said) = verify(&directory);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("verdicts found again, all the same"), "{said}");
    // A verdict that does not follow from the bytes, and bytes that do not result in the verdict.
    let path = directory.join("result.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\"verdict\": \"kept\"", "\"verdict\": \"broken\"", 1)).unwrap();
    let (code, said) = verify(&directory);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("not those that follow from what came back"), "{said}");
    fs::write(&path, text).unwrap();
    let lines = directory.join("conformance.jsonl");
    let whole = fs::read_to_string(&lines).unwrap();
    let last = whole.trim_end().rfind('\n').map_or(0, |end| end + 1);
    let without_last = &whole[..last];
    fs::write(&lines, without_last).unwrap();
    assert_eq!(verify(&directory).0, Some(1));
    fs::remove_file(&lines).unwrap();
    assert!(verify(&directory).1.contains("conformance.jsonl is missing"));
}

#[test]
fn the_accelerator_keeps_what_the_documents_demand() {
    if which("apache2").is_none() {
        return skipped("the rules on the accelerator (install apache2)");
    }
    let place = tempfile::tempdir().unwrap();
    let directory = tried(place.path(), "touchstone-accelerator");
    let result = json(&directory.join("result.json"));
    let caching = cases(&result, "must").iter().filter(|(id, _)| id.starts_with("9111/")).count();
    assert!(caching >= 60, "{caching} cases of caches");
    let unlisted: Vec<String> =
        broken(&result).difference(&listed("Rules that the accelerator does not fulfil")).cloned().collect();
    assert!(unlisted.is_empty(), "docs/conformance.md does not list {unlisted:?}");
}

/// The rows of the page about other servers: the system, its version, and the names of its cases.
fn found_in_others() -> Vec<(&'static str, String, Vec<String>)> {
    let page = include_str!("../../../../docs/conformance.md");
    let section =
        page.split("\n## ").find(|section| section.starts_with("Findings in other servers")).unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| ") && line.contains("`9"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let (name, version) = cells[1].rsplit_once(' ').unwrap();
        let system = match name {
            "Apache httpd" => "apache",
            "Varnish" => "varnish",
            "Caddy" => "caddy",
            "nginx" => "nginx",
            "h2o" => "h2o",
            other => panic!("no system is known as {other}"),
        };
        // A name without its section is of the same one.
        let names: Vec<&str> =
            cells[2].split('`').filter(|part| part.contains(char::is_alphabetic)).collect();
        let section = names[0].rsplit_once('/').unwrap().0;
        let whole = |name: &&str| match name.contains('/') {
            true => (*name).to_owned(),
            false => format!("{section}/{name}"),
        };
        (system, version.to_owned(), names.iter().map(whole).collect())
    })
    .collect()
}

#[test]
fn what_the_page_says_of_other_servers_is_what_they_do() {
    let rows = found_in_others();
    let systems: BTreeSet<&str> = rows.iter().map(|(system, ..)| *system).collect();
    assert!(systems.len() >= 5, "{rows:?}");
    let listed = run(["systems"]);
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    for system in systems {
        let own: Vec<_> = rows.iter().filter(|row| row.0 == system).collect();
        let wanted: Vec<String> = own.iter().flat_map(|row| row.2.clone()).collect();
        let line = text.lines().find(|line| line.split(' ').next() == Some(system)).unwrap_or_default();
        if !line.contains("(/") {
            skipped(&format!("what {system} {} does not keep (install {system})", own[0].1));
            continue;
        }
        // Another version may keep what this one does not.
        if !line.contains(&own[0].1) {
            continue;
        }
        let place = tempfile::tempdir().unwrap();
        let suite = place.path().join("some.toml");
        let keys = format!("conformance_cases = {wanted:?}\nconformance = true");
        let whole = include_str!("../../../../suites/conformance.toml");
        assert!(whole.contains("\nconformance = true\n"));
        fs::write(&suite, whole.replacen("conformance = true", &keys, 1)).unwrap();
        let directory = tried_with(place.path(), suite.to_str().unwrap(), system);
        let result = json(&directory.join("result.json"));
        let tried = result["conformance"]["cases"].as_array().unwrap().iter();
        let broken: BTreeSet<String> = tried
            .filter(|case| case["outcomes"][0]["verdict"] == "broken")
            .map(|case| case["id"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(broken, wanted.into_iter().collect(), "{system}");
        assert_eq!(verify(&directory).0, Some(0));
    }
}

fn which(name: &str) -> Option<PathBuf> {
    ["/usr/sbin", "/usr/bin"].iter().map(|place| Path::new(place).join(name)).find(|path| path.exists())
}
