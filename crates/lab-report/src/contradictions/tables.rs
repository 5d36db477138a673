//! The tables of a page, and the rows of the other forms, read like sentences: each cell is compared with the
//! figures of the result, and kept as a fact.

use super::figures::{at, engine_decided, loads, median, number};
use super::forms::{self, PageTable};
use super::sentences::Reader;
use touchstone_lab::result::{Figure, MixResult, SystemResult};
use touchstone_lab::statistics::paired::Conclusion;

/// Every row of every table that has figures of systems; returns how many rows were read.
pub(super) fn read(reader: &mut Reader<'_>, tables: &[PageTable]) -> usize {
    let mut rows = 0;
    for table in tables {
        let read: fn(&mut Reader<'_>, &str, &[String]) = match table.caption.as_str() {
            caption if caption.starts_with("Summary Report: ") => summary_row,
            "Peak and useful peak" => peak_row,
            "The bottleneck at the peak" => bottleneck_row,
            "How many times faster, over the mixes that both completed" => compared_row,
            caption if caption.starts_with("Latency at the peak, milliseconds") => latency_row,
            _ => continue,
        };
        // The heads have no row header that is a system or a mix.
        let heads = table.rows.iter().position(|(_, cells)| cells.iter().any(|cell| is_figure(cell)));
        for (part, cells) in table.rows.iter().skip(heads.unwrap_or(usize::MAX)) {
            if cells.len() > 1 {
                reader.at(format!("{}: {part}: {}", table.caption, cells.join(" | ")));
                read(reader, part, cells);
                rows += 1;
            }
        }
    }
    rows
}

fn is_figure(cell: &str) -> bool {
    cell.starts_with(|letter: char| letter.is_ascii_digit()) && !cell.contains(' ')
}

fn system_of<'a>(reader: &Reader<'a>, title: &str) -> &'a SystemResult {
    super::figures::system(reader.result, title)
}

/// Mix, clients, requests/s, bytes/s, Mbit/s, mean, p95, p99, errors, processor time, and with several runs
/// their number and range.
fn summary_row(reader: &mut Reader<'_>, system: &str, cells: &[String]) {
    let clients = number(&cells[1]).0 as u64;
    let own = system_of(reader, system);
    let Some(mix) = at(own, clients) else { return reader.holds(false, "the mix is there") };
    let with = |what: &str| format!("{what} with {clients} clients");
    reader.figure(&with("rate"), system, &cells[2], Some(mix.requests_per_second));
    reader.figure(&with("bytes/s"), system, &cells[3], Some(mix.bytes_per_second));
    reader.figure(&with("Mbit/s"), system, &cells[4], Some(mix.megabits_per_second));
    for (cell, value) in [(5, mix.latency.mean_us), (6, mix.latency.p95_us), (7, mix.latency.p99_us)] {
        reader.figure(&with(&format!("latency {cell}")), system, &cells[cell], Some(value / 1000.0));
    }
    reader.figure(&with("errors"), system, &cells[8], Some(mix.errors.total() as f64));
    let us = mix.server.as_ref().map(|server| server.cpu_us_per_request);
    match us {
        Some(us) => reader.figure(&with("µs"), system, &cells[9], Some(us)),
        None => reader.holds(cells[9] == "not measured", "processor time"),
    }
    if let Some((low, high)) = cells.get(11).and_then(|cell| cell.split_once(" to ")) {
        let runs = own.mixes.iter().filter(|other| other.clients == clients);
        let rates: Vec<f64> = runs.map(|mix| mix.requests_per_second).collect();
        reader.figure(&with("runs"), system, &cells[10], Some(rates.len() as f64));
        let ends =
            (rates.iter().copied().fold(f64::MAX, f64::min), rates.iter().copied().fold(0.0, f64::max));
        reader.figure(&with("lowest run"), system, low, Some(ends.0));
        reader.figure(&with("highest run"), system, high, Some(ends.1));
    }
}

