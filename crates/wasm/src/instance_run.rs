//! One request on its core: polls the instance and transfers bodies.
//!
//! The instance starts on the core. If it computes for longer than a tick, it moves to a thread, and the core
//! waits for its answer.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as _, Frame};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use touchstone_handler::component_counts::Counts;
use touchstone_handler::handler::Handler;
use touchstone_handler::pipe::{Receiver, Sender};
use touchstone_handler::request::{NextHandler, Request};
use wasmtime_wasi_http::{Error, WasiBody};

use crate::guest::ReusableInstance;
use crate::hooks::{Destination, OutgoingRequest};
use crate::incoming_body::Feeder;
use crate::message::Reply;
use crate::next::{self, NextAnswer};
use crate::output::OutputLogger;
use crate::state::ComputeLimit;
use crate::{message, outgoing, threads, ticker};

/// How long new requests of a component start in a thread after one of them has moved there.
const THREAD_PERIOD: Duration = Duration::from_secs(1);

/// The result of an instance's work for a request: the instance, or the error.
pub type WorkResult = wasmtime::Result<Box<ReusableInstance>>;

/// The work of an instance for a request.
pub type Work = Pin<Box<dyn Future<Output = WorkResult> + Send>>;

/// Why an instance has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// A trap, or an invalid answer.
    Fault(String),
    /// The same, after the instance has reached its memory limit.
    Memory(String),
    /// A time limit was exceeded.
    Time(&'static str),
    /// The limit of instances is reached.
    Full,
}

/// Receives outgoing requests, with the clients for them.
pub type OutgoingRequests = (mpsc::UnboundedReceiver<OutgoingRequest>, Rc<[Rc<dyn Handler>]>);

/// The parts of a run.
pub struct RunParts {
    /// The work of the instance.
    pub work: Work,
    /// The instance starts in a thread.
    pub in_thread: bool,
    /// Limits the computing time.
    pub compute_limit: Arc<ComputeLimit>,
    /// The counts of the component.
    pub counts: Arc<Counts>,
    /// Passes the request's body to the instance.
    pub feed: Option<(Feeder, Receiver)>,
    /// Outgoing requests, and the clients for them.
    pub outgoing_requests: Option<OutgoingRequests>,
    /// The action that follows the component.
    pub next: Option<Rc<dyn NextHandler>>,
    /// The client's request, without its body.
    pub client_request: Request,
    /// Logs the instance's standard output and error.
    pub output: OutputLogger,
    /// Until this tick, requests of the component start in a thread.
    pub thread_until: Arc<AtomicU64>,
}

/// A request in an instance.
pub struct InstanceRun {
    guest: Guest,
    compute_limit: Arc<ComputeLimit>,
    counts: Arc<Counts>,
    feed: Option<(Feeder, Receiver)>,
    outgoing_requests: Option<OutgoingRequests>,
    next: Option<Rc<dyn NextHandler>>,
    /// The answer of the next handler.
    pub next_answer: NextAnswer,
    client_request: Request,
    thread_until: Arc<AtomicU64>,
    _output: OutputLogger,
    /// The failure of the instance, once it has failed.
    failed: Option<Failure>,
    /// The instance, once it has ended without an error.
    pub reusable: Option<Box<ReusableInstance>>,
}

enum Guest {
    OnCore(Work),
    InThread(JoinHandle<WorkResult>),
    Ended,
}

/// The part of an answer's body that was available without waiting.
pub struct BufferedBody {
    /// Its pieces.
    pub pieces: Vec<Bytes>,
    /// The field lines of the trailers.
    pub trailers: Vec<u8>,
    /// The body has ended.
    pub is_complete: bool,
}

impl InstanceRun {
    /// Starts a run of the instance.
    pub fn new(parts: RunParts) -> InstanceRun {
        let RunParts {
            work,
            in_thread,
            compute_limit,
            counts,
            feed,
            outgoing_requests,
            next,
            client_request,
            output,
            thread_until,
        } = parts;
        let mut run = InstanceRun {
            guest: Guest::OnCore(work),
            compute_limit,
            counts,
            feed,
            outgoing_requests,
            next,
            next_answer: NextAnswer::default(),
            client_request,
            thread_until,
            _output: output,
            failed: None,
            reusable: None,
        };
        if in_thread {
            run.move_to_thread();
        }
        run
    }

