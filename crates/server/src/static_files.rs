//! The file handler: from a path to an answer (RFC 9110 sections 9.3.1, 13, 14).
//!
//! The connection serves plain hits of the cache itself. Everything else comes here, in named steps: method, path,
//! cache, open, directory or file, content coding, conditions, ranges; where nothing is found the site's fallback, where
//! an error comes of it the site's page for it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use std::os::unix::ffi::OsStrExt;

use touchstone_files::cache::{
    Begun, CodingJob, Entry, FileCache, Lasts, NewEntry, Prepared, Representation, Selection,
};
use touchstone_files::coding::{CodingSource, Codings, twin_etag, twin_path};
use touchstone_files::listing::{self, ListingOptions};
use touchstone_files::percent::encode_path;
use touchstone_files::root::{FileFacts, FileKind, Opened, Refused};
use touchstone_http::accept;
use touchstone_http::conditional::{
    Conditions, FieldLines, Precondition, Validators, evaluate, if_range_holds,
};
use touchstone_http::content_coding::CodingPreference;
use touchstone_http::date::format_imf_fixdate;
use touchstone_http::range::{ByteRange, MultipartByteRanges, Ranges, append_unsatisfied_range};
use touchstone_http::request::{KnownField, Method};
use touchstone_http::target::{PathError, normalise_path};
use touchstone_http::weight::NOT_ACCEPTABLE;

use crate::answer::{Answer, Part};
use crate::config::{DirectoryListing, LogLevel};
use crate::core::Core;
use crate::file_request::FileRequest;
use crate::hidden_names::is_hidden;
use crate::includes::{self, FoundPage, LoadError, Made};
use crate::site::Site;
use crate::whole_file;

/// The methods that files answer.
pub const ALLOWED_METHODS: &str = "GET, HEAD, OPTIONS";

/// How often a file that changes while it is read is read again before its answer is 503.
const READ_ATTEMPTS: usize = 5;

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
    if !request.site().config.hidden_files && is_hidden(&path) {
        return Answer::error(404);
    }
    match find(core, request, &path, &path).await {
        Found::Content(representation, content) => {
            let now = core.clock.second().unix_seconds;
            answer_content(request, &representation, content, now)
        }
        Found::Made(representation, answer) => {
            let now = core.clock.second().unix_seconds;
            precondition(request, &representation, now).unwrap_or(answer)
        }
        Found::Other(answer) if answer.status == 404 => fall_back(core, request, &path, answer).await,
        Found::Other(answer) => answer,
    }
}

/// Answers for what was not found with the site's fallback, if it has one and this request may get it.
async fn fall_back(core: &Rc<Core>, request: &FileRequest<'_>, path: &[u8], not_found: Answer) -> Answer {
    let fallback = &request.site().config.fallback;
    if fallback.is_empty() || has_dot_in_last_segment(path) {
        return not_found;
    }
    // From here on the answer depends on Accept, whichever it is.
    if accept::weight_of(request.accept(), "text/html") == NOT_ACCEPTABLE {
        return not_found.field("Vary", "Accept");
    }
    match find_page(core, request, fallback).await {
        Found::Content(mut representation, content) => {
            let varies = !representation.vary.is_empty();
            representation.vary = if varies { "Accept-Encoding, Accept" } else { "Accept" };
            let now = core.clock.second().unix_seconds;
            answer_content(request, &representation, content, now)
        }
        Found::Made(_, answer) => answer.field("Vary", "Accept"),
        Found::Other(answer) => {
            let message = format_args!("the fallback {fallback:?} cannot be served: {}", answer.status);
            core.error_log.limited(LogLevel::Warning, "fallback", message);
            not_found.field("Vary", "Accept")
        }
    }
}

/// A path such as `/logo.png`, or `/page.html/`, asks for a file, not for a place in an application.
fn has_dot_in_last_segment(path: &[u8]) -> bool {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    path.rsplit(|&byte| byte == b'/').next().is_some_and(|segment| segment.contains(&b'.'))
}

