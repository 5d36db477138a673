//! The part of the status page about applications in Python: each application, and its workers.

use maud::{Markup, html};
use touchstone_python::status::{ApplicationStatus, Status, WorkerStatus};

use super::words;

/// The tables; empty if no route has an application.
pub fn python_tables(status: &Status) -> Markup {
    html! {
        @if !status.applications.is_empty() {
            section id="python" aria-labelledby="python-title" {
                h2 id="python-title" { "Python" }
                div data-live="python" {
                    (applications(status))
                    (workers(status))
                }
            }
        }
    }
}

fn applications(status: &Status) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Applications in Python" {
            table {
                thead { tr {
                    th scope="col" { "Site" }
                    th scope="col" { "Route" }
                    th scope="col" { "Application" }
                    th scope="col" { "State" }
                    th.number scope="col" { "Workers" }
                    th.number scope="col" { "Busy" }
                    th.number scope="col" { "Queue" }
                    th.number scope="col" { "Memory" }
                    th.number scope="col" { "Restarts" }
                    th scope="col" { "Last restart" }
                    th.number scope="col" { "Refused" }
                    th.number scope="col" { "Too long" }
                    th.number scope="col" { "Lost" }
                } }
                tbody { @for application in &status.applications { (application_row(application)) } }
            }
        }
    }
}

fn application_row(application: &ApplicationStatus) -> Markup {
    let failures = |names: &[&str]| {
        words::whole(names.iter().filter_map(|name| application.failures.get(name)).sum::<u64>())
    };
    html! {
        tr {
            td { (application.site) }
            td { (application.route) }
            th scope="row" {
                (application.app)
                @if !application.protocol.is_empty() { ", " (application.protocol.to_uppercase()) }
                @if !application.python.is_empty() { ", Python " (application.python) }
            }
            td { (application.state) }
            td.number {
                (application.workers.len()) " of " (words::whole(application.most_workers))
                @if application.starting > 0 { ", " (application.starting) " starting" }
                @if application.ending > 0 { ", " (application.ending) " ending" }
            }
            td.number { (words::whole(application.busy())) }
            td.number { (words::whole(application.queue())) }
            td.number { (words::bytes(application.resident_bytes() as f64)) }
            td.number { (words::whole(application.restarts.values().sum())) }
            td {
                @if let Some(last) = &application.last_restart {
                    (last.text) " (" (words::age(age_ms(last.unix_s))) " ago)"
                }
            }
            td.number { (failures(&["full", "no_worker"])) }
            td.number { (failures(&["too_long"])) }
            td.number { (failures(&["lost"])) }
        }
    }
}

fn workers(status: &Status) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Workers in Python" {
            table {
                thead { tr {
                    th scope="col" { "Application" }
                    th scope="col" { "Process" }
                    th.number scope="col" { "Runs for" }
                    th.number scope="col" { "Busy" }
                    th.number scope="col" { "Queue" }
                    th.number scope="col" { "Requests" }
                    th.number scope="col" { "Memory" }
                } }
                tbody {
                    @for application in &status.applications {
                        @for worker in &application.workers { (worker_row(application, worker)) }
                    }
                }
            }
        }
    }
}

fn worker_row(application: &ApplicationStatus, worker: &WorkerStatus) -> Markup {
    html! {
        tr {
            td { (application.app) }
            th scope="row" { (worker.process) }
            td.number { (words::age(age_ms(worker.started_unix_s))) }
            td.number { (words::whole(worker.busy)) }
            td.number { (words::whole(worker.queue)) }
            td.number { (words::whole(worker.requests)) }
            td.number { (words::bytes(worker.resident_bytes as f64)) }
        }
    }
}

/// The time since then in milliseconds.
fn age_ms(since_s: u64) -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(0)).saturating_sub(since_s * 1000)
}
