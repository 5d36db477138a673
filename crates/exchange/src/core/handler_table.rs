//! The handlers of a core: made when the first request for them arrives, some on the first core before that,
//! and kept until the next configuration.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use touchstone_handler::handler::{Handler, Interface, Server};

/// The handlers that a core has made.
#[derive(Default)]
pub struct Handlers {
    /// By the interface's address. The interface is kept with the handler, so that no other can get the same
    /// address.
    by_interface: RefCell<FxHashMap<usize, CoreHandler>>,
}

struct CoreHandler {
    _interface: Arc<dyn Interface>,
    handler: Rc<dyn Handler>,
}

impl Handlers {
    /// The handler of an interface.
    pub fn get(
        &self,
        interface: &Arc<dyn Interface>,
        server: impl FnOnce() -> Rc<dyn Server>,
    ) -> Rc<dyn Handler> {
        let address = Arc::as_ptr(interface).cast::<()>() as usize;
        if let Some(held) = self.by_interface.borrow().get(&address) {
            return held.handler.clone();
        }
        let handler = interface.on_core(server());
        self.by_interface
            .borrow_mut()
            .insert(address, CoreHandler { _interface: interface.clone(), handler: handler.clone() });
        handler
    }

    /// Drops all handlers; running ones end with their requests.
    pub fn clear(&self) {
        // Dropping a handler might access the table again.
        let gone = std::mem::take(&mut *self.by_interface.borrow_mut());
        drop(gone);
    }
}
