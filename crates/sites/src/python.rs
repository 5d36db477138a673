//! Opens the applications of `[site.route.python]`.

use std::sync::{Arc, Mutex, PoisonError};

use touchstone_config::{LogLevel, PythonConfig, RouteConfig, SiteConfig};
use touchstone_handler::handler::{Interface, Level};
use touchstone_observe::log::error::ErrorLog;
use touchstone_observe::log::message_lines;
use touchstone_processes::user::User;
use touchstone_python::{Python, PythonPools, RouteNames};

/// Starts the workers of a route in the background. The error states the fault, with the name of the key.
pub fn open(
    python: &PythonConfig,
    route: &RouteConfig,
    site: &SiteConfig,
    pools: &PythonPools,
) -> Result<Arc<dyn Interface>, String> {
    if let Some((key, message)) = problems(python).into_iter().next() {
        return Err(format!("'python.{key}': {message}"));
    }
    let names = RouteNames {
        site: touchstone_config::site_name(site),
        route: touchstone_config::route_name(&site.routes, route),
    };
    let opened = Python::open(&python.settings, names, pools);
    Ok(Arc::new(opened.map_err(|message| format!("'python': {message}"))?))
}

/// The faults of the settings of a route, with the keys.
pub fn problems(python: &PythonConfig) -> Vec<(&'static str, String)> {
    let settings = &python.settings;
    let mut problems = Vec::new();
    if !settings.directory.is_dir() {
        problems.push(("directory", format!("{} is not a directory", settings.directory.display())));
    }
    if let Some(place) = &settings.virtual_environment
        && !place.exists()
    {
        problems.push(("virtualenv", format!("there is no {}", place.display())));
    }
    if !settings.user.is_empty()
        && let Err(message) = User::find(&settings.user)
    {
        problems.push(("user", message));
    }
    problems
}

/// Lets workers and applications write to the error log.
pub fn log_to(pools: &PythonPools, error_log: &ErrorLog) {
    let (error_log, turn) = (error_log.clone(), Mutex::new(()));
    pools.log_to(Arc::new(move |level, message| {
        let level = match level {
            Level::Error => LogLevel::Error,
            Level::Warning => LogLevel::Warning,
            Level::Information => LogLevel::Info,
            Level::Debug => LogLevel::Debug,
        };
        // One message keeps its lines together.
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        for line in message_lines("python", message) {
            error_log.write(level, line);
        }
    }));
}