/// Replaces the body of an error with the site's page for it. The fields that belong to the status stay.
pub async fn use_error_page(core: &Rc<Core>, request: &FileRequest<'_>, page: &str, answer: &mut Answer) {
    match find_page(core, request, page).await {
        found @ (Found::Content(..) | Found::Made(..)) => {
            let (representation, body) = match found {
                Found::Content(representation, content) => (representation, content.whole()),
                Found::Made(representation, made) => (representation, made.body),
                Found::Other(_) => return,
            };
            let mut fields = Vec::with_capacity(answer.fields.len() + 64);
            for line in answer.fields.split_inclusive(|&byte| byte == b'\n') {
                let replaced = line.starts_with(b"Content-Type: ")
                    || (line == b"Vary: Accept-Encoding\r\n" && !representation.vary.is_empty());
                if !replaced {
                    fields.extend_from_slice(line);
                }
            }
            // No validators: they would be those of the page, and a condition is about what was asked for.
            let mut add = |name: &str, value: &str| {
                if !value.is_empty() {
                    fields.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
                }
            };
            add("Content-Type", &representation.content_type);
            add("Content-Encoding", representation.content_coding.map_or("", |coding| coding.token()));
            add("Vary", representation.vary);
            answer.fields = fields;
            answer.body = body;
        }
        // The page of its own failure is the built-in one, so this ends here.
        Found::Other(failure) => {
            let message = format_args!("the error page {page:?} cannot be served: {}", failure.status);
            core.error_log.limited(LogLevel::Warning, "error pages", message);
        }
    }
}

/// Where a file's bytes are.
enum Content {
    Cached(Arc<Prepared>),
    File(Arc<OwnedFd>, u64),
}

impl Content {
    fn length(&self) -> u64 {
        match self {
            Content::Cached(prepared) => prepared.body_length() as u64,
            Content::File(_, length) => *length,
        }
    }

    fn part(&self, range: ByteRange) -> Part {
        match self {
            Content::Cached(prepared) => {
                Part::Cached(prepared.clone(), range.first as usize..range.last as usize + 1)
            }
            Content::File(file, _) => {
                Part::File { file: file.clone(), offset: range.first, length: range.len() }
            }
        }
    }

    fn whole(&self) -> Vec<Part> {
        match self.length() {
            0 => Vec::new(),
            length => vec![self.part(ByteRange { first: 0, last: length - 1 })],
        }
    }
}

enum Found {
    Content(Representation, Content),
    /// Made of a page with directives, for this request.
    Made(Representation, Answer),
    Other(Answer),
}

/// Looks for a file that the configuration names: hidden names are the operator's to use.
async fn find_page(core: &Rc<Core>, request: &FileRequest<'_>, page: &str) -> Found {
    let path = page.as_bytes();
    let key = match is_hidden(path) && !request.site().config.hidden_files {
        // No request path is like this, so no request finds what is kept under it.
        true => [b"page ", path].concat(),
        false => path.to_vec(),
    };
    find(core, request, &key, path).await
}

/// Looks in the cache, where it would be under `key`, then on disk; a directory stands for its index file.
async fn find(core: &Rc<Core>, request: &FileRequest<'_>, key: &[u8], path: &[u8]) -> Found {
    for attempt in 0..READ_ATTEMPTS {
        let kept = core.cache_entry(request.snapshot, request.site, key, request.variant);
        if attempt == 0 && request.snapshot.cache.is_some() {
            let counts = &core.counts;
            if kept.is_some() { counts.cache_hits.add(1) } else { counts.cache_misses.add(1) }
        }
        if let Some((entry, plain)) = kept {
            match choose_coding(core, request, &entry, plain).await {
                Some(found) => return found,
                None => continue,
            }
        }
        match look(core, request, key, path).await {
            // Kept just now: unless a change or a reload came between, the coding is chosen as for any other hit.
            Found::Content(representation, Content::Cached(plain)) => {
                let Some((entry, plain)) =
                    core.cache_entry(request.snapshot, request.site, key, request.variant)
                else {
                    return Found::Content(representation, Content::Cached(plain));
                };
                if let Some(found) = choose_coding(core, request, &entry, plain).await {
                    return found;
                }
            }
            found => return found,
        }
    }
    core.error_log.warning(format_args!("{} changes faster than it can be read", Printable(path)));
    Found::Other(try_again())
}

fn try_again() -> Answer {
    Answer::error(503).field("Retry-After", "1")
}

/// Looks for `path` on disk.
async fn look(core: &Rc<Core>, request: &FileRequest<'_>, key: &[u8], path: &[u8]) -> Found {
    if !path.ends_with(b"/") {
        return open(core, request, key, path).await;
    }
    let site = request.site();
    for index in &site.config.index {
        let index_path = [path, index.as_bytes()].concat();
        match open(core, request, key, &index_path).await {
            Found::Other(answer) if answer.status == 404 => {}
            found => return found,
        }
    }
    // A directory that is not there is not found, whether directories are listed or not.
    match site.root.facts(path) {
        Ok(_) if site.config.listing == DirectoryListing::Off => Found::Other(Answer::error(403)),
        Ok(_) => Found::Other(list(core, request, path, path).await),
        Err(refused) => Found::Other(refusal(core, path, &refused)),
    }
}

