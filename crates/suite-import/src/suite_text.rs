//! From a recording to a suite: its TOML text, ready to be run, read and changed.

use super::request_text::{line, own, quoted};
use super::session_text::Session;
use super::{Kind, RecordedRequest, Recording};
use std::collections::HashMap;
use std::fmt::Write;
use touchstone_load::MAXIMUM_REQUESTS;

/// The largest file that a suite can have.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// The longest ramp of an imported suite, seconds; clients that begin within it are spread over a session, as
/// far as the ramp is long enough.
const RAMP_MAX_S: f64 = 600.0;
/// The same for the short form.
const QUICK_RAMP_MAX_S: f64 = 20.0;

/// The suite's name, and how much of the recording it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuiteOptions {
    /// Its name, as suites have them.
    pub name: String,
    /// The recording that it was made from, for its source.
    pub source: String,
    /// The most different requests, the most frequent first; of a session the first ones.
    pub most: usize,
    /// The use of requests that are on no page.
    pub form: Form,
}

/// The use of a recording's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One session: all of them in order, with the times between.
    Session,
    /// A mix: each separately, weighted by its frequency.
    Mix,
}

/// A suite's TOML text, and notes on what is not in it.
pub fn suite_text(recording: &Recording, wishes: &SuiteOptions) -> (String, Vec<String>) {
    let mut recording = with_one_size(recording);
    let is_session = recording.pages.is_empty() && wishes.form == Form::Session;
    if !is_session {
        recording.forget_values();
    }
    let recording = &recording;
    let mut notes = recording.notes.clone();
    if is_session {
        notes.extend(recording.note_of_values());
    }
    let is_secure = recording.origin.as_ref().is_some_and(|origin| origin.starts_with("https://"));
    let most = wishes.most.min(MAXIMUM_REQUESTS);
    let session = is_session.then(|| Session::of(recording, most));
    let mut text = head(recording, wishes, is_secure, session.as_ref());
    if let Some(session) = &session {
        notes.extend(session.note());
        notes.extend((!session.is_of_files()).then(|| ONLY_BY_URL.to_string()));
        session.write(&mut text);
    } else if recording.pages.is_empty() {
        let (distinct, more) = distinct(&recording.requests, most);
        notes.extend(more);
        let asks_anything_else = distinct.iter().any(|request| !own(request).is_file());
        for kind in Kind::ALL {
            let of_kind: Vec<&RecordedRequest> =
                distinct.iter().filter(|request| request.kind == kind).collect();
            write_class(&mut text, kind.name(), &of_kind);
        }
        notes.extend(asks_anything_else.then(|| ONLY_BY_URL.to_string()));
    } else {
        let files = |page: &super::Page| {
            page.requests.iter().any(|place| !own(&recording.requests[*place]).is_file())
        };
        notes.extend(recording.pages.iter().any(files).then(|| ONLY_BY_URL.to_string()));
        for (number, page) in recording.pages.iter().enumerate() {
            let lines: String =
                page.requests.iter().map(|place| line(&recording.requests[*place], None)).collect();
            let _ = write!(
                text,
                "\n[[workload.class]]\nname = \"PAGE_{number}\"\nweight = {}\npage = [\n{lines}]\n",
                page.weight
            );
        }
    }
    (text, notes)
}

/// A note for recordings whose requests cannot all be files.
const ONLY_BY_URL: &str = "not all requests can be answered by files that are made for the run: name a \
                           server that answers them by its URL (--sut http://...)";

