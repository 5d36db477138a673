//! The part of the status page about streams. Their origins are in the table of origins.

use maud::{Markup, html};
use touchstone_observe::metrics::StreamTotals;

use super::words;

/// The table; empty if there is no stream.
pub fn stream_table(streams: &[StreamTotals]) -> Markup {
    html! {
        @if !streams.is_empty() {
            section id="streams" aria-labelledby="streams-title" {
                h2 id="streams-title" { "Streams" }
                div data-live="streams" {
                    div.scroll tabindex="0" role="region" aria-label="Streams" {
                        table {
                            thead { tr {
                                th scope="col" { "Stream" }
                                th scope="col" { "Protocol" }
                                th.number scope="col" { "Accepted" }
                                th.number scope="col" { "Open" }
                                th.number scope="col" { "Received" }
                                th.number scope="col" { "Sent" }
                                th.number scope="col" { "Dropped datagrams" }
                                th scope="col" { "Ended" }
                            } }
                            tbody { @for stream in streams { (row(stream)) } }
                        }
                    }
                }
            }
        }
    }
}

fn row(stream: &StreamTotals) -> Markup {
    let ends = stream.ends_by_reason().filter(|(_, count)| *count > 0);
    let ends: Vec<String> =
        ends.map(|(reason, count)| format!("{} {}", reason.replace('_', " "), words::whole(count))).collect();
    html! {
        tr {
            th scope="row" { (stream.name) }
            td { (stream.protocol) }
            td.number { (words::whole(stream.accepted)) }
            td.number { (words::whole(stream.open)) }
            td.number { (words::bytes(stream.received_bytes as f64)) }
            td.number { (words::bytes(stream.sent_bytes as f64)) }
            td.number { (words::whole(stream.dropped_datagrams)) }
            td { (ends.join(", ")) }
        }
    }
}
