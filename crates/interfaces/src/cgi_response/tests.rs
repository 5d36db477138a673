use proptest::prelude::*;

use super::*;

fn parse(output: &[u8]) -> Result<(ProgramResponse, Vec<u8>), ResponseError> {
    let mut parser = ResponseParser::new(HeaderLimits { bytes: 512, fields: 8 });
    match parser.feed(output)? {
        Some((response, end)) => Ok((response, output[end..].to_vec())),
        None => Err(parser.ended()),
    }
}

fn document(output: &str) -> (u16, String, Option<u64>, String) {
    let (response, body) = parse(output.as_bytes()).unwrap();
    let ProgramResponse::Document(head) = response else { panic!("{response:?}") };
    let fields: Vec<String> = head
        .iter()
        .map(|(name, value)| format!("{}: {}", String::from_utf8_lossy(name), String::from_utf8_lossy(value)))
        .collect();
    (head.status, fields.join("|"), head.content_length, String::from_utf8(body).unwrap())
}

#[test]
fn documents() {
    for (output, status, fields, length, body) in [
        ("Content-Type: text/plain\n\nhello", 200, "Content-Type: text/plain", None, "hello"),
        ("Content-Type: text/plain\r\n\r\nhello", 200, "Content-Type: text/plain", None, "hello"),
        ("content-type:text/plain  \r\n\nhello", 200, "content-type: text/plain", None, "hello"),
        ("Status: 404 Not Found\nContent-Type: a/b\n\nx", 404, "Content-Type: a/b", None, "x"),
        ("status:404\nContent-Type: a/b\n\n", 404, "Content-Type: a/b", None, ""),
        ("Content-Type: a/b\nContent-Length: 5\n\nhello", 200, "Content-Type: a/b", Some(5), "hello"),
        (
            "Content-Length: 5\ncontent-length: 5\nContent-Type: a/b\n\n",
            200,
            "Content-Type: a/b",
            Some(5),
            "",
        ),
        ("HTTP/1.1 403 Go away\r\nX-A: b\r\n\r\nx", 403, "X-A: b", None, "x"),
        ("HTTP/1.0 204 OK\r\n\r\n", 204, "", None, ""),
        ("Status: 200\n\n\nbody", 200, "", None, "\nbody"),
        ("Set-Cookie: a=1\nSet-Cookie: b=2\n\n", 200, "Set-Cookie: a=1|Set-Cookie: b=2", None, ""),
        (
            "Content-Type: a/b\nConnection: keep-alive\nTransfer-Encoding: chunked\nDate: x\nServer: y\n\n",
            200,
            "Content-Type: a/b",
            None,
            "",
        ),
    ] {
        assert_eq!(document(output), (status, fields.to_string(), length, body.to_string()), "{output:?}");
    }
}

#[test]
fn reason_phrases() {
    for (output, reason) in [
        ("Status: 404 Gone fishing\n\n", Some("Gone fishing")),
        ("Status: 404\tGone  fishing \r\n\r\n", Some("Gone  fishing")),
        ("Status: 404 Not Found\n\n", None),
        ("Status: 404\n\n", None),
        ("Content-Type: a/b\n\n", None),
        ("HTTP/1.1 404 Gone fishing\r\nX-A: b\r\n\r\n", Some("Gone fishing")),
        ("HTTP/1.1 404 Gone\x0bfishing\r\nX-A: b\r\n\r\n", None),
        ("HTTP/1.1 404\r\nX-A: b\r\n\r\n", None),
    ] {
        let (response, _) = parse(output.as_bytes()).unwrap();
        let ProgramResponse::Document(head) = response else { panic!("{response:?}") };
        let phrase = head.reason.as_ref().map(ReasonPhrase::as_bytes);
        assert_eq!(phrase, reason.map(str::as_bytes), "{output:?}");
    }
}

