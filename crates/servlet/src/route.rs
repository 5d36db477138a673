//! The applications of one route: their threads, their state, and their end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use crate::isolated::Child;
use crate::pool::Pool;
use crate::server_log::log;
use crate::settings::RouteSettings;
use crate::standing::Standing;

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
    /// In this process, with the function that has Java stop them.
    Here(Arc<Pool>, Box<dyn Fn() + Send + Sync>),
    InChild(Arc<Child>),
}

impl Route {
    fn new(id: i32, settings: RouteSettings, runs: Runs) -> Arc<Route> {
        let standing = watch::Sender::new(Standing::Starting);
        Arc::new(Route { id, settings, runs, standing, is_closed: AtomicBool::new(false) })
    }

    /// A route whose applications run in this process, on the threads of a pool. `stop` has Java stop them.
    pub fn here(settings: RouteSettings, pool: Arc<Pool>, stop: Box<dyn Fn() + Send + Sync>) -> Arc<Route> {
        Route::new(pool.route, settings, Runs::Here(pool, stop))
    }

    /// A route whose applications run in a child process.
    pub fn in_child(settings: RouteSettings, child: Arc<Child>) -> Arc<Route> {
        Route::new(0, settings, Runs::InChild(child))
    }

    /// Its settings.
    pub fn settings(&self) -> &RouteSettings {
        &self.settings
    }

    /// Its threads, if its applications run in this process.
    pub fn pool(&self) -> Option<&Arc<Pool>> {
        match &self.runs {
            Runs::Here(pool, _) => Some(pool),
            Runs::InChild(_) => None,
        }
    }

    /// Its child process, if it has one.
    pub fn child(&self) -> Option<&Arc<Child>> {
        match &self.runs {
            Runs::Here(..) => None,
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

    /// Sets the state of applications that run in this process.
    pub fn set(&self, standing: Standing) {
        self.standing.send_replace(standing);
    }

    /// Ends it after its `drain_timeout`, if requests still keep it then.
    pub fn drain(self: &Arc<Self>) {
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
                log(1, &message);
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
            Runs::Here(pool, stop) => {
                pool.close();
                stop();
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
