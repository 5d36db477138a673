//! How Java's threads tell a core that something has happened: a list, and one wake-up for all that is in it.
//!
//! To wake a core costs a system call and, where it sleeps, tens of microseconds. So a thread that has more
//! to do puts what is done into the list, and wakes the core with the last, or after a while; the
//! [`Monitor`](crate::monitor::Monitor) sees to it that nothing is left there.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

use crate::monitor::{Checked, Found};

/// Something that a core waits for: an exchange.
pub trait Announced: Send + Sync {
    /// Takes the wakers of the core's tasks.
    fn take_wakers(&self) -> [Option<Waker>; 2];
}

/// What is on its way to a core.
#[derive(Default)]
pub struct CoreQueue {
    list: Mutex<List>,
    /// Something is in the list that the core was not woken for.
    is_pending: AtomicBool,
}

#[derive(Default)]
struct List {
    exchanges: Vec<Arc<dyn Announced>>,
    waker: Option<Waker>,
    is_closed: bool,
}

impl CoreQueue {
    /// Puts an exchange into the list.
    pub fn push(&self, exchange: Arc<dyn Announced>) {
        self.lock().exchanges.push(exchange);
        self.is_pending.store(true, Ordering::Release);
    }

    /// Wakes the core, if there is something that it was not woken for.
    pub fn wake(&self) {
        if self.is_pending.swap(false, Ordering::AcqRel) {
            let waker = self.lock().waker.take();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Whether there is something that the core was not woken for.
    fn is_pending(&self) -> bool {
        self.is_pending.load(Ordering::Acquire)
    }

    /// The core's handler is gone.
    pub fn close(&self) {
        let mut list = self.lock();
        list.is_closed = true;
        let waker = list.waker.take();
        drop(list);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Wakes what waits on this core, until the queue is closed. It runs as a task of the core.
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
            for exchange in taken.drain(..) {
                exchange.take_wakers().into_iter().flatten().for_each(Waker::wake);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Checked for CoreQueue {
    fn check(self: Arc<Self>) -> Found {
        if !self.is_pending() {
            return Found::Nothing;
        }
        self.wake();
        Found::Work
    }
}
