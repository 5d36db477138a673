//! The state of the metrics that all cores share: the places of their counters, and the counters of the
//! process as a whole.
//!
//! A core registers its counters once, and those of a route at the route's first request. Locks are taken
//! only then and when the metrics are read, never for a request.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use touchstone_accelerator::store::{Counters, Store, TierCounters};
use touchstone_files::cache::{CacheCounters, FileCache};
use touchstone_handler::service_counts::ServiceCounts;
use touchstone_proxy::OriginGroups;
use touchstone_python::PythonPools;
use touchstone_servlet::ServletRoutes;

use super::acme_counts::AcmeCounts;
use super::control_counts::ControlCounts;
use super::core_counts::CoreCounts;
use super::route_counts::{RouteCounts, RouteLabels};
use super::telemetry_counts::TelemetryCounts;
use crate::log::access::LostLines;

/// The most pairs of site and route that have their own counters, including those of former configurations.
/// Any others share one set of counters, so that a configuration that is generated again every hour cannot
/// fill memory.
const MOST_ROUTES: usize = 10_000;

/// The labels for all routes without their own counters.
const OTHERS: &str = "(others)";

/// What else the metrics read when they are requested.
#[derive(Default)]
pub struct MetricSources {
    /// The number of lines that the access log has lost.
    pub lost_lines: LostLines,
    /// The origins of the server.
    pub origins: Arc<OriginGroups>,
    /// The applications in Python of the server.
    pub python: Arc<PythonPools>,
    /// The routes with servlets of the server.
    pub servlets: Arc<ServletRoutes>,
    /// The counts of services of the server.
    pub counts: Arc<ServiceCounts>,
}

/// The metrics of the process.
pub struct Metrics {
    cores: Mutex<Vec<Arc<CoreCounts>>>,
    /// By labels, the counters of each core that has any.
    routes: Mutex<BTreeMap<RouteLabels, BTreeMap<usize, Arc<RouteCounts>>>>,
    cache: Mutex<CacheHistory>,
    accelerator: Mutex<Option<Arc<Store>>>,
    reloads: [AtomicU64; 2],
    generation: AtomicU64,
    applied_at: AtomicU64,
    draining: AtomicBool,
    started_at: f64,
    telemetry: Arc<TelemetryCounts>,
    control: Arc<ControlCounts>,
    acme: Arc<AcmeCounts>,
    sources: MetricSources,
}

/// The file cache. A reload replaces it with a new one, whose counters start at zero.
#[derive(Default)]
struct CacheHistory {
    current: Option<Weak<FileCache>>,
    /// The counters of former caches.
    evictions: u64,
    invalidations: u64,
    compressions: u64,
}

impl Metrics {
    /// Metrics of a process that starts now.
    pub fn new(sources: MetricSources) -> Arc<Metrics> {
        Arc::new(Metrics {
            cores: Mutex::default(),
            routes: Mutex::default(),
            cache: Mutex::default(),
            accelerator: Mutex::default(),
            reloads: [AtomicU64::new(0), AtomicU64::new(0)],
            generation: AtomicU64::new(1),
            applied_at: AtomicU64::new(unix_seconds() as u64),
            draining: AtomicBool::new(false),
            started_at: unix_seconds(),
            telemetry: Arc::default(),
            control: Arc::default(),
            acme: Arc::default(),
            sources,
        })
    }

    /// Sets the store of answers of programs and origins that is in use from now on, if there is one.
    pub fn use_accelerator(&self, store: Option<&Arc<Store>>) {
        *lock(&self.accelerator) = store.cloned();
    }

    /// The counters of its copies on disk, if there are any.
    pub fn accelerator_disk_counters(&self) -> Option<TierCounters> {
        let store = lock(&self.accelerator).clone();
        store.and_then(|store| store.tier().map(|tier| tier.counters()))
    }

    /// The counters of the store.
    pub fn accelerator_counters(&self) -> Option<Counters> {
        let store = lock(&self.accelerator).clone();
        store.map(|store| store.counters())
    }

