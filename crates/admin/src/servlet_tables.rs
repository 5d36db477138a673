//! The part of the status page about servlets: applications, the threads of their routes, and the virtual
//! machines.

use maud::{Markup, html};
use touchstone_servlet::status::{ApplicationStatus, MachineStatus, RouteStatus, Status};

use super::words;

/// The tables; empty if no route has applications.
pub fn servlet_tables(status: &Status) -> Markup {
    html! {
        @if !status.routes.is_empty() {
            section id="servlets" aria-labelledby="servlets-title" {
                h2 id="servlets-title" { "Servlets" }
                div data-live="servlets" {
                    (applications(status))
                    (threads(status))
                    (machines(status))
                }
            }
        }
    }
}

fn applications(status: &Status) -> Markup {
    let applications =
        |route: &RouteStatus| route.java.iter().flat_map(|java| java.applications.clone()).collect();
    html! {
        div.scroll tabindex="0" role="region" aria-label="Applications" {
            table {
                thead { tr {
                    th scope="col" { "Site" }
                    th scope="col" { "Application" }
                    th scope="col" { "State" }
                    th.number scope="col" { "Runs for" }
                    th.number scope="col" { "Sessions" }
                    th.number scope="col" { "Requests" }
                    th.number scope="col" { "Errors" }
                    th.number scope="col" { "Mean" }
                } }
                tbody {
                    @for route in &status.routes {
                        @let found: Vec<ApplicationStatus> = applications(route);
                        @if found.is_empty() {
                            tr { td { (route.site) } th scope="row" { (route.source) } td { (route.state) }
                                 td colspan="5" {} }
                        }
                        @for application in &found { (application_row(route, application)) }
                    }
                }
            }
        }
    }
}

fn application_row(route: &RouteStatus, application: &ApplicationStatus) -> Markup {
    let mean_ns = (application.processing_ms * 1_000_000).checked_div(application.requests);
    html! {
        tr {
            td { (route.site) }
            th scope="row" {
                (application.path)
                @if !application.version.is_empty() { " ##" (application.version) }
            }
            td { (application.state) }
            td.number { @if application.started_ms > 0 { (words::age(age_ms(application.started_ms))) } }
            td.number { (words::whole(application.sessions)) }
            td.number { (words::whole(application.requests)) }
            td.number { (words::whole(application.errors)) }
            td.number { (mean_ns.map_or_else(|| "\u{2013}".to_string(), words::nanoseconds)) }
        }
    }
}

fn threads(status: &Status) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Threads of servlets" {
            table {
                thead { tr {
                    th scope="col" { "Site" }
                    th scope="col" { "Route" }
                    th.number scope="col" { "Threads busy" }
                    th.number scope="col" { "Threads" }
                    th.number scope="col" { "At most" }
                    th.number scope="col" { "Queue" }
                    th.number scope="col" { "Wait for start" }
                    th.number scope="col" { "Refused" }
                    th.number scope="col" { "Mean wait" }
                    th.number scope="col" { "Class loaders" }
                } }
                tbody {
                    @for route in &status.routes {
                        @let pool = &route.threads;
                        @let wait = pool.waited_s * 1e9 / pool.requests.max(1) as f64;
                        tr {
                            td { (route.site) }
                            th scope="row" { (route.route) }
                            td.number { (words::whole(pool.busy)) }
                            td.number { (words::whole(pool.threads)) }
                            td.number {
                                @if pool.most_threads == 0 {
                                    "virtual"
                                } @else {
                                    (words::whole(pool.most_threads))
                                }
                            }
                            td.number { (words::whole(pool.waiting)) }
                            td.number { (words::whole(pool.held)) }
                            td.number { (words::whole(pool.refused)) }
                            td.number { (words::nanoseconds(wait as u64)) }
                            td.number {
                                (route.java.as_ref().map_or(0, |java| java.class_loaders))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn machines(status: &Status) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Java" {
            table {
                thead { tr {
                    th scope="col" { "Java" }
                    th scope="col" { "Process" }
                    th.number scope="col" { "Heap" }
                    th.number scope="col" { "Heap at most" }
                    th.number scope="col" { "Other memory" }
                    th.number scope="col" { "Classes" }
                    th.number scope="col" { "Threads" }
                    th.number scope="col" { "Collections" }
                    th.number scope="col" { "Their time" }
                    th.number scope="col" { "Last" }
                } }
                tbody { @for machine in &status.machines { (machine_row(machine)) } }
            }
        }
    }
}

fn machine_row(machine: &MachineStatus) -> Markup {
    let collections: u64 = machine.collectors.iter().map(|collector| collector.collections).sum();
    let time_ms: u64 = machine.collectors.iter().map(|collector| collector.time_ms).sum();
    let last_ms = machine.collectors.iter().map(|collector| collector.last_ms).max().unwrap_or(0);
    let most = u64::try_from(machine.heap_most_bytes).ok();
    html! {
        tr {
            th scope="row" { (machine.version) }
            td {
                (machine.process)
                @if !machine.route.is_empty() { ", " (machine.route) }
            }
            td.number { (words::bytes(machine.heap_used_bytes as f64)) }
            td.number { (most.map_or_else(|| "\u{2013}".to_string(), |most| words::bytes(most as f64))) }
            td.number { (words::bytes(machine.other_used_bytes as f64)) }
            td.number { (words::whole(machine.classes)) }
            td.number { (words::whole(machine.threads)) }
            td.number { (words::whole(collections)) }
            td.number { (words::nanoseconds(time_ms * 1_000_000)) }
            td.number { (words::nanoseconds(last_ms * 1_000_000)) }
        }
    }
}

/// The time since then in milliseconds.
fn age_ms(since_ms: u64) -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(0)).saturating_sub(since_ms)
}
