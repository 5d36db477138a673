//! Directives for caches like this one alone: `CDN-Cache-Control` (RFC 9213), a structured field that
//! replaces `Cache-Control` and `Expires` if it is valid, and is ignored completely if it is not.

use crate::accelerator::{counting, get, text};

/// Whether the second request is answered with what the first has brought.
fn is_reused(fields: &'static str) -> bool {
    let (origin, server) = counting(fields);
    assert_eq!(text(&get(&server, "/a", "")), "/a 1", "{fields}");
    let again = get(&server, "/a", "");
    let expected = format!("/a {}", origin.count("/a"));
    assert_eq!((again.status, text(&again)), (200, expected), "{fields}");
    origin.count("/a") == 1
}

#[test]
fn it_stands_for_all_that_is_said_to_others() {
    for fields in [
        "CDN-Cache-Control: max-age=600\r\n",
        "CDN-Cache-Control: unknown, max-age=600\r\n",
        "CDN-Cache-Control: max-age=2147483648\r\n",
        "CDN-Cache-Control: max-age=99999999999\r\n",
        "CDN-Cache-Control: max-age=600\r\nCache-Control: no-store\r\n",
        "CDN-Cache-Control: max-age=600\r\nCache-Control: max-age=0\r\n",
        "CDN-Cache-Control: max-age=600\r\nExpires: 0\r\n",
        "CDN-Cache-Control: max-age=600\r\nExpires: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
    ] {
        assert!(is_reused(fields), "{fields}");
    }
    for fields in [
        "CDN-Cache-Control: max-age=0\r\nCache-Control: max-age=600\r\n",
        "CDN-Cache-Control: private\r\nCache-Control: max-age=600\r\n",
        "CDN-Cache-Control: no-cache\r\nCache-Control: max-age=600\r\n",
        "CDN-Cache-Control: no-store\r\nCache-Control: max-age=600\r\n",
        "CDN-Cache-Control: max-age=600\r\nAge: 700\r\n",
    ] {
        assert!(!is_reused(fields), "{fields}");
    }
}

#[test]
fn one_that_is_not_valid_is_none() {
    for fields in [
        "CDN-Cache-Control: max-age=600, &&&\r\nCache-Control: no-store\r\n",
        "CDN-Cache-Control: max-age=\"600\"\r\nCache-Control: no-store\r\n",
        "CDN-Cache-Control: max-age = 600\r\nCache-Control: no-store\r\n",
    ] {
        assert!(!is_reused(fields), "{fields}");
    }
    assert!(is_reused("CDN-Cache-Control: no-store, &&&\r\nCache-Control: max-age=600\r\n"));
}
