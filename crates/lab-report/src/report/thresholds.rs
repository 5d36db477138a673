//! The thresholds of mixes, and why their requests failed, with the first of each reason.

use super::number;
use super::table::{Part, Row, Table};
use super::view::View;
use super::words;
use maud::{Markup, html};
use touchstone_lab::result::MixResult;

/// The most characters of a text from a request or an answer.
const SHOWN: usize = 160;

/// The thresholds of all runs; empty if there were none.
pub(super) fn thresholds(view: &View) -> Markup {
    let rows = |mix: &MixResult| {
        let row = |record: &touchstone_lab::threshold_record::ThresholdRecord| {
            let outcome = if record.kept { "kept" } else { "missed" };
            let cells = vec![record.threshold.clone(), outcome.to_owned(), record.words.clone()];
            Row::new(name(mix), cells).strong(!record.kept)
        };
        mix.thresholds.iter().map(row).collect()
    };
    written(view, "Thresholds: a mix fails where one is true", &["Mix", "Threshold", "", "Measured"], &rows)
}

/// The reasons of all errors; empty if there were none.
pub(super) fn reasons(view: &View) -> Markup {
    let rows = |mix: &MixResult| {
        let row = |reason: &touchstone_lab::threshold_record::ReasonRecord| {
            let words = format!("{}: {}", reason.kind.replace('_', " "), reason.reason);
            let answer = reason.first_answer.as_deref().unwrap_or("");
            let cells = vec![
                number::count(reason.count),
                words::line(&words, SHOWN),
                words::line(&reason.first_request, SHOWN),
                words::line(answer, SHOWN),
            ];
            Row::new(name(mix), cells)
        };
        mix.error_reasons.iter().map(row).collect()
    };
    let columns = ["Mix", "Errors", "Reason", "First request", "Beginning of its answer"];
    written(view, "Errors by their reason, ramps included", &columns, &rows)
}

fn name(mix: &MixResult) -> String {
    match mix.run {
        1 => words::line(&mix.name, 40),
        run => format!("{}, run {run}", words::line(&mix.name, 40)),
    }
}

fn written(view: &View, caption: &str, columns: &[&str], rows: &dyn Fn(&MixResult) -> Vec<Row>) -> Markup {
    let parts: Vec<Part> = view
        .systems
        .iter()
        .map(|system| Part {
            heading: Some(system.label.clone()),
            rows: system.runs.iter().flatten().flat_map(|mix| rows(mix)).collect(),
        })
        .filter(|part| !part.rows.is_empty())
        .collect();
    if parts.is_empty() {
        return html! {};
    }
    let table = Table {
        caption: caption.to_owned(),
        words: (0..columns.len()).filter(|&column| columns[column] != "Errors").collect(),
        columns: columns.iter().map(|&column| column.to_owned()).collect(),
        parts,
        ..Table::default()
    };
    table.write()
}

#[cfg(test)]
mod tests {
    use touchstone_lab::threshold_record::{ReasonRecord, ThresholdRecord};

    #[test]
    fn thresholds_and_reasons_stand_in_the_report_and_its_other_forms() {
        let mut result = touchstone_lab::sample::result();
        let mix = &mut result.systems[0].mixes[0];
        mix.errors.bad_status = 3;
        mix.thresholds = vec![ThresholdRecord {
            threshold: "p99>1ms".to_owned(),
            kept: false,
            measured: Some(2500.0),
            limit: 1000.0,
            unit: "us".to_owned(),
            words: "2.5 ms, 1.5 ms above 1 ms, 150 %".to_owned(),
        }];
        mix.error_reasons = vec![ReasonRecord {
            kind: "bad_status".to_owned(),
            reason: "status 503".to_owned(),
            count: 3,
            first_at_s: 1.0,
            first_request: "GET /<b>".to_owned(),
            first_answer: None,
        }];
        let page = super::super::html(&result, None);
        assert!(page.contains("2.5 ms, 1.5 ms above 1 ms") && page.contains("bad status: status 503"));
        assert!(page.contains("GET /&lt;b&gt;") && !page.contains("GET /<b>"));
        let junit = crate::export::junit(&result);
        assert!(junit.contains(", p99&gt;1ms\"") && junit.contains("150 %"), "{junit}");
        let markdown = crate::export::markdown(&result);
        assert!(markdown.contains("**missed**") && markdown.contains("p99&gt;1ms"), "{markdown}");
    }
}
