//! Finds broken archives of applications for `touchstone check`. The server itself starts without them: the
//! other applications of the route run, and a WAR that is replaced is started.

use touchstone_config::{Config, ConfigPlaces, ConfigProblem};
use touchstone_servlet::before_start::broken_archives;

/// The archives of all routes with `servlet` that cannot be unpacked, each at the key that names it.
pub fn check_archives(config: &Config, places: &ConfigPlaces) -> Vec<ConfigProblem> {
    let mut problems = Vec::new();
    for (position, site) in config.sites.iter().enumerate() {
        let site_places = places.sites.get(position);
        for (index, route) in site.routes.iter().enumerate() {
            let Some(servlet) = route.servlet.as_ref().filter(|servlet| !servlet.is_over_ajp) else {
                continue;
            };
            let key = if servlet.settings.app.is_some() { "app" } else { "directory" };
            let within = site_places.and_then(|places| places.table("route", index));
            let place = within.map(|within| within.key_below(&format!("servlet.{key}")));
            for (archive, reason) in broken_archives(&servlet.settings) {
                let message = format!("'servlet.{key}': {}: {reason}", archive.display());
                problems.push(places.problem(place, message));
            }
        }
    }
    problems
}
