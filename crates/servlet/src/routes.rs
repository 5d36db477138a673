//! The routes with applications that are in use.
//!
//! A reloaded configuration keeps the routes that it does not change. A route that it changes or removes gets
//! no more requests. The handlers of its requests keep it until the last one has ended or its `drain_timeout`
//! is over.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::engine;
use crate::isolated::Child;
use crate::route::Route;
use crate::route_state::RouteState;
use crate::settings::{Isolation, JavaSettings, RouteSettings};

/// Routes that are in use.
struct ActiveRoutes {
    routes: Vec<RouteUse>,
    /// The number of the configuration that is being opened, or was opened last.
    configuration: u64,
}

/// A route with the number of the last configuration that uses it.
struct RouteUse {
    route: Weak<Route>,
    by: u64,
}

static IN_USE: Mutex<ActiveRoutes> = Mutex::new(ActiveRoutes { routes: Vec::new(), configuration: 0 });

fn in_use() -> MutexGuard<'static, ActiveRoutes> {
    IN_USE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Called when a configuration is being opened. It then [gets](get) the routes that it uses.
pub fn begin_configuration() {
    in_use().configuration += 1;
}

/// Called when the configuration is in use. Routes that it does not use end with their last requests.
pub fn end_unwanted() {
    let mut in_use = in_use();
    let configuration = in_use.configuration;
    let unwanted: Vec<RouteUse> = in_use.routes.extract_if(.., |wanted| wanted.by < configuration).collect();
    drop(in_use);
    unwanted.iter().filter_map(|wanted| wanted.route.upgrade()).for_each(|route| route.drain());
}

/// The routes that the present configuration uses.
pub fn in_use_now() -> Vec<Arc<Route>> {
    let in_use = in_use();
    let wanted = in_use.routes.iter().filter(|wanted| wanted.by == in_use.configuration);
    wanted.filter_map(|wanted| wanted.route.upgrade()).collect()
}

/// The route with these settings: the existing one, or a new one.
pub fn get(java: &JavaSettings, settings: &RouteSettings) -> Result<Arc<Route>, String> {
    let mut in_use = in_use();
    let configuration = in_use.configuration;
    in_use.routes.retain(|wanted| wanted.route.strong_count() > 0);
    for wanted in &mut in_use.routes {
        if let Some(route) = wanted.route.upgrade()
            && *route.settings() == *settings
            && route.state() != RouteState::Failed
        {
            wanted.by = configuration;
            return Ok(route);
        }
    }
    let route = match settings.isolation {
        Isolation::InProcess => engine::start(java)?.open(settings),
        Isolation::Isolated => Route::in_child(settings.clone(), Child::start(java, settings)?),
    };
    in_use.routes.push(RouteUse { route: Arc::downgrade(&route), by: configuration });
    Ok(route)
}
