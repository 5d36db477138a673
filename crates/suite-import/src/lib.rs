//! Importers: recordings and lists of requests in the forms of other tools, converted to a suite.
//!
//! Every reader returns a [`Recording`]: the unchanged requests in their order, with the known facts about
//! their answers. [`suite_text`] converts it to a suite's TOML text; omitted parts are described in notes,
//! one sentence each. A request that a system can answer with a file gets a file of the recorded size, so
//! that traffic like that of a site can be measured without the site; all other requests need a server that
//! is named by its URL.

pub mod access_log;
mod changing;
pub mod curl;
mod fields;
mod file_text;
pub mod filelist;
mod form;
pub mod har;
mod kind;
mod log_format;
mod request_text;
mod session_text;
mod shell_words;
pub mod suite_text;
pub mod url_list;

pub use file_text::file_text;
pub use kind::Kind;
pub use log_format::LogFormat;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
pub use suite_text::suite_text;

/// The largest file that is read, packed and unpacked: 256 MiB.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// The most requests of a recording.
pub const REQUESTS_MAX: usize = 5_000_000;

/// Requests that were recorded or listed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recording {
    /// Their server, `http://host:port`; absent if the form does not contain it.
    pub origin: Option<String>,
    /// Whether they were made in HTTP/2.
    pub is_http2: bool,
    /// Whether they are requested like WebStone does: in HTTP/1.0, each over its own connection, without
    /// ramps.
    pub is_webstone: bool,
    /// The requests, in their order.
    pub requests: Vec<RecordedRequest>,
    /// Pages: requests that belong together, with a weight. Empty: requests are chosen by themselves.
    pub pages: Vec<Page>,
    /// Whether answers set cookies, which a session keeps.
    pub sets_cookies: bool,
    /// What was left out, a sentence each.
    pub notes: Vec<String>,
}

/// One request.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedRequest {
    /// For example `GET`.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Header fields, `name: value`.
    pub headers: Vec<String>,
    /// The body.
    pub body: Option<String>,
    /// The kind of resource that it requests.
    pub kind: Kind,
    /// How often it is requested, relative to the others.
    pub weight: f64,
    /// Bytes of the answer's body, where they are known.
    pub bytes: Option<u64>,
    /// The answer's status, where it is known.
    pub status: Option<u16>,
    /// When it was made, from the first one on.
    pub after: Option<Duration>,
    /// How long it took until its answer was whole.
    pub took: Option<Duration>,
    /// The title of the page that begins with it.
    pub page_title: Option<String>,
    /// Fields that only a session has, because it returns their values.
    pub session_headers: Vec<String>,
    /// Values that are taken from its answer in a session: name, and where.
    pub extract: Vec<(String, String)>,
    /// Values of earlier answers that its texts contain, and their names.
    pub uses: Vec<(String, String)>,
}

/// Requests that are made one after the other, by their places in the recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// How often, relative to the others.
    pub weight: f64,
    /// Which.
    pub requests: Vec<usize>,
}

impl Recording {
    /// Leaves out what only a session can do: in a mix no request follows another.
    fn forget_values(&mut self) {
        for request in &mut self.requests {
            request.session_headers.clear();
            request.extract.clear();
            request.uses.clear();
        }
    }

    /// Notes about the values that a session sends back.
    fn note_of_values(&self) -> Option<String> {
        let found: usize = self.requests.iter().map(|request| request.extract.len()).sum();
        (found > 0).then(|| {
            format!(
                "{found} values that change were found: they are taken from answers (`extract`) and stand in \
                 later requests as ${{...}}; look them through"
            )
        })
    }
}

impl RecordedRequest {
    /// A plain GET.
    pub fn get(path: impl Into<String>) -> RecordedRequest {
        let path = path.into();
        RecordedRequest {
            method: "GET".to_string(),
            kind: Kind::of_path(&path),
            path,
            headers: Vec::new(),
            body: None,
            weight: 1.0,
            bytes: None,
            status: None,
            after: None,
            took: None,
            page_title: None,
            session_headers: Vec::new(),
            extract: Vec::new(),
            uses: Vec::new(),
        }
    }
}

/// Why a file cannot be imported: `file:line: what is wrong and what to do`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportError {
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1 on; 0: the file as a whole.
    pub line: usize,
    /// What is wrong, and what to do.
    pub message: String,
}

impl ImportError {
    fn new(file: &str, line: usize, message: impl Into<String>) -> ImportError {
        ImportError { file: file.to_string(), line, message: message.into() }
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.message),
            line => write!(f, "{}:{line}: {}", self.file, self.message),
        }
    }
}

impl std::error::Error for ImportError {}

/// Counts omitted entries by their reason, with the first line of each.
#[derive(Debug, Default)]
struct OmittedEntries(BTreeMap<String, (usize, usize)>);

impl OmittedEntries {
    fn note(&mut self, reason: impl Into<String>, line: usize) {
        let (count, _) = self.0.entry(reason.into()).or_insert((0, line));
        *count += 1;
    }

    fn notes(&self) -> Vec<String> {
        let sentence = |(reason, (count, line)): (&String, &(usize, usize))| {
            format!("left out: {count} {reason} (the first in line {line})")
        };
        self.0.iter().map(sentence).collect()
    }
}

/// Whether a text is a method (a token of RFC 9110, section 5.6.2) that a load can have.
fn is_method(word: &str) -> bool {
    (1..=20).contains(&word.len())
        && word != "CONNECT"
        && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')
}

/// Path and query of the target of a request line: in the origin form, or in the absolute one.
fn origin_form(target: &str) -> Option<String> {
    let path = match target.split_once("://") {
        Some(("http" | "https", rest)) => match rest.find(['/', '?']) {
            Some(at) if rest.as_bytes()[at] == b'/' => rest[at..].to_string(),
            Some(at) => format!("/{}", &rest[at..]),
            None => "/".to_string(),
        },
        _ => target.to_string(),
    };
    let path = path.split('#').next().unwrap_or_default().to_string();
    touchstone_lab::suite::path_problem(&path).is_none().then_some(path)
}
