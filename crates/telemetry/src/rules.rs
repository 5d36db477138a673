//! Which part of the requests of each site and route is traced, and whose trace context is accepted, as
//! configured.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use touchstone_config::{AcceptParent, Config, Millionths, TraceConfig};
use touchstone_handler::trace::SpanSink;

use crate::queue::SpanQueue;

/// All requests, in millionths.
pub const ALL: Millionths = 1_000_000;

/// The rules of one configuration. They never change.
pub struct TraceRules {
    usual: Millionths,
    sites: Box<[SiteShares]>,
    /// The largest share of all.
    pub(crate) largest: Millionths,
    accept: AcceptParent,
    /// Whether requests of some clients have to be searched for a trace context.
    needs_parents: bool,
    budget: Mutex<Budget>,
    /// Whether spans have the query.
    pub has_query: bool,
    pub(crate) queue: Arc<SpanQueue>,
}

/// The shares of a site and its routes; `None`: it is not traced.
struct SiteShares {
    site: Option<Millionths>,
    routes: Box<[Option<Millionths>]>,
}

/// Requests that are recorded because clients request it: a bucket of tokens for one second.
struct Budget {
    a_second: f64,
    left: f64,
    filled: Instant,
}

impl TraceRules {
    /// The rules of a configuration; `None` if it names no collector.
    pub fn new(config: &Config, queue: &Arc<SpanQueue>) -> Option<Arc<TraceRules>> {
        let telemetry = &config.telemetry;
        if !telemetry.is_on() {
            return None;
        }
        let sites = config.sites.iter().map(|site| {
            let routes = site.routes.iter().map(|route| TraceConfig::share(site.telemetry, route.telemetry));
            SiteShares { site: TraceConfig::share(site.telemetry, None), routes: routes.collect() }
        });
        let sites: Box<[SiteShares]> = sites.collect();
        let all = sites.iter().flat_map(|shares| shares.routes.iter().chain([&shares.site]));
        let largest = all.copied().flatten().chain([telemetry.sample]).max().unwrap_or_default();
        let a_second = f64::from(telemetry.parent_rate);
        let budget = Budget { a_second, left: a_second, filled: Instant::now() };
        Some(Arc::new(TraceRules {
            usual: telemetry.sample,
            sites,
            largest,
            accept: telemetry.parent,
            needs_parents: match telemetry.parent {
                AcceptParent::Never => false,
                AcceptParent::Proxies => !config.proxies.trusted.is_empty(),
                AcceptParent::Always => true,
            },
            budget: Mutex::new(budget),
            has_query: telemetry.query,
            queue: queue.clone(),
        }))
    }

    /// Which part of the requests of a site and route is traced, in millionths; `None`: they are not traced.
    pub fn share(&self, site: Option<usize>, route: Option<usize>) -> Option<Millionths> {
        let Some(shares) = site.and_then(|site| self.sites.get(site)) else { return Some(self.usual) };
        let of_route = route.and_then(|route| shares.routes.get(route));
        of_route.copied().unwrap_or(shares.site)
    }

    /// Whether the trace context of a request is accepted.
    pub(crate) fn accepts(&self, is_from_proxy: bool) -> bool {
        match self.accept {
            AcceptParent::Never => false,
            AcceptParent::Proxies => is_from_proxy,
            AcceptParent::Always => true,
        }
    }

    /// Whether a request has to be searched for a trace context. The sender is determined if it is relevant.
    #[inline]
    pub(crate) fn needs_parent(&self, is_from_proxy: impl FnOnce() -> bool) -> bool {
        self.needs_parents && self.accepts(is_from_proxy())
    }

    /// Whether another request may be recorded because a client that is not a trusted proxy requests it.
    pub(crate) fn spend(&self) -> bool {
        let mut budget = self.budget.lock().unwrap_or_else(PoisonError::into_inner);
        budget.spend(Instant::now())
    }

    /// The sink of the spans.
    pub(crate) fn sink(&self) -> Arc<dyn SpanSink> {
        self.queue.clone()
    }
}

impl Budget {
    fn spend(&mut self, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.filled).as_secs_f64();
        self.filled = now;
        self.left = (self.left + since * self.a_second).min(self.a_second);
        let may = self.left >= 1.0;
        if may {
            self.left -= 1.0;
        }
        may
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::path::Path;
    use std::time::Duration;

    /// The rules of a configuration with a collector.
    pub(crate) fn rules(telemetry: &str, site: &str) -> Arc<TraceRules> {
        let text = format!(
            "[telemetry]\nendpoint = 'http://127.0.0.1:1'\n{telemetry}\n[[site]]\nlisten = ['127.0.0.1:1']\n\
             root = '/'\n{site}"
        );
        let config = touchstone_config::parse(&text, Path::new("/a.toml")).unwrap();
        let queue = SpanQueue::new(Arc::default());
        queue.set_most(100_000);
        TraceRules::new(&config, &queue).unwrap()
    }

    #[test]
    fn routes_do_as_sites_and_sites_as_the_server() {
        let rules = rules(
            "sample = 0.1",
            "[[site.route]]\npath = '/a'\ntelemetry = 'off'\n[[site.route]]\npath = '/b'\n\
             telemetry = { sample = 1 }\n[[site.route]]\npath = '/c'\nrespond = { status = 204 }\n",
        );
        assert_eq!(rules.share(None, None), Some(100_000));
        assert_eq!(rules.share(Some(0), None), Some(100_000));
        assert_eq!(
            [0, 1, 2].map(|route| rules.share(Some(0), Some(route))),
            [None, Some(ALL), Some(100_000)]
        );
        assert_eq!(rules.largest, ALL);
    }

    #[test]
    fn a_budget_is_for_each_second() {
        let began = Instant::now();
        let mut budget = Budget { a_second: 2.0, left: 2.0, filled: began };
        let spent = |budget: &mut Budget, at_ms| budget.spend(began + Duration::from_millis(at_ms));
        assert!(spent(&mut budget, 0) && spent(&mut budget, 1) && !spent(&mut budget, 2));
        assert!(spent(&mut budget, 600) && !spent(&mut budget, 700));
        let far = 100_000;
        assert!(spent(&mut budget, far) && spent(&mut budget, far) && !spent(&mut budget, far));
        let mut none = Budget { a_second: 0.0, left: 0.0, filled: began };
        assert!(!spent(&mut none, far));
    }
}
