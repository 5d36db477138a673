//! One request on one connection: sends the body and receives the answer at the same time. Neither waits for
//! the other.
//!
//! The caller takes one [`Output`] after the other. Between two of them nothing is received, so a client that
//! reads slowly slows the program down. Dropping a call closes its connection, which informs the program that
//! the answer is no longer needed.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::connections::Connection;
use super::protocol::{Output, Protocol};
use super::settings::TimeLimits;
use super::upload::Upload;

/// How much of the body may wait to be sent.
const OUTGOING_BYTES: usize = 128 * 1024;

/// How many bytes are received at once at first; most answers fit.
const RECEIVE_BYTES: usize = 8 * 1024;

/// How many bytes are received at once when an answer has filled the first buffer.
const LONG_RECEIVE_BYTES: usize = 64 * 1024;

/// Why a call has failed.
#[derive(Debug)]
pub struct Failure {
    /// What kind of failure.
    pub kind: FailureKind,
    /// For the log.
    pub reason: String,
}

/// Kinds of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The program has closed the connection, or it broke.
    Closed,
    /// The program has taken too long.
    TimedOut,
    /// The received bytes do not follow the protocol.
    WrongBytes,
    /// The request's body broke off: the client caused the failure.
    Client,
    /// No byte of the answer has arrived for [`TimeLimits::quiet`]. The call continues with
    /// [`BackendCall::next`].
    Quiet,
    /// The program is unreachable: it does not answer a ping.
    Silent,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.reason)
    }
}

/// A request in progress.
pub struct BackendCall<P: Protocol> {
    connection: Connection,
    decoder: P::Decoder,
    outgoing: VecDeque<Bytes>,
    upload: Upload,
    /// Bytes of the body that the program has not requested yet.
    unrequested: Bytes,
    upload_ended: bool,
    /// The program accepts no more of the request; it may still answer.
    refuses_more: Option<std::io::Error>,
    /// A byte of the request was sent.
    has_sent: bool,
    /// A byte of the answer was received.
    has_heard: bool,
    /// The answer has begun.
    has_answer: bool,
    /// How many bytes are received at once.
    receive_bytes: usize,
    limits: TimeLimits,
    /// The time without a byte of the answer after which the caller gets [`FailureKind::Quiet`].
    quiet: Option<Duration>,
    began: Instant,
    moved: Instant,
}

impl<P: Protocol> BackendCall<P> {
    /// Begins a request on a connection.
    pub fn new(
        connection: Connection,
        decoder: P::Decoder,
        head: Bytes,
        upload: Upload,
        limits: TimeLimits,
    ) -> BackendCall<P> {
        let now = Instant::now();
        let has_no_body = upload.length() == 0 && !P::REQUESTS_BODY;
        BackendCall {
            connection,
            decoder,
            outgoing: VecDeque::from([head]),
            upload,
            unrequested: Bytes::new(),
            // The head already states it.
            upload_ended: has_no_body,
            refuses_more: None,
            has_sent: false,
            has_heard: false,
            has_answer: false,
            receive_bytes: RECEIVE_BYTES,
            limits,
            quiet: limits.quiet,
            began: now,
            moved: now,
        }
    }

    /// Continues a request without a body that was sent as a whole.
    pub fn sent(
        connection: Connection,
        decoder: P::Decoder,
        limits: TimeLimits,
        began: Instant,
    ) -> BackendCall<P> {
        let has_heard = !connection.received.is_empty();
        BackendCall {
            connection,
            decoder,
            outgoing: VecDeque::new(),
            upload: Upload::none(),
            unrequested: Bytes::new(),
            upload_ended: true,
            refuses_more: None,
            has_sent: true,
            has_heard,
            has_answer: false,
            receive_bytes: RECEIVE_BYTES,
            limits,
            quiet: limits.quiet,
            began,
            moved: began,
        }
    }

    /// The next output.
    pub async fn next(&mut self) -> Result<Output, Failure> {
        if self.has_answer {
            // The time that the client took does not count against the program.
            self.moved = Instant::now();
        }
        // If output is always available, the timer is never polled, so the total limit is checked here.
        if let Some(total) = self.limits.total.filter(|total| self.began.elapsed() >= *total) {
            return Err(Failure { kind: FailureKind::TimedOut, reason: took_too_long(total) });
        }
        poll_fn(|context| self.poll_next(context)).await
    }

