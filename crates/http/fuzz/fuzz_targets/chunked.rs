//! Any bytes as a chunked body: no panic, and the same result however the bytes are split.
//!
//! The first byte of the input determines how the rest is split.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_http::chunked::{ChunkError, ChunkedDecoder, ChunkedLimits};

/// The data, how many bytes belong to the body, and whether it is complete.
fn decode<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Result<(Vec<u8>, usize, bool), ChunkError> {
    let mut decoder = ChunkedDecoder::new(ChunkedLimits { extension_bytes: 64, trailer_bytes: 64 });
    let (mut data, mut total) = (Vec::new(), 0);
    for piece in pieces {
        let mut input = piece;
        while !input.is_empty() {
            let decoded = decoder.decode(input)?;
            assert!(decoded.consumed > 0);
            assert!(decoded.data.end <= decoded.consumed);
            data.extend_from_slice(&input[decoded.data]);
            total += decoded.consumed;
            if decoded.done {
                return Ok((data, total, true));
            }
            input = &input[decoded.consumed..];
        }
    }
    Ok((data, total, false))
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&size, body)) = bytes.split_first() else { return };
    let whole = decode(std::iter::once(body));
    assert_eq!(decode(body.chunks(1)), whole);
    assert_eq!(decode(body.chunks(usize::from(size).max(1))), whole);
    if let Ok((data, total, done)) = whole {
        assert!(data.len() <= total && total <= body.len());
        assert!(done || total == body.len());
        assert!(!done || body[..total].ends_with(b"\r\n\r\n"));
    }
});
