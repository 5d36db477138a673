//! Opens the control API of a server that starts.

use std::path::Path;
use std::sync::Arc;

use touchstone_config::Config;
use touchstone_control::{ControlApi, order_origins};
use touchstone_observe::log::error::ErrorLog;
use touchstone_observe::metrics::Metrics;

/// The control API, if the configuration has one; applies the operators' orders to the origins, before a core
/// selects one.
pub fn start(
    config: &Config,
    file: Option<&Path>,
    metrics: &Arc<Metrics>,
    error_log: &ErrorLog,
) -> Option<ControlApi> {
    let file = file.filter(|_| config.control.enabled)?;
    let open = || {
        let opened = touchstone_control::open(file)
            .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
        ControlApi::new(opened, error_log.clone(), metrics)
    };
    match open() {
        Ok(api) => {
            order_origins(metrics.origins(), api.orders());
            Some(api)
        }
        Err(problem) => {
            error_log.error(format_args!("there is no control API until the next reload: {problem}"));
            None
        }
    }
}
