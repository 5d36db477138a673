//! The data of a running server for the admin listener: its cores, which it can query, and the current
//! configuration.

use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;
use touchstone_accelerator::layer::CachedRoute;
use touchstone_accelerator::purge::PurgeRequest;
use touchstone_admin::connection_info::CoreSessions;
use touchstone_admin::{ControlFunction, Sources};
use touchstone_config::ListenAddress;
use touchstone_control::{ControlError, ControlRequest, ControlResponse};
use touchstone_observe::metrics::Metrics;
use touchstone_sites::site::Snapshot;

use crate::process::core_loop::CoreOrder;

/// How long a core may take to answer. A later answer is ignored.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// The visible state of the server.
pub struct OperatorView {
    metrics: Arc<Metrics>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    orders: Vec<UnboundedSender<CoreOrder>>,
    /// Bound addresses by configured address.
    bound: BTreeMap<ListenAddress, ListenAddress>,
    listeners: Vec<String>,
    /// The routes with a cache before their program.
    cached_routes: Vec<CachedRoute>,
    /// The most files and bytes of the file cache.
    cache_limits: Option<(u64, u64)>,
    /// Executes requests to the control API, once the server runs.
    control: Option<ControlFunction>,
}

impl OperatorView {
    /// The view of a server that has no cores yet.
    pub fn new(metrics: Arc<Metrics>) -> Arc<OperatorView> {
        Arc::new(OperatorView { metrics, state: Mutex::default() })
    }

    /// Adds a core that has started.
    pub fn add_core(&self, orders: UnboundedSender<CoreOrder>) {
        self.state().orders.push(orders);
    }

    /// An address has a listener.
    pub fn add_listener(&self, configured: ListenAddress, bound: ListenAddress) {
        self.state().bound.insert(configured, bound);
    }

    /// Shows a configuration that is in use from now on.
    pub fn show(&self, snapshot: &Snapshot) {
        self.metrics.use_cache(snapshot.cache.as_ref());
        self.metrics.use_accelerator(snapshot.accelerator.as_ref().map(|accelerator| &accelerator.store));
        let state = &mut *self.state();
        let url = |sites: &touchstone_sites::site::ListenerSites| {
            let scheme = if sites.tls.is_some() { "https" } else { "http" };
            format!("{scheme}://{}", state.bound.get(&sites.address).unwrap_or(&sites.address))
        };
        let mut listeners: Vec<String> = snapshot.listeners.iter().map(url).collect();
        for stream in snapshot.streams.iter().map(|stream| &stream.config) {
            for address in &stream.listen {
                listeners.push(match stream.is_udp {
                    true => format!("udp://{address}"),
                    false => format!("tcp://{}", state.bound.get(address).unwrap_or(address)),
                });
            }
        }
        state.listeners = listeners;
        let rules = snapshot.sites.iter().filter_map(|site| site.rules.as_ref());
        state.cached_routes = rules.flat_map(|rules| rules.caches().cloned()).collect();
        state.cache_limits = snapshot.cache.as_ref().map(|cache| {
            let limits = cache.limits();
            (limits.files as u64, limits.bytes)
        });
    }

    /// Removes responses from the cache before programs and origins; returns how many. `None`: no route has a
    /// cache.
    pub fn purge(&self, order: &PurgeRequest) -> Option<usize> {
        let routes = self.state().cached_routes.clone();
        (!routes.is_empty()).then(|| order.carry_out(&routes))
    }

    /// Sets the executor of requests to the control API.
    pub fn control_by(&self, control: ControlFunction) {
        self.state().control = Some(control);
    }

    /// Executes a request to the control API.
    fn control(&self, request: ControlRequest) -> ControlResponse {
        let control = self.state().control.clone();
        match control {
            Some(control) => control(request),
            None => ControlError::new(503, "the server is starting").response(),
        }
    }

    /// The sources for the pages of the admin listener.
    pub fn sources(self: &Arc<OperatorView>, cores: usize) -> Sources {
        let [asks, lists, limits, purges] = [self.clone(), self.clone(), self.clone(), self.clone()];
        let controls = self.clone();
        Sources {
            metrics: self.metrics.clone(),
            sessions: Arc::new(move |most| asks.query_cores(most)),
            cores,
            listeners: Arc::new(move || lists.state().listeners.clone()),
            cache_limits: Arc::new(move || limits.state().cache_limits),
            purge: Arc::new(move |order| purges.purge(order)),
            control: Arc::new(move |call| controls.control(call)),
        }
    }

    /// Queries all cores at once; omits those that do not answer in time.
    fn query_cores(&self, most: usize) -> Vec<CoreSessions> {
        let (asker, answers) = channel();
        for orders in &self.state().orders {
            // A core that has ended does not answer.
            let _ = orders.send(CoreOrder::Sessions(most, asker.clone()));
        }
        // The wait ends once every core has answered or ended.
        drop(asker);
        let until = Instant::now() + ANSWER_TIMEOUT;
        let mut cores = Vec::new();
        while let Ok(core) = answers.recv_timeout(until.saturating_duration_since(Instant::now())) {
            cores.push(core);
        }
        cores.sort_by_key(|core: &CoreSessions| core.core);
        cores
    }

    /// The state. Code that holds the lock cannot panic, so a poisoned lock can be used.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
