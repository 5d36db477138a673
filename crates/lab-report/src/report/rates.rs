//! Requests a second and throughput against the number of clients: what WebBench's Summary Report draws.

use maud::{Markup, html};

use super::chart::Canvas;
use super::figure::{Best, Measure};
use super::number;
use super::view::View;

/// The section of the two figures.
pub(super) fn section(view: &View) -> Markup {
    // With a single number of clients each system has a dot and no curve: it does not need the whole width.
    let lone = view.clients.counts().len() < 2;
    let canvas = if lone { Canvas::HALF } else { Canvas::WIDE };
    html! {
        section aria-labelledby="rates" {
            h2 id="rates" { "Requests and throughput" }
            div class=[lone.then_some("figures two")] {
                (requests(view).figure(view, canvas).write())
                (throughput().figure(view, canvas).write())
            }
        }
    }
}

const LIMIT: &str = " The thin dashed line is the limit: the rate of a program that only answers.";

fn requests(view: &View) -> Measure<'static> {
    Measure {
        id: "requests",
        heading: "Requests per second",
        unit: "requests/s",
        second: None,
        meaning: if view.clients.is_open() {
            "Valid answers a second as more requests arrive. Where a curve is flat, the server does not \
             carry the rate."
        } else {
            "Valid answers a second as the virtual clients grow in number; higher is better. \
             Where a curve is flat, more clients bring no more answers: they wait."
        },
        best: Best::Highest,
        value: &|mix| Some(mix.requests_per_second),
        write: number::rate,
        of_the_limit: LIMIT,
        follows_rate: true,
    }
}

fn throughput() -> Measure<'static> {
    Measure {
        id: "throughput",
        heading: "Throughput",
        unit: "Mbit/s",
        // 10^6 bits a second are 0.125 x 10^6 bytes a second.
        second: Some(("MB/s", 0.125)),
        meaning: "Bytes that the clients received a second, heads included: on the axis in millions of \
                  bits and, fainter, in millions of bytes.",
        best: Best::Highest,
        value: &|mix| Some(mix.megabits_per_second),
        write: number::rate,
        of_the_limit: LIMIT,
        follows_rate: true,
    }
}
