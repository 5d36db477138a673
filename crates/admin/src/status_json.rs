//! `/status.json`: the status as JSON.

use serde_json::{Map, Value, json};
use touchstone_observe::metrics::{
    CLASSES, ComponentTotals, ConnectionRefusal, ConnectionState, Distribution, HANDSHAKE_FAILURES,
    OriginTotals, PROTOCOLS, StreamTotals, TLS_VERSIONS, Timeout, Totals, version_label,
};
use touchstone_proxy::FailureLabel;

use super::Sources;
use super::history::{History, Rates};
use crate::connection_info::CoreSessions;

/// The status as one object.
pub fn status_json(sources: &Sources, totals: &Totals, history: &History, cores: &[CoreSessions]) -> Value {
    json!({
        "server": {
            "version": env!("CARGO_PKG_VERSION"),
            "process": std::process::id(),
            "started_unix_seconds": totals.started_at,
            "uptime_seconds": uptime_seconds(totals),
            "state": if totals.draining { "draining" } else { "running" },
            "listeners": (sources.listeners)(),
        },
        "config": {
            "generation": totals.generation,
            "taken_up_unix_seconds": totals.applied_at,
            "reloads_taken_up": totals.reloads[1],
            "reloads_failed": totals.reloads[0],
        },
        "now": rates_json(&history.now()),
        "requests": {
            "total": totals.requests(),
            "by_version": labelled(PROTOCOLS.map(version_label), &totals.protocols),
            "by_status": totals
                .statuses
                .iter()
                .map(|(status, count)| (status.to_string(), json!(count)))
                .collect::<Map<String, Value>>(),
        },
        "bytes": { "received": totals.received_bytes, "sent": totals.sent_bytes },
        "connections": {
            "open": totals.open_connections(),
            "by_state": labelled(ConnectionState::ALL.map(ConnectionState::label), &totals.connections),
            "accepted": totals.accepted,
            "refused": labelled(ConnectionRefusal::ALL.map(ConnectionRefusal::label), &totals.refused),
            "timeouts": labelled(Timeout::ALL.map(Timeout::label), &totals.timeouts),
        },
        "cache": totals.cache.map(|cache| {
            let limits = (sources.cache_limits)();
            json!({
                "hits": totals.cache_hits,
                "misses": totals.cache_misses,
                "files": cache.files,
                "files_limit": limits.map(|(files, _)| files),
                "bytes": cache.bytes,
                "bytes_limit": limits.map(|(_, bytes)| bytes),
                "evictions": cache.evictions,
                "invalidations": cache.invalidations,
                "compressions": cache.compressions,
            })
        }),
        "tls": {
            "handshakes": TLS_VERSIONS
                .iter()
                .zip(totals.handshakes)
                .map(|(version, [new, resumed])| {
                    (version.to_string(), json!({ "new": new, "resumed": resumed }))
                })
                .collect::<Map<String, Value>>(),
            "failures": labelled(HANDSHAKE_FAILURES, &totals.handshake_failures),
        },
        "http2": {
            "connections": totals.http2_connections,
            "resets_by_client": totals.http2_resets_received,
            "resets_by_server": totals.http2_resets_sent,
            "broken_connections": totals.http2_broken,
        },
        "http3": { "connections": totals.http3_connections },
        "routes": totals.routes.iter().map(|route| json!({
            "site": route.labels.site,
            "route": route.labels.route,
            "requests": route.requests(),
            "by_class": labelled(CLASSES, &route.classes),
            "cache_hits": route.hits,
            "body_bytes": route.body_bytes,
            "duration": distribution_json(&route.durations),
            "cached_duration": distribution_json(&route.hit_durations),
        })).collect::<Vec<_>>(),
        "origins": origins_json(&totals.origins),
        "servlets": totals.servlets,
        "python": totals.python,
        "components": components_json(&totals.components),
        "streams": streams_json(&totals.streams),
        "cores": totals.cores.iter().enumerate().map(|(index, core)| json!({
            "core": index,
            "answers": cores.iter().any(|sessions| sessions.core == index),
            "cpu_seconds": core.cpu_seconds,
            "accepted": core.accepted,
            "connections": core.connections,
        })).collect::<Vec<_>>(),
        "process": {
            "cpu_seconds": totals.process.cpu_seconds,
            "resident_bytes": totals.process.resident_bytes,
            "virtual_bytes": totals.process.virtual_bytes,
            "threads": totals.process.threads,
            "open_files": totals.process.open_files,
            "most_open_files": totals.process.most_open_files,
        },
        "access_log": { "lost_lines": totals.lost_lines },
    })
}

