//! The figures of a load as a person reads them: one screen.

use super::Finished;
use touchstone_lab::figures::{clients, count, milliseconds, percent, rate, significant};
use touchstone_load::{
    ClientOutcome, ConnectionUse, ErrorCounts, HttpVersion, Outcome, Plan, Saturation, TimeSummary,
};

/// Everything that is printed.
pub(super) fn of(finished: &Finished) -> String {
    let Finished { url, plan, outcome, per_client } = finished;
    let mut text = format!("http://{}{}\n{}\n\n", url.host_field(), url.path, what_was_done(plan, outcome));
    text += &totals(plan, outcome);
    text += &times(plan, outcome);
    text += &engine(outcome);
    if *per_client {
        text += &each_client(outcome);
    }
    if !outcome.warnings.is_empty() {
        text += "\nBeware\n";
        outcome.warnings.iter().for_each(|warning| text += &format!("  {warning}\n"));
    }
    text
}

fn what_was_done(plan: &Plan, outcome: &Outcome) -> String {
    let connections = match plan.connections {
        ConnectionUse::Kept => "on kept connections",
        ConnectionUse::New => "with a new connection for every request",
    };
    let version = match plan.version {
        HttpVersion::Http10 => "HTTP/1.0",
        HttpVersion::Http11 => "HTTP/1.1",
    };
    let pace = plan.rate.map_or(String::new(), |planned| format!(" at {} requests a second", rate(planned)));
    let early = if outcome.interrupted { ", ended early" } else { "" };
    format!(
        "{}{pace} {connections}, {version}; {} s counted of {} s{early}",
        clients(plan.clients as u64),
        significant(outcome.window.as_secs_f64()),
        significant(plan.length.as_secs_f64())
    )
}

fn totals(plan: &Plan, outcome: &Outcome) -> String {
    let row = |name: &str, figure: String, more: String| {
        format!("{name:14}{figure:>14}  {more}").trim_end().to_string() + "\n"
    };
    let a_second = outcome.requests_per_second();
    let mut text = row("requests", count(outcome.requests), format!("{} a second", rate(a_second)));
    let megabits = outcome.bytes_per_second() * 8.0 / 1e6;
    text += &row("bytes", count(outcome.bytes), format!("{} Mbit/s, heads included", rate(megabits)));
    text += &row("errors", count(outcome.errors.total()), kinds(&outcome.errors));
    text += &row("connections", count(outcome.total_connections), retries(outcome));
    let counts_all =
        plan.ramp_up.is_zero() && plan.ramp_down.is_zero() && outcome.requests == outcome.total_requests;
    if !counts_all {
        let errors = format!("{} errors", count(outcome.total_errors));
        text += &row(
            "whole run",
            count(outcome.total_requests),
            format!("requests, with ramps and last answers; {errors}"),
        );
    }
    text
}

/// `connect 3, timeout 9`; empty without errors.
fn kinds(errors: &ErrorCounts) -> String {
    let kinds = errors.by_kind().into_iter().filter(|(_, number)| *number > 0);
    kinds
        .map(|(kind, number)| format!("{} {}", kind.replace('_', " "), count(number)))
        .collect::<Vec<_>>()
        .join(", ")
}

fn retries(outcome: &Outcome) -> String {
    match outcome.total_retries {
        0 => String::new(),
        number => format!("{} requests sent again, as the server had closed the connection", count(number)),
    }
}

fn times(plan: &Plan, outcome: &Outcome) -> String {
    let columns = ["ms", "mean", "p50", "p90", "p99", "p99.9", "max"];
    let mut text = format!("\n{:14}", columns[0]);
    columns[1..].iter().for_each(|column| text += &format!("{column:>10}"));
    text.push('\n');
    let mut row = |name: &str, summary: Option<TimeSummary>| {
        text += &format!("{name:14}");
        match summary {
            Some(times) => {
                for time_us in
                    [times.mean_us, times.p50_us, times.p90_us, times.p99_us, times.p999_us, times.max_us]
                {
                    text += &format!("{:>10}", milliseconds(time_us));
                }
            }
            None => text += &format!("{:>10}", "none"),
        }
        text.push('\n');
    };
    row("latency", TimeSummary::of(&outcome.latency_ns));
    if plan.rate.is_some() {
        row("service", TimeSummary::of(&outcome.service_ns));
    }
    row("connect", TimeSummary::of(&outcome.connect_ns));
    if plan.rate.is_some() {
        text += "(latency counts from the intended start, service from the real one)\n";
    }
    text
}

fn engine(outcome: &Outcome) -> String {
    let cost = match outcome.engine_us_per_request() {
        Some(us) => format!("{} us of processor time for each request", significant(us)),
        None => "no request ended".to_string(),
    };
    let verdict = match &outcome.saturation {
        Saturation::Clear => "The engine had room: the figures are the server's.".to_string(),
        Saturation::Saturated(sign) => format!("The figures are a lower bound: {sign}."),
    };
    format!("\nengine        {cost}, busiest thread {}\n{verdict}\n", percent(outcome.engine.busiest_thread))
}

fn each_client(outcome: &Outcome) -> String {
    let mut text = format!(
        "\n{:>8}{:>12}{:>10}{:>12}{:>10}{:>10}{:>10}{:>10}\n",
        "client", "requests", "errors", "a second", "Mbit/s", "mean ms", "p99 ms", "max ms"
    );
    for (index, client) in outcome.clients.iter().enumerate() {
        text += &client_row(index + 1, client, outcome.window.as_secs_f64());
    }
    text
}

fn client_row(number: usize, client: &ClientOutcome, window_s: f64) -> String {
    let per_second = |amount: f64| if window_s > 0.0 { rate(amount / window_s) } else { "none".to_string() };
    let times = TimeSummary::of(&client.latency_ns);
    let time = |figure: fn(&TimeSummary) -> f64| {
        times.as_ref().map_or_else(|| "none".to_string(), |times| milliseconds(figure(times)))
    };
    format!(
        "{number:>8}{:>12}{:>10}{:>12}{:>10}{:>10}{:>10}{:>10}\n",
        count(client.requests),
        count(client.errors),
        per_second(client.requests as f64),
        per_second(client.bytes as f64 * 8.0 / 1e6),
        time(|times| times.mean_us),
        time(|times| times.p99_us),
        time(|times| times.max_us)
    )
}
