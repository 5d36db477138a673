//! However a program's output is split, the same response results, and its fields are valid field lines.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_interfaces::cgi_response::{HeaderLimits, ProgramResponse, ResponseParser};

fuzz_target!(|input: (Vec<u8>, u8)| {
    let (output, size) = input;
    let limits = HeaderLimits { bytes: 512, fields: 8 };
    let whole = ResponseParser::new(limits).feed(&output);
    let mut parser = ResponseParser::new(limits);
    let mut fed = 0;
    let mut pieces = Ok(None);
    for piece in output.chunks(usize::from(size).max(1)) {
        pieces = parser.feed(piece).map(|found| found.map(|(response, end)| (response, fed + end)));
        fed += piece.len();
        if !matches!(pieces, Ok(None)) {
            break;
        }
    }
    match (&whole, &pieces) {
        // If two things are wrong, the split decides which one is found first.
        (Err(_), pieces) => assert!(!matches!(pieces, Ok(Some(_)))),
        (whole, pieces) => assert_eq!(whole, pieces),
    }
    if let Ok(Some((ProgramResponse::Document(head), _))) = whole {
        assert!((200..600).contains(&head.status));
        assert!(head.fields.is_empty() || head.fields.ends_with(b"\r\n"));
        assert_eq!(head.iter().count(), head.fields.iter().filter(|&&byte| byte == b'\n').count());
    }
});
