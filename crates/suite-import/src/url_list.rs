//! Lists of URLs: one URL or path a line, preceded by an optional weight and method; `#` begins a comment.
//! The form is that of `touchstone load --urls`; the target lists of vegeta (`GET http://...`, with header
//! fields below it) and h2load's URI lists have it, too.

use super::fields::taken_over;
use super::{ImportError, OmittedEntries, REQUESTS_MAX, RecordedRequest, Recording, is_method, origin_form};
use touchstone_load::HttpUrl;

/// Reads a list; `file` names it in messages.
pub fn read(file: &str, text: &str, with_secrets: bool) -> Result<Recording, ImportError> {
    let (mut recording, mut left_out) = (Recording::default(), OmittedEntries::default());
    // Whether the request that the lines below it belong to is imported.
    let mut is_taken = false;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some((name, value)) = header_field(line) {
            let last = recording.requests.last_mut().filter(|_| is_taken);
            match (is_taken_over(name, value, with_secrets), last) {
                (true, Some(request)) => request.headers.push(format!("{name}: {value}")),
                (false, Some(_)) => {
                    left_out.note("header fields of a connection or with credentials", number + 1)
                }
                (_, None) => {}
            }
            continue;
        }
        if line.starts_with('@') {
            if is_taken {
                recording.requests.pop();
                left_out.note("requests whose body is in a file", number + 1);
            }
            is_taken = false;
            continue;
        }
        is_taken = false;
        if recording.requests.len() == REQUESTS_MAX {
            return Err(ImportError::new(file, number + 1, format!("more than {REQUESTS_MAX} requests")));
        }
        let (request, origin) = request(line).map_err(|reason| ImportError::new(file, number + 1, reason))?;
        match (&recording.origin, origin) {
            (None, Some(origin)) => recording.origin = Some(origin),
            (Some(first), Some(origin)) if *first != origin => {
                left_out.note(format!("requests to other servers than {first}"), number + 1);
                continue;
            }
            _ => {}
        }
        recording.requests.push(request);
        is_taken = true;
    }
    if recording.requests.is_empty() {
        return Err(ImportError::new(file, 0, "the file has no URL: write one URL or path a line"));
    }
    recording.notes = left_out.notes();
    Ok(recording)
}

/// The header field of a line below a request, as vegeta's lists have them: `Accept: text/html`.
fn header_field(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    (is_name && value.starts_with([' ', '\t'])).then(|| (name, value.trim()))
}

fn is_taken_over(name: &str, value: &str, with_secrets: bool) -> bool {
    taken_over(name, value, with_secrets) || name.eq_ignore_ascii_case("user-agent")
}

/// The request of a line, and the server that it names.
fn request(line: &str) -> Result<(RecordedRequest, Option<String>), String> {
    let mut words: Vec<&str> = line.split_ascii_whitespace().collect();
    let place = words.pop().ok_or("there is no URL")?;
    let mut weight = 1.0;
    if let Some(number) = words.first().and_then(|word| word.parse::<f64>().ok()) {
        if !(number > 0.0 && number <= 1e12) {
            return Err(format!("the weight {number} is not above 0"));
        }
        weight = number;
        words.remove(0);
    }
    let method = match words[..] {
        [] => "GET".to_string(),
        [method] if is_method(method) => method.to_string(),
        _ => return Err(format!("{line:?} is more than a weight, a method and a URL")),
    };
    let (path, origin) = place_of(place)?;
    Ok((RecordedRequest { method, weight, ..RecordedRequest::get(path) }, origin))
}

/// Path and query of a URL or a path, and the server that it names.
pub(super) fn place_of(place: &str) -> Result<(String, Option<String>), String> {
    if place.starts_with('/') {
        let path = origin_form(place).ok_or_else(|| format!("{place:?} is not a path that can be sent"))?;
        return Ok((path, None));
    }
    // The part after `#` concerns only the browser.
    let url = HttpUrl::parse(place.split('#').next().unwrap_or_default()).map_err(|error| error.0)?;
    Ok((url.path.clone(), Some(url.origin())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use touchstone_lab::suite::path_problem;

    #[test]
    fn lines_are_weights_methods_and_urls() {
        let text = "# all\n\n70 http://localhost:81/a\n/b?c\n 2.5 HEAD\t/d \nGET http://localhost:81/e#top\n\
                    http://other/\n";
        let recording = read("urls.txt", text, false).unwrap();
        let seen: Vec<_> =
            recording.requests.iter().map(|r| (r.weight, r.method.as_str(), r.path.as_str())).collect();
        assert_eq!(
            seen,
            [(70.0, "GET", "/a"), (1.0, "GET", "/b?c"), (2.5, "HEAD", "/d"), (1.0, "GET", "/e")]
        );
        assert_eq!(recording.origin.as_deref(), Some("http://localhost:81"));
        assert_eq!(
            recording.notes,
            ["left out: 1 requests to other servers than http://localhost:81 (the first in line 7)"]
        );
    }

    /// Targets in vegeta's form: fields and the file of a body below the request.
    #[test]
    fn fields_below_a_request_are_its_own() {
        let text = "GET http://h/a\nAccept: text/html\nX-Account-ID: 8675309\nAuthorization: Bearer x\n\n\
                    POST http://h/b\nX-A: 1\n@/path/to/body.json\n\nGET http://h/c\n";
        let recording = read("targets.txt", text, false).unwrap();
        let seen: Vec<_> = recording.requests.iter().map(|r| (r.path.as_str(), r.headers.len())).collect();
        assert_eq!(seen, [("/a", 2), ("/c", 0)]);
        assert_eq!(recording.notes.len(), 2, "{:?}", recording.notes);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, said) in [
            ("", "urls.txt: the file has no URL"),
            ("/a\nftp://x/", "urls.txt:2: "),
            ("0 /a", "urls.txt:1: the weight 0 is not above 0"),
            ("1 2 /a", "urls.txt:1: \"1 2 /a\" is more than"),
            ("/a b\u{e9}", "urls.txt:1: "),
        ] {
            let message = read("urls.txt", text, false).unwrap_err().to_string();
            assert!(message.starts_with(said), "{message}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "([0-9.]{0,3} ?[A-Z]{0,5} ?[a-z:/#?%é]{0,12}\n){0,6}") {
            if let Ok(recording) = read("any.txt", &text, false) {
                prop_assert!(recording.requests.iter().all(|request| path_problem(&request.path).is_none()));
            }
        }
    }
}
