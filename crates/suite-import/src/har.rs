//! HAR 1.2 recordings, as browsers and proxies save them. The requests to one server are imported: that of
//! the first entry unless another is named. Data of a connection or a person (cookies, credentials) is left
//! out.

use super::fields::taken_over;
use super::form::form_encoded;
use super::url_list::place_of;
use super::{
    ImportError, Kind, OmittedEntries, REQUESTS_MAX, RecordedRequest, Recording, changing, is_method,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::time::Duration;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The longest body that is imported: 1 MiB.
const BODY_BYTES_MAX: usize = 1 << 20;

/// How a recording is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HarOptions {
    /// The server whose requests are imported, `http://host[:port]`; absent: that of the first.
    pub origin: Option<String>,
    /// Whether cookies and credentials are imported, too.
    pub with_secrets: bool,
}

/// Whether a text that begins as an object is a HAR.
pub fn looks_like(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|value| value.pointer("/log/entries").is_some())
}

/// Reads a recording; `file` names it in messages.
pub fn read(file: &str, text: &str, wishes: &HarOptions) -> Result<Recording, ImportError> {
    let value: Value = serde_json::from_str(text)
        .map_err(|error| ImportError::new(file, error.line(), format!("this is not JSON: {error}")))?;
    let entries = value.pointer("/log/entries").and_then(Value::as_array);
    let Some(entries) = entries else {
        return Err(ImportError::new(file, 0, "this is not a HAR: it has no list \"log\".\"entries\""));
    };
    if entries.len() > REQUESTS_MAX {
        return Err(ImportError::new(
            file,
            0,
            format!("{} requests; at most {REQUESTS_MAX} are possible", entries.len()),
        ));
    }
    let mut recording = Recording { origin: wishes.origin.clone(), ..Recording::default() };
    let mut left_out = OmittedEntries::default();
    let (mut times, mut pages, mut of_http2, mut secrets) = (Vec::new(), Vec::new(), 0, 0);
    let mut taken = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        match request(entry, &mut recording.origin, wishes) {
            Err(reason) => left_out.note(reason, number + 1),
            Ok(request) => {
                secrets += usize::from(!wishes.with_secrets && has_secrets(entry));
                let version =
                    entry.pointer("/request/httpVersion").and_then(Value::as_str).unwrap_or_default();
                of_http2 += usize::from(
                    ["h2", "http/2", "http/2.0"].contains(&version.to_ascii_lowercase().as_str()),
                );
                times.push(started(entry));
                pages.push(entry.get("pageref").and_then(Value::as_str).map(str::to_string));
                recording.requests.push(request);
                taken.push(entry);
            }
        }
    }
    // The line numbers of entries do not help a reader of the JSON.
    recording.notes = left_out.notes().iter().map(|note| note.replace(" in line ", " is entry ")).collect();
    if recording.requests.is_empty() {
        let message = format!("no request of the file can be imported: {}", recording.notes.join("; "));
        return Err(ImportError::new(file, 0, message));
    }
    if secrets > 0 {
        recording.notes.push(format!(
            "left out: cookies and credentials of {secrets} requests, which may be answered otherwise \
             without them (--with-secrets takes them over)"
        ));
    }
    recording.is_http2 = of_http2 * 2 > recording.requests.len();
    let first = times.iter().flatten().min().copied();
    for (request, time) in recording.requests.iter_mut().zip(times) {
        request.after = time.zip(first).and_then(|(time, first)| (time - first).try_into().ok());
    }
    name_pages(&value, &mut recording.requests, &pages);
    changing::propose(&taken, &mut recording, &|name, value| taken_over(name, value, true));
    Ok(recording)
}

/// Gives the first request of each page, by its time, the page's title.
fn name_pages(har: &Value, requests: &mut [RecordedRequest], pages: &[Option<String>]) {
    let listed = har.pointer("/log/pages").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for page in listed {
        let text = |key: &str| page.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
        let Some(id) = text("id") else { continue };
        let of_page = (0..requests.len()).filter(|place| pages[*place].as_deref() == Some(id));
        if let Some(first) = of_page.min_by_key(|place| requests[*place].after) {
            requests[first].page_title = Some(text("title").unwrap_or(id).to_string());
        }
    }
}

fn started(entry: &Value) -> Option<OffsetDateTime> {
    OffsetDateTime::parse(entry.get("startedDateTime")?.as_str()?, &Rfc3339).ok()
}

/// The duration of an entry, including waiting; the format has it in milliseconds.
fn entry_time(entry: &Value) -> Option<Duration> {
    Duration::try_from_secs_f64(entry.get("time")?.as_f64()? / 1000.0).ok()
}

