//! A list of URLs in a file: one a line, each after a weight and a method if it has them.
//!
//! ```text
//! # weight, method, URL or path
//! 70 /
//! 25 /style.css
//! 5 POST https://127.0.0.1:8443/basket
//! ```

use touchstone_load::{HttpUrl, MAXIMUM_REQUESTS};

/// One line of the list.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) weight: Option<f64>,
    pub(super) method: Option<String>,
    pub(super) url: HttpUrl,
    /// It is the URL of a WebSocket (`ws://`, `wss://`).
    pub(super) is_websocket: bool,
}

/// Reads a list. A path is relative to the URL that was given beside the list or, without one, to the URL
/// before it.
pub(super) fn read(text: &str, base: Option<&HttpUrl>) -> Result<Vec<Entry>, String> {
    let (mut entries, mut base) = (Vec::new(), base.cloned());
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let entry = entry(line, base.as_ref()).map_err(|reason| format!("line {}: {reason}", number + 1))?;
        base.get_or_insert_with(|| entry.url.clone());
        entries.push(entry);
        if entries.len() > MAXIMUM_REQUESTS {
            return Err(format!("line {}: at most {MAXIMUM_REQUESTS} URLs are possible", number + 1));
        }
    }
    if entries.is_empty() { Err("the file has no URL".to_string()) } else { Ok(entries) }
}

fn entry(line: &str, base: Option<&HttpUrl>) -> Result<Entry, String> {
    let mut words: Vec<&str> = line.split_ascii_whitespace().collect();
    let place = words.pop().ok_or("there is no URL")?;
    let mut weight = None;
    if let Some(number) = words.first().and_then(|word| word.parse::<f64>().ok()) {
        weight = Some(number);
        words.remove(0);
    }
    let method = match words[..] {
        [] => None,
        [method] if method.bytes().all(|byte| byte.is_ascii_alphabetic()) => Some(method.to_string()),
        _ => return Err(format!("{line:?} is more than a weight, a method and a URL")),
    };
    let (url, is_websocket) = place_of(place, base)?;
    Ok(Entry { weight, method, url, is_websocket })
}

fn place_of(place: &str, base: Option<&HttpUrl>) -> Result<(HttpUrl, bool), String> {
    let text = match base {
        _ if !place.starts_with('/') => place.to_string(),
        Some(base) => format!("{}{place}", base.origin()),
        None => {
            return Err(format!(
                "{place:?} names no server: write a whole URL first, or one beside the list"
            ));
        }
    };
    HttpUrl::parse_any(&text).map_err(|error| error.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_weights_methods_and_urls() {
        let text = "# all\n\n70 http://localhost:81/a\n/b?c\n 2.5 POST\thttps://localhost/d \nPUT /e\r\n";
        let entries = read(text, None).expect("a good list");
        let parts: Vec<_> = entries
            .iter()
            .map(|entry| (entry.weight, entry.method.as_deref(), entry.url.origin(), &entry.url.path[..]))
            .collect();
        let plain = "http://localhost:81".to_string();
        assert_eq!(
            parts,
            [
                (Some(70.0), None, plain.clone(), "/a"),
                (None, None, plain.clone(), "/b?c"),
                (Some(2.5), Some("POST"), "https://localhost".to_string(), "/d"),
                (None, Some("PUT"), plain, "/e"),
            ]
        );
        let base = HttpUrl::parse("http://[::1]:8080/x").expect("a good URL");
        let entries = read("/y", Some(&base)).expect("a good list");
        assert_eq!(
            (entries[0].url.origin(), &entries[0].url.path[..]),
            ("http://[::1]:8080".to_string(), "/y")
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, said) in [
            ("", "no URL"),
            ("# nothing\n", "no URL"),
            ("/a", "line 1: \"/a\" names no server"),
            ("http://localhost/\nftp://x/", "line 2"),
            ("POST http://localhost/ x", "more than"),
            ("1 2 http://localhost/", "more than"),
            ("GET POST http://localhost/", "more than"),
        ] {
            let message = read(text, None).expect_err(text);
            assert!(message.contains(said), "{text:?}: {message}");
        }
    }
}
