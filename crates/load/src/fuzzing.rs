//! The functions that the fuzz targets in `fuzz/` call. They pass bytes of a server to the readers of
//! answers, as a whole and in pieces, and compare the results. They are not part of the interface.

use crate::answer::AnswerReader;
use crate::choice::Random;
use crate::h2::{Http2, StreamEvent};
use crate::plan::Plan;
use crate::request::prepare;
use crate::target::HttpVersion;
use crate::target::Target;
use crate::websocket::{ReceiveOutcome, WebSocket, WebSocketOutput, WebSocketSetup};
use crate::websocket_plan::WebSocketPlan;
use std::sync::Arc;
use touchstone_http::response::ResponseHead;

/// Reads any bytes as an answer of HTTP/1.
pub fn http1_answer(bytes: &[u8], piece: usize, is_head: bool) {
    let read = |piece: usize| {
        let (mut reader, mut head) = (AnswerReader::new(), ResponseHead::new());
        reader.reset(is_head);
        let mut rest = bytes;
        while !rest.is_empty() {
            let (received, after) = rest.split_at(piece.min(rest.len()));
            match reader.receive(received, &mut head, &mut ()) {
                Ok(None) => rest = after,
                // Bytes after a complete answer are malformed, in the same piece or a later one.
                Ok(Some(answer)) if after.is_empty() => return Ok(Some(answer)),
                Ok(Some(_)) | Err(_) => return Err(()),
            }
        }
        Ok(None)
    };
    assert_eq!(read(usize::MAX), read(piece.max(1)));
}

/// Reads any bytes as the output of an HTTP/2 server to a client with two active requests.
pub fn http2_answers(bytes: &[u8], piece: usize) {
    let mut plan = Plan::of_one(Target::plain(([127, 0, 0, 1], 80).into(), "localhost"), "/");
    plan.version = HttpVersion::Http2;
    let request = prepare(&plan).expect("it can be written").0.remove(0);
    let read = |piece: usize| {
        let (mut out, mut events, mut body) = (Vec::new(), Vec::new(), 0);
        let mut connection = Http2::new(2, &mut out);
        (0..2).for_each(|slot| connection.start(slot, &request.blocks, false, &mut out));
        out.clear();
        let outcome = bytes.chunks(piece).try_for_each(|received| {
            connection.receive(received, &mut out, &mut events, &mut |_, part: &[u8]| body += part.len())
        });
        let answered: u64 = events
            .iter()
            .map(|event| match event {
                StreamEvent::Answered { answer, .. } => answer.body_bytes,
                _ => 0,
            })
            .sum();
        assert!(answered <= body as u64 && events.len() + connection.open_streams() == 2);
        outcome.map(|()| (events, out))
    };
    assert_eq!(read(bytes.len().max(1)), read(piece.max(1)));
}

/// Reads any bytes as the output of a server to a client that has requested a WebSocket; `is_open`: after the
/// answer that opens it.
pub fn websocket(bytes: &[u8], piece: usize, is_open: bool) {
    let plan = WebSocketPlan {
        sends: Some(3),
        is_binary: false,
        send_every: None,
        receives: None,
        ping_every: None,
    };
    let setup =
        Arc::new(WebSocketSetup { plan, message: b"message".as_slice().into(), protocols: Vec::new() });
    let read = |piece: usize| {
        let (mut socket, mut random) = (WebSocket::default(), Random::of_client(1, 0));
        let mut websocket_output = WebSocketOutput::default();
        socket.start_handshake(&setup, None, &mut [], &mut random);
        let opening = if is_open { socket.opening_answer() } else { String::new() };
        let all = [opening.as_bytes(), bytes].concat();
        let mut after = Ok(ReceiveOutcome::Continue);
        for part in all.chunks(piece) {
            after = socket.take(part, 0, &mut websocket_output, &mut random);
            if after != Ok(ReceiveOutcome::Continue) {
                break;
            }
        }
        // The received bytes of an answer that does not open a WebSocket depend on the pieces.
        let after = match after {
            Ok(ReceiveOutcome::Refused(_)) => Ok(ReceiveOutcome::Refused(Vec::new())),
            after => after,
        };
        (after, websocket_output.events, websocket_output.out)
    };
    assert_eq!(read(usize::MAX), read(piece.max(1)));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    #[test]
    fn malformed_bytes_without_a_line_end_are_malformed_in_pieces() {
        super::http1_answer(b"H\0", 1, false);
    }

    proptest! {
        #[test]
        fn the_targets_hold_for_any_bytes(
            bytes in prop::collection::vec(any::<u8>(), 0..200), piece in 1usize..40, is_head: bool,
        ) {
            super::http1_answer(&bytes, piece, is_head);
            super::http2_answers(&bytes, piece);
            super::websocket(&bytes, piece, is_head);
        }
    }
}
