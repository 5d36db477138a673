//! From a route's configuration to the interface that answers its requests.

use std::sync::Arc;

use touchstone_interfaces::handler::Interface;
use touchstone_interfaces::proxy::{OriginUrl, Proxy, ProxySettings};

use crate::config::{ProxyConfig, RouteConfig, SiteConfig};
use crate::{cgi, nsapi, programs, servlet};

/// The interface of a route, if it has one; the error says what is wrong, with the name of the key.
pub fn open(route: &RouteConfig, site: &SiteConfig) -> Result<Option<Arc<dyn Interface>>, String> {
    match route {
        RouteConfig { proxy: Some(proxy), .. } => Ok(Some(Arc::new(open_proxy(proxy)?))),
        RouteConfig { cgi: Some(cgi), .. } => cgi::open(cgi, route, site).map(Some),
        RouteConfig { nsapi: Some(nsapi), .. } => nsapi::open(nsapi, route, site).map(Some),
        RouteConfig { servlet: Some(servlet), .. } => servlet::open(servlet, route).map(Some),
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