/// System, peak rate, clients, useful rate, clients, why the two differ.
fn peak_row(reader: &mut Reader<'_>, _: &str, cells: &[String]) {
    let title = &cells[0];
    let Some(peak) = reader.peak(title) else { return reader.holds(false, "there is a peak") };
    reader.figure("peak rate", title, &cells[1], Some(peak.requests_per_second));
    reader.clients_of_the_peak(title, &cells[2]);
    let same = cells[5] == "they are the same";
    if cells[3] == "none shown" {
        return reader.holds(!same && cells[4].is_empty(), "there is a reason");
    }
    let clients = number(&cells[4]).0 as u64;
    reader.holds(same == (clients == peak.clients), "they are the same where the loads are");
    reader.figure("useful clients", title, &cells[4], Some(clients as f64));
    let rate = at(system_of(reader, title), clients).map(|mix| mix.requests_per_second);
    reader.figure("useful rate", title, &cells[3], rate);
}

/// System, verdict, why.
fn bottleneck_row(reader: &mut Reader<'_>, _: &str, cells: &[String]) {
    let engine = ["generator", "engine-disturbed"].contains(&cells[1].as_str());
    let words = ["The load engine was at its own limit", "The load engine was disturbed"];
    let is_named = words.iter().any(|words| cells[2].starts_with(words));
    let beyond = cells[2].starts_with("Beyond the peak");
    reader.holds(beyond || engine == is_named, "the verdict and its sentence");
    let used_up = cells[2].starts_with("The system’s processors were used up");
    reader.holds(beyond || (cells[1] == "server-cpu") == used_up, "the verdict and its sentence");
}

/// The better system, times, the other, by what, from, to, pairs, what is shown.
fn compared_row(reader: &mut Reader<'_>, _: &str, cells: &[String]) {
    let by_time = cells[3] == Figure::ProcessorTime.title();
    let names = [&cells[0], &cells[2]];
    let pair = reader.result.comparisons.iter().find(|it| {
        names.contains(&&it.first)
            && names.contains(&&it.second)
            && (it.figure == Figure::ProcessorTime) == by_time
    });
    let Some(pair) = pair else { return reader.holds(false, "the comparison is in the result") };
    let ratio = &pair.comparison.ratio;
    let turned = ratio.estimate < 1.0;
    let value = |own: f64, other: f64| if turned { 1.0 / other } else { own };
    let what = format!("over all loads {} {}", cells[2], cells[3]);
    reader.figure(&what, &cells[0], &cells[1], Some(value(ratio.estimate, ratio.estimate)));
    reader.figure(&format!("{what}, from"), &cells[0], &cells[4], Some(value(ratio.low, ratio.high)));
    reader.figure(&format!("{what}, to"), &cells[0], &cells[5], Some(value(ratio.high, ratio.low)));
    let shown = match pair.comparison.conclusion {
        Conclusion::FirstHigher | Conclusion::SecondHigher => "a difference",
        Conclusion::NoDifferenceShown => "no difference",
        Conclusion::TooFewPairs => "nothing: too few pairs",
    };
    reader.holds(cells[7] == shown, shown);
    let low = number(&cells[4]).0;
    reader.holds(cells[7] != "a difference" || low >= 1.0, "the interval shows the difference");
}

/// System, clients, answers, smallest, 50 %, 90 %, 95 %, 99 %, 99.9 %, largest; milliseconds.
fn latency_row(reader: &mut Reader<'_>, _: &str, cells: &[String]) {
    let title = &cells[0];
    let Some(peak) = reader.peak(title) else { return reader.holds(false, "there is a peak") };
    let latency = &peak.latency;
    reader.clients_of_the_peak(title, &cells[1]);
    reader.figure("answers at the peak", title, &cells[2], Some(latency.count as f64));
    let all = [
        latency.min_us,
        latency.p50_us,
        latency.p90_us,
        latency.p95_us,
        latency.p99_us,
        latency.p999_us,
        latency.max_us,
    ];
    for (cell, value) in cells[3..].iter().zip(all) {
        reader.figure(&format!("latency {value}"), title, cell, Some(value / 1000.0));
    }
}

