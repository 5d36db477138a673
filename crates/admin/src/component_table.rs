//! The part of the status page about WebAssembly components.

use maud::{Markup, html};
use touchstone_observe::metrics::ComponentTotals;

use super::words;

/// The table; empty if no route has components.
pub fn component_table(components: &[ComponentTotals]) -> Markup {
    html! {
        @if !components.is_empty() {
            section id="components" aria-labelledby="components-title" {
                h2 id="components-title" { "WebAssembly components" }
                div data-live="components" {
                    div.scroll tabindex="0" role="region" aria-label="WebAssembly components" {
                        table {
                            thead { tr {
                                th scope="col" { "Site" }
                                th scope="col" { "Route" }
                                th scope="col" { "Component" }
                                th.number scope="col" { "Requests" }
                                th.number scope="col" { "Active" }
                                th.number scope="col" { "Faults" }
                                th.number scope="col" { "Out of memory" }
                                th.number scope="col" { "Time-outs" }
                                th.number scope="col" { "No room" }
                                th.number scope="col" { "Instances" }
                                th.number scope="col" { "Made" }
                                th.number scope="col" { "Memory" }
                                th.number scope="col" { "Moved" }
                            } }
                            tbody { @for component in components { (row(component)) } }
                        }
                    }
                }
            }
        }
    }
}

fn row(component: &ComponentTotals) -> Markup {
    html! {
        tr {
            td { (component.site) }
            td { (component.route) }
            th scope="row" { (component.component) }
            td.number { (words::whole(component.requests)) }
            td.number { (words::whole(component.busy)) }
            @for failures in component.failures { td.number { (words::whole(failures)) } }
            td.number { (words::whole(component.instances)) }
            td.number { (words::whole(component.made)) }
            td.number { (words::bytes(component.memory_bytes as f64)) }
            td.number { (words::whole(component.moved)) }
        }
    }
}