    /// Sets the cache that is in use from now on.
    pub fn use_cache(&self, cache: Option<&Arc<FileCache>>) {
        let mut history = lock(&self.cache);
        if let Some(former) = history.current.take().and_then(|cache| cache.upgrade()) {
            let counters = former.counters();
            history.evictions += counters.evictions;
            history.invalidations += counters.invalidations;
            history.compressions += counters.compressions;
        }
        history.current = cache.map(Arc::downgrade);
    }

    /// Counts a reload that was applied.
    pub fn reload_applied(&self) {
        self.reloads[1].fetch_add(1, Ordering::Relaxed);
        self.generation.fetch_add(1, Ordering::Relaxed);
        self.applied_at.store(unix_seconds() as u64, Ordering::Relaxed);
    }

    /// Counts a reload that failed.
    pub fn reload_failed(&self) {
        self.reloads[0].fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that the server stops and finishes its requests.
    pub fn begin_drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether the server stops.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// How many reloads failed, and how many were applied.
    pub fn reloads(&self) -> [u64; 2] {
        [0, 1].map(|result| self.reloads[result].load(Ordering::Relaxed))
    }

    /// The configuration's generation, starting at 1, and since when it is in use (seconds since 1970).
    pub fn generation(&self) -> (u64, u64) {
        (self.generation.load(Ordering::Relaxed), self.applied_at.load(Ordering::Relaxed))
    }

    /// When the process began (seconds since 1970).
    pub fn started_at(&self) -> f64 {
        self.started_at
    }

    /// The counts of changes by the control API.
    pub fn control(&self) -> &Arc<ControlCounts> {
        &self.control
    }

    /// The counts of traces and metrics that are sent.
    pub fn telemetry(&self) -> &Arc<TelemetryCounts> {
        &self.telemetry
    }

    /// The counts of certificates from an authority.
    pub fn acme(&self) -> &Arc<AcmeCounts> {
        &self.acme
    }

    /// How many lines the access log has lost.
    pub fn lost_lines(&self) -> u64 {
        self.sources.lost_lines.count()
    }

    /// The origins of the server.
    pub fn origins(&self) -> &Arc<OriginGroups> {
        &self.sources.origins
    }

    /// The applications in Python of the server.
    pub fn python(&self) -> &PythonPools {
        &self.sources.python
    }

    /// The routes with servlets of the server.
    pub fn servlets(&self) -> &ServletRoutes {
        &self.sources.servlets
    }

    /// The counts of services of the server.
    pub fn counts(&self) -> &ServiceCounts {
        &self.sources.counts
    }

    /// The counters of every core, in their order.
    pub fn cores(&self) -> Vec<Arc<CoreCounts>> {
        lock(&self.cores).clone()
    }

    /// Each route's counters, one set for each core that has any.
    pub fn routes(&self) -> Vec<(RouteLabels, Vec<Arc<RouteCounts>>)> {
        let routes = lock(&self.routes);
        routes.iter().map(|(labels, cores)| (labels.clone(), cores.values().cloned().collect())).collect()
    }

    /// The counters of the file cache, including former ones; `None` if there is no cache.
    pub fn cache_counters(&self) -> Option<CacheCounters> {
        let history = lock(&self.cache);
        let now = history.current.as_ref().and_then(Weak::upgrade)?.counters();
        Some(CacheCounters {
            evictions: now.evictions + history.evictions,
            invalidations: now.invalidations + history.invalidations,
            compressions: now.compressions + history.compressions,
            ..now
        })
    }

    pub(super) fn register_core(&self, index: usize) -> Arc<CoreCounts> {
        let mut cores = lock(&self.cores);
        while cores.len() <= index {
            cores.push(Arc::default());
        }
        cores[index].clone()
    }

    pub(super) fn route_counts(&self, core: usize, labels: &RouteLabels) -> Arc<RouteCounts> {
        let mut routes = lock(&self.routes);
        if routes.len() >= MOST_ROUTES && !routes.contains_key(labels) {
            let others = RouteLabels { site: OTHERS.to_string(), route: OTHERS.to_string() };
            return routes.entry(others).or_default().entry(core).or_default().clone();
        }
        routes.entry(labels.clone()).or_default().entry(core).or_default().clone()
    }
}

fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |elapsed| elapsed.as_secs_f64())
}

/// Locks a mutex. Code that holds one of these locks cannot panic, so a poisoned lock can be used.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
