//! The names of the sites and routes of a configuration, and their slots in the counts.

use super::route_counts::RouteLabels;

/// The names of a site and its routes.
#[derive(Debug)]
pub struct SiteNames {
    /// The site's name, which is unique.
    pub site: String,
    /// Its routes, in their order.
    pub routes: Vec<String>,
}

/// The sites and routes of a configuration, each with its own slot; slot 0 is for requests without a site.
#[derive(Debug)]
pub struct RouteTable {
    labels: Vec<RouteLabels>,
    /// By site, the slot of requests that match no route of it; its routes follow.
    first: Vec<usize>,
}

impl Default for RouteTable {
    fn default() -> RouteTable {
        RouteTable { labels: vec![no_site()], first: Vec::new() }
    }
}

impl RouteTable {
    /// The table of sites, in their order.
    pub fn new(sites: impl IntoIterator<Item = SiteNames>) -> RouteTable {
        let mut table = RouteTable::default();
        for SiteNames { site, routes } in sites {
            table.first.push(table.labels.len());
            table.labels.push(RouteLabels { site: site.clone(), route: "-".to_string() });
            table.labels.extend(routes.into_iter().map(|route| RouteLabels { site: site.clone(), route }));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_site_and_route_has_a_slot() {
        let names = |site: &str, routes: &[&str]| SiteNames {
            site: site.to_string(),
            routes: routes.iter().map(ToString::to_string).collect(),
        };
        let table = RouteTable::new([names("a", &["/x/", "/y/"]), names("b", &[])]);
        assert_eq!(table.slots(), 5);
        let slots = [(None, None), (Some(0), None), (Some(0), Some(1)), (Some(1), None), (Some(9), None)];
        let found = slots.map(|(site, route)| {
            let labels = table.labels_of(site, route);
            (table.slot(site, route), labels.site.as_str(), labels.route.as_str())
        });
        assert_eq!(found, [(0, "-", "-"), (1, "a", "-"), (3, "a", "/y/"), (4, "b", "-"), (0, "-", "-")]);
    }
}
