//! Range requests (RFC 9110 section 14, `If-Range` of section 13.1.5).

use crate::protocol::case::{Case, Peer, case, check, get, request};
use crate::support::{ALPHABET, FIXED_TIME_TEXT, numbers, parse_multipart};

#[test]
fn single_ranges() {
    check(single());
}

#[test]
fn ignored_ranges() {
    check(ignored());
}

#[test]
fn if_range() {
    check(if_range_table());
}

fn alphabet(name: &'static str, value: &str) -> Case {
    case(name, get("/alphabet.txt", &format!("Range: {value}\r\n")))
}

fn numbers_file(name: &'static str, value: &str) -> Case {
    case(name, get("/numbers.txt", &format!("Range: {value}\r\n")))
}

fn single() -> Vec<Case> {
    let gives = |name, value: &str, part: &str, content_range: &str| {
        alphabet(name, value)
            .answers(206)
            .body(part)
            .field("Content-Range", content_range)
            .field("Content-Length", part.len().to_string())
            .field("ETag", "{etag}")
            .field("Last-Modified", FIXED_TIME_TEXT)
            .field_starts("Content-Type", "text/plain")
            .kept()
    };
    let unsatisfiable =
        |name, value: &str| alphabet(name, value).answers(416).field("Content-Range", "bytes */26").kept();
    vec![
        gives("the first byte", "bytes=0-0", "a", "bytes 0-0/26").split(),
        gives("the last byte", "bytes=25-25", "z", "bytes 25-25/26"),
        gives("bytes in the middle", "bytes=5-9", "fghij", "bytes 5-9/26"),
        gives("all by number", "bytes=0-25", ALPHABET, "bytes 0-25/26"),
        gives("all without an end", "bytes=0-", ALPHABET, "bytes 0-25/26"),
        gives("from the middle on", "bytes=20-", "uvwxyz", "bytes 20-25/26"),
        gives("the last byte without an end", "bytes=25-", "z", "bytes 25-25/26"),
        gives("an end past the end", "bytes=20-99", "uvwxyz", "bytes 20-25/26"),
        gives("an end just past the end", "bytes=20-26", "uvwxyz", "bytes 20-25/26"),
        gives("the last five", "bytes=-5", "vwxyz", "bytes 21-25/26").split(),
        gives("the last one", "bytes=-1", "z", "bytes 25-25/26"),
        gives("as many last as there are", "bytes=-26", ALPHABET, "bytes 0-25/26"),
        gives("more last than there are", "bytes=-99", ALPHABET, "bytes 0-25/26"),
        gives("leading zeros", "bytes=000-004", "abcde", "bytes 0-4/26"),
        unsatisfiable("a start at the end", "bytes=26-").split(),
        unsatisfiable("a start past the end", "bytes=30-40"),
        unsatisfiable("a start far past the end", "bytes=9223372036854775806-9223372036854775807"),
        unsatisfiable("the last none", "bytes=-0"),
        unsatisfiable("several, all past the end", "bytes=26-,30-40,-0"),
        gives("one of several is past the end", "bytes=0-1,30-40", "ab", "bytes 0-1/26"),
        gives("several that overlap are one", "bytes=0-5,3-8", "abcdefghi", "bytes 0-8/26"),
        gives("several that touch are one", "bytes=0-5,6-8", "abcdefghi", "bytes 0-8/26"),
        gives("the same twice is one", "bytes=3-4,3-4", "de", "bytes 3-4/26"),
        gives("empty members of the list", "bytes=,3-4,", "de", "bytes 3-4/26"),
        case("of an empty file", get("/empty.txt", "Range: bytes=0-\r\n"))
            .answers(416)
            .field("Content-Range", "bytes */0")
            .kept(),
        case("the last of an empty file", get("/empty.txt", "Range: bytes=-5\r\n"))
            .answers(416)
            .or(200)
            .kept(),
        case("of a directory's index", get("/", "Range: bytes=0-8\r\n"))
            .answers(206)
            .body("<!doctype")
            .kept(),
        case("of a missing file", get("/missing", "Range: bytes=0-1\r\n"))
            .answers(404)
            .without("Content-Range")
            .kept(),
        case("of a redirect", get("/dir", "Range: bytes=0-1\r\n"))
            .answers(301)
            .without("Content-Range")
            .kept(),
        alphabet("an end of more than 64 bits", "bytes=20-99999999999999999999999")
            .answers(206)
            .or(200)
            .kept(),
        alphabet("a start of more than 64 bits", "bytes=99999999999999999999999-")
            .answers(416)
            .or(200)
            .kept(),
        alphabet("a suffix of more than 64 bits", "bytes=-99999999999999999999999")
            .answers(206)
            .or(200)
            .kept(),
        case("with HTTP/1.0", "GET /alphabet.txt HTTP/1.0\r\nRange: bytes=5-9\r\n\r\n")
            .answers(206)
            .body("fghij")
            .closed(),
        numbers_file("of a larger file", "bytes=5000-5009").answers(206).body("1000\n1001\n").kept(),
    ]
}