#[test]
fn interim_responses_come_before_the_final_one() {
    let output = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\nDate: x\r\n\r\n\
                   HTTP/1.1 200 OK\r\nX-A: b\r\n\r\nbody";
    let expected = [(100, ""), (103, "Link: </a>\r\n")];
    let expected =
        expected.map(|(status, fields)| InterimResponse { status, fields: fields.as_bytes().to_vec() });
    for size in 1..=output.len() {
        let mut parser = ResponseParser::new(HeaderLimits { bytes: 64, fields: 8 });
        let (mut fed, mut found) = (0, None);
        for piece in output.chunks(size) {
            if let Some((response, end)) = parser.feed(piece).unwrap() {
                found = Some((response, fed + end));
                break;
            }
            fed += piece.len();
        }
        let Some((ProgramResponse::Document(head), end)) = found else { panic!("no document in {size}") };
        assert_eq!((head.status, &head.fields[..], &output[end..]), (200, &b"X-A: b\r\n"[..], &b"body"[..]));
        assert_eq!(parser.take_interim(), expected, "{size}");
    }
    let many = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(33);
    assert_eq!(parse(many.as_bytes()), Err(ResponseError::TooManyInterim));
    assert_eq!(parse(b"HTTP/1.1 101 Switching\r\n\r\n"), Err(ResponseError::Status("101".to_string())));
}

#[test]
fn chunks_of_programs_that_answer_as_servers_do() {
    let is_chunked = |output: &str| match parse(output.as_bytes())?.0 {
        ProgramResponse::Document(head) => Ok((head.is_chunked, head.content_length)),
        other => panic!("{other:?}"),
    };
    let line = "HTTP/1.1 200 OK\n";
    assert_eq!(is_chunked(&format!("{line}Transfer-Encoding: Chunked\n\n")), Ok((true, None)));
    let both = format!("{line}Content-Length: 5\nTransfer-Encoding: chunked\n\n");
    assert_eq!(is_chunked(&both), Ok((true, None)));
    assert_eq!(is_chunked("Status: 200\nTransfer-Encoding: chunked\n\n"), Ok((false, None)));
    for coding in ["gzip, chunked", "chunked\nTransfer-Encoding: chunked"] {
        let output = format!("{line}Transfer-Encoding: {coding}\n\n");
        assert_eq!(is_chunked(&output), Err(ResponseError::TransferEncoding), "{coding}");
    }
}

#[test]
fn redirects() {
    let local = |output: &str| match parse(output.as_bytes()).unwrap().0 {
        ProgramResponse::LocalRedirect(to) => String::from_utf8(to).unwrap(),
        other => panic!("{output:?}: {other:?}"),
    };
    assert_eq!(local("Location: /a?b=c\n\n"), "/a?b=c");
    assert_eq!(local("Content-Type: text/html\nLocation: /a\n\nignored"), "/a");
    // To the client: an absolute URI, a status, or fields that the client must get.
    for (output, status, fields) in [
        ("Location: http://example.org/a\n\n", 302, "Location: http://example.org/a"),
        ("Location: //example.org/a\n\n", 302, "Location: //example.org/a"),
        ("Location: a.html\n\n", 302, "Location: a.html"),
        ("Status: 303 See Other\nLocation: /a\n\n", 303, "Location: /a"),
        ("Set-Cookie: s=1\nLocation: /a\n\n", 302, "Set-Cookie: s=1|Location: /a"),
        ("Status: 201\nLocation: /a\nContent-Type: a/b\n\n", 201, "Location: /a|Content-Type: a/b"),
    ] {
        let (found_status, found_fields, ..) = document(output);
        assert_eq!((found_status, found_fields.as_str()), (status, fields), "{output:?}");
    }
}

#[test]
fn accelerated_redirect() {
    let (response, _) = parse(b"X-Accel-Redirect: /private/a.zip\nContent-Type: a/b\n\n").unwrap();
    let ProgramResponse::Document(head) = response else { panic!("{response:?}") };
    assert_eq!(head.accel_redirect.as_deref(), Some(&b"/private/a.zip"[..]));
    assert_eq!(head.fields, b"Content-Type: a/b\r\n");
    assert_eq!(head.field(b"CONTENT-type"), Some(&b"a/b"[..]));
}

