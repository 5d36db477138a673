//! A comparison as a page in Markdown, to add to a text: the peaks side by side, how each system was started,
//! the machine, and how to repeat it.

use crate::hardware;
use std::fmt::Write as _;
use touchstone_lab::arrivals::is_open;
use touchstone_lab::derived;
use touchstone_lab::figures::{count, milliseconds, rate, significant};
use touchstone_lab::result::{ConfigurationFile, LoadResult, ResultFile, RunsFigure, SystemResult};
use touchstone_lab::series;
use touchstone_lab::warnings;

/// The result as Markdown.
pub fn markdown(result: &ResultFile) -> String {
    let mut whole = result.clone();
    // For an incomplete run, or an old result without peaks, they are computed here.
    if whole.systems.iter().all(|system| system.peaks.is_empty() && system.loads.is_empty()) {
        derived::make(&mut whole);
    }
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = page(&mut text, &whole);
    text
}

fn page(text: &mut String, result: &ResultFile) -> std::fmt::Result {
    if is_open(result) {
        rates(text, result)?;
    } else {
        peaks(text, result)?;
    }
    thresholds(text, result)?;
    writeln!(text, "\n### Where and when\n")?;
    facts(text, result)?;
    writeln!(text, "\n### How each was started\n")?;
    for system in &result.systems {
        configuration(text, system)?;
    }
    Ok(())
}

/// The systems with their given rates, if the loads are open.
fn rates(text: &mut String, result: &ResultFile) -> std::fmt::Result {
    writeln!(
        text,
        "| system | arrivals/s | answers/s | mean ms | p99 ms | CPU \u{b5}s/request | carried |\n\
         |---|---:|---:|---:|---:|---:|---|"
    )?;
    for system in &result.systems {
        for load in &system.loads {
            let cpu = load.cpu_us_per_request.map_or(String::new(), |it| significant(it.median));
            let carried = match load.complaints.first() {
                None => "yes".to_owned(),
                Some(why) => cell(why),
            };
            writeln!(
                text,
                "| {} | {} | {} | {} | {} | {cpu} | {carried} |",
                cell(&system.title),
                rate(load.arrivals_per_second.unwrap_or(0.0)),
                rate(load.requests_per_second.median),
                milliseconds(load.mean_us.median),
                milliseconds(load.p99_us.median),
            )?;
        }
    }
    Ok(())
}

/// The systems by their peaks, the fastest first.
fn peaks(text: &mut String, result: &ResultFile) -> std::fmt::Result {
    writeln!(
        text,
        "| system | clients | requests/s | 95 % interval | mean ms | p99 ms | CPU \u{b5}s/request | useful \
         peak, requests/s |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|"
    )?;
    let mut rows: Vec<(f64, String)> = Vec::new();
    for series in series::from_result(result) {
        let system = series.system;
        let interface = series.runs.first().map_or("", |mix| mix.interface.as_str());
        let Some(peak) = system.peaks.iter().find(|peak| peak.interface == interface) else {
            let why = system.skipped.first().map_or("nothing was measured", |skipped| &skipped.reason);
            rows.push((-1.0, format!("| {} | | {} | | | | | |", cell(&series.title), cell(why))));
            continue;
        };
        let at_peak = |load: &&LoadResult| load.interface == interface && load.clients == peak.peak.clients;
        let Some(load) = system.loads.iter().find(at_peak) else { continue };
        let useful = peak.useful.map_or("none".to_owned(), |it| rate(it.requests_per_second.median));
        let cpu = load.cpu_us_per_request.map_or(String::new(), |it| significant(it.median));
        rows.push((
            load.requests_per_second.median,
            format!(
                "| {} | {} | {} | {} | {} | {} | {cpu} | {useful} |",
                cell(&series.title),
                count(load.clients),
                rate(load.requests_per_second.median),
                interval(&load.requests_per_second),
                milliseconds(load.mean_us.median),
                milliseconds(load.p99_us.median),
            ),
        ));
    }
    rows.sort_by(|left, right| right.0.total_cmp(&left.0));
    rows.iter().try_for_each(|(_, row)| writeln!(text, "{row}"))
}

/// What each mix had to keep to.
fn thresholds(text: &mut String, result: &ResultFile) -> std::fmt::Result {
    let mixes = result.systems.iter().flat_map(|system| system.mixes.iter().map(move |mix| (system, mix)));
    let mut rows = mixes.flat_map(|(system, mix)| mix.thresholds.iter().map(move |it| (system, mix, it)));
    let Some(first) = rows.next() else { return Ok(()) };
    writeln!(text, "\n| | system | mix | threshold | measured |\n|---|---|---|---|---|")?;
    for (system, mix, record) in [first].into_iter().chain(rows) {
        writeln!(
            text,
            "| {} | {} | {}, run {} | {} | {} |",
            if record.kept { "kept" } else { "**missed**" },
            cell(&system.title),
            cell(&mix.name),
            mix.run,
            cell(&record.threshold),
            cell(&record.words),
        )?;
    }
    Ok(())
}

fn interval(figure: &RunsFigure) -> String {
    match (figure.low, figure.high) {
        (Some(low), Some(high)) => format!("{} to {}", rate(low), rate(high)),
        _ => String::new(),
    }
}