    /// The next output if it is already available.
    pub async fn next_now(&mut self) -> Option<Result<Output, Failure>> {
        poll_fn(|context| match self.poll_next(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    /// Sends what can be sent, and returns the next output when there is one.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Output, Failure>> {
        self.poll_upload(context)?;
        loop {
            match P::next(&mut self.decoder, &mut self.connection.received) {
                // Only the upload needs this.
                Ok(Some(Output::BodyWanted)) => {
                    self.poll_upload(context)?;
                    continue;
                }
                Ok(Some(output)) => {
                    self.has_answer = true;
                    return Poll::Ready(Ok(output));
                }
                Ok(None) => {}
                Err(reason) => return Poll::Ready(Err(Failure { kind: FailureKind::WrongBytes, reason })),
            }
            let Connection { stream, received, .. } = &mut self.connection;
            match stream.poll_receive(context, received, self.receive_bytes) {
                Poll::Ready(Ok(0)) => return Poll::Ready(self.closed(None)),
                Poll::Ready(Ok(count)) => {
                    if count >= self.receive_bytes {
                        self.receive_bytes = LONG_RECEIVE_BYTES;
                    }
                    self.has_heard = true;
                    self.moved = Instant::now();
                }
                Poll::Ready(Err(error)) => return Poll::Ready(self.closed(Some(error))),
                Poll::Pending => return self.poll_timer(context),
            }
        }
    }

    /// Whether no byte of the answer has arrived.
    pub fn is_unanswered(&self) -> bool {
        !self.has_heard
    }

    /// Whether no byte of the request was sent either, so that the program cannot have started it.
    pub fn is_unsent(&self) -> bool {
        !self.has_sent && !self.has_heard
    }

    /// Whether everything that the program waits for was sent.
    pub fn is_all_sent(&self) -> bool {
        let is_satisfied =
            if P::REQUESTS_BODY { P::body_room(&self.decoder) == 0 } else { self.upload_ended };
        is_satisfied && self.outgoing.is_empty() && self.refuses_more.is_none()
    }

    /// Whether the body is there for another attempt.
    pub fn has_body_again(&self) -> bool {
        self.upload.is_repeatable()
    }

    /// Ends this attempt and returns the body for another one.
    pub fn into_upload(self) -> Upload {
        self.upload
    }

    /// The connection, after the end of the answer.
    pub fn into_connection(self) -> Connection {
        self.connection
    }

    /// Sends the available part of the request. If the program accepts no more, its answer is still received.
    /// After an error the call must not be used any more.
    pub fn poll_upload(&mut self, context: &mut Context<'_>) -> Result<(), Failure> {
        while self.refuses_more.is_none() {
            self.fill(context)?;
            if self.outgoing.is_empty() {
                break;
            }
            let before: usize = self.outgoing.iter().map(Bytes::len).sum();
            let sent = self.connection.stream.poll_send(context, &mut self.outgoing);
            let after: usize = self.outgoing.iter().map(Bytes::len).sum();
            if after < before {
                self.has_sent = true;
                self.moved = Instant::now();
            }
            match sent {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => self.refuses_more = Some(error),
                Poll::Pending => break,
            }
        }
        Ok(())
    }

    /// Takes available bytes of the body, up to the limit for waiting bytes.
    fn fill(&mut self, context: &mut Context<'_>) -> Result<(), Failure> {
        let mut waiting: usize = self.outgoing.iter().map(Bytes::len).sum();
        while waiting < OUTGOING_BYTES && (P::REQUESTS_BODY || !self.upload_ended) {
            let room = P::body_room(&self.decoder);
            if room == 0 {
                break;
            }
            if !self.unrequested.is_empty() {
                let piece = self.unrequested.split_to(room.min(self.unrequested.len()));
                waiting += piece.len();
                P::push_body(&mut self.decoder, piece, &mut self.outgoing);
                continue;
            }
            match self.upload.poll_next(context) {
                Poll::Ready(Some(Ok(piece))) => self.unrequested = piece,
                Poll::Ready(None) => {
                    self.upload_ended = true;
                    P::end_body(&mut self.decoder, &mut self.outgoing);
                }
                Poll::Ready(Some(Err(error))) => {
                    let reason = format!("the request's body broke off: {error}");
                    return Err(Failure { kind: FailureKind::Client, reason });
                }
                Poll::Pending => break,
            }
        }
        Ok(())
    }

    /// The connection has closed, which is the end of an answer in some protocols.
    fn closed(&self, error: Option<std::io::Error>) -> Result<Output, Failure> {
        let failure = |reason| Failure { kind: FailureKind::Closed, reason };
        match error.as_ref().or(self.refuses_more.as_ref()) {
            Some(error) if !self.has_heard => Err(failure(format!("the connection broke: {error}"))),
            Some(error) if P::closed(&self.decoder).is_err() => {
                Err(failure(format!("the connection broke within the answer: {error}")))
            }
            None if !self.has_heard => Err(failure("it closed the connection without an answer".to_string())),
            _ => P::closed(&self.decoder).map_err(failure),
        }
    }

    /// Whether the program could accept more if the client sent it.
    pub fn waits_for_client(&self) -> bool {
        let is_wanted = !self.upload_ended && P::body_room(&self.decoder) > 0;
        is_wanted && self.outgoing.is_empty() && self.unrequested.is_empty() && self.upload.waits_for_client()
    }

    fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<Result<Output, Failure>> {
        loop {
            let (limit, what) = match self.has_answer {
                false => (self.limits.first_byte, "no answer came"),
                true => (self.limits.stall, "its answer stopped"),
            };
            let quiet = self.quiet.filter(|quiet| !self.has_answer && *quiet < limit);
            let total = self.limits.total.map(|total| self.began + total);
            let due = self.moved + quiet.unwrap_or(limit);
            let due = total.map_or(due, |total| due.min(total));
            let waits_for_client = self.waits_for_client();
            // The timer may still be set for an earlier request on this connection: then it fires too early,
            // and is set again.
            let timer = self.connection.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
            if timer.deadline() > due {
                timer.as_mut().reset(due);
            }
            if timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            let now = Instant::now();
            let is_over = total.is_some_and(|total| now >= total);
            if !is_over && waits_for_client {
                // The client is slow; the connection enforces the client's own time limit.
                self.moved = now;
            }
            if is_over || now >= self.moved + limit {
                let reason = match is_over {
                    true => took_too_long(self.limits.total.unwrap_or_default()),
                    false => format!("{what} within {limit:?}"),
                };
                return Poll::Ready(Err(Failure { kind: FailureKind::TimedOut, reason }));
            }
            if let Some(quiet) = quiet
                && now >= self.moved + quiet
            {
                self.quiet = Some(quiet * 2);
                let reason = format!("{what} within {quiet:?}");
                return Poll::Ready(Err(Failure { kind: FailureKind::Quiet, reason }));
            }
            let again = self.moved + quiet.unwrap_or(limit);
            timer.as_mut().reset(total.map_or(again, |total| again.min(total)));
        }
    }
}

fn took_too_long(total: Duration) -> String {
    format!("it took longer than {total:?} in all")
}
