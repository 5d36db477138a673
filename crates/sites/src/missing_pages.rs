//! Files that a configuration names as pages and that are not there: the pages of errors, and fallbacks.
//!
//! The server starts without them, because a deployment may bring them later, and then answers with its own
//! pages.

use touchstone_config::{Config, ConfigPlaces, ConfigProblem, SectionPlaces, SiteConfig};
use touchstone_files::root::{OpenError, Root};

use crate::file_access::symlink_policy;

/// A notice for each page that is missing.
pub fn missing_pages(config: &Config, places: &ConfigPlaces) -> Vec<ConfigProblem> {
    let mut notices = Vec::new();
    for (site, section) in config.sites.iter().zip(&places.sites) {
        notices.extend(missing(site, "/", site, section, places));
        for (index, route) in site.routes.iter().enumerate() {
            let Some(section) = section.table("route", index) else { continue };
            let pages = SiteConfig {
                error_pages: route.error_pages.clone(),
                // That of the site is reported there.
                fallback: if route.fallback.is_empty() {
                    String::new()
                } else {
                    route.files_of(site).fallback
                },
                ..route.files_of(site)
            };
            let mount = if route.alias.is_some() { route.path.as_str() } else { "/" };
            notices.extend(missing(&pages, mount, site, section, places));
        }
    }
    notices
}

/// The missing pages of a site or a route, whose fallback is among its own files. Pages of errors are among
/// those of the site.
fn missing(
    pages: &SiteConfig,
    mount: &str,
    site: &SiteConfig,
    section: &SectionPlaces,
    places: &ConfigPlaces,
) -> Vec<ConfigProblem> {
    let notice = |key: &str, config: &SiteConfig, mount: &str, page: &str| {
        // A missing root is reported elsewhere.
        let root = Root::new(config.root.as_ref()?, symlink_policy(config.symlinks)).ok()?;
        let root = root.mounted_at(mount.as_bytes());
        let is_missing = matches!(root.facts(page.as_bytes()), Err(OpenError::NotFound));
        let place = root.place_of(page.as_bytes());
        let message = format!(
            "'{key}': there is no file {}; until there is, the built-in answer is sent",
            place.display()
        );
        is_missing.then(|| places.problem(Some(section.key(key)), message))
    };
    let fallback = Some(pages.fallback.as_str()).filter(|page| !page.is_empty());
    let fallback = fallback.and_then(|page| notice("fallback", pages, mount, page));
    let mut names: Vec<&String> = pages.error_pages.values().collect();
    names.sort();
    names.dedup();
    names.into_iter().filter_map(|page| notice("error_pages", site, "/", page)).chain(fallback).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use touchstone_config::load_text;

    use super::*;

    #[test]
    fn pages_that_are_not_there_are_named() {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().join("www");
        fs::create_dir_all(root.join("app")).unwrap();
        fs::write(root.join("index.html"), "").unwrap();
        fs::write(root.join("app/app.html"), "").unwrap();
        for (keys, expected) in [
            ("fallback = '/index.html'", vec![]),
            ("fallback = '/missing.html'", vec![(4, "'fallback': there is no file ")]),
            ("error_pages = { 404 = '/index.html' }", vec![]),
            (
                "error_pages = { 404 = '/a.html', 500 = '/b.html', 502 = '/b.html' }",
                vec![(4, "'error_pages': "), (4, "'error_pages': ")],
            ),
            ("[[site.route]]\npath = '/x/'\nfallback = '/y.html'", vec![(6, "'fallback'")]),
            ("fallback = '/y.html'\n[[site.route]]\npath = '/x/'\nlisting = 'html'", vec![(4, "'fallback'")]),
            ("[[site.route]]\npath = '/x/'\nalias = 'www/app'\nfallback = '/x/app.html'", vec![]),
            ("[[site.route]]\npath = '/x/'\nfallback = 'none'", vec![]),
            ("[[site.route]]\npath = '/x/'\nerror_pages = { 404 = '/z.html' }", vec![(6, "'error_pages'")]),
        ] {
            let text = format!("[[site]]\nlisten = ['127.0.0.1:80']\nroot = {root:?}\n{keys}\n");
            let loaded = load_text(&text, &top.path().join("site.toml")).unwrap();
            let found = missing_pages(&loaded.config, &loaded.places);
            let found: Vec<(usize, &str)> =
                found.iter().map(|notice| (notice.line, notice.message.as_str())).collect();
            assert_eq!(found.len(), expected.len(), "{keys}: {found:?}");
            for ((line, message), (expected_line, begin)) in found.iter().zip(expected) {
                assert!(*line == expected_line && message.starts_with(begin), "{keys}: {line}: {message}");
            }
        }
        let missing_root = load_text(
            "[[site]]\nlisten = ['127.0.0.1:80']\nroot = 'nowhere'\nfallback = '/a.html'\n",
            Path::new("/nonexistent/site.toml"),
        );
        let loaded = missing_root.unwrap();
        assert!(missing_pages(&loaded.config, &loaded.places).is_empty());
    }
}
