//! The figures of a load as a person reads them: one screen.

use super::FinishedLoad;
use touchstone_lab::figures::{clients, count, milliseconds, percent, rate, significant};
use touchstone_load::{
    Arrivals, ClientOutcome, ConnectionUse, ErrorCounts, ErrorReason, HttpVersion, Outcome, Plan, TimeSpread,
    TimeSummary,
};

/// The most reasons of errors that are printed.
const MOST_REASONS: usize = 10;

/// The output of `touchstone load` as text.
pub(super) fn of(finished: &FinishedLoad) -> String {
    let FinishedLoad { subject, plan, outcome, per_client, per_url, timeline, .. } = finished;
    let mut text = format!("{subject}\n{}\n\n", what_was_done(plan, outcome));
    text += &totals(plan, outcome);
    text += &reasons(outcome);
    text += &thresholds(finished);
    text += &times(plan, outcome);
    text += &engine(outcome);
    finished.fleet.iter().for_each(|fleet| text += &super::fleet::table(fleet));
    if let Some(reason) = &finished.invalid {
        text += &format!("\nNOT VALID     {reason}\n");
    }
    text += &each_stage(outcome);
    if *timeline {
        text += &each_second(outcome);
    }
    if *per_url {
        text += &each_url(plan, outcome);
    }
    if *per_client {
        text += &each_client(outcome);
    }
    if !outcome.warnings.is_empty() {
        text += "\nWarnings\n";
        outcome.warnings.iter().for_each(|warning| text += &format!("  {warning}\n"));
    }
    text
}

pub(super) fn what_was_done(plan: &Plan, outcome: &Outcome) -> String {
    let connections = match plan.connections {
        _ if plan.requests.iter().any(|request| request.websocket.is_some()) => {
            "with a connection for each WebSocket".to_string()
        }
        _ if plan.session.is_some() => "with a connection for each session".to_string(),
        ConnectionUse::Kept if plan.streams > 1 && plan.version == HttpVersion::Http11 => {
            format!("with {} active requests on a connection", plan.streams)
        }
        ConnectionUse::Kept if plan.streams > 1 => format!("with {} streams on a connection", plan.streams),
        ConnectionUse::Kept => "on kept connections".to_string(),
        ConnectionUse::New => "with a new connection for every request".to_string(),
        ConnectionUse::NewShare(share) => {
            format!("with a new connection for {} of the requests", percent(share))
        }
    };
    let tls = if plan.targets().any(|target| target.tls.is_some()) { " with TLS" } else { "" };
    let early = if outcome.interrupted { ", ended early" } else { "" };
    let planned = match plan.request_limit {
        Some(limit) => format!("{} requests", count(limit)),
        None => format!("{} s", significant(plan.length.as_secs_f64())),
    };
    format!(
        "{} {connections}, {}{tls}; {} s counted of {planned}{early}",
        load_of(plan),
        plan.version.name(),
        significant(outcome.window.as_secs_f64()),
    )
}

/// The load model, and its amount.
fn load_of(plan: &Plan) -> String {
    let stages = if plan.stages.is_empty() { "" } else { " at most" };
    let clients = clients(plan.clients as u64);
    if !plan.recorded.is_empty() {
        return format!(
            "open: {} recorded requests at their moments, by at most {clients}",
            count(plan.recorded.len() as u64)
        );
    }
    let Some(planned) = plan.rate else { return format!("closed loop: {clients}{stages}") };
    let spread = if plan.arrivals == Arrivals::Poisson { ", at random" } else { "" };
    let planned = rate(planned);
    match plan.session {
        None => format!("open: {planned} requests a second{stages}{spread}, by at most {clients}"),
        Some(session) => {
            let mean = if session.spread == TimeSpread::Exponential { " on average" } else { "" };
            format!(
                "partly open: {planned} sessions a second{stages}{spread} of {} requests{mean}, by at most \
                 {clients}",
                significant(session.requests)
            )
        }
    }
}

