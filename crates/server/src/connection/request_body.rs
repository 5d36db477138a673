//! Receives a request's body on an HTTP/1 connection for a handler (RFC 9112 sections 6 and 7).
//!
//! [`BodyFeed`] owns the state of the body: its decoder, the handler's pipe and the client's rate. The bytes
//! belong to the connection, which receives them and provides them by its methods. The feed decodes them and
//! writes them into the pipe, but only as fast as the handler reads. It is polled together with the handler
//! and with the writing of the answer. The part that no handler has read is discarded, so that the next
//! request begins where this one ends. Only one answer waits for that: a file to a body that may still prove
//! to be wrong.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use touchstone_access::{MinimumRate, RateCheck};
use touchstone_handler::pipe::{Receiver, Sender, pipe};
use touchstone_http::request::{Expectation, RequestHead};
use touchstone_observe::metrics::Timeout;

use super::Connection;
use super::body_decoder::{BodyDecoder, BodyItem, BodyProblem};

/// How many bytes of a body may wait for its handler.
const PIPE_BYTES: usize = 128 * 1024;

/// How many bytes that follow the request are received while a handler works.
const AHEAD_BYTES: usize = 64 * 1024;

/// How many bytes that no handler has read are discarded so that the connection can continue. If more are to
/// come, the connection ends.
const MOST_DISCARDED_BYTES: u64 = 1024 * 1024;

/// A body that is being received.
pub struct BodyFeed {
    decoder: BodyDecoder,
    /// The end of the pipe to the handler; `None` if no handler reads.
    sender: Option<Sender>,
    most_bytes: u64,
    /// The client waits for `100 Continue`.
    waits_to_be_asked: bool,
    rate_check: RateCheck,
    /// When the current wait for the client began.
    wait_began_ms: Option<u64>,
    /// The connection waits for another event, which has its own deadline.
    pub has_other_deadline: bool,
    /// After a switch of protocols the client has ended its direction.
    is_half_closed: bool,
    /// The answer has begun.
    is_answered: bool,
    /// How many bytes were discarded.
    discarded_bytes: u64,
    /// The error, if there was one.
    pub problem: Option<BodyProblem>,
}

impl BodyFeed {
    /// The feed of a request's body, and the end that a handler reads; `None` if there is no body. A request
    /// to switch protocols has one, for the bytes after the switch.
    pub fn new(
        head: &RequestHead,
        may_switch: bool,
        most_bytes: u64,
        minimum: MinimumRate,
    ) -> (BodyFeed, Option<Receiver>) {
        let decoder = BodyDecoder::new(head.body);
        let (sender, receiver) = match (decoder.is_done(), may_switch) {
            (true, false) => (None, None),
            _ => {
                let (sender, receiver) = pipe(PIPE_BYTES);
                (Some(sender), Some(receiver))
            }
        };
        let feed = BodyFeed {
            decoder,
            sender,
            most_bytes,
            waits_to_be_asked: head.expectation == Expectation::Continue,
            rate_check: RateCheck::begin(minimum),
            ..BodyFeed::none()
        };
        (feed, receiver)
    }

    /// Sets another minimum rate from now on.
    pub fn set_minimum_rate(&mut self, minimum: MinimumRate) {
        self.rate_check = RateCheck::begin(minimum);
    }

    /// The feed of a request without a body.
    pub fn none() -> BodyFeed {
        let minimum = MinimumRate { stall_timeout: Duration::ZERO, bytes_per_second: 0 };
        BodyFeed {
            decoder: BodyDecoder::done(),
            sender: None,
            most_bytes: 0,
            waits_to_be_asked: false,
            rate_check: RateCheck::begin(minimum),
            wait_began_ms: None,
            has_other_deadline: false,
            is_half_closed: false,
            is_answered: false,
            discarded_bytes: 0,
            problem: None,
        }
    }

    /// Whether the connection has no more bytes of the body.
    pub fn is_done(&self) -> bool {
        self.decoder.is_done()
    }

    /// From now on every byte is passed to the handler, without framing.
    pub fn switch_protocols(&mut self) {
        self.decoder.switch_protocols();
        self.waits_to_be_asked = false;
    }

