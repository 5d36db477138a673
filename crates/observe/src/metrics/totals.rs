//! The sums of the counts of all cores at one moment, for the exposition and the status page.

use std::collections::BTreeMap;

use touchstone_accelerator::store::{Counters, TierCounters};
use touchstone_files::cache::CacheCounters;
use touchstone_servlet::status::Status;

use super::acme_counts::AcmeTotals;
use super::component_totals::{ComponentTotals, component_totals};
use super::control_counts::ControlResult;
use super::core_counts::{CoreCounts, PROTOCOLS, STATUSES};
use super::crawler_totals::{CrawlerTotals, crawler_totals};
use super::histogram::Distribution;
use super::login_totals::{LoginTotals, login_totals};
use super::origin_totals::{OriginTotals, origin_totals};
use super::process::{ProcessFacts, thread_cpu_seconds};
use super::registry::Metrics;
use super::route_counts::{RouteCounts, RouteLabels};
use super::stream_totals::{StreamTotals, stream_totals};
use super::telemetry_counts::TelemetryTotals;
use super::webdav_totals::{WebDavTotals, webdav_totals};

/// The sums of all counts.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections that wait, by state.
    pub connections: [u64; 4],
    /// Connections not served, by reason.
    pub refused: [u64; 4],
    /// Clients too slow, by kind.
    pub timeouts: [u64; 5],
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Requests answered, by protocol.
    pub protocols: [u64; 4],
    /// Answers by status; only statuses that occurred.
    pub statuses: BTreeMap<u16, u64>,
    /// Handshakes by version: new, resumed.
    pub handshakes: [[u64; 2]; 3],
    /// Handshakes that failed, by reason.
    pub handshake_failures: [u64; 10],
    /// Connections that used HTTP/2.
    pub http2_connections: u64,
    /// Streams that clients reset.
    pub http2_resets_received: u64,
    /// Streams that the server reset.
    pub http2_resets_sent: u64,
    /// HTTP/2 connections that ended by an error of the client.
    pub http2_broken: u64,
    /// Connections that used HTTP/3.
    pub http3_connections: u64,
    /// Requests whose file was in the cache.
    pub cache_hits: u64,
    /// Requests whose file was not in the cache.
    pub cache_misses: u64,
    /// The cache's own counts.
    pub cache: Option<CacheCounters>,
    /// The counts of the cache before programs and origins.
    pub accelerator: Option<Counters>,
    /// The counts of its copies on disk.
    pub accelerator_disk: Option<TierCounters>,
    /// Each route that had a request.
    pub routes: Vec<RouteTotals>,
    /// Each origin that requests are passed on to.
    pub origins: Vec<OriginTotals>,
    /// The applications, their routes and machines.
    pub servlets: Status,
    /// The applications in Python.
    pub python: touchstone_python::status::Status,
    /// WebAssembly components.
    pub components: Vec<ComponentTotals>,
    /// Streams.
    pub streams: Vec<StreamTotals>,
    /// Routes with WebDAV.
    pub webdav: Vec<WebDavTotals>,
    /// Logins.
    pub logins: Vec<LoginTotals>,
    /// Bots, and visitors that are checked.
    pub crawlers: Vec<CrawlerTotals>,
    /// Each core.
    pub cores: Vec<CoreTotals>,
    /// The values that the kernel reports.
    pub process: ProcessFacts,
    /// Reloads that failed, and those that succeeded.
    pub reloads: [u64; 2],
    /// The configuration's generation.
    pub generation: u64,
    /// Since when it is in use, seconds since 1970.
    pub applied_at: u64,
    /// When the process began, seconds since 1970.
    pub started_at: f64,
    /// Lines that the access log has lost.
    pub lost_lines: u64,
    /// The counts of traces and metrics that are sent; `None`: none are sent.
    pub telemetry: Option<TelemetryTotals>,
    /// Changes by the control API, by their result; `None`: there is none.
    pub control_changes: Option<[u64; ControlResult::LABELS.len()]>,
    /// The counts of certificates from an authority; `None`: none are configured.
    pub acme: Option<AcmeTotals>,
    /// Whether the server stops.
    pub draining: bool,
}

/// One route, all cores together.
#[derive(Debug, Clone)]
pub struct RouteTotals {
    /// Its site and name.
    pub labels: RouteLabels,
    /// Answers straight from the cache.
    pub hits: u64,
    /// All answers, by class.
    pub classes: [u64; 5],
    /// Answers by the result of the cache before their program.
    pub cache_results: [u64; 5],
    /// Bytes of bodies.
    pub body_bytes: u64,
    /// The durations of answers that were not plain hits.
    pub durations: Distribution,
    /// How long plain hits took, as far as they are timed.
    pub hit_durations: Distribution,
}

impl RouteTotals {
    /// All answers.
    pub fn requests(&self) -> u64 {
        self.classes.iter().sum()
    }
}

/// One core.
#[derive(Debug, Clone, Copy, Default)]
pub struct CoreTotals {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections that wait.
    pub connections: u64,
    /// Processor time, in seconds.
    pub cpu_seconds: f64,
}

