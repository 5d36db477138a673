//! The end of a core's turn: when all that has come is read, workers are woken for what was written to them.
//!
//! Tasks run in the order in which they were woken. So the task here, woken by the first request of a turn,
//! runs behind the connections that had something to read in it.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// What is told at the end of a turn.
pub trait Tell {
    /// Wakes the worker, if it sleeps.
    fn tell(&self);
}

/// The links with workers that are to be woken at the end of this turn.
#[derive(Default)]
pub struct Turn {
    links: RefCell<Vec<Rc<dyn Tell>>>,
    is_closed: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Turn {
    /// Something was written to this worker.
    pub fn has_written(&self, link: Rc<dyn Tell>) {
        let mut links = self.links.borrow_mut();
        if links.is_empty() {
            wake(&self.waker);
        }
        if !links.iter().any(|other| Rc::ptr_eq(other, &link)) {
            links.push(link);
        }
    }

    /// Nothing more will be written.
    pub fn close(&self) {
        self.is_closed.set(true);
        wake(&self.waker);
    }

    /// Wakes workers, until there are none any more. It runs as a task of the core.
    pub async fn run(self: Rc<Self>) {
        poll_fn(|context| {
            for link in self.links.borrow_mut().drain(..) {
                link.tell();
            }
            if self.is_closed.get() {
                return Poll::Ready(());
            }
            let mut waker = self.waker.borrow_mut();
            if !waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                *waker = Some(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

fn wake(waker: &RefCell<Option<Waker>>) {
    if let Some(waker) = &*waker.borrow() {
        waker.wake_by_ref();
    }
}
