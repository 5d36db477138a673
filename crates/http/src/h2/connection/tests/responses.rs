//! Responses: at once, in pieces, with trailers, with interim responses (RFC 9113 section 8.1).

use super::*;
use crate::h2::hpack::encode_fields_block;

#[test]
fn a_small_response_goes_out_as_a_whole() {
    let mut harness = Harness::new();
    harness.receive(Input::new().get(1).get(3).get(5));
    assert_eq!(harness.respond(3, Body::Bytes(b"three")), Responded::Complete);
    assert_eq!(harness.respond(1, Body::Empty), Responded::Complete);
    assert_eq!(harness.respond(5, Body::Bytes(b"")), Responded::Complete);
    assert_eq!(
        harness.sent(),
        [
            headers(3, false),
            Sent::Data { stream: 3, data: b"three".to_vec(), end: true },
            headers(1, true),
            headers(5, true),
        ]
    );
    assert_eq!(harness.connection.open_streams(), 0);
    assert!(harness.connection.next_data(1000, &mut harness.out).is_none());
}

#[test]
fn own_frames_go_out_before_a_response() {
    let mut harness = Harness::new();
    harness.receive(Input::new().get(1).ping(b"12345678", false));
    harness.respond(1, Body::Bytes(b"x"));
    assert_eq!(harness.sent(), [Sent::Ping(*b"12345678", true), headers(1, false), data(1, 1, true)]);
}

#[test]
fn a_response_is_given_once() {
    let mut harness = Harness::new();
    harness.receive(Input::new().get(1));
    assert_eq!(harness.respond(1, Body::Length(5)), Responded::Queued);
    for body in [Body::Empty, Body::Bytes(b"x"), Body::Length(1), Body::Stream] {
        assert_eq!(harness.respond(1, body), Responded::Gone);
    }
    let key = harness.key(1);
    assert!(!harness.connection.offer(key, 1), "a length was given");
    assert_eq!(harness.connection.finish(key, None, &mut harness.out), Responded::Gone);
    assert!(!harness.connection.inform(key, &response_block(103), &mut harness.out));
    assert_eq!(harness.pump(), [headers(1, false), data(1, 5, true)]);
}

#[test]
fn interim_responses_come_first() {
    let mut harness = Harness::new();
    harness.receive(Input::new().post(1));
    let key = harness.key(1);
    assert!(harness.connection.inform(key, &response_block(100), &mut harness.out));
    assert!(harness.connection.inform(key, &response_block(103), &mut harness.out));
    harness.receive(Input::new().data(1, b"", true));
    harness.respond(1, Body::Empty);
    let statuses: Vec<String> = harness
        .sent()
        .into_iter()
        .map(|sent| if let Sent::Headers { fields, .. } = sent { fields[0].1.clone() } else { panic!() })
        .collect();
    assert_eq!(statuses, ["100", "103", "200"]);
}

#[test]
fn a_stream_of_bytes() {
    let mut harness = Harness::new();
    harness.receive(Input::new().get(1).get(3).get(5));
    for stream in [1, 3, 5] {
        assert_eq!(harness.respond(stream, Body::Stream), Responded::Queued);
    }
    assert_eq!(harness.pump(), [headers(1, false), headers(3, false), headers(5, false)]);
    let (one, three, five) = (harness.key(1), harness.key(3), harness.key(5));
    assert!(harness.connection.offer(one, 10));
    assert_eq!(harness.pump(), [data(1, 10, false)]);
    assert!(harness.connection.offer(one, 10) && harness.connection.offer(one, 5));
    assert_eq!(harness.connection.finish(one, None, &mut harness.out), Responded::Queued);
    assert!(!harness.connection.offer(one, 1));
    assert_eq!(harness.pump(), [data(1, 15, true)]);
    // Ended with nothing left to be sent.
    harness.connection.offer(three, 1);
    assert_eq!(harness.pump(), [data(3, 1, false)]);
    assert_eq!(harness.connection.finish(three, None, &mut harness.out), Responded::Complete);
    assert_eq!(harness.connection.finish(five, None, &mut harness.out), Responded::Complete);
    assert_eq!(harness.pump(), [data(3, 0, true), data(5, 0, true)]);
    assert_eq!(harness.connection.open_streams(), 0);
}

#[test]
fn trailers_follow_the_last_byte() {
    let mut harness = Harness::new();
    harness.receive(Input::new().get(1).get(3));
    let mut block = Vec::new();
    encode_fields_block([(&b"grpc-status"[..], &b"0"[..])], &mut block);
    let trailers =
        |stream| Sent::Headers { stream, fields: vec![("grpc-status".into(), "0".into())], end: true };
    harness.respond(1, Body::Stream);
    let key = harness.key(1);
    harness.connection.offer(key, 20_000);
    assert_eq!(harness.connection.finish(key, Some(&block), &mut harness.out), Responded::Queued);
    assert_eq!(
        harness.pump(),
        [headers(1, false), data(1, 16_384, false), data(1, 3616, false), trailers(1)]
    );
    // Without any data left.
    harness.respond(3, Body::Stream);
    let key = harness.key(3);
    assert_eq!(harness.connection.finish(key, Some(&block), &mut harness.out), Responded::Complete);
    assert_eq!(harness.pump(), [headers(3, false), trailers(3)]);
    assert_eq!(harness.connection.open_streams(), 0);
}