/// One entry, or why it is left out, in the plural.
fn request(
    entry: &Value,
    origin: &mut Option<String>,
    wishes: &HarOptions,
) -> Result<RecordedRequest, String> {
    let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let url = text("/request/url");
    if !(url.starts_with("http://") || url.starts_with("https://")) {
        return Err("requests without a URL of http or https".to_string());
    }
    let (path, of) = place_of(url).map_err(|_| "requests whose URL cannot be sent".to_string())?;
    let of = of.unwrap_or_default();
    let wanted = origin.get_or_insert_with(|| of.clone());
    if *wanted != of {
        return Err(format!("requests to other servers than {wanted}"));
    }
    let method = text("/request/method").to_ascii_uppercase();
    if !is_method(&method) {
        return Err("requests of an unknown method".to_string());
    }
    let status =
        entry.pointer("/response/status").and_then(Value::as_u64).and_then(|s| u16::try_from(s).ok());
    if !status.is_some_and(|status| (200..600).contains(&status)) {
        return Err("requests that were not answered".to_string());
    }
    Ok(RecordedRequest {
        headers: fields(entry, wishes.with_secrets),
        body: body(entry)?,
        kind: Kind::of_media_type(text("/response/content/mimeType"), &path),
        bytes: sent_bytes(entry).filter(|_| status == Some(200)),
        // A client without a cache also requests the answers that the recording had in its cache.
        status: status.map(|status| if status == 304 { 200 } else { status }),
        took: entry_time(entry),
        method,
        ..RecordedRequest::get(path)
    })
}

/// The body of a request; an error states why it cannot be imported, in the plural.
fn body(entry: &Value) -> Result<Option<String>, String> {
    let at = |pointer: &str| entry.pointer(pointer);
    let text = at("/request/postData/text").and_then(Value::as_str).filter(|body| !body.is_empty());
    let is_encoded = at("/request/postData/encoding").and_then(Value::as_str) == Some("base64");
    let body = match text {
        Some(text) if is_encoded => {
            let bytes = STANDARD.decode(text).ok();
            let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
            Some(text.ok_or("requests whose body is not text")?)
        }
        Some(text) => Some(text.to_string()),
        None => form(entry),
    };
    if body.as_ref().is_some_and(|body| body.len() > BODY_BYTES_MAX) {
        return Err(format!("requests with bodies of more than {BODY_BYTES_MAX} bytes"));
    }
    // Browsers leave out bodies that hold files.
    if body.is_none() && at("/request/bodySize").and_then(Value::as_i64).is_some_and(|bytes| bytes > 0) {
        return Err("requests whose body is not in the recording".to_string());
    }
    Ok(body)
}

/// The fields of a form, if they are a list and not a text.
fn form(entry: &Value) -> Option<String> {
    let media_type = entry.pointer("/request/postData/mimeType")?.as_str()?;
    media_type.starts_with("application/x-www-form-urlencoded").then_some(())?;
    let fields = entry.pointer("/request/postData/params")?.as_array()?.iter();
    let field = |field: &Value| {
        let value = field.get("value").and_then(Value::as_str).unwrap_or_default();
        Some(format!("{}={}", form_encoded(field.get("name")?.as_str()?), form_encoded(value)))
    };
    let fields: Vec<String> = fields.filter_map(field).collect();
    (!fields.is_empty()).then(|| fields.join("&"))
}

/// Bytes of the answer's body as sent, compressed or not; if that is not known, its uncompressed bytes.
fn sent_bytes(entry: &Value) -> Option<u64> {
    let number = |pointer: &str| entry.pointer(pointer)?.as_u64().filter(|bytes| *bytes > 0);
    let unpacked = number("/response/content/size");
    let saved = number("/response/content/compression");
    // For HTTP/2, Chromium records only the size with the head, which is more than the body of an
    // uncompressed answer.
    let with_head =
        number("/response/_transferSize").filter(|bytes| unpacked.is_some_and(|all| *bytes < all));
    // The recorders' own figures are off by a few hundred bytes: the server's own statement is preferred.
    stated_length(entry)
        .or_else(|| number("/response/bodySize"))
        .or_else(|| unpacked?.checked_sub(saved?))
        .or(with_head)
        .or(unpacked)
}

/// The length that the answer itself states.
fn stated_length(entry: &Value) -> Option<u64> {
    let fields = entry.pointer("/response/headers")?.as_array()?;
    let is_length = |field: &&Value| {
        let name = field.get("name").and_then(Value::as_str);
        name.is_some_and(|name| name.eq_ignore_ascii_case("content-length"))
    };
    fields.iter().find(is_length)?.get("value")?.as_str()?.parse().ok().filter(|bytes| *bytes > 0)
}

