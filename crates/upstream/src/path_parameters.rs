//! The parameters of a path's segments, as servlet containers have them: `/shop;jsessionid=1F.one/cart`.

/// The value of a path parameter. If several segments have it, the last one is used.
pub fn parameter<'p>(encoded_path: &'p [u8], name: &str) -> Option<&'p [u8]> {
    let parameters = encoded_path.rsplit(|&byte| byte == b'/').flat_map(|segment| {
        let (_, parameters) = split_parameters(segment);
        parameters.rsplit(|&byte| byte == b';')
    });
    let value = |parameter: &'p [u8]| parameter.strip_prefix(name.as_bytes())?.strip_prefix(b"=");
    parameters.filter_map(value).next()
}

/// Name and parameters, which begin with a semicolon if there are any. An escaped semicolon is part of the
/// name.
pub fn split_parameters(segment: &[u8]) -> (&[u8], &[u8]) {
    segment.split_at(memchr::memchr(b';', segment).unwrap_or(segment.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found() {
        for (path, expected) in [
            ("/a;jsessionid=1.b", Some("1.b")),
            ("/a;x=1;jsessionid=2.c;y", Some("2.c")),
            ("/a;jsessionid=1/b;jsessionid=2", Some("2")),
            ("/a;jsessionid", None),
            ("/jsessionid=1", None),
            ("/a;jsessionid2=1", None),
        ] {
            let found =
                parameter(path.as_bytes(), "jsessionid").map(|value| std::str::from_utf8(value).unwrap());
            assert_eq!(found, expected, "{path}");
        }
    }
}
