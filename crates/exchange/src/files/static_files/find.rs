//! Finds the target of a path, in the cache, then on disk: a file, a page with directives, or a directory's
//! index.

use std::path::PathBuf;
use std::rc::Rc;

use touchstone_files::cache::{NewEntry, ReadTicket, Representation, Validity};
use touchstone_files::coding::Codings;
use touchstone_files::percent::encode_path;
use touchstone_files::root::{FileFacts, FileKind, OpenedFile, Root};
use touchstone_handler::answer::Answer;
use touchstone_http::date::format_imf_fixdate;
use touchstone_sites::hidden_names::is_refused_name;
use touchstone_sites::htaccess::may_list;
use touchstone_sites::site::Site;

use super::codings::{choose_coding, choose_uncached};
use super::content::{Content, PathTarget};
use super::unusable_page;
use crate::core::Core;
use crate::files::file_request::FileRequest;
use crate::files::includes::{self, FoundPage, PageAnswer};
use crate::files::site_files::{list, refusal, try_again};
use crate::files::whole_file;

/// How often a file that changes while it is read is read again before its answer is 503.
const READ_ATTEMPTS: usize = 5;

/// Searches for a file that the configuration names: hidden names are allowed for the operator.
pub async fn find_page(core: &Rc<Core>, request: &FileRequest<'_>, page: &str) -> PathTarget {
    let path = page.as_bytes();
    let key = match is_refused_name(request.site(), path) {
        // No request path has this form, so no request finds the entry with this key.
        true => [b"page ", path].concat(),
        false => path.to_vec(),
    };
    find(core, request, &key, path).await
}

/// Searches the cache for `key`, then the disk; for a directory, its index file is searched.
pub async fn find(core: &Rc<Core>, request: &FileRequest<'_>, key: &[u8], path: &[u8]) -> PathTarget {
    for attempt in 0..READ_ATTEMPTS {
        let kept = core.cache_entry(request.snapshot, request.site, key, request.form);
        if attempt == 0 && request.snapshot.cache.is_some() {
            let counts = &core.counts;
            if kept.is_some() { counts.cache_hits.add(1) } else { counts.cache_misses.add(1) }
        }
        if let Some((entry, plain)) = kept {
            match choose_coding(core, request, &entry, plain).await {
                Some(target) => return target,
                None => continue,
            }
        }
        match find_target(core, request, key, path).await {
            // It was just cached: unless there was a change or a reload since, the coding is chosen as for
            // any other hit.
            PathTarget::Content(representation, Content::Cached(plain)) => {
                let Some((entry, plain)) =
                    core.cache_entry(request.snapshot, request.site, key, request.form)
                else {
                    return PathTarget::Content(representation, Content::Cached(plain));
                };
                if let Some(target) = choose_coding(core, request, &entry, plain).await {
                    return target;
                }
            }
            target => return target,
        }
    }
    core.error_log.warning(format_args!("{} changes faster than it can be read", path.escape_ascii()));
    PathTarget::Other(try_again())
}

/// Searches for `path` on disk.
async fn find_target(core: &Rc<Core>, request: &FileRequest<'_>, key: &[u8], path: &[u8]) -> PathTarget {
    if !path.ends_with(b"/") {
        return open(core, request, key, path).await;
    }
    let site = request.site();
    for index in &site.config.index {
        let index_path = [path, index.as_bytes()].concat();
        match open(core, request, key, &index_path).await {
            PathTarget::Other(answer) if answer.status == 404 => {}
            target => return target,
        }
    }
    // A missing directory is not found, whether directories are listed or not.
    match site.root.facts(path) {
        Ok(_) if !may_list(&site.config, path) => PathTarget::Other(Answer::error(403)),
        Ok(_) => PathTarget::Other(list(core, request, path, path).await),
        Err(refused) => PathTarget::Other(refusal(core, path, &refused)),
    }
}

/// Opens `file_path` and, if it may be cached, reads it and stores it under `key`.
async fn open(core: &Rc<Core>, request: &FileRequest<'_>, key: &[u8], file_path: &[u8]) -> PathTarget {
    if let Some(target) = show_kept_page(core, request, key, file_path).await {
        return target;
    }
    for _ in 0..READ_ATTEMPTS {
        let ticket = begin_read(request, file_path);
        let opened = match request.site().root.open(file_path) {
            Ok(opened) => opened,
            Err(refused) => return PathTarget::Other(refusal(core, file_path, &refused)),
        };
        if opened.facts.kind == FileKind::Directory {
            return PathTarget::Other(directory_redirect(key, file_path, request.query));
        }
        if let Some(includes) = &request.site().includes
            && includes.is_page(
                file_path,
                &opened.facts,
                &request.site().content_types.content_type(file_path),
            )
        {
            let page =
                includes::load(core, request.snapshot, request.site, includes, file_path, opened).await;
            return match page {
                Ok(page) => {
                    let found = FoundPage { key, path: file_path, file_path, page, ticket };
                    evaluated(includes::answer(core, request, includes, found).await)
                }
                Err(error) => PathTarget::Other(unusable_page(core, file_path, &error)),
            };
        }
        if let Some(target) = take_file(core, request, key, file_path, opened, ticket).await {
            return target;
        }
    }
    core.error_log.warning(format_args!("{} changes faster than it can be read", file_path.escape_ascii()));
    PathTarget::Other(try_again())
}

