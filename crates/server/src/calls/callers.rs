//! What calls programs on a thread for calls: made when the first request for them comes, and kept until the
//! next configuration.

use std::cell::{Cell, RefCell, RefMut};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use touchstone_handler::handler::{Caller, Interface};

use super::station::Station;

/// The callers of a thread.
pub struct Callers {
    /// What the thread shares with its core.
    pub station: Arc<Station>,
    /// The guest whose request is looked at.
    pub guest: Cell<usize>,
    /// By the interface's address. It is kept with the caller, so that no other can come to have the same.
    made: RefCell<FxHashMap<usize, Made>>,
}

struct Made {
    _interface: Arc<dyn Interface>,
    caller: Option<Box<dyn Caller>>,
}

impl Callers {
    /// None so far.
    pub fn new(station: Arc<Station>) -> Callers {
        Callers { station, guest: Cell::new(0), made: RefCell::default() }
    }

    /// The caller of an interface; `None` where it has none.
    pub fn get(&self, interface: &Arc<dyn Interface>) -> Option<RefMut<'_, Box<dyn Caller>>> {
        let address = Arc::as_ptr(interface).cast::<()>() as usize;
        RefMut::filter_map(self.made.borrow_mut(), |made| {
            let made = made.entry(address).or_insert_with(|| Made {
                _interface: interface.clone(),
                caller: interface.caller(self.station.clone()),
            });
            made.caller.as_mut()
        })
        .ok()
    }

    /// Lets go of all.
    pub fn clear(&self) {
        self.made.borrow_mut().clear();
    }
}