fn totals(plan: &Plan, outcome: &Outcome) -> String {
    let row = |name: &str, figure: String, more: String| {
        format!("{name:14}{figure:>14}  {more}").trim_end().to_string() + "\n"
    };
    let a_second = outcome.requests_per_second();
    let mut text = row("requests", count(outcome.requests), format!("{} a second", rate(a_second)));
    let megabits = outcome.bytes_per_second() * 8.0 / 1e6;
    if outcome.statuses.len() > 1 || outcome.errors.bad_status > 0 {
        text += &row("answers", count(outcome.statuses.values().sum()), by_status(outcome));
    }
    text += &row("bytes", count(outcome.bytes), format!("{} Mbit/s, heads included", rate(megabits)));
    text += &row("errors", count(outcome.errors.total()), kinds(&outcome.errors));
    text += &row("connections", count(outcome.total_connections), retries(outcome));
    if let Some(messages) = &outcome.messages {
        let a_second = messages.count as f64 / outcome.window.as_secs_f64().max(1e-9);
        text += &row("messages", count(messages.count), format!("{} a second", rate(a_second)));
    }
    text += &websockets(outcome);
    if let Some(share) = outcome.handshakes.resumed_share() {
        let handshakes = outcome.handshakes;
        text += &row(
            "handshakes",
            count(handshakes.full + handshakes.resumed),
            format!(
                "{} full, {} resumed ({})",
                count(handshakes.full),
                count(handshakes.resumed),
                percent(share)
            ),
        );
    }
    if let Some(error) = &outcome.tls_error {
        text += &row("TLS error", String::new(), error.clone());
    }
    if let Some(arrivals) = &outcome.arrivals {
        text += &row(
            "due",
            count(arrivals.due),
            format!(
                "{} started, {} of them more than 1 ms late; {} never started",
                count(arrivals.started),
                count(arrivals.late),
                count(arrivals.unsent())
            ),
        );
    }
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

/// What was sent on WebSockets, and how they ended.
fn websockets(outcome: &Outcome) -> String {
    let Some(websockets) = &outcome.websockets else { return String::new() };
    let row = |name: &str, figure: u64, more: String| {
        format!("{name:14}{:>14}  {more}", count(figure)).trim_end().to_string() + "\n"
    };
    let a_second = websockets.sent as f64 / outcome.window.as_secs_f64().max(1e-9);
    let named = |code: u16| match code {
        1005 => "no code".to_string(),
        1006 => "no close frame".to_string(),
        code => code.to_string(),
    };
    let closes = websockets.closes.iter();
    let closes: Vec<String> =
        closes.map(|(code, number)| format!("{}: {}", named(*code), count(*number))).collect();
    let closes = if closes.is_empty() { String::new() } else { format!("closed with {}", closes.join(", ")) };
    let mut text = row("sent", websockets.sent, format!("{} a second", rate(a_second)));
    text += &row("opened", websockets.opened, closes);
    if websockets.pings > 0 {
        text += &row("pings", websockets.pings, "of the server, answered".to_string());
    }
    text
}

/// `200: 1,234, 503: 5`: the statuses of complete answers.
fn by_status(outcome: &Outcome) -> String {
    let statuses = outcome.statuses.iter();
    statuses.map(|(status, number)| format!("{status}: {}", count(*number))).collect::<Vec<_>>().join(", ")
}

/// Why requests of the whole run failed, with the first of each reason.
fn reasons(outcome: &Outcome) -> String {
    if outcome.error_reasons.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{:>14}  reason (whole run)\n", "errors");
    for reason in outcome.error_reasons.iter().take(MOST_REASONS) {
        let ErrorReason { kind, reason, count: number, first_at_s, first_request, first_answer } = reason;
        text += &format!(
            "{:>14}  {}: {reason}\n{:>14}  first after {} s: {first_request}\n",
            count(*number),
            kind.replace('_', " "),
            "",
            significant(*first_at_s),
        );
        if let Some(answer) = first_answer {
            text += &format!("{:>14}  its answer: {answer}\n", "");
        }
    }
    match outcome.error_reasons.len().saturating_sub(MOST_REASONS) {
        0 => {}
        more => text += &format!("{:>14}  more reasons are in the JSON\n", count(more as u64)),
    }
    text
}

/// The outcome of each threshold.
fn thresholds(finished: &FinishedLoad) -> String {
    let mut text = String::new();
    for verdict in &finished.verdicts {
        let sign = if verdict.is_kept { "kept" } else { "MISSED" };
        text += &format!("{}{sign:14}{verdict}\n", if text.is_empty() { "\n" } else { "" });
    }
    if let Some(verdict) = &finished.aborted_by {
        text += &format!("\nENDED EARLY   by --abort-if {verdict}\n");
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
    if plan.is_open() {
        row("service", TimeSummary::of(&outcome.service_ns));
    }
    row("connect", TimeSummary::of(&outcome.connect_ns));
    if outcome.handshakes.resumed_share().is_some() {
        row("handshake", TimeSummary::of(&outcome.handshake_ns));
    }
    if let Some(messages) = &outcome.messages {
        row("first message", TimeSummary::of(&messages.first_ns));
        row("message gap", TimeSummary::of(&messages.gap_ns));
    }
    if let Some(websockets) = &outcome.websockets {
        row("opening", TimeSummary::of(&websockets.open_ns));
        for (name, histogram) in [("answer", &websockets.answer_ns), ("pong", &websockets.pong_ns)] {
            if !histogram.is_empty() {
                row(name, TimeSummary::of(histogram));
            }
        }
    }
    if let Some(arrivals) = &outcome.arrivals {
        row("start late", TimeSummary::of(&arrivals.lateness_ns));
        text += "(latency counts from when a request was due, service from its real start)\n";
    }
    text
}

fn engine(outcome: &Outcome) -> String {
    let cost = match outcome.engine_us_per_request() {
        Some(us) => format!("{} us of processor time for each request", significant(us)),
        None => "no request ended".to_string(),
    };
    let verdict = match outcome.saturation.text() {
        _ if outcome.total_requests + outcome.statuses.len() as u64 == 0 => {
            "There was no answer: these are no figures of a server.".to_string()
        }
        None => "The engine had room: the figures are the server's.".to_string(),
        Some(sign) => format!("The figures are a lower bound: {sign}."),
    };
    let waiting = match outcome.engine.longest_waiting_thread {
        waiting if waiting >= 0.01 => format!(", waiting {}", percent(waiting)),
        _ => String::new(),
    };
    let busy = percent(outcome.engine.busiest_thread);
    format!("\nengine        {cost}, busiest thread {busy}{waiting}\n{}\n", wrapped(&verdict))
}

/// Text in lines of at most 100 characters.
fn wrapped(text: &str) -> String {
    let (mut wrapped, mut column) = (String::new(), 0);
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > 100 {
            wrapped.push('\n');
            column = 0;
        } else if column > 0 {
            wrapped.push(' ');
            column += 1;
        }
        wrapped.push_str(word);
        column += length;
    }
    wrapped
}

fn each_stage(outcome: &Outcome) -> String {
    if outcome.stages.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "\n{:>8}{:>10}{:>12}{:>10}{:>12}{:>10}{:>10}{:>10}\n",
        "stage at", "s", "requests", "errors", "a second", "mean ms", "p99 ms", "max ms"
    );
    for stage in &outcome.stages {
        text += &format!(
            "{:>8}{:>10}{:>12}{:>10}{:>12}{}\n",
            significant(stage.start_s),
            significant(stage.length_s),
            count(stage.requests),
            count(stage.errors),
            rate(stage.requests as f64 / stage.length_s),
            mean_p99_max(TimeSummary::of(&stage.latency_ns))
        );
    }
    text
}

