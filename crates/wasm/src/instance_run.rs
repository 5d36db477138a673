//! One request on its core: drives the instance and moves bodies.
//!
//! The instance begins on the core. If it computes for longer than a tick, a thread continues, and the core
//! waits for the answer.

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

use crate::guest::{Reply, ReusableInstance};
use crate::hooks::{Destination, OutgoingRequest};
use crate::incoming_body::Feeder;
use crate::next::{self, NextAnswer};
use crate::output::Logged;
use crate::state::ComputeLimit;
use crate::{message, outgoing, threads, ticker};

/// How long new requests of a component begin in a thread after one of them has computed for long.
const LONG_FOR: Duration = Duration::from_secs(1);

/// The end of an instance's work for a request.
pub type WorkResult = wasmtime::Result<Box<ReusableInstance>>;

/// The work of an instance.
pub type Work = Pin<Box<dyn Future<Output = WorkResult> + Send>>;

/// Why an instance has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// A trap, or an invalid answer.
    Fault(String),
    /// The same, after it was refused memory.
    Memory(String),
    /// It has computed for too long, or has not answered in time.
    Time(&'static str),
    /// There is no room for another instance.
    Full,
}

/// Outgoing requests, and the clients for them.
pub type OutgoingRequests = (mpsc::UnboundedReceiver<OutgoingRequest>, Rc<[Rc<dyn Handler>]>);

/// The parts of a run.
pub struct RunParts {
    /// The work.
    pub work: Work,
    /// It begins in a thread.
    pub in_thread: bool,
    /// Counts its time.
    pub compute_limit: Arc<ComputeLimit>,
    /// The counts of the component.
    pub counts: Arc<Counts>,
    /// Takes the request's body to the instance.
    pub feed: Option<(Feeder, Receiver)>,
    /// Outgoing requests, and the clients for them.
    pub outgoing_requests: Option<OutgoingRequests>,
    /// The action that follows the component.
    pub next: Option<Rc<dyn NextHandler>>,
    /// The request, without its body.
    pub asked: Request,
    /// The instance's standard output and error.
    pub output: Logged,
    /// Until this tick, requests of the component begin in a thread.
    pub long_until: Arc<AtomicU64>,
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
    asked: Request,
    long_until: Arc<AtomicU64>,
    _output: Logged,
    /// Why the instance has failed, once it has.
    failed: Option<Failure>,
    /// The instance, once it has ended well.
    pub reusable: Option<Box<ReusableInstance>>,
}

enum Guest {
    Here(Work),
    There(JoinHandle<WorkResult>),
    Ended,
}

/// The part of an answer's body that was available at once.
pub struct BufferedBody {
    /// Its pieces.
    pub pieces: Vec<Bytes>,
    /// Field lines of trailers.
    pub trailers: Vec<u8>,
    /// There is no more.
    pub is_all: bool,
}

impl InstanceRun {
    /// Starts the run.
    pub fn new(parts: RunParts) -> InstanceRun {
        let RunParts {
            work,
            in_thread,
            compute_limit,
            counts,
            feed,
            outgoing_requests,
            next,
            asked,
            output,
            long_until,
        } = parts;
        let mut run = InstanceRun {
            guest: Guest::Here(work),
            compute_limit,
            counts,
            feed,
            outgoing_requests,
            next,
            next_answer: NextAnswer::default(),
            asked,
            long_until,
            _output: output,
            failed: None,
            reusable: None,
        };
        if in_thread {
            run.go_on_in_thread();
        }
        run
    }

    fn go_on_in_thread(&mut self) {
        self.guest = match std::mem::replace(&mut self.guest, Guest::Ended) {
            Guest::Here(work) => {
                match threads::go_on(LimitedWork { work, compute_limit: self.compute_limit.clone() }) {
                    Some(handle) => Guest::There(handle),
                    None => Guest::Ended,
                }
            }
            other => other,
        };
    }

