//! Opens the control API of a server that starts.

use std::path::Path;
use std::sync::Arc;

use touchstone_config::Config;
use touchstone_control::{ControlApi, apply_origin_overrides};
use touchstone_observe::log::error::ErrorLog;
use touchstone_observe::metrics::Metrics;

/// The control API, if the configuration has one; applies the operators' overrides to the origins,
/// before a core selects an origin.
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
            apply_origin_overrides(metrics.origins(), api.origin_overrides());
            Some(api)
        }
        Err(problem) => {
            error_log.error(format_args!("there is no control API until the next reload: {problem}"));
            None
        }
    }
}
