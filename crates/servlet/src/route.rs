//! The applications of one route: their threads, their state, and their end.
//!
//! A reloaded configuration keeps the routes that it does not change. A route that it changes or removes gets
//! no more requests. The handlers of its requests keep it until the last one has ended or its `drain_timeout`
//! is over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::watch;

use crate::engine;
use crate::isolated::Child;
use crate::monitor::Monitor;
use crate::pool::Pool;
use crate::settings::{Isolation, JavaSettings, RouteSettings};

/// The state of a route's applications.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Java or the applications are being started.
    Starting,
    /// They answer requests.
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
    is_closed: AtomicBool,
}

/// Where the applications run.
enum Runs {
    Here(Arc<Pool>),
    InChild(Arc<Child>),
}

/// Routes that are in use.
struct InUse {
    routes: Vec<Wanted>,
    /// The number of the configuration that is being opened, or was opened last.
    configuration: u64,
}

/// A route with the number of the last configuration that wants it.
struct Wanted {
    route: Weak<Route>,
    by: u64,
}

static IN_USE: Mutex<InUse> = Mutex::new(InUse { routes: Vec::new(), configuration: 0 });

fn in_use() -> MutexGuard<'static, InUse> {
    IN_USE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Called when a configuration is being opened. It then [gets](get) the routes that it wants.
pub fn begin_configuration() {
    in_use().configuration += 1;
}

/// Called when the configuration is in use. Routes that it does not want end with their last requests.
pub fn end_unwanted() {
    let mut in_use = in_use();
    let configuration = in_use.configuration;
    let unwanted: Vec<Wanted> = in_use.routes.extract_if(.., |wanted| wanted.by < configuration).collect();
    drop(in_use);
    unwanted.iter().filter_map(|wanted| wanted.route.upgrade()).for_each(|route| route.drain());
}

/// The route with these settings: the existing one, or a new one.
pub fn get(java: &JavaSettings, settings: &RouteSettings) -> Result<Arc<Route>, String> {
    let mut in_use = in_use();
    let configuration = in_use.configuration;
    in_use.routes.retain(|wanted| wanted.route.strong_count() > 0);
    for wanted in &mut in_use.routes {
        if let Some(route) = wanted.route.upgrade()
            && route.settings == *settings
            && route.standing() != Standing::Failed
        {
            wanted.by = configuration;
            return Ok(route);
        }
    }
    let route = match settings.isolation {
        Isolation::InProcess => engine::start(java)?.open(settings),
        Isolation::Isolated => Route::new(0, settings.clone(), Runs::InChild(Child::start(java, settings)?)),
    };
    in_use.routes.push(Wanted { route: Arc::downgrade(&route), by: configuration });
    Ok(route)
}

/// Called when Java has ended.
pub fn all_have_failed() {
    // The holder of the lock may wait for Java, so this must not wait for the lock.
    if let Ok(in_use) = IN_USE.try_lock() {
        for route in in_use.routes.iter().filter_map(|wanted| wanted.route.upgrade()) {
            route.set(Standing::Failed);
            if let Some(pool) = route.pool() {
                pool.give_up();
            }
        }
    }
}

impl Route {
    fn new(id: i32, settings: RouteSettings, runs: Runs) -> Arc<Route> {
        let standing = watch::Sender::new(Standing::Starting);
        Arc::new(Route { id, settings, runs, standing, is_closed: AtomicBool::new(false) })
    }

    /// A route whose applications run in this process.
    pub(crate) fn here(id: i32, settings: RouteSettings, monitor: Arc<Monitor>) -> Arc<Route> {
        let pool = Pool::new(id, settings.limits(), monitor);
        Route::new(id, settings, Runs::Here(pool))
    }

    /// Its settings.
    pub fn settings(&self) -> &RouteSettings {
        &self.settings
    }

    /// Its threads, if its applications run in this process.
    pub fn pool(&self) -> Option<&Arc<Pool>> {
        match &self.runs {
            Runs::Here(pool) => Some(pool),
            Runs::InChild(_) => None,
        }
    }

    /// Its child process, if it has one.
    pub fn child(&self) -> Option<&Arc<Child>> {
        match &self.runs {
            Runs::Here(_) => None,
            Runs::InChild(child) => Some(child),
        }
    }

    fn stands(&self) -> &watch::Sender<Standing> {
        self.child().map_or(&self.standing, |child| child.standing())
    }

    /// Its current state.
    pub fn standing(&self) -> Standing {
        *self.stands().borrow()
    }

    /// Waits until it is no longer being started, and returns its state.
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

    /// Ends it after its `drain_timeout`, if requests still keep it then.
    fn drain(self: &Arc<Self>) {
        let limit = self.settings.drain_timeout;
        let route = Arc::downgrade(self);
        let end = move || {
            std::thread::sleep(limit);
            if let Some(route) = route.upgrade() {
                let message = format!(
                    "requests to {} have gone on for {limit:?} after the configuration has changed: they are \
                     ended",
                    route.settings.name()
                );
                engine::log(1, &message);
                route.close();
            }
        };
        let thread = std::thread::Builder::new().name("servlet-drain".to_string()).stack_size(128 * 1024);
        if thread.spawn(end).is_err() {
            self.close();
        }
    }

    /// Stops the applications, without waiting until they have stopped.
    fn close(&self) {
        if self.is_closed.swap(true, Ordering::AcqRel) {
            return;
        }
        match &self.runs {
            Runs::Here(pool) => {
                pool.close();
                engine::of_process().close(self.id);
            }
            Runs::InChild(child) => {
                let child = child.clone();
                // The last reference may be dropped on a core, which must not wait.
                std::thread::spawn(move || {
                    child.ask_to_stop();
                    child.wait_for_end();
                });
            }
        }
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        self.close();
    }
}
