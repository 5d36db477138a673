//! From a route's configuration to the interface that answers its requests.

use std::sync::Arc;

use touchstone_interfaces::handler::Interface;

use crate::config::{RouteConfig, SiteConfig};
use crate::{cgi, nsapi, programs, proxy};

/// The interface of a route, if it has one; the error says what is wrong, with the name of the key.
pub fn open(route: &RouteConfig, site: &SiteConfig) -> Result<Option<Arc<dyn Interface>>, String> {
    match route {
        RouteConfig { proxy: Some(config), .. } => Ok(Some(Arc::new(proxy::open(config, route, site)?))),
        RouteConfig { nsapi: Some(nsapi), .. } => nsapi::open(nsapi, route, site).map(Some),
        RouteConfig { cgi: Some(cgi), .. } => cgi::open(cgi, route, site).map(Some),
        _ => programs::open(route, site),
    }
}
