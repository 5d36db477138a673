//! Any bytes from a FastCGI program: no panic, no more bytes returned than received, and the same events
//! however the bytes are split.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use touchstone_interfaces::fastcgi::decoder::{Decoder, Event};
use touchstone_interfaces::fastcgi::pairs::Pairs;
use touchstone_interfaces::fastcgi::record::WrongBytes;

fuzz_target!(|bytes: &[u8]| {
    let whole = decode(bytes, bytes.len().max(1));
    for piece_bytes in [1, 7, 64] {
        assert_eq!(decode(bytes, piece_bytes), whole);
    }
    let pairs: usize =
        Pairs::new(bytes).map_while(Result::ok).map(|(name, value)| name.len() + value.len()).sum();
    assert!(pairs <= bytes.len());
});

/// The events, with pieces of streams joined, up to the first error.
fn decode(bytes: &[u8], piece_bytes: usize) -> (Vec<Event>, Option<WrongBytes>) {
    let (mut decoder, mut received, mut events) = (Decoder::new(), BytesMut::new(), Vec::new());
    let mut given = 0;
    for piece in bytes.chunks(piece_bytes) {
        received.extend_from_slice(piece);
        loop {
            match decoder.next(&mut received) {
                Ok(None) => break,
                Ok(Some(event)) => {
                    if let Event::Stream { bytes, .. } = &event {
                        given += bytes.len();
                    }
                    join(&mut events, event);
                }
                Err(wrong) => return (events, Some(wrong)),
            }
        }
    }
    assert!(given <= bytes.len());
    (events, None)
}

fn join(events: &mut Vec<Event>, event: Event) {
    if let (
        Some(Event::Stream { stream, request_id, bytes }),
        Event::Stream { stream: next_stream, request_id: next_id, bytes: next },
    ) = (events.last_mut(), &event)
        && (*stream, *request_id) == (*next_stream, *next_id)
    {
        *bytes = [&bytes[..], next].concat().into();
        return;
    }
    events.push(event);
}
