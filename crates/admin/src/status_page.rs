//! `/status`: the live HTML page, similar to the `.perf` pages of the Netscape servers.
//!
//! The whole page is rendered here, so it works without scripts too (with `?refresh=5` the browser reloads
//! it). A script fetches the parts with the attribute `data-live` again and replaces those that have changed.

use maud::{DOCTYPE, Markup, html};
use touchstone_observe::metrics::{
    CLASSES, ConnectionRefusal, ConnectionState, HANDSHAKE_FAILURES, PROTOCOLS, RouteTotals, TLS_VERSIONS,
    Timeout, Totals, version_label,
};
use touchstone_proxy::OriginState;

use super::Sources;
use super::component_table::component_table;
use super::frame::{Html, page_of, policy};
use super::history::{History, Rates};
use super::python_tables::python_tables;
use super::servlet_tables::servlet_tables;
use super::sessions_page::sessions_table;
use super::status_json::uptime_seconds;
use super::stream_table::stream_table;
use super::words;
use crate::connection_info::CoreSessions;

/// The number of routes that are shown, those with the most requests.
const MOST_ROUTES: usize = 50;

/// The size of a chart, in its own units.
const CHART_WIDTH: f64 = 300.0;
const CHART_HEIGHT: f64 = 40.0;

/// The status page as HTML.
pub fn status_page(
    sources: &Sources,
    totals: &Totals,
    history: &History,
    cores: &[CoreSessions],
    refresh: Option<u32>,
) -> Html {
    let content = html! {
        section id="now" aria-labelledby="now-title" {
            h2 id="now-title" { "Now" }
            div.tiles data-live="tiles" { (tiles(totals, history)) }
            p.note { "The charts show the last five minutes." }
        }
        section id="routes" aria-labelledby="routes-title" {
            h2 id="routes-title" { "Sites and routes" }
            div data-live="routes" { (routes_table(totals)) }
        }
        @if !totals.origins.is_empty() {
            section id="origins" aria-labelledby="origins-title" {
                h2 id="origins-title" { "Origins" }
                div data-live="origins" { (origins_table(totals)) }
            }
        }
        (servlet_tables(&totals.servlets))
        (python_tables(&totals.python))
        (component_table(&totals.components))
        (stream_table(&totals.streams))
        section id="sessions" aria-labelledby="sessions-title" {
            h2 id="sessions-title" { "Sessions" }
            div data-live="sessions" {
                (sessions_table(cores))
                p.note { a href="/sessions" { "More sessions" } }
            }
        }
        section id="connections" aria-labelledby="connections-title" {
            h2 id="connections-title" { "Connections" }
            div.columns data-live="connections" { (connection_facts(totals)) }
        }
        section id="requests" aria-labelledby="requests-title" {
            h2 id="requests-title" { "Requests" }
            div.columns data-live="requests" { (request_facts(totals)) }
        }
        section id="cache" aria-labelledby="cache-title" {
            h2 id="cache-title" { "File cache" }
            div.columns data-live="cache" { (cache_facts(sources, totals)) }
        }
        section id="tls" aria-labelledby="tls-title" {
            h2 id="tls-title" { "TLS, HTTP/2 and HTTP/3" }
            div.columns data-live="tls" { (tls_facts(totals)) }
        }
        section id="cores" aria-labelledby="cores-title" {
            h2 id="cores-title" { "Cores" }
            div data-live="cores" { (cores_table(totals, cores)) }
        }
        section id="server" aria-labelledby="server-title" {
            h2 id="server-title" { "Server" }
            div.columns data-live="server" {
                (server_facts(sources, totals))
                (process_facts(totals))
            }
        }
    };
    let text = html! { (DOCTYPE) (page_of("Status", "status", refresh, &content)) };
    Html { text: text.into_string(), policy: policy() }
}

