//! A body that an instance of 0.2 writes and the server reads.
//!
//! It is a short queue under one lock: most bodies are written in one turn and read afterwards. Short writes
//! share a buffer, so that such a body is one piece, which was copied once.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame};
use wasmtime::format_err;
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};
use wasmtime_wasi_http::Error;
use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;

use crate::hooks::{PIECE_BYTES, WAITING_PIECES};

/// The capacity of the queue, in pieces. If it is full, the instance waits.
const MOST_PIECES: usize = WAITING_PIECES + 1;

/// The size of a buffer for several writes to a body of unknown length.
const BUFFER_BYTES: usize = 16 << 10;

/// The message of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyOf {
    /// A request that the instance sends.
    Request,
    /// The answer of the instance.
    Answer,
}

/// The resource `outgoing-body`.
pub struct OutgoingBody {
    shared: Arc<Shared>,
}

/// The stream that the instance writes to.
pub struct BodyWriter {
    shared: Arc<Shared>,
}

/// The end that the server reads.
pub struct BodyReader {
    shared: Arc<Shared>,
}

struct Shared {
    of: BodyOf,
    /// The value of Content-Length.
    declared_length: Option<u64>,
    state: Mutex<OutgoingState>,
}

struct OutgoingState {
    /// Buffers that never grow beyond their capacity. A write that the last one has room for is added to it.
    pieces: VecDeque<Vec<u8>>,
    /// The number of written bytes.
    written: u64,
    writer: WriterState,
    end: End,
    is_reader_dropped: bool,
    reader: Option<Waker>,
    waiting_writer: Option<Waker>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WriterState {
    /// The instance has not opened the stream.
    NotOpened,
    Open,
    Closed,
}

enum End {
    /// The body has not ended.
    Open,
    /// It ends after the pieces.
    Finished,
    /// These trailers follow the pieces.
    Trailers(HeaderMap),
    /// It is incomplete.
    Incomplete,
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The bytes are written, and there is room for more.
    WithRoom,
    /// The bytes are written, and the body is full.
    Full,
    /// There was no room for the bytes.
    No,
}

/// Creates a body and its reader.
pub fn outgoing_body(of: BodyOf, declared_length: Option<u64>) -> (OutgoingBody, BodyReader) {
    let state = Mutex::new(OutgoingState {
        pieces: VecDeque::new(),
        written: 0,
        writer: WriterState::NotOpened,
        end: End::Open,
        is_reader_dropped: false,
        reader: None,
        waiting_writer: None,
    });
    let shared = Arc::new(Shared { of, declared_length, state });
    (OutgoingBody { shared: shared.clone() }, BodyReader { shared })
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, OutgoingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn length_error(&self, bytes: u64) -> ErrorCode {
        match self.of {
            BodyOf::Request => ErrorCode::HttpRequestBodySize(Some(bytes)),
            BodyOf::Answer => ErrorCode::HttpResponseBodySize(Some(bytes)),
        }
    }

    /// Ends the body, if it has not ended.
    fn end(&self, end: End) {
        let state = &mut *self.lock();
        if matches!(state.end, End::Open) {
            state.end = end;
            wake(&mut state.reader);
        }
    }

    /// Adds bytes. The queue must have room for a piece.
    fn add(&self, state: &mut OutgoingState, bytes: &[u8]) -> StreamResult<()> {
        let before = state.written;
        let written = before.saturating_add(bytes.len() as u64);
        state.written = written;
        if self.declared_length.is_some_and(|declared| written > declared) {
            return Err(StreamError::LastOperationFailed(self.length_error(written).into()));
        }
        if bytes.is_empty() {
            return Ok(());
        }
        match state.pieces.back_mut() {
            Some(last) if last.capacity() - last.len() >= bytes.len() => last.extend_from_slice(bytes),
            _ => {
                let mut piece = Vec::with_capacity(self.buffer_bytes(before, bytes.len()));
                piece.extend_from_slice(bytes);
                state.pieces.push_back(piece);
            }
        }
        wake(&mut state.reader);
        Ok(())
    }

    /// The capacity of a buffer whose first bytes are these.
    fn buffer_bytes(&self, written_before: u64, bytes: usize) -> usize {
        let expected = match self.declared_length {
            Some(declared) => usize::try_from(declared - written_before).unwrap_or(usize::MAX),
            // The first write may be the whole body.
            None if written_before == 0 => 0,
            None => BUFFER_BYTES,
        };
        expected.min(PIECE_BYTES).max(bytes)
    }
}

impl OutgoingState {
    fn has_room(&self) -> bool {
        self.pieces.len() < MOST_PIECES
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

impl OutgoingBody {
    /// Opens its stream; `None` if it was opened before.
    pub fn writer(&self) -> Option<BodyWriter> {
        let state = &mut *self.shared.lock();
        if state.writer != WriterState::NotOpened {
            return None;
        }
        state.writer = WriterState::Open;
        Some(BodyWriter { shared: self.shared.clone() })
    }

    /// Whether its stream is still open. The body must not end before the stream is closed.
    pub fn has_writer(&self) -> bool {
        self.shared.lock().writer == WriterState::Open
    }

    /// Ends the body. The error is a length that differs from the declared one.
    pub fn finish(self, trailers: Option<HeaderMap>) -> Result<(), ErrorCode> {
        let written = self.shared.lock().written;
        if self.shared.declared_length.is_some_and(|declared| written != declared) {
            self.shared.end(End::Incomplete);
            return Err(self.shared.length_error(written));
        }
        self.shared.end(trailers.map_or(End::Finished, End::Trailers));
        Ok(())
    }

    /// Ends the body as incomplete.
    pub fn abort(self) {
        self.shared.end(End::Incomplete);
    }
}

impl Drop for OutgoingBody {
    fn drop(&mut self) {
        // The instance has ended or failed; `InstanceRun` distinguishes both.
        self.shared.end(End::Finished);
    }
}

impl BodyWriter {
    /// Writes bytes if there is room for them.
    pub fn try_write(&self, bytes: &[u8]) -> StreamResult<WriteOutcome> {
        let state = &mut *self.shared.lock();
        if state.is_reader_dropped {
            return Err(StreamError::Closed);
        }
        if !state.has_room() || bytes.len() > PIECE_BYTES {
            return Ok(WriteOutcome::No);
        }
        self.shared.add(state, bytes)?;
        Ok(if state.has_room() { WriteOutcome::WithRoom } else { WriteOutcome::Full })
    }
}

impl Drop for BodyWriter {
    fn drop(&mut self) {
        self.shared.lock().writer = WriterState::Closed;
    }
}

#[async_trait]
impl Pollable for BodyWriter {
    async fn ready(&mut self) {
        poll_fn(|context| {
            let state = &mut *self.shared.lock();
            if state.is_reader_dropped || state.has_room() {
                return Poll::Ready(());
            }
            state.waiting_writer = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

#[async_trait]
impl OutputStream for BodyWriter {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        match self.try_write(&bytes)? {
            WriteOutcome::WithRoom | WriteOutcome::Full => Ok(()),
            // The instance has not called `check-write` first.
            WriteOutcome::No => Err(StreamError::Trap(format_err!("write exceeded budget"))),
        }
    }

    fn flush(&mut self) -> StreamResult<()> {
        if self.shared.lock().is_reader_dropped { Err(StreamError::Closed) } else { Ok(()) }
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        let state = self.shared.lock();
        match state.is_reader_dropped {
            true => Err(StreamError::Closed),
            false => Ok(if state.has_room() { PIECE_BYTES } else { 0 }),
        }
    }
}

impl Body for BodyReader {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let state = &mut *self.shared.lock();
        if let Some(piece) = state.pieces.pop_front() {
            wake(&mut state.waiting_writer);
            return Poll::Ready(Some(Ok(Frame::data(without_spare_capacity(piece)))));
        }
        match std::mem::replace(&mut state.end, End::Finished) {
            End::Open => {
                state.end = End::Open;
                state.reader = Some(context.waker().clone());
                Poll::Pending
            }
            End::Finished => Poll::Ready(None),
            End::Trailers(trailers) => Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
            End::Incomplete => Poll::Ready(Some(Err(Error::HttpProtocolError))),
        }
    }
}

/// The bytes of a buffer. Those of a mostly empty one are copied, because the readers of a body count bytes,
/// not the memory that holds them.
fn without_spare_capacity(piece: Vec<u8>) -> Bytes {
    match piece.len() < piece.capacity() / 2 {
        true => Bytes::copy_from_slice(&piece),
        false => piece.into(),
    }
}

impl Drop for BodyReader {
    fn drop(&mut self) {
        let state = &mut *self.shared.lock();
        state.is_reader_dropped = true;
        state.pieces.clear();
        wake(&mut state.waiting_writer);
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    const TEXT: Bytes = Bytes::from_static(b"12345");

    #[tokio::test]
    async fn pieces_and_trailers_arrive() {
        let (body, reader) = outgoing_body(BodyOf::Answer, Some(10));
        let mut writer = body.writer().unwrap();
        assert!(body.writer().is_none());
        writer.write(TEXT).unwrap();
        writer.write(Bytes::new()).unwrap();
        writer.write(TEXT).unwrap();
        assert!(body.has_writer());
        drop(writer);
        assert!(!body.has_writer());
        let mut trailers = HeaderMap::new();
        trailers.insert("digest", "x".parse().unwrap());
        body.finish(Some(trailers)).unwrap();
        let collected = reader.collect().await.unwrap();
        assert_eq!(collected.trailers().unwrap()["digest"], "x");
        assert_eq!(collected.to_bytes(), "1234512345");
    }

    #[tokio::test]
    async fn a_full_body_waits_for_its_reader() {
        let (body, mut reader) = outgoing_body(BodyOf::Answer, None);
        let mut writer = body.writer().unwrap();
        let piece = vec![b'x'; PIECE_BYTES];
        for at in 1..=MOST_PIECES {
            assert_eq!(writer.check_write().unwrap(), PIECE_BYTES);
            let expected = if at < MOST_PIECES { WriteOutcome::WithRoom } else { WriteOutcome::Full };
            assert_eq!(writer.try_write(&piece).unwrap(), expected);
        }
        assert_eq!(writer.check_write().unwrap(), 0);
        assert_eq!(writer.try_write(&TEXT).unwrap(), WriteOutcome::No);
        assert!(matches!(writer.write(TEXT), Err(StreamError::Trap(_))));
        let waiting = tokio::spawn(async move {
            writer.ready().await;
            writer.check_write().unwrap()
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        reader.frame().await.unwrap().unwrap();
        assert_eq!(waiting.await.unwrap(), PIECE_BYTES);
    }

    #[tokio::test]
    async fn short_writes_share_a_piece() {
        for (declared, lengths) in [(Some(20), vec![20]), (None, vec![5, 15])] {
            let (body, mut reader) = outgoing_body(BodyOf::Answer, declared);
            let mut writer = body.writer().unwrap();
            for _ in 0..4 {
                writer.write(TEXT).unwrap();
            }
            drop(writer);
            body.finish(None).unwrap();
            for length in lengths {
                let piece = reader.frame().await.unwrap().unwrap().into_data().unwrap();
                assert_eq!(piece.len(), length, "{declared:?}");
            }
            assert!(reader.frame().await.is_none());
        }
    }

    #[tokio::test]
    async fn no_piece_holds_much_more_memory_than_its_bytes() {
        let (body, mut reader) = outgoing_body(BodyOf::Answer, Some(1 << 40));
        let mut writer = body.writer().unwrap();
        writer.write(TEXT).unwrap();
        let piece = reader.frame().await.unwrap().unwrap().into_data().unwrap();
        let piece = piece.try_into_mut().unwrap();
        assert_eq!(piece, TEXT);
        assert!(piece.capacity() <= 2 * TEXT.len(), "{}", piece.capacity());
    }

    #[tokio::test]
    async fn a_body_that_is_not_as_long_as_declared_is_an_error() {
        let (body, mut reader) = outgoing_body(BodyOf::Answer, Some(6));
        let mut writer = body.writer().unwrap();
        writer.write(TEXT).unwrap();
        drop(writer);
        assert!(matches!(body.finish(None), Err(ErrorCode::HttpResponseBodySize(Some(5)))));
        assert_eq!(reader.frame().await.unwrap().unwrap().into_data().unwrap(), TEXT);
        assert!(reader.frame().await.unwrap().is_err());

        let (body, mut reader) = outgoing_body(BodyOf::Request, Some(4));
        let mut writer = body.writer().unwrap();
        assert!(matches!(writer.write(TEXT), Err(StreamError::LastOperationFailed(_))));
        drop(writer);
        assert!(matches!(body.finish(None), Err(ErrorCode::HttpRequestBodySize(Some(5)))));
        assert!(reader.frame().await.unwrap().is_err());
    }

    #[tokio::test]
    async fn a_missing_end_is_no_error_but_an_abort_is() {
        let (body, mut reader) = outgoing_body(BodyOf::Answer, None);
        let mut writer = body.writer().unwrap();
        writer.write(Bytes::from(vec![0; PIECE_BYTES])).unwrap();
        assert!(matches!(writer.write(Bytes::from(vec![0; PIECE_BYTES + 1])), Err(StreamError::Trap(_))));
        drop((body, writer));
        assert!(reader.frame().await.unwrap().is_ok());
        assert!(reader.frame().await.is_none());

        let (body, mut reader) = outgoing_body(BodyOf::Answer, None);
        body.abort();
        assert!(reader.frame().await.unwrap().is_err());
        assert!(reader.frame().await.is_none());
    }

    #[tokio::test]
    async fn dropping_the_reader_closes_the_stream() {
        let (body, reader) = outgoing_body(BodyOf::Answer, None);
        let mut writer = body.writer().unwrap();
        drop(reader);
        assert!(matches!(writer.check_write(), Err(StreamError::Closed)));
        assert!(matches!(writer.write(TEXT), Err(StreamError::Closed)));
        assert!(matches!(writer.flush(), Err(StreamError::Closed)));
        writer.ready().await;
        body.finish(None).unwrap();
    }
}
