//! The cache before programs and origins: opens the store of the configuration, and finds the routes that use
//! the cache.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustc_hash::FxHasher;
use touchstone_accelerator::disk::Disk;
use touchstone_accelerator::layer::{AcceleratedInterface, Accelerator, CachedRoute, ComposedInterface};
use touchstone_accelerator::rules::policy::{Esi, Policy};
use touchstone_accelerator::store::{Store, Tier};
use touchstone_config::{AcceleratorConfig, ProxyConfig, RouteConfig, SiteConfig};
use touchstone_expression::{Fact, Text, Variable};
use touchstone_handler::handler::{Interface, Level};
use touchstone_observe::log::error::ErrorLog;

use crate::compression;
use crate::memory_limit;

/// Puts the cache before the interface of a route whose configuration has `accelerate`.
pub fn open(
    policy: &Policy,
    route: &RouteConfig,
    site: &SiteConfig,
    accelerator: &Arc<Accelerator>,
    interface: Arc<dyn Interface>,
) -> (CachedRoute, Arc<dyn Interface>) {
    let cached = CachedRoute {
        accelerator: accelerator.clone(),
        policy: Arc::new(Policy { key_of_origin: key_of_origin(route), ..policy.clone() }),
        space: space(site, route),
    };
    let accelerated: Arc<dyn Interface> = Arc::new(AcceleratedInterface::new(cached.clone(), interface));
    if policy.esi == Esi::Off {
        return (cached, accelerated);
    }
    // The page and its parts are stored uncompressed; the composed page is compressed.
    let composed = Arc::new(ComposedInterface::new(accelerated, cached.clone(), &route.path));
    (cached, compression::open(composed, compression::settings_of(route, site)))
}

/// Opens the store, with its copies on disk if they are configured; the error states why it cannot be opened.
pub fn start(config: &AcceleratorConfig, error_log: &ErrorLog) -> Result<Arc<Accelerator>, String> {
    let disk = match &config.disk {
        None => None,
        Some(directory) => {
            let log = error_log.clone();
            let report = move |level: Level, message: &str| {
                let what = match level {
                    Level::Error | Level::Warning => "fault of the cache on disk",
                    Level::Information | Level::Debug => "cache on disk",
                };
                log.limited(level.into(), what, message);
            };
            let disk = Disk::open(directory, config.disk_bytes, report).map_err(|error| {
                format!("cannot use {} for the cache on disk: {error}", directory.display())
            })?;
            Some(Arc::new(disk) as Arc<dyn Tier>)
        }
    };
    let memory = memory_limit::cache_bytes(config.memory_bytes);
    Ok(Arc::new(Accelerator::new(Store::new(memory, disk))))
}

/// A hash that separates the stored answers of a site's route from those of others. It stays the same over
/// reloads and restarts as long as the site and what the route matches stay the same. Programs are part of
/// it; origins are not, because they may change while the server runs.
fn space(site: &SiteConfig, route: &RouteConfig) -> u64 {
    let mut hasher = FxHasher::default();
    site.hosts.hash(&mut hasher);
    site.listen.hash(&mut hasher);
    let RouteConfig { path, pattern, suffixes, methods, request_headers, .. } = route;
    (path, pattern, suffixes, methods, request_headers).hash(&mut hasher);
    // The base paths of the origins are part of it: they determine what is requested.
    route.proxy.as_ref().map(|proxy| (base_paths(proxy), &proxy.strip_prefix)).hash(&mut hasher);
    if let Some(proxy) = route.proxy.as_ref().filter(|proxy| !proxy.path.is_empty()) {
        proxy.path.hash(&mut hasher);
    }
    let RouteConfig { cgi, fastcgi, scgi, php, ajp, nsapi, servlet, wasm, python, .. } = route;
    format!("{cgi:?}{fastcgi:?}{scgi:?}{php:?}{ajp:?}{nsapi:?}{servlet:?}{wasm:?}{python:?}")
        .hash(&mut hasher);
    // Added only if there are some, so that answers which earlier versions stored on disk are still found.
    if let Some(uwsgi) = &route.uwsgi {
        format!("{uwsgi:?}").hash(&mut hasher);
    }
    if let Some(proxy) = route.proxy.as_ref().filter(|proxy| proxy.rewrites_answers()) {
        (proxy.rewrite_location, &proxy.location_prefixes).hash(&mut hasher);
        (&proxy.cookie_paths, &proxy.cookie_domains).hash(&mut hasher);
    }
    hasher.finish()
}

/// Fields that describe the client. Origins whose answers depend on them state this in `Vary`.
const NAMES_CLIENT: [&str; 3] = ["forwarded", "x-real-ip", "x-request-id"];

/// The values that the origins of a route receive and that may differ between requests with the same key. An
/// answer made with the value of one visitor must not be sent to another.
fn key_of_origin(route: &RouteConfig) -> Vec<Text> {
    let differs = |variable: &Variable| {
        !matches!(variable.fact, Fact::Map | Fact::Method | Fact::Path | Fact::Host | Fact::Scheme)
    };
    let names_client = |name: &str| {
        let name = name.to_ascii_lowercase();
        name.starts_with("x-forwarded-") || NAMES_CLIENT.contains(&name.as_str())
    };
    let set = route.proxy.iter().flat_map(|proxy| &proxy.forward.set);
    let in_key = set.filter(|(name, value)| !names_client(name) && value.uses(&differs));
    let of_fields = in_key.map(|(_, value)| value.clone());
    let targets = route.targets().filter_map(|(_, text)| route.target(text).ok());
    let of_targets = targets.flat_map(|target| target.values().cloned().collect::<Vec<_>>());
    of_fields.chain(of_targets.filter(|value| value.uses(&differs))).collect()
}

/// The paths in the URLs of the origins, each once.
fn base_paths(proxy: &ProxyConfig) -> BTreeSet<String> {
    proxy.origins().into_iter().map(|origin| origin.url.base_path).collect()
}