fn ignored() -> Vec<Case> {
    let whole =
        |name, value: &str| alphabet(name, value).answers(200).body(ALPHABET).without("Content-Range").kept();
    let many = |count: usize| {
        let list: Vec<String> =
            (0..count).map(|number| format!("{}-{}", number * 100, number * 100)).collect();
        format!("bytes={}", list.join(","))
    };
    vec![
        whole("another unit", "items=0-4"),
        whole("no unit", "0-4"),
        whole("no equals sign", "bytes 0-4"),
        whole("no range", "bytes="),
        whole("only a comma", "bytes=,"),
        whole("only a dash", "bytes=-"),
        whole("letters", "bytes=a-b"),
        whole("a letter after a number", "bytes=0-4x"),
        whole("the end before the start", "bytes=9-5").split(),
        whole("the end before the start in a list", "bytes=0-1,9-5"),
        whole("two dashes", "bytes=0--4"),
        whole("three numbers", "bytes=1-2-3"),
        whole("a sign", "bytes=+0-4"),
        whole("a space inside", "bytes=0 -4"),
        whole("a semicolon for a comma", "bytes=0-1;3-4"),
        whole("a number alone", "bytes=5"),
        whole("empty", ""),
        case("with HEAD", request("HEAD", "/alphabet.txt", "Range: bytes=0-4\r\n"))
            .answers(200)
            .field("Content-Length", "26")
            .without("Content-Range")
            .kept(),
        numbers_file("seventeen ranges", &many(17)).answers(200).body(numbers()).kept(),
        numbers_file("a thousand ranges", &many(1000)).answers(200).body(numbers()).kept(),
        numbers_file("ranges that together are more than the whole", "bytes=0-,0-,0-,0-")
            .answers(200)
            .or(206)
            .body(numbers())
            .kept(),
        alphabet("parts that would cost more than the whole", "bytes=0-0,2-2,4-4,6-6,8-8,10-10")
            .answers(200)
            .or(206)
            .kept(),
    ]
}

fn if_range_table() -> Vec<Case> {
    let with = |name, value: &str| {
        case(name, get("/alphabet.txt", &format!("Range: bytes=0-4\r\nIf-Range: {value}\r\n")))
    };
    let part = |name, value: &str| with(name, value).answers(206).body("abcde").kept();
    let whole =
        |name, value: &str| with(name, value).answers(200).body(ALPHABET).without("Content-Range").kept();
    vec![
        part("the entity tag", "{etag}").split(),
        part("the date", FIXED_TIME_TEXT),
        whole("another entity tag", "\"other\"").split(),
        whole("the entity tag as a weak one", "W/{etag}"),
        whole("another date", "Fri, 02 Jan 2026 03:04:04 GMT"),
        whole("a later date", "Fri, 02 Jan 2026 03:04:06 GMT"),
        whole("neither an entity tag nor a date", "yesterday"),
        whole("an entity tag without its quotation marks", "abc"),
        whole("empty", ""),
        case("If-Range without Range", get("/alphabet.txt", "If-Range: {etag}\r\n"))
            .answers(200)
            .body(ALPHABET)
            .kept(),
        case(
            "the tag matches and the range cannot be had",
            get("/alphabet.txt", "Range: bytes=99-\r\nIf-Range: {etag}\r\n"),
        )
        .answers(416)
        .field("Content-Range", "bytes */26")
        .kept(),
        case(
            "the tag differs and the range cannot be had",
            get("/alphabet.txt", "Range: bytes=99-\r\nIf-Range: \"other\"\r\n"),
        )
        .answers(200)
        .body(ALPHABET)
        .kept(),
        case(
            "a range with If-None-Match that matches",
            get("/alphabet.txt", "Range: bytes=0-4\r\nIf-None-Match: {etag}\r\n"),
        )
        .answers(304)
        .kept(),
        case(
            "a range with If-Match that does not match",
            get("/alphabet.txt", "Range: bytes=0-4\r\nIf-Match: \"other\"\r\n"),
        )
        .answers(412)
        .kept(),
        case(
            "a range with If-Match that matches",
            get("/alphabet.txt", "Range: bytes=0-4\r\nIf-Match: {etag}\r\n"),
        )
        .answers(206)
        .body("abcde")
        .kept(),
        case(
            "a range with If-Modified-Since of the date",
            get("/alphabet.txt", &format!("Range: bytes=0-4\r\nIf-Modified-Since: {FIXED_TIME_TEXT}\r\n")),
        )
        .answers(304)
        .kept(),
    ]
}

