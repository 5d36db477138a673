//! The applications of one route, as the server sees them: their threads, and whether they can be used.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::watch;

use crate::engine;
use crate::isolated::Child;
use crate::monitor::Monitor;
use crate::pool::Pool;
use crate::settings::{Isolation, JavaSettings, RouteSettings};

/// How it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Java or the applications are being started.
    Starting,
    /// Requests go to them.
    Ready,
    /// They cannot be used.
    Failed,
}

/// The applications of a route.
pub struct Route {
    /// Its number in Java.
    pub id: i32,
    settings: RouteSettings,
    runs: Runs,
    standing: watch::Sender<Standing>,
}

/// Where they run.
enum Runs {
    Here(Arc<Pool>),
    InChild(Arc<Child>),
}

/// Routes that are in use, so that a configuration that is read anew finds those that it does not change.
static ROUTES: Mutex<Vec<Weak<Route>>> = Mutex::new(Vec::new());

/// The route with these settings: the one that there is, or a new one.
pub fn get(java: &JavaSettings, settings: &RouteSettings) -> Result<Arc<Route>, String> {
    let mut routes = ROUTES.lock().unwrap_or_else(PoisonError::into_inner);
    routes.retain(|route| route.strong_count() > 0);
    let same = routes.iter().filter_map(Weak::upgrade).find(|route| route.settings == *settings);
    if let Some(route) = same.filter(|route| route.standing() != Standing::Failed) {
        return Ok(route);
    }
    let route = match settings.isolation {
        Isolation::InProcess => engine::start(java)?.open(settings),
        Isolation::Isolated => Arc::new(Route {
            id: 0,
            settings: settings.clone(),
            runs: Runs::InChild(Child::start(java, settings)?),
            standing: watch::Sender::new(Standing::Starting),
        }),
    };
    routes.push(Arc::downgrade(&route));
    Ok(route)
}

/// Java has ended.
pub fn all_have_failed() {
    // Whoever holds the lock may wait for Java.
    if let Ok(routes) = ROUTES.try_lock() {
        for route in routes.iter().filter_map(Weak::upgrade) {
            route.set(Standing::Failed);
            if let Some(pool) = route.pool() {
                pool.give_up();
            }
        }
    }
}

impl Route {
    pub(crate) fn new(id: i32, settings: RouteSettings, monitor: Arc<Monitor>) -> Arc<Route> {
        let pool = Pool::new(id, settings.limits(), monitor);
        let standing = watch::Sender::new(Standing::Starting);
        Arc::new(Route { id, settings, runs: Runs::Here(pool), standing })
    }

    /// Its settings.
    pub fn settings(&self) -> &RouteSettings {
        &self.settings
    }

    /// Its threads, where it runs here.
    pub fn pool(&self) -> Option<&Arc<Pool>> {
        match &self.runs {
            Runs::Here(pool) => Some(pool),
            Runs::InChild(_) => None,
        }
    }

    /// Its process, where it has one.
    pub fn child(&self) -> Option<&Arc<Child>> {
        match &self.runs {
            Runs::Here(_) => None,
            Runs::InChild(child) => Some(child),
        }
    }

    fn stands(&self) -> &watch::Sender<Standing> {
        self.child().map_or(&self.standing, |child| child.standing())
    }

    /// How it stands now.
    pub fn standing(&self) -> Standing {
        *self.stands().borrow()
    }

    /// How it stands once it is no longer being started.
    pub async fn started(&self) -> Standing {
        let mut standing = self.stands().subscribe();
        match standing.wait_for(|standing| *standing != Standing::Starting).await {
            Ok(standing) => *standing,
            Err(_) => Standing::Failed,
        }
    }

    pub(crate) fn set(&self, standing: Standing) {
        self.standing.send_replace(standing);
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        match &self.runs {
            Runs::Here(pool) => {
                pool.close();
                engine::of_process().close(self.id);
                engine::of_process().slabs().forget(self.id);
            }
            Runs::InChild(child) => {
                let child = child.clone();
                // The last who lets go may be a core, which must not wait.
                std::thread::spawn(move || {
                    child.ask_to_stop();
                    child.wait_for_end();
                });
            }
        }
    }
}
