//! From a route's configuration to the interface that answers its requests.

use std::sync::Arc;

use touchstone_accelerator::layer::{Accelerator, CachedRoute};
use touchstone_interfaces::handler::Interface;
use touchstone_interfaces::proxy::{OriginUrl, Proxy, ProxySettings};

use crate::config::{ProxyConfig, RouteConfig, SiteConfig};
use crate::{accelerator, cgi, nsapi, programs};

/// What answers the requests of a route.
#[derive(Default)]
pub struct RouteInterface {
    /// The interface, if it has one.
    pub interface: Option<Arc<dyn Interface>>,
    /// The cache before it, if it has one.
    pub cache: Option<CachedRoute>,
}

/// The interface of a route, if it has one; the error says what is wrong, with the name of the key.
pub fn open(
    route: &RouteConfig,
    site: &SiteConfig,
    shared: &Arc<Accelerator>,
) -> Result<RouteInterface, String> {
    let interface = open_program(route, site)?;
    match (&route.cache, interface) {
        (Some(policy), Some(interface)) => {
            let (cache, interface) = accelerator::open(policy, route, site, shared, interface);
            Ok(RouteInterface { interface: Some(interface), cache: Some(cache) })
        }
        (_, interface) => Ok(RouteInterface { interface, cache: None }),
    }
}

fn open_program(route: &RouteConfig, site: &SiteConfig) -> Result<Option<Arc<dyn Interface>>, String> {
    match route {
        RouteConfig { proxy: Some(proxy), .. } => Ok(Some(Arc::new(open_proxy(proxy)?))),
        RouteConfig { cgi: Some(cgi), .. } => cgi::open(cgi, route, site).map(Some),
        RouteConfig { nsapi: Some(nsapi), .. } => nsapi::open(nsapi, route, site).map(Some),
        _ => programs::open(route, site),
    }
}

fn open_proxy(config: &ProxyConfig) -> Result<Proxy, String> {
    Ok(Proxy::new(ProxySettings {
        origin: OriginUrl::parse(&config.to).map_err(|problem| format!("'proxy.to': {problem}"))?,
        strip_prefix: config.strip_prefix.clone().into_bytes(),
        host: config.host,
        connect_timeout: config.connect_timeout,
        response_timeout: config.response_timeout,
        idle_timeout: config.idle_timeout,
        keep_alive_timeout: config.keep_alive_timeout,
        idle_connections: config.idle_connections,
    }))
}
