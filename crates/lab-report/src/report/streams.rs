//! What a result has beyond requests and answers: the outcome of the arrivals of open loads, and the messages
//! of answers that are streams of them. Empty if it has neither.

use maud::{Markup, html};

use super::number;
use super::table::{Part, Row, Table};
use super::view::{SystemView, View};
use super::words;
use touchstone_lab::result::{LatencyRecord, MixResult};

/// The tables of streams.
pub(super) fn section(view: &View) -> Markup {
    let some = |has: fn(&MixResult) -> bool| {
        view.systems.iter().any(|system| system.mixes.iter().any(|mix| has(mix)))
    };
    let (arrivals, messages) = (some(|mix| mix.arrivals.is_some()), some(|mix| mix.messages.is_some()));
    let sockets = some(|mix| mix.messages.as_ref().is_some_and(|it| it.websockets.is_some()));
    html! {
        @if arrivals {
            section aria-labelledby="arrivals" {
                h2 id="arrivals" { "Arrivals" }
                p class="lead" {
                    "The load is open: when each request was due stood fixed before the run. What was due \
                     and found no free client before the end was never started. Latency counts from when a \
                     request was due, service from its real start."
                }
                (table(view, "What became of what was due", &arrival_columns(), arrival_row).write())
            }
        }
        @if messages {
            section aria-labelledby="messages" {
                h2 id="messages" { "Messages" }
                p class="lead" {
                    "Answers are streams of messages. The first message counts from the start of its \
                     request"
                    @if arrivals { ", or from when that was due" }
                    "; a gap is the time from one message of an answer to the next."
                }
                (table(view, "Messages and their times, ms", &message_columns(), message_row).write())
                @if sockets {
                    (table(view, "WebSockets and their times, ms", &socket_columns(), socket_row).write())
                }
            }
        }
    }
}

fn table(
    view: &View,
    caption: &str,
    columns: &[&str],
    cells: fn(&MixResult) -> Option<Vec<String>>,
) -> Table {
    let row = |mix: &MixResult| Some(Row::new(words::line(&mix.name, 40), cells(mix)?));
    let part = |system: &SystemView| Part {
        heading: Some(system.label.clone()),
        rows: system.mixes.iter().filter_map(|mix| row(mix)).collect(),
    };
    Table {
        caption: caption.to_owned(),
        columns: columns.iter().map(|column| (*column).to_owned()).collect(),
        words: vec![0],
        parts: view.systems.iter().map(part).filter(|part| !part.rows.is_empty()).collect(),
        ..Table::default()
    }
}

fn arrival_columns() -> [&'static str; 9] {
    [
        "Mix",
        "Arrivals per second",
        "Due",
        "Never started",
        "Over 1 ms late",
        "Answered",
        "Latency p50, ms",
        "Latency p99, ms",
        "Service p99, ms",
    ]
}

fn arrival_row(mix: &MixResult) -> Option<Vec<String>> {
    let arrivals = mix.arrivals.as_ref()?;
    Some(vec![
        number::rate(arrivals.per_second),
        number::count(arrivals.due),
        number::count(arrivals.due.saturating_sub(arrivals.started)),
        number::count(arrivals.late),
        number::optional(mix.answered_share(), number::percent),
        number::milliseconds(mix.latency.p50_us),
        number::milliseconds(mix.latency.p99_us),
        number::milliseconds(arrivals.service.p99_us),
    ])
}

fn message_columns() -> [&'static str; 7] {
    ["Mix", "Messages per second", "Messages in all", "First p50", "First p99", "Gap p50", "Gap p99"]
}

fn message_row(mix: &MixResult) -> Option<Vec<String>> {
    let messages = mix.messages.as_ref()?;
    let mut cells = vec![number::rate(messages.per_second), number::count(messages.total)];
    cells.extend([&messages.first, &messages.gap].into_iter().flat_map(times));
    Some(cells)
}

fn socket_columns() -> [&'static str; 9] {
    [
        "Mix",
        "Opened",
        "Messages sent",
        "Opening p50",
        "Opening p99",
        "Answer p50",
        "Answer p99",
        "Pong p50",
        "Pong p99",
    ]
}

fn socket_row(mix: &MixResult) -> Option<Vec<String>> {
    let sockets = mix.messages.as_ref()?.websockets.as_ref()?;
    let mut cells = vec![number::count(sockets.opened), number::count(sockets.sent)];
    cells.extend([&sockets.open, &sockets.answer, &sockets.pong].into_iter().flat_map(times));
    Some(cells)
}

fn times(latency: &Option<LatencyRecord>) -> [String; 2] {
    let figure = |of: fn(&LatencyRecord) -> f64| {
        number::optional(latency.as_ref(), |latency| number::milliseconds(of(latency)))
    };
    [figure(|latency| latency.p50_us), figure(|latency| latency.p99_us)]
}

#[cfg(test)]
mod tests {
    use crate::report::html;
    use touchstone_lab::sample;

    #[test]
    fn arrivals_and_messages_have_their_tables_and_are_absent_without_them() {
        let mut result = sample::open();
        result.systems[0].mixes[0].messages = Some(sample::messages());
        let page = html(&result, None);
        for words in ["Never started", "6,000", "First p99", "Opening p50", "arrivals a second", "70"] {
            assert!(page.contains(words), "{words}");
        }
        assert!(!page.contains("Little\u{2019}s law: "), "no closed loop");
        let page = html(&sample::result(), None);
        for words in ["id=\"arrivals\"", "id=\"messages\"", "arrivals/s"] {
            assert!(!page.contains(words), "{words}");
        }
    }
}
