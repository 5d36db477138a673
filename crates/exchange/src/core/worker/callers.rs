//! The callers of programs on a worker: made when the first request for them arrives, and kept until the next
//! configuration.

use std::cell::{Cell, RefCell, RefMut};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use touchstone_handler::handler::{Caller, Interface};

use super::link::WorkerLink;

/// The callers of a thread.
pub struct Callers {
    /// The state that the thread shares with its core.
    pub link: Arc<WorkerLink>,
    /// The connection whose request is being processed.
    pub connection: Cell<usize>,
    /// By the interface's address. The interface is kept with the caller, so that no other can get the same
    /// address.
    by_interface: RefCell<FxHashMap<usize, ThreadCaller>>,
}

struct ThreadCaller {
    _interface: Arc<dyn Interface>,
    caller: Option<Box<dyn Caller>>,
}

impl Callers {
    /// No callers.
    pub fn new(link: Arc<WorkerLink>) -> Callers {
        Callers { link, connection: Cell::new(0), by_interface: RefCell::default() }
    }

    /// The caller of an interface; `None` if it has none.
    pub fn get(&self, interface: &Arc<dyn Interface>) -> Option<RefMut<'_, Box<dyn Caller>>> {
        let address = Arc::as_ptr(interface).cast::<()>() as usize;
        RefMut::filter_map(self.by_interface.borrow_mut(), |callers| {
            let held = callers.entry(address).or_insert_with(|| ThreadCaller {
                _interface: interface.clone(),
                caller: interface.caller(self.link.clone()),
            });
            held.caller.as_mut()
        })
        .ok()
    }

    /// Drops all callers.
    pub fn clear(&self) {
        self.by_interface.borrow_mut().clear();
    }
}
