//! Requests of programs: bots that sign their requests, and visitors that must do some work first.
//!
//! | module | |
//! |---|---|
//! | `rule` | the rules of a site or route: from a request to a decision |
//! | `shared` | what the rules of a server share |
//! | `signature` | HTTP Message Signatures (RFC 9421) |
//! | `bots` | the profile of them for bots (web-bot-auth): keys, directories, nonces |
//! | `check` | the proof of work, and the way for readers without scripts |
//! | `request_message` | a request of a client in the form for signatures |
//! | `visitor` | a visitor on the way through the check |
//! | `pace` | how many requests a bot may make |
//!
//! Only `bots::directories` does input and output, on a thread of its own.

use touchstone_http::cookie;

mod bots;
mod check;
mod pace;
mod request_message;
mod rule;
mod shared;
pub mod signature;
mod visitor;

pub use check::cookie::is_own_cookie;
pub use rule::{Crawlers, Decision, passed_before};
pub use shared::CrawlersShared;
pub use visitor::{Endpoint, answer, endpoint};

/// Reads bytes as each kind of input from outside, for fuzzing: the fields of a signature, `Signature-Agent`,
/// a directory, a `Cookie` field, a text of the check.
#[doc(hidden)]
pub fn read_for_fuzzing(bytes: &[u8]) {
    let kept = cookie::without(bytes, is_own_cookie);
    assert!(!kept.is_some_and(|kept| cookie::has(&kept, is_own_cookie)), "a cookie of the check remained");
    let keys = check::token::TextKeys::from_secrets(&["a secret that signed no text".to_string()]);
    for kind in [check::token::Kind::Task, check::token::Kind::Pass] {
        assert!(keys.open(kind, b"https://a.example", bytes).is_none(), "this key signed no text");
    }
    _ = bots::directory::Directory::parse(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        _ = bots::agent::Agent::of_address(text);
    }
    // Three fields, one in each line.
    let mut lines = bytes.split(|&byte| byte == b'\n');
    let mut line = || lines.next().unwrap_or_default();
    let fields = [
        (&b"signature-input"[..], line()),
        (&b"signature"[..], line()),
        (&b"signature-agent"[..], line()),
        (&b"x-other"[..], line()),
    ];
    let target = signature::Target {
        method: b"GET",
        scheme: "https",
        authority: b"a.example",
        path: b"/a",
        query: Some(line()),
        request_target: b"/a",
    };
    let start = signature::Start::Request(target);
    let message = signature::Message { start, fields: &fields, request: None };
    for signature in signature::read(&message).unwrap_or_default() {
        if let Ok(base) = signature.base(&message) {
            assert!(base.len() <= signature::LONGEST_BASE_BYTES * 2, "the base is too long");
        }
        _ = bots::agent::Agent::of_signature(&message, &signature);
    }
}
