//! The applications of one route: their threads, their state, and their end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use crate::isolated::Child;
use crate::pool::Pool;
use crate::route_state::RouteState;
use crate::server_log::log;
use crate::settings::RouteSettings;

/// The applications of a route.
pub struct Route {
    /// Its number in Java.
    pub id: i32,
    settings: RouteSettings,
    hosting_mode: HostingMode,
    route_state: watch::Sender<RouteState>,
    is_closed: AtomicBool,
}

/// Where the applications run.
enum HostingMode {
    /// In this process, with the function that has Java stop them.
    Here(Arc<Pool>, Box<dyn Fn() + Send + Sync>),
    InChild(Arc<Child>),
}

impl Route {
    fn new(id: i32, settings: RouteSettings, hosting_mode: HostingMode) -> Arc<Route> {
        let route_state = watch::Sender::new(RouteState::Starting);
        Arc::new(Route { id, settings, hosting_mode, route_state, is_closed: AtomicBool::new(false) })
    }

    /// A route whose applications run in this process, on the threads of a pool. `stop` has Java stop them.
    pub fn here(settings: RouteSettings, pool: Arc<Pool>, stop: Box<dyn Fn() + Send + Sync>) -> Arc<Route> {
        Route::new(pool.route, settings, HostingMode::Here(pool, stop))
    }

    /// A route whose applications run in a child process.
    pub fn in_child(settings: RouteSettings, child: Arc<Child>) -> Arc<Route> {
        Route::new(0, settings, HostingMode::InChild(child))
    }

    /// Its settings.
    pub fn settings(&self) -> &RouteSettings {
        &self.settings
    }

    /// Its threads, if its applications run in this process.
    pub fn pool(&self) -> Option<&Arc<Pool>> {
        match &self.hosting_mode {
            HostingMode::Here(pool, _) => Some(pool),
            HostingMode::InChild(_) => None,
        }
    }

    /// Its child process, if it has one.
    pub fn child(&self) -> Option<&Arc<Child>> {
        match &self.hosting_mode {
            HostingMode::Here(..) => None,
            HostingMode::InChild(child) => Some(child),
        }
    }

    fn state_sender(&self) -> &watch::Sender<RouteState> {
        self.child().map_or(&self.route_state, |child| child.route_state())
    }

    /// Its current state.
    pub fn state(&self) -> RouteState {
        *self.state_sender().borrow()
    }

    /// Waits until it is no longer being started, and returns its state.
    pub async fn started(&self) -> RouteState {
        let mut route_state = self.state_sender().subscribe();
        match route_state.wait_for(|route_state| *route_state != RouteState::Starting).await {
            Ok(route_state) => *route_state,
            Err(_) => RouteState::Failed,
        }
    }

    /// Sets the state of applications that run in this process.
    pub fn set(&self, route_state: RouteState) {
        self.route_state.send_replace(route_state);
    }

    /// Ends it after its `drain_timeout`, if requests still keep it then.
    pub fn drain(self: &Arc<Self>) {
        let limit = self.settings.drain_timeout;
        let route = Arc::downgrade(self);
        let end = move || {
            std::thread::sleep(limit);
            if let Some(route) = route.upgrade() {
                let message = format!(
                    "requests to {} were still in progress {limit:?} after a change of the \
                     configuration: they are ended",
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
        match &self.hosting_mode {
            HostingMode::Here(pool, stop) => {
                pool.close();
                stop();
            }
            HostingMode::InChild(child) => {
                let child = child.clone();
                // The last reference may be dropped on a core, which must not wait.
                std::thread::spawn(move || {
                    child.request_stop();
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
