//! Writes an answer into a stream.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use quinn::{SendStream, WriteError, Written};
use touchstone_access::{MinimumRate, RateCheck};
use touchstone_files::cache::PreparedResponse;
use touchstone_handler::answer::{Answer, BodyPart, Framing, cached_bytes};
use touchstone_http::grammar::{split_field, split_fields};
use touchstone_http::h3::frame::{self, FrameType};
use touchstone_http::h3::qpack;

use super::stream::{Failure, poll_once, within};
use super::transport::SEND_WINDOW_BYTES;
use super::turns::Turns;
use crate::stream_head::answer_fields;
use touchstone_exchange::core::Core;

/// How many bytes of a file are read at a time.
const FILE_BYTES: usize = 64 * 1024;

/// For a longer body, the writer waits until the client has received it.
const DELIVERED_BYTES: u64 = 64 * 1024;

/// A longer body of a cached answer is not copied behind its head.
const SHORT_BODY_BYTES: usize = 1024;

/// A cached response as the frames of a stream.
#[derive(Clone)]
pub struct CachedAnswer {
    /// The head, and what is not in the same buffer of the body.
    chunks: [Bytes; 2],
    body_bytes: u64,
}

impl CachedAnswer {
    /// The frames of a response.
    pub fn new(prepared: &Arc<PreparedResponse>) -> CachedAnswer {
        let lines = prepared.head().split(|&byte| byte == b'\n').skip(1).map(<[u8]>::trim_ascii_end);
        let mut head = encode_fields(200, lines.filter_map(split_field));
        let body = prepared.body();
        if !body.is_empty() {
            frame::append_header(FrameType::DATA, body.len() as u64, &mut head);
        }
        let rest = if body.len() <= SHORT_BODY_BYTES {
            head.extend_from_slice(body);
            Bytes::new()
        } else {
            cached_bytes(prepared.clone(), 0..body.len())
        };
        CachedAnswer { chunks: [head.into(), rest], body_bytes: body.len() as u64 }
    }
}

/// A HEADERS frame of a response.
pub fn encode_fields<'a>(status: u16, fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Vec<u8> {
    let mut section = Vec::with_capacity(256);
    qpack::encode_response(status, fields, &mut section);
    let mut out = Vec::with_capacity(section.len() + 4);
    frame::append(FrameType::HEADERS, &section, &mut out);
    out
}

/// The HEADERS frame of an answer.
pub fn encode_answer(answer: &Answer, framing: Framing, core: &Core) -> Vec<u8> {
    let date = core.clock.second();
    let length = answer.content_length(framing).map(|length| length.to_string());
    encode_fields(answer.status, answer_fields(answer, &date.text, length.as_deref()))
}

/// Writes one answer.
pub struct Writer<'a> {
    send: &'a mut SendStream,
    turns: &'a Turns,
    rate_check: RateCheck,
    minimum: MinimumRate,
    /// Bytes of the body that were written.
    pub body_bytes: u64,
}

