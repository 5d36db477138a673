//! The end of the report, for a reader who repeats the run: the workload, the systems with their commands and
//! configuration files, the machine, the command line, and a glossary.

use maud::{Markup, html};

use super::table::{Part, Row, Table};
use super::tables::processors;
use super::view::{SystemView, View};
use super::{Source, number, words};
use crate::hardware;
use touchstone_lab::result::{InterfaceRecord, SuiteRecord};
use touchstone_lab::shares::Share;
use touchstone_lab::shell;

/// The workload with its classes.
pub(super) fn workload(view: &View) -> Markup {
    let suite = &view.result.suite;
    let rows = suite
        .classes
        .iter()
        .map(|class| {
            Row::new(
                words::line(&class.name, 60),
                vec![
                    format!(
                        "{}\u{a0}%",
                        number::grouped(class.weight_percent, decimals(class.weight_percent))
                    ),
                    number::count(class.files),
                    number::count(class.file_bytes),
                ],
            )
        })
        .collect();
    html! {
        section aria-labelledby="workload" {
            h2 id="workload" { "Workload" }
            p {
                (words::visible(&suite.title)) " · " (number::count(suite.files)) " files, "
                (number::count(suite.tree_bytes)) " bytes; the mean of an answer\u{2019}s body is "
                (number::grouped(suite.mean_body_bytes, 2)) " bytes. Source: " (words::visible(&suite.source))
                ". Seed of the choice of requests: " (suite.seed) "."
            }
            @if !suite.interfaces.is_empty() {
                (interfaces(suite).write())
            } @else if !suite.classes.is_empty() {
                (Table::new(
                    "Classes of the workload",
                    &["Class", "Share of the requests", "Files", "Bytes of each file"],
                    rows,
                ).with_words(&[0]).write())
                (shares(view))
            }
        }
    }
}

/// The share of the requests that used TLS or were answered by a program, at each system's peak; empty if all
/// requests are of one kind.
fn shares(view: &View) -> Markup {
    let part = |system: &SystemView| {
        let mix = system.peak?;
        let shares = touchstone_lab::shares::of(&view.result.suite, mix);
        let row = |share: &Share| {
            let percent = |share: f64| format!("{}\u{a0}%", number::grouped(share * 100.0, 2));
            let cells = vec![percent(share.stated), percent(share.counted), number::count(share.requests)];
            Row::new(share.title(), cells)
        };
        let heading = Some(format!("{}, {}", system.label, words::load(mix)));
        (!shares.is_empty()).then(|| Part { heading, rows: shares.iter().map(row).collect() })
    };
    let parts: Vec<Part> = view.systems.iter().filter_map(part).collect();
    let table = Table {
        parts,
        ..Table::new(
            "Kinds of requests, as the suite states them and as they were counted in the window of the peak",
            &["Requests", "Stated", "Counted", "Requests in the window"],
            Vec::new(),
        )
        .with_words(&[0])
    };
    html! { @if !table.parts.is_empty() { (table.write()) } }
}

fn interfaces(suite: &SuiteRecord) -> Table {
    let row = |interface: &InterfaceRecord| {
        Row::new(
            words::line(&interface.title, 60),
            vec![
                number::count(interface.body_bytes),
                words::line(&interface.description, 200),
                words::line(&interface.needs, 60),
                words::line(&interface.path, 200),
            ],
        )
    };
    Table::new(
        "The interfaces, each measured in every mix by itself",
        &["Interface", "Bytes of each answer", "What answers", "Needs", "Path"],
        suite.interfaces.iter().map(row).collect(),
    )
    .with_words(&[0, 2, 3, 4])
}

fn decimals(weight: f64) -> usize {
    if weight.fract() == 0.0 { 0 } else { 2 }
}

/// The systems under test.
pub(super) fn systems(view: &View) -> Markup {
    html! {
        section aria-labelledby="systems" {
            h2 id="systems" { "Systems under test" }
            @for system in view.each_system() { (one_system(system)) }
        }
    }
}

