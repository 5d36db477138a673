//! The file handler: makes the answer for a path (RFC 9110 sections 9.3.1, 13, 14).
//!
//! The connection serves plain hits of the cache itself. All other requests take these steps: method, path,
//! cache, open, directory or file, content coding, conditions, ranges; if nothing is found, the site's
//! fallback; for an error, the site's error page.
//!
//! | module | |
//! |---|---|
//! | `find` | finds the target of a path |
//! | `codings` | chooses among the forms of a file |
//! | `content` | makes the answer from a file's bytes: conditions, ranges |

mod codings;
mod content;
mod find;

use std::rc::Rc;

use content::{PathTarget, answer_content, precondition};
use find::{find, find_page};
use touchstone_config::LogLevel;
use touchstone_handler::answer::Answer;
use touchstone_http::accept;
use touchstone_http::request::Method;
use touchstone_http::target::{PathError, normalise_path};
use touchstone_http::weight::NOT_ACCEPTABLE;
use touchstone_sites::hidden_names::is_refused_name;

use crate::core::Core;
use crate::files::file_request::FileRequest;
use crate::files::includes::LoadError;
use crate::files::site_files::{refusal, try_again};

pub use find::redirect_to_slash;
/// The methods that files answer.
pub const ALLOWED_METHODS: &str = "GET, HEAD, OPTIONS";

/// Answers a request for a file.
pub async fn answer(core: &Rc<Core>, request: &FileRequest<'_>) -> Answer {
    match request.head.method {
        Method::Get | Method::Head => {}
        Method::Options => return Answer::new(204).field("Allow", ALLOWED_METHODS),
        Method::Other => return Answer::error(501),
        _ => return Answer::error(405).field("Allow", ALLOWED_METHODS),
    }
    let mut path = Vec::with_capacity(request.path.len());
    match normalise_path(request.path, &mut path) {
        Ok(()) => {}
        Err(PathError::EncodedSlash) => return Answer::error(404),
        Err(_) => return Answer::error(400),
    }
    if is_refused_name(request.site(), &path) {
        return Answer::error(404);
    }
    match find(core, request, &path, &path).await {
        PathTarget::Content(representation, content) => {
            let now = core.clock.second().unix_seconds;
            answer_content(request, &representation, content, now)
        }
        PathTarget::Evaluated(representation, answer) => {
            let now = core.clock.second().unix_seconds;
            precondition(request, &representation, now).unwrap_or(answer)
        }
        PathTarget::Other(answer) if answer.status == 404 => fall_back(core, request, &path, answer).await,
        PathTarget::Other(answer) => answer,
    }
}

/// Answers with the site's fallback if nothing was found, it has one and this request may get it.
async fn fall_back(core: &Rc<Core>, request: &FileRequest<'_>, path: &[u8], not_found: Answer) -> Answer {
    let fallback = &request.site().config.fallback;
    if fallback.is_empty() || has_dot_in_last_segment(path) {
        return not_found;
    }
    // From here on the answer depends on the Accept field.
    if accept::weight_of(request.accept(), "text/html") == NOT_ACCEPTABLE {
        return not_found.field("Vary", "Accept");
    }
    match find_page(core, request, fallback).await {
        PathTarget::Content(mut representation, content) => {
            representation.vary = match (representation.vary, &representation.dictionary_for) {
                ("", _) => "Accept",
                (_, None) => "Accept-Encoding, Accept",
                (_, Some(_)) => "Accept-Encoding, Available-Dictionary, Accept",
            };
            let now = core.clock.second().unix_seconds;
            answer_content(request, &representation, content, now)
        }
        PathTarget::Evaluated(_, answer) => answer.field("Vary", "Accept"),
        PathTarget::Other(answer) => {
            let message = format_args!("the fallback {fallback:?} cannot be served: {}", answer.status);
            core.error_log.limited(LogLevel::Warning, "fallback", message);
            not_found.field("Vary", "Accept")
        }
    }
}

/// A path such as `/logo.png`, or `/page.html/`, names a file, not a page of an application.
fn has_dot_in_last_segment(path: &[u8]) -> bool {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    path.rsplit(|&byte| byte == b'/').next().is_some_and(|segment| segment.contains(&b'.'))
}

/// Replaces the body of an error by the site's error page. The fields that belong to the status are kept.
pub async fn use_error_page(core: &Rc<Core>, request: &FileRequest<'_>, page: &str, answer: &mut Answer) {
    match find_page(core, request, page).await {
        target @ (PathTarget::Content(..) | PathTarget::Evaluated(..)) => {
            let (representation, body) = match target {
                PathTarget::Content(representation, content) => (representation, content.whole()),
                PathTarget::Evaluated(representation, evaluated) => (representation, evaluated.body),
                PathTarget::Other(_) => return,
            };
            let mut fields = Vec::with_capacity(answer.fields.len() + 64);
            for line in answer.fields.split_inclusive(|&byte| byte == b'\n') {
                let replaced = line.starts_with(b"Content-Type: ")
                    || (line == b"Vary: Accept-Encoding\r\n" && !representation.vary.is_empty());
                if !replaced {
                    fields.extend_from_slice(line);
                }
            }
            // No validators: they would describe the error page, but conditions refer to the requested
            // resource.
            let mut add = |name: &str, value: &str| {
                if !value.is_empty() {
                    fields.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
                }
            };
            add("Content-Type", &representation.content_type);
            add("Content-Encoding", representation.coding_token().unwrap_or_default());
            add("Vary", representation.vary);
            answer.fields = fields;
            answer.body = body;
        }
        // If the error page itself fails, the built-in page is sent, so this ends here.
        PathTarget::Other(failure) => {
            let message = format_args!("the error page {page:?} cannot be served: {}", failure.status);
            core.error_log.limited(LogLevel::Warning, "error pages", message);
        }
    }
}

/// The answer if a page with directives cannot be loaded.
pub fn unusable_page(core: &Rc<Core>, file_path: &[u8], error: &LoadError) -> Answer {
    let path = file_path.escape_ascii();
    match error {
        LoadError::Refused(refused) => return refusal(core, file_path, refused),
        LoadError::TooLarge(size) => core.error_log.warning(format_args!(
            "{path} has {size} bytes, more than site.includes.page_bytes allows for a page with directives"
        )),
        LoadError::Changing => {
            core.error_log.warning(format_args!("{path} changes faster than it can be read"));
            return try_again();
        }
        LoadError::Unreadable(error) => core.error_log.warning(format_args!("cannot read {path}: {error}")),
    }
    Answer::error(500)
}

#[cfg(test)]
mod tests {
    use super::has_dot_in_last_segment;

    #[test]
    fn files_and_places() {
        for (path, expected) in [
            ("/app/users/42", false),
            ("/app/", false),
            ("/v1.2/page", false),
            ("/", false),
            ("/logo.png", true),
            ("/page.html/", true),
            ("/a.b/c.d", true),
        ] {
            assert_eq!(has_dot_in_last_segment(path.as_bytes()), expected, "{path}");
        }
    }
}