#[test]
fn several_ranges() {
    // The requested ranges, and the expected slices, in this order.
    type Expected<'a> = &'a [(usize, usize)];
    let table: &[(&str, Expected<'_>)] = &[
        ("bytes=0-1,100-104", &[(0, 1), (100, 104)]),
        ("bytes=0-1, 100-104", &[(0, 1), (100, 104)]),
        ("bytes=0-1 ,\t100-104", &[(0, 1), (100, 104)]),
        ("bytes=0-1,,100-104", &[(0, 1), (100, 104)]),
        ("bytes=0-0,-1", &[(0, 0), (9999, 9999)]),
        ("bytes=0-1,100-104,9000-", &[(0, 1), (100, 104), (9000, 9999)]),
        ("bytes=0-1,100-104,20000-", &[(0, 1), (100, 104)]),
        ("bytes=0-10,5-20,100-104", &[(0, 20), (100, 104)]),
        ("bytes=0-10,11-20,100-104", &[(0, 20), (100, 104)]),
        ("bytes=0-10,12-20", &[(0, 10), (12, 20)]),
    ];
    let peer = Peer::start();
    let numbers = numbers();
    for (value, slices) in table {
        let mut client = peer.connect();
        let answer = client.ask(get("/numbers.txt", &format!("Range: {value}\r\n")));
        assert_eq!(answer.status, 206, "{value}");
        assert_eq!(answer.field("content-range"), None, "{value}: only the parts have it");
        assert!(answer.field("etag").is_some() && answer.field("last-modified").is_some(), "{value}");
        let parts = parse_multipart(&answer).unwrap_or_else(|why| panic!("{value}: {why}"));
        let expected: Vec<(String, &str)> = slices
            .iter()
            .map(|(first, last)| (format!("bytes {first}-{last}/10000"), &numbers[*first..=*last]))
            .collect();
        let received: Vec<(String, &str)> = parts
            .iter()
            .map(|part| {
                let content_range = part.field("content-range").unwrap_or_default().to_owned();
                (content_range, std::str::from_utf8(&part.body).expect("digits"))
            })
            .collect();
        assert_eq!(received, expected, "{value}");
        for part in &parts {
            assert!(
                part.field("content-type").is_some_and(|value| value.starts_with("text/plain")),
                "{value}"
            );
        }
        assert_eq!(client.ask(get("/second.txt", "")).status, 200, "{value}: the connection is kept");
    }
}

#[test]
fn ranges_out_of_order() {
    // RFC 9110 section 15.3.7.2: a server may keep the requested order, or sort; every slice must be in the
    // answer.
    let peer = Peer::start();
    let numbers = numbers();
    let answer = peer.connect().ask(get("/numbers.txt", "Range: bytes=9000-9004,100-104\r\n"));
    assert_eq!(answer.status, 206);
    let mut parts: Vec<Vec<u8>> =
        parse_multipart(&answer).expect("well formed").into_iter().map(|part| part.body).collect();
    parts.sort();
    assert_eq!(parts, [numbers.as_bytes()[100..=104].to_vec(), numbers.as_bytes()[9000..=9004].to_vec()]);
}

#[test]
fn as_many_ranges_as_are_allowed() {
    let peer = Peer::start();
    let list: Vec<String> = (0..16).map(|number| format!("{}-{}", number * 500, number * 500 + 4)).collect();
    let answer = peer.connect().ask(get("/numbers.txt", &format!("Range: bytes={}\r\n", list.join(","))));
    assert_eq!(answer.status, 206);
    let parts = parse_multipart(&answer).expect("well formed");
    let bodies: Vec<String> =
        parts.iter().map(|part| String::from_utf8_lossy(&part.body).into_owned()).collect();
    let expected: Vec<String> = (0..16).map(|number| format!("{:04}\n", number * 100)).collect();
    assert_eq!(bodies, expected);
}
