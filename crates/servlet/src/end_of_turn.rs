//! The end of a core's turn: when all received data was read, threads are notified of the requests.
//!
//! Tasks run in the order in which they were woken. So this task, woken by the first request of a turn, runs
//! after all connections that had data to read in that turn.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use crate::pool::Pool;

/// The state of the current turn.
#[derive(Default)]
pub struct EndOfTurn {
    has_request: Cell<bool>,
    is_closed: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl EndOfTurn {
    /// Called when a request was added to the queue.
    pub fn note_request(&self) {
        if !self.has_request.replace(true) {
            self.wake();
        }
    }

    /// Called when no more requests will arrive.
    pub fn close(&self) {
        self.is_closed.set(true);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Notifies the pool of requests, until [`EndOfTurn::close`]. It runs as a task of the core.
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
