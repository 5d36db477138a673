//! How the answers of a site's routes are delivered: which texts are replaced in them, and how fast they are
//! sent.
//!
//! A site without such keys has no [`Deliveries`]; its requests cost one branch.

use std::sync::Arc;

use touchstone_config::{DeliveryConfig, SiteConfig};

use crate::substitution::Substitution;

/// The delivery of the answers of a route, or of requests that match no route.
#[derive(Clone)]
pub struct Delivery {
    /// Texts that are replaced.
    pub substitution: Option<Arc<Substitution>>,
    /// The speed at which a body is sent.
    pub rate: Option<SendRate>,
}

/// The speed at which a body is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendRate {
    /// The most bytes in a second.
    pub bytes_per_second: u64,
    /// The bytes that are sent before the limit applies.
    pub after_bytes: u64,
}

/// The deliveries of a site and of its routes.
pub struct Deliveries {
    of_site: Option<Delivery>,
    of_routes: Box<[Option<Delivery>]>,
}

impl Deliveries {
    /// Prepares the deliveries of a site; `None` if neither it nor a route has such keys.
    pub fn open(site: &SiteConfig) -> Result<Option<Deliveries>, String> {
        let of_site = open(&site.delivery)?;
        let of_routes: Box<[_]> = site
            .routes
            .iter()
            .map(|route| match route.delivery == DeliveryConfig::default() {
                true => Ok(of_site.clone()),
                false => open(&route.delivery.below(&site.delivery)),
            })
            .collect::<Result<_, _>>()?;
        let is_empty = of_site.is_none() && of_routes.iter().all(Option::is_none);
        Ok((!is_empty).then_some(Deliveries { of_site, of_routes }))
    }

    /// The delivery of a route's answers, or of requests that match no route.
    pub fn of(&self, route: Option<usize>) -> Option<&Delivery> {
        match route {
            Some(route) => self.of_routes.get(route)?.as_ref(),
            None => self.of_site.as_ref(),
        }
    }
}

fn open(config: &DeliveryConfig) -> Result<Option<Delivery>, String> {
    let substitution = match &config.substitute {
        Some(substitute) => Substitution::open(substitute)?,
        None => None,
    };
    let rate = config.limit_rate.filter(|rate| *rate > 0).map(|bytes_per_second| SendRate {
        bytes_per_second,
        after_bytes: config.limit_rate_after.unwrap_or_default(),
    });
    // The connection applies the minimum rates of clients itself.
    let is_empty = substitution.is_none() && rate.is_none() && !config.has_minimum_rate();
    Ok((!is_empty).then_some(Delivery { substitution, rate }))
}