impl<'a> Writer<'a> {
    /// A writer with a minimum rate for the client.
    pub fn new(send: &'a mut SendStream, turns: &'a Turns, minimum: MinimumRate) -> Writer<'a> {
        Writer { send, turns, rate_check: RateCheck::begin(minimum), minimum, body_bytes: 0 }
    }

    /// Writes a cached answer and ends the stream.
    pub async fn cached(&mut self, answer: CachedAnswer) -> Result<(), Failure> {
        self.write(answer.chunks).await?;
        self.body_bytes = answer.body_bytes;
        self.finish().await
    }

    /// Writes frames that are complete.
    pub async fn frames(&mut self, frames: Vec<u8>) -> Result<(), Failure> {
        self.write([frames.into(), Bytes::new()]).await
    }

    /// Writes a head, and the parts of its body, and ends the stream.
    pub async fn answer(&mut self, head: Vec<u8>, parts: Vec<BodyPart>) -> Result<(), Failure> {
        let mut pending = head;
        for part in parts {
            match part {
                BodyPart::Bytes(bytes) => self.data(&mut pending, bytes).await?,
                BodyPart::Cached(prepared, range) => {
                    self.data(&mut pending, cached_bytes(prepared, range)).await?;
                }
                BodyPart::File { file, offset, length } => {
                    frame::append_header(FrameType::DATA, length, &mut pending);
                    self.file(&mut pending, &file, offset, length).await?;
                }
                BodyPart::Stream { mut body, length } => {
                    let before = self.body_bytes;
                    loop {
                        let next = match poll_once(body.next()).await {
                            Some(next) => next,
                            None => {
                                // The bytes so far are sent while the handler works.
                                self.data(&mut pending, Bytes::new()).await?;
                                body.next().await
                            }
                        };
                        let Some(piece) = next else { break };
                        let piece = piece.map_err(Failure::Broken)?;
                        let sent = self.body_bytes - before + piece.len() as u64;
                        if length.is_some_and(|length| sent > length) {
                            return Err(Failure::Broken(io::Error::other(
                                "a program sent more than its Content-Length",
                            )));
                        }
                        self.data(&mut pending, piece).await?;
                    }
                    let trailers = body.take_trailers();
                    if !trailers.is_empty() {
                        let mut section = Vec::with_capacity(trailers.len());
                        qpack::encode_fields(split_fields(&trailers), &mut section);
                        frame::append(FrameType::HEADERS, &section, &mut pending);
                    }
                    if length.is_some_and(|length| self.body_bytes - before < length) {
                        return Err(Failure::Broken(io::Error::other(
                            "a program sent less than its Content-Length",
                        )));
                    }
                }
            }
        }
        if !pending.is_empty() {
            self.write([pending.into(), Bytes::new()]).await?;
        }
        self.finish().await
    }

    /// Writes the pending data, and a frame with `bytes` if there are any.
    async fn data(&mut self, pending: &mut Vec<u8>, bytes: Bytes) -> Result<(), Failure> {
        let mut head = std::mem::take(pending);
        let count = bytes.len() as u64;
        if count > 0 {
            frame::append_header(FrameType::DATA, count, &mut head);
        }
        if !head.is_empty() {
            self.write([head.into(), bytes]).await?;
        }
        self.body_bytes += count;
        Ok(())
    }

    /// Writes a range of a file, in turns with other streams.
    async fn file(
        &mut self,
        pending: &mut Vec<u8>,
        file: &std::os::fd::OwnedFd,
        mut offset: u64,
        length: u64,
    ) -> Result<(), Failure> {
        let mut left = length;
        while left > 0 {
            let mut bytes = vec![0; usize::try_from(left).unwrap_or(usize::MAX).min(FILE_BYTES)];
            let read =
                rustix::io::pread(file, &mut bytes, offset).map_err(|error| Failure::Broken(error.into()))?;
            if read == 0 {
                let shorter = "the file became shorter while it was sent";
                return Err(Failure::Broken(io::Error::new(io::ErrorKind::UnexpectedEof, shorter)));
            }
            bytes.truncate(read);
            self.write([std::mem::take(pending).into(), bytes.into()]).await?;
            self.body_bytes += read as u64;
            offset += read as u64;
            left -= read as u64;
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Writes both, as fast as the client accepts them, in turns with other answers.
    async fn write(&mut self, mut chunks: [Bytes; 2]) -> Result<(), Failure> {
        let place = self.turns.place(self.send.id().into());
        loop {
            let left: usize = chunks.iter().map(Bytes::len).sum();
            if left == 0 {
                return Ok(());
            }
            let written = poll_fn(|context| {
                place.poll_write(left, context, |context, most| {
                    poll_write_chunks(self.send, &mut chunks, left, most, context)
                })
            });
            let (written, waited) = within(self.rate_check.allowance(), written).await;
            let bytes = match written {
                Some(Ok(written)) => written.bytes,
                Some(Err(_)) => return Err(Failure::Gone),
                None => return Err(Failure::Slow),
            };
            self.rate_check.record(bytes as u64, waited);
        }
    }

    /// Ends the stream. After a long body it waits until the client has received all data, so that the
    /// connection is not closed before.
    async fn finish(&mut self) -> Result<(), Failure> {
        // An error means that the client has stopped the stream.
        if self.send.finish().is_err() {
            return Err(Failure::Gone);
        }
        if self.body_bytes <= DELIVERED_BYTES {
            return Ok(());
        }
        let waiting_bytes = self.body_bytes.min(SEND_WINDOW_BYTES);
        let rate = self.minimum.bytes_per_second.max(1);
        let limit = self.minimum.stall_timeout + Duration::from_secs(waiting_bytes / rate);
        match within(limit, self.send.stopped()).await.0 {
            Some(Ok(None)) => Ok(()),
            Some(_) => Err(Failure::Gone),
            None => Err(Failure::Slow),
        }
    }
}

/// Writes at most `most` of the `left` bytes of both, and removes what was written.
fn poll_write_chunks(
    send: &mut SendStream,
    chunks: &mut [Bytes; 2],
    left: usize,
    most: usize,
    context: &mut Context<'_>,
) -> Poll<Result<Written, WriteError>> {
    if left <= most {
        return pin!(send.write_chunks(chunks)).poll(context);
    }
    let mut part = first_bytes(chunks, most);
    let written = ready!(pin!(send.write_chunks(&mut part)).poll(context))?;
    advance(chunks, written.bytes);
    Poll::Ready(Ok(written))
}

/// The first bytes of both, at most this many.
fn first_bytes([first, second]: &[Bytes; 2], most: usize) -> [Bytes; 2] {
    let of_first = first.len().min(most);
    [first.slice(..of_first), second.slice(..second.len().min(most - of_first))]
}

/// Removes the first bytes of both.
fn advance([first, second]: &mut [Bytes; 2], bytes: usize) {
    let of_first = first.len().min(bytes);
    first.advance(of_first);
    second.advance(bytes - of_first);
}
