//! The request's body on its way to a program. It can be sent again while all sent bytes are still kept.
//!
//! A small body is read completely before the request is sent, so that a slow client does not occupy a
//! program. A body of unknown length (chunked) is read completely too, into a file if it is long, because
//! programs must know the length first. A long body of known length is passed on as it arrives.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use touchstone_handler::pipe::Receiver;

/// Bodies up to this size are read before the request is sent, and sent bytes up to this size are kept to be
/// sent again.
const KEPT_BYTES: usize = 64 * 1024;

/// How many bytes are read from the file at once.
const FILE_PIECE_BYTES: usize = 64 * 1024;

/// A body that is being sent.
pub struct Upload {
    source: Source,
    /// The pieces that were sent, kept for another attempt.
    given: Vec<Bytes>,
    given_bytes: usize,
    /// How many pieces of `given` this attempt has sent.
    sent: usize,
    length: u64,
}

enum Source {
    /// All pieces were sent.
    Ended,
    /// The body is received from the client.
    Client(Receiver),
    /// The body is in a file without a name.
    File { file: File, at: u64 },
}

impl Upload {
    /// Prepares a body for sending; reads small ones, and those of unknown length.
    ///
    /// # Errors
    /// The client's body broke off, or the file for it cannot be written.
    pub async fn new(mut body: Receiver, length: Option<u64>) -> io::Result<Upload> {
        match length {
            Some(0) => Ok(Upload::none()),
            Some(length) if length > KEPT_BYTES as u64 => Ok(Upload::from(Source::Client(body), length)),
            Some(_) | None => {
                let mut upload = Upload::from(Source::Ended, 0);
                while let Some(piece) = body.next().await {
                    upload.store(piece?)?;
                }
                if let Source::File { file, .. } = &mut upload.source {
                    file.flush()?;
                }
                Ok(upload)
            }
        }
    }

    /// An upload without a body.
    pub fn none() -> Upload {
        Upload::from(Source::Ended, 0)
    }

    /// Prepares a body that is passed on as it arrives, for programs that do not need its length in advance.
    pub fn passed_on(body: Receiver) -> Upload {
        Upload::from(Source::Client(body), 0)
    }

    fn from(source: Source, length: u64) -> Upload {
        Upload { source, given: Vec::new(), given_bytes: 0, sent: 0, length }
    }

    /// The length of the body; 0 if it is passed on with unknown length.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Starts from the beginning for another attempt. Only call this if [`Upload::is_repeatable`].
    pub fn rewind(&mut self) {
        self.sent = 0;
        if let Source::File { at, .. } = &mut self.source {
            *at = self.given_bytes as u64;
        }
    }

    /// Whether it can be sent from the beginning again.
    pub fn is_repeatable(&self) -> bool {
        self.given_bytes <= KEPT_BYTES
    }

    /// Whether the next piece must be received from the client.
    pub fn waits_for_client(&self) -> bool {
        self.sent == self.given.len() && matches!(self.source, Source::Client(_))
    }

    /// The next piece; `None` at the end.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if let Some(piece) = self.given.get(self.sent) {
            self.sent += 1;
            return Poll::Ready(Some(Ok(piece.clone())));
        }
        match &mut self.source {
            Source::Ended => Poll::Ready(None),
            Source::Client(receiver) => {
                let next = ready!(receiver.poll_next(context));
                match &next {
                    Some(Ok(piece)) => self.remember(piece.clone()),
                    Some(Err(_)) => {}
                    None => self.source = Source::Ended,
                }
                Poll::Ready(next)
            }
            Source::File { file, at } => {
                let left = usize::try_from(self.length - *at).unwrap_or(usize::MAX);
                let mut piece = vec![0; left.min(FILE_PIECE_BYTES)];
                if piece.is_empty() {
                    return Poll::Ready(None);
                }
                let read = file.read_exact_at(&mut piece, *at);
                *at += piece.len() as u64;
                Poll::Ready(Some(read.map(|()| piece.into())))
            }
        }
    }

    fn remember(&mut self, piece: Bytes) {
        self.given_bytes += piece.len();
        if self.given_bytes <= KEPT_BYTES {
            self.given.push(piece);
            self.sent += 1;
        } else {
            // The body can no longer be sent again, so its pieces need not be kept.
            self.given.clear();
            self.sent = 0;
        }
    }

    /// Stores a piece of a body that is read before it is sent.
    fn store(&mut self, piece: Bytes) -> io::Result<()> {
        self.length += piece.len() as u64;
        if self.given_bytes + piece.len() <= KEPT_BYTES && matches!(self.source, Source::Ended) {
            self.given_bytes += piece.len();
            self.given.push(piece);
            return Ok(());
        }
        if matches!(self.source, Source::Ended) {
            let mut file = tempfile::tempfile()?;
            for earlier in self.given.drain(..) {
                file.write_all(&earlier)?;
            }
            self.given_bytes = 0;
            self.source = Source::File { file, at: 0 };
        }
        match &mut self.source {
            Source::File { file, .. } => file.write_all(&piece),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    use touchstone_handler::pipe::pipe;

    async fn read(upload: &mut Upload) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(piece) = poll_fn(|context| upload.poll_next(context)).await {
            all.extend_from_slice(&piece.unwrap());
        }
        all
    }

    fn body(length: usize) -> Vec<u8> {
        (0..length).map(|index| (index / 7) as u8).collect()
    }

    #[tokio::test]
    async fn bodies_of_any_length_come_whole_and_again() {
        for length in [0, 1, 65_536, 65_537, 300_000] {
            let expected = body(length);
            let mut upload = Upload::new(Receiver::of(expected.clone().into()), None).await.unwrap();
            assert_eq!(upload.length(), length as u64);
            assert!(read(&mut upload).await == expected, "{length} bytes");
            assert!(upload.is_repeatable());
            upload.rewind();
            assert!(read(&mut upload).await == expected, "{length} bytes, again");
        }
    }

    #[tokio::test]
    async fn a_long_body_is_passed_on_and_repeatable_at_first() {
        let (mut sender, receiver) = pipe(1 << 20);
        let mut upload = Upload::new(receiver, Some(200_000)).await.unwrap();
        assert!(upload.waits_for_client() && upload.is_repeatable());
        sender.push(body(50_000).into());
        let first = poll_fn(|context| upload.poll_next(context)).await.unwrap().unwrap();
        assert!(upload.is_repeatable());
        upload.rewind();
        assert_eq!(poll_fn(|context| upload.poll_next(context)).await.unwrap().unwrap(), first);
        sender.push(body(150_000).into());
        sender.finish();
        assert_eq!(read(&mut upload).await.len(), 150_000);
        assert!(!upload.is_repeatable());
    }

    #[tokio::test]
    async fn a_body_that_is_passed_on_is_not_waited_for() {
        let (mut sender, receiver) = pipe(100);
        let mut upload = Upload::passed_on(receiver);
        assert!(upload.waits_for_client());
        sender.push(body(5).into());
        assert_eq!(poll_fn(|context| upload.poll_next(context)).await.unwrap().unwrap(), body(5));
        upload.rewind();
        sender.push(body(7).into());
        sender.finish();
        assert_eq!(read(&mut upload).await, [body(5), body(7)].concat());
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_an_error() {
        let (mut sender, receiver) = pipe(100);
        sender.push(body(5).into());
        drop(sender);
        assert!(Upload::new(receiver, Some(10)).await.is_err());
    }
}