fn facts(text: &mut String, result: &ResultFile) -> std::fmt::Result {
    let machine = &result.machine;
    let row = |name: &str, value: &str| format!("| {name} | {} |", cell(value));
    writeln!(text, "| what | value |\n|---|---|")?;
    writeln!(text, "{}", row("suite", &format!("{}: {}", result.suite.name, result.suite.title)))?;
    let form = if result.suite.quick { "the short form" } else { "the whole form" };
    let runs =
        if result.method.runs == 1 { "once".to_owned() } else { format!("{} times", result.method.runs) };
    writeln!(text, "{}", row("form", &format!("{form}, each mix run {runs}")))?;
    writeln!(text, "{}", row("when", &format!("{} to {}", result.started_at, result.finished_at)))?;
    let processors = format!("{}, {} processors", machine.cpu_model, machine.cpus);
    writeln!(text, "{}", row("processors", &processors))?;
    let memory = format!("{:.1} GiB", machine.memory_bytes as f64 / f64::from(1u32 << 30));
    writeln!(text, "{}", row("memory", &memory))?;
    writeln!(text, "{}", row("system", &format!("{}, kernel {}", machine.os, machine.kernel)))?;
    let same = if machine.same_host { "on the same machine" } else { "on a machine of its own" };
    writeln!(
        text,
        "{}",
        row("load engine", &format!("{} {}, {same}", result.tool.name, result.tool.version))
    )?;
    writeln!(text, "{}", row("network cards", &hardware::network_cards(machine)))?;
    writeln!(text, "{}", row("disks", &hardware::disks(machine)))?;
    writeln!(text, "{}", row("switch", &hardware::switch(&result.disclosure, machine)))?;
    writeln!(text, "{}", row("sponsor", &hardware::sponsor(&result.disclosure)))?;
    for note in &result.disclosure.notes {
        writeln!(text, "{}", row("note", note))?;
    }
    // The arguments without the paths of the machine on which it was run.
    let words: Vec<String> =
        result.command_line.iter().enumerate().map(|(index, word)| own_word(index, word)).collect();
    writeln!(text, "{}", row("command", &format!("`{}`", words.join(" "))))?;
    for warning in warnings::each_once(&result.warnings) {
        writeln!(text, "{}", row("warning", &warning))?;
    }
    Ok(())
}

/// Only the name of the program.
fn own_word(index: usize, word: &str) -> String {
    match (index, word.rsplit_once('/')) {
        (0, Some((_, name))) => name.to_owned(),
        _ => word.to_owned(),
    }
}

fn configuration(text: &mut String, system: &SystemResult) -> std::fmt::Result {
    writeln!(text, "<details><summary>{}</summary>\n", escaped(&system.title))?;
    if !system.command.is_empty() {
        fence(text, "command", &(system.command.join(" ") + "\n"))?;
    }
    for ConfigurationFile { name, text: file } in &system.configuration {
        fence(text, name, file)?;
    }
    writeln!(text, "</details>\n")
}

/// A file in a fence that its content cannot close.
fn fence(text: &mut String, name: &str, file: &str) -> std::fmt::Result {
    let mut ticks = "```".to_owned();
    while file.contains(&ticks) {
        ticks.push('`');
    }
    let end = if file.ends_with('\n') { "" } else { "\n" };
    writeln!(text, "{}\n\n{ticks}text\n{file}{end}{ticks}\n", cell(name))
}

/// Text in a cell of a table: on one line, without line ends.
fn cell(text: &str) -> String {
    escaped(&text.replace(['\n', '\r'], " ").replace('|', "\\|"))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_loads_are_told_by_their_rates() {
        let text = markdown(&touchstone_lab::sample::open());
        assert!(text.contains("| touchstone 0.1.0 | 4,000 | 4,000 | 1.00 | 2.00 | 16.0 | yes |"), "{text}");
        assert!(text.contains("| nginx 1.22.1 | 4,000 | 2,800 |"), "{text}");
        assert!(
            text.contains("| it was not carried: 30 % of 20,000 due requests had no valid answer"),
            "{text}"
        );
        assert!(!text.contains("peak"), "{text}");
    }

    #[test]
    fn the_fastest_stands_first_and_every_row_has_as_many_cells() {
        let mut result = touchstone_lab::sample::result();
        result.command_line[0] = "/home/somebody/touchstone".to_owned();
        result.systems[0].title = "a | b".to_owned();
        result.systems[1].configuration[0].text = "```\nx".to_owned();
        let text = markdown(&result);
        let rows: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
        assert_eq!(rows.len(), 5, "{text}");
        assert!(rows[2].starts_with("| the limit of this kernel | 16 | 65,000 |"), "{}", rows[2]);
        assert!(rows[3].starts_with("| a \\| b |"));
        assert!(rows.iter().all(|row| row.replace("\\|", "").matches('|').count() == 9), "{rows:#?}");
        assert!(text.contains("`touchstone bench webbench-1.1-static --quick`") && !text.contains("/home/"));
        assert!(text.contains("````text\n```\nx\n````"));
    }
}
