//! Percent-encoding (RFC 3986 section 2) of the parts of a `Location`.

use touchstone_http::path::append_escaped;

/// Appends a decoded path. Slashes are kept; all bytes that are not allowed in a path are encoded. So is the
/// backslash, which browsers treat as a slash.
pub fn append_path(path: &[u8], out: &mut Vec<u8>) {
    append_escaped(path, b"/-._~!$&'()*+,;=:@", out);
}

/// Appends decoded bytes as part of a query or fragment: separators and bytes with a special meaning there
/// are encoded.
pub fn append_query_part(bytes: &[u8], out: &mut Vec<u8>) {
    append_escaped(bytes, b"/-._~!$'()*,:@", out);
}

/// Appends a query that is encoded already, and encodes the bytes that are not allowed in a URI.
pub fn append_query(query: &[u8], out: &mut Vec<u8>) {
    append_escaped(query, b"%/-._~!$&'()*+,;=:@?[]|", out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use touchstone_http::target::normalise_path;

    #[test]
    fn what_stays_and_what_does_not() {
        let with = |append: fn(&[u8], &mut Vec<u8>), bytes: &[u8]| {
            let mut out = Vec::new();
            append(bytes, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(with(append_path, b"/a b/c%d?e#f\\g\xff"), "/a%20b/c%25d%3Fe%23f%5Cg%FF");
        assert_eq!(with(append_query_part, b"a b&c=d+e%f#g"), "a%20b%26c%3Dd%2Be%25f%23g");
        assert_eq!(with(append_query, b"a=b&c=%20+d\"<\xff#"), "a=b&c=%20+d%22%3C%FF%23");
    }

    proptest! {
        #[test]
        fn the_result_has_only_uri_bytes(bytes: Vec<u8>) {
            for append in [append_path, append_query_part, append_query] {
                let mut out = Vec::new();
                append(&bytes, &mut out);
                let is_good = |byte: &u8| byte.is_ascii_graphic() && !b"\"<>\\^`{}#".contains(byte);
                prop_assert!(out.iter().all(is_good));
            }
        }

        /// An encoded path has the meaning of the path from which it was made.
        #[test]
        fn a_path_reads_back(segments in prop::collection::vec("[ -~\u{e9}&&[^/]]{1,6}", 0..4)) {
            let good = segments.iter().all(|segment| segment != "." && segment != "..");
            prop_assume!(good);
            let path = format!("/{}", segments.join("/")).into_bytes();
            let (mut encoded, mut decoded) = (Vec::new(), Vec::new());
            append_path(&path, &mut encoded);
            prop_assert_eq!(normalise_path(&encoded, &mut decoded), Ok(()));
            prop_assert_eq!(decoded, path);
        }
    }
}
