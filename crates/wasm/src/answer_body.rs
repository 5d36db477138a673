//! The body of an answer of this server, as a source for an instance.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::task::JoinHandle;
use touchstone_handler::answer::{BodyPart, cached_bytes};

use crate::incoming_body::Source;

/// The most bytes of a file that are read at a time.
const FILE_BYTES: u64 = 128 * 1024;

/// The remaining parts of a body.
pub struct AnswerBody {
    parts: VecDeque<BodyPart>,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
    trailers: Vec<u8>,
}

impl AnswerBody {
    /// A body of these parts.
    pub fn new(parts: Vec<BodyPart>) -> AnswerBody {
        AnswerBody { parts: parts.into(), reading: None, trailers: Vec::new() }
    }

    /// The remaining parts.
    pub fn into_parts(self) -> Vec<BodyPart> {
        self.parts.into()
    }

    /// The body, if it is empty or one piece in memory.
    pub fn whole(&mut self) -> Option<Bytes> {
        match self.parts.len() {
            0 => Some(Bytes::new()),
            1 => match self.parts.pop_front()? {
                BodyPart::Bytes(bytes) => Some(bytes),
                other => {
                    self.parts.push_front(other);
                    None
                }
            },
            _ => None,
        }
    }
}

impl Source for AnswerBody {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if let Some(reading) = &mut self.reading {
            let read = ready!(Pin::new(reading).poll(context));
            self.reading = None;
            return Poll::Ready(Some(read.unwrap_or_else(|error| Err(io::Error::other(error)))));
        }
        match self.parts.pop_front() {
            None => Poll::Ready(None),
            Some(BodyPart::Bytes(bytes)) => Poll::Ready(Some(Ok(bytes))),
            Some(BodyPart::Cached(prepared, range)) => Poll::Ready(Some(Ok(cached_bytes(prepared, range)))),
            Some(BodyPart::File { file, offset, length }) => {
                let now = length.min(FILE_BYTES);
                if length > now {
                    let rest =
                        BodyPart::File { file: file.clone(), offset: offset + now, length: length - now };
                    self.parts.push_front(rest);
                }
                // Read on a thread that may block.
                self.reading = Some(tokio::task::spawn_blocking(move || read(&file, offset, now)));
                self.poll_next(context)
            }
            Some(BodyPart::Stream { mut body, length }) => {
                let next = body.poll_next(context);
                match &next {
                    Poll::Ready(None) => self.trailers = body.take_trailers(),
                    _ => self.parts.push_front(BodyPart::Stream { body, length }),
                }
                next
            }
        }
    }

    fn take_trailers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.trailers)
    }
}

fn read(file: &OwnedFd, offset: u64, length: u64) -> io::Result<Bytes> {
    use std::os::unix::fs::FileExt as _;
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    std::fs::File::from(file.try_clone()?).read_exact_at(&mut bytes, offset)?;
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;

    use touchstone_handler::pipe;

    use super::*;

    #[tokio::test]
    async fn all_parts_are_returned_in_order() {
        let file = tempfile::tempfile().unwrap();
        let text = vec![b'f'; 300_000];
        std::os::unix::fs::FileExt::write_all_at(&file, &text, 0).unwrap();
        let (mut sender, receiver) = pipe::pipe(10);
        sender.push(Bytes::from_static(b"end"));
        sender.finish_with_trailers(b"A: b\r\n".to_vec());
        let mut body = AnswerBody::new(vec![
            BodyPart::Bytes(Bytes::from_static(b"begin")),
            BodyPart::File { file: Arc::new(file.into()), offset: 10, length: 299_990 },
            BodyPart::Stream { body: receiver, length: None },
        ]);
        let mut all = Vec::new();
        while let Some(piece) = poll_fn(|context| body.poll_next(context)).await {
            all.extend_from_slice(&piece.unwrap());
        }
        assert_eq!(all, [b"begin", &text[10..], b"end"].concat());
        assert_eq!(body.take_trailers(), b"A: b\r\n");
    }
}