#[test]
fn trailers_of_a_reset_stream_are_dropped() {
    let mut harness = Harness::new();
    harness.receive(Input::new().get(1));
    harness.respond(1, Body::Stream);
    let key = harness.key(1);
    harness.connection.offer(key, 10);
    harness.connection.finish(key, Some(&[0x88]), &mut harness.out);
    harness.connection.reset(key, ErrorCode::INTERNAL_ERROR);
    assert!(harness.connection.trailers.is_empty());
    // Its frames and its reset are in order.
    assert_eq!(harness.pump(), [headers(1, false), Sent::Reset(1, ErrorCode::INTERNAL_ERROR)]);
}

#[test]
fn frames_are_no_larger_than_the_client_accepts() {
    let mut harness = Harness::new();
    harness.receive(Input::new().settings(&[(SettingId::MAX_FRAME_SIZE, 1 << 20)]).get(1).get(3));
    harness.sent();
    harness.respond(1, Body::Length(20_000));
    // Larger frames than the default are allowed, but would make other streams wait.
    assert_eq!(harness.pump(), [headers(1, false), data(1, 16_384, false), data(1, 3616, true)]);
    // A block that does not fit into a frame.
    let long = vec![b'\xfe'; 20_000];
    let mut block = Vec::new();
    encode_response_block(200, [(&b"a"[..], &long[..])], &mut block);
    let key = harness.key(3);
    harness.connection.respond(key, &block, Body::Bytes(b"x"), &mut harness.out);
    let first = FrameHeader::parse(harness.out.first_chunk().unwrap());
    assert_eq!((first.length, first.flags), (16_384, 0));
    let second = FrameHeader::parse(harness.out[HEADER_BYTES + 16_384..].first_chunk().unwrap());
    assert_eq!((second.frame_type, second.flags), (FrameType::CONTINUATION, frame::flags::END_HEADERS));
    assert_eq!(second.length, block.len() - 16_384);
}

#[test]
fn the_output_buffer_is_filled_to_its_limit() {
    let mut harness = Harness::with_limits(Limits { output_bytes: 1000, ..Limits::default() });
    harness.receive(Input::new().get(1).get(3).get(5));
    assert_eq!(harness.respond(1, Body::Bytes(&[b'x'; 990])), Responded::Complete);
    // Header sections always go out; they are needed before anything else of their streams.
    assert_eq!(harness.respond(3, Body::Bytes(b"x")), Responded::Queued);
    assert_eq!(harness.respond(5, Body::Empty), Responded::Complete);
    assert!(harness.connection.next_data(usize::MAX, &mut harness.out).is_none());
    assert!(harness.connection.has_data_to_send());
    assert_eq!(harness.sent(), [headers(1, false), data(1, 990, true), headers(3, false), headers(5, true)]);
    assert_eq!(harness.pump(), [data(3, 1, true)]);
}

#[test]
fn fields_encoded_for_the_connection() {
    let mut harness = Harness::new();
    harness.receive(Input::new().get(1).get(3).get(5));
    let mut block = Vec::new();
    let mut lengths = Vec::new();
    for stream in [1, 3] {
        let key = harness.key(stream);
        let fields: [(&[u8], &[u8]); 3] =
            [(b"Server", b"touchstone"), (b"Connection", b"close"), (b"Content-Type", b"text/html")];
        let before = harness.out.len();
        harness.connection.respond_with_fields(key, 200, fields, Body::Empty, &mut block, &mut harness.out);
        lengths.push(harness.out.len() - before);
        assert_eq!(
            harness.connection.respond_with_fields(key, 200, [], Body::Empty, &mut block, &mut harness.out),
            Responded::Gone
        );
    }
    assert!(lengths[1] < lengths[0]);
    // Blocks of both kinds can be mixed.
    harness.respond(5, Body::Empty);
    let expected: Vec<(String, String)> = vec![
        (":status".into(), "200".into()),
        ("server".into(), "touchstone".into()),
        ("content-type".into(), "text/html".into()),
    ];
    let sent = harness.sent();
    assert_eq!(sent[0], Sent::Headers { stream: 1, fields: expected.clone(), end: true });
    assert_eq!(sent[1], Sent::Headers { stream: 3, fields: expected, end: true });
    assert_eq!(sent[2], headers(5, true));
}

/// RFC 9113 section 4.3.1: a smaller table of the client is confirmed at the start of the next block,
/// whichever that is.
#[test]
fn a_smaller_table_is_confirmed() {
    for encoded_for_the_connection in [false, true] {
        let mut harness = Harness::new();
        harness.receive(Input::new().settings(&[(SettingId::HEADER_TABLE_SIZE, 0)]).get(1).get(3));
        harness.decoder.set_table_limit(0);
        assert_eq!(harness.sent(), [Sent::SettingsAcknowledgement]);
        for stream in [1, 3] {
            let key = harness.key(stream);
            let body = Body::Bytes(b"x");
            if encoded_for_the_connection {
                let fields = [(&b"a"[..], &b"b"[..])];
                let mut block = Vec::new();
                harness.connection.respond_with_fields(key, 200, fields, body, &mut block, &mut harness.out);
            } else {
                harness.respond(stream, body);
            }
        }
        // The decoder fails without the update, and so does it where there is none due.
        let sent = harness.pump();
        assert_eq!(sent.len(), 4);
        assert_eq!(sent[0], headers(1, false));
        assert!(sent.contains(&headers(3, false)));
    }
}
