//! Informs a core of events on Java's threads: a list, and one wake-up for all entries in it.
//!
//! Waking a core costs a system call and, if it sleeps, tens of microseconds. So a thread that has more work
//! adds finished exchanges to the list, and wakes the core with the last one, or after some time; the
//! [`Monitor`](crate::monitor::Monitor) makes sure that every entry is reported.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

use crate::monitor::{CheckResult, Checked};

/// An event for a core: of a Java call.
pub trait CoreEvent: Send + Sync {
    /// Takes the wakers of the core's tasks.
    fn take_wakers(&self) -> [Option<Waker>; 2];
}

/// The exchanges that a core must check.
#[derive(Default)]
pub struct CoreQueue {
    list: Mutex<List>,
    /// The list has entries that the core was not woken for.
    is_pending: AtomicBool,
}

#[derive(Default)]
struct List {
    exchanges: Vec<Arc<dyn CoreEvent>>,
    waker: Option<Waker>,
    is_closed: bool,
}

impl CoreQueue {
    /// Adds a Java call to the list.
    pub fn push(&self, java_call: Arc<dyn CoreEvent>) {
        self.lock().exchanges.push(java_call);
        self.is_pending.store(true, Ordering::Release);
    }

    /// Wakes the core, if the list has entries that it was not woken for.
    pub fn wake(&self) {
        if self.is_pending.swap(false, Ordering::AcqRel) {
            let waker = self.lock().waker.take();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Whether the list has entries that the core was not woken for.
    fn is_pending(&self) -> bool {
        self.is_pending.load(Ordering::Acquire)
    }

    /// Called when the core's handler was dropped.
    pub fn close(&self) {
        let mut list = self.lock();
        list.is_closed = true;
        let waker = list.waker.take();
        drop(list);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Wakes the waiting tasks of this core, until the queue is closed. It runs as a task of the core.
    pub async fn run(self: Arc<Self>) {
        let mut taken = Vec::new();
        loop {
            let is_open = poll_fn(|context| {
                let mut list = self.lock();
                if list.is_closed {
                    return Poll::Ready(false);
                }
                if list.exchanges.is_empty() {
                    list.waker = Some(context.waker().clone());
                    return Poll::Pending;
                }
                std::mem::swap(&mut list.exchanges, &mut taken);
                Poll::Ready(true)
            })
            .await;
            if !is_open {
                return;
            }
            self.is_pending.store(false, Ordering::Release);
            for java_call in taken.drain(..) {
                java_call.take_wakers().into_iter().flatten().for_each(Waker::wake);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Checked for CoreQueue {
    fn check(self: Arc<Self>) -> CheckResult {
        if !self.is_pending() {
            return CheckResult::Nothing;
        }
        self.wake();
        CheckResult::Work
    }
}
