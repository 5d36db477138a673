//! Content codings: chooses the form of a file for a client, and makes missing forms.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use touchstone_files::cache::{
    CachedForms, CodingJob, DictionaryJob, DictionarySelection, EncodingStart, Entry, FileCache,
    PreparedResponse, Representation, Selection,
};
use touchstone_files::coding::{CodingSource, Codings, twin_etag, twin_path};
use touchstone_files::root::{OpenError, OpenedFile};
use touchstone_handler::answer::Answer;
use touchstone_http::content_coding::CodingPreference;

use super::content::{Content, PathTarget};
use crate::core::Core;
use crate::files::file_request::FileRequest;
use crate::files::site_files::try_again;
use crate::files::whole_file;

/// Chooses among the representations of a cached file, and makes the preferred one if it is missing; `None`:
/// the file has changed, and the entry was removed.
pub async fn choose_coding(
    core: &Rc<Core>,
    request: &FileRequest<'_>,
    entry: &Arc<Entry>,
    plain: Arc<PreparedResponse>,
) -> Option<PathTarget> {
    let plain_content = |plain| {
        let representation = entry.identity().representation().clone();
        Some(PathTarget::Content(representation, Content::Cached(plain)))
    };
    let preference = request.coding_preference();
    let Some(cache) = request.snapshot.cache.as_ref().filter(|_| preference != CodingPreference::IDENTITY)
    else {
        return plain_content(plain);
    };
    if let Some(cached) = with_dictionary(core, request, cache, entry).await {
        let prepared = cached.response(entry, request.form, &core.clock.second(), cache);
        return Some(PathTarget::Content(cached.representation().clone(), Content::Cached(prepared)));
    }
    loop {
        let date = core.clock.second();
        let coding = match entry.select(preference, &date, cache) {
            Selection::Final(cached) | Selection::Identity(cached) => {
                let prepared = cached.response(entry, request.form, &date, cache);
                return Some(PathTarget::Content(cached.representation().clone(), Content::Cached(prepared)));
            }
            Selection::NotAcceptable => return Some(PathTarget::Other(not_acceptable())),
            Selection::Stale => return None,
            Selection::Wait(coding) => {
                entry.wait_for_coding(coding).await;
                continue;
            }
            Selection::Make(coding) => coding,
        };
        match entry.begin(coding, request.form, &date, cache) {
            EncodingStart::Job(job) => make_coded(core, request, cache, entry, job).await?,
            EncodingStart::AlreadyTaken => {}
            EncodingStart::Busy if preference.accepts_identity() => return plain_content(plain),
            EncodingStart::Busy => return Some(PathTarget::Other(try_again())),
        }
    }
}

/// The form for a client with a dictionary, which is made if it is missing; `None`: another form answers.
async fn with_dictionary(
    core: &Rc<Core>,
    request: &FileRequest<'_>,
    cache: &Arc<FileCache>,
    entry: &Arc<Entry>,
) -> Option<Arc<CachedForms>> {
    entry.identity().representation().dictionary_for.as_ref()?;
    let wanted = request.available_dictionary()?;
    if let DictionarySelection::Make = entry.select_with_dictionary(&wanted, cache) {
        let date = core.clock.second();
        let job: DictionaryJob = entry.begin_with_dictionary(&wanted, request.form, &date, cache)?;
        let task = tokio::task::spawn_blocking(move || job.compress());
        if let Err(error) = task.await.unwrap_or_else(|error| Err(io::Error::other(error))) {
            let path = entry.file_path().escape_ascii();
            core.error_log.warning(format_args!("cannot compress {path} with a dictionary: {error}"));
        }
    }
    match entry.select_with_dictionary(&wanted, cache) {
        DictionarySelection::Final(cached) => Some(cached),
        DictionarySelection::Make | DictionarySelection::None => None,
    }
}

/// Makes a coded form, or finds that it is not possible; `None`: its file has changed, and the entry was
/// removed.
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
                let path = entry.file_path().escape_ascii();
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
        Err(OpenError::NotFound) => Ok(None),
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
        // The job has ended without a result: the file is sent in another form.
        Err(error) => {
            core.error_log.warning(format_args!("cannot read {}: {error}", path.escape_ascii()));
            Some(())
        }
    }
}

/// Chooses between a file that is not cached and the compressed files beside it.
pub fn choose_uncached(
    request: &FileRequest<'_>,
    file_path: &[u8],
    opened: OpenedFile,
    representation: Representation,
    codings: &Codings,
) -> PathTarget {
    let plain = |representation| {
        let size = opened.facts.size;
        PathTarget::Content(representation, Content::File(Arc::new(opened.descriptor), size))
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
                return PathTarget::Content(
                    representation,
                    Content::File(Arc::new(twin.descriptor), facts.size),
                );
            }
        }
        if group.identity {
            return plain(representation);
        }
    }
    // RFC 9110 section 12.4.1: if there is nothing to choose from, the field may be ignored.
    if codings.is_negotiable() { PathTarget::Other(not_acceptable()) } else { plain(representation) }
}

fn not_acceptable() -> Answer {
    Answer::error(406).field("Vary", "Accept-Encoding")
}