fn head(
    recording: &Recording,
    wishes: &SuiteOptions,
    is_secure: bool,
    session: Option<&Session<'_>>,
) -> String {
    let name = quoted(&wishes.name);
    let (source, origin) =
        (quoted(&wishes.source), recording.origin.as_deref().unwrap_or("no server in particular"));
    let version = if is_secure && recording.is_http2 { "2" } else { "1.1" };
    let tls = if is_secure { "tls = true\n" } else { "" };
    let description = quoted(&match session {
        Some(session) => format!(
            "{} requests of {origin} in their order, as a session with {:.1} s of think time",
            session.requests(),
            session.thought().as_secs_f64()
        ),
        None => format!("{} requests of {origin}, by how often they were made", recording.requests.len()),
    });
    let mixes = if recording.is_webstone { WEBSTONE_MIXES.to_string() } else { mixes(session) };
    let client = if recording.is_webstone {
        format!("{WEBSTONE_CLIENT}{tls}")
    } else {
        format!("use_keep_alives = true\nhttp_version = \"{version}\"\n{tls}receive_buffer_bytes = 65536\n")
    };
    let cookies = if session.is_some() && recording.sets_cookies { "cookies = true\n" } else { "" };
    format!(
        "# Imported by `touchstone import`. `file_bytes` is the recorded size: where `bench` starts the \
         server, it makes a file
# of that size. A server that is named by its URL serves its own files, of any size. Change what you like: \
`touchstone suites`
# shows how others do it.
#
# Times are in seconds. \"Length\" includes both ramps; what ends inside a ramp is not counted.

name = {name}
title = {name}
description = {description}
source = {source}

{mixes}
[client]
{client}timeout_s = 30

[workload]
name = {name}
{cookies}"
    )
}

/// The requests of a WebStone client: the request is the one that it sends, to the byte.
const WEBSTONE_CLIENT: &str = "# As WebStone asks: HTTP/1.0, one field, a connection for each file. Without \
                               that no figure is comparable with those of WebStone.
use_keep_alives = false
http_version = \"1.0\"
usual_headers = false
headers = [\"Accept: */* HTTP/1.0\"]
receive_buffer_bytes = 8192
";

/// The run rules of WebStone 2.0: 10 minutes, 20 to 100 clients in steps of 10, no ramps; fewer clients are
/// added for models of scaling.
const WEBSTONE_MIXES: &str = "mixes = [
  { clients = 1 },
  { clients = 2 },
  { clients = 4 },
  { clients = 8 },
  { clients = 20 },
  { clients = 30 },
  { clients = 40 },
  { clients = 50 },
  { clients = 60 },
  { clients = 70 },
  { clients = 80 },
  { clients = 90 },
  { clients = 100 },
]

# What all mixes share; a mix may state its own.
[mix]
ramp_up_s = 0
length_s = 600
ramp_down_s = 0
delay_s = 0
think_time_s = 0

# The short form (--quick).
[quick]
ramp_up_s = 0.5
length_s = 7
ramp_down_s = 0.5
mixes = [
  { clients = 1 },
  { clients = 8 },
  { clients = 20 },
  { clients = 60 },
]

";

/// The mixes. Clients with think times make little load, so sessions have more clients. They begin one by one
/// during a session, so that each is at another point of it when the counting begins.
fn mixes(session: Option<&Session<'_>>) -> String {
    let thought_s = session.map_or(0.0, |session| session.thought().as_secs_f64().ceil());
    let thinks = thought_s > 0.0;
    let list = |clients: &[u32]| -> String {
        clients.iter().map(|clients| format!("  {{ clients = {clients} }},\n")).collect()
    };
    let (all, few) = if thinks {
        (list(&[10, 30, 100, 300]), list(&[30, 100]))
    } else {
        (list(&[1, 2, 4, 8, 16, 32, 64]), list(&[1, 8, 32]))
    };
    let times = |ramp_s: f64, counted_s: f64, end_s: f64| {
        let delay = if thinks { format!("delay_s = {ramp_s}\n") } else { String::new() };
        format!(
            "{delay}ramp_up_s = {ramp_s}\nlength_s = {}\nramp_down_s = {end_s}\n",
            ramp_s + counted_s + end_s
        )
    };
    let whole = times(thought_s.clamp(5.0, RAMP_MAX_S), 50.0, 5.0);
    let quick = times(thought_s.clamp(1.0, QUICK_RAMP_MAX_S), 5.0, 1.0);
    format!(
        "mixes = [\n{all}]\n\n# What all mixes share; a mix may state its own.\n[mix]\n{whole}\n\
         # The short form (--quick).\n[quick]\n{quick}mixes = [\n{few}]\n"
    )
}

