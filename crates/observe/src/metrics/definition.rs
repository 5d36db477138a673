//! The table of every metric: its name, its kind, what it means, its labels, and how it is read.
//!
//! Each metric is defined once, here. The exposition and the page of the book are made from this table, so a
//! new metric is one new entry.

use touchstone_handler::answer::CacheResult;
use touchstone_proxy::{FailureLabel, State, TIME_BOUNDS_S};

use super::core_counts::{
    ConnectionState, HANDSHAKE_FAILURES, PROTOCOLS, Refused, TLS_VERSIONS, Timeout, version_label,
};
use super::metric::{Definition, Kind, Samples};
use super::origin_totals::OriginTotals;
use super::route_counts::CLASSES;
use super::totals::Totals;

pub(super) const SITE: (&str, &str) =
    ("site", "the site's first host, or its first address; `-`: no site was reached");
pub(super) const ROUTE: (&str, &str) = ("route", "what the route matches; `-`: none did");

const ORIGIN: (&str, &str) = ("origin", "its URL");

fn origin_labels<'a>(origin: &'a OriginTotals, more: &'a str) -> [&'a str; 4] {
    [&origin.labels.site, &origin.labels.route, &origin.origin, more]
}

/// Adds one number for each origin.
fn each_origin(totals: &Totals, samples: &mut Samples<'_>, number: impl Fn(&OriginTotals) -> u64) {
    for origin in &totals.origins {
        samples.add(&[&origin.labels.site, &origin.labels.route, &origin.origin], number(origin));
    }
}