    fn move_to_thread(&mut self) {
        self.guest = match std::mem::replace(&mut self.guest, Guest::Ended) {
            Guest::OnCore(work) => {
                match threads::spawn(LimitedWork { work, compute_limit: self.compute_limit.clone() }) {
                    Some(handle) => Guest::InThread(handle),
                    None => Guest::Ended,
                }
            }
            other => other,
        };
    }

    /// Polls the instance, its outgoing requests and the request's body. Ready once the instance has ended.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let ended = self.poll_guest(context);
        self.send_outgoing(context);
        if let Some((feeder, receiver)) = &mut self.feed
            && feeder.poll(context, receiver).is_ready()
        {
            self.feed = None;
        }
        match ready!(ended) {
            Some(Ok(reusable)) => self.reusable = Some(reusable),
            Some(Err(error)) => {
                let failure = self.failure(&error);
                self.failed = Some(failure.clone());
                return Poll::Ready(Err(failure));
            }
            None => {}
        }
        Poll::Ready(Ok(()))
    }

    fn send_outgoing(&mut self, context: &mut Context<'_>) {
        let Some((outgoing_requests, clients)) = &mut self.outgoing_requests else { return };
        while let Poll::Ready(Some(outgoing_request)) = outgoing_requests.poll_recv(context) {
            match outgoing_request.to {
                Destination::Origin(origin) => {
                    if let Some(client) = clients.get(origin) {
                        outgoing::send(outgoing_request, client.clone(), &self.client_request);
                    }
                }
                Destination::Next => {
                    let Some(next) = self.next.clone() else { continue };
                    // If the outgoing request has a body, the component may copy the client's body into it,
                    // even if it has not requested a piece yet.
                    let is_empty_body = outgoing_request.request.body().is_end_stream();
                    let unread = self.feed.take_if(|(feeder, _)| is_empty_body && feeder.is_unread());
                    let client_body = unread.map(|(_, receiver)| receiver);
                    let (request, answer) = (&self.client_request, &self.next_answer);
                    next::forward(outgoing_request, next, request, client_body, answer);
                }
            }
        }
    }

    fn poll_guest(&mut self, context: &mut Context<'_>) -> Poll<Option<WorkResult>> {
        if let Guest::OnCore(work) = &mut self.guest {
            self.compute_limit.begin_turn();
            let polled = work.as_mut().poll(context);
            self.compute_limit.end_turn();
            if let Poll::Ready(ended) = polled {
                self.guest = Guest::Ended;
                return Poll::Ready(Some(ended));
            }
            if !self.compute_limit.take_long() {
                return Poll::Pending;
            }
            self.counts.moved.add(1);
            self.thread_until.store(ticker::now() + ticker::ticks_of(THREAD_PERIOD), Ordering::Relaxed);
            self.move_to_thread();
        }
        match &mut self.guest {
            Guest::InThread(handle) => {
                let ended = ready!(Pin::new(handle).poll(context));
                self.guest = Guest::Ended;
                Poll::Ready(Some(ended.unwrap_or_else(|error| Err(wasmtime::format_err!("{error}")))))
            }
            _ => Poll::Ready(None),
        }
    }

    /// Called at the end of the body, which is complete unless the instance has failed.
    fn poll_complete(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        if self.compute_limit.has_failed() && self.failed.is_none() && !self.has_ended() {
            return self.poll(context);
        }
        Poll::Ready(self.failed.clone().map_or(Ok(()), Err))
    }

    fn failure(&self, error: &wasmtime::Error) -> Failure {
        if self.compute_limit.is_over() {
            return Failure::Time("it has computed for longer than computing_timeout");
        }
        if error.is::<wasmtime::PoolConcurrencyLimitError>() {
            return Failure::Full;
        }
        match self.compute_limit.memory_was_refused() {
            true => Failure::Memory(format!("{error:#}; it requested more memory than 'memory' allows")),
            false => Failure::Fault(format!("{error:#}")),
        }
    }

    /// The request's id in logs.
    pub fn id(&self) -> Box<str> {
        self.client_request.id.clone()
    }

    /// Whether the instance has ended.
    pub fn has_ended(&self) -> bool {
        matches!(self.guest, Guest::Ended)
    }

    /// Waits for the head of the answer. The timer is set only if the head is not available at once.
    pub async fn head(&mut self, reply: oneshot::Receiver<Reply>, limit: Duration) -> Result<Reply, Failure> {
        let mut reply = Some(reply);
        let mut poll = |context: &mut Context<'_>| {
            let ended = self.poll(context);
            let replied = match &mut reply {
                Some(waiting) => Pin::new(waiting).poll(context),
                None => Poll::Pending,
            };
            if let Poll::Ready(replied) = replied {
                // The channel must not be polled again. Without an answer, the result of the work has the
                // reason.
                reply = None;
                if let Ok(answer) = replied {
                    return Poll::Ready(Ok(answer));
                }
            }
            match ready!(ended) {
                Ok(()) => Poll::Ready(answer_after_end(reply.take())),
                Err(failure) => Poll::Ready(Err(failure)),
            }
        };
        let mut first = None;
        poll_fn(|context| {
            if let Poll::Ready(ready) = poll(context) {
                first = Some(ready);
            }
            Poll::Ready(())
        })
        .await;
        if let Some(first) = first {
            return first;
        }
        let rest = poll_fn(poll);
        if limit.is_zero() {
            return rest.await;
        }
        let time = Err(Failure::Time("it has not started its answer within answer_timeout"));
        tokio::time::timeout(limit, rest).await.unwrap_or(time)
    }

    /// Takes the available part of the body without waiting, up to a number of bytes.
    pub async fn take_available(
        &mut self,
        body: &mut WasiBody,
        most_bytes: usize,
    ) -> Result<BufferedBody, Failure> {
        let mut buffered = BufferedBody { pieces: Vec::new(), trailers: Vec::new(), is_complete: false };
        let mut bytes = 0;
        poll_fn(|context| {
            let mut has_polled = self.has_ended();
            loop {
                match Pin::new(&mut *body).poll_frame(context) {
                    Poll::Ready(Some(Ok(frame))) => {
                        has_polled = false;
                        match Piece::of(frame) {
                            Piece::Bytes(piece) => {
                                bytes += piece.len();
                                buffered.pieces.push(piece);
                            }
                            Piece::Trailers(lines) => buffered.trailers = lines,
                        }
                        if bytes > most_bytes {
                            return Poll::Ready(Ok(()));
                        }
                    }
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(body_failure(&error))),
                    Poll::Ready(None) => {
                        buffered.is_complete = true;
                        return self.poll_complete(context);
                    }
                    Poll::Pending if has_polled => return Poll::Ready(Ok(())),
                    Poll::Pending => {
                        has_polled = true;
                        if !self.has_ended()
                            && let Poll::Ready(Err(failure)) = self.poll(context)
                        {
                            return Poll::Ready(Err(failure));
                        }
                    }
                }
            }
        })
        .await?;
        Ok(buffered)
    }

    /// Sends the rest of the body to the client as fast as the client reads. `most_bytes` is the limit of the
    /// rest, and `limit` the longest pause between two pieces.
    pub async fn stream(
        &mut self,
        body: WasiBody,
        sender: Sender,
        most_bytes: u64,
        limit: Duration,
    ) -> Result<(), Failure> {
        let mut transfer = BodyTransfer { body, sender: Some(sender), remaining_bytes: most_bytes };
        loop {
            // The limit does not apply to waiting for the client.
            if !poll_fn(|context| transfer.poll_room(self, context)).await? {
                return Ok(());
            }
            let next = poll_fn(|context| transfer.poll_piece(self, context));
            let next = match limit.is_zero() {
                true => next.await,
                false => tokio::time::timeout(limit, next).await.unwrap_or(Err(Failure::Time(
                    "it has written nothing of its answer for longer than answer_timeout",
                ))),
            };
            match next {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(failure) => {
                    if let Some(sender) = transfer.sender.take() {
                        sender.fail(io::Error::other("the component failed"));
                    }
                    return Err(failure);
                }
            }
        }
    }

    /// Waits for the end of the instance after its answer.
    pub async fn finish(&mut self, limit: Duration) -> Result<(), Failure> {
        let rest = poll_fn(|context| self.poll(context));
        match limit.is_zero() {
            true => rest.await,
            false => tokio::time::timeout(limit, rest)
                .await
                .unwrap_or(Err(Failure::Time("it has not ended within answer_timeout after its answer"))),
        }
    }
}

