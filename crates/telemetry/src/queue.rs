//! Finished spans that wait to be sent: bounded, so that a collector that is away costs no memory without
//! end.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use touchstone_handler::trace::{Span, SpanSink};
use touchstone_observe::metrics::TelemetryCounts;

/// The most spans that one request to the collector has; when this many are queued, they are sent at once.
pub const BATCH: usize = 512;

/// Spans that wait. All cores add to it; only sampled requests do, so they rarely meet.
pub struct SpanQueue {
    waiting: Mutex<VecDeque<Span>>,
    most: AtomicUsize,
    counts: Arc<TelemetryCounts>,
    has_batch: Notify,
}

impl SpanQueue {
    /// An empty queue without capacity: [`SpanQueue::set_most`] sets it.
    pub fn new(counts: Arc<TelemetryCounts>) -> Arc<SpanQueue> {
        let (waiting, has_batch) = (Mutex::default(), Notify::new());
        Arc::new(SpanQueue { waiting, most: AtomicUsize::new(0), counts, has_batch })
    }

    /// Sets how many spans may wait.
    pub fn set_most(&self, most: usize) {
        self.most.store(most, Relaxed);
    }

    /// How many spans may wait.
    pub fn most(&self) -> usize {
        self.most.load(Relaxed)
    }

    /// The counts of what becomes of spans.
    pub fn counts(&self) -> &Arc<TelemetryCounts> {
        &self.counts
    }

    /// Removes up to a batch of the oldest spans.
    pub fn take_batch(&self) -> Vec<Span> {
        let mut waiting = self.lock();
        let count = waiting.len().min(BATCH);
        waiting.drain(..count).collect()
    }

    /// Drops all that wait, and counts them.
    pub fn drop_all(&self) {
        let dropped = std::mem::take(&mut *self.lock()).len();
        self.counts.spans_dropped.fetch_add(dropped as u64, Relaxed);
    }

    /// Whether no span waits.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Waits until the queue has a whole batch.
    pub async fn wait_for_batch(&self) {
        while self.lock().len() < BATCH {
            self.has_batch.notified().await;
        }
    }

    /// The spans. Code that holds the lock cannot panic, so a poisoned lock can be used.
    fn lock(&self) -> MutexGuard<'_, VecDeque<Span>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SpanSink for SpanQueue {
    fn take(&self, span: Span) {
        let length = {
            let mut waiting = self.lock();
            if waiting.len() >= self.most.load(Relaxed) {
                self.counts.spans_dropped.fetch_add(1, Relaxed);
                return;
            }
            waiting.push_back(span);
            waiting.len()
        };
        if length == BATCH {
            self.has_batch.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_dropped_and_counted() {
        let queue = SpanQueue::new(Arc::default());
        queue.set_most(BATCH + 2);
        (0..BATCH + 5).for_each(|_| queue.take(Span::default()));
        assert_eq!(queue.counts().spans_dropped.load(Relaxed), 3);
        assert_eq!((queue.take_batch().len(), queue.take_batch().len()), (BATCH, 2));
        assert!(queue.is_empty());
        queue.take(Span::default());
        queue.drop_all();
        assert_eq!((queue.counts().spans_dropped.load(Relaxed), queue.is_empty()), (4, true));
    }
}
