//! Capacity: the peak and the useful peak with the reason why they differ, the bottleneck of each system with
//! the evidence of every rule, the law of its curve if one fits the figures, how many users the rate serves,
//! and what to change.

use maud::{Markup, html};

use super::number;
use super::table::{Part, Row, Table};
use super::view::View;
use super::words;
use crate::planning::{Plan, mva, users, usl};
use touchstone_lab::bottleneck::Evidence;
use touchstone_lab::memory;
use touchstone_lab::result::SpeedupRow;
use touchstone_lab::statistics::useful_peak::UsefulPeak;

/// The most characters of a reason in a cell.
const REASON_LIMIT: usize = 300;

/// What an open load does not show.
const RATES_ARE_STATED: &str = "The rates of an open load are stated and not searched for: neither a peak \
    nor what holds it back follows from them. Measure with closed loops (a suite without rates) for that.";

/// The sections: capacity, and the evidence.
pub(super) fn section(view: &View) -> Markup {
    let plans: Vec<(&str, &Plan)> =
        view.systems.iter().filter_map(|system| Some((system.label.as_str(), system.plan?))).collect();
    html! {
        section aria-labelledby="capacity" {
            h2 id="capacity" { "Capacity" }
            @if view.clients.is_open() {
                p { (RATES_ARE_STATED) }
            } @else if plans.is_empty() {
                p { (number::NOT_MEASURED) }
            } @else {
                (lead(view))
                (peaks(&plans).write())
                (people(&plans).write())
                (laws(&plans).write())
                @if !view.result.speedups.is_empty() { (speedups(view).write()) }
                @if view.result.systems.iter().any(|system| system.memory_bytes.is_some()) {
                    (memory_sizes(view).write())
                }
                h3 { "What to change, and what it would give" }
                (advice(&plans).write())
            }
        }
        section aria-labelledby="bottleneck" {
            h2 id="bottleneck" { "What held each system back" }
            @if view.clients.is_open() {
                p { (RATES_ARE_STATED) }
            } @else if plans.is_empty() {
                p { (number::NOT_MEASURED) }
            } @else {
                p class="lead" {
                    "Each rule compares one figure at the peak with its limit; the first \
                     that applies decides. A figure that was not measured counts neither for nor against."
                }
                (verdicts(&plans).write())
                @for (label, plan) in &plans {
                    details class="numbers" {
                        summary { "The evidence" span class="unseen" { " of" } ": " (label) }
                        (evidence(label, plan).write())
                    }
                }
            }
        }
    }
}

fn lead(view: &View) -> Markup {
    let criteria = &view.result.method.useful;
    let runs =
        if criteria.runs_min == 1 { "one run".to_owned() } else { format!("{} runs", criteria.runs_min) };
    html! {
        p class="lead" {
            "The peak is the highest rate, whatever people think of it. The useful peak is the largest load \
             at which, in at least "
            (runs) " (each load was run " (times(view.result.method.runs)) "), at most one request of "
            (number::grouped(1.0 / criteria.errors_max, 0))
            " failed, all clients were served equally (Jain\u{2019}s index at least " (criteria.jain_min)
            ", the slowest client at most " (criteria.slowest_over_median_max)
            " times the median one), the load engine had room, "
            @if let Some(most) = criteria.level_wait_max {
                "no lighter load reached the rate within 3 % while its p95 was shorter by a factor of "
                (number::grouped(most, 2)) ", "
            }
            @match criteria.p95_max_us {
                Some(limit) => { "and 95 % of the answers came within " (number::latency(limit)) ". " }
                None => {
                    "and no time was agreed within which 95 % of the answers must come: "
                    code { "touchstone bench --p95 TIME" } " and " code { "touchstone plan --p95 TIME" }
                    " name one. "
                }
            }
        }
    }
}

fn times(number: u64) -> String {
    if number == 1 { "once".to_owned() } else { format!("{} times", number::count(number)) }
}

