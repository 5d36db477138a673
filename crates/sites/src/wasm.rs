//! Makes the interface of `[site.route.wasm]`.

use std::path::Path;
use std::sync::Arc;

use touchstone_config::{Config, RouteConfig, SiteConfig, WasmConfig, wasm_directory};
use touchstone_handler::handler::Interface;

use crate::services::Services;

/// Creates what components need root's rights for, if a route has one. Called before the process gives up
/// these rights.
pub fn prepare(config: &Config) {
    let has_component = |route: &RouteConfig| route.wasm.is_some() || !route.middleware.is_empty();
    if config.sites.iter().flat_map(|site| &site.routes).any(has_component) {
        #[cfg(feature = "wasm")]
        touchstone_wasm::create_engines();
    }
}

/// Loads a component of a route, which the key `of` names; the error states the fault, with the name of the
/// key.
#[cfg(feature = "wasm")]
pub fn open(
    wasm: &WasmConfig,
    of: &str,
    route: &RouteConfig,
    site: &SiteConfig,
    services: &Services,
) -> Result<Arc<dyn Interface>, String> {
    if let Some((key, message)) = problems(wasm).into_iter().next() {
        return Err(format!("'{of}.{key}': {message}"));
    }
    let settings = settings(wasm, route, site, &services.origins);
    let settings = settings.map_err(|message| format!("'{of}.outgoing': {message}"))?;
    let component = touchstone_wasm::Wasm::open(settings, &services.wasm, &services.counts);
    component.map(|component| Arc::new(component) as _).map_err(|message| format!("'{of}': {message}"))
}

/// Reports that this program has no WebAssembly.
#[cfg(not(feature = "wasm"))]
pub fn open(
    _: &WasmConfig,
    of: &str,
    _: &RouteConfig,
    _: &SiteConfig,
    _: &Services,
) -> Result<Arc<dyn Interface>, String> {
    Err(format!("'{of}': {WITHOUT}"))
}

#[cfg(not(feature = "wasm"))]
const WITHOUT: &str = "this program was built without WebAssembly; build it with --features wasm";

/// The faults of the files that a route names, with the keys.
pub fn problems(wasm: &WasmConfig) -> Vec<(&'static str, String)> {
    let mut problems = Vec::new();
    #[cfg(not(feature = "wasm"))]
    problems.push(("component", WITHOUT.to_string()));
    match &wasm.component {
        None => problems.push(("component", "a file must be named".to_string())),
        Some(path) if !path.is_file() => {
            problems.push(("component", format!("there is no file {}", path.display())));
        }
        Some(_) => {}
    }
    for text in &wasm.directories {
        match wasm_directory(text) {
            Ok((_, path)) if Path::new(path).is_dir() => {}
            Ok((_, path)) => problems.push(("directories", format!("{path} is not a directory"))),
            Err(message) => problems.push(("directories", message)),
        }
    }
    problems
}

#[cfg(feature = "wasm")]
fn settings(
    wasm: &WasmConfig,
    route: &RouteConfig,
    site: &SiteConfig,
    groups: &touchstone_proxy::OriginGroups,
) -> Result<touchstone_wasm::Settings, String> {
    use touchstone_config::{route_name, site_name};
    use touchstone_proxy::{GroupName, Proxy};
    use touchstone_wasm::{Limits, Origin, Settings};

    let name = || GroupName { site: site_name(site), route: route_name(&site.routes, route) };
    let client = |(origin, config)| {
        let client = Arc::new(Proxy::new(crate::proxy::settings(&config, name())?, groups));
        Ok(Origin { origin: String::from(origin), client })
    };
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let pairs = |table: &std::collections::BTreeMap<String, String>| table.clone().into_iter().collect();
    let directories = wasm.directories.iter().filter_map(|text| wasm_directory(text).ok());
    Ok(Settings {
        component: wasm.component.clone().unwrap_or_default(),
        compiled: wasm.compiled.clone(),
        environment: pairs(&wasm.environment),
        config: pairs(&wasm.config),
        site: site_name(site),
        route: route_name(&site.routes, route),
        buckets: wasm.buckets.clone(),
        directories: directories.map(|(name, path)| (name.to_string(), path.into())).collect(),
        outgoing: wasm.clients().map(client).collect::<Result<_, String>>()?,
        reuse: u32::try_from(wasm.reuse).unwrap_or(u32::MAX),
        limits: Limits {
            memory_bytes: size(wasm.memory),
            computing: wasm.computing_timeout,
            answer: wasm.answer_timeout,
            concurrency: size(wasm.concurrency),
            bucket_bytes: size(wasm.bucket_size),
            body_bytes: wasm.body_size,
            output_bytes: size(wasm.output_size),
        },
    })
}
