//! The body of an answer, piece by piece, wherever its parts are stored.

use std::collections::VecDeque;
use std::io;

use bytes::Bytes;
use touchstone_handler::answer::{BodyPart, cached_bytes};

/// How many bytes of a file are read at once.
const FILE_BYTES: u64 = 64 * 1024;

/// The parts of a body that were not taken yet.
pub struct Pieces {
    parts: VecDeque<BodyPart>,
    trailers: Vec<u8>,
}

impl Pieces {
    /// The pieces of a body.
    pub fn of(parts: Vec<BodyPart>) -> Pieces {
        Pieces { parts: parts.into(), trailers: Vec::new() }
    }

    /// The next piece, which is never empty; `None` at the end.
    pub async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            let piece = match self.parts.pop_front()? {
                BodyPart::Bytes(bytes) => bytes,
                BodyPart::Cached(prepared, range) => cached_bytes(prepared, range),
                BodyPart::File { length: 0, .. } => continue,
                BodyPart::File { file, offset, length } => {
                    let bytes = match read(&file, offset, length.min(FILE_BYTES)) {
                        Ok(bytes) => bytes,
                        Err(error) => return Some(Err(error)),
                    };
                    let read = bytes.len() as u64;
                    self.parts.push_front(BodyPart::File {
                        file,
                        offset: offset + read,
                        length: length - read,
                    });
                    bytes
                }
                BodyPart::Stream { mut body, length } => match body.next().await {
                    Some(Ok(bytes)) => {
                        self.parts.push_front(BodyPart::Stream { body, length });
                        bytes
                    }
                    Some(Err(error)) => return Some(Err(error)),
                    None => {
                        self.trailers = body.take_trailers();
                        continue;
                    }
                },
            };
            if !piece.is_empty() {
                return Some(Ok(piece));
            }
        }
    }

    /// The trailers, which follow the last piece.
    pub fn take_trailers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.trailers)
    }
}

fn read(file: &std::os::fd::OwnedFd, offset: u64, length: u64) -> io::Result<Bytes> {
    let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
    let read = rustix::io::pread(file, &mut bytes, offset)?;
    if read == 0 {
        let shorter = "the file became shorter while it was sent";
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, shorter));
    }
    bytes.truncate(read);
    Ok(bytes.into())
}
