//! The history of a gate: the ratios of all comparisons so far, with a line for each level and a mark where
//! the level changed.

use maud::{Markup, html};

use super::table::{Row, Table};
use crate::number;
use crate::words;
use touchstone_lab::history::Line;
use touchstone_lab::statistics::gate::Verdict;

/// The size of the drawing.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 220.0;
/// The room for the labels of the axis.
const LEFT: f64 = 60.0;
const MARGIN: f64 = 14.0;
/// The most comparisons that a table shows: the newest.
const ROWS_MAX: usize = 100;

/// The section; empty without a history.
pub(super) fn section(lines: &[Line]) -> Markup {
    html! {
        @if !lines.is_empty() {
            section aria-labelledby="history" {
                h2 id="history" { "History" }
                p class="lead" {
                    "Each point is a comparison: the processor time of a request as a multiple of that of \
                     what it is compared with. A level is drawn as a line through its mean; a new level \
                     begins where chance alone would give such a step less than once in a hundred histories."
                }
                @for (number, line) in lines.iter().enumerate() {
                    h3 {
                        (words::line(&line.system, 60)) " against " (words::line(&line.against, 60))
                        ", " (words::line(&line.suite, 60))
                    }
                    p { (in_words(line)) }
                    figure { (drawing(line, number)) }
                    details {
                        summary { "The comparisons as a table" }
                        (table(line).write())
                    }
                }
            }
        }
    }
}

fn ratio(line: &Line, place: usize) -> f64 {
    line.entries[place].gate.ratio.estimate
}

/// The levels: from, to, and the geometric mean.
fn levels(line: &Line) -> Vec<(usize, usize, f64)> {
    let ends: Vec<usize> =
        std::iter::once(0).chain(line.changes.iter().copied()).chain([line.entries.len()]).collect();
    let level = |pair: &[usize]| {
        let logarithms = (pair[0]..pair[1]).map(|place| ratio(line, place).ln()).sum::<f64>();
        (pair[0], pair[1], (logarithms / (pair[1] - pair[0]) as f64).exp())
    };
    ends.windows(2).filter(|pair| pair[0] < pair[1]).map(level).collect()
}

fn in_words(line: &Line) -> String {
    let levels = levels(line);
    let mut sentences: Vec<String> = levels
        .windows(2)
        .map(|pair| {
            let (from, _, after) = pair[1];
            let change = (after / pair[0].2 - 1.0) * 100.0;
            let what = if change > 0.0 { "more" } else { "less" };
            format!(
                "From {} on it takes {} % {what}.",
                words::line(&line.entries[from].label, 60),
                number::grouped(change.abs(), 1)
            )
        })
        .collect();
    if sentences.is_empty() {
        let comparisons = number::count(line.entries.len() as u64);
        sentences.push(format!("No change of level is shown in {comparisons} comparisons."));
    }
    sentences.join(" ")
}

fn drawing(line: &Line, number: usize) -> Markup {
    let ratios = || (0..line.entries.len()).map(|place| ratio(line, place));
    let (low, high) = ratios().fold((1.0f64, 1.0f64), |(low, high), value| (low.min(value), high.max(value)));
    let room = ((high - low) * 0.1).max(0.005);
    let (low, high) = (low - room, high + room);
    let across = |place: f64| {
        let steps = (line.entries.len().max(2) - 1) as f64;
        LEFT + (WIDTH - LEFT - MARGIN) * place / steps
    };
    let upward = |value: f64| MARGIN + (HEIGHT - 2.0 * MARGIN) * (high - value) / (high - low);
    let pixel = |value: f64| format!("{value:.1}");
    let title = format!("history-{number}");
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-labelledby=(title) style="width:100%" {
            title id=(title) { (in_words(line)) }
            @for value in [low + room, 1.0, high - room] {
                line x1=(pixel(LEFT)) x2=(pixel(WIDTH - MARGIN)) y1=(pixel(upward(value)))
                    y2=(pixel(upward(value))) stroke="currentColor" stroke-opacity="0.2" {}
                text x=(pixel(LEFT - 6.0)) y=(pixel(upward(value) + 4.0)) text-anchor="end" font-size="12"
                    fill="currentColor" { (number::grouped(value, 3)) }
            }
            @for change in &line.changes {
                line x1=(pixel(across(*change as f64 - 0.5))) x2=(pixel(across(*change as f64 - 0.5)))
                    y1=(pixel(MARGIN)) y2=(pixel(HEIGHT - MARGIN)) stroke="currentColor"
                    stroke-dasharray="4 4" {}
            }
            @for (from, to, mean) in levels(line) {
                line x1=(pixel(across(from as f64))) x2=(pixel(across((to - 1) as f64)))
                    y1=(pixel(upward(mean))) y2=(pixel(upward(mean))) stroke="currentColor"
                    stroke-width="2" {}
            }
            @for (place, value) in ratios().enumerate() {
                circle cx=(pixel(across(place as f64))) cy=(pixel(upward(value))) r="3" fill="currentColor"
                    fill-opacity="0.6" {
                    title { (words::line(&line.entries[place].label, 80)) ": " (number::grouped(value, 3)) }
                }
            }
        }
    }
}

fn table(line: &Line) -> Table {
    let row = |place: usize| {
        let entry = &line.entries[place];
        let verdict = match entry.gate.verdict {
            Verdict::Worse => "worse",
            Verdict::Better => "better",
            Verdict::NoChangeShown => "no change shown",
            Verdict::TooFewRuns => "too few runs",
        };
        let cells = vec![
            number::grouped(entry.gate.ratio.estimate, 3),
            number::count(entry.gate.runs as u64),
            verdict.to_owned(),
            if line.changes.contains(&place) { "a new level" } else { "" }.to_owned(),
            words::line(&entry.at, 30),
        ];
        Row::new(words::line(&entry.label, 80), cells)
    };
    let first = line.entries.len().saturating_sub(ROWS_MAX);
    Table::new(
        "Comparisons",
        &["What", "times", "runs", "verdict", "level", "when"],
        (first..line.entries.len()).rev().map(row).collect(),
    )
    .with_words(&[0, 3, 4, 5])
}

#[cfg(test)]
mod tests {
    use touchstone_lab::history;

    #[test]
    fn a_change_is_told_and_drawn() {
        let text: String =
            history::sample().iter().map(|entry| serde_json::to_string(entry).unwrap() + "\n").collect();
        let lines = history::parse(&text).unwrap();
        let page = super::section(&lines).into_string();
        assert!(page.contains("From commit 12 on it takes 5.0 % more."), "{page}");
        assert_eq!(page.matches("stroke-dasharray").count(), 1);
        assert_eq!(page.matches("<circle").count(), 24);
        assert_eq!(super::section(&[]).into_string(), "");
    }
}
