//! The table of the metrics of WebAssembly components.

use super::component_totals::ComponentTotals;
use super::definition::{ROUTE, SITE};
use super::metric::{Definition, Kind, Samples};
use super::totals::Totals;

const COMPONENT: (&str, &str) = ("component", "its file");

/// Adds one number for each component.
fn each(totals: &Totals, samples: &mut Samples<'_>, number: impl Fn(&ComponentTotals) -> u64) {
    totals.components.iter().for_each(|component| samples.add(&component.labels(), number(component)));
}

/// Every metric of components, in the order of the exposition.
pub static COMPONENT_METRICS: &[Definition] = &[
    Definition {
        name: "touchstone_wasm_requests",
        kind: Kind::Counter,
        help: "Requests that a WebAssembly component was given.",
        labels: &[SITE, ROUTE, COMPONENT],
        collect: |totals, samples| each(totals, samples, |component| component.requests),
    },
    Definition {
        name: "touchstone_wasm_failures",
        kind: Kind::Counter,
        help: "Requests that have got no answer of a component, or not all of it.",
        labels: &[
            SITE,
            ROUTE,
            COMPONENT,
            (
                "cause",
                "`fault`: a trap, or an answer that is none; `memory`: the same, after it was refused \
                 memory; `timeout`: `computing_timeout` or `answer_timeout`; `full`: there was no room for \
                 the request",
            ),
        ],
        collect: |totals, samples| {
            for component in &totals.components {
                let [site, route, name] = component.labels();
                for (cause, count) in component.failures_by_cause() {
                    samples.add(&[site, route, name, cause], count);
                }
            }
        },
    },
    Definition {
        name: "touchstone_wasm_requests_under_way",
        kind: Kind::Gauge,
        help: "Requests that a component is busy with.",
        labels: &[SITE, ROUTE, COMPONENT],
        collect: |totals, samples| each(totals, samples, |component| component.busy),
    },
    Definition {
        name: "touchstone_wasm_instances_made",
        kind: Kind::Counter,
        help: "Instances of a component that were made.",
        labels: &[SITE, ROUTE, COMPONENT],
        collect: |totals, samples| each(totals, samples, |component| component.made),
    },
    Definition {
        name: "touchstone_wasm_instances",
        kind: Kind::Gauge,
        help: "Instances of a component that there are: those with a request, and those that are kept for \
            later ones.",
        labels: &[SITE, ROUTE, COMPONENT],
        collect: |totals, samples| each(totals, samples, |component| component.instances),
    },
    Definition {
        name: "touchstone_wasm_memory_bytes",
        kind: Kind::Gauge,
        help: "The memories of these instances, as large as the component has made them.",
        labels: &[SITE, ROUTE, COMPONENT],
        collect: |totals, samples| each(totals, samples, |component| component.memory_bytes),
    },
    Definition {
        name: "touchstone_wasm_computations_moved",
        kind: Kind::Counter,
        help: "Computations that have gone on in a thread beside their core.",
        labels: &[SITE, ROUTE, COMPONENT],
        collect: |totals, samples| each(totals, samples, |component| component.moved),
    },
];
