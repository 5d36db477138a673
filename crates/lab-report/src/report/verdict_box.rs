//! The first block of the page: the answers to the five questions, then the verdict in words, with each
//! system's peak rate as a large figure over a bar, or the cost of each interface if several were measured.

use maud::{Markup, html};

use super::acceleration;
use super::number;
use super::questions;
use super::spice;
use super::style::pixel;
use super::view::{SystemView, View, drawable, is_lower_bound};
use super::words;
use crate::planning::Plan;
use touchstone_lab::peaks::peak;
use touchstone_lab::result::{MixResult, ResultFile, RunStatus};
use touchstone_lab::verdict::{self, PeakBottleneck};

/// The section of the verdict.
pub(super) fn section(view: &View) -> Markup {
    let held_back =
        |plan: &Plan| PeakBottleneck { title: plan.system.clone(), bottleneck: plan.bottleneck.clone() };
    let held_back: Vec<PeakBottleneck> = view.plans.iter().map(held_back).collect();
    let sentences: Vec<String> = verdict::sentences_with(view.result, &held_back)
        .iter()
        .filter(|sentence| !is_in_the_banner(view.result, sentence))
        .map(|sentence| words::line(sentence, words::SENTENCE_LIMIT))
        .collect();
    html! {
        section class="verdict" aria-labelledby="verdict" {
            h2 id="verdict" { "Verdict" }
            (questions::panel(view))
        }
        section class="verdict details" aria-labelledby="in-words" {
            h2 id="in-words" { "In words and figures" }
            @if let Some(first) = sentences.first() { p class=(first_class(first)) { (first) } }
            @if view.result.suite.interfaces.is_empty() { (peaks(view)) } @else { (spice::section(view)) }
            (acceleration::section(view))
            @if sentences.len() > 1 {
                ul class="further" { @for sentence in &sentences[1..] { li { (sentence) } } }
            }
        }
    }
}

/// Large letters are for a sentence that fits two lines.
fn first_class(sentence: &str) -> &'static str {
    if sentence.chars().count() > 130 { "first long" } else { "first" }
}

/// Whether a sentence only repeats why the run ended early, which is stated above the verdict.
fn is_in_the_banner(result: &ResultFile, sentence: &str) -> bool {
    match &result.status {
        RunStatus::Complete => false,
        RunStatus::Incomplete(reason) => sentence.contains(reason.trim_end_matches('.')),
    }
}

/// The peaks: rivals in the order of their rates, then the limit.
fn peaks(view: &View) -> Markup {
    let mut peaks: Vec<(&SystemView, &MixResult, f64)> = view
        .systems
        .iter()
        .filter_map(|system| {
            let peak = system.peak?;
            Some((system, peak, drawable(peak.requests_per_second)?))
        })
        .collect();
    peaks.sort_by(|a, b| a.0.system.is_limit.cmp(&b.0.system.is_limit).then(b.2.total_cmp(&a.2)));
    let highest = peaks.iter().map(|peak| peak.2).fold(0.0, f64::max);
    let limit_of = |system: &SystemView| {
        let limit = view.limit_of(system).and_then(peak)?;
        drawable(limit.requests_per_second)
    };
    html! {
        @if !peaks.is_empty() {
            ul class="peaks" aria-label="Peak rates" {
                @for (system, mix, rate) in &peaks {
                    li class=(system.style.class) {
                        div class="who" {
                            strong { (system.style.sample()) (system.label) }
                            @if system.system.is_limit {
                                span class="faint" { "a program that only answers, for comparison" }
                            }
                        }
                        div class="rate" {
                            span class="figure" { (number::rate(*rate)) }
                            " " span class="unit" { "requests/s" }
                        }
                        (bar(*rate, highest, limit_of(system)))
                        p class="facts" { (facts(view, system, mix)) }
                    }
                }
            }
        }
    }
}

/// The bar of a rate, with the limit as a dashed mark.
fn bar(rate: f64, highest: f64, limit: Option<f64>) -> Markup {
    let percent = |value: f64| if highest > 0.0 { (value / highest * 100.0).clamp(0.0, 100.0) } else { 0.0 };
    html! {
        svg class="bar" width="100%" height="18" aria-hidden="true" {
            rect class="track" x="0" y="4" width="100%" height="10" rx="5" {}
            rect class="length" x="0" y="4" width={ (pixel(percent(rate))) "%" } height="10" rx="5" {}
            @if let Some(limit) = limit {
                // Kept a little inside, so that the mark at the right end is not cut.
                @let x = format!("{}%", pixel(percent(limit).min(99.8)));
                line class="limit-mark" x1=(x) x2=(x) y1="0" y2="18" {}
            }
        }
    }
}

/// Remarks beside a peak, in a line.
fn facts(view: &View, system: &SystemView, peak: &MixResult) -> String {
    let mut facts = vec![
        format!("at {}", words::load(peak)),
        format!("p95 {}", number::latency(peak.latency.p95_us)),
        format!("{}\u{a0}Mbit/s", number::grouped(peak.megabits_per_second, 0)),
    ];
    facts.push(match &peak.server {
        Some(server) => format!("{}\u{a0}µs of CPU a request", number::grouped(server.cpu_us_per_request, 1)),
        None => format!("CPU {}", number::NOT_MEASURED),
    });
    let limit = view.limit_of(system);
    if let Some(share) = limit.and_then(|limit| verdict::share_of_limit(system.system, limit)) {
        facts
            .push(format!("{} of the limit", touchstone_lab::figures::percent(share).replace(' ', "\u{a0}")));
    }
    if is_lower_bound(system.system, peak) {
        facts.push("a lower bound".to_owned());
    }
    // If the line is wrapped, the dot remains at its end.
    facts.join("\u{a0}· ")
}
