use super::*;
use proptest::prelude::*;

/// The reader's result for these bytes in pieces of the given lengths (the last length repeats), followed by
/// the end of the connection.
fn read(bytes: &[u8], pieces: &[usize]) -> Result<Result<Answer, AnswerAtClose>, MalformedAnswer> {
    let (mut reader, mut head) = (AnswerReader::new(), ResponseHead::new());
    let (mut rest, mut pieces) = (bytes, pieces.iter().copied());
    let mut piece = bytes.len();
    let mut answer = None;
    while !rest.is_empty() {
        piece = pieces.next().unwrap_or(piece).clamp(1, rest.len());
        let (received, after) = rest.split_at(piece);
        if answer.is_some() {
            // Bytes after a complete answer, in another receive.
            return Err(MalformedAnswer);
        }
        answer = reader.receive(received, &mut head, &mut ())?;
        rest = after;
    }
    Ok(answer.ok_or_else(|| reader.at_close()))
}

fn whole(text: &str) -> Result<Result<Answer, AnswerAtClose>, MalformedAnswer> {
    let whole = read(text.as_bytes(), &[]);
    let bytewise = read(text.as_bytes(), &[1]);
    assert_eq!(whole, bytewise, "{text:?} reads differently byte by byte");
    whole
}

fn complete(text: &str) -> Answer {
    whole(text).expect("well-formed").expect("complete")
}

#[test]
fn answers_end_according_to_their_framing() {
    let answer = complete("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!((answer.status, answer.body_bytes, answer.bytes), (200, 5, 43));
    assert!(answer.keeps_connection);
    let answer = complete("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!((answer.status, answer.body_bytes), (204, 0));
    let answer = complete("HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n");
    assert_eq!((answer.status, answer.body_bytes), (304, 0));
    let answer = complete(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\
         T: v\r\n\r\n",
    );
    assert_eq!(answer.body_bytes, 13);
    assert!(answer.keeps_connection);
}

#[test]
fn the_head_determines_whether_the_connection_is_persistent() {
    for (head, keeps) in [
        ("HTTP/1.1 200 OK\r\n", true),
        ("HTTP/1.1 200 OK\r\nConnection: close\r\n", false),
        ("HTTP/1.0 200 OK\r\n", false),
        ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n", true),
    ] {
        assert_eq!(complete(&format!("{head}Content-Length: 0\r\n\r\n")).keeps_connection, keeps, "{head}");
    }
}

#[test]
fn a_body_without_a_length_ends_at_the_end_of_the_connection() {
    let AnswerAtClose::Complete(answer) =
        whole("HTTP/1.1 200 OK\r\n\r\nhello").expect("well-formed").expect_err("not complete before the end")
    else {
        panic!("the end should complete the answer");
    };
    assert_eq!((answer.body_bytes, answer.keeps_connection), (5, false));
}

#[test]
fn an_early_end_is_classified_by_its_position() {
    assert_eq!(whole(""), Ok(Err(AnswerAtClose::Nothing)));
    assert_eq!(whole("HTTP/1.1 200 OK\r\nConte"), Ok(Err(AnswerAtClose::InHead)));
    assert_eq!(whole("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"), Ok(Err(AnswerAtClose::ShortBody)));
    assert_eq!(
        whole("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
        Ok(Err(AnswerAtClose::ShortBody))
    );
}

#[test]
fn interim_answers_are_skipped() {
    let answer = complete(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n\
         HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    );
    assert_eq!((answer.status, answer.body_bytes), (200, 2));
    assert_eq!(whole("HTTP/1.1 101 Switching Protocols\r\n\r\n"), Err(MalformedAnswer));
}

#[test]
fn invalid_and_too_long_answers_are_malformed() {
    for text in [
        "SSH-2.0-OpenSSH_9.2p1\r\n",
        // Before any line has ended.
        "H\0",
        "HTTP/1.1 200 OK\r\nX: \0",
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc",
        "HTTP/1.1 204 No Content\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nX",
    ] {
        assert_eq!(whole(text), Err(MalformedAnswer), "{text:?}");
    }
    let maximum = touchstone_http::response::ResponseLimits::default().head_bytes as usize;
    let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "y".repeat(maximum));
    assert_eq!(read(endless.as_bytes(), &[1000]), Err(MalformedAnswer));
}

#[test]
fn a_reader_is_reused_for_many_answers() {
    let (mut reader, mut head) = (AnswerReader::new(), ResponseHead::new());
    for text in
        ["HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", "HTTP/1.1 404 No\r\nContent-Length: 3\r\n\r\nabc"]
    {
        for _ in 0..3 {
            assert!(reader.is_unanswered());
            let answer =
                reader.receive(text.as_bytes(), &mut head, &mut ()).expect("well-formed").expect("complete");
            assert_eq!(answer.bytes, text.len() as u64);
            reader.reset(false);
        }
    }
}

#[test]
fn the_answer_to_head_has_no_body() {
    let (mut reader, mut head) = (AnswerReader::new(), ResponseHead::new());
    reader.reset(true);
    let text = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n";
    let answer = reader.receive(text, &mut head, &mut ()).expect("well-formed").expect("complete");
    assert_eq!((answer.body_bytes, answer.keeps_connection), (0, true));
}

#[test]
fn a_sink_receives_the_decoded_body() {
    for text in [
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabcdefghij",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n7\r\ndefghij\r\n0\r\n\r\n",
    ] {
        let (mut reader, mut head) = (AnswerReader::new(), ResponseHead::new());
        let mut body = Vec::new();
        for piece in text.as_bytes().chunks(4) {
            let _ = reader.receive(piece, &mut head, &mut body).expect("well-formed");
        }
        assert_eq!(body, b"abcdefghij");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        pieces in prop::collection::vec(1usize..50, 0..20),
    ) {
        let _ = read(&bytes, &pieces);
    }

    #[test]
    fn an_answer_has_the_same_result_in_any_pieces(
        body in prop::collection::vec(any::<u8>(), 0..300),
        chunked: bool,
        interim: bool,
        pieces in prop::collection::vec(1usize..60, 0..30),
    ) {
        let mut text = Vec::new();
        if interim {
            text.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        if chunked {
            text.extend_from_slice(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            for chunk in body.chunks(37) {
                text.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                text.extend_from_slice(chunk);
                text.extend_from_slice(b"\r\n");
            }
            text.extend_from_slice(b"0\r\n\r\n");
        } else {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            text.extend_from_slice(head.as_bytes());
            text.extend_from_slice(&body);
        }
        let answer = read(&text, &pieces).expect("well-formed").expect("complete");
        prop_assert_eq!(answer.body_bytes, body.len() as u64);
        prop_assert_eq!(answer.bytes, text.len() as u64);
    }
}
