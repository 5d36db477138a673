//! The end of the body of a program's answer: at the declared length, at its last chunk, or at the end of the
//! output.

use bytes::Bytes;
use touchstone_http::chunked::ChunkedDecoder;

use crate::cgi_response::DocumentHead;

/// The end of a body, and how much of the body has arrived. By default it ends with the output.
#[derive(Default)]
pub struct BodyEnd {
    /// How many bytes are still missing according to Content-Length.
    left: Option<u64>,
    chunks: Option<ChunkedDecoder>,
}

impl BodyEnd {
    /// The end of the body after this head.
    pub fn of(head: &DocumentHead) -> BodyEnd {
        BodyEnd { left: head.content_length, chunks: head.is_chunked.then(ChunkedDecoder::default) }
    }

    /// Keeps only the bytes of the body in `output`: removes the framing of chunks, and bytes after the end.
    ///
    /// # Errors
    /// The output is not a valid body.
    pub fn take(&mut self, output: &mut Vec<u8>) -> Result<(), String> {
        if let Some(left) = &mut self.left {
            output.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= output.len() as u64;
        }
        let Some(decoder) = &mut self.chunks else { return Ok(()) };
        let (mut read, mut written) = (0, 0);
        while read < output.len() && !decoder.is_done() {
            let decoded =
                decoder.decode(&output[read..]).map_err(|error| format!("its chunks are wrong: {error}"))?;
            let data = read + decoded.data.start..read + decoded.data.end;
            written += data.len();
            output.copy_within(data, written - decoded.data.len());
            read += decoded.consumed;
        }
        output.truncate(written);
        Ok(())
    }

    /// The same for a piece, which is copied only if it is chunked.
    ///
    /// # Errors
    /// The output is not a valid body.
    pub fn take_piece(&mut self, mut piece: Bytes) -> Result<Bytes, String> {
        if self.chunks.is_some() {
            let mut output = piece.to_vec();
            self.take(&mut output)?;
            return Ok(output.into());
        }
        if let Some(left) = &mut self.left {
            piece.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= piece.len() as u64;
        }
        Ok(piece)
    }

    /// Whether this many bytes exceed Content-Length.
    pub fn is_exceeded_by(&self, bytes: usize) -> bool {
        self.left.is_some_and(|left| bytes as u64 > left)
    }

    /// Whether the body is chunked.
    pub fn is_chunked(&self) -> bool {
        self.chunks.is_some()
    }

    /// Whether the body is complete.
    pub fn is_reached(&self) -> bool {
        self.left == Some(0) || self.chunks.as_ref().is_some_and(ChunkedDecoder::is_done)
    }

    /// The missing part if the output ends now.
    pub fn missing(&self) -> Option<String> {
        match (self.left, &self.chunks) {
            (Some(left @ 1..), _) => {
                Some(format!("its output is {left} bytes shorter than its Content-Length"))
            }
            (_, Some(decoder)) if !decoder.is_done() => {
                Some("its output ended before the last chunk".to_string())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn taken(head: DocumentHead, output: &[u8], size: usize) -> Result<(Vec<u8>, bool, bool), String> {
        let mut end = BodyEnd::of(&head);
        let mut body = Vec::new();
        for piece in output.chunks(size) {
            let mut piece = piece.to_vec();
            end.take(&mut piece)?;
            body.extend_from_slice(&piece);
        }
        Ok((body, end.is_reached(), end.missing().is_some()))
    }

    #[test]
    fn ends_of_bodies() {
        let chunked = || DocumentHead { is_chunked: true, ..DocumentHead::default() };
        let length = |length| DocumentHead { content_length: Some(length), ..DocumentHead::default() };
        for size in 1..20 {
            for (head, output, body, is_reached, is_missing) in [
                (DocumentHead::default(), "hello", "hello", false, false),
                (length(2), "hello", "he", true, false),
                (length(9), "hello", "hello", false, true),
                (chunked(), "5\r\nhello\r\n1;x\r\n!\r\n0\r\n\r\nmore", "hello!", true, false),
                (chunked(), "5\r\nhello\r\n", "hello", false, true),
            ] {
                let expected = (body.as_bytes().to_vec(), is_reached, is_missing);
                assert_eq!(taken(head, output.as_bytes(), size), Ok(expected), "{output:?} by {size}");
            }
            assert!(taken(chunked(), b"no chunk\r\n", size).is_err());
        }
    }

    proptest! {
        #[test]
        fn no_output_panics(output in proptest::collection::vec(any::<u8>(), 0..60), size in 1usize..20) {
            let head = DocumentHead { is_chunked: true, ..DocumentHead::default() };
            let _ = taken(head, &output, size);
        }
    }
}