    /// Drives the instance and everything that belongs to it. Ready once it has ended.
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
                        outgoing::carry_out(outgoing_request, client.clone(), &self.asked);
                    }
                }
                Destination::Next => {
                    let Some(next) = self.next.clone() else { continue };
                    // A component that has opened a body of its own may still read the client's: in a thread
                    // it may not have asked for it yet.
                    let is_unopened = outgoing_request.request.body().is_end_stream();
                    let unread = self.feed.take_if(|(feeder, _)| is_unopened && feeder.is_unread());
                    let client_body = unread.map(|(_, receiver)| receiver);
                    next::carry_out(outgoing_request, next, &self.asked, client_body, &self.next_answer);
                }
            }
        }
    }

    fn poll_guest(&mut self, context: &mut Context<'_>) -> Poll<Option<WorkResult>> {
        if let Guest::Here(work) = &mut self.guest {
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
            self.long_until.store(ticker::now() + ticker::ticks_of(LONG_FOR), Ordering::Relaxed);
            self.go_on_in_thread();
        }
        match &mut self.guest {
            Guest::There(handle) => {
                let ended = ready!(Pin::new(handle).poll(context));
                self.guest = Guest::Ended;
                Poll::Ready(Some(ended.unwrap_or_else(|error| Err(wasmtime::format_err!("{error}")))))
            }
            _ => Poll::Ready(None),
        }
    }

    /// Called when the body has ended: it is complete, unless the instance has failed.
    fn poll_whole(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
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
            true => Failure::Memory(format!("{error:#}; it has asked for more memory than 'memory' allows")),
            false => Failure::Fault(format!("{error:#}")),
        }
    }

    /// The request's id in logs.
    pub fn id(&self) -> Box<str> {
        self.asked.id.clone()
    }

    /// Whether the instance has ended.
    pub fn has_ended(&self) -> bool {
        matches!(self.guest, Guest::Ended)
    }

    /// The head of the answer. The time limit applies only if it is not there at once.
    pub async fn head(&mut self, reply: oneshot::Receiver<Reply>, limit: Duration) -> Result<Reply, Failure> {
        let mut reply = Some(reply);
        let mut poll = |context: &mut Context<'_>| {
            let ended = self.poll(context);
            let replied = match &mut reply {
                Some(waiting) => Pin::new(waiting).poll(context),
                None => Poll::Pending,
            };
            if let Poll::Ready(replied) = replied {
                // It must not be polled again; without an answer, the end of the work gives the reason.
                reply = None;
                if let Ok(answer) = replied {
                    return Poll::Ready(Ok(answer));
                }
            }
            match ready!(ended) {
                Ok(()) => Poll::Ready(late_answer(reply.take())),
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
        let time = Err(Failure::Time("it has not begun its answer within answer_timeout"));
        tokio::time::timeout(limit, rest).await.unwrap_or(time)
    }

    /// Takes the available part of the body without waiting, up to a number of bytes.
    pub async fn take_available(
        &mut self,
        body: &mut WasiBody,
        most_bytes: usize,
    ) -> Result<BufferedBody, Failure> {
        let mut buffered = BufferedBody { pieces: Vec::new(), trailers: Vec::new(), is_all: false };
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
                        buffered.is_all = true;
                        return self.poll_whole(context);
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

    /// Passes the rest of the body to the client as fast as it reads. `most_bytes` is how much may still
    /// come, and `limit` the longest pause.
    pub async fn stream(
        &mut self,
        body: WasiBody,
        sender: Sender,
        most_bytes: u64,
        limit: Duration,
    ) -> Result<(), Failure> {
        let mut flow = Flow { body, sender: Some(sender), left: most_bytes };
        loop {
            // Waiting for the client is not a pause of the instance.
            if !poll_fn(|context| flow.poll_room(self, context)).await? {
                return Ok(());
            }
            let next = poll_fn(|context| flow.poll_piece(self, context));
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
                    if let Some(sender) = flow.sender.take() {
                        sender.fail(io::Error::other("the component failed"));
                    }
                    return Err(failure);
                }
            }
        }
    }

    /// Lets the instance end after its answer.
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
        if let Guest::There(handle) = &self.guest {
            handle.abort();
        }
    }
}

/// A body that is being sent to the client.
struct Flow {
    body: WasiBody,
    /// `None`: the whole body was passed on.
    sender: Option<Sender>,
    left: u64,
}

impl Flow {
    /// Ready with true when the client accepts more, with false when it has disconnected.
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

    /// Ready with true when a piece was passed on, with false when it was the last one.
    fn poll_piece(
        &mut self,
        run: &mut InstanceRun,
        context: &mut Context<'_>,
    ) -> Poll<Result<bool, Failure>> {
        let mut has_polled = run.has_ended();
        loop {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => return Poll::Ready(self.pass_on(Piece::of(frame))),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(body_failure(&error))),
                Poll::Ready(None) => {
                    ready!(run.poll_whole(context))?;
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

    fn pass_on(&mut self, piece: Piece) -> Result<bool, Failure> {
        match piece {
            Piece::Bytes(bytes) => {
                let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
                    return Err(Failure::Fault("its answer is longer than 'body_size' allows".to_string()));
                };
                self.left = left;
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

/// The answer of an instance that has ended. A task that has done much in one turn is told by tokio to wait,
/// also for an answer that is there: for it, too, there is no later turn of the instance.
fn late_answer(reply: Option<oneshot::Receiver<Reply>>) -> Result<Reply, Failure> {
    let answer = reply.and_then(|mut reply| reply.try_recv().ok());
    answer.ok_or_else(|| Failure::Fault("it has ended without an answer".to_string()))
}

fn body_failure(error: &Error) -> Failure {
    Failure::Fault(format!("the body of its answer broke off: {error}"))
}

/// Counts the time of work in a thread.
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
