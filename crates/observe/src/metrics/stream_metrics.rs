//! The table of the metrics of streams.

use super::metric::{Definition, Kind};
use super::stream_totals::StreamTotals;

const STREAM: (&str, &str) = ("stream", "its `name`");
const PROTOCOL: (&str, &str) = ("protocol", "`tcp` or `udp`");

/// The directions: bytes received from clients, and bytes sent to them.
const DIRECTIONS: [&str; 2] = ["received", "sent"];

const DIRECTION: (&str, &str) = ("direction", "`received` from clients, or `sent` to them");

/// Every metric of streams, in the order of the exposition.
pub static STREAM_METRICS: &[Definition] = &[
    Definition {
        name: "touchstone_stream_connections_accepted",
        kind: Kind::Counter,
        help: "Connections that a stream has accepted, or sessions of datagrams that have begun; those that \
            are refused count too.",
        labels: &[STREAM, PROTOCOL],
        collect: |totals, samples| {
            samples.each(&totals.streams, StreamTotals::labels, |stream| stream.accepted)
        },
    },
    Definition {
        name: "touchstone_stream_connections",
        kind: Kind::Gauge,
        help: "Open connections or sessions of a stream.",
        labels: &[STREAM, PROTOCOL],
        collect: |totals, samples| samples.each(&totals.streams, StreamTotals::labels, |stream| stream.open),
    },
    Definition {
        name: "touchstone_stream_connections_ended",
        kind: Kind::Counter,
        help: "Connections or sessions of a stream that have ended.",
        labels: &[
            STREAM,
            PROTOCOL,
            (
                "reason",
                "`done`: both sides have ended it; `client`, `origin`: this side has broken it off; \
                 `idle`, `lifetime`: a time limit; `stopped`: the server has ended; `no_origin`: none \
                 could be reached; `denied`: the client's address; `limit`, `rate`: a limit on \
                 connections; `proxy_header`: none, or a wrong one; `hello`: the first bytes did not \
                 arrive, or were too many; `no_route`: none for that name; `tls`: the handshake has failed",
            ),
        ],
        collect: |totals, samples| {
            for stream in &totals.streams {
                let [name, protocol] = stream.labels();
                for (reason, count) in stream.ends_by_reason() {
                    samples.add(&[name, protocol, reason], count);
                }
            }
        },
    },
    Definition {
        name: "touchstone_stream_bytes",
        kind: Kind::Counter,
        help: "Bytes that a stream has passed on.",
        labels: &[STREAM, PROTOCOL, DIRECTION],
        collect: |totals, samples| {
            samples.each_of(&totals.streams, StreamTotals::labels, DIRECTIONS, |stream| {
                [stream.received_bytes, stream.sent_bytes]
            });
        },
    },
    Definition {
        name: "touchstone_stream_datagrams",
        kind: Kind::Counter,
        help: "Datagrams that a stream has passed on.",
        labels: &[STREAM, PROTOCOL, DIRECTION],
        collect: |totals, samples| {
            samples.each_of(&totals.streams, StreamTotals::labels, DIRECTIONS, |stream| {
                [stream.received_datagrams, stream.sent_datagrams]
            });
        },
    },
    Definition {
        name: "touchstone_stream_datagrams_dropped",
        kind: Kind::Counter,
        help: "Datagrams that a stream has not passed on: too large, or refused.",
        labels: &[STREAM, PROTOCOL],
        collect: |totals, samples| {
            samples.each(&totals.streams, StreamTotals::labels, |stream| stream.dropped_datagrams)
        },
    },
];
