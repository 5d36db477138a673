//! Waits for bytes and processes them: whole requests are served in place, and only the rest is kept.

use std::task::{Context, Poll, ready};

use touchstone_observe::metrics::Timeout;

use super::parked::PARK_AFTER;
use super::timing::WaitPurpose;
use super::{Connection, ConnectionStep, Refusal, http2};
use touchstone_exchange::core::CoreState;

impl Connection {
    /// The received bytes that were not consumed.
    pub(super) fn received(&self) -> &[u8] {
        &self.input
    }

    /// Removes received bytes.
    pub(super) fn consume(&mut self, count: usize) {
        self.input.drain(..count);
    }

    /// Receives once and keeps the bytes; the number of bytes, or `None` if the client has left.
    pub(super) fn poll_receive_more(&mut self, context: &mut Context<'_>) -> Poll<Option<usize>> {
        let core = self.core.clone();
        let state = &mut *core.state.borrow_mut();
        match ready!(self.transport.poll_receive(context, &mut state.receive_buffer)) {
            Ok(0) | Err(_) => Poll::Ready(None),
            Ok(count) => {
                self.input.extend_from_slice(&state.receive_buffer[..count]);
                Poll::Ready(Some(count))
            }
        }
    }

    /// Receives once without a wait, and keeps the bytes; their number, or `None` if the client has left.
    /// Pending: nothing has arrived. The task is not woken.
    pub(super) fn receive_available(&mut self) -> Poll<Option<usize>> {
        let core = self.core.clone();
        let state = &mut *core.state.borrow_mut();
        match self.transport.try_receive(&mut state.receive_buffer) {
            Ok(None) => Poll::Pending,
            Ok(Some(0)) | Err(_) => Poll::Ready(None),
            Ok(Some(count)) => {
                self.input.extend_from_slice(&state.receive_buffer[..count]);
                Poll::Ready(Some(count))
            }
        }
    }

    /// Waits for bytes and serves them; ready with a step that may need to wait.
    pub(super) fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<ConnectionStep> {
        let core = self.core.clone();
        loop {
            if self.timing.deadline.as_ref().is_some_and(|deadline| deadline.expired()) {
                return Poll::Ready(match self.timing.waiting {
                    WaitPurpose::Head => {
                        self.count_timeout(Timeout::Header);
                        ConnectionStep::Refuse(Refusal::Timeout)
                    }
                    _ => {
                        self.count_timeout(Timeout::Idle);
                        ConnectionStep::Close
                    }
                });
            }
            if self.is_to_be_parked() {
                return Poll::Ready(ConnectionStep::Park);
            }
            let state = &mut *core.state.borrow_mut();
            let mut buffer = std::mem::take(&mut state.receive_buffer);
            let received = self.transport.poll_receive(context, &mut buffer);
            let next = match received {
                Poll::Ready(Ok(0) | Err(_)) => Some(ConnectionStep::Close),
                Poll::Ready(Ok(count)) => Some(self.process_received(state, &buffer[..count])),
                Poll::Pending => None,
            };
            state.receive_buffer = buffer;
            match next {
                None => {
                    self.arm_receive_deadline(context, state);
                    return Poll::Pending;
                }
                // Collected answers are written before further bytes are received.
                Some(ConnectionStep::Receive) if self.output.is_empty() => {}
                Some(next) => return Poll::Ready(next),
            }
        }
    }

    /// Sets the deadline of the wait that begins now.
    #[inline]
    pub(super) fn arm_receive_deadline(&mut self, context: &mut Context<'_>, state: &CoreState) {
        let Some(deadline) = &self.timing.deadline else { return };
        deadline.set_waker(context.waker());
        deadline.session.requests.set(self.requests);
        let limits = &state.snapshot.config.limits;
        let now_ms = self.now_ms();
        if !self.input.is_empty() {
            // Counted from the first byte, so a client gains no time by sending single bytes.
            if self.timing.waiting != WaitPurpose::Head {
                self.timing.waiting = WaitPurpose::Head;
                deadline.set(now_ms, limits.header_timeout, false);
            }
        } else {
            let limit = if self.requests == 0 { limits.header_timeout } else { limits.keep_alive_timeout };
            self.timing.waiting = WaitPurpose::Idle;
            deadline.set(now_ms, limit, true);
            if self.can_be_parked() {
                deadline.set_parking(now_ms, PARK_AFTER);
            }
        }
    }

    /// Processes received bytes. If no bytes are left over from before, they are served without a copy.
    #[inline]
    pub(super) fn process_received(&mut self, state: &mut CoreState, received: &[u8]) -> ConnectionStep {
        if self.input.is_empty() {
            if self.requests == 0 && (http2::begins(received) || self.transport.speaks_http2()) {
                self.input.extend_from_slice(received);
                return ConnectionStep::Http2;
            }
            let (consumed, next) = self.serve(state, received);
            self.input.extend_from_slice(&received[consumed..]);
            next
        } else {
            let examined = self.input.len();
            self.input.extend_from_slice(received);
            // An incomplete head can only become complete or wrong at a line end, or when it gets too long.
            // Parsing again for every other byte would need quadratic time for a slow client.
            let limits = &state.limits;
            let grown = self.input.len() > limits.request_line_bytes.min(limits.header_bytes);
            let line_ends = memchr::memchr2(b'\r', b'\n', &self.input[examined - 1..]).is_some();
            if !grown && !line_ends {
                return ConnectionStep::Receive;
            }
            self.serve_input(state)
        }
    }

    pub(super) fn serve_buffered(&mut self) -> ConnectionStep {
        if self.input.is_empty() {
            return ConnectionStep::Receive;
        }
        let core = self.core.clone();
        self.serve_input(&mut core.state.borrow_mut())
    }

    pub(super) fn serve_input(&mut self, state: &mut CoreState) -> ConnectionStep {
        let mut input = std::mem::take(&mut self.input);
        let (consumed, next) = self.serve(state, &input);
        input.drain(..consumed);
        self.input = input;
        match next {
            // An incomplete preface of HTTP/2 is parsed like a head of another version.
            ConnectionStep::Refuse(_) if self.requests == 0 && http2::begins(&self.input) => {
                ConnectionStep::Http2
            }
            next => next,
        }
    }
}