impl Drop for InstanceRun {
    fn drop(&mut self) {
        if let Guest::InThread(handle) = &self.guest {
            handle.abort();
        }
    }
}

/// A body that is being sent to the client.
struct BodyTransfer {
    body: WasiBody,
    /// `None`: the whole body was sent.
    sender: Option<Sender>,
    remaining_bytes: u64,
}

impl BodyTransfer {
    /// Ready with true when the pipe to the client has room, with false when the client has disconnected.
    fn poll_room(&mut self, run: &mut InstanceRun, context: &mut Context<'_>) -> Poll<Result<bool, Failure>> {
        let Some(sender) = &mut self.sender else { return Poll::Ready(Ok(false)) };
        if let Poll::Ready(ready) = sender.poll_ready(context) {
            return Poll::Ready(Ok(ready.is_ok()));
        }
        if !run.has_ended()
            && let Poll::Ready(Err(failure)) = run.poll(context)
        {
            return Poll::Ready(Err(failure));
        }
        Poll::Pending
    }

    /// Ready with true when a piece was sent, with false at the end or when the client has disconnected.
    fn poll_piece(
        &mut self,
        run: &mut InstanceRun,
        context: &mut Context<'_>,
    ) -> Poll<Result<bool, Failure>> {
        let mut has_polled = run.has_ended();
        loop {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => return Poll::Ready(self.forward(Piece::of(frame))),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(body_failure(&error))),
                Poll::Ready(None) => {
                    ready!(run.poll_complete(context))?;
                    if let Some(sender) = self.sender.take() {
                        sender.finish();
                    }
                    return Poll::Ready(Ok(false));
                }
                Poll::Pending if has_polled => {}
                Poll::Pending => {
                    has_polled = true;
                    if let Poll::Ready(Err(failure)) = run.poll(context) {
                        return Poll::Ready(Err(failure));
                    }
                    continue;
                }
            }
            // The client may disconnect while the instance writes nothing.
            let is_gone = self.sender.as_mut().is_none_or(|sender| {
                sender.wake_when_read(context);
                sender.is_gone()
            });
            return if is_gone { Poll::Ready(Ok(false)) } else { Poll::Pending };
        }
    }

    fn forward(&mut self, piece: Piece) -> Result<bool, Failure> {
        match piece {
            Piece::Bytes(bytes) => {
                let Some(remaining) = self.remaining_bytes.checked_sub(bytes.len() as u64) else {
                    return Err(Failure::Fault("its answer is longer than 'body_size' allows".to_string()));
                };
                self.remaining_bytes = remaining;
                if let Some(sender) = &mut self.sender {
                    sender.push(bytes);
                }
                Ok(true)
            }
            Piece::Trailers(lines) => {
                if let Some(sender) = self.sender.take() {
                    sender.finish_with_trailers(lines);
                }
                Ok(false)
            }
        }
    }
}

