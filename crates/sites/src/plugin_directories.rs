//! Sites for the directories that an obj.conf names, in which its functions `parse-html` and `index-common`
//! find files.
//!
//! All other code identifies a file by a site and a path below its root. So each directory that an obj.conf
//! names is a site that no host leads to, as directories of routes are. The last such site is the whole disk.

use std::path::PathBuf;

use touchstone_config::{AccessConfig, SiteConfig};

use crate::nsapi;

/// The sites for the directories of a site's plug-ins.
pub fn of_plug_ins(site: &SiteConfig) -> Vec<SiteConfig> {
    let mut roots: Vec<PathBuf> = Vec::new();
    for route in site.routes.iter().filter(|route| route.nsapi.is_some()) {
        let named = nsapi::directories(route, site);
        let absolute = named.iter().filter_map(|root| std::path::absolute(root).ok());
        roots.extend(absolute.chain([PathBuf::from("/")]));
    }
    // If one contains another, the inner one is searched first.
    roots.sort_by_key(|root| std::cmp::Reverse(root.as_os_str().len()));
    roots.dedup();
    let place = |root| SiteConfig {
        root: Some(root),
        access: AccessConfig::default(),
        routes: Vec::new(),
        includes: Some(site.includes.clone().unwrap_or_default()),
        ..site.clone()
    };
    roots.into_iter().map(place).collect()
}