#[test]
fn what_is_no_response() {
    use ResponseError::*;
    let long = format!("X: {}\n\n", "x".repeat(600));
    let many = "X: 1\n".repeat(9) + "\n";
    for (output, error) in [
        ("", Nothing),
        ("Content-Type: text/plain\n", EndedInHeader),
        ("Content-Type", EndedInHeader),
        ("\nhello", NoHeader),
        ("\r\nhello", NoHeader),
        ("hello world\n", NotAField("hello world".into())),
        ("<html>\n<body>a: b\n\n", NotAField("<html>".into())),
        (": x\n\n", NotAField(": x".into())),
        ("Content-Type : x\n\n", NotAField("Content-Type : x".into())),
        ("X: a\n folded\n\n", NotAField(" folded".into())),
        ("X: a\rY: b\n\n", ControlByte("X".into())),
        ("X: a\0\n\n", ControlByte("X".into())),
        ("Status: 99\n\n", Status("99".into())),
        ("Status: 101 Switching\n\n", Status("101".into())),
        ("Status: 600\n\n", Status("600".into())),
        ("Status: OK\n\n", Status("OK".into())),
        ("Status: 200\nStatus: 200\n\n", Twice("Status")),
        ("HTTP/1.1\n\n", Status("".into())),
        ("HTTP/1.1 200 OK\nStatus: 404\n\n", Twice("Status")),
        ("Location: /a b\n\n", Location("/a b".into())),
        ("Location:\n\n", Location("".into())),
        ("Location: /a\nLocation: /b\n\n", Twice("Location")),
        ("Content-Type: a/b\nContent-Type: a/c\n\n", Twice("Content-Type")),
        ("Content-Length: 5\nContent-Length: 6\n\n", ContentLength),
        ("Content-Length: five\n\n", ContentLength),
        ("Content-Length: -1\n\n", ContentLength),
        (long.as_str(), TooLong(512)),
        (many.as_str(), TooManyFields(8)),
    ] {
        assert_eq!(parse(output.as_bytes()), Err(error), "{output:?}");
    }
}

#[test]
fn headers_for_ever() {
    let mut parser = ResponseParser::new(HeaderLimits::default());
    let fed = (0..).find_map(|count| parser.feed(b"X-More: of the same\n").err().map(|error| (count, error)));
    assert_eq!(fed, Some((64 * 1024 / 20, ResponseError::TooLong(64 * 1024))));
}

fn output() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        4 => "(Status|Location|Content-Type|Content-Length|Set-Cookie|X-A|Connection): [ -~]{0,12}",
        2 => "(Status: [1-6][0-9][0-9])|(Location: /[a-z]{0,3})|(Content-Length: [0-9]{1,3})",
        1 => "HTTP/1\\.[01] [0-9 ]{0,6}",
        1 => "[\\x00-\\x7f]{0,12}",
        3 => Just(String::new()),
    ];
    let lines = proptest::collection::vec((line, prop_oneof![Just("\n"), Just("\r\n")]), 0..10);
    lines.prop_map(|lines| lines.into_iter().flat_map(|(line, end)| (line + end).into_bytes()).collect())
}

proptest! {
    /// However the bytes are split, the result is the same.
    #[test]
    fn pieces_do_not_matter(output in output(), size in 1usize..9) {
        let whole = parse(&output);
        let mut parser = ResponseParser::new(HeaderLimits { bytes: 512, fields: 8 });
        let mut body = Vec::new();
        let mut result = None;
        for piece in output.chunks(size) {
            match &result {
                Some(Ok(_)) => body.extend_from_slice(piece),
                Some(Err(_)) => break,
                None => match parser.feed(piece) {
                    Ok(None) => {}
                    Ok(Some((response, end))) => {
                        body.extend_from_slice(&piece[end..]);
                        result = Some(Ok(response));
                    }
                    Err(error) => result = Some(Err(error)),
                },
            }
        }
        match (whole, result) {
            (Ok((response, rest)), Some(found)) => {
                prop_assert_eq!(Ok(response), found);
                prop_assert_eq!(rest, body);
            }
            (Err(error), None) => prop_assert_eq!(error, parser.ended()),
            (Err(_), Some(found)) => prop_assert!(found.is_err()),
            (whole, None) => prop_assert!(false, "{:?}", whole),
        }
    }

    /// Nothing that a program prints becomes more than lines `Name: value`.
    #[test]
    fn fields_are_lines(output in output()) {
        if let Ok((ProgramResponse::Document(head), _)) = parse(&output) {
            prop_assert!((200..600).contains(&head.status));
            let lines: Vec<&[u8]> = head.fields.split(|&byte| byte == b'\n').collect();
            let (last, lines) = lines.split_last().unwrap();
            prop_assert!(last.is_empty());
            for line in lines {
                let line = line.strip_suffix(b"\r").unwrap();
                prop_assert!(!line.is_empty() && !line.iter().any(|byte| matches!(byte, b'\r' | 0)));
                prop_assert!(split_field(line).is_ok());
            }
            prop_assert_eq!(head.iter().count(), lines.len());
        }
    }

    #[test]
    fn no_bytes_panic(output in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&output);
    }
}
