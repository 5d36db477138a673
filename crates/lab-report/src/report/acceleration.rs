//! Acceleration, in the style of report 004: the factors compared with its Table 5, the remaining work of the
//! origin, and the hits of each class. Nothing where no system accelerates another.

use maud::{Markup, html};

use super::number;
use super::table::{Row, Table};
use super::view::View;
use super::words;
use touchstone_lab::acceleration::{self, Acceleration};
use touchstone_lab::result::MixResult;

/// The most characters of an outside text in a cell.
const CELL_LIMIT: usize = 60;

/// The tables, for the verdict.
pub(super) fn section(view: &View) -> Markup {
    let all = acceleration::from_result(view.result);
    if all.is_empty() {
        return html! {};
    }
    html! {
        (factors(view, &all))
        (origin(view, &all))
        (hits(view, &all))
    }
}

fn factor(value: f64) -> String {
    format!("{}\u{a0}times", touchstone_lab::figures::significant(value))
}

/// How many times faster, compared with report 004.
fn factors(view: &View, all: &[Acceleration<'_>]) -> Markup {
    let mut rows: Vec<Row> = Vec::new();
    for acceleration in all {
        for pair in acceleration.pairs(view.result) {
            let Some(factors) = pair.factors() else { continue };
            let cells = vec![
                factor(factors.rate),
                factor(factors.throughput),
                number::rate(pair.alone.requests_per_second),
                number::rate(pair.accelerated.requests_per_second),
            ];
            let title = words::line(&acceleration.accelerated.title, CELL_LIMIT);
            let interface_words =
                pair.interface.map(|interface| format!(", {}", words::line(interface, CELL_LIMIT)));
            rows.push(Row::new(title + &interface_words.unwrap_or_default(), cells).strong(true));
        }
    }
    for reported in acceleration::reported(&view.result.suite.name) {
        let times = |text: &str| format!("{text}\u{a0}times");
        let cells =
            vec![times(&reported.rate.text), times(&reported.throughput.text), String::new(), String::new()];
        rows.push(Row::new(format!("Report 004, Table 5 (1997): FastCache, {}", reported.machine), cells));
    }
    Table::new(
        "Acceleration: the origin alone and accelerated, each at its peak",
        &["Accelerator", "rate", "throughput", "alone, requests/s", "accelerated, requests/s"],
        rows,
    )
    .with_words(&[0])
    .write()
}

/// The processor time of the origin alone and behind the accelerator, at each number of clients.
fn origin(view: &View, all: &[Acceleration<'_>]) -> Markup {
    let mut rows = Vec::new();
    for acceleration in all {
        // The requests that reach the origin are in the order of the accelerated mixes; of several runs the
        // one that represents the mix is shown.
        let accelerated = acceleration.accelerated;
        let is_shown = |mix: &MixResult| {
            let own = view.systems.iter().filter(|system| std::ptr::eq(system.system, accelerated));
            own.flat_map(|system| &system.mixes).any(|shown| std::ptr::eq(*shown, mix))
        };
        for (left, mix) in
            acceleration.origin.mixes.iter().zip(&accelerated.mixes).filter(|(_, mix)| is_shown(mix))
        {
            let same = |other: &&MixResult| other.name == mix.name && other.interface == mix.interface;
            let alone = acceleration.alone.and_then(|alone| alone.mixes.iter().find(same));
            let server = alone.and_then(|mix: &MixResult| mix.server.as_ref());
            let cells = vec![
                number::optional(server, |server| number::percent(server.cpu_share)),
                number::optional(server, |server| number::grouped(server.cpu_us_per_request, 1)),
                number::percent(left.cpus()),
                number::grouped(left.cpu_us_per_request, 2),
            ];
            let title = words::line(&acceleration.origin.title, CELL_LIMIT);
            let interface = touchstone_lab::series::interface(view.result, &mix.interface);
            let interface_words =
                interface.map(|interface| format!(", {}", words::line(&interface.title, CELL_LIMIT)));
            rows.push(Row::new(
                format!("{title}{}, {}", interface_words.unwrap_or_default(), words::clients(left.clients)),
                cells,
            ));
        }
    }
    let mut table = Table::new(
        "The origin\u{2019}s processor time (accelerated: ramps included, a share of one processor)",
        &["Origin", "share", "µs/request", "share", "µs/request"],
        rows,
    );
    table.groups = vec![(String::new(), 1), ("Alone".to_owned(), 2), ("Accelerated".to_owned(), 2)];
    table.write()
}

/// The hits of each class.
fn hits(view: &View, all: &[Acceleration<'_>]) -> Markup {
    let mut rows = Vec::new();
    for acceleration in all {
        for hits in &acceleration.origin.hits {
            let share = if hits.asked > 0 { hits.hits as f64 / hits.asked as f64 } else { 0.0 };
            let class = view.result.suite.classes.iter().find(|class| class.name == hits.class);
            let cells = vec![
                class.map_or_else(String::new, |class| number::percent(class.weight_percent / 100.0)),
                number::count(hits.asked),
                number::count(hits.hits),
                number::percent(share),
            ];
            rows.push(Row::new(words::line(&hits.class, CELL_LIMIT), cells));
        }
        if let Some(share) = acceleration.hit_share(view.result) {
            let cells = vec![number::percent(1.0), String::new(), String::new(), number::percent(share)];
            rows.push(Row::new("All, by their weights", cells).strong(true));
        }
    }
    Table::new(
        "Hits per class: after each mix each file was requested once",
        &["Class", "share of the load", "asked", "hits", "hit"],
        rows,
    )
    .with_words(&[0])
    .write()
}

#[cfg(test)]
mod tests {
    use touchstone_lab::sample::accelerated;

    #[test]
    fn the_report_shows_factors_the_origin_and_hits() {
        let page = super::super::html(&accelerated(), None);
        for text in [
            "6.50\u{a0}times",
            "12.4\u{a0}times",
            "13.3\u{a0}times",
            "Report 004, Table 5 (1997): FastCache, Compaq",
            "Hits per class",
            "All, by their weights",
        ] {
            assert!(page.contains(text), "{text} is not in the report");
        }
        assert!(!super::super::html(&touchstone_lab::sample::result(), None).contains("Hits per class"));
    }
}
