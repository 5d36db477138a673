//! Starts the applications of `[site.route.servlet]`.

use std::sync::{Arc, Mutex, PoisonError};

use touchstone_config::{LogLevel, RouteConfig, ServletConfig, SiteConfig};
use touchstone_handler::handler::Interface;
use touchstone_observe::log::error::ErrorLog;
use touchstone_observe::log::message_lines;
use touchstone_servlet::interface::Servlets;
use touchstone_servlet::settings::RouteSettings;

/// Starts the applications of a route, beside the server. The error says what is wrong, with the name of the
/// key.
pub fn open(
    servlet: &ServletConfig,
    route: &RouteConfig,
    site: &SiteConfig,
) -> Result<Arc<dyn Interface>, String> {
    if let Some((key, message)) = problems(servlet, route).into_iter().next() {
        return Err(format!("'servlet.{key}': {message}"));
    }
    let settings = RouteSettings { site: site_name(site), ..servlet.for_route(&route.path) };
    let servlets = Servlets::open(&servlet.java.settings, &settings)
        .map_err(|message| format!("'servlet': {message}"))?;
    Ok(Arc::new(servlets))
}

/// A name for a site; it stays the same as long as the site's first host and address do.
fn site_name(site: &SiteConfig) -> String {
    let listen = site.listen.first().map(ToString::to_string).unwrap_or_default();
    format!("{}@{listen}", site.hosts.first().map_or("", String::as_str))
}

/// What is wrong with the settings of a route, with the keys.
pub fn problems(servlet: &ServletConfig, route: &RouteConfig) -> Vec<(&'static str, String)> {
    let settings = &servlet.settings;
    let mut problems = Vec::new();
    if servlet.is_over_ajp {
        return problems_over_ajp(settings, route);
    }
    match (&settings.app, &settings.directory) {
        (None, None) => problems.push(("app", "there is neither 'app' nor 'directory'".to_string())),
        (Some(_), Some(_)) => {
            problems.push(("directory", "'app' and 'directory' cannot both be set".to_string()));
        }
        (Some(app), None) if !app.exists() => {
            problems.push(("app", format!("there is no {}", app.display())));
        }
        (None, Some(directory)) if !directory.is_dir() => {
            problems.push(("directory", format!("{} is not a directory", directory.display())));
        }
        _ => {}
    }
    if let Some(users) = &settings.users
        && !users.is_file()
    {
        problems.push(("users", format!("there is no {}", users.display())));
    }
    problems
}

/// The same for applications in containers elsewhere. These have their own settings, and a setting that an
/// operator relies on must not be ignored silently.
fn problems_over_ajp(settings: &RouteSettings, route: &RouteConfig) -> Vec<(&'static str, String)> {
    let mut problems = Vec::new();
    if route.ajp.is_none() {
        let message = "\"ajp\" needs 'ajp' beside 'servlet', with the 'backends' that have the applications";
        problems.push(("isolation", message.to_string()));
    }
    if settings.users.is_some() {
        let message = "with isolation = \"ajp\" users are the containers' own: \
                       name them in a Realm of their server.xml";
        problems.push(("users", message.to_string()));
    }
    if !settings.node.is_empty() {
        let message = "with isolation = \"ajp\" this is the containers' jvmRoute, \
                       which 'route=' in 'ajp.backends' names";
        problems.push(("node", message.to_string()));
    }
    problems
}

/// Lets Java and the applications write their events to the error log.
pub fn log_to(error_log: &ErrorLog) {
    let (error_log, turn) = (error_log.clone(), Mutex::new(()));
    touchstone_servlet::log_to(Arc::new(move |level, message| {
        let level = match level {
            0 => LogLevel::Error,
            1 => LogLevel::Warning,
            2 => LogLevel::Info,
            _ => LogLevel::Debug,
        };
        // This keeps the lines of a message together.
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        for line in message_lines("java", message) {
            error_log.write(level, line);
        }
    }));
}

/// Begins to open a configuration. What it does not [open] ends with its requests once it is
/// [applied](taken_up).
pub fn begin_configuration() {
    touchstone_servlet::begin_configuration();
}

/// Applies the configuration that was opened last.
pub fn taken_up() {
    touchstone_servlet::end_unwanted();
}

/// Stops the applications, and waits until they have stopped.
pub fn stop() {
    touchstone_servlet::stop();
}
