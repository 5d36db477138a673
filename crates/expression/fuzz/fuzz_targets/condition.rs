//! Any condition and any text with variables, and any request evaluated by them: no panic, and a condition
//! that was read is read again from its source.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_expression::{Condition, AvailableFrom, Text};
use touchstone_http::request_view::RequestView;

fuzz_target!(|bytes: &[u8]| {
    let split = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (written, request) = bytes.split_at(split);
    let Ok(written) = std::str::from_utf8(written) else { return };
    let fields = [(&b"cookie"[..], request), (b"x-key", request)];
    let view = RequestView {
        path: request,
        query: Some(request),
        host: Some(request),
        fields: &fields,
        ..RequestView::example("/")
    };
    if let Ok(condition) = Condition::read(written, AvailableFrom::Answer) {
        condition.holds(&view);
        assert_eq!(Condition::read(condition.source(), AvailableFrom::Answer), Ok(condition));
    }
    if let Ok(text) = Text::read(written, AvailableFrom::Answer) {
        text.render(&view);
        assert_eq!(Text::read(text.source(), AvailableFrom::Answer), Ok(text));
    }
});
