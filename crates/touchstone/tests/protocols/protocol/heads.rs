//! HEAD answers as GET does, without the body (RFC 9110 section 9.3.2).

use crate::protocol::case::{Peer, get, request};
use crate::support::{AnswerTo, FIXED_TIME_TEXT};

#[test]
fn head_equals_the_head_of_get() {
    let not_modified = format!("If-Modified-Since: {FIXED_TIME_TEXT}\r\n");
    let table = [
        ("/", ""),
        ("/alphabet.txt", ""),
        ("/numbers.txt", ""),
        ("/empty.txt", ""),
        ("/image.png", ""),
        ("/unknown.zzz", ""),
        ("/dir/", ""),
        ("/dir", ""),
        ("/dir?a=b", ""),
        ("/bare/", ""),
        ("/missing", ""),
        ("/.hidden", ""),
        ("/escape.txt", ""),
        ("/page.html/", ""),
        ("/dir%2Finner.txt", ""),
        ("/alphabet.txt", "If-None-Match: *\r\n"),
        ("/alphabet.txt", "If-Match: \"other\"\r\n"),
        ("/alphabet.txt", "If-None-Match: \"other\"\r\n"),
        ("/alphabet.txt", &not_modified),
        ("/alphabet.txt", "Connection: close\r\n"),
        ("/missing", "Connection: close\r\n"),
    ];
    let peer = Peer::start();
    for (target, fields) in table {
        let get = peer.connect().ask(get(target, fields));
        let mut client = peer.connect();
        client.send(request("HEAD", target, fields));
        let head = client.try_answer(AnswerTo::Head).unwrap_or_else(|broken| panic!("{target}: {broken}"));
        assert_eq!(head.status, get.status, "HEAD {target} {fields}");
        assert_eq!(head.reason, get.reason, "HEAD {target} {fields}");
        let sorted = |mut fields: Vec<(String, String)>| {
            fields.sort();
            fields
        };
        let (of_head, of_get) = (sorted(head.fields_without_date()), sorted(get.fields_without_date()));
        assert_eq!(of_head, of_get, "HEAD {target} {fields}");
        assert!(head.field("date").is_some(), "HEAD {target} {fields}");
        if get.says_close() {
            client.end();
        } else {
            // If a body had been sent, it would be before this answer.
            let next = client.ask(request("GET", "/second.txt", "Connection: close\r\n"));
            assert_eq!(next.status, 200, "after HEAD {target}");
            client.end();
        }
    }
}