/// Origins; `touchstone status` shows the same.
pub fn origins_json(origins: &[OriginTotals]) -> Vec<Value> {
    let one = |origin: &OriginTotals| {
        json!({
            "site": origin.labels.site,
            "route": origin.labels.route,
            "origin": origin.origin,
            "state": origin.state.label(),
            "service": origin.service.word(),
            "weight": origin.weight,
            "requests": origin.requests,
            "retries": origin.retries,
            "by_class": labelled(CLASSES, &origin.classes),
            "failures": labelled(FailureLabel::LABELS, &origin.failures),
            "broken_bodies": origin.broken_bodies,
            "ejections": origin.ejections,
            "under_way": origin.under_way,
            "connections": origin.connections,
            "idle_connections": origin.idle,
            "connections_opened": origin.opened,
            "mean_us": (origin.times_count > 0).then(|| origin.times_sum_s * 1e6 / origin.times_count as f64),
            "p99_at_most_us": origin.quantile_s(0.99).map(|seconds| seconds * 1e6),
        })
    };
    origins.iter().map(one).collect()
}

/// Streams, as in `touchstone status` too.
pub fn streams_json(streams: &[StreamTotals]) -> Vec<Value> {
    let one = |stream: &StreamTotals| {
        let ends: Map<String, Value> =
            stream.ends_by_reason().map(|(reason, count)| (reason.to_string(), json!(count))).collect();
        json!({
            "stream": stream.name,
            "protocol": stream.protocol,
            "accepted": stream.accepted,
            "open": stream.open,
            "ends": ends,
            "received_bytes": stream.received_bytes,
            "sent_bytes": stream.sent_bytes,
            "received_datagrams": stream.received_datagrams,
            "sent_datagrams": stream.sent_datagrams,
            "dropped_datagrams": stream.dropped_datagrams,
        })
    };
    streams.iter().map(one).collect()
}

/// WebAssembly components; `touchstone status` shows the same.
pub fn components_json(components: &[ComponentTotals]) -> Vec<Value> {
    let one = |component: &ComponentTotals| {
        let failures: Map<String, Value> =
            component.failures_by_cause().map(|(cause, count)| (cause.to_string(), json!(count))).collect();
        json!({
            "site": component.site,
            "route": component.route,
            "component": component.component,
            "requests": component.requests,
            "failures": failures,
            "under_way": component.busy,
            "instances": component.instances,
            "instances_made": component.made,
            "memory_bytes": component.memory_bytes,
            "computations_moved": component.moved,
        })
    };
    components.iter().map(one).collect()
}

/// The time since the process started.
pub fn uptime_seconds(totals: &Totals) -> f64 {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0.0, |elapsed| elapsed.as_secs_f64());
    (now - totals.started_at).max(0.0)
}

fn rates_json(rates: &Rates) -> Value {
    json!({
        "requests_per_second": rates.requests,
        "server_errors_per_second": rates.server_errors,
        "received_bytes_per_second": rates.received_bytes,
        "sent_bytes_per_second": rates.sent_bytes,
        "connections_per_second": rates.accepted,
        "processors": rates.processors,
        "cache_hit_ratio": rates.hit_ratio,
    })
}

fn distribution_json(distribution: &Distribution) -> Value {
    let microseconds = |share: f64| distribution.quantile_ns(share).map(|ns| ns as f64 / 1e3);
    let mean_us = || distribution.sum_ns as f64 / 1e3 / distribution.count as f64;
    json!({
        "count": distribution.count,
        "mean_us": (distribution.count > 0).then(mean_us),
        "p50_us": microseconds(0.5),
        "p90_us": microseconds(0.9),
        "p99_us": microseconds(0.99),
    })
}

fn labelled<const COUNT: usize>(labels: [&str; COUNT], counts: &[u64; COUNT]) -> Map<String, Value> {
    labels.iter().zip(counts).map(|(label, count)| (label.to_string(), json!(count))).collect()
}
