//! Between a core and a worker: the body of the request one way, the answer the other, both in pieces with limits.
//!
//! The worker may wait, the core must not: so the worker's end blocks, and the core's end is a future.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::answer::Head;
use crate::connection::{AnswerHead, Connection, Gone, Outcome};

/// Bytes of an answer that are gathered before they are sent on.
const GATHERED_BYTES: usize = 32 * 1024;

/// Pieces that may be on their way, each way.
const PIECES: usize = 4;

/// What a worker sends.
#[derive(Debug)]
pub enum Message {
    /// The head, with the beginning of the body; and whether that is all of it.
    Head(Head, Vec<u8>, bool),
    /// More of the body.
    Body(Vec<u8>),
    /// The request's body is wanted; said once. Until then it may be for somebody else.
    WantsBody,
    /// The end.
    End(Outcome),
}

/// What a worker asks for.
#[derive(Debug)]
pub enum Piece {
    /// Some of the body.
    Bytes(Bytes),
    /// The body broke off.
    Failed,
}

/// The worker's end.
pub struct WorkerEnd {
    messages: Sender<Message>,
    body: Option<Receiver<Piece>>,
    has_asked_for_body: bool,
    held: Bytes,
    head: Option<Head>,
    gathered: Vec<u8>,
    is_gone: Arc<AtomicBool>,
}

/// The core's end.
pub struct CoreEnd {
    /// What the worker sends.
    pub messages: Receiver<Message>,
    /// Where the body goes, if there is one.
    pub body: Option<Sender<Piece>>,
    /// Set when the client has left.
    pub _is_gone: Leaver,
}

/// Says that the client has left when it is dropped.
pub struct Leaver(Arc<AtomicBool>);

impl Drop for Leaver {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Both ends, for a request with or without a body.
pub fn bridge(has_body: bool) -> (WorkerEnd, CoreEnd) {
    let (messages, received) = channel(PIECES);
    let (to_worker, body) = channel(PIECES);
    let is_gone = Arc::new(AtomicBool::new(false));
    let worker = WorkerEnd {
        messages,
        body: has_body.then_some(body),
        has_asked_for_body: false,
        held: Bytes::new(),
        head: None,
        gathered: Vec::new(),
        is_gone: is_gone.clone(),
    };
    (worker, CoreEnd { messages: received, body: has_body.then_some(to_worker), _is_gone: Leaver(is_gone) })
}

impl CoreEnd {
    /// Passes the request's body to the worker, as fast as that reads it.
    pub fn send_body(&mut self, body: touchstone_interfaces::pipe::Receiver) {
        if let Some(to_worker) = self.body.take() {
            tokio::task::spawn_local(send_body(body, to_worker));
        }
    }
}

async fn send_body(mut body: touchstone_interfaces::pipe::Receiver, to_worker: Sender<Piece>) {
    // The client is asked for more only when the worker has taken what came before.
    while let Ok(place) = to_worker.reserve().await {
        match body.next().await {
            Some(Ok(bytes)) => place.send(Piece::Bytes(bytes)),
            Some(Err(_)) => return place.send(Piece::Failed),
            None => return,
        }
    }
}

impl WorkerEnd {
    fn send(&mut self, message: Message) -> Result<(), Gone> {
        self.messages.blocking_send(message).map_err(|_| Gone)
    }

    fn send_gathered(&mut self, is_all: bool) -> Result<(), Gone> {
        let gathered = std::mem::take(&mut self.gathered);
        match self.head.take() {
            Some(head) => self.send(Message::Head(head, gathered, is_all)),
            None if gathered.is_empty() => Ok(()),
            None => self.send(Message::Body(gathered)),
        }
    }

    /// Goes on with an answer that was begun on the core.
    pub fn resume(&mut self, head: Option<Head>, gathered: Vec<u8>) {
        self.head = head;
        self.gathered = gathered;
    }

    /// Begins the answer with a head that is written down already.
    pub fn start_with(&mut self, head: Head) -> Result<(), Gone> {
        self.head = Some(head);
        if self.is_alive() { Ok(()) } else { Err(Gone) }
    }

    /// Whoever answered is gone. What was not sent on is not sent any more, so that the client may get an error instead.
    pub fn abandon(mut self) {
        self.head = None;
        self.gathered.clear();
        // Nobody may be listening any more.
        let _ = self.send(Message::End(Outcome::Close));
    }

    /// Says how the request ended.
    pub fn finish(mut self, outcome: Outcome) {
        let is_all = outcome == Outcome::Answered;
        if self.send_gathered(is_all).is_ok() {
            // Nobody may be listening any more.
            let _ = self.send(Message::End(outcome));
        }
    }
}

impl Connection for WorkerEnd {
    fn read(&mut self, to: &mut [u8]) -> Result<usize, Gone> {
        if self.held.is_empty() {
            if self.body.is_some() && !self.has_asked_for_body {
                self.has_asked_for_body = true;
                // A plug-in may answer before it reads: what it has answered goes first.
                self.send(Message::WantsBody)?;
            }
            let Some(body) = &mut self.body else { return Ok(0) };
            match body.blocking_recv() {
                Some(Piece::Bytes(bytes)) => self.held = bytes,
                Some(Piece::Failed) => return Err(Gone),
                None => return if self.is_gone.load(Ordering::Acquire) { Err(Gone) } else { Ok(0) },
            }
        }
        let read = self.held.len().min(to.len());
        to[..read].copy_from_slice(&self.held.split_to(read));
        Ok(read)
    }

    fn start(&mut self, head: &AnswerHead<'_>) -> Result<(), Gone> {
        self.head = Some(Head::of(head));
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        if self.is_gone.load(Ordering::Acquire) {
            return Err(Gone);
        }
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= GATHERED_BYTES { self.send_gathered(false) } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Gone> {
        self.send_gathered(false)
    }

    fn is_alive(&self) -> bool {
        !self.is_gone.load(Ordering::Acquire)
    }
}
