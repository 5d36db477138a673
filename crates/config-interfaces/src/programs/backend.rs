//! Addresses of programs that listen.

use std::path::Path;

use touchstone_interfaces::backend::{Address, Backend};

/// Parses an address, followed by `weight=N`, `route=NAME` and `backup` as needed.
pub(super) fn parse_backend(text: &str) -> Result<Backend, String> {
    let mut words = text.split_whitespace();
    let address = Address::parse(words.next().unwrap_or_default(), Path::new(""))?;
    if let Address::Unix(path) = &address
        && !path.is_absolute()
    {
        return Err(format!("the path of the socket in {text:?} must begin with a slash"));
    }
    let (mut weight, mut is_backup, mut route) = (1, false, "");
    for word in words {
        match word.split_once('=') {
            Some(("weight", number)) => match number.parse() {
                Ok(number @ 1..=1000) => weight = number,
                _ => return Err(format!("the weight in {text:?} must be a number from 1 to 1000")),
            },
            Some(("route", name)) if !name.is_empty() && name.bytes().all(is_suffix_byte) => route = name,
            None if word == "backup" => is_backup = true,
            _ => {
                return Err(format!(
                    "{word:?} in {text:?} is neither weight=NUMBER nor backup, nor route=NAME of a servlet \
                     container"
                ));
            }
        }
    }
    let route = route.to_string();
    Ok(Backend { address, weight, is_backup, route })
}

/// Whether the byte may be in the ending of a name.
pub(super) fn is_suffix_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backends_with_what_follows() {
        for (text, expected) in [
            ("unix:/run/a.sock", ("unix:/run/a.sock", 1, false)),
            ("/run/a.sock weight=3", ("unix:/run/a.sock", 3, false)),
            ("127.0.0.1:9000 backup weight=2", ("127.0.0.1:9000", 2, true)),
        ] {
            let backend = parse_backend(text).unwrap();
            assert_eq!(backend.route, "");
            assert_eq!((backend.address.to_string().as_str(), backend.weight, backend.is_backup), expected);
        }
        for text in [
            "",
            "unix:a.sock",
            "127.0.0.1:9000 weight=0",
            "127.0.0.1:9000 weight=x",
            "127.0.0.1:9000 backups",
            "127.0.0.1:9000 route=",
            "127.0.0.1:9000 route=a;b",
        ] {
            assert!(parse_backend(text).is_err(), "{text}");
        }
        let backend = parse_backend("127.0.0.1:8009 route=worker.1 weight=2").unwrap();
        assert_eq!((backend.route.as_str(), backend.weight), ("worker.1", 2));
    }
}
