//! The applications of one route, as the server sees them: their threads, and whether they can be used.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::watch;

use crate::engine;
use crate::monitor::Monitor;
use crate::pool::Pool;
use crate::settings::{JavaSettings, RouteSettings};

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
    pool: Arc<Pool>,
    standing: watch::Sender<Standing>,
}

/// Routes that are in use, so that a configuration that is read anew finds those that it does not change.
static ROUTES: Mutex<Vec<Weak<Route>>> = Mutex::new(Vec::new());

/// The route with these settings: the one that there is, or a new one.
pub fn get(java: &JavaSettings, settings: &RouteSettings) -> Result<Arc<Route>, String> {
    let mut routes = ROUTES.lock().unwrap_or_else(PoisonError::into_inner);
    routes.retain(|route| route.strong_count() > 0);
    let same = routes.iter().filter_map(Weak::upgrade).find(|route| route.settings == *settings);
    if let Some(route) = same.filter(|route| *route.standing.borrow() != Standing::Failed) {
        return Ok(route);
    }
    let route = engine::start(java)?.open(settings);
    routes.push(Arc::downgrade(&route));
    Ok(route)
}

/// Java has ended.
pub fn all_have_failed() {
    // Whoever holds the lock may wait for Java.
    if let Ok(routes) = ROUTES.try_lock() {
        routes.iter().filter_map(Weak::upgrade).for_each(|route| route.set(Standing::Failed));
    }
}

impl Route {
    pub(crate) fn new(id: i32, settings: RouteSettings, monitor: Arc<Monitor>) -> Arc<Route> {
        let pool = Pool::new(id, settings.limits(), monitor);
        Arc::new(Route { id, settings, pool, standing: watch::Sender::new(Standing::Starting) })
    }

    /// Its settings.
    pub fn settings(&self) -> &RouteSettings {
        &self.settings
    }

    /// Its threads.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// How it stands now.
    pub fn standing(&self) -> Standing {
        *self.standing.borrow()
    }

    /// How it stands once it is no longer being started.
    pub async fn started(&self) -> Standing {
        let mut standing = self.standing.subscribe();
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
        self.pool.close();
        engine::of_process().close(self.id);
        engine::of_process().slabs().forget(self.id);
    }
}
