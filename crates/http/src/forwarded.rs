//! The scheme that the client used, as a proxy reports it: `X-Forwarded-Proto`, or `proto` in `Forwarded`
//! (RFC 7239).

/// Whether the client used HTTPS, according to the first value of these fields; `None`: the fields are
/// absent. `first` returns the value of the first field line with a name. Only call this for the fields of a
/// trusted proxy.
pub fn forwarded_is_https<'a>(first: impl Fn(&'static str) -> Option<&'a [u8]>) -> Option<bool> {
    if let Some(value) = first("x-forwarded-proto") {
        return scheme(value.split(|&byte| byte == b',').next()?);
    }
    let element = first("forwarded")?.split(|&byte| byte == b',').next()?;
    element.split(|&byte| byte == b';').find_map(|pair| {
        let pair = pair.trim_ascii();
        let (name, value) = pair.split_at_checked(6)?;
        name.eq_ignore_ascii_case(b"proto=").then(|| scheme(value))?
    })
}

/// The port that the client connected to, according to the first value of `X-Forwarded-Port`.
pub fn forwarded_port<'a>(first: impl Fn(&'static str) -> Option<&'a [u8]>) -> Option<u16> {
    let value = first("x-forwarded-port")?.split(|&byte| byte == b',').next()?;
    std::str::from_utf8(value.trim_ascii()).ok()?.parse().ok().filter(|port| *port != 0)
}

fn scheme(text: &[u8]) -> Option<bool> {
    let text = text.trim_ascii();
    let text = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or(text);
    if text.eq_ignore_ascii_case(b"https") {
        return Some(true);
    }
    text.eq_ignore_ascii_case(b"http").then_some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_hop_states_the_port_of_the_client() {
        for (value, expected) in
            [("8443", Some(8443)), (" 443 , 80", Some(443)), ("0", None), ("-1", None), ("65536", None)]
        {
            assert_eq!(forwarded_port(|_| Some(value.as_bytes())), expected, "{value}");
        }
        assert_eq!(forwarded_port(|_| None), None);
    }

    #[test]
    fn the_first_hop_states_the_scheme_of_the_client() {
        let read = |x_proto: &'static str, forwarded: &'static str| {
            forwarded_is_https(|name| match name {
                "x-forwarded-proto" => (!x_proto.is_empty()).then_some(x_proto.as_bytes()),
                _ => (!forwarded.is_empty()).then_some(forwarded.as_bytes()),
            })
        };
        for (x_proto, forwarded, expected) in [
            ("https", "", Some(true)),
            ("HTTPS, http", "", Some(true)),
            ("http", "proto=https", Some(false)),
            ("", "for=1.2.3.4; Proto=\"https\";by=x, proto=http", Some(true)),
            ("", "for=1.2.3.4", None),
            ("", "", None),
            ("wss", "", None),
        ] {
            assert_eq!(read(x_proto, forwarded), expected, "{x_proto} {forwarded}");
        }
    }
}
