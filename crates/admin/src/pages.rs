//! The pages of the admin listener by their paths.

use std::sync::{Arc, Mutex, PoisonError};

use percent_encoding::percent_decode;
use serde_json::json;
use touchstone_accelerator::purge::PurgeRequest;
use touchstone_http::status::reason;
use touchstone_observe::metrics::{Format, Totals, expose};

use super::Sources;
use super::frame::Html;
use super::history::History;
use super::sessions_page::{sessions_json, sessions_page};
use super::status_json::status_json;
use super::status_page::status_page;
use crate::connection_info::CoreSessions;

/// The maximum number of listed sessions, and the default number.
const MOST_SESSIONS: usize = 10_000;
const USUAL_SESSIONS: usize = 200;

/// The number of sessions on the status page.
const SESSIONS_OF_STATUS: usize = 20;

/// The sources of the pages.
pub struct Pages {
    sources: Sources,
    history: Arc<Mutex<History>>,
}

/// A request.
pub struct PageRequest<'a> {
    /// The path.
    pub path: &'a [u8],
    /// The query, without its question mark.
    pub query: &'a [u8],
    /// The field Accept.
    pub accept: Option<&'a [u8]>,
}

/// An answer.
pub struct Page {
    /// Its status.
    pub status: u16,
    /// Its media type.
    pub content_type: &'static str,
    /// Further fields.
    pub fields: Vec<(&'static str, String)>,
    /// Its body.
    pub body: String,
}

impl Page {
    /// The answer to a failed request.
    pub fn error(status: u16) -> Page {
        let body = format!("{status} {}\n", reason(status));
        Page { status, content_type: "text/plain; charset=utf-8", fields: Vec::new(), body }
    }

    fn html(page: Html) -> Page {
        let fields =
            vec![("Content-Security-Policy", page.policy), ("Referrer-Policy", "no-referrer".to_string())];
        Page { status: 200, content_type: "text/html; charset=utf-8", fields, body: page.text }
    }

    fn json(value: &serde_json::Value) -> Page {
        Page {
            status: 200,
            content_type: "application/json",
            fields: Vec::new(),
            body: format!("{value:#}\n"),
        }
    }
}

impl Pages {
    /// Pages that show the data of these sources.
    pub fn new(sources: Sources, history: Arc<Mutex<History>>) -> Pages {
        Pages { sources, history }
    }

    /// Answers a request.
    pub fn answer(&self, question: &PageRequest<'_>) -> Page {
        match question.path {
            b"/" => Page { fields: vec![("Location", "/status".to_string())], ..Page::error(307) },
            b"/metrics" => {
                let format = Format::accepted(question.accept);
                let body = expose(&Totals::of(&self.sources.metrics), format);
                let fields = vec![("Vary", "Accept".to_string())];
                Page { status: 200, content_type: format.content_type(), fields, body }
            }
            b"/status" => {
                let sessions = (self.sources.sessions)(SESSIONS_OF_STATUS);
                let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
                let totals = Totals::of(&self.sources.metrics);
                let refresh = number(question.query, b"refresh").map(|seconds| seconds.clamp(1, 3600));
                Page::html(status_page(&self.sources, &totals, &history, &sessions, refresh))
            }
            b"/status.json" => {
                let sessions = (self.sources.sessions)(0);
                let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
                let totals = Totals::of(&self.sources.metrics);
                Page::json(&status_json(&self.sources, &totals, &history, &sessions))
            }
            b"/sessions" if !prefers_html(question.accept) => {
                Page::json(&sessions_json(&self.sessions(question)))
            }
            b"/sessions.json" => Page::json(&sessions_json(&self.sessions(question))),
            b"/sessions" => {
                let refresh = number(question.query, b"refresh").map(|seconds| seconds.clamp(1, 3600));
                Page::html(sessions_page(&self.sessions(question), refresh))
            }
            b"/health" => self.health(),
            _ => Page {
                body: "404 Not Found: there are /metrics, /status, /status.json, /sessions, \
                       /sessions.json and /health\n"
                    .to_string(),
                ..Page::error(404)
            },
        }
    }