impl Totals {
    /// Computes the current sums.
    pub fn of(metrics: &Metrics) -> Totals {
        let (generation, applied_at) = metrics.generation();
        let mut totals = Totals {
            cache: metrics.cache_counters(),
            accelerator: metrics.accelerator_counters(),
            accelerator_disk: metrics.accelerator_disk_counters(),
            process: ProcessFacts::now(),
            reloads: metrics.reloads(),
            generation,
            applied_at,
            started_at: metrics.started_at(),
            lost_lines: metrics.lost_lines(),
            draining: metrics.is_draining(),
            origins: origin_totals(metrics.origins()),
            servlets: metrics.servlets().status(),
            python: metrics.python().status(),
            components: component_totals(metrics.counts()),
            streams: stream_totals(metrics.counts()),
            webdav: webdav_totals(metrics.counts()),
            logins: login_totals(metrics.counts()),
            crawlers: crawler_totals(metrics.counts()),
            telemetry: metrics.telemetry().totals(),
            control_changes: metrics.control().totals(),
            acme: metrics.acme().totals(),
            ..Totals::default()
        };
        for core in metrics.cores() {
            totals.add_core(&core);
        }
        for (labels, cores) in metrics.routes() {
            totals.add_route(labels, &cores);
        }
        totals
    }

    /// All requests that were answered.
    pub fn requests(&self) -> u64 {
        self.protocols.iter().sum()
    }

    /// All connections that wait.
    pub fn open_connections(&self) -> u64 {
        self.connections.iter().sum()
    }

    fn add_core(&mut self, core: &CoreCounts) {
        self.accepted += core.accepted.get();
        self.received_bytes += core.received_bytes.get();
        self.sent_bytes += core.sent_bytes.get();
        add_each(&mut self.connections, &core.connections);
        add_each(&mut self.refused, &core.refused);
        add_each(&mut self.timeouts, &core.timeouts);
        add_each(&mut self.protocols, &core.protocols);
        for (status, count) in STATUSES.zip(core.statuses.iter()).filter(|(_, count)| count.get() > 0) {
            *self.statuses.entry(status).or_default() += count.get();
        }
        for (version, sums) in self.handshakes.iter_mut().enumerate() {
            sums[0] += core.handshakes[version].get();
            sums[1] += core.resumptions[version].get();
        }
        add_each(&mut self.handshake_failures, &core.handshake_failures);
        self.http2_connections += core.http2_connections.get();
        self.http2_resets_received += core.http2_resets_received.get();
        self.http2_resets_sent += core.http2_resets_sent.get();
        self.http2_broken += core.http2_broken.get();
        self.http3_connections += core.http3_connections.get();
        self.cache_hits += core.cache_hits.get();
        self.cache_misses += core.cache_misses.get();
        self.cores.push(CoreTotals {
            accepted: core.accepted.get(),
            connections: core.connections.iter().map(super::Count::get).sum(),
            cpu_seconds: thread_cpu_seconds(core.thread_id.get()),
        });
    }

    fn add_route(&mut self, labels: RouteLabels, cores: &[std::sync::Arc<RouteCounts>]) {
        let mut route = RouteTotals {
            labels,
            hits: 0,
            classes: [0; 5],
            cache_results: [0; 5],
            body_bytes: 0,
            durations: Distribution::default(),
            hit_durations: Distribution::default(),
        };
        let mut accelerated = 0;
        for core in cores {
            for protocol in PROTOCOLS {
                let hits = core.hits[protocol as usize].get();
                self.protocols[protocol as usize] += hits;
                route.hits += hits;
            }
            add_each(&mut route.classes, &core.classes);
            add_each(&mut route.cache_results, &core.cache_results);
            accelerated += core.accelerated_hits.get();
            route.body_bytes += core.body_bytes.get();
            route.durations.add(&core.durations);
            if let Some(histogram) = core.hit_durations() {
                route.hit_durations.add(histogram);
            }
        }
        // A plain hit is answered with 200.
        route.classes[1] += route.hits;
        if route.hits > 0 {
            *self.statuses.entry(200).or_default() += route.hits;
        }
        // Hits are the first of the results.
        route.cache_results[0] += accelerated;
        self.cache_hits += route.hits - accelerated.min(route.hits);
        self.routes.push(route);
    }
}

fn add_each<const COUNT: usize>(sums: &mut [u64; COUNT], counts: &[super::Count; COUNT]) {
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum += count.get();
    }
}

/// The few totals for which rates are shown. They are cheap enough to be read every second.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sample {
    /// Requests answered.
    pub requests: u64,
    /// Answers with a status of 500 or more.
    pub server_errors: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections that wait.
    pub connections: u64,
    /// Requests for files that were in the cache.
    pub cache_hits: u64,
    /// Requests for files that were not in the cache.
    pub cache_misses: u64,
    /// Processor time, in seconds.
    pub cpu_seconds: f64,
}

impl Metrics {
    /// The current sample.
    pub fn sample(&self) -> Sample {
        let mut sample = Sample { cpu_seconds: super::process::cpu_seconds(), ..Sample::default() };
        let sum = |counts: &[super::Count]| counts.iter().map(super::Count::get).sum::<u64>();
        for core in self.cores() {
            sample.requests += sum(&core.protocols);
            sample.server_errors += sum(&core.statuses[usize::from(500 - STATUSES.start)..]);
            sample.received_bytes += core.received_bytes.get();
            sample.sent_bytes += core.sent_bytes.get();
            sample.accepted += core.accepted.get();
            sample.connections += sum(&core.connections);
            sample.cache_hits += core.cache_hits.get();
            sample.cache_misses += core.cache_misses.get();
        }
        for (_, cores) in self.routes() {
            let hits: u64 = cores.iter().map(|route| sum(&route.hits)).sum();
            sample.requests += hits;
            sample.cache_hits += hits;
        }
        sample
    }
}