fn fields(entry: &Value, with_secrets: bool) -> Vec<String> {
    let fields = entry.pointer("/request/headers").and_then(Value::as_array);
    let field = |field: &Value| {
        let (name, value) = (field.get("name")?.as_str()?, field.get("value")?.as_str()?);
        taken_over(name, value, with_secrets).then(|| format!("{name}: {value}"))
    };
    fields.into_iter().flatten().filter_map(field).collect()
}

/// Whether an entry has fields that are left out because they identify a user.
fn has_secrets(entry: &Value) -> bool {
    let fields = entry.pointer("/request/headers").and_then(Value::as_array);
    fields.into_iter().flatten().any(|field| {
        let text = |key: &str| field.get(key).and_then(Value::as_str).unwrap_or_default();
        taken_over(text("name"), text("value"), true) && !taken_over(text("name"), text("value"), false)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use touchstone_lab::suite::path_problem;

    const GOOD: &str = r#"{"log":{"version":"1.2","entries":[
{"startedDateTime":"2026-11-22T08:00:00.000Z","request":{"method":"GET","url":"https://www.example/","httpVersion":"h2","headers":[
 {"name":":authority","value":"www.example"},{"name":"Accept","value":"text/html"},{"name":"Cookie","value":"id=1"},{"name":"Sec-Fetch-Mode","value":"navigate"}]},
 "response":{"status":200,"bodySize":1234,"content":{"size":5000,"mimeType":"text/html; charset=utf-8"}}},
{"startedDateTime":"2026-11-22T08:00:00.250Z","request":{"method":"POST","url":"https://www.example/api?x=1#y","httpVersion":"h2","headers":[
 {"name":"Content-Type","value":"application/json"}],"postData":{"text":"{\"a\":1}"}},"response":{"status":201,"bodySize":-1,"content":{"size":20,"mimeType":"application/json"}}},
{"request":{"method":"GET","url":"https://cdn.example/x.js","headers":[]},"response":{"status":200,"content":{}}},
{"request":{"method":"GET","url":"data:image/png;base64,xx","headers":[]},"response":{"status":200,"content":{}}},
{"request":{"method":"GET","url":"https://www.example/blocked","headers":[]},"response":{"status":0,"content":{}}}
]}}"#;

    #[test]
    fn a_recording_is_read_without_its_secrets() {
        let recording = read("x.har", GOOD, &HarOptions::default()).unwrap();
        assert_eq!((recording.origin.as_deref(), recording.is_http2), (Some("https://www.example"), true));
        let [page, post] = &recording.requests[..] else { panic!("{recording:?}") };
        assert_eq!((page.path.as_str(), page.kind, page.bytes), ("/", Kind::Pages, Some(1234)));
        assert_eq!(page.headers, ["Accept: text/html"]);
        assert_eq!((post.method.as_str(), post.path.as_str(), post.status), ("POST", "/api?x=1", Some(201)));
        assert_eq!((post.body.as_deref(), post.kind), (Some("{\"a\":1}"), Kind::Data));
        assert_eq!(post.after.map(|after| after.as_millis()), Some(250));
        assert_eq!(post.took, None);
        assert_eq!(
            recording.notes,
            [
                "left out: 1 requests that were not answered (the first is entry 5)",
                "left out: 1 requests to other servers than https://www.example (the first is entry 3)",
                "left out: 1 requests without a URL of http or https (the first is entry 4)",
                "left out: cookies and credentials of 1 requests, which may be answered otherwise without \
                 them (--with-secrets takes them over)",
            ]
        );
        let wishes = HarOptions { origin: Some("https://cdn.example".to_string()), with_secrets: false };
        assert_eq!(read("x.har", GOOD, &wishes).unwrap().requests[0].path, "/x.js");
        let wishes = HarOptions { origin: None, with_secrets: true };
        let all = read("x.har", GOOD, &wishes).unwrap();
        assert!(all.requests[0].headers.contains(&"Cookie: id=1".to_string()));
        assert!(all.notes.iter().all(|note| !note.contains("credentials")), "{:?}", all.notes);
    }

    #[test]
    fn pages_have_their_titles_and_requests_their_times() {
        let text = r#"{"log":{"pages":[
{"id":"p1","title":"Home"},{"id":"p2","title":" "},{"id":"none","title":"X"},
{"title":"no id"}],"entries":[
{"pageref":"p2","startedDateTime":"2026-11-22T08:00:05Z","time":20.5,"request":{"method":"GET","url":"http://h/two"},"response":{"status":200}},
{"pageref":"p1","startedDateTime":"2026-11-22T08:00:00.1Z","time":-1,"request":{"method":"GET","url":"http://h/style"},"response":{"status":200}},
{"pageref":"p1","startedDateTime":"2026-11-22T08:00:00Z","time":1e300,"request":{"method":"GET","url":"http://h/"},"response":{"status":200}}]}}"#;
        let recording = read("x.har", text, &HarOptions::default()).unwrap();
        let found: Vec<(&str, Option<&str>, Option<Duration>)> = recording
            .requests
            .iter()
            .map(|request| (request.path.as_str(), request.page_title.as_deref(), request.took))
            .collect();
        let expected = [
            ("/two", Some("p2"), Some(Duration::from_micros(20_500))),
            ("/style", None, None),
            ("/", Some("Home"), None),
        ];
        assert_eq!(found, expected);
    }

    /// One entry with these parts of a request and of a response.
    fn one(request: &str, response: &str) -> Result<RecordedRequest, String> {
        let text = format!(
            r#"{{"log":{{"entries":[{{"request":{{"method":"GET","url":"http://h/x"{request}}},"response":{{"status":200{response}}}}}]}}}}"#
        );
        let read = read("x.har", &text, &HarOptions::default());
        read.map(|mut recording| recording.requests.remove(0)).map_err(|error| error.to_string())
    }

    #[test]
    fn the_size_is_what_was_sent_however_the_recorder_says_it() {
        for (response, bytes) in [
            // HTTP/1.1 of Chromium and Firefox, and of Playwright, which guesses.
            (
                r#","bodySize":4760,"headers":[{"name":"Content-Length","value":"5000"}],"content":{"size":5000}"#,
                Some(5000),
            ),
            (r#","bodySize":400,"_transferSize":700,"content":{"size":1000,"compression":600}"#, Some(400)),
            // HTTP/2 of Chromium: the answer states its length, or only the size with the head is known.
            (
                r#","bodySize":-1,"_transferSize":500,"headers":[{"name":"content-length","value":"410"}],"content":{"size":1000}"#,
                Some(410),
            ),
            (r#","bodySize":-1,"_transferSize":500,"content":{"size":1000}"#, Some(500)),
            (r#","bodySize":-1,"_transferSize":1100,"content":{"size":1000}"#, Some(1000)),
            // From the browser's own cache.
            (r#","bodySize":0,"_transferSize":0,"content":{"size":1000}"#, Some(1000)),
            // Others.
            (r#","bodySize":-1,"content":{"size":1000,"compression":590}"#, Some(410)),
            (r#","bodySize":-1,"content":{"size":10,"compression":590}"#, Some(10)),
            (r#","content":{}"#, None),
        ] {
            assert_eq!(one("", response).unwrap().bytes, bytes, "{response}");
        }
    }

    #[test]
    fn bodies_are_taken_over_in_every_form_or_named() {
        let body = |request: &str| one(request, "").map(|request| request.body);
        let form = concat!(
            r#","bodySize":9,"postData":{"mimeType":"application/x-www-form-urlencoded","#,
            r#""params":[{"name":"a","value":"b c"},{"name":"d"}]}"#
        );
        assert_eq!(body(form), Ok(Some("a=b%20c&d=".to_string())));
        assert_eq!(body(r#","postData":{"text":"aGk=","encoding":"base64"}"#), Ok(Some("hi".to_string())));
        assert_eq!(body(r#","postData":{"mimeType":"text/plain","text":""}"#), Ok(None));
        for (request, said) in [
            (r#","postData":{"text":"/w==","encoding":"base64"}"#, "requests whose body is not text"),
            (
                r#","bodySize":90,"postData":{"mimeType":"multipart/form-data; boundary=x"}"#,
                "requests whose body is not in the recording",
            ),
        ] {
            let message = body(request).unwrap_err();
            assert!(message.contains(said), "{message}");
        }
    }

    #[test]
    fn what_is_no_har_says_so() {
        for (text, said) in [
            ("{\n\"log\": }", "x.har:2: this is not JSON"),
            ("[]", "x.har: this is not a HAR"),
            ("{\"log\":{\"entries\":[]}}", "x.har: no request of the file can be imported"),
        ] {
            let message = read("x.har", text, &HarOptions::default()).unwrap_err().to_string();
            assert!(message.starts_with(said), "{message}");
        }
    }

    proptest! {
        #[test]
        fn no_damage_to_a_good_recording_makes_the_reader_panic(
            at in 0..GOOD.len(),
            put in "[\\x20-\\x7e\\n]{0,8}",
        ) {
            let mut text = GOOD.to_string();
            text.replace_range(at..(at + 1), &put);
            if let Ok(recording) = read("any.har", &text, &HarOptions::default()) {
                prop_assert!(recording.requests.iter().all(|request| path_problem(&request.path).is_none()));
            }
        }
    }
}