fn one_system(view: &SystemView) -> Markup {
    let system = view.system;
    html! {
        h3 { (view.system_label) }
        dl class="facts-grid small" {
            div { dt { "Name" } dd { (words::visible(&system.name)) } }
            @if words::visible(&system.title) != view.system_label {
                div { dt { "Title" } dd { (words::visible(&system.title)) } }
            }
            div { dt { "Processors" } dd { (processors(&system.cpus)) } }
            @if let Some(bytes) = system.memory_bytes {
                div { dt { "Memory, at most" } dd { (number::bytes(bytes as f64)) } }
            }
            div { dt { "Mixes measured" } dd { (system.mixes.len()) } }
        }
        @if system.mixes.is_empty() && !system.skipped.is_empty() {
            p { "It was not started: " (words::line(&system.skipped[0].reason, words::SENTENCE_LIMIT)) "." }
        } @else if system.command.is_empty() {
            p { "It was already running; how it was started is not known." }
        } @else {
            p { "Started with:" }
            (verbatim(&format!("Command of {}", view.system_label), &shell::line(&system.command)))
        }
        @for file in &system.configuration {
            details {
                summary {
                    "Configuration: " (words::visible(&file.name))
                    span class="unseen" { " of " (view.system_label) }
                }
                (verbatim(
                    &format!("Configuration file {} of {}", words::line(&file.name, 80), view.system_label),
                    &file.text,
                ))
            }
        }
        @if let Some(last_words) = &system.last_words {
            details {
                summary { "What it printed last" span class="unseen" { ": " (view.system_label) } }
                (verbatim(&format!("What {} printed last", view.system_label), last_words))
            }
        }
    }
}

/// An unchanged text, in a region with its own scroll bar.
pub(super) fn verbatim(name: &str, text: &str) -> Markup {
    html! {
        pre class="scroll" role="region" tabindex="0" aria-label=(name) { code { (words::visible(text)) } }
    }
}

/// The machine, or the machines.
pub(super) fn machine(view: &View) -> Markup {
    html! {
        section aria-labelledby="machine" {
            h2 id="machine" { "Machine" }
            @for source in view.sources {
                @if view.sources.len() > 1 { h3 { (words::line(&source.label, 80)) } }
                (one_machine(source))
            }
        }
    }
}

fn one_machine(source: &Source) -> Markup {
    let machine = &source.machine;
    let known = |text: &str| {
        if text.trim().is_empty() { number::NOT_MEASURED.to_owned() } else { words::visible(text) }
    };
    let not_told = || "not reported by the machine".to_owned();
    html! {
        dl class="facts-grid small" {
            div { dt { "Host" } dd { (known(&machine.host)) } }
            div { dt { "Operating system" } dd { (known(&machine.os)) } }
            div { dt { "Kernel" } dd { (known(&machine.kernel)) } }
            div { dt { "Processors" } dd { (machine.cpus) " × " (known(&machine.cpu_model)) } }
            div { dt { "Model" } dd { (machine.product.as_deref().map_or_else(not_told, known)) } }
            div {
                dt { "Caches of a processor" }
                dd { (machine.cpu_caches.as_deref().map_or_else(not_told, known)) }
            }
            div { dt { "Network cards" } dd { (hardware::network_cards(machine)) } }
            div { dt { "Disks" } dd { (hardware::disks(machine)) } }
            div { dt { "Memory" } dd { (number::bytes(machine.memory_bytes as f64)) } }
            div {
                dt { "Virtual" }
                dd {
                    (machine
                        .virtualised
                        .as_deref()
                        .map_or_else(|| "no sign of a hypervisor".to_owned(), known))
                }
            }
            div { dt { "Open files, at most" } dd { (number::count(machine.open_files_limit)) } }
        }
        @if !machine.sysctls.is_empty() {
            details {
                summary { "Kernel settings" span class="unseen" { " " (words::line(&source.label, 80)) } }
                (Table::new(
                    format!("Kernel settings that matter to a server{}", named(source)),
                    &["Setting", "Value"],
                    machine
                        .sysctls
                        .iter()
                        .map(|(name, value)| Row::new(words::visible(name), vec![words::visible(value)]))
                        .collect(),
                ).with_words(&[0, 1]).write())
            }
        }
    }
}

