//! HTTP/2 streams whose answers take time: incoming requests, running handlers, outgoing bodies.
//!
//! Each request has a task, which stores its answer in the connection's [`Inbox`]. Bodies go through pipes in
//! both directions, and windows are opened only as fast as bodies are read. So a slow handler slows its
//! client, and a slow client slows its handler, but no other stream.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use touchstone_access::{MinimumRate, RateCheck};
use touchstone_admin::connection_info::UnderWayGuard;
use touchstone_handler::answer::BodyPart;
use touchstone_handler::pipe::{Receiver, Sender};
use touchstone_handler::request::ReceivedHead;
use touchstone_http::grammar::split_fields;
use touchstone_http::h2::hpack::encode_fields_block;
use touchstone_http::h2::{ErrorCode, ServerConnection, StreamKey};
use touchstone_sites::site::Snapshot;

use super::unnoted::UnnotedAnswer;
use touchstone_exchange::steps::{ExchangeAnswer, Progress};

/// How many bytes of a body may wait for the client's windows before its handler has to wait.
const AHEAD_BYTES: u64 = 256 * 1024;

/// An answer that is ready.
pub struct StreamAnswer {
    /// The stream.
    pub stream: StreamKey,
    /// The request.
    pub received: Rc<ReceivedHead>,
    /// When it was received.
    pub received_at: Instant,
    /// The answer.
    pub answered: ExchangeAnswer,
    /// The state of the exchange.
    pub progress: Rc<Progress>,
    /// The configuration under which it was answered.
    pub snapshot: Arc<Snapshot>,
}

/// An interim response: its stream, its status, its field lines.
type Interim = (StreamKey, u16, Arc<[u8]>);

/// The answers of a connection's tasks.
#[derive(Default)]
pub struct Inbox {
    answers: RefCell<VecDeque<StreamAnswer>>,
    /// Interim responses to be sent before answers.
    interim: RefCell<VecDeque<Interim>>,
    waker: RefCell<Option<Waker>>,
}

impl Inbox {
    /// Adds an answer.
    pub fn put(&self, answer: StreamAnswer) {
        self.answers.borrow_mut().push_back(answer);
        self.wake();
    }

    /// Adds an interim response to be sent before an answer.
    pub fn inform(&self, stream: StreamKey, status: u16, fields: Arc<[u8]>) {
        self.interim.borrow_mut().push_back((stream, status, fields));
        self.wake();
    }

    /// The next interim response.
    pub fn take_interim(&self) -> Option<Interim> {
        self.interim.borrow_mut().pop_front()
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// The next answer.
    pub fn take(&self) -> Option<StreamAnswer> {
        self.answers.borrow_mut().pop_front()
    }

    /// Ready when an answer is available.
    pub fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        if !self.answers.borrow().is_empty() || !self.interim.borrow().is_empty() {
            return Poll::Ready(());
        }
        *self.waker.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }
}

/// A request that is being answered; dropping this ends its handler.
pub struct StreamTask {
    /// The stream.
    pub stream: StreamKey,
    /// The request.
    pub received: Rc<ReceivedHead>,
    /// When it was received.
    pub received_at: Instant,
    /// The state of the exchange.
    pub progress: Rc<Progress>,
    /// The task that answers it.
    pub task: tokio::task::AbortHandle,
}

impl Drop for StreamTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A request's body on its way to a handler.
pub struct RequestBodyRelay {
    /// The stream.
    pub stream: StreamKey,
    sender: Option<Sender>,
    /// Bytes in the pipe that were not released to the client's windows.
    unreleased_bytes: usize,
    /// All bytes received.
    received_bytes: u64,
    most_bytes: u64,
    /// The body is a stream of messages: it has no maximum length, and may pause.
    is_unlimited: bool,
    /// It is one direction of a tunnel (RFC 8441).
    pub is_tunnel: bool,
    rate_check: BodyRateCheck,
}

/// How fast the client sends a body.
pub struct BodyRateCheck {
    rate_check: RateCheck,
    /// Sets the minimum rate of the site or route, once that is found.
    progress: Rc<Progress>,
    /// The connection waits for the client to send more of it.
    is_awaited: bool,
    /// The number of its bytes that already extend its time limit.
    noted_bytes: u64,
}

impl BodyRateCheck {
    /// The check of a new body.
    pub fn new(minimum: MinimumRate, progress: Rc<Progress>) -> BodyRateCheck {
        BodyRateCheck { rate_check: RateCheck::begin(minimum), progress, is_awaited: false, noted_bytes: 0 }
    }
}

/// The body is longer than allowed.
pub struct TooLarge;

/// The body arrives more slowly than allowed.
pub struct TooSlow;

impl RequestBodyRelay {
    /// A body of at most this many bytes.
    pub fn new(
        stream: StreamKey,
        sender: Sender,
        most_bytes: u64,
        rate_check: BodyRateCheck,
    ) -> RequestBodyRelay {
        RequestBodyRelay {
            stream,
            sender: Some(sender),
            unreleased_bytes: 0,
            received_bytes: 0,
            most_bytes,
            is_unlimited: false,
            is_tunnel: false,
            rate_check,
        }
    }