/// Lists a directory, which visitors know as `shown`. It is made anew for each request, on a thread that may wait.
pub async fn list(core: &Rc<Core>, request: &FileRequest<'_>, path: &[u8], shown: &[u8]) -> Answer {
    let config = &request.site().config;
    let as_json = match config.listing {
        DirectoryListing::Json => true,
        DirectoryListing::Off | DirectoryListing::Html => false,
        DirectoryListing::Auto => {
            let weight = |media_type| accept::weight_of(request.accept(), media_type);
            weight("application/json") > weight("text/html")
        }
    };
    let options = ListingOptions { hidden_files: config.hidden_files, most_entries: config.listing_entries };
    let (root, directory, shown) = (request.site().root.clone(), path.to_vec(), shown.to_vec());
    let task = tokio::task::spawn_blocking(move || {
        let listing = listing::read(&root, &directory, &options)?;
        let body = if as_json { listing.to_json() } else { listing.to_html(&shown) };
        Ok((body, listing.truncated))
    });
    let listed = task.await.unwrap_or_else(|error| Err(Refused::Other(io::Error::other(error))));
    match listed {
        Ok((body, truncated)) => {
            let content_type = if as_json { "application/json" } else { "text/html; charset=utf-8" };
            let mut answer = Answer::new(200).field("Content-Type", content_type);
            if config.listing == DirectoryListing::Auto {
                answer = answer.field("Vary", "Accept");
            }
            if truncated {
                answer = answer.field("Listing-Truncated", "?1");
            }
            answer.part(Part::Bytes(body.into()))
        }
        Err(refused) => refusal(core, path, &refused),
    }
}

/// Opens `file_path` and, where it may be cached, reads it and keeps it under `key`.
async fn open(core: &Rc<Core>, request: &FileRequest<'_>, key: &[u8], file_path: &[u8]) -> Found {
    let site = request.site();
    if let Some(includes) = &site.includes
        && let Some(page) = includes::kept(core, request.snapshot, request.site, file_path)
    {
        // Where it was not the same for everybody the last time, no place is watched for it.
        let wants_place = !page.depended_on_request();
        let ticket = request.snapshot.cache.as_ref().filter(|_| wants_place);
        let ticket = ticket.map(|cache| cache.begin_read(&directory_of(site.root.path(), file_path)));
        let found = FoundPage { key, path: file_path, file_path, page, ticket };
        return made(includes::answer(core, request, includes, found).await);
    }
    for _ in 0..READ_ATTEMPTS {
        let ticket = request
            .snapshot
            .cache
            .as_ref()
            .map(|cache| cache.begin_read(&directory_of(site.root.path(), file_path)));
        let opened = match site.root.open(file_path) {
            Ok(opened) => opened,
            Err(refused) => return Found::Other(refusal(core, file_path, &refused)),
        };
        if opened.facts.kind == FileKind::Directory {
            return Found::Other(directory_redirect(key, file_path, request.query));
        }
        let content_type = site.content_types.content_type(file_path);
        if let Some(includes) = &site.includes
            && includes.is_page(file_path, &opened.facts, &content_type)
        {
            let page = match includes::load(core, request.snapshot, request.site, includes, file_path, opened)
                .await
            {
                Ok(page) => page,
                Err(error) => return Found::Other(unusable_page(core, file_path, &error)),
            };
            let found = FoundPage { key, path: file_path, file_path, page, ticket };
            return made(includes::answer(core, request, includes, found).await);
        }
        let kept =
            request.snapshot.cache.as_ref().zip(ticket).filter(|(cache, _)| cache.admits(opened.facts.size));
        let (representation, codings) = represent(site, file_path, &opened.facts, kept.is_some());
        let Some((_, ticket)) = kept else {
            return choose_uncached(request, file_path, opened, representation, &codings);
        };
        match whole_file::read(opened).await {
            Ok(Some(body)) => {
                let root = site.root.clone();
                let representation_kept = representation.clone();
                let new = NewEntry {
                    site: request.site,
                    path: key,
                    file_path,
                    root,
                    representation: representation_kept,
                    codings,
                    lasts: Lasts::UntilChanged,
                    body,
                };
                return match core.cache_insert(request.snapshot, new, ticket, request.variant) {
                    Some(prepared) => Found::Content(representation, Content::Cached(prepared)),
                    None => Found::Other(Answer::error(500)),
                };
            }
            // It changed while it was read: what was read is neither the old version nor the new one.
            Ok(None) => {}
            Err(error) => {
                core.error_log.warning(format_args!("cannot read {}: {error}", Printable(file_path)));
                return Found::Other(Answer::error(500));
            }
        }
    }
    core.error_log.warning(format_args!("{} changes faster than it can be read", Printable(file_path)));
    Found::Other(try_again())
}

