//! A route's interface, which all cores share.

use std::rc::Rc;
use std::sync::Arc;

use touchstone_handler::handler::{Handler, Interface, Server};

use super::handler::PythonOfCore;
use super::pool::{Pool, RouteNames};
use super::registry::PythonPools;
use crate::settings::RouteSettings;

/// A route with `python`.
pub struct Python {
    pool: Arc<Pool>,
}

impl Python {
    /// Starts the workers of an application, if they do not run among `pools`. Returns before they have
    /// started. `names` is the name of the route in metrics.
    ///
    /// # Errors
    /// Their thread cannot be started.
    pub fn open(settings: &RouteSettings, names: RouteNames, pools: &PythonPools) -> Result<Python, String> {
        Ok(Python { pool: pools.open(settings, names)? })
    }
}

impl Interface for Python {
    fn name(&self) -> &'static str {
        "python"
    }

    fn takes_escapes(&self) -> bool {
        false
    }

    fn judges_parameters(&self) -> bool {
        false
    }

    fn answers_at_once(&self) -> bool {
        true
    }

    fn on_core(&self, server: Rc<dyn Server>) -> Rc<dyn Handler> {
        PythonOfCore::new(self.pool.clone(), server)
    }
}
