//! Accessibility of the pages, checked by axe-core in a real browser: the reports of every fixture, the page
//! of the reports of 1996 to 2000, and the live page; in light and dark colours, on a wide screen and on a
//! telephone.
//!
//! The pages forbid every script but their own, so a copy without that policy, with the checker in it, is
//! what the browser opens; it leaves what it found in the document. axe-core comes from
//! `scripts/setup-axe.sh`.

use super::{fixture, html, reference_html};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use touchstone_lab_run::live;

/// Where the browser leaves what was found.
const FOUND: &str = "<pre id=\"axe-found\">";
/// Rules of WCAG 2.2, A and AA, and what axe calls best practice.
const RUN: &str = r#"
addEventListener("load", async () => {
  for (const part of document.querySelectorAll("details")) part.open = true;
  const found = await axe.run(document, { resultTypes: ["violations"] });
  const told = found.violations.map((rule) => ({
    rule: rule.id, impact: rule.impact, help: rule.help,
    places: rule.nodes.slice(0, 3).map((node) => node.html.slice(0, 200)),
    why: rule.nodes.slice(0, 2).map((node) => node.failureSummary),
  }));
  document.body.innerHTML = "";
  const place = document.createElement("pre");
  place.id = "axe-found";
  place.textContent = encodeURIComponent(JSON.stringify({ passes: found.passes.length, told }));
  document.body.append(place);
});
"#;

/// How a page is looked at.
const LOOKS: [(&str, &[&str]); 3] = [
    ("light", &["--window-size=1280,900"]),
    ("dark", &["--window-size=1280,900", "--blink-settings=preferredColorScheme=0"]),
    ("narrow", &["--window-size=390,844"]),
];

fn axe() -> Option<String> {
    // The test's own program lies in deps/ of a profile below the target directory.
    let program = std::env::current_exe().ok()?;
    let target = program.ancestors().nth(3)?;
    fs::read_to_string(target.join("axe/node_modules/axe-core/axe.min.js")).ok()
}

fn browser() -> Option<&'static str> {
    let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    ["chromium", "chromium-browser", "google-chrome"].into_iter().find(is_there)
}

/// The page with the checker in it and without its own policy.
fn with_checker(page: &str, axe: &str) -> String {
    let policy = page.find("<meta http-equiv=\"Content-Security-Policy\"");
    let without = policy.map_or_else(
        || page.to_owned(),
        |start| {
            let end = start + page[start..].find('>').expect("the tag ends") + 1;
            page[..start].to_owned() + &page[end..]
        },
    );
    without.replacen("</head>", &format!("<script>{axe}</script><script>{RUN}</script></head>"), 1)
}

/// What axe found on a page, looked at in a certain way.
fn found(browser: &str, directory: &Path, page: &Path, look: &[&str]) -> Value {
    let profile = directory.join("profile");
    let output = Command::new(browser)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
        ])
        .args(["--no-first-run", "--disable-extensions", "--virtual-time-budget=120000", "--timeout=120000"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(look)
        .arg("--dump-dom")
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("the browser starts");
    let document = String::from_utf8_lossy(&output.stdout);
    let start = document
        .find(FOUND)
        .unwrap_or_else(|| panic!("the checker did not finish: {}", String::from_utf8_lossy(&output.stderr)));
    let text = &document[start + FOUND.len()..];
    let text = &text[..text.find('<').expect("the element ends")];
    let decoded = percent_decoded(text);
    serde_json::from_slice(&decoded).expect("the checker wrote JSON")
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    bytes
}

/// The live page, as it stands in the middle of a run: its own script is given a state in the place of
/// events.
fn live_page() -> String {
    let state = serde_json::to_string(&live::sample::state()).expect("a state is JSON");
    let page = include_str!("../../../lab-run/src/live/page.html");
    let events = "const source = new EventSource(\"/events\");";
    assert!(page.contains(events));
    page.replacen(events, &format!("const source = {{}}; show({state});"), 1)
}

#[test]
fn no_page_has_an_accessibility_error() {
    let (Some(axe), Some(browser)) = (axe(), browser()) else {
        return touchstone_lab::sample::skipped(
            "accessibility (install chromium and npm, then run scripts/setup-axe.sh)",
        );
    };
    let pages: [(&str, String); 6] = [
        ("full", html(&fixture::full(), None)),
        ("spice", html(&fixture::spice(), None)),
        ("incomplete", html(&fixture::incomplete(), None)),
        ("accelerated", html(&touchstone_lab::sample::accelerated(), None)),
        ("reference", reference_html(&fixture::full())),
        ("live", live_page()),
    ];
    let directory = tempfile::tempdir().expect("a directory");
    let mut errors = Vec::new();
    for (name, page) in &pages {
        let path: PathBuf = directory.path().join(format!("{name}.html"));
        fs::write(&path, with_checker(page, &axe)).expect("written");
        for (look, arguments) in LOOKS {
            let found = found(browser, directory.path(), &path, arguments);
            assert!(found["passes"].as_u64() > Some(10), "{name}, {look}: axe looked at nothing: {found}");
            for error in found["told"].as_array().expect("a list") {
                errors.push(format!("{name}, {look}: {error:#}"));
            }
        }
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

#[test]
fn the_checker_finds_what_is_wrong() {
    let (Some(axe), Some(browser)) = (axe(), browser()) else {
        return touchstone_lab::sample::skipped(
            "accessibility (install chromium and npm, then run scripts/setup-axe.sh)",
        );
    };
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("wrong.html");
    let wrong = "<!doctype html><html><head><title>x</title></head><body><main><h1>x</h1><img src=\"data:,\">\
                 </main></body></html>";
    fs::write(&path, with_checker(wrong, &axe)).expect("written");
    let found = found(browser, directory.path(), &path, LOOKS[0].1);
    let rules: Vec<&str> =
        found["told"].as_array().unwrap().iter().filter_map(|it| it["rule"].as_str()).collect();
    assert!(rules.contains(&"image-alt") && rules.contains(&"html-has-lang"), "{rules:?}");
}