fn peaks(plans: &[(&str, &Plan)]) -> Table {
    let row = |(label, plan): &(&str, &Plan)| {
        let useful = plan.useful_peak.as_ref();
        let load = useful.and_then(|found| found.useful.as_ref());
        Row::new(
            *label,
            vec![
                number::rate(plan.peak_rate),
                number::count(plan.peak_clients),
                load.map_or_else(|| "none shown".to_owned(), |load| number::rate(load.rate)),
                load.map_or_else(String::new, |load| number::grouped(load.load, 0)),
                why_they_differ(useful),
            ],
        )
    };
    let mut table = Table::new(
        "Peak and useful peak",
        &["System", "requests/s", "clients", "requests/s", "clients", "Why the two differ"],
        plans.iter().map(row).collect(),
    )
    .with_words(&[0, 5]);
    table.groups =
        vec![(String::new(), 1), ("Peak".to_owned(), 2), ("Useful peak".to_owned(), 2), (String::new(), 1)];
    table
}

fn why_they_differ(found: Option<&UsefulPeak>) -> String {
    match found.map(|found| found.difference.as_deref()) {
        None => number::NOT_MEASURED.to_owned(),
        Some(None) => "they are the same".to_owned(),
        Some(Some(why)) => words::line(why, REASON_LIMIT),
    }
}

/// Users over pages a minute and what the browser's cache answers.
fn people(plans: &[(&str, &Plan)]) -> Table {
    let mut columns = vec!["Pages that each opens a minute".to_owned()];
    columns.extend(users::CACHE_HIT_SHARES.map(|share| format!("{:.0}\u{a0}% cached", share * 100.0)));
    let part = |(label, plan): &(&str, &Plan)| {
        let mut rows: Vec<Row> = users::PAGES_PER_MINUTE
            .iter()
            .zip(&plan.users)
            .map(|(pages, row)| {
                let cell = |cell: &users::Cell| {
                    number::optional(cell.users, touchstone_lab::figures::people_estimate)
                };
                Row::new(pages.to_string(), row.iter().map(cell).collect())
            })
            .collect();
        let mut of_1997 = vec![touchstone_lab::figures::people_estimate(plan.users_of_1997)];
        of_1997.resize(users::CACHE_HIT_SHARES.len(), String::new());
        rows.push(Row::new("the formula of 1997: 5 requests a minute each", of_1997));
        Part { heading: Some((*label).to_owned()), rows }
    };
    Table {
        caption: format!(
            "Users that the peak rate serves, with pages of {} requests (the median home page of 2025, HTTP \
             Archive), all of them to this server, by how many of them the browser\u{2019}s cache answers",
            number::grouped(users::REQUESTS_PER_PAGE_2025, 0)
        ),
        columns,
        words: vec![0],
        parts: plans.iter().map(part).collect(),
        ..Table::default()
    }
}

/// More processors beside fewer: the 1P and 2P tables of the reports.
fn speedups(view: &View) -> Table {
    let row = |row: &SpeedupRow| {
        let interface = touchstone_lab::series::interface(view.result, &row.interface);
        let interface_words = interface.map(|interface| format!(", {}", words::line(&interface.title, 60)));
        let title = format!("{}{}", view.system_label(&row.system), interface_words.unwrap_or_default());
        Row::new(
            title,
            vec![
                number::count(row.base_processors),
                number::rate(row.base_peak.requests_per_second.median),
                number::count(row.processors),
                number::rate(row.peak.requests_per_second.median),
                number::grouped(row.speedup, 2),
                number::percent(row.efficiency),
            ],
        )
    };
    let columns = [
        "System",
        "processors",
        "peak, requests/s",
        "processors",
        "peak, requests/s",
        "speedup",
        "efficiency",
    ];
    let rows = view.result.speedups.iter().map(row).collect();
    Table::new("Speedup: the peak on more processors beside that on the fewest", &columns, rows)
        .with_words(&[0])
}

/// More memory beside the least: Figures 8, 9 and 12 of report 002 as a table.
fn memory_sizes(view: &View) -> Table {
    let row = |row: &memory::Row<'_>| {
        let interface = touchstone_lab::series::interface(view.result, &row.interface);
        let interface_words = interface.map(|interface| format!(", {}", words::line(&interface.title, 60)));
        Row::new(
            format!("{}{}", view.system_label(&row.system.name), interface_words.unwrap_or_default()),
            vec![
                row.base_size.to_string(),
                number::rate(row.base_peak.requests_per_second.median),
                row.size.to_string(),
                number::rate(row.peak.requests_per_second.median),
                number::grouped(row.times, 2),
            ],
        )
    };
    let columns = ["System", "memory", "peak, requests/s", "memory", "peak, requests/s", "times"];
    let rows = memory::rows(view.result).iter().map(row).collect();
    Table::new("Memory: the peak with more beside that with the least", &columns, rows).with_words(&[0])
}

