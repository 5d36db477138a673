//! Conditional requests, in the order of RFC 9110 section 13.2.2.

use crate::protocol::case::{Case, case, check, get, request};
use crate::support::{ALPHABET, FIXED_TIME_TEXT};

#[test]
fn conditions() {
    check(table());
}

const EARLIER: &str = "Fri, 02 Jan 2026 03:04:04 GMT";
const LATER: &str = "Fri, 02 Jan 2026 03:04:06 GMT";

fn table() -> Vec<Case> {
    let with = |name, lines: &str| {
        let lines =
            lines.replace("{date}", FIXED_TIME_TEXT).replace("{earlier}", EARLIER).replace("{later}", LATER);
        case(name, get("/alphabet.txt", &lines))
    };
    let whole = |name, lines: &str| with(name, lines).answers(200).body(ALPHABET).kept();
    let not_modified =
        |name, lines: &str| with(name, lines).answers(304).field("ETag", "{etag}").body("").kept();
    let failed = |name, lines: &str| with(name, lines).answers(412).kept();
    vec![
        not_modified("If-None-Match of the entity tag", "If-None-Match: {etag}\r\n").split(),
        not_modified("If-None-Match as a weak tag", "If-None-Match: W/{etag}\r\n"),
        not_modified("If-None-Match of anything", "If-None-Match: *\r\n"),
        not_modified("If-None-Match in a list", "If-None-Match: \"a\", {etag}, \"b\"\r\n"),
        not_modified("If-None-Match in a list without spaces", "If-None-Match: \"a\",W/{etag},\"b\"\r\n"),
        not_modified("If-None-Match after a tag with a comma in it", "If-None-Match: \"a,b\", {etag}\r\n"),
        not_modified("If-None-Match after an empty tag", "If-None-Match: \"\", {etag}\r\n"),
        not_modified("If-None-Match in a second field", "If-None-Match: \"a\"\r\nIf-None-Match: {etag}\r\n"),
        whole("If-None-Match of another tag", "If-None-Match: \"other\"\r\n").split(),
        whole("If-None-Match of other tags", "If-None-Match: \"a\", W/\"b\"\r\n"),
        whole("If-None-Match of the empty tag", "If-None-Match: \"\"\r\n"),
        whole("If-None-Match, empty", "If-None-Match:\r\n"),
        whole("If-None-Match without quotation marks", "If-None-Match: other\r\n"),
        not_modified("If-Modified-Since of the date", "If-Modified-Since: {date}\r\n").split(),
        not_modified("If-Modified-Since of a later date", "If-Modified-Since: {later}\r\n"),
        not_modified(
            "If-Modified-Since in the form of RFC 850",
            "If-Modified-Since: Friday, 02-Jan-26 03:04:05 GMT\r\n",
        ),
        not_modified(
            "If-Modified-Since in the form of asctime",
            "If-Modified-Since: Fri Jan  2 03:04:05 2026\r\n",
        ),
        // RFC 9111 section 4.2 asks caches to read such dates; this is harmless here.
        not_modified(
            "If-Modified-Since in the wrong case",
            "If-Modified-Since: FRI, 02 jan 2026 03:04:05 gmt\r\n",
        ),
        whole("If-Modified-Since of an earlier date", "If-Modified-Since: {earlier}\r\n"),
        whole(
            "If-Modified-Since of an earlier date in the form of asctime",
            "If-Modified-Since: Fri Jan  2 03:04:04 2026\r\n",
        ),
        whole("If-Modified-Since that is not a date", "If-Modified-Since: yesterday\r\n"),
        whole(
            "If-Modified-Since of a day that is not",
            "If-Modified-Since: Fri, 32 Jan 2026 03:04:05 GMT\r\n",
        ),
        whole("If-Modified-Since, empty", "If-Modified-Since:\r\n"),
        whole("If-Modified-Since of another zone", "If-Modified-Since: Fri, 02 Jan 2026 03:04:05 CET\r\n"),
        whole(
            "If-None-Match is heard before If-Modified-Since",
            "If-None-Match: \"other\"\r\nIf-Modified-Since: {date}\r\n",
        ),
        not_modified(
            "If-None-Match matches and If-Modified-Since would not",
            "If-None-Match: {etag}\r\nIf-Modified-Since: {earlier}\r\n",
        ),
        whole("If-Match of the entity tag", "If-Match: {etag}\r\n").split(),
        whole("If-Match of anything", "If-Match: *\r\n"),
        whole("If-Match in a list", "If-Match: \"a\", {etag}\r\n"),
        failed("If-Match of another tag", "If-Match: \"other\"\r\n").split(),
        failed("If-Match as a weak tag", "If-Match: W/{etag}\r\n"),
        failed("If-Match of other tags", "If-Match: \"a\", \"b\"\r\n"),
        whole("If-Unmodified-Since of the date", "If-Unmodified-Since: {date}\r\n"),
        whole("If-Unmodified-Since of a later date", "If-Unmodified-Since: {later}\r\n"),
        failed("If-Unmodified-Since of an earlier date", "If-Unmodified-Since: {earlier}\r\n"),
        whole("If-Unmodified-Since that is not a date", "If-Unmodified-Since: yesterday\r\n"),
        whole(
            "If-Match is heard before If-Unmodified-Since",
            "If-Match: {etag}\r\nIf-Unmodified-Since: {earlier}\r\n",
        ),
        failed(
            "If-Match fails and If-Unmodified-Since would not",
            "If-Match: \"other\"\r\nIf-Unmodified-Since: {date}\r\n",
        ),
        not_modified(
            "If-Match and If-None-Match both match",
            "If-Match: {etag}\r\nIf-None-Match: {etag}\r\n",
        ),
        failed("If-Match is heard before If-None-Match", "If-Match: \"other\"\r\nIf-None-Match: {etag}\r\n"),
        failed(
            "If-Unmodified-Since is heard before If-None-Match",
            "If-Unmodified-Since: {earlier}\r\nIf-None-Match: {etag}\r\n",
        ),
        not_modified(
            "If-Unmodified-Since and If-Modified-Since of the date",
            "If-Unmodified-Since: {date}\r\nIf-Modified-Since: {date}\r\n",
        ),
        case("HEAD with If-None-Match", request("HEAD", "/alphabet.txt", "If-None-Match: {etag}\r\n"))
            .answers(304)
            .kept(),
        case(
            "HEAD with If-Match of another tag",
            request("HEAD", "/alphabet.txt", "If-Match: \"other\"\r\n"),
        )
        .answers(412)
        .kept(),
        case("a missing file is missing whatever If-Match says", get("/missing", "If-Match: *\r\n"))
            .answers(404)
            .kept(),
        case(
            "a missing file is missing whatever If-None-Match says",
            get("/missing", "If-None-Match: *\r\n"),
        )
        .answers(404)
        .kept(),
        case("a redirect is one whatever If-None-Match says", get("/dir", "If-None-Match: *\r\n"))
            .answers(301)
            .kept(),
        case(
            "a directory's index with If-Modified-Since",
            get("/", &format!("If-Modified-Since: {FIXED_TIME_TEXT}\r\n")),
        )
        .answers(304)
        .kept(),
        case(
            "304 and another request in one go",
            [get("/alphabet.txt", "If-None-Match: {etag}\r\n"), get("/second.txt", "")].concat(),
        )
        .answers(304)
        .answers(200)
        .kept()
        .split(),
    ]
}
