//! Sends data that could not be sent at once, and ends connections: a client that reads its answer too slowly
//! is disconnected, and one that has sent more than was read gets time to read its answer before the end.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use touchstone_access::{MinimumRate, RateCheck};

use super::Connection;
use super::request_body::BodyFeed;

/// After an answer that leaves a part of the request unread, the connection still receives, so that the
/// client can read the answer before it gets an error for the rest (RFC 9112 section 9.6): until nothing
/// arrives for this long, or until the whole time or these bytes have passed.
const LINGER_PAUSE: Duration = Duration::from_secs(2);
const MOST_LINGER: Duration = Duration::from_secs(10);
const MOST_LINGER_BYTES: usize = 64 * 1024 * 1024;

impl Connection {
    /// Queues bytes that precede the answer, such as interim responses.
    pub(super) fn queue(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
    }

    /// Sends the queued bytes as far as that is possible now.
    pub(super) fn send_queued(&mut self, context: &mut Context<'_>) {
        if !self.output.is_empty() {
            let output = std::mem::take(&mut self.output);
            // An error appears again when the answer is written.
            let sent = self.transport.try_send(&output, &[]).unwrap_or(output.len());
            self.output = output[sent..].to_vec();
            if !self.output.is_empty() {
                let _ = self.transport.poll_sendable(context);
            }
        }
    }

    /// Writes two buffers, waiting as needed.
    pub(super) async fn write(&mut self, first: &[u8], second: &[u8]) -> io::Result<()> {
        self.write_feeding(first, second, &mut BodyFeed::none()).await
    }

    /// Writes two buffers, waiting as needed, and receives the request's body at the same time. Otherwise a
    /// client that sends the whole body before it reads, and the server that waits for the client to read,
    /// would wait for each other.
    pub(super) async fn write_feeding(
        &mut self,
        mut first: &[u8],
        mut second: &[u8],
        feed: &mut BodyFeed,
    ) -> io::Result<()> {
        if first.is_empty() {
            std::mem::swap(&mut first, &mut second);
        }
        while !first.is_empty() {
            let sent = self.transport.try_send(first, second)?;
            self.timing.sent_since_wait += sent as u64;
            if sent < first.len() {
                first = &first[sent..];
            } else {
                (first, second) = (&second[sent - first.len()..], &[]);
            }
            if !first.is_empty() {
                self.wait_sendable(feed).await?;
            }
        }
        Ok(())
    }

    /// Waits until the client has received some of the sent bytes, and receives the request's body at the
    /// same time. A client that reads too slowly is disconnected.
    pub(super) async fn wait_sendable(&mut self, feed: &mut BodyFeed) -> io::Result<()> {
        let core = self.core.clone();
        let usual = || MinimumRate::of_answers(&core.state.borrow().snapshot.config.limits);
        let minimum = self.timing.minimum.unwrap_or_else(usual);
        let mut rate_check = self.timing.send_check.unwrap_or(RateCheck::begin(minimum));
        rate_check.record(std::mem::take(&mut self.timing.sent_since_wait), Duration::ZERO);
        let began_ms = self.now_ms();
        self.set_deadline(rate_check.allowance());
        self.set_writing(true);
        feed.has_other_deadline = true;
        let result = poll_fn(|context| {
            if self.deadline_expired(context) {
                self.note_slow_reader();
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            if let Poll::Ready(result) = self.transport.poll_sendable(context) {
                return Poll::Ready(result);
            }
            // If the client has disconnected, sending shows it.
            let _ = feed.poll(self, false, context);
            Poll::Pending
        })
        .await;
        feed.has_other_deadline = false;
        feed.restart_wait();
        self.set_writing(false);
        self.clear_deadline();
        rate_check.record(0, Duration::from_millis(self.now_ms().saturating_sub(began_ms)));
        self.timing.send_check = Some(rate_check);
        result
    }

    /// Waits until the transport has sent all data, at most for `limits.stall_timeout`.
    pub(super) async fn flush_transport(&mut self) -> io::Result<()> {
        let usual = self.core.state.borrow().snapshot.config.limits.stall_timeout;
        let limit = self.timing.minimum.map_or(usual, |minimum| minimum.stall_timeout);
        self.set_deadline(limit);
        let result = poll_fn(|context| {
            if let Poll::Ready(flushed) = self.transport.poll_flush(context) {
                return Poll::Ready(flushed);
            }
            if self.deadline_expired(context) {
                self.note_slow_reader();
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            Poll::Pending
        })
        .await;
        self.clear_deadline();
        result
    }

    // ---- the end

    /// Ends the sending direction, and receives until the client closes or too much time or data has passed.
    pub(super) async fn linger(&mut self) {
        if !self.output.is_empty() && self.flush_output().await.is_err() {
            return;
        }
        if self.flush_transport().await.is_err() {
            return;
        }
        self.transport.shut_down_sending();
        self.set_deadline(LINGER_PAUSE);
        let core = self.core.clone();
        let (began_ms, mut listened) = (self.now_ms(), 0);
        let is_over = |now_ms: u64| Duration::from_millis(now_ms.saturating_sub(began_ms)) >= MOST_LINGER;
        poll_fn(|context| {
            while listened < MOST_LINGER_BYTES && !self.deadline_expired(context) && !is_over(self.now_ms()) {
                let state = &mut *core.state.borrow_mut();
                match ready!(self.transport.poll_discard(context, &mut state.receive_buffer)) {
                    Ok(0) | Err(_) => break,
                    Ok(count) => listened += count,
                }
                self.set_deadline(LINGER_PAUSE);
            }
            Poll::Ready(())
        })
        .await;
        if self.timing.deadline.as_ref().is_some_and(|deadline| deadline.expired()) {
            let limit = core.state.borrow().snapshot.config.limits.stall_timeout;
            self.transport.socket().limit_stall_when_closed(limit);
        }
    }
}