fn tiles(totals: &Totals, history: &History) -> Markup {
    let (now, each) = (history.now(), history.each());
    let chart = |value: fn(&Rates) -> f64| chart(&each.iter().map(value).collect::<Vec<f64>>());
    let open = words::whole(totals.open_connections());
    html! {
        (tile("Requests a second", &words::rate(now.requests), &chart(|rates| rates.requests)))
        (tile("Sent a second", &words::bytes(now.sent_bytes), &chart(|rates| rates.sent_bytes)))
        (tile("Connections open", &open, &chart(|rates| rates.connections)))
        (tile("New connections a second", &words::rate(now.accepted), &chart(|rates| rates.accepted)))
        (tile("Processors in use", &words::rate(now.processors), &chart(|rates| rates.processors)))
        (tile("Errors a second (5xx)", &words::rate(now.server_errors), &chart(|rates| rates.server_errors)))
    }
}

fn tile(name: &str, value: &str, chart: &Markup) -> Markup {
    html! { div.tile { span.name { (name) } span.value { (value) } (chart) } }
}

/// The last five minutes as an area; the newest value is at the right edge. Only the largest value is
/// written: it gives the scale of the height.
fn chart(values: &[f64]) -> Markup {
    let most = values.iter().copied().fold(0.0, f64::max);
    if values.len() < 2 || most <= 0.0 {
        return html! { svg viewBox="0 0 300 40" aria-hidden="true" preserveAspectRatio="none" { } };
    }
    let step = CHART_WIDTH / 299.0;
    let begin = CHART_WIDTH - step * (values.len() - 1) as f64;
    let height = |value: f64| CHART_HEIGHT - value / most * (CHART_HEIGHT - 2.0);
    let mut line = String::new();
    for (index, &value) in values.iter().enumerate() {
        let command = if index == 0 { 'M' } else { 'L' };
        line.push_str(&format!("{command}{:.1} {:.1}", begin + step * index as f64, height(value)));
    }
    let area = format!("{line}L{CHART_WIDTH} {CHART_HEIGHT}L{begin:.1} {CHART_HEIGHT}Z");
    html! {
        svg viewBox="0 0 300 40" aria-hidden="true" preserveAspectRatio="none" {
            path.area d=(area) {}
            path.line d=(line) {}
        }
    }
}

fn server_facts(sources: &Sources, totals: &Totals) -> Markup {
    let state = if totals.draining { "draining" } else { "running" };
    let listeners = (sources.listeners)();
    list(
        "This server",
        &[
            ("State", html! { span class={ "state " (state) } { (state) } }),
            ("Version", html! { (env!("CARGO_PKG_VERSION")) ", process " (std::process::id()) }),
            ("Up", html! { (words::age((uptime_seconds(totals) * 1000.0) as u64)) }),
            (
                "Listening",
                html! { @for (index, one) in listeners.iter().enumerate() { @if index > 0 { br; } (one) } },
            ),
            (
                "Configuration",
                html! {
                    "generation " (totals.generation) ", "
                    (words::whole(totals.reloads[1])) " reloads, " (words::whole(totals.reloads[0])) " failed"
                },
            ),
            ("Access log lines lost", html! { (words::whole(totals.lost_lines)) }),
        ],
    )
}

fn process_facts(totals: &Totals) -> Markup {
    let process = &totals.process;
    list(
        "Process",
        &[
            ("Processor time", html! { (words::age((process.cpu_seconds * 1000.0) as u64)) }),
            ("Memory", html! { (words::bytes(process.resident_bytes as f64)) }),
            ("Threads", html! { (words::whole(process.threads)) }),
            (
                "Open files",
                html! { (words::whole(process.open_files)) " of " (limit(process.most_open_files)) },
            ),
            ("Received", html! { (words::bytes(totals.received_bytes as f64)) }),
            ("Sent", html! { (words::bytes(totals.sent_bytes as f64)) }),
        ],
    )
}

fn limit(most: u64) -> String {
    if most == u64::MAX { "any number".to_string() } else { words::whole(most) }
}

fn connection_facts(totals: &Totals) -> Markup {
    let states = ConnectionState::ALL.map(|state| (state.label(), totals.connections[state as usize]));
    let refused = ConnectionRefusal::ALL.map(|reason| (reason.label(), totals.refused[reason as usize]));
    let timeouts = Timeout::ALL.map(|kind| (kind.label(), totals.timeouts[kind as usize]));
    let arrived: Vec<_> = [("accepted", totals.accepted)].into_iter().chain(refused).collect();
    html! {
        (counts("Open, by state", &states))
        (counts("Accepted and not", &arrived))
        (counts("Ended because too slow", &timeouts))
    }
}

