//! Makes an answer from a page.
//!
//! A page whose output is the same for every request of this second goes into the cache of whole responses
//! for that second; a hit then costs as much as a static file. Any other page is sent as it is evaluated.
//! Most are complete before the first byte is sent, so their length is known.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use touchstone_files::cache::{NewEntry, PreparedResponse, ReadTicket, Representation, Validity};
use touchstone_files::coding::Codings;
use touchstone_files::root::FileFacts;
use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_handler::pipe::{Sender, pipe};
use touchstone_http::date::format_imf_fixdate;
use touchstone_http::request::Method;
use touchstone_includes::{CachedPage, DependsOn, PageSource, Rendering};
use touchstone_sites::includes::SiteIncludes;
use touchstone_sites::site::Site;

use super::host::PageHost;
use crate::core::Core;
use crate::files::file_request::FileRequest;

/// Outputs up to this size are joined; longer ones are sent in their pieces.
const TOGETHER_BYTES: usize = 16 * 1024;

/// How far the evaluation of a page may run ahead of what the client has read.
const AHEAD_BYTES: usize = 64 * 1024;

/// A page that was found for a request.
pub struct FoundPage<'a> {
    /// Its key in the cache of whole responses.
    pub key: &'a [u8],
    /// The path of the request; the page's includes are relative to it.
    pub path: &'a [u8],
    /// Its file, below the site's root.
    pub file_path: &'a [u8],
    /// The page.
    pub page: Arc<CachedPage>,
    /// The state of the cache before the file was read.
    pub ticket: Option<ReadTicket>,
}

/// The result of evaluating a page.
pub enum PageAnswer {
    /// It is valid for the whole second, and the cache stores it.
    Kept(Representation, Arc<PreparedResponse>),
    /// The answer to this request only.
    Answer(Representation, Answer),
}

/// Evaluates a page.
pub async fn answer(
    core: &Rc<Core>,
    request: &FileRequest<'_>,
    includes: &SiteIncludes,
    found: FoundPage<'_>,
) -> PageAnswer {
    let site = &request.snapshot.sites[request.site];
    let representation = represent(site, includes, found.file_path, &found.page.facts);
    let source = PageSource {
        page: found.page.page.clone(),
        path: found.path.to_vec(),
        query: request.query.map(<[u8]>::to_vec),
        file_path: found.file_path.to_vec(),
        modified_seconds: found.page.facts.modified_seconds,
        owner: found.page.facts.owner,
    };
    let host = PageHost {
        core: core.clone(),
        snapshot: request.snapshot.clone(),
        request: request.request.without_body(),
        site: request.site,
        file_path: found.file_path.to_vec(),
    };
    let now = core.clock.second();
    let mut rendering = Rendering::new(Rc::new(host), includes.settings.clone(), source, now.unix_seconds);
    let mut answer = Answer::new(200);
    representation.write_content_fields(&mut answer.fields);
    representation.write_validators(&mut answer.fields);

    let (pieces, is_whole) = run_ahead(&mut rendering).await;
    if !is_whole {
        // The rest of the page may still depend on the request.
        found.page.note(DependsOn::Request);
        let part = rest_of(rendering, pieces, request.head.method);
        return PageAnswer::Answer(representation, answer.part(part));
    }
    found.page.note(rendering.depends_on());
    let length: usize = pieces.iter().map(Bytes::len).sum();
    if rendering.depends_on() != DependsOn::Request
        && core.clock.second().unix_seconds == now.unix_seconds
        && let Some(ticket) = found.ticket
        && request.snapshot.cache.as_ref().is_some_and(|cache| cache.admits(length as u64))
    {
        let new = NewEntry {
            site: request.site,
            path: found.key,
            file_path: found.file_path,
            root: site.root.clone(),
            representation: representation.clone(),
            codings: Codings::default(),
            validity: Validity::OneSecond,
            body: pieces.concat(),
        };
        if let Some(prepared) = core.cache_insert(request.snapshot, new, ticket, request.form) {
            return PageAnswer::Kept(representation, prepared);
        }
    }
    PageAnswer::Answer(representation, answer.part(whole(pieces)))
}

/// The body that an evaluation makes, complete or as a stream.
pub async fn body_of(mut rendering: Rendering<PageHost>, method: Method) -> BodyPart {
    match run_ahead(&mut rendering).await {
        (pieces, true) => whole(pieces),
        (pieces, false) => rest_of(rendering, pieces, method),
    }
}

/// A body that is complete.
fn whole(pieces: Vec<Bytes>) -> BodyPart {
    let length: usize = pieces.iter().map(Bytes::len).sum();
    if length <= TOGETHER_BYTES {
        return BodyPart::Bytes(pieces.concat().into());
    }
    let (mut sender, body) = pipe(length);
    pieces.into_iter().for_each(|piece| sender.push(piece));
    sender.finish();
    BodyPart::Stream { body, length: Some(length as u64) }
}

fn represent(site: &Site, includes: &SiteIncludes, file_path: &[u8], facts: &FileFacts) -> Representation {
    let etag = if includes.has_etag() { facts.etag().as_bytes().into() } else { Box::default() };
    let last_modified = includes.has_last_modified(facts).then(|| format_imf_fixdate(facts.modified_seconds));
    Representation {
        facts: *facts,
        etag,
        last_modified,
        is_made: true,
        content_type: site.content_types.content_type(file_path).into(),
        cache_control: site.config.cache_control.as_str().into(),
        content_coding: None,
        dictionary_coding: None,
        dictionary_for: None,
        vary: "",
        site_fields: site.file_fields.clone(),
    }
}

/// Evaluates until the first wait; returns the output so far, and whether it is complete.
async fn run_ahead(rendering: &mut Rendering<PageHost>) -> (Vec<Bytes>, bool) {
    let mut pieces = Vec::new();
    let is_whole = poll_fn(|context| {
        loop {
            match rendering.poll_next(context) {
                Poll::Ready(Some(piece)) => pieces.push(piece),
                Poll::Ready(None) => return Poll::Ready(true),
                Poll::Pending => return Poll::Ready(false),
            }
        }
    })
    .await;
    (pieces, is_whole)
}

/// Sends the rest of the output as fast as it is read, and stops when its reader is dropped.
fn rest_of(rendering: Rendering<PageHost>, pieces: Vec<Bytes>, method: Method) -> BodyPart {
    let (mut sender, body) = pipe(AHEAD_BYTES);
    pieces.into_iter().for_each(|piece| sender.push(piece));
    if method == Method::Head {
        // No reader needs it, so it is not evaluated.
        sender.finish();
    } else {
        tokio::task::spawn_local(send(rendering, sender));
    }
    BodyPart::Stream { body, length: None }
}

async fn send(mut rendering: Rendering<PageHost>, mut sender: Sender) {
    let is_whole = poll_fn(|context| {
        loop {
            match sender.poll_ready(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(false),
                Poll::Pending => return Poll::Pending,
            }
            match rendering.poll_next(context) {
                Poll::Ready(Some(piece)) => sender.push(piece),
                Poll::Ready(None) => return Poll::Ready(true),
                Poll::Pending => {
                    // This wakes the task when the client leaves.
                    sender.wake_when_read(context);
                    return Poll::Pending;
                }
            }
        }
    })
    .await;
    if is_whole {
        sender.finish();
    }
}
