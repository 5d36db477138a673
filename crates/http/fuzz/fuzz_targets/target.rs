//! Any bytes as a request target: no panic, no path that leaves the root, and plain paths that are their own
//! normal form.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_http::host::{is_valid_host, split_port};
use touchstone_http::target::{RequestTarget, is_plain_path, normalise_path, parse_target};

fn check_path(path: &[u8]) {
    let mut normal = Vec::new();
    let result = normalise_path(path, &mut normal);
    if is_plain_path(path) {
        assert_eq!(result, Ok(()));
        assert_eq!(normal, path);
    }
    if result.is_ok() {
        assert!(normal.starts_with(b"/") && normal.len() <= path.len());
        assert!(normal.iter().all(|&byte| byte >= b' ' && byte != 0x7f));
        let segments: Vec<&[u8]> = normal[1..].split(|&byte| byte == b'/').collect();
        assert!(!segments.iter().any(|segment| *segment == b"." || *segment == b".."));
        assert!(!segments[..segments.len() - 1].contains(&b"".as_slice()));
    }
}

fuzz_target!(|bytes: &[u8]| {
    check_path(bytes);
    if is_valid_host(bytes) {
        let (host, _) = split_port(bytes);
        assert!(is_valid_host(host));
    }
    for (is_connect, is_options) in [(false, false), (false, true), (true, false)] {
        match parse_target(is_connect, is_options, bytes) {
            Ok(RequestTarget::Origin { path, .. }) => check_path(path),
            Ok(RequestTarget::Absolute { authority, path, .. }) => {
                assert!(!authority.is_empty() && is_valid_host(authority));
                check_path(path);
            }
            Ok(RequestTarget::Authority(authority)) => assert!(is_connect && is_valid_host(authority)),
            Ok(RequestTarget::Asterisk) => assert!(is_options),
            Err(_) => {}
        }
    }
});
