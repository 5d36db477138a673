//! The routes with applications that a server uses.
//!
//! A reloaded configuration keeps the routes that it does not change. A route that it changes or removes gets
//! no more requests. The handlers of its requests keep it until the last one has ended or its `drain_timeout`
//! is over.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use touchstone_handler::configurations::Configurations;

use crate::engine;
use crate::isolated::Child;
use crate::route::Route;
use crate::route_state::RouteState;
use crate::settings::{Isolation, JavaSettings, RouteSettings};
use crate::status::{self, Status};

/// The routes with applications of a server, and their processes. The virtual machine for routes without a
/// process is that of the whole process.
#[derive(Default)]
pub struct ServletRoutes {
    routes: Mutex<Vec<RouteUse>>,
    children: Mutex<Vec<Weak<Child>>>,
    configurations: Configurations,
}

/// A route with the number of the last configuration that uses it.
struct RouteUse {
    route: Weak<Route>,
    by: u64,
}

impl ServletRoutes {
    /// Called before a configuration is opened. It then [gets](Self::get) the routes that it uses.
    pub fn begin_configuration(&self) {
        self.configurations.begin();
    }

    /// Called when the configuration that was opened last is in use. Routes that it does not use end with
    /// their last requests.
    pub fn configuration_in_use(&self) {
        self.configurations.use_opened();
        let is_unwanted = |wanted: &mut RouteUse| !self.configurations.has(wanted.by);
        let unwanted: Vec<RouteUse> = lock(&self.routes).extract_if(.., is_unwanted).collect();
        unwanted.iter().filter_map(|wanted| wanted.route.upgrade()).for_each(|route| route.drain());
    }

    /// The state of the routes that the configuration in use has. Waits for the machines, each for at most
    /// [`ANSWER_TIMEOUT`](status::ANSWER_TIMEOUT).
    pub fn status(&self) -> Status {
        let mut routes: Vec<Arc<Route>> = lock(&self.routes)
            .iter()
            .filter(|wanted| self.configurations.has(wanted.by))
            .filter_map(|wanted| wanted.route.upgrade())
            .collect();
        routes.sort_by(|one, other| one.settings().names.cmp(&other.settings().names));
        // A configuration that is being opened may have opened the same route with other settings.
        routes.dedup_by(|later, earlier| later.settings().names == earlier.settings().names);
        status::of_routes(&routes)
    }

    /// The route with these settings: the existing one, or a new one.
    pub(crate) fn get(&self, java: &JavaSettings, settings: &RouteSettings) -> Result<Arc<Route>, String> {
        let mut routes = lock(&self.routes);
        let by = self.configurations.opened();
        routes.retain(|wanted| wanted.route.strong_count() > 0);
        for wanted in &mut *routes {
            if let Some(route) = wanted.route.upgrade()
                && *route.settings() == *settings
                && route.state() != RouteState::Failed
            {
                wanted.by = by;
                return Ok(route);
            }
        }
        let route = match settings.isolation {
            Isolation::InProcess => engine::start(java)?.open(settings),
            Isolation::Isolated => Route::in_child(settings.clone(), self.start_child(java, settings)?),
        };
        routes.push(RouteUse { route: Arc::downgrade(&route), by });
        Ok(route)
    }

    fn start_child(&self, java: &JavaSettings, settings: &RouteSettings) -> Result<Arc<Child>, String> {
        let child = Child::start(java, settings)?;
        let mut children = lock(&self.children);
        children.retain(|child| child.strong_count() > 0);
        children.push(Arc::downgrade(&child));
        Ok(child)
    }

    /// Stops all applications, if there are any, and waits until they have stopped.
    pub fn stop(&self) {
        let children = std::mem::take(&mut *lock(&self.children));
        let children: Vec<Arc<Child>> = children.iter().filter_map(Weak::upgrade).collect();
        children.iter().for_each(|child| child.request_stop());
        children.iter().for_each(|child| child.wait_for_end());
        engine::stop();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
