//! A core's hand in the metrics: what connections call when they have answered.
//!
//! An answer from the cache costs two additions in memory of the core's own ([`CoreMetrics::hit`]). Reading a
//! clock would cost more than the rest of the count, so only one in this many of them is timed.

use std::sync::Arc;
use std::time::Instant;

use touchstone_handler::answer::CacheResult;
use touchstone_handler::request::Protocol;

use super::core_counts::CoreCounts;
use super::registry::Metrics;
use super::route_counts::RouteCounts;
use super::route_table::RouteTable;

/// An answer that was no plain hit.
#[derive(Debug, Clone, Copy)]
pub struct AnswerFacts<'t> {
    /// The sites and routes of the configuration that it was answered by.
    pub table: &'t Arc<RouteTable>,
    /// The site, by its position in the configuration; `None` where none was found.
    pub site: Option<usize>,
    /// The route, by its position in the site; `None` where none matched.
    pub route: Option<usize>,
    /// The protocol.
    pub protocol: Protocol,
    /// The status.
    pub status: u16,
    /// Bytes of the body that were sent.
    pub body_bytes: u64,
    /// When the request was there.
    pub started: Instant,
    /// What a cache before the program did.
    pub cache: CacheResult,
}

/// One core's hand in the metrics.
pub struct CoreMetrics {
    registry: Arc<Metrics>,
    index: usize,
    counts: Arc<CoreCounts>,
    table: Arc<RouteTable>,
    /// By slot of the table; made when first needed.
    routes: Vec<Option<Arc<RouteCounts>>>,
    /// Every so manieth turn's hits are timed; 0: none.
    hit_sampling: u32,
    /// Turns until the next that is timed.
    until_sample: u32,
    /// When the turn began, if it is timed.
    sampled_at: Option<Instant>,
}

impl CoreMetrics {
    /// The hand of core `index`, for the sites and routes of `table`; one in `hit_sampling` turns of hits is
    /// timed. Call it on the core's own thread.
    pub fn new(
        registry: Arc<Metrics>,
        index: usize,
        table: Arc<RouteTable>,
        hit_sampling: u32,
    ) -> CoreMetrics {
        let counts = registry.register_core(index);
        counts.thread_id.set(u64::try_from(rustix::thread::gettid().as_raw_nonzero().get()).unwrap_or(0));
        let mut metrics = CoreMetrics {
            registry,
            index,
            counts,
            table: Arc::default(),
            routes: Vec::new(),
            hit_sampling: 0,
            until_sample: 0,
            sampled_at: None,
        };
        metrics.apply_routes(table, hit_sampling);
        metrics
    }

    /// The counts that are of no route.
    pub fn counts(&self) -> &Arc<CoreCounts> {
        &self.counts
    }

    /// Goes by another configuration from now on; what was counted stays.
    pub fn apply_routes(&mut self, table: Arc<RouteTable>, hit_sampling: u32) {
        self.routes = vec![None; table.slots()];
        self.table = table;
        self.hit_sampling = hit_sampling;
        self.until_sample = hit_sampling;
        self.sampled_at = None;
    }

    /// Received bytes are about to be looked at: says whether and since when their hits are timed.
    #[inline]
    pub fn begin_turn(&mut self) {
        self.sampled_at = None;
        if self.hit_sampling != 0 {
            self.until_sample -= 1;
            if self.until_sample == 0 {
                self.until_sample = self.hit_sampling;
                self.sampled_at = Some(Instant::now());
            }
        }
    }

    /// The same where it is known already since when its request is there.
    #[inline]
    pub fn begin_turn_at(&mut self, since: Instant) {
        self.begin_turn();
        self.sampled_at = self.sampled_at.map(|_| since);
    }

    /// A GET was answered with 200 straight from the cache.
    #[inline]
    pub fn hit(
        &mut self,
        site: usize,
        route: Option<usize>,
        protocol: Protocol,
        body_bytes: u64,
        is_accelerated: bool,
    ) {
        let slot = self.table.slot(Some(site), route);
        if self.routes.get(slot).is_none_or(Option::is_none) {
            self.open(slot);
        }
        let Some(Some(counts)) = self.routes.get(slot) else { return };
        counts.hits[protocol as usize].add(1);
        counts.body_bytes.add(body_bytes);
        if is_accelerated {
            counts.accelerated_hits.add(1);
        }
        if let Some(since) = self.sampled_at {
            counts.hit_took(nanoseconds_since(since), u64::from(self.hit_sampling));
        }
    }

    /// A request was answered in any other way.
    pub fn answered(&mut self, answered: &AnswerFacts<'_>) {
        self.counts.protocols[answered.protocol as usize].add(1);
        self.counts.status(answered.status).add(1);
        let slot = answered.table.slot(answered.site, answered.route);
        let took_ns = nanoseconds_since(answered.started);
        if !Arc::ptr_eq(answered.table, &self.table) {
            // A reload came between: the slots are others now, the names count.
            let labels = answered.table.labels_of(answered.site, answered.route);
            let counts = self.registry.route_counts(self.index, labels);
            return counts.answered(answered.status, answered.body_bytes, took_ns, answered.cache);
        }
        if self.routes.get(slot).is_none_or(Option::is_none) {
            self.open(slot);
        }
        if let Some(Some(counts)) = self.routes.get(slot) {
            counts.answered(answered.status, answered.body_bytes, took_ns, answered.cache);
        }
    }

    /// Brings what others see of the traffic up to what this thread has counted.
    pub fn publish(&self, connections: [u64; 4]) {
        let (received, sent) = super::traffic::totals();
        self.counts.received_bytes.set(received);
        self.counts.sent_bytes.set(sent);
        for (count, now) in self.counts.connections.iter().zip(connections) {
            count.set(now);
        }
    }

    #[cold]
    fn open(&mut self, slot: usize) {
        if let (Some(labels), Some(place)) = (self.table.labels(slot), self.routes.get_mut(slot)) {
            *place = Some(self.registry.route_counts(self.index, labels));
        }
    }
}

fn nanoseconds_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