fn request_facts(totals: &Totals) -> Markup {
    let versions = PROTOCOLS.map(|version| (version_label(version), totals.protocols[version as usize]));
    let versions: Vec<(String, u64)> =
        versions.iter().map(|(label, count)| (format!("HTTP/{label}"), *count)).collect();
    let versions: Vec<(&str, u64)> = versions.iter().map(|(label, count)| (label.as_str(), *count)).collect();
    let mut statuses: Vec<(String, u64)> = totals
        .statuses
        .iter()
        .map(|(status, count)| (format!("{status} {}", touchstone_http::status::reason(*status)), *count))
        .collect();
    statuses.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    statuses.truncate(12);
    let statuses: Vec<(&str, u64)> = statuses.iter().map(|(label, count)| (label.as_str(), *count)).collect();
    let classes: Vec<(&str, u64)> = CLASSES
        .iter()
        .enumerate()
        .map(|(class, label)| (*label, totals.routes.iter().map(|route| route.classes[class]).sum()))
        .collect();
    html! {
        (counts("By version", &versions))
        (counts("By class of the status", &classes))
        (counts("By status", &statuses))
    }
}

fn routes_table(totals: &Totals) -> Markup {
    let mut routes: Vec<&RouteTotals> = totals.routes.iter().collect();
    routes.sort_by_key(|route| std::cmp::Reverse(route.requests()));
    let more = routes.len().saturating_sub(MOST_ROUTES);
    routes.truncate(MOST_ROUTES);
    let quantile = |route: &RouteTotals, share: f64| {
        route.durations.quantile_ns(share).map_or_else(|| "\u{2013}".to_string(), words::nanoseconds)
    };
    html! {
        @if routes.is_empty() {
            p.note { "No request has arrived yet." }
        } @else {
            div.scroll tabindex="0" role="region" aria-label="Sites and routes" {
                table {
                    thead { tr {
                        th scope="col" { "Site" }
                        th scope="col" { "Route" }
                        th.number scope="col" { "Requests" }
                        th.number scope="col" { "4xx" }
                        th.number scope="col" { "5xx" }
                        th.number scope="col" { "From cache" }
                        th.number scope="col" { "Bodies" }
                        th.number scope="col" { "Median" }
                        th.number scope="col" { "90 %" }
                        th.number scope="col" { "99 %" }
                    } }
                    tbody {
                        @for route in &routes {
                            tr {
                                th scope="row" { (route.labels.site) }
                                td { (route.labels.route) }
                                td.number { (words::whole(route.requests())) }
                                td.number { (words::whole(route.classes[3])) }
                                td.number { (words::whole(route.classes[4])) }
                                td.number { (words::share(route.hits, route.requests())) }
                                td.number { (words::bytes(route.body_bytes as f64)) }
                                td.number { (quantile(route, 0.5)) }
                                td.number { (quantile(route, 0.9)) }
                                td.number { (quantile(route, 0.99)) }
                            }
                        }
                    }
                }
            }
            p.note {
                "Times are those of requests that were not answered straight from the cache."
                @if more > 0 { " " (words::whole(more as u64)) " routes with fewer requests are not shown." }
            }
        }
    }
}

