//! The counters of a core, which connections update after each answer.
//!
//! An answer from the cache costs two additions in the core's own memory ([`CoreMetrics::hit`]). Reading a
//! clock would cost more than the rest of the count, so only one in a configured number of hits is timed.

use std::sync::Arc;
use std::time::Instant;

use touchstone_handler::answer::CacheResult;
use touchstone_handler::request::Protocol;

use super::core_counts::CoreCounts;
use super::registry::Metrics;
use super::route_counts::RouteCounts;
use super::route_table::RouteTable;

/// The facts about an answer that was not a plain hit.
#[derive(Debug, Clone, Copy)]
pub struct AnswerFacts<'t> {
    /// The sites and routes of the configuration under which it was answered.
    pub table: &'t Arc<RouteTable>,
    /// The site, by its position in the configuration; `None`: no site was found.
    pub site: Option<usize>,
    /// The route, by its position in the site; `None`: no route matched.
    pub route: Option<usize>,
    /// The protocol.
    pub protocol: Protocol,
    /// The status.
    pub status: u16,
    /// Bytes of the body that were sent.
    pub body_bytes: u64,
    /// When the whole request had arrived.
    pub started: Instant,
    /// The result of a cache before the program.
    pub cache: CacheResult,
}

/// The counters of one core.
pub struct CoreMetrics {
    registry: Arc<Metrics>,
    index: usize,
    counts: Arc<CoreCounts>,
    table: Arc<RouteTable>,
    /// By slot of the table; made when first needed.
    routes: Vec<Option<Arc<RouteCounts>>>,
    /// The hits of one in this many turns are timed; 0: none.
    hit_sampling: u32,
    /// Turns until the next one that is timed.
    until_sample: u32,
    /// When the turn began, if it is timed.
    sampled_at: Option<Instant>,
}

impl CoreMetrics {
    /// The counters of core `index`, for the sites and routes of `table`; one in `hit_sampling` turns of hits
    /// is timed. Must be called on the core's own thread.
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

    /// The counts that belong to no route.
    pub fn counts(&self) -> &Arc<CoreCounts> {
        &self.counts
    }

    /// Uses another configuration from now on; the counts are kept.
    pub fn apply_routes(&mut self, table: Arc<RouteTable>, hit_sampling: u32) {
        self.routes = vec![None; table.slots()];
        self.table = table;
        self.hit_sampling = hit_sampling;
        self.until_sample = hit_sampling;
        self.sampled_at = None;
    }

    /// Called before received bytes are processed: returns the time from which their hits are timed, if they
    /// are.
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

    /// The same if the time at which the request had arrived is already known.
    #[inline]
    pub fn begin_turn_at(&mut self, since: Instant) {
        self.begin_turn();
        self.sampled_at = self.sampled_at.map(|_| since);
    }

    /// When the present turn began, if the durations of its hits are measured.
    pub fn turn(&self) -> Option<Instant> {
        self.sampled_at
    }

    /// Continues the turn that began at this time, see [`CoreMetrics::turn`].
    pub fn resume_turn(&mut self, sampled_at: Option<Instant>) {
        self.sampled_at = sampled_at;
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
            // There was a reload in between: the slots have changed, but the names identify the routes.
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

    /// Publishes the traffic that this thread has counted.
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
