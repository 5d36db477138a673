//! Opens the files of `[site.route.webdav]`.

use std::path::Path;
use std::sync::Arc;

use rustix::fs::Access;
use touchstone_config::{RouteConfig, SiteConfig, WebDavConfig, route_name, site_name};
use touchstone_files::mime::ContentTypes;
use touchstone_handler::handler::Interface;
use touchstone_handler::webdav_counts::Name;
use touchstone_webdav::{DavMethod, Settings, WebDav, problem_of_state};

use crate::file_access::{NO_ROOT, existing, may, symlink_policy};
use crate::services::Services;

/// Opens the files of a route. The error states the fault, with the name of the key.
pub fn open(
    webdav: &WebDavConfig,
    route: &RouteConfig,
    site: &SiteConfig,
    services: &Services,
) -> Result<Arc<dyn Interface>, String> {
    let files = route.files_of(site);
    let charset = Some(files.charset.as_str()).filter(|charset| !charset.is_empty());
    let content_types =
        ContentTypes::new(files.mime_types.clone(), charset).map_err(|error| format!("'webdav': {error}"))?;
    let settings = Settings {
        name: Name { site: site_name(site), route: route_name(&site.routes, route) },
        root: files.root.ok_or(NO_ROOT)?,
        mount: if route.alias.is_some() { route.path.clone().into_bytes() } else { b"/".to_vec() },
        symlinks: symlink_policy(files.symlinks),
        hidden_files: files.hidden_files,
        path_rules: site.path_rules(),
        content_types: Arc::new(content_types),
        methods: webdav.allowed(),
        state: webdav.state.clone(),
        infinite_depth: webdav.infinite_depth,
        most_entries: webdav.entries,
        xml_bytes: usize::try_from(webdav.xml_bytes).unwrap_or(usize::MAX),
        property_bytes: usize::try_from(webdav.properties).unwrap_or(usize::MAX),
        most_locks: webdav.locks,
        lock_timeout: webdav.lock_timeout,
        sync: webdav.sync,
        shares_paths: shares_paths(route, site),
    };
    let opened = WebDav::open(settings, &services.webdav, &services.counts, services.own_files.clone())
        .map_err(|message| format!("'webdav': {message}"))?;
    Ok(Arc::new(opened))
}

/// Whether another route of the site may answer requests for paths below those of a route: only a route
/// before it that answers all requests for its path can.
fn shares_paths(route: &RouteConfig, site: &SiteConfig) -> bool {
    let takes_all = route.pattern.is_empty()
        && route.suffixes.is_empty()
        && route.methods.is_empty()
        && route.request_headers.is_empty()
        && route.when.is_none()
        && route.try_files.is_empty()
        && !route.path.contains('*');
    let may_be_below = |other: &RouteConfig| {
        let is_plain = other.path.starts_with('/') && !other.path.contains('*');
        let (one, two) = (other.path.as_str(), route.path.as_str());
        !is_plain || one.starts_with(two) || two.starts_with(one)
    };
    let before = site.routes.iter().take_while(|other| !std::ptr::eq(*other, route));
    !takes_all || before.into_iter().any(may_be_below)
}

/// The faults of the directories of a route, with the keys of `webdav`.
pub fn problems(route: &RouteConfig, site: &SiteConfig) -> Vec<(&'static str, String)> {
    let Some(webdav) = &route.webdav else { return Vec::new() };
    let mut problems = Vec::new();
    let root = route.files_of(site).root.filter(|root| root.is_dir());
    // Another check reports a missing directory.
    let Some(root) = root else { return problems };
    if let Some(problem) = problem_of_state(&webdav.state, &root) {
        problems.push(("state", problem));
    } else if webdav.allowed().iter().any(|method| method.writes()) {
        problems.extend(not_writable(existing(&webdav.state)).map(|problem| ("state", problem)));
    }
    if webdav.allowed().contains(&DavMethod::Put) {
        problems.extend(not_writable(&root).map(|problem| ("write", problem)));
    }
    problems
}

fn not_writable(directory: &Path) -> Option<String> {
    let reason = may(directory, Access::WRITE_OK | Access::EXEC_OK, "cannot be written").err()?;
    Some(format!("{} {reason}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(path: &str) -> RouteConfig {
        RouteConfig { path: path.to_string(), ..RouteConfig::default() }
    }

    #[test]
    fn routes_before_may_have_paths_below() {
        let shares = |others: &[&str], own: RouteConfig| {
            let mut routes: Vec<RouteConfig> = others.iter().map(|path| route(path)).collect();
            routes.push(own);
            let site = SiteConfig { routes, ..SiteConfig::new(Some("/".into()), Vec::new()) };
            shares_paths(site.routes.last().unwrap(), &site)
        };
        assert!(!shares(&[], route("/dav/")));
        assert!(!shares(&["/app/", "/davs/"], route("/dav/")));
        assert!(shares(&["/dav/private/"], route("/dav/")));
        assert!(shares(&["/"], route("/dav/")));
        assert!(shares(&["**.php"], route("/dav/")));
        assert!(shares(&["=/dav/x"], route("/dav/")));
        assert!(shares(&[""], route("/dav/")));
        let some = RouteConfig { methods: vec!["GET".to_string()], ..route("/dav/") };
        assert!(shares(&[], some));
    }
}
