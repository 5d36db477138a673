//! Starts the applications of `[site.route.servlet]`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use touchstone_config::{LogLevel, RouteConfig, ServletConfig, SiteConfig};
use touchstone_handler::handler::Interface;
use touchstone_observe::log::error::ErrorLog;
use touchstone_observe::log::{LineBudget, message_lines};
use touchstone_servlet::ServletRoutes;
use touchstone_servlet::interface::Servlets;
use touchstone_servlet::settings::{Names, RouteSettings};

/// The most lines a second that Java and its applications may write to the log. Of further messages only the
/// first lines are written.
const LINES_A_SECOND: usize = 2_000;

/// Starts the applications of a route in the background. The error states the fault, with the name of the
/// key.
pub fn open(
    servlet: &ServletConfig,
    route: &RouteConfig,
    site: &SiteConfig,
    routes: &ServletRoutes,
) -> Result<Arc<dyn Interface>, String> {
    if let Some((key, message)) = problems(servlet, route).into_iter().next() {
        return Err(format!("'servlet.{key}': {message}"));
    }
    let names = Names {
        site: touchstone_config::site_name(site),
        route: touchstone_config::route_name(&site.routes, route),
    };
    let settings = RouteSettings { site: site_key(site), names, ..servlet.for_route(&route.path) };
    let servlets = Servlets::open(&servlet.java.settings, &settings, routes)
        .map_err(|message| format!("'servlet': {message}"))?;
    Ok(Arc::new(servlets))
}

/// A name for a site. It stays the same as long as the site's first host and address do.
fn site_key(site: &SiteConfig) -> String {
    let listen = site.listen.first().map(ToString::to_string).unwrap_or_default();
    format!("{}@{listen}", site.hosts.first().map_or("", String::as_str))
}

/// The faults of the settings of a route, with the keys.
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

/// The same for applications in other containers. These have their own settings, and a setting that an
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
    let (error_log, budget) = (error_log.clone(), Mutex::new(LineBudget::new(LINES_A_SECOND)));
    touchstone_servlet::log_to(Arc::new(move |level, message| {
        let level = match level {
            0 => LogLevel::Error,
            1 => LogLevel::Warning,
            2 => LogLevel::Info,
            _ => LogLevel::Debug,
        };
        // One message keeps its lines together.
        let mut budget = budget.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<String> = message_lines("java", message).collect();
        if budget.takes(lines.len(), Instant::now()) {
            lines.iter().for_each(|line| error_log.write(level, line));
        } else if let Some(first) = lines.first() {
            error_log.limited(
                level,
                "java: too many lines a second",
                format_args!("{first} (no more lines)"),
            );
        }
    }));
}
