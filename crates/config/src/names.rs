//! What sites and routes are called in metrics and in messages.

use std::collections::HashMap;

use touchstone_observe::metrics::SiteNames;

use super::{RouteConfig, SiteConfig};

/// The names of all sites with their routes. Two sites may have the same first host, on other addresses; then
/// the address is part of the name.
pub fn names_of_sites(sites: &[SiteConfig]) -> Vec<SiteNames> {
    let names: Vec<String> = sites.iter().map(site_name).collect();
    let mut times: HashMap<&str, usize> = HashMap::new();
    names.iter().for_each(|name| *times.entry(name).or_default() += 1);
    let whole = |(site, name): (&SiteConfig, &String)| SiteNames {
        site: match site.listen.first() {
            Some(address) if !site.hosts.is_empty() && times[name.as_str()] > 1 => {
                format!("{name} {address}")
            }
            _ => name.clone(),
        },
        routes: route_names(&site.routes),
    };
    sites.iter().zip(&names).map(whole).collect()
}

/// What a site is called: its first host, or its first address.
pub fn site_name(site: &SiteConfig) -> String {
    match (site.hosts.first(), site.listen.first()) {
        (Some(host), _) => host.clone(),
        (None, Some(address)) => address.to_string(),
        (None, None) => "-".to_string(),
    }
}

/// What the routes of a site are called: what they match. Where several match the same path, the later ones
/// get a number.
fn route_names(routes: &[RouteConfig]) -> Vec<String> {
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
    use crate::parse;
    use std::path::Path;
    use touchstone_observe::metrics::RouteTable;

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
        let table = RouteTable::new(names_of_sites(&parse(text, Path::new("/a.toml")).unwrap().sites));
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