fn origins_table(totals: &Totals) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Origins" {
            table {
                thead { tr {
                    th scope="col" { "Site" }
                    th scope="col" { "Route" }
                    th scope="col" { "Origin" }
                    th scope="col" { "State" }
                    th.number scope="col" { "Requests" }
                    th.number scope="col" { "Retries" }
                    th.number scope="col" { "5xx" }
                    th.number scope="col" { "Failures" }
                    th.number scope="col" { "Active" }
                    th.number scope="col" { "Connections" }
                    th.number scope="col" { "99 % within" }
                } }
                tbody {
                    @for origin in &totals.origins {
                        tr {
                            td { (origin.labels.site) }
                            td { (origin.labels.route) }
                            th scope="row" { (origin.origin) }
                            td {
                                (origin.state.label())
                                @if origin.service != OriginState::Ready { ", " (origin.service.word()) }
                            }
                            td.number { (words::whole(origin.requests)) }
                            td.number { (words::whole(origin.retries)) }
                            td.number { (words::whole(origin.classes[4])) }
                            td.number { (words::whole(origin.all_failures())) }
                            td.number { (words::whole(origin.under_way)) }
                            td.number { (words::whole(origin.connections)) }
                            td.number {
                                @match origin.quantile_s(0.99) {
                                    Some(seconds) => (words::nanoseconds((seconds * 1e9) as u64)),
                                    None => "\u{2013}",
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn cache_facts(sources: &Sources, totals: &Totals) -> Markup {
    let Some(cache) = totals.cache else { return html! { p.note { "The file cache is switched off." } } };
    let limits = (sources.cache_limits)();
    let lookups = totals.cache_hits + totals.cache_misses;
    html! {
        (list("Hits", &[
            ("Hit ratio", html! { (words::share(totals.cache_hits, lookups)) }),
            ("Hits", html! { (words::whole(totals.cache_hits)) }),
            ("Misses", html! { (words::whole(totals.cache_misses)) }),
        ]))
        (list("Content", &[
            ("Files", html! {
                (words::whole(cache.files))
                @if let Some((most, _)) = limits { " of " (words::whole(most)) }
            }),
            ("Memory", html! {
                (words::bytes(cache.bytes as f64))
                @if let Some((_, most)) = limits { " of " (words::bytes(most as f64)) }
            }),
        ]))
        (counts("Changes", &[
            ("evicted to make room", cache.evictions),
            ("changed on disk", cache.invalidations),
            ("compressed", cache.compressions),
        ]))
    }
}

fn tls_facts(totals: &Totals) -> Markup {
    let versions = || {
        TLS_VERSIONS
            .iter()
            .zip(totals.handshakes)
            .filter(|(version, counts)| **version != "other" || *counts != [0, 0])
    };
    let failures: Vec<(&str, u64)> = HANDSHAKE_FAILURES
        .into_iter()
        .zip(totals.handshake_failures)
        .filter(|(_, count)| *count > 0)
        .collect();
    let resumed: u64 = totals.handshakes.iter().map(|counts| counts[1]).sum();
    let all: u64 = totals.handshakes.iter().flatten().sum();
    html! {
        div.facts {
            h3 { "Handshakes" }
            dl {
                @for (version, [new, resumed]) in versions() {
                    dt { "TLS " (version) } dd { (words::whole(new + resumed)) }
                }
                dt { "Resumed" } dd { (words::share(resumed, all)) }
            }
        }
        (counts("Handshakes that failed", &if failures.is_empty() { vec![("none", 0)] } else { failures }))
        (counts("HTTP/2 and HTTP/3", &[
            ("HTTP/2 connections", totals.http2_connections),
            ("streams reset by clients", totals.http2_resets_received),
            ("streams reset by the server", totals.http2_resets_sent),
            ("connections that broke the protocol", totals.http2_broken),
            ("HTTP/3 connections", totals.http3_connections),
        ]))
    }
}

fn cores_table(totals: &Totals, sessions: &[CoreSessions]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Cores" {
            table {
                thead { tr {
                    th.number scope="col" { "Core" }
                    th scope="col" { "State" }
                    th.number scope="col" { "Processor time" }
                    th.number scope="col" { "Accepted" }
                    th.number scope="col" { "Open" }
                } }
                tbody {
                    @for (index, core) in totals.cores.iter().enumerate() {
                        tr {
                            th.number scope="row" { (index) }
                            td {
                                @if sessions.iter().any(|sessions| sessions.core == index) {
                                    span.state.running { "answers" }
                                } @else {
                                    span.state.stuck { "does not answer" }
                                }
                            }
                            td.number { (words::age((core.cpu_seconds * 1000.0) as u64)) }
                            td.number { (words::whole(core.accepted)) }
                            td.number { (words::whole(core.connections)) }
                        }
                    }
                }
            }
        }
    }
}

fn counts(title: &str, counts: &[(&str, u64)]) -> Markup {
    let facts: Vec<(&str, Markup)> =
        counts.iter().map(|(label, count)| (*label, html! { (words::whole(*count)) })).collect();
    list(title, &facts)
}

fn list(title: &str, facts: &[(&str, Markup)]) -> Markup {
    html! {
        div.facts {
            h3 { (title) }
            dl { @for (name, value) in facts { dt { (name.replace('_', " ")) } dd { (value) } } }
        }
    }
}
