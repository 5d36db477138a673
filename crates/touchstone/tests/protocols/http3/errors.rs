//! Clients that break the protocol: each costs at most its own connection.

use serde_json::json;

use crate::http3::{configured, server_and_client};
use crate::support::Tree;

/// Streams of a kind, what is sent on them, whether they end there, and the code that closes the connection.
const CONNECTION_ERRORS: &[(&str, &[u8], bool, u64)] = &[
    // DATA before a request; frames of the control stream, of HTTP/2, and PUSH_PROMISE on a request stream.
    ("bidirectional", b"\x00\x01x", false, 0x105),
    ("bidirectional", b"\x04\x00", false, 0x105),
    ("bidirectional", b"\x07\x01\x00", false, 0x105),
    ("bidirectional", b"\x06\x00", false, 0x105),
    ("bidirectional", b"\x05\x01\x00", false, 0x105),
    // A frame that is cut off.
    ("bidirectional", b"\x01\x10\x00", true, 0x106),
    // A reference to a dynamic table, one beyond the static table, and bad Huffman code.
    ("bidirectional", b"\x01\x03\x02\x00\x80", false, 0x200),
    ("bidirectional", b"\x01\x04\x00\x00\xff\x24", false, 0x200),
    ("bidirectional", b"\x01\x05\x00\x00\x51\x81\x00", false, 0x200),
    // A second control stream, and a push stream. (The client has its own three.)
    ("unidirectional", b"\x00\x04\x00", false, 0x103),
    ("unidirectional", b"\x01", false, 0x103),
    ("unidirectional", b"\x02", false, 0x103),
    ("unidirectional", b"\x03", false, 0x103),
];

/// What is sent on a request stream, and the code that resets it.
const STREAM_ERRORS: &[(&[u8], u64)] = &[
    // A stream without a request, one without pseudo-header fields, one with a field of HTTP/1.
    (b"", 0x10d),
    (b"\x01\x02\x00\x00", 0x10e),
    (b"\x01\x1a\x00\x00\xd1\xd7\xc1\x50\x01h\x27\x03connection\x05close", 0x10e),
];

#[test]
fn protocol_errors_end_their_connection_and_no_other() {
    let tree = Tree::standard();
    let Some((server, mut client)) = server_and_client(&tree, &[]) else { return };
    client.connect("good", &server);
    for (kind, bytes, end, code) in CONNECTION_ERRORS {
        client.connect("bad", &server);
        client.raw("bad", kind, bytes, *end);
        assert_eq!(client.wait_closed("bad"), *code, "{kind} {}", bytes.escape_ascii());
        assert_eq!(client.get("good", "/alphabet.txt").status(), 200);
    }
}

#[test]
fn frames_of_a_control_stream_are_checked() {
    let tree = Tree::standard();
    let Some((server, mut client)) = server_and_client(&tree, &[]) else { return };
    for (bytes, code) in [
        (&b"\x00\x01\x00"[..], 0x105),
        (b"\x04\x00", 0x105),
        (b"\x0d\x00", 0x106),
        (b"\x07\x02\x00\x00", 0x106),
        (b"\x03\x01\x00", 0x108),
    ] {
        client.connect("bad", &server);
        // The client's control stream is its first in one direction.
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        client.run(json!({"do": "raw", "name": "bad", "kind": "unidirectional", "stream": 2, "hex": hex}));
        assert_eq!(client.wait_closed("bad"), code, "{}", bytes.escape_ascii());
    }
    client.connect("bad", &server);
    client.run(
        json!({"do": "raw", "name": "bad", "kind": "unidirectional", "stream": 2, "hex": "", "end": true}),
    );
    assert_eq!(client.wait_closed("bad"), 0x104);
}

#[test]
fn malformed_requests_end_their_stream_and_no_other() {
    let tree = Tree::standard();
    let Some((server, mut client)) = server_and_client(&tree, &[]) else { return };
    client.connect("a", &server);
    for (bytes, code) in STREAM_ERRORS {
        let stream = client.raw("a", "bidirectional", bytes, true);
        let result = client.run(json!({"do": "answers", "name": "a", "streams": [stream]}));
        assert_eq!(result["answers"][0]["reset"], *code, "{}: {result}", bytes.escape_ascii());
        assert_eq!(client.get("a", "/alphabet.txt").status(), 200);
    }
    let short =
        json!([{"path": "/", "method": "POST", "body": "four", "headers": [["content-length", "5"]]}]);
    let reset = client.requests("a", short).remove(0).reset();
    // The answer may be out before the end of the body shows that it is wrong.
    assert!(matches!(reset, None | Some(0x10e)), "{reset:?}");
}

#[test]
fn what_is_not_known_is_ignored() {
    let tree = Tree::standard();
    let Some((server, mut client)) = server_and_client(&tree, &[]) else { return };
    client.connect("a", &server);
    client.raw("a", "unidirectional", b"\x21grease", false);
    client.raw("a", "unidirectional", b"\x40\x54more of it", true);
    client.run(json!({"do": "raw", "name": "a", "kind": "unidirectional", "stream": 2, "hex": "2103414243"}));
    let request = [b"\x21\x03abc", &b"\x01\x0d\x00\x00\xd1\xd7\xc1\x50\x01h\x27\x00a\x00"[..]].concat();
    let stream = client.raw("a", "bidirectional", &request[..5], false);
    assert_eq!(stream % 4, 0);
    assert_eq!(client.get("a", "/alphabet.txt").status(), 200);
}

#[test]
fn garbage_on_the_port_harms_no_client() {
    let tree = Tree::standard();
    let Some((server, mut client)) = server_and_client(&tree, &[]) else { return };
    client.connect("a", &server);
    for seed in 0..4 {
        client.run(json!({"do": "garbage", "port": server.address().port(), "seed": seed, "count": 1500}));
        assert_eq!(client.get("a", "/alphabet.txt").status(), 200);
        client.connect(&format!("new {seed}"), &server);
        assert_eq!(client.get(&format!("new {seed}"), "/alphabet.txt").status(), 200);
    }
}

#[test]
fn a_client_that_never_listens_is_cut_off() {
    let tree = Tree::standard();
    let limits = "[limits]\nhttp3_streams = 10000";
    let Some((server, mut client)) = configured(&tree, limits, "development_certificate = true") else {
        return;
    };
    client.connect("good", &server);
    client.connect("bad", &server);
    // Requests that need the disk, and are cancelled at once.
    for _ in 0..8 {
        let requests = vec![json!({"method": "POST", "path": "/", "unended": true}); 50];
        client.run(json!({"do": "reset", "name": "bad", "requests": requests}));
    }
    assert_eq!(client.wait_closed("bad"), 0x107);
    assert_eq!(client.get("good", "/alphabet.txt").status(), 200);
}
