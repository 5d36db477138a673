//! The end of a core's turn: when all received data was read, workers are woken for their new frames.
//!
//! Tasks run in the order in which they were woken. So this task, woken by the first request of a turn, runs
//! after all connections that had data to read in that turn.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Something that is woken at the end of a turn.
pub trait WakeWorker {
    /// Wakes the worker, if it sleeps.
    fn wake_if_asleep(&self);
}

/// The links whose workers must be woken at the end of this turn.
#[derive(Default)]
pub struct EndOfTurn {
    links: RefCell<Vec<Rc<dyn WakeWorker>>>,
    is_closed: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl EndOfTurn {
    /// Called when a frame was written for this worker.
    pub fn note_written(&self, link: Rc<dyn WakeWorker>) {
        let mut links = self.links.borrow_mut();
        if links.is_empty() {
            wake(&self.waker);
        }
        if !links.iter().any(|other| Rc::ptr_eq(other, &link)) {
            links.push(link);
        }
    }

    /// Called when nothing more will be written.
    pub fn close(&self) {
        self.is_closed.set(true);
        wake(&self.waker);
    }

    /// Wakes workers, until [`EndOfTurn::close`]. It runs as a task of the core.
    pub async fn run(self: Rc<Self>) {
        poll_fn(|context| {
            for link in self.links.borrow_mut().drain(..) {
                link.wake_if_asleep();
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
