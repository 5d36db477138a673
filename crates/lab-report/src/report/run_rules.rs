//! The run rules: whether the result is certified, indicative or invalid, which rule decides, and the finding
//! of each.

use maud::{Markup, html};

use super::Source;
use super::table::{Row, Table};
use super::view::View;
use super::words;
use crate::run_rules::{Outcome, Rule};

/// The most characters of a finding.
const FINDING_LIMIT: usize = 400;

/// The class in a line, with the rules that decide it: for the first screen.
pub(super) fn line(view: &View) -> Markup {
    html! {
        @for source in view.sources {
            @let class = source.assessment.class.name();
            p class={ "class " (class) } {
                strong { (capitalised(class)) }
                @if view.sources.len() > 1 { " (" (words::line(&source.label, 80)) ")" }
                ": " (source.assessment.meaning()) "."
                @for reason in reasons(source) { " " (reason) }
                " " a href="#rules" { "All run rules" }
            }
        }
    }
}

/// The findings of the rules that decide the class, a sentence each.
fn reasons(source: &Source) -> Vec<String> {
    let sentence = |found: &str| format!("{}.", capitalised(&words::line(found, FINDING_LIMIT)));
    source.assessment.reasons().map(sentence).collect()
}

pub(super) fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// The section with every rule.
pub(super) fn section(view: &View) -> Markup {
    html! {
        section aria-labelledby="rules" {
            h2 id="rules" { "Run rules" }
            p class="lead" {
                "They decide whether a result is certified, indicative or invalid; the worst outcome \
                 decides. "
                code { "touchstone verify" } " applies them again, and computes every figure from the \
                                              raw data."
            }
            @for source in view.sources { (table(source).write()) }
        }
    }
}

fn table(source: &Source) -> Table {
    let row = |rule: &Rule| {
        let outcome = match rule.outcome {
            Outcome::Held => "ok",
            Outcome::Indicative => "indicative",
            Outcome::Broken => "invalid",
        };
        Row::new(rule.rule, vec![outcome.to_owned(), words::line(&rule.finding, FINDING_LIMIT)])
            .strong(rule.outcome != Outcome::Held)
    };
    let label_words = if source.label.is_empty() {
        String::new()
    } else {
        format!(" of {}", words::line(&source.label, 80))
    };
    Table::new(
        format!("The run rules{label_words}: {}", source.assessment.class.name()),
        &["Rule", "Outcome", "What was found"],
        source.assessment.rules.iter().map(row).collect(),
    )
    .with_words(&[0, 1, 2])
}
