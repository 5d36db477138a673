//! The metrics of the core server: their names, kinds, meanings and labels, and how they are read.
//!
//! The metrics of programs, streams, WebDAV, logins and so on are in the modules `*_metrics`;
//! [`definitions`](super::definitions) joins all tables. Each metric is defined once. The exposition and the
//! page of the book are made from these tables, so a new metric is one new entry.

use touchstone_handler::answer::CacheResult;
use touchstone_proxy::{FailureLabel, State, TIME_BOUNDS_S};

use super::control_counts::ControlResult;
use super::core_counts::{
    ConnectionRefusal, ConnectionState, HANDSHAKE_FAILURES, PROTOCOLS, TLS_VERSIONS, Timeout, version_label,
};
use super::metric::{Definition, Kind, Samples};
use super::origin_totals::OriginTotals;
use super::route_counts::CLASSES;
use super::totals::Totals;

pub(super) const SITE: (&str, &str) = ("site", "the site's first host, or its first address; `-`: no site");
pub(super) const ROUTE: (&str, &str) = ("route", "the path or pattern of the route; `-`: no route");

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

/// The metrics of the core server, in the order of the exposition.
pub static METRICS: &[Definition] = &[
    Definition {
        name: "touchstone_build",
        kind: Kind::Info,
        help: "Version of the program, as a label of a metric with the value 1.",
        labels: &[("version", "its version")],
        collect: |_, samples| samples.add(&[env!("CARGO_PKG_VERSION")], 1),
    },
    Definition {
        name: "touchstone_requests",
        kind: Kind::Counter,
        help: "Requests that were answered, by version of HTTP.",
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
        help: "Responses that were sent, by status.",
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
        help: "Responses that were sent, by site, route and class of the status.",
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
        help: "Responses that were sent as prepared responses of the file cache.",
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
        help: "Bytes of response bodies that were sent, without heads and framing.",
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
        help: "Seconds from the head of a request until the last byte of its response was passed to the \
            kernel. Requests that the file cache answered with a prepared response are in a \
            separate histogram.",
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
        help: "The same for requests that the file cache answered with a prepared response. One in \
            `admin.sample_hits` of them is measured and represents the others, so the count is an \
            estimate.",
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
        help: "The state of an origin: 1 for the present state, 0 for the others.",
        labels: &[
            SITE,
            ROUTE,
            ORIGIN,
            (
                "state",
                "`up`; `slow_start`: it is up again and gets a part of its share of the requests; \
                 `ejected`: it gets no requests because requests failed; `down`: it gets no requests \
                 because active checks fail",
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
        help: "Requests that were sent to an origin. A request that was sent to several origins counts \
            for each of them.",
        labels: &[SITE, ROUTE, ORIGIN],
        collect: |totals, samples| each_origin(totals, samples, |origin| origin.requests),
    },
    Definition {
        name: "touchstone_origin_retries",
        kind: Kind::Counter,
        help: "Requests to an origin that are repetitions: the request failed at another origin before.",
        labels: &[SITE, ROUTE, ORIGIN],
        collect: |totals, samples| each_origin(totals, samples, |origin| origin.retries),
    },
    Definition {
        name: "touchstone_origin_responses",
        kind: Kind::Counter,
        help: "Responses of an origin, by class of the status.",
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
        help: "Requests to an origin without a complete response.",
        labels: &[
            SITE,
            ROUTE,
            ORIGIN,
            (
                "reason",
                "`resolve`: the host name has no address; `connect`: the connection failed; `tls`: the \
                 TLS handshake failed; `closed`: the origin closed the connection without a response; \
                 `response`: the response is not valid; `broken`: the response ended before its end; \
                 `timeout`: a time limit was exceeded; `full`: the limits allow no further request; \
                 `client`: the body of the client's request is incomplete",
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
        help: "How often an origin was ejected: it got no requests for a time because requests had \
            failed.",
        labels: &[SITE, ROUTE, ORIGIN],
        collect: |totals, samples| each_origin(totals, samples, |origin| origin.ejections),
    },
    Definition {
        name: "touchstone_origin_requests_under_way",
        kind: Kind::Gauge,
        help: "Requests in progress at an origin, including open WebSockets.",
        labels: &[SITE, ROUTE, ORIGIN],
        collect: |totals, samples| each_origin(totals, samples, |origin| origin.under_way),
    },
    Definition {
        name: "touchstone_origin_connections_opened",
        kind: Kind::Counter,
        help: "Connections to an origin that were opened.",
        labels: &[SITE, ROUTE, ORIGIN],
        collect: |totals, samples| each_origin(totals, samples, |origin| origin.opened),
    },
    Definition {
        name: "touchstone_origin_connections",
        kind: Kind::Gauge,
        help: "Open connections to an origin.",
        labels: &[SITE, ROUTE, ORIGIN, ("state", "`idle`: kept, without a request; `open`: with a request")],
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
        help: "Seconds from the start of a request to an origin, including a new connection, until the \
            head of the response.",
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
        help: "Bytes that were received from clients, including heads, framing and TLS. The figure is up \
            to 0.2 s old.",
        labels: &[],
        collect: |totals, samples| samples.add(&[], totals.received_bytes),
    },
    Definition {
        name: "touchstone_sent_bytes",
        kind: Kind::Counter,
        help: "Bytes that were sent to clients, including heads, framing and TLS. The figure is up to \
            0.2 s old.",
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
        help: "Connections that were refused.",
        labels: &[(
            "reason",
            "`per_client`: limits.connections_per_client; `limit`: limits.connections, counted once for \
             each pause; `accept_failed`: the kernel returned an error; `proxy_header`: the PROXY header \
             is missing or not valid",
        )],
        collect: |totals, samples| {
            for reason in ConnectionRefusal::ALL {
                samples.add(&[reason.label()], totals.refused[reason as usize]);
            }
        },
    },
    Definition {
        name: "touchstone_connections",
        kind: Kind::Gauge,
        help: "Open connections, by state. The figure is up to 0.2 s old. Connections that are answered \
            and closed at once are not counted.",
        labels: &[(
            "state",
            "`idle`: waiting for a request; `reading`: a part of a request was received; `answering`: a \
             request is in progress; `writing`: the answer waits until the client receives more",
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
        help: "Connections that were closed because the client was too slow, or idle for too long.",
        labels: &[(
            "kind",
            "`header`: limits.header_timeout; `idle`: limits.keep_alive_timeout, or no first request; \
             `body`: the body of a request; `send`: a response (in HTTP/3, its stream); `made_room`: an \
             idle connection, closed in favour of a new one at limits.connections",
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
            "`plain_http`: the client sent HTTP without TLS; `ended_by_client`: the client sent an \
             alert, for example because it does not trust the certificate; `nothing_in_common`: no \
             common version, cipher or application protocol; `client_certificate`: the client's \
             certificate is missing or not trusted; `no_certificate`: no certificate for the requested \
             name; `broken`: the client broke the protocol; `too_much`: the client sent too many bytes; \
             `abandoned`: the client closed the connection; `keys_used_up` and `not_open`: internal \
             errors",
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
        help: "Connections that used HTTP/2.",
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
        help: "HTTP/2 connections that were closed because the client broke the protocol or exceeded a \
            limit.",
        labels: &[],
        collect: |totals, samples| samples.add(&[], totals.http2_broken),
    },
    Definition {
        name: "touchstone_http3_connections",
        kind: Kind::Counter,
        help: "Connections that used HTTP/3.",
        labels: &[],
        collect: |totals, samples| samples.add(&[], totals.http3_connections),
    },
    Definition {
        name: "touchstone_cache_hits",
        kind: Kind::Counter,
        help: "Requests for files that the file cache had.",
        labels: &[],
        collect: |totals, samples| samples.add(&[], totals.cache_hits),
    },
    Definition {
        name: "touchstone_cache_misses",
        kind: Kind::Counter,
        help: "Requests for files that the file cache did not have: new, changed, too large, or missing \
            on disk.",
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
        help: "Memory of the files in the file cache.",
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
        help: "Files that were removed from the file cache because it was full.",
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
        help: "Files that were removed from the file cache because they changed on disk.",
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
        help: "Requests of routes with a cache, by the result of the look-up.",
        labels: &[
            SITE,
            ROUTE,
            (
                "result",
                "`hit`: answered with a stored response, or with the response to another request for the \
                 same target; `miss`: answered by the origin or program; `stale`: answered with a stored \
                 response that is stale; `revalidated`: answered with a stored response that the origin \
                 confirmed; `bypass`: the cache was not used",
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
        help: "Responses in the memory of the cache.",
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
        help: "Memory of the stored responses.",
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
        help: "The limit of this memory: accelerator.memory.",
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
        help: "Stored responses that were removed from the memory because it was full.",
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
        help: "Responses that were not stored: they are large, and were requested too rarely.",
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
        help: "Stored responses that were purged, or made stale by a request with an unsafe method.",
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
        help: "Stored responses with a copy on disk.",
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
        help: "Bytes of these copies.",
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
        help: "Copies that were read from disk into memory.",
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
        help: "Copies that were damaged, and were removed.",
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
        help: "Responses that were not copied to disk: the queue was full, the disk was full, or the \
            response was purged meanwhile.",
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
        help: "Errors in the directory of the copies.",
        labels: &[(
            "cause",
            "`full`: the disk is full; `read_only`: the directory cannot be written to; `missing`: the \
             directory or a file in it was removed; `write`, `read`: other errors",
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
        help: "Lines of the access log that were dropped because writing failed or was too slow.",
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
        help: "The time of the last change of the configuration, in seconds since 1970.",
        labels: &[],
        collect: |totals, samples| samples.add(&[], totals.applied_at),
    },
    Definition {
        name: "touchstone_config_reloads",
        kind: Kind::Counter,
        help: "Reloads of the configuration.",
        labels: &[(
            "result",
            "`taken_up`: the new configuration was applied; `failed`: the previous one \
            remains in use",
        )],
        collect: |totals, samples| {
            samples.add(&["failed"], totals.reloads[0]);
            samples.add(&["taken_up"], totals.reloads[1]);
        },
    },
    Definition {
        name: "touchstone_draining",
        kind: Kind::Gauge,
        help: "1 while the server finishes the requests in progress before it stops, otherwise 0.",
        labels: &[],
        collect: |totals, samples| samples.add(&[], u64::from(totals.draining)),
    },
    Definition {
        name: "touchstone_core_cpu_seconds",
        kind: Kind::Counter,
        help: "Processor time that each core's event loop has used.",
        labels: &[(
            "core",
            "the number of the core, from 0; threads that call programs follow after all \
            cores",
        )],
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
        labels: &[(
            "core",
            "the number of the core, from 0; threads that call programs follow after all \
            cores",
        )],
        collect: |totals, samples| {
            for (index, core) in totals.cores.iter().enumerate() {
                samples.add(&[&index.to_string()], core.accepted);
            }
        },
    },
    Definition {
        name: "touchstone_nsapi_functions_given_up",
        kind: Kind::Counter,
        help: "Functions of NSAPI plug-ins that did not return within `function_timeout`.",
        labels: &[],
        collect: |_, samples| samples.add(&[], touchstone_nsapi::host::counts::functions_abandoned()),
    },
    Definition {
        name: "touchstone_control_changes",
        kind: Kind::Counter,
        help: "Requests to the control API that change something.",
        labels: &[(
            "result",
            "`applied`; `refused`: it was invalid; `conflict`: another client has changed the \
             configuration before (412), or the request does not name the version that it is based on \
             (428); `denied`: the client has no permission (401, 403)",
        )],
        collect: |totals, samples| {
            for changes in totals.control_changes.iter() {
                for (result, count) in ControlResult::LABELS.iter().zip(changes) {
                    samples.add(&[result], *count);
                }
            }
        },
    },
    Definition {
        name: "touchstone_telemetry_spans",
        kind: Kind::Counter,
        help: "Spans of traced requests, by result. Absent if nothing is traced.",
        labels: &[(
            "result",
            "`sent`: the collector accepted the span; `dropped`: the queue was full; `failed`: the \
             collector refused the span, or did not answer for too long",
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
        help: "Requests to the collector of traces and metrics. Absent without a collector.",
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
        help: "Resident memory of the process.",
        labels: &[],
        collect: |totals, samples| samples.add(&[], totals.process.resident_bytes),
    },
    Definition {
        name: "process_virtual_memory_bytes",
        kind: Kind::Gauge,
        help: "Virtual memory of the process.",
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
        help: "Open files and sockets of the process.",
        labels: &[],
        collect: |totals, samples| samples.add(&[], totals.process.open_files),
    },
    Definition {
        name: "process_max_fds",
        kind: Kind::Gauge,
        help: "The limit of open files and sockets of the process.",
        labels: &[],
        collect: |totals, samples| samples.add(&[], totals.process.most_open_files),
    },
    Definition {
        name: "process_start_time_seconds",
        kind: Kind::Gauge,
        help: "The start of the process, in seconds since 1970.",
        labels: &[],
        collect: |totals, samples| samples.add_float(&[], totals.started_at),
    },
];