    /// Removes responses from the cache of programs and origins, according to the query.
    pub fn purge(&self, query: &[u8]) -> Page {
        let decoded = |text: &[u8]| percent_decode(text).decode_utf8_lossy().into_owned();
        let pairs: Vec<(String, String)> = query
            .split(|byte| *byte == b'&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| match memchr::memchr(b'=', pair) {
                Some(equals) => (decoded(&pair[..equals]), decoded(&pair[equals + 1..])),
                None => (decoded(pair), String::new()),
            })
            .collect();
        let parameters: Vec<(&str, String)> =
            pairs.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        match PurgeRequest::parse(&parameters).map(|order| (self.sources.purge)(&order)) {
            Ok(Some(purged)) => Page::json(&json!({ "purged": purged })),
            Ok(None) => {
                Page { body: "404 Not Found: no route has a cache\n".to_string(), ..Page::error(404) }
            }
            Err(problem) => Page { body: format!("400 Bad Request: {problem}\n"), ..Page::error(400) },
        }
    }

    fn sessions(&self, question: &PageRequest<'_>) -> Vec<CoreSessions> {
        let most = number(question.query, b"limit").map_or(USUAL_SESSIONS, |limit| limit as usize);
        let most = most.min(MOST_SESSIONS);
        let mut cores = (self.sources.sessions)(most);
        cores.sort_by_key(|core| core.core);
        // The limit applies to all cores together: the list of each core is cut evenly, and sessions with
        // active requests come first.
        let mut all: Vec<(usize, crate::connection_info::SessionFacts)> = cores
            .iter_mut()
            .flat_map(|core| {
                std::mem::take(&mut core.sessions).into_iter().map(|session| (core.core, session))
            })
            .collect();
        all.sort_by_key(|(_, session)| (session.under_way_count == 0, std::cmp::Reverse(session.age_ms)));
        all.truncate(most);
        for (index, session) in all {
            if let Some(core) = cores.iter_mut().find(|core| core.core == index) {
                core.sessions.push(session);
            }
        }
        cores
    }

    /// The server is healthy if every core answers within a second and no stop has begun.
    fn health(&self) -> Page {
        let answering = (self.sources.sessions)(0).len();
        let (status, word) = match (self.sources.metrics.is_draining(), answering == self.sources.cores) {
            (true, _) => (503, "draining"),
            (false, false) => (503, "stuck"),
            (false, true) => (200, "ok"),
        };
        let value = json!({ "status": word, "cores": self.sources.cores, "cores_answering": answering });
        Page { status, ..Page::json(&value) }
    }
}

/// Whether an Accept field prefers a page to JSON: browsers name HTML, programs do not.
fn prefers_html(accept: Option<&[u8]>) -> bool {
    accept.is_some_and(|accept| memchr::memmem::find(accept, b"text/html").is_some())
}

/// A number in a query.
fn number(query: &[u8], name: &[u8]) -> Option<u32> {
    let pairs = query.split(|byte| *byte == b'&');
    let value = pairs.filter_map(|pair| pair.strip_prefix(name)?.strip_prefix(b"=")).next()?;
    std::str::from_utf8(value).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_queries() {
        assert_eq!(number(b"refresh=5", b"refresh"), Some(5));
        assert_eq!(number(b"a=1&refresh=50&b", b"refresh"), Some(50));
        assert_eq!(number(b"refresh=x", b"refresh"), None);
        assert_eq!(number(b"refreshing=5", b"refresh"), None);
    }

    #[test]
    fn browsers_get_pages() {
        assert!(prefers_html(Some(b"text/html,application/xhtml+xml,*/*;q=0.8")));
        assert!(!prefers_html(Some(b"*/*")) && !prefers_html(None));
    }
}
