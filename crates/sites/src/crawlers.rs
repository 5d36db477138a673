//! The rules of a site and its routes on bots and other visitors, and the paths of their check.

use std::sync::Arc;

use touchstone_config::{CrawlersConfig, RouteConfig, SiteConfig, route_name, site_name};
use touchstone_crawlers::{Crawlers, endpoint};
use touchstone_http::request_view::RequestView;

use crate::services::ServerShared;

/// The rules of a site.
pub struct SiteCrawlers {
    of_site: Option<Arc<Crawlers>>,
    of_routes: Box<[Option<Arc<Crawlers>>]>,
    /// All rules, each once.
    all: Vec<Arc<Crawlers>>,
}

impl SiteCrawlers {
    /// Opens the rules of a site; `None`: it has none. The errors name the route.
    pub fn open(site: &SiteConfig, shared: &ServerShared) -> Result<Option<SiteCrawlers>, Vec<String>> {
        let name = site_name(site);
        let (report, services) = (shared.access.report(), &shared.services);
        let open = |config: &CrawlersConfig| {
            Crawlers::open(config, &name, report.clone(), &services.crawlers, &services.counts)
        };
        let of_site = match &site.access.crawlers {
            Some(config) => open(config).map_err(|problem| vec![problem])?,
            None => None,
        };
        let open_route = |route: &RouteConfig| match &route.access.crawlers {
            Some(config) => open(config)
                .map_err(|problem| vec![format!("route {}: {problem}", route_name(&site.routes, route))]),
            None => Ok(of_site.clone()),
        };
        let of_routes: Box<[_]> = site.routes.iter().map(open_route).collect::<Result<_, _>>()?;
        let mut all: Vec<Arc<Crawlers>> = Vec::new();
        for rules in of_site.iter().chain(of_routes.iter().flatten()) {
            if !all.iter().any(|other| Arc::ptr_eq(other, rules)) {
                all.push(rules.clone());
            }
        }
        Ok((!all.is_empty()).then_some(SiteCrawlers { of_site, of_routes, all }))
    }

    /// The rules of a route, by the route's position, or those of the site.
    #[inline]
    pub fn of(&self, route: Option<usize>) -> Option<&Arc<Crawlers>> {
        match route {
            Some(route) => self.of_routes.get(route)?.as_ref(),
            None => self.of_site.as_ref(),
        }
    }

    /// All rules, each once.
    pub fn all(&self) -> Vec<&Crawlers> {
        self.all.iter().map(|rules| &**rules).collect()
    }

    /// Whether the path of a request belongs to the check; this does not depend on its route.
    pub fn concerns(&self, request: &RequestView<'_>) -> bool {
        endpoint(request.path).is_some()
    }
}