/// The laws that describe the curves, or why none does.
fn laws(plans: &[(&str, &Plan)]) -> Table {
    let row =
        |(label, plan): &(&str, &Plan)| Row::new(*label, vec![scalability(&plan.usl), queues(&plan.mva)]);
    Table::new(
        "The laws of the curves: what the figures show, or why they show none",
        &["System", "Universal Scalability Law", "Queues (mean value analysis)"],
        plans.iter().map(row).collect(),
    )
    .with_words(&[0, 1, 2])
}

fn scalability(outcome: &usl::Outcome) -> String {
    match outcome {
        usl::Outcome::Identified(law) => {
            let significant = touchstone_lab::figures::significant;
            let end = match (law.peak_load(), law.ceiling()) {
                (Some(load), _) => format!(
                    "; its peak lies at {} requests/s with {} clients",
                    number::rate(law.rate(load)),
                    number::grouped(load, 0)
                ),
                (None, Some(ceiling)) => {
                    format!("; contention bounds it at {} requests/s", number::rate(ceiling))
                }
                (None, None) => "; it scales as far as it was measured".to_owned(),
            };
            format!(
                "one client alone {} requests/s, contention {}, crosstalk {:.2e}{end}",
                number::rate(law.gamma.estimate),
                significant(law.alpha.estimate),
                law.beta.estimate
            )
        }
        usl::Outcome::NotIdentified { reasons, .. } => not_identified(reasons),
    }
}

fn queues(outcome: &mva::Outcome) -> String {
    match outcome {
        mva::Outcome::Identified(model) => {
            let demand_us: f64 = model.stations.iter().map(|station| station.demand_s * 1e6).sum();
            let ceiling = mva::ceiling(&model.stations).map_or_else(String::new, |rate| {
                format!("; the processors allow {} requests/s", number::rate(rate))
            });
            format!(
                "a request needs {} µs of the processors and {} µs elsewhere{ceiling}",
                number::grouped(demand_us, 1),
                number::grouped(model.delay_s * 1e6, 1)
            )
        }
        mva::Outcome::NotIdentified { reasons } => not_identified(reasons),
    }
}

fn not_identified(reasons: &[String]) -> String {
    format!("not identified: {}", words::line(&reasons.join("; "), REASON_LIMIT))
}

fn advice(plans: &[(&str, &Plan)]) -> Table {
    let parts = plans.iter().filter(|(_, plan)| !plan.advice.is_empty()).map(|(label, plan)| Part {
        heading: Some((*label).to_owned()),
        rows: plan
            .advice
            .iter()
            .map(|advice| {
                Row::new(
                    words::line(&advice.change, REASON_LIMIT),
                    vec![words::line(&advice.gives, REASON_LIMIT)],
                )
            })
            .collect(),
    });
    Table {
        caption: "Changes, the most important first; each gain is a bound or a model\u{2019}s figure, and \
                  says which"
            .to_owned(),
        columns: ["Change", "What it would give"].map(str::to_owned).to_vec(),
        words: vec![0, 1],
        parts: parts.collect(),
        ..Table::default()
    }
}

fn verdicts(plans: &[(&str, &Plan)]) -> Table {
    let row = |(label, plan): &(&str, &Plan)| {
        let bottleneck = &plan.bottleneck;
        Row::new(
            *label,
            vec![bottleneck.verdict.name().to_owned(), words::line(&bottleneck.sentence, REASON_LIMIT)],
        )
    };
    Table::new("The bottleneck at the peak", &["System", "Verdict", "Why"], plans.iter().map(row).collect())
        .with_words(&[0, 1, 2])
}

fn evidence(label: &str, plan: &Plan) -> Table {
    let row = |it: &Evidence| {
        let speaks = match it.speaks {
            Some(true) => "yes",
            Some(false) => "no",
            None => number::NOT_MEASURED,
        };
        Row::new(
            it.verdict.name(),
            vec![
                speaks.to_owned(),
                words::line(&it.figure, REASON_LIMIT),
                words::line(&it.limit, REASON_LIMIT),
            ],
        )
        .strong(it.speaks == Some(true))
    };
    Table::new(
        format!("Every rule for {label}, in the order in which they decide"),
        &["Speaks for", "Speaks", "Figure", "Its limit"],
        plan.bottleneck.evidence.iter().map(row).collect(),
    )
    .with_words(&[0, 1, 2, 3])
}