    /// Moves the bytes that the handler requests into its pipe. `watch`: also notice that the client leaves
    /// while the handler requests none. Ready only when the client has left.
    pub fn poll(&mut self, connection: &mut Connection, watch: bool, context: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.poll_sender(context).is_pending() {
                if self.is_answered && self.has_other_deadline && self.sender.is_none() {
                    self.poll_discard(connection, context);
                }
                return if watch && !self.is_half_closed {
                    self.poll_departure(connection, context)
                } else {
                    Poll::Pending
                };
            }
            match ready!(self.poll_piece(connection, context)) {
                Ok(Some(piece)) => {
                    if let Some(sender) = &mut self.sender {
                        sender.push(piece);
                    }
                }
                Ok(None) => {
                    if let Some(sender) = self.sender.take() {
                        sender.finish_with_trailers(self.decoder.take_trailers());
                    }
                }
                Err(problem) => {
                    self.fail(problem);
                    if problem == BodyProblem::Gone {
                        return Poll::Ready(());
                    }
                    return Poll::Pending;
                }
            }
        }
    }

    /// Ready when the handler requests more.
    fn poll_sender(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let raw = self.decoder.is_raw();
        let Some(sender) = &mut self.sender else { return Poll::Pending };
        if self.problem.is_some() {
            return Poll::Pending;
        }
        if self.decoder.is_done() {
            // The pipe of a request that may switch protocols stays open until the answer decides it.
            return Poll::Pending;
        }
        // After a switch, the client's bytes must not wait until the handler first requests them.
        let demand = if raw { sender.poll_ready(context) } else { sender.poll_wanted(context) };
        match demand {
            Poll::Ready(Ok(())) => Poll::Ready(()),
            Poll::Ready(Err(_)) => {
                self.sender = None;
                Poll::Pending
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// The next piece of the body; `None` at its end.
    fn poll_piece(
        &mut self,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, BodyProblem>> {
        loop {
            let most_bytes =
                self.sender.as_ref().map_or(self.most_bytes, |sender| sender.most_bytes(self.most_bytes));
            match self.decoder.next(connection.received(), most_bytes) {
                Err(problem) => return Poll::Ready(Err(problem)),
                Ok(BodyItem::End(consumed)) => {
                    connection.consume(consumed);
                    self.decoder.end();
                    return Poll::Ready(Ok(None));
                }
                Ok(BodyItem::Piece(data, consumed)) => {
                    let piece = Bytes::copy_from_slice(&connection.received()[data]);
                    connection.consume(consumed);
                    if !piece.is_empty() {
                        return Poll::Ready(Ok(Some(piece)));
                    }
                }
                Ok(BodyItem::Nothing) => {
                    self.send_continue(connection, context);
                    if let Err(problem) = ready!(self.poll_receive(connection, context)) {
                        if self.decoder.is_raw() && problem == BodyProblem::Gone {
                            // The other direction may continue for any time.
                            self.decoder.end();
                            self.is_half_closed = true;
                            return Poll::Ready(Ok(None));
                        }
                        return Poll::Ready(Err(problem));
                    }
                }
            }
        }
    }

    /// Sends `100 Continue` if the client waits for it.
    fn send_continue(&mut self, connection: &mut Connection, context: &mut Context<'_>) {
        // A client that has received the final answer takes an interim response for another answer.
        if !self.is_answered && std::mem::take(&mut self.waits_to_be_asked) {
            connection.queue(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        connection.send_queued(context);
    }

    /// Has the connection receive once, at the minimum rate for clients.
    fn poll_receive(
        &mut self,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), BodyProblem>> {
        if !self.has_other_deadline && connection.deadline_expired(context) {
            connection.count_timeout(Timeout::Body);
            return Poll::Ready(Err(BodyProblem::Timeout));
        }
        let now_ms = connection.now_ms();
        match connection.poll_receive_more(context) {
            Poll::Pending => {
                // Counted from the start of the wait, even if other events wake the connection before.
                if !self.decoder.is_raw() && !self.has_other_deadline && self.wait_began_ms.is_none() {
                    self.wait_began_ms = Some(now_ms);
                    let allowance = self.rate_check.allowance();
                    match self.is_answered && self.sender.is_none() {
                        // Like a connection without a request, it may be ended to make room.
                        true => connection.set_idle_deadline(allowance),
                        false => connection.set_deadline(allowance),
                    }
                }
                Poll::Pending
            }
            Poll::Ready(None) => Poll::Ready(Err(BodyProblem::Gone)),
            Poll::Ready(Some(count)) => {
                if let Some(began_ms) = self.wait_began_ms.take() {
                    connection.clear_deadline();
                    let waited = Duration::from_millis(now_ms.saturating_sub(began_ms));
                    if !self.rate_check.record(count as u64, waited) {
                        connection.count_timeout(Timeout::Body);
                        return Poll::Ready(Err(BodyProblem::Timeout));
                    }
                }
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Ready when the client has left. Stores the bytes that the client sends ahead, and so can notice the
    /// departure only while the input is small.
    fn poll_departure(&mut self, connection: &mut Connection, context: &mut Context<'_>) -> Poll<()> {
        while connection.received().len() < AHEAD_BYTES {
            if ready!(connection.poll_receive_more(context)).is_none() {
                self.fail(BodyProblem::Gone);
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }

    fn fail(&mut self, problem: BodyProblem) {
        self.problem = Some(problem);
        if let Some(sender) = self.sender.take() {
            sender.fail(problem.error());
        }
    }

    // ---- the part that no handler reads

    /// Whether the rest of the body may change an answer that does not depend on its content: it may break
    /// its coding or exceed its limit, or the client sends it only if it is asked to.
    pub fn may_change_answer(&self) -> bool {
        !self.is_done() && (self.decoder.is_chunked() || self.waits_to_be_asked)
    }

    /// Whether the connection can have another request after this one, whose answer has this status. If the
    /// rest of the body is not here yet, this promises to read it.
    pub fn can_be_followed(&self, status: u16) -> bool {
        let is_read = self.sender.as_ref().is_some_and(|sender| !sender.is_gone());
        self.is_done() || !self.waits_to_be_asked && (is_read && status < 400 || self.may_be_discarded())
    }

    /// Called before the answer is written: from now on the client is not asked for its body.
    pub fn begin_answer(&mut self) {
        self.is_answered = true;
    }

    /// Called after the deadline of a wait has been replaced by another.
    pub fn restart_wait(&mut self) {
        self.wait_began_ms = None;
    }

    /// Reads the rest of the body before its answer, and discards it.
    pub async fn drain(&mut self, connection: &mut Connection) -> Result<(), BodyProblem> {
        self.sender = None;
        while self.problem.is_none() && !self.is_done() {
            self.discard_piece(connection).await;
        }
        self.end_wait(connection);
        self.problem.map_or(Ok(()), Err)
    }

    /// Discards the part of the body that has arrived.
    pub fn discard_received(&mut self, connection: &mut Connection) {
        self.sender = None;
        self.end_wait(connection);
        while self.problem.is_none() && !self.is_done() && self.may_be_discarded() {
            if let Err(problem) = self.discard_input(connection) {
                self.problem = Some(problem);
            } else if !self.is_done() {
                match connection.receive_available() {
                    Poll::Pending => break,
                    Poll::Ready(Some(_)) => {}
                    Poll::Ready(None) => self.problem = Some(BodyProblem::Gone),
                }
            }
        }
    }

    /// Reads the rest of the body after its answer, and discards it; false: the connection must end.
    pub async fn discard_rest(&mut self, connection: &mut Connection) -> bool {
        self.sender = None;
        self.end_wait(connection);
        while self.problem.is_none() && !self.is_done() && self.may_be_discarded() {
            self.discard_piece(connection).await;
        }
        self.end_wait(connection);
        self.problem.is_none() && self.is_done()
    }

    /// Whether the rest, as far as its length is known, is short enough to be discarded.
    fn may_be_discarded(&self) -> bool {
        let bytes = self.discarded_bytes.saturating_add(self.decoder.least_rest_bytes());
        !self.waits_to_be_asked && bytes <= MOST_DISCARDED_BYTES
    }

    /// Waits for a piece, and discards it.
    async fn discard_piece(&mut self, connection: &mut Connection) {
        match poll_fn(|context| self.poll_piece(connection, context)).await {
            Ok(piece) => self.discarded_bytes += piece.map_or(0, |piece| piece.len() as u64),
            Err(problem) => self.problem = Some(problem),
        }
    }

    /// Discards what arrives while the answer is written: a client may send its whole body before it reads.
    fn poll_discard(&mut self, connection: &mut Connection, context: &mut Context<'_>) {
        while self.problem.is_none() && !self.is_done() && !self.decoder.is_raw() {
            if let Err(problem) = self.discard_input(connection) {
                self.problem = Some(problem);
            } else if !self.is_done() {
                match connection.poll_receive_more(context) {
                    Poll::Pending => return,
                    Poll::Ready(Some(_)) => {}
                    Poll::Ready(None) => self.problem = Some(BodyProblem::Gone),
                }
            }
        }
    }

    /// Discards the part of the body that is in the input.
    fn discard_input(&mut self, connection: &mut Connection) -> Result<(), BodyProblem> {
        loop {
            match self.decoder.next(connection.received(), self.most_bytes)? {
                BodyItem::Nothing => return Ok(()),
                BodyItem::Piece(data, consumed) => {
                    self.discarded_bytes += data.len() as u64;
                    connection.consume(consumed);
                }
                BodyItem::End(consumed) => {
                    connection.consume(consumed);
                    self.decoder.end();
                    return Ok(());
                }
            }
        }
    }

    fn end_wait(&mut self, connection: &mut Connection) {
        if self.wait_began_ms.take().is_some() {
            connection.clear_deadline();
        }
    }
}