/// Notes the state of the cache before a file is checked, if there is a cache.
fn begin_read(request: &FileRequest<'_>, file_path: &[u8]) -> Option<ReadTicket> {
    let cache = request.snapshot.cache.as_ref()?;
    Some(cache.begin_read(&directory_of(&request.site().root, file_path)))
}

/// Answers with a page with directives whose parsed form is stored.
async fn show_kept_page(
    core: &Rc<Core>,
    request: &FileRequest<'_>,
    key: &[u8],
    file_path: &[u8],
) -> Option<PathTarget> {
    let includes = request.site().includes.as_ref()?;
    let page = includes::kept(core, request.snapshot, request.site, file_path)?;
    // If its output depended on the request the last time, its files are not watched for the cache.
    let ticket = if page.depended_on_request() { None } else { begin_read(request, file_path) };
    let found = FoundPage { key, path: file_path, file_path, page, ticket };
    Some(evaluated(includes::answer(core, request, includes, found).await))
}

/// Reads a file and caches it, if allowed; `None`: it changed while it was read, so that the bytes are
/// neither the old version nor the new one.
async fn take_file(
    core: &Rc<Core>,
    request: &FileRequest<'_>,
    key: &[u8],
    file_path: &[u8],
    opened: OpenedFile,
    ticket: Option<ReadTicket>,
) -> Option<PathTarget> {
    let site = request.site();
    let kept =
        request.snapshot.cache.as_ref().zip(ticket).filter(|(cache, _)| cache.admits(opened.facts.size));
    let (mut representation, codings) = represent(site, file_path, &opened.facts, kept.is_some());
    let pattern = kept.as_ref().and_then(|(cache, _)| cache.dictionary_pattern(request.site, key));
    if let Some(pattern) = pattern.filter(|_| codings.is_negotiable()) {
        representation.dictionary_for = Some(pattern.clone());
        representation.vary = "Accept-Encoding, Available-Dictionary";
    }
    let Some((_, ticket)) = kept else {
        return Some(choose_uncached(request, file_path, opened, representation, &codings));
    };
    let body = match whole_file::read(opened).await {
        Ok(body) => body?,
        Err(error) => {
            core.error_log.warning(format_args!("cannot read {}: {error}", file_path.escape_ascii()));
            return Some(PathTarget::Other(Answer::error(500)));
        }
    };
    let new = NewEntry {
        site: request.site,
        path: key,
        file_path,
        root: site.root.clone(),
        representation: representation.clone(),
        codings,
        validity: Validity::UntilChanged,
        body,
    };
    Some(match core.cache_insert(request.snapshot, new, ticket, request.form) {
        Some(prepared) => PathTarget::Content(representation, Content::Cached(prepared)),
        None => PathTarget::Other(Answer::error(500)),
    })
}

fn evaluated(result: PageAnswer) -> PathTarget {
    match result {
        PageAnswer::Kept(representation, prepared) => {
            PathTarget::Content(representation, Content::Cached(prepared))
        }
        PageAnswer::Answer(representation, answer) => PathTarget::Evaluated(representation, answer),
    }
}

fn directory_of(root: &Root, file_path: &[u8]) -> PathBuf {
    let end = file_path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    root.place_of(&file_path[..end])
}

/// The properties of a file, and its possible codings; `kept`: whether the cache will store it.
fn represent(site: &Site, file_path: &[u8], facts: &FileFacts, kept: bool) -> (Representation, Codings) {
    let content_type = site.content_types.content_type(file_path);
    let codings = site.codings.codings(&site.root, file_path, facts, &content_type, kept);
    let representation = Representation {
        facts: *facts,
        etag: facts.etag().as_bytes().into(),
        last_modified: Some(format_imf_fixdate(facts.modified_seconds)),
        is_made: false,
        content_type: content_type.into(),
        cache_control: site.config.cache_control.as_str().into(),
        content_coding: None,
        dictionary_coding: None,
        dictionary_for: None,
        vary: if codings.is_negotiable() { "Accept-Encoding" } else { "" },
        site_fields: site.file_fields.clone(),
    };
    (representation, codings)
}

/// Handles a directory that was requested without its slash; an index name that is a directory is not found.
fn directory_redirect(path: &[u8], file_path: &[u8], query: Option<&[u8]>) -> Answer {
    if path == file_path { redirect_to_slash(path, query) } else { Answer::error(404) }
}

/// Redirects the client to the same path with a slash at its end. `path` must be in its normal form: an
/// unnormalised path could begin with two slashes, and lead to another server.
pub fn redirect_to_slash(path: &[u8], query: Option<&[u8]>) -> Answer {
    let mut location = Vec::with_capacity(path.len() + 1);
    encode_path(path, &mut location);
    location.push(b'/');
    if let Some(query) = query {
        location.push(b'?');
        location.extend_from_slice(query);
    }
    Answer::redirect(301, &location)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_stays_on_this_server_and_in_its_line() {
        let answer = directory_redirect(b"/a b\r\n\xff", b"/a b\r\n\xff", Some(b"q=1"));
        let fields = String::from_utf8(answer.fields).unwrap();
        assert!(fields.ends_with("Location: /a%20b%0D%0A%FF/?q=1\r\n"), "{fields}");
    }
}
