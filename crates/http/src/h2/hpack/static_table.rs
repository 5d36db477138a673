//! The static table (RFC 7541 appendix A): fields that both sides have from the start.

use super::known_name::KnownName;

/// How many entries it has; their indexes begin with 1.
pub const ENTRIES: usize = VALUES.len();

/// The values in order; the names are those of [`KnownName::of_static_index`].
#[rustfmt::skip]
pub(crate) const VALUES: [&str; 61] = [
    "", "GET", "POST", "/", "/index.html", "http", "https", "200", "204", "206", "304", "400", "404", "500",
    "", "gzip, deflate", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "",
    "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "",
];

/// Name and value of the entry at `index`.
pub fn entry(index: usize) -> Option<(&'static str, &'static str)> {
    let value = VALUES.get(index.checked_sub(1)?)?;
    Some((KnownName::of_static_index(index).text(), value))
}

/// The index of the entry that has both this name and this value.
pub(crate) fn index_of(name: KnownName, value: &[u8]) -> Option<usize> {
    let first = name.static_index()?;
    let last = match name {
        KnownName::Method | KnownName::Path | KnownName::Scheme => first + 1,
        KnownName::Status => first + 6,
        _ => first,
    };
    (first..=last).find(|index| VALUES[index - 1].as_bytes() == value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_the_standard() {
        for (index, name, value) in [
            (1, ":authority", ""),
            (2, ":method", "GET"),
            (3, ":method", "POST"),
            (5, ":path", "/index.html"),
            (7, ":scheme", "https"),
            (8, ":status", "200"),
            (14, ":status", "500"),
            (15, "accept-charset", ""),
            (16, "accept-encoding", "gzip, deflate"),
            (38, "host", ""),
            (61, "www-authenticate", ""),
        ] {
            assert_eq!(entry(index), Some((name, value)));
        }
        assert_eq!(entry(0), None);
        assert_eq!(entry(62), None);
    }

    #[test]
    fn fields_are_found() {
        for index in 1..=ENTRIES {
            let (name, value) = entry(index).unwrap();
            assert_eq!(index_of(KnownName::of(name.as_bytes()), value.as_bytes()), Some(index));
        }
        assert_eq!(index_of(KnownName::Status, b"201"), None);
        assert_eq!(index_of(KnownName::Server, b"x"), None);
        assert_eq!(index_of(KnownName::Other, b""), None);
    }
}
