//! The page: its head, its landmarks and the order of its sections.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use super::view::View;
use super::{
    Source, appendix, audit, capacity, compared, conformance, disclosure, fairness, history as gate_history,
    latency, rates, resources, run_rules, streams, tables, timeline, verdict_box, words,
};
use crate::planning::Plan;
use touchstone_lab::history::Line;
use touchstone_lab::result::ResultFile;

/// The style sheet, and the script that adds tooltips to charts that are complete without them.
const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// The sections in their order, for the contents.
const CONTENTS: [(&str, &str); 21] = [
    ("verdict", "Verdict"),
    ("disclosure", "Disclosure"),
    ("rates", "Requests and throughput"),
    ("latency", "Latency"),
    ("processor", "Processor and memory"),
    ("time", "Over time"),
    ("fair", "Fairness"),
    ("capacity", "Capacity"),
    ("bottleneck", "Bottleneck"),
    ("summary-report", "Summary Report"),
    ("client-data-report", "Client Data Report"),
    ("errors", "Errors"),
    ("audit", "Audit"),
    ("rules", "Run rules"),
    ("workload", "Workload"),
    ("mixes", "Mixes"),
    ("systems", "Systems"),
    ("machine", "Machine"),
    ("repeat", "How to repeat"),
    ("glossary", "Glossary"),
    ("top", "Top"),
];

/// The whole page for a result and its runs.
pub(super) fn page(result: &ResultFile, sources: &[Source], plans: &[Plan], history: &[Line]) -> String {
    let view = View::new(result, sources, plans);
    let title = title(&view);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                meta http-equiv="Content-Security-Policy" content=(policy());
                meta name="generator"
                    content={
                        (words::line(&result.tool.name, 60)) " " (words::line(&result.tool.version, 60))
                    };
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body id="top" {
                a class="skip" href="#content" { "Skip to the report" }
                (masthead(&view))
                main id="content" tabindex="-1" { (sections(&view, history)) }
                footer {
                    p {
                        "Made by " (words::line(&result.tool.name, 60))
                        " " (words::line(&result.tool.version, 60))
                        " from what was measured alone. This page loads no data from any network."
                    }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
    .into_string()
}

fn title(view: &View) -> String {
    let rivals: Vec<String> = view
        .each_system()
        .filter(|system| !system.system.is_limit)
        .map(|system| words::line(&system.system_label, 40))
        .collect();
    let suite = words::line(&view.result.suite.name, 60);
    match rivals.len() {
        0 => format!("{suite} · Touchstone report"),
        1..=4 => format!("{}: {suite} · Touchstone report", words::list(&rivals)),
        number => format!("{number} systems: {suite} · Touchstone report"),
    }
}

fn masthead(view: &View) -> Markup {
    let suite = &view.result.suite;
    let title = if suite.title.trim().is_empty() { &suite.name } else { &suite.title };
    html! {
        header {
            p class="kicker" { "Touchstone report" }
            h1 { (words::line(title, 200)) }
            p class="faint" {
                (words::line(&suite.name, 120)) " · " (disclosure::date(&view.result.started_at)) " · "
                @for (number, source) in view.sources.iter().enumerate() {
                    @if number > 0 { ", " }
                    (words::line(&source.machine.host, 80))
                }
            }
            nav aria-label="Contents" {
                ul {
                    @for (id, name) in &CONTENTS[..CONTENTS.len() - 1] {
                        li { a href={ "#" (id) } { (name) } }
                    }
                }
            }
        }
    }
}

fn sections(view: &View, history: &[Line]) -> Markup {
    html! {
        (disclosure::banner(view))
        (verdict_box::section(view))
        (gate_history::section(history))
        (conformance::section(view))
        (disclosure::section(view))
        (rates::section(view))
        (latency::section(view))
        (streams::section(view))
        (resources::section(view))
        (timeline::section(view))
        (fairness::section(view))
        (capacity::section(view))
        (compared::section(view))
        (tables::summary_report(view))
        (tables::client_data_report(view))
        (tables::errors(view))
        (audit::section(view))
        (run_rules::section(view))
        (appendix::workload(view))
        (tables::mixes(view))
        (appendix::systems(view))
        (appendix::machine(view))
        (appendix::repeat(view))
        (appendix::glossary())
    }
}

/// Nothing is loaded, and only this page's script runs, even if markup from outside should get through.
fn policy() -> String {
    let digest = Sha256::digest(SCRIPT.as_bytes());
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{}'; base-uri 'none'; \
         form-action 'none'",
        STANDARD.encode(digest)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_style_nor_script_ends_early() {
        assert!(!STYLE.contains("</"), "a closing tag in the style sheet");
        assert!(!SCRIPT.contains("</"), "a closing tag in the script");
    }
}
