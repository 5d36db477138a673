//! The end of a core's turn: when all that has come is read, threads are told of the requests in it.
//!
//! Tasks run in the order in which they were woken. So the task here, woken by the first request of a turn,
//! runs behind the connections that had something to read in it.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use crate::pool::Pool;

/// What is to be told at the end of this turn.
#[derive(Default)]
pub struct Turn {
    has_request: Cell<bool>,
    is_closed: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Turn {
    /// A request is in the queue.
    pub fn has_request(&self) {
        if !self.has_request.replace(true) {
            self.wake();
        }
    }

    /// No more will come.
    pub fn close(&self) {
        self.is_closed.set(true);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Tells the pool, until there is nothing more to tell. It runs as a task of the core.
    pub async fn announce(self: Rc<Self>, pool: Arc<Pool>) {
        poll_fn(|context| {
            if self.has_request.replace(false) {
                pool.announce();
            }
            if self.is_closed.get() {
                return Poll::Ready(());
            }
            *self.waker.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
