//! A core's own part of a shared value, such as its connections to an origin or to a backend. Routes that
//! share the origin also share this part.

use std::cell::RefCell;
use std::rc::{Rc, Weak as LocalWeak};
use std::sync::{Arc, Weak};

/// The values of one core, one for each shared value. For a `thread_local!`.
pub struct CoreLocal<S, L> {
    known: RefCell<Vec<(Weak<S>, LocalWeak<L>)>>,
}

impl<S, L> CoreLocal<S, L> {
    /// No values.
    pub const fn new() -> CoreLocal<S, L> {
        CoreLocal { known: RefCell::new(Vec::new()) }
    }

    /// The value for `shared`: the existing one, or a new one.
    pub fn get(&self, shared: &Arc<S>, make: impl FnOnce() -> Rc<L>) -> Rc<L> {
        let mut known = self.known.borrow_mut();
        known.retain(|(_, local)| local.strong_count() > 0);
        let same = known.iter().find(|(of, _)| Weak::as_ptr(of) == Arc::as_ptr(shared));
        if let Some(local) = same.and_then(|(_, local)| local.upgrade()) {
            return local;
        }
        let local = make();
        known.push((Arc::downgrade(shared), Rc::downgrade(&local)));
        local
    }
}

impl<S, L> Default for CoreLocal<S, L> {
    fn default() -> CoreLocal<S, L> {
        CoreLocal::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_for_one_shared_value_as_long_as_it_is_used() {
        let locals: CoreLocal<u8, u32> = CoreLocal::new();
        let (one, other) = (Arc::new(1), Arc::new(1));
        let first = locals.get(&one, || Rc::new(1));
        assert!(Rc::ptr_eq(&first, &locals.get(&one, || Rc::new(2))));
        assert!(!Rc::ptr_eq(&first, &locals.get(&other, || Rc::new(3))));
        drop(first);
        assert_eq!(*locals.get(&one, || Rc::new(4)), 4);
    }
}