/// The recording with one size for each file: the largest, which was not cut short. A file that is too large
/// to make has none.
fn with_one_size(recording: &Recording) -> Recording {
    let mut recording = recording.clone();
    let mut sizes: HashMap<String, u64> = HashMap::new();
    for request in &recording.requests {
        if let Some(bytes) = request.bytes.filter(|bytes| *bytes <= FILE_BYTES_MAX) {
            let known = sizes.entry(request.path.clone()).or_insert(bytes);
            *known = bytes.max(*known);
        }
    }
    for request in &mut recording.requests {
        request.bytes = sizes.get(&request.path).copied().filter(|_| request.method == "GET");
    }
    recording
}

/// The different requests, each with the weight of all equal ones, the most frequent first; and a note on the
/// rest.
fn distinct(requests: &[RecordedRequest], most: usize) -> (Vec<RecordedRequest>, Option<String>) {
    type Key<'r> = (&'r str, &'r str, &'r [String], Option<&'r str>);
    let mut places: HashMap<Key<'_>, usize> = HashMap::new();
    let mut distinct: Vec<RecordedRequest> = Vec::new();
    for request in requests {
        let key: Key<'_> = (&request.method, &request.path, &request.headers, request.body.as_deref());
        match places.get(&key) {
            Some(&place) => {
                let known = &mut distinct[place];
                known.weight += request.weight;
                // A complete answer has more information than one that failed or was from a cache.
                known.status = [known.status, request.status].into_iter().flatten().min();
            }
            None => {
                places.insert(key, distinct.len());
                distinct.push(request.clone());
            }
        }
    }
    distinct
        .sort_by(|one, other| other.weight.total_cmp(&one.weight).then_with(|| one.path.cmp(&other.path)));
    let all: f64 = distinct.iter().map(|request| request.weight).sum();
    let rest: f64 = distinct.iter().skip(most).map(|request| request.weight).sum();
    let note = (distinct.len() > most).then(|| {
        format!(
            "left out: {} different requests that are made least, {:.1} % of all (--most)",
            distinct.len() - most,
            rest / all * 100.0
        )
    });
    distinct.truncate(most);
    (distinct, note)
}

fn write_class(text: &mut String, name: &str, requests: &[&RecordedRequest]) {
    let weight: f64 = requests.iter().map(|request| request.weight).sum();
    if weight <= 0.0 {
        return;
    }
    let weight_of =
        |request: &RecordedRequest| (request.weight != 1.0).then(|| format!("weight = {}", request.weight));
    let lines: String = requests.iter().map(|request| line(request, weight_of(request))).collect();
    let _ =
        write!(text, "\n[[workload.class]]\nname = \"{name}\"\nweight = {weight}\nrequests = [\n{lines}]\n");
}

/// A name for a suite, of the name of a file.
pub fn suite_name(file: &str) -> String {
    let stem = file.rsplit('/').next().unwrap_or(file);
    let stem = stem.rsplit_once('.').map_or(stem, |(stem, _)| stem);
    let allowed = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let name: String = stem.chars().map(allowed).take(80).collect();
    let name = name.trim_matches(['-', '.']).to_string();
    if name.is_empty() { "imported".to_string() } else { name }
}

#[cfg(test)]
mod tests {
    use super::super::{Page, access_log, filelist, har};
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;
    use touchstone_lab::suite::Suite;

    fn wishes(most: usize) -> SuiteOptions {
        SuiteOptions {
            name: "mine".to_string(),
            source: "here \"and\" there".to_string(),
            most,
            form: Form::Mix,
        }
    }

