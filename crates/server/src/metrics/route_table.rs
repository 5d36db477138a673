//! What the sites and routes of a configuration are called, and their slots in the counts.

use std::collections::HashMap;

use super::route_counts::RouteLabels;
use crate::config::{Config, RouteConfig, SiteConfig};

/// The sites and routes of a configuration, each with a slot of its own; slot 0 is for what reaches no site.
#[derive(Debug)]
pub struct RouteTable {
    labels: Vec<RouteLabels>,
    /// By site, the slot of what no route of it matches; its routes follow.
    first: Vec<usize>,
}

impl Default for RouteTable {
    fn default() -> RouteTable {
        RouteTable { labels: vec![no_site()], first: Vec::new() }
    }
}

impl RouteTable {
    /// The table of a configuration.
    pub fn new(config: &Config) -> RouteTable {
        let mut table = RouteTable::default();
        let names: Vec<String> = config.sites.iter().map(site_name).collect();
        let mut times: HashMap<&str, usize> = HashMap::new();
        names.iter().for_each(|name| *times.entry(name).or_default() += 1);
        for (position, site) in config.sites.iter().enumerate() {
            // Two sites may have the same first host, on other addresses.
            let repeated = times.get(names[position].as_str()).is_some_and(|times| *times > 1);
            let site_label = match (repeated, site.listen.first()) {
                (true, Some(address)) if !site.hosts.is_empty() => format!("{} {address}", names[position]),
                _ => names[position].clone(),
            };
            table.first.push(table.labels.len());
            table.labels.push(RouteLabels { site: site_label.clone(), route: "-".to_string() });
            for (route, name) in route_names(&site.routes).into_iter().enumerate() {
                debug_assert_eq!(table.labels.len(), table.first[position] + 1 + route);
                table.labels.push(RouteLabels { site: site_label.clone(), route: name });
            }
        }
        table
    }

    /// How many slots there are.
    pub fn slots(&self) -> usize {
        self.labels.len()
    }

    /// The slot of a route of a site.
    #[inline]
    pub fn slot(&self, site: Option<usize>, route: Option<usize>) -> usize {
        match site.and_then(|site| self.first.get(site)) {
            Some(first) => first + route.map_or(0, |route| route + 1),
            None => 0,
        }
    }

    /// The labels of a slot.
    pub fn labels(&self, slot: usize) -> Option<&RouteLabels> {
        self.labels.get(slot)
    }

    /// The labels of a site and route.
    pub fn labels_of(&self, site: Option<usize>, route: Option<usize>) -> &RouteLabels {
        let slot = self.slot(site, route);
        self.labels.get(slot).unwrap_or(&self.labels[0])
    }
}

fn no_site() -> RouteLabels {
    RouteLabels { site: "-".to_string(), route: "-".to_string() }
}

/// What a site is called: its first host, or its first address.
pub fn site_name(site: &SiteConfig) -> String {
    match (site.hosts.first(), site.listen.first()) {
        (Some(host), _) => host.clone(),
        (None, Some(address)) => address.to_string(),
        (None, None) => no_site().site,
    }
}

/// What the routes of a site are called: what they match. Where several match the same path, the later ones get a
/// number.
pub fn route_names(routes: &[RouteConfig]) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(routes.len());
    let mut seen: HashMap<String, usize> = HashMap::new();
    for route in routes {
        let what = if !route.path.is_empty() {
            route.path.clone()
        } else if !route.pattern.is_empty() {
            route.pattern.clone()
        } else if !route.suffixes.is_empty() {
            route.suffixes.join(" ")
        } else if !route.methods.is_empty() {
            route.methods.join(" ")
        } else {
            "*".to_string()
        };
        let times = seen.entry(what.clone()).and_modify(|times| *times += 1).or_insert(1);
        names.push(if *times == 1 { what } else { format!("{what} ({times})") });
    }
    names
}

/// What one of the routes of a site is called.
pub fn route_name(routes: &[RouteConfig], route: &RouteConfig) -> String {
    let position = routes.iter().position(|other| std::ptr::eq(other, route));
    position.and_then(|position| route_names(routes).into_iter().nth(position)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;
    use std::path::Path;

    #[test]
    fn names_of_sites_and_routes() {
        let text = "
            [[site]]
            hosts = ['a.example', 'b.example']
            listen = ['127.0.0.1:80']
            root = '/'
            route = [
                { path = '/old/', redirect = { to = '/new/' } },
                { path = '/old/', methods = ['POST'], respond = { status = 405 } },
                { suffixes = ['.php'] , respond = { status = 404 } },
                { methods = ['PUT'], respond = { status = 405 } },
            ]
            [[site]]
            listen = ['127.0.0.1:80']
            root = '/'
            [[site]]
            hosts = ['a.example']
            listen = ['127.0.0.1:81']
            root = '/'
        ";
        let table = RouteTable::new(&parse(text, Path::new("/a.toml")).unwrap());
        let labels = |site, route| {
            let labels = table.labels_of(site, route);
            (labels.site.as_str(), labels.route.as_str())
        };
        assert_eq!(labels(None, None), ("-", "-"));
        assert_eq!(labels(Some(0), None), ("a.example 127.0.0.1:80", "-"));
        assert_eq!(labels(Some(0), Some(0)), ("a.example 127.0.0.1:80", "/old/"));
        assert_eq!(labels(Some(0), Some(1)).1, "/old/ (2)");
        assert_eq!(labels(Some(0), Some(2)).1, ".php");
        assert_eq!(labels(Some(0), Some(3)).1, "PUT");
        assert_eq!(labels(Some(1), None), ("127.0.0.1:80", "-"));
        assert_eq!(labels(Some(2), None), ("a.example 127.0.0.1:81", "-"));
        assert_eq!(labels(Some(9), None), ("-", "-"));
        assert_eq!(table.slots(), 8);
    }
}
