//! Accessibility of the pages, checked by axe-core in a real browser: the reports of every fixture, the page
//! of the reports of 1996 to 2000, and the live page; in light and dark colours, on a wide screen and on a
//! telephone.
//!
//! axe-core comes from `scripts/setup-axe.sh`.

use super::browser::{self, LOOKS};
use super::{fixture, html, reference_html};
use std::fs;
use touchstone_lab_run::live;

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
  parent.postMessage(encodeURIComponent(JSON.stringify({ passes: found.passes.length, told })), "*");
});
"#;

fn axe() -> Option<String> {
    // The test's own program lies in deps/ of a profile below the target directory.
    let program = std::env::current_exe().ok()?;
    let target = program.ancestors().nth(3)?;
    fs::read_to_string(target.join("axe/node_modules/axe-core/axe.min.js")).ok()
}

/// The live page during a run: its own script is given a state in the place of events.
fn live_page() -> String {
    let state = serde_json::to_string(&live::sample::state()).expect("a state is JSON");
    let page = include_str!("../../../lab-run/src/live/page.html");
    let events = "const source = new EventSource(\"/events\");";
    assert!(page.contains(events));
    page.replacen(events, &format!("const source = {{}}; show({state});"), 1)
}

#[test]
fn no_page_has_an_accessibility_error() {
    let (Some(axe), Some(program)) = (axe(), browser::program()) else {
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
    let texts = pages.each_ref().map(|(_, page)| page.as_str());
    for is_dark in [false, true] {
        let looks: Vec<_> = LOOKS.into_iter().filter(|look| look.is_dark == is_dark).collect();
        let found = browser::run_all(program, directory.path(), &texts, &[&axe, RUN], &looks);
        let views = pages.iter().flat_map(|(name, _)| looks.iter().map(move |look| (name, look.name)));
        assert_eq!(found.len(), pages.len() * looks.len());
        for ((name, look), found) in views.zip(found) {
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
    let (Some(axe), Some(program)) = (axe(), browser::program()) else {
        return touchstone_lab::sample::skipped(
            "accessibility (install chromium and npm, then run scripts/setup-axe.sh)",
        );
    };
    let directory = tempfile::tempdir().expect("a directory");
    let wrong = "<!doctype html><html><head><title>x</title></head><body><main><h1>x</h1><img src=\"data:,\">\
                 </main></body></html>";
    let found = browser::run(program, directory.path(), wrong, &[&axe, RUN], LOOKS[0]);
    let rules: Vec<&str> =
        found["told"].as_array().unwrap().iter().filter_map(|it| it["rule"].as_str()).collect();
    assert!(rules.contains(&"image-alt") && rules.contains(&"html-has-lang"), "{rules:?}");
}