    fn suite(recording: &Recording, most: usize) -> (Suite, Vec<String>) {
        let (text, notes) = suite_text(recording, &wishes(most));
        (Suite::read("mine.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}")), notes)
    }

    #[test]
    fn a_log_becomes_a_suite_with_its_weights_and_sizes() {
        let text = "h - - [10/Oct/2000:13:55:36 -0700] \"GET /a.html HTTP/1.0\" 200 2326\n".repeat(3)
            + "h - - [10/Oct/2000:13:55:36 -0700] \"GET /a.html HTTP/1.0\" 304 0\n"
            + "h - - [10/Oct/2000:13:55:37 -0700] \"GET /b.css HTTP/1.0\" 200 100\n"
            + "h - - [10/Oct/2000:13:55:37 -0700] \"GET /gone HTTP/1.0\" 404 100\n";
        let recording = access_log::read("access.log", &text, None).unwrap();
        let (suite, notes) = suite(&recording, 100);
        let classes = &suite.first_part().workload.classes;
        let shares: Vec<(&str, f64)> = classes.iter().map(|c| (c.name.as_str(), c.weight_percent)).collect();
        assert_eq!(shares[1].0, "STYLES");
        assert!(
            (shares[0].1 - 500.0 / 6.0).abs() < 1e-9 && (shares[1].1 - 100.0 / 6.0).abs() < 1e-9,
            "{shares:?}"
        );
        assert_eq!(classes[0].path(0), "/a.html");
        // A request that was not found is included too, and needs the server itself.
        assert_eq!((suite.first_part().needs(), notes.len()), (vec!["files", "own_requests"], 1));
        let (suite, notes) = super::tests::suite(&recording, 2);
        assert_eq!((suite.first_part().needs(), notes.len()), (vec!["files"], 1));
        assert!(
            notes[0].starts_with("left out: 1 different requests that are made least, 16.7 %"),
            "{notes:?}"
        );
    }

    #[test]
    fn the_list_of_webstone_becomes_its_suite() {
        let list = "/file500.html 350 #500\n/file5k.html 500 #5125\n/file50k.html 140 #51250\n\
                    /file500k.html 9 #512500\n/file5m.html 1 #5248000\n";
        let (imported, notes) = suite(&filelist::read("filelist", list).unwrap(), 100);
        let built_in = Suite::find("webstone-2").unwrap();
        assert_eq!(notes, Vec::<String>::new());
        let mean = |suite: &Suite| suite.first_part().workload.mean_body_bytes();
        assert!((mean(&imported) - mean(&built_in)).abs() < 1e-6);
        // The report calls a result comparable if it was measured as WebStone measures.
        let request_settings = |suite: &Suite| {
            let request = (suite.keep_alive, suite.http_version, suite.usual_headers, suite.headers.clone());
            (request, suite.receive_buffer_bytes, suite.timeout_s, suite.mixes.clone())
        };
        assert_eq!(request_settings(&imported), request_settings(&built_in));
        let pages = "1\n100 2\n/file1k.html\n/file2k.html\n";
        let (pages, _) = suite(&filelist::read("filelist", pages).unwrap(), 100);
        assert!(pages.first_part().workload.classes[0].is_page());
    }

    #[test]
    fn a_recording_of_http2_is_one_of_tls_and_http2() {
        let text = concat!(
            r#"{"log":{"entries":[{"request":{"method":"GET","url":"https://h/x.js","httpVersion":"h2","#,
            r#""headers":[]},"response":{"status":200,"bodySize":9,"content":{}}}]}}"#
        );
        let (suite, _) = suite(&har::read("x.har", text, &har::HarOptions::default()).unwrap(), 100);
        assert_eq!(suite.first_part().needs(), ["files", "http_two", "tls"]);
    }

    #[test]
    fn a_recording_becomes_a_session_in_its_order() {
        let entry = |page: &str, second: f64, path: &str| {
            format!(
                r#"{{"pageref":"{page}","startedDateTime":"2026-11-22T08:00:{second:06.3}Z","time":100,"request":{{"method":"GET","url":"http://h{path}"}},"response":{{"status":200,"bodySize":9,"content":{{}}}}}}"#
            )
        };
        let entries = [
            entry("a", 0.0, "/index.html"),
            entry("a", 0.15, "/a.css"),
            entry("b", 12.5, "/two.html"),
            entry("b", 12.55, "/a.css"),
        ];
        let text = format!(
            r#"{{"log":{{"pages":[{{"id":"a","title":"Home\nsweet"}},{{"id":"b","title":"Two"}}],"entries":[{}]}}}}"#,
            entries.join(",")
        );
        let recording = har::read("x.har", &text, &har::HarOptions::default()).unwrap();
        let wishes = SuiteOptions { form: Form::Session, ..wishes(100) };
        let (text, notes) = suite_text(&recording, &wishes);
        let suite = Suite::read("mine.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(notes, Vec::<String>::new());
        let [class] = &suite.first_part().workload.classes[..] else { panic!("{text}") };
        assert!(
            class.is_session() && text.contains("  # Home sweet\n") && text.contains("  # Two\n"),
            "{text}"
        );
        let paths: Vec<String> = (0..class.requests()).map(|number| class.path(number)).collect();
        assert_eq!(paths, ["/index.html", "/a.css", "/two.html", "/a.css"]);
        assert_eq!(class.session_think_s(), 12.25);
        // Clients that begin in the ramp are anywhere in the session when the counting begins.
        assert_eq!(
            (suite.mixes[0].delay_s, suite.mixes[0].ramp_up_s, suite.mixes[0].length_s),
            (13.0, 13.0, 68.0)
        );
        assert_eq!(suite.first_part().needs(), ["files"]);
    }

    #[test]
    fn names_of_files_are_names_of_suites() {
        for (file, name) in [
            ("/var/log/access.log", "access"),
            ("my site (1).har", "my-site--1"),
            ("-", "imported"),
            ("../..", "imported"),
        ] {
            assert_eq!(suite_name(file), name);
        }
    }

    fn requests() -> impl Strategy<Value = Vec<RecordedRequest>> {
        let request = (
            "(GET|POST|HEAD|PUT)",
            "/[!-\"$-~]{0,20}",
            prop::collection::vec("[A-Za-z-]{1,10}: [ -~é]{0,20}", 0..3),
            prop::option::of("\\PC{0,20}\n?"),
            0.001f64..1e6,
            prop::option::of(0u64..1_000_000),
            prop::option::of(200u16..600),
            prop::option::of((0u64..10_000_000, 0u64..10_000_000)),
            prop::option::of("\\PC{0,200}|[\u{0}-\u{20}]{0,5}"),
        );
        let request =
            request.prop_map(|(method, path, headers, body, weight, bytes, status, times, page_title)| {
                RecordedRequest {
                    method,
                    headers,
                    body,
                    weight,
                    bytes,
                    status,
                    after: times.map(|(after, _)| Duration::from_millis(after)),
                    took: times.map(|(_, took)| Duration::from_millis(took)),
                    page_title,
                    ..RecordedRequest::get(path)
                }
            });
        prop::collection::vec(request, 1..20)
    }

    proptest! {
        #[test]
        fn whatever_was_recorded_makes_a_suite_that_is_read(
            requests in requests(),
            has_pages: bool,
            is_session: bool,
        ) {
            let count = requests.len();
            let pages = if has_pages {
                vec![Page { weight: 1.0, requests: (0..count).collect() }]
            } else {
                Vec::new()
            };
            let recording = Recording { requests, pages, ..Recording::default() };
            let form = if is_session { Form::Session } else { Form::Mix };
            let (text, _) = suite_text(&recording, &SuiteOptions { form, ..wishes(1000) });
            let suite = Suite::read("mine.toml", &text)
                .map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
            let file_count: u64 = suite.first_part().workload.files();
            prop_assert!(file_count >= 1 && file_count <= count as u64);
        }
    }
}