enum Piece {
    Bytes(Bytes),
    Trailers(Vec<u8>),
}

impl Piece {
    fn of(frame: Frame<Bytes>) -> Piece {
        match frame.into_data() {
            Ok(bytes) => Piece::Bytes(bytes),
            Err(frame) => {
                let mut lines = Vec::new();
                message::append_lines(&frame.into_trailers().unwrap_or_default(), &mut lines);
                Piece::Trailers(lines)
            }
        }
    }
}

/// The answer of an instance that has ended. A task that has used up its cooperative budget gets `Pending`
/// from tokio even if the answer has arrived, and the instance has no later turn.
fn answer_after_end(reply: Option<oneshot::Receiver<Reply>>) -> Result<Reply, Failure> {
    let answer = reply.and_then(|mut reply| reply.try_recv().ok());
    answer.ok_or_else(|| Failure::Fault("it has ended without an answer".to_string()))
}

fn body_failure(error: &Error) -> Failure {
    Failure::Fault(format!("the body of its answer broke off: {error}"))
}

/// Work in a thread, whose computing time is counted.
struct LimitedWork {
    work: Work,
    compute_limit: Arc<ComputeLimit>,
}

impl Future for LimitedWork {
    type Output = WorkResult;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<WorkResult> {
        self.compute_limit.begin_turn_in_thread();
        let polled = self.work.as_mut().poll(context);
        self.compute_limit.end_turn();
        polled
    }
}
