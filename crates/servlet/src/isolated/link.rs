//! A core's connection to a child with applications.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use touchstone_http::field_lines;

use super::outgoing::OutgoingFrames;
use super::wire::{self, Flags, Kind, ParsedFrame};
use crate::head::Piece;
use crate::java_call::{AnswerEnd, ClientDisconnected, JavaCall};

/// The number of bytes that are read at once.
const READ_BYTES: usize = 64 * 1024;

/// The connection. It is used until one end closes it.
pub struct Link {
    under_way: RefCell<HashMap<u32, Arc<JavaCall>>>,
    last_number: Cell<u32>,
    outgoing: OutgoingFrames,
}

impl Link {
    /// Connects; `None` if no child listens.
    pub async fn connect(socket: &Path) -> Option<Rc<Link>> {
        let stream = UnixStream::connect(socket).await.ok()?;
        let (from_child, to_child) = stream.into_split();
        let link = Rc::new(Link {
            under_way: RefCell::default(),
            last_number: Cell::new(0),
            outgoing: OutgoingFrames::default(),
        });
        tokio::task::spawn_local(link.clone().write(to_child));
        tokio::task::spawn_local(link.clone().read(from_child));
        Some(link)
    }

    /// Whether it can be used.
    pub fn is_open(&self) -> bool {
        self.outgoing.is_open()
    }

    /// Closes the connection. No more requests will be sent.
    pub fn close(&self) {
        self.outgoing.close();
    }

    /// Sends a request. Returns its number.
    pub fn submit(&self, java_call: &Arc<JavaCall>, request: &[u8], flags: Flags) -> u32 {
        let number = self.last_number.get().wrapping_add(1);
        self.last_number.set(number);
        self.under_way.borrow_mut().insert(number, java_call.clone());
        self.send(Kind::Request, number, &[&[flags.byte()], request]);
        number
    }

    /// Sends a frame with the next write.
    pub fn send(&self, kind: Kind, number: u32, payload: &[&[u8]]) {
        self.outgoing.send(|frames| wire::append(frames, kind, number, payload));
    }

    /// Reports that this many bytes of an answer were sent to the client.
    pub fn taken(&self, number: u32, bytes: usize) {
        if bytes > 0 {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            self.send(Kind::Taken, number, &[&bytes.to_le_bytes()]);
        }
    }

    /// Sends a piece of a request's body.
    pub fn send_body(&self, number: u32, mut piece: &[u8]) {
        while !piece.is_empty() {
            let (now, rest) = piece.split_at(piece.len().min(wire::LONGEST_BYTES / 2));
            self.send(Kind::Body, number, &[now]);
            piece = rest;
        }
    }

    /// Sends the end of the body, with its trailers.
    pub fn end_body(&self, number: u32, end: Result<Vec<u8>, ClientDisconnected>) {
        match end {
            Ok(trailers) => self.send(Kind::BodyEnd, number, &[&trailers]),
            Err(ClientDisconnected) => self.send(Kind::BodyFailed, number, &[]),
        }
    }

    /// Called when no client waits for the answer any more, or it is complete.
    pub fn release(&self, number: u32) {
        if self.under_way.borrow_mut().remove(&number).is_some() {
            self.send(Kind::Gone, number, &[]);
        }
    }

    async fn write(self: Rc<Self>, to_child: OwnedWriteHalf) {
        if !self.outgoing.write(to_child).await {
            self.has_broken();
        }
    }

    async fn read(self: Rc<Self>, mut from_child: OwnedReadHalf) {
        let mut input = Vec::with_capacity(READ_BYTES);
        loop {
            input.reserve(READ_BYTES);
            match from_child.read_buf(&mut input).await {
                Ok(1..) => {}
                _ => return self.has_broken(),
            }
            let mut at = 0;
            loop {
                match wire::parse(&input[at..]) {
                    ParsedFrame::Frame(kind, number, payload, length) => {
                        if !self.take(kind, number, payload) {
                            return self.has_broken();
                        }
                        at += length;
                    }
                    ParsedFrame::Partial => break,
                    ParsedFrame::Wrong => return self.has_broken(),
                }
            }
            input.drain(..at);
        }
    }

    /// Processes a frame. Returns false if the child may not send it.
    fn take(&self, kind: Kind, number: u32, payload: &[u8]) -> bool {
        // Frames of a request that was cancelled may still arrive.
        let Some(java_call) = self.under_way.borrow().get(&number).cloned() else { return true };
        match kind {
            Kind::Wanted => java_call.acknowledge(),
            Kind::EarlyHints if field_lines::are_valid(payload) => java_call.hint(payload),
            Kind::Trailers if field_lines::are_valid(payload) => java_call.set_trailers(payload),
            Kind::Answer => {
                let Some(answered) = wire::parse_answer(payload) else { return false };
                let piece = Piece { head: answered.head, body: answered.body };
                match answered.end {
                    // The task that waits for the client reports that it has disconnected.
                    None => drop(java_call.write(piece, false)),
                    Some(end) => {
                        self.under_way.borrow_mut().remove(&number);
                        java_call.finish(Some(piece), end, true);
                    }
                }
            }
            _ => return false,
        }
        true
    }

    /// Called when the child has ended or has sent an invalid frame. Its requests get no answer.
    fn has_broken(&self) {
        self.close();
        let under_way = std::mem::take(&mut *self.under_way.borrow_mut());
        under_way.into_values().for_each(|java_call| java_call.finish(None, AnswerEnd::Broken, true));
    }
}