fn made(made: Made) -> Found {
    match made {
        Made::Kept(representation, prepared) => Found::Content(representation, Content::Cached(prepared)),
        Made::Answer(representation, answer) => Found::Made(representation, answer),
    }
}

/// What is said where a page with directives cannot be had.
pub fn unusable_page(core: &Rc<Core>, file_path: &[u8], error: &LoadError) -> Answer {
    let path = Printable(file_path);
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

/// The files that a path could mean, in the order in which they are tried.
pub fn candidates(site: &Site, path: &[u8]) -> Vec<Vec<u8>> {
    if !path.ends_with(b"/") {
        return vec![path.to_vec()];
    }
    site.config.index.iter().map(|index| [path, index.as_bytes()].concat()).collect()
}

// ---- content codings

/// Chooses among the representations of a cached file, making the one that is wanted if it is not there yet; `None`:
/// the file has changed, and the entry is gone.
async fn choose_coding(
    core: &Rc<Core>,
    request: &FileRequest<'_>,
    entry: &Arc<Entry>,
    plain: Arc<Prepared>,
) -> Option<Found> {
    let plain_content = |plain| {
        let representation = entry.identity().representation().clone();
        Some(Found::Content(representation, Content::Cached(plain)))
    };
    let preference = request.coding_preference();
    let Some(cache) = request.snapshot.cache.as_ref().filter(|_| preference != CodingPreference::IDENTITY)
    else {
        return plain_content(plain);
    };
    loop {
        let date = core.clock.second();
        let coding = match entry.select(preference, &date, cache) {
            Selection::Final(kept) | Selection::Meanwhile(kept) => {
                let prepared = kept.response(entry, request.variant, &date, cache);
                return Some(Found::Content(kept.representation().clone(), Content::Cached(prepared)));
            }
            Selection::NotAcceptable => return Some(Found::Other(not_acceptable())),
            Selection::Stale => return None,
            Selection::Wait(coding) => {
                entry.made(coding).await;
                continue;
            }
            Selection::Make(coding) => coding,
        };
        match entry.begin(coding, request.variant, &date, cache) {
            Begun::Job(job) => make_coded(core, request, cache, entry, job).await?,
            Begun::Taken => {}
            Begun::Busy if preference.accepts_identity() => return plain_content(plain),
            Begun::Busy => return Some(Found::Other(try_again())),
        }
    }
}

/// Makes a coded form, or finds that it cannot be had; `None`: its file has changed, and the entry is gone.
async fn make_coded(
    core: &Rc<Core>,
    request: &FileRequest<'_>,
    cache: &FileCache,
    entry: &Entry,
    job: CodingJob,
) -> Option<()> {
    let facts = match job.source() {
        CodingSource::Twin(facts) => facts,
        CodingSource::Compress { .. } => {
            let task = tokio::task::spawn_blocking(move || job.compress());
            if let Err(error) = task.await.unwrap_or_else(|error| Err(io::Error::other(error))) {
                let path = Printable(entry.file_path());
                core.error_log.warning(format_args!("cannot compress {path}: {error}"));
            }
            return Some(());
        }
    };
    let path = twin_path(entry.file_path(), job.coding());
    let outcome = match request.site().root.open(&path) {
        Ok(opened) if !opened.facts.same_version(&facts) => Ok(None),
        Ok(_) if !cache.admits(facts.size) => return Some(()),
        Ok(opened) => whole_file::read(opened).await,
        Err(Refused::NotFound) => Ok(None),
        Err(refused) => Err(io::Error::other(refused)),
    };
    match outcome {
        Ok(Some(body)) => {
            job.keep_twin(&facts, &body);
            Some(())
        }
        Ok(None) => {
            cache.forget(entry);
            None
        }
        // The job ends without an outcome: the file goes out in another form.
        Err(error) => {
            core.error_log.warning(format_args!("cannot read {}: {error}", Printable(&path)));
            Some(())
        }
    }
}

/// Chooses between a file that is not cached and the compressed files beside it.
fn choose_uncached(
    request: &FileRequest<'_>,
    file_path: &[u8],
    opened: Opened,
    representation: Representation,
    codings: &Codings,
) -> Found {
    let plain = |representation| {
        let size = opened.facts.size;
        Found::Content(representation, Content::File(Arc::new(opened.descriptor), size))
    };
    for group in request.coding_preference().groups() {
        for coding in group.codings() {
            let Some(facts) = codings.twin(coding) else { continue };
            let Ok(twin) = request.site().root.open(&twin_path(file_path, coding)) else { continue };
            if twin.facts.same_version(&facts) {
                let representation = Representation {
                    etag: twin_etag(&facts, coding),
                    content_coding: Some(coding),
                    ..representation
                };
                return Found::Content(representation, Content::File(Arc::new(twin.descriptor), facts.size));
            }
        }
        if group.identity {
            return plain(representation);
        }
    }
    // RFC 9110 section 12.4.1: where there is nothing to choose from, the field may be disregarded.
    if codings.is_negotiable() { Found::Other(not_acceptable()) } else { plain(representation) }
}

fn not_acceptable() -> Answer {
    Answer::error(406).field("Vary", "Accept-Encoding")
}

// ---- files

fn directory_of(root: &Path, file_path: &[u8]) -> PathBuf {
    let below = file_path.iter().rposition(|&byte| byte == b'/').map_or(&[][..], |slash| &file_path[..slash]);
    let below = below.strip_prefix(b"/").unwrap_or(below);
    root.join(Path::new(std::ffi::OsStr::from_bytes(below)))
}

/// What a file is, and what it can be coded in; `kept`: whether the cache will hold it.
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
        vary: if codings.is_negotiable() { "Accept-Encoding" } else { "" },
        site_fields: site.fields.clone(),
    };
    (representation, codings)
}

