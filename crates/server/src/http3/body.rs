//! Reads a request's stream in pieces, and feeds the body to a handler.

use std::future::poll_fn;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use quinn::RecvStream;
use touchstone_access::{MinimumRate, RateCheck};
use touchstone_handler::pipe::Sender;
use touchstone_http::h3::{ErrorCode, Received, RequestHead, RequestStream, SectionLimits, trailers};

use super::connection::Connection;
use super::stream::{Failure, code, poll_once, within};
use touchstone_exchange::core::header_blocks::field_lines;
use touchstone_exchange::steps::Progress;

/// Reads a request's stream.
pub struct Reader {
    receive: RecvStream,
    stream: RequestStream,
    /// Received and not examined yet. If the first one is empty, the second one is empty too.
    chunks: [Bytes; 2],
    /// The client has sent the whole body.
    pub ended: bool,
}

/// The next item of the stream.
pub enum StreamItem {
    /// The request. Its fields are in the listener's list until the next wait.
    Head(RequestHead),
    /// A piece of the body.
    Data(Bytes),
    /// The trailers: field lines, each with its CRLF.
    Trailers(Vec<u8>),
    /// The end.
    End,
}

impl Reader {
    /// Starts at the beginning of the stream.
    pub fn new(receive: RecvStream, limits: SectionLimits) -> Reader {
        Reader { receive, stream: RequestStream::new(limits), chunks: Default::default(), ended: false }
    }

    /// Waits for the next item.
    pub async fn next(&mut self, connection: &Connection) -> Result<StreamItem, Failure> {
        loop {
            while !self.chunks[0].is_empty() {
                let fields = &mut *connection.listener.fields.borrow_mut();
                let (taken, received) = self.stream.receive(&self.chunks[0], fields)?;
                let piece = self.take(taken);
                match received {
                    Received::Nothing => {}
                    Received::Head(head) => return Ok(StreamItem::Head(head)),
                    Received::Data(range) => return Ok(StreamItem::Data(piece.slice(range))),
                    Received::Trailers => return Ok(StreamItem::Trailers(field_lines(trailers(fields)))),
                }
            }
            if self.ended {
                return Ok(StreamItem::End);
            }
            self.fetch().await?;
        }
    }

    /// Checks, without a wait, whether the request ends here. Most requests are found to have no body in this
    /// way.
    pub async fn look_ahead(&mut self) -> Result<bool, Failure> {
        if self.chunks[0].is_empty() && !self.ended {
            poll_once(self.fetch()).await.unwrap_or(Ok(()))?;
        }
        Ok(self.ended && self.chunks[0].is_empty())
    }

    /// Takes the first bytes of the first chunk.
    fn take(&mut self, bytes: usize) -> Bytes {
        let [first, second] = &mut self.chunks;
        let piece = first.split_to(bytes);
        if first.is_empty() {
            *first = std::mem::take(second);
        }
        piece
    }

    /// Informs the client that the rest of the stream is not needed.
    pub fn stop(&mut self, error: ErrorCode) {
        if !self.ended {
            let _ = self.receive.stop(code(error));
        }
    }

    /// Receives once. Called only when all received bytes have been examined.
    ///
    /// With room for two chunks, one call finds the end of a request that is one chunk, as most are.
    async fn fetch(&mut self) -> Result<(), Failure> {
        let mut chunks = <[Bytes; 2]>::default();
        match self.receive.read_chunks(&mut chunks).await {
            Ok(Some(_)) => self.chunks = chunks,
            Ok(None) => {
                self.stream.finish()?;
                self.ended = true;
            }
            Err(_) => return Err(Failure::Gone),
        }
        Ok(())
    }
}

/// Why a handler does not receive its whole body.
pub enum BodyProblem {
    /// It is longer than allowed.
    TooLarge,
    /// It arrives too slowly.
    Timeout,
    /// The stream failed.
    Failed(Failure),
}

/// What a body may be.
#[derive(Clone, Copy)]
pub struct BodyLimits {
    /// The most bytes.
    pub most_bytes: u64,
    /// The rate at which it must arrive.
    pub minimum: MinimumRate,
    /// It is one direction of a tunnel, without limits of bytes and time.
    pub is_tunnel: bool,
}

impl BodyLimits {
    /// Whether it may have any length, and pause: a tunnel, or a stream of messages.
    fn are_lifted(&self, sender: &Sender) -> bool {
        self.is_tunnel || sender.is_unlimited()
    }
}

/// Feeds a body to its handler as fast as the handler reads, to its end or until the handler needs no more.
pub async fn feed(
    reader: &mut Reader,
    connection: &Connection,
    mut sender: Sender,
    limits: BodyLimits,
    progress: &Progress,
) -> Result<(), BodyProblem> {
    let mut rate_check = RateCheck::begin(limits.minimum);
    let mut received_bytes = 0;
    let mut trailers = Vec::new();
    loop {
        if poll_fn(|context| sender.poll_ready(context)).await.is_err() {
            return Ok(());
        }
        if let Some(minimum) = progress.signals.take_receive_rate() {
            rate_check = RateCheck::begin(minimum);
        }
        let allowance = match limits.are_lifted(&sender) {
            true => Duration::MAX,
            false => rate_check.allowance(),
        };
        let (next, waited) = within(allowance, reader.next(connection)).await;
        let piece = match next {
            Some(Ok(StreamItem::Data(piece))) => piece,
            Some(Ok(StreamItem::Head(_))) => continue,
            Some(Ok(StreamItem::Trailers(lines))) => {
                trailers = lines;
                continue;
            }
            Some(Ok(StreamItem::End)) => {
                sender.finish_with_trailers(trailers);
                return Ok(());
            }
            Some(Err(failure)) => {
                sender.fail(io::Error::new(io::ErrorKind::ConnectionReset, "the client broke off"));
                return Err(BodyProblem::Failed(failure));
            }
            None if limits.are_lifted(&sender) => continue,
            None => {
                sender.fail(io::Error::new(io::ErrorKind::TimedOut, "the body arrives too slowly"));
                return Err(BodyProblem::Timeout);
            }
        };
        rate_check.record(piece.len() as u64, waited);
        received_bytes += piece.len() as u64;
        if received_bytes > sender.most_bytes(limits.most_bytes) && !limits.are_lifted(&sender) {
            let message = "the request's body is too large";
            sender.fail(io::Error::new(io::ErrorKind::FileTooLarge, message));
            return Err(BodyProblem::TooLarge);
        }
        sender.push(piece);
    }
}
