//! How long an HTTP/2 connection waits for its client.
//!
//! A client must complete a header block within `limits.header_timeout`, send the body of each request and
//! take its answers at a minimum rate, and begin another request within `limits.keep_alive_timeout`. Frames
//! that serve none of these, such as PING or windows that grow by a byte, do not earn it more time. The time
//! of a slow handler does not count.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use touchstone_access::{MinimumRate, RateCheck};
use touchstone_config::LimitsConfig;
use touchstone_http::h2::ErrorCode;
use touchstone_http::h2::frame::{FrameHeader, FrameType, HEADER_BYTES};
use touchstone_observe::metrics::Timeout;

use super::Http2;
use super::streams::{BodyProgress, UnsentBody};
use touchstone_exchange::core::CoreState;

/// How patient the connection still is.
#[derive(Default)]
pub struct ClientWaits {
    /// How slowly the client opens the windows that answers wait for; `None` if none waits.
    window_check: Option<RateCheck>,
    /// Bytes of bodies that were sent since the last wait.
    sent_bytes: u64,
    /// The arrival of the first byte of an incomplete header block, or of an incomplete frame other than
    /// DATA.
    head_since: Option<Instant>,
    /// How long the last wait was, if it counts against the client.
    waited: Duration,
    /// What the present wait is for.
    awaited: AwaitedInput,
}

/// What a wait is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum AwaitedInput {
    /// The next request.
    #[default]
    Request,
    /// The rest of a header block, or of a frame.
    Head,
    /// More of a request's body.
    Body,
    /// Windows for answers.
    Windows,
    /// A handler.
    Handler,
    /// None: streams are open, and none of these events is needed for them.
    Any,
}

impl ClientWaits {
    /// Notes bytes of bodies that were sent.
    pub fn note_sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes as u64;
    }

    /// Notes that whole frames were received; `is_new`: the incomplete frame is not part of the header block
    /// that was incomplete before.
    pub fn note_frames(&mut self, is_new: bool) {
        if is_new {
            self.head_since = None;
        }
    }
}

/// Takes the shorter of two waits.
fn shorten(least: &mut Option<(AwaitedInput, Duration)>, awaited: AwaitedInput, limit: Duration) {
    if least.is_none_or(|(_, least)| limit < least) {
        *least = Some((awaited, limit));
    }
}

impl Http2 {
    /// Waits for bytes, answers, or pieces of bodies; an error is the connection's end.
    pub(super) async fn wait(&mut self) -> io::Result<()> {
        let core = self.connection.core.clone();
        let idle = self.engine.open_streams() == 0 && !self.engine.is_within_header_block();
        let planned = self.plan(&core.state.borrow(), idle);
        let Some((awaited, limit)) = planned else {
            self.connection.note_slow_reader();
            return self.end_impatiently().await;
        };
        self.client_waits.awaited = awaited;
        if let Some(deadline) = &self.connection.timing.deadline {
            deadline.session.requests.set(self.connection.requests);
            match awaited {
                AwaitedInput::Handler => deadline.clear(),
                _ => deadline.set(self.connection.now_ms(), limit, idle),
            }
        }
        let is_timed = self.client_waits.window_check.is_some() || !self.incoming.is_empty();
        let began = is_timed.then(Instant::now);
        let waited = poll_fn(|context| self.poll_progress(context)).await;
        self.client_waits.waited = began.map_or(Duration::ZERO, |began| began.elapsed());
        match &waited {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return self.end_impatiently().await,
            // What the server does until the next wait does not count.
            _ => self.connection.clear_deadline(),
        }
        waited
    }

    /// Informs the client that the connection ends.
    async fn end_impatiently(&mut self) -> io::Result<()> {
        self.engine.close(ErrorCode::NO_ERROR, "no request arrived for a long time");
        self.engine.take_output(&mut self.output);
        let _ = self.write_output().await;
        Err(io::ErrorKind::TimedOut.into())
    }

    /// What to wait for now, and how long; `None`: the client takes its answers too slowly.
    fn plan(&mut self, state: &CoreState, idle: bool) -> Option<(AwaitedInput, Duration)> {
        // Requests of all sites share the connection's windows.
        let limits = &state.snapshot.patient_limits;
        let waited = std::mem::take(&mut self.client_waits.waited);
        let mut least = None;
        if !self.note_window_wait(limits, waited) {
            return None;
        }
        if let Some(rate_check) = &self.client_waits.window_check {
            shorten(&mut least, AwaitedInput::Windows, rate_check.allowance());
        }
        let partial_frame = self.partial_data_frame();
        if partial_frame.is_none()
            && (!self.connection.input.is_empty() || self.engine.is_within_header_block())
        {
            let since = *self.client_waits.head_since.get_or_insert_with(Instant::now);
            let left = limits.header_timeout.saturating_sub(since.elapsed());
            shorten(&mut least, AwaitedInput::Head, left);
        }
        self.note_body_waits(state, waited, partial_frame.unwrap_or_default(), &mut least);
        least = least.or_else(|| self.awaits_handlers().then_some((AwaitedInput::Handler, Duration::MAX)));
        Some(least.unwrap_or(match idle {
            true => (AwaitedInput::Request, limits.keep_alive_timeout),
            false => (AwaitedInput::Any, limits.stall_timeout),
        }))
    }