/// A directory asked for without its slash is found with it; an index name that is a directory is none.
fn directory_redirect(path: &[u8], file_path: &[u8], query: Option<&[u8]>) -> Answer {
    if path != file_path {
        return Answer::error(404);
    }
    let mut location = Vec::with_capacity(path.len() + 1);
    // Built from the normalised path, never from what was sent: "//host" would lead to another server.
    encode_path(path, &mut location);
    location.push(b'/');
    if let Some(query) = query {
        location.push(b'?');
        location.extend_from_slice(query);
    }
    Answer::redirect(301, &location)
}

pub fn refusal(core: &Rc<Core>, path: &[u8], refused: &Refused) -> Answer {
    match refused {
        Refused::NotFound => Answer::error(404),
        Refused::Forbidden | Refused::NotAFile => Answer::error(403),
        Refused::TooManyOpenFiles => {
            core.error_log.warning("no file descriptor left: raise the limit of open files (ulimit -n)");
            Answer::error(503).field("Retry-After", "1")
        }
        Refused::Other(error) => {
            core.error_log.warning(format_args!("cannot open {}: {error}", Printable(path)));
            Answer::error(500)
        }
    }
}

/// What the request's conditions make of it, if not what was asked for (RFC 9110 section 13.2.2).
fn precondition(request: &FileRequest<'_>, representation: &Representation, now: i64) -> Option<Answer> {
    // What has no validators matches none, so no condition can be about it.
    let has_validators = !representation.etag.is_empty() || representation.last_modified.is_some();
    if !request.head.conditional || !has_validators {
        return None;
    }
    let values = |known| request.head.values(request.buffer, known).collect::<Vec<&[u8]>>();
    let if_match = values(KnownField::IfMatch);
    let if_none_match = values(KnownField::IfNoneMatch);
    let if_modified_since = values(KnownField::IfModifiedSince);
    let if_unmodified_since = values(KnownField::IfUnmodifiedSince);
    let if_range = values(KnownField::IfRange);
    let conditions = Conditions {
        if_match: FieldLines::Several(&if_match),
        if_none_match: FieldLines::Several(&if_none_match),
        if_modified_since: FieldLines::Several(&if_modified_since),
        if_unmodified_since: FieldLines::Several(&if_unmodified_since),
        if_range: FieldLines::Several(&if_range),
    };
    match evaluate(&conditions, &validators(representation), true, now) {
        Precondition::Proceed => None,
        Precondition::NotModified => {
            let mut answer = Answer::new(304);
            representation.write_validators(&mut answer.fields);
            Some(answer)
        }
        Precondition::Failed => Some(Answer::error(412)),
    }
}

