//! Accessibility of the pages, checked by axe-core in a real browser: the reports of every fixture, the page
//! of the reports of 1996 to 2000, and the live page; in light and dark colours, on a wide screen and on a
//! telephone.
//!
//! `scripts/setup-axe.sh` installs axe-core.

use super::browser::{self, LOOKS, Viewport};
use super::{fixture, html, reference_html};
use serde_json::Value;
use std::fs;
use touchstone_lab_run::live;

/// Rules of WCAG 2.2, A and AA, and what axe calls best practice.
const ALL: &str = "const only = undefined;";

/// Of these the rules on colours: only they can have another outcome in dark colours, where the page has the
/// same elements in the same places. (AAA's rule on contrast is off unless it is named.)
const OF_COLOURS: &str = r#"const only = { type: "rule", values: axe.getRules(["cat.color"])
  .map((rule) => rule.ruleId).filter((rule) => rule !== "color-contrast-enhanced") };"#;

const RUN: &str = r#"
addEventListener("load", async () => {
  for (const part of document.querySelectorAll("details")) part.open = true;
  const found = await axe.run(document, { resultTypes: ["violations"], ...(only && { runOnly: only }) });
  const told = found.violations.map((rule) => ({
    rule: rule.id, impact: rule.impact, help: rule.help,
    places: rule.nodes.slice(0, 3).map((node) => node.html.slice(0, 200)),
    why: rule.nodes.slice(0, 2).map((node) => node.failureSummary),
  }));
  parent.postMessage(encodeURIComponent(JSON.stringify({ passes: found.passes.length, told })), "*");
});
"#;

fn axe() -> Option<String> {
    // The test's own program is in deps/ of a profile below the target directory.
    let program = std::env::current_exe().ok()?;
    let target = program.ancestors().nth(3)?;
    fs::read_to_string(target.join("axe/node_modules/axe-core/axe.min.js")).ok()
}

/// The live page during a run: its own script gets a state instead of events.
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
    let texts = pages.each_ref().map(|(_, page)| page.as_str());
    let look_at = |is_dark: bool| -> Vec<(Viewport, Value)> {
        let directory = tempfile::tempdir().expect("a directory");
        let looks: Vec<_> = LOOKS.into_iter().filter(|look| look.is_dark == is_dark).collect();
        let rules = if is_dark { OF_COLOURS } else { ALL };
        let found = browser::run_all(program, directory.path(), &texts, &[&axe, rules, RUN], &looks);
        looks.into_iter().cycle().zip(found).collect()
    };
    // Each on a processor of its own, where there are two.
    let (light, dark) = std::thread::scope(|scope| {
        let dark = scope.spawn(|| look_at(true));
        (look_at(false), dark.join().expect("the dark pages are looked at"))
    });
    let mut errors = Vec::new();
    for found in [light, dark] {
        assert_eq!(found.len(), pages.len() * 2);
        for (place, (look, found)) in found.into_iter().enumerate() {
            let (name, _) = &pages[place / 2];
            // The contrast of texts, and in light colours much more.
            let least = if look.is_dark { 1 } else { 11 };
            let passes = found["passes"].as_u64();
            assert!(passes >= Some(least), "{name}, {}: axe looked at nothing: {found}", look.name);
            for error in found["told"].as_array().expect("a list") {
                errors.push(format!("{name}, {}: {error:#}", look.name));
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
                 <p style=\"color:#777;background:#888\">Words that none reads</p></main></body></html>";
    let rules = |all: &str, look: Viewport| -> Vec<String> {
        let found = browser::run(program, directory.path(), wrong, &[&axe, all, RUN], look);
        let broken_rules = found["told"].as_array().expect("a list");
        broken_rules.iter().filter_map(|it| it["rule"].as_str()).map(str::to_owned).collect()
    };
    let light = rules(ALL, LOOKS[0]);
    for rule in ["image-alt", "html-has-lang", "color-contrast"] {
        assert!(light.iter().any(|found| found == rule), "{rule} is not among {light:?}");
    }
    assert_eq!(rules(OF_COLOURS, LOOKS[1]), ["color-contrast"]);
}