/// The rows of the terminal, the workbook, Markdown and JUnit.
pub(super) fn read_other_forms(reader: &mut Reader<'_>) {
    let result = reader.result;
    for (title, name, run, remarks) in forms::remarks(result) {
        let system = super::figures::system(result, &title);
        let mix = system.mixes.iter().find(|mix| mix.name == name && mix.run == run).expect("the mix");
        reader.at(format!("workbook: {title}, {name}: {}", remarks.join("; ")));
        let is_peak = reader.peak(&title).is_some_and(|peak| std::ptr::eq(peak, mix));
        reader.holds(remarks.iter().any(|it| it == "peak") == is_peak, "the peak");
        let engine = remarks.iter().any(|it| it.starts_with("load engine "));
        reader.holds(engine == engine_decided(system, mix), "the load engine");
        reader.holds(remarks.iter().any(|it| it == "cut short") != mix.complete, "cut short");
    }
    read_terminal(reader);
    for cells in forms::rows_of_markdown(result) {
        reader.at(format!("Markdown: {}", cells.join(" | ")));
        let title = &cells[0];
        let Some(peak) = reader.peak(title).filter(|_| !cells[1].is_empty()) else { continue };
        reader.clients_of_the_peak(title, &cells[1]);
        reader.figure("peak rate", title, &cells[2], Some(peak.requests_per_second));
        let useful = &cells[7];
        if useful != "none" {
            let own = loads(super::figures::system(result, title));
            let rates: Vec<f64> = own.iter().map(|runs| median(runs).requests_per_second).collect();
            let stated = number(useful);
            reader.holds(
                rates.iter().any(|rate| (rate - stated.0).abs() <= stated.1),
                "the useful rate is a load's",
            );
            let sentence = format!("Markdown: {}", cells.join(" | "));
            reader.facts.add(format!("useful rate of {title}"), stated.0, stated.1, &sentence);
        }
    }
    for (suite, name, message) in forms::failures_of_junit(result) {
        reader.at(format!("JUnit: {suite}, {name}: {message}"));
        if suite == "run rules" {
            let class = reader.class.name();
            reader.holds(
                class != "certified" && !(class == "indicative" && message.starts_with("invalid")),
                class,
            );
            continue;
        }
        let has_name =
            |mix: &&MixResult| name == mix.name || name == format!("{}, run {}", mix.name, mix.run);
        let mix = super::figures::system(result, &suite).mixes.iter().find(has_name);
        let failed = mix.is_some_and(|mix| {
            let share = mix.errors.total() as f64 / (mix.errors.total() + mix.requests).max(1) as f64;
            !mix.complete || mix.requests == 0 || share > 0.001
        });
        reader.holds(failed, "the mix failed");
    }
}

/// The lines of the terminal's table: the name of a system alone, then a row for each of its loads.
fn read_terminal(reader: &mut Reader<'_>) {
    let mut title = String::new();
    for line in forms::lines(reader.result) {
        reader.at(format!("terminal: {title}: {line}"));
        let cells: Vec<&str> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        if !line.starts_with(' ') {
            title = line;
            continue;
        }
        if cells.len() < 8 || cells[0] == "clients" {
            continue;
        }
        let clients = number(cells[0]).0 as u64;
        let own = system_of(reader, &title);
        let Some(mix) = at(own, clients) else { return reader.holds(false, "the mix is there") };
        reader.figure(
            &format!("rate with {clients} clients"),
            &title,
            cells[1],
            Some(mix.requests_per_second),
        );
        let remarks = cells.get(8).copied().unwrap_or_default();
        let engine = mix.complete && engine_decided(own, mix);
        reader.holds(remarks.contains("load engine") == engine, "the load engine");
        let is_peak = mix.complete && reader.peak(&title).is_some_and(|peak| peak.clients == clients);
        reader.holds(remarks.starts_with("peak") == is_peak, "the peak");
    }
}
