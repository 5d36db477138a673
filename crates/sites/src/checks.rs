//! All checks of what a configuration needs from the machine, which the text alone does not show.

use touchstone_config::{Config, ConfigPlaces, ConfigProblem};

use crate::archives::check_archives;
use crate::machine::check_machine;
use crate::site_tls::check_certificates;

/// The problems that the machine, the certificates and the applications have with a configuration.
pub fn check_all(config: &Config, places: &ConfigPlaces) -> Vec<ConfigProblem> {
    let mut problems = check_machine(config, places);
    problems.extend(check_certificates(config, places));
    problems.extend(check_archives(config, places));
    problems
}