fn named(source: &Source) -> String {
    if source.label.is_empty() { String::new() } else { format!(" ({})", words::line(&source.label, 80)) }
}

/// How to run it again.
pub(super) fn repeat(view: &View) -> Markup {
    html! {
        section aria-labelledby="repeat" {
            h2 id="repeat" { "How to repeat this" }
            p { "On the machine described above, with the same systems installed:" }
            @for source in view.sources {
                (verbatim(&format!("Command line{}", named(source)), &shell::line(&source.command_line)))
                p class="faint" {
                    "Measured by " (words::line(&source.tool.name, 60))
                    " " (words::line(&source.tool.version, 60))
                    ", SHA-256 of the program: "
                    code {
                        (source
                            .tool
                            .binary_sha256
                            .as_deref()
                            .map_or_else(|| number::NOT_MEASURED.to_owned(), words::visible))
                    }
                }
            }
            p {
                "The raw data lie "
                @if view.sources.len() > 1 {
                    "in each result\u{2019}s directory: "
                } @else {
                    "beside this report: "
                }
                code { "result.json" } " (every figure), " code { "latency.hlog" } " (the histograms), "
                code { "timeline.csv" } " (every sample) and " code { "clients.csv" } " (every client). "
                "This page can be made again from them with " code { "touchstone report" } "."
            }
        }
    }
}

/// The definitions of terms.
pub(super) fn glossary() -> Markup {
    const WORDS: [(&str, &str); 20] = [
        ("Audit", "Sums that must be right if the figures are true, such as Little\u{2019}s law."),
        (
            "Closed loop",
            "A client sends its next request only when the last one is answered. When the server slows down, \
             so does the load; latencies of a closed loop do not show what users see at a given rate.",
        ),
        (
            "Delay",
            "A random pause before a client\u{2019}s first request, so that the clients do not all start \
             at once.",
        ),
        (
            "Interface",
            "A way to make an answer: a file, a page with directives, a program called in one way or \
             another.",
        ),
        (
            "Latency",
            "The time from starting a connection (or, on a kept one, the request) to the last byte of \
             the answer.",
        ),
        (
            "Limit",
            "What a program that only answers reaches with this kernel: about the least that a \
             server can spend. The closer, the better.",
        ),
        (
            "Little\u{2019}s law",
            "In any steady system, clients = rate × (latency + think time). It needs no assumption about \
             the server.",
        ),
        (
            "Mix",
            "One measured load on one workload: so many clients for so long, with ramps, delay and \
             think time.",
        ),
        (
            "p50, p95, p99",
            "The latency that 50, 95 or 99 of a hundred answers did not exceed. p50 is the median.",
        ),
        ("Peak", "The mix with the highest request rate."),
        (
            "Pressure",
            "The share of time in which some task had to wait for processor, memory or input and \
             output (PSI).",
        ),
        (
            "Ramp up, ramp down",
            "The beginning and the end of a mix, in which load grows and ebbs; they do not count.",
        ),
        ("Requests per second", "Valid answers in the window, divided by its length."),
        (
            "SPICE",
            "Server-side Programming Interface Call Efficiency: the least program that an interface can \
             call, held against a static file of as many bytes in the same run.",
        ),
        ("Suite", "An ordered list of mixes."),
        ("System under test", "The server that is measured."),
        ("Think time", "A pause of each client between an answer and its next request."),
        (
            "Throughput",
            "Bytes that the clients received a second, heads included. One Mbit/s is 1,000,000 bits \
             a second.",
        ),
        (
            "Virtual client",
            "One sender of requests on one connection at a time; many of them run on each processor.",
        ),
        ("Window", "The part of a mix between its ramps: what is counted."),
    ];
    html! {
        section aria-labelledby="glossary" {
            h2 id="glossary" { "Glossary" }
            dl class="glossary" {
                @for (word, meaning) in WORDS { div { dt { (word) } dd { (meaning) } } }
            }
        }
    }
}