    /// One direction of a tunnel, without limits of bytes and time.
    pub fn tunnel(stream: StreamKey, sender: Sender, rate_check: BodyRateCheck) -> RequestBodyRelay {
        RequestBodyRelay { is_tunnel: true, ..RequestBodyRelay::new(stream, sender, u64::MAX, rate_check) }
    }

    /// Takes in a piece that was received.
    pub fn push(&mut self, engine: &mut ServerConnection, piece: &[u8]) -> Result<(), TooLarge> {
        self.received_bytes += piece.len() as u64;
        self.is_unlimited |= self.sender.as_ref().is_some_and(Sender::is_unlimited);
        let most_bytes = self.sender.as_ref().map_or(self.most_bytes, |one| one.most_bytes(self.most_bytes));
        if self.received_bytes > most_bytes && !self.is_unlimited {
            if let Some(sender) = self.sender.take() {
                let message = "the request's body is too large";
                sender.fail(io::Error::new(io::ErrorKind::FileTooLarge, message));
            }
            return Err(TooLarge);
        }
        match &mut self.sender {
            Some(sender) if !sender.is_gone() => {
                sender.push(Bytes::copy_from_slice(piece));
                self.unreleased_bytes += piece.len();
            }
            _ => engine.release(self.stream, piece.len()),
        }
        Ok(())
    }

    /// Notes how long the connection has waited for its client, and that `partial_bytes` of an incomplete
    /// frame of this body have arrived. Returns how long the client may take to send more; `None` if the
    /// handler has not yet read the bytes that arrived, so that no more bytes are expected from the client.
    pub fn note_wait(&mut self, waited: Duration, partial_bytes: u64) -> Result<Option<Duration>, TooSlow> {
        let own = &mut self.rate_check;
        if let Some(minimum) = own.progress.signals.take_receive_rate() {
            own.rate_check = RateCheck::begin(minimum);
        }
        let received_bytes = self.received_bytes + partial_bytes;
        let bytes = received_bytes.saturating_sub(own.noted_bytes);
        own.noted_bytes += bytes;
        let waited = if std::mem::take(&mut own.is_awaited) { waited } else { Duration::ZERO };
        let is_in_time = own.rate_check.record(bytes, waited);
        let Some(sender) = self.sender.as_ref().filter(|sender| !sender.is_gone()) else { return Ok(None) };
        if self.may_pause() {
            return Ok(None);
        }
        // The bytes that came too late may still wait for the handler.
        if !is_in_time {
            return Err(TooSlow);
        }
        if sender.held_bytes() > 0 {
            return Ok(None);
        }
        self.rate_check.is_awaited = true;
        Ok(Some(self.rate_check.rate_check.allowance()))
    }

    /// Informs the handler that the body arrives too slowly.
    pub fn fail_slow(mut self, engine: &mut ServerConnection) {
        engine.release(self.stream, self.unreleased_bytes);
        if let Some(sender) = self.sender.take() {
            sender.fail(io::Error::new(io::ErrorKind::TimedOut, "the body arrives too slowly"));
        }
    }

    /// Gives up the body, which is not needed any more.
    pub fn abandon(self, engine: &mut ServerConnection) {
        engine.release(self.stream, self.unreleased_bytes);
    }

    /// Ends the body.
    pub fn finish(&mut self) {
        self.finish_with_trailers(Vec::new());
    }

    /// Ends the body with these field lines as trailers.
    pub fn finish_with_trailers(&mut self, trailers: Vec<u8>) {
        if let Some(sender) = self.sender.take() {
            sender.finish_with_trailers(trailers);
        }
    }

    /// Whether it may pause for any time.
    pub fn may_pause(&self) -> bool {
        self.is_tunnel || self.is_unlimited
    }

    /// Opens the client's windows for the bytes that the handler has read, and notes whether the body is
    /// unlimited. Ready if a window or the limit has changed; called again when more is read.
    pub fn poll_release(&mut self, engine: &mut ServerConnection, context: &mut Context<'_>) -> Poll<()> {
        let Some(sender) = &mut self.sender else { return Poll::Pending };
        let held_bytes = sender.held_bytes();
        let read_bytes = self.unreleased_bytes.saturating_sub(held_bytes);
        if read_bytes > 0 {
            engine.release(self.stream, read_bytes);
            self.unreleased_bytes = held_bytes;
            return Poll::Ready(());
        }
        if sender.is_unlimited() && !self.is_unlimited {
            self.is_unlimited = true;
            return Poll::Ready(());
        }
        sender.wake_when_read(context);
        Poll::Pending
    }
}

/// A response's body that is not completely sent.
pub struct UnsentBody {
    /// The stream.
    pub stream: StreamKey,
    parts: VecDeque<BodyPart>,
    /// The source of the rest.
    source: Option<Receiver>,
    /// How many further bytes may arrive from the handler, if a length was declared.
    promised_bytes: Option<u64>,
    /// The request counts as in progress until the body is sent.
    pub under_way: Option<UnderWayGuard>,
    /// The answer, which is counted and logged when the body was sent.
    pub answer: UnnotedAnswer,
}

