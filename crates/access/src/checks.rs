//! Limits the password checks: a few run at a time, some more wait, and others are refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The maximum number of waiting checks on all cores; further ones are answered with 503.
const MOST_WAITING: usize = 256;

/// The running and waiting checks on all cores.
pub struct Checks {
    permits: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Checks {
    /// Allows this many checks at a time.
    pub fn new(at_a_time: usize) -> Checks {
        Checks { permits: Arc::new(Semaphore::new(at_a_time.max(1))), waiting: AtomicUsize::new(0) }
    }

    /// Waits until a check may run; `None` if too many are waiting.
    pub async fn acquire(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = self.permits.clone().try_acquire_owned() {
            return Some(permit);
        }
        let _waiting = WaitingCheck::begin(&self.waiting)?;
        self.permits.clone().acquire_owned().await.ok()
    }
}

/// Counts a waiting check until it is dropped.
struct WaitingCheck<'c>(&'c AtomicUsize);

impl WaitingCheck<'_> {
    fn begin(count: &AtomicUsize) -> Option<WaitingCheck<'_>> {
        let waiting = WaitingCheck(count);
        (count.fetch_add(1, Ordering::Relaxed) < MOST_WAITING).then_some(waiting)
    }
}

impl Drop for WaitingCheck<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
