//! What the admin listener sees of a running server: its cores, which it may ask, and what is configured now.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;

use touchstone_accelerator::layer::CachedRoute;
use touchstone_observe::metrics::Metrics;

use crate::accelerator::purge::PurgeOrder;
use crate::admin::Sources;
use crate::core_loop::Order;
use crate::session::CoreSessions;
use crate::site::Snapshot;

/// How long a core may take to answer before it counts as one that does not.
const PATIENCE: Duration = Duration::from_secs(1);

/// What can be seen.
pub struct OperatorView {
    metrics: Arc<Metrics>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    orders: Vec<UnboundedSender<Order>>,
    /// By address as configured, where it really listens.
    bound: BTreeMap<SocketAddr, SocketAddr>,
    listeners: Vec<String>,
    /// The routes that have the cache before their program.
    cached_routes: Vec<CachedRoute>,
    /// Most files and bytes of the file cache.
    cache_limits: Option<(u64, u64)>,
}

impl OperatorView {
    /// The view of a server that has no cores yet.
    pub fn new(metrics: Arc<Metrics>) -> Arc<OperatorView> {
        Arc::new(OperatorView { metrics, state: Mutex::default() })
    }

    /// A core began to work.
    pub fn add_core(&self, orders: UnboundedSender<Order>) {
        self.state().orders.push(orders);
    }

    /// An address is listened on.
    pub fn add_listener(&self, configured: SocketAddr, bound: SocketAddr) {
        self.state().bound.insert(configured, bound);
    }

    /// A configuration is in use from now on.
    pub fn show(&self, snapshot: &Snapshot) {
        self.metrics.use_cache(snapshot.cache.as_ref());
        self.metrics.use_accelerator(snapshot.accelerator.as_ref().map(|accelerator| &accelerator.store));
        let state = &mut *self.state();
        let url = |sites: &crate::site::ListenerSites| {
            let scheme = if sites.tls.is_some() { "https" } else { "http" };
            format!("{scheme}://{}", state.bound.get(&sites.address).unwrap_or(&sites.address))
        };
        state.listeners = snapshot.listeners.iter().map(url).collect();
        let rules = snapshot.sites.iter().filter_map(|site| site.rules.as_ref());
        state.cached_routes = rules.flat_map(|rules| rules.caches().cloned()).collect();
        state.cache_limits = snapshot.cache.as_ref().map(|cache| {
            let limits = cache.limits();
            (limits.files as u64, limits.bytes)
        });
    }

    /// Takes something out of the cache before programs and origins; gives how many responses that were.
    /// `None`: no route has one.
    pub fn purge(&self, order: &PurgeOrder) -> Option<usize> {
        let routes = self.state().cached_routes.clone();
        (!routes.is_empty()).then(|| order.carry_out(&routes))
    }

    /// Where the pages of the admin listener find what they show.
    pub fn sources(self: &Arc<OperatorView>, cores: usize) -> Sources {
        let [asks, lists, limits, purges] = [self.clone(), self.clone(), self.clone(), self.clone()];
        Sources {
            metrics: self.metrics.clone(),
            sessions: Arc::new(move |most| asks.ask_cores(most)),
            cores,
            listeners: Arc::new(move || lists.state().listeners.clone()),
            cache_limits: Arc::new(move || limits.state().cache_limits),
            purge: Arc::new(move |order| purges.purge(order)),
        }
    }

    /// Asks all cores at once; those that do not answer in time are missing.
    fn ask_cores(&self, most: usize) -> Vec<CoreSessions> {
        let (asker, answers) = channel();
        for orders in &self.state().orders {
            // One that has ended answers no more.
            let _ = orders.send(Order::Sessions(most, asker.clone()));
        }
        // When the last core has answered or gone, nobody is left to wait for.
        drop(asker);
        let until = Instant::now() + PATIENCE;
        let mut cores = Vec::new();
        while let Ok(core) = answers.recv_timeout(until.saturating_duration_since(Instant::now())) {
            cores.push(core);
        }
        cores.sort_by_key(|core: &CoreSessions| core.core);
        cores
    }

    /// No code that holds the lock can panic, so a poisoned one is as good as any.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
