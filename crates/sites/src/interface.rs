//! Makes the interface of a route from its configuration.

use std::sync::Arc;

use touchstone_accelerator::layer::CachedRoute;
use touchstone_config::{RouteConfig, SiteConfig, TraceConfig};
use touchstone_handler::handler::Interface;

use crate::services::{ServerShared, Services};
use crate::substitution::Substitution;
use crate::{
    accelerator, cgi, compression, nsapi, programs, proxy, python, servlet, shared_libraries, substitution,
    traced, wasm, webdav,
};

/// The interfaces that answer the requests of a route.
#[derive(Default)]
pub struct RouteInterface {
    /// The interface, if it has one.
    pub interface: Option<Arc<dyn Interface>>,
    /// The cache before it, if it has one.
    pub cache: Option<CachedRoute>,
    /// The interfaces before both, or before files; the first is called first.
    pub middleware: Vec<Arc<dyn Interface>>,
    /// Requests may be traced. They must be complete before they are passed on, with their trace context.
    pub is_traced: bool,
}

/// The interface of a route, if it has one; the error states the fault, with the name of the key.
pub fn open(route: &RouteConfig, site: &SiteConfig, shared: &ServerShared) -> Result<RouteInterface, String> {
    let services = &shared.services;
    let program = traced(open_program(route, site, services)?, route, site);
    let interface = substituted(program, route, site)?;
    let interface =
        interface.map(|program| compression::open(program, compression::settings_of(route, site)));
    let open = |config| wasm::open(config, "middleware", route, site, services);
    let middleware: Vec<_> = route.middleware.iter().map(open).collect::<Result<_, _>>()?;
    let is_traced = is_traced(route, site);
    let middleware = match is_traced {
        true => middleware.into_iter().map(|one| traced::open(one, "middleware")).collect(),
        false => middleware,
    };
    match (&route.cache, interface) {
        (Some(policy), Some(interface)) => {
            let (cache, interface) = accelerator::open(policy, route, site, &shared.accelerator, interface);
            Ok(RouteInterface { interface: Some(interface), cache: Some(cache), middleware, is_traced })
        }
        (_, interface) => Ok(RouteInterface { interface, cache: None, middleware, is_traced }),
    }
}

/// Adds tracing to an interface if requests of the route are traced. Requests to origins are traced at each
/// attempt.
fn traced(
    program: Option<Arc<dyn Interface>>,
    route: &RouteConfig,
    site: &SiteConfig,
) -> Option<Arc<dyn Interface>> {
    let program = program?;
    let name = program.name();
    match is_traced(route, site) && route.proxy.is_none() {
        true => Some(traced::open(program, name)),
        false => Some(program),
    }
}

/// Whether requests of a route may be traced.
fn is_traced(route: &RouteConfig, site: &SiteConfig) -> bool {
    TraceConfig::share(site.telemetry, route.telemetry).is_some()
}

/// Adds the replacement of texts to an interface if it is configured.
fn substituted(
    program: Option<Arc<dyn Interface>>,
    route: &RouteConfig,
    site: &SiteConfig,
) -> Result<Option<Arc<dyn Interface>>, String> {
    let config = route.delivery.substitute.as_ref().or(site.delivery.substitute.as_ref());
    let Some(substitution) = config.map(Substitution::open).transpose()?.flatten() else {
        return Ok(program);
    };
    Ok(program.map(|program| substitution::open(program, substitution)))
}

fn open_program(
    route: &RouteConfig,
    site: &SiteConfig,
    services: &Services,
) -> Result<Option<Arc<dyn Interface>>, String> {
    if let Some((_, message)) = shared_libraries::problem(route) {
        return Err(message);
    }
    match route {
        RouteConfig { proxy: Some(config), .. } => {
            Ok(Some(Arc::new(proxy::open(config, route, site, &services.origins)?)))
        }
        RouteConfig { nsapi: Some(nsapi), .. } => nsapi::open(nsapi, route, site).map(Some),
        RouteConfig { servlet: Some(servlet), .. } if !servlet.is_over_ajp => {
            servlet::open(servlet, route, site, &services.servlets).map(Some)
        }
        RouteConfig { wasm: Some(wasm), .. } => wasm::open(wasm, "wasm", route, site, services).map(Some),
        RouteConfig { webdav: Some(webdav), .. } => webdav::open(webdav, route, site, services).map(Some),
        RouteConfig { python: Some(python), .. } => {
            python::open(python, route, site, &services.python).map(Some)
        }
        RouteConfig { cgi: Some(cgi), .. } => cgi::open(cgi, route, site).map(Some),
        _ => programs::open(route, site, services),
    }
}