fn validators(representation: &Representation) -> Validators<'_> {
    Validators { etag: &representation.etag, last_modified: representation.facts.modified_seconds }
}

/// Conditions first, then ranges, then the whole (RFC 9110 section 13.2.2).
fn answer_content(
    request: &FileRequest<'_>,
    representation: &Representation,
    content: Content,
    now: i64,
) -> Answer {
    if let Some(answer) = precondition(request, representation, now) {
        return answer;
    }
    if request.head.conditional && !representation.is_made {
        let values = |known| request.head.values(request.buffer, known).collect::<Vec<&[u8]>>();
        let if_range = values(KnownField::IfRange);
        let validators = validators(representation);
        let range: Vec<&[u8]> = values(KnownField::Range);
        // RFC 9110 section 14.2: Range is defined for GET alone; a repeated field is malformed and so ignored.
        if let ([range], Method::Get) = (range.as_slice(), request.head.method)
            && representation.content_coding.is_none()
            && (if_range.is_empty() || if_range_holds(FieldLines::Several(&if_range), &validators, now))
        {
            let most = request.snapshot.config.limits.ranges;
            match touchstone_http::range::parse(range, content.length(), most) {
                Ranges::Ignore => {}
                Ranges::Unsatisfiable => return unsatisfiable(content.length()),
                Ranges::Satisfiable(ranges) => return partial(representation, &content, &ranges),
            }
        }
    }
    let mut answer = Answer::new(200);
    representation.write_content_fields(&mut answer.fields);
    representation.write_validators(&mut answer.fields);
    answer.body = content.whole();
    answer
}

fn unsatisfiable(complete_length: u64) -> Answer {
    let mut answer = Answer::error(416);
    answer.fields.extend_from_slice(b"Content-Range: ");
    append_unsatisfied_range(complete_length, &mut answer.fields);
    answer.fields.extend_from_slice(b"\r\n");
    answer
}

/// 206 with one range, or with several as multipart/byteranges (RFC 9110 sections 15.3.7 and 14.6).
fn partial(representation: &Representation, content: &Content, ranges: &[ByteRange]) -> Answer {
    let mut answer = Answer::new(206);
    if let [range] = ranges {
        answer.fields.extend_from_slice(b"Content-Range: ");
        touchstone_http::range::append_content_range(*range, content.length(), &mut answer.fields);
        answer.fields.extend_from_slice(b"\r\n");
        answer = answer.field("Content-Type", &representation.content_type).part(content.part(*range));
    } else {
        let boundary = boundary(representation);
        let framing = MultipartByteRanges {
            content_type: representation.content_type.as_bytes(),
            complete_length: content.length(),
            ranges,
            boundary: boundary.as_bytes(),
        };
        answer.fields.extend_from_slice(b"Content-Type: ");
        framing.append_media_type(&mut answer.fields);
        answer.fields.extend_from_slice(b"\r\n");
        for (index, range) in ranges.iter().enumerate() {
            let mut part_head = Vec::new();
            framing.append_part_head(index, &mut part_head);
            answer.body.extend([Part::Bytes(part_head.into()), content.part(*range)]);
        }
        let mut closing = Vec::new();
        framing.append_closing(&mut closing);
        answer.body.push(Part::Bytes(closing.into()));
    }
    representation.write_validators(&mut answer.fields);
    answer.field("Accept-Ranges", "bytes")
}

/// A boundary that the content cannot hold unless its author knows the process's random key.
fn boundary(representation: &Representation) -> String {
    use std::hash::{BuildHasher, RandomState};
    use std::sync::OnceLock;
    static KEY: OnceLock<RandomState> = OnceLock::new();
    let key = KEY.get_or_init(RandomState::new);
    format!("{:016x}{:016x}", key.hash_one(&representation.etag), key.hash_one((&representation.etag, 1)))
}

/// Bytes from outside, made safe for a log line.
struct Printable<'a>(&'a [u8]);

impl std::fmt::Display for Printable<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_redirect_stays_on_this_server_and_in_its_line() {
        let answer = directory_redirect(b"/a b\r\n\xff", b"/a b\r\n\xff", Some(b"q=1"));
        let fields = String::from_utf8(answer.fields).unwrap();
        assert!(fields.ends_with("Location: /a%20b%0D%0A%FF/?q=1\r\n"), "{fields}");
    }
}
