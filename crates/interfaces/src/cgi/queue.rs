//! Limits how many programs run at a time, and how many requests wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Shared by all cores: with a limit for each core, a client could wait while another core has room.
#[derive(Debug)]
pub struct Queue {
    running: Arc<Semaphore>,
    waiting: AtomicUsize,
    most_waiting: usize,
    longest_wait: Duration,
}

/// The permission to run one program.
pub struct Permit(
    #[allow(dead_code, reason = "gives the place back when it is dropped")] OwnedSemaphorePermit,
);

/// Why a request cannot run its program now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueError {
    /// Too many wait already.
    Full,
    /// It has waited too long.
    Timeout,
}

impl Queue {
    /// A queue with these limits: running programs, waiting requests, and the longest wait.
    pub fn new(concurrency: usize, most_waiting: usize, longest_wait: Duration) -> Queue {
        let concurrency = concurrency.clamp(1, Semaphore::MAX_PERMITS);
        Queue {
            running: Arc::new(Semaphore::new(concurrency)),
            waiting: AtomicUsize::new(0),
            most_waiting,
            longest_wait,
        }
    }

    /// Waits for its turn.
    ///
    /// # Errors
    /// Too many requests wait, or the wait was too long.
    pub async fn enter(&self) -> Result<Permit, QueueError> {
        if let Ok(permit) = self.running.clone().try_acquire_owned() {
            return Ok(Permit(permit));
        }
        let Some(_queue_place) = QueuePlace::take(&self.waiting, self.most_waiting) else {
            return Err(QueueError::Full);
        };
        match tokio::time::timeout(self.longest_wait, self.running.clone().acquire_owned()).await {
            Ok(Ok(permit)) => Ok(Permit(permit)),
            _ => Err(QueueError::Timeout),
        }
    }
}

/// A place in the queue, which is released when it is dropped.
struct QueuePlace<'q>(&'q AtomicUsize);

impl<'q> QueuePlace<'q> {
    fn take(waiting: &'q AtomicUsize, most: usize) -> Option<QueuePlace<'q>> {
        let place = QueuePlace(waiting);
        // Requests that are refused are also counted, for the moment of the refusal.
        (waiting.fetch_add(1, Ordering::Relaxed) < most).then_some(place)
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[tokio::test]
    async fn a_late_request_waits_and_the_last_one_is_refused() {
        let queue = Queue::new(1, 1, Duration::from_secs(3600));
        let first = queue.enter().await.unwrap();
        let mut context = Context::from_waker(Waker::noop());
        let mut second = pin!(queue.enter());
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert_eq!(queue.enter().await.err(), Some(QueueError::Full));
        drop(first);
        assert!(matches!(second.as_mut().poll(&mut context), Poll::Ready(Ok(_))));
    }

    #[tokio::test]
    async fn who_has_waited_too_long_is_turned_away_and_gives_up_its_place() {
        let queue = Queue::new(1, 1, Duration::ZERO);
        let first = queue.enter().await.unwrap();
        for _ in 0..3 {
            assert_eq!(queue.enter().await.err(), Some(QueueError::Timeout));
        }
        drop(first);
        assert!(queue.enter().await.is_ok());
    }
}
