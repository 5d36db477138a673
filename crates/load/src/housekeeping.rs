//! The periodic work of an engine thread: progress, the caller's stop, time limits.

use crate::client::ClientState;
use crate::clock::ThreadTime;
use crate::engine::{Engine, PublishedCounts};
use crate::outcome::ErrorKind;
use crate::recent_latency::PUBLISH_INTERVAL_NS;
use crate::record::nanoseconds;
use std::sync::atomic::Ordering;

/// The interval of the periodic work. A timer of the thread produces an event when it is due. Waits for
/// sockets have no timeout, because it would be in milliseconds, and the kernel would set and clear a timer
/// for each wait.
const HOUSEKEEPING_NS: u64 = 10_000_000;

impl Engine<'_> {
    /// Does the periodic work, which is independent of the sockets.
    pub(crate) fn do_housekeeping(&mut self) {
        self.check_for_stop();
        self.record_window_edges();
        if self.now_ns >= self.sweep_ns {
            self.sweep_time_limits();
            self.flush_dirty();
        }
        if self.record.messages.is_some() {
            (0..self.clients.len()).for_each(|client| self.record_messages(client));
        }
        if self.record.websockets.is_some() && self.now_ns >= self.stop_ns {
            self.close_endless_websockets();
        }
        self.publish_progress();
        self.housekeeping_ns = self.now_ns + HOUSEKEEPING_NS;
        for edge_ns in [self.record.times.window_start_ns, self.record.times.window_end_ns] {
            if edge_ns > self.now_ns {
                self.housekeeping_ns = self.housekeeping_ns.min(edge_ns);
            }
        }
    }

    fn check_for_stop(&mut self) {
        let shared = self.shared;
        if !shared.progress.stop.load(Ordering::Relaxed) {
            return;
        }
        // The first thread that observes the stop sets the end for all threads.
        let _ = shared.stopped_ns.compare_exchange(0, self.now_ns, Ordering::Relaxed, Ordering::Relaxed);
        let stopped_ns = shared.stopped_ns.load(Ordering::Relaxed);
        self.stop_ns = self.stop_ns.min(stopped_ns);
        self.record.times = self.record.times.ended_at(stopped_ns);
    }

    pub(crate) fn record_window_edges(&mut self) {
        if self.window_start.is_none() && self.now_ns >= self.record.times.window_start_ns {
            self.window_start = Some(ThreadTime::read());
        }
        if self.window_end.is_none() && self.now_ns >= self.record.times.window_end_ns {
            self.window_end = Some(ThreadTime::read());
        }
    }

    /// Ends the requests that have exceeded the time limit. All clients are checked at intervals, because a
    /// timer for each request would be expensive.
    fn sweep_time_limits(&mut self) {
        let timeout_ns = nanoseconds(self.shared.plan.timeout);
        for index in 0..self.clients.len() {
            let client = &self.clients[index];
            if client.state != ClientState::Idle
                && self.now_ns.saturating_sub(client.service_started_ns) > timeout_ns
                && !self.is_within_time_limit(index, timeout_ns)
            {
                self.fail(index, ErrorKind::Timeout);
            }
        }
        self.sweep_ns = self.now_ns + (timeout_ns / 20).clamp(HOUSEKEEPING_NS, 250_000_000);
    }

    pub(crate) fn publish_progress(&mut self) {
        let progress = self.shared.progress;
        let now = PublishedCounts {
            requests: self.record.total_requests,
            errors: self.record.total_errors.total(),
            bytes: self.record.total_bytes,
        };
        let before = &self.published;
        progress.requests.fetch_add(now.requests - before.requests, Ordering::Relaxed);
        progress.errors.fetch_add(now.errors - before.errors, Ordering::Relaxed);
        progress.bytes.fetch_add(now.bytes - before.bytes, Ordering::Relaxed);
        self.published = now;
        if self.now_ns >= self.next_publish_ns {
            self.next_publish_ns = self.now_ns + PUBLISH_INTERVAL_NS;
            progress.recent.publish(self.thread, &self.record);
            progress.live_figures.publish(self.thread, &self.record, self.now_ns);
        }
    }
}
