//! Parts of responses (RFC 9111 sections 3.3 and 3.4): stored, combined, and completed by requesting only the
//! rest.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::accelerator::origin::{Asked, Origin, answer};
use crate::accelerator::{FRESH, get, text};
use crate::support::Server;

/// The origin's answers, one version after the other.
const VERSIONS: [&str; 2] = ["0123456789", "abcdefghij"];

/// An origin that supports ranges, and records its requests.
struct RangeOrigin {
    origin: Origin,
    version: Arc<AtomicUsize>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl RangeOrigin {
    /// `heeds_if_range`: what it should do with `If-Range`.
    fn start(heeds_if_range: bool) -> RangeOrigin {
        let (version, asked) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (current, noted) = (version.clone(), asked.clone());
        let origin = Origin::start(move |asked, stream| {
            noted.lock().unwrap().push(asked.field("range").unwrap_or("whole").to_string());
            let version = current.load(Ordering::SeqCst);
            let (whole, etag) = (VERSIONS[version], format!("\"{version}\""));
            let fields = format!("{FRESH}ETag: {etag}\r\n");
            let is_same = asked.field("if-range").is_none_or(|condition| condition == etag);
            match range(asked, whole.len()).filter(|_| is_same || !heeds_if_range) {
                Some((first, last)) => {
                    let fields = format!("{fields}Content-Range: bytes {first}-{last}/{}\r\n", whole.len());
                    answer(stream, 206, &fields, &whole[first..=last]);
                }
                None => answer(stream, 200, &fields, whole),
            }
        });
        RangeOrigin { origin, version, asked }
    }

    fn change(&self) {
        self.version.store(1, Ordering::SeqCst);
    }

    /// The ranges that were requested since the last time.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

fn range(asked: &Asked, length: usize) -> Option<(usize, usize)> {
    let (first, last) = asked.field("range")?.strip_prefix("bytes=")?.split_once('-')?;
    Some((first.parse().ok()?, last.parse().unwrap_or(length - 1)))
}

fn part(server: &Server, range: &str) -> (u16, String) {
    let got = get(server, "/a", &format!("Range: bytes={range}\r\n"));
    (got.status, text(&got))
}

fn whole(server: &Server) -> (u16, String) {
    let got = get(server, "/a", "");
    (got.status, text(&got))
}

#[test]
fn they_are_put_together_and_only_the_rest_is_asked_for() {
    let origin = RangeOrigin::start(true);
    let server = Server::accelerating(origin.origin.address, &["--cores", "1"]);
    for (range, body, asked) in [
        ("3-5", "345", Some("bytes=3-5")),
        ("4-5", "45", None),
        // What is there is the beginning, the end, neither, and all.
        ("4-7", "4567", Some("bytes=6-7")),
        ("1-4", "1234", Some("bytes=1-2")),
        ("0-8", "012345678", Some("bytes=0-8")),
        ("2-6", "23456", None),
    ] {
        assert_eq!(part(&server, range), (206, body.to_string()), "{range}");
        assert_eq!(origin.asked(), asked.into_iter().collect::<Vec<_>>(), "{range}");
    }
    assert_eq!(whole(&server), (200, VERSIONS[0].to_string()));
    assert_eq!(origin.asked(), ["bytes=9-"]);
    assert_eq!(
        (whole(&server), part(&server, "-1")),
        ((200, VERSIONS[0].to_string()), (206, "9".to_string()))
    );
    assert_eq!(origin.asked(), [""; 0]);
}

#[test]
fn what_has_changed_is_never_put_together_with_what_was() {
    // The second one sends parts of its present version, whatever the condition of the request.
    for heeds_if_range in [true, false] {
        for asks_for_whole in [true, false] {
            let origin = RangeOrigin::start(heeds_if_range);
            let server = Server::accelerating(origin.origin.address, &["--cores", "1"]);
            assert_eq!(part(&server, "0-3"), (206, "0123".to_string()));
            origin.change();
            if asks_for_whole {
                assert_eq!(whole(&server), (200, VERSIONS[1].to_string()), "{heeds_if_range}");
            } else {
                let (status, body) = part(&server, "2-6");
                let expected = if status == 206 { &VERSIONS[1][2..=6] } else { VERSIONS[1] };
                assert!(
                    [200, 206].contains(&status) && body == expected,
                    "{heeds_if_range}: {status} {body}"
                );
            }
            assert_eq!(part(&server, "1-2"), (206, "bc".to_string()), "{heeds_if_range} {asks_for_whole}");
        }
    }
}