    /// Whatever else the client sends, it must take its answers; false: it is too slow.
    fn note_window_wait(&mut self, limits: &LimitsConfig, waited: Duration) -> bool {
        let sent_bytes = std::mem::take(&mut self.client_waits.sent_bytes);
        let last = self.client_waits.window_check.take();
        if !self.engine.is_blocked() {
            return true;
        }
        let (mut rate_check, waited) = match last {
            Some(rate_check) => (rate_check, waited),
            None => (RateCheck::begin(MinimumRate::of_answers(limits)), Duration::ZERO),
        };
        let is_in_time = rate_check.record(sent_bytes, waited);
        self.client_waits.window_check = Some(rate_check);
        is_in_time
    }

    /// Measures the rate of the bodies of requests, and refuses bodies that are too slow. `partial_frame` is
    /// the stream of an incomplete frame, and the number of its bytes that have arrived.
    fn note_body_waits(
        &mut self,
        state: &CoreState,
        waited: Duration,
        partial_frame: (u32, u64),
        least: &mut Option<(AwaitedInput, Duration)>,
    ) {
        let mut at = 0;
        while let Some(incoming) = self.incoming.get_mut(at) {
            let partial_bytes = if incoming.stream.id() == partial_frame.0 { partial_frame.1 } else { 0 };
            match incoming.note_wait(waited, partial_bytes) {
                Ok(limit) => {
                    if let Some(limit) = limit {
                        shorten(least, AwaitedInput::Body, limit);
                    }
                    at += 1;
                }
                Err(_) => {
                    let slow = self.incoming.swap_remove(at);
                    let stream = slow.stream;
                    slow.fail_slow(&mut self.engine);
                    self.connection.core.counts.timed_out(Timeout::Body);
                    self.refuse_body(state, stream, 408);
                }
            }
        }
    }

    /// The stream of an incomplete DATA frame, and the number of its bytes that have arrived.
    fn partial_data_frame(&self) -> Option<(u32, u64)> {
        let (header, rest) = self.connection.input.split_first_chunk::<HEADER_BYTES>()?;
        let header = FrameHeader::parse(header);
        let is_body = header.frame_type == FrameType::DATA
            && self.incoming.iter().any(|incoming| incoming.stream.id() == header.stream);
        is_body.then_some((header.stream, rest.len() as u64))
    }

    fn awaits_handlers(&self) -> bool {
        !self.tasks.is_empty() || self.outgoing.iter().any(UnsentBody::awaits_handler)
    }

    fn poll_progress(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let core = self.connection.core.clone();
        if self.connection.deadline_expired(context) {
            match self.client_waits.awaited {
                // The plan of the next wait refuses that body, and no other request.
                AwaitedInput::Body => {
                    self.connection.forget_deadline();
                    return Poll::Ready(Ok(()));
                }
                AwaitedInput::Request => self.connection.count_timeout(Timeout::Idle),
                AwaitedInput::Head => self.connection.count_timeout(Timeout::Header),
                AwaitedInput::Windows | AwaitedInput::Handler | AwaitedInput::Any => {
                    self.connection.note_slow_reader()
                }
            }
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        // The client must get GOAWAY now, not with its next request.
        let mut progress = core.draining.get() && !self.leaving;
        progress |= self.inbox.poll(context).is_ready();
        progress |= self.early_answers.poll(&mut self.engine, context).is_ready();
        let mut index = 0;
        while index < self.outgoing.len() {
            let outgoing = &mut self.outgoing[index];
            match outgoing.poll_source(&mut self.engine, &mut self.output, context) {
                Poll::Ready(BodyProgress::Broken(error)) => {
                    core.error_log.debug(format_args!("a body broke off: {error}"));
                    outgoing.reset(&mut self.engine);
                    self.ended.push(self.outgoing.swap_remove(index).answer);
                    progress = true;
                }
                Poll::Ready(BodyProgress::More) => {
                    progress = true;
                    if outgoing.is_finished() {
                        self.ended.push(self.outgoing.swap_remove(index).answer);
                    }
                }
                Poll::Pending => index += 1,
            }
        }
        for incoming in &mut self.incoming {
            progress |= incoming.poll_release(&mut self.engine, context).is_ready();
        }
        match self.connection.poll_receive_more(context) {
            Poll::Ready(None) => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            Poll::Ready(Some(_)) => Poll::Ready(Ok(())),
            Poll::Pending if progress => Poll::Ready(Ok(())),
            Poll::Pending => Poll::Pending,
        }
    }
}