/// Every metric, in the order of the exposition.
pub static METRICS: &[Definition] = &[
    Definition {
        name: "touchstone_build",
        kind: Kind::Info,
        help: "The program that runs.",
        labels: &[("version", "its version")],
        collect: |_, samples| samples.add(&[env!("CARGO_PKG_VERSION")], 1),
    },
    Definition {
        name: "touchstone_requests",
        kind: Kind::Counter,
        help: "Requests answered, by version of HTTP.",
        labels: &[("version", "`1.0`, `1.1`, `2` or `3`")],
        collect: |totals, samples| {
            for protocol in PROTOCOLS {
                samples.add(&[version_label(protocol)], totals.protocols[protocol as usize]);
            }
        },
    },
    Definition {
        name: "touchstone_responses",
        kind: Kind::Counter,
        help: "Responses sent, by status.",
        labels: &[("class", "`1xx` to `5xx`"), ("code", "the status code")],
        collect: |totals, samples| {
            for (status, count) in &totals.statuses {
                let class = CLASSES[usize::from(status / 100).wrapping_sub(1).min(CLASSES.len() - 1)];
                samples.add(&[class, &status.to_string()], *count);
            }
        },
    },
    Definition {
        name: "touchstone_route_responses",
        kind: Kind::Counter,
        help: "Responses sent, by site, route and class of the status.",
        labels: &[SITE, ROUTE, ("class", "`1xx` to `5xx`")],
        collect: |totals, samples| {
            for route in &totals.routes {
                for (class, count) in CLASSES.iter().zip(route.classes).filter(|(_, count)| *count > 0) {
                    samples.add(&[&route.labels.site, &route.labels.route, class], count);
                }
            }
        },
    },
    Definition {
        name: "touchstone_route_cache_hits",
        kind: Kind::Counter,
        help: "Responses sent straight from the file cache, ready before the request came.",
        labels: &[SITE, ROUTE],
        collect: |totals, samples| {
            for route in totals.routes.iter().filter(|route| route.hits > 0) {
                samples.add(&[&route.labels.site, &route.labels.route], route.hits);
            }
        },
    },
    Definition {
        name: "touchstone_route_response_body_bytes",
        kind: Kind::Counter,
        help: "Bytes of response bodies sent, without heads and framing.",
        labels: &[SITE, ROUTE],
        collect: |totals, samples| {
            for route in &totals.routes {
                samples.add(&[&route.labels.site, &route.labels.route], route.body_bytes);
            }
        },
    },
    Definition {
        name: "touchstone_request_duration_seconds",
        kind: Kind::Histogram,
        help: "From the head of a request to the last byte of its response handed to the system; every \
            request that is not answered straight from the file cache.",
        labels: &[SITE, ROUTE],
        collect: |totals, samples| {
            for route in totals.routes.iter().filter(|route| route.durations.count > 0) {
                samples.add_histogram(&[&route.labels.site, &route.labels.route], &route.durations);
            }
        },
    },
    Definition {
        name: "touchstone_cached_request_duration_seconds",
        kind: Kind::Histogram,
        help: "The same for requests answered straight from the file cache. One in `admin.sample_hits` is \
            timed and counts for all of them, so the count is an estimate.",
        labels: &[SITE, ROUTE],
        collect: |totals, samples| {
            for route in totals.routes.iter().filter(|route| route.hit_durations.count > 0) {
                samples.add_histogram(&[&route.labels.site, &route.labels.route], &route.hit_durations);
            }
        },
    },
    Definition {
        name: "touchstone_origin_up",
        kind: Kind::Gauge,
        help: "How an origin is: 1 for the state that it is in.",
        labels: &[
            SITE,
            ROUTE,
            ORIGIN,
            (
                "state",
                "`up`; `slow_start`: it has come back and gets a part of its share; `ejected`: it has failed \
                 and is left alone; `down`: its checks fail",
            ),
        ],
        collect: |totals, samples| {
            for origin in &totals.origins {
                for state in State::ALL {
                    samples.add(&origin_labels(origin, state.label()), u64::from(origin.state == state));
                }
            }
        },
    },
    Definition {
        name: "touchstone_origin_requests",
        kind: Kind::Counter,
        help: "Requests sent to an origin; one that was sent to several counts for each.",
        labels: &[SITE, ROUTE, ORIGIN],
        collect: |totals, samples| each_origin(totals, samples, |origin| origin.requests),
    },
    Definition {
        name: "touchstone_origin_retries",
        kind: Kind::Counter,
        help: "Those of them that another origin had failed at before.",
        labels: &[SITE, ROUTE, ORIGIN],
        collect: |totals, samples| each_origin(totals, samples, |origin| origin.retries),
    },
    Definition {
        name: "touchstone_origin_responses",
        kind: Kind::Counter,
        help: "An origin's responses, by class of the status.",
        labels: &[SITE, ROUTE, ORIGIN, ("class", "`1xx` to `5xx`")],
        collect: |totals, samples| {
            for origin in &totals.origins {
                for (class, count) in CLASSES.iter().zip(origin.classes).filter(|(_, count)| *count > 0) {
                    samples.add(&origin_labels(origin, class), count);
                }
            }
        },
    },
    Definition {
        name: "touchstone_origin_failures",
        kind: Kind::Counter,
        help: "Requests that an origin gave no whole response to.",
        labels: &[
            SITE,
            ROUTE,
            ORIGIN,
            (
                "reason",
                "`resolve`: its host was not found; `connect`: no connection; `tls`: no TLS; `closed`: \
                 closed without a response; `response`: no valid response; `broken`: broke off behind its \
                 head; `timeout`: too slow; `full`: no room within the limits; `client`: the client's own \
                 body broke off",
            ),
        ],
        collect: |totals, samples| {
            for origin in &totals.origins {
                let named = FailureLabel::LABELS.iter().zip(origin.failures);
                for (label, count) in named.chain([(&"broken", origin.broken_bodies)]) {
                    if count > 0 {
                        samples.add(&origin_labels(origin, label), count);
                    }
                }
            }
        },
    },
    Definition {
        name: "touchstone_origin_ejections",
        kind: Kind::Counter,
        help: "How often an origin was left alone for a time because it had failed.",
        labels: &[SITE, ROUTE, ORIGIN],
        collect: |totals, samples| each_origin(totals, samples, |origin| origin.ejections),
    },
    Definition {
        name: "touchstone_origin_requests_under_way",
        kind: Kind::Gauge,
        help: "Requests that an origin is busy with, open WebSockets among them.",
        labels: &[SITE, ROUTE, ORIGIN],
        collect: |totals, samples| each_origin(totals, samples, |origin| origin.under_way),
    },
    Definition {
        name: "touchstone_origin_connections_opened",
        kind: Kind::Counter,
        help: "Connections opened to an origin.",
        labels: &[SITE, ROUTE, ORIGIN],
        collect: |totals, samples| each_origin(totals, samples, |origin| origin.opened),
    },
    Definition {
        name: "touchstone_origin_connections",
        kind: Kind::Gauge,
        help: "Open connections to an origin.",
        labels: &[SITE, ROUTE, ORIGIN, ("state", "`idle`: kept, without a request; `open`: all others")],
        collect: |totals, samples| {
            for origin in &totals.origins {
                samples.add(&origin_labels(origin, "idle"), origin.idle);
                samples.add(&origin_labels(origin, "open"), origin.connections.saturating_sub(origin.idle));
            }
        },
    },
    Definition {
        name: "touchstone_origin_response_seconds",
        kind: Kind::Histogram,
        help: "From sending a request to an origin, connecting included, to the head of its response.",
        labels: &[SITE, ROUTE, ORIGIN],
        collect: |totals, samples| {
            for origin in totals.origins.iter().filter(|origin| origin.times_count > 0) {
                let labels = [&origin.labels.site, &origin.labels.route, &origin.origin].map(String::as_str);
                let all = (origin.times_count, origin.times_sum_s);
                samples.add_cumulative(&labels, &TIME_BOUNDS_S, &origin.times, all);
            }
        },
    },
    Definition {
        name: "touchstone_received_bytes",
        kind: Kind::Counter,
        help: "Bytes received from clients, heads, framing and TLS included; up to 0.2 s old.",
        labels: &[],
        collect: |totals, samples| samples.add(&[], totals.received_bytes),
    },
    Definition {
        name: "touchstone_sent_bytes",
        kind: Kind::Counter,
        help: "Bytes sent to clients, heads, framing and TLS included; up to 0.2 s old.",
        labels: &[],
        collect: |totals, samples| samples.add(&[], totals.sent_bytes),
    },
    Definition {
        name: "touchstone_connections_accepted",
        kind: Kind::Counter,
        help: "Connections accepted.",
        labels: &[],
        collect: |totals, samples| samples.add(&[], totals.accepted),
    },
    Definition {
        name: "touchstone_connections_refused",
        kind: Kind::Counter,
        help: "Connections that were not served.",
        labels: &[(
            "reason",
            "`per_client`: limits.connections_per_client; `limit`: limits.connections, once for each pause; \
             `accept_failed`: the system could not; `proxy_header`: no good PROXY header came",
        )],
        collect: |totals, samples| {
            for reason in Refused::ALL {
                samples.add(&[reason.label()], totals.refused[reason as usize]);
            }
        },
    },
    Definition {
        name: "touchstone_connections",
        kind: Kind::Gauge,
        help: "Open connections by what they do, up to 0.2 s old; those that are answered and closed at once \
            are never among them.",
        labels: &[(
            "state",
            "`idle`: kept, waiting for a request; `reading`: part of a request has come; `answering`: a \
             request is being answered; `writing`: the client is to take more of the answer",
        )],
        collect: |totals, samples| {
            for state in ConnectionState::ALL {
                samples.add(&[state.label()], totals.connections[state as usize]);
            }
        },
    },
    Definition {
        name: "touchstone_timeouts",
        kind: Kind::Counter,
        help: "Connections that were ended because the client was too slow, or idle too long.",
        labels: &[(
            "kind",
            "`header`: limits.header_timeout; `idle`: limits.keep_alive_timeout, or no first request; \
             `body`: a request body; `send`: a response (in HTTP/3, its stream); `made_room`: idle, ended \
             for another connection at limits.connections",
        )],
        collect: |totals, samples| {
            for kind in Timeout::ALL {
                samples.add(&[kind.label()], totals.timeouts[kind as usize]);
            }
        },
    },
    Definition {
        name: "touchstone_tls_handshakes",
        kind: Kind::Counter,
        help: "TLS handshakes that were completed.",
        labels: &[("version", "`1.2` or `1.3`"), ("resumed", "`true`: an earlier session was resumed")],
        collect: |totals, samples| {
            for (version, counts) in TLS_VERSIONS.iter().zip(totals.handshakes) {
                if *version != "other" || counts != [0, 0] {
                    samples.add(&[version, "false"], counts[0]);
                    samples.add(&[version, "true"], counts[1]);
                }
            }
        },
    },
    Definition {
        name: "touchstone_tls_handshake_failures",
        kind: Kind::Counter,
        help: "TLS handshakes that failed.",
        labels: &[(
            "reason",
            "`plain_http`: HTTP without TLS; `ended_by_client`: by an alert, such as for a certificate that \
             it does not trust; `nothing_in_common`: version, cipher or application protocol; \
             `client_certificate`: none, or not trusted; `no_certificate`: none for that name; `broken`: the \
             client broke the protocol; `too_much`: the client sent too much; `abandoned`: the client went \
             away; `keys_used_up` and `not_open`: should not happen",
        )],
        collect: |totals, samples| {
            for (reason, count) in HANDSHAKE_FAILURES.iter().zip(totals.handshake_failures) {
                samples.add(&[reason], count);
            }
        },
    },
    Definition {
        name: "touchstone_http2_connections",
        kind: Kind::Counter,
        help: "Connections that spoke HTTP/2.",
        labels: &[],
        collect: |totals, samples| samples.add(&[], totals.http2_connections),
    },
    Definition {
        name: "touchstone_http2_resets",
        kind: Kind::Counter,
        help: "HTTP/2 streams that ended by a reset.",
        labels: &[("by", "`client` or `server`")],
        collect: |totals, samples| {
            samples.add(&["client"], totals.http2_resets_received);
            samples.add(&["server"], totals.http2_resets_sent);
        },
    },
    Definition {
        name: "touchstone_http2_broken_connections",
        kind: Kind::Counter,
        help: "HTTP/2 connections that were ended because the client broke the protocol or a limit.",
        labels: &[],
        collect: |totals, samples| samples.add(&[], totals.http2_broken),
    },
    Definition {
        name: "touchstone_http3_connections",
        kind: Kind::Counter,
        help: "Connections that spoke HTTP/3.",
        labels: &[],
        collect: |totals, samples| samples.add(&[], totals.http3_connections),
    },
    Definition {
        name: "touchstone_cache_hits",
        kind: Kind::Counter,
        help: "Requests for files that were in the file cache.",
        labels: &[],
        collect: |totals, samples| samples.add(&[], totals.cache_hits),
    },
    Definition {
        name: "touchstone_cache_misses",
        kind: Kind::Counter,
        help: "Requests for files that were not: new, changed, too large to keep, or not there at all.",
        labels: &[],
        collect: |totals, samples| samples.add(&[], totals.cache_misses),
    },
    Definition {
        name: "touchstone_cache_files",
        kind: Kind::Gauge,
        help: "Files in the file cache.",
        labels: &[],
        collect: |totals, samples| {
            if let Some(cache) = totals.cache {
                samples.add(&[], cache.files);
            }
        },
    },
    Definition {
        name: "touchstone_cache_bytes",
        kind: Kind::Gauge,
        help: "Memory that the files in the file cache take.",
        labels: &[],
        collect: |totals, samples| {
            if let Some(cache) = totals.cache {
                samples.add(&[], cache.bytes);
            }
        },
    },
    Definition {
        name: "touchstone_cache_evictions",
        kind: Kind::Counter,
        help: "Files that left the file cache to make room.",
        labels: &[],
        collect: |totals, samples| {
            if let Some(cache) = totals.cache {
                samples.add(&[], cache.evictions);
            }
        },
    },
    Definition {
        name: "touchstone_cache_invalidations",
        kind: Kind::Counter,
        help: "Files that left the file cache because they changed on disk.",
        labels: &[],
        collect: |totals, samples| {
            if let Some(cache) = totals.cache {
                samples.add(&[], cache.invalidations);
            }
        },
    },
    Definition {
        name: "touchstone_cache_compressions",
        kind: Kind::Counter,
        help: "Times that a file in the file cache was compressed.",
        labels: &[],
        collect: |totals, samples| {
            if let Some(cache) = totals.cache {
                samples.add(&[], cache.compressions);
            }
        },
    },
    Definition {
        name: "touchstone_accelerator_requests",
        kind: Kind::Counter,
        help: "Requests of routes with a cache, by what the cache did.",
        labels: &[
            SITE,
            ROUTE,
            (
                "result",
                "`hit`: answered from what is stored, or with a response that another request had asked for; \
                 `miss`: from the origin or program; `stale`: from what is stored although it was stale; \
                 `revalidated`: from what is stored, which the origin has said to be right; `bypass`: of a \
                 kind that the cache has nothing to do with",
            ),
        ],
        collect: |totals, samples| {
            for route in totals.routes.iter().filter(|route| route.cache_results != [0; 5]) {
                for (result, count) in CacheResult::ALL.iter().zip(route.cache_results) {
                    samples.add(&[&route.labels.site, &route.labels.route, result.word()], count);
                }
            }
        },
    },
    Definition {
        name: "touchstone_accelerator_objects",
        kind: Kind::Gauge,
        help: "Responses that are stored in memory.",
        labels: &[],
        collect: |totals, samples| {
            if let Some(counters) = totals.accelerator {
                samples.add(&[], counters.objects);
            }
        },
    },
    Definition {
        name: "touchstone_accelerator_bytes",
        kind: Kind::Gauge,
        help: "Memory that stored responses take.",
        labels: &[],
        collect: |totals, samples| {
            if let Some(counters) = totals.accelerator {
                samples.add(&[], counters.bytes);
            }
        },
    },
    Definition {
        name: "touchstone_accelerator_limit_bytes",
        kind: Kind::Gauge,
        help: "The most memory that they may take: accelerator.memory.",
        labels: &[],
        collect: |totals, samples| {
            if let Some(counters) = totals.accelerator {
                samples.add(&[], counters.budget_bytes);
            }
        },
    },
    Definition {
        name: "touchstone_accelerator_evictions",
        kind: Kind::Counter,
        help: "Stored responses that left to make room.",
        labels: &[],
        collect: |totals, samples| {
            if let Some(counters) = totals.accelerator {
                samples.add(&[], counters.evictions);
            }
        },
    },
    Definition {
        name: "touchstone_accelerator_refused",
        kind: Kind::Counter,
        help: "Responses that were not stored because they are too large for what is known of their use.",
        labels: &[],
        collect: |totals, samples| {
            if let Some(counters) = totals.accelerator {
                samples.add(&[], counters.refused);
            }
        },
    },
    Definition {
        name: "touchstone_accelerator_purged",
        kind: Kind::Counter,
        help: "Stored responses that were purged, or that an unsafe request has made stale.",
        labels: &[],
        collect: |totals, samples| {
            if let Some(counters) = totals.accelerator {
                samples.add(&[], counters.purged);
            }
        },
    },
    Definition {
        name: "touchstone_accelerator_disk_objects",
        kind: Kind::Gauge,
        help: "Responses of which there is a copy on disk.",
        labels: &[],
        collect: |totals, samples| {
            if let Some(counters) = totals.accelerator_disk {
                samples.add(&[], counters.objects);
            }
        },
    },
    Definition {
        name: "touchstone_accelerator_disk_bytes",
        kind: Kind::Gauge,
        help: "What the copies take on disk.",
        labels: &[],
        collect: |totals, samples| {
            if let Some(counters) = totals.accelerator_disk {
                samples.add(&[], counters.bytes);
            }
        },
    },
    Definition {
        name: "touchstone_accelerator_disk_loads",
        kind: Kind::Counter,
        help: "Copies that were read into memory again.",
        labels: &[],
        collect: |totals, samples| {
            if let Some(counters) = totals.accelerator_disk {
                samples.add(&[], counters.loads);
            }
        },
    },
    Definition {
        name: "touchstone_accelerator_disk_corrupt",
        kind: Kind::Counter,
        help: "Copies that were not what had been written, and were dropped.",
        labels: &[],
        collect: |totals, samples| {
            if let Some(counters) = totals.accelerator_disk {
                samples.add(&[], counters.corrupt);
            }
        },
    },
    Definition {
        name: "touchstone_accelerator_disk_unwritten",
        kind: Kind::Counter,
        help: "Responses of which no copy was made: too much to write, no room, or purged meanwhile.",
        labels: &[],
        collect: |totals, samples| {
            if let Some(counters) = totals.accelerator_disk {
                samples.add(&[], counters.unwritten);
            }
        },
    },
    Definition {
        name: "touchstone_accelerator_disk_faults",
        kind: Kind::Counter,
        help: "How often the directory of the copies could not be written to or read from.",
        labels: &[(
            "cause",
            "`full`: there was no room; `read_only`: it must not be written to; `missing`: it, or a file in \
             it, has been taken away; `write`, `read`: any other failure",
        )],
        collect: |totals, samples| {
            if let Some(counters) = totals.accelerator_disk {
                let faults = counters.faults;
                samples.add(&["full"], faults.full);
                samples.add(&["read_only"], faults.read_only);
                samples.add(&["missing"], faults.missing);
                samples.add(&["write"], faults.write);
                samples.add(&["read"], faults.read);
            }
        },
    },
    Definition {
        name: "touchstone_access_log_lost_lines",
        kind: Kind::Counter,
        help: "Lines of the access log that were dropped because they could not be written, or not fast \
            enough.",
        labels: &[],
        collect: |totals, samples| samples.add(&[], totals.lost_lines),
    },
    Definition {
        name: "touchstone_config_generation",
        kind: Kind::Gauge,
        help: "The number of configurations that have been applied, including the first one.",
        labels: &[],
        collect: |totals, samples| samples.add(&[], totals.generation),
    },
    Definition {
        name: "touchstone_config_taken_up_seconds",
        kind: Kind::Gauge,
        help: "When the present configuration was applied, in seconds since 1970.",
        labels: &[],
        collect: |totals, samples| samples.add(&[], totals.taken_up_at),
    },
    Definition {
        name: "touchstone_config_reloads",
        kind: Kind::Counter,
        help: "Times that the configuration was read again.",
        labels: &[("result", "`taken_up`, or `failed`: the one before stays")],
        collect: |totals, samples| {
            samples.add(&["failed"], totals.reloads[0]);
            samples.add(&["taken_up"], totals.reloads[1]);
        },
    },
    Definition {
        name: "touchstone_draining",
        kind: Kind::Gauge,
        help: "1 while the server finishes what was begun before it stops, otherwise 0.",
        labels: &[],
        collect: |totals, samples| samples.add(&[], u64::from(totals.draining)),
    },
    Definition {
        name: "touchstone_core_cpu_seconds",
        kind: Kind::Counter,
        help: "Processor time that each core's event loop has used.",
        labels: &[("core", "its number, from 0; its thread for calls of programs comes after all cores")],
        collect: |totals, samples| {
            for (index, core) in totals.cores.iter().enumerate() {
                samples.add_float(&[&index.to_string()], core.cpu_seconds);
            }
        },
    },
    Definition {
        name: "touchstone_core_connections_accepted",
        kind: Kind::Counter,
        help: "Connections that each core has accepted.",
        labels: &[("core", "its number, from 0; its thread for calls of programs comes after all cores")],
        collect: |totals, samples| {
            for (index, core) in totals.cores.iter().enumerate() {
                samples.add(&[&index.to_string()], core.accepted);
            }
        },
    },
    Definition {
        name: "touchstone_nsapi_functions_given_up",
        kind: Kind::Counter,
        help: "Functions of NSAPI plug-ins that have hung for longer than `function_timeout`.",
        labels: &[],
        collect: |_, samples| samples.add(&[], touchstone_nsapi::host::counts::functions_given_up()),
    },
    Definition {
        name: "touchstone_telemetry_spans",
        kind: Kind::Counter,
        help: "Spans of traced requests, by what became of them; absent where nothing is traced.",
        labels: &[(
            "result",
            "`sent`: the collector has accepted it; `dropped`: the queue was full; `failed`: the collector \
             refused it, or was away for too long",
        )],
        collect: |totals, samples| {
            for (result, count) in totals.telemetry.iter().flat_map(|telemetry| telemetry.spans) {
                samples.add(&[result], count);
            }
        },
    },
    Definition {
        name: "touchstone_telemetry_exports",
        kind: Kind::Counter,
        help: "Requests to the collector of traces and metrics; absent where there is none.",
        labels: &[("result", "`accepted` or `failed`")],
        collect: |totals, samples| {
            for (result, count) in totals.telemetry.iter().flat_map(|telemetry| telemetry.exports) {
                samples.add(&[result], count);
            }
        },
    },
    Definition {
        name: "process_cpu_seconds",
        kind: Kind::Counter,
        help: "Processor time that the process has used, user and system together.",
        labels: &[],
        collect: |totals, samples| samples.add_float(&[], totals.process.cpu_seconds),
    },
    Definition {
        name: "process_resident_memory_bytes",
        kind: Kind::Gauge,
        help: "Memory of the process that is really there.",
        labels: &[],
        collect: |totals, samples| samples.add(&[], totals.process.resident_bytes),
    },
    Definition {
        name: "process_virtual_memory_bytes",
        kind: Kind::Gauge,
        help: "Addresses that the process uses.",
        labels: &[],
        collect: |totals, samples| samples.add(&[], totals.process.virtual_bytes),
    },
    Definition {
        name: "process_threads",
        kind: Kind::Gauge,
        help: "Threads of the process.",
        labels: &[],
        collect: |totals, samples| samples.add(&[], totals.process.threads),
    },
    Definition {
        name: "process_open_fds",
        kind: Kind::Gauge,
        help: "Files and sockets that the process has open.",
        labels: &[],
        collect: |totals, samples| samples.add(&[], totals.process.open_files),
    },
    Definition {
        name: "process_max_fds",
        kind: Kind::Gauge,
        help: "The most files and sockets that the process may have open.",
        labels: &[],
        collect: |totals, samples| samples.add(&[], totals.process.most_open_files),
    },
    Definition {
        name: "process_start_time_seconds",
        kind: Kind::Gauge,
        help: "When the process started, in seconds since 1970.",
        labels: &[],
        collect: |totals, samples| samples.add_float(&[], totals.started_at),
    },
];
