//! Answers of programs and other servers that are pages with directives: on a route with its own `includes`.
//!
//! Such an answer is received completely, parsed, and evaluated for its request. Paths of `virtual` are
//! relative to the path of the request; those of `file` to the same path below the route's root.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use touchstone_config::LogLevel;
use touchstone_handler::answer::Answer;
use touchstone_handler::request::Request;
use touchstone_http::request::Method;
use touchstone_includes::{PageSource, Rendering, parse};
use touchstone_sites::site::Snapshot;

use super::answer::body_of;
use super::host::{PageHost, collect};
use crate::core::Core;

/// Removes fields of a request that would lead to a partial or coded answer.
pub fn request_plain_page(request: &mut Request) {
    const NAMES: [&str; 7] = [
        "accept-encoding",
        "range",
        "if-range",
        "if-match",
        "if-none-match",
        "if-modified-since",
        "if-unmodified-since",
    ];
    let stays = |name: &[u8]| !NAMES.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()));
    if request.received.fields().all(|(name, _)| stays(name)) {
        return;
    }
    if let Some(written) = request.received.with_fields(stays, None) {
        request.received = Rc::new(written);
    }
}

/// Evaluates an answer, if it is a page. `site` provides the route's settings for files.
pub async fn evaluate(
    core: &Rc<Core>,
    snapshot: &Arc<Snapshot>,
    request: &Request,
    site: usize,
    answer: &mut Answer,
) {
    let Some(includes) = &snapshot.sites[site].includes else { return };
    let has_no_page = answer.is_error_page || matches!(answer.status, 101 | 204 | 206 | 304);
    let is_page_type = field(&answer.fields, b"content-type").is_some_and(|of| includes.is_page_type(of));
    if has_no_page || !is_page_type || field(&answer.fields, b"content-encoding").is_some() {
        return;
    }
    let lines = answer.fields.split_inclusive(|&byte| byte == b'\n');
    let stays =
        |line: &&[u8]| includes.keeps_field(line.split(|&byte| byte == b':').next().unwrap_or_default());
    answer.fields = lines.filter(stays).flatten().copied().collect();
    answer.declared_length = None;
    let parts = std::mem::take(&mut answer.body);
    if request.method() == Method::Head {
        // The length of the result is not known.
        return;
    }
    let text = match collect(parts, includes.page_bytes()).await {
        Ok(pieces) => pieces.concat(),
        Err(reason) => {
            let message = format_args!("{}: {reason}", request.path.escape_ascii());
            core.error_log.limited(LogLevel::Warning, "pages with directives", message);
            *answer = Answer::error(502);
            return;
        }
    };
    let now = core.clock.second().unix_seconds;
    let source = PageSource {
        page: Arc::new(parse(&Bytes::from(text), &includes.settings)),
        path: request.path.to_vec(),
        query: request.query.as_deref().map(<[u8]>::to_vec),
        file_path: request.path.to_vec(),
        modified_seconds: now,
        owner: 0,
    };
    let host = PageHost {
        core: core.clone(),
        snapshot: snapshot.clone(),
        request: request.without_body(),
        site,
        file_path: request.path.to_vec(),
    };
    let rendering = Rendering::new(Rc::new(host), includes.settings.clone(), source, now);
    answer.body.push(body_of(rendering, request.method()).await);
}

/// The value of the first field of this name.
fn field<'f>(fields: &'f [u8], name: &[u8]) -> Option<&'f [u8]> {
    fields.split(|&byte| byte == b'\n').find_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        line[..colon].eq_ignore_ascii_case(name).then(|| line[colon + 1..].trim_ascii())
    })
}