/// How a body continues.
pub enum BodyProgress {
    /// It has grown, or ended.
    More,
    /// It broke off.
    Broken(io::Error),
}

impl UnsentBody {
    /// A body whose parts are all present, except the last if that is a stream.
    pub fn new(stream: StreamKey, parts: Vec<BodyPart>, answer: UnnotedAnswer) -> UnsentBody {
        let mut parts = VecDeque::from(parts);
        let (source, promised_bytes) = match parts.pop_back() {
            Some(BodyPart::Stream { body, length }) => (Some(body), length),
            Some(other) => {
                parts.push_back(other);
                (None, None)
            }
            None => (None, None),
        };
        UnsentBody { stream, parts, source, promised_bytes, under_way: None, answer }
    }

    /// Whether more of it arrives from a handler.
    pub fn awaits_handler(&self) -> bool {
        self.source.is_some()
    }

    /// Gets the output of the handler, as far as the client can soon accept it.
    pub fn poll_source(
        &mut self,
        engine: &mut ServerConnection,
        out: &mut Vec<u8>,
        context: &mut Context<'_>,
    ) -> Poll<BodyProgress> {
        let Some(source) = &mut self.source else { return Poll::Pending };
        if engine.unsent(self.stream) >= AHEAD_BYTES {
            return Poll::Pending;
        }
        match source.poll_next(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(piece))) => {
                if let Some(promised) = &mut self.promised_bytes {
                    let Some(left) = promised.checked_sub(piece.len() as u64) else {
                        return Poll::Ready(BodyProgress::Broken(io::Error::other(
                            "a program sent more than its Content-Length",
                        )));
                    };
                    *promised = left;
                }
                engine.offer(self.stream, piece.len());
                self.parts.push_back(BodyPart::Bytes(piece));
                Poll::Ready(BodyProgress::More)
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(BodyProgress::Broken(error)),
            Poll::Ready(None) if self.promised_bytes.is_some_and(|left| left > 0) => Poll::Ready(
                BodyProgress::Broken(io::Error::other("a program sent less than its Content-Length")),
            ),
            Poll::Ready(None) => {
                let trailers = source.take_trailers();
                self.source = None;
                let block = (!trailers.is_empty()).then(|| encode_trailers(&trailers));
                engine.finish(self.stream, block.as_deref(), out);
                Poll::Ready(BodyProgress::More)
            }
        }
    }

    /// Whether it was sent completely.
    pub fn is_finished(&self) -> bool {
        self.source.is_none() && self.parts.is_empty()
    }

    /// Appends the next `length` bytes.
    pub fn append(&mut self, length: usize, out: &mut Vec<u8>) -> io::Result<()> {
        self.answer.append(length);
        let mut missing = length;
        while missing > 0 {
            let Some(part) = self.parts.front_mut() else {
                return Err(io::Error::other("a body is shorter than its declared length"));
            };
            let (taken, is_empty) = match part {
                BodyPart::Bytes(bytes) => {
                    let count = bytes.len().min(missing);
                    out.extend_from_slice(&bytes.split_to(count));
                    (count, bytes.is_empty())
                }
                BodyPart::Cached(prepared, range) => {
                    let count = range.len().min(missing);
                    out.extend_from_slice(&prepared.body()[range.start..range.start + count]);
                    range.start += count;
                    (count, range.start >= range.end)
                }
                BodyPart::File { file, offset, length } => {
                    let count = usize::try_from(*length).unwrap_or(usize::MAX).min(missing);
                    append_file(file, *offset, count, out)?;
                    *offset += count as u64;
                    *length -= count as u64;
                    (count, *length == 0)
                }
                BodyPart::Stream { .. } => {
                    return Err(io::Error::other("a stream is not the last part of its body"));
                }
            };
            if is_empty {
                self.parts.pop_front();
            }
            missing -= taken;
        }
        Ok(())
    }

    /// Offers the parts of a body of unknown length that are present to the engine.
    pub fn offer_parts(&self, engine: &mut ServerConnection) {
        let bytes: u64 = self.parts.iter().filter_map(BodyPart::length).sum();
        if bytes > 0 {
            engine.offer(self.stream, usize::try_from(bytes).unwrap_or(usize::MAX));
        }
    }

    /// Ends the stream early.
    pub fn reset(&self, engine: &mut ServerConnection) {
        engine.reset(self.stream, ErrorCode::INTERNAL_ERROR);
    }
}

/// A header block of trailers.
fn encode_trailers(trailers: &[u8]) -> Vec<u8> {
    let mut block = Vec::with_capacity(trailers.len());
    encode_fields_block(split_fields(trailers), &mut block);
    block
}

fn append_file(
    file: &std::os::fd::OwnedFd,
    mut offset: u64,
    count: usize,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let start = out.len();
    out.resize(start + count, 0);
    let mut filled = start;
    while filled < out.len() {
        match rustix::io::pread(file, &mut out[filled..], offset)? {
            0 => {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the file became shorter while it was sent",
                ));
            }
            read => {
                filled += read;
                offset += read as u64;
            }
        }
    }
    Ok(())
}
