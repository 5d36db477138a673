//! Makes the interface of `[site.route.nsapi]`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use touchstone_config::{NsapiConfig, RouteConfig, SiteConfig};
use touchstone_handler::handler::Interface;
use touchstone_nsapi::Settings;
use touchstone_nsapi::host::interface::{Nsapi, PluginIsolation};

/// Loads the plug-ins of a route; the error states the fault, with the name of the key.
pub fn open(
    nsapi: &NsapiConfig,
    route: &RouteConfig,
    site: &SiteConfig,
) -> Result<Arc<dyn Interface>, String> {
    let programs = crate::cgi::open_given(route, site)?;
    let started = Nsapi::start(&settings(nsapi, route, site), &hosting(nsapi), programs);
    let interface = started.map_err(|problems| format!("'nsapi': {}", problems.join("; ")))?;
    Ok(Arc::new(interface))
}

/// The faults of the files that a route names.
pub fn problems(nsapi: &NsapiConfig, route: &RouteConfig, site: &SiteConfig) -> Vec<String> {
    let settings = settings(nsapi, route, site);
    match nsapi.in_process_of_its_own {
        true => touchstone_nsapi::host::check_in_child(&settings),
        false => touchstone_nsapi::check(&settings),
    }
}

/// The directories that the configuration of a route's plug-ins names; the first one is that of the route.
pub fn directories(route: &RouteConfig, site: &SiteConfig) -> Vec<PathBuf> {
    let Some(nsapi) = &route.nsapi else { return Vec::new() };
    touchstone_nsapi::directories(&settings(nsapi, route, site))
}

/// The settings of a route's plug-ins.
fn settings(nsapi: &NsapiConfig, route: &RouteConfig, site: &SiteConfig) -> Settings {
    let root = route.root_in(site);
    let file = nsapi.obj_conf.as_ref().or(nsapi.magnus_conf.as_ref());
    let beside = file.and_then(|file| file.parent()).or(root.map(PathBuf::as_path)).unwrap_or(Path::new("/"));
    Settings {
        obj_conf: nsapi.obj_conf.clone(),
        magnus_conf: nsapi.magnus_conf.clone(),
        init: nsapi.init.clone(),
        directives: nsapi.directives.clone(),
        inline: nsapi.inline.clone(),
        document_root: root.cloned(),
        media_types: site.mime_types.clone(),
        directory: nsapi.directory.clone().unwrap_or_else(|| beside.to_path_buf()),
        server_name: site.hosts.first().cloned().unwrap_or_else(|| "localhost".to_string()),
        workers: nsapi.threads,
        is_check: false,
    }
}

fn hosting(nsapi: &NsapiConfig) -> PluginIsolation {
    PluginIsolation {
        in_process_of_its_own: nsapi.in_process_of_its_own,
        most_threads: nsapi.threads,
        most_waiting: nsapi.queue,
        time_limit: nsapi.function_timeout,
        stack_bytes: usize::try_from(nsapi.stack_bytes).unwrap_or(usize::MAX),
    }
}