fn each_second(outcome: &Outcome) -> String {
    let mut text = format!(
        "\n{:>8}{:>12}{:>10}{:>12}{:>10}{:>10}{:>10}{:>10}\n",
        "second", "requests", "errors", "a second", "Mbit/s", "mean ms", "p99 ms", "max ms"
    );
    for interval in &outcome.intervals {
        text += &format!(
            "{:>8}{:>12}{:>10}{:>12}{:>10}{}\n",
            significant(interval.start_s),
            count(interval.requests),
            count(interval.errors),
            rate(interval.requests as f64 / interval.length_s),
            rate(interval.bytes as f64 * 8.0 / 1e6 / interval.length_s),
            mean_p99_max(TimeSummary::of(&interval.latency_ns))
        );
    }
    text
}

fn each_url(plan: &Plan, outcome: &Outcome) -> String {
    let mut text = format!(
        "\n{:>12}{:>10}{:>12}{:>10}{:>10}{:>10}  {}\n",
        "requests", "errors", "a second", "mean ms", "p99 ms", "max ms", "URL"
    );
    for (request, class) in plan.requests.iter().zip(&outcome.classes) {
        let a_second = class.requests as f64 / outcome.window.as_secs_f64().max(1e-9);
        // Of a list of one URL the figures are those of the whole.
        let times = match outcome.classes.len() {
            1 => TimeSummary::of(&outcome.latency_ns),
            _ => TimeSummary::of(&class.latency_ns),
        };
        text += &format!(
            "{:>12}{:>10}{:>12}{}  {} {}\n",
            count(class.requests),
            count(class.errors),
            rate(a_second),
            mean_p99_max(times),
            request.method,
            request.path
        );
    }
    text
}

fn mean_p99_max(times: Option<TimeSummary>) -> String {
    let figures: [fn(&TimeSummary) -> f64; 3] =
        [|times| times.mean_us, |times| times.p99_us, |times| times.max_us];
    let figure = |figure: fn(&TimeSummary) -> f64| match &times {
        Some(times) => format!("{:>10}", milliseconds(figure(times))),
        None => format!("{:>10}", "none"),
    };
    figures.map(figure).concat()
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
    format!(
        "{number:>8}{:>12}{:>10}{:>12}{:>10}{}\n",
        count(client.requests),
        count(client.errors),
        per_second(client.requests as f64),
        per_second(client.bytes as f64 * 8.0 / 1e6),
        mean_p99_max(TimeSummary::of(&client.latency_ns))
    )
}
